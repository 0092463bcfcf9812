/* SPDX-License-Identifier: MIT */
#include "model/load/portion.h"

/* Bytes of data, without gaps, in the first @bytes of a run with rows. */
static uint64_t data_in(const struct weir__cut *cut, uint64_t bytes)
{
	uint64_t part = bytes % cut->file_pitch;

	return bytes / cut->file_pitch * cut->width +
	       (part < cut->width ? part : cut->width);
}

/* The first tensor of the run that ends after @off of the file. */
static size_t first_after(const struct weir__layout *layout,
			  const struct weir__run *run, uint64_t off)
{
	size_t lo = run->first, hi = run->first + run->n;

	while (lo < hi && run->n > 1) {
		size_t mid = lo + (hi - lo) / 2;
		const struct weir__spot *s = &layout->spot[layout->order[mid]];

		if (s->off + s->take <= off)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

struct weir__portion weir__portion_begin(const struct weir__layout *layout,
					 const struct weir__run *run,
					 uint64_t from, uint64_t to)
{
	return (struct weir__portion){ .layout = layout,
				       .run = run,
				       .from = from,
				       .to = to,
				       .at = first_after(layout, run, from),
				       .end = run->first + run->n };
}

bool weir__portion_next(struct weir__portion *p)
{
	const struct weir__cut *cut = weir__layout_cut(p->layout, p->run->cut);
	const struct weir__spot *s;

	if (p->at == p->end)
		return false;
	if (p->run->n == 1) {
		p->at = p->end;
		p->spot = p->run->spot;
		p->a = p->from;
		p->b = p->to;
		p->take = p->to - p->from;
		if (cut && cut->rows > 1)
			p->take = data_in(cut, p->to - p->run->off) -
				  data_in(cut, p->from - p->run->off);
		return true;
	}
	p->spot = p->layout->order[p->at++];
	s = &p->layout->spot[p->spot];
	if (s->off >= p->to)
		return false;
	p->a = s->off > p->from ? s->off : p->from;
	p->b = s->off + s->take < p->to ? s->off + s->take : p->to;
	p->take = p->b - p->a;
	return true;
}
