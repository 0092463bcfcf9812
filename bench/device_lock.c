/* SPDX-License-Identifier: MIT */
/* The cost of page-locking, and the time until the first tensor is loaded. */
#include <stdio.h>

#include "bench.h"
#include "bus.h"
#include "device.h"

#define SMALL_FILE 1000u /* tensors of 16 bytes */
#define MAX_FIRST (4u << 20)

/* A load of 16 KB: the time of its calls and of making the ring. */
static double load_little(struct loader *u, const struct file *f)
{
	struct weir_weights *w;
	struct sample s;

	loader_load(u, f, LOADER_OPENED, NULL, &w, &s);
	weir_weights_free(w);
	return s.seconds;
}

/*
 * How much longer the first load takes than later ones: it opens the copy
 * queue, and prefaults and page-locks all slots.
 */
static double ready_ring(const struct file *f, uint64_t *ret_bytes)
{
	struct weir_io_info info = { .size = sizeof(info) };
	double first, later[3];
	struct loader u;

	loader_open_device(&u, 0, 1);
	first = load_little(&u, f);
	for (unsigned i = 0; i < 3; i++)
		later[i] = load_little(&u, f);
	must(weir_io_info(u.weir, &info));
	*ret_bytes = info.staging;
	loader_close(&u);
	return first - spread_of(later, 3).mid;
}

void row_device_lock_ring(unsigned pairs)
{
	const struct file *f = model_table(SMALL_FILE);
	double prefault[MAX_PAIRS], ring[MAX_PAIRS], ratio[MAX_PAIRS];
	struct result r = { .limit = "prefaulting it on 2 threads",
			    .unit = "ms",
			    .judged = GOAL_VALUE };
	struct spread s;
	uint64_t bytes;

	device_begin();
	bus_set("DRY", "1");
	pairs = pairs * 3 < MAX_PAIRS ? pairs * 3 : MAX_PAIRS; /* short ones */
	ready_ring(f, &bytes);                                 /* not counted */
	for (unsigned i = 0; i < pairs; i++)
		for (unsigned k = 0; k < 2; k++) /* A B, B A, ... */
			if (k == i % 2) {
				raw_prefault_fresh(bytes);
				prefault[i] =
					raw_prefault_two(bytes).seconds * 1e3;
			} else {
				raw_prefault_fresh(bytes);
				ring[i] = ready_ring(f, &bytes) * 1e3;
			}
	for (unsigned i = 0; i < pairs; i++)
		ratio[i] = ring[i] / prefault[i];
	snprintf(r.name, sizeof(r.name), "ring of %llu MiB ready",
		 (unsigned long long)bytes >> 20);
	r.limit_value = spread_of(prefault, pairs).mid;
	r.value = spread_of(ring, pairs).mid;
	s = spread_of(ratio, pairs);
	r.ratio = s.mid;
	r.low = s.low;
	r.high = s.high;
	r.goal = 1.2 * r.limit_value + 1;
	result_add(&r);
}

struct lock {
	struct weir *weir;
	struct weir_buft *locked;
	uint64_t bytes;
};

static void drivers_call(void *arg, struct sample *s)
{
	struct lock *l = arg;
	struct raw_result r = bus_alloc(l->bytes);

	s->seconds = r.seconds;
	s->cpu = r.cpu_seconds;
	s->bytes = r.bytes;
}

static void weir_locked(void *arg, struct sample *s)
{
	struct lock *l = arg;
	struct weir_buf_info info = { .size = sizeof(info) };
	double cpu = raw_cpu(), begun = raw_now();
	struct weir_buf *buf;

	must(weir_buf_alloc(l->locked, l->bytes, NULL, &buf));
	s->seconds = raw_now() - begun;
	s->cpu = raw_cpu() - cpu;
	s->bytes = l->bytes;
	must(weir_buf_info(buf, &info));
	if (!(info.got & WEIR_GOT_LOCKED))
		die("memory is not page-locked: %s", info.why);
	weir_buf_free(buf);
	weir_trim(l->weir, 0);
}

void row_device_lock(unsigned pairs)
{
	struct lock l = { .bytes = bench_tiny ? 16ull << 20 : 8ull << 30 };
	struct pair p = { .limit = "cuMemHostAlloc",
			  .a = drivers_call,
			  .b = weir_locked,
			  .arg = &l };
	struct result r;
	struct loader u;

	char name[32];

	snprintf(name, sizeof(name), "page-locking %llu MiB",
		 (unsigned long long)l.bytes >> 20);
	p.name = name;
	if (device_needs_gpu(p.name))
		return;
	loader_open_device(&u, 0, 0);
	l.weir = u.weir;
	must(weir_dev_buft(u.dev, WEIR_MEM_PINNED, &l.locked));
	pair_run(&p, pairs, false, &r);
	r.judged = GOAL_RATIO;
	r.goal = 2;
	result_add(&r);
	loader_close(&u);
}

struct first {
	struct loader loader;
	struct weir_model *model;
	struct weir_stream *stream; /* which uses the tensor */
	struct weir_event *event;
	size_t at; /* the first tensor in the file */
};

static void find_first(struct first *f, const struct weir_weights *w)
{
	struct weir_entry e = { .size = sizeof(e) };
	uint64_t least = UINT64_MAX, bytes = 0;

	for (size_t i = 0; i < weir_weights_count(w); i++) {
		must(weir_weights_entry(w, i, &e));
		if (e.offset >= least)
			continue;
		least = e.offset;
		bytes = e.bytes;
		f->at = i;
	}
	if (bytes > MAX_FIRST)
		die("the first tensor has %llu bytes",
		    (unsigned long long)bytes);
}

/* Copy a byte of the tensor on a stream other than the load's. */
static void use_first(struct first *f, struct weir_load *l,
		      const struct weir_weights *w)
{
	unsigned char byte;

	must(weir_load_record(l, f->at, f->event));
	must(weir_stream_wait(f->stream, f->event));
	must(weir_stream_get(f->stream, weir_weights_get(w, f->at), 0, &byte,
			     1));
	must(weir_stream_sync(f->stream, -1));
}

/* Milliseconds from weir_load_start until that copy is done. */
static double time_first(struct first *f)
{
	struct weir_weights *w;
	struct weir_plan *plan;
	struct weir_load *l;
	double begun, taken;

	must(weir_plan_new(f->model, &plan));
	must(weir_plan_add(plan, "model.layers.*", f->loader.to, NULL));
	begun = raw_now();
	must(weir_load_start(plan, NULL, &l));
	must(weir_load_weights(l, &w));
	use_first(f, l, w);
	taken = (raw_now() - begun) * 1e3;
	must(weir_load_wait(l, -1));
	find_first(f, w);
	weir_weights_free(w);
	weir_load_free(l);
	weir_plan_free(plan);
	return taken;
}

void row_device_first(unsigned pairs)
{
	const struct file *file;
	struct result r = { .name = "first tensor, resident",
			    .unit = "ms",
			    .judged = GOAL_VALUE,
			    .goal = 5 };
	double ms[MAX_PAIRS];
	struct first f = { .at = 0 };

	if (device_needs_gpu(r.name))
		return;
	file = model_large();
	loader_open_device(&f.loader, 0, 0);
	must(weir_model_open(f.loader.weir, file->path, NULL, &f.model));
	must(weir_stream_new(f.loader.dev, NULL, &f.stream));
	must(weir_event_new(f.loader.weir, 0, &f.event));
	bench_ready(file, true);
	time_first(&f); /* not counted: it makes the ring */
	for (unsigned i = 0; i < pairs; i++) {
		bench_ready(file, true);
		ms[i] = time_first(&f);
	}
	r.value = spread_of(ms, pairs).mid;
	result_add(&r);
	weir_event_free(f.event);
	weir_stream_free(f.stream);
	weir_model_close(f.model);
	loader_close(&f.loader);
}
