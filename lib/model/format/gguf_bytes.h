/* SPDX-License-Identifier: MIT */
/*
 * The bytes of a GGUF header, in order. They are in the model's text, which
 * grows as more of the file is read, so places are kept as offsets.
 *
 * Every length is compared with the rest of the file before anything is read or
 * allocated. -ENOMEM comes without a sentence.
 */
#ifndef WEIR__GGUF_IN_H
#define WEIR__GGUF_IN_H

#include <endian.h>
#include <string.h>

#include "model/format/gguf.h"

#define WEIR__GGUF_STRING_MAX (1u << 30) /* bytes, as in the reference reader */
#define WEIR__GGUF_ARRAY_MAX (1u << 30)  /* items, likewise */

struct weir__gguf_in {
	const struct weir__gguf *g;
	struct weir_model *m;
	uint64_t base; /* where the file begins in m->text */
	uint64_t at;   /* the next byte, as an offset in the file */
	/* "tensor" or "metadata" of this name, in sentences; NULL: neither. */
	const char *kind;
	struct weir__value name;
};

/*
 * Return @err (-EBADMSG or -EOPNOTSUPP), with "file: byte N, in tensor 'x':
 * ...".
 */
int weir__gguf_fail(const struct weir__gguf_in *in, int err, const char *fmt,
		    ...) __attribute__((format(printf, 3, 4)));

/* Set @in->base, and make room for most headers. */
void weir__gguf_begin(struct weir__gguf_in *in);
/* The header has ended: forget what was read of the data section. */
void weir__gguf_end(struct weir__gguf_in *in);
/* Do the work of weir__gguf_need if the bytes have not been read. */
int weir__gguf_load(struct weir__gguf_in *in, uint64_t n);
/*
 * Read a string and its length. The string is moved down by a byte, over its
 * length, so that a NUL fits after it.
 */
int weir__gguf_string(struct weir__gguf_in *in, struct weir__value *ret_str);

/* Bytes of the file after the current one. */
static inline uint64_t weir__gguf_left(const struct weir__gguf_in *in)
{
	return in->g->file_bytes - in->at;
}

/* Make sure that the next @n bytes are in the text. */
static inline int weir__gguf_need(struct weir__gguf_in *in, uint64_t n)
{
	if (n <= in->m->text_len - in->base - in->at)
		return 0;
	return weir__gguf_load(in, n);
}

/*
 * Check that there is memory for the next @n bytes, which will be kept, so that
 * what is too much is refused before it is read. -ENOMEM, with m->held_refused.
 */
static inline int weir__gguf_expect(struct weir__gguf_in *in, uint64_t n)
{
	uint64_t have = in->m->text_len - in->base - in->at;
	uint64_t more = n > have ? n - have : 0;
	int r = weir__model_hold(in->m, more);

	weir__model_let_go(in->m, more);
	return r;
}

/* Read the next number; weir__gguf_need has made sure that it is there. */
static inline uint32_t weir__gguf_u32(struct weir__gguf_in *in)
{
	uint32_t v;

	memcpy(&v, in->m->text + in->base + in->at, sizeof(v));
	in->at += sizeof(v);
	return le32toh(v);
}

static inline uint64_t weir__gguf_u64(struct weir__gguf_in *in)
{
	uint64_t v;

	memcpy(&v, in->m->text + in->base + in->at, sizeof(v));
	in->at += sizeof(v);
	return le64toh(v);
}

static inline struct weir__str weir__gguf_str(const struct weir__gguf_in *in,
					      const struct weir__value *str)
{
	return (struct weir__str){ in->m->text + str->at, str->n };
}

/* Values of the metadata that the reader itself needs. */
struct weir__gguf_keys {
	uint32_t alignment; /* alignment of tensors in the data section */
	bool split;         /* there is a split.count */
	uint64_t split_no, split_count;
};

/* gguf_meta.c: read @n pairs. -EBADMSG. -EOPNOTSUPP. */
int weir__gguf_pairs(struct weir__gguf_in *in, struct weir__header *h,
		     uint64_t n, struct weir__gguf_keys *ret_keys);

/*
 * gguf_text.c: @r, the result of reading a part of the header. If it is a
 * failure and the bytes show that the file was treated as text, the sentence
 * says that instead.
 */
int weir__gguf_explain(const struct weir__gguf_in *in, int r);

#endif
