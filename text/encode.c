/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "chars.h"
#include "tokenizer_internal.h"
#include "nfc.h"
#include "utf8.h"

#define TEXT_MAX (1u << 30)
#define MARK "\xe2\x96\x81" /* U+2581, which stands for a space */

_Static_assert(SPANS_MAX == TOKENIZER_PARTS_MAX, "a part is a span");

/*
 * The tokens of words: normalised text is divided into words, and these are
 * merged.
 */
struct word_encoder {
	const struct tokenizer *t;
	struct tokenizer_ids *ids;
	struct word word;
	bool after_unk; /* the last token was the unknown one */
};

static int token_add(struct word_encoder *w, int32_t id)
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

/*
 * Add the tokens of bytes without a piece: one for each byte, the unknown
 * token, or none.
 */
static int unknown_add(struct word_encoder *w, const unsigned char *s,
		       size_t len)
{
	const struct tokenizer *t = w->t;
	bool fuse = t->fuse_unk && w->after_unk;
	int r = 0;

	if (has_bytes(t, s, len)) {
		w->after_unk = false;
		for (size_t i = 0; !r && i < len; i++)
			r = token_add(w, t->vocab.byte_id[s[i]]);
		return r;
	}
	if (t->stand_in < 0)
		return 0;
	w->after_unk = true;
	return fuse ? 0 : token_add(w, t->stand_in);
}

static int symbols_add(struct word_encoder *w)
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
			r = unknown_add(w, s, len);
			continue;
		}
		w->after_unk = false;
		r = token_add(w, id);
	}
	return r;
}

/*
 * True if a character is left out before merges, as tokenizers does it: then
 * its neighbours may be merged.
 */
static bool is_left_out(const struct tokenizer *t, const unsigned char *s,
			size_t len)
{
	return t->leaves_first && t->stand_in < 0 && !has_bytes(t, s, len);
}

static void word_characters(struct word_encoder *w, const unsigned char *s,
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

static void word_bytes(struct word_encoder *w, const unsigned char *s,
		       size_t len)
{
	const struct tokenizer *t = w->t;

	for (size_t i = 0; i < len; i++) {
		int32_t id = t->vocab.byte_id[s[i]];

		if (id >= 0 || !is_left_out(t, s + i, 1))
			word_put(&w->word, i, 1, id);
	}
}

static int word_encode(struct word_encoder *w, const unsigned char *s,
		       const unsigned char *end)
{
	const struct tokenizer *t = w->t;
	size_t len = (size_t)(end - s);
	int32_t id = t->whole_words ? vocab_find(&t->vocab, s, len) : -1;
	int r;

	if (id >= 0) {
		w->after_unk = false;
		return token_add(w, id);
	}
	r = word_begin(&w->word, s, len);
	if (r < 0)
		return r;
	if (t->byte_level)
		word_bytes(w, s, len);
	else
		word_characters(w, s, len);
	if (!w->word.n)
		return 0;
	word_merge(&w->word, &t->merges, &t->vocab);
	return symbols_add(w);
}

static int words_encode_split(struct word_encoder *w, unsigned stage,
			      const unsigned char *s, const unsigned char *end)
{
	const struct split *split = &w->t->split;
	int r = 0;

	if (stage == SPLIT_STAGES || !split->stage[stage])
		return word_encode(w, s, end);
	while (!r && s < end) {
		const unsigned char *next = split->stage[stage](s, end);

		r = words_encode_split(w, stage + 1, s, next);
		s = next;
	}
	return r;
}

/*
 * Encode a text without pre-tokenizer, divided before spaces. Unless
 * inner_space is set no token has a space after another character, so that this
 * gives the same tokens.
 */
static int words_encode_at_spaces(struct word_encoder *w,
				  const unsigned char *s,
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
		r = word_encode(w, s, next);
		s = next;
	}
	return r;
}

static int words_encode(struct word_encoder *w, const unsigned char *s,
			const unsigned char *end)
{
	return w->t->byte_level ? words_encode_split(w, 0, s, end)
				: words_encode_at_spaces(w, s, end);
}

static int found_add(struct word_encoder *w, int32_t id)
{
	w->after_unk = false;
	return token_add(w, id);
}

/* One call of tokenizer_encode_parts(). */
struct encoding {
	const struct tokenizer *t;
	struct word_encoder words; /* appends the tokens */
	const unsigned char *text, *end;
	struct spans spans;    /* spans of the text */
	struct spans local;    /* spans of a part of it that is normalised */
	unsigned char *normal; /* room for such a part */
	unsigned char *nfc;    /* room for a span of it in form C of Unicode */
	unsigned char *room;   /* room for a piece of it, with its spaces */
	bool begun;            /* a piece or a token came before */
	bool after_space;      /* with trim: the last character was a space */
};

/* Copy text with spaces for its marks, without extra spaces. */
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

/*
 * True if a space is added before the piece of the text at @s, which is not
 * empty.
 */
static bool wants_prefix(const struct encoding *e, const unsigned char *s,
			 const unsigned char *end)
{
	const struct tokenizer *t = e->t;

	if (t->prefix == PREFIX_NEVER ||
	    (t->prefix == PREFIX_START && e->begun))
		return false;
	return !t->prefix_if_none || !begins_with_space(t, s, end);
}

/*
 * Encode a piece of the text: what is between two tokens that were found in it.
 */
static int encode_piece(struct encoding *e, const unsigned char *s,
			const unsigned char *end)
{
	const struct tokenizer *t = e->t;
	unsigned char *to = e->room;
	int r;

	if (s == end)
		return 0;
	if (!t->normal_prefix && wants_prefix(e, s, end))
		*to++ = ' ';
	if (!t->byte_level && !t->normal_marks) {
		end = encode_spaces(e, to, s, end);
		s = e->room;
	} else if (to != e->room) {
		memcpy(to, s, (size_t)(end - s));
		end = to + (end - s);
		s = e->room;
	}
	r = words_encode(&e->words, s, end);
	e->begun = true;
	return r;
}

/* Copy a span of the text as it is normalised. */
static int encode_span(struct encoding *e, const unsigned char *s,
		       const unsigned char *end, unsigned char **to)
{
	const struct tokenizer *t = e->t;
	size_t len = (size_t)(end - s);
	int r;

	if (t->nfc && nfc_needed(s, len)) {
		r = nfc_put(s, len, e->nfc, &len);
		if (r < 0)
			return r;
		s = e->nfc;
	}
	if (t->normal_marks) {
		*to = encode_spaces(e, *to, s, s + len);
		return 0;
	}
	memcpy(*to, s, len);
	*to += len;
	return 0;
}

/*
 * Normalise the spans of a part of the text; @e->local has their ends in the
 * copy.
 */
static int encode_spans(struct encoding *e, const unsigned char *s,
			const unsigned char *end, unsigned char **to)
{
	int r = 0;

	e->local.n = 0;
	for (size_t i = 0; !r && i < e->spans.n; i++) {
		const unsigned char *stop = e->spans.end[i];

		if (stop <= s || s == end)
			continue;
		if (stop > end)
			stop = end;
		r = encode_span(e, s, stop, to);
		e->local.end[e->local.n] = *to;
		e->local.control[e->local.n++] = e->spans.control[i];
		s = stop;
	}
	return r;
}

/* SentencePiece adds no space before a control token. */
static bool begins_with_control(const struct encoding *e,
				const unsigned char *s,
				const unsigned char *end)
{
	const struct tokenizer *t = e->t;
	const struct form *form =
		matcher_at(&t->normal, &t->vocab, &e->spans, s, end);

	return form && t->vocab.piece[form->id].kind != PIECE_USER;
}

static bool is_normalised(const struct tokenizer *t)
{
	return t->normal_marks || t->normal_prefix || t->nfc;
}

/* Normalise a part of the text, and set e->local to its spans. */
static int encode_normal(struct encoding *e, const unsigned char **s,
			 const unsigned char **end)
{
	const struct tokenizer *t = e->t;
	unsigned char *body = e->normal + 1, *to = body;
	bool prefix = t->normal_prefix && wants_prefix(e, *s, *end) &&
		      !(t->prefix == PREFIX_START &&
			begins_with_control(e, *s, *end));
	int r;

	if (!is_normalised(t)) {
		e->local = e->spans;
		return 0;
	}
	r = encode_spans(e, *s, *end, &to);
	if (t->trim)
		while (to > body && to[-1] == ' ')
			to--;
	if (prefix && to > body)
		*--body = ' ';
	*s = body;
	*end = to;
	return r;
}

/*
 * Return the length of the white space character at @s, or 0. A mark is none.
 */
static unsigned blank_at(const unsigned char *s, const unsigned char *end,
			 bool marked)
{
	uint32_t c;
	unsigned n;

	if (s == end || (marked && *s == ' '))
		return 0;
	n = utf8_get(s, &c);
	return chars_class(c) == CHAR_SPACE ? n : 0;
}

static const unsigned char *strip_left(const unsigned char *s,
				       const unsigned char *end, bool marked)
{
	unsigned n;

	while ((n = blank_at(s, end, marked)))
		s += n;
	return s;
}

static const unsigned char *strip_right(const unsigned char *s,
					const unsigned char *end, bool marked)
{
	while (s < end) {
		const unsigned char *last = end - 1;

		while (last > s && (*last & 0xc0) == 0x80)
			last--;
		if (!blank_at(last, end, marked))
			break;
		end = last;
	}
	return end;
}

static int encode_found(struct encoding *e, uint32_t id)
{
	e->begun = true;
	return found_add(&e->words, (int32_t)id);
}

/*
 * Find the tokens of a matcher in a text, and call @rest for the parts between
 * them. @marked: spaces are marks already, which no token strips.
 */
static int encode_around(struct encoding *e, const struct matcher *m,
			 const struct spans *spans, const unsigned char *s,
			 const unsigned char *end, bool marked,
			 int (*rest)(struct encoding *e, const unsigned char *s,
				     const unsigned char *end))
{
	const struct vocab *v = &e->t->vocab;
	const unsigned char *at;
	const struct form *form;
	int r = 0;

	while (!r && (form = matcher_next(m, v, spans, s, end, &at))) {
		r = rest(e, s,
			 form->strip_left ? strip_right(s, at, marked) : at);
		if (!r)
			r = encode_found(e, form->id);
		s = at + form->len;
		if (form->strip_right)
			s = strip_left(s, end, marked);
	}
	return r ? r : rest(e, s, end);
}

/* Encode a part of the text between tokens that were found in it as it is. */
static int encode_part(struct encoding *e, const unsigned char *s,
		       const unsigned char *end)
{
	const struct tokenizer *t = e->t;
	int r;

	if (s == end)
		return 0;
	r = encode_normal(e, &s, &end);
	return r ? r
		 : encode_around(e, &t->normal, &e->local, s, end,
				 t->normal_marks, encode_piece);
}

/* A token that was found in the text. */
struct match {
	const unsigned char *at;
	const struct form *form;
};

struct matches {
	struct match *match;
	size_t n, room;
	bool *taken; /* true for the bytes of the text that are in a match */
};

static int match_add(struct matches *m, const unsigned char *at,
		     const struct form *form)
{
	size_t room = m->room ? m->room * 2 : 64;
	struct match *more;

	if (m->n == m->room) {
		more = realloc(m->match, room * sizeof(*more));
		if (!more)
			return text_fail(-ENOMEM, "no memory for %zu tokens",
					 room);
		m->match = more;
		m->room = room;
	}
	m->match[m->n++] = (struct match){ at, form };
	return 0;
}

/*
 * Find a token wherever the text is not in a match yet. Earlier matches are at
 * least as long, so one that overlaps a new one has its first or its last byte.
 */
static int match_form(struct encoding *e, struct matches *m,
		      const struct form *form)
{
	const unsigned char *s = e->text;
	int r = 0;

	while (!r &&
	       (s = matcher_find(form, &e->t->vocab, &e->spans, s, e->end))) {
		bool *taken = m->taken + (s - e->text);

		if (taken[0] || taken[form->len - 1]) {
			s++;
			continue;
		}
		memset(taken, true, form->len);
		r = match_add(m, s, form);
		s += form->len;
	}
	return r;
}

static int match_compare(const void *x, const void *y)
{
	const struct match *a = x, *b = y;

	return a->at < b->at ? -1 : a->at > b->at;
}

/* Find the longest token first, wherever it is, as llama.cpp does. */
static int encode_longest(struct encoding *e)
{
	const struct matcher *raw = &e->t->raw;
	struct matches m = { .n = 0 };
	const unsigned char *s = e->text;
	int r = 0;

	m.taken = calloc((size_t)(e->end - e->text) + 1, sizeof(*m.taken));
	if (!m.taken)
		return text_fail(-ENOMEM, "no memory for a text");
	for (size_t i = 0; !r && i < raw->n; i++)
		r = match_form(e, &m, &raw->form[i]);
	free(m.taken);
	if (!r && m.n)
		qsort(m.match, m.n, sizeof(*m.match), match_compare);
	for (size_t i = 0; !r && i < m.n; i++) {
		r = encode_part(e, s, m.match[i].at);
		if (!r)
			r = encode_found(e, m.match[i].form->id);
		s = m.match[i].at + m.match[i].form->len;
	}
	free(m.match);
	return r ? r : encode_part(e, s, e->end);
}

static int encode_text(struct encoding *e)
{
	const struct tokenizer *t = e->t;

	if (t->longest_first)
		return encode_longest(e);
	return encode_around(e, &t->raw, &e->spans, e->text, e->end, false,
			     encode_part);
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
		r = found_add(&e->words, t->bos);
	if (!r)
		r = encode_text(e);
	if (!r && flags & TOKENIZER_ADD && t->adds_eos)
		r = found_add(&e->words, t->eos);
	return r;
}

/* Allocate the memory for @len bytes, and encode. */
static int encode_with_room(struct encoding *e, size_t len, unsigned flags)
{
	const struct tokenizer *t = e->t;
	size_t most = 1 + (t->nfc ? NFC_GROWTH * len : len);
	int r;

	e->room = malloc(most);
	e->normal = is_normalised(t) ? malloc(most) : NULL;
	e->nfc = t->nfc ? malloc(most) : NULL;
	r = e->room && (e->normal || !is_normalised(t)) && (e->nfc || !t->nfc)
		    ? encode_all(e, flags)
		    : text_fail(-ENOMEM, "no memory for %zu bytes", len);
	word_fini(&e->words.word);
	free(e->room);
	free(e->normal);
	free(e->nfc);
	return r;
}

int tokenizer_encode(const struct tokenizer *t, const char *text, size_t len,
		     unsigned flags, struct tokenizer_ids *ids)
{
	struct encoding e = { .t = t,
			      .words = { .t = t, .ids = ids },
			      .after_space = t->trim };
	size_t before = ids->n;
	int r;

	e.text = (const unsigned char *)text;
	e.end = e.text + len;
	e.spans = (struct spans){ .n = 1,
				  .end = { e.end },
				  .control = { flags & TOKENIZER_CONTROL } };
	r = check_text(e.text, len);
	if (!r)
		r = encode_with_room(&e, len, flags);
	if (r < 0)
		ids->n = before;
	return r;
}

static int check_parts(const struct tokenizer_part *part, size_t n,
		       size_t *ret_len)
{
	size_t len = 0;
	int r = 0;

	if (n > TOKENIZER_PARTS_MAX)
		return text_fail(-EINVAL, "the text has %zu parts, at most %u",
				 n, TOKENIZER_PARTS_MAX);
	for (size_t i = 0; !r && i < n; i++) {
		r = check_text((const unsigned char *)part[i].text,
			       part[i].len);
		len += part[i].len;
	}
	if (!r && len > TEXT_MAX)
		r = text_fail(-E2BIG, "the text has %zu bytes, at most %u", len,
			      TEXT_MAX);
	*ret_len = len;
	return r;
}

int tokenizer_encode_parts(const struct tokenizer *t,
			   const struct tokenizer_part *part, size_t n,
			   unsigned flags, struct tokenizer_ids *ids)
{
	struct encoding e = { .t = t,
			      .words = { .t = t, .ids = ids },
			      .after_space = t->trim };
	size_t before = ids->n, len = 0;
	unsigned char *text, *to;
	int r = check_parts(part, n, &len);

	if (r < 0)
		return r;
	text = to = malloc(len + 1);
	if (!text)
		return text_fail(-ENOMEM, "no memory for %zu bytes", len);
	for (size_t i = 0; i < n; i++) {
		memcpy(to, part[i].text, part[i].len);
		to += part[i].len;
		e.spans.end[i] = to;
		e.spans.control[i] = part[i].control;
	}
	e.spans.n = n;
	e.text = text;
	e.end = to;
	r = encode_with_room(&e, len, flags);
	if (r < 0)
		ids->n = before;
	free(text);
	return r;
}
