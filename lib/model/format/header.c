/* SPDX-License-Identifier: MIT */
/* Appending the tensors and metadata of a header to a model. */
#include "core/error.h"
#include "core/util.h"
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

/* All 64 bits of each dimension; ranges.c checks them. */
static int add_shape(struct weir_model *m, const uint64_t *dims,
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
	r = add_shape(m, dims, rec);
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

int weir__header_end(struct weir__header *h, const struct weir__ranges *ranges)
{
	int r = ranges ? weir__ranges_check(h->m, h->first, ranges) : 0;

	weir__names_fini(ranges && r == 0 && !h->first ? &h->m->names
						       : &h->names);
	if (ranges && r == 0 && !h->first)
		h->m->names = h->names;
	return r < 0 ? r : 0;
}
