/* SPDX-License-Identifier: MIT */
#include "load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "output.h"
#include "text.h"

/* Append "5.2 MB in place" if @bytes is not 0. */
static void add_way(char *line, size_t size, uint64_t bytes, const char *way)
{
	char text[SIZE_TEXT];
	size_t n = strlen(line);

	if (bytes)
		snprintf(line + n, size - n, "%s%s %s", n ? ", " : "",
			 size_text(bytes, text), way);
}

static void report_ways(const struct weir_load_report *r)
{
	char line[200] = "";

	add_way(line, sizeof(line), r->in_place, "in place");
	add_way(line, sizeof(line), r->staged, "staged");
	add_way(line, sizeof(line), r->buffered, "buffered");
	add_way(line, sizeof(line), r->mapped, "mapped");
	add_way(line, sizeof(line), r->over_read, "read and dropped");
	note("  ways    %s", line[0] ? line : "nothing to read");
}

static void report_io(const struct load_job *job, const struct load_run *run)
{
	const struct weir_io_info *io = &job->io;
	char a[SIZE_TEXT], b[SIZE_TEXT], chunks[COUNT_TEXT], enters[COUNT_TEXT];

	note("  io      %s, reactors %u, each with %s of %s; %s, %s of slots",
	     load_io_name(run), io->reactors,
	     count_text(io->depth, "chunk", chunks), binary_text(io->chunk, a),
	     count_text(run->enters, "enter", enters),
	     binary_text(run->report.staging, b));
	if (io->why[0] && !strstr(run->report.note, io->why))
		note("          %s", io->why);
}

static void report_kind(const struct load_job *job, const struct load_memory *m)
{
	char a[SIZE_TEXT], b[SIZE_TEXT], c[SIZE_TEXT], dev[64] = "";

	if (strcmp(load_device_name(m->buft), load_device_name(job->buft)) != 0)
		snprintf(dev, sizeof(dev), " of %s", load_device_name(m->buft));
	note("  memory  %s%s: %s, %s in %shuge pages, %s locked",
	     load_memory_name(m->buft), dev, size_text(m->bytes, a),
	     size_text(m->huge, b),
	     m->reserved && m->reserved == m->huge ? "reserved " : "",
	     size_text(m->locked, c));
	if (m->why[0] && m->lacking == m->bytes)
		note("          %s", m->why);
	else if (m->why[0])
		note("          %s of it: %s", size_text(m->lacking, a),
		     m->why);
}

/* A line for each kind that has buffers; without any for that of --memory. */
static void report_memory(const struct load_job *job)
{
	size_t shown = 0;

	for (size_t i = 0; i < job->n_memory; i++)
		if (job->memory[i].bytes) {
			report_kind(job, &job->memory[i]);
			shown++;
		}
	if (!shown)
		report_kind(job, &job->memory[0]);
}

/* The number of tensors that are not as in the file. */
static void report_changes(const struct load_job *job)
{
	struct weir_entry e = { .size = sizeof(e) };
	size_t n = weir_weights_count(job->weights), slices = 0, converted = 0;
	char tensors[COUNT_TEXT];
	uint32_t dtype = 0;

	for (size_t i = 0; i < n; i++) {
		const struct weir_tensor *t = weir_weights_get(job->weights, i);

		if (weir_weights_entry(job->weights, i, &e) < 0)
			return;
		slices += load_is_slice(t, &e);
		if (t->dtype != e.dtype) {
			converted++;
			dtype = t->dtype;
		}
	}
	count_text(n, "tensor", tensors);
	if (slices)
		note("  slices  %zu of %s", slices, tensors);
	if (converted)
		note("  dtype   %zu of %s converted to %s", converted, tensors,
		     load_dtype_name(dtype));
}

static int compare_rates(const void *va, const void *vb)
{
	double a = load_rate(va), b = load_rate(vb);

	return a < b ? -1 : a > b;
}

/* A mapping alone reads nothing, so that a rate has no meaning. */
static bool has_rate(const struct load_run *run)
{
	return !run->report.mapped || run->report.mapped < run->report.bytes;
}

/* Sorts the runs; call it last. */
static void report_runs(const struct load_job *job)
{
	size_t n = job->n_runs;

	if (n < 2 || !has_rate(load_last_run(job)))
		return;
	qsort(job->runs, n, sizeof(*job->runs), compare_rates);
	note("  runs    %zu: %.2f to %.2f GB/s, median %.2f", n,
	     load_rate(&job->runs[0]), load_rate(&job->runs[n - 1]),
	     load_rate(&job->runs[n / 2]));
}

static void report_cpu(const struct load_job *job, const struct load_run *run)
{
	char a[SIZE_TEXT];

	note("  cpu     %.3f s; peak RSS %s", run->cpu_seconds,
	     size_text(job->peak_rss, a));
	if (run->report.prefault_ns)
		note("  prefault %.3f s to back fresh memory with pages, sum of all threads",
		     (double)run->report.prefault_ns / 1e9);
}

/* The library's note may say already why a file has no direct reads. */
static void report_note(const struct weir_load_report *r)
{
	bool said = strstr(r->note, "no direct reads") != NULL;
	char files[COUNT_TEXT];

	count_text(r->fallbacks, "file", files);
	if (r->fallbacks > said)
		note("  note    %s without direct reads%s%s", files,
		     r->note[0] ? "; " : "", r->note);
	else if (r->note[0])
		note("  note    %s", r->note);
}

void load_report(const struct load_job *job)
{
	const struct load_run *run = load_last_run(job);
	const struct weir_load_report *r = &run->report;
	char size[SIZE_TEXT], tensors[COUNT_TEXT], speed[32] = "";

	if (has_rate(run))
		snprintf(speed, sizeof(speed), ": %.2f GB/s", load_rate(run));
	note("%s: %s, %s in %.3f s%s", job->args->path,
	     count_text(weir_weights_count(job->weights), "tensor", tensors),
	     size_text(r->bytes, size), run->seconds, speed);
	report_ways(r);
	report_changes(job);
	if (load_uses_engine(job->args))
		report_io(job, run);
	report_memory(job);
	report_cpu(job, run);
	report_note(r);
	if (job->args->trace)
		note("  trace   %s, for ui.perfetto.dev", job->args->trace);
	if (job->args->map)
		note("  map     %s", job->args->map);
	report_runs(job);
}
