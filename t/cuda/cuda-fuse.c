/* SPDX-License-Identifier: MIT */
/*
 * Several nodes in one launch: a layer of a model computes the same bits with
 * and without, in whole and in parts, and needs fewer launches.
 */
#include <stdio.h>
#include <string.h>

#include "gpu.h"

#define HEAD 32
#define HEADS 4
#define KV 2
#define WIDTH (HEAD * HEADS)
#define MOST_PLACES 300 /* of the caches */
#define STEPS 4
#define WEIGHTS 15

static struct weir *weir;
static struct weir_dev *cuda;
static struct weir_sched *sched;
static struct weir_graph *g;

/* A layer, and the first norm of the next one, for one token. */
static struct layer {
	struct weir_node *x, *y, *pos, *pos_v, *mask, *out, *sum, *normed;
	struct weir_node *w[WEIGHTS];
	enum weir_dtype dtype; /* of matrices */
	int places;            /* of the caches */
	bool qwen; /* biases of q, k and v, norms of the heads of q and k */
	struct weir_tensor cache[2];
	struct weir_exec *exec;
	struct weir_run *run;
} m;

static struct weir_node *input(const char *name, enum weir_dtype dtype,
			       int64_t rows, int64_t columns)
{
	const int64_t shape[] = { rows, columns };

	return weir_graph_input(g, name, dtype, 2, shape);
}

static struct weir_node *matrix(const char *name, int64_t rows)
{
	return input(name, m.dtype, rows, WIDTH);
}

static struct weir_node *split(struct weir_node *x, int64_t rows, int64_t heads)
{
	const int64_t shape[] = { rows, heads, HEAD };

	return weir_reshape(g, x, 3, shape);
}

static struct weir_node *by_heads(struct weir_node *x)
{
	const int64_t dim[] = { 1, 0, 2 };

	return weir_permute(g, x, 3, dim);
}

static struct weir_node *remember(unsigned i, struct weir_node *x,
				  struct weir_node *pos)
{
	struct weir_node *all = weir_graph_leaf(g, &m.cache[i], NULL);

	all = weir_set_rows(g, all, x, pos);
	weir_node_set_name(all, i ? "set v" : "set k");
	return by_heads(split(all, m.places, KV));
}

static void cache_make(void)
{
	for (unsigned i = 0; i < 2; i++) {
		const int64_t shape[] = { m.places, KV * HEAD };
		const size_t bytes =
			(size_t)m.places * KV * HEAD * sizeof(uint16_t);
		struct weir_tensor t = on_gpu(weir, bytes);

		must(weir_tensor_init(&m.cache[i], WEIR_DTYPE_F16, 2, shape));
		must(weir_tensor_place(&m.cache[i], t.buf, 0));
		must(weir_tensor_fill(&m.cache[i], 0, bytes, 0));
	}
}

/* Product @i, with its bias if there is one. */
static struct weir_node *linear(unsigned i, struct weir_node *x)
{
	x = weir_mul_mat(g, m.w[i], x);
	return m.qwen ? weir_add(g, x, m.w[9 + i]) : x;
}

static struct weir_node *normed(struct weir_node *heads, unsigned scale)
{
	if (!m.qwen)
		return heads;
	return weir_mul(g, weir_rms_norm(g, heads, 1e-5F), m.w[scale]);
}

/* The second half, from the sum after attention on. */
static struct weir_node *feed_forward(struct weir_node *sum)
{
	struct weir_node *x, *gate, *up;

	x = weir_mul(g, weir_rms_norm(g, sum, 1e-5F), m.w[5]);
	gate = weir_mul_mat(g, m.w[6], x);
	up = weir_mul_mat(g, m.w[7], x);
	x = weir_mul_mat(g, m.w[8], weir_swiglu(g, gate, up));
	x = weir_add(g, sum, x);
	return weir_mul(g, weir_rms_norm(g, x, 1e-5F), m.w[9]);
}

static void layer_make(const char *params, bool observed)
{
	struct weir_op_attention attend = { .precision = 0 };
	const struct weir_op_rope rope = { .n_dims = HEAD };
	const int64_t one = 1;
	struct weir_node *x, *q, *k, *v;

	weir = open_cuda();
	must(weir_dev_configure(weir, params, &cuda));
	must(weir_sched_new(&cuda, 1, NULL, &sched));
	must(weir_graph_new(&g));
	cache_make();
	m.x = input("x", WEIR_DTYPE_F32, 1, WIDTH);
	m.y = input("y", WEIR_DTYPE_F32, 1, WIDTH);
	m.pos = weir_graph_input(g, "pos", WEIR_DTYPE_I32, 1, &one);
	m.pos_v = weir_graph_input(g, "pos_v", WEIR_DTYPE_I32, 1, &one);
	m.mask = input("mask", WEIR_DTYPE_F32, 1, m.places);
	m.w[0] = input("norm", WEIR_DTYPE_F32, 1, WIDTH);
	m.w[1] = matrix("q", WIDTH);
	m.w[2] = matrix("k", KV * HEAD);
	m.w[3] = matrix("v", KV * HEAD);
	m.w[4] = matrix("o", WIDTH);
	m.w[5] = input("norm2", WEIR_DTYPE_F32, 1, WIDTH);
	m.w[6] = matrix("gate", WIDTH);
	m.w[7] = matrix("up", WIDTH);
	m.w[8] = matrix("down", WIDTH);
	m.w[9] = input("norm3", WEIR_DTYPE_F32, 1, WIDTH);
	if (m.qwen) {
		m.w[10] = input("bias of q", WEIR_DTYPE_F32, 1, WIDTH);
		m.w[11] = input("bias of k", WEIR_DTYPE_F32, 1, KV * HEAD);
		m.w[12] = input("bias of v", WEIR_DTYPE_F32, 1, KV * HEAD);
		m.w[13] = input("norm of q", WEIR_DTYPE_F32, 1, HEAD);
		m.w[14] = input("norm of k", WEIR_DTYPE_F32, 1, HEAD);
	}
	m.sum = x = weir_add(g, m.x, m.y);
	m.normed = weir_rms_norm(g, x, 1e-5F);
	x = weir_mul(g, m.normed, m.w[0]);
	q = split(linear(1, x), 1, HEADS);
	k = split(linear(2, x), 1, KV);
	v = linear(3, x);
	q = weir_rope(g, normed(q, 13), m.pos, NULL, &rope);
	k = weir_rope(g, normed(k, 14), m.pos, NULL, &rope);
	k = remember(0, weir_reshape(g, k, 2, (int64_t[]){ 1, KV * HEAD }),
		     m.pos);
	v = remember(1, v, m.pos_v);
	x = weir_attention(g, by_heads(q), k, v, m.mask, &attend);
	x = weir_reshape(g, x, 2, (int64_t[]){ 1, WIDTH });
	m.out = feed_forward(weir_add(g, m.sum, weir_mul_mat(g, m.w[4], x)));
	weir_graph_output(g, m.out);
	if (observed)
		weir_graph_output(g, m.normed);
	must(weir_graph_error(g, NULL));
	must(weir_exec_new(sched, g, &m.exec));
	must(weir_run_new(m.exec, &m.run));
}

static void layer_free(void)
{
	weir_run_free(m.run);
	weir_exec_free(m.exec);
	weir_graph_free(g);
	weir_sched_free(sched);
	for (unsigned i = 0; i < 2; i++)
		weir_buf_free(m.cache[i].buf);
	weir_close(weir);
}

static void set(struct weir_node *node, size_t n, unsigned seed)
{
	static unsigned char bytes[WIDTH * WIDTH * sizeof(float)];
	enum weir_dtype dtype = weir_node_tensor(node)->dtype;
	static float v[WIDTH * WIDTH];
	size_t size;

	for (size_t i = 0; i < n; i++) {
		seed = seed * 1103515245 + 12345;
		v[i] = (float)(seed >> 16 & 0x3ff) / 1024 - 0.45F;
	}
	must(weir_convert(dtype, bytes, WEIR_DTYPE_F32, v, n));
	must(weir_tensor_bytes(weir_node_tensor(node), &size));
	must(weir_run_input(m.run, node, bytes, size));
}

static void set_step(int step)
{
	float mask[MOST_PLACES];
	const int32_t pos = step;

	for (int i = 0; i < m.places; i++)
		mask[i] = i > step ? -1e30F : 0;
	must(weir_run_input(m.run, m.mask, mask,
			    (size_t)m.places * sizeof(*mask)));
	must(weir_run_input(m.run, m.pos, &pos, sizeof(pos)));
	must(weir_run_input(m.run, m.pos_v, &pos, sizeof(pos)));
	set(m.x, WIDTH, 100 + (unsigned)step);
	set(m.y, WIDTH, 200 + (unsigned)step);
}

/* All that steps compute: outputs and caches. */
struct seen {
	float out[STEPS][WIDTH];
	uint16_t cache[2][MOST_PLACES * KV * HEAD];
	uint64_t kernels;
};

static void get(const struct weir_node *node, float *to)
{
	struct weir_tensor t;

	must(weir_run_output(m.run, node, &t));
	must(weir_tensor_get(&t, 0, to, WIDTH * sizeof(float)));
}

static void set_weights(void)
{
	for (unsigned i = 0; i < (m.qwen ? WEIGHTS : 10); i++) {
		const struct weir_tensor *t = weir_node_tensor(m.w[i]);

		set(m.w[i], (size_t)(t->shape[0] * t->shape[1]), i + 1);
	}
}

static void steps(struct seen *seen, uint64_t nodes, uint64_t part)
{
	struct weir_lane lane = { .size = sizeof(lane) };

	memset(seen, 0, sizeof(*seen));
	set_weights();
	for (int s = 0; s < STEPS; s++) {
		set_step(s);
		if (!part)
			must(weir_run_start(m.run));
		for (uint64_t i = 0; part && i < nodes; i += part) {
			must(weir_run_start_part(
				m.run, i, i + part < nodes ? part : nodes - i));
			must(weir_run_wait(m.run, -1));
		}
		must(weir_run_wait(m.run, -1));
		get(m.out, seen->out[s]);
	}
	for (unsigned i = 0; i < 2; i++)
		must(weir_tensor_get(&m.cache[i], 0, seen->cache[i],
				     (size_t)m.places * KV * HEAD *
					     sizeof(uint16_t)));
	must(weir_exec_lane(m.exec, 0, &lane));
	seen->kernels = lane.kernels;
}

static struct seen run_with(const char *params, uint64_t part, bool observed)
{
	struct weir_exec_info info = { .size = sizeof(info) };
	static struct seen seen;

	layer_make(params, observed);
	must(weir_exec_info(m.exec, &info));
	steps(&seen, info.nodes, part);
	if (observed) {
		float normed[WIDTH];
		double squares = 0;

		get(m.normed, normed);
		for (int i = 0; i < WIDTH; i++)
			squares += (double)normed[i] * (double)normed[i];
		ok(squares > 0.99 * WIDTH && squares < 1.01 * WIDTH,
		   "a result inside of a group can be read");
	}
	layer_free();
	return seen;
}

static bool same(const struct seen *a, const struct seen *b)
{
	return !memcmp(a->out, b->out, sizeof(a->out)) &&
	       !memcmp(a->cache, b->cache, sizeof(a->cache));
}

/* The node that a run fails with, by positions of k and of v; 0: another. */
static char failed(int32_t pos, int32_t pos_v)
{
	int r;

	set_step(0);
	must(weir_run_input(m.run, m.pos, &pos, sizeof(pos)));
	must(weir_run_input(m.run, m.pos_v, &pos_v, sizeof(pos_v)));
	must(weir_run_start(m.run));
	r = weir_run_wait(m.run, -1);
	return r != -EINVAL                      ? 0
	       : strstr(weir_error(), "'set k'") ? 'k'
	       : strstr(weir_error(), "'set v'") ? 'v'
						 : 0;
}

/* The order of blocks on the stand-in is that of 8 seeds. */
static void positions(const char *params)
{
	unsigned both = 0, first = 0, second = 0;

	layer_make(params, false);
	set_weights();
	for (unsigned order = 0; order < 8; order++) {
		char text[8];

		snprintf(text, sizeof(text), "%u", order);
		fake.set("ORDER", text);
		both += failed(m.places, m.places) == 'k';
		first += failed(-1, 0) == 'k';
		second += failed(0, m.places) == 'v';
	}
	fake.set("ORDER", "0");
	is_int(both, 8, "%s: of two positions out of range the first is found",
	       params);
	is_int(first, 8, "%s: a position of k out of range is found", params);
	is_int(second, 8, "%s: so is one of v", params);
	layer_free();
}

/*
 * A layer with matrices of @dtype, and the first norm of the next one. With
 * more than 128 places attention is split.
 */
static void layer(enum weir_dtype dtype, int places, int kernels, int fewer)
{
	struct weir_dtype_info info = { .size = sizeof(info) };
	static struct seen plain, fused, parts;
	char title[64];
	int wrong = 0;

	m.dtype = dtype;
	m.places = places;
	must(weir_dtype_info(dtype, &info));
	snprintf(title, sizeof(title), "%s, %d positions%s", info.name, places,
		 m.qwen ? ", biases and norms of heads" : "");
	plain = run_with("CUDA0:fuse=no", 0, false);
	fused = run_with("CUDA0:fuse=yes", 0, false);
	ok(memcmp(plain.out[0], plain.out[1], sizeof(plain.out[0])) != 0,
	   "%s: the steps of a layer compute different numbers", title);
	is_int(plain.kernels, kernels, "%s: kernels of single nodes", title);
	is_int(fused.kernels, fewer, "%s: kernels of groups", title);
	ok(same(&plain, &fused), "%s: the bits of all results are the same",
	   title);
	for (uint64_t part = 1; part < 12; part += 2) {
		parts = run_with("CUDA0:fuse=yes", part, false);
		wrong += !same(&plain, &parts);
	}
	is_int(wrong, 0,
	       "%s: parts of a few nodes, which cut groups, have the same bits",
	       title);
	fused = run_with("CUDA0:fuse=yes", 0, true);
	ok(same(&plain, &fused), "%s: so has a layer whose inside is read",
	   title);
}

int main(void)
{
	struct weir_dev_info info = { .size = sizeof(info) };

	open_driver();
	weir = open_cuda();
	must(weir_dev_info(gpu(weir), &info));
	if (!(info.caps & WEIR_CAP_COMPUTE))
		skip_all("CUDA0 does not compute");
	weir_close(weir);
	plan(0);
	layer(WEIR_DTYPE_F32, 8, 22, 10);
	layer(WEIR_DTYPE_BF16, 8, 22, 10);
	layer(WEIR_DTYPE_BF16, MOST_PLACES, 22, 10);
	layer(WEIR_DTYPE_Q8_0, 8, 29, 10);
	layer(WEIR_DTYPE_Q4_0, 8, 29, 10);
	layer(WEIR_DTYPE_Q4_0, MOST_PLACES, 29, 10);
	m.qwen = true;
	layer(WEIR_DTYPE_BF16, 8, 29, 10);
	layer(WEIR_DTYPE_Q8_0, MOST_PLACES, 36, 10);
	m.qwen = false;
	positions("CUDA0:fuse=no");
	positions("CUDA0:fuse=yes");
	if (on_fake(3)) {
		struct fakecuda_counts counts;

		fake.counts(&counts);
		is_int(counts.findings, 0, "no kernel has a race");
		all_given_back("after all runs");
	}
	return done_testing();
}
