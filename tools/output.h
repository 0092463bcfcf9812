/* SPDX-License-Identifier: MIT */
/*
 * What the command says: errors to stderr, one line each; results to stdout,
 * whose errors are found at the end; sizes and times for people.
 */
#ifndef TOOLS_OUTPUT_H
#define TOOLS_OUTPUT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <jansson.h>

#define EXIT_USAGE 2

#define PRINTF_LIKE(n) __attribute__((format(printf, n, n + 1)))

/* "weir: ..." on stderr, escaped, cut when very long. Returns EXIT_FAILURE. */
int fail(const char *fmt, ...) PRINTF_LIKE(1);
/* "weir: load: ...; see weir load --help". Returns EXIT_USAGE. */
int fail_usage(const char *command, const char *fmt, ...) PRINTF_LIKE(2);
/*
 * This thread's weir_error(), without the name of the call. Returns
 * EXIT_FAILURE.
 */
int fail_weir(void);
int fail_memory(void);
/* The sentence that fail_weir() would print. */
const char *weir_sentence(void);

/* A note for people on stderr, escaped; not an error. */
void note(const char *fmt, ...) PRINTF_LIKE(1);

/*
 * Make sure that descriptors 0, 1 and 2 are open, so that no file of ours
 * becomes the standard output of a caller who closed it.
 */
void out_guard(void);
/*
 * Flush and close stdout. Returns @status, or EXIT_FAILURE with a line on
 * stderr if that was 0 and not everything could be written.
 */
int out_finish(int status);

/*
 * Write @json to stdout in one line and drop it; NULL (no memory for it)
 * ends the command. Errors of stdout itself are for out_finish().
 */
void out_json(json_t *json);

/* "2.20 GB", by powers of ten as gbps is. @buf has SIZE_TEXT bytes. */
#define SIZE_TEXT 24
const char *size_text(uint64_t bytes, char *buf);
/* "4 MiB" where @bytes is a whole number of them, else as size_text(). */
const char *binary_text(uint64_t bytes, char *buf);

#endif
