/* SPDX-License-Identifier: MIT */
/*
 * Placement that keeps the file's own layout.
 *
 * The chosen tensors of a put are taken in the order of the file. Neighbours
 * make a run; a run is shifted as a whole until each of its tensors has the
 * alignment that is wanted. Where no one shift serves all, or the gap is
 * large, the run is cut. In memory a run begins where its address equals its
 * shifted file offset modulo a page, so that direct reads land in place.
 */
#include <errno.h>
#include <string.h>

#include "dtype.h"
#include "error.h"
#include "model/plan.h"
#include "sys.h"

#define PAGE 4096u
/* Reading over a gap of this size costs less than a read of its own. */
#define MAX_GAP (64u << 10)

struct placer {
	const struct weir_plan *plan;
	struct weir__layout *l;
	const struct weir__put *put;
	unsigned number; /* of the put */
	bool tight;      /* no congruence: of no use, or it would not fit */
	uint64_t base;   /* address of byte 0 of the buffer, modulo PAGE */
	uint64_t end;    /* first free byte of the buffer */
	uint64_t modulus, shift; /* the run's: off + shift is aligned */
	struct weir__run run;    /* open if n > 0 */
};

static void *grow(void *array, size_t n, size_t *max, size_t size)
{
	size_t more = *max ? *max * 2 : 16;
	void *bigger;

	if (n < *max)
		return array;
	bigger = weir__realloc(array, more, size);
	if (bigger)
		*max = more;
	return bigger;
}

static int no_memory(void)
{
	return weir__fail(-ENOMEM, "the layout of a load: no memory");
}

static uint64_t align_of(const struct weir__put *put, uint16_t dtype)
{
	const struct weir_dtype_info *row = weir__dtype(dtype);

	if (put->align)
		return put->align;
	if (!(put->buft->desc.flags & WEIR_BUFT_HOST))
		return put->buft->desc.align;
	return row ? row->align : 1;
}

static int open_buf(struct placer *p)
{
	struct weir__layout *l = p->l;
	struct weir__layout_buf *buf =
		grow(l->buf, l->n_bufs, &l->max_bufs, sizeof(*l->buf));

	if (!buf)
		return no_memory();
	l->buf = buf;
	buf[l->n_bufs++] = (struct weir__layout_buf){
		.buft = p->put->buft,
		.given = p->put->buf,
		.first = l->n_order,
	};
	p->base = 0;
	p->end = 0;
	if (p->put->buf) {
		p->base = (uintptr_t)p->put->buf->mem.base % PAGE;
		p->end = p->put->offset;
	}
	return 0;
}

static struct weir__layout_buf *current(struct placer *p)
{
	return &p->l->buf[p->l->n_bufs - 1];
}

static uint64_t room(const struct placer *p)
{
	return p->put->buf ? p->put->buf->bytes : p->put->buft->desc.max;
}

/* Is there room for a run of @len bytes, wherever it has to begin? */
static bool fits(const struct placer *p, uint64_t len)
{
	uint64_t slack = p->tight ? p->modulus : PAGE;
	uint64_t left = room(p) > p->end ? room(p) - p->end : 0;

	return left >= slack && len <= left - slack;
}

/* Where the open run begins in the current buffer. */
static uint64_t place(const struct placer *p, uint64_t unit)
{
	uint64_t want = (p->run.off + p->shift) & (unit - 1);
	uint64_t have = (p->base + p->end) & (unit - 1);

	return p->end + ((want - have) & (unit - 1));
}

static int too_large(struct placer *p)
{
	const struct weir_model *m = p->plan->model;
	size_t rec = p->l->spot[p->l->order[p->run.first]].record;

	if (p->put->buf)
		return weir__fail(
			-ENOSPC,
			"tensor '%s': %llu bytes at %llu do not fit a buffer of %zu",
			weir__quote(weir__record_name(m, rec),
				    m->rec[rec].name_len),
			(unsigned long long)p->run.len,
			(unsigned long long)p->end, p->put->buf->bytes);
	return weir__fail(
		-ENOMEM,
		"tensor '%s': %llu bytes are more than a buffer of %s can have (%zu)",
		weir__quote(weir__record_name(m, rec), m->rec[rec].name_len),
		(unsigned long long)p->run.len, p->put->buft->desc.name,
		p->put->buft->desc.max);
}

/* The run is complete: give it and its tensors their places. */
static int close_run(struct placer *p)
{
	uint64_t unit = p->tight ? p->modulus : PAGE;
	struct weir__layout *l = p->l;
	struct weir__run *run;
	uint64_t at;

	if (!p->run.n)
		return 0;
	if (unit < p->modulus)
		unit = p->modulus;
	at = place(p, unit);
	if (at > room(p) || p->run.len > room(p) - at)
		return too_large(p);
	run = grow(l->run, l->n_runs, &l->max_runs, sizeof(*run));
	if (!run)
		return no_memory();
	l->run = run;
	p->run.at = at;
	p->run.buf = (uint32_t)(l->n_bufs - 1);
	for (size_t i = p->run.first; i < p->run.first + p->run.n; i++) {
		struct weir__spot *s = &l->spot[l->order[i]];

		s->buf = p->run.buf;
		s->at = at + p->plan->model->rec[s->record].off - p->run.off;
	}
	run[l->n_runs++] = p->run;
	p->end = at + p->run.len;
	current(p)->bytes = p->end;
	current(p)->n = l->n_order - current(p)->first;
	p->run.n = 0;
	return 0;
}

/* Can one shift serve the open run and a tensor at @off, too? */
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

static bool joins(struct placer *p, const struct weir__record *rec,
		  uint64_t align)
{
	uint64_t end = p->run.off + p->run.len;
	uint64_t gap = p->put->buf ? 0 : MAX_GAP;

	if (!p->run.n || rec->shard != p->run.shard || rec->off < end ||
	    rec->off - end > gap)
		return false;
	if (!fits(p, rec->off + rec->bytes - p->run.off))
		return false;
	return shift_serves(p, rec->off, align);
}

static int add_tensor(struct placer *p, size_t spot)
{
	const struct weir__record *rec =
		&p->plan->model->rec[p->l->spot[spot].record];
	uint64_t align = align_of(p->put, rec->dtype);
	int r;

	if (!joins(p, rec, align)) {
		r = close_run(p);
		if (r < 0)
			return r;
		if (!p->put->buf && p->end && !fits(p, rec->bytes))
			r = open_buf(p);
		if (r < 0)
			return r;
		p->run = (struct weir__run){ .shard = rec->shard,
					     .off = rec->off,
					     .first = p->l->n_order,
					     .way = p->put->way };
		p->modulus = align;
		p->shift = -rec->off & (align - 1);
	}
	p->l->order[p->l->n_order++] = spot;
	p->run.n++;
	p->run.len = rec->off + rec->bytes - p->run.off;
	return 0;
}

/* Tensors without bytes lie anywhere; here at the start. */
static void add_empty(struct placer *p)
{
	struct weir__layout *l = p->l;

	for (size_t i = 0; i < l->n; i++) {
		struct weir__spot *s = &l->spot[i];

		if (p->plan->choice[s->record] != p->number + 1 ||
		    p->plan->model->rec[s->record].bytes)
			continue;
		s->buf = (uint32_t)(l->n_bufs - 1);
		s->at = p->put->offset;
	}
}

static int place_put(struct placer *p)
{
	size_t first_order = p->l->n_order, first_run = p->l->n_runs;
	size_t first_buf = p->l->n_bufs;
	int r;

again:
	r = open_buf(p);
	p->run.n = 0;
	for (size_t i = 0; i < p->l->n && r >= 0; i++) {
		size_t rec = p->l->spot[i].record;

		if (p->plan->choice[rec] == p->number + 1 &&
		    p->plan->model->rec[rec].bytes)
			r = add_tensor(p, i);
	}
	if (r >= 0)
		r = close_run(p);
	if (r == -ENOSPC && !p->tight) {
		/* Close together, if the pages do not matter: it may fit. */
		p->tight = true;
		p->l->n_order = first_order;
		p->l->n_runs = first_run;
		p->l->n_bufs = first_buf;
		goto again;
	}
	if (r >= 0)
		add_empty(p);
	return r;
}

/* Mapped tensors are where the file has them: a mapping for each shard. */
static int map_put(struct placer *p)
{
	struct weir__layout *l = p->l;
	uint32_t shard = UINT32_MAX;
	int r;

	for (size_t i = 0; i < l->n; i++) {
		const struct weir__record *rec =
			&p->plan->model->rec[l->spot[i].record];

		if (p->plan->choice[l->spot[i].record] != p->number + 1)
			continue;
		if (rec->shard != shard) {
			shard = rec->shard;
			r = open_buf(p);
			if (r < 0)
				return r;
			current(p)->map_shard = shard;
			current(p)->map_off = rec->off;
		}
		l->order[l->n_order++] = i;
		l->spot[i].buf = (uint32_t)(l->n_bufs - 1);
		l->spot[i].at = rec->off - current(p)->map_off;
		current(p)->n++;
		current(p)->bytes = l->spot[i].at + rec->bytes;
	}
	return 0;
}

static int list_spots(const struct weir_plan *plan, struct weir__layout *l)
{
	l->spot = weir__calloc(plan->n, sizeof(*l->spot));
	l->order = weir__calloc(plan->n, sizeof(*l->order));
	if (!l->spot || !l->order)
		return no_memory();
	for (size_t i = 0; i < plan->model->n_recs; i++)
		if (plan->choice[i])
			l->spot[l->n++].record = i;
	return 0;
}

int weir__layout_make(const struct weir_plan *plan, struct weir__layout *l)
{
	int r;

	memset(l, 0, sizeof(*l));
	r = list_spots(plan, l);
	for (unsigned i = 0; i < plan->n_puts && r >= 0; i++) {
		struct placer p = {
			.plan = plan, .l = l, .put = &plan->put[i], .number = i
		};

		/* Nothing is read to a device's own memory in place. */
		p.tight = !(p.put->buft->desc.flags & WEIR_BUFT_HOST);

		if (!p.put->tensors)
			continue;
		r = p.put->way == WEIR_WAY_MAP ? map_put(&p) : place_put(&p);
	}
	if (r >= 0)
		return 0;
	weir__layout_free(l);
	return r;
}

void weir__layout_free(struct weir__layout *l)
{
	weir__free(l->spot);
	weir__free(l->order);
	weir__free(l->run);
	weir__free(l->buf);
	l->spot = NULL;
	l->order = NULL;
	l->run = NULL;
	l->buf = NULL;
}

int weir__layout_same(const struct weir__layout *a,
		      const struct weir__layout *b)
{
	if (a->n != b->n || a->n_bufs != b->n_bufs)
		return weir__fail(
			-EINVAL,
			"weights of %zu tensors in %zu buffers cannot hold %zu in %zu",
			b->n, b->n_bufs, a->n, a->n_bufs);
	for (size_t i = 0; i < a->n_bufs; i++)
		if (a->buf[i].buft != b->buf[i].buft ||
		    a->buf[i].bytes != b->buf[i].bytes)
			return weir__fail(
				-EINVAL,
				"buffer %zu of the weights has %llu bytes, the plan wants %llu",
				i, (unsigned long long)b->buf[i].bytes,
				(unsigned long long)a->buf[i].bytes);
	for (size_t i = 0; i < a->n_bufs; i++)
		if (a->buf[i].given != b->buf[i].given)
			return weir__fail(
				-EINVAL,
				"buffer %zu of the weights is not the one that the plan was given",
				i);
	for (size_t i = 0; i < a->n; i++)
		if (a->spot[i].record != b->spot[i].record ||
		    a->spot[i].buf != b->spot[i].buf ||
		    a->spot[i].at != b->spot[i].at)
			return weir__fail(
				-EINVAL,
				"tensor %zu lies elsewhere in the weights than the plan puts it",
				i);
	return 0;
}
