/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "chars.h"
#include "inside.h"
#include "nfc.h"
#include "utf8.h"
#include "words.h"

#define TEXT_MAX (1u << 30)
#define MARK "\xe2\x96\x81" /* U+2581, which means a space */

_Static_assert(SPANS_MAX == TOKENIZER_PARTS_MAX, "a part is a span");

/* One call of tokenizer_encode_parts(). */
struct encoding {
	const struct tokenizer *t;
	struct words words; /* appends the tokens */
	const unsigned char *text, *end;
	struct spans spans;    /* of the text */
	struct spans local;    /* of a part of it that is normalised */
	unsigned char *normal; /* room for such a part */
	unsigned char *nfc;    /* room for a span of it in form C of Unicode */
	unsigned char *room;   /* room for a piece of it, with its spaces */
	bool begun;            /* a piece or a token came before */
	bool after_space;      /* trim: the last character was a space */
};

/* Copy text with its marks as spaces, without extra spaces. */
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

/* A piece of the text that begins at @s, and is not empty. */
static bool wants_prefix(const struct encoding *e, const unsigned char *s,
			 const unsigned char *end)
{
	const struct tokenizer *t = e->t;

	if (t->prefix == PREFIX_NEVER ||
	    (t->prefix == PREFIX_START && e->begun))
		return false;
	return !t->prefix_if_none || !begins_with_space(t, s, end);
}

/* The pieces of a text are what is between the tokens that are found in it. */
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

/* Copy the spans of a part of the text; they are those of the copy then. */
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

/* Normalise a part of the text. Its spans are in e->local then. */
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

/* How many bytes of white space begin at @s. A mark is none. */
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
	return words_found(&e->words, (int32_t)id);
}

/*
 * Encode text with the tokens of a matcher: @rest is called for what is between
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

/* A part of the text, between tokens that were found in it as it is. */
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

/* A token in the text. */
struct match {
	const unsigned char *at;
	const struct form *form;
};

struct matches {
	struct match *match;
	size_t n, room;
	bool *taken; /* the bytes of the text that are in a match */
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
 * Find a token wherever the text is not taken. What is taken is at least as long,
 * and so has the first or the last byte of a match that overlaps it.
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

/* As llama.cpp does it: the longest token counts, wherever it is. */
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
		r = words_found(&e->words, t->bos);
	if (!r)
		r = encode_text(e);
	if (!r && flags & TOKENIZER_ADD && t->adds_eos)
		r = words_found(&e->words, t->eos);
	return r;
}

/* Allocate what is needed for @len bytes, and encode. */
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
