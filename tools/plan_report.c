/* SPDX-License-Identifier: MIT */
/* The output of weir plan: CSV, JSON and the report. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include "output.h"
#include "plan.h"
#include "text.h"

void plan_put_csv(const struct plan_job *job)
{
	const struct plan_csv *csv = &job->csv;

	fwrite(csv->head.text, 1, csv->head.len, stdout);
	fputs(",offset\n", stdout);
	for (size_t i = 0; i < csv->n; i++) {
		const struct plan_line *line = &csv->row[i].line;

		fwrite(line->text, 1, line->len, stdout);
		printf(",%" PRIu64 "\n",
		       weir_placement_offset(job->placement, i));
	}
}

static json_t *capacity_json(const struct plan_job *job)
{
	uint64_t capacity = job->args->capacity;

	return capacity ? json_integer((json_int_t)capacity) : json_null();
}

/* "fits" in JSON; null: it is not known, or there is no capacity. */
static json_t *fits_json(const struct plan_job *job)
{
	if (!job->args->capacity || job->fit == PLAN_NOT_FOUND)
		return json_null();
	return json_boolean(job->fit == PLAN_FITS);
}

static json_t *row_json(const struct plan_job *job, size_t i)
{
	const struct plan_row *row = &job->csv.row[i];

	return json_pack("{s:o, s:I, s:I, s:I, s:I}", "id",
			 text_json(row->id, row->id_len), "lower",
			 (json_int_t)row->lower, "upper",
			 (json_int_t)row->upper, "size", (json_int_t)row->bytes,
			 "offset",
			 (json_int_t)weir_placement_offset(job->placement, i));
}

static void put_member(const char *key, json_t *value)
{
	printf("\"%s\": ", key);
	out_json(value);
	fputs(",\n", stdout);
}

void plan_put_json(const struct plan_job *job)
{
	const struct weir_placement_info *info = &job->info;

	fputs("{\n", stdout);
	put_member("height", json_integer((json_int_t)info->bytes));
	put_member("bound", json_integer((json_int_t)info->bound));
	put_member("optimal", json_boolean(info->flags & WEIR_PLACED_OPTIMAL));
	put_member("capacity", capacity_json(job));
	put_member("fits", fits_json(job));
	put_member("live", json_integer((json_int_t)plan_live_most(job)));
	put_member("live_at", json_integer(plan_live_at(job)));
	put_member("nodes", json_integer((json_int_t)info->nodes));
	put_member("seconds", json_real((double)info->time_ns / 1e9));
	fputs("\"buffers\": [", stdout);
	for (size_t i = 0; i < job->csv.n; i++) {
		fputs(i ? ",\n  " : "\n  ", stdout);
		out_json(row_json(job, i));
	}
	fputs("\n]\n}\n", stdout);
}

const char *plan_size_text(uint64_t bytes, char *buf)
{
	static const char *const units[] = { "B",   "KiB", "MiB", "GiB",
					     "TiB", "PiB", "EiB" };
	double value = (double)bytes;
	unsigned unit = 0;
	int decimals = 2;

	for (; value >= 1024 && unit < 6; unit++)
		value /= 1024;
	while (decimals && value * pow(10, decimals - 1) ==
				   floor(value * pow(10, decimals - 1)))
		decimals--;
	snprintf(buf, PLAN_SIZE_TEXT, "%.*f %s", decimals, value, units[unit]);
	return buf;
}

/* "1048576 bytes (1 MiB)" */
#define BYTES_TEXT 64
static const char *bytes_text(uint64_t bytes, char *buf)
{
	char size[PLAN_SIZE_TEXT];

	if (bytes < 1024)
		count_text(bytes, "byte", buf);
	else
		snprintf(buf, BYTES_TEXT, "%" PRIu64 " bytes (%s)", bytes,
			 plan_size_text(bytes, size));
	return buf;
}

static void report_proof(const struct plan_job *job)
{
	const struct weir_placement_info *info = &job->info;
	uint64_t gap = info->bytes - info->bound;
	char text[BYTES_TEXT];

	if (info->flags & WEIR_PLACED_OPTIMAL)
		note("  proved       no placement is lower");
	else if (job->fit == PLAN_FITS && job->args->capacity)
		note("  proved       nothing: the search ended when the buffers "
		     "fitted");
	else
		note("  proved       a lower placement can save at most %s, %.2f %%",
		     bytes_text(gap, text),
		     100. * (double)gap / (double)info->bytes);
}

static void report_capacity(const struct plan_job *job)
{
	uint64_t capacity = job->args->capacity, height = job->info.bytes;
	char text[BYTES_TEXT], over[BYTES_TEXT];

	bytes_text(capacity, text);
	switch (job->fit) {
	case PLAN_FITS:
		note("  capacity     %s: the buffers fit, %s left", text,
		     bytes_text(capacity - height, over));
		break;
	case PLAN_TOO_LARGE:
		note("  capacity     %s: no placement fits; the bound exceeds it by %s",
		     text, bytes_text(job->info.bound - capacity, over));
		break;
	case PLAN_NOT_FOUND:
		note("  capacity     %s: not known; the best placement exceeds it by "
		     "%s, another --time may find one that fits",
		     text, bytes_text(height - capacity, over));
		break;
	}
}

static void report_time(const struct plan_job *job)
{
	const struct weir_placement_info *info = &job->info;
	double seconds = (double)info->time_ns / 1e9;
	char nodes[COUNT_TEXT];

	if (info->nodes)
		note("  time         %.3f s, %s of the exact search", seconds,
		     count_text(info->nodes, "node", nodes));
	else
		note("  time         %.3f s, without a search", seconds);
}

void plan_report(const struct plan_job *job)
{
	const struct weir_placement_info *info = &job->info;
	char text[BYTES_TEXT], live[BYTES_TEXT], buffers[COUNT_TEXT];
	uint64_t most = plan_live_most(job);
	const char *are = most == 1 ? "is" : "are";

	note("%s: %s placed in %s", job->name,
	     count_text(job->csv.n, "buffer", buffers),
	     bytes_text(info->bytes, text));
	if (most == info->bound && most)
		note("  lower bound  %s, which %s alive at time %" PRId64,
		     bytes_text(info->bound, text), are, plan_live_at(job));
	else if (most)
		note("  lower bound  %s; %s %s alive at time %" PRId64,
		     bytes_text(info->bound, text), bytes_text(most, live), are,
		     plan_live_at(job));
	report_proof(job);
	if (job->args->capacity)
		report_capacity(job);
	report_time(job);
	if (job->args->svg)
		note("  picture      %s", job->args->svg);
}
