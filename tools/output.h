/* SPDX-License-Identifier: MIT */
/*
 * Output: errors on stderr, one line each; results on stdout, whose errors are
 * checked once at the end; sizes as text.
 */
#ifndef TOOLS_OUTPUT_H
#define TOOLS_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <jansson.h>

#define EXIT_USAGE 2
#define EXIT_NO_ROOM 3   /* it does not fit */
#define EXIT_NOT_KNOWN 4 /* weir plan --capacity: not known if it fits */

#define PRINTF_LIKE(n) __attribute__((format(printf, n, n + 1)))

/*
 * Print "weir: ..." on stderr, escaped, and cut after 1000 bytes. Returns
 * EXIT_FAILURE.
 */
int fail(const char *fmt, ...) PRINTF_LIKE(1);
/* Print "weir: load: ...; see weir load --help". Returns EXIT_USAGE. */
int fail_usage(const char *command, const char *fmt, ...) PRINTF_LIKE(2);
/* Print weir_sentence(). Returns EXIT_FAILURE. */
int fail_weir(void);
/* Print that there is no memory. Returns EXIT_FAILURE. */
int fail_memory(void);
/* weir_error() of this thread, without the name of the call. */
const char *weir_sentence(void);

/* Print a line of a report on stderr, escaped. */
void note(const char *fmt, ...) PRINTF_LIKE(1);

/*
 * Make sure that descriptors 0, 1 and 2 are open. If the caller has closed one,
 * a file that is opened later would otherwise get its number, and so become
 * stdout or stderr.
 */
void out_guard(void);
/*
 * Flush stdout, and note why if that fails. Returns false if something is
 * missing.
 */
bool out_flush(void);
/*
 * Flush and close stdout. Returns @status; if that is 0 and not everything
 * could be written, prints a line on stderr and returns EXIT_FAILURE.
 */
int out_finish(int status);

/*
 * Write @json to stdout in one line and drop the reference. NULL (there was no
 * memory for it) ends the command. out_finish() reports errors of stdout.
 */
void out_json(json_t *json);

/* "1 tensor", "2 tensors". @buf has COUNT_TEXT bytes. */
#define COUNT_TEXT 48
const char *count_text(uint64_t n, const char *what, char *buf);
/* "2.20 GB", in powers of 1000. @buf has SIZE_TEXT bytes. */
#define SIZE_TEXT 24
const char *size_text(uint64_t bytes, char *buf);
/* "4 MiB" if @bytes is a whole number of KiB, MiB or GiB; else size_text(). */
const char *binary_text(uint64_t bytes, char *buf);

#endif
