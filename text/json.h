/* SPDX-License-Identifier: MIT */
/*
 * A pull parser for untrusted JSON (RFC 8259): the caller asks for one value
 * after the other. Strings are decoded in place, which never makes them longer:
 * a value may be skipped before it is read, but read only once. A copy of the
 * struct remembers a place. (Names begin with text_, since programs may link
 * jansson too, which has a json_string() of its own.)
 */
#ifndef TEXT_JSON_H
#define TEXT_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json {
	const char *file;     /* for sentences */
	unsigned char *begin; /* of the file */
	unsigned char *at, *end;
	unsigned depth;
	bool first; /* at the first item of a container */
};

struct json_string {
	unsigned char *s;
	size_t len;
};

#define JSON_DEPTH 64u

/* Text of @n bytes; text[n] must be 0. */
void text_json_init(struct json *j, const char *file, unsigned char *text,
		    size_t n);

/* The first byte of the next value. */
unsigned char text_json_peek(struct json *j);
/* Enter a container: '{' or '['. */
int text_json_enter(struct json *j, char open);
/* 1: go to the next member or element. 0: the container ends. */
int text_json_member(struct json *j, struct json_string *ret_name);
int text_json_member_raw(struct json *j, struct json_string *ret_name);
int text_json_element(struct json *j);
/* "raw": the text between the quotes as it is; it may be read again. */
int text_json_raw(struct json *j, struct json_string *ret_s);
int text_json_string(struct json *j, struct json_string *ret_s);
/* A whole number from 0 to 2^31 - 1. */
int text_json_id(struct json *j, uint32_t *ret_value);
/* null counts as false. */
int text_json_bool(struct json *j, bool *ret_value);
int text_json_skip(struct json *j);
/* Nothing but white space follows. */
int text_json_finish(struct json *j);
/* -EBADMSG, with the place. */
int text_json_fail(struct json *j, const char *expected);

bool text_json_is(const struct json_string *s, const char *literal);

#endif
