/* SPDX-License-Identifier: MIT */
/*
 * Helpers for tests of the race checker: a root with WEIR_DEBUG=races, whose
 * reports are kept, two streams and two tensors of 256 bytes.
 */
#ifndef T_RACING_H
#define T_RACING_H

#include "streams.h"

extern char said[8000]; /* the reports, a line each: after reports() */

extern const char *devices; /* argument of weir_dev_configure() for set_up(), or
			       NULL */
extern struct weir *weir;
extern struct weir_stream *a, *b; /* streams 'a' and 'b' */
extern struct weir_event *ev;
extern struct weir_tensor t, u;

/* Call them around each test: they open and close the root. */
void set_up(void);
void tear_down(void);
/*
 * True if the test may make work that races. It may not under ThreadSanitizer,
 * which would report the accesses themselves.
 */
static inline bool may_race(void)
{
#ifdef __SANITIZE_THREAD__
	return false;
#else
	return true;
#endif
}
/* Wait for @n reports, for a second at most. Returns their number. */
unsigned reports(unsigned n);
/* Check that nothing is reported when both streams are done; tear down. */
void expect_no_race(const char *title);
/* Check that only "race: @text" is reported; tear down. */
void expect_race(const char *text, const char *title);
/* Fill @n bytes of t at @off. */
void fill(struct weir_stream *s, size_t off, size_t n);

#endif
