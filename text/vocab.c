/* SPDX-License-Identifier: MIT */
#include "vocab.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

/* Inline, since a call takes as long as the hash of a few bytes. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "error.h"
#include "table_memory.h"

#define AT_ONCE 16u

/*
 * The seed comes from the 16 random bytes that the kernel passes to each
 * process.
 */
uint64_t vocab_secret(void)
{
	const void *bytes = (const void *)getauxval(AT_RANDOM);

	return bytes ? XXH3_64bits(bytes, 16) : 0;
}

int vocab_reserve(struct vocab *v, uint32_t n)
{
	struct piece *piece = memory_table(n * sizeof(*piece));

	if (!piece)
		return text_fail(-ENOMEM, "no memory for %u tokens", n);
	if (v->n)
		memcpy(piece, v->piece, v->n * sizeof(*piece));
	memset(piece + v->n, 0, (n - v->n) * sizeof(*piece));
	free(v->piece);
	v->piece = piece;
	v->room = n;
	return 0;
}

static int vocab_grow(struct vocab *v, uint32_t n)
{
	uint32_t room = v->room ? v->room : 1024;

	while (room < n)
		room *= 2;
	return vocab_reserve(v, room);
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

uint64_t vocab_hash(const struct vocab *v, const unsigned char *s, size_t len)
{
	uint64_t hash = XXH3_64bits_withSeed(s, len, v->seed);

	__builtin_prefetch(&v->bucket[hash & (v->buckets - 1)]);
	return hash;
}

static bool bucket_is(const struct vocab *v, const struct bucket *b,
		      uint64_t hash, const unsigned char *s, size_t len)
{
	if (b->hash != (uint32_t)(hash >> 32))
		return false;
	if (len <= BUCKET_BYTES)
		return b->len == len && !memcmp(b->s, s, len);
	return v->piece[b->id - 1].len == len &&
	       !memcmp(v->piece[b->id - 1].s, s, len);
}

/* Return the bucket with these bytes, or the empty one for them. */
static struct bucket *bucket_find(const struct vocab *v, uint64_t hash,
				  const unsigned char *s, size_t len)
{
	size_t at = hash & (v->buckets - 1);

	while (v->bucket[at].id && !bucket_is(v, &v->bucket[at], hash, s, len))
		at = (at + 1) & (v->buckets - 1);
	return &v->bucket[at];
}

/* Enter a piece. Returns false if a piece with these bytes is there already. */
static bool vocab_enter(struct vocab *v, uint32_t id, uint64_t hash)
{
	const struct piece *piece = &v->piece[id];
	struct bucket *b = bucket_find(v, hash, piece->s, piece->len);

	if (b->id)
		return false;
	b->id = id + 1;
	b->hash = (uint32_t)(hash >> 32);
	b->len = piece->len < UINT16_MAX ? (uint16_t)piece->len : UINT16_MAX;
	memcpy(b->s, piece->s,
	       piece->len < BUCKET_BYTES ? piece->len : BUCKET_BYTES);
	return true;
}

static bool is_indexed(const struct piece *piece, bool normal, unsigned kinds)
{
	return kinds >> piece->kind & 1 && piece->len &&
	       !(piece->flags & PIECE_HIDDEN) &&
	       (piece->kind == PIECE_NORMAL) == normal;
}

/* Enter all pieces. The look-ups of several wait for memory at once. */
static int vocab_enter_all(struct vocab *v, const char *file, bool normal,
			   unsigned kinds)
{
	uint32_t id[AT_ONCE], next = 0;
	uint64_t hash[AT_ONCE];
	unsigned n;

	do {
		for (n = 0; n < AT_ONCE && next < v->n; next++) {
			const struct piece *piece = &v->piece[next];

			if (!is_indexed(piece, normal, kinds))
				continue;
			id[n] = next;
			hash[n++] = vocab_hash(v, piece->s, piece->len);
		}
		for (unsigned i = 0; i < n; i++)
			if (!vocab_enter(v, id[i], hash[i]) && normal)
				return text_fail(-EBADMSG,
						 "%s: token %u is equal to "
						 "another",
						 file, id[i]);
	} while (n);
	return 0;
}

/*
 * Find the pieces of single bytes: pieces that were made for bytes, else pieces
 * of one byte.
 */
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
	while (v->buckets / 3 * 2 < v->n)
		v->buckets *= 2;
	v->bucket = memory_table(v->buckets * sizeof(*v->bucket));
	if (!v->bucket)
		return text_fail(-ENOMEM, "no memory for %u tokens", v->n);
	memset(v->bucket, 0, v->buckets * sizeof(*v->bucket));
	v->seed = vocab_secret();
	/*
	 * If a user's token equals a normal one, text leads to the normal one.
	 */
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

int32_t vocab_find_hash(const struct vocab *v, uint64_t hash,
			const unsigned char *s, size_t len)
{
	return (int32_t)bucket_find(v, hash, s, len)->id - 1;
}

int32_t vocab_find(const struct vocab *v, const unsigned char *s, size_t len)
{
	return vocab_find_hash(v, vocab_hash(v, s, len), s, len);
}

uint32_t vocab_key(float score)
{
	float f = score + 0.0f; /* -0 is 0 */
	uint32_t bits;

	memcpy(&bits, &f, sizeof(bits));
	return bits >> 31 ? bits : ~(bits | 1u << 31);
}

float vocab_score(uint32_t key)
{
	const uint32_t bits = key >> 31 ? key : ~(key | 1u << 31);
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
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
