/* SPDX-License-Identifier: MIT */
/* Errors of llama/, as the command reports them. */
#ifndef TOOLS_FAIL_LLAMA_H
#define TOOLS_FAIL_LLAMA_H

#include <stdint.h>

/*
 * Print the last error. A sentence of llama/ does not name the model, so that
 * @path comes before it; those of the library do. Returns EXIT_FAILURE.
 */
int fail_llama(const char *path);
/*
 * The same after -errno @err of a call that had the @budget (0: none) of
 * --budget: it is named if there was too little memory.
 */
int fail_budget(const char *path, uint64_t budget, int err);
/* The same after llama_devices(), which was given @list. */
int fail_devices(const char *list);

#endif
