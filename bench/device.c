/* SPDX-License-Identifier: MIT */
/* Loads to a GPU, against the bus, the disk, the page cache, or all of them. */
#include <stdio.h>
#include <unistd.h>

#include "bench.h"
#include "bus.h"
#include "device.h"

#define SMALL ((size_t)1 << 20) /* a buffer that stays in the cache */
#define MAX_THREADS 64u
#define NO_GOAL 0.0

struct to_device {
	const struct file *file, *many;
	struct loader loader, loader_many;
	int part;
	unsigned threads;
	unsigned char *mem;
};

static void take(struct sample *s, struct raw_result r)
{
	s->seconds = r.seconds;
	s->cpu = r.cpu_seconds;
	s->bytes = r.bytes;
}

static double rate(struct raw_result r)
{
	return (double)r.bytes / 1e9 / r.seconds;
}

/* Data that passes through both is at most as fast as the slower one. */
static void take_slower(struct sample *s, struct raw_result a,
			struct raw_result b)
{
	take(s, rate(a) < rate(b) ? a : b);
}

static struct raw_result bus(void)
{
	return bus_copy((bus_is_stand_in() ? 256ull : 2048ull) << 20);
}

static unsigned all_cpus(void)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);

	return n > MAX_THREADS ? MAX_THREADS : (unsigned)n;
}

bool device_begin(void)
{
	static bool printed;

	bus_open(bench_device);
	if (!printed)
		printf("%s: %s\n", bench_device, bus_name());
	printed = true;
	/* No rate, and no checks of sources. */
	bus_set("RATE", "0");
	bus_set("LATENCY", "0");
	bus_set("DRY", "0");
	bus_set("CHECK", "0");
	return bus_is_stand_in();
}

/* On the stand-in the row is not measured. */
bool device_needs_gpu(const char *name)
{
	bool skip = device_begin() && !bench_tiny;

	if (skip)
		result_skip(name, "needs a real GPU");
	return skip;
}

bool device_needs_stand_in(const char *name)
{
	bool skip = !device_begin();

	if (skip)
		result_skip(name, "needs the stand-in, which keeps to a rate");
	return skip;
}

static void add_rate(const char *name, const double *v, unsigned n)
{
	struct result r = { .unit = "GB/s" };
	double sorted[MAX_PAIRS];

	for (unsigned i = 0; i < n; i++)
		sorted[i] = v[i];
	snprintf(r.name, sizeof(r.name), "%s", name);
	r.value = spread_of(sorted, n).mid;
	result_add(&r);
}

void row_device_bus(unsigned pairs)
{
	const struct file *f = model_large();
	double by_bus[MAX_PAIRS], disk[MAX_PAIRS], least[MAX_PAIRS];
	unsigned char *mem = raw_memory(f->bytes);

	device_begin();
	bus(); /* not counted */
	for (unsigned i = 0; i < pairs; i++) {
		by_bus[i] = rate(bus());
		bench_ready(f, false);
		disk[i] = rate(raw_direct(f->path, mem, CHUNK, DEPTH));
		least[i] = by_bus[i] < disk[i] ? by_bus[i] : disk[i];
	}
	add_rate("bus, page-locked to device", by_bus, pairs);
	add_rate("disk, O_DIRECT loop", disk, pairs);
	add_rate("min(disk, bus)", least, pairs);
	raw_unmap(mem, f->bytes);
}

/* One run: the engine's time is exact and cannot be disturbed. */
void row_device_slow(unsigned pairs)
{
	const struct file *f;
	struct result r = { .name = "to device, cold",
			    .limit = "a copy engine of 0.5 GB/s",
			    .unit = "GB/s",
			    .limit_value = 0.5,
			    .judged = GOAL_RATIO,
			    .goal = 0.95 };
	struct weir_weights *w;
	struct sample s;
	struct loader u;

	(void)pairs;
	if (device_needs_stand_in(r.name))
		return;
	f = model_large();
	bus_set("RATE", "5e8");
	bus_set("DRY", "1");
	loader_open_device(&u, 0, 0);
	bench_ready(f, false);
	loader_load(&u, f, LOADER_WHOLE, NULL, &w, &s);
	r.value = (double)s.bytes / 1e9 / s.seconds;
	r.ratio = r.low = r.high = r.value / r.limit_value;
	r.cpu = s.cpu * 1e12 / (double)s.bytes;
	result_add(&r);
	weir_weights_free(w);
	loader_close(&u);
}

static void load_one(void *arg, struct sample *s)
{
	struct to_device *d = arg;

	loader_load_kept(&d->loader, d->file, d->part, s);
}

static void load_many(void *arg, struct sample *s)
{
	struct to_device *d = arg;

	loader_load_kept(&d->loader_many, d->many, d->part, s);
}

static void small_pread(void *arg, struct sample *s)
{
	struct to_device *d = arg;

	take(s, raw_pread_reuse(d->file->path, d->mem, SMALL, d->threads));
}

/* The slower of page cache to page-locked memory and of the bus. */
static void cached_or_bus(void *arg, struct sample *s)
{
	struct to_device *d = arg;
	struct raw_result small, large;

	small = raw_pread_reuse(d->file->path, d->mem, SMALL, d->threads);
	large = raw_pread_reuse(d->file->path, d->mem, CHUNK, d->threads);
	take_slower(s, small.seconds < large.seconds ? small : large, bus());
}

static void disk_or_bus(void *arg, struct sample *s)
{
	struct to_device *d = arg;

	take_slower(s, raw_direct(d->file->path, d->mem, CHUNK, DEPTH), bus());
}

static void run(struct to_device *d, const struct pair *like, unsigned pairs,
		double goal)
{
	struct pair p = *like;
	struct result r;

	d->file = d->file ? d->file : model_large();
	p.file_a = d->file;
	p.file_b = d->many ? d->many : d->file;
	p.arg = d;
	pair_run(&p, pairs, false, &r);
	r.judged = goal > NO_GOAL ? GOAL_RATIO : GOAL_NONE;
	r.goal = goal;
	result_add(&r);
}

/*
 * A resident file, read to the slots: to a null device, which completes copies
 * at once, and to bench_device. The stand-in's worker shares the CPUs with the
 * readers, so with it the second row has no goal.
 */
static void ring(unsigned threads, const char *name, const char *limit,
		 unsigned pairs)
{
	struct to_device d = { .threads = threads };
	struct pair p = { .limit = limit,
			  .resident = true,
			  .a = small_pread,
			  .b = load_one };
	char text[64];

	device_begin();
	bus_set("DRY", "1");
	d.mem = raw_memory(threads * SMALL);
	p.name = name;
	loader_open_null(&d.loader, threads);
	run(&d, &p, pairs, 0.95);
	loader_close(&d.loader);
	snprintf(text, sizeof(text), "resident to %s, %u thread%s",
		 bench_device, threads, threads > 1 ? "s" : "");
	p.name = text;
	loader_open_device(&d.loader, threads, 0);
	run(&d, &p, pairs, bus_is_stand_in() ? NO_GOAL : 0.95);
	loader_close(&d.loader);
	raw_unmap(d.mem, threads * SMALL);
}

void row_device_ring_one(unsigned pairs)
{
	ring(1, "resident to the ring, 1 thread",
	     "pread, 1 MiB again, 1 thread", pairs);
}

void row_device_ring_two(unsigned pairs)
{
	ring(2, "resident to the ring, 2 threads",
	     "pread, 1 MiB again, 2 threads", pairs);
}

void row_device_resident(unsigned pairs)
{
	struct to_device d = { .threads = all_cpus() };
	struct pair p = { .name = "to device, resident",
			  .limit = "bus, or page cache to locked",
			  .resident = true,
			  .a = cached_or_bus,
			  .b = load_one };

	if (device_needs_gpu(p.name))
		return;
	d.mem = bus_locked(d.threads * CHUNK);
	loader_open_device(&d.loader, 0, 0);
	run(&d, &p, pairs, 0.90);
	loader_close(&d.loader);
	bus_unlock(d.mem);
}

void row_device_cold(unsigned pairs)
{
	struct to_device d = { 0 };
	struct pair p = { .name = "to device, cold",
			  .limit = "disk, or bus",
			  .a = disk_or_bus,
			  .b = load_one };

	if (device_needs_gpu(p.name))
		return;
	d.file = model_large();
	d.mem = raw_memory(d.file->bytes);
	loader_open_device(&d.loader, 0, 0);
	run(&d, &p, pairs, 0.95);
	loader_close(&d.loader);
	raw_unmap(d.mem, d.file->bytes);
}

void row_device_many(unsigned pairs)
{
	struct to_device d = { .part = LOADER_OPENED };
	struct pair p = { .name = "to device, 18,867 tensors",
			  .limit = "one tensor of the same size",
			  .resident = true,
			  .a = load_one,
			  .b = load_many };

	if (device_needs_gpu(p.name))
		return;
	d.file = model_one();
	d.many = model_qwen();
	loader_open_device(&d.loader, 0, 0);
	loader_open_device(&d.loader_many, 0, 0);
	run(&d, &p, pairs, 0.9);
	loader_close(&d.loader);
	loader_close(&d.loader_many);
}
