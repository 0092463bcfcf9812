/* SPDX-License-Identifier: MIT */
/*
 * The Test Anything Protocol for C. A test program prints a plan, then a line
 * for each check. A title is a sentence that names its subject, so that it can
 * be understood alone; it takes a printf format. Each check returns whether it
 * passed.
 *
 * plan() also starts a watchdog. It ends a test that, without a check, uses
 * WEIR_T_TIMEOUT (60) seconds of CPU time, or takes five times as long. A busy
 * machine makes a test slow but does not make it use more CPU time.
 */
#ifndef TAP_H
#define TAP_H

#include <stdbool.h>
#include <stddef.h>

#define TAP_PRINTF(n) __attribute__((format(printf, n, n + 1)))

void plan(unsigned n);  /* 0: printed by done_testing() */
int done_testing(void); /* the exit status of main */
void skip_all(const char *why, ...) TAP_PRINTF(1) __attribute__((noreturn));
/* Print a failed check and end this test program. */
void bail(const char *why, ...) TAP_PRINTF(1) __attribute__((noreturn));
/* Restart the watchdog, after a long step without a check. */
void tap_renew(void);
void diag(const char *fmt, ...) TAP_PRINTF(1);
void skip(unsigned n, const char *why, ...) TAP_PRINTF(2);

/* Put @prefix ("uring: ") before each title from now on. NULL: nothing. */
void tap_prefix(const char *prefix);

bool tap_ok(bool held, const char *file, int line, const char *fmt, ...)
	TAP_PRINTF(4);
bool tap_int(long long got, long long want, const char *file, int line,
	     const char *fmt, ...) TAP_PRINTF(5);
bool tap_str(const char *got, const char *want, const char *file, int line,
	     const char *fmt, ...) TAP_PRINTF(5);
bool tap_has(const char *got, const char *part, const char *file, int line,
	     const char *fmt, ...) TAP_PRINTF(5);
bool tap_mem(const void *got, const void *want, size_t n, const char *file,
	     int line, const char *fmt, ...) TAP_PRINTF(6);
bool tap_err(int got, int want, const char *sentence, const char *part,
	     const char *file, int line, const char *fmt, ...) TAP_PRINTF(7);

#define ok(held, ...) tap_ok(held, __FILE__, __LINE__, __VA_ARGS__)
#define is_int(got, want, ...)                                           \
	tap_int((long long)(got), (long long)(want), __FILE__, __LINE__, \
		__VA_ARGS__)
#define is_str(got, want, ...) \
	tap_str(got, want, __FILE__, __LINE__, __VA_ARGS__)
/* The string @got contains @part. */
#define has_str(got, part, ...) \
	tap_has(got, part, __FILE__, __LINE__, __VA_ARGS__)
#define is_mem(got, want, n, ...) \
	tap_mem(got, want, n, __FILE__, __LINE__, __VA_ARGS__)
/* The call returned @want, an errno < 0, and weir_error() contains @part. */
#define is_err(got, want, part, ...) \
	tap_err(got, want, weir_error(), part, __FILE__, __LINE__, __VA_ARGS__)

#endif
