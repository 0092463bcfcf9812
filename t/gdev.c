/* SPDX-License-Identifier: MIT */
#include "gdev.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/backend.h>
#include "tap.h"

struct gdev gdev;
static const struct weir_backend_host *lib;

/* Address of element @i of @o, broadcast where @o is smaller. */
static float *element(const struct weir_operand *o,
		      const struct weir_operand *of, int64_t i)
{
	char *at = o->data;

	for (uint32_t d = of->ndim; d-- > 0;) {
		int64_t index = i % of->shape[d];
		uint32_t back = of->ndim - d;

		i /= of->shape[d];
		if (back <= o->ndim)
			at += (index % o->shape[o->ndim - back]) *
			      o->stride[o->ndim - back];
	}
	return (float *)(void *)at;
}

static int64_t count(const struct weir_operand *o)
{
	int64_t n = 1;

	for (uint32_t d = 0; d < o->ndim; d++)
		n *= o->shape[d];
	return n;
}

static float compute_one(const struct weir_backend_node *n, float a, float b)
{
	const struct weir_op_scale *scale = n->params;

	switch (n->op) {
	case WEIR_OP_ADD:
		return a + b;
	case WEIR_OP_SUB:
		return a - b;
	case WEIR_OP_MUL:
		return a * b;
	case WEIR_OP_SCALE:
		return scale->scale * a + scale->bias;
	case WEIR_OP_SQR:
		return a * a;
	default:
		return a;
	}
}

static int set_rows(const struct weir_backend_node *n)
{
	const struct weir_operand *b = &n->src[1], *ids = &n->src[2];

	for (int64_t row = 0; row < b->shape[0]; row++) {
		int64_t to = ids->dtype == WEIR_DTYPE_I64
				     ? ((const int64_t *)ids->data)[row]
				     : ((const int32_t *)ids->data)[row];

		if (to < 0 || to >= n->src[0].shape[0])
			return -EINVAL;
		memcpy((char *)n->src[0].data + to * n->src[0].stride[0],
		       (char *)b->data + row * b->stride[0],
		       (size_t)b->shape[1] * sizeof(float));
	}
	return 0;
}

static int compute_node(const struct weir_backend_node *n)
{
	const struct weir_op_call *call = n->params;
	const struct weir_operand *to = &n->dst;

	if (n->op == WEIR_OP_CALL)
		return call->fn(call->arg, &n->dst, n->src, n->n_src, 0, 1);
	if (n->op == WEIR_OP_SET_ROWS)
		return set_rows(n);
	for (int64_t i = 0; i < count(to); i++) {
		float a = *element(&n->src[0], to, i), b = 0;

		if (n->n_src > 1 && n->op != WEIR_OP_COPY)
			b = *element(&n->src[1], to, i);
		*element(to, to, i) = compute_one(n, a, b);
	}
	return 0;
}

/* A segment: the nodes, and a mark that its addresses are there. */
struct segment {
	const struct weir_backend_node *const *node;
	size_t n;
};

static int gdev_supports(struct weir_dev *dev,
			 const struct weir_backend_node *n)
{
	gdev.supports++;
	for (uint32_t s = 0; s < n->n_src; s++)
		if (n->src[s].dtype && !n->src[s].data)
			return lib->fail(-EOPNOTSUPP,
					 "source %u looks left out", s);
	if (n->op == gdev.refuse)
		return lib->fail(-EOPNOTSUPP, "%s has no kernel of F32",
				 lib->dev_name(dev));
	return 0;
}

static int gdev_prepare(struct weir_dev *dev,
			const struct weir_backend_node *const *nodes, size_t n,
			const struct weir_backend_prepare_opts *opts,
			void **ret_prepared, size_t *ret_workspace)
{
	struct segment *s = lib->calloc(1, sizeof(*s));

	(void)dev;
	(void)opts;
	if (!s)
		return lib->fail(-ENOMEM, "no memory for a segment");
	gdev.prepares++;
	s->node = nodes;
	s->n = n;
	*ret_prepared = s;
	*ret_workspace = gdev.workspace;
	return 0;
}

static void gdev_release(struct weir_dev *dev, void *prepared)
{
	(void)dev;
	gdev.releases++;
	if (atomic_exchange(&gdev.hold_release, false)) {
		sem_post(&gdev.held);
		sem_wait(&gdev.go);
	}
	lib->free(prepared);
}

static int gdev_measure(struct weir_dev *dev,
			const struct weir_backend_node *const *nodes, size_t n,
			const struct weir_backend_prepare_opts *opts,
			size_t *ret_workspace)
{
	(void)dev;
	(void)nodes;
	(void)n;
	(void)opts;
	*ret_workspace = gdev.measured;
	return 0;
}

static int gdev_run(struct weir_backend_compute *c)
{
	const struct segment *s = c->prepared;
	unsigned work = atomic_fetch_add(&gdev.works, 1);

	if (work < GDEV_LOG) {
		gdev.log[work].first = c->first;
		gdev.log[work].n = c->n;
	}
	if (c->workspace)
		memset(c->workspace, 0x5a, gdev.workspace);
	for (size_t i = c->first; i < c->first + c->n; i++) {
		int r;

		if (s->node[i]->index == gdev.hold_at) {
			gdev.hold_at = GDEV_NONE;
			sem_post(&gdev.held);
			sem_wait(&gdev.go);
		}
		if (atomic_load(c->stop))
			return -ECANCELED;
		r = s->node[i]->index == gdev.fail_at
			    ? gdev.fail_with
			    : compute_node(s->node[i]);
		gdev.nodes++;
		if (r < 0) {
			c->failed = i;
			strcpy(c->why, "the test makes it fail");
			return r;
		}
	}
	return 0;
}

struct queue {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct weir_backend_work *first, **end;
	bool started, closed;
};

static void queue_free(struct queue *q)
{
	pthread_mutex_destroy(&q->lock);
	pthread_cond_destroy(&q->changed);
	lib->free(q);
}

static struct weir_backend_work *queue_take(struct queue *q)
{
	struct weir_backend_work *w;

	pthread_mutex_lock(&q->lock);
	while (!q->first && !q->closed)
		pthread_cond_wait(&q->changed, &q->lock);
	w = q->first;
	if (w && !(q->first = w->next))
		q->end = &q->first;
	pthread_mutex_unlock(&q->lock);
	return w;
}

static void copy_rows(const struct weir_backend_work *w)
{
	if (gdev.copy_us)
		usleep(gdev.copy_us);
	for (size_t i = 0; i < w->rows; i++)
		memmove(w->dst + i * w->dst_pitch, w->src + i * w->src_pitch,
			w->width);
}

static void *queue_main(void *arg)
{
	struct queue *q = arg;
	struct weir_backend_work *w;

	while ((w = queue_take(q))) {
		int r = 0;

		if (w->kind == WEIR_WORK_COMPUTE)
			r = gdev_run(w->arg);
		else if (w->kind == WEIR_WORK_CALL)
			r = w->call(w->arg);
		else if (w->kind == WEIR_WORK_FILL)
			memset(w->dst, w->byte, w->width);
		else if (w->kind != WEIR_WORK_MARK)
			copy_rows(w);
		gdev.fills += w->kind == WEIR_WORK_FILL;
		w->done(w, r, 0);
	}
	queue_free(q);
	return NULL;
}

static int queue_open(struct weir_dev *dev, unsigned flags, const char *name,
		      void **ret_queue)
{
	struct queue *q = lib->calloc(1, sizeof(*q));

	(void)dev;
	(void)flags;
	(void)name;
	if (!q)
		return lib->fail(-ENOMEM, "no memory for a queue");
	pthread_mutex_init(&q->lock, NULL);
	pthread_cond_init(&q->changed, NULL);
	q->end = &q->first;
	*ret_queue = q;
	return 0;
}

static void queue_close(void *queue)
{
	struct queue *q = queue;
	bool started;

	pthread_mutex_lock(&q->lock);
	started = q->started;
	q->closed = true;
	pthread_cond_signal(&q->changed);
	pthread_mutex_unlock(&q->lock);
	if (!started)
		queue_free(q);
}

static int queue_submit(void *queue, struct weir_backend_work *work)
{
	struct queue *q = queue;
	pthread_t thread;
	int r = q->started ? 0 : lib->thread(&thread, "gdev", queue_main, q);

	if (r < 0)
		return r;
	if (!q->started)
		pthread_detach(thread);
	pthread_mutex_lock(&q->lock);
	q->started = true;
	work->next = NULL;
	*q->end = work;
	q->end = &work->next;
	pthread_cond_signal(&q->changed);
	pthread_mutex_unlock(&q->lock);
	return 0;
}

static int gdev_alloc(struct weir_dev *dev,
		      const struct weir_backend_buft *desc, size_t bytes,
		      const struct weir_buf_opts *opts,
		      struct weir_backend_mem *mem)
{
	int r = lib->host_alloc(lib->dev_root(dev), WEIR_MEM_PLAIN, bytes, -1,
				opts->flags, mem);

	(void)desc;
	if (r < 0)
		return r;
	gdev.allocs++;
	gdev.bytes += bytes;
	return 0;
}

static void gdev_free(struct weir_dev *dev,
		      const struct weir_backend_buft *desc, size_t bytes,
		      struct weir_backend_mem *mem)
{
	(void)desc;
	gdev.frees++;
	gdev.bytes -= bytes;
	lib->host_free(lib->dev_root(dev), mem);
}

static int probe_with(uint32_t caps, const struct weir_backend_host *host,
		      struct weir_backend_probe *probe)
{
	static const struct weir_backend_buft memory = {
		.size = sizeof(memory),
		.name = "GDEV0",
		.kind = WEIR_MEM_DEVICE,
		.flags = WEIR_BUFT_HOST,
		.align = 64,
		.max = 1u << 24,
	};
	const struct weir_backend_buft *const memories[] = { &memory };
	const struct weir_backend_dev desc = {
		.size = sizeof(desc),
		.name = "GDEV0",
		.type = WEIR_DEV_IGPU,
		.caps = WEIR_CAP_HOST_MEMORY | caps,
		.node = -1,
		.n_bufts = 1,
		.buft = memories,
	};

	return host->dev_describe(probe, &desc);
}

static int gdev_probe(struct weir *weir, const struct weir_backend_host *host,
		      struct weir_backend_probe *probe)
{
	(void)weir;
	return probe_with(WEIR_CAP_COMPUTE, host, probe);
}

static int memory_probe(struct weir *weir, const struct weir_backend_host *host,
			struct weir_backend_probe *probe)
{
	(void)weir;
	return probe_with(0, host, probe);
}

static int gdev_dev_open(struct weir_dev *dev, unsigned i, const char *params,
			 void **ret_state)
{
	(void)dev;
	(void)i;
	(void)params;
	*ret_state = &gdev;
	return 0;
}

static int gdev_dev_memory(struct weir_dev *dev, unsigned i, uint64_t *ret_free,
			   uint64_t *ret_total)
{
	(void)dev;
	(void)i;
	return lib->host_available(ret_free, ret_total);
}

static const struct weir_backend_mem_ops mem_ops = { .size = sizeof(mem_ops),
						     .alloc = gdev_alloc,
						     .free = gdev_free };

static const struct weir_backend_queue_ops queue_ops = {
	.size = sizeof(queue_ops),
	.open = queue_open,
	.close = queue_close,
	.submit = queue_submit
};

static int gdev_rates(struct weir_dev *dev, struct weir_rates *ret_rates)
{
	(void)dev;
	gdev.rates++;
	if (gdev.rate != 0)
		ret_rates->flops = ret_rates->bytes = ret_rates->link =
			gdev.rate;
	return gdev.rates_with < 0
		       ? lib->fail(gdev.rates_with, "the clock is broken")
		       : 0;
}

static const struct weir_backend_compute_ops compute_ops = {
	.size = sizeof(compute_ops),
	.supports = gdev_supports,
	.prepare = gdev_prepare,
	.release = gdev_release,
	.measure = gdev_measure,
	.rates = gdev_rates,
};

static const struct weir_backend backend = { .size = sizeof(backend),
					     .abi = WEIR_BACKEND_ABI,
					     .name = "GDEV",
					     .probe = gdev_probe,
					     .dev_open = gdev_dev_open,
					     .dev_memory = gdev_dev_memory,
					     .mem = &mem_ops,
					     .queue = &queue_ops,
					     .compute = &compute_ops };

static const struct weir_backend *
gdev_entry(const struct weir_backend_host *host, int *ret_err)
{
	(void)ret_err;
	/* One table for all roots, which threads of the last one may read. */
	if (!lib)
		lib = host;
	return &backend;
}

/* The same without compute. */
static const struct weir_backend memory_backend = {
	.size = sizeof(memory_backend),
	.abi = WEIR_BACKEND_ABI,
	.name = "GDEV",
	.probe = memory_probe,
	.dev_open = gdev_dev_open,
	.dev_memory = gdev_dev_memory,
	.mem = &mem_ops,
	.queue = &queue_ops,
};

static const struct weir_backend *
memory_entry(const struct weir_backend_host *host, int *ret_err)
{
	(void)gdev_entry(host, ret_err);
	return &memory_backend;
}

void gdev_reset(void)
{
	gdev.refuse = UINT32_MAX;
	gdev.fail_at = gdev.hold_at = GDEV_NONE;
	gdev.fail_with = -EIO;
	gdev.workspace = gdev.measured = 0;
	gdev.supports = gdev.prepares = gdev.releases = gdev.works = 0;
	gdev.nodes = gdev.fills = gdev.allocs = gdev.frees = 0;
	gdev.rate = gdev.rates_with = 0;
	gdev.rates = 0;
}

static struct weir *open_with(weir_backend_entry_fn *entry, int64_t timeout_ns,
			      struct weir_dev **ret_dev)
{
	struct weir_opts o = WEIR_OPTS_INIT;
	struct weir *weir;

	gdev_reset();
	sem_init(&gdev.held, 0, 0);
	sem_init(&gdev.go, 0, 0);
	o.module_path = "/nonexistent";
	o.close_timeout = timeout_ns;
	if (weir_open(&o, &weir) < 0 || weir_backend_add(weir, entry) < 0 ||
	    weir_dev_find(weir, "GDEV0", ret_dev) < 0)
		bail("%s", weir_error());
	return weir;
}

struct weir *gdev_open_timeout(struct weir_dev **ret_dev, int64_t timeout_ns)
{
	return open_with(gdev_entry, timeout_ns, ret_dev);
}

struct weir *gdev_open(struct weir_dev **ret_dev)
{
	return open_with(gdev_entry, 0, ret_dev);
}

struct weir *gdev_open_memory(struct weir_dev **ret_dev)
{
	return open_with(memory_entry, 0, ret_dev);
}

struct weir_node *gdev_leaf(struct weir_graph *g, struct weir_dev *dev,
			    const char *name, int n, float value,
			    struct weir_event *event, struct weir_buf **buf)
{
	int64_t shape = n;
	struct weir_buft *buft;
	struct weir_tensor t;

	if (weir_dev_buft(dev, WEIR_MEM_DEVICE, &buft) < 0 ||
	    weir_tensor_init(&t, WEIR_DTYPE_F32, 1, &shape) < 0 ||
	    (!*buf &&
	     weir_buf_alloc(buft, (size_t)n * sizeof(float), NULL, buf) < 0) ||
	    weir_tensor_place(&t, *buf, 0) < 0)
		bail("%s", weir_error());
	for (int i = 0; i < n; i++)
		((float *)weir_tensor_data(&t))[i] = value;
	t.name = name;
	return weir_graph_leaf(g, &t, event);
}

struct weir_node *gdev_input(struct weir_graph *g, const char *name, int n)
{
	int64_t shape = n;

	return weir_graph_input(g, name, WEIR_DTYPE_F32, 1, &shape);
}

void gdev_set(struct weir_run *run, const struct weir_node *node, float value)
{
	const int64_t n = weir_node_tensor(node)->shape[0];
	float v[64];

	for (int i = 0; i < 64; i++)
		v[i] = value;
	if (weir_run_input(run, node, v, (size_t)n * sizeof(float)) < 0)
		bail("%s", weir_error());
}

float gdev_value(const struct weir_tensor *t)
{
	const float *at = weir_tensor_data(t);

	return at ? *at : NAN;
}

float gdev_output(struct weir_run *run, const struct weir_node *node)
{
	struct weir_tensor t;

	if (weir_run_output(run, node, &t) < 0)
		bail("%s", weir_error());
	return gdev_value(&t);
}
