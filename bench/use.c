/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "bench.h"
#include "place.h"

static void open_root(struct loader *u, const struct weir_opts *o)
{
	struct weir_io_info info = { .size = sizeof(info) };

	memset(u, 0, sizeof(*u));
	must(weir_open(o, &u->weir));
	must(weir_dev_find(u->weir, "CPU", &u->dev));
	must(weir_dev_buft(u->dev, WEIR_MEM_HUGE, &u->huge));
	must(weir_dev_buft(u->dev, WEIR_MEM_MAPPED, &u->mapped));
	must(weir_io_info(u->weir, &info)); /* starts the engine */
	u->to = u->huge;
}

void loader_open(struct loader *u, unsigned copiers)
{
	struct weir_opts o = WEIR_OPTS_INIT;

	o.copiers = copiers;
	open_root(u, &o);
}

void loader_open_device(struct loader *u, unsigned copiers, unsigned reactors)
{
	struct weir_opts o = WEIR_OPTS_INIT;

	o.copiers = copiers;
	o.reactors = reactors;
	o.module_path = place_modules();
	open_root(u, &o);
	must(weir_dev_find(u->weir, bench_device, &u->dev));
	must(weir_dev_buft(u->dev, WEIR_MEM_DEVICE, &u->to));
	must(weir_buf_alloc(u->to, 256, NULL, &u->open));
}

void loader_close(struct loader *u)
{
	weir_weights_free(u->kept);
	weir_buf_free(u->open);
	weir_close(u->weir);
}

void loader_load(struct loader *u, const struct file *f, int part,
		 struct weir_weights *into, struct weir_weights **ret,
		 struct sample *s)
{
	struct weir_load_opts o = WEIR_LOAD_OPTS_INIT;
	double cpu = raw_cpu(), begun = raw_now();
	struct weir_model *model;
	struct weir_plan *plan;
	struct weir_load *l;

	o.into = into;
	must(weir_model_open(u->weir, f->path, NULL, &model));
	if (part == LOADER_OPENED) {
		cpu = raw_cpu();
		begun = raw_now();
	}
	must(weir_plan_new(model, &plan));
	must(weir_plan_add(plan, u->glob, u->to, u->select));
	if (u->manifest)
		must(weir_plan_verify(plan, u->manifest));
	must(weir_load_start(plan, &o, &l));
	must(weir_load_wait(l, -1));
	s->seconds = raw_now() - begun;
	s->cpu = raw_cpu() - cpu;
	must(weir_load_weights(l, ret));
	u->report.size = sizeof(u->report);
	must(weir_load_report(l, &u->report));
	s->bytes = u->report.bytes;
	weir_load_free(l);
	weir_plan_free(plan);
	weir_model_close(model);
}

void loader_load_kept(struct loader *u, const struct file *f, int part,
		      struct sample *s)
{
	struct weir_weights *w;
	bool resident = raw_resident(f->path) >= 990;

	if (!u->kept) {
		loader_load(u, f, part, NULL, &u->kept, s);
		bench_ready(f, resident);
	}
	loader_load(u, f, part, u->kept, &w, s);
	weir_weights_free(w);
}
