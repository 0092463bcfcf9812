/* SPDX-License-Identifier: MIT */
#include "tokenizer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "inside.h"

struct tokenizer *tokenizer_alloc(void)
{
	struct tokenizer *t = calloc(1, sizeof(*t));

	if (t)
		t->bos = t->eos = t->unk = t->eot = t->eom = -1;
	return t;
}

void tokenizer_free(struct tokenizer *t)
{
	if (!t)
		return;
	vocab_fini(&t->vocab);
	merges_fini(&t->merges);
	matcher_fini(&t->user);
	matcher_fini(&t->all);
	free(t->storage);
	free(t);
}

/* A word may then not be cut where a space follows another character. */
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
	if (!r)
		r = check_id(t, file, t->eot, "EOT");
	if (!r)
		r = check_id(t, file, t->eom, "EOM");
	if (r < 0)
		return r;
	if ((t->adds_bos && t->bos < 0) || (t->adds_eos && t->eos < 0))
		return text_fail(-EBADMSG,
				 "%s: %s is to be added to a text, "
				 "and there is none",
				 file, t->bos < 0 ? "BOS" : "EOS");
	return 0;
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
	r = matcher_init(&t->user, &t->vocab, BIT(PIECE_USER));
	if (r < 0)
		return r;
	return matcher_init(&t->all, &t->vocab,
			    BIT(PIECE_USER) | BIT(PIECE_CONTROL) |
				    BIT(PIECE_UNKNOWN));
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
	const unsigned char *s = (const unsigned char *)text, *at;
	size_t len = strlen(text);
	int32_t id = matcher_next(&t->all, &t->vocab, s, s + len, &at);

	if (id >= 0 && at == s && t->vocab.piece[id].len == len)
		return id;
	return vocab_find(&t->vocab, s, len);
}

/* Models name only one end; those of chats have others. */
static const char *const ends[] = {
	"<|eot_id|>",    "<|eom_id|>",         "<|im_end|>", "<|end|>",
	"<end_of_turn>", "<|endoftext|>",      "</s>",       "<|end_of_text|>",
	"<eos>",         "<end_of_utterance>", "<|return|>", "<|call|>",
};

bool tokenizer_is_end(const struct tokenizer *t, int32_t id)
{
	const struct piece *piece;

	if (id < 0 || (uint32_t)id >= t->vocab.n)
		return false;
	if (id == t->eos || id == t->eot || id == t->eom)
		return true;
	piece = &t->vocab.piece[id];
	if (piece->kind != PIECE_CONTROL)
		return false;
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (piece->len == strlen(ends[i]) &&
		    !memcmp(piece->s, ends[i], piece->len))
			return true;
	return false;
}
