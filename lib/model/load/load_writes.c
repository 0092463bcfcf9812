/* SPDX-License-Identifier: MIT */
/*
 * What a load writes. While it runs, blocking calls wait for its tensors in
 * their range, and children of fork(2) do not get the memory. The race checker
 * (races/races.h) is told of all writes before the load begins.
 */
#include <stdio.h>

#include "core/error.h"
#include "races/races.h"
#include "core/util.h"
#include "mem/access.h"
#include "model/load/load.h"

/* Bytes [lo, hi) of @buf as a range of addresses. */
struct address_range {
	const struct weir_buf *buf;
	uint64_t space, lo, hi;
};

static uint64_t base_of(const struct weir_load *l,
			const struct weir__tensor_placement *s)
{
	return (uintptr_t)l->weights->layout->buf[s->buf].base;
}

static uint64_t space_of(const struct weir_load *l,
			 const struct weir__tensor_placement *s)
{
	return weir__mem_space(l->weights->layout->buf[s->buf].buft);
}

/* True if @bytes bytes, from the first byte of @s, end before the range. */
static bool ends_before(const struct weir_load *l,
			const struct weir__tensor_placement *s, uint64_t bytes,
			const struct address_range *range)
{
	uint64_t space = space_of(l, s);

	if (space != range->space)
		return space < range->space;
	return base_of(l, s) + s->at + bytes <= range->lo;
}

static bool begins_after(const struct weir_load *l,
			 const struct weir__tensor_placement *s,
			 const struct address_range *range)
{
	uint64_t space = space_of(l, s);

	if (space != range->space)
		return space > range->space;
	return base_of(l, s) + s->at >= range->hi;
}

/*
 * Add the tensors that overlap @range. They are order[first] to order[end - 1],
 * in the order of their addresses. Their ends are in the same order, except
 * where the rows of one tensor lie between those of another: every tensor is
 * treated as if it were at least as long as the longest of these.
 */
static int add_overlapping(const struct weir_load *l,
			   const struct address_range *range, size_t first,
			   size_t end, struct weir__conflicts *c)
{
	const struct weir__layout *layout = l->weights->layout;
	const size_t *order = layout->order;
	size_t top = end;
	int r = 0;

	while (first < top) {
		size_t mid = first + (top - first) / 2;
		const struct weir__tensor_placement *s =
			&layout->placement[order[mid]];
		uint64_t least = layout->interleaved;

		if (ends_before(l, s, s->bytes > least ? s->bytes : least,
				range))
			first = mid + 1;
		else
			top = mid;
	}
	for (; first < end && r >= 0; first++) {
		const struct weir__tensor_placement *s =
			&layout->placement[order[first]];

		if (begins_after(l, s, range))
			break;
		if (!ends_before(l, s, s->bytes, range) &&
		    l->weights->buf[s->buf] == range->buf)
			r = weir__conflicts_add(c, &l->arrival->timeline,
						order[first]);
	}
	return r;
}

static int find_conflicts(struct weir__accesses *writes,
			  const struct weir_buf *buf, uint64_t lo, uint64_t hi,
			  struct weir__conflicts *c)
{
	const struct weir_load *l =
		weir__container(writes, struct weir_load, writes);
	const struct weir__layout *layout = l->weights->layout;
	uint64_t base = (uintptr_t)buf->mem.base;
	struct address_range range = { .buf = buf,
				       .space = weir__mem_space(buf->buft),
				       .lo = base + lo,
				       .hi = base + hi };
	int r = 0;

	for (size_t i = 0; i < layout->n_selected_bufs && r >= 0; i++) {
		const struct weir__layout_buf *b = &layout->buf[i];

		if (l->weights->buf[i] == buf)
			r = add_overlapping(l, &range, b->first,
					    b->first + b->n, c);
	}
	if (r >= 0 && layout->n_bufs > layout->n_selected_bufs)
		r = add_overlapping(l, &range,
				    layout->buf[layout->n_selected_bufs].first,
				    layout->n_order, c);
	return r;
}

/* The kernel or a device may write to the load's host memory by DMA. */
static void hide_memory(struct weir_load *l, bool hidden)
{
	const struct weir__layout *layout = l->weights->layout;

	for (size_t i = 0; i < layout->n_bufs; i++)
		if (!layout->buf[i].foreign &&
		    layout->buf[i].buft->desc.flags & WEIR_BUFT_HOST)
			weir__access_hide(l->weights->buf[i], hidden);
}

void weir__load_writes_begin(struct weir_load *l)
{
	hide_memory(l, true);
	l->writes.find = find_conflicts;
	weir__accesses_add(l->weir, &l->writes);
}

void weir__load_writes_end(struct weir_load *l, bool leaked)
{
	weir__accesses_del(l->weir, &l->writes);
	if (!leaked)
		hide_memory(l, false);
}

static struct weir__races_bytes bytes_of(const struct weir_weights *w, size_t i)
{
	const struct weir__tensor_placement *s = &w->layout->placement[i];
	const struct weir__slice *slice =
		weir__layout_slice(w->layout, s->slice);
	const struct weir_buf *buf = w->buf[s->buf];
	struct weir__races_bytes b = {
		.space = weir__buf_space(buf),
		.lo = (uintptr_t)buf->mem.base + s->at,
		.width = s->bytes,
		.rows = 1,
		.write = true,
		.name = weir__weights_tensor(w, i)->name,
	};

	b.base = b.lo;
	if (slice && slice->rows > 1) {
		b.width = slice->mem_width;
		b.pitch = slice->mem_pitch;
		b.rows = slice->rows;
	}
	return b;
}

void weir__load_report_writes(struct weir_load *l)
{
	const struct weir_weights *w = l->weights;
	const struct weir_model *m = l->model;
	char label[80];

	if (!weir__races_on(l->weir))
		return;
	snprintf(label, sizeof(label), "the load of '%.40s'",
		 m->n_files ? m->file[0]->base : "");
	weir__races_add_load(&l->arrival->timeline, label, l->arrival->n);
	for (size_t i = 0; i < w->layout->n; i++) {
		uint32_t buf = w->layout->placement[i].buf;
		struct weir__races_bytes b;

		if (buf == WEIR__NO_BUF ||
		    w->layout->buf[buf].buft->desc.kind == WEIR_MEM_MAPPED)
			continue;
		b = bytes_of(w, i);
		weir__races_load_writes(&l->arrival->timeline, i, &b);
	}
	weir__races_flush(l->weir);
}

void weir__load_arrival_seen(struct weir_load *l)
{
	struct weir__arrival *a = l->arrival;

	if (weir__completions_count(&a->ended) == a->n ||
	    atomic_load(&a->finished))
		weir__races_host_knows(&a->timeline, a->n);
}
