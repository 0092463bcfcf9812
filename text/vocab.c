/* SPDX-License-Identifier: MIT */
#include "vocab.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <xxhash.h>

#include "error.h"

#define HALF 0xffffffff00000000ull

/* From the 16 random bytes that the kernel passes to each process. */
uint64_t vocab_secret(void)
{
	const void *bytes = (const void *)getauxval(AT_RANDOM);

	return bytes ? XXH3_64bits(bytes, 16) : 0;
}

static uint64_t vocab_hash(const struct vocab *v, const unsigned char *s,
			   size_t len)
{
	return XXH3_64bits_withSeed(s, len, v->seed);
}

static int vocab_grow(struct vocab *v, uint32_t n)
{
	uint32_t room = v->room ? v->room : 1024;
	struct piece *piece;

	while (room < n)
		room += room / 2;
	piece = realloc(v->piece, room * sizeof(*piece));
	if (!piece)
		return text_fail(-ENOMEM, "no memory for %u tokens", room);
	memset(piece + v->room, 0, (room - v->room) * sizeof(*piece));
	v->piece = piece;
	v->room = room;
	return 0;
}

int vocab_set(struct vocab *v, const char *file, uint32_t id,
	      const struct piece *piece)
{
	int r = id < v->room ? 0 : vocab_grow(v, id + 1);

	if (r < 0)
		return r;
	if (v->piece[id].kind)
		return text_fail(-EBADMSG, "%s: two tokens have the id %u",
				 file, id);
	v->piece[id] = *piece;
	if (id >= v->n)
		v->n = id + 1;
	return 0;
}

/* False: a piece with these bytes is there already. */
static bool vocab_enter(struct vocab *v, uint32_t id)
{
	const struct piece *piece = &v->piece[id];
	uint64_t h = vocab_hash(v, piece->s, piece->len);
	size_t at = h & (v->buckets - 1);

	for (; v->bucket[at]; at = (at + 1) & (v->buckets - 1)) {
		const struct piece *other =
			&v->piece[(uint32_t)v->bucket[at] - 1];

		if ((v->bucket[at] ^ h) & HALF)
			continue;
		if (other->len == piece->len &&
		    !memcmp(other->s, piece->s, piece->len))
			return false;
	}
	v->bucket[at] = (h & HALF) | (id + 1);
	return true;
}

static int vocab_enter_all(struct vocab *v, const char *file, bool normal,
			   unsigned kinds)
{
	for (uint32_t id = 0; id < v->n; id++) {
		const struct piece *piece = &v->piece[id];

		if (!(kinds >> piece->kind & 1) || !piece->len ||
		    piece->flags & PIECE_HIDDEN)
			continue;
		if ((piece->kind == PIECE_NORMAL) != normal)
			continue;
		if (!vocab_enter(v, id) && normal)
			return text_fail(-EBADMSG,
					 "%s: token %u is equal to another",
					 file, id);
	}
	return 0;
}

/* Pieces that are made for bytes, else those that happen to be of one byte. */
static void vocab_find_bytes(struct vocab *v)
{
	for (unsigned c = 0; c < 256; c++) {
		unsigned char byte = (unsigned char)c;

		v->byte_id[c] = vocab_find(v, &byte, 1);
	}
	for (uint32_t id = 0; id < v->n; id++)
		if (v->piece[id].kind == PIECE_BYTE)
			v->byte_id[v->piece[id].s[0]] = (int32_t)id;
}

int vocab_index(struct vocab *v, const char *file, unsigned kinds)
{
	int r;

	v->buckets = 64;
	while (v->buckets / 2 < v->n)
		v->buckets *= 2;
	v->bucket = calloc(v->buckets, sizeof(*v->bucket));
	if (!v->bucket)
		return text_fail(-ENOMEM, "no memory for %u tokens", v->n);
	v->seed = vocab_secret();
	/* Where a user's token equals a normal one, text means the latter. */
	r = vocab_enter_all(v, file, true, kinds);
	if (r < 0)
		return r;
	vocab_enter_all(v, file, false, kinds);
	vocab_find_bytes(v);
	return 0;
}

void vocab_fini(struct vocab *v)
{
	free(v->piece);
	free(v->bucket);
}

int32_t vocab_find(const struct vocab *v, const unsigned char *s, size_t len)
{
	uint64_t h = vocab_hash(v, s, len);
	size_t at = h & (v->buckets - 1);

	for (; v->bucket[at]; at = (at + 1) & (v->buckets - 1)) {
		uint32_t id = (uint32_t)v->bucket[at] - 1;

		if (!((v->bucket[at] ^ h) & HALF) && v->piece[id].len == len &&
		    !memcmp(v->piece[id].s, s, len))
			return (int32_t)id;
	}
	return -1;
}

uint32_t vocab_key(float score)
{
	float f = score + 0.0f; /* -0 is 0 */
	uint32_t bits;

	memcpy(&bits, &f, sizeof(bits));
	return bits >> 31 ? bits : ~(bits | 1u << 31);
}

static int vocab_digit(unsigned char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

int vocab_byte_of(const unsigned char *s, size_t len)
{
	int high, low;

	if (len != 6 || memcmp(s, "<0x", 3) || s[5] != '>')
		return -1;
	high = vocab_digit(s[3]);
	low = vocab_digit(s[4]);
	return high < 0 || low < 0 ? -1 : high * 16 + low;
}
