/* SPDX-License-Identifier: MIT */
/*
 * The device's table of computing: segments are made of launches, and a run
 * queues them on a stream, in the order of the nodes.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cuda/found.h"
#include "cuda/fuse.h"
#include "cuda/launches.h"
#include "cuda/operations.h"
#include "cuda/queue.h"

#define drv weir__cuda_drv
#define host weir__cuda_host
#define STATUS sizeof(struct weir__cuda_status)

static int cuda_supports(struct weir_dev *dev,
			 const struct weir_backend_node *node)
{
	struct weir__cuda *c = weir__cuda_of(dev);

	if (c && atomic_load(&c->loaded.is_refused))
		return host.fail(-EOPNOTSUPP, "%s: %s", host.dev_name(dev),
				 c->loaded.refused);
	return weir__cuda_operation_supports(node);
}

/* Only its own: the driver is not asked which host memory it reaches. */
static bool cuda_supports_buft(struct weir_dev *dev, struct weir_dev *owner,
			       const struct weir_backend_buft *desc)
{
	return owner == dev && desc->kind == WEIR_MEM_DEVICE;
}

/* No context is needed: there are no graphs. */
static void segment_free(struct weir__cuda_launches *l)
{
	struct weir__cublaslt_product *next;

	for (; l->products; l->products = next) {
		next = l->products->next;
		weir__cublaslt_product_free(l->products);
	}
	pthread_mutex_destroy(&l->graphs.lock);
	host.free(l->launch);
	host.free(l->params);
	host.free(l->first);
	host.free(l->group);
	host.free(l->longer);
	host.free(l->cost);
	host.free(l);
}

static int no_launches(size_t nodes)
{
	return host.fail(-ENOMEM, "no memory for the launches of %zu nodes",
			 nodes);
}

/* The tokens of a product; 0: another operation. */
static uint64_t columns_of(const struct weir_backend_node *node)
{
	if (node->op == WEIR_OP_MUL_MAT)
		return (uint64_t)weir__cuda_dim(&node->src[1], 1);
	if (node->op == WEIR_OP_MUL_MAT_ID)
		return (uint64_t)weir__cuda_dim(&node->dst, 2);
	return 0;
}

static double bytes_of(const struct weir_operand *t)
{
	const struct weir_dtype_info *info = host.dtype(t->dtype);

	return t->data && info ? (double)weir__cuda_outer(t, 0) / info->block *
					 info->bytes
			       : 0;
}

/* The multiplications of a product or of attention to all positions. */
static double products_of(const struct weir_backend_node *node)
{
	const struct weir_operand *src = node->src;
	double n = (double)weir__cuda_outer(&node->dst, 0);

	if (node->op == WEIR_OP_MUL_MAT || node->op == WEIR_OP_MUL_MAT_ID)
		return n * (double)weir__cuda_dim(&src[0], 0);
	if (node->op == WEIR_OP_ATTENTION)
		return (double)weir__cuda_outer(&src[0], 1) *
		       (double)weir__cuda_dim(&src[1], 1) *
		       (double)(weir__cuda_dim(&src[0], 0) +
				weir__cuda_dim(&src[2], 0));
	return 0;
}

/*
 * An estimate of the time of a node, as a number of bytes: those that it reads
 * and writes, and one for each 16 multiplications, since a GPU multiplies about
 * 16 times in the time of a byte.
 */
static double cost_of(const struct weir_backend_node *node)
{
	double bytes = bytes_of(&node->dst) + products_of(node) / 16;

	/* Of a table only some rows. */
	if (node->op == WEIR_OP_GET_ROWS)
		return 2 * bytes;
	if (node->op == WEIR_OP_SET_ROWS)
		return 2 * bytes_of(&node->src[1]);
	for (uint32_t i = 0; i < node->n_src; i++)
		bytes += bytes_of(&node->src[i]);
	return bytes;
}

static int segment_new(struct weir_dev *dev,
		       const struct weir_backend_node *const *nodes, size_t n,
		       bool measures, struct weir__cuda_launches **ret)
{
	struct weir__cuda_launches *l = host.calloc(1, sizeof(*l));
	struct weir__cuda *c = weir__cuda_of(dev);

	if (!l)
		return host.fail(-ENOMEM, "no memory for %zu nodes", n);
	pthread_mutex_init(&l->graphs.lock, NULL);
	l->c = c;
	l->sms = c ? c->sms : 1;
	l->measures = measures;
	l->first = host.calloc(n + 1, sizeof(*l->first));
	l->group = host.calloc(n + 1, sizeof(*l->group));
	l->longer = host.calloc(n + 1, sizeof(*l->longer));
	l->cost = host.calloc(n + 1, sizeof(*l->cost));
	if (!l->first || !l->group || !l->longer || !l->cost)
		l->err = -ENOMEM;
	for (size_t i = 0; i < n; i++)
		l->counts |= nodes[i]->op == WEIR_OP_ATTENTION;
	l->cleared = STATUS;
	for (; !l->err && l->n_nodes < n; l->n_nodes++) {
		const struct weir_backend_node *node = nodes[l->n_nodes];

		weir__cuda_operation_find(node->op)->plan(l, node);
		if (columns_of(node) > l->columns)
			l->columns = columns_of(node);
		l->first[l->n_nodes + 1] = l->n;
		l->cost[l->n_nodes + 1] = l->cost[l->n_nodes] + cost_of(node);
	}
	if (l->err) {
		segment_free(l);
		return no_launches(n);
	}
	if (l->checks && l->workspace < STATUS)
		l->workspace = STATUS;
	if (l->by_library)
		memcpy(l->library, c->cublaslt.name, sizeof(c->cublaslt.name));
	*ret = l;
	return 0;
}

/* So that the first run need not allocate page-locked memory. */
static int segment_reserve(struct weir__cuda *c)
{
	int ret = weir__cuda_enter(c);
	CUresult r;

	if (ret < 0)
		return ret;
	r = weir__cuda_found_reserve(c);
	weir__cuda_leave();
	return r ? weir__cuda_fail(c, r, "cuMemHostAlloc for a status") : 0;
}

static int segment_load(struct weir__cuda *c, struct weir__cuda_launches *l)
{
	int r = 0;

	for (size_t i = 0; i < l->n && r >= 0; i++)
		if (!l->launch[i].calls)
			r = weir__cuda_image_kernel(c, l->launch[i].kernel,
						    l->launch[i].shared,
						    &l->launch[i].function);
	if (r >= 0 && l->checks)
		r = segment_reserve(c);
	return r;
}

static int cuda_prepare(struct weir_dev *dev,
			const struct weir_backend_node *const *nodes, size_t n,
			const struct weir_backend_prepare_opts *opts,
			void **ret_prepared, size_t *ret_workspace)
{
	struct weir__cuda_launches *l;
	int r = segment_new(dev, nodes, n, false, &l);

	(void)opts;
	if (r < 0)
		return r;
	if (weir__cuda_of(dev)->fuses)
		weir__cuda_fuse(l, nodes, n);
	r = l->err ? no_launches(n) : segment_load(weir__cuda_of(dev), l);
	if (r < 0) {
		segment_free(l);
		return r;
	}
	*ret_prepared = l;
	*ret_workspace = l->workspace;
	return 0;
}

static int cuda_measure(struct weir_dev *dev,
			const struct weir_backend_node *const *nodes, size_t n,
			const struct weir_backend_prepare_opts *opts,
			size_t *ret_workspace)
{
	struct weir__cuda_launches *l;
	int r = segment_new(dev, nodes, n, true, &l);

	(void)opts;
	if (r < 0)
		return r;
	*ret_workspace = l->workspace;
	segment_free(l);
	return 0;
}

static void cuda_release(struct weir_dev *dev, void *prepared)
{
	struct weir__cuda *c = weir__cuda_of(dev);
	bool driver = weir__cuda_push(c) == CUDA_SUCCESS;

	weir__cuda_graphs_free(c, prepared, driver);
	if (driver)
		weir__cuda_leave();
	segment_free(prepared);
}

static CUresult launch_call(struct weir__cuda_queue *q,
			    const struct weir__cuda_launches *l, size_t i,
			    struct weir_backend_compute *run, int *ret_res)
{
	struct weir__cublaslt_call call;

	memcpy(&call, l->params + l->launch[i].params, sizeof(call));
	return weir__cublaslt_launch(q->c, &call,
				     (uint64_t)(uintptr_t)run->workspace,
				     q->stream, ret_res, run->why,
				     sizeof(run->why));
}

/* *@ret_res < 0: it failed without an error of the driver. */
static CUresult launch(struct weir__cuda_queue *q,
		       const struct weir__cuda_launches *l, size_t i,
		       struct weir_backend_compute *run, int *ret_res)
{
	const struct weir__cuda_launch *k = &l->launch[i];
	CUresult r;

	if (k->calls)
		return launch_call(q, l, i, run, ret_res);
	r = weir__cuda_launch(l, i, (CUdeviceptr)(uintptr_t)run->workspace,
			      q->stream);
	if (r)
		snprintf(run->why, sizeof(run->why),
			 "the kernel '%s' of %u x %u blocks was not launched",
			 weir__cuda_kernel_name(k->kernel), k->grid[0],
			 k->grid[1]);
	return r;
}

/* The launches of the nodes, until one fails or the run is to be stopped. */
static CUresult launch_nodes(struct weir__cuda_queue *q,
			     struct weir_backend_compute *run, int *ret_res)
{
	const struct weir__cuda_launches *l = run->prepared;
	const size_t end = run->first + run->n;
	CUresult r = CUDA_SUCCESS;

	for (size_t node = run->first; node < end;) {
		struct weir__cuda_step s = weir__cuda_step_at(l, node, end);

		if (__atomic_load_n(run->stop, __ATOMIC_RELAXED)) {
			*ret_res = -ECANCELED;
			return CUDA_SUCCESS;
		}
		for (size_t i = s.first; i < s.end; i++) {
			r = launch(q, l, i, run, ret_res);
			if (r || *ret_res) {
				run->failed = node;
				return r;
			}
		}
		node = s.next;
	}
	return r;
}

static CUresult launch_directly(struct weir__cuda_queue *q,
				struct weir_backend_compute *run,
				struct weir__cuda_computed *ret)
{
	const struct weir__cuda_launches *l = run->prepared;
	CUdeviceptr status = (CUdeviceptr)(uintptr_t)run->workspace;
	CUresult r;

	if (!l->checks)
		return launch_nodes(q, run, &ret->res);
	r = weir__cuda_found_get(q->c, &ret->found);
	if (!r)
		r = drv.cuMemsetD8Async(status, 0, l->cleared, q->stream);
	if (!r)
		r = launch_nodes(q, run, &ret->res);
	if (!r)
		r = drv.cuMemcpyDtoHAsync(&ret->found->status, status, STATUS,
					  q->stream);
	return r;
}

static CUresult launch_graph(struct weir__cuda_queue *q,
			     struct weir_backend_compute *run,
			     struct weir__cuda_computed *ret)
{
	CUresult r;

	if (__atomic_load_n(run->stop, __ATOMIC_RELAXED)) {
		ret->res = -ECANCELED;
		return CUDA_SUCCESS;
	}
	r = weir__cuda_range_launch(ret->range, q->stream);
	if (r) {
		run->failed = run->first;
		snprintf(
			run->why, sizeof(run->why),
			"the CUDA graph of this node and the next %zu was not launched",
			run->n - 1);
	}
	return r;
}

CUresult weir__cuda_compute(struct weir__cuda_queue *q,
			    struct weir_backend_work *w,
			    struct weir__cuda_computed *ret)
{
	struct weir_backend_compute *run = w->arg;

	if (!ret->range)
		ret->range = weir__cuda_range_take(q->c, run->prepared, run,
						   q->stream);
	if (!ret->range)
		return launch_directly(q, run, ret);
	return launch_graph(q, run, ret);
}

bool weir__cuda_compute_is_short(const struct weir_backend_work *w,
				 struct weir__cuda_computed *ret)
{
	const struct weir_backend_compute *run = w->arg;
	struct weir__cuda_launches *l = run->prepared;

	/* A call of cuBLASLt may have to load a kernel. */
	if (!l->checks && !l->products &&
	    weir__cuda_launches_of(l, run->first, run->n) <= 1)
		return true;
	ret->range = weir__cuda_range_take_built(l, run);
	return ret->range;
}

static void found_say(const struct weir__cuda_status *s, char *why, size_t room)
{
	long long index = (long long)s->index, at = (long long)s->at;
	long long rows = (long long)s->rows;

	switch (s->what) {
	case WEIR__CUDA_FOUND_LENGTH:
		snprintf(why, room,
			 "length %lld of sequence %lld is not 0 to %lld", index,
			 at, rows);
		break;
	case WEIR__CUDA_FOUND_PAGE:
		snprintf(
			why, room,
			"page %lld at %lld of sequence %lld is not one of %lld pages",
			index, at, (long long)s->sequence, rows);
		break;
	default:
		snprintf(why, room,
			 "index %lld at %lld is not one of %lld rows", index,
			 at, rows);
	}
}

/* True if a kernel found an index out of range, as @run then says. */
static bool index_found(struct weir_backend_compute *run,
			const struct weir__cuda_status *s)
{
	if (!s->node)
		return false;
	run->failed = s->node - 1;
	found_say(s, run->why, sizeof(run->why));
	return true;
}

int weir__cuda_computed(struct weir__cuda *c, struct weir_backend_work *w,
			struct weir__cuda_computed *computed, bool leaked)
{
	struct weir_backend_compute *run = w->arg;
	struct weir__cuda_found *f = computed->range ? computed->range->found
						     : computed->found;
	int res = computed->res;

	if (f && !res && !leaked && index_found(run, &f->status))
		res = -EINVAL;
	if (computed->range)
		weir__cuda_range_put(computed->range);
	else if (!leaked)
		weir__cuda_found_put(c, computed->found);
	*computed = (struct weir__cuda_computed){ 0 };
	return res;
}

static void cuda_launches(struct weir_dev *dev, void *prepared,
			  struct weir_backend_launches *ret)
{
	struct weir__cuda_launches *l = prepared;

	ret->kernels = weir__cuda_launches_of(l, 0, l->n_nodes);
	ret->by_library = l->by_library;
	memcpy(ret->library, l->library, sizeof(ret->library));
	weir__cuda_graphs_describe(weir__cuda_of(dev), l, ret);
}

const struct weir_backend_compute_ops weir__cuda_compute_ops = {
	.size = sizeof(weir__cuda_compute_ops),
	.supports = cuda_supports,
	.prepare = cuda_prepare,
	.release = cuda_release,
	.supports_buft = cuda_supports_buft,
	.measure = cuda_measure,
	.rates = weir__cuda_rates,
	.launches = cuda_launches,
};
