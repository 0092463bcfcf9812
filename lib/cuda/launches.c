/* SPDX-License-Identifier: MIT */
#include "cuda/launches.h"

#include <errno.h>
#include <string.h>

#include "cuda/cuda.h"

/*
 * The most blocks for each multiprocessor. Their threads take several elements,
 * or the blocks several rows, if there are more.
 */
#define ELEMENT_BLOCKS 32u
#define ROW_BLOCKS 512u
#define PARAMS_ALIGN ((size_t)16)

/* Grow an array of @room members to have @n. */
static int grow(void *array_at, size_t *room, size_t n, size_t bytes)
{
	size_t more = *room ? *room : 16;
	void *old, *new;

	if (n <= *room)
		return 0;
	while (more < n)
		more *= 2;
	new = weir__cuda_host.calloc(more, bytes);
	if (!new)
		return -ENOMEM;
	memcpy(&old, array_at, sizeof(old));
	if (old)
		memcpy(new, old, *room * bytes);
	weir__cuda_host.free(old);
	memcpy(array_at, &new, sizeof(new));
	*room = more;
	return 0;
}

/* @launch, with a copy of its parameters. */
static void launch_append(struct weir__cuda_launches *l,
			  struct weir__cuda_launch launch, const void *params,
			  size_t bytes)
{
	size_t aligned = (bytes + PARAMS_ALIGN - 1) & ~(PARAMS_ALIGN - 1);
	size_t at = l->params_bytes;

	if (l->err)
		return;
	if (grow(&l->launch, &l->room, l->n + 1, sizeof(*l->launch)) < 0 ||
	    grow(&l->params, &l->params_room, at + aligned, 1) < 0) {
		l->err = -ENOMEM;
		return;
	}
	memcpy(l->params + at, params, bytes);
	l->params_bytes += aligned;
	launch.params = at;
	l->launch[l->n++] = launch;
}

void weir__cuda_launch_add(struct weir__cuda_launches *l,
			   enum weir__cuda_kernel_id kernel, uint64_t x,
			   uint64_t y, unsigned threads, unsigned shared,
			   const void *params, size_t bytes)
{
	struct weir__cuda_launch launch = { .kernel = kernel,
					    .grid = { (unsigned)x, (unsigned)y,
						      1 },
					    .threads = threads,
					    .shared = shared };

	if (x && y)
		launch_append(l, launch, params, bytes);
}

void weir__cuda_launch_add_call(struct weir__cuda_launches *l,
				const struct weir__cublaslt_call *call)
{
	launch_append(l, (struct weir__cuda_launch){ .calls = true }, call,
		      sizeof(*call));
}

uint64_t weir__cuda_blocks_for(const struct weir__cuda_launches *l, uint64_t n)
{
	uint64_t blocks = n / WEIR__CUDA_THREADS + !!(n % WEIR__CUDA_THREADS);
	uint64_t most = (uint64_t)l->sms * ELEMENT_BLOCKS;

	return blocks < most ? blocks : most;
}

CUresult weir__cuda_launch(const struct weir__cuda_launches *l, size_t i,
			   CUdeviceptr workspace, CUstream stream)
{
	const struct weir__cuda_launch *k = &l->launch[i];
	void *params[] = { l->params + k->params, &workspace };
	struct weir__cublaslt_call call;
	int res = 0;
	CUresult r;

	if (k->calls) {
		memcpy(&call, l->params + k->params, sizeof(call));
		r = weir__cublaslt_launch(l->c, &call, workspace, stream, &res,
					  NULL, 0);
		return !r && res ? CUDA_ERROR_UNKNOWN : r;
	}
	return weir__cuda_drv.cuLaunchKernel(k->function, k->grid[0],
					     k->grid[1], k->grid[2], k->threads,
					     1, 1, k->shared, stream, params,
					     NULL);
}

uint64_t weir__cuda_workspace(struct weir__cuda_launches *l, uint64_t bytes)
{
	uint64_t at = WEIR__CUDA_COUNTERS_AT;

	if (l->counts)
		at += WEIR__CUDA_COUNTERS * sizeof(uint32_t);
	if (bytes && l->workspace < at + bytes)
		l->workspace = (size_t)(at + bytes);
	return at;
}

void weir__cuda_counters(struct weir__cuda_launches *l, uint64_t n)
{
	size_t end = (size_t)(WEIR__CUDA_COUNTERS_AT + n * sizeof(uint32_t));

	l->checks = true;
	if (l->cleared < end)
		l->cleared = end;
	if (l->workspace < end)
		l->workspace = end;
}

size_t weir__cuda_launches_of(const struct weir__cuda_launches *l, size_t first,
			      size_t n)
{
	size_t launches = 0;

	for (size_t node = first; node < first + n;) {
		struct weir__cuda_step s =
			weir__cuda_step_at(l, node, first + n);

		launches += s.end - s.first;
		node = s.next;
	}
	return launches;
}

uint64_t weir__cuda_row_blocks(const struct weir__cuda_launches *l,
			       uint64_t rows)
{
	uint64_t most = (uint64_t)l->sms * ROW_BLOCKS;

	return rows < most ? rows : most;
}

unsigned weir__cuda_row_threads(int64_t columns)
{
	unsigned n = 32;

	while (n < WEIR__CUDA_THREADS && n < columns)
		n *= 2;
	return n;
}
