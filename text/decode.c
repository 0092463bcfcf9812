/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer_internal.h"
#include "utf8.h"

struct tokenizer_decoder {
	const struct tokenizer *t;
	unsigned flags;
	bool begun;   /* true when the first space is removed */
	size_t given; /* bytes of the last call */
	size_t n;     /* bytes that are held after them */
	unsigned char
		text[]; /* room for a held character and the longest piece */
};

static void decoder_begin(struct tokenizer_decoder *d)
{
	/*
	 * In byte-level BPE a first space may belong to the text: it is kept.
	 */
	d->begun = d->flags & TOKENIZER_CONTINUE || d->t->byte_level ||
		   d->t->prefix == PREFIX_NEVER;
}

int tokenizer_decoder_new(const struct tokenizer *t, unsigned flags,
			  struct tokenizer_decoder **ret_d)
{
	struct tokenizer_decoder *d = calloc(1, sizeof(*d) + t->longest + 4u);

	if (!d)
		return text_fail(-ENOMEM, "no memory for a decoder");
	d->t = t;
	d->flags = flags;
	decoder_begin(d);
	*ret_d = d;
	return 0;
}

void tokenizer_decoder_free(struct tokenizer_decoder *d)
{
	free(d);
}

/* Return the length of an incomplete character at the end. */
static size_t incomplete(const unsigned char *s, size_t n)
{
	for (size_t back = 1; back <= 3 && back <= n; back++) {
		unsigned char c = s[n - back];

		if ((c & 0xc0) == 0x80)
			continue;
		return utf8_bytes(c) > back &&
				       utf8_begun(s + n - back, back) == back
			       ? back
			       : 0;
	}
	return 0;
}

static bool is_shown(const struct tokenizer_decoder *d,
		     const struct piece *piece)
{
	if (piece->kind != PIECE_CONTROL && piece->kind != PIECE_UNKNOWN)
		return true;
	return d->flags & TOKENIZER_CONTROL;
}

static void decoder_append(struct tokenizer_decoder *d,
			   const struct piece *piece)
{
	unsigned char *to = d->text + d->n;
	size_t len = piece->len;

	memcpy(to, piece->s, len);
	/*
	 * A user's token is found in texts by its bytes, so these have marks.
	 */
	if (piece->kind == PIECE_USER && !d->t->byte_level)
		len = piece_unmark(to, len);
	if (!d->begun && len && piece->kind != PIECE_CONTROL) {
		d->begun = true;
		if (to[0] == ' ')
			memmove(to, to + 1, --len);
	}
	d->n += len;
}

int tokenizer_decode(struct tokenizer_decoder *d, int32_t id,
		     const char **ret_text, size_t *ret_len)
{
	const struct tokenizer *t = d->t;

	if (id < 0 || (uint32_t)id >= t->vocab.n || !t->vocab.piece[id].kind)
		return text_fail(-EINVAL, "there is no token %d: there are %u",
				 id, t->vocab.n);
	d->n -= d->given;
	memmove(d->text, d->text + d->given, d->n);
	if (is_shown(d, &t->vocab.piece[id]))
		decoder_append(d, &t->vocab.piece[id]);
	d->given = d->n - incomplete(d->text, d->n);
	*ret_text = (const char *)d->text;
	*ret_len = d->given;
	return 0;
}

void tokenizer_decode_end(struct tokenizer_decoder *d, const char **ret_text,
			  size_t *ret_len)
{
	*ret_text = (const char *)d->text + d->given;
	*ret_len = d->n - d->given;
	d->n = d->given = 0;
	decoder_begin(d);
}
