/* SPDX-License-Identifier: MIT */
#include "load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "output.h"
#include "text.h"

static const char *const memory_names[] = { "device", "plain",  "huge",
					    "locked", "pinned", "mapped" };

static double rate(const struct load_run *run)
{
	return run->seconds > 0 ? (double)run->report.bytes / run->seconds / 1e9
				: 0;
}

static const char *io_name(const struct load_run *run)
{
	return run->report.io == WEIR_IO_URING ? "uring" : "sync";
}

static const struct load_run *last_run(const struct load_job *job)
{
	return &job->runs[job->n_runs - 1];
}

static const char *memory_name(const struct load_job *job)
{
	struct weir_buft_info info = { .size = sizeof(info) };

	if (weir_buft_info(job->buft, &info) < 0 || info.kind > WEIR_MEM_MAPPED)
		return "?";
	return memory_names[info.kind];
}

/* The device whose memory tensor @i is in: --place may differ from --device. */
static const char *device_name(const struct load_job *job, size_t i)
{
	struct weir_buf *buf = weir_weights_get(job->weights, i)->buf;
	struct weir_buf_info b = { .size = sizeof(b) };
	struct weir_buft_info kind = { .size = sizeof(kind) };
	struct weir_dev_info dev = { .size = sizeof(dev) };

	if (weir_buf_info(buf, &b) < 0 || weir_buft_info(b.buft, &kind) < 0 ||
	    weir_dev_info(kind.dev, &dev) < 0)
		return "?";
	return dev.name;
}

static json_t *ways_json(const struct weir_load_report *r)
{
	return json_pack("{s:I, s:I, s:I, s:I}", "in_place",
			 (json_int_t)r->in_place, "staged",
			 (json_int_t)r->staged, "buffered",
			 (json_int_t)r->buffered, "mapped",
			 (json_int_t)r->mapped);
}

static json_t *run_json(const struct load_run *run)
{
	const struct weir_load_report *r = &run->report;

	return json_pack("{s:I, s:f, s:f, s:s, s:o, s:f, s:I, s:I, s:I, s:I, "
			 "s:I, s:f, s:i}",
			 "bytes", (json_int_t)r->bytes, "seconds", run->seconds,
			 "gbps", rate(run), "io", io_name(run), "ways",
			 ways_json(r), "cpu_seconds", run->cpu_seconds,
			 "enters", (json_int_t)run->enters, "staging_bytes",
			 (json_int_t)r->staging, "chunks",
			 (json_int_t)r->chunks, "over_read",
			 (json_int_t)r->over_read, "retries",
			 (json_int_t)r->retries, "touch_seconds",
			 (double)r->touch_ns / 1e9, "fallbacks",
			 (int)r->fallbacks);
}

static json_t *tensor_json(const struct load_job *job, size_t i,
			   const struct weir_entry *e)
{
	struct weir_dtype_info dtype = { .size = sizeof(dtype), .name = "?" };
	json_t *shape = json_array(), *json;
	char hex[DIGEST_TEXT];

	(void)weir_dtype_info((enum weir_dtype)e->dtype, &dtype);
	for (uint32_t d = 0; d < e->ndim; d++)
		json_array_append_new(shape, json_integer(e->shape[d]));
	json = json_pack("{s:o, s:s, s:o, s:s, s:I, s:s}", "name",
			 text_json(e->name, e->name_len), "dtype", dtype.name,
			 "shape", shape, "device", device_name(job, i), "bytes",
			 (json_int_t)e->bytes, "state", "loaded");
	if (json && job->digests.count)
		json_object_set_new(
			json, "digest",
			json_string(digest_text(&job->digests, i, hex)));
	return json;
}

/* One at a time: there may be a million of them. */
static void put_tensors_json(const struct load_job *job)
{
	struct weir_entry e = { .size = sizeof(e) };

	fputs("\"tensors\": [", stdout);
	for (size_t i = 0; i < weir_weights_count(job->weights); i++) {
		if (weir_weights_entry(job->weights, i, &e) < 0)
			break;
		fputs(i ? ",\n  " : "\n  ", stdout);
		out_json(tensor_json(job, i, &e));
	}
	fputs("\n]", stdout);
}

static void put_runs_json(const struct load_job *job)
{
	fputs("\"runs\": [", stdout);
	for (size_t i = 0; i < job->n_runs; i++) {
		fputs(i ? ",\n  " : "\n  ", stdout);
		out_json(run_json(&job->runs[i]));
	}
	fputs("\n]", stdout);
}

static json_t *memory_json(const struct load_job *job)
{
	const struct load_memory *m = &job->memory;

	return json_pack("{s:s, s:I, s:I, s:I, s:o}", "kind", memory_name(job),
			 "bytes", (json_int_t)m->bytes, "huge",
			 (json_int_t)m->huge, "locked", (json_int_t)m->locked,
			 "why", text_json(m->why, strlen(m->why)));
}

void load_report_json(const struct load_job *job)
{
	const struct load_run *run = last_run(job);
	json_t *json = run_json(run), *value;
	const char *key;

	/* The members of the last run, and those of the whole job. */
	putchar('{');
	json_object_foreach(json, key, value)
	{
		printf("\"%s\": ", key);
		out_json(json_incref(value));
		fputs(",\n", stdout);
	}
	json_decref(json);
	printf("\"peak_rss\": %llu,\n", (unsigned long long)job->peak_rss);
	fputs("\"memory\": ", stdout);
	out_json(memory_json(job));
	fputs(",\n\"note\": ", stdout);
	out_json(text_json(run->report.note, strlen(run->report.note)));
	fputs(",\n\"io_why\": ", stdout);
	out_json(text_json(job->io.why, strlen(job->io.why)));
	fputs(",\n", stdout);
	put_tensors_json(job);
	fputs(",\n", stdout);
	put_runs_json(job);
	fputs("}\n", stdout);
}

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
	char a[SIZE_TEXT], b[SIZE_TEXT];

	note("  io      %s, reactors %u, each with %u chunks of %s; %llu enters, %s of "
	     "slots",
	     io_name(run), io->reactors, io->depth, binary_text(io->chunk, a),
	     (unsigned long long)run->enters,
	     binary_text(run->report.staging, b));
	if (io->why[0] && !strstr(run->report.note, io->why))
		note("          %s", io->why);
}

static void report_memory(const struct load_job *job)
{
	const struct load_memory *m = &job->memory;
	char a[SIZE_TEXT], b[SIZE_TEXT], c[SIZE_TEXT];

	note("  memory  %s: %s, %s in huge pages, %s locked", memory_name(job),
	     size_text(m->bytes, a), size_text(m->huge, b),
	     size_text(m->locked, c));
	if (m->why[0])
		note("          %s", m->why);
}

static int compare_rates(const void *va, const void *vb)
{
	double a = rate(va), b = rate(vb);

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

	if (n < 2 || !has_rate(last_run(job)))
		return;
	qsort(job->runs, n, sizeof(*job->runs), compare_rates);
	note("  runs    %zu: %.2f to %.2f GB/s, median %.2f", n,
	     rate(&job->runs[0]), rate(&job->runs[n - 1]),
	     rate(&job->runs[n / 2]));
}

static void report_cpu(const struct load_job *job, const struct load_run *run)
{
	char a[SIZE_TEXT];

	note("  cpu     %.3f s; peak RSS %s", run->cpu_seconds,
	     size_text(job->peak_rss, a));
	if (run->report.touch_ns)
		note("  touch   %.3f s to back fresh memory with pages, sum of all threads",
		     (double)run->report.touch_ns / 1e9);
}

void load_report(const struct load_job *job)
{
	const struct load_run *run = last_run(job);
	const struct weir_load_report *r = &run->report;
	char size[SIZE_TEXT], speed[32] = "";

	if (has_rate(run))
		snprintf(speed, sizeof(speed), ": %.2f GB/s", rate(run));
	note("%s: %zu tensors, %s in %.3f s%s", job->args->path,
	     weir_weights_count(job->weights), size_text(r->bytes, size),
	     run->seconds, speed);
	report_ways(r);
	report_io(job, run);
	report_memory(job);
	report_cpu(job, run);
	if (r->fallbacks)
		note("  note    files without direct reads: %u", r->fallbacks);
	if (r->note[0])
		note("  note    %s", r->note);
	if (job->args->trace)
		note("  trace   %s, for ui.perfetto.dev", job->args->trace);
	report_runs(job);
}
