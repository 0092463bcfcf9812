/* SPDX-License-Identifier: MIT */
/*
 * The extents of a load's job. Each run of the layout is divided into units, for
 * each of which the page cache decides whether it is read directly or buffered;
 * neighbouring units that are read alike make one extent.
 */
#include <errno.h>
#include <stdlib.h>

#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"
#include "model/load.h"

#define UNIT_BYTES (16ull << 20)
#define MAX_UNITS 1024u     /* in one run: long runs have larger units */
#define MAX_GAP (64u << 10) /* a gap of this size costs less than a read */
#define MAX_ROW (256u << 10)
#define RESIDENT 950u /* per mille in the page cache: buffered is faster */

bool weir__goes_buffered(struct weir_file *file, enum weir_way way,
			 uint64_t off, uint64_t len)
{
	if (way == WEIR_WAY_BUFFERED || !atomic_load(&file->direct_ok))
		return true;
	if (way == WEIR_WAY_DIRECT)
		return false;
	return weir__file_resident(file, off, len) >= RESIDENT;
}

static int add_extent(struct weir_load *l, uint32_t run_number, uint64_t skip,
		      uint64_t mem_skip, uint64_t len, bool buffered)
{
	const struct weir__run *run = &l->weights->layout.run[run_number];
	struct weir_buf *buf = l->weights->buf[run->buf];
	size_t cap = l->max_ext; /* of both arrays */
	void *more;

	more = weir__grow(l->ext, &cap, l->n_ext, sizeof(*l->ext));
	if (!more)
		return -ENOMEM;
	l->ext = more;
	more = weir__grow(l->ext_run, &l->max_ext, l->n_ext,
			  sizeof(*l->ext_run));
	if (!more)
		return -ENOMEM;
	l->ext_run = more;
	l->ext[l->n_ext] = (struct weir__extent){
		.file = l->model->file[run->shard],
		.off = run->off + skip,
		.len = len,
		.addr = buf->mem.base + run->at + mem_skip,
		.dev = weir__buf_is_host(buf) ? NULL : buf->buft->dev,
		.gap_group = l->weights->layout.buf[run->buf].given ? NULL
								    : buf,
		.buffered = buffered,
		.convert = run->cut.convert,
	};
	l->ext_run[l->n_ext++] = run_number;
	return 0;
}

/*
 * Rows that are far apart or long are extents of their own; others make one,
 * which is read with the gaps between them.
 */
static int add_rows(struct weir_load *l, uint32_t number)
{
	const struct weir__run *run = &l->weights->layout.run[number];
	const struct weir__cut *cut = &run->cut;
	bool buffered = weir__goes_buffered(l->model->file[run->shard],
					    run->way, run->off, run->len);
	struct weir__extent *e;
	int r = 0;

	if (cut->rows <= 1 || cut->file_pitch - cut->width > MAX_GAP ||
	    cut->width > MAX_ROW) {
		for (uint64_t k = 0; k < cut->rows && r >= 0; k++)
			r = add_extent(l, number, k * cut->file_pitch,
				       k * cut->mem_pitch, cut->width,
				       buffered);
		return r;
	}
	r = add_extent(l, number, 0, 0, run->len, buffered);
	if (r < 0)
		return r;
	e = &l->ext[l->n_ext - 1];
	e->rows = cut->rows;
	e->width = cut->width;
	e->file_pitch = cut->file_pitch;
	e->mem_pitch = cut->mem_pitch;
	return 0;
}

static int add_run(struct weir_load *l, uint32_t number)
{
	const struct weir__run *run = &l->weights->layout.run[number];
	struct weir_file *file = l->model->file[run->shard];
	uint64_t unit = run->len / MAX_UNITS, from = 0, at = 0;
	bool way = false;
	int r = 0;

	if (!weir__cut_is_plain(&run->cut))
		return add_rows(l, number);
	unit = unit < UNIT_BYTES ? UNIT_BYTES : weir__up(unit, UNIT_BYTES);
	while (at < run->len && r >= 0) {
		/* Units end at multiples of their size in the file. */
		uint64_t n = unit - (run->off + at) % unit;
		bool next;

		if (n > run->len - at)
			n = run->len - at;
		next = weir__goes_buffered(file, run->way, run->off + at, n);
		if (at > from && next != way) {
			r = add_extent(l, number, from, from, at - from, way);
			from = at;
		}
		way = next;
		at += n;
	}
	return r < 0 ? r
		     : add_extent(l, number, from, from, run->len - from, way);
}

/* By priority, then in the order of the files, which are read in order. */
static int by_file(const void *a, const void *b, void *arg)
{
	const struct weir__run *runs = arg;
	const struct weir__run *x = &runs[*(const uint32_t *)a];
	const struct weir__run *y = &runs[*(const uint32_t *)b];

	if (x->priority != y->priority)
		return x->priority > y->priority ? -1 : 1;
	if (x->shard != y->shard)
		return x->shard < y->shard ? -1 : 1;
	return x->off < y->off ? -1 : x->off > y->off;
}

int weir__load_extents(struct weir_load *l)
{
	const struct weir__layout *layout = &l->weights->layout;
	uint32_t *order = weir__calloc(layout->n_runs, sizeof(*order));
	int r = order ? 0 : -ENOMEM;

	for (size_t i = 0; i < layout->n_runs && !r; i++)
		order[i] = (uint32_t)i;
	if (!r && layout->n_runs > 1)
		qsort_r(order, layout->n_runs, sizeof(*order), by_file,
			layout->run);
	for (size_t i = 0; i < layout->n_runs && r >= 0; i++)
		r = add_run(l, order[i]);
	weir__free(order);
	return r < 0 ? weir__fail(r,
				  "%s: no memory for the extents of %zu runs",
				  l->model->path, layout->n_runs)
		     : 0;
}
