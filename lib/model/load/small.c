/* SPDX-License-Identifier: MIT */
/*
 * Loads that the calling thread does by itself: a few small reads out of the
 * page cache, to host memory. Such a load has no job and needs no engine.
 */
#include "io/nowait.h"
#include "model/load/load.h"

/* Each read costs as much as copying some 16 KiB. */
#define MAX_READS 32u

bool weir__load_is_small(const struct weir_load *l)
{
	const struct weir__layout *layout = l->weights->layout;
	uint64_t bytes = 0;

	if (layout->n_runs > MAX_READS || layout->n_sinks)
		return false;
	for (size_t i = 0; i < layout->n_runs; i++) {
		const struct weir__run *run = &layout->run[i];

		if (run->way == WEIR_WAY_DIRECT || run->cut ||
		    !weir__buf_is_host(l->weights->buf[run->buf]))
			return false;
		bytes += run->len;
	}
	if (bytes && !weir__nowait_allowed(l->weir, bytes))
		return false;
	for (size_t i = 0; i < layout->n_runs; i++) {
		const struct weir__run *run = &layout->run[i];

		if (!weir__nowait_expected(l->model->file[run->shard], run->off,
					   run->len))
			return false;
	}
	return true;
}

static void all_arrived(struct weir_load *l, uint64_t bytes_read)
{
	const struct weir__layout *layout = l->weights->layout;
	uint64_t ours = 0;

	for (size_t i = 0; i < layout->n; i++) {
		uint64_t bytes = atomic_load(&l->arrival->item[i].remaining);

		ours += bytes;
		if (bytes)
			weir__arrival_add(l->arrival, i, bytes, NULL);
	}
	atomic_store_explicit(&l->way[WEIR__CHUNK_BUFFERED], ours,
			      memory_order_relaxed);
	atomic_store_explicit(&l->gaps, bytes_read - ours,
			      memory_order_relaxed);
}

bool weir__load_nowait(struct weir_load *l)
{
	const struct weir__layout *layout = l->weights->layout;
	uint64_t bytes = 0;

	for (size_t i = 0; i < layout->n_runs; i++) {
		const struct weir__run *run = &layout->run[i];
		unsigned char *base = l->weights->buf[run->buf]->mem.base;

		if (!weir__nowait_read(l->model->file[run->shard],
				       base + run->at, run->len, run->off))
			return false;
		bytes += run->len;
	}
	all_arrived(l, bytes);
	return true;
}
