/* SPDX-License-Identifier: MIT */
#include "convert.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "args.h"
#include "command.h"
#include "outfile.h"
#include "output.h"
#include "progress.h"
#include "signals.h"
#include "text.h"
#include "usage.h"

enum {
	POLL_NS = 20 * 1000 * 1000
};

/* What a job has done, for the report. */
struct result {
	struct weir_save_info info;
	struct weir_save_report report;
};

static int open_model(struct convert_job *job)
{
	const struct convert_args *a = job->args;
	struct weir_model_opts opts = WEIR_MODEL_OPTS_INIT;
	int r;

	opts.flags = a->lenient ? WEIR_MODEL_LENIENT : 0;
	r = weir_open(&a->root, &job->weir);
	if (r == -EINVAL)
		return fail_usage("convert", "%s", weir_sentence());
	if (r < 0 || weir_model_open(job->weir, a->in, &opts, &job->model) < 0)
		return fail_weir();
	job->info.size = sizeof(job->info);
	return weir_model_info(job->model, &job->info) < 0 ? fail_weir() : 0;
}

/*
 * The input must not be replaced: neither by OUT nor by the index of its
 * shards, which would remove the shards of an earlier one.
 */
static int spare_input(const struct convert_job *job)
{
	static const char ending[] = ".safetensors";
	const char *out = job->path;
	const size_t n = strlen(out), suffix = sizeof(ending) - 1;
	char *index;
	int r = outfile_spare_files(out, job->model, job->args->in);

	if (r || n <= suffix || strcmp(out + n - suffix, ending) != 0)
		return r;
	if (asprintf(&index, "%s.index.json", out) < 0)
		return fail_memory();
	r = outfile_spare_files(index, job->model, job->args->in);
	free(index);
	return r;
}

static int make_save(struct convert_job *job)
{
	const struct convert_args *a = job->args;
	struct weir_save_opts opts = WEIR_SAVE_OPTS_INIT;
	struct weir_save_info info = { .size = sizeof(info) };
	int r = convert_folder_begin(job);

	if (r == 0)
		r = spare_input(job);
	if (r)
		return r;
	opts.shard_bytes = a->shard;
	opts.flags = a->save_flags;
	if (weir_save_new(job->weir, job->path, &opts, &job->save) < 0 ||
	    weir_save_info(job->save, &info) < 0)
		return fail_weir();
	job->gguf = !strcmp(info.format, "GGUF");
	r = convert_model_find(job);
	if (r == 0)
		r = convert_tensors_list(job);
	if (r == 0)
		r = convert_tensors_add(job);
	if (r == 0)
		r = convert_meta_add(job);
	return r == 0 && job->folder ? convert_folder_texts(job) : r;
}

/* Wait, show the progress, and cancel after a signal. */
static int wait_save(struct weir_save *save)
{
	struct weir_progress p = { .size = sizeof(p) };
	struct progress bar;
	bool cancelled = false;
	int r;

	progress_begin(&bar, "converting", 0);
	while ((r = weir_save_wait(save, POLL_NS)) == -ETIMEDOUT) {
		if (signals_caught() && !cancelled)
			cancelled = weir_save_cancel(save) == 0;
		if (weir_save_progress(save, &p) < 0)
			continue;
		bar.total = p.total;
		progress_show(&bar, p.bytes);
	}
	if (weir_save_progress(save, &p) >= 0)
		bar.total = p.total;
	progress_end(&bar, p.bytes);
	return r;
}

static int run_save(struct convert_job *job, struct result *result)
{
	int r = weir_save_start(job->save, NULL);

	if (r >= 0)
		r = wait_save(job->save);
	if (r == -EEXIST && !job->args->force)
		return fail("%s; --force replaces it", weir_sentence());
	if (r < 0)
		return signals_caught() ? EXIT_FAILURE : fail_weir();
	return weir_save_report(job->save, &result->report) < 0 ? fail_weir()
								: 0;
}

static int run_job(struct convert_job *job, struct result *result)
{
	int r = open_model(job);

	if (r == 0)
		r = make_save(job);
	if (r == 0 && weir_save_info(job->save, &result->info) < 0)
		r = fail_weir();
	if (r == 0 && !job->args->estimate)
		r = run_save(job, result);
	if (r == 0 && !job->args->estimate && job->folder)
		r = convert_folder_write(job);
	convert_folder_drop(job);
	return r;
}

static void close_job(struct convert_job *job)
{
	convert_tensors_free(job);
	convert_model_free(job);
	free(job->path);
	weir_save_free(job->save);
	weir_model_close(job->model);
	weir_close(job->weir);
}

/* What the output does not have as the input has it. */
static void note_losses(const struct convert_job *job)
{
	char count[COUNT_TEXT];

	if (job->as_text)
		note("metadata: %s %s written as text, since safetensors has only strings",
		     count_text(job->as_text, "value", count),
		     job->as_text == 1 ? "is" : "are");
	if (job->kept)
		note("%s %s converted to Q8_0 or F32: the rows are not whole blocks",
		     count_text(job->kept, "tensor", count),
		     job->kept == 1 ? "is" : "are");
}

static void report(const struct convert_job *job, const struct result *result)
{
	const double s = (double)result->report.elapsed / 1e9;
	char tensors[COUNT_TEXT], files[COUNT_TEXT], size[SIZE_TEXT];

	note("%s: %s, %s in %s of %s, in %.3f s: %.2f GB/s", job->args->out,
	     count_text(result->info.tensors, "tensor", tensors),
	     size_text(result->info.bytes, size),
	     count_text(result->info.files, "file", files), result->info.format,
	     s, s > 0 ? (double)result->info.bytes / s / 1e9 : 0);
	note_losses(job);
	if (result->report.note[0])
		note("%s", result->report.note);
}

/* The limit of weir_open(3). */
static uint64_t most_staging(const struct convert_job *job)
{
	const uint64_t most = job->args->root.staging;

	return most ? most : UINT64_C(64) << 20;
}

static bool has_room(const struct result *result)
{
	return result->info.bytes <= result->info.free;
}

static int print_estimate(const struct convert_job *job,
			  const struct result *result)
{
	char size[SIZE_TEXT], data[SIZE_TEXT], room[SIZE_TEXT];
	char staging[SIZE_TEXT], tensors[COUNT_TEXT], files[COUNT_TEXT];

	printf("files    %s of %s, %s\n",
	       count_text(result->info.files, "file", files),
	       result->info.format, size_text(result->info.bytes, size));
	printf("tensors  %s, %s\n",
	       count_text(result->info.tensors, "tensor", tensors),
	       size_text(result->info.data, data));
	printf("memory   %s for chunks at most\n",
	       binary_text(most_staging(job), staging));
	printf("free     %s\n", size_text(result->info.free, room));
	note_losses(job);
	if (has_room(result))
		return 0;
	printf("It does not fit.\n");
	return EXIT_NO_ROOM;
}

static void print_json(const struct convert_job *job,
		       const struct result *result)
{
	const struct convert_args *a = job->args;

	out_json(json_pack(
		"{s:o, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f}",
		"out", text_json(a->out, strlen(a->out)), "format",
		result->info.format, "files", (json_int_t)result->info.files,
		"bytes", (json_int_t)result->info.bytes, "tensors",
		(json_int_t)result->info.tensors, "data",
		(json_int_t)result->info.data, "free",
		(json_int_t)result->info.free, "staging",
		(json_int_t)most_staging(job), "as_text",
		(json_int_t)job->as_text, "other_dtype", (json_int_t)job->kept,
		"peak_rss", (json_int_t)peak_rss(), "seconds",
		(double)result->report.elapsed / 1e9));
}

static int print_results(const struct convert_job *job,
			 const struct result *result)
{
	const struct convert_args *a = job->args;

	if (a->json) {
		print_json(job, result);
		return has_room(result) || !a->estimate ? 0 : EXIT_NO_ROOM;
	}
	if (a->estimate)
		return print_estimate(job, result);
	if (!a->quiet)
		report(job, result);
	return 0;
}

int convert_main(int argc, char **argv)
{
	struct convert_args args;
	struct convert_job job = { .args = &args };
	struct result result = { .info.size = sizeof(result.info),
				 .report.size = sizeof(result.report) };
	int r = convert_args_parse(argc, argv, &args);

	if (r == 0) {
		signals_catch(outfile_remove);
		r = run_job(&job, &result);
		signals_release();
		if (r == 0)
			r = print_results(&job, &result);
		close_job(&job);
	}
	convert_args_free(&args);
	return r == ARGS_HELP ? 0 : r;
}
