/* SPDX-License-Identifier: MIT */
/*
 * Reading JSON that a stranger wrote, without a tree: one pass over the text,
 * pulled by the caller token by token.
 *
 *	r = weir__json_enter(j, '{');
 *	while (r >= 0 && (r = weir__json_member(j, &name)) > 0)
 *		r = ... one of weir__json_string, _u64, _enter, _skip ...;
 *
 * The text is memory of the caller's that is written to: strings are decoded
 * where they lie (that never makes them longer), and come out as pointers into
 * it. It takes no memory and no more stack than the bounded depth needs.
 *
 * Strict: RFC 8259 and nothing else. No comments, trailing commas, leading
 * zeros, raw control characters, lone surrogates, byte order mark or NUL
 * padding; all strings are checked to be UTF-8. Every failure is -EBADMSG
 * with a sentence that names the file, the byte and where known the tensor.
 */
#ifndef WEIR__JSON_H
#define WEIR__JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Containers inside each other, the outermost included. */
#define WEIR__JSON_DEPTH 127u

struct weir__str { /* may hold NULs, and is ended by none */
	const char *s;
	size_t len;
};

struct weir__json {
	const char *file;      /* for sentences */
	const char *kind;      /* "tensor": what is being read; NULL: nothing */
	struct weir__str name; /* ... and its name */
	uint64_t base;         /* where the text begins in the file */
	unsigned char *text;
	unsigned char *at;
	unsigned char *end; /* *end is a NUL */
	unsigned depth;
	bool fresh; /* a container was entered, and nothing read of it */
};

/*
 * Begin to read @len bytes, found @base bytes into @file. text[len] must be
 * there and 0: it stops every loop.
 */
void weir__json_init(struct weir__json *j, const char *file, uint64_t base,
		     char *text, size_t len);

/* First byte of the next token, not consumed; 0 at the end. */
unsigned char weir__json_peek(struct weir__json *j);

/* Step into a container: @open is '{' or '['. */
int weir__json_enter(struct weir__json *j, char open);
/*
 * The next member's name (then read its value), the next element. 1: there
 * is one. 0: the container has ended, and is left.
 */
int weir__json_member(struct weir__json *j, struct weir__str *ret_name);
int weir__json_element(struct weir__json *j);

int weir__json_string(struct weir__json *j, struct weir__str *ret_str);
/* A whole number of 0..2^64-1, written as digits and nothing else. */
int weir__json_u64(struct weir__json *j, uint64_t *ret_value);
int weir__json_null(struct weir__json *j);
/* Any value: it is checked, and forgotten. */
int weir__json_skip(struct weir__json *j);
/* Only white space is left. */
int weir__json_end(struct weir__json *j);

/* -EBADMSG with "file: byte N, in tensor 'x': ...", about the token ahead. */
int weir__json_fail(struct weir__json *j, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static inline bool weir__json_is_space(unsigned char c)
{
	return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* Inline: the compiler then knows the length of @literal. */
static inline bool weir__str_is(const struct weir__str *str,
				const char *literal)
{
	return str->len == strlen(literal) &&
	       !memcmp(str->s, literal, str->len);
}

#endif
