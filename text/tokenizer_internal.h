/* SPDX-License-Identifier: MIT */
/* A tokenizer, as the files of text/ see it. */
#ifndef TEXT_TOKENIZER_INTERNAL_H
#define TEXT_TOKENIZER_INTERNAL_H

#include "find_tokens.h"
#include "merges.h"
#include "pre_tokenizers.h"
#include "tokenizer.h"
#include "vocab.h"

#define BIT(kind) (1u << (kind))
#define ENDS_MAX 32u

/* The parts of a text before which a space is added. */
enum prefix {
	PREFIX_NEVER,
	PREFIX_START, /* the first part */
	PREFIX_EACH   /* each part between tokens that were found in the text */
};

struct tokenizer {
	struct vocab vocab;
	struct merges merges;   /* without buckets: merges by score */
	struct matcher raw;     /* tokens that are found in the text as it is */
	struct matcher normal;  /* tokens that are found in normalised text */
	struct split split;     /* byte-level BPE only */
	unsigned char *storage; /* the bytes of the pieces */
	bool byte_level;        /* words consist of bytes, else of characters */
	bool whole_words;       /* a word that is a token needs no merges */
	bool fuse_unk;      /* several unknown characters become one token */
	bool writes_unk;    /* text without a token becomes the unknown token */
	bool nfc;           /* text is normalised to form C of Unicode */
	bool marks;         /* spaces become U+2581 in the text */
	bool normal_marks;  /* spaces do so when it is normalised, not later */
	bool longest_first; /* the longest token in a text is found first, not
			       the leftmost */
	enum prefix prefix;
	bool prefix_if_none; /* add none if the text begins with a space */
	bool normal_prefix;  /* the space is added when the text is normalised,
			       not later */
	bool trim; /* remove spaces at both ends, and all after the first */
	bool each_space;  /* each space begins a word */
	bool inner_space; /* a token has a space that follows no space */
	bool text_seen;   /* set while a template is read */
	bool adds_bos, adds_eos;
	int32_t bos, eos, unk; /* -1: none */
	int32_t end[ENDS_MAX]; /* other tokens at which generation stops */
	unsigned n_ends;
	int32_t stand_in;  /* the token for text without a token; -1: it is left
			     out */
	bool leaves_first; /* such text is left out before merges, not after
			      them */
	uint32_t longest;  /* bytes of the longest piece */
};

/* Return a tokenizer without pieces, or NULL. */
struct tokenizer *tokenizer_alloc(void);
/*
 * Check and complete a tokenizer that has its pieces, their index, the tokens
 * that are found in texts, and its merges. @file is for sentences.
 */
int tokenizer_finish(struct tokenizer *t, const char *file);

/*
 * Mark a piece at which generation stops. Text does not lead to it then, unless
 * it is a piece of ordinary text.
 */
void piece_mark_end(struct piece *piece);
/*
 * Replace each mark U+2581 by the space that it stands for. Returns the new
 * length.
 */
size_t piece_unmark(unsigned char *s, size_t len);
/*
 * Replace characters by the bytes that they stand for in byte-level BPE.
 * Returns false, and changes nothing, if there are other characters.
 */
bool piece_unmap(unsigned char *s, size_t *len);
/*
 * Set a piece that a file writes as @s, which is changed to the bytes of the
 * piece and stays valid as long as the tokenizer.
 */
int piece_set(struct tokenizer *t, const char *file, uint32_t id,
	      unsigned char *s, size_t len, unsigned kind, float score);
/*
 * Merges that are to be entered into the table: the look-ups of several wait
 * for memory at once. Bytes that are passed to merge_set() must stay valid
 * until merges_flush().
 */
#define MERGES_AT_ONCE 16u
struct merge_queue {
	struct tokenizer *t;
	const char *file;
	uint32_t number; /* number of the next merge */
	int32_t last;    /* the token that the last merge made */
	unsigned n;
	struct queued {
		const unsigned char
			*s;         /* the bytes of both, one after the other */
		size_t left, right; /* their lengths */
		uint64_t left_hash, right_hash;
	} item[MERGES_AT_ONCE];
};
/*
 * Add the merge of two pieces: a file writes the first as @left, and the second
 * @gap bytes after it. Both are changed.
 */
int merge_set(struct merge_queue *q, unsigned char *left, size_t left_len,
	      size_t gap, size_t right_len);
int merges_flush(struct merge_queue *q);

/*
 * Each reads one format into a new tokenizer. @bytes may be changed and are
 * kept.
 */
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
