/* SPDX-License-Identifier: MIT */
/* weir load --estimate: the memory that the load would need. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "load.h"
#include "output.h"

/* Fill in job->needs. Returns as load_plan(). */
static int estimate_plan(struct load_job *job, struct weir_plan *plan)
{
	int n = weir_plan_estimate(plan, NULL, 0);

	if (n < 0)
		return n;
	job->needs = calloc((size_t)n + 1, sizeof(*job->needs));
	if (!job->needs)
		return fail_memory();
	job->needs[0].size = sizeof(*job->needs);
	n = weir_plan_estimate(plan, job->needs, (unsigned)n);
	if (n < 0)
		return n;
	job->n_needs = (size_t)n;
	return 0;
}

/*
 * A load starts the engine first, whose slots count for the budget. If they exceed
 * it, nothing fits.
 */
static int start_engine(struct load_job *job)
{
	int r;

	if (!job->args->root.budget || !load_uses_engine(job->args))
		return 0;
	r = load_start_engine(job);
	if (r != -ENOMEM)
		return r < 0 ? fail_weir() : 0;
	note("nothing fits: %s", weir_sentence());
	job->no_slots = true;
	return 0;
}

int load_estimate(struct load_job *job)
{
	struct weir_plan *plan;
	int r = start_engine(job);

	if (r == 0)
		r = load_plan(job, &plan);
	if (r == 0) {
		r = estimate_plan(job, plan);
		weir_plan_free(plan);
	}
	for (size_t i = 0; i < job->n_needs && job->no_slots; i++)
		job->needs[i].fits = 0;
	return r < 0 ? fail_weir() : r;
}

static bool all_fit(const struct load_job *job)
{
	for (size_t i = 0; i < job->n_needs; i++)
		if (!job->needs[i].fits)
			return false;
	return !job->no_slots;
}

static const char *buft_name(const struct weir_buft *buft)
{
	struct weir_buft_info info = { .size = sizeof(info) };

	return weir_buft_info(buft, &info) < 0 ? "?" : info.name;
}

static void show_need(const struct weir_estimate *need)
{
	char bytes[SIZE_TEXT], available[SIZE_TEXT] = "unknown";

	if (need->free != UINT64_MAX)
		size_text(need->free, available);
	printf("%-16s %8llu %-7s  %12s needed  %12s free  %s\n",
	       buft_name(need->buft), (unsigned long long)need->tensors,
	       need->tensors == 1 ? "tensor" : "tensors",
	       size_text(need->bytes, bytes), available,
	       need->fits ? "fits" : "does not fit");
}

static json_t *need_json(const struct weir_estimate *need)
{
	json_t *available = need->free == UINT64_MAX
				    ? json_null()
				    : json_integer((json_int_t)need->free);

	return json_pack("{s:s, s:s, s:s, s:I, s:I, s:o, s:b}", "name",
			 buft_name(need->buft), "device",
			 load_device_name(need->buft), "kind",
			 load_memory_name(need->buft), "tensors",
			 (json_int_t)need->tensors, "bytes",
			 (json_int_t)need->bytes, "free", available, "fits",
			 (int)need->fits);
}

static json_t *needs_json(const struct load_job *job)
{
	json_t *list = json_array();

	for (size_t i = 0; i < job->n_needs; i++)
		json_array_append_new(list, need_json(&job->needs[i]));
	return json_pack("{s:b, s:o}", "fits", (int)all_fit(job), "memory",
			 list);
}

int load_estimate_print(const struct load_job *job)
{
	if (job->args->json) {
		out_json(needs_json(job));
		putchar('\n');
	} else {
		for (size_t i = 0; i < job->n_needs; i++)
			show_need(&job->needs[i]);
	}
	return all_fit(job) ? 0 : EXIT_NO_ROOM;
}
