/* SPDX-License-Identifier: MIT */
/* What formats write for a token, and the bytes that it stands for. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "inside.h"
#include "utf8.h"

size_t piece_unmark(unsigned char *s, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		if (len - i >= 3 && !memcmp(s + i, "\xe2\x96\x81", 3)) {
			s[n++] = ' ';
			i += 2;
		} else {
			s[n++] = s[i];
		}
	}
	return n;
}

/*
 * Printable bytes of Latin-1 stand for themselves; the others, in order, are
 * U+0100 and the characters after it. -1: the character is none of these.
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

/* @to may be NULL, or @s. False: a character stands for no byte. */
static bool unmap(const unsigned char *s, size_t len, unsigned char *to,
		  size_t *ret_len)
{
	size_t n = 0;

	for (size_t i = 0; i < len;) {
		unsigned char c = s[i];
		int byte;

		if (c < 0x80) {
			byte = byte_of(c);
			i++;
		} else if (c < 0xc2 || c > 0xc5 || len - i < 2 ||
			   (s[i + 1] & 0xc0) != 0x80) {
			return false;
		} else {
			byte = byte_of((c & 0x1fu) << 6 | (s[i + 1] & 0x3fu));
			i += 2;
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
	size_t n;

	return unmap(s, *len, NULL, &n) && unmap(s, *len, s, len);
}

/* The bytes of a normal piece, or one that no text leads to. */
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
	if (kind == PIECE_NORMAL || kind == PIECE_UNUSED) {
		piece_normal(t, &piece, s);
	} else if (kind == PIECE_USER && !t->byte_level) {
		piece.len = (uint32_t)piece_unmark(s, len);
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

int merge_set(struct tokenizer *t, const char *file, uint32_t number,
	      unsigned char *left, size_t left_len, size_t gap,
	      size_t right_len)
{
	unsigned char *right = left + left_len + gap;
	int32_t l, r, id;
	bool valid = true;

	if (t->byte_level) {
		valid = piece_unmap(left, &left_len) &&
			piece_unmap(right, &right_len);
	} else {
		left_len = piece_unmark(left, left_len);
		right_len = piece_unmark(right, right_len);
	}
	memmove(left + left_len, right, right_len);
	l = vocab_find(&t->vocab, left, left_len);
	r = vocab_find(&t->vocab, left + left_len, right_len);
	id = vocab_find(&t->vocab, left, left_len + right_len);
	if (!valid || !left_len || !right_len || l < 0 || r < 0 || id < 0)
		return text_fail(-EBADMSG,
				 "%s: merge %u has a token that is not in the "
				 "vocabulary",
				 file, number);
	return merges_add(&t->merges, l, r, number, id);
}
