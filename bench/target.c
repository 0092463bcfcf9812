/* SPDX-License-Identifier: MIT */
/*
 * Exact destinations: tensors are loaded to places that the caller has chosen,
 * against a load of the same model that places them itself. Both have their
 * plan and their memory, which is prefaulted: timed are the start and the wait.
 */
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"

#define PAD 32u /* as ggml aligns tensors */

struct layout {
	const char *name;
	const struct file *(*model)(void);
	bool own; /* shuffled, each in memory of its own; or in file order */
};

struct places {
	const struct file *file;
	struct loader loader;
	struct weir_model *model;
	struct weir_buf *placed, **own; /* own: one for each, or one for all */
	size_t n, n_own;
	struct weir_tensor *tensor;
	struct weir_target *target;
	struct weir_plan *plan[2];
	struct weir_load_report report[2];
};

static struct weir_buf *prefaulted(struct weir_buft *buft, uint64_t bytes)
{
	struct weir_buf_opts o = WEIR_BUF_OPTS_INIT;
	struct weir_buf *buf;

	o.flags = WEIR_BUF_PREFAULT;
	must(weir_buf_alloc(buft, bytes, &o, &buf));
	return buf;
}

static void *get_memory(size_t bytes)
{
	void *p = malloc(bytes ? bytes : 1);

	if (!p)
		die("no memory");
	return p;
}

/* Memory as an allocator of the program returns it. */
static struct weir_buf *own_memory(struct weir_buft *buft, uint64_t bytes)
{
	unsigned char *mem = get_memory(bytes);
	struct weir_buf *buf;

	for (uint64_t at = 0; at < bytes; at += 4096)
		mem[at] = 1;
	must(weir_buf_wrap(buft, mem, bytes, free, mem, &buf));
	return buf;
}

/* The same order in every run. */
static void shuffle(struct weir_target *t, size_t n)
{
	uint64_t x = 1;

	for (size_t i = n - 1; i; i--) {
		struct weir_target kept = t[i];
		size_t k;

		x = x * 6364136223846793005u + 1442695040888963407u;
		k = (size_t)((x >> 33) % (i + 1));
		t[i] = t[k];
		t[k] = kept;
	}
}

static void describe(struct places *p)
{
	struct weir_entry e = { .size = sizeof(e) };

	for (size_t i = 0; i < p->n; i++) {
		must(weir_model_tensor(p->model, i, &e));
		must(weir_tensor_init(&p->tensor[i], e.dtype, e.ndim, e.shape));
		p->target[i] = (struct weir_target){
			.size = sizeof(struct weir_target),
			.tensor = i,
			.dst = &p->tensor[i],
		};
	}
}

static uint64_t room_of(const struct places *p, size_t i)
{
	struct weir_entry e = { .size = sizeof(e) };

	must(weir_model_tensor(p->model, i, &e));
	return (e.bytes + PAD - 1) / PAD * PAD;
}

static void place_all(struct places *p, bool own)
{
	uint64_t at = 0;

	if (own)
		shuffle(p->target, p->n);
	for (size_t i = 0; i < p->n; i++)
		at += own ? 0 : room_of(p, i);
	p->n_own = own ? p->n : 1;
	p->own = get_memory(p->n_own * sizeof(struct weir_buf *));
	if (!own)
		p->own[0] = prefaulted(p->loader.huge, at);
	at = 0;
	for (size_t i = 0; i < p->n; i++) {
		size_t number = p->target[i].tensor;
		struct weir_tensor *t = &p->tensor[number];
		uint64_t bytes = room_of(p, number);

		if (own)
			p->own[i] = own_memory(p->loader.huge, bytes);
		must(weir_tensor_place(t, p->own[own ? i : 0], at));
		at += own ? 0 : bytes;
	}
}

static void places_open(struct places *p, const struct layout *l)
{
	struct weir_select_opts select = WEIR_SELECT_OPTS_INIT;

	p->file = l->model();
	loader_open(&p->loader, 0);
	must(weir_model_open(p->loader.weir, p->file->path, NULL, &p->model));
	p->n = weir_model_count(p->model);
	p->tensor = get_memory(p->n * sizeof(*p->tensor));
	p->target = get_memory(p->n * sizeof(*p->target));
	describe(p);
	place_all(p, l->own);
	p->placed = prefaulted(p->loader.huge, p->file->bytes + (64u << 20));
	select.buf = p->placed;
	must(weir_plan_new(p->model, &p->plan[0]));
	must(weir_plan_add(p->plan[0], NULL, p->loader.huge, &select));
	must(weir_plan_new(p->model, &p->plan[1]));
	must(weir_plan_add_tensors(p->plan[1], p->target, p->n));
}

static void places_close(struct places *p)
{
	weir_plan_free(p->plan[0]);
	weir_plan_free(p->plan[1]);
	weir_buf_free(p->placed);
	for (size_t i = 0; i < p->n_own; i++)
		weir_buf_free(p->own[i]);
	free(p->own);
	free(p->tensor);
	free(p->target);
	weir_model_close(p->model);
	loader_close(&p->loader);
}

static void load(struct places *p, unsigned which, struct sample *s)
{
	struct weir_load_report *r = &p->report[which];
	double cpu = raw_cpu(), begun = raw_now();
	struct weir_load *l;

	must(weir_load_start(p->plan[which], NULL, &l));
	must(weir_load_wait(l, -1));
	s->seconds = raw_now() - begun;
	s->cpu = raw_cpu() - cpu;
	r->size = sizeof(*r);
	must(weir_load_report(l, r));
	s->bytes = r->bytes;
	weir_load_free(l);
}

static void load_placed(void *arg, struct sample *s)
{
	load(arg, 0, s);
}

static void load_exact(void *arg, struct sample *s)
{
	load(arg, 1, s);
}

static void add_staged(const struct places *p, const struct layout *l)
{
	const struct weir_load_report *report = &p->report[1];
	struct result r = { .unit = "%" };

	snprintf(r.name, sizeof(r.name), "targets: %s, staged", l->name);
	r.value = 100 * (double)report->staged / (double)report->bytes;
	result_add(&r);
}

static void run(const struct layout *l, unsigned pairs)
{
	struct places p = { 0 };
	struct pair pair = { .limit = "a load that places",
			     .a = load_placed,
			     .b = load_exact,
			     .arg = &p };
	char name[48];
	struct result r;

	places_open(&p, l);
	pair.name = name;
	pair.file_a = pair.file_b = p.file;
	for (int resident = 0; resident < 2; resident++) {
		pair.resident = resident;
		snprintf(name, sizeof(name), "targets: %s, %s", l->name,
			 resident ? "resident" : "cold");
		pair_run(&pair, pairs, false, &r);
		r.judged = GOAL_RATIO;
		r.goal = 0.95;
		result_add(&r);
		if (!resident)
			add_staged(&p, l);
	}
	places_close(&p);
}

void row_targets(unsigned pairs)
{
	static const struct layout layouts[] = {
		{ "file order", model_large, false },
		{ "own memory", model_large, true },
		{ "20,000", model_small, false },
		{ "20,000, own", model_small, true },
	};

	for (unsigned i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++)
		run(&layouts[i], pairs);
}
