/* SPDX-License-Identifier: MIT */
/* The tensors of random graphs; random_ops.c has the operations. */
#include "random_graph.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dtypes.h"
#include "random_gen.h"
#include "tap.h"

/* Regions of the weights, each of REGION bytes: one for each dtype first. */
enum region {
	R_IDS = WEIGHTS,
	R_ORDERS,
	R_ORDERS_I64,
	REGIONS
};
#define REGION ((uint64_t)16384)
#define CACHE_BYTES 2048u

static struct random_graph *r; /* graph that is being made */
static uint64_t state;

uint64_t gen_below(uint64_t n)
{
	uint64_t x = state += 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return (x ^ x >> 31) % n;
}

static void must_convert(enum weir_dtype to, void *dst, float v)
{
	if (weir_convert(to, dst, WEIR_DTYPE_F32, &v, 1) < 0)
		memcpy(dst, &v, sizeof(v));
}

/* Integers from -8 to 8, without 0. */
static void numbers_fill(unsigned char *to, enum weir_dtype dtype, size_t size,
			 size_t n)
{
	for (size_t i = 0; i < n; i++) {
		float v = (float)(1 + gen_below(8));

		must_convert(dtype, to + i * size, gen_below(2) ? v : -v);
	}
}

/* Blocks with a scale of 1/16, and any other bytes. */
static void blocks_fill(unsigned char *to, size_t block, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		must_convert(F16, to + i * block, 1.0f / 16);
		for (size_t k = 2; k < block; k++)
			to[i * block + k] = (unsigned char)gen_below(256);
	}
}

/* The greatest of the elements of a block; NaN if one is not a number. */
static float block_most(enum weir_dtype dtype, const unsigned char *block,
			size_t n)
{
	float v[256], most = 0;

	if (n > 256 || weir_convert(F32, v, dtype, block, n) < 0)
		bail("a block has %zu elements: %s", n, weir_error());
	for (size_t i = 0; i < n; i++)
		if (!(fabsf(v[i]) <= most))
			most = fabsf(v[i]);
	return most;
}

#define SOME_BLOCKS 64u

/*
 * Blocks of any bytes that are numbers of at most 8, and not all small. The
 * first SOME_BLOCKS are drawn, the others are these again.
 */
static void any_blocks_fill(unsigned char *to, enum weir_dtype dtype, size_t n,
			    size_t block, size_t blocks)
{
	for (size_t i = 0; i < blocks; i++) {
		unsigned char *at = to + i * block;
		float most;

		if (i >= SOME_BLOCKS) {
			memcpy(at, to + gen_below(SOME_BLOCKS) * block, block);
			continue;
		}
		do {
			for (size_t k = 0; k < block; k++)
				at[k] = (unsigned char)gen_below(256);
			most = block_most(dtype, at, n);
		} while (!(most >= 0.5f && most <= 8));
	}
}

/* The weights of a dtype. */
static void region_fill(unsigned char *to, enum weir_dtype dtype)
{
	struct weir_dtype_info info = { .size = sizeof(info) };

	if (weir_dtype_info(dtype, &info) < 0)
		bail("%s", weir_error());
	if (dtype < WEIR_DTYPE_GGML)
		numbers_fill(to, dtype, info.bytes, REGION / info.bytes);
	else if (dtype == WEIR_DTYPE_Q8_0 || dtype == WEIR_DTYPE_Q4_0)
		blocks_fill(to, info.bytes, REGION / info.bytes);
	else
		any_blocks_fill(to, dtype, info.block, info.bytes,
				REGION / info.bytes);
}

/* Ids below 8; and orders of the numbers 0 to 7. */
static void ids_fill(int32_t *ids, int32_t *orders, size_t n)
{
	for (size_t i = 0; i < n; i++)
		ids[i] = (int32_t)gen_below(8);
	for (size_t i = 0; i < n; i++) {
		size_t first = i / 8 * 8, k = first + gen_below(i % 8 + 1);

		orders[i] = orders[k];
		orders[k] = (int32_t)(i % 8);
	}
}

static void later_events(struct random_graph *made, struct weir *weir)
{
	for (int i = 0; i < RANDOM_LATER; i++)
		if (weir_event_new(weir, 0, &made->leaf_event[i]) < 0)
			bail("%s", weir_error());
	for (int i = 0; i < RANDOM_INPUTS; i++)
		if (weir_event_new(weir, 0, &made->input_event[i]) < 0)
			bail("%s", weir_error());
}

void random_graph_begin(struct random_graph *made, struct weir *weir,
			struct weir_buft *const *buft, unsigned n)
{
	unsigned char *p;
	int32_t *orders;
	int64_t *long_orders;

	memset(made, 0, sizeof(*made));
	state = 1;
	if (weir_graph_new(&made->g) < 0 ||
	    weir_buf_alloc(buft[0], REGIONS * REGION, NULL, &made->weights) < 0)
		bail("%s", weir_error());
	if (weir_buf_alloc(buft[n - 1], RANDOM_LATER * REGION, NULL,
			   &made->leaf_bytes) < 0 ||
	    weir_buf_alloc(buft[0], RANDOM_INPUTS * REGION, NULL,
			   &made->input_bytes) < 0)
		bail("%s", weir_error());
	later_events(made, weir);
	for (unsigned c = 0; c < RANDOM_CACHES; c++)
		if (weir_buf_alloc(buft[c % n], CACHE_BYTES, NULL,
				   &made->caches[c]) < 0)
			bail("%s", weir_error());
	p = weir_buf_data(made->weights);
	for (size_t i = 0; i < WEIGHTS; i++)
		region_fill(p + i * REGION, weights[i]);
	orders = (int32_t *)(void *)(p + R_ORDERS * REGION);
	ids_fill((int32_t *)(void *)(p + R_IDS * REGION), orders, REGION / 4);
	long_orders = (int64_t *)(void *)(p + R_ORDERS_I64 * REGION);
	for (size_t i = 0; i < REGION / 8; i++)
		long_orders[i] = orders[i];
}

void random_graph_end(struct random_graph *made)
{
	weir_graph_free(made->g);
	weir_buf_free(made->weights);
	weir_buf_free(made->leaf_bytes);
	weir_buf_free(made->input_bytes);
	for (int i = 0; i < RANDOM_LATER; i++)
		weir_event_free(made->leaf_event[i]);
	for (int i = 0; i < RANDOM_INPUTS; i++)
		weir_event_free(made->input_event[i]);
	for (int c = 0; c < RANDOM_CACHES; c++)
		weir_buf_free(made->caches[c]);
	free(made->known);
	free(made->cache);
}

static void cache_fill(struct weir_buf *buf, enum weir_dtype dtype, size_t size)
{
	const int64_t n = (int64_t)CACHE_BYTES;
	unsigned char bytes[CACHE_BYTES];
	struct weir_tensor t;

	numbers_fill(bytes, dtype, size, CACHE_BYTES / size);
	if (weir_tensor_init(&t, WEIR_DTYPE_U8, 1, &n) < 0 ||
	    weir_tensor_place(&t, buf, 0) < 0 ||
	    weir_tensor_set(&t, 0, bytes, sizeof(bytes)) < 0)
		bail("%s", weir_error());
}

void random_graph_caches(struct random_graph *made)
{
	uint64_t was = state;

	state = 7;
	cache_fill(made->caches[0], WEIR_DTYPE_F32, 4);
	cache_fill(made->caches[1], WEIR_DTYPE_F16, 2);
	state = was;
}

int64_t gen_count(const struct weir_node *node)
{
	const struct weir_tensor *t = weir_node_tensor(node);
	int64_t n = 1;

	for (uint32_t i = 0; i < t->ndim; i++)
		n *= t->shape[i];
	return n;
}

void random_graph_input(const struct weir_node *node, uint64_t seed, void *to)
{
	uint64_t was = state;

	state = seed;
	if (weir_node_tensor(node)->dtype == WEIR_DTYPE_F32)
		numbers_fill(to, WEIR_DTYPE_F32, 4, (size_t)gen_count(node));
	else
		for (int64_t i = 0; i < gen_count(node); i++)
			((int32_t *)to)[i] = (int32_t)gen_below(8);
	state = was;
}

static size_t index_of(const struct weir_node *node)
{
	struct weir_node_info info = { .size = sizeof(info) };

	if (weir_node_info(node, &info) < 0)
		bail("%s", weir_error());
	return info.index;
}

struct known random_graph_known(const struct random_graph *made,
				const struct weir_node *node)
{
	size_t i = index_of(node);

	return made->cache[i] < 0 ? made->known[i]
				  : made->cache_known[made->cache[i]];
}

struct known gen_known(const struct weir_node *node)
{
	return random_graph_known(r, node);
}

int gen_cache(const struct weir_node *node)
{
	return r->cache[index_of(node)];
}

struct weir_graph *gen_graph(void)
{
	return r->g;
}

struct weir_node *gen_add(struct weir_node *node, struct known known, int cache)
{
	if (!node || weir_graph_count(r->g) != r->n + 1)
		bail("node %zu: %s", r->n,
		     weir_graph_error(r->g, NULL) < 0 ? weir_error()
						      : "not the next one");
	r->n++;
	if (r->n > r->room) {
		r->room = r->n * 2;
		r->known = realloc(r->known, r->room * sizeof(*r->known));
		r->cache = realloc(r->cache, r->room);
		if (!r->known || !r->cache)
			bail("no memory for %zu nodes", r->room);
	}
	r->known[r->n - 1] = known;
	r->cache[r->n - 1] = (int8_t)cache;
	return node;
}

struct weir_node *gen_view(struct weir_node *node, const struct weir_node *of)
{
	struct known known = gen_known(of);

	return gen_add(node, known, gen_cache(of));
}

void gen_write(int cache, struct known k)
{
	struct known *to = &r->cache_known[cache];

	k = gen_round(k, cache ? WEIR_DTYPE_F16 : WEIR_DTYPE_F32);
	to->bound = fmax(to->bound, k.bound);
	to->err = fmax(to->err, k.err);
	to->step = fmin(to->step, k.step);
}

static double precision(enum weir_dtype dtype)
{
	return dtype == WEIR_DTYPE_F16    ? 0x1p11
	       : dtype == WEIR_DTYPE_BF16 ? 0x1p8
					  : 0x1p24;
}

/* After rounding to @dtype. Very small numbers of F16 are rounded more. */
struct known gen_round(struct known k, enum weir_dtype dtype)
{
	if (k.step >= 0x1p-10 && k.bound / k.step <= precision(dtype))
		return k;
	k.err += k.bound * 2 / precision(dtype) + 0x1p-23;
	k.step = 0;
	return k;
}

bool gen_useful(struct known k)
{
	return k.bound <= 4096 && k.err <= 0.01;
}

static struct weir_node *leaf_at(struct weir_buf *buf, uint64_t offset,
				 enum weir_dtype dtype, unsigned ndim,
				 const int64_t *shape, struct weir_event *event)
{
	struct weir_tensor t;

	if (weir_tensor_init(&t, dtype, ndim, shape) < 0 ||
	    weir_tensor_place(&t, buf, offset) < 0)
		bail("%s", weir_error());
	return weir_graph_leaf(r->g, &t, event);
}

/* The bytes of weights never change; most weights are marked as constant. */
static struct weir_node *weights_at(uint64_t offset, enum weir_dtype dtype,
				    unsigned ndim, const int64_t *shape)
{
	struct weir_node *leaf =
		leaf_at(r->weights, offset, dtype, ndim, shape, NULL);

	return gen_below(8) ? weir_graph_constant(r->g, leaf) : leaf;
}

/* The region of a dtype. */
static size_t region_of(enum weir_dtype dtype)
{
	for (size_t i = 0; i < WEIGHTS; i++)
		if (weights[i] == dtype)
			return i;
	return R_IDS;
}

/* Where some bytes of weights are: any whole blocks of their region. */
static uint64_t some_weights(enum weir_dtype dtype, unsigned ndim,
			     const int64_t *shape)
{
	struct weir_dtype_info info = { .size = sizeof(info) };
	struct weir_tensor t;
	uint64_t at;
	size_t bytes;

	if (weir_dtype_info(dtype, &info) < 0 ||
	    weir_tensor_init(&t, dtype, ndim, shape) < 0 ||
	    weir_tensor_bytes(&t, &bytes) < 0)
		bail("%s", weir_error());
	if (bytes > REGION)
		bail("weights of %zu bytes", bytes);
	at = gen_below((REGION - bytes) / info.bytes + 1) * info.bytes;
	return region_of(dtype) * REGION + at;
}

/* Some of the weights arrive during each run, and are others for each. */
static struct weir_node *weights_later(enum weir_dtype dtype, unsigned ndim,
				       const int64_t *shape)
{
	unsigned i = r->n_later++;

	r->later[i] = leaf_at(r->leaf_bytes, i * REGION, dtype, ndim, shape,
			      r->leaf_event[i]);
	return r->later[i];
}

const void *random_graph_bytes(const struct random_graph *made,
			       const struct weir_node *node, uint64_t seed)
{
	const struct weir_tensor *t = weir_node_tensor(node);
	unsigned char *p = weir_buf_data(made->weights);
	uint64_t was = state;

	state = seed;
	p += some_weights((enum weir_dtype)t->dtype, t->ndim, t->shape);
	state = was;
	return p;
}

void random_graph_place(const struct random_graph *made, unsigned i,
			struct weir_tensor *t)
{
	if (weir_tensor_place(t, made->input_bytes, i * REGION) < 0)
		bail("%s", weir_error());
}

/* Weights of this shape, anywhere in their region. */
struct weir_node *gen_weights(enum weir_dtype dtype, unsigned ndim,
			      const int64_t *shape)
{
	struct known k = { .bound = 8, .step = 1 };
	struct weir_node *node;

	if (r->n_later < RANDOM_LATER && !gen_below(12))
		node = weights_later(dtype, ndim, shape);
	else
		node = weights_at(some_weights(dtype, ndim, shape), dtype, ndim,
				  shape);
	if (dtype == WEIR_DTYPE_Q8_0 || dtype == WEIR_DTYPE_Q4_0)
		k.step = 0x1p-4;
	else if (dtype > WEIR_DTYPE_GGML)
		k.step = 0;
	return gen_add(node, k, -1);
}

/* @n of the numbers 0 to 7, each at most once. */
struct weir_node *gen_order(enum weir_dtype dtype, int64_t n)
{
	bool is_long = dtype == I64;
	uint64_t bytes = is_long ? 64 : 32;
	uint64_t at = (is_long ? R_ORDERS_I64 : R_ORDERS) * REGION +
		      gen_below(REGION / bytes) * bytes;

	return gen_add(weights_at(at, dtype, 1, &n),
		       (struct known){ .bound = 7, .step = 1 }, -1);
}

/* A part of a cache, as a leaf. */
struct weir_node *gen_cache_leaf(int cache, unsigned ndim, const int64_t *shape)
{
	enum weir_dtype dtype = cache ? WEIR_DTYPE_F16 : WEIR_DTYPE_F32;
	uint64_t size = cache ? 2 : 4, n = 1, at;

	for (unsigned i = 0; i < ndim; i++)
		n *= (uint64_t)shape[i];
	at = gen_below((CACHE_BYTES - n * size) / 16) * 16;
	return gen_add(leaf_at(r->caches[cache], at, dtype, ndim, shape, NULL),
		       r->cache_known[cache], cache);
}

struct weir_node *gen_input(enum weir_dtype dtype, unsigned ndim,
			    const int64_t *shape)
{
	struct known k = { .bound = 8, .step = 1 };
	struct weir_node *node;

	if (r->n_inputs == RANDOM_INPUTS)
		return gen_weights(dtype, ndim, shape);
	node = gen_add(weir_graph_input(r->g, NULL, dtype, ndim, shape), k, -1);
	r->input[r->n_inputs++] = node;
	return node;
}

/* A node that may be a source, with this dtype; NULL: none was found. */
struct weir_node *gen_pick(uint32_t dtype)
{
	for (int tries = 0; tries < 12; tries++) {
		/* Mostly recent ones, so that others die. */
		size_t back = gen_below(3) ? gen_below(gen_below(2) ? 2 : 12)
					   : gen_below(r->n);
		struct weir_node *node;

		if (back >= r->n)
			continue;
		node = weir_graph_node(r->g, r->n - 1 - back);
		if (weir_node_tensor(node)->dtype == dtype &&
		    gen_count(node) <= GEN_MOST && gen_useful(gen_known(node)))
			return node;
	}
	return NULL;
}

void random_graph_make(struct random_graph *made, uint64_t seed, size_t nodes)
{
	const int64_t shape[] = { 4, 8 };

	r = made;
	state = seed;
	weir_graph_reset(r->g);
	r->n = 0;
	r->n_inputs = 0;
	r->n_later = 0;
	for (int c = 0; c < RANDOM_CACHES; c++)
		r->cache_known[c] = (struct known){ .bound = 8, .step = 1 };
	random_graph_caches(r);
	gen_input(WEIR_DTYPE_F32, 2, shape);
	while (r->n < nodes)
		gen_operation();
	gen_marks(nodes);
}
