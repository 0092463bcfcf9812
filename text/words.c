/* SPDX-License-Identifier: MIT */
#include "words.h"

#include <errno.h>
#include <stdlib.h>

#include "inside.h"
#include "utf8.h"

static int words_add(struct words *w, int32_t id)
{
	struct tokenizer_ids *ids = w->ids;
	size_t room = ids->room ? ids->room * 2 : 64;
	int32_t *more;

	if (ids->n == ids->room) {
		more = realloc(ids->id, room * sizeof(*more));
		if (!more)
			return text_fail(-ENOMEM, "no memory for %zu tokens",
					 room);
		ids->id = more;
		ids->room = room;
	}
	ids->id[ids->n++] = id;
	return 0;
}

static bool has_bytes(const struct tokenizer *t, const unsigned char *s,
		      size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (t->vocab.byte_id[s[i]] < 0)
			return false;
	return true;
}

/* Bytes for which there is no piece: their own tokens, the unknown one, or none. */
static int words_unknown(struct words *w, const unsigned char *s, size_t len)
{
	const struct tokenizer *t = w->t;
	bool fuse = t->fuse_unk && w->after_unk;
	int r = 0;

	if (has_bytes(t, s, len)) {
		w->after_unk = false;
		for (size_t i = 0; !r && i < len; i++)
			r = words_add(w, t->vocab.byte_id[s[i]]);
		return r;
	}
	if (t->stand_in < 0)
		return 0;
	w->after_unk = true;
	return fuse ? 0 : words_add(w, t->stand_in);
}

static int words_symbols(struct words *w)
{
	const struct tokenizer *t = w->t;
	const struct word *word = &w->word;
	int r = 0;

	for (int32_t i = 0; !r && i >= 0; i = word->symbol[i].after) {
		const unsigned char *s = word->s + word->symbol[i].at;
		size_t len = word->symbol[i].len;
		int32_t id = word->symbol[i].id;

		/* Merges by score do not need the tokens of characters. */
		if (id < 0 && !t->merges.bucket)
			id = vocab_find(&t->vocab, s, len);
		if (id < 0) {
			r = words_unknown(w, s, len);
			continue;
		}
		w->after_unk = false;
		r = words_add(w, id);
	}
	return r;
}

/* As tokenizers does it: what is around it may be merged then. */
static bool is_left_out(const struct tokenizer *t, const unsigned char *s,
			size_t len)
{
	return t->leaves_first && t->stand_in < 0 && !has_bytes(t, s, len);
}

static void words_characters(struct words *w, const unsigned char *s,
			     size_t len)
{
	const struct tokenizer *t = w->t;
	unsigned n;

	for (size_t i = 0; i < len; i += n) {
		int32_t id = -1;

		n = utf8_bytes(s[i]);
		if (t->merges.bucket)
			id = vocab_find(&t->vocab, s + i, n);
		if (id >= 0 || !is_left_out(t, s + i, n))
			word_put(&w->word, i, n, id);
	}
}

static void words_bytes(struct words *w, const unsigned char *s, size_t len)
{
	const struct tokenizer *t = w->t;

	for (size_t i = 0; i < len; i++) {
		int32_t id = t->vocab.byte_id[s[i]];

		if (id >= 0 || !is_left_out(t, s + i, 1))
			word_put(&w->word, i, 1, id);
	}
}

static int words_word(struct words *w, const unsigned char *s,
		      const unsigned char *end)
{
	const struct tokenizer *t = w->t;
	size_t len = (size_t)(end - s);
	int32_t id = t->whole_words ? vocab_find(&t->vocab, s, len) : -1;
	int r;

	if (id >= 0) {
		w->after_unk = false;
		return words_add(w, id);
	}
	r = word_begin(&w->word, s, len);
	if (r < 0)
		return r;
	if (t->byte_level)
		words_bytes(w, s, len);
	else
		words_characters(w, s, len);
	if (!w->word.n)
		return 0;
	word_merge(&w->word, &t->merges, &t->vocab);
	return words_symbols(w);
}

static int words_split(struct words *w, unsigned stage, const unsigned char *s,
		       const unsigned char *end)
{
	const struct split *split = &w->t->split;
	int r = 0;

	if (stage == SPLIT_STAGES || !split->stage[stage])
		return words_word(w, s, end);
	while (!r && s < end) {
		const unsigned char *next = split->stage[stage](s, end);

		r = words_split(w, stage + 1, s, next);
		s = next;
	}
	return r;
}

/*
 * Words of a text without pre-tokenizer. No token has a space after another
 * character, if not inner_space: words cut there give the same tokens.
 */
static int words_cut(struct words *w, const unsigned char *s,
		     const unsigned char *end)
{
	const struct tokenizer *t = w->t;
	int r = 0;

	while (!r && s < end) {
		const unsigned char *next = s + 1;

		while (next < end && !(*next == ' ' &&
				       (t->each_space ||
					(!t->inner_space && next[-1] != ' '))))
			next++;
		r = words_word(w, s, next);
		s = next;
	}
	return r;
}

int words_encode(struct words *w, const unsigned char *s,
		 const unsigned char *end)
{
	return w->t->byte_level ? words_split(w, 0, s, end)
				: words_cut(w, s, end);
}

int words_found(struct words *w, int32_t id)
{
	w->after_unk = false;
	return words_add(w, id);
}
