/* SPDX-License-Identifier: MIT */
/* A tokenizer, as the files of text/ see it. */
#ifndef TEXT_INSIDE_H
#define TEXT_INSIDE_H

#include "match.h"
#include "merges.h"
#include "split.h"
#include "tokenizer.h"
#include "vocab.h"

#define BIT(kind) (1u << (kind))
#define ENDS_MAX 32u

/* Before which parts of a text a space is put. */
enum prefix {
	PREFIX_NEVER,
	PREFIX_START, /* its first part */
	PREFIX_EACH   /* each part between tokens that were found in it */
};

struct tokenizer {
	struct vocab vocab;
	struct merges merges;   /* no buckets: merges by score */
	struct matcher raw;     /* tokens to find in the text as it is */
	struct matcher normal;  /* ... and then, where it is normalised */
	struct split split;     /* byte-level only */
	unsigned char *storage; /* the bytes of the pieces */
	bool byte_level;        /* a text is bytes, else characters */
	bool whole_words;       /* a word that is a token needs no merges */
	bool fuse_unk;          /* several unknown characters: one token */
	bool writes_unk;        /* the unknown token, for what has no token */
	bool nfc;               /* text is normalised to form C of Unicode */
	bool marks;             /* spaces become U+2581 in the text */
	bool normal_marks;      /* ... when it is normalised, not later */
	bool longest_first;     /* of tokens in a text, not the leftmost */
	enum prefix prefix;
	bool prefix_if_none; /* unless the text begins with a space */
	bool normal_prefix;  /* added when the text is normalised, not later */
	bool trim;           /* spaces at both ends, and all after the first */
	bool each_space;     /* begins a word */
	bool inner_space;    /* a token has a space that follows no space */
	bool text_seen;      /* while a template is read */
	bool adds_bos, adds_eos;
	int32_t bos, eos, unk; /* -1: none */
	int32_t end[ENDS_MAX]; /* other tokens at which generation stops */
	unsigned n_ends;
	int32_t stand_in;  /* for what has no token, or -1: that is left out */
	bool leaves_first; /* ... before merges, not after them */
	uint32_t longest;  /* bytes of a piece */
};

/* A tokenizer without pieces. */
struct tokenizer *tokenizer_alloc(void);
/*
 * Check and complete a tokenizer that has its pieces, their index, the tokens to
 * find in texts, and its merges. @file is for sentences.
 */
int tokenizer_finish(struct tokenizer *t, const char *file);

/*
 * Generation stops at this piece. Text does not lead to it then, unless it is a
 * piece of ordinary text.
 */
void piece_mark_end(struct piece *piece);
/* Replace the mark U+2581 by the space that it stands for. Returns the bytes. */
size_t piece_unmark(unsigned char *s, size_t len);
/*
 * Replace characters by the bytes that they stand for in byte-level BPE.
 * False: there are other characters; then nothing is changed.
 */
bool piece_unmap(unsigned char *s, size_t *len);
/*
 * Set a piece that is written as @s, which is changed to its bytes and stays
 * valid as long as the tokenizer.
 */
int piece_set(struct tokenizer *t, const char *file, uint32_t id,
	      unsigned char *s, size_t len, unsigned kind, float score);
/*
 * Merges on their way into the table: the memory of several is waited for at
 * once. Bytes that are passed to merge_set() stay valid until merges_flush().
 */
#define MERGES_AT_ONCE 16u
struct merge_queue {
	struct tokenizer *t;
	const char *file;
	uint32_t number; /* of the next merge */
	int32_t last;    /* the token that the last merge made */
	unsigned n;
	struct queued {
		const unsigned char *s; /* of both, one after the other */
		size_t left, right;     /* their bytes */
		uint64_t left_hash, right_hash;
	} item[MERGES_AT_ONCE];
};
/*
 * Add the merge of two pieces that are written as @left and, @gap bytes after
 * it, another; both are changed.
 */
int merge_set(struct merge_queue *q, unsigned char *left, size_t left_len,
	      size_t gap, size_t right_len);
int merges_flush(struct merge_queue *q);

/* Read one format into a new tokenizer. @bytes may be changed and are kept. */
int read_json(struct tokenizer *t, const char *file, unsigned char *bytes,
	      size_t n);
int read_sentencepiece(struct tokenizer *t, const char *file,
		       unsigned char *bytes, size_t n);
/* Read the ids of a generation_config.json before the pieces. */
int read_generation(struct tokenizer *t, const char *file, unsigned char *bytes,
		    size_t n);
int read_gguf(struct tokenizer *t, const struct weir_model *model,
	      const char *file);

#endif
