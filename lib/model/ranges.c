/* SPDX-License-Identifier: MIT */
/*
 * What data_offsets have to be: each tensor as long as its shape needs, and
 * all of them together the data section, from its first byte to its last,
 * without a hole and without an overlap.
 */
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"
#include "mem/dtype.h"
#include "model/safetensors.h"

typedef unsigned long long ull; /* for printf */

static const char *name(const struct weir_model *m,
			const struct weir__record *rec)
{
	return weir__quote(m->text + rec->name, rec->name_len);
}

/* Names were kept in the order of the header, so they break a tie. */
static int compare(const void *pa, const void *pb)
{
	const struct weir__record *a = pa, *b = pb;

	if (a->off != b->off)
		return a->off < b->off ? -1 : 1;
	if (a->bytes != b->bytes)
		return a->bytes < b->bytes ? -1 : 1;
	return a->name < b->name ? -1 : 1;
}

/* Writers sort: nearly always there is nothing to do, and this is false. */
static bool sort(struct weir__record *rec, size_t n)
{
	for (size_t i = 1; i < n; i++)
		if (compare(&rec[i - 1], &rec[i]) > 0) {
			qsort(rec, n, sizeof(*rec), compare);
			return true;
		}
	return false;
}

static unsigned element_bits(uint16_t dtype)
{
	const struct weir_dtype_info *info = weir__dtype(dtype);

	return info->bytes * 8 / info->block;
}

/*
 * Bits that a shape needs, multiplied in the order given: [0, 2^64-1, 2^64-1]
 * is empty, [2^64-1, 2^64-1, 0] is too large.
 */
static int shape_bits(const struct weir_model *m,
		      const struct weir__record *rec, uint64_t *ret_bits)
{
	uint64_t bits = 1;

	for (unsigned i = 0; i < rec->ndim; i++)
		if (weir__mul_over(bits, (uint64_t)m->dims[rec->shape + i],
				   &bits))
			return -EBADMSG;
	return weir__mul_over(bits, element_bits(rec->dtype), ret_bits)
		       ? -EBADMSG
		       : 0;
}

/*
 * A dimension of 2^63 or more can stand in the shape of an empty tensor only.
 * It becomes 2^63-1 there, and the tensor stays empty.
 */
static void clamp_shape(struct weir_model *m, const struct weir__record *rec)
{
	for (unsigned i = 0; i < rec->ndim; i++)
		if (m->dims[rec->shape + i] < 0)
			m->dims[rec->shape + i] = INT64_MAX;
}

static int check_size(struct weir_model *m, const struct weir__record *rec,
		      const char *file)
{
	uint64_t begin = rec->off, end = rec->bytes, bits;

	if (rec->ndim > WEIR_MAX_DIMS)
		return weir__fail(
			-EOPNOTSUPP,
			"%s: tensor '%s': %s%u dimensions, %u are supported",
			file, name(m, rec),
			rec->ndim == UINT16_MAX ? "at least " : "", rec->ndim,
			WEIR_MAX_DIMS);
	if (begin > end)
		return weir__fail(
			-EBADMSG,
			"%s: tensor '%s': data_offsets [%llu, %llu] run backwards",
			file, name(m, rec), (ull)begin, (ull)end);
	if (shape_bits(m, rec, &bits) < 0)
		return weir__fail(
			-EBADMSG,
			"%s: tensor '%s': its shape needs more than 2^64 - 1 bits, its data_offsets [%llu, %llu] hold %llu bytes",
			file, name(m, rec), (ull)begin, (ull)end,
			(ull)(end - begin));
	if (bits % 8)
		return weir__fail(
			-EBADMSG,
			"%s: tensor '%s': its shape needs %llu bits, which are not whole bytes",
			file, name(m, rec), (ull)bits);
	if (bits / 8 != end - begin)
		return weir__fail(
			-EBADMSG,
			"%s: tensor '%s': data_offsets [%llu, %llu] hold %llu bytes, its shape needs %llu",
			file, name(m, rec), (ull)begin, (ull)end,
			(ull)(end - begin), (ull)(bits / 8));
	return 0;
}

/* @at: where the tensor before @rec ended; -EBADMSG if @rec is elsewhere. */
static int check_place(const struct weir_model *m,
		       const struct weir__record *rec, uint64_t at,
		       const struct weir__st *st)
{
	if (rec->off != at)
		return weir__fail(
			-EBADMSG,
			"%s: tensor '%s': begins at byte %llu of the data, but what comes before it ends at %llu: %s",
			st->file, name(m, rec), (ull)rec->off, (ull)at,
			rec->off < at ? "they overlap" : "there is a hole");
	if (rec->bytes > st->data_bytes)
		return weir__fail(
			-EBADMSG,
			"%s: tensor '%s': ends at byte %llu of the data, but the file has only %llu of it: is it whole?",
			st->file, name(m, rec), (ull)rec->bytes,
			(ull)st->data_bytes);
	return 0;
}

int weir__ranges_check(struct weir_model *m, size_t first,
		       const struct weir__st *st)
{
	const uint64_t data_at = 8 + st->len;
	uint64_t at = 0;
	bool sorted = first < m->n_recs &&
		      sort(m->rec + first, m->n_recs - first);
	int r;

	for (size_t i = first; i < m->n_recs; i++) {
		struct weir__record *rec = &m->rec[i];

		r = check_size(m, rec, st->file);
		if (r >= 0)
			r = check_place(m, rec, at, st);
		if (r < 0)
			return r;
		clamp_shape(m, rec);
		at = rec->bytes;
		rec->bytes -= rec->off;
		rec->off += data_at;
	}
	if (at != st->data_bytes)
		return weir__fail(
			-EBADMSG,
			"%s: its tensors end at byte %llu of the data, but the file has %llu of it",
			st->file, (ull)at, (ull)st->data_bytes);
	return sorted;
}
