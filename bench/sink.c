/* SPDX-License-Identifier: MIT */
/* A sink that copies each chunk to its place, against a load into memory. */
#include <stdlib.h>
#include <string.h>

#include "bench.h"

struct copy {
	const struct file *file;
	unsigned char *mem; /* prefaulted */
	uint64_t *place;    /* in mem, of each tensor */
	struct loader loader;
};

static int copy_chunk(void *arg, size_t i, uint64_t off, const void *data,
		      size_t n)
{
	struct copy *c = arg;

	memcpy(c->mem + c->place[i] + off, data, n);
	return 0;
}

static void sink_copies(void *arg, struct sample *s)
{
	struct weir_sink sink = WEIR_SINK_INIT;
	struct copy *c = arg;
	double cpu = raw_cpu(), begun = raw_now();
	struct weir_model *model;
	struct weir_plan *plan;
	struct weir_load *l;

	sink.chunk = copy_chunk;
	sink.arg = c;
	must(weir_model_open(c->loader.weir, c->file->path, NULL, &model));
	must(weir_plan_new(model, &plan));
	must(weir_plan_sink(plan, NULL, &sink));
	must(weir_load_start(plan, NULL, &l));
	must(weir_load_wait(l, -1));
	s->seconds = raw_now() - begun;
	s->cpu = raw_cpu() - cpu;
	s->bytes = c->file->bytes;
	weir_load_free(l);
	weir_plan_free(plan);
	weir_model_close(model);
}

static void load_kept(void *arg, struct sample *s)
{
	struct copy *c = arg;

	loader_load_kept(&c->loader, c->file, LOADER_WHOLE, s);
}

/* Each tensor at its offset in the file. */
static void find_places(struct copy *c)
{
	struct weir_entry e = { .size = sizeof(e) };
	struct weir_model *model;
	size_t n;

	must(weir_model_open(c->loader.weir, c->file->path, NULL, &model));
	n = weir_model_count(model);
	c->place = calloc(n, sizeof(*c->place));
	for (size_t i = 0; i < n && c->place; i++) {
		must(weir_model_tensor(model, i, &e));
		c->place[i] = e.offset;
	}
	weir_model_close(model);
	if (!c->place)
		die("no memory for the places of %zu tensors", n);
}

static void run(const char *name, bool resident, unsigned pairs)
{
	struct copy c = { .file = model_large() };
	struct pair p = { .name = name,
			  .limit = "load into prefaulted memory",
			  .file_a = c.file,
			  .file_b = c.file,
			  .resident = resident,
			  .a = load_kept,
			  .b = sink_copies,
			  .arg = &c };
	struct result r;

	c.mem = raw_memory(c.file->bytes);
	loader_open(&c.loader, 0);
	find_places(&c);
	pair_run(&p, pairs, false, &r);
	r.judged = GOAL_RATIO;
	r.goal = 0.90;
	result_add(&r);
	loader_close(&c.loader);
	raw_unmap(c.mem, c.file->bytes);
	free(c.place);
}

void row_sink_cold(unsigned pairs)
{
	run("sink that copies, cold", false, pairs);
}

void row_sink_resident(unsigned pairs)
{
	run("sink that copies, resident", true, pairs);
}
