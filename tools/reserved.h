/* SPDX-License-Identifier: MIT */
/* Huge pages that the system has reserved (hugetlb), by size and NUMA node. */
#ifndef TOOLS_RESERVED_H
#define TOOLS_RESERVED_H

#include <jansson.h>

/* A list of objects: bytes (of a page), node, total and free (pages). */
json_t *reserved_json(void);
/* Print a line for each size of which there are pages. */
void reserved_show(const json_t *list);

#endif
