/* SPDX-License-Identifier: MIT */
#include "model/portion.h"

/* Rows of a range that begins at a row and has @bytes of the file. */
static uint64_t rows_in(const struct weir__cut *cut, uint64_t bytes)
{
	return (bytes + cut->file_pitch - 1) / cut->file_pitch;
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
	const struct weir__cut *cut = &p->run->cut;
	const struct weir__spot *s;

	if (p->at == p->end)
		return false;
	p->spot = p->layout->order[p->at++];
	s = &p->layout->spot[p->spot];
	if (cut->rows > 1) {
		/* The tensor has the run; chunks begin and end at rows. */
		p->a = p->from;
		p->b = p->to;
		p->take = rows_in(cut, p->to - p->from) * cut->width;
		return true;
	}
	if (s->off >= p->to)
		return false;
	p->a = s->off > p->from ? s->off : p->from;
	p->b = s->off + s->take < p->to ? s->off + s->take : p->to;
	p->take = p->b - p->a;
	return true;
}
