/* SPDX-License-Identifier: MIT */
/* The bytes that are alive at each time. */
#include <stdlib.h>
#include "output.h"
#include "plan.h"

struct change {
	int64_t time;
	uint64_t bytes; /* modulo 2^64: what ends is subtracted */
};

static int compare_changes(const void *va, const void *vb)
{
	const struct change *a = va, *b = vb;

	return (a->time > b->time) - (a->time < b->time);
}

static struct change *changes_of(const struct plan_csv *csv)
{
	struct change *change = calloc(2 * csv->n + 1, sizeof(*change));

	if (!change)
		return NULL;
	for (size_t i = 0; i < csv->n; i++) {
		const struct plan_row *row = &csv->row[i];

		change[2 * i] = (struct change){ row->lower, row->bytes };
		change[2 * i + 1] = (struct change){ row->upper, -row->bytes };
	}
	qsort(change, 2 * csv->n, sizeof(*change), compare_changes);
	return change;
}

/* All changes at one time are one step. */
static void add_up(struct plan_live *live, const struct change *change,
		   size_t n)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < n; i++) {
		bytes += change[i].bytes;
		if (i + 1 < n && change[i + 1].time == change[i].time)
			continue;
		live->time[live->n] = change[i].time;
		live->bytes[live->n] = bytes;
		if (bytes > live->bytes[live->most])
			live->most = live->n;
		live->n++;
	}
}

int plan_live(struct plan_job *job)
{
	size_t n = 2 * job->csv.n;
	struct change *change = changes_of(&job->csv);

	job->live.time = calloc(n + 1, sizeof(*job->live.time));
	job->live.bytes = calloc(n + 1, sizeof(*job->live.bytes));
	if (change && job->live.time && job->live.bytes)
		add_up(&job->live, change, n);
	else
		fail_memory();
	free(change);
	return change && job->live.time && job->live.bytes ? 0 : EXIT_FAILURE;
}

uint64_t plan_live_most(const struct plan_job *job)
{
	return job->live.n ? job->live.bytes[job->live.most] : 0;
}

int64_t plan_live_at(const struct plan_job *job)
{
	return job->live.n ? job->live.time[job->live.most] : 0;
}
