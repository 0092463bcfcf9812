/* SPDX-License-Identifier: MIT */
/* Many tensors: loads, and opening alone. */
#include <malloc.h>
#include <stdio.h>

#include "bench.h"

struct counts {
	const struct file *one, *many;
	struct loader loader_one, loader_many; /* each keeps its memory */
	int part;
	unsigned char *mem; /* memory of the raw loop */
};

static void raw_loop(struct counts *c, const struct file *f, struct sample *s)
{
	struct raw_result r = raw_direct(f->path, c->mem, CHUNK, DEPTH);

	s->seconds = r.seconds;
	s->cpu = r.cpu_seconds;
	s->bytes = r.bytes;
}

static void raw_one(void *arg, struct sample *s)
{
	struct counts *c = arg;

	raw_loop(c, c->one, s);
}

static void raw_many(void *arg, struct sample *s)
{
	struct counts *c = arg;

	raw_loop(c, c->many, s);
}

/* How much reads of two files differ only by their places on the disk. */
static void row_place(struct counts *c, unsigned pairs)
{
	struct pair p = { .name = "many: place of its file, raw",
			  .limit = "raw loop, file of one tensor",
			  .file_a = c->one,
			  .file_b = c->many,
			  .a = raw_one,
			  .b = raw_many,
			  .arg = c };
	size_t bytes = c->one->bytes > c->many->bytes ? c->one->bytes
						      : c->many->bytes;
	struct result r;

	bytes = (bytes + CHUNK - 1) / CHUNK * CHUNK;
	c->mem = raw_memory(bytes);
	pair_run(&p, pairs, false, &r);
	result_add(&r);
	raw_unmap(c->mem, bytes);
}

static void load_one(void *arg, struct sample *s)
{
	struct counts *c = arg;

	loader_load_kept(&c->loader_one, c->one, c->part, s);
}

static void load_many(void *arg, struct sample *s)
{
	struct counts *c = arg;

	loader_load_kept(&c->loader_many, c->many, c->part, s);
}

static void run(struct counts *c, const struct pair *p, unsigned pairs)
{
	struct result r;

	pair_run(p, pairs, false, &r);
	r.judged = GOAL_RATIO;
	r.goal = 0.9;
	result_add(&r);
	(void)c;
}

void row_many(unsigned pairs)
{
	struct counts c = { .one = model_one(), .many = model_many() };
	struct pair p = { .limit = "one tensor of the same size",
			  .file_a = c.one,
			  .file_b = c.many,
			  .a = load_one,
			  .b = load_many,
			  .arg = &c };

	row_place(&c, pairs);
	loader_open(&c.loader_one, 0);
	loader_open(&c.loader_many, 0);
	p.name = "many: 100,000, cold, opened";
	c.part = LOADER_WHOLE;
	run(&c, &p, pairs);
	p.name = "many: 100,000, resident";
	p.resident = true;
	c.part = LOADER_OPENED;
	run(&c, &p, pairs);
	loader_close(&c.loader_one);
	loader_close(&c.loader_many);
}

/* Bytes that are allocated by malloc(3). */
static double allocated(void)
{
	struct mallinfo2 m = mallinfo2();

	return (double)(m.uordblks + m.hblkhd);
}

struct opened {
	double ns, bytes; /* per tensor; bytes without its name */
};

static double name_bytes(const struct weir_model *m)
{
	struct weir_entry e = { .size = sizeof(e) };
	size_t sum = 0;

	for (size_t i = 0; i < weir_model_count(m); i++) {
		must(weir_model_tensor(m, i, &e));
		sum += e.name_len;
	}
	return (double)sum;
}

static struct opened open_once(struct weir *weir, const struct file *f,
			       unsigned n)
{
	double before = allocated(), begun = raw_now(), taken;
	struct weir_model *m;
	struct opened o;

	must(weir_model_open(weir, f->path, NULL, &m));
	taken = raw_now() - begun;
	if (weir_model_count(m) != n)
		die("%s: not of %u tensors", f->path, n);
	o.ns = taken * 1e9 / n;
	o.bytes = (allocated() - before - name_bytes(m)) / n;
	weir_model_close(m);
	return o;
}

static void add_ns(unsigned n, double ns)
{
	struct result r = {
		.unit = "ns", .value = ns, .judged = GOAL_VALUE, .goal = 1000
	};

	snprintf(r.name, sizeof(r.name), "open: %u, each tensor", n);
	result_add(&r);
}

static double open_some(struct weir *weir, unsigned n, unsigned times,
			double *ret_bytes)
{
	const struct file *f = model_table(n);
	double ns[MAX_PAIRS + 1], mid;

	open_once(weir, f, n); /* not counted */
	for (unsigned i = 0; i < times; i++) {
		struct opened o = open_once(weir, f, n);

		ns[i] = o.ns;
		*ret_bytes = o.bytes;
	}
	mid = spread_of(ns, times).mid;
	add_ns(n, mid);
	return mid;
}

void row_open(unsigned pairs)
{
	static const unsigned counts[] = { 1000, 10000, 100000, 1000000 };
	struct result linear = { .name = "open: 1,000,000 to 100,000",
				 .unit = "x",
				 .judged = GOAL_VALUE,
				 .goal = 1.5 };
	struct result memory = { .name = "open: 1,000,000, memory but names",
				 .unit = "B each",
				 .judged = GOAL_VALUE,
				 .goal = 400 };
	double ns[4];
	struct loader u;

	/* Fresh memory each time, as in a program that opens one model. */
	mallopt(M_MMAP_THRESHOLD, 128 << 10);
	loader_open(&u, 0);
	for (unsigned i = 0; i < 4; i++)
		ns[i] = open_some(u.weir, counts[i], pairs, &memory.value);
	linear.value = ns[3] / ns[2];
	result_add(&linear);
	result_add(&memory);
	loader_close(&u);
}
