/* SPDX-License-Identifier: MIT */
/*
 * The lines and fields of CSV text: fields are separated by commas, and may be
 * quoted; a quote in a quoted field is doubled. Blanks around a field, blank
 * lines, a byte order mark and CRLF ends of lines are allowed; a field ends on
 * its line. This file includes nothing of the command, so that a test can link
 * it alone.
 */
#ifndef TOOLS_CSV_H
#define TOOLS_CSV_H

#include <stdbool.h>
#include <stddef.h>

enum {
	CSV_WHY = 200
};

/* Line and column are counted from 1; a column is a character of the line. */
struct csv_error {
	size_t line, column;
	char why[CSV_WHY];
};

struct csv_field {
	const char *text; /* without quotes and the blanks around it */
	size_t len;
	bool doubled; /* it has doubled quotes, which csv_undouble() replaces */
};

struct csv {
	const char *rest, *end; /* the text that has not been read */
	const char *line;       /* the line, without its end */
	size_t len, number;     /* length and number of the line */
	const char *at;         /* the part of it that has not been read */
	bool more;              /* it has another field */
	struct csv_error *error;
};

/* Begin with @n bytes of @text, which must remain valid. */
void csv_begin(struct csv *csv, const char *text, size_t n,
	       struct csv_error *error);
/*
 * Take the next line that is not blank, or the next field of the line. Returns
 * 1, 0 if there is none, or -EBADMSG and an error.
 */
int csv_line(struct csv *csv);
int csv_field(struct csv *csv, struct csv_field *ret_field);
/* Copy a field, and each doubled quote as one. Returns the number of bytes. */
size_t csv_undouble(const struct csv_field *f, char *to);

/* Set the error, at a place @at in the line. Returns -EBADMSG. */
int csv_bad(const struct csv *csv, const char *at, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/*
 * Arguments of "%.*s%s": the first bytes of a field, and dots if there are
 * more.
 */
#define CSV_QUOTED(f)                                    \
	(int)((f)->len < 40 ? (f)->len : 40), (f)->text, \
		(f)->len <= 40 ? "" : "..."

#endif
