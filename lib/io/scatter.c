/* SPDX-License-Identifier: MIT */
/*
 * The scatter copy of a merged chunk: a segment for each extent, from its place
 * in the slot. Small extents that are neighbours on the device too are repacked
 * in a second slot, with their distances on the device: they and the padding
 * between them become one segment.
 */
#include <string.h>

#include "alloc/slots.h"
#include "io/copy.h"
#include "io/engine_state.h"
#include "io/loop.h"
#include "io/op.h"

/* Repacking an extent of this size costs less than a segment of its own. */
#define SMALL 1024u
#define MAX_PADDING 4096u

static bool are_neighbours(const struct weir__extent *a,
			   const struct weir__extent *b)
{
	return a->gap_group && a->gap_group == b->gap_group &&
	       a->len <= SMALL && b->len <= SMALL &&
	       b->addr >= a->addr + a->len &&
	       (size_t)(b->addr - a->addr) <= a->len + MAX_PADDING;
}

/* How many of @n extents are neighbours, and together fit @room bytes? */
static uint32_t neighbours(const struct weir__extent *e, uint32_t n,
			   size_t room)
{
	uint32_t k = 1;

	while (k < n && are_neighbours(&e[k - 1], &e[k]) &&
	       (size_t)(e[k].addr - e->addr) + e[k].len <= room)
		k++;
	return k;
}

/* Bytes left in the second slot. If no slot is free, nothing is repacked. */
static size_t room_for_more(struct weir__loop *loop, struct weir__op *op,
			    size_t used)
{
	if (!op->repack_slot)
		op->repack_slot = weir__slot_get(
			loop->reactor.slots, loop->reactor.eng->chunk_bytes);
	return op->repack_slot ? op->repack_slot->bytes - used : 0;
}

/* Move @n extents to @to, with their distances on the device. */
static struct weir_backend_copy repack(const struct weir__op *op,
				       const struct weir__extent *e, uint32_t n,
				       unsigned char *to)
{
	uint64_t begin = op->extent->off;

	for (uint32_t k = 0; k < n; k++)
		memcpy(to + (e[k].addr - e->addr),
		       op->payload + (e[k].off - begin), e[k].len);
	return (struct weir_backend_copy){
		.dst = e->addr,
		.src = to,
		.bytes = (size_t)(e[n - 1].addr - e->addr) + e[n - 1].len,
	};
}

void weir__scatter_make(struct weir__loop *loop, struct weir__op *op)
{
	const struct weir__extent *e = op->extent;
	struct weir_backend_copy *segment = &op->job->copy[e - op->job->ext];
	size_t n = 0, used = 0, bytes = 0;
	uint32_t k;

	for (uint32_t i = 0; i < e->n_merged; i += k) {
		uint32_t left = e->n_merged - i;

		k = left > 1 && are_neighbours(&e[i], &e[i + 1]) ? left : 1;
		if (k > 1)
			k = neighbours(&e[i], k, room_for_more(loop, op, used));
		if (k > 1) {
			segment[n] = repack(op, &e[i], k,
					    op->repack_slot->addr + used);
			used += segment[n].bytes;
		} else {
			segment[n] = (struct weir_backend_copy){
				.dst = e[i].addr,
				.src = op->payload + (e[i].off - e->off),
				.bytes = e[i].len,
			};
		}
		bytes += segment[n++].bytes;
	}
	op->work.copy = segment;
	op->work.n_copies = n;
	op->work.src = segment->src;
	op->work.width = bytes;
}
