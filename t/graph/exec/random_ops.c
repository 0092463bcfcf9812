/* SPDX-License-Identifier: MIT */
/* The operations of random graphs, and what is known of their results. */
#include <math.h>
#include <string.h>

#include "dtypes.h"
#include "random_gen.h"

/* Relative error of functions such as exp, and of sums in another order. */
#define ROUGH 0x1p-16

/*
 * Register a result of @dtype: it can be exact if @k.step is not 0, and is
 * otherwise as inaccurate as @rough says, relatively.
 */
static void result(struct weir_node *node, struct known k,
		   enum weir_dtype dtype, double rough)
{
	if (k.step == 0)
		k.err += k.bound * rough;
	k = gen_round(k, F32);
	gen_add(node, gen_round(k, dtype), -1);
}

static struct known sum_of(struct known a, struct known b)
{
	return (struct known){ .bound = a.bound + b.bound,
			       .step = fmin(a.step, b.step),
			       .err = a.err + b.err };
}

static struct known product_of(struct known a, struct known b)
{
	return (struct known){ .bound = a.bound * b.bound,
			       .step = a.step * b.step,
			       .err = a.err * b.bound + b.err * a.bound +
				      a.err * b.err };
}

/* A shape whose dimensions divide those of @node. */
static struct weir_node *divisor_shape(struct weir_node *node)
{
	const struct weir_tensor *t = tensor(node);
	unsigned skip = (unsigned)gen_below(t->ndim + 1);
	int64_t shape[WEIR_MAX_DIMS];

	for (uint32_t i = 0; i < t->ndim; i++) {
		shape[i] = t->shape[i];
		if (!gen_below(4))
			shape[i] = shape[i] % 2 ? 1 : shape[i] / 2;
	}
	if (gen_below(2))
		skip = 0;
	return of_shape(F32, t->ndim - skip, shape + skip);
}

static void make_repeated(void)
{
	enum weir_dtype dtype = float_dtype();
	struct weir_node *a = any(dtype), *b = divisor_shape(a);
	struct known x = gen_known(a), y = gen_known(b), k = product_of(x, y);

	if (gen_below(3) || k.bound > 4096)
		result(gen_below(2) ? weir_add(gen_graph(), a, b)
				    : weir_sub(gen_graph(), a, b),
		       sum_of(x, y), dtype, ROUGH);
	else
		result(weir_mul(gen_graph(), a, b), k, dtype, ROUGH);
}

/* Weights are integers from -8 to 8, and not 0. */
static void make_quotient(void)
{
	struct weir_node *a = any(F32);
	const struct weir_tensor *t = tensor(a);
	struct weir_node *b = gen_weights(F32, t->ndim, t->shape);
	struct known k = gen_known(a);

	k.step = 0;
	result(weir_div(gen_graph(), a, b), k, F32, ROUGH);
}

static void make_scale(void)
{
	static const int64_t factors[] = { 4, 2, 1, -1, -2, -4 }; /* halves */
	enum weir_dtype dtype = float_dtype();
	struct weir_node *a = any(dtype);
	struct known k = gen_known(a);
	float by = (float)one_of(factors, 6) / 4, more = (float)gen_below(3);

	k.bound = k.bound * fabs((double)by) + (double)more;
	k.step = fmin(k.step / 4, 1);
	result(weir_scale(gen_graph(), a, by, more), k, dtype, ROUGH);
}

static struct weir_node *limited(struct weir_graph *g, struct weir_node *a)
{
	return weir_clamp(g, a, -2, 3);
}

/* Results that are exact if the source is. */
static void make_limited(void)
{
	enum weir_dtype dtype = float_dtype();
	struct weir_node *a = any(dtype);
	struct known k = gen_known(a);

	if (gen_below(2)) {
		k.step = fmin(k.step, 1);
		result(limited(gen_graph(), a), k, dtype, ROUGH);
	} else {
		result(weir_relu(gen_graph(), a), k, dtype, ROUGH);
	}
}

/* Slopes of at most 1, and results of at most 1; exp has a bound, so. */
static void make_bounded(void)
{
	enum weir_dtype dtype = float_dtype();
	struct weir_node *a = any(dtype);
	struct known k = gen_known(a);

	k.step = 0;
	if (gen_below(3)) {
		k.bound = 1;
		result(gen_below(2) ? weir_tanh(gen_graph(), a)
				    : weir_sigmoid(gen_graph(), a),
		       k, dtype, ROUGH);
		return;
	}
	if (k.bound > 4)
		return;
	k.err *= exp(k.bound + k.err);
	k.bound = exp(k.bound);
	result(weir_exp(gen_graph(), a), k, dtype, ROUGH);
}

/* Of at least 1: the slope is at most 1/2. */
static void make_root(void)
{
	struct weir_node *a = any(F32);
	struct known k = gen_known(a);

	if (k.bound > 64 || k.step == 0)
		return;
	k = product_of(k, k);
	a = gen_add(weir_sqr(gen_graph(), a), gen_round(k, F32), -1);
	k.bound += 1;
	k.step = fmin(k.step, 1);
	a = gen_add(weir_scale(gen_graph(), a, 1, 1), gen_round(k, F32), -1);
	k = gen_known(a);
	k.step = 0;
	result(weir_sqrt(gen_graph(), a), k, F32, ROUGH);
}

/* Their slopes are at most 1.13. */
static void make_curve(void)
{
	enum weir_dtype dtype = float_dtype();
	struct weir_node *a = any(dtype);
	struct known k = gen_known(a);

	if (!gen_below(3) && k.bound <= 64) {
		result(weir_sqr(gen_graph(), a), product_of(k, k), dtype,
		       ROUGH);
		return;
	}
	k.step = 0;
	k.err *= 1.13;
	result(gen_below(2)   ? weir_silu(gen_graph(), a)
	       : gen_below(2) ? weir_gelu(gen_graph(), a)
			      : weir_gelu_erf(gen_graph(), a),
	       k, dtype, ROUGH);
}

static void make_swiglu(void)
{
	enum weir_dtype dtype = float_dtype();
	struct weir_node *gate = any(dtype), *up;
	struct known k;

	up = of_shape(dtype, tensor(gate)->ndim, tensor(gate)->shape);
	k = gen_known(gate);
	k.err *= 1.13;
	k = product_of(k, gen_known(up));
	if (k.bound > 4096)
		return; /* F16 ends at 65504 */
	k.step = 0;
	result(weir_swiglu(gen_graph(), gate, up), k, dtype, ROUGH);
}

/* With eps 1 a row changes by at most what its source does, as a vector. */
static void make_norm(void)
{
	struct weir_node *a = with_rows(any(F32));
	struct known k = gen_known(a);
	double c = sqrt((double)back(a, 0));

	if (!tensor(a)->ndim)
		return;
	k.bound = fmin(2 * k.bound, c);
	k.step = 0;
	k.err *= 2 * c;
	result(gen_below(2) ? weir_rms_norm(gen_graph(), a, 1)
			    : weir_norm(gen_graph(), a, 1),
	       k, F32, ROUGH);
}

/* eps is 1: the slope is at most 1. */
static void make_l2_norm(void)
{
	struct weir_node *a = with_rows(any(F32));
	struct known k = gen_known(a);

	if (!tensor(a)->ndim)
		return;
	k.err *= 2 * sqrt((double)back(a, 0));
	k.bound = 1;
	k.step = 0;
	result(weir_l2_norm(gen_graph(), a, 1), k, F32, ROUGH);
}

static void make_group_norm(void)
{
	int64_t channels = 2 * small_dim();
	struct weir_node *a =
		whole(of_dims(F32, 3, channels, small_dim(), small_dim(), 1));
	struct known k = gen_known(a);
	double c = sqrt((double)gen_count(a));

	k.bound = fmin(2 * k.bound, c);
	k.step = 0;
	k.err *= 2 * c;
	result(weir_group_norm(gen_graph(), a, gen_below(2) ? 1 : 2, 1), k, F32,
	       ROUGH);
}

/* A sink for each head of @of; what it adds to the mask's @m. */
static struct weir_node *sinks_of(struct weir_node *of, struct known *m)
{
	struct weir_node *sinks = whole(of_dims(F32, 1, back(of, 2), 1, 1, 1));
	struct known k = gen_known(sinks);

	m->err += k.err;
	m->bound += k.bound;
	return sinks;
}

static void make_soft_max(void)
{
	struct weir_node *a = whole(any(F32)), *mask = NULL, *sinks;
	struct known k = gen_known(a), m = { .bound = 0 };

	if (!tensor(a)->ndim)
		return;
	if (tensor(a)->ndim >= 2 && gen_below(2)) {
		mask = with_rows(of_dims(gen_below(2) ? F16 : F32, 2,
					 back(a, 1), back(a, 0), 1, 1));
		m = gen_known(mask);
	}
	sinks = gen_below(3) ? NULL : sinks_of(a, &m);
	k.err = 0.5 * k.err + 2 * m.err + (k.bound + m.bound) * 0x1p-20;
	k.bound = 1;
	k.step = 0;
	result(weir_soft_max_sinks(gen_graph(), a, mask, sinks, 0.25f, 0), k,
	       F32, ROUGH);
}

static void make_rope(void)
{
	struct weir_op_rope p = { .mode = (uint32_t)gen_below(2) };
	enum weir_dtype dtype = gen_below(2) ? F32 : F16;
	struct weir_node *a, *pos;
	struct known k;

	a = with_rows(of_dims(dtype, 3, small_dim(), small_dim(),
			      2 << gen_below(3), 1));
	pos = gen_weights(I32, 1, tensor(a)->shape);
	k = gen_known(a);
	k.bound *= 1.42;
	k.err *= 1.42;
	k.step = 0;
	result(weir_rope(gen_graph(), a, pos, NULL, &p), k, dtype, ROUGH);
}

/*
 * What converting @b to the precision of @dtype adds: if it is quantised, to
 * bytes, or to BF16.
 */
static double lost(struct known b, enum weir_dtype dtype)
{
	if (dtype > WEIR_DTYPE_GGML)
		return b.bound / 250;
	return gen_round(b, dtype).err - b.err;
}

/* Numbers from 0 to 7, which some graphs have as inputs. */
static struct weir_node *small_numbers(unsigned ndim, const int64_t *shape)
{
	return gen_below(4) ? gen_weights(I32, ndim, shape)
			    : gen_input(I32, ndim, shape);
}

/* The sources of attention, and the sizes that they share. */
struct attention {
	struct weir_op_attention params;
	struct weir_node *q, *k, *v, *mask, *sinks, *lengths, *pages;
	int64_t sequences, tokens, positions;
	enum weir_dtype dtype;
};

/* Caches of several sequences, which are longer than any length. */
static void attention_lengths(struct attention *a)
{
	int64_t pages[2] = { a->sequences };

	a->positions = 7 + small_dim();
	a->lengths = small_numbers(1, &a->sequences);
	if (gen_below(2))
		return;
	a->params.page = 1 + (uint32_t)gen_below(2);
	a->positions = 8 * a->params.page;
	pages[1] = (7 + a->params.page - 1) / a->params.page;
	a->pages = small_numbers(2, pages);
}

static void attention_sources(struct attention *a)
{
	int64_t hk = 1 + (int64_t)gen_below(2), d = 4 << gen_below(2);
	int64_t h = hk << gen_below(2), n = a->sequences, s = a->positions;

	a->q = a->lengths ? of_dims(F32, 4, n, h, a->tokens, d)
			  : of_dims(F32, 3, h, a->tokens, d, 1);
	a->q = with_rows(a->q);
	if (a->pages || !a->lengths) {
		a->k = of_dims(a->dtype, 3, hk, s, d, 1);
		a->v = of_dims(a->dtype, 3, hk, s, small_dim(), 1);
	} else {
		a->k = of_dims(a->dtype, 4, n, hk, s, d);
		a->v = of_dims(a->dtype, 4, n, hk, s, small_dim());
	}
	a->k = with_rows(a->k);
	a->v = with_rows(a->v);
}

static struct weir_node *attention_node(const struct attention *a)
{
	if (a->lengths)
		return weir_attention_lengths(gen_graph(), a->q, a->k, a->v,
					      a->lengths, a->pages, a->sinks,
					      &a->params);
	return weir_attention_sinks(gen_graph(), a->q, a->k, a->v, a->mask,
				    a->sinks, &a->params);
}

/* Without lengths there may be a mask, and there is one sequence. */
static void make_attention(void)
{
	struct attention a = { .sequences = 1,
			       .tokens = small_dim(),
			       .positions = small_dim(),
			       .dtype = gen_below(2) ? F32 : F16 };
	struct known q, k, v, w, m = { .bound = 0 };

	a.params.causal = (uint32_t)gen_below(2);
	if (a.params.causal && gen_below(2))
		a.params.window = 1 + (uint32_t)gen_below(6);
	if (gen_below(2)) {
		a.sequences = 1 + (int64_t)gen_below(2);
		attention_lengths(&a);
	}
	attention_sources(&a);
	if (!a.lengths && gen_below(2)) {
		a.mask =
			with_rows(of_dims(F16, 2, a.tokens, a.positions, 1, 1));
		m = gen_known(a.mask);
	}
	a.sinks = gen_below(3) ? NULL : sinks_of(a.q, &m);
	q = gen_known(a.q);
	k = gen_known(a.k);
	v = gen_known(a.v);
	q.err += lost(q, a.dtype);
	w = product_of(q, k);
	w.err = (w.err + w.bound * ROUGH) * sqrt((double)back(a.q, 0)) + m.err;
	v.err += 2 * v.bound * fmin(1, w.err) + 2 * lost(v, a.dtype) +
		 2 * v.bound * (a.dtype == F16 ? 0x1p-10 : 0);
	v.step = 0;
	result(attention_node(&a), v, F32, ROUGH);
}

/* A dtype that weights with rows of @k elements may have. */
static enum weir_dtype weight_dtype(int64_t k)
{
	static const int64_t dtypes[] = { F32,  F16,
					  BF16, WEIR_DTYPE_Q8_0,
					  F32,  WEIR_DTYPE_Q4_0 };
	struct weir_dtype_info info = { .size = sizeof(info) };
	enum weir_dtype dtype;

	if (k % 32)
		return (enum weir_dtype)one_of(dtypes, 3);
	if (gen_below(2))
		return (enum weir_dtype)one_of(dtypes, 6);
	do {
		dtype = weights[gen_below(WEIGHTS)];
		if (weir_dtype_info(dtype, &info) < 0)
			return F32;
	} while (k % info.block);
	return dtype;
}

/* Elements of a row of weights: whole blocks of quantised ones, mostly. */
static int64_t weight_row(void)
{
	static const int64_t blocks[] = { 32, 64, 128, 256, 256 };

	return gen_below(3) ? one_of(blocks, 5) : small_dim();
}

/* Rows of weights: few if they are long. */
static int64_t weight_rows(int64_t k)
{
	return k > 64 ? 1 + (int64_t)gen_below(2) : small_dim();
}

/* The greatest multiple of the step. */
static double bits_of(struct known k)
{
	return k.step > 0 ? k.bound / k.step : 0x1p24;
}

/*
 * With WEIR_PRECISION_FAST tiles have numbers as two BF16, and lack the product
 * of the second ones. With others only bytes are less precise than b.
 */
static void product(struct weir_node *node, const struct weir_node *a,
		    const struct weir_node *b, struct known y, struct known x,
		    enum weir_precision precision)
{
	enum weir_dtype dtype = (enum weir_dtype)tensor(a)->dtype;
	bool is_fast = precision == WEIR_PRECISION_FAST;
	double n = (double)back(b, 0);
	struct known k;

	if (is_fast ||
	    (dtype > WEIR_DTYPE_GGML && precision == WEIR_PRECISION_INVARIANT))
		y.err += lost(y, dtype);
	k = product_of(x, y);
	if (dtype > WEIR_DTYPE_GGML)
		k.step = 0;
	if (is_fast && (fmin(bits_of(x), bits_of(y)) > 0x1p8 ||
			fmax(bits_of(x), bits_of(y)) > 0x1p16)) {
		k.err += k.bound * 0x1p-15;
		k.step = 0;
	}
	k.bound *= n;
	k.err *= n;
	result(node, k, F32, ROUGH);
}

static enum weir_precision any_precision(void)
{
	return (enum weir_precision)gen_below(3);
}

static void make_mul_mat(void)
{
	enum weir_precision precision = any_precision();
	struct weir_node *b, *a;
	enum weir_dtype dtype;
	int64_t k;

	if (gen_below(4)) {
		b = any(float_dtype());
	} else {
		k = weight_row();
		b = of_dims(F32, 2, weight_rows(k), k, 1, 1);
	}
	dtype = weight_dtype(back(b, 0));
	if (tensor(b)->ndim < 2)
		return;
	if (tensor(b)->ndim > 2 && gen_below(2))
		a = of_dims(dtype, 3, back(b, 2), small_dim(), back(b, 0), 1);
	else
		a = of_dims(dtype, 2, small_dim(), back(b, 0), 1, 1);
	if (dtype < WEIR_DTYPE_GGML)
		a = with_rows(a);
	product(weir_mul_mat_precision(gen_graph(), a, b, precision), a, b,
		gen_known(b), gen_known(a), precision);
}

static void make_mul_mat_id(void)
{
	enum weir_precision precision = any_precision();
	int64_t k = weight_row(), t = weight_rows(k);
	int64_t n = 1 + (int64_t)gen_below(3);
	const int64_t as_shape[] = { 8, weight_rows(k), k },
		      ids_shape[] = { t, n };
	struct weir_node *as, *b, *ids;

	as = gen_weights(weight_dtype(k), 3, as_shape);
	b = of_dims(F32, 3, t, gen_below(2) ? 1 : n, k, 1);
	ids = gen_below(4) ? gen_weights(I32, 2, ids_shape)
			   : gen_input(I32, 2, ids_shape);
	product(weir_mul_mat_id_precision(gen_graph(), as, b, ids, precision),
		as, b, gen_known(b), gen_known(as), precision);
}

static void make_get_rows(void)
{
	int64_t c = weight_row(), n = weight_rows(c);
	enum weir_dtype dtype = weight_dtype(c);
	struct weir_node *a = of_dims(dtype, 2, 8, c, 1, 1), *ids;

	if (dtype < WEIR_DTYPE_GGML)
		a = with_rows(a);
	ids = gen_below(4) ? gen_weights(I32, 1, &n) : gen_input(I32, 1, &n);
	result(weir_get_rows(gen_graph(), a, ids), gen_known(a), F32, 0x1p-20);
}

/* Not stored in cache @c: what is written may not overlap what is read. */
static struct weir_node *outside(struct weir_node *node, int c)
{
	return gen_cache(node) == c ? cont(node) : node;
}

static void make_set_rows(void)
{
	int c = (int)gen_below(RANDOM_CACHES);
	int64_t n = 1 + (int64_t)gen_below(8), row = small_dim();
	const int64_t shape[] = { 8, row + small_dim() };
	struct weir_node *dst, *b, *ids, *view;

	b = outside(
		with_rows(of_dims(gen_below(2) ? F32 : F16, 2, n, row, 1, 1)),
		c);
	if (gen_known(b).err > 1e-3 || gen_known(b).bound > 256)
		return;
	ids = gen_order(gen_below(2) ? I32 : I64, n);
	dst = gen_cache_leaf(c, 2, shape);
	view = gen_view(
		weir_slice(gen_graph(), dst, 1,
			   (int64_t)gen_below((uint64_t)(shape[1] - row) + 1),
			   row),
		dst);
	gen_write(c, gen_known(b));
	gen_add(weir_set_rows(gen_graph(), view, b, ids), gen_known(dst), c);
}

static void make_copy(void)
{
	int c = (int)gen_below(RANDOM_CACHES);
	struct weir_node *a = outside(any(float_dtype()), c), *dst;
	int64_t n = gen_count(a), shape[] = { n, 2 };

	if (gen_known(a).err > 1e-3 || gen_known(a).bound > 256 || n > 200)
		return;
	if (gen_below(2)) {
		dst = gen_cache_leaf(c, 1, shape);
	} else {
		dst = gen_cache_leaf(c, 2, shape);
		dst = gen_view(weir_transpose(gen_graph(), dst), dst);
		dst = gen_view(weir_slice(gen_graph(), dst, 0, 1, 1), dst);
	}
	gen_write(c, gen_known(a));
	gen_add(weir_copy(gen_graph(), a, dst), gen_known(dst), c);
}

static void make_cast(void)
{
	enum weir_dtype to = float_dtype();
	int64_t c = weight_row(), shape[] = { weight_rows(c), c };
	struct weir_node *a = gen_below(3)
				      ? any(float_dtype())
				      : gen_weights(weight_dtype(c), 2, shape);
	struct known k = gen_known(a);

	gen_add(weir_cast(gen_graph(), a, to), gen_round(k, to), -1);
}

static void make_concat(void)
{
	enum weir_dtype dtype = float_dtype();
	struct weir_node *a = any(dtype), *b;
	const struct weir_tensor *t = tensor(a);
	int64_t shape[WEIR_MAX_DIMS];
	struct known x, y;
	unsigned dim;

	if (!t->ndim || gen_count(a) > GEN_MOST / 2)
		return;
	dim = (unsigned)gen_below(t->ndim);
	memcpy(shape, t->shape, sizeof(shape));
	shape[dim] = small_dim();
	b = of_shape(dtype, t->ndim, shape);
	x = gen_known(a);
	y = gen_known(b);
	gen_add(weir_concat(gen_graph(), a, b, dim),
		(struct known){ .bound = fmax(x.bound, y.bound),
				.step = fmin(x.step, y.step),
				.err = fmax(x.err, y.err) },
		-1);
}

static void make_repeat(void)
{
	struct weir_node *a = any(float_dtype());
	const struct weir_tensor *t = tensor(a);
	int64_t shape[WEIR_MAX_DIMS];
	struct known k = gen_known(a);

	if (gen_count(a) > GEN_MOST / 4)
		return;
	memcpy(shape, t->shape, sizeof(shape));
	for (uint32_t i = 0; i < t->ndim; i++)
		if (!gen_below(3))
			shape[i] *= 2;
	gen_add(weir_repeat(gen_graph(), a, t->ndim, shape), k, -1);
}

static void make_sum(void)
{
	struct weir_node *a = any(F32);
	struct known k = gen_known(a);
	bool all = !tensor(a)->ndim || gen_below(2);
	double n = (double)(all ? gen_count(a) : back(a, 0));

	k.bound *= n;
	k.err *= n;
	result(all ? weir_sum(gen_graph(), a) : weir_sum_rows(gen_graph(), a),
	       k, F32, ROUGH);
}

/* Only of exact numbers: others could be in another order. */
static void make_choice(void)
{
	struct weir_node *a = with_rows(any(F32));
	struct known k = gen_known(a);

	if (k.err > 0 || !tensor(a)->ndim || back(a, 0) < 1)
		return;
	k = (struct known){ .bound = (double)back(a, 0), .step = 1 };
	if (!gen_below(3))
		gen_add(weir_argmax(gen_graph(), a), k, -1);
	else if (gen_below(2))
		gen_add(weir_top_k(
				gen_graph(), a,
				1 + (int64_t)gen_below((uint64_t)back(a, 0))),
			k, -1);
	else
		gen_add(weir_argsort(gen_graph(), a,
				     gen_below(2) ? WEIR_SORT_ASCENDING
						  : WEIR_SORT_DESCENDING),
			k, -1);
}

/* x - 16 * floor((x + 8) / 16), in [-8, 8): of exact numbers exact. */
static int fold(void *arg, const struct weir_operand *dst,
		const struct weir_operand *src, unsigned n, unsigned part,
		unsigned parts)
{
	const float *a = src->data;
	float *to = dst->data;
	int64_t count = 1;

	(void)arg, (void)n;
	for (uint32_t i = 0; i < dst->ndim; i++)
		count *= dst->shape[i];
	for (int64_t i = part; i < count; i += parts)
		to[i] = a[i] - 16 * floorf((a[i] + 8) / 16);
	return 0;
}

static void make_call(void)
{
	struct weir_node *a = whole(any(F32));
	struct known k = gen_known(a);
	struct weir_op_call p = { .fn = fold,
				  .dtype = F32,
				  .ndim = tensor(a)->ndim };

	if (k.err > 0 || k.step == 0)
		return;
	memcpy(p.shape, tensor(a)->shape, sizeof(p.shape));
	k.bound = 8;
	gen_add(weir_call(gen_graph(), &p, &a, 1), k, -1);
}

static void make_view(void)
{
	struct weir_node *a = any(float_dtype());
	const struct weir_tensor *t = tensor(a);
	int64_t dims[WEIR_MAX_DIMS];
	unsigned dim;

	if (!t->ndim)
		return;
	if (gen_below(2)) {
		for (uint32_t i = 0; i < t->ndim; i++) {
			unsigned k = (unsigned)gen_below(i + 1);

			dims[i] = dims[k];
			dims[k] = i;
		}
		gen_view(weir_permute(gen_graph(), a, t->ndim, dims), a);
		return;
	}
	dim = (unsigned)gen_below(t->ndim);
	dims[0] = (int64_t)gen_below((uint64_t)t->shape[dim] + 1);
	dims[1] = (int64_t)gen_below((uint64_t)(t->shape[dim] - dims[0]) + 1);
	if (dims[1])
		gen_view(weir_slice(gen_graph(), a, dim, dims[0], dims[1]), a);
}

void gen_operation(void)
{
	static void (*const make[])(void) = {
		make_repeated, make_repeated,   make_repeated,   make_quotient,
		make_scale,    make_curve,      make_swiglu,     make_norm,
		make_soft_max, make_rope,       make_attention,  make_mul_mat,
		make_mul_mat,  make_mul_mat_id, make_get_rows,   make_set_rows,
		make_copy,     make_cast,       make_concat,     make_repeat,
		make_sum,      make_choice,     make_call,       make_call,
		make_view,     make_view,       make_limited,    make_bounded,
		make_root,     make_l2_norm,    make_group_norm,
	};

	make[gen_below(sizeof(make) / sizeof(*make))]();
}

static bool is_computed(const struct weir_node *node)
{
	struct weir_node_info info = { .size = sizeof(info) };

	return weir_node_info(node, &info) == 0 && info.op > WEIR_OP_VIEW &&
	       gen_cache(node) < 0;
}

/* Outputs may be views, and may be stored in caches. */
void gen_marks(size_t nodes)
{
	struct weir_graph *g = gen_graph();
	size_t n = weir_graph_count(g);
	struct weir_node *node;

	for (size_t i = 0; i < 3 + nodes / 40; i++) {
		node = weir_graph_node(g, gen_below(n));
		if (is_computed(node) || !gen_below(4))
			weir_graph_output(g, node);
		node = weir_graph_node(g, gen_below(n));
		if (is_computed(node) || (gen_cache(node) < 0 && !gen_below(4)))
			weir_graph_observe(g, node);
	}
	weir_graph_output(g, weir_graph_node(g, n - 1));
}
