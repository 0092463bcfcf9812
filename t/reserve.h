/* SPDX-License-Identifier: MIT */
/*
 * Huge pages that the system reserves for a test (hugetlb), which root can add.
 */
#ifndef T_RESERVE_H
#define T_RESERVE_H

#include <stdint.h>
#include <stddef.h>

/*
 * Add @n pages of @page bytes to the system's reserve until this program has
 * ended, however it ends. NULL, or the reason why they are not there. Tests
 * that have such pages run one after another. Call it before any thread is
 * started.
 */
const char *reserve_pages(size_t page, unsigned n);
/* Pages of the reserve that no mapping counts on. */
uint64_t reserve_free(size_t page);

#endif
