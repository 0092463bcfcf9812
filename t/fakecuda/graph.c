/* SPDX-License-Identifier: MIT */
/*
 * Graphs that are built node by node. A launch queues the nodes on its stream,
 * one after another as they were added: a node can depend only on earlier ones.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "copy.h"
#include "kernel.h"

#define DEPTH_MAX 16u

/* What a node does. */
struct step {
	CUgraphNodeType type;
	struct fc_launch *launch;
	CUDA_MEMCPY3D copy;
	CUDA_MEMSET_NODE_PARAMS fill;
	struct list *child; /* owned */
};

struct list {
	struct step *steps;
	size_t *deps; /* numbers of nodes; those of node i end at ends[i] */
	size_t *ends;
	size_t n, n_deps;
};

struct CUgraph_st {
	struct fc_handle handle;
	struct list list;
};

struct CUgraphNode_st {
	struct fc_handle handle;
	struct CUgraph_st *graph;
	size_t number;
};

struct CUgraphExec_st {
	struct fc_handle handle;
	struct list list;
	const struct CUgraph_st *graph; /* whose nodes name its own */
};

static_assert(sizeof(struct CUgraphExec_st) <= 128, "it fits into its slot");

static void *need(void *p)
{
	if (p)
		return p;
	fprintf(stderr, "fakecuda: no memory\n");
	abort();
}

static void list_clear(struct list *list)
{
	for (size_t i = 0; i < list->n; i++) {
		fc_launch_free(list->steps[i].launch);
		if (list->steps[i].child)
			list_clear(list->steps[i].child);
		free(list->steps[i].child);
	}
	free(list->steps);
	free(list->deps);
	free(list->ends);
	memset(list, 0, sizeof(*list));
}

static void list_copy(struct list *to, const struct list *from)
{
	*to = *from;
	to->steps = need(calloc(from->n + 1, sizeof(*to->steps)));
	to->deps = need(calloc(from->n_deps + 1, sizeof(*to->deps)));
	to->ends = need(calloc(from->n + 1, sizeof(*to->ends)));
	if (from->n_deps)
		memcpy(to->deps, from->deps, from->n_deps * sizeof(*to->deps));
	if (from->n)
		memcpy(to->ends, from->ends, from->n * sizeof(*to->ends));
	for (size_t i = 0; i < from->n; i++) {
		to->steps[i] = from->steps[i];
		if (from->steps[i].launch)
			to->steps[i].launch =
				fc_launch_copy(from->steps[i].launch);
		if (!from->steps[i].child)
			continue;
		to->steps[i].child = need(calloc(1, sizeof(struct list)));
		list_copy(to->steps[i].child, from->steps[i].child);
	}
}

static CUresult no_graph(struct fc_call *call, const void *graph)
{
	return fc_wrong(call, CUDA_ERROR_INVALID_HANDLE, "%p is no graph",
			graph);
}

static CUresult create(struct fc_call *call, CUgraph *ret, unsigned flags)
{
	struct CUgraph_st *graph;

	if (!ret || flags)
		return fc_wrong(call, CUDA_ERROR_INVALID_VALUE, "flags %#x",
				flags);
	graph = fc_handle_new(FC_GRAPH, NULL);
	if (!graph)
		return CUDA_ERROR_OUT_OF_MEMORY;
	list_copy(&graph->list, &(struct list){ .n = 0 });
	fc_made(FAKECUDA_GRAPH);
	*ret = graph;
	return CUDA_SUCCESS;
}

CUresult cuGraphCreate(CUgraph *ret, unsigned int flags)
{
	FC_ENTER("cuGraphCreate", FC_INIT);
	return fc_leave(&call, create(&call, ret, flags));
}

static CUresult destroy(struct fc_call *call, CUgraph graph)
{
	struct CUgraphNode_st *node = NULL;

	if (!fc_handle_ok(graph, FC_GRAPH))
		return no_graph(call, graph);
	while ((node = fc_handle_next(node, FC_NODE))) {
		if (node->graph == graph)
			node->handle.live = false;
	}
	list_clear(&graph->list);
	graph->handle.live = false;
	fc_went(FAKECUDA_GRAPH);
	return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph)
{
	FC_ENTER("cuGraphDestroy", FC_INIT);
	return fc_leave(&call, destroy(&call, graph));
}

/* Add a node that does @step, whose launch and child it takes on success. */
static CUresult add(struct fc_call *call, CUgraphNode *ret, CUgraph graph,
		    const CUgraphNode *deps, size_t n, const struct step *step)
{
	struct CUgraphNode_st *node;
	struct list *list;

	if (!fc_handle_ok(graph, FC_GRAPH))
		return no_graph(call, graph);
	for (size_t i = 0; i < n; i++) {
		if (!fc_handle_ok(deps[i], FC_NODE) || deps[i]->graph != graph)
			return fc_wrong(
				call, CUDA_ERROR_INVALID_VALUE,
				"dependency %zu is no node of the graph", i);
	}
	node = fc_handle_new(FC_NODE, NULL);
	if (!node)
		return CUDA_ERROR_OUT_OF_MEMORY;
	list = &graph->list;
	list->steps = need(
		realloc(list->steps, (list->n + 1) * sizeof(*list->steps)));
	list->ends =
		need(realloc(list->ends, (list->n + 1) * sizeof(*list->ends)));
	list->deps = need(realloc(list->deps, (list->n_deps + n + 1) *
						      sizeof(*list->deps)));
	for (size_t i = 0; i < n; i++)
		list->deps[list->n_deps++] = deps[i]->number;
	list->ends[list->n] = list->n_deps;
	list->steps[list->n] = *step;
	node->graph = graph;
	node->number = list->n++;
	*ret = node;
	return CUDA_SUCCESS;
}

/* @ret gets a launch only on success. */
static CUresult kernel_step(struct fc_call *call,
			    const CUDA_KERNEL_NODE_PARAMS *p, struct step *ret)
{
	unsigned grid[3], block[3];

	if (!p)
		return fc_wrong(call, CUDA_ERROR_INVALID_VALUE,
				"no parameters");
	grid[0] = p->gridDimX;
	grid[1] = p->gridDimY;
	grid[2] = p->gridDimZ;
	block[0] = p->blockDimX;
	block[1] = p->blockDimY;
	block[2] = p->blockDimZ;
	ret->type = CU_GRAPH_NODE_TYPE_KERNEL;
	return fc_launch_make(call, p->func ? (void *)p->func : (void *)p->kern,
			      grid, block, p->sharedMemBytes, p->kernelParams,
			      p->extra, &ret->launch);
}

static CUresult add_kernel(struct fc_call *call, CUgraphNode *ret,
			   CUgraph graph, const CUgraphNode *deps, size_t n,
			   const CUDA_KERNEL_NODE_PARAMS *params)
{
	struct step step = { .launch = NULL };
	CUresult result = kernel_step(call, params, &step);

	if (result == CUDA_SUCCESS)
		result = add(call, ret, graph, deps, n, &step);
	if (result != CUDA_SUCCESS)
		fc_launch_free(step.launch);
	return result;
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode *ret, CUgraph graph,
				 const CUgraphNode *deps, size_t n,
				 const CUDA_KERNEL_NODE_PARAMS *params)
{
	FC_ENTER("cuGraphAddKernelNode", FC_CTX);
	return fc_leave(&call, add_kernel(&call, ret, graph, deps, n, params));
}

/* The context on which a node runs. */
static CUresult context_ok(struct fc_call *call, CUcontext ctx)
{
	return fc_handle_ok(ctx, FC_CONTEXT)
		       ? CUDA_SUCCESS
		       : fc_wrong(call, CUDA_ERROR_INVALID_VALUE,
				  "%p is no context", (void *)ctx);
}

static CUresult copy_ok(struct fc_call *call, const CUDA_MEMCPY3D *c,
			CUcontext ctx)
{
	if (!c || !c->WidthInBytes || !c->Height || !c->Depth)
		return fc_wrong(call, CUDA_ERROR_INVALID_VALUE,
				"a node that copies nothing");
	if (c->Height > 1 &&
	    ((c->srcPitch && c->srcPitch < c->srcXInBytes + c->WidthInBytes) ||
	     (c->dstPitch && c->dstPitch < c->dstXInBytes + c->WidthInBytes)))
		return fc_wrong(call, CUDA_ERROR_INVALID_VALUE,
				"rows of %zu bytes, and a pitch below that",
				c->WidthInBytes);
	return context_ok(call, ctx);
}

static CUresult fill_ok(struct fc_call *call, const CUDA_MEMSET_NODE_PARAMS *p,
			CUcontext ctx)
{
	if (!p || !p->width || !p->height ||
	    (p->elementSize != 1 && p->elementSize != 2 &&
	     p->elementSize != 4) ||
	    p->dst % p->elementSize)
		return fc_wrong(call, CUDA_ERROR_INVALID_VALUE,
				"a node that fills nothing, or wrong elements");
	return context_ok(call, ctx);
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *ret, CUgraph graph,
			      const CUgraphNode *deps, size_t n,
			      const CUDA_MEMCPY3D *params, CUcontext ctx)
{
	FC_ENTER("cuGraphAddMemcpyNode", FC_CTX);
	struct step step = { .type = CU_GRAPH_NODE_TYPE_MEMCPY };
	CUresult result = copy_ok(&call, params, ctx);

	if (result != CUDA_SUCCESS)
		return fc_leave(&call, result);
	step.copy = *params;
	return fc_leave(&call, add(&call, ret, graph, deps, n, &step));
}

CUresult cuGraphAddMemsetNode(CUgraphNode *ret, CUgraph graph,
			      const CUgraphNode *deps, size_t n,
			      const CUDA_MEMSET_NODE_PARAMS *params,
			      CUcontext ctx)
{
	FC_ENTER("cuGraphAddMemsetNode", FC_CTX);
	struct step step = { .type = CU_GRAPH_NODE_TYPE_MEMSET };
	CUresult result = fill_ok(&call, params, ctx);

	if (result != CUDA_SUCCESS)
		return fc_leave(&call, result);
	step.fill = *params;
	return fc_leave(&call, add(&call, ret, graph, deps, n, &step));
}

CUresult cuGraphAddEmptyNode(CUgraphNode *ret, CUgraph graph,
			     const CUgraphNode *deps, size_t n)
{
	FC_ENTER("cuGraphAddEmptyNode", FC_CTX);
	struct step step = { .type = CU_GRAPH_NODE_TYPE_EMPTY };

	return fc_leave(&call, add(&call, ret, graph, deps, n, &step));
}

static CUresult add_child(struct fc_call *call, CUgraphNode *ret, CUgraph graph,
			  const CUgraphNode *deps, size_t n, CUgraph child)
{
	struct step step = { .type = CU_GRAPH_NODE_TYPE_GRAPH };
	CUresult result;

	if (!fc_handle_ok(child, FC_GRAPH) || child == graph)
		return no_graph(call, child);
	step.child = need(calloc(1, sizeof(struct list)));
	list_copy(step.child, &child->list);
	result = add(call, ret, graph, deps, n, &step);
	if (result != CUDA_SUCCESS) {
		list_clear(step.child);
		free(step.child);
	}
	return result;
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *ret, CUgraph graph,
				  const CUgraphNode *deps, size_t n,
				  CUgraph child)
{
	FC_ENTER("cuGraphAddChildGraphNode", FC_CTX);
	return fc_leave(&call, add_child(&call, ret, graph, deps, n, child));
}

static CUresult instantiate(struct fc_call *call, CUgraphExec *ret,
			    CUgraph graph)
{
	struct CUgraphExec_st *exec;

	if (!fc_handle_ok(graph, FC_GRAPH))
		return no_graph(call, graph);
	exec = fc_handle_new(FC_EXEC, call->ctx);
	if (!exec)
		return CUDA_ERROR_OUT_OF_MEMORY;
	list_copy(&exec->list, &graph->list);
	exec->graph = graph;
	fc_made(FAKECUDA_GRAPH_EXEC);
	*ret = exec;
	return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *ret, CUgraph graph,
				     unsigned long long flags)
{
	FC_ENTER("cuGraphInstantiate", FC_CTX);
	if (flags & ~0xfull) /* CUgraphInstantiate_flags */
		return fc_leave(&call, fc_wrong(&call, CUDA_ERROR_INVALID_VALUE,
						"flags %#llx", flags));
	return fc_leave(&call, instantiate(&call, ret, graph));
}

static void exec_drop(struct CUgraphExec_st *exec)
{
	list_clear(&exec->list);
	exec->handle.live = false;
}

/* Executable graphs of a context that ends. */
void fc_graphs_end(struct CUctx_st *ctx)
{
	struct CUgraphExec_st *exec = NULL;

	while ((exec = fc_handle_next(exec, FC_EXEC))) {
		if (exec->handle.ctx != ctx)
			continue;
		exec_drop(exec);
		fc_went_with_context(FAKECUDA_GRAPH_EXEC);
	}
}

static CUresult no_exec(struct fc_call *call, const void *exec)
{
	return fc_wrong(call, CUDA_ERROR_INVALID_HANDLE,
			"%p is no executable graph", exec);
}

/* What was launched still runs: its operations have copies. */
CUresult cuGraphExecDestroy(CUgraphExec exec)
{
	FC_ENTER("cuGraphExecDestroy", FC_CTX);
	if (!fc_handle_ok(exec, FC_EXEC))
		return fc_leave(&call, no_exec(&call, exec));
	exec_drop(exec);
	fc_went(FAKECUDA_GRAPH_EXEC);
	return fc_leave(&call, CUDA_SUCCESS);
}

static const char *end_of(CUmemorytype type, const void *host,
			  CUdeviceptr device, size_t x, size_t y, size_t pitch)
{
	const char *base = type == CU_MEMORYTYPE_HOST
				   ? host
				   : (const void *)(uintptr_t)device;

	return base + y * pitch + x;
}

/* Rows only. */
static CUresult run_copy(struct fc_call *call, CUstream stream,
			 const CUDA_MEMCPY3D *c)
{
	struct fc_request request = {
		.dst = end_of(c->dstMemoryType, c->dstHost, c->dstDevice,
			      c->dstXInBytes, c->dstY, c->dstPitch),
		.src = end_of(c->srcMemoryType, c->srcHost, c->srcDevice,
			      c->srcXInBytes, c->srcY, c->srcPitch),
		.width = c->WidthInBytes,
		.height = c->Height,
		.dst_pitch = c->dstPitch,
		.src_pitch = c->srcPitch,
	};

	if (c->dstMemoryType == CU_MEMORYTYPE_ARRAY || c->Depth != 1 ||
	    c->srcMemoryType == CU_MEMORYTYPE_ARRAY)
		return CUDA_ERROR_NOT_SUPPORTED;
	return fc_copy(call, stream, &request, 1, FC_ORDER_STREAM, false);
}

static CUresult run_fill(struct fc_call *call, CUstream stream,
			 const CUDA_MEMSET_NODE_PARAMS *p)
{
	unsigned char byte = (unsigned char)p->value;

	/* The operation fills with one byte. */
	for (unsigned i = 1; i < p->elementSize; i++) {
		if ((unsigned char)(p->value >> (8 * i)) != byte)
			return fc_wrong(call, CUDA_ERROR_NOT_SUPPORTED,
					"a fill with %#x", p->value);
	}
	return fc_fill(call, p->dst, p->pitch, byte, p->width * p->elementSize,
		       p->height, stream);
}

static CUresult run_list(struct fc_call *call, CUstream handle,
			 struct CUstream_st *stream, const struct list *list,
			 unsigned depth)
{
	CUresult result = CUDA_SUCCESS;

	if (depth == DEPTH_MAX)
		return CUDA_ERROR_NOT_SUPPORTED;
	for (size_t i = 0; i < list->n && result == CUDA_SUCCESS; i++) {
		const struct step *step = &list->steps[i];
		struct fc_op *op;

		switch (step->type) {
		case CU_GRAPH_NODE_TYPE_KERNEL:
			/* Kernels that are not executed: one for all. */
			if (fc.opt.dry && i && step[-1].type == step->type)
				break;
			op = fc_op_new(FC_LAUNCH, 0);
			op->launch = fc_launch_copy(step->launch);
			fc_queue(call, stream, op);
			break;
		case CU_GRAPH_NODE_TYPE_MEMCPY:
			result = run_copy(call, handle, &step->copy);
			break;
		case CU_GRAPH_NODE_TYPE_MEMSET:
			result = run_fill(call, handle, &step->fill);
			break;
		case CU_GRAPH_NODE_TYPE_GRAPH:
			result = run_list(call, handle, stream, step->child,
					  depth + 1);
			break;
		default:
			break;
		}
	}
	return result;
}

static CUresult launch(struct fc_call *call, CUgraphExec exec, CUstream handle)
{
	struct CUstream_st *stream = fc_stream_get(call, handle);

	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!fc_handle_ok(exec, FC_EXEC) || exec->handle.ctx != call->ctx)
		return no_exec(call, exec);
	return run_list(call, handle, stream, &exec->list, 0);
}

/* An armed fault strikes the first operation of the graph. */
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
	FC_ENTER("cuGraphLaunch", FC_CTX | FC_QUEUE);
	return fc_leave(&call, launch(&call, exec, stream));
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream stream)
{
	FC_ENTER("cuGraphUpload", FC_CTX);
	if (!fc_handle_ok(exec, FC_EXEC))
		return fc_leave(&call, no_exec(&call, exec));
	return fc_leave(&call, fc_stream_get(&call, stream)
				       ? CUDA_SUCCESS
				       : CUDA_ERROR_INVALID_HANDLE);
}

/* The step of @exec that @node names; NULL after a misuse. */
static struct step *step_of(struct fc_call *call, CUgraphExec exec,
			    CUgraphNode node, CUgraphNodeType type)
{
	struct step *step;

	if (!fc_handle_ok(exec, FC_EXEC)) {
		no_exec(call, exec);
		return NULL;
	}
	if (!fc_handle_ok(node, FC_NODE) || node->graph != exec->graph ||
	    node->number >= exec->list.n) {
		fc_wrong(call, CUDA_ERROR_INVALID_VALUE,
			 "%p is no node of the executable graph", (void *)node);
		return NULL;
	}
	step = &exec->list.steps[node->number];
	if (step->type == type)
		return step;
	fc_wrong(call, CUDA_ERROR_INVALID_VALUE, "the node has type %d",
		 (int)step->type);
	return NULL;
}

static CUresult set_kernel(struct fc_call *call, struct step *step,
			   const CUDA_KERNEL_NODE_PARAMS *params)
{
	struct step fresh = { .launch = NULL };
	CUresult result;

	if (!step)
		return CUDA_ERROR_INVALID_VALUE;
	result = kernel_step(call, params, &fresh);
	if (result != CUDA_SUCCESS)
		return result;
	fc_launch_free(step->launch);
	step->launch = fresh.launch;
	return CUDA_SUCCESS;
}

CUresult
cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
				  const CUDA_KERNEL_NODE_PARAMS *params)
{
	FC_ENTER("cuGraphExecKernelNodeSetParams", FC_CTX);
	return fc_leave(&call, set_kernel(&call,
					  step_of(&call, exec, node,
						  CU_GRAPH_NODE_TYPE_KERNEL),
					  params));
}

CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node,
				       const CUDA_KERNEL_NODE_PARAMS *params)
{
	FC_ENTER("cuGraphKernelNodeSetParams", FC_CTX);
	struct step *step = fc_handle_ok(node, FC_NODE)
				    ? &node->graph->list.steps[node->number]
				    : NULL;

	if (step && step->type != CU_GRAPH_NODE_TYPE_KERNEL)
		step = NULL;
	return fc_leave(&call, set_kernel(&call, step, params));
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node,
					const CUDA_MEMCPY3D *params,
					CUcontext ctx)
{
	FC_ENTER("cuGraphExecMemcpyNodeSetParams", FC_CTX);
	struct step *step =
		step_of(&call, exec, node, CU_GRAPH_NODE_TYPE_MEMCPY);

	(void)ctx;
	if (step)
		step->copy = *params;
	return fc_leave(&call, step ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
					const CUDA_MEMSET_NODE_PARAMS *params,
					CUcontext ctx)
{
	FC_ENTER("cuGraphExecMemsetNodeSetParams", FC_CTX);
	struct step *step =
		step_of(&call, exec, node, CU_GRAPH_NODE_TYPE_MEMSET);

	(void)ctx;
	if (step)
		step->fill = *params;
	return fc_leave(&call, step ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

/* True if two graphs have the same nodes and dependencies. */
static bool same_shape(const struct list *a, const struct list *b)
{
	if (a->n != b->n || a->n_deps != b->n_deps ||
	    memcmp(a->deps, b->deps, a->n_deps * sizeof(*a->deps)) ||
	    memcmp(a->ends, b->ends, a->n * sizeof(*a->ends)))
		return false;
	for (size_t i = 0; i < a->n; i++) {
		if (a->steps[i].type != b->steps[i].type)
			return false;
		if (a->steps[i].child &&
		    !same_shape(a->steps[i].child, b->steps[i].child))
			return false;
	}
	return true;
}

static CUresult update(struct fc_call *call, CUgraphExec exec, CUgraph graph,
		       CUgraphExecUpdateResultInfo *info)
{
	if (!fc_handle_ok(exec, FC_EXEC))
		return no_exec(call, exec);
	if (!fc_handle_ok(graph, FC_GRAPH))
		return no_graph(call, graph);
	memset(info, 0, sizeof(*info));
	if (!same_shape(&exec->list, &graph->list)) {
		info->result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
		return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
	}
	list_clear(&exec->list);
	list_copy(&exec->list, &graph->list);
	return CUDA_SUCCESS;
}

CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph,
			      CUgraphExecUpdateResultInfo *info)
{
	FC_ENTER("cuGraphExecUpdate", FC_CTX);
	return fc_leave(&call, update(&call, exec, graph, info));
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *ret)
{
	FC_ENTER("cuGraphNodeGetType", FC_CTX);
	if (!fc_handle_ok(node, FC_NODE))
		return fc_leave(&call, CUDA_ERROR_INVALID_VALUE);
	*ret = node->graph->list.steps[node->number].type;
	return fc_leave(&call, CUDA_SUCCESS);
}
