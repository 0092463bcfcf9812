/* SPDX-License-Identifier: MIT */
#include "csv.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *stop_of(const struct csv *csv)
{
	return csv->line + csv->len;
}

/* Bytes of UTF-8 that continue a character are not counted. */
static size_t column_of(const struct csv *csv, const char *at)
{
	size_t n = 1;

	for (const char *s = csv->line; s < at; s++)
		n += ((unsigned char)*s & 0xc0) != 0x80;
	return n;
}

int csv_bad(const struct csv *csv, const char *at, const char *fmt, ...)
{
	va_list ap;

	csv->error->line = csv->number;
	csv->error->column = column_of(csv, at);
	va_start(ap, fmt);
	vsnprintf(csv->error->why, sizeof(csv->error->why), fmt, ap);
	va_end(ap);
	return -EBADMSG;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static void skip_blanks(struct csv *csv)
{
	while (csv->at < stop_of(csv) && is_blank(*csv->at))
		csv->at++;
}

void csv_begin(struct csv *csv, const char *text, size_t n,
	       struct csv_error *error)
{
	size_t mark = n >= 3 && !memcmp(text, "\xef\xbb\xbf", 3) ? 3 : 0;

	*csv = (struct csv){
		.rest = text + mark,
		.end = text + n,
		.line = text,
		.error = error,
	};
}

static void take_line(struct csv *csv)
{
	size_t left = (size_t)(csv->end - csv->rest);
	const char *nl = memchr(csv->rest, '\n', left);

	csv->line = csv->at = csv->rest;
	csv->len = nl ? (size_t)(nl - csv->line) : left;
	csv->rest = nl ? nl + 1 : csv->end;
	csv->len -= csv->len && csv->line[csv->len - 1] == '\r';
	csv->number++;
}

int csv_line(struct csv *csv)
{
	const char *nul;

	do {
		if (csv->rest == csv->end)
			return 0;
		take_line(csv);
		skip_blanks(csv);
	} while (csv->at == stop_of(csv));
	csv->at = csv->line;
	csv->more = true;
	nul = memchr(csv->line, '\0', csv->len);
	if (nul)
		return csv_bad(csv, nul,
			       "a NUL byte; this is not ASCII or UTF-8 text");
	return 1;
}

/* csv->at is after the opening quote. */
static int take_quoted(struct csv *csv, struct csv_field *f)
{
	const char *open = csv->at - 1, *stop = stop_of(csv);

	f->text = csv->at;
	for (; csv->at < stop; csv->at++) {
		if (*csv->at != '"')
			continue;
		if (csv->at + 1 == stop || csv->at[1] != '"')
			break;
		f->doubled = true;
		csv->at++;
	}
	if (csv->at == stop)
		return csv_bad(csv, open,
			       "the quote is not closed on this line");
	f->len = (size_t)(csv->at - f->text);
	csv->at++;
	skip_blanks(csv);
	if (csv->at < stop && *csv->at != ',')
		return csv_bad(csv, csv->at,
			       "a comma has to follow the closing quote");
	return 1;
}

static int take_plain(struct csv *csv, struct csv_field *f)
{
	const char *stop = stop_of(csv);
	const char *comma = memchr(csv->at, ',', (size_t)(stop - csv->at));

	f->text = csv->at;
	csv->at = comma ? comma : stop;
	f->len = (size_t)(csv->at - f->text);
	while (f->len && is_blank(f->text[f->len - 1]))
		f->len--;
	return 1;
}

int csv_field(struct csv *csv, struct csv_field *ret_field)
{
	int r;

	if (!csv->more)
		return 0;
	*ret_field = (struct csv_field){ 0 };
	skip_blanks(csv);
	if (csv->at < stop_of(csv) && *csv->at == '"') {
		csv->at++;
		r = take_quoted(csv, ret_field);
	} else {
		r = take_plain(csv, ret_field);
	}
	csv->more = r > 0 && csv->at < stop_of(csv);
	csv->at += csv->more;
	return r;
}

size_t csv_undouble(const struct csv_field *f, char *to)
{
	size_t n = 0;

	for (size_t i = 0; i < f->len; i++) {
		to[n++] = f->text[i];
		i += f->text[i] == '"';
	}
	return n;
}
