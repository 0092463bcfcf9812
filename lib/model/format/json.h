/* SPDX-License-Identifier: MIT */
/*
 * A pull parser for untrusted JSON: one pass over the text, in which the caller
 * asks for one token after the other; no tree is built.
 *
 *	r = weir__json_enter(j, '{');
 *	while (r >= 0 && (r = weir__json_member(j, &name)) > 0)
 *		r = ... one of weir__json_string, _u64, _enter, _skip ...;
 *
 * The parser writes to the caller's text: strings are decoded in place
 * (decoding never makes them longer) and returned as pointers into it. It
 * allocates nothing and recurses as deep as WEIR__JSON_DEPTH.
 *
 * Strict RFC 8259: no comments, trailing commas, leading zeros, raw control
 * characters, lone surrogates, byte order mark or NUL padding; every string
 * must be UTF-8. Every failure is -EBADMSG, with a sentence that names the
 * file, the byte and, where there is one, the tensor.
 */
#ifndef WEIR__JSON_H
#define WEIR__JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* How deep containers may be nested, the outermost included. */
#define WEIR__JSON_DEPTH 127u

struct weir__str { /* may contain NULs; no NUL ends it */
	const char *s;
	size_t len;
};

struct weir__json {
	const char *file;      /* name of the file, for sentences */
	const char *kind;      /* "tensor", for sentences; NULL: no object is
				  read */
	struct weir__str name; /* name of the object */
	uint64_t base;         /* offset of the text in the file */
	unsigned char *text;
	unsigned char *at;
	unsigned char *end; /* *end is a NUL */
	unsigned depth;
	bool fresh; /* at the first item of a container, or at its end */
};

/*
 * Begin to parse @len bytes, which are at offset @base of @file. text[len] must
 * be 0: it stops every loop.
 */
void weir__json_init(struct weir__json *j, const char *file, uint64_t base,
		     char *text, size_t len);

/* The first byte of the next token, which is not consumed; 0 at the end. */
unsigned char weir__json_peek(struct weir__json *j);

/* Enter a container: @open is '{' or '['. */
int weir__json_enter(struct weir__json *j, char open);
/*
 * Go to the next member of an object (its name is consumed, its value is next)
 * or element of an array. 1: there is one. 0: the container ends, and is left.
 */
int weir__json_member(struct weir__json *j, struct weir__str *ret_name);
int weir__json_element(struct weir__json *j);

int weir__json_string(struct weir__json *j, struct weir__str *ret_str);
/* Read a whole number from 0 to 2^64 - 1, written in digits only. */
int weir__json_u64(struct weir__json *j, uint64_t *ret_value);
int weir__json_null(struct weir__json *j);
/* Check any value and ignore it. */
int weir__json_skip(struct weir__json *j);
/* Only white space may follow. */
int weir__json_end(struct weir__json *j);

/*
 * Return -EBADMSG with "file: byte N, in tensor 'x': ...", at the next token.
 */
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
