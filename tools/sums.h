/* SPDX-License-Identifier: MIT */
/*
 * Sums of whole files, as publishers of models give them: SHA256SUMS, in the
 * form of sha256sum(1) or of its option --tag.
 */
#ifndef TOOLS_SUMS_H
#define TOOLS_SUMS_H

#include <weir.h>

/*
 * Compare the sums in @text, of the file @name, with the files of @model, on
 * all CPUs, and show the progress by whole files. @text is changed. If it is
 * NULL the sums are those that were published with the files. Returns 0, or
 * EXIT_FAILURE after lines on stderr. *ret_bytes: of the files.
 */
int sums_verify(char *text, const char *name, const struct weir_model *model,
		uint64_t *ret_bytes);

#endif
