/* SPDX-License-Identifier: MIT */
/*
 * Mutations of a GGUF file. It is read loosely, as far as its fields go; then
 * one of them is changed, or a pair or an info as a whole. Often the offsets
 * and the length of the file are then made right, so that inputs are accepted.
 */
#include <string.h>

#include "mutate.h"

#define MOST 256u   /* places of each kind that are found in a file */
#define DEEPEST 20  /* arrays in arrays */
#define HEADER 24   /* magic, version, two counts */
#define MAX_DIMS 8u /* dimensions of an info whose offset is made right */

/* An info of a tensor, and where its fields are. */
struct info {
	struct span all;
	size_t dims, type, offset;
	uint32_t ndim;
};

struct found {
	const uint8_t *bytes;
	size_t at, n;
	struct span field[MOST];  /* numbers of 1 to 8 bytes */
	struct span string[MOST]; /* with its length */
	struct span pair[MOST], value[MOST];
	struct info info[MOST];
	size_t fields, strings, pairs, infos;
	uint64_t align;
};

static uint64_t get(const uint8_t *bytes, size_t n)
{
	uint64_t x = 0;

	while (n--)
		x = x << 8 | bytes[n];
	return x;
}

static void set(uint8_t *bytes, size_t n, uint64_t x)
{
	for (size_t i = 0; i < n; i++)
		bytes[i] = (uint8_t)(x >> 8 * i);
}

/* A number of @n bytes; at the end of the file, false. */
static bool number(struct found *f, size_t n, uint64_t *ret)
{
	if (n > f->n - f->at)
		return false;
	if (f->fields < MOST)
		f->field[f->fields++] = (struct span){ f->at, n };
	*ret = get(f->bytes + f->at, n);
	f->at += n;
	return true;
}

static bool string(struct found *f)
{
	size_t at = f->at;
	uint64_t n;

	if (!number(f, 8, &n) || n > f->n - f->at)
		return false;
	f->at += n;
	if (f->strings < MOST)
		f->string[f->strings++] = (struct span){ at, 8 + (size_t)n };
	return true;
}

static bool value(struct found *f, uint64_t type, int depth)
{
	static const uint8_t bytes[] = {
		1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8
	};
	uint64_t of, n;

	if (type == 8)
		return string(f);
	if (type >= sizeof(bytes))
		return false;
	if (type != 9)
		return number(f, bytes[type], &n);
	if (depth >= DEEPEST || !number(f, 4, &of) || !number(f, 8, &n))
		return false;
	for (uint64_t i = 0; i < n; i++)
		if (!value(f, of, depth + 1))
			return false;
	return true;
}

static bool pair(struct found *f)
{
	static const char align[] = "general.alignment";
	size_t at = f->at, typed, name = at + 8;
	uint64_t type;

	if (!string(f))
		return false;
	typed = f->at;
	if (!number(f, 4, &type) || !value(f, type, 0))
		return false;
	if (type == 4 && typed - name == strlen(align) &&
	    !memcmp(f->bytes + name, align, strlen(align)))
		f->align = get(f->bytes + f->at - 4, 4);
	if (f->pairs < MOST) {
		f->pair[f->pairs] = (struct span){ at, f->at - at };
		f->value[f->pairs++] = (struct span){ typed, f->at - typed };
	}
	return true;
}

static bool info(struct found *f)
{
	struct info t = { .all.at = f->at };
	uint64_t x;

	if (!string(f) || !number(f, 4, &x))
		return false;
	t.ndim = (uint32_t)x;
	t.dims = f->at;
	for (uint32_t i = 0; i < t.ndim; i++)
		if (!number(f, 8, &x))
			return false;
	t.type = f->at;
	if (!number(f, 4, &x))
		return false;
	t.offset = f->at;
	if (!number(f, 8, &x))
		return false;
	t.all.len = f->at - t.all.at;
	if (f->infos < MOST)
		f->info[f->infos++] = t;
	return true;
}

static void find(struct found *f, const struct edit *e)
{
	uint64_t tensors = 0, pairs = 0, x;

	f->fields = f->strings = f->pairs = f->infos = 0;
	f->bytes = e->bytes;
	f->n = e->n;
	f->align = 32;
	f->at = 4;
	if (e->n < HEADER)
		return;
	number(f, 4, &x);
	number(f, 8, &tensors);
	number(f, 8, &pairs);
	while (pairs && pair(f))
		pairs--;
	while (!pairs && tensors && info(f))
		tensors--;
}

/* The bytes of a block, and its elements. False: no such type. */
static bool block_of(uint64_t type, uint64_t *ret_bytes, uint64_t *ret_elements)
{
	static const uint16_t blocks[][3] = {
		{ 0, 4, 1 },    { 1, 2, 1 },      { 2, 18, 32 },
		{ 3, 20, 32 },  { 6, 22, 32 },    { 7, 24, 32 },
		{ 8, 34, 32 },  { 12, 144, 256 }, { 14, 210, 256 },
		{ 20, 18, 32 }, { 24, 1, 1 },     { 25, 2, 1 },
		{ 26, 4, 1 },   { 27, 8, 1 },     { 28, 8, 1 },
		{ 30, 2, 1 },   { 34, 54, 256 },  { 39, 17, 32 },
	};

	for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++)
		if (blocks[i][0] == type) {
			*ret_bytes = blocks[i][1];
			*ret_elements = blocks[i][2];
			return true;
		}
	return false;
}

/* The bytes of a tensor in the data section; 0 if that makes no sense. */
static uint64_t size_of(const struct found *f, const struct info *t)
{
	uint64_t bytes, elements, n = 1;

	if (!block_of(get(f->bytes + t->type, 4), &bytes, &elements))
		return 0;
	for (uint32_t i = 0; i < t->ndim && i < MAX_DIMS; i++) {
		uint64_t dim = get(f->bytes + t->dims + 8 * i, 8);

		if (dim > 1u << 20 || n * dim > 1u << 20)
			return 0;
		n *= dim;
	}
	return n / elements * bytes;
}

static void put_right(struct edit *e)
{
	uint64_t off = 0, mask, end;
	struct found f;

	find(&f, e);
	mask = f.align && !(f.align & (f.align - 1)) ? f.align - 1 : 31;
	for (size_t i = 0; i < f.infos; i++) {
		set(e->bytes + f.info[i].offset, 8, off);
		off += (size_of(&f, &f.info[i]) + mask) & ~mask;
	}
	end = ((f.at + mask) & ~mask) + off;
	if (end > e->max)
		end = e->max;
	if (end > e->n)
		memset(e->bytes + e->n, 0xa5, (size_t)end - e->n);
	if (f.infos)
		e->n = (size_t)end;
}

static struct span pick(struct edit *e, const struct span *of, size_t n)
{
	return of[edit_below(e, n)];
}

static void change_number(struct edit *e, struct span at)
{
	uint64_t old = get(e->bytes + at.at, at.len);
	uint64_t x = edit_one_in(e, 3) ? edit_below(e, 44)
				       : edit_number(e, old);

	set(e->bytes + at.at, at.len, x);
}

/* Another string in its place, or one of another length. */
static void change_string(struct edit *e, const struct found *f)
{
	static const char fill[] = "general.alignment.general.alignment."
				   "0123456789abcdefghijklmnopqrstuvwxyz";
	struct span at = pick(e, f->string, f->strings);
	uint8_t text[8 + 72];
	size_t n;

	switch (edit_below(e, 4)) {
	case 0:
		n = edit_one_in(e, 3) ? 17 : edit_below(e, 73);
		set(text, 8, n);
		memcpy(text + 8, fill, n);
		edit_put(e, at, text, 8 + n);
		break;
	case 1:
		if (at.len > 8)
			e->bytes[at.at + 8 + edit_below(e, at.len - 8)] =
				(uint8_t)edit_random(e);
		break;
	default:
		edit_copy(e, at, pick(e, f->string, f->strings));
	}
}

/* Write @span twice or not at all, and count it at @count or not. */
static void change_count(struct edit *e, struct span span, size_t count)
{
	uint64_t n = get(e->bytes + count, 8);
	bool twice = edit_one_in(e, 2);

	if (!edit_one_in(e, 8))
		set(e->bytes + count, 8, twice ? n + 1 : n - 1);
	if (!twice)
		edit_put(e, span, "", 0);
	else if (!edit_copy(e, (struct span){ span.at, 0 }, span))
		set(e->bytes + count, 8, n);
}

static void add_alignment(struct edit *e)
{
	uint8_t pair[8 + 17 + 4 + 4];

	set(pair, 8, 17);
	memcpy(pair + 8, "general.alignment", 17);
	set(pair + 25, 4, 4);
	set(pair + 29, 4, 1ull << edit_below(e, 33));
	if (edit_put(e, (struct span){ HEADER, 0 }, pair, sizeof(pair)))
		set(e->bytes + 16, 8, get(e->bytes + 16, 8) + 1);
}

/* An array of one item around a value: "array", its type, 1, the value. */
static void wrap_value(struct edit *e, struct span at)
{
	size_t n = 1 + edit_below(e, edit_one_in(e, 4) ? 12 : 2);
	uint8_t array[12];

	set(array + 4, 8, 1);
	for (size_t i = 0; i < n; i++) {
		struct span inner = { at.at + 4, 0 };

		set(array, 4, get(e->bytes + at.at, 4));
		if (!edit_put(e, inner, array, sizeof(array)))
			return;
		set(e->bytes + at.at, 4, 9);
	}
}

static void change_info(struct edit *e, const struct found *f)
{
	const struct info *a = &f->info[edit_below(e, f->infos)];
	const struct info *b = &f->info[edit_below(e, f->infos)];

	switch (edit_below(e, 4)) {
	case 0:
		edit_swap(e, a->all, b->all);
		break;
	case 1:
		change_count(e, a->all, 8);
		break;
	case 2:
		set(e->bytes + a->type, 4, edit_below(e, 44));
		break;
	default: /* one dimension more */
		if (edit_put(e, (struct span){ a->dims, 0 }, "\1\0\0\0\0\0\0\0",
			     8))
			set(e->bytes + a->dims - 4, 4, a->ndim + 1);
	}
}

static void change_pair(struct edit *e, const struct found *f)
{
	size_t a = edit_below(e, f->pairs), b = edit_below(e, f->pairs);

	switch (edit_below(e, 4)) {
	case 0:
		edit_swap(e, f->pair[a], f->pair[b]);
		break;
	case 1:
		change_count(e, f->pair[a], 16);
		break;
	case 2:
		wrap_value(e, f->value[a]);
		break;
	default:
		edit_copy(e, f->value[a], f->value[b]);
	}
}

static void change_one(struct edit *e, const struct found *f)
{
	size_t what = edit_below(e, 12);

	if (what < 4 && f->infos)
		change_info(e, f);
	else if (what < 7 && f->pairs)
		change_pair(e, f);
	else if (what < 8 && f->strings)
		change_string(e, f);
	else if (what < 11 && f->fields)
		change_number(e, pick(e, f->field, f->fields));
	else if (f->fields && edit_one_in(e, 2))
		add_alignment(e);
	else
		edit_bytes(e, (struct span){ 0, e->n });
}

void mutate_gguf(struct edit *e)
{
	struct found f;

	find(&f, e);
	change_one(e, &f);
	if (!edit_one_in(e, 4))
		put_right(e);
	if (edit_one_in(e, 8))
		e->n -= e->n ? edit_below(e, e->n < 64 ? e->n : 64) : 0;
}
