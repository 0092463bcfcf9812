/* SPDX-License-Identifier: MIT */
/*
 * The device's table of computing: segments are made of launches, and a run
 * queues them on a stream, in the order of the nodes.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

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

static void segment_free(struct weir__cuda_launches *l)
{
	host.free(l->launch);
	host.free(l->params);
	host.free(l->first);
	host.free(l);
}

static int segment_new(const struct weir_backend_node *const *nodes, size_t n,
		       struct weir__cuda_launches **ret)
{
	struct weir__cuda_launches *l = host.calloc(1, sizeof(*l));

	if (!l)
		return host.fail(-ENOMEM, "no memory for %zu nodes", n);
	l->first = host.calloc(n + 1, sizeof(*l->first));
	if (!l->first)
		l->err = -ENOMEM;
	for (; !l->err && l->n_nodes < n; l->n_nodes++) {
		const struct weir_backend_node *node = nodes[l->n_nodes];

		weir__cuda_operation_find(node->op)->plan(l, node);
		l->first[l->n_nodes + 1] = l->n;
	}
	if (l->err) {
		segment_free(l);
		return host.fail(-ENOMEM,
				 "no memory for the launches of %zu nodes", n);
	}
	if (l->checks && l->workspace < STATUS)
		l->workspace = STATUS;
	*ret = l;
	return 0;
}

static int segment_load(struct weir__cuda *c, struct weir__cuda_launches *l)
{
	int r = 0;

	for (size_t i = 0; i < l->n && r >= 0; i++)
		r = weir__cuda_image_kernel(c, l->launch[i].kernel,
					    &l->launch[i].function);
	return r;
}

static int cuda_prepare(struct weir_dev *dev,
			const struct weir_backend_node *const *nodes, size_t n,
			const struct weir_backend_prepare_opts *opts,
			void **ret_prepared, size_t *ret_workspace)
{
	struct weir__cuda_launches *l;
	int r = segment_new(nodes, n, &l);

	(void)opts;
	if (r < 0)
		return r;
	r = segment_load(weir__cuda_of(dev), l);
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
	int r = segment_new(nodes, n, &l);

	(void)dev, (void)opts;
	if (r < 0)
		return r;
	*ret_workspace = l->workspace;
	segment_free(l);
	return 0;
}

static void cuda_release(struct weir_dev *dev, void *prepared)
{
	(void)dev;
	segment_free(prepared);
}

/*
 * A page-locked place for the status of a run. They are kept: freeing one would
 * wait for all work of the context.
 */
struct weir__cuda_found {
	struct weir__cuda_status status; /* first: the device writes it */
	struct weir__cuda_found *next;
};

static CUresult found_get(struct weir__cuda *c, struct weir__cuda_found **ret)
{
	struct weir__cuda_found *f;
	void *ptr;
	CUresult r;

	pthread_mutex_lock(&c->found_lock);
	f = c->found;
	if (f)
		c->found = f->next;
	pthread_mutex_unlock(&c->found_lock);
	if (!f) {
		r = drv.cuMemHostAlloc(&ptr, sizeof(*f),
				       CU_MEMHOSTALLOC_PORTABLE);
		if (r)
			return r;
		f = ptr;
	}
	memset(f, 0, sizeof(*f));
	*ret = f;
	return CUDA_SUCCESS;
}

static void found_put(struct weir__cuda *c, struct weir__cuda_found *f)
{
	pthread_mutex_lock(&c->found_lock);
	f->next = c->found;
	c->found = f;
	pthread_mutex_unlock(&c->found_lock);
}

void weir__cuda_found_free(struct weir__cuda *c)
{
	struct weir__cuda_found *f, *next;

	for (f = c->found; f && !atomic_load(&c->lost); f = next) {
		next = f->next;
		weir__cuda_note(c, drv.cuMemFreeHost(f));
	}
	c->found = NULL;
}

static CUresult launch(struct weir__cuda_queue *q,
		       const struct weir__cuda_launches *l, size_t i,
		       struct weir_backend_compute *run)
{
	const struct weir__cuda_launch *k = &l->launch[i];
	CUdeviceptr workspace = (CUdeviceptr)(uintptr_t)run->workspace;
	void *params[] = { l->params + k->params, &workspace };
	CUresult r = drv.cuLaunchKernel(k->function, k->grid[0], k->grid[1],
					k->grid[2], k->threads, 1, 1, k->shared,
					q->stream, params, NULL);

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
	CUresult r = CUDA_SUCCESS;

	for (size_t node = run->first; node < run->first + run->n; node++) {
		if (__atomic_load_n(run->stop, __ATOMIC_RELAXED)) {
			*ret_res = -ECANCELED;
			return CUDA_SUCCESS;
		}
		for (size_t i = l->first[node]; i < l->first[node + 1]; i++) {
			r = launch(q, l, i, run);
			if (r) {
				run->failed = node;
				return r;
			}
		}
	}
	return r;
}

CUresult weir__cuda_compute(struct weir__cuda_queue *q,
			    struct weir_backend_work *w,
			    struct weir__cuda_computed *ret)
{
	struct weir_backend_compute *run = w->arg;
	const struct weir__cuda_launches *l = run->prepared;
	CUdeviceptr status = (CUdeviceptr)(uintptr_t)run->workspace;
	CUresult r;

	if (!l->checks)
		return launch_nodes(q, run, &ret->res);
	r = found_get(q->c, &ret->found);
	if (!r)
		r = drv.cuMemsetD8Async(status, 0, STATUS, q->stream);
	if (!r)
		r = launch_nodes(q, run, &ret->res);
	if (!r)
		r = drv.cuMemcpyDtoHAsync(&ret->found->status, status, STATUS,
					  q->stream);
	return r;
}

int weir__cuda_computed(struct weir__cuda *c, struct weir_backend_work *w,
			struct weir__cuda_computed *computed, bool leaked)
{
	struct weir_backend_compute *run = w->arg;
	const struct weir__cuda_status *s;
	int res = computed->res;

	if (!computed->found)
		return res;
	s = &computed->found->status;
	if (!res && !leaked && s->node) {
		run->failed = s->node - 1;
		snprintf(run->why, sizeof(run->why),
			 "index %lld at %lld is not one of %lld rows",
			 (long long)s->index, (long long)s->at,
			 (long long)s->rows);
		res = -EINVAL;
	}
	if (!leaked)
		found_put(c, computed->found);
	computed->found = NULL;
	return res;
}

const struct weir_backend_compute_ops weir__cuda_compute_ops = {
	.size = sizeof(weir__cuda_compute_ops),
	.supports = cuda_supports,
	.prepare = cuda_prepare,
	.release = cuda_release,
	.supports_buft = cuda_supports_buft,
	.measure = cuda_measure,
};
