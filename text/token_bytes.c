/* SPDX-License-Identifier: MIT */
/* The bytes of tokens, from the way in which formats write them. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "tokenizer_internal.h"
#include "utf8.h"

#define MARK "\xe2\x96\x81" /* U+2581 */

size_t piece_unmark(unsigned char *s, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		if (len - i >= 3 && !memcmp(s + i, MARK, 3)) {
			s[n++] = ' ';
			i += 2;
		} else {
			s[n++] = s[i];
		}
	}
	return n;
}

/*
 * Return the byte that a character stands for, or -1. Printable bytes of
 * Latin-1 stand for themselves; the others, in order, are U+0100 and the
 * characters after it.
 */
static int byte_of(uint32_t c)
{
	if ((c >= 0x21 && c <= 0x7e) || (c >= 0xa1 && c <= 0xff && c != 0xad))
		return (int)c;
	if (c >= 0x100 && c <= 0x120)
		return (int)(c - 0x100);
	if (c >= 0x121 && c <= 0x142)
		return (int)(c - 0x121 + 0x7f);
	return c == 0x143 ? 0xad : -1;
}

/*
 * True if all characters stand for bytes. These are written to @to unless it is
 * NULL.
 */
static bool unmap(const unsigned char *s, size_t len, unsigned char *to,
		  size_t *ret_len)
{
	size_t n = 0;

	for (size_t i = 0; i < len;) {
		unsigned char c = s[i++];
		int byte = c;

		if (c < 0x21 || c > 0x7e) {
			if (c < 0xc2 || c > 0xc5 || i == len ||
			    (s[i] & 0xc0) != 0x80)
				return false;
			byte = byte_of((c & 0x1fu) << 6 | (s[i++] & 0x3fu));
		}
		if (byte < 0)
			return false;
		if (to)
			to[n] = (unsigned char)byte;
		n++;
	}
	*ret_len = n;
	return true;
}

bool piece_unmap(unsigned char *s, size_t *len)
{
	size_t plain = 0, rest;

	while (plain < *len && s[plain] > 0x20 && s[plain] < 0x7f)
		plain++;
	if (plain == *len)
		return true;
	if (!unmap(s + plain, *len - plain, NULL, &rest))
		return false;
	unmap(s + plain, *len - plain, s + plain, &rest);
	*len = plain + rest;
	return true;
}

/* Set the bytes of a normal piece, or of one that no text leads to. */
static void piece_normal(const struct tokenizer *t, struct piece *piece,
			 unsigned char *s)
{
	size_t len = piece->len;

	if (t->byte_level) {
		if (!piece_unmap(s, &len))
			piece->flags |= PIECE_HIDDEN;
	} else {
		if (memchr(s, ' ', len))
			piece->flags |= PIECE_HIDDEN;
		len = piece_unmark(s, len);
	}
	piece->len = (uint32_t)len;
}

/*
 * Tokens at which generation stops: models name only one, and models for chats
 * have others.
 */
static const char *const ends[] = {
	"<|eot_id|>",
	"<|im_end|>",
	"<|end|>",
	"<|return|>",
	"<|call|>",
	"<|flush|>",
	"<|calls|>",
	"<end_of_turn>",
	"<|endoftext|>",
	"</s>",
	"<|eom_id|>",
	"<EOT>",
	"_<EOT>",
	"[EOT]",
	"[EOS]",
	"<|end_of_text|>",
	"<end_of_utterance>",
	"<eos>",
	"<turn|>",
	"<|tool_response>",
	"<\xef\xbd\x9c"
	"end" MARK "of" MARK "sentence\xef\xbd\x9c>",
	"[e~[",
	/* Tokens that end a file, or one file of several. */
	"<|fim_pad|>",
	"<fim-pad>",
	"<fim_pad>",
	"<PAD>",
	"[PAD]",
	"<|fim_repo|>",
	"<|repo_name|>",
	"<fim-repo>",
	"<REPO>",
	"<reponame>",
	"<|file_sep|>",
};

static bool is_end_name(const unsigned char *s, size_t len)
{
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (len == strlen(ends[i]) && !memcmp(s, ends[i], len))
			return true;
	return false;
}

static bool is_end_id(const struct tokenizer *t, uint32_t id)
{
	if ((int32_t)id == t->eos)
		return true;
	for (unsigned i = 0; i < t->n_ends; i++)
		if ((int32_t)id == t->end[i])
			return true;
	return false;
}

void piece_mark_end(struct piece *piece)
{
	piece->flags |= PIECE_END;
	if (piece->kind == PIECE_USER)
		piece->kind = PIECE_CONTROL;
}

int piece_set(struct tokenizer *t, const char *file, uint32_t id,
	      unsigned char *s, size_t len, unsigned kind, float score)
{
	struct piece piece = { .s = s, .len = (uint32_t)len };
	int byte;

	if (len > INT32_MAX)
		return text_fail(-EBADMSG, "%s: token %u has %zu bytes", file,
				 id, len);
	if (isnan(score))
		return text_fail(-EBADMSG, "%s: token %u has no score", file,
				 id);
	piece.kind = (uint8_t)kind;
	piece.key = vocab_key(score);
	if (is_end_id(t, id) || is_end_name(s, len))
		piece_mark_end(&piece);
	if (kind == PIECE_NORMAL || kind == PIECE_UNUSED) {
		piece_normal(t, &piece, s);
	} else if (kind == PIECE_BYTE) {
		byte = vocab_byte_of(s, len);
		if (byte < 0)
			return text_fail(-EBADMSG,
					 "%s: token %u is of type byte, and "
					 "has another form than <0x0A>",
					 file, id);
		s[0] = (unsigned char)byte;
		piece.len = 1;
	}
	return vocab_set(&t->vocab, file, id, &piece);
}

/*
 * Return the piece that a merge makes. Most often it is the one after the piece
 * of the previous merge.
 */
static int32_t merged_piece(const struct merge_queue *q,
			    const struct queued *item)
{
	const struct vocab *v = &q->t->vocab;
	size_t len = item->left + item->right;
	uint32_t next = (uint32_t)(q->last + 1);

	if (next < v->n && v->piece[next].len == len &&
	    v->piece[next].kind == PIECE_NORMAL && !v->piece[next].flags &&
	    !memcmp(v->piece[next].s, item->s, len))
		return (int32_t)next;
	return vocab_find(v, item->s, len);
}

/* Look up the tokens of a merge. @merge->id is -1 if one is missing. */
static void queued_find(struct merge_queue *q, const struct queued *item,
			struct merge *ret_merge)
{
	const struct vocab *v = &q->t->vocab;
	int32_t left, right;

	left = vocab_find_hash(v, item->left_hash, item->s, item->left);
	right = vocab_find_hash(v, item->right_hash, item->s + item->left,
				item->right);
	q->last = merged_piece(q, item);
	ret_merge->id = left < 0 || right < 0 ? -1 : q->last;
	ret_merge->pair = merges_pair(&q->t->merges, left, right);
}

int merges_flush(struct merge_queue *q)
{
	struct merge merge[MERGES_AT_ONCE];
	uint32_t number = q->number - q->n;
	int r = 0;

	for (unsigned i = 0; i < q->n; i++)
		queued_find(q, &q->item[i], &merge[i]);
	for (unsigned i = 0; !r && i < q->n; i++) {
		merge[i].key = number + i;
		if (merge[i].id < 0)
			return text_fail(-EBADMSG,
					 "%s: merge %u has a token that is not "
					 "in the vocabulary",
					 q->file, number + i);
		r = merges_add(&q->t->merges, &merge[i]);
	}
	q->n = 0;
	return r;
}

int merge_set(struct merge_queue *q, unsigned char *left, size_t left_len,
	      size_t gap, size_t right_len)
{
	unsigned char *right = left + left_len + gap;
	struct queued *item = &q->item[q->n];
	bool valid = left_len && right_len;

	if (q->t->byte_level) {
		valid = valid && piece_unmap(left, &left_len) &&
			piece_unmap(right, &right_len);
	} else {
		left_len = piece_unmark(left, left_len);
		right_len = piece_unmark(right, right_len);
	}
	if (!valid)
		return text_fail(-EBADMSG, "%s: merge %u is not one of tokens",
				 q->file, q->number);
	memmove(left + left_len, right, right_len);
	item->s = left;
	item->left = left_len;
	item->right = right_len;
	item->left_hash = vocab_hash(&q->t->vocab, left, left_len);
	item->right_hash = vocab_hash(&q->t->vocab, left + left_len, right_len);
	q->n++;
	q->number++;
	return q->n < MERGES_AT_ONCE ? 0 : merges_flush(q);
}
