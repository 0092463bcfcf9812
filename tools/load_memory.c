/* SPDX-License-Identifier: MIT */
/* The memory of the weights of weir load, summed for each kind. */
#include <stdlib.h>
#include <string.h>

#include "kinds.h"
#include "load.h"
#include "output.h"

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

/* Each buffer once, though many tensors are in it. Returns how many there are. */
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
