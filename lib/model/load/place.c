/* SPDX-License-Identifier: MIT */
#include "model/load/place.h"

#include <errno.h>

#include "core/array.h"
#include "core/error.h"
#include "core/util.h"

/* Reading over a gap of this size costs less than a read of its own. */
#define MAX_GAP (64u << 10)

struct placer {
	const struct weir__group *g;
	struct weir__layout *l;
	bool tight;              /* places are not congruent to the file's */
	uint64_t base;           /* address of byte 0 of the buffer */
	uint64_t end;            /* first free byte of the buffer */
	uint64_t to;             /* end of the bounds */
	uint64_t modulus, shift; /* the run's: off + shift is aligned */
	struct weir__run run;    /* open if n > 0 */
};

static int no_memory(const struct placer *p, size_t n, size_t size)
{
	return weir__fail(
		-ENOMEM, "%s: no memory for a layout of %zu items of %zu bytes",
		p->g->model->path, n, size);
}

static const struct weir__record *record_of(const struct placer *p, size_t spot)
{
	return &p->g->model->rec[p->l->spot[spot].record];
}

static uint32_t shard_of(const struct placer *p, const struct weir__spot *spot)
{
	return p->g->model->rec[spot->record].shard;
}

static bool run_is_plain(const struct placer *p)
{
	return !p->run.cut;
}

/* Bytes of the open run in memory. */
static uint64_t run_bytes(const struct placer *p)
{
	return run_is_plain(p)
		       ? p->run.len
		       : weir__cut_mem(weir__layout_cut(p->l, p->run.cut));
}

static struct weir__layout_buf *current_buf(const struct placer *p)
{
	return &p->l->buf[p->l->n_bufs - 1];
}

/* A new buffer begins at a multiple of its align: see weights.c. */
static int open_buf(struct placer *p)
{
	const struct weir__put *put = p->g->put;
	struct weir__layout *l = p->l;
	struct weir__layout_buf *buf = weir__array_grow(
		l->buf, &l->max_bufs, l->n_bufs, sizeof(*l->buf));

	if (!buf)
		return no_memory(p, l->n_bufs, sizeof(*buf));
	l->buf = buf;
	buf[l->n_bufs++] = (struct weir__layout_buf){
		.buft = put->buft,
		.given = put->buf,
		.base = put->buf ? put->buf->mem.base : NULL,
		.room = put->buf ? put->buf->bytes : 0,
		.foreign = put->buf && put->buf->foreign,
		.flags = put->buf_flags,
		.align = 1,
		.first = l->n_order,
	};
	p->base = put->buf ? (uintptr_t)put->buf->mem.base : 0;
	p->end = 0;
	return 0;
}

/* Does a run of @len bytes fit, whatever padding it needs? */
static bool run_fits(const struct placer *p, uint64_t len, uint64_t align)
{
	uint64_t slack = p->tight ? align : WEIR__PAGE;
	uint64_t left = p->to > p->end ? p->to - p->end : 0;

	return left >= slack && len <= left - slack;
}

/* The first place for the open run: congruent to the file modulo @unit. */
static uint64_t run_place(const struct placer *p, uint64_t unit)
{
	uint64_t want = (p->run.off + p->shift) & (unit - 1);
	uint64_t have = (p->base + p->end) & (unit - 1);

	return p->end + ((want - have) & (unit - 1));
}

static bool run_exceeds(const struct placer *p, uint64_t at)
{
	return at > p->to || run_bytes(p) > p->to - at;
}

static int too_large(const struct placer *p)
{
	const struct weir__put *put = p->g->put;
	const struct weir__record *rec =
		record_of(p, p->l->order[p->run.first]);
	const char *name =
		weir__quote(p->g->model->text + rec->name, rec->name_len);
	unsigned long long len = run_bytes(p), at = p->end, to = p->to;

	if (!put->buf)
		return weir__fail(
			-ENOMEM,
			"tensor '%s': %llu bytes are more than a buffer of %s can have (%llu)",
			name, len, put->buft->desc.name, to);
	if (p->to < put->buf->bytes)
		return weir__fail(
			-ENOSPC,
			"tensor '%s': %llu bytes at %llu do not fit before byte %llu, where another put begins in a buffer of %zu",
			name, len, at, to, put->buf->bytes);
	return weir__fail(
		-ENOSPC,
		"tensor '%s': %llu bytes at %llu do not fit a buffer of %zu",
		name, len, at, put->buf->bytes);
}

/* The run is complete: set its place and those of its tensors. */
static int close_run(struct placer *p)
{
	struct weir__layout *l = p->l;
	struct weir__run *run;
	uint64_t at;

	if (!p->run.n)
		return 0;
	at = run_place(p,
		       p->tight || p->modulus > WEIR__PAGE || !run_is_plain(p)
			       ? p->modulus
			       : WEIR__PAGE);
	if (run_exceeds(p, at))
		at = run_place(p, p->modulus);
	if (run_exceeds(p, at))
		return too_large(p);
	run = weir__array_grow(l->run, &l->max_runs, l->n_runs, sizeof(*run));
	if (!run)
		return no_memory(p, l->n_runs, sizeof(*run));
	l->run = run;
	p->run.at = at;
	p->run.buf = (uint32_t)(l->n_bufs - 1);
	p->run.spot = (uint32_t)l->order[p->run.first];
	for (size_t i = p->run.first; i < p->run.first + p->run.n; i++) {
		struct weir__spot *spot = &l->spot[l->order[i]];

		spot->buf = p->run.buf;
		spot->cut = p->run.cut;
		spot->at = at + spot->off - p->run.off;
	}
	run[l->n_runs++] = p->run;
	p->end = at + run_bytes(p);
	current_buf(p)->bytes = p->end;
	current_buf(p)->n = l->n_order - current_buf(p)->first;
	if (current_buf(p)->align < p->modulus)
		current_buf(p)->align = p->modulus;
	p->run.n = 0;
	return 0;
}

/* Does one shift align the tensors of the open run and a tensor at @off? */
static bool shift_serves(struct placer *p, uint64_t off, uint64_t align)
{
	uint64_t shift = -off & (align - 1);

	if (align <= p->modulus)
		return ((off + p->shift) & (align - 1)) == 0;
	if ((shift & (p->modulus - 1)) != (p->shift & (p->modulus - 1)))
		return false;
	p->modulus = align;
	p->shift = shift;
	return true;
}

/*
 * The largest gap in the file that a run may contain. In memory it is wasted:
 * so none under a capacity, nor in the caller's buffers, whose other bytes may
 * be in use, nor between slices, where the gaps are most of the tensors.
 */
static uint64_t max_gap(const struct weir__put *put)
{
	return put->buf || put->sliced || put->capacity ? 0 : MAX_GAP;
}

static bool run_joins(struct placer *p, const struct weir__spot *spot,
		      const struct weir__cut *cut, uint64_t align)
{
	uint64_t end = p->run.off + p->run.len;

	if (!p->run.n || shard_of(p, spot) != p->run.shard || spot->off < end ||
	    spot->off - end > max_gap(p->g->put) || !run_is_plain(p) ||
	    !weir__cut_is_plain(cut))
		return false;
	if (!run_fits(p, spot->off + spot->bytes - p->run.off,
		      align > p->modulus ? align : p->modulus))
		return false;
	return shift_serves(p, spot->off, align);
}

static int begin_run(struct placer *p, const struct weir__spot *spot,
		     const struct weir__cut *cut, uint64_t align)
{
	const struct weir__put *put = p->g->put;
	int r = close_run(p);

	if (r >= 0 && !put->buf && p->end && !run_fits(p, spot->bytes, align))
		r = open_buf(p);
	if (r < 0)
		return r;
	p->run = (struct weir__run){ .shard = shard_of(p, spot),
				     .off = spot->off,
				     .first = p->l->n_order,
				     .way = put->way,
				     .priority = put->priority };
	p->modulus = align;
	p->shift = -spot->off & (align - 1);
	if (weir__layout_keep_cut(p->l, cut, &p->run.cut) < 0)
		return no_memory(p, p->l->n_cuts, sizeof(*cut));
	return 0;
}

static int add_tensor(struct placer *p, size_t number)
{
	struct weir__spot *spot = &p->l->spot[number];
	enum weir_dtype dtype;
	struct weir__cut cut;
	uint64_t align;
	int r = weir__put_cut(p->g->model, p->g->put, spot->record, &cut,
			      &dtype);

	if (r < 0)
		return r;
	align = weir__put_align(p->g->put, dtype);
	if (!run_joins(p, spot, &cut, align))
		r = begin_run(p, spot, &cut, align);
	if (r < 0)
		return r;
	p->l->order[p->l->n_order++] = number;
	p->run.n++;
	p->run.len = spot->off + weir__cut_span(&cut) - p->run.off;
	return 0;
}

/* Tensors without bytes may be anywhere: place them at the start. */
static void add_empty(struct placer *p)
{
	const struct weir__group *g = p->g;

	for (size_t i = 0; i < g->n; i++) {
		if (p->l->spot[g->spot[i]].bytes)
			continue;
		p->l->spot[g->spot[i]].buf = (uint32_t)(p->l->n_bufs - 1);
		p->l->spot[g->spot[i]].at = g->put->offset;
	}
}

/*
 * The most bytes of a new buffer, without those that weights.c adds to align.
 */
static uint64_t largest(const struct weir__put *put)
{
	const struct weir_backend_buft *d = &put->buft->desc;
	uint64_t more = put->align > d->align ? put->align - d->align : 0;

	return d->max > more ? d->max - more : 0;
}

int weir__place(struct weir__layout *l, const struct weir__group *g,
		const struct weir__bounds *bounds, uint64_t *ret_end)
{
	struct placer p = { .g = g, .l = l };
	int r = open_buf(&p);

	/* Reads to a device are always staged. */
	p.tight = bounds->tight || !(g->put->buft->desc.flags & WEIR_BUFT_HOST);
	p.end = bounds->from;
	p.to = g->put->buf ? bounds->to : largest(g->put);
	for (size_t i = 0; i < g->n && r >= 0; i++)
		if (l->spot[g->spot[i]].bytes)
			r = add_tensor(&p, g->spot[i]);
	if (r >= 0)
		r = close_run(&p);
	if (r < 0)
		return r;
	add_empty(&p);
	*ret_end = p.end;
	return 0;
}

int weir__place_mapped(struct weir__layout *l, const struct weir__group *g)
{
	struct placer p = { .g = g, .l = l };
	uint32_t shard = UINT32_MAX;
	struct weir__layout_buf *buf = NULL;
	int r;

	for (size_t i = 0; i < g->n; i++) {
		struct weir__spot *spot = &l->spot[g->spot[i]];

		if (shard_of(&p, spot) != shard) {
			r = open_buf(&p);
			if (r < 0)
				return r;
			shard = shard_of(&p, spot);
			buf = current_buf(&p);
			buf->foreign = true;
			buf->map_shard = shard;
			buf->map_off = spot->off;
		}
		l->order[l->n_order++] = g->spot[i];
		spot->buf = (uint32_t)(l->n_bufs - 1);
		spot->at = spot->off - buf->map_off;
		buf->n++;
		buf->bytes = spot->at + spot->bytes;
	}
	return 0;
}
