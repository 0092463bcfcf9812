/* SPDX-License-Identifier: MIT */
/*
 * One large file against raw loops: cold, resident, prefaulted, fresh memory.
 */
#include "bench.h"

struct large {
	const struct file *file;
	unsigned char *mem; /* prefaulted, or NULL */
	struct loader loader;
	double prefault[REPEATS * (MAX_PAIRS + 1)]; /* CPU, ms for each GB */
	unsigned n_prefault;
};

static void take(struct sample *s, struct raw_result r)
{
	s->seconds = r.seconds;
	s->cpu = r.cpu_seconds;
	s->bytes = r.bytes;
}

static void raw_cold_prefaulted(void *arg, struct sample *s)
{
	struct large *l = arg;

	take(s, raw_direct(l->file->path, l->mem, CHUNK, DEPTH));
}

static void raw_pread_one(void *arg, struct sample *s)
{
	struct large *l = arg;

	take(s, raw_pread(l->file->path, l->mem, CHUNK, 1));
}

static void raw_pread_two(void *arg, struct sample *s)
{
	struct large *l = arg;

	take(s, raw_pread(l->file->path, l->mem, CHUNK, 2));
}

static void settle(uint64_t bytes)
{
	if (!bench_tiny)
		raw_settle(bytes);
}

typedef struct raw_result raw_loop(const char *path, unsigned char *mem,
				   size_t chunk, unsigned threads);

static void raw_fresh_by(struct large *l, raw_loop *loop, struct sample *s)
{
	unsigned char *mem;

	settle(l->file->bytes);
	mem = raw_fresh(l->file->bytes);
	take(s, loop(l->file->path, mem, CHUNK, 2));
	raw_unmap(mem, l->file->bytes);
}

static void raw_pread_fresh(void *arg, struct sample *s)
{
	raw_fresh_by(arg, raw_pread, s);
}

static void raw_populated_fresh(void *arg, struct sample *s)
{
	raw_fresh_by(arg, raw_populate_pread, s);
}

static void weir_prefaulted(void *arg, struct sample *s)
{
	struct large *l = arg;

	loader_load_kept(&l->loader, l->file, LOADER_WHOLE, s);
}

static void load_fresh(struct large *l, struct sample *s)
{
	struct weir_weights *w;

	loader_load(&l->loader, l->file, LOADER_WHOLE, NULL, &w, s);
	weir_weights_free(w);
	weir_trim(l->loader.weir, 0);
}

static void weir_fresh(void *arg, struct sample *s)
{
	struct large *l = arg;

	settle(l->file->bytes);
	load_fresh(l, s);
}

/* Preceded by prefaulting as much memory, which gives the CPU goal. */
static void weir_fresh_after_prefault(void *arg, struct sample *s)
{
	struct large *l = arg;
	uint64_t bytes = l->file->bytes;

	settle(bytes);
	l->prefault[l->n_prefault++] =
		raw_prefault_fresh(bytes).cpu_seconds * 1e12 / (double)bytes;
	load_fresh(l, s);
}

static void run(const struct pair *like, unsigned copiers, unsigned pairs,
		double goal, double cpu_goal)
{
	struct large l = { .file = model_large() };
	struct pair p = *like;
	struct result r;

	p.file_a = p.file_b = l.file;
	p.arg = &l;
	if (p.a != raw_pread_fresh && p.a != raw_populated_fresh)
		l.mem = raw_memory(l.file->bytes);
	loader_open(&l.loader, copiers);
	pair_run(&p, pairs, false, &r);
	r.judged = GOAL_RATIO;
	r.goal = goal;
	r.cpu_goal = cpu_goal;
	if (l.n_prefault)
		r.cpu_goal += spread_of(l.prefault, l.n_prefault).mid;
	result_add(&r);
	loader_close(&l.loader);
	if (l.mem)
		raw_unmap(l.mem, l.file->bytes);
}

void row_cold_prefaulted(unsigned pairs)
{
	run(&(struct pair){ .name = "cold, prefaulted memory",
			    .limit = "O_DIRECT loop, 4 MiB x 8",
			    .a = raw_cold_prefaulted,
			    .b = weir_prefaulted },
	    0, pairs, 0.95, 15);
}

void row_cold_fresh(unsigned pairs)
{
	run(&(struct pair){ .name = "cold, fresh memory",
			    .limit = "O_DIRECT loop, prefaulted memory",
			    .a = raw_cold_prefaulted,
			    .b = weir_fresh_after_prefault },
	    0, pairs, 0.90, 15);
}

void row_resident_one(unsigned pairs)
{
	run(&(struct pair){ .name = "resident, prefaulted, 1 thread",
			    .limit = "pread, 1 thread",
			    .resident = true,
			    .a = raw_pread_one,
			    .b = weir_prefaulted },
	    1, pairs, 0.95, 0);
}

void row_resident_two(unsigned pairs)
{
	run(&(struct pair){ .name = "resident, prefaulted, 2 threads",
			    .limit = "pread, 2 threads",
			    .resident = true,
			    .a = raw_pread_two,
			    .b = weir_prefaulted },
	    2, pairs, 0.95, 0);
}

/* Two pairs, since the faster of two loops is faster than either by chance. */
void row_resident_fresh(unsigned pairs)
{
	run(&(struct pair){ .name = "resident, fresh memory",
			    .limit = "pread, 2 threads",
			    .resident = true,
			    .a = raw_pread_fresh,
			    .b = weir_fresh },
	    0, pairs, 0.95, 0);
	run(&(struct pair){ .name = "resident, fresh, populated",
			    .limit = "populate, pread, 2 threads",
			    .resident = true,
			    .a = raw_populated_fresh,
			    .b = weir_fresh },
	    0, pairs, 0.95, 0);
}
