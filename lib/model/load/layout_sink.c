/* SPDX-License-Identifier: MIT */
/*
 * The spans of sinks: of the program's functions, and of those that only
 * compute digests.
 */
#include <errno.h>

#include "core/array.h"
#include "core/cpus.h"
#include "core/error.h"
#include "core/root.h"
#include "model/load/layout.h"

/* Reading over a gap of this size costs less than a read of its own. */
#define MAX_GAP (64u << 10)
/*
 * Sinks that only compute digests: the most of them, and the least bytes that
 * one reads in a row, so that each reads long parts of the files.
 */
#define MAX_HASHERS 16u
#define STRETCH (4ull << 20)
/*
 * Bytes that all of them, and each at least, may read ahead, if the program
 * does not say.
 */
#define ALL_BUFFERS (64ull << 20)
#define HASHER_BUFFER (16ull << 20)
#define LEAST_BUFFER (128ull << 10)

static int no_memory(const struct weir__selected *s, size_t n, size_t size)
{
	return weir__fail(
		-ENOMEM, "%s: no memory for a layout of %zu items of %zu bytes",
		s->plan->model->path, n, size);
}

static bool continues_sink_span(const struct weir__layout_sink *sink,
				uint32_t shard,
				const struct weir__tensor_placement *place,
				size_t n_order)
{
	const struct weir__load_span *last;
	uint64_t end;

	if (!sink->n_spans)
		return false;
	last = &sink->span[sink->n_spans - 1];
	end = last->off + last->len;
	return last->shard == shard && place->off >= end &&
	       place->off - end <= MAX_GAP && last->first + last->n == n_order;
}

/*
 * Let the sink read a tensor. One that has memory is in the order of its buffer
 * already, and has a span of its own, which needs no order.
 */
static int add_to_sink(struct weir__layout *l, const struct weir__selected *s,
		       struct weir__layout_sink *sink, size_t number)
{
	const struct weir__tensor_placement *place = &l->placement[number];
	uint32_t shard = s->plan->model->rec[place->record].shard;
	struct weir__load_span *span = sink->span;
	bool alone = place->buf != WEIR__NO_BUF;

	if (alone || !continues_sink_span(sink, shard, place, l->n_order)) {
		span = weir__array_grow(span, &sink->max_spans, sink->n_spans,
					sizeof(*span));
		if (!span)
			return no_memory(s, sink->n_spans, sizeof(*span));
		sink->span = span;
		span[sink->n_spans++] = (struct weir__load_span){
			.shard = shard,
			.off = place->off,
			.first = l->n_order,
			.way = alone ? WEIR_WAY_BUFFERED : s->sel->way,
			.placement = (uint32_t)number,
			.slice = WEIR__NO_SLICE,
		};
	}
	span += sink->n_spans - 1;
	span->len = place->off + place->data - span->off;
	span->n++;
	if (!alone)
		l->order[l->n_order++] = number;
	return 0;
}

/* The number of a new sink. -ENOMEM. */
static int add_sink(struct weir__layout *l, const struct weir__selected *s,
		    const struct weir_sink *call)
{
	struct weir__layout_sink *sink =
		weir__grow(l->sink, &l->max_sinks, l->n_sinks, sizeof(*sink));

	if (!sink)
		return no_memory(s, l->n_sinks, sizeof(*sink));
	l->sink = sink;
	sink[l->n_sinks] = (struct weir__layout_sink){ .call = *call };
	return (int)l->n_sinks++;
}

static unsigned count_hashers(const struct weir__selected *s, uint64_t bytes)
{
	const struct weir *weir = s->plan->model->weir;
	uint64_t n = weir__cpus_count(&weir->io_cpus);
	uint64_t buffer = s->sel->sink.buffer;

	if (n > MAX_HASHERS)
		n = MAX_HASHERS;
	if (n > bytes / STRETCH + 1)
		n = bytes / STRETCH + 1;
	if (buffer && n > buffer / LEAST_BUFFER)
		n = buffer / LEAST_BUFFER;
	return n ? (unsigned)n : 1;
}

/* The sink that has the fewest bytes gets the next stretch. */
int weir__layout_hashed(struct weir__layout *l, const struct weir__selected *s)
{
	uint64_t sum[MAX_HASHERS] = { 0 }, bytes = 0, row = 0;
	struct weir_sink call = s->sel->sink;
	unsigned n, at = 0;
	int first = 0, r = 0;

	for (size_t i = 0; i < s->n; i++)
		bytes += l->placement[s->number[i]].data;
	n = count_hashers(s, bytes);
	if (!call.buffer)
		call.buffer = n * HASHER_BUFFER > ALL_BUFFERS
				      ? n * HASHER_BUFFER
				      : ALL_BUFFERS;
	call.buffer /= n;
	for (unsigned k = 0; k < n && r >= 0; k++) {
		r = add_sink(l, s, &call);
		first = k ? first : r;
	}
	for (size_t i = 0; i < s->n && r >= 0; i++) {
		uint64_t data = l->placement[s->number[i]].data;

		for (unsigned k = 0; k < n && row >= STRETCH; k++)
			at = sum[k] < sum[at] ? k : at;
		if (row >= STRETCH)
			row = 0;
		sum[at] += data;
		row += data;
		if (data)
			r = add_to_sink(l, s, &l->sink[(unsigned)first + at],
					s->number[i]);
	}
	return r;
}

int weir__layout_sink(struct weir__layout *l, const struct weir__selected *s)
{
	int r = 0, sink;

	for (size_t i = 0; i < s->n; i++)
		l->placement[s->number[i]].buf = WEIR__NO_BUF;
	if (!s->sel->sink.chunk)
		return weir__layout_hashed(l, s);
	sink = add_sink(l, s, &s->sel->sink);
	for (size_t i = 0; i < s->n && sink >= 0 && r >= 0; i++)
		if (l->placement[s->number[i]].data)
			r = add_to_sink(l, s, &l->sink[sink], s->number[i]);
	return sink < 0 ? sink : r;
}
