/* SPDX-License-Identifier: MIT */
/*
 * A pull parser for untrusted JSON (RFC 8259): the caller asks for one value
 * after the other. Strings are decoded in place, which never makes them longer:
 * a value may be skipped before it is read, and is read once at most. A copy of
 * the struct remembers a place. (Names begin with text_, since programs may
 * link jansson too, which has its own json_string().)
 */
#ifndef TEXT_JSON_H
#define TEXT_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json {
	const char *file;     /* name of the file, for error sentences */
	unsigned char *begin; /* the first byte of the file */
	unsigned char *at, *end;
	unsigned depth;
	bool first; /* at the first item of a container */
};

struct json_string {
	unsigned char *s;
	size_t len;
};

#define JSON_DEPTH 64u

/* Begin to read @n bytes of text; text[n] must be 0. */
void text_json_init(struct json *j, const char *file, unsigned char *text,
		    size_t n);

/* Return the first byte of the next value. */
unsigned char text_json_peek(struct json *j);
/* Enter a container, which begins with @open: '{' or '['. */
int text_json_enter(struct json *j, char open);
/*
 * Go to the next member or element. Returns 0 at the end of the container, else
 * 1.
 */
int text_json_member(struct json *j, struct json_string *ret_name);
int text_json_member_raw(struct json *j, struct json_string *ret_name);
int text_json_element(struct json *j);
/*
 * A "raw" string is the text between the quotes as it is; it may be read again.
 */
int text_json_raw(struct json *j, struct json_string *ret_s);
int text_json_string(struct json *j, struct json_string *ret_s);
/* Read a whole number from 0 to 2^31 - 1. */
int text_json_id(struct json *j, uint32_t *ret_value);
/* Read true or false; null is treated as false. */
int text_json_bool(struct json *j, bool *ret_value);
int text_json_skip(struct json *j);
/* Check that nothing but white space follows. */
int text_json_finish(struct json *j);
/* Return -EBADMSG, with a sentence that has the place. */
int text_json_fail(struct json *j, const char *expected);

bool text_json_is(const struct json_string *s, const char *literal);

#endif
