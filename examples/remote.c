/* SPDX-License-Identifier: MIT */
/*
 * remote URL [FOLDER]: load a model from a server, a store or a hub, such as
 * s3://bucket/model/ or hf://owner/name. Prints each tensor when it has
 * arrived, and at the end how many bytes came from there. What is read is kept
 * in FOLDER: the next time only what has changed is requested.
 */
#include <inttypes.h>
#include <stdio.h>
#include <weir.h>

/* Files beside the weights are read by URL, too. */
static void show_config(const struct weir_model *model)
{
	struct weir_file_info info = { .size = sizeof(info) };
	struct weir_file *file;

	if (weir_model_beside(model, "config.json", &file) < 0)
		return;
	if (weir_file_info(file, &info) == 0)
		printf("config.json: %" PRIu64 " bytes\n", info.bytes);
	weir_file_close(file);
}

static int use(struct weir_load *load, struct weir_weights *w)
{
	struct weir_load_report r = { .size = sizeof(r) };
	size_t i;
	int ret;

	while (weir_load_next(load, -1, &i) == WEIR_NEXT_ARRIVED)
		printf("%s\n", weir_weights_get(w, i)->name);
	/* It says whether all arrived, and that no object has changed. */
	ret = weir_load_wait(load, -1);
	if (ret == 0 && (ret = weir_load_report(load, &r)) == 0)
		printf("%" PRIu64 " bytes, %" PRIu64 " of them by URL\n",
		       r.bytes, r.remote);
	return ret;
}

static int load_model(struct weir_model *model, struct weir_buft *buft)
{
	struct weir_plan *plan = NULL;
	struct weir_load *load = NULL;
	struct weir_weights *w = NULL;
	int ret;

	if ((ret = weir_plan_new(model, &plan)) == 0 &&
	    (ret = weir_plan_add(plan, NULL, buft, NULL)) >= 0 &&
	    (ret = weir_load_start(plan, NULL, &load)) == 0 &&
	    (ret = weir_load_weights(load, &w)) == 0)
		ret = use(load, w);
	weir_weights_free(w);
	weir_load_free(load);
	weir_plan_free(plan);
	return ret;
}

static int run(struct weir *weir, const char *url)
{
	struct weir_model *model = NULL;
	struct weir_dev *cpu;
	struct weir_buft *huge;
	int ret;

	/* Parameters of the module: weir-http(7). "https" is for all URLs. */
	if ((ret = weir_source_configure(weir, "https", "connections=16")) ==
		    0 &&
	    (ret = weir_dev_find(weir, "CPU", &cpu)) == 0 &&
	    (ret = weir_dev_buft(cpu, WEIR_MEM_HUGE, &huge)) == 0 &&
	    (ret = weir_model_open(weir, url, NULL, &model)) == 0) {
		show_config(model);
		ret = load_model(model, huge);
	}
	weir_model_close(model);
	return ret;
}

int main(int argc, char **argv)
{
	struct weir_opts opts = WEIR_OPTS_INIT;
	struct weir *weir;
	int ret;

	if (argc < 2 || argc > 3) {
		fprintf(stderr, "usage: remote URL [FOLDER]\n");
		return 2;
	}
	opts.cache = argc == 3 ? argv[2] : NULL;
	ret = weir_open(&opts, &weir);
	if (ret == 0) {
		ret = run(weir, argv[1]);
		if (ret < 0)
			fprintf(stderr, "%s\n", weir_error());
		weir_close(weir);
	}
	return ret < 0;
}
