/* SPDX-License-Identifier: MIT */
/* The report of weir load, as text and as JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "kinds.h"
#include "load.h"
#include "output.h"
#include "text.h"

/* The sums of a kind of memory, which is added if it is a new one. */
static struct load_memory *find_memory(struct load_job *job,
				       const struct weir_buft *buft)
{
	size_t i = 0;

	while (i < job->n_memory && job->memory[i].buft != buft)
		i++;
	if (i == job->n_memory)
		job->memory[job->n_memory++].buft = buft;
	return &job->memory[i];
}

static void add_info(struct load_memory *memory,
		     const struct weir_buf_info *info)
{
	memory->bytes += info->bytes;
	if (info->got & WEIR_GOT_HUGE)
		memory->huge += info->bytes;
	if (info->got & WEIR_GOT_LOCKED)
		memory->locked += info->bytes;
	if (info->got & WEIR_GOT_HUGETLB)
		memory->reserved += info->bytes;
	if (!memory->why[0])
		memcpy(memory->why, info->why, sizeof(memory->why));
	if (info->why[0] && !strcmp(memory->why, info->why))
		memory->lacking += info->bytes;
}

static void add_buffer(struct load_job *job, struct weir_buf *buf)
{
	struct weir_buf_info info = { .size = sizeof(info) };

	if (weir_buf_info(buf, &info) < 0)
		return;
	for (unsigned i = 0; i < info.members; i++)
		add_buffer(job, weir_buf_member(buf, i));
	if (!info.members)
		add_info(find_memory(job, info.buft), &info);
}

static int compare_pointers(const void *va, const void *vb)
{
	uintptr_t a = (uintptr_t) * (void *const *)va;
	uintptr_t b = (uintptr_t) * (void *const *)vb;

	return a < b ? -1 : a > b;
}

/*
 * Each buffer once, though many tensors are in it. Returns how many there are.
 */
static size_t list_buffers(const struct load_job *job, struct weir_buf **bufs)
{
	size_t n = weir_weights_count(job->weights), kept = 0;

	for (size_t i = 0; i < n; i++)
		bufs[i] = weir_weights_get(job->weights, i)->buf;
	qsort(bufs, n, sizeof(struct weir_buf *), compare_pointers);
	for (size_t i = 0; i < n; i++)
		if (bufs[i] && (!kept || bufs[i] != bufs[kept - 1]))
			bufs[kept++] = bufs[i];
	return kept;
}

/* There is one kind of memory for each device and kind at most. */
int load_sum_memory(struct load_job *job)
{
	size_t n = weir_weights_count(job->weights);
	struct weir_buf **bufs = calloc(n + 1, sizeof(struct weir_buf *));

	job->memory =
		calloc(KINDS * weir_dev_count(job->weir), sizeof(*job->memory));
	if (!bufs || !job->memory) {
		free(bufs);
		return fail_memory();
	}
	/* In this order, whatever the addresses of the buffers are. */
	(void)find_memory(job, job->buft);
	for (size_t i = 0; i < job->args->rules[LOAD_RULE_PLACE].n; i++)
		(void)find_memory(job, job->places[i]);
	n = list_buffers(job, bufs);
	for (size_t i = 0; i < n; i++)
		add_buffer(job, bufs[i]);
	free(bufs);
	return 0;
}

const struct load_run *load_last_run(const struct load_job *job)
{
	return &job->runs[job->n_runs - 1];
}

bool load_uses_engine(const struct load_args *a)
{
	return a->way != WEIR_WAY_MAP || a->rules[LOAD_RULE_PLACE].n;
}

double load_rate(const struct load_run *run)
{
	return run->seconds > 0 ? (double)run->report.bytes / run->seconds / 1e9
				: 0;
}

static const char *load_io_name(const struct load_run *run)
{
	return run->report.io == WEIR_IO_URING ? "uring" : "sync";
}

const char *load_memory_name(const struct weir_buft *buft)
{
	struct weir_buft_info info = { .size = sizeof(info) };

	return weir_buft_info(buft, &info) < 0 ? "?" : kind_name(info.kind);
}

const char *load_device_name(const struct weir_buft *buft)
{
	struct weir_buft_info info = { .size = sizeof(info) };
	struct weir_dev_info dev = { .size = sizeof(dev) };

	if (weir_buft_info(buft, &info) < 0 ||
	    weir_dev_info(info.dev, &dev) < 0)
		return "?";
	return dev.name;
}

static const char *load_dtype_name(uint32_t dtype)
{
	struct weir_dtype_info info = { .size = sizeof(info) };

	return weir_dtype_info((enum weir_dtype)dtype, &info) < 0 ? "?"
								  : info.name;
}

/* Bytes of the elements, without the gaps of a view. */
static uint64_t load_tensor_bytes(const struct weir_tensor *t)
{
	struct weir_tensor dense;
	size_t bytes;

	if (weir_tensor_init(&dense, (enum weir_dtype)t->dtype, t->ndim,
			     t->shape) < 0 ||
	    weir_tensor_bytes(&dense, &bytes) < 0)
		return 0;
	return bytes;
}

/* True if @t is a part of what @e describes. */
static bool load_is_slice(const struct weir_tensor *t,
			  const struct weir_entry *e)
{
	return t->ndim != e->ndim ||
	       memcmp(t->shape, e->shape, e->ndim * sizeof(e->shape[0])) != 0;
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
	add_way(line, sizeof(line), r->remote, "of them remote");
	add_way(line, sizeof(line), r->cached, "of them from the cache");
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
	if (job->manifest)
		note("  verify  all match %s", job->args->verify);
	if (job->args->trace)
		note("  trace   %s, for ui.perfetto.dev", job->args->trace);
	if (job->args->map)
		note("  map     %s", job->args->map);
	report_runs(job);
}

static json_t *ways_json(const struct weir_load_report *r)
{
	return json_pack("{s:I, s:I, s:I, s:I}", "in_place",
			 (json_int_t)r->in_place, "staged",
			 (json_int_t)r->staged, "buffered",
			 (json_int_t)r->buffered, "mapped",
			 (json_int_t)r->mapped);
}

/* null: the I/O engine was not used. */
static json_t *io_json(const struct load_job *job, const struct load_run *run)
{
	return load_uses_engine(job->args) ? json_string(load_io_name(run))
					   : json_null();
}

static json_t *run_json(const struct load_job *job, const struct load_run *run)
{
	const struct weir_load_report *r = &run->report;

	return json_pack("{s:I, s:f, s:f, s:o, s:o, s:f, s:I, s:I, s:I, s:I, "
			 "s:I, s:f, s:i, s:I, s:I}",
			 "bytes", (json_int_t)r->bytes, "seconds", run->seconds,
			 "gbps", load_rate(run), "io", io_json(job, run),
			 "ways", ways_json(r), "cpu_seconds", run->cpu_seconds,
			 "enters", (json_int_t)run->enters, "staging_bytes",
			 (json_int_t)r->staging, "chunks",
			 (json_int_t)r->chunks, "over_read",
			 (json_int_t)r->over_read, "retries",
			 (json_int_t)r->retries, "prefault_seconds",
			 (double)r->prefault_ns / 1e9, "fallbacks",
			 (int)r->fallbacks, "remote", (json_int_t)r->remote,
			 "cached", (json_int_t)r->cached);
}

static json_t *shape_json(uint32_t ndim, const int64_t *shape)
{
	json_t *json = json_array();

	for (uint32_t d = 0; d < ndim; d++)
		json_array_append_new(json, json_integer(shape[d]));
	return json;
}

/* The memory that a tensor is in; NULL: not known. */
static const struct weir_buft *buft_of(const struct weir_tensor *t)
{
	struct weir_buf_info info = { .size = sizeof(info) };

	return weir_buf_info(t->buf, &info) < 0 ? NULL : info.buft;
}

/* The dtype and shape in the file, if they differ from those in memory. */
static void add_stored(json_t *json, const struct weir_tensor *t,
		       const struct weir_entry *e)
{
	if (t->dtype == e->dtype && !load_is_slice(t, e))
		return;
	json_object_set_new(json, "stored",
			    json_pack("{s:s, s:o}", "dtype",
				      load_dtype_name(e->dtype), "shape",
				      shape_json(e->ndim, e->shape)));
}

static json_t *tensor_json(const struct load_job *job, size_t i,
			   const struct weir_entry *e)
{
	const struct weir_tensor *t = weir_weights_get(job->weights, i);
	const struct weir_buft *buft = buft_of(t);
	char hex[DIGEST_TEXT];
	json_t *json;

	json = json_pack("{s:o, s:s, s:o, s:s, s:s, s:I, s:s}", "name",
			 text_json(e->name, e->name_len), "dtype",
			 load_dtype_name(t->dtype), "shape",
			 shape_json(t->ndim, t->shape), "device",
			 buft ? load_device_name(buft) : "?", "memory",
			 buft ? load_memory_name(buft) : "?", "bytes",
			 (json_int_t)load_tensor_bytes(t), "state", "loaded");
	if (json)
		add_stored(json, t, e);
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
		out_json(run_json(job, &job->runs[i]));
	}
	fputs("\n]", stdout);
}

/* The sum of all kinds, by the name of the one that was asked for. */
static json_t *memory_json(const struct load_job *job)
{
	struct load_memory sum = { 0 };

	for (size_t i = 0; i < job->n_memory; i++) {
		const struct load_memory *m = &job->memory[i];

		sum.bytes += m->bytes;
		sum.huge += m->huge;
		sum.reserved += m->reserved;
		sum.locked += m->locked;
		if (!sum.why[0])
			memcpy(sum.why, m->why, sizeof(sum.why));
	}
	return json_pack("{s:s, s:I, s:I, s:I, s:I, s:o}", "kind",
			 load_memory_name(job->buft), "bytes",
			 (json_int_t)sum.bytes, "huge", (json_int_t)sum.huge,
			 "reserved", (json_int_t)sum.reserved, "locked",
			 (json_int_t)sum.locked, "why",
			 text_json(sum.why, strlen(sum.why)));
}

void load_report_json(const struct load_job *job)
{
	const struct load_run *run = load_last_run(job);
	json_t *json = run_json(job, run), *value;
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
	printf("\"verified\": %s,\n", job->manifest ? "true" : "false");
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
