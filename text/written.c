/* SPDX-License-Identifier: MIT */
#include "written.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "utf8.h"

#define MARK "\xe2\x96\x81" /* U+2581 */
/* Pieces that are longer have no merges: finding these takes their square. */
#define MERGED_MAX 1024u

/* The character that stands for a byte: see byte_of() of token_bytes.c. */
static uint32_t letter_of(unsigned char byte)
{
	if ((byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad))
		return byte;
	if (byte <= 0x20)
		return 0x100u + byte;
	return byte == 0xad ? 0x143 : 0x121u + byte - 0x7f;
}

/* All of these characters have at most two bytes. */
static void put_letters(FILE *to, const struct piece *piece)
{
	for (uint32_t i = 0; i < piece->len; i++) {
		const uint32_t c = letter_of(piece->s[i]);

		if (c >= 0x80)
			fputc((int)(0xc0 | c >> 6), to);
		fputc((int)(c < 0x80 ? c : 0x80 | (c & 0x3f)), to);
	}
}

static void put_marks(FILE *to, const struct piece *piece)
{
	for (uint32_t i = 0; i < piece->len; i++) {
		if (piece->s[i] == ' ')
			fputs(MARK, to);
		else
			fputc(piece->s[i], to);
	}
}

static void put_piece(FILE *to, const struct tokenizer *t, uint32_t id)
{
	const struct piece *piece = &t->vocab.piece[id];

	if (id >= t->vocab.n || !piece->kind)
		fprintf(to, "[PAD%u]", id);
	else if (piece->kind == PIECE_BYTE)
		fprintf(to, "<0x%02X>", piece->s[0]);
	else if (piece->flags & PIECE_HIDDEN ||
		 (piece->kind != PIECE_NORMAL && piece->kind != PIECE_UNUSED))
		fwrite(piece->s, 1, piece->len, to);
	else if (t->byte_level)
		put_letters(to, piece);
	else
		put_marks(to, piece);
}

static int check_utf8(const struct written *w)
{
	for (uint32_t id = 0; id < w->n; id++) {
		const unsigned char *s = (const unsigned char *)w->text;
		size_t n;

		for (size_t i = w->at[id]; i < w->at[id + 1]; i += n) {
			n = utf8_begun(s + i, w->at[id + 1] - i);
			if (!n || n != utf8_bytes(s[i]))
				return text_fail(-EOPNOTSUPP,
						 "token %u is not UTF-8, so it "
						 "cannot be written",
						 id);
		}
	}
	return 0;
}

int written_make(const struct tokenizer *t, uint32_t n, struct written *ret)
{
	struct written w = { .n = n };
	size_t bytes = 0;
	FILE *to = open_memstream(&w.text, &bytes);
	int r = 0;

	w.at = calloc((size_t)n + 1, sizeof(*w.at));
	for (uint32_t id = 0; to && w.at && id < n; id++) {
		put_piece(to, t, id);
		w.at[id + 1] = (size_t)ftello(to);
	}
	if (!to || fclose(to) || !w.at)
		r = text_fail(-ENOMEM, "no memory for %u tokens", n);
	if (r == 0)
		r = check_utf8(&w);
	if (r < 0)
		written_free(&w);
	else
		*ret = w;
	return r;
}

void written_free(struct written *w)
{
	free(w->text);
	free(w->at);
}

static int by_key(const void *va, const void *vb)
{
	const struct written_merge *a = va, *b = vb;

	if (a->key != b->key)
		return a->key < b->key ? -1 : 1;
	if (a->id != b->id)
		return a->id < b->id ? -1 : 1;
	if (a->left != b->left)
		return a->left < b->left ? -1 : 1;
	return a->right < b->right ? -1 : a->right > b->right;
}

static bool is_normal(const struct tokenizer *t, int32_t id)
{
	return id >= 0 && t->vocab.piece[id].kind == PIECE_NORMAL;
}

/* Append the pairs of tokens that make a token, or only count them. */
static void put_pairs(const struct tokenizer *t, uint32_t id,
		      struct written_merge *merge, size_t *n)
{
	const struct piece *piece = &t->vocab.piece[id];

	if (!is_normal(t, (int32_t)id) || piece->flags & PIECE_HIDDEN ||
	    piece->len > MERGED_MAX)
		return;
	for (uint32_t i = 1; i < piece->len; i++) {
		struct written_merge m = { .id = (int32_t)id,
					   .key = piece->key };

		if ((piece->s[i] & 0xc0) == 0x80)
			continue;
		m.left = vocab_find(&t->vocab, piece->s, i);
		m.right = vocab_find(&t->vocab, piece->s + i, piece->len - i);
		if (!is_normal(t, m.left) || !is_normal(t, m.right))
			continue;
		if (merge)
			merge[*n] = m;
		++*n;
	}
}

static void put_listed(const struct tokenizer *t, struct written_merge *merge,
		       size_t *n)
{
	for (size_t i = 0; i < t->merges.buckets; i++) {
		const struct merge *m = &t->merges.bucket[i];

		if (m->pair == MERGES_NONE)
			continue;
		merge[(*n)++] = (struct written_merge){
			.left = (int32_t)(m->pair >> 32),
			.right = (int32_t)m->pair,
			.id = m->id,
			.key = m->key
		};
	}
}

int written_merges(const struct tokenizer *t, struct written_merge **ret_merge,
		   size_t *ret_n)
{
	size_t n = t->merges.n, used = 0;

	if (!t->merges.buckets)
		for (uint32_t id = 0; id < t->vocab.n; id++)
			put_pairs(t, id, NULL, &n);
	*ret_merge = calloc(n + 1, sizeof(**ret_merge));
	if (!*ret_merge)
		return text_fail(-ENOMEM, "no memory for %zu merges", n);
	if (t->merges.buckets)
		put_listed(t, *ret_merge, &used);
	for (uint32_t id = 0; !t->merges.buckets && id < t->vocab.n; id++)
		put_pairs(t, id, *ret_merge, &used);
	qsort(*ret_merge, used, sizeof(**ret_merge), by_key);
	*ret_n = used;
	return 0;
}
