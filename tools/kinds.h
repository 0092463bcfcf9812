/* SPDX-License-Identifier: MIT */
/* Kinds of memory by their names. */
#ifndef TOOLS_KINDS_H
#define TOOLS_KINDS_H

#include <stdint.h>
#include <weir.h>

#define KINDS 8u /* values of enum weir_mem */

/*
 * Return the name that options take ("huge" for WEIR_MEM_HUGE), or "?" if it is
 * not known here.
 */
const char *kind_name(uint32_t kind);
/*
 * Find the memory that a user names: a kind ("CPU_HBM", "CUDA0_Pinned"), or a
 * device, perhaps with parameters, for its default kind. Returns 0, or a
 * negative errno with weir_error().
 */
int kind_find(struct weir *weir, const char *name, struct weir_buft **ret_buft);

#endif
