/* SPDX-License-Identifier: MIT */
/* The JSON objects of weir load. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "load.h"
#include "output.h"
#include "text.h"

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
			 "s:I, s:f, s:i}",
			 "bytes", (json_int_t)r->bytes, "seconds", run->seconds,
			 "gbps", load_rate(run), "io", io_json(job, run),
			 "ways", ways_json(r), "cpu_seconds", run->cpu_seconds,
			 "enters", (json_int_t)run->enters, "staging_bytes",
			 (json_int_t)r->staging, "chunks",
			 (json_int_t)r->chunks, "over_read",
			 (json_int_t)r->over_read, "retries",
			 (json_int_t)r->retries, "prefault_seconds",
			 (double)r->prefault_ns / 1e9, "fallbacks",
			 (int)r->fallbacks);
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
