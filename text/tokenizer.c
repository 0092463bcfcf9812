/* SPDX-License-Identifier: MIT */
#include "tokenizer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer_internal.h"

struct tokenizer *tokenizer_alloc(void)
{
	struct tokenizer *t = calloc(1, sizeof(*t));

	if (t)
		t->bos = t->eos = t->unk = t->stand_in = -1;
	return t;
}

void tokenizer_free(struct tokenizer *t)
{
	if (!t)
		return;
	vocab_fini(&t->vocab);
	merges_fini(&t->merges);
	matcher_fini(&t->raw);
	matcher_fini(&t->normal);
	free(t->storage);
	free(t);
}

/* Then a word may not be divided where a space follows another character. */
static bool has_inner_space(const struct piece *piece)
{
	for (uint32_t i = 1; i < piece->len; i++)
		if (piece->s[i] == ' ' && piece->s[i - 1] != ' ')
			return true;
	return false;
}

static int check_id(const struct tokenizer *t, const char *file, int32_t id,
		    const char *what)
{
	if (id >= -1 && (id < 0 || (uint32_t)id < t->vocab.n))
		return 0;
	return text_fail(-EBADMSG,
			 "%s: the id of %s is %d, and there are %u "
			 "tokens",
			 file, what, id, t->vocab.n);
}

static int check_ids(const struct tokenizer *t, const char *file)
{
	int r = check_id(t, file, t->bos, "BOS");

	if (!r)
		r = check_id(t, file, t->eos, "EOS");
	if (!r)
		r = check_id(t, file, t->unk, "the unknown token");
	for (unsigned i = 0; !r && i < t->n_ends; i++)
		r = check_id(t, file, t->end[i], "a token that ends a text");
	if (r < 0)
		return r;
	if ((t->adds_bos && t->bos < 0) || (t->adds_eos && t->eos < 0))
		return text_fail(-EBADMSG,
				 "%s: %s is to be added to a text, "
				 "and there is none",
				 file, t->bos < 0 ? "BOS" : "EOS");
	return 0;
}

/* In some formats the ids come after the pieces. */
static void mark_ends(struct tokenizer *t)
{
	if (t->eos >= 0)
		piece_mark_end(&t->vocab.piece[t->eos]);
	for (unsigned i = 0; i < t->n_ends; i++)
		piece_mark_end(&t->vocab.piece[t->end[i]]);
}

/* A control token never comes from text, not even from unknown text. */
static bool may_stand_in(const struct tokenizer *t)
{
	const struct piece *piece;

	if (!t->writes_unk || t->unk < 0 || t->unk == t->bos ||
	    t->unk == t->eos)
		return false;
	piece = &t->vocab.piece[t->unk];
	return piece->kind != PIECE_CONTROL && !(piece->flags & PIECE_END);
}

int tokenizer_finish(struct tokenizer *t, const char *file)
{
	int r = check_ids(t, file);

	if (r < 0)
		return r;
	for (uint32_t id = 0; id < t->vocab.n; id++) {
		const struct piece *piece = &t->vocab.piece[id];

		if (piece->len > t->longest)
			t->longest = piece->len;
		if (!t->byte_level && !t->inner_space)
			t->inner_space = has_inner_space(piece);
	}
	mark_ends(t);
	if (may_stand_in(t))
		t->stand_in = t->unk;
	matcher_sort(&t->normal);
	if (t->longest_first)
		matcher_sort_longest(&t->raw);
	else
		matcher_sort(&t->raw);
	return 0;
}

void tokenizer_info(const struct tokenizer *t, struct tokenizer_info *ret_info)
{
	*ret_info = (struct tokenizer_info){
		.kind = t->byte_level       ? "byte-level BPE"
			: t->merges.buckets ? "BPE"
					    : "SentencePiece",
		.count = t->vocab.n,
		.bos = t->bos,
		.eos = t->eos,
		.unk = t->unk,
		.adds_bos = t->adds_bos,
		.adds_eos = t->adds_eos,
	};
}

int32_t tokenizer_find(const struct tokenizer *t, const char *text)
{
	const unsigned char *s = (const unsigned char *)text;
	size_t len = strlen(text);

	for (uint32_t id = 0; id < t->vocab.n; id++) {
		const struct piece *piece = &t->vocab.piece[id];

		if (piece->kind >= PIECE_UNKNOWN && piece->kind <= PIECE_USER &&
		    piece->len == len && !memcmp(piece->s, s, len))
			return (int32_t)id;
	}
	return vocab_find(&t->vocab, s, len);
}

bool tokenizer_is_end(const struct tokenizer *t, int32_t id)
{
	return id >= 0 && (uint32_t)id < t->vocab.n &&
	       t->vocab.piece[id].flags & PIECE_END;
}
