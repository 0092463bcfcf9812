/* SPDX-License-Identifier: MIT */
/* Estimates the bytes that a plan needs of each kind of memory. */
#include <errno.h>
#include <string.h>

#include "alloc/arena.h"
#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"
#include "model/load/layout.h"

/* The bytes that a plan allocates of one kind of memory. */
struct need {
	struct weir_estimate e;
	uint64_t whole; /* its bytes in whole pages, which budgets count */
};

/*
 * True if both kinds allocate from the same memory: the host's, or one GPU's.
 */
static bool share(const struct weir_buft *a, const struct weir_buft *b)
{
	const struct weir_dev *x = a->dev, *y = b->dev;
	uint32_t host = WEIR_BUFT_HOST;

	if ((a->desc.flags & host) || (b->desc.flags & host))
		return a->desc.flags & b->desc.flags & host;
	return x == y || (*x->desc.pci && !strcmp(x->desc.pci, y->desc.pci));
}

/* Find or add the entry of @b's kind of memory; returns how many there are. */
static unsigned entry_of(struct need *need, unsigned n,
			 const struct weir__layout_buf *b, unsigned *ret_i)
{
	unsigned i = 0;

	while (i < n && need[i].e.buft != b->buft)
		i++;
	if (i == n)
		need[n++] = (struct need){ .e.buft = b->buft };
	*ret_i = i;
	return n;
}

/* Return the bytes of a tensor in memory, without the gaps between its rows. */
static uint64_t data_bytes(const struct weir__layout *l,
			   const struct weir__tensor_placement *s)
{
	const struct weir__slice *slice = weir__layout_slice(l, s->slice);

	return slice ? slice->rows * slice->mem_width : s->bytes;
}

/*
 * Return the bytes of host memory that a buffer gets, as weir__arena_take()
 * maps them, without reserved pages, which are used only where they fit.
 */
static uint64_t whole_pages(const struct weir_buft *buft, uint64_t bytes)
{
	bool huge = buft->desc.kind != WEIR_MEM_PLAIN &&
		    bytes >= WEIR__HUGE_PAGE;
	uint64_t page = weir__pages_size(huge ? WEIR__PAGES_TRANSPARENT
					      : WEIR__PAGES_SMALL);

	if (!(buft->desc.flags & WEIR_BUFT_HOST) || bytes > UINT64_MAX - page)
		return bytes;
	return weir__up(bytes, page);
}

static unsigned add_up(const struct weir__layout *l, struct need *need,
		       unsigned *kind)
{
	unsigned n = 0;

	for (size_t i = 0; i < l->n_bufs; i++) {
		const struct weir__layout_buf *b = &l->buf[i];
		uint64_t bytes = weir__layout_bytes(b);

		n = entry_of(need, n, b, &kind[i]);
		if (b->given || b->buft->desc.kind == WEIR_MEM_MAPPED)
			continue;
		need[kind[i]].e.bytes += bytes;
		need[kind[i]].whole += whole_pages(b->buft, bytes);
	}
	for (size_t i = 0; i < l->n; i++) {
		const struct weir__tensor_placement *s = &l->placement[i];
		struct weir_estimate *of;

		if (s->buf == WEIR__NO_BUF)
			continue;
		of = &need[kind[s->buf]].e;
		of->tensors++;
		if (l->buf[s->buf].given)
			of->given += data_bytes(l, s);
	}
	return n;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/*
 * Return the bytes that may still be allocated in the budget of the buffer
 * type.
 */
static uint64_t budget_left(struct weir_buft *buft)
{
	uint64_t budget = atomic_load(&buft->budget);
	uint64_t used = atomic_load(&buft->used);

	if (!budget)
		return UINT64_MAX;
	return used < budget ? budget - used : 0;
}

/*
 * Return how much memory is available to all kinds that share it: the host's or
 * the device's.
 */
static uint64_t free_shared(const struct weir_buft *buft)
{
	bool host = buft->desc.flags & WEIR_BUFT_HOST;
	uint64_t avail, total;

	if (weir__dev_memory(host ? weir_dev_get(buft->dev->weir, 0)
				  : buft->dev,
			     &avail, &total) < 0)
		avail = UINT64_MAX;
	return avail;
}

/* Return what the root's budget has left for memory of the host. */
static uint64_t root_left(const struct weir_buft *buft)
{
	return buft->desc.flags & WEIR_BUFT_HOST
		       ? weir__arena_budget_left(buft->dev->weir)
		       : UINT64_MAX;
}

static void add(uint64_t *sum, uint64_t bytes)
{
	if (weir__add_over(*sum, bytes, sum))
		*sum = UINT64_MAX;
}

/*
 * A kind fits if its own memory and the budgets have room for it, and if the
 * memory that it shares has room for all kinds that allocate from it.
 */
static void set_fits(struct need *all, unsigned n, struct weir_estimate *e)
{
	struct weir__error_saved saved;
	uint64_t total, shared, sum = 0, whole = 0;
	uint64_t left = budget_left(e->buft), root = root_left(e->buft);

	weir__error_save(&saved);
	if (weir__buft_memory(e->buft, &e->free, &total) < 0)
		e->free = UINT64_MAX;
	shared = free_shared(e->buft);
	weir__error_restore(&saved);
	for (unsigned i = 0; i < n; i++) {
		if (!share(all[i].e.buft, e->buft))
			continue;
		add(&sum, all[i].e.bytes);
		add(&whole, all[i].whole);
	}
	e->fits = e->bytes <= e->free && e->bytes <= left && sum <= shared &&
		  whole <= root;
	e->free = least(least(e->free, left), least(shared, root));
}

int weir_plan_estimate(struct weir_plan *plan, struct weir_estimate *ret,
		       unsigned n)
{
	struct need *all;
	struct weir__layout *l;
	size_t step = n && ret ? ret[0].size : 0;
	unsigned kinds, *kind;
	int r;

	WEIR__ENTER();
	r = weir__root_read(plan->model->weir);
	if (!r && n && !ret)
		r = weir__fail(-EINVAL, "%u estimates, but the array is NULL",
			       n);
	if (!r)
		r = weir__layout_get(plan, &l);
	if (r < 0)
		return r;
	all = weir__calloc(l->n_bufs + 1, sizeof(*all));
	kind = weir__calloc(l->n_bufs + 1, sizeof(*kind));
	if (!all || !kind) {
		r = weir__fail(-ENOMEM,
			       "%s: no memory for an estimate of %zu buffers",
			       plan->model->path, l->n_bufs);
		goto out;
	}
	kinds = add_up(l, all, kind);
	r = (int)kinds;
	for (unsigned i = 0; i < kinds && i < n && r >= 0; i++) {
		void *to = (char *)ret + i * step;
		int out;

		memcpy(to, &step, sizeof(step));
		set_fits(all, kinds, &all[i].e);
		out = weir__info_out(to, &all[i].e, sizeof(all[i].e));
		r = out < 0 ? out : r;
	}
out:
	weir__free(all);
	weir__free(kind);
	weir__layout_put(l);
	return r;
}
