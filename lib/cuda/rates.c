/* SPDX-License-Identifier: MIT */
/*
 * The rates of a GPU, measured when a scheduler first compares devices: a
 * product by tensor cores, copies in its memory, and copies from page-locked
 * memory. The sizes grow until one takes long enough to be timed, so that slow
 * devices are measured as quickly as fast ones.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "cuda/cuda.h"
#include "cuda/launches.h"

#define drv weir__cuda_drv
#define host weir__cuda_host

#define REPEATS 4u    /* of each work between two looks at the clock */
#define TIMES 3u      /* that each size is timed; the least time counts */
#define ENOUGH_NS 2e5 /* no size that takes longer is followed by another */
#define STEPS 4u      /* sizes */
#define GROWTH ((size_t)4)
#define ROWS ((size_t)32)          /* of the smallest product; a square */
#define COPIED ((size_t)512 << 10) /* bytes of the smallest copies */
#define LINKED ((size_t)64 << 10)
#define FILL 0x3c /* bytes of small numbers, in BF16 and in F32 */

/*
 * The GPUs that were measured in this process. Those of other roots, and the
 * devices as which one GPU is shown, have the same rates.
 */
#define MOST_GPUS 64
static pthread_mutex_t measured_lock = PTHREAD_MUTEX_INITIALIZER;
static struct weir_rates measured[MOST_GPUS]; /* size 0: not measured */

/* What is timed: works on one stream, in memory that each size has anew. */
struct trial {
	struct weir__cuda *c;
	CUstream stream;
	CUdeviceptr memory;
	void *pinned;                  /* source of copies to the device */
	size_t size;                   /* rows of a product, or bytes */
	struct weir__cuda_launches *l; /* of a product */
	CUdeviceptr workspace;
};

/* A rate: how its work is made for t->size, queued, and counted. */
struct measure {
	size_t first; /* size */
	size_t (*bytes)(size_t size);
	int (*make)(struct trial *t); /* or NULL */
	CUresult (*queue)(const struct trial *t);
	void (*unmake)(struct trial *t); /* or NULL */
	double (*work)(size_t size);
};

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* a of BF16, then b and the result, of F32. */
static size_t product_bytes(size_t n)
{
	return n * n * (2 + 4 + 4);
}

static double product_work(size_t n)
{
	return 2.0 * (double)n * (double)n * (double)n;
}

static struct weir_operand matrix(CUdeviceptr at, uint32_t dtype, size_t n,
				  int64_t element)
{
	const int64_t rows = (int64_t)n;

	return (struct weir_operand){
		.data = (void *)(uintptr_t)at,
		.dtype = dtype,
		.ndim = 2,
		.shape = { rows, rows },
		.stride = { rows * element, element },
	};
}

static int product_make(struct trial *t)
{
	const struct weir_op_mul_mat params = { WEIR_PRECISION_FAST };
	const struct weir_backend_prepare_opts opts = { .size = sizeof(opts) };
	const CUdeviceptr b = t->memory + t->size * t->size * 2;
	struct weir_operand src[] = {
		matrix(t->memory, WEIR_DTYPE_BF16, t->size, 2),
		matrix(b, WEIR_DTYPE_F32, t->size, 4),
	};
	struct weir_backend_node node = {
		.size = sizeof(node),
		.op = WEIR_OP_MUL_MAT,
		.n_src = 2,
		.params = &params,
		.dst = matrix(b + t->size * t->size * 4, WEIR_DTYPE_F32,
			      t->size, 4),
		.src = src,
	};
	const struct weir_backend_node *list = &node;
	size_t workspace;
	void *prepared;
	CUresult r;
	int ret = weir__cuda_compute_ops.prepare(t->c->dev, &list, 1, &opts,
						 &prepared, &workspace);

	if (ret < 0)
		return ret;
	t->l = prepared;
	r = workspace ? drv.cuMemAlloc(&t->workspace, workspace) : CUDA_SUCCESS;
	return r ? weir__cuda_fail(t->c, r, "cuMemAlloc of %zu bytes",
				   workspace)
		 : 0;
}

static CUresult product_queue(const struct trial *t)
{
	CUresult r = CUDA_SUCCESS;

	for (size_t i = 0; i < t->l->n && !r; i++)
		r = weir__cuda_launch(t->l, i, t->workspace, t->stream);
	return r;
}

static void product_unmake(struct trial *t)
{
	if (t->workspace)
		weir__cuda_note(t->c, drv.cuMemFree(t->workspace));
	if (t->l)
		weir__cuda_compute_ops.release(t->c->dev, t->l);
	t->workspace = 0;
	t->l = NULL;
}

/* A half of the memory is copied to the other. */
static size_t copy_bytes(size_t n)
{
	return 2 * n;
}

static CUresult copy_queue(const struct trial *t)
{
	return drv.cuMemcpyDtoDAsync(t->memory + t->size, t->memory, t->size,
				     t->stream);
}

static double copy_work(size_t n)
{
	return 2 * (double)n;
}

static size_t link_bytes(size_t n)
{
	return n;
}

static int link_make(struct trial *t)
{
	CUresult r = drv.cuMemHostAlloc(&t->pinned, t->size, 0);

	if (r)
		return weir__cuda_fail(t->c, r, "cuMemHostAlloc of %zu bytes",
				       t->size);
	memset(t->pinned, FILL, t->size);
	return 0;
}

static CUresult link_queue(const struct trial *t)
{
	return drv.cuMemcpyHtoDAsync(t->memory, t->pinned, t->size, t->stream);
}

static void link_unmake(struct trial *t)
{
	if (t->pinned)
		weir__cuda_note(t->c, drv.cuMemFreeHost(t->pinned));
	t->pinned = NULL;
}

static double link_work(size_t n)
{
	return (double)n;
}

static const struct measure flops = { ROWS,           product_bytes,
				      product_make,   product_queue,
				      product_unmake, product_work };
static const struct measure bytes = { COPIED,     copy_bytes, NULL,
				      copy_queue, NULL,       copy_work };
static const struct measure links = { LINKED,     link_bytes,  link_make,
				      link_queue, link_unmake, link_work };

/* The least time of REPEATS works. The stream is idle afterwards. */
static CUresult time_works(const struct trial *t, const struct measure *m,
			   double *ret_ns)
{
	CUresult r = CUDA_SUCCESS, idle;

	*ret_ns = 0;
	for (unsigned i = 0; i < TIMES && !r; i++) {
		double begun = now_ns(), took;

		for (unsigned k = 0; k < REPEATS && !r; k++)
			r = m->queue(t);
		idle = drv.cuStreamSynchronize(t->stream);
		r = r ? r : idle;
		took = now_ns() - begun;
		if (!i || took < *ret_ns)
			*ret_ns = took;
		if (took > 10 * ENOUGH_NS)
			break;
	}
	return r;
}

static int time_size(struct trial *t, const struct measure *m, double *ret_ns)
{
	const size_t n = m->bytes(t->size);
	CUresult r = drv.cuMemAlloc(&t->memory, n);
	int ret;

	if (r)
		return weir__cuda_fail(t->c, r, "cuMemAlloc of %zu bytes", n);
	r = drv.cuMemsetD8Async(t->memory, FILL, n, t->stream);
	ret = r ? weir__cuda_fail(t->c, r, "cuMemsetD8Async of %zu bytes", n)
		: 0;
	if (!ret && m->make)
		ret = m->make(t);
	if (!ret) {
		r = time_works(t, m, ret_ns);
		if (r)
			ret = weir__cuda_fail(t->c, r,
					      "a work that was to be timed");
	}
	if (m->unmake)
		m->unmake(t);
	weir__cuda_note(t->c, drv.cuMemFree(t->memory));
	return ret;
}

/* A size for which there is no memory is the end, but for the first. */
static int measure(struct trial *t, const struct measure *m, double *ret_rate)
{
	double ns = 0;
	int ret = 0;

	t->size = m->first;
	for (unsigned i = 0; i < STEPS && ns < ENOUGH_NS; i++) {
		ret = time_size(t, m, &ns);
		if (ret == -ENOMEM && i)
			return 0;
		if (ret < 0)
			return ret;
		if (ns <= 0)
			return host.fail(-EIO, "the clock does not advance");
		*ret_rate = REPEATS * m->work(t->size) * 1e9 / ns;
		t->size *= GROWTH;
	}
	return 0;
}

static int measure_all(struct weir__cuda *c, struct weir_rates *ret)
{
	struct trial t = { .c = c };
	CUresult r;
	int err = weir__cuda_enter(c);

	if (err < 0)
		return err;
	r = drv.cuStreamCreate(&t.stream, CU_STREAM_NON_BLOCKING);
	if (r) {
		err = weir__cuda_fail(c, r, "cuStreamCreate");
	} else {
		err = measure(&t, &flops, &ret->flops);
		err = err < 0 ? err : measure(&t, &bytes, &ret->bytes);
		err = err < 0 ? err : measure(&t, &links, &ret->link);
		weir__cuda_note(c, drv.cuStreamDestroy(t.stream));
	}
	weir__cuda_leave();
	return err;
}

int weir__cuda_rates(struct weir_dev *dev, struct weir_rates *ret_rates)
{
	struct weir__cuda *c = weir__cuda_of(dev);
	struct weir_rates rates = *ret_rates, *kept = NULL;
	int ret = 0;

	if (c->device >= 0 && c->device < MOST_GPUS)
		kept = &measured[c->device];
	pthread_mutex_lock(&measured_lock);
	if (kept && kept->size)
		rates = *kept;
	else
		ret = measure_all(c, &rates);
	if (kept && ret == 0)
		*kept = rates;
	pthread_mutex_unlock(&measured_lock);
	if (ret == 0)
		*ret_rates = rates;
	return ret;
}
