/* SPDX-License-Identifier: MIT */
/*
 * The bytes of a file that is saved: its header, then its tensors, with zeros
 * in between. The engine asks for them a chunk at a time, on several threads at
 * once; nothing that is read here changes meanwhile.
 */
#include <errno.h>
#include <string.h>

#include "core/error.h"
#include "model/save/save.h"

/* Offset of the first byte of record order[i] in the file. */
static uint64_t begin_of(const struct weir_save *s,
			 const struct weir__save_file *f, size_t i)
{
	return f->data_at + s->model->rec[f->part.order[i]].off;
}

static uint64_t end_of(const struct weir_save *s,
		       const struct weir__save_file *f, size_t i)
{
	return begin_of(s, f, i) + s->model->rec[f->part.order[i]].bytes;
}

/* The first of the file's records that ends after byte @at. */
static size_t find(const struct weir_save *s, const struct weir__save_file *f,
		   uint64_t at)
{
	size_t lo = 0, hi = f->part.n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (end_of(s, f, mid) > at)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

size_t weir__save_record_at(const struct weir_save *s, size_t file, uint64_t at)
{
	const struct weir__save_file *f = &s->file[file];
	size_t i = find(s, f, at);

	return i < f->part.n ? f->part.order[i] : s->model->n_recs;
}

/* A part of the file: of the header, of a gap (zeros), or of a tensor. */
static int fill_tensor(struct weir_save *s, const struct weir__save_file *f,
		       size_t i, uint64_t lo, uint64_t hi, unsigned char *to)
{
	const size_t number = f->part.order[i];
	const struct weir__save_item *item = &s->item[number];
	const uint64_t begin = begin_of(s, f, i);
	const uint64_t step = weir__save_item_step(item);
	int r = 0;

	/* A chunk of a slow conversion takes seconds. */
	for (uint64_t at = lo - begin; at < hi - begin && r >= 0;) {
		uint64_t end = at - at % step + step;

		if (end > hi - begin)
			end = hi - begin;
		if (atomic_load(&s->cancelled))
			return weir__save_fail(s, -ECANCELED, 0,
					       s->model->n_recs,
					       "%s: the save was cancelled",
					       s->path);
		r = weir__save_item_produce(item, at, end,
					    to + (at + begin - lo));
		at = end;
	}
	if (r >= 0)
		return 0;
	return weir__save_fail(s, r, 0, number, "%s: tensor '%s': %s", f->name,
			       weir__quote(weir__record_name(s->model, number),
					   s->model->rec[number].name_len),
			       weir__error_text());
}

/*
 * True if all of [lo, hi) are bytes of tensors in host memory, which follow one
 * another there as in the file. @i: the first record that ends after @lo.
 */
static bool in_memory(struct weir_save *s, const struct weir__save_file *f,
		      size_t i, uint64_t lo, uint64_t hi,
		      unsigned char **ret_bytes)
{
	unsigned char *bytes = NULL;

	for (uint64_t at = lo; at < hi; at = end_of(s, f, i++)) {
		unsigned char *address;

		if (i == f->part.n || at < begin_of(s, f, i))
			return false;
		address = weir__save_item_address(&s->item[f->part.order[i]],
						  at - begin_of(s, f, i));
		if (!address || (bytes && address != bytes + (at - lo)))
			return false;
		bytes = bytes ? bytes : address;
	}
	*ret_bytes = bytes;
	return bytes != NULL;
}

int weir__save_fill(struct weir__job *job, size_t ext, uint64_t lo, uint64_t hi,
		    unsigned char *room, unsigned char **ret_bytes)
{
	struct weir_save *s = job->arg;
	const struct weir__save_file *f = &s->file[ext];
	size_t i = find(s, f, lo);
	uint64_t at = lo;
	int r = 0;

	if (in_memory(s, f, i, lo, hi, ret_bytes))
		return 0;
	if (at < f->header_bytes) {
		uint64_t n = f->header_bytes < hi ? f->header_bytes - at
						  : hi - at;

		memcpy(room, f->header + at, n);
		at += n;
	}
	while (at < hi && r >= 0) {
		uint64_t end = hi;
		bool gap = i == f->part.n || begin_of(s, f, i) > at;

		if (i < f->part.n)
			end = gap ? begin_of(s, f, i) : end_of(s, f, i);
		if (end > hi)
			end = hi;
		if (gap)
			memset(room + (at - lo), 0, end - at);
		else
			r = fill_tensor(s, f, i, at, end, room + (at - lo));
		at = end;
		while (i < f->part.n && end_of(s, f, i) <= at)
			i++;
	}
	return r;
}
