/* SPDX-License-Identifier: MIT */
/* Errors of llama/, as the command reports them. */
#ifndef TOOLS_FAIL_LLAMA_H
#define TOOLS_FAIL_LLAMA_H

/*
 * Print the last error. A sentence of llama/ does not name the model, so that
 * @path comes before it; those of the library do. Returns EXIT_FAILURE.
 */
int fail_llama(const char *path);
/* The same after llama_devices(), which was given @list. */
int fail_devices(const char *list);

#endif
