/* SPDX-License-Identifier: MIT */
/* Appending the tensors and metadata of a header to a model. */
#include <stdlib.h>

#include "core/array.h"
#include "core/error.h"
#include "core/util.h"
#include "mem/dtype.h"
#include "model/format/format.h"

int weir__header_begin(struct weir__header *h, struct weir_model *m,
		       size_t n_names)
{
	*h = (struct weir__header){
		.m = m,
		.first = m->n_recs,
		.first_meta = m->n_meta,
	};
	m->n_headers++;
	return weir__names_init(&h->names, n_names, m, weir__record_str);
}

int weir__record_set_shape(struct weir_model *m, const uint64_t *dims,
			   struct weir__record *rec)
{
	size_t n = rec->ndim < WEIR_MAX_DIMS ? rec->ndim : WEIR_MAX_DIMS;
	int64_t *all;

	if (m->n_dims > UINT32_MAX - WEIR_MAX_DIMS)
		return weir__fail(-EOPNOTSUPP,
				  "a model of more than %u dimensions",
				  UINT32_MAX - WEIR_MAX_DIMS);
	all = weir__grow(m->dims, &m->cap_dims, m->n_dims + n, sizeof(*all));
	if (!all)
		return -ENOMEM;
	m->dims = all;
	rec->shape = (uint32_t)m->n_dims;
	for (size_t i = 0; i < n; i++)
		all[m->n_dims++] = (int64_t)dims[i];
	return 0;
}

int weir__header_add(struct weir__header *h, const struct weir__str *name,
		     uint32_t hash, const uint64_t *dims,
		     struct weir__record *rec)
{
	struct weir_model *m = h->m;
	uint32_t number = (uint32_t)m->n_recs;
	struct weir__record *all;
	int there;
	int r = weir__model_hold(m, sizeof(*all) + WEIR__NAME_BYTES +
					    rec->ndim * sizeof(*dims));

	if (r < 0)
		return r;

	if (m->n_recs >= UINT32_MAX - 1)
		return weir__fail(-EOPNOTSUPP,
				  "a model of more than %u tensors",
				  UINT32_MAX - 1);
	all = weir__grow(m->rec, &m->cap_recs, m->n_recs, sizeof(*all));
	if (!all)
		return -ENOMEM;
	m->rec = all;
	r = weir__record_set_shape(m, dims, rec);
	if (r < 0)
		return r;
	there = weir__names_put(&h->names, name, hash, number, &number);
	if (there > 0)
		rec->name = all[number].name;
	else if (there == 0)
		r = weir__text_add(m, name, &rec->name);
	if (there < 0 || r < 0)
		return there < 0 ? there : r;
	rec->name_len = (uint32_t)name->len;
	all[number] = *rec;
	m->n_recs += !there;
	return there;
}

int weir__header_meta(struct weir__header *h, const struct weir__str *key,
		      struct weir__value **ret_value)
{
	struct weir__pair *pair;
	uint32_t number;
	int r = weir__meta_add(h->m, key, &number);

	if (r < 0)
		return r;
	pair = &h->m->meta[number];
	r = pair->header == h->m->n_headers;
	pair->header = h->m->n_headers;
	*ret_value = number < h->first_meta ? NULL : &pair->value;
	return r;
}

/*
 * The places of tensors: each is as long as its shape needs, begins where the
 * rules of its format allow, and ends within the file; no two share a byte.
 */

typedef unsigned long long ull; /* the type that printf writes */

static const char *name(const struct weir_model *m,
			const struct weir__record *rec)
{
	return weir__quote(m->text + rec->name, rec->name_len);
}

/* Names were added in the order of the header, so they break a tie. */
static int compare(const void *pa, const void *pb)
{
	const struct weir__record *a = pa, *b = pb;

	if (a->off != b->off)
		return a->off < b->off ? -1 : 1;
	if (a->bytes != b->bytes)
		return a->bytes < b->bytes ? -1 : 1;
	return a->name < b->name ? -1 : 1;
}

/*
 * Sort the records by offset. Returns true if the order has changed, which is
 * rare, since most writers sort.
 */
static bool sort(struct weir__record *rec, size_t n)
{
	for (size_t i = 1; i < n; i++)
		if (compare(&rec[i - 1], &rec[i]) > 0) {
			qsort(rec, n, sizeof(*rec), compare);
			return true;
		}
	return false;
}

bool weir__elements_over(const int64_t *shape, unsigned ndim, uint64_t *ret_n)
{
	*ret_n = 1;
	for (unsigned i = 0; i < ndim; i++)
		if (weir__mul_over(*ret_n, (uint64_t)shape[i], ret_n))
			return true;
	return false;
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

static int check_size(const struct weir_model *m,
		      const struct weir__record *rec,
		      const struct weir__ranges *ranges)
{
	const struct weir_dtype_info *info = weir__dtype(rec->dtype);
	uint64_t begin = rec->off, end = rec->bytes, n, bits;
	bool over;

	if (rec->ndim > WEIR_MAX_DIMS)
		return weir__fail(
			-EOPNOTSUPP,
			"%s: tensor '%s': %s%u dimensions, %u are supported",
			ranges->file, name(m, rec),
			rec->ndim == UINT16_MAX ? "at least " : "", rec->ndim,
			WEIR_MAX_DIMS);
	if (begin > end)
		return weir__fail(
			-EBADMSG,
			"%s: tensor '%s': %s [%llu, %llu] run backwards",
			ranges->file, name(m, rec), ranges->field, (ull)begin,
			(ull)end);
	over = weir__elements_over(m->dims + rec->shape, rec->ndim, &n);
	if (!over && info->block > 1 && n % info->block)
		return weir__fail(
			-EBADMSG,
			"%s: tensor '%s': its shape has %llu elements, %s has blocks of %u",
			ranges->file, name(m, rec), (ull)n, info->name,
			info->block);
	if (info->block > 1)
		n /= info->block;
	/*
	 * The size is compared in bits, as in the reference reader of
	 * safetensors.
	 */
	if (over || weir__mul_over(n, info->bytes * 8u, &bits))
		return weir__fail(
			-EBADMSG,
			"%s: tensor '%s': its shape needs more than 2^64 - 1 bits, its %s [%llu, %llu] hold %llu bytes",
			ranges->file, name(m, rec), ranges->field, (ull)begin,
			(ull)end, (ull)(end - begin));
	if (bits / 8 != end - begin)
		return weir__fail(
			-EBADMSG,
			"%s: tensor '%s': %s [%llu, %llu] hold %llu bytes, its shape needs %llu",
			ranges->file, name(m, rec), ranges->field, (ull)begin,
			(ull)end, (ull)(end - begin), (ull)(bits / 8));
	return 0;
}

/*
 * Fail, since @rec does not begin where the tensor before it ends (at @at,
 * padded). Returns 0 if it may begin elsewhere.
 */
static int check_gap(const struct weir_model *m, const struct weir__record *rec,
		     uint64_t at, const struct weir__ranges *ranges)
{
	if (rec->off < at)
		return weir__fail(
			-EBADMSG,
			"%s: tensor '%s': begins at byte %llu of the data, the tensor before it ends at %llu: they overlap",
			ranges->file, name(m, rec), (ull)rec->off, (ull)at);
	if (rec->off % ranges->align)
		return weir__fail(
			-EBADMSG,
			"%s: tensor '%s': begins at byte %llu of the data, which is not a multiple of %llu",
			ranges->file, name(m, rec), (ull)rec->off,
			(ull)ranges->align);
	if (!ranges->gaps)
		return weir__fail(
			-EBADMSG,
			"%s: tensor '%s': begins at byte %llu of the data, the tensors before it end at %llu: there is a gap",
			ranges->file, name(m, rec), (ull)rec->off, (ull)at);
	return 0;
}

static int check_end(const struct weir_model *m, const struct weir__record *rec,
		     const struct weir__ranges *ranges)
{
	if (rec->bytes > ranges->data_bytes)
		return weir__fail(
			-EBADMSG,
			"%s: tensor '%s': ends at byte %llu of the data, but the file has only %llu bytes of data: was it cut short?",
			ranges->file, name(m, rec), (ull)rec->bytes,
			(ull)ranges->data_bytes);
	return 0;
}

/*
 * Check records [first, m->n_recs): sizes against shapes, places against
 * @ranges. Before the call, off and bytes of a record are the begin and the end
 * of the tensor in the data section; afterwards, its offset in the file and its
 * length.
 *
 * Sorts the records by offset; empty tensors at the same byte stay in the order
 * of the header. 1: the order has changed, so tables of their names have wrong
 * numbers. -EBADMSG. -EOPNOTSUPP: too many dimensions.
 */
static int check_ranges(struct weir_model *m, size_t first,
			const struct weir__ranges *ranges)
{
	uint64_t at = 0; /* end of the previous tensor */
	bool sorted = first < m->n_recs &&
		      sort(m->rec + first, m->n_recs - first);
	int r;

	for (size_t i = first; i < m->n_recs; i++) {
		struct weir__record *rec = &m->rec[i];

		r = check_size(m, rec, ranges);
		if (r >= 0 && rec->off != weir__up(at, ranges->align))
			r = check_gap(m, rec, at, ranges);
		if (r >= 0)
			r = check_end(m, rec, ranges);
		if (r < 0)
			return r;
		clamp_shape(m, rec);
		at = rec->bytes;
		rec->bytes -= rec->off;
		rec->off += ranges->data_at;
	}
	if (at != ranges->data_bytes && !ranges->tail)
		return weir__fail(
			-EBADMSG,
			"%s: its tensors end at byte %llu of the data, but the file has %llu bytes of data",
			ranges->file, (ull)at, (ull)ranges->data_bytes);
	return sorted;
}

int weir__header_end(struct weir__header *h, const struct weir__ranges *ranges)
{
	int r = ranges ? check_ranges(h->m, h->first, ranges) : 0;

	weir__names_fini(ranges && r == 0 && !h->first ? &h->m->names
						       : &h->names);
	if (ranges && r == 0 && !h->first)
		h->m->names = h->names;
	return r < 0 ? r : 0;
}
