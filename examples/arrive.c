/* SPDX-License-Identifier: MIT */
/*
 * arrive MODEL [GLOB]: load the tensors whose names match GLOB, and use each as
 * soon as it has arrived, while others are still being read. Prints the time at
 * which each has arrived, and at the end how the bytes were read.
 */
#include <inttypes.h>
#include <stdio.h>
#include <weir.h>

static int print_arrivals(struct weir_load *load, struct weir_weights *w)
{
	struct weir_progress p = { .size = sizeof(p) };
	size_t i;
	int ret;

	while (weir_load_next(load, -1, &i) == WEIR_NEXT_ARRIVED) {
		if ((ret = weir_load_progress(load, &p)) < 0)
			return ret;
		printf("%8.3f ms  %s\n", (double)p.elapsed / 1e6,
		       weir_weights_get(w, i)->name);
	}
	return weir_load_wait(load, -1);
}

static int report(struct weir_load *load)
{
	struct weir_load_report r = { .size = sizeof(r) };
	int ret = weir_load_report(load, &r);

	if (ret == 0)
		printf("%" PRIu64 " bytes: %" PRIu64 " in place, %" PRIu64
		       " staged, %" PRIu64 " from the page cache\n",
		       r.bytes, r.in_place, r.staged, r.buffered);
	return ret;
}

static int load_plan(struct weir_plan *plan)
{
	struct weir_load *load = NULL;
	struct weir_weights *w = NULL;
	int ret;

	if ((ret = weir_load_start(plan, NULL, &load)) == 0 &&
	    (ret = weir_load_weights(load, &w)) == 0 &&
	    (ret = print_arrivals(load, w)) == 0)
		ret = report(load);
	weir_weights_free(w);
	weir_load_free(load);
	return ret;
}

static int run(struct weir *weir, const char *path, const char *glob)
{
	struct weir_model *model = NULL;
	struct weir_plan *plan = NULL;
	struct weir_dev *cpu;
	struct weir_buft *huge;
	int ret;

	if ((ret = weir_dev_find(weir, "CPU", &cpu)) == 0 &&
	    (ret = weir_dev_buft(cpu, WEIR_MEM_HUGE, &huge)) == 0 &&
	    (ret = weir_model_open(weir, path, NULL, &model)) == 0 &&
	    (ret = weir_plan_new(model, &plan)) == 0 &&
	    (ret = weir_plan_add(plan, glob, huge, NULL)) >= 0)
		ret = load_plan(plan);
	weir_plan_free(plan);
	weir_model_close(model);
	return ret;
}

int main(int argc, char **argv)
{
	struct weir *weir;
	int ret;

	if (argc < 2 || argc > 3) {
		fprintf(stderr, "usage: arrive MODEL [GLOB]\n");
		return 2;
	}
	ret = weir_open(NULL, &weir);
	if (ret == 0) {
		ret = run(weir, argv[1], argc == 3 ? argv[2] : NULL);
		if (ret < 0)
			fprintf(stderr, "%s\n", weir_error());
		weir_close(weir);
	}
	return ret < 0;
}
