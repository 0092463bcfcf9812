/* SPDX-License-Identifier: MIT */
/*
 * Mutations of a safetensors file: of its header, whose length and places are
 * often made right, so that inputs are accepted.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mutate.h"

#define MOST 256 /* tensors whose places are made right */

/* The part of @in after @word and before @end; where @word is not, false. */
static bool find(const struct edit *e, struct span in, const char *word,
		 int end, struct span *ret)
{
	const uint8_t *at =
		memmem(e->bytes + in.at, in.len, word, strlen(word));
	size_t begin, last = in.at + in.len;

	if (!at)
		return false;
	begin = (size_t)(at - e->bytes) + strlen(word);
	at = memchr(e->bytes + begin, end, last - begin);
	if (!at)
		return false;
	*ret = (struct span){ begin, (size_t)(at - e->bytes) - begin };
	return true;
}

/* "U8" and "F8_E4M3" begin with the bits, but BOOL and BF16 are special. */
static uint64_t bits_of(const struct edit *e, struct span name)
{
	const char *text = (const char *)e->bytes + name.at;
	uint64_t bits = 0;

	if (name.len >= 4 && !memcmp(text, "BOOL", 4))
		return 8;
	for (size_t i = 0; i < name.len && text[i] != '_'; i++)
		if (text[i] >= '0' && text[i] <= '9')
			bits = bits * 10 + (uint64_t)(text[i] - '0');
	return bits < 128 ? bits : 0;
}

static uint64_t product_of(const struct edit *e, struct span shape)
{
	uint64_t product = 1, x = 0;

	for (size_t i = shape.at; i <= shape.at + shape.len; i++) {
		bool digit = e->bytes[i] >= '0' && e->bytes[i] <= '9';

		if (digit)
			x = x * 10 + e->bytes[i] - '0';
		if (!digit && shape.len) {
			product *= x;
			x = 0;
		}
		if (x > 4096 || product > 4096)
			return 0;
	}
	return product;
}

/*
 * Give the tensors, in the order of the text, places one after the other.
 * Returns the bytes of all.
 */
static size_t put_places(struct edit *e, struct span text)
{
	struct span place[MOST], dtype, shape, in = text;
	size_t n = 0, end[MOST + 1] = { 0 };
	char offsets[64];

	while (n < MOST && find(e, in, "\"dtype\":\"", '"', &dtype) &&
	       find(e, in, "\"shape\":[", ']', &shape) &&
	       find(e, in, "\"data_offsets\":[", ']', &place[n])) {
		end[n + 1] =
			end[n] + bits_of(e, dtype) * product_of(e, shape) / 8;
		in.at = place[n].at + place[n].len;
		in.len = text.at + text.len - in.at;
		n++;
	}
	for (size_t i = n; i--;) {
		snprintf(offsets, sizeof(offsets), "%zu,%zu", end[i],
			 end[i + 1]);
		edit_put(e, place[i], offsets, strlen(offsets));
	}
	return end[n];
}

static void put_length(struct edit *e, uint64_t x)
{
	for (int i = 0; i < 8; i++)
		e->bytes[i] = (uint8_t)(x >> 8 * i);
}

void mutate_st(struct edit *e)
{
	size_t data, want = SIZE_MAX;
	struct span text = { 8, 0 };
	uint64_t len = 0;

	for (size_t i = 8; i-- && e->n >= 8;)
		len = len << 8 | e->bytes[i];
	if (e->n < 10 || len > e->n - 8 || edit_one_in(e, 20)) {
		edit_bytes(e, (struct span){ 0, e->n });
		return;
	}
	text.len = (size_t)len;
	data = e->n - 8 - text.len;
	mutate_json(e, text);
	text.len = e->n - 8 - data;
	if (edit_one_in(e, 2))
		want = put_places(e, text);
	text.len = e->n - 8 - data;
	put_length(e, edit_one_in(e, 30) ? edit_number(e, text.len) : text.len);
	if (want != SIZE_MAX)
		data = want;
	if (edit_one_in(e, 20))
		data += edit_below(e, 3) - (data != 0);
	if (data > e->max - 8 - text.len)
		data = e->max - 8 - text.len;
	memset(e->bytes + 8 + text.len, 0, data);
	e->n = 8 + text.len + data;
}
