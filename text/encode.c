/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "inside.h"
#include "utf8.h"

#define TEXT_MAX (1u << 30)
#define MARK "\xe2\x96\x81" /* U+2581, which means a space */

/* One call of tokenizer_encode(). */
struct encoding {
	const struct tokenizer *t;
	struct tokenizer_ids *ids;
	struct word word;
	const unsigned char *text, *end;
	unsigned char *room; /* for one part of the text, normalised */
	bool after_space;    /* trim: the last character was a space */
	bool after_unk;      /* the last token was the unknown one */
};

static int encode_id(struct encoding *e, int32_t id)
{
	struct tokenizer_ids *ids = e->ids;
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

/* Bytes for which there is no piece: their own tokens, or the unknown one. */
static int encode_unknown(struct encoding *e, const unsigned char *s,
			  size_t len)
{
	const struct tokenizer *t = e->t;
	bool fuse = t->fuse_unk && e->after_unk;
	size_t known = 0;
	int r = 0;

	while (known < len && t->vocab.byte_id[s[known]] >= 0)
		known++;
	if (known == len) {
		e->after_unk = false;
		for (size_t i = 0; !r && i < len; i++)
			r = encode_id(e, t->vocab.byte_id[s[i]]);
		return r;
	}
	if (t->unk < 0)
		return text_fail(-ENOENT,
				 "the vocabulary has no token for '%.*s' (%s"
				 "%02x) and none for unknown text",
				 t->byte_level ? 0 : (int)len, s,
				 t->byte_level ? "byte 0x" : "first byte 0x",
				 s[known]);
	e->after_unk = true;
	return fuse ? 0 : encode_id(e, t->unk);
}

static int encode_symbols(struct encoding *e)
{
	const struct tokenizer *t = e->t;
	const struct word *w = &e->word;
	int r = 0;

	for (int32_t i = 0; !r && i >= 0; i = w->symbol[i].after) {
		const unsigned char *s = w->s + w->symbol[i].at;
		size_t len = w->symbol[i].len;
		int32_t id = w->symbol[i].id;

		/* Merges by score do not need the tokens of characters. */
		if (id < 0 && !t->merges.bucket)
			id = vocab_find(&t->vocab, s, len);
		if (id < 0) {
			r = encode_unknown(e, s, len);
			continue;
		}
		e->after_unk = false;
		r = encode_id(e, id);
	}
	return r;
}

static void encode_characters(struct encoding *e, const unsigned char *s,
			      size_t len)
{
	const struct tokenizer *t = e->t;
	unsigned n;

	for (size_t i = 0; i < len; i += n) {
		n = utf8_bytes(s[i]);
		word_put(&e->word, i, n,
			 t->merges.bucket ? vocab_find(&t->vocab, s + i, n)
					  : -1);
	}
}

static int encode_word(struct encoding *e, const unsigned char *s,
		       const unsigned char *end)
{
	const struct tokenizer *t = e->t;
	size_t len = (size_t)(end - s);
	int32_t id = t->whole_words ? vocab_find(&t->vocab, s, len) : -1;
	int r;

	if (id >= 0) {
		e->after_unk = false;
		return encode_id(e, id);
	}
	r = word_begin(&e->word, s, len);
	if (r < 0)
		return r;
	if (t->byte_level)
		for (size_t i = 0; i < len; i++)
			word_put(&e->word, i, 1, t->vocab.byte_id[s[i]]);
	else
		encode_characters(e, s, len);
	word_merge(&e->word, &t->merges, &t->vocab);
	return encode_symbols(e);
}

static int encode_split(struct encoding *e, unsigned stage,
			const unsigned char *s, const unsigned char *end)
{
	const struct split *split = &e->t->split;
	int r = 0;

	if (stage == SPLIT_STAGES || !split->stage[stage])
		return encode_word(e, s, end);
	while (!r && s < end) {
		const unsigned char *next = split->stage[stage](s, end);

		r = encode_split(e, stage + 1, s, next);
		s = next;
	}
	return r;
}

/*
 * Words of a text without pre-tokenizer. No token has a space after another
 * character, if not inner_space: words cut there give the same tokens.
 */
static int encode_words(struct encoding *e, const unsigned char *s,
			const unsigned char *end)
{
	const struct tokenizer *t = e->t;
	int r = 0;

	while (!r && s < end) {
		const unsigned char *next = s + 1;

		while (next < end && !(*next == ' ' &&
				       (t->each_space ||
					(!t->inner_space && next[-1] != ' '))))
			next++;
		r = encode_word(e, s, next);
		s = next;
	}
	return r;
}

/* Copy a part of the text with its marks as spaces, without extra spaces. */
static unsigned char *encode_spaces(struct encoding *e, unsigned char *to,
				    const unsigned char *s,
				    const unsigned char *end)
{
	bool trim = e->t->trim;

	for (; s < end; s++) {
		if (*s == ' ') {
			if (!trim || !e->after_space)
				*to++ = ' ';
			e->after_space = true;
		} else if (end - s >= 3 && !memcmp(s, MARK, 3)) {
			*to++ = ' ';
			s += 2;
			e->after_space = false;
		} else {
			*to++ = *s;
			e->after_space = false;
		}
	}
	return to;
}

static bool begins_with_space(const struct tokenizer *t, const unsigned char *s,
			      const unsigned char *end)
{
	return *s == ' ' || (t->marks && end - s >= 3 && !memcmp(s, MARK, 3));
}

static bool wants_prefix(const struct encoding *e, const unsigned char *s,
			 const unsigned char *end)
{
	const struct tokenizer *t = e->t;

	if (t->prefix == PREFIX_NEVER ||
	    (t->prefix == PREFIX_START && s != e->text))
		return false;
	return !t->prefix_if_none || !begins_with_space(t, s, end);
}

/* Copy a part of the text as the words are cut from it. */
static unsigned char *encode_normal(struct encoding *e, const unsigned char *s,
				    const unsigned char *end, bool prefix,
				    unsigned char **ret_end)
{
	unsigned char *body = e->room + 1, *to;

	to = encode_spaces(e, body, s, end);
	if (e->t->trim)
		while (to > body && to[-1] == ' ')
			to--;
	*ret_end = to;
	if (!prefix || to == body)
		return body;
	*--body = ' ';
	return body;
}

/* Characters: spaces are normalised, then the text is cut at spaces. */
static int encode_part_spaces(struct encoding *e, const unsigned char *s,
			      const unsigned char *end)
{
	unsigned char *to;

	if (e->t->normal_first)
		return encode_words(e, s, end);
	s = encode_normal(e, s, end, wants_prefix(e, s, end), &to);
	return encode_words(e, s, to);
}

/* Bytes: the pre-tokenizer cuts the text. */
static int encode_part_bytes(struct encoding *e, const unsigned char *s,
			     const unsigned char *end)
{
	if (!wants_prefix(e, s, end))
		return encode_split(e, 0, s, end);
	e->room[0] = ' ';
	memcpy(e->room + 1, s, (size_t)(end - s));
	return encode_split(e, 0, e->room, e->room + 1 + (end - s));
}

/* Text between two tokens that were found in it. */
static int encode_part(struct encoding *e, const unsigned char *s,
		       const unsigned char *end)
{
	if (s == end)
		return 0;
	return e->t->byte_level ? encode_part_bytes(e, s, end)
				: encode_part_spaces(e, s, end);
}

static const unsigned char *strip_left(const unsigned char *s,
				       const unsigned char *end)
{
	while (s < end && (*s == ' ' || (*s >= '\t' && *s <= '\r')))
		s++;
	return s;
}

static const unsigned char *strip_right(const unsigned char *s,
					const unsigned char *end)
{
	while (s < end &&
	       (end[-1] == ' ' || (end[-1] >= '\t' && end[-1] <= '\r')))
		end--;
	return end;
}

/* A token that was found at @at, and the text before it. */
static int encode_found(struct encoding *e, const unsigned char *s,
			const unsigned char *at, int32_t id)
{
	const struct piece *piece = &e->t->vocab.piece[id];
	int r;

	if (piece->flags & PIECE_STRIP_LEFT)
		at = strip_right(s, at);
	r = encode_part(e, s, at);
	if (r < 0)
		return r;
	e->after_unk = false;
	return encode_id(e, id);
}

static int encode_parts(struct encoding *e, const struct matcher *m)
{
	const struct tokenizer *t = e->t;
	const unsigned char *s = e->text, *at;
	int32_t id;
	int r = 0;

	while (!r && (id = matcher_next(m, &t->vocab, s, e->end, &at)) >= 0) {
		r = encode_found(e, s, at, id);
		s = at + t->vocab.piece[id].len;
		if (t->vocab.piece[id].flags & PIECE_STRIP_RIGHT)
			s = strip_left(s, e->end);
	}
	return r ? r : encode_part(e, s, e->end);
}

/* SentencePiece looks for its user's tokens in the normalised text. */
static int encode_text(struct encoding *e, unsigned flags)
{
	const struct tokenizer *t = e->t;
	const struct matcher *m = flags & TOKENIZER_CONTROL ? &t->all
							    : &t->user;
	const unsigned char *at = NULL;
	unsigned char *end;
	int32_t id;

	if (t->normal_first && e->text < e->end) {
		id = matcher_next(m, &t->vocab, e->text, e->end, &at);
		e->text = encode_normal(e, e->text, e->end,
					t->prefix != PREFIX_NEVER &&
						(id < 0 || at != e->text ||
						 t->vocab.piece[id].kind ==
							 PIECE_USER),
					&end);
		e->end = end;
	}
	return encode_parts(e, m);
}

static int check_text(const unsigned char *s, size_t len)
{
	size_t at = 0;

	if (len > TEXT_MAX)
		return text_fail(-E2BIG, "the text has %zu bytes, at most %u",
				 len, TEXT_MAX);
	while (at < len) {
		unsigned n = utf8_begun(s + at, len - at);

		if (!n || n < utf8_bytes(s[at]))
			return text_fail(-EILSEQ,
					 "the text is not UTF-8 at byte %zu "
					 "(0x%02x)",
					 at, s[at]);
		at += n;
	}
	return 0;
}

static int encode_all(struct encoding *e, unsigned flags)
{
	const struct tokenizer *t = e->t;
	int r = 0;

	if (flags & TOKENIZER_ADD && t->adds_bos)
		r = encode_id(e, t->bos);
	if (!r)
		r = encode_text(e, flags);
	if (!r && flags & TOKENIZER_ADD && t->adds_eos)
		r = encode_id(e, t->eos);
	return r;
}

int tokenizer_encode(const struct tokenizer *t, const char *text, size_t len,
		     unsigned flags, struct tokenizer_ids *ids)
{
	struct encoding e = { .t = t, .ids = ids, .after_space = t->trim };
	size_t before = ids->n;
	int r;

	e.text = (const unsigned char *)text;
	e.end = e.text + len;
	r = check_text(e.text, len);
	if (r < 0)
		return r;
	e.room = malloc(len + 1);
	if (!e.room)
		return text_fail(-ENOMEM, "no memory for %zu bytes", len);
	r = encode_all(&e, flags);
	if (r < 0)
		ids->n = before;
	word_fini(&e.word);
	free(e.room);
	return r;
}
