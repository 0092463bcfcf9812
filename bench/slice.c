/* SPDX-License-Identifier: MIT */
/*
 * Slices of an eighth: along the rows, whose bytes are contiguous, and along
 * the inner dimension, whose bytes have gaps.
 */
#include <stdio.h>
#include <string.h>

#include "bench.h"

#define PARTS 8u

struct sliced {
	const char *name, *glob;
	const struct file *(*model)(void);
	uint32_t dim;
	double rate_goal, bytes_goal; /* 0: none */
};

struct slices {
	const struct file *file;
	struct loader whole, part; /* each keeps its memory */
	uint64_t bytes;            /* bytes of the whole tensors */
	uint64_t from_disk;        /* read by the last load of slices */
};

/* Bytes that this process has read from disks. */
static uint64_t disk_bytes(void)
{
	FILE *f = fopen("/proc/self/io", "re");
	unsigned long long n = 0;
	char line[128];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "read_bytes: %llu", &n) == 1)
			break;
	if (f)
		fclose(f);
	return n;
}

static void load_whole(void *arg, struct sample *s)
{
	struct slices *sl = arg;

	loader_load_kept(&sl->whole, sl->file, LOADER_OPENED, s);
	sl->bytes = s->bytes;
}

/* Its rate is that of a load of the whole tensors in the same time. */
static void load_part(void *arg, struct sample *s)
{
	struct slices *sl = arg;
	uint64_t before = disk_bytes();

	loader_load_kept(&sl->part, sl->file, LOADER_OPENED, s);
	sl->from_disk = disk_bytes() - before;
	s->bytes = sl->bytes;
}

static void add_bytes(const struct slices *sl, const struct sliced *kind)
{
	struct result r = { .unit = "/8",
			    .limit = "bytes of the whole tensors",
			    .limit_value = PARTS,
			    .judged = kind->bytes_goal ? GOAL_VALUE : GOAL_NONE,
			    .goal = kind->bytes_goal };

	snprintf(r.name, sizeof(r.name), "slice: %s, read from disk",
		 kind->name);
	r.value = (double)sl->from_disk * PARTS / (double)sl->bytes;
	result_add(&r);
}

static void run(const struct sliced *kind, unsigned pairs)
{
	struct weir_slice slice = { .dim = kind->dim, .ranks = PARTS };
	struct weir_select_opts select = WEIR_SELECT_OPTS_INIT;
	struct slices sl = { .file = kind->model() };
	char name[48];
	struct pair p = { .name = name,
			  .limit = "the whole tensors",
			  .file_a = sl.file,
			  .file_b = sl.file,
			  .a = load_whole,
			  .b = load_part,
			  .arg = &sl };
	struct result r;

	if (bench_tiny) /* too few rows to divide */
		slice.ranks = 1;
	else
		slice.rank = 3;
	select.slice = &slice;
	loader_open(&sl.whole, 0);
	loader_open(&sl.part, 0);
	sl.whole.glob = sl.part.glob = kind->glob;
	sl.part.select = &select;
	for (int resident = 0; resident < 2; resident++) {
		p.resident = resident;
		snprintf(name, sizeof(name), "slice: %s, %s", kind->name,
			 resident ? "resident" : "cold");
		pair_run(&p, pairs, false, &r);
		if (kind->rate_goal)
			r.judged = GOAL_RATIO;
		r.goal = kind->rate_goal;
		result_add(&r);
		if (!resident)
			add_bytes(&sl, kind);
	}
	loader_close(&sl.whole);
	loader_close(&sl.part);
}

void row_slice(unsigned pairs)
{
	static const struct sliced kinds[] = {
		{ "rows", NULL, model_large, 0, 0, 1.02 },
		{ "inner", "*_proj.weight", model_large, 1, 0.5, 0 },
		{ "inner of 1 MiB", NULL, model_wide, 1, 0, 1.04 },
	};

	for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		run(&kinds[i], pairs);
}
