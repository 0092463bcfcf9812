/* SPDX-License-Identifier: MIT */
/*
 * Text to tokens and back, with the vocabulary of a language model.
 *
 * A tokenizer does not change after it was made: any number of threads may use
 * it. A decoder belongs to one thread at a time. No call blocks except those
 * that read a file. Failures are negative errnos, and text_error() has the
 * sentence.
 */
#ifndef TEXT_TOKENIZER_H
#define TEXT_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "error.h"

struct weir_model;
struct weir_save;
struct tokenizer;
struct tokenizer_decoder;

/*
 * Make the tokenizer of a model: from its metadata (tokenizer.ggml.*) if it has
 * some, else from tokenizer.json or tokenizer.model in the folder of the model.
 * The tokenizer keeps no reference to @model.
 *
 * -ENOENT: the model has no tokenizer. -EOPNOTSUPP: a kind of tokenizer that is
 * not supported. -EBADMSG: its description is wrong.
 */
int tokenizer_from_model(const struct weir_model *model,
			 struct tokenizer **ret_t);
/*
 * Read a tokenizer.json of Hugging Face or a tokenizer.model of SentencePiece;
 * of a folder, the one that it contains. Errors as above, or those of open(2)
 * and read(2). -EFBIG: the file is larger than TOKENIZER_FILE_MAX.
 */
int tokenizer_open(const char *path, struct tokenizer **ret_t);
/* The same for the file @name beside a model; -ENOENT: there is none. */
int tokenizer_open_beside(const struct weir_model *model, const char *name,
			  struct tokenizer **ret_t);
#define TOKENIZER_FILE_MAX (256u << 20)
/* The same for the @n bytes of a file that is called @name in sentences. */
int tokenizer_parse(const char *name, const void *bytes, size_t n,
		    struct tokenizer **ret_t);
/* Takes NULL. Free the decoders first. */
void tokenizer_free(struct tokenizer *t);

/* Ids are from 0 to count - 1. -1: the vocabulary has no such token. */
struct tokenizer_info {
	const char *kind; /* Return "SentencePiece", "BPE" or "byte-level
			     BPE". */
	uint32_t count;
	int32_t bos, eos, unk;
	bool adds_bos, adds_eos; /* True if TOKENIZER_ADD adds it. */
};
void tokenizer_info(const struct tokenizer *t, struct tokenizer_info *ret_info);
/* Return the token that is written like this ("<|eot_id|>"), or -1. */
int32_t tokenizer_find(const struct tokenizer *t, const char *text);
/*
 * True if generation stops at this token: it ends a text, a turn or a file,
 * because the model's metadata say so, or because it has a name that such
 * tokens have.
 */
bool tokenizer_is_end(const struct tokenizer *t, int32_t id);

/* A list of tokens, zeroed by the caller at first. Free @id with free(3). */
struct tokenizer_ids {
	int32_t *id;
	size_t n, room;
};

/* Tokens by what they are for; -1: none. */
struct tokenizer_names {
	int32_t bos, eos, unk, pad;
};
/*
 * Find the tokens that the tokenizer_config.json beside the model names; all
 * are -1 if there is no such file.
 */
int tokenizer_names_beside(const struct weir_model *model,
			   const struct tokenizer *t,
			   struct tokenizer_names *ret);

/* The tokens that begin and end texts, as the model's configuration says. */
#define TOKENIZER_ENDS 32u
struct tokenizer_ends {
	int32_t bos; /* -1: the configuration does not say */
	int32_t pad; /* fills up texts; -1: none */
	int32_t id[TOKENIZER_ENDS];
	size_t n;
	struct tokenizer_names names; /* of tokenizer_config.json */
};
/*
 * Add the tokenizer to a save as metadata of GGUF, for a model of @count
 * tokens. -EOPNOTSUPP: GGUF cannot hold it. Errors of weir_save_meta().
 */
int tokenizer_to_gguf(const struct tokenizer *t, uint32_t count,
		      const struct tokenizer_ends *ends,
		      struct weir_save *save);

/*
 * Write the tokenizer of GGUF metadata as a tokenizer.json, and as the
 * tokenizer_config.json beside it, with a chat template of @len bytes, or NULL,
 * and the token @pad, or -1.
 * -EOPNOTSUPP: there is no such tokenizer.json. The caller checks for errors of
 * @to.
 */
int tokenizer_to_json(const struct tokenizer *t, FILE *to);
int tokenizer_to_config(const struct tokenizer *t, int32_t pad,
			const char *template, size_t len, FILE *to);

/* Add the tokens that the model wants at the beginning and at the end. */
#define TOKENIZER_ADD 0x01u
/*
 * The name of a control token in the text ("<|eot_id|>") means that token.
 * Never set this for text that others wrote: they could end their turn.
 */
#define TOKENIZER_CONTROL 0x02u

/*
 * Append the tokens of @len bytes of text to @ids. Text without a token becomes
 * the tokens of its bytes, or else the unknown token. It is left out if the
 * vocabulary has no unknown token, or one that begins or ends texts. On failure
 * @ids has the tokens that it had. -EILSEQ: the text is not UTF-8; the sentence
 * has the offset. -E2BIG: the text is larger than 1 GiB.
 */
int tokenizer_encode(const struct tokenizer *t, const char *text, size_t len,
		     unsigned flags, struct tokenizer_ids *ids);

/*
 * A part of a text. @control has the meaning of TOKENIZER_CONTROL for this
 * part.
 */
struct tokenizer_part {
	const char *text;
	size_t len;
	bool control;
};
#define TOKENIZER_PARTS_MAX 16u

/*
 * The same for a text in @n parts, at most TOKENIZER_PARTS_MAX: the tokens are
 * those of all parts joined, except that control tokens come only from parts
 * that may name them. The only flag is TOKENIZER_ADD.
 */
int tokenizer_encode_parts(const struct tokenizer *t,
			   const struct tokenizer_part *part, size_t n,
			   unsigned flags, struct tokenizer_ids *ids);

/* The text continues other text: keep the space before the first word. */
#define TOKENIZER_CONTINUE 0x04u

/*
 * A decoder turns tokens into text, one after the other. Flags: with
 * TOKENIZER_CONTROL control tokens are written by their names, otherwise they
 * are left out; and TOKENIZER_CONTINUE.
 */
int tokenizer_decoder_new(const struct tokenizer *t, unsigned flags,
			  struct tokenizer_decoder **ret_d);
void tokenizer_decoder_free(struct tokenizer_decoder *d);
/*
 * Return the text that token @id adds: bytes that are valid until the next
 * call. An incomplete character at the end is held until its last byte arrives.
 * -EINVAL: there is no token @id.
 */
int tokenizer_decode(struct tokenizer_decoder *d, int32_t id,
		     const char **ret_text, size_t *ret_len);
/* Return the bytes that are still held. The decoder begins anew. */
void tokenizer_decode_end(struct tokenizer_decoder *d, const char **ret_text,
			  size_t *ret_len);

#endif
