/* SPDX-License-Identifier: MIT */
#include "model/load/chunk_tensors.h"

/*
 * Return the bytes of data, without gaps, in the first @bytes of a span with
 * rows.
 */
static uint64_t data_in(const struct weir__slice *slice, uint64_t bytes)
{
	uint64_t part = bytes % slice->file_pitch;

	return bytes / slice->file_pitch * slice->width +
	       (part < slice->width ? part : slice->width);
}

/* Find the first tensor of the span that ends after @off of the file. */
static size_t first_after(const struct weir__layout *layout,
			  const struct weir__load_span *span, uint64_t off)
{
	size_t lo = span->first, hi = span->first + span->n;

	while (lo < hi && span->n > 1) {
		size_t mid = lo + (hi - lo) / 2;
		const struct weir__tensor_placement *s =
			&layout->placement[layout->order[mid]];

		if (s->off + s->data <= off)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

struct weir__chunk_tensors
weir__chunk_tensors_begin(const struct weir__layout *layout,
			  const struct weir__load_span *span, uint64_t from,
			  uint64_t to)
{
	return (struct weir__chunk_tensors){ .layout = layout,
					     .span = span,
					     .from = from,
					     .to = to,
					     .at = first_after(layout, span,
							       from),
					     .end = span->first + span->n };
}

bool weir__chunk_tensors_next(struct weir__chunk_tensors *p)
{
	const struct weir__slice *slice =
		weir__layout_slice(p->layout, p->span->slice);
	const struct weir__tensor_placement *s;

	if (p->at == p->end)
		return false;
	if (p->span->n == 1) {
		p->at = p->end;
		p->tensor = p->span->placement;
		p->a = p->from;
		p->b = p->to;
		p->data = p->to - p->from;
		if (slice && slice->rows > 1)
			p->data = data_in(slice, p->to - p->span->off) -
				  data_in(slice, p->from - p->span->off);
		return true;
	}
	p->tensor = p->layout->order[p->at++];
	s = &p->layout->placement[p->tensor];
	if (s->off >= p->to)
		return false;
	p->a = s->off > p->from ? s->off : p->from;
	p->b = s->off + s->data < p->to ? s->off + s->data : p->to;
	p->data = p->b - p->a;
	return true;
}
