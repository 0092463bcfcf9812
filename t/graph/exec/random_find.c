/* SPDX-License-Identifier: MIT */
/* Sources for the operations of random graphs. */
#include <string.h>

#include "dtypes.h"
#include "random_gen.h"

int64_t one_of(const int64_t *of, size_t n)
{
	return of[gen_below(n)];
}

int64_t small_dim(void)
{
	static const int64_t dims[] = { 1, 2, 3, 4, 6, 8 };

	return one_of(dims, 6);
}

enum weir_dtype float_dtype(void)
{
	static const int64_t dtypes[] = { F32, F32, F32, F16, BF16 };

	return (enum weir_dtype)one_of(dtypes, 5);
}

const struct weir_tensor *tensor(const struct weir_node *node)
{
	return weir_node_tensor(node);
}

int64_t back(const struct weir_node *node, uint32_t i)
{
	const struct weir_tensor *t = tensor(node);

	return i < t->ndim ? t->shape[t->ndim - 1 - i] : 1;
}

static bool is_contiguous(const struct weir_node *node)
{
	const struct weir_tensor *t = tensor(node);
	struct weir_tensor whole;

	return weir_tensor_init(&whole, (enum weir_dtype)t->dtype, t->ndim,
				t->shape) == 0 &&
	       !memcmp(whole.stride, t->stride, t->ndim * sizeof(*t->stride));
}

struct weir_node *cont(struct weir_node *node)
{
	struct known k = gen_known(node);

	return gen_add(weir_cont(gen_graph(), node), k, -1);
}

struct weir_node *whole(struct weir_node *node)
{
	return is_contiguous(node) ? node : cont(node);
}

struct weir_node *with_rows(struct weir_node *node)
{
	const struct weir_tensor *t = tensor(node);

	if (!t->ndim || t->shape[t->ndim - 1] <= 1 ||
	    t->stride[t->ndim - 1] == (t->dtype == F32 ? 4 : 2))
		return node;
	return cont(node);
}

struct weir_node *of_shape(enum weir_dtype dtype, unsigned ndim,
			   const int64_t *shape)
{
	struct weir_node *node;
	int64_t n = 1, flat;

	for (unsigned i = 0; i < ndim; i++)
		n *= shape[i];
	for (int tries = 0; tries < 4; tries++) {
		node = gen_pick(dtype);
		if (node && tensor(node)->ndim == ndim &&
		    !memcmp(tensor(node)->shape, shape, ndim * sizeof(*shape)))
			return node;
		if (!node || tries < 2 || dtype > WEIR_DTYPE_GGML ||
		    gen_count(node) < n || !is_contiguous(node))
			continue;
		flat = gen_count(node);
		node = gen_view(weir_reshape(gen_graph(), node, 1, &flat),
				node);
		flat = (int64_t)gen_below((uint64_t)(flat - n) + 1);
		node = gen_view(weir_slice(gen_graph(), node, 0, flat, n),
				node);
		return gen_view(weir_reshape(gen_graph(), node, ndim, shape),
				node);
	}
	if (!gen_below(6) && (dtype == F32 || dtype == F16) && n <= 256)
		return gen_cache_leaf(dtype == F16, ndim, shape);
	return gen_below(8) || dtype != F32 ? gen_weights(dtype, ndim, shape)
					    : gen_input(dtype, ndim, shape);
}

struct weir_node *of_dims(enum weir_dtype dtype, unsigned ndim, int64_t a,
			  int64_t b, int64_t c, int64_t d)
{
	const int64_t shape[] = { a, b, c, d };

	return of_shape(dtype, ndim, shape);
}

struct weir_node *any(enum weir_dtype dtype)
{
	struct weir_node *node = gen_pick(dtype);
	unsigned ndim = (unsigned)gen_below(4) + 1;

	if (node)
		return node;
	return of_dims(dtype, ndim, ndim < 4 ? small_dim() : 2, small_dim(),
		       small_dim(), small_dim());
}
