/* SPDX-License-Identifier: MIT */
/* Instructions in which the lanes of a warp take part together, and clocks. */
#include <string.h>

#include "machine.h"

void ptx_do_shfl(struct warp *w, const struct ins *in, uint32_t m)
{
	const struct operand *s = &in->op[in->nd];
	uint32_t value[LANES], inside = 0;

	for (unsigned i = 0; i < LANES; i++)
		value[i] = (uint32_t)ptx_value(w, &s[0], i);
	for (unsigned lane = 0; lane < LANES; lane++) {
		uint32_t b, c, segment, clamp, low, high;
		int32_t from;
		bool in_range;

		if (!(m >> lane & 1))
			continue;
		b = (uint32_t)ptx_value(w, &s[1], lane) & 31;
		c = (uint32_t)ptx_value(w, &s[2], lane);
		clamp = c & 31;
		segment = c >> 8 & 31;
		high = (lane & segment) | (clamp & ~segment);
		low = lane & segment;
		switch (in->sub) {
		case 0: /* up: c is the lowest lane */
			from = (int32_t)lane - (int32_t)b;
			in_range = from >= (int32_t)high;
			break;
		case 1:
			from = (int32_t)(lane + b);
			in_range = from <= (int32_t)high;
			break;
		case 2:
			from = (int32_t)(lane ^ b);
			in_range = from <= (int32_t)high;
			break;
		default:
			from = (int32_t)(low | (b & ~segment));
			in_range = from <= (int32_t)high;
		}
		if (!in_range)
			from = (int32_t)lane;
		if (!(m >> from & 1))
			ptx_found(
				w, in, lane, F_LANES,
				"reads from lane %d, which does not take part",
				from);
		inside |= (uint32_t)in_range << lane;
		ptx_assign(w, &in->op[0], lane, value[from]);
	}
	for (unsigned lane = 0; in->nd > 1 && lane < LANES; lane++) {
		if (m >> lane & 1)
			ptx_assign(w, &in->op[1], lane, inside >> lane & 1);
	}
}

void ptx_do_vote(struct warp *w, const struct ins *in, uint32_t m)
{
	uint32_t p = ptx_mask(w, &in->op[in->nd]) & m;
	uint64_t v = in->sub == 0   ? p == m
		     : in->sub == 1 ? p != 0
		     : in->sub == 2 ? p == m || !p
				    : p;

	for (unsigned lane = 0; lane < LANES; lane++) {
		if (m >> lane & 1)
			ptx_assign(w, &in->op[0], lane, v);
	}
}

void ptx_do_match(struct warp *w, const struct ins *in, uint32_t m)
{
	const struct operand *a = &in->op[in->nd];

	for (unsigned lane = 0; lane < LANES; lane++) {
		uint32_t same = 0;

		if (!(m >> lane & 1))
			continue;
		for (unsigned i = 0; i < LANES; i++)
			same |= (uint32_t)((m >> i & 1) &&
					   ptx_value(w, a, i) ==
						   ptx_value(w, a, lane))
				<< i;
		/* all: the mask or nothing */
		if (in->sub && same != m)
			same = 0;
		ptx_assign(w, &in->op[0], lane, same);
		if (in->nd > 1)
			ptx_assign(w, &in->op[1], lane, same != 0);
	}
}

void ptx_do_redux(struct warp *w, const struct ins *in, uint32_t m)
{
	bool first = true, is_signed = in->type == T_S32;
	uint32_t r = 0;

	for (unsigned lane = 0; lane < LANES; lane++) {
		uint32_t v;
		bool smaller;

		if (!(m >> lane & 1))
			continue;
		v = (uint32_t)ptx_value(w, &in->op[1], lane);
		smaller = is_signed ? (int32_t)v < (int32_t)r : v < r;
		if (first)
			r = v;
		else if (in->sub == 0)
			r += v;
		else if (in->sub == 1)
			r = smaller ? v : r;
		else if (in->sub == 2)
			r = smaller ? r : v;
		else
			r = in->sub == 3 ? r & v : in->sub == 4 ? r | v : r ^ v;
		first = false;
	}
	for (unsigned lane = 0; lane < LANES; lane++) {
		if (m >> lane & 1)
			ptx_assign(w, &in->op[0], lane, r);
	}
}

void ptx_do_warpsync(struct warp *w, const struct ins *in, uint32_t m)
{
	(void)in;
	ptx_warp_synced(w, m);
}

void ptx_do_activemask(struct warp *w, const struct ins *in, uint32_t m)
{
	for (unsigned lane = 0; lane < LANES; lane++) {
		if (m >> lane & 1)
			ptx_assign(w, &in->op[0], lane, m);
	}
}

/* A clock is the number of instructions so far. */
void ptx_do_clock(struct warp *w, const struct ins *in, uint32_t m)
{
	for (unsigned lane = 0; lane < LANES; lane++) {
		if (m >> lane & 1)
			ptx_assign(w, &in->op[0], lane,
				   w->block->machine->executed);
	}
}

void ptx_do_nothing(struct warp *w, const struct ins *in, uint32_t m)
{
	(void)w;
	(void)in;
	(void)m;
}
