/* SPDX-License-Identifier: MIT */
#include "cuda/segment.h"

#include <math.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dev/dev.h"
#include "tap.h"

#define BYTES PLACE(PLACES)
#define MOST 12    /* nodes */
#define MOST_SRC 7 /* of a node */
#define NEAR 1e-3  /* NMSE: b may be rounded to bytes */
#define WORKSPACE 131072

/* A device that computes the nodes, and its memory for them. */
struct side {
	struct weir *weir;
	struct weir_dev *dev;
	void *queue;
	unsigned char *base, *workspace; /* its addresses */
	struct weir_tensor memory, room; /* of a device */
};

static struct side plain, fused, cpu;
static unsigned char start[BYTES], want[BYTES], got[BYTES];

static struct weir_backend_node nodes[MOST];
static struct weir_operand srcs[MOST][MOST_SRC];
static unsigned n_nodes;
static uint64_t random_state;

static float random_float(void)
{
	random_state =
		random_state * 6364136223846793005u + 1442695040888963407u;
	return (float)(random_state >> 40) / (1 << 22) - 2;
}

static unsigned char *address(const struct weir_tensor *t)
{
	uint64_t ptr;

	must(weir_cuda_buf_ptr(t->buf, &ptr));
	return (unsigned char *)(uintptr_t)(ptr + t->offset);
}

static void queue_open(struct side *s)
{
	must(s->dev->backend->queue->open(s->dev, 0, "segment", &s->queue));
}

static void side_open(struct side *s, const char *params)
{
	s->weir = open_cuda();
	must(weir_dev_configure(s->weir, params, &s->dev));
	need_compute(s->dev);
	s->memory = on_gpu(s->weir, BYTES);
	s->room = on_gpu(s->weir, WORKSPACE);
	s->base = address(&s->memory);
	s->workspace = address(&s->room);
	queue_open(s);
}

static void side_close(struct side *s)
{
	s->dev->backend->queue->close(s->queue);
	weir_buf_free(s->memory.buf);
	weir_buf_free(s->room.buf);
	weir_close(s->weir);
}

void segments_begin(void)
{
	open_driver();
	side_open(&plain, "CUDA0:fuse=no");
	side_open(&fused, "CUDA0:fuse=yes");
	cpu.dev = weir_dev_get(plain.weir, 0);
	must(weir__dev_use(cpu.dev));
	cpu.base = aligned_alloc(4096, BYTES);
	cpu.workspace = aligned_alloc(4096, WORKSPACE);
	queue_open(&cpu);
	plan(0);
}

void segments_end(void)
{
	cpu.dev->backend->queue->close(cpu.queue);
	free(cpu.base);
	free(cpu.workspace);
	side_close(&plain);
	side_close(&fused);
	if (on_fake(3)) {
		struct fakecuda_counts counts;

		fake.counts(&counts);
		is_int(counts.findings, 0, "no kernel has a race");
		if (counts.findings)
			diag("%s", fake.finding());
		all_given_back("after all segments");
	}
}

void segment_begin(void)
{
	n_nodes = 0;
	random_state = 1;
	for (size_t i = 0; i < BYTES; i += sizeof(float)) {
		float v = random_float();

		memcpy(start + i, &v, sizeof(v));
	}
}

static struct weir_dtype_info info_of(uint32_t dtype)
{
	struct weir_dtype_info info = { .size = sizeof(info) };

	must(weir_dtype_info(dtype, &info));
	return info;
}

static void make_dense(struct weir_operand *t)
{
	const struct weir_dtype_info info = info_of(t->dtype);
	int64_t bytes = info.bytes;

	for (unsigned i = t->ndim; i-- > 0;) {
		t->stride[i] = bytes;
		bytes *= i + 1 == t->ndim ? t->shape[i] / info.block
					  : t->shape[i];
	}
}

void move(struct weir_operand *t, unsigned at)
{
	/* Not NULL: place 0 has no tensor. */
	t->data = (void *)(uintptr_t)at;
}

struct weir_operand heads_at(unsigned at, enum weir_dtype dtype, int outer,
			     int rows, int columns)
{
	struct weir_operand t = { .dtype = dtype,
				  .ndim = 3,
				  .shape = { outer, rows, columns } };

	move(&t, at);
	make_dense(&t);
	return t;
}

struct weir_operand rows_at(unsigned at, enum weir_dtype dtype, int rows,
			    int columns)
{
	return as_rows(heads_at(at, dtype, 1, 1, columns), rows, columns);
}

struct weir_operand as_rows(struct weir_operand t, int rows, int columns)
{
	t.ndim = 2;
	t.shape[0] = rows;
	t.shape[1] = columns;
	make_dense(&t);
	return t;
}

struct weir_operand numbers(struct weir_operand t)
{
	size_t n = 1;
	float *v;

	for (unsigned i = 0; i < t.ndim; i++)
		n *= (size_t)t.shape[i];
	v = calloc(n, sizeof(*v));
	for (size_t i = 0; i < n; i++)
		v[i] = random_float();
	must(weir_convert(t.dtype, start + (uintptr_t)t.data, F32, v, n));
	free(v);
	return t;
}

void zeros(struct weir_operand t)
{
	memset(start + (uintptr_t)t.data, 0, 4096);
}

/*
 * In double, 2^42 + 2^-11 is 2^42, and + 2^-10 is more. Each warp but two has
 * 2^-11. The root of the mean is then 2^17; numbers of 3 * 2^-133 divided by it
 * are in the middle of two floats, and by anything more below it.
 */
void sensitive(struct weir_operand t)
{
	for (unsigned i = 0; i < SENSITIVE; i++) {
		const bool has = i % 32 < 2 && i / 32 % 4;
		const float v = i ? has ? 0x1p-6F : 0x3p-133F : 0x1p21F;

		memcpy(start + (uintptr_t)t.data + i * sizeof(v), &v,
		       sizeof(v));
	}
}

struct weir_operand index_at(unsigned at, int value)
{
	struct weir_operand t = rows_at(at, I32, 1, 1);
	const int32_t v = value;

	t.ndim = 1;
	t.stride[0] = t.stride[1];
	memcpy(start + at, &v, sizeof(v));
	return t;
}

struct weir_backend_node *node(enum weir_op op, const void *params,
			       struct weir_operand dst, unsigned n_src, ...)
{
	struct weir_op_info info = { .size = sizeof(info) };
	struct weir_backend_node *n = &nodes[n_nodes];
	va_list ap;

	if (n_nodes == MOST)
		bail("too many nodes");
	va_start(ap, n_src);
	for (unsigned i = 0; i < n_src; i++)
		srcs[n_nodes][i] = va_arg(ap, struct weir_operand);
	va_end(ap);
	must(weir_op_info(op, &info));
	*n = (struct weir_backend_node){ .size = sizeof(*n),
					 .op = op,
					 .n_src = n_src,
					 .index = n_nodes,
					 .name = "node",
					 .params = params,
					 .params_size = info.params_size,
					 .dst = dst,
					 .src = srcs[n_nodes] };
	n_nodes++;
	return n;
}

struct weir_operand *src_of(struct weir_backend_node *n, unsigned i)
{
	return &srcs[n - nodes][i];
}

struct job {
	struct weir_backend_work work;
	sem_t done;
	int res;
};

static void job_done(struct weir_backend_work *work, int res, int32_t native)
{
	struct job *job = (struct job *)work;

	(void)native;
	job->res = res;
	sem_post(&job->done);
}

static int job_run(struct side *s, struct weir_backend_compute *run)
{
	const struct weir_backend_queue_ops *ops = s->dev->backend->queue;
	struct job job = { .work = { .kind = WEIR_WORK_COMPUTE,
				     .arg = run,
				     .done = job_done } };

	sem_init(&job.done, 0, 0);
	must(ops->submit(s->queue, &job.work));
	while (ops->poll && ops->poll(s->queue))
		;
	while (sem_wait(&job.done) < 0)
		;
	sem_destroy(&job.done);
	return job.res;
}

static struct weir_operand placed(const struct side *s, struct weir_operand t)
{
	if (t.data)
		t.data = s->base + (uintptr_t)t.data;
	return t;
}

/* Compute the nodes on memory that is set. */
static int compute(struct side *s, struct weir_backend_compute *ret_run,
		   int *ret_launches)
{
	const struct weir_backend_compute_ops *ops = weir__dev_compute(s->dev);
	struct weir_backend_launches launches = { .size = sizeof(launches) };
	struct weir_backend_node node[MOST];
	const struct weir_backend_node *list[MOST] = { NULL };
	struct weir_operand src[MOST][MOST_SRC];
	const uint32_t stop = 0;
	struct weir_backend_compute run = { .size = sizeof(run),
					    .workspace = s->workspace,
					    .n = n_nodes,
					    .stop = &stop };
	size_t room;
	int r;

	for (unsigned i = 0; i < n_nodes; i++) {
		node[i] = nodes[i];
		node[i].dst = placed(s, nodes[i].dst);
		node[i].src = src[i];
		for (unsigned k = 0; k < nodes[i].n_src; k++)
			src[i][k] = placed(s, srcs[i][k]);
		list[i] = &node[i];
		must(ops->supports(s->dev, list[i]));
	}
	must(ops->prepare(s->dev, list, n_nodes, NULL, &run.prepared, &room));
	if (room > WORKSPACE)
		bail("a workspace of %zu bytes", room);
	r = job_run(s, &run);
	if (ops->launches)
		ops->launches(s->dev, run.prepared, &launches);
	ops->release(s->dev, run.prepared);
	*ret_launches = (int)launches.kernels;
	*ret_run = run;
	return r;
}

static int compute_on_gpu(struct side *s, unsigned char *ret_bytes)
{
	struct weir_backend_compute run;
	int launches;

	must(weir_tensor_set(&s->memory, 0, start, BYTES));
	if (compute(s, &run, &launches) < 0)
		bail("a segment failed: %s", run.why);
	must(weir_tensor_get(&s->memory, 0, ret_bytes, BYTES));
	return launches;
}

/* Element @i of a tensor of floats, as doubles. */
static double element(const unsigned char *bytes, const struct weir_operand *t,
		      int64_t i)
{
	uintptr_t at = (uintptr_t)t->data;
	float v;

	for (unsigned d = t->ndim; d-- > 0; i /= t->shape[d])
		at += (uintptr_t)(i % t->shape[d] * t->stride[d]);
	if (t->dtype == F32)
		memcpy(&v, bytes + at, sizeof(v));
	else
		must(weir_convert(F32, &v, t->dtype, bytes + at, 1));
	return (double)v;
}

/* The NMSE of the floats that the CPU has left, the worst of all nodes. */
static double cpu_nmse(void)
{
	double worst = 0;

	for (unsigned i = 0; i < n_nodes; i++) {
		const struct weir_operand *t = &nodes[i].dst;
		double less = 0, all = 1e-30;
		int64_t n = info_of(t->dtype).block == 1;

		for (unsigned d = 0; d < t->ndim; d++)
			n *= t->shape[d];
		for (int64_t k = 0; k < n; k++) {
			double x = element(want, t, k);
			double y = element(cpu.base, t, k);

			/* Bytes of something else may be no numbers. */
			if (isnan(x) && isnan(y))
				continue;
			less += (x - y) * (x - y);
			all += y * y;
		}
		if (!(less / all <= worst))
			worst = less / all;
	}
	return worst;
}

/* The groups leave the bytes of single nodes, in several orders of blocks. */
static bool same_bytes(int *ret_joined, const char *title)
{
	static const char *const orders[] = { "0", "1", "2", "3" };
	bool same = true;

	for (unsigned i = 0; i < 4 && same; i++) {
		size_t at = 0;

		fake.set("ORDER", orders[i]);
		*ret_joined = compute_on_gpu(&fused, got);
		while (at < BYTES && want[at] == got[at])
			at++;
		same = at == BYTES;
		if (!same)
			diag("%s: order %s: byte %zu of place %zu differs",
			     title, orders[i], at % PLACE(1), at / PLACE(1));
	}
	fake.set("ORDER", "0");
	return same;
}

void segment_check(int single, int joined, const char *title)
{
	int has_single = compute_on_gpu(&plain, want), has_joined;
	bool same = same_bytes(&has_joined, title);
	struct weir_backend_compute run;
	int ignored;
	double nmse;

	memcpy(cpu.base, start, BYTES);
	if (compute(&cpu, &run, &ignored) < 0)
		bail("the CPU failed: %s", run.why);
	nmse = cpu_nmse();
	ok(same && nmse <= NEAR && has_single == single && has_joined == joined,
	   "%s: %s", title,
	   joined < single ? "the nodes are a group"
			   : "the nodes are no group");
	if (has_single != single || has_joined != joined)
		diag("%d launches, not %d; of groups %d, not %d", has_single,
		     single, has_joined, joined);
	if (!(nmse <= NEAR))
		diag("the CPU computes other numbers: NMSE %g", nmse);
}

void segment_fails(size_t failed, const char *part, const char *title)
{
	struct side *const sides[] = { &plain, &fused };
	int right = 0, launches[2] = { 0 };

	for (unsigned i = 0; i < 2; i++) {
		struct weir_backend_compute run;

		must(weir_tensor_set(&sides[i]->memory, 0, start, BYTES));
		if (compute(sides[i], &run, &launches[i]) == -EINVAL &&
		    run.failed == failed && strstr(run.why, part))
			right++;
		else
			diag("%s: node %zu: %s", title, run.failed, run.why);
	}
	ok(right == 2 && launches[1] < launches[0],
	   "%s: the node of a group is reported", title);
}
