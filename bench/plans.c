/* SPDX-License-Identifier: MIT */
/* The cost of choosing 100,000 tensors, and of taking them as they arrive. */
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"

#define COUNT (bench_tiny ? 100u : 100000u)

struct plans {
	struct loader loader;
	struct weir_model *model;
	struct weir_buf *buf;
	struct weir_tensor *tensor;
	struct weir_target *target;
	unsigned n;
};

static void targets_make(struct plans *p)
{
	struct weir_entry e = { .size = sizeof(e) };
	uint64_t at = 0;

	p->tensor = calloc(p->n, sizeof(*p->tensor));
	p->target = calloc(p->n, sizeof(*p->target));
	if (!p->tensor || !p->target)
		die("no memory");
	must(weir_buf_alloc(p->loader.huge, (size_t)p->n * 64, NULL, &p->buf));
	for (unsigned i = 0; i < p->n; i++, at += 64) {
		struct weir_tensor *t = &p->tensor[i];

		must(weir_model_tensor(p->model, i, &e));
		must(weir_tensor_init(t, e.dtype, e.ndim, e.shape));
		must(weir_tensor_place(t, p->buf, at));
		p->target[i] = (struct weir_target){
			.size = sizeof(struct weir_target),
			.tensor = i,
			.dst = t,
		};
	}
}

static void select_by_name(struct plans *p, struct weir_plan *plan)
{
	struct weir_entry e = { .size = sizeof(e) };

	for (unsigned i = 0; i < p->n; i++) {
		must(weir_model_tensor(p->model, i, &e));
		must(weir_plan_add(plan, e.name, p->loader.huge, NULL));
	}
}

static void select_all(struct plans *p, struct weir_plan *plan)
{
	must(weir_plan_add(plan, "t*", p->loader.huge, NULL));
}

static void targets_one_by_one(struct plans *p, struct weir_plan *plan)
{
	for (unsigned i = 0; i < p->n; i++)
		must(weir_plan_add_tensors(plan, &p->target[i], 1));
}

static void targets_at_once(struct plans *p, struct weir_plan *plan)
{
	must(weir_plan_add_tensors(plan, p->target, p->n));
}

static void add(const char *name, double *ns, unsigned n)
{
	struct result r = { .unit = "ns", .judged = GOAL_VALUE, .goal = 1000 };

	snprintf(r.name, sizeof(r.name), "%s", name);
	r.value = spread_of(ns, n).mid;
	result_add(&r);
}

static void run_plan(struct plans *p, const char *name,
		     void (*fill)(struct plans *, struct weir_plan *),
		     unsigned times)
{
	double ns[MAX_PAIRS], begun;
	struct weir_plan *plan;

	for (unsigned i = 0; i < times; i++) {
		begun = raw_now();
		must(weir_plan_new(p->model, &plan));
		fill(p, plan);
		ns[i] = (raw_now() - begun) * 1e9 / p->n;
		weir_plan_free(plan);
	}
	add(name, ns, times);
}

/* weir_load_next() after all tensors have arrived. */
static double next_all(struct weir_load *l, unsigned n)
{
	double begun = raw_now();
	size_t i;

	for (unsigned k = 0; k < n; k++)
		if (weir_load_next(l, 0, &i) != 1)
			die("%u of %u tensors have arrived: %s", k, n,
			    weir_error());
	return (raw_now() - begun) * 1e9 / n;
}

static void run_next(struct plans *p, unsigned times)
{
	double ns[MAX_PAIRS];
	struct weir_plan *plan;
	struct weir_load *l;

	must(weir_plan_new(p->model, &plan));
	select_all(p, plan);
	for (unsigned i = 0; i < times; i++) {
		must(weir_load_start(plan, NULL, &l));
		must(weir_load_wait(l, -1));
		ns[i] = next_all(l, p->n);
		weir_load_free(l);
	}
	weir_plan_free(plan);
	add("next: 100,000, each tensor", ns, times);
}

void row_plan(unsigned pairs)
{
	struct plans p = { .n = COUNT };

	loader_open(&p.loader, 0);
	must(weir_model_open(p.loader.weir, model_table(p.n)->path, NULL,
			     &p.model));
	targets_make(&p);
	run_plan(&p, "plan: 100,000 selections, each", select_by_name, pairs);
	run_plan(&p, "plan: one selection, each tensor", select_all, pairs);
	run_plan(&p, "plan: 100,000 calls, targets", targets_one_by_one, pairs);
	run_plan(&p, "plan: one call, each target", targets_at_once, pairs);
	run_next(&p, pairs);
	free(p.tensor);
	free(p.target);
	weir_buf_free(p.buf);
	weir_model_close(p.model);
	loader_close(&p.loader);
}
