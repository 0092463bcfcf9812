/* SPDX-License-Identifier: MIT */
/*
 * Attention on CUDA0, node by node, without a graph: at addresses that vectors
 * of loads and stores do not take, which fall to a kernel that takes them; and
 * the workspace, which is written to its end and not beyond.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attend.h"
#include "dev/dev.h"
#include "dtypes.h"
#include "kernels/trial_ways.h"
#include "tap.h"

#define Q8_0 WEIR_DTYPE_Q8_0
#define Q4_0 WEIR_DTYPE_Q4_0
#define ROOM 4096 /* bytes around tensors, and after the workspace */
#define UNUSED 0xa5

static struct weir *weir;
static struct weir_dev *dev;

/* Attention, and where its tensors are: bytes after an aligned address. */
struct placed {
	const char *name, *kernel;
	enum weir_dtype k, v;
	struct shape f;
	int at_q, at_k, at_v, at_dst;
	int more; /* elements between rows of k and v: views of wider tensors */
	double nmse;
};

/* A tensor of [heads, rows, elements] in host memory and on the device. */
struct part {
	struct weir_operand o;
	struct weir_tensor bytes;
	unsigned char *host; /* ROOM + at bytes before the first element */
	size_t n;
	double *v; /* its elements */
};

static int64_t bytes_of(enum weir_dtype dtype, int64_t n)
{
	struct weir_dtype_info info = { .size = sizeof(info) };

	must(weir_dtype_info(dtype, &info));
	return n / info.block * info.bytes;
}

/* Rows of random elements, @more after each. */
static void row_make(enum weir_dtype dtype, unsigned char *to, double *v, int n,
		     int more)
{
	float *f = calloc((size_t)(n + more), sizeof(*f));

	for (int i = 0; i < n + more; i++)
		f[i] = (float)random_number();
	must(weir_convert(dtype, to, WEIR_DTYPE_F32, f, (size_t)(n + more)));
	must(weir_convert(WEIR_DTYPE_F32, f, dtype, to, (size_t)(n + more)));
	for (int i = 0; i < n; i++)
		v[i] = f[i];
	free(f);
}

static void part_make(struct part *p, enum weir_dtype dtype, int heads,
		      int rows, int n, int more, int at)
{
	int64_t pitch = bytes_of(dtype, n + more);
	const int64_t shape[] = { heads, rows, n };
	const int64_t stride[] = { rows * pitch, pitch,
				   bytes_of(dtype, 32) / 32 };
	uint64_t ptr;

	p->n = (size_t)(heads * rows * pitch + 2 * ROOM);
	p->host = malloc(p->n);
	memset(p->host, UNUSED, p->n);
	p->v = calloc((size_t)(heads * rows * n), sizeof(*p->v));
	for (int i = 0; i < heads * rows; i++)
		row_make(dtype, p->host + ROOM + at + i * pitch, p->v + i * n,
			 n, more);
	p->bytes = on_gpu(weir, p->n);
	must(weir_tensor_set(&p->bytes, 0, p->host, p->n));
	must(weir_cuda_buf_ptr(p->bytes.buf, &ptr));
	ptr += p->bytes.offset + (uint64_t)(ROOM + at);
	p->o = (struct weir_operand){ .dtype = dtype, .ndim = 3 };
	p->o.data = (void *)(uintptr_t)ptr;
	memcpy(p->o.shape, shape, sizeof(shape));
	memcpy(p->o.stride, stride, sizeof(stride));
	/* The bytes of a block, as weir_tensor_init() has them. */
	if (dtype > WEIR_DTYPE_GGML)
		p->o.stride[2] = bytes_of(dtype, 32);
}

static void part_free(struct part *p)
{
	weir_buf_free(p->bytes.buf);
	free(p->host);
	free(p->v);
}

/* The query of head @h and token @t; result [dv]. */
static void query_attend(const struct placed *c, const struct part *src, int h,
			 int t, double *ret)
{
	const struct shape *f = &c->f;
	int head = h / (f->heads / f->heads_k);
	const double *q = src[0].v + (h * f->t + t) * f->d;
	double *w = calloc((size_t)f->s, sizeof(*w)), most = -INFINITY, sum = 0;

	for (int s = 0; s < f->s; s++) {
		const double *k = src[1].v + (head * f->s + s) * f->d;

		for (int i = 0; i < f->d; i++)
			w[s] += q[i] * k[i];
		w[s] /= sqrt(f->d);
		most = fmax(most, w[s]);
	}
	for (int s = 0; s < f->s; s++)
		sum += w[s] = exp(w[s] - most);
	for (int s = 0; s < f->s; s++)
		for (int i = 0; i < f->dv; i++)
			ret[i] += w[s] / sum *
				  src[2].v[(head * f->s + s) * f->dv + i];
	free(w);
}

/* Returns the NMSE of the result [tokens, heads, dv] at @got. */
static double result_nmse(const struct placed *c, const struct part *src,
			  const unsigned char *got)
{
	const struct shape *f = &c->f;
	double less = 0, all = 0, *want;

	for (int t = 0; t < f->t; t++)
		for (int h = 0; h < f->heads; h++) {
			want = calloc((size_t)f->dv, sizeof(*want));
			query_attend(c, src, h, t, want);
			for (int i = 0; i < f->dv; i++, got += 4) {
				float x;

				memcpy(&x, got, sizeof(x));
				less += (x - want[i]) * (x - want[i]);
				all += want[i] * want[i];
			}
			free(want);
		}
	return less / all;
}

static int work_result;
static bool work_is_done;

static void work_done(struct weir_backend_work *work, int res, int32_t native)
{
	(void)work;
	(void)native;
	work_result = res;
	__atomic_store_n(&work_is_done, true, __ATOMIC_RELEASE);
}

/* Compute a node that was prepared. */
static int compute(void *prepared, void *workspace)
{
	const struct weir_backend_queue_ops *ops = dev->backend->queue;
	const uint32_t stop = 0;
	struct weir_backend_compute of = { .size = sizeof(of),
					   .prepared = prepared,
					   .workspace = workspace,
					   .n = 1,
					   .stop = &stop };
	struct weir_backend_work work = { .kind = WEIR_WORK_COMPUTE,
					  .arg = &of,
					  .done = work_done };
	void *queue;

	work_is_done = false;
	must(ops->open(dev, 0, "attention", &queue));
	must(ops->submit(queue, &work));
	while (!__atomic_load_n(&work_is_done, __ATOMIC_ACQUIRE))
		ops->poll(queue);
	ops->close(queue);
	return work_result;
}

static struct weir_backend_node node_of(const struct weir_operand *src,
					const struct weir_operand *dst,
					const struct weir_op_attention *p)
{
	return (struct weir_backend_node){ .size = sizeof(
						   struct weir_backend_node),
					   .op = WEIR_OP_ATTENTION,
					   .n_src = 3,
					   .params = p,
					   .params_size = sizeof(*p),
					   .dst = *dst,
					   .src = src };
}

/* How many of the first @n bytes are not as they were filled, to the last. */
static size_t written_of(const unsigned char *p, size_t n)
{
	while (n && p[n - 1] == UNUSED)
		n--;
	return n;
}

/*
 * Compute @c. *@ret_written: how many bytes of the *@ret_room of the workspace,
 * and of ROOM after it, were written.
 */
static double trial(const struct placed *c, size_t *ret_room,
		    size_t *ret_written)
{
	const struct weir_backend_compute_ops *ops = weir__dev_compute(dev);
	const struct shape *f = &c->f;
	const struct weir_op_attention p = { .scale = 1 / sqrtf((float)f->d) };
	struct part part[4] = { 0 };
	struct weir_operand src[3];
	struct weir_backend_node node;
	const struct weir_backend_node *nodes = &node;
	struct weir_tensor room;
	unsigned char *bytes;
	uint64_t ptr;
	double nmse;
	void *prepared;

	part_make(&part[0], F32, f->heads, f->t, f->d, 0, c->at_q);
	part_make(&part[1], c->k, f->heads_k, f->s, f->d, c->more, c->at_k);
	part_make(&part[2], c->v, f->heads_k, f->s, f->dv, c->more, c->at_v);
	part_make(&part[3], F32, f->t, f->heads, f->dv, 0, c->at_dst);
	for (int i = 0; i < 3; i++)
		src[i] = part[i].o;
	node = node_of(src, &part[3].o, &p);
	must(ops->supports(dev, &node));
	must(ops->prepare(dev, &nodes, 1, NULL, &prepared, ret_room));
	room = on_gpu(weir, *ret_room + ROOM);
	bytes = malloc(*ret_room + ROOM);
	memset(bytes, UNUSED, *ret_room + ROOM);
	must(weir_tensor_set(&room, 0, bytes, *ret_room + ROOM));
	must(weir_cuda_buf_ptr(room.buf, &ptr));
	ptr += room.offset;
	is_int(compute(prepared, (void *)(uintptr_t)ptr), 0, "%s: computed",
	       c->name);
	ops->release(dev, prepared);
	must(weir_tensor_get(&room, 0, bytes, *ret_room + ROOM));
	*ret_written = written_of(bytes, *ret_room + ROOM);
	must(weir_tensor_get(&part[3].bytes, 0, part[3].host, part[3].n));
	nmse = result_nmse(c, part, part[3].host + ROOM + c->at_dst);
	weir_buf_free(room.buf);
	free(bytes);
	for (int i = 0; i < 4; i++)
		part_free(&part[i]);
	return nmse;
}

#define NEAR 1e-10
#define BITS8 3e-5 /* q and exponents have 8 bits, or 11 */
#define BITS11 1e-6
#define FEW                          \
	{                            \
		4, 2, 1, 300, 64, 64 \
	}
#define MANY                          \
	{                             \
		4, 2, 20, 150, 64, 64 \
	}
#define LARGE                           \
	{                               \
		2, 1, 20, 150, 256, 192 \
	}

static const struct placed places[] = {
	{ "tiles", "attention_tiles_f16", F16, F16, MANY, .nmse = BITS11 },
	{ "tiles, q anywhere", "attention_tiles_bf16", BF16, BF16, MANY,
	  .at_q = 1, .nmse = BITS8 },
	{ "tiles, k and v by 16 bytes", "attention_tiles_f16", F16, F16, MANY,
	  .at_k = 16, .at_v = 48, .nmse = BITS11 },
	{ "tiles, views", "attention_tiles_f16", F16, F16, MANY, .more = 8,
	  .nmse = BITS11 },
	{ "tiles, result by 4 bytes", "attention_tiles_f16", F16, F16, MANY,
	  .at_dst = 4, .nmse = BITS11 },
	{ "many tokens, result by 2 bytes", "attention_chunks_f16", F16, F16,
	  MANY, .at_dst = 2, .nmse = NEAR },
	{ "many tokens, result by 1 byte", "attention_chunks_bf16", BF16, BF16,
	  MANY, .at_dst = 1, .nmse = NEAR },
	{ "many tokens, k by 8 bytes", "attention", F16, F16, MANY, .at_k = 8,
	  .nmse = NEAR },
	{ "many tokens, v by 2 bytes", "attention", BF16, BF16, MANY, .at_v = 2,
	  .nmse = NEAR },
	{ "many tokens, views by 8 bytes", "attention", F16, F16, MANY,
	  .more = 4, .nmse = NEAR },
	{ "chunks, q and result anywhere", "attention_chunks_f16", F16, F16,
	  FEW, .at_q = 3, .at_dst = 1, .nmse = NEAR },
	{ "chunks, views", "attention_chunks_f32", F32, F32, FEW, .more = 4,
	  .nmse = NEAR },
	{ "k of F32 by 4 bytes", "attention", F32, F32, FEW, .at_k = 4,
	  .nmse = NEAR },
	{ "v of F16 by 8 bytes", "attention", F16, F16, FEW, .at_v = 8,
	  .nmse = NEAR },
	{ "k and v of two dtypes", "attention", F16, BF16, FEW, .nmse = NEAR },
	{ "blocks", "attention_chunks_blocks", Q8_0, Q4_0, FEW, .nmse = NEAR },
	{ "blocks by 4 bytes", "attention_chunks_blocks", Q8_0, Q8_0, FEW,
	  .at_k = 4, .at_v = 8, .nmse = NEAR },
	{ "blocks, views", "attention_chunks_blocks", Q4_0, Q4_0, FEW,
	  .more = 64, .nmse = NEAR },
	{ "blocks by 2 bytes", "attention", Q8_0, Q8_0, FEW, .at_v = 2,
	  .nmse = NEAR },
	{ "blocks by 1 byte", "attention", Q4_0, Q4_0, FEW, .at_k = 1,
	  .nmse = NEAR },
	{ "blocks, views by 2 bytes", "attention", Q8_0, Q8_0, FEW, .more = 32,
	  .nmse = NEAR },
	{ "tiles of blocks by 4 bytes", "attention_tiles_bf16_large", Q4_0,
	  Q8_0, MANY, .at_k = 4, .at_v = 8, .more = 64, .nmse = BITS8 },
	{ "tiles of 256 elements", "attention_tiles_f16_large", F16, F16, LARGE,
	  .at_dst = 4, .more = 8, .nmse = BITS11 },
	{ "256 elements, result by 2 bytes", "attention_chunks_bf16", BF16,
	  BF16, LARGE, .at_dst = 2, .nmse = NEAR },
	{ "k of blocks, v of floats", "attention", Q8_0, F16, FEW,
	  .nmse = NEAR },
};

static void addresses(void)
{
	for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		const struct placed *c = &places[i];
		int before = launches(c->kernel);
		size_t room, written;
		double nmse = trial(c, &room, &written);

		ok(nmse <= c->nmse, "%s: right", c->name);
		if (!(nmse <= c->nmse))
			diag("nmse %g of at most %g", nmse, c->nmse);
		if (on_fake(1))
			is_int(launches(c->kernel) - before, 1, "%s: by %s",
			       c->name, c->kernel);
	}
}

/* Room for the result as bytes, which a product after it may read. */
static size_t rounded_of(const struct shape *f)
{
	int units = (f->heads * f->dv + 1023) / 1024;

	return f->t <= 8 ? (size_t)(f->t * units) * 1280 : 0;
}

static const struct placed split[] = {
	{ "4 heads, 300 positions", "", F16, F16, FEW, .nmse = NEAR },
	{ "7 tokens, blocks",
	  "",
	  Q8_0,
	  Q8_0,
	  { 6, 1, 7, 513, 128, 64 },
	  .nmse = NEAR },
	{ "1,100 positions",
	  "",
	  F32,
	  F32,
	  { 2, 2, 1, 1100, 32, 256 },
	  .nmse = NEAR },
};
#define SPLIT ((int)(sizeof(split) / sizeof(split[0])))

static size_t measured_of(const struct shape *f, enum weir_dtype k,
			  enum weir_dtype v, uint32_t precision)
{
	const struct weir_op_attention p = { .scale = 1,
					     .precision = precision };
	const int64_t of[4][3] = { { f->heads, f->t, f->d },
				   { f->heads_k, f->s, f->d },
				   { f->heads_k, f->s, f->dv },
				   { f->t, f->heads, f->dv } };
	const enum weir_dtype dtype[] = { F32, k, v, F32 };
	struct weir_operand o[4] = { 0 };
	struct weir_backend_node node;
	const struct weir_backend_node *nodes = &node;
	size_t bytes;

	for (int i = 0; i < 4; i++) {
		struct weir_tensor t;

		must(weir_tensor_init(&t, dtype[i], 3, of[i]));
		o[i].dtype = t.dtype;
		o[i].ndim = t.ndim;
		memcpy(o[i].shape, t.shape, sizeof(t.shape));
		memcpy(o[i].stride, t.stride, sizeof(t.stride));
	}
	node = node_of(o, &o[3], &p);
	must(weir__dev_compute(dev)->measure(dev, &nodes, 1, NULL, &bytes));
	return bytes;
}

static size_t measured(const struct placed *c)
{
	return measured_of(&c->f, c->k, c->v, WEIR_PRECISION_FAST);
}

/* @estimate: of a device that was not used. */
static void workspaces(const size_t *estimate)
{
	for (int i = 0; i < SPLIT; i++) {
		const struct placed *c = &split[i];
		size_t room, written;

		ok(trial(c, &room, &written) <= c->nmse, "%s: right", c->name);
		room -= rounded_of(&c->f);
		ok(written == room,
		   "%s: the workspace is written to its end, not beyond",
		   c->name);
		if (written != room)
			diag("%zu bytes of %zu", written, room);
		room += rounded_of(&c->f);
		ok(room > 0 && measured(c) >= room,
		   "%s: no less was measured, %zu bytes of %zu", c->name,
		   measured(c), room);
		ok(estimate[i] >= room,
		   "%s: nor was before the device was used", c->name);
	}
}

/* Parts of long sequences are not kept: their workspace has a bound. */
static void bounds(void)
{
	const struct shape longest = { 64, 8, 8, 1 << 24, 128, 128 };
	const struct shape most = { 64, 8, 1, 250000, 128, 128 };
	const struct shape misplaced = { 4, 2, 20, 1000, 64, 64 };
	const struct placed tiles = {
		"",          "",          F16, F16, { 4, 2, 20, 1000, 64, 64 },
		.at_dst = 2, .nmse = NEAR
	};
	const uint64_t counters = 64 << 10, status = 256;
	const uint64_t bound =
		(64u << 20) + counters + status + rounded_of(&most);
	size_t room, written;

	ok(measured_of(&longest, F16, F16, 0) <= bound,
	   "16 million positions have at most 64 MiB of workspace");
	ok(measured_of(&most, Q8_0, Q8_0, 0) > bound / 2 &&
		   measured_of(&most, Q8_0, Q8_0, 0) <= bound,
	   "so have 250,000, whose parts are kept");
	trial(&tiles, &room, &written);
	ok(measured_of(&misplaced, F16, F16, WEIR_PRECISION_FAST) >= room,
	   "a result at another address than tiles take was measured");
}

int main(void)
{
	size_t estimate[SPLIT];

	setenv("FAKECUDA_SMS", "8", 1);
	weir = ways_begin();
	dev = gpu(weir);
	plan(0);
	for (int i = 0; i < SPLIT; i++)
		estimate[i] = measured(&split[i]);
	addresses();
	workspaces(estimate);
	bounds();
	ways_end();
	return done_testing();
}
