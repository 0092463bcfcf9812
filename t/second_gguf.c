/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "second.h"

#define DEEPEST 8       /* arrays in arrays */
#define KEY_BYTES 65535 /* most bytes of a key */
#define NAME_BYTES 64   /* most bytes of a name */
#define GGUF_DIMS 4

/* Number, name, elements of a block and its bytes, of each type. */
static const struct type {
	uint32_t number;
	const char *name;
	unsigned elements, bytes;
} types[] = {
	/* clang-format off */
	{ 0, "F32", 1, 4 }, { 1, "F16", 1, 2 }, { 2, "Q4_0", 32, 18 },
	{ 3, "Q4_1", 32, 20 }, { 6, "Q5_0", 32, 22 }, { 7, "Q5_1", 32, 24 },
	{ 8, "Q8_0", 32, 34 }, { 9, "Q8_1", 32, 36 }, { 10, "Q2_K", 256, 84 },
	{ 11, "Q3_K", 256, 110 }, { 12, "Q4_K", 256, 144 },
	{ 13, "Q5_K", 256, 176 }, { 14, "Q6_K", 256, 210 },
	{ 15, "Q8_K", 256, 292 }, { 16, "IQ2_XXS", 256, 66 },
	{ 17, "IQ2_XS", 256, 74 }, { 18, "IQ3_XXS", 256, 98 },
	{ 19, "IQ1_S", 256, 50 }, { 20, "IQ4_NL", 32, 18 },
	{ 21, "IQ3_S", 256, 110 }, { 22, "IQ2_S", 256, 82 },
	{ 23, "IQ4_XS", 256, 136 }, { 24, "I8", 1, 1 }, { 25, "I16", 1, 2 },
	{ 26, "I32", 1, 4 }, { 27, "I64", 1, 8 }, { 28, "F64", 1, 8 },
	{ 29, "IQ1_M", 256, 56 }, { 30, "BF16", 1, 2 },
	{ 34, "TQ1_0", 256, 54 }, { 35, "TQ2_0", 256, 66 },
	{ 39, "MXFP4", 32, 17 }, { 40, "NVFP4", 64, 36 },
	{ 41, "Q1_0", 128, 18 }, { 42, "Q2_0", 64, 18 },
	/* clang-format on */
};

struct slice {
	const uint8_t *at;
	size_t n;
};

struct in {
	const uint8_t *bytes, *at, *end;
	struct second *out;
	bool lenient, part;
	uint64_t align;
	uint64_t split_count;
	bool has_total;
	uint64_t total; /* tensors of all files of a split model */
};

/* Little endian. Past the end, false. */
static bool read_number(struct in *in, unsigned n, uint64_t *ret)
{
	*ret = 0;
	if ((size_t)(in->end - in->at) < n)
		return second_no(in->out, "%u bytes past the end", n);
	for (unsigned i = n; i--;)
		*ret = *ret << 8 | in->at[i];
	in->at += n;
	return true;
}

static bool read_string(struct in *in, struct slice *ret)
{
	uint64_t n;

	if (!read_number(in, 8, &n))
		return false;
	if (n > (uint64_t)(in->end - in->at))
		return second_no(in->out, "a string past the end");
	*ret = (struct slice){ in->at, (size_t)n };
	in->at += n;
	return true;
}

static bool is(const struct second_pair *pair, const char *key)
{
	return pair->key_len == strlen(key) &&
	       !memcmp(pair->key, key, pair->key_len);
}

static bool skip_value(struct in *in, uint64_t type, int depth)
{
	static const uint8_t bytes[] = {
		1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8
	};
	uint64_t x, n;
	struct slice text;

	if (type > 12)
		return second_no(in->out, "type %u", (unsigned)type);
	if (type == 8)
		return read_string(in, &text);
	if (type != 9) {
		if (!read_number(in, bytes[type], &x))
			return false;
		return type != 7 || x < 2 || in->lenient ||
		       second_no(in->out, "bool %u", (unsigned)x);
	}
	if (depth >= DEEPEST)
		return second_no(in->out, "arrays in arrays");
	if (!read_number(in, 4, &type) || !read_number(in, 8, &n))
		return false;
	if (type > 12)
		return second_no(in->out, "items of type %u", (unsigned)type);
	for (; n; n--)
		if (!skip_value(in, type, depth + 1))
			return false;
	return true;
}

/* An integer that is not negative, of any type. */
static bool read_integer(struct in *in, uint64_t type, uint64_t *ret)
{
	static const uint8_t bytes[] = { 1, 1, 2, 2, 4, 4, 0, 0, 0, 0, 8, 8 };
	static const char is_signed[] = "\0\1\0\1\0\1\0\0\0\0\0\1";

	if (type >= sizeof(bytes) || !bytes[type])
		return second_no(in->out, "no integer");
	if (!read_number(in, bytes[type], ret))
		return false;
	return !is_signed[type] || !(*ret >> (8 * bytes[type] - 1)) ||
	       second_no(in->out, "a negative integer");
}

/* The value of a pair that says something about the file. */
static bool read_special(struct in *in, const struct second_pair *pair,
			 uint64_t type)
{
	uint64_t x;

	if (is(pair, "general.alignment"))
		return (type == 4 && read_number(in, 4, &in->align) &&
			in->align && !(in->align & (in->align - 1))) ||
		       second_no(in->out, "alignment");
	if (is(pair, "split.no"))
		return read_integer(in, type, &x);
	if (is(pair, "split.count"))
		return read_integer(in, type, &in->split_count);
	if (!is(pair, "split.tensors.count"))
		return skip_value(in, type, 0);
	in->has_total = true;
	return read_integer(in, type, &in->total);
}

static bool read_pair(struct in *in)
{
	struct second *s = in->out;
	struct second_pair *pair = &s->pair[s->pairs];
	struct slice key = { NULL, 0 };
	uint64_t type;

	if (!read_string(in, &key))
		return false;
	if (key.n == 0 || (key.n > KEY_BYTES && !in->lenient))
		return second_no(s, "a key of %zu bytes", key.n);
	*pair = (struct second_pair){ key.at, in->at, key.n };
	for (size_t i = 0; i < s->pairs; i++)
		if (s->pair[i].key_len == key.n &&
		    !memcmp(s->pair[i].key, key.at, key.n))
			return second_no(s, "a key occurs twice");
	s->pairs++;
	return read_number(in, 4, &type) && read_special(in, pair, type);
}

static bool read_dims(struct in *in, struct second_tensor *t)
{
	uint64_t ndim, x;

	if (!read_number(in, 4, &ndim))
		return false;
	if (ndim > GGUF_DIMS)
		return second_no(in->out, "%u dimensions", (unsigned)ndim);
	t->ndim = (unsigned)ndim;
	for (unsigned i = t->ndim; i--;) {
		if (!read_number(in, 8, &x))
			return false;
		if (x > INT64_MAX)
			return second_no(in->out, "a negative dimension");
		t->shape[i] = x;
	}
	return true;
}

/*
 * The bytes of a tensor, in 128 bits. The elements, counted from the outermost
 * dimension, and the bits of all are below 2^64 at every step.
 */
static bool find_size(struct in *in, struct second_tensor *t, uint64_t number)
{
	const struct type *type = NULL;
	unsigned __int128 n = 1;

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (types[i].number == number)
			type = &types[i];
	if (!type)
		return second_no(in->out, "tensor type %u", (unsigned)number);
	snprintf(t->type, sizeof(t->type), "%s", type->name);
	if ((t->ndim ? t->shape[t->ndim - 1] : 1) % type->elements)
		return second_no(in->out, "a row of parts of blocks");
	for (unsigned i = 0; i < t->ndim; i++) {
		n *= t->shape[i];
		if (n >> 64)
			return second_no(in->out, "too many elements");
	}
	t->bytes = n / type->elements * type->bytes;
	return !(t->bytes >> 61) || second_no(in->out, "too many bytes");
}

static bool read_info(struct in *in)
{
	struct second *s = in->out;
	struct second_tensor *t;
	struct slice name = { NULL, 0 };
	uint64_t type;

	if (!read_string(in, &name))
		return false;
	if (name.n > NAME_BYTES || (!name.n && !in->lenient))
		return second_no(s, "a name of %zu bytes", name.n);
	for (size_t i = 0; i < s->n; i++)
		if (s->tensor[i].name_len == name.n &&
		    !memcmp(s->tensor[i].name, name.at, name.n))
			return second_no(s, "a name occurs twice");
	t = second_add(s, name.at, name.n);
	return read_dims(in, t) && read_number(in, 4, &type) &&
	       find_size(in, t, type) && read_number(in, 8, &t->off);
}

static int by_offset(const void *va, const void *vb)
{
	const struct second_tensor *a = va, *b = vb;

	if (a->off != b->off)
		return a->off < b->off ? -1 : 1;
	return a->bytes < b->bytes ? -1 : a->bytes > b->bytes;
}

/*
 * Where the data are. Strictly, each tensor begins where the padding of the one
 * before it ends; else they only share no byte.
 */
static bool check_places(struct in *in)
{
	struct second *s = in->out;
	uint64_t mask = in->align - 1;
	unsigned __int128 end = 0, room, data_at;

	data_at = (unsigned __int128)(in->at - in->bytes);
	data_at = (data_at + mask) & ~(unsigned __int128)mask;
	room = (unsigned __int128)(in->end - in->bytes);
	if (in->lenient && s->n)
		qsort(s->tensor, s->n, sizeof(s->tensor[0]), by_offset);
	for (size_t i = 0; i < s->n; i++) {
		struct second_tensor *t = &s->tensor[i];

		if (t->off & mask)
			return second_no(s, "an offset is not aligned");
		if (in->lenient ? t->off < end : t->off != end)
			return second_no(s, "a tensor is in another place");
		end = t->off + t->bytes;
		if (data_at + end > room)
			return second_no(s, "data past the end");
		t->off += (uint64_t)data_at;
		if (!in->lenient)
			end = (end + mask) & ~(unsigned __int128)mask;
	}
	return true;
}

static bool read_header(struct in *in)
{
	uint64_t version, tensors, pairs;
	bool good = true;

	if (in->end - in->at < 24 || memcmp(in->at, "GGUF", 4))
		return second_no(in->out, "no header");
	in->at += 4;
	read_number(in, 4, &version);
	read_number(in, 8, &tensors);
	read_number(in, 8, &pairs);
	if (version != 2 && version != 3)
		return second_no(in->out, "version %u", (unsigned)version);
	if (tensors > (uint64_t)(in->end - in->at) / 24 ||
	    pairs > (uint64_t)(in->end - in->at) / 13)
		return second_no(in->out, "counts");
	in->out->pair = calloc(pairs + 1, sizeof(*in->out->pair));
	for (; good && pairs; pairs--)
		good = read_pair(in);
	for (; good && tensors; tensors--)
		good = read_info(in);
	if (good && !in->part && in->split_count > 1)
		return second_no(in->out, "one of several files");
	if (good && !in->part && in->has_total && in->total != in->out->n)
		return second_no(in->out, "another number of tensors");
	return good && check_places(in);
}

bool second_gguf(const uint8_t *bytes, size_t n, unsigned flags,
		 struct second *ret)
{
	struct in in = { .bytes = bytes, .at = bytes, .end = bytes + n };

	in.out = ret;
	in.lenient = flags & SECOND_LENIENT;
	in.part = flags & SECOND_PART;
	in.align = 32;
	memset(ret, 0, sizeof(*ret));
	return read_header(&in);
}
