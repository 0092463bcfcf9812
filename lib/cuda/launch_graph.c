/* SPDX-License-Identifier: MIT */
#include "cuda/launch_graph.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "cuda/cuda.h"
#include "cuda/found.h"
#include "cuda/launches.h"

#define drv weir__cuda_drv
#define STATUS sizeof(struct weir__cuda_status)
/* Another range may take the place of one that so many works did not use. */
#define FORGOTTEN 256u
#define GIB ((double)(1u << 30))

static bool graphs_possible(const struct weir__cuda *c, char *why, size_t room)
{
	if (!c->graphs)
		snprintf(why, room, "the parameter graphs=no of the device");
	else if (!drv.cuGraphCreate || !drv.cuGraphDestroy ||
		 !drv.cuGraphAddKernelNode || !drv.cuGraphAddMemsetNode ||
		 !drv.cuGraphAddMemcpyNode ||
		 !drv.cuGraphInstantiateWithFlags || !drv.cuGraphExecDestroy ||
		 !drv.cuGraphLaunch)
		snprintf(
			why, room,
			"the driver (CUDA %d.%d) lacks calls for graphs, which CUDA 12.0 has",
			drv.version / 1000, drv.version % 1000 / 10);
	else
		return true;
	return false;
}

/* A graph that is being built: each node depends on the one before it. */
struct building {
	struct weir__cuda *c;
	CUgraph graph;
	CUgraphNode last; /* NULL: there is none */
	const char *call; /* the last call of the driver */
};

/* @bytes: the status and counters. */
static void status_fill_add(struct building *b, CUdeviceptr status,
			    size_t bytes, CUresult *r)
{
	CUDA_MEMSET_NODE_PARAMS p = { .dst = status,
				      .pitch = bytes,
				      .elementSize = 1,
				      .width = bytes,
				      .height = 1 };

	b->call = "cuGraphAddMemsetNode";
	*r = drv.cuGraphAddMemsetNode(&b->last, b->graph, NULL, 0, &p,
				      b->c->context);
}

static void status_copy_add(struct building *b, CUdeviceptr status,
			    struct weir__cuda_found *found, CUresult *r)
{
	CUgraphNode before = b->last;
	CUDA_MEMCPY3D p = { .srcMemoryType = CU_MEMORYTYPE_DEVICE,
			    .srcDevice = status,
			    .srcPitch = STATUS,
			    .dstMemoryType = CU_MEMORYTYPE_HOST,
			    .dstHost = &found->status,
			    .dstPitch = STATUS,
			    .WidthInBytes = STATUS,
			    .Height = 1,
			    .Depth = 1 };

	b->call = "cuGraphAddMemcpyNode";
	*r = drv.cuGraphAddMemcpyNode(&b->last, b->graph, &before, 1, &p,
				      b->c->context);
}

/* The driver copies the parameters. */
static void launch_add(struct building *b, const struct weir__cuda_launches *l,
		       size_t i, CUdeviceptr workspace, CUresult *r)
{
	const struct weir__cuda_launch *k = &l->launch[i];
	void *params[] = { l->params + k->params, &workspace };
	CUgraphNode before = b->last;
	CUDA_KERNEL_NODE_PARAMS p = { .func = k->function,
				      .gridDimX = k->grid[0],
				      .gridDimY = k->grid[1],
				      .gridDimZ = k->grid[2],
				      .blockDimX = k->threads,
				      .blockDimY = 1,
				      .blockDimZ = 1,
				      .sharedMemBytes = k->shared,
				      .kernelParams = params };

	assert(!k->calls);
	b->call = "cuGraphAddKernelNode";
	*r = drv.cuGraphAddKernelNode(&b->last, b->graph,
				      before ? &before : NULL, !!before, &p);
}

/* Upload it, so that a launch has nothing to allocate. */
static CUresult exec_make(struct building *b, CUstream stream, CUgraphExec *ret)
{
	CUgraphExec exec;
	CUresult r;

	b->call = "cuGraphInstantiate";
	r = drv.cuGraphInstantiateWithFlags(&exec, b->graph, 0);
	if (r)
		return r;
	*ret = exec;
	b->call = "cuGraphUpload";
	return drv.cuGraphUpload ? drv.cuGraphUpload(exec, stream) : r;
}

static CUresult range_build_nodes(struct building *b,
				  const struct weir__cuda_launches *l,
				  struct weir__cuda_range *range)
{
	CUdeviceptr workspace = (CUdeviceptr)(uintptr_t)range->workspace;
	size_t end = range->first + range->n;
	CUresult r = CUDA_SUCCESS;

	if (l->checks)
		status_fill_add(b, workspace, l->cleared, &r);
	for (size_t node = range->first; node < end && !r;) {
		struct weir__cuda_step s = weir__cuda_step_at(l, node, end);

		for (size_t i = s.first; i < s.end && !r; i++)
			launch_add(b, l, i, workspace, &r);
		node = s.next;
	}
	if (l->checks && !r)
		status_copy_add(b, workspace, range->found, &r);
	return r;
}

/* The range is taken, and a context is current. */
static CUresult range_build(struct weir__cuda *c,
			    const struct weir__cuda_launches *l,
			    struct weir__cuda_range *range, CUstream stream,
			    const char **call)
{
	struct building b = { .c = c, .call = "cuMemHostAlloc" };
	CUresult r = CUDA_SUCCESS;

	if (l->checks)
		r = weir__cuda_found_get(c, &range->found);
	if (!r) {
		b.call = "cuGraphCreate";
		r = drv.cuGraphCreate(&b.graph, 0);
	}
	if (!r) {
		r = range_build_nodes(&b, l, range);
		if (!r)
			r = exec_make(&b, stream, &range->exec);
		weir__cuda_note(c, drv.cuGraphDestroy(b.graph));
	}
	*call = b.call;
	weir__cuda_note(c, r);
	return r;
}

/* Forget its graph. Nothing uses it; a context is current unless !@driver. */
static void range_clear(struct weir__cuda *c, struct weir__cuda_range *range,
			bool driver)
{
	if (range->exec && driver)
		weir__cuda_note(c, drv.cuGraphExecDestroy(range->exec));
	range->exec = NULL;
	weir__cuda_found_put(c, range->found);
	range->found = NULL;
}

/* The range is taken. */
static void range_refuse(struct weir__cuda_range *range, CUresult r,
			 const char *call)
{
	char words[120];

	weir__cuda_describe_result((int32_t)r, words, sizeof(words));
	snprintf(range->refused, sizeof(range->refused), "%s: %s", call, words);
	range->state = WEIR__CUDA_RANGE_REFUSED;
	range->refused_at = range->used;
	range->passes = r == CUDA_ERROR_OUT_OF_MEMORY ||
			weir__cuda_is_capture(r);
}

/* The place of the range of @run, or NULL. graphs.lock is held. */
static struct weir__cuda_range *
range_find(struct weir__cuda_graphs *g, const struct weir_backend_compute *run)
{
	for (unsigned i = 0; i < WEIR__CUDA_RANGES; i++) {
		struct weir__cuda_range *range = &g->range[i];

		if (range->n && range->first == run->first &&
		    range->n == run->n && range->workspace == run->workspace)
			return range;
	}
	return NULL;
}

/*
 * A place for the range of @run: one that is unused, or whose range was not
 * used for long. NULL: there is none. graphs.lock is held.
 */
static struct weir__cuda_range *
range_replace(struct weir__cuda_graphs *g,
	      const struct weir_backend_compute *run)
{
	struct weir__cuda_range *oldest = NULL;

	for (unsigned i = 0; i < WEIR__CUDA_RANGES; i++) {
		struct weir__cuda_range *range = &g->range[i];

		if (!atomic_load(&range->taken) &&
		    (!oldest || range->used < oldest->used))
			oldest = range;
	}
	if (!oldest || (oldest->n && g->works - oldest->used < FORGOTTEN))
		return NULL;
	oldest->state = WEIR__CUDA_RANGE_UNUSED;
	oldest->first = run->first;
	oldest->n = run->n;
	oldest->workspace = run->workspace;
	return oldest;
}

/* Take the range of @run. NULL: @why says why not. graphs.lock is held. */
static struct weir__cuda_range *
range_get(struct weir__cuda_graphs *g, const struct weir_backend_compute *run,
	  char *why, size_t room)
{
	struct weir__cuda_range *range = range_find(g, run);

	if (range && atomic_load(&range->taken)) {
		snprintf(why, room, "the same nodes are still running");
		return NULL;
	}
	if (!range)
		range = range_replace(g, run);
	if (!range) {
		snprintf(why, room, "more than %u ranges of nodes are run",
			 WEIR__CUDA_RANGES);
		return NULL;
	}
	atomic_store(&range->taken, true);
	range->used = g->works;
	return range;
}

/* The state after RAN: BUILT or REFUSED. */
static void range_make(struct weir__cuda *c, struct weir__cuda_launches *l,
		       struct weir__cuda_range *range, CUstream stream)
{
	const char *call;
	CUresult r = range_build(c, l, range, stream, &call);

	if (r) {
		range_refuse(range, r, call);
		range_clear(c, range, !atomic_load(&c->lost));
		return;
	}
	range->state = WEIR__CUDA_RANGE_BUILT;
	atomic_fetch_add(&l->graphs.built, 1);
}

/*
 * Move the range on, which is taken; true: it has a graph. A context is
 * current.
 */
static bool range_advance(struct weir__cuda *c, struct weir__cuda_launches *l,
			  struct weir__cuda_range *range, CUstream stream,
			  char *why, size_t room)
{
	if (range->state == WEIR__CUDA_RANGE_UNUSED) {
		/* The graph of the range that was here before. */
		range_clear(c, range, true);
		range->state = WEIR__CUDA_RANGE_RAN;
		snprintf(why, room,
			 "a graph is built when the same nodes run again");
		return false;
	}
	if (range->state == WEIR__CUDA_RANGE_REFUSED && range->passes &&
	    range->used - range->refused_at >= FORGOTTEN) {
		range_clear(c, range, true);
		range->state = WEIR__CUDA_RANGE_RAN;
	}
	if (range->state == WEIR__CUDA_RANGE_RAN)
		range_make(c, l, range, stream);
	if (range->state == WEIR__CUDA_RANGE_REFUSED)
		snprintf(why, room, "%s", range->refused);
	return range->state == WEIR__CUDA_RANGE_BUILT;
}

/* True if the nodes [@first, @first + @n) are to be no graph, and why. */
static bool is_direct(const struct weir__cuda *c,
		      const struct weir__cuda_launches *l, size_t first,
		      size_t n, char *why, size_t room)
{
	double cost = l->cost[first + n] - l->cost[first];

	if (!graphs_possible(c, why, room))
		return true;
	if (l->columns > WEIR__CUDA_GRAPH_COLUMNS)
		snprintf(
			why, room,
			"products of %llu columns, a prompt: graphs are for at most %d",
			(unsigned long long)l->columns,
			WEIR__CUDA_GRAPH_COLUMNS);
	else if (weir__cuda_launches_of(l, first, n) <= 1)
		snprintf(why, room, "one launch needs no graph");
	else if (cost > (double)c->memory)
		snprintf(
			why, room,
			"it takes as long as %.3g GiB of memory traffic: a graph, which cannot be stopped, has at most the %.3g GiB of the GPU",
			cost / GIB, (double)c->memory / GIB);
	else
		return false;
	return true;
}

/* Count a work that has taken @range, or NULL, because of @why. */
static void count(struct weir__cuda_graphs *g, struct weir__cuda_range *range,
		  const char *why)
{
	if (range)
		g->launched++;
	else
		g->direct++;
	snprintf(g->why, sizeof(g->why), "%s", range ? "" : why);
	if (range && range->found)
		memset(&range->found->status, 0, STATUS);
}

struct weir__cuda_range *
weir__cuda_range_take(struct weir__cuda *c, struct weir__cuda_launches *l,
		      const struct weir_backend_compute *run, CUstream stream)
{
	struct weir__cuda_graphs *g = &l->graphs;
	struct weir__cuda_range *range = NULL;
	char why[sizeof(g->why)] = "";
	bool direct = is_direct(c, l, run->first, run->n, why, sizeof(why));

	pthread_mutex_lock(&g->lock);
	g->works++;
	if (!direct)
		range = range_get(g, run, why, sizeof(why));
	pthread_mutex_unlock(&g->lock);
	if (range && !range_advance(c, l, range, stream, why, sizeof(why))) {
		weir__cuda_range_put(range);
		range = NULL;
	}
	pthread_mutex_lock(&g->lock);
	count(g, range, why);
	pthread_mutex_unlock(&g->lock);
	return range;
}

struct weir__cuda_range *
weir__cuda_range_take_built(struct weir__cuda_launches *l,
			    const struct weir_backend_compute *run)
{
	struct weir__cuda_graphs *g = &l->graphs;
	struct weir__cuda_range *range;

	pthread_mutex_lock(&g->lock);
	range = range_find(g, run);
	if (range && (atomic_load(&range->taken) ||
		      range->state != WEIR__CUDA_RANGE_BUILT))
		range = NULL;
	if (range) {
		atomic_store(&range->taken, true);
		range->used = ++g->works;
		count(g, range, "");
	}
	pthread_mutex_unlock(&g->lock);
	return range;
}

CUresult weir__cuda_range_launch(struct weir__cuda_range *range,
				 CUstream stream)
{
	CUresult r = drv.cuGraphLaunch(range->exec, stream);

	if (r)
		range_refuse(range, r, "cuGraphLaunch");
	return r;
}

void weir__cuda_range_put(struct weir__cuda_range *range)
{
	atomic_store(&range->taken, false);
}

void weir__cuda_graphs_free(struct weir__cuda *c, struct weir__cuda_launches *l,
			    bool driver)
{
	for (unsigned i = 0; i < WEIR__CUDA_RANGES; i++)
		range_clear(c, &l->graphs.range[i], driver);
}

void weir__cuda_graphs_describe(const struct weir__cuda *c,
				struct weir__cuda_launches *l,
				struct weir_backend_launches *ret)
{
	struct weir__cuda_graphs *g = &l->graphs;

	pthread_mutex_lock(&g->lock);
	ret->graphs = atomic_load(&g->built);
	ret->as_graph = g->launched;
	ret->directly = g->direct;
	if (g->works)
		memcpy(ret->why, g->why, sizeof(ret->why));
	else
		is_direct(c, l, 0, l->n_nodes, ret->why, sizeof(ret->why));
	pthread_mutex_unlock(&g->lock);
}
