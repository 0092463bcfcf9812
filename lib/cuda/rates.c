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
 * The GPUs that were measured in this process. Other work of the GPU, also that
 * of other processes, makes it slower, never faster: so each of the first roots
 * measures it again, and has the best rates so far. The devices as which a root
 * shows one GPU have the same rates.
 */
#define MOST_GPUS 64
#define MOST_MEASURED 3u /* how often a GPU is measured */
static pthread_mutex_t measured_lock = PTHREAD_MUTEX_INITIALIZER;
static struct measured {
	struct weir_rates best;
	unsigned times;          /* that it was measured */
	const struct weir *last; /* the root for which, while it is open */
} measured[MOST_GPUS];

/* Where the rates of its GPU are kept; NULL: nowhere. */
static struct measured *measured_of(const struct weir__cuda *c)
{
	return c->device >= 0 && c->device < MOST_GPUS ? &measured[c->device]
						       : NULL;
}

/* Memory of the device, or page-locked memory. */
struct piece {
	struct piece *next;
	CUdeviceptr device; /* 0: it is page-locked */
	void *pinned;
	size_t bytes;
};

/* All pieces of a measurement, which a thread frees; a member of its device. */
struct weir__cuda_pieces {
	struct weir__cuda *c;
	struct piece *first;
	pthread_t thread;
};

/* What is timed: works on one stream. */
struct trial {
	struct weir__cuda *c;
	CUstream stream;
	struct weir__cuda_pieces *pieces;
	struct piece *memory, *pinned, *workspace; /* or NULL */
	size_t size;                               /* rows, or bytes */
	struct weir__cuda_launches *l;             /* of a product */
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

/* Have a piece of at least @bytes at *@at, which keeps one that suffices. */
static int piece_have(struct trial *t, struct piece **at, size_t bytes,
		      bool pinned)
{
	struct piece *p;
	CUresult r;

	if (*at && (*at)->bytes >= bytes)
		return 0;
	p = host.calloc(1, sizeof(*p));
	if (!p)
		return host.fail(-ENOMEM, "no memory for a piece");
	r = pinned ? drv.cuMemHostAlloc(&p->pinned, bytes, 0)
		   : drv.cuMemAlloc(&p->device, bytes);
	if (r) {
		host.free(p);
		return weir__cuda_fail(t->c, r, "%s of %zu bytes",
				       pinned ? "cuMemHostAlloc" : "cuMemAlloc",
				       bytes);
	}
	p->bytes = bytes;
	p->next = t->pieces->first;
	t->pieces->first = p;
	*at = p;
	return 0;
}

static void *pieces_free(void *arg)
{
	struct weir__cuda_pieces *all = arg;
	struct weir__cuda *c = all->c;
	struct piece *p, *next;
	bool driver = weir__cuda_push(c) == CUDA_SUCCESS;

	for (p = all->first; p; p = next) {
		next = p->next;
		if (driver && !atomic_load(&c->lost))
			weir__cuda_note(c,
					p->pinned ? drv.cuMemFreeHost(p->pinned)
						  : drv.cuMemFree(p->device));
		host.free(p);
	}
	if (driver)
		weir__cuda_leave();
	return NULL;
}

/*
 * Freeing waits for all work of the context, some of which may wait for the
 * thread that measures: so another one does it.
 */
static void pieces_give(struct weir__cuda_pieces *all)
{
	struct weir__cuda *c = all->c;

	if (!c->pieces && host.thread(&all->thread, "weir-cuda-rates",
				      pieces_free, all) >= 0) {
		c->pieces = all;
		return;
	}
	pieces_free(all);
	host.free(all);
}

void weir__cuda_rates_close(struct weir__cuda *c)
{
	struct measured *m = measured_of(c);

	pthread_mutex_lock(&measured_lock);
	if (m && m->last == host.dev_root(c->dev))
		m->last = NULL;
	pthread_mutex_unlock(&measured_lock);
	if (!c->pieces)
		return;
	pthread_join(c->pieces->thread, NULL);
	host.free(c->pieces);
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
	const CUdeviceptr a = t->memory->device;
	const CUdeviceptr b = a + t->size * t->size * 2;
	struct weir_operand src[] = {
		matrix(a, WEIR_DTYPE_BF16, t->size, 2),
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
	int ret = weir__cuda_compute_ops.prepare(t->c->dev, &list, 1, &opts,
						 &prepared, &workspace);

	if (ret < 0)
		return ret;
	t->l = prepared;
	return workspace ? piece_have(t, &t->workspace, workspace, false) : 0;
}

static CUresult product_queue(const struct trial *t)
{
	CUdeviceptr workspace = t->workspace ? t->workspace->device : 0;
	CUresult r = CUDA_SUCCESS;

	for (size_t i = 0; i < t->l->n && !r; i++)
		r = weir__cuda_launch(t->l, i, workspace, t->stream);
	return r;
}

static void product_unmake(struct trial *t)
{
	if (t->l)
		weir__cuda_compute_ops.release(t->c->dev, t->l);
	t->l = NULL;
}

/* A half of the memory is copied to the other. */
static size_t copy_bytes(size_t n)
{
	return 2 * n;
}

static CUresult copy_queue(const struct trial *t)
{
	const CUdeviceptr from = t->memory->device;

	return drv.cuMemcpyDtoDAsync(from + t->size, from, t->size, t->stream);
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
	int ret = piece_have(t, &t->pinned, t->size, true);

	if (!ret)
		memset(t->pinned->pinned, FILL, t->size);
	return ret;
}

static CUresult link_queue(const struct trial *t)
{
	return drv.cuMemcpyHtoDAsync(t->memory->device, t->pinned->pinned,
				     t->size, t->stream);
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
static const struct measure links = { LINKED,     link_bytes, link_make,
				      link_queue, NULL,       link_work };

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
	int ret = piece_have(t, &t->memory, n, false);
	CUresult r;

	if (ret < 0)
		return ret;
	r = drv.cuMemsetD8Async(t->memory->device, FILL, n, t->stream);
	if (r)
		ret = weir__cuda_fail(t->c, r, "cuMemsetD8Async of %zu bytes",
				      n);
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
	int err;

	t.pieces = host.calloc(1, sizeof(*t.pieces));
	if (!t.pieces)
		return host.fail(-ENOMEM, "no memory to measure a device");
	t.pieces->c = c;
	err = weir__cuda_enter(c);
	if (err < 0) {
		host.free(t.pieces);
		return err;
	}
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
	pieces_give(t.pieces);
	return err;
}

static void keep(struct measured *m, const struct weir *root,
		 const struct weir_rates *rates)
{
	struct weir_rates *best = &m->best;

	if (!m->times)
		*best = *rates;
	best->flops = rates->flops > best->flops ? rates->flops : best->flops;
	best->bytes = rates->bytes > best->bytes ? rates->bytes : best->bytes;
	best->link = rates->link > best->link ? rates->link : best->link;
	m->last = root;
	m->times++;
}

/* measured_lock is held. A GPU that was measured once has rates. */
static int measure_again(struct weir__cuda *c, struct measured *m,
			 struct weir_rates *rates)
{
	const struct weir *root = host.dev_root(c->dev);
	int ret = 0;

	if (!m->times || (m->times < MOST_MEASURED && m->last != root)) {
		ret = measure_all(c, rates);
		if (ret == 0)
			keep(m, root, rates);
	}
	if (!m->times)
		return ret;
	*rates = m->best;
	return 0;
}

int weir__cuda_rates(struct weir_dev *dev, struct weir_rates *ret_rates)
{
	struct weir__cuda *c = weir__cuda_of(dev);
	struct weir_rates rates = *ret_rates;
	struct measured *m = measured_of(c);
	int ret;

	pthread_mutex_lock(&measured_lock);
	ret = m ? measure_again(c, m, &rates) : measure_all(c, &rates);
	pthread_mutex_unlock(&measured_lock);
	if (ret == 0)
		*ret_rates = rates;
	return ret;
}
