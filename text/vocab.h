/* SPDX-License-Identifier: MIT */
/*
 * The tokens of a tokenizer. Their bytes are those that they stand for: the
 * mark for a space (U+2581) and the characters for bytes (byte-level BPE) are
 * replaced when a vocabulary is read.
 */
#ifndef TEXT_VOCAB_H
#define TEXT_VOCAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The numbers are those of GGUF and SentencePiece. 0 is the kind of an id
 * without a token.
 */
enum piece_kind {
	PIECE_NORMAL = 1,
	PIECE_UNKNOWN = 2,
	PIECE_CONTROL = 3,
	PIECE_USER = 4, /* found in the text before all others */
	PIECE_UNUSED = 5,
	PIECE_BYTE = 6 /* written "<0x0A>"; its bytes are that one byte */
};

#define PIECE_HIDDEN 0x01u /* merges do not make it: it is not in the index */
#define PIECE_END 0x02u    /* generation stops at it */

struct piece {
	const unsigned char *s;
	uint32_t len;
	uint32_t key; /* order of merges by score, the least first */
	uint8_t kind; /* enum piece_kind */
	uint8_t flags;
};

/*
 * A bucket of the index has the bytes of a short piece, so that most look-ups
 * touch one line of the cache.
 */
#define BUCKET_BYTES 22u
struct bucket {
	uint32_t hash; /* a part of the hash */
	uint32_t id;   /* the piece's id plus 1; 0 in an empty bucket */
	uint16_t len;  /* at most UINT16_MAX */
	unsigned char s[BUCKET_BYTES];
};

struct vocab {
	struct piece *piece;
	uint32_t n, room;
	struct bucket *bucket;
	size_t buckets; /* a power of two */
	uint64_t seed;
	int32_t byte_id[256]; /* the piece of one byte, or -1 */
};

/* Make room for @n pieces. vocab_set() makes more if needed. */
int vocab_reserve(struct vocab *v, uint32_t n);
/*
 * Set piece @id. The bytes stay the caller's. Fails with -ENOMEM, or -EBADMSG
 * if it is set already.
 */
int vocab_set(struct vocab *v, const char *file, uint32_t id,
	      const struct piece *piece);
/*
 * Make the index of all pieces of these kinds (bits 1 << kind). Fails with
 * -EBADMSG if two normal pieces are equal.
 */
int vocab_index(struct vocab *v, const char *file, unsigned kinds);
void vocab_fini(struct vocab *v);

/* Return the piece in the index that has these bytes, or -1. */
int32_t vocab_find(const struct vocab *v, const unsigned char *s, size_t len);
/*
 * The same in two steps, so that several look-ups can wait for memory at once.
 */
uint64_t vocab_hash(const struct vocab *v, const unsigned char *s, size_t len);
int32_t vocab_find_hash(const struct vocab *v, uint64_t hash,
			const unsigned char *s, size_t len);

/* Return the key of a score: the greater the score, the smaller the key. */
uint32_t vocab_key(float score);
/* Return the score that has this key. */
float vocab_score(uint32_t key);
/* Return the byte that "<0x0A>" names, or -1. */
int vocab_byte_of(const unsigned char *s, size_t len);
/* Return a seed that other processes cannot guess. */
uint64_t vocab_secret(void);

#endif
