/* SPDX-License-Identifier: MIT */
#include "load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "args.h"
#include "command.h"
#include "output.h"
#include "progress.h"
#include "signals.h"
#include "usage.h"

enum {
	POLL_NS = 50 * 1000 * 1000
};
/* How long to wait for a cancelled load to end. */
static const int64_t cancel_ns = INT64_C(2) * 1000 * 1000 * 1000;

static uint64_t enters(const struct load_job *job)
{
	struct weir_io_info io = { .size = sizeof(io) };

	if (!load_uses_engine(job->args))
		return 0;
	return weir_io_info(job->weir, &io) < 0 ? 0 : io.enters;
}

static int cancel(struct weir_load *load)
{
	weir_load_cancel(load);
	(void)weir_load_wait(load, cancel_ns);
	return -ECANCELED;
}

/* Wait for @load, show its progress, and cancel it after a signal. */
static int wait_load(struct weir_load *load, struct progress *bar)
{
	struct weir_progress p = { .size = sizeof(p) };
	int r;

	while ((r = weir_load_wait(load, POLL_NS)) == -ETIMEDOUT) {
		if (signals_caught()) {
			r = cancel(load);
			break;
		}
		if (weir_load_progress(load, &p) < 0)
			continue;
		bar->total = p.total;
		progress_show(bar, p.bytes);
	}
	progress_clear();
	return r;
}

/* A mapping cannot be loaded into: the memory is the file's pages. */
static bool keeps_memory(const struct load_job *job)
{
	return job->weights && job->args->way != WEIR_WAY_MAP;
}

static int start_load(struct load_job *job, struct weir_load **ret_load)
{
	struct weir_load_opts opts = WEIR_LOAD_OPTS_INIT;
	struct weir_plan *plan;
	int r = load_plan(job, &plan);

	if (r)
		return r;
	if (job->args->drop)
		opts.flags |= WEIR_LOAD_DROP;
	if (keeps_memory(job))
		opts.into = job->weights;
	r = weir_load_start(plan, &opts, ret_load);
	weir_plan_free(plan);
	return r;
}

static int take_weights(struct load_job *job, struct weir_load *load)
{
	struct weir_weights *weights;
	int r;

	if (keeps_memory(job))
		return 0;
	r = weir_load_weights(load, &weights);
	if (r < 0)
		return r;
	weir_weights_free(job->weights);
	job->weights = weights;
	return 0;
}

/*
 * Returns 0, or a negative errno, or EXIT_FAILURE after a line on stderr. The
 * clocks stop when the last tensor is usable, before anything is freed.
 */
static int load_once(struct load_job *job, struct load_run *run)
{
	uint64_t entered = enters(job);
	double cpu = cpu_seconds();
	struct weir_load *load;
	struct progress bar;
	int r;

	progress_begin(&bar, "loading", 0);
	r = start_load(job, &load);
	if (r)
		return r;
	r = wait_load(load, &bar);
	run->seconds = (double)(now_ns() - bar.begin) / 1e9;
	run->cpu_seconds = cpu_seconds() - cpu;
	run->enters = enters(job) - entered;
	run->report.size = sizeof(run->report);
	if (r >= 0)
		r = weir_load_report(load, &run->report);
	if (r >= 0)
		r = take_weights(job, load);
	weir_load_free(load);
	return r;
}

static int run_all(struct load_job *job)
{
	int r;

	job->runs = calloc(job->args->repeat, sizeof(*job->runs));
	if (!job->runs)
		return fail_memory();
	for (; job->n_runs < job->args->repeat; job->n_runs++) {
		if (job->args->fresh && job->weights) {
			weir_weights_free(job->weights);
			job->weights = NULL;
			(void)weir_trim(job->weir, 0);
		}
		r = load_once(job, &job->runs[job->n_runs]);
		if (r > 0 || signals_caught())
			return EXIT_FAILURE;
		if (r < 0)
			return fail_weir();
	}
	job->peak_rss = peak_rss();
	/* Again: whether slots could be registered is known only now. */
	(void)load_start_engine(job);
	return 0;
}

static int open_root(struct load_job *job)
{
	const struct load_args *a = job->args;
	enum weir_mem kind = a->way == WEIR_WAY_MAP ? WEIR_MEM_MAPPED
						    : a->memory;
	int r;

	r = weir_open(&a->root, &job->weir);
	if (r == -EINVAL)
		return fail_usage("load", "%s", weir_sentence());
	if (r < 0)
		return fail_weir();
	if (weir_dev_configure(job->weir, a->device, &job->dev) < 0 ||
	    weir_dev_buft(job->dev, kind, &job->buft) < 0)
		return fail_weir();
	return load_places_open(job);
}

int load_start_engine(struct load_job *job)
{
	if (!load_uses_engine(job->args))
		return 0;
	job->io.size = sizeof(job->io);
	return weir_io_info(job->weir, &job->io);
}

/* The engine is started first, so that runs do not include that. */
static int begin(struct load_job *job)
{
	const struct load_args *a = job->args;
	int r;

	if (load_start_engine(job) < 0)
		return fail_weir();
	if (a->verify &&
	    weir_manifest_open(job->weir, a->verify, &job->manifest) < 0)
		return fail_weir();
	if (!a->trace)
		return 0;
	r = weir_trace_start(job->weir, outfile_name(&job->trace));
	/*
	 * Its sentence would have the name of the file that is renamed later.
	 */
	return r < 0 ? fail("%s: cannot be written: %s", a->trace, strerror(-r))
		     : 0;
}

/*
 * Write the trace, also that of a load that has failed. Returns @r or failure.
 */
static int end_trace(struct load_job *job, int r)
{
	int err = weir_trace_stop(job->weir);

	if (err < 0)
		return r ? r
			 : fail("%s: could not be written: %s",
				job->args->trace, strerror(-err));
	return outfile_end(&job->trace) ? EXIT_FAILURE : r;
}

static int load_model(struct load_job *job)
{
	const struct load_args *a = job->args;
	int r = begin(job);

	if (r)
		return r;
	r = run_all(job);
	if (a->trace)
		r = end_trace(job, r);
	if (r == 0)
		r = load_sum_memory(job);
	if (r == 0 && a->digest >= 0)
		r = digests_compute(job->weights, (enum weir_digest)a->digest,
				    &job->digests);
	return r;
}

/*
 * True if an output is a file of the model. The model is opened for this only
 * if the output would replace a file: opening it makes the first load faster.
 */
static int spare_inputs(struct load_job *job)
{
	const char *outs[] = { job->args->map, job->args->trace };
	const char *manifest = job->args->verify;
	struct weir_model *model;
	struct stat st;
	int r = 0;

	for (int i = 0; i < 2 && r == 0; i++) {
		if (!outs[i] || stat(outs[i], &st) < 0 || !S_ISREG(st.st_mode))
			continue;
		if (manifest && (r = outfile_spare(outs[i], manifest)))
			return r;
		if (load_open_model(job, &model) < 0)
			return fail_weir();
		r = outfile_spare_model(outs[i], job->weir, model,
					job->args->path);
		weir_model_close(model);
	}
	return r;
}

static int open_outputs(struct load_job *job)
{
	const struct load_args *a = job->args;
	int r = spare_inputs(job);

	if (r == 0 && a->map)
		r = svg_open(&job->map, a->map);
	if (r == 0 && a->trace && !a->estimate)
		r = outfile_open(&job->trace, a->trace);
	return r;
}

static int run_job(struct load_job *job)
{
	const struct load_args *a = job->args;
	int r = open_root(job);

	if (r == 0)
		r = open_outputs(job);
	if (r == 0)
		r = a->estimate ? load_estimate(job) : load_model(job);
	if (r == 0 && a->map)
		r = load_map_draw(job, &job->map);
	svg_drop(&job->map);
	outfile_drop(&job->trace);
	return r;
}

static int print_results(const struct load_job *job)
{
	const struct load_args *a = job->args;

	if (a->estimate)
		return load_estimate_print(job);
	if (a->json)
		load_report_json(job);
	else if (!a->quiet)
		load_report(job);
	if (a->digest >= 0 && !a->json)
		return digests_print(&job->digests, job->weights);
	return 0;
}

static void close_job(struct load_job *job)
{
	digests_free(&job->digests);
	free(job->runs);
	free(job->places);
	free(job->needs);
	free(job->memory);
	weir_weights_free(job->weights);
	weir_manifest_close(job->manifest);
	weir_close(job->weir);
	*job = (struct load_job){ .args = job->args };
}

int load_main(int argc, char **argv)
{
	struct load_args args;
	struct load_job job = { .args = &args };
	int r = load_args_parse(argc, argv, &args);

	if (r == 0) {
		signals_catch(outfile_remove);
		r = run_job(&job);
		if (signals_caught())
			close_job(&job);
		/* From here on a signal may end the process at any time. */
		signals_release();
		if (r == 0)
			r = print_results(&job);
		close_job(&job);
	}
	load_args_free(&args);
	return r == ARGS_HELP ? 0 : r;
}
