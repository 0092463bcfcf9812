/* SPDX-License-Identifier: MIT */
#ifndef TEXT_ERROR_H
#define TEXT_ERROR_H

/*
 * The last failure of this thread in text/, as a sentence. It stays valid until
 * the next failure in the same thread.
 */
const char *text_error(void);

/* Set the sentence and return @err, a negative errno. For text/ only. */
int text_fail(int err, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#endif
