/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "second.h"

#define DEEPEST 300

/* Names of dtypes, and the bits of an element. */
static const struct type {
	const char *name;
	unsigned bits;
} types[] = {
	{ "BOOL", 8 },        { "U8", 8 },          { "I8", 8 },
	{ "F8_E5M2", 8 },     { "F8_E4M3", 8 },     { "F8_E8M0", 8 },
	{ "F8_E4M3FNUZ", 8 }, { "F8_E5M2FNUZ", 8 }, { "F6_E2M3", 6 },
	{ "F6_E3M2", 6 },     { "F4", 4 },          { "I16", 16 },
	{ "U16", 16 },        { "F16", 16 },        { "BF16", 16 },
	{ "I32", 32 },        { "U32", 32 },        { "F32", 32 },
	{ "C64", 64 },        { "I64", 64 },        { "U64", 64 },
	{ "F64", 64 },
};

/* An entry while it is read; the fields that it had. */
struct entry {
	char dtype[16];
	uint64_t shape[SECOND_DIMS], offset[2];
	unsigned ndim;
	bool has_dtype, has_shape, has_offsets;
};

struct in {
	const uint8_t *at, *end;
	struct second *out;
	uint64_t data_at;
	char *text; /* the last string that was read, text_n bytes */
	size_t text_n;
};

static bool skip_value(struct in *in, int depth);

static int next(struct in *in)
{
	while (in->at < in->end && (*in->at == ' ' || *in->at == '\t' ||
				    *in->at == '\r' || *in->at == '\n'))
		in->at++;
	return in->at < in->end ? *in->at : -1;
}

static bool take(struct in *in, int c)
{
	if (next(in) != c)
		return false;
	in->at++;
	return true;
}

static bool must_take(struct in *in, int c)
{
	return take(in, c) || second_no(in->out, "no '%c'", c);
}

static void put_utf8(struct in *in, uint32_t c)
{
	char *to = in->text + in->text_n;

	if (c < 0x80) {
		to[0] = (char)c;
		in->text_n += 1;
	} else if (c < 0x800) {
		to[0] = (char)(0xc0 | c >> 6);
		to[1] = (char)(0x80 | (c & 0x3f));
		in->text_n += 2;
	} else if (c < 0x10000) {
		to[0] = (char)(0xe0 | c >> 12);
		to[1] = (char)(0x80 | (c >> 6 & 0x3f));
		to[2] = (char)(0x80 | (c & 0x3f));
		in->text_n += 3;
	} else {
		to[0] = (char)(0xf0 | c >> 18);
		to[1] = (char)(0x80 | (c >> 12 & 0x3f));
		to[2] = (char)(0x80 | (c >> 6 & 0x3f));
		to[3] = (char)(0x80 | (c & 0x3f));
		in->text_n += 4;
	}
}

static bool read_hex(struct in *in, uint32_t *ret)
{
	char digits[5] = "", *end;

	if (in->end - in->at < 4)
		return second_no(in->out, "half of an escape");
	memcpy(digits, in->at, 4);
	in->at += 4;
	*ret = (uint32_t)strtoul(digits, &end, 16);
	return end == digits + 4 || second_no(in->out, "an escape");
}

static bool read_unicode(struct in *in)
{
	uint32_t c, low;

	if (!read_hex(in, &c))
		return false;
	if (c >= 0xd800 && c < 0xdc00) {
		if (in->end - in->at < 6 || memcmp(in->at, "\\u", 2))
			return second_no(in->out, "half of a pair");
		in->at += 2;
		if (!read_hex(in, &low))
			return false;
		c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
	}
	put_utf8(in, c);
	return true;
}

static bool read_escape(struct in *in)
{
	static const char from[] = "bfnrt\"\\/", to[] = "\b\f\n\r\t\"\\/";
	const char *found;
	int c = in->at < in->end ? *in->at++ : 0;

	if (c == 'u')
		return read_unicode(in);
	found = c ? strchr(from, c) : NULL;
	if (!found)
		return second_no(in->out, "an escape");
	in->text[in->text_n++] = to[found - from];
	return true;
}

/* No string is longer than its JSON. */
static bool read_string(struct in *in)
{
	if (!must_take(in, '"'))
		return false;
	free(in->text);
	in->text = malloc((size_t)(in->end - in->at) + 5);
	in->text_n = 0;
	while (in->at < in->end && *in->at != '"') {
		int c = *in->at++;

		if (c != '\\')
			in->text[in->text_n++] = (char)c;
		else if (!read_escape(in))
			return false;
	}
	in->text[in->text_n] = '\0';
	return must_take(in, '"');
}

static bool read_number(struct in *in, uint64_t *ret)
{
	unsigned __int128 x = 0;

	if (next(in) < '0' || next(in) > '9')
		return second_no(in->out, "no number");
	while (in->at < in->end && *in->at >= '0' && *in->at <= '9') {
		x = x * 10 + *in->at++ - '0';
		if (x > UINT64_MAX)
			return second_no(in->out, "a number of 2^64");
	}
	*ret = (uint64_t)x;
	return true;
}

/* An array of numbers, of which the first @max are kept. */
static bool read_numbers(struct in *in, uint64_t *to, unsigned max,
			 unsigned *ret_n)
{
	uint64_t more;

	*ret_n = 0;
	if (!must_take(in, '['))
		return false;
	if (take(in, ']'))
		return true;
	do {
		if (!read_number(in, *ret_n < max ? &to[*ret_n] : &more))
			return false;
		++*ret_n;
	} while (take(in, ','));
	return must_take(in, ']');
}

static bool skip_items(struct in *in, int open, int depth)
{
	int close = open == '{' ? '}' : ']';

	in->at++;
	if (take(in, close))
		return true;
	do {
		if (open == '{' && (!read_string(in) || !must_take(in, ':')))
			return false;
		if (!skip_value(in, depth + 1))
			return false;
	} while (take(in, ','));
	return must_take(in, close);
}

static bool skip_value(struct in *in, int depth)
{
	const uint8_t *at;
	int c = next(in);

	if (depth > DEEPEST)
		return second_no(in->out, "too deep");
	if (c == '{' || c == '[')
		return skip_items(in, c, depth);
	if (c == '"')
		return read_string(in);
	at = in->at;
	while (in->at < in->end && *in->at && !strchr(",]} \t\r\n", *in->at))
		in->at++;
	return in->at > at || second_no(in->out, "no value");
}

static bool read_dtype(struct in *in, struct entry *e)
{
	e->has_dtype = true;
	if (!read_string(in) || in->text_n >= sizeof(e->dtype))
		return second_no(in->out, "dtype");
	memcpy(e->dtype, in->text, in->text_n + 1);
	return true;
}

static bool read_offsets(struct in *in, struct entry *e)
{
	unsigned n;

	e->has_offsets = true;
	return read_numbers(in, e->offset, 2, &n) &&
	       (n == 2 || second_no(in->out, "%u offsets", n));
}

static bool read_shape(struct in *in, struct entry *e)
{
	e->has_shape = true;
	return read_numbers(in, e->shape, SECOND_DIMS, &e->ndim);
}

static bool read_field(struct in *in, struct entry *e)
{
	if (!read_string(in) || !must_take(in, ':'))
		return false;
	if (!strcmp(in->text, "dtype") && in->text_n == 5)
		return read_dtype(in, e);
	if (!strcmp(in->text, "shape") && in->text_n == 5)
		return read_shape(in, e);
	if (!strcmp(in->text, "data_offsets") && in->text_n == 12)
		return read_offsets(in, e);
	return skip_value(in, 0);
}

static bool read_fields(struct in *in, struct entry *e)
{
	if (take(in, '['))
		return read_dtype(in, e) && must_take(in, ',') &&
		       read_shape(in, e) && must_take(in, ',') &&
		       read_offsets(in, e) && must_take(in, ']');
	if (!must_take(in, '{'))
		return false;
	do {
		if (!read_field(in, e))
			return false;
	} while (take(in, ','));
	return must_take(in, '}') && e->has_dtype && e->has_shape &&
	       e->has_offsets;
}

/*
 * The bytes that a dtype and a shape need, or all ones: there is no such dtype,
 * or they are too large. In 128 bits: 8 numbers of 64 bits may be more.
 */
static unsigned __int128 size_of(const struct entry *e)
{
	unsigned __int128 bits = 0;

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (!strcmp(types[i].name, e->dtype))
			bits = types[i].bits;
	if (!bits || e->ndim > SECOND_DIMS)
		return ~(unsigned __int128)0;
	for (unsigned i = 0; i < e->ndim; i++)
		if (e->shape[i] == 0)
			return 0;
	for (unsigned i = 0; i < e->ndim; i++) {
		if (bits >> 64)
			return ~(unsigned __int128)0;
		bits *= e->shape[i];
	}
	return bits % 8 ? ~(unsigned __int128)0 : bits / 8;
}

/* The last tensor of a name counts. */
static struct second_tensor *tensor_of(struct second *s, const char *name,
				       size_t n)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->tensor[i].name_len == n &&
		    !memcmp(s->tensor[i].name, name, n))
			return &s->tensor[i];
	return second_add(s, name, n);
}

static bool read_tensor(struct in *in)
{
	struct second_tensor *t = tensor_of(in->out, in->text, in->text_n);
	struct entry e = { .ndim = 0 };

	if (!read_fields(in, &e))
		return false;
	memcpy(t->type, e.dtype, sizeof(t->type));
	memcpy(t->shape, e.shape, sizeof(t->shape));
	t->ndim = e.ndim;
	t->off = in->data_at + e.offset[0];
	t->bytes = size_of(&e);
	t->fits = e.offset[0] <= e.offset[1] &&
		  t->bytes == e.offset[1] - e.offset[0];
	return true;
}

/* If a key occurs twice, the last one is used. */
static bool read_metadata(struct in *in)
{
	struct second keys = { .n = 0 };
	bool good = true;

	if (next(in) == 'n')
		return skip_value(in, 0);
	if (!must_take(in, '{'))
		return false;
	if (take(in, '}'))
		return true;
	do {
		good = read_string(in) && must_take(in, ':');
		if (good)
			tensor_of(&keys, in->text, in->text_n);
		good = good && read_string(in);
	} while (good && take(in, ','));
	in->out->pairs = keys.n;
	second_free(&keys);
	return good && must_take(in, '}');
}

static bool read_header(struct in *in)
{
	if (!must_take(in, '{'))
		return false;
	if (take(in, '}'))
		return true;
	do {
		if (!read_string(in) || !must_take(in, ':'))
			return false;
		if (in->text_n == 12 && !strcmp(in->text, "__metadata__")) {
			if (!read_metadata(in))
				return false;
		} else if (!read_tensor(in)) {
			return false;
		}
	} while (take(in, ','));
	return must_take(in, '}');
}

bool second_st(const uint8_t *bytes, size_t n, struct second *ret)
{
	struct in in = { .out = ret };
	uint64_t len = 0;
	bool good;

	memset(ret, 0, sizeof(*ret));
	if (n < 8)
		return second_no(ret, "%zu bytes", n);
	for (size_t i = 8; i--;)
		len = len << 8 | bytes[i];
	if (len > n - 8)
		return second_no(ret, "a header past the end");
	in.at = bytes + 8;
	in.end = in.at + len;
	in.data_at = 8 + len;
	good = read_header(&in);
	free(in.text);
	for (size_t i = 0; good && i < ret->n; i++)
		if (!ret->tensor[i].fits)
			return second_no(ret, "data_offsets of another size");
	return good;
}
