/* SPDX-License-Identifier: MIT */
/*
 * The rules of shapes: what fits together, and the shape of the result.
 * weir_ops(3) says them in words. Dimensions are compared from the last one;
 * one that a tensor does not have is 1.
 */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "graph/ops.h"
#include "mem/dtype.h"

/* Source @i, which the operation requires. */
static const struct weir_tensor *source(const struct weir__new_node *m,
					unsigned i)
{
	return &m->src[i]->t;
}

/* Source @i; NULL: it was left out. */
static const struct weir_tensor *optional(const struct weir__new_node *m,
					  unsigned i)
{
	return i < m->n_src && m->src[i] ? &m->src[i]->t : NULL;
}

/* True if @n is a multiple of @of. 0 is a multiple of 0 only. */
static bool multiple(int64_t n, int64_t of)
{
	return of ? n % of == 0 : n == 0;
}

/*
 * True if the dimensions of @a, without the last @skip ones, are multiples of
 * those of @b.
 */
static bool outer_multiples(const struct weir_tensor *a,
			    const struct weir_tensor *b, unsigned skip)
{
	for (unsigned i = skip; i < WEIR_MAX_DIMS; i++)
		if (!multiple(weir__dim_back(a, i), weir__dim_back(b, i)))
			return false;
	return true;
}

/*
 * True if the dimensions of @a without the last @skip_a ones are those of @b
 * without the last @skip_b ones.
 */
static bool outer_equal(const struct weir_tensor *a, unsigned skip_a,
			const struct weir_tensor *b, unsigned skip_b)
{
	for (unsigned i = 0; i < WEIR_MAX_DIMS; i++)
		if (weir__dim_back(a, i + skip_a) !=
		    weir__dim_back(b, i + skip_b))
			return false;
	return true;
}

static int result_like(struct weir__new_node *m, const struct weir_tensor *t,
		       uint32_t dtype)
{
	return weir__op_result(m, dtype, t->ndim, t->shape);
}

int weir__rule_same(struct weir__new_node *m)
{
	const struct weir_tensor *a = source(m, 0);

	return result_like(m, a, a->dtype);
}

int weir__rule_scale(struct weir__new_node *m)
{
	const struct weir_op_scale *p = m->params;

	if (!isfinite(p->scale) || !isfinite(p->bias))
		return weir__op_refuse(m, "scale %g and bias %g must be finite",
				       (double)p->scale, (double)p->bias);
	return weir__rule_same(m);
}

int weir__rule_clamp(struct weir__new_node *m)
{
	const struct weir_op_clamp *p = m->params;

	if (!(p->min <= p->max))
		return weir__op_refuse(m, "min %g must be at most max %g",
				       (double)p->min, (double)p->max);
	return weir__rule_same(m);
}

int weir__rule_repeated(struct weir__new_node *m)
{
	if (!outer_multiples(source(m, 0), source(m, 1), 0))
		return weir__op_refuse(
			m, "dimensions of a are no multiples of those of b");
	return weir__rule_same(m);
}

int weir__rule_swiglu(struct weir__new_node *m)
{
	const struct weir_tensor *gate = source(m, 0), *up = source(m, 1);

	if (gate->dtype != up->dtype || !outer_equal(gate, 0, up, 0) ||
	    gate->ndim != up->ndim)
		return weir__op_refuse(m, "gate and up differ");
	return weir__rule_same(m);
}

static int check_eps(const struct weir__new_node *m, float eps)
{
	return eps >= 0 && isfinite(eps)
		       ? 0
		       : weir__op_refuse(m, "eps %g must be finite, 0 or more",
					 (double)eps);
}

int weir__rule_norm(struct weir__new_node *m)
{
	const struct weir_op_norm *p = m->params;
	int r = check_eps(m, p->eps);

	return r < 0 ? r : weir__rule_same(m);
}

/* a [.., C, H, W] */
int weir__rule_group_norm(struct weir__new_node *m)
{
	const struct weir_op_group_norm *p = m->params;
	int64_t channels = weir__dim_back(source(m, 0), 2);
	int r = check_eps(m, p->eps);

	if (r < 0)
		return r;
	if (!p->groups || channels % p->groups)
		return weir__op_refuse(m,
				       "%lld channels are not whole groups: %u",
				       (long long)channels, p->groups);
	return weir__rule_same(m);
}

static int check_precision(const struct weir__new_node *m, uint32_t precision)
{
	return precision <= WEIR_PRECISION_F32
		       ? 0
		       : weir__op_refuse(
				 m, "precision %u, the last one is %u (F32)",
				 precision, (unsigned)WEIR_PRECISION_F32);
}

static int product_params(const struct weir__new_node *m)
{
	const struct weir_op_mul_mat *p = m->params;

	return check_precision(m, p->precision);
}

/* a [.., M, K], b [.., N, K] -> [.., N, M] */
int weir__rule_mul_mat(struct weir__new_node *m)
{
	const struct weir_tensor *a = source(m, 0), *b = source(m, 1);
	int64_t shape[WEIR_MAX_DIMS];
	int r = product_params(m);

	if (r < 0)
		return r;
	if (weir__dim_back(a, 0) != weir__dim_back(b, 0))
		return weir__op_refuse(m, "rows of %lld and %lld elements",
				       (long long)weir__dim_back(a, 0),
				       (long long)weir__dim_back(b, 0));
	if (!outer_multiples(b, a, 2))
		return weir__op_refuse(
			m,
			"outer dimensions of b are no multiples of those of a");
	memcpy(shape, b->shape, sizeof(shape));
	shape[b->ndim - 1] = weir__dim_back(a, 1);
	return weir__op_result(m, WEIR_DTYPE_F32, b->ndim, shape);
}

/* as [E, M, K], b [T, n or 1, K], ids [T, n] -> [T, n, M] */
int weir__rule_mul_mat_id(struct weir__new_node *m)
{
	const struct weir_tensor *as = source(m, 0), *b = source(m, 1);
	const struct weir_tensor *ids = source(m, 2);
	int64_t shape[3];
	int r = product_params(m);

	if (r < 0)
		return r;
	if (as->ndim != 3 || b->ndim != 3 || ids->ndim != 2)
		return weir__op_refuse(
			m, "%u, %u and %u dimensions, not 3, 3 and 2", as->ndim,
			b->ndim, ids->ndim);
	if (as->shape[2] != b->shape[2])
		return weir__op_refuse(m, "rows of %lld and %lld elements",
				       (long long)as->shape[2],
				       (long long)b->shape[2]);
	if (ids->shape[0] != b->shape[0])
		return weir__op_refuse(m, "ids for %lld tokens, b has %lld",
				       (long long)ids->shape[0],
				       (long long)b->shape[0]);
	if (!multiple(ids->shape[1], b->shape[1]))
		return weir__op_refuse(
			m, "%lld ids of a token, no multiple of %lld rows",
			(long long)ids->shape[1], (long long)b->shape[1]);
	shape[0] = ids->shape[0];
	shape[1] = ids->shape[1];
	shape[2] = as->shape[1];
	return weir__op_result(m, WEIR_DTYPE_F32, 3, shape);
}

/* a [.., R, C], ids [.., n] -> [.., n, C] */
int weir__rule_get_rows(struct weir__new_node *m)
{
	const struct weir_tensor *a = source(m, 0), *ids = source(m, 1);
	int64_t shape[WEIR_MAX_DIMS];

	if (!outer_equal(a, 2, ids, 1))
		return weir__op_refuse(m,
				       "outer dimensions of a and ids differ");
	if (ids->ndim == WEIR_MAX_DIMS)
		return weir__fail(
			-EOPNOTSUPP,
			"get_rows: the result would have %u dimensions, at most %d",
			ids->ndim + 1, WEIR_MAX_DIMS);
	memcpy(shape, ids->shape, sizeof(shape));
	shape[ids->ndim] = weir__dim_back(a, 0);
	return weir__op_result(
		m, a->dtype == WEIR_DTYPE_I32 ? WEIR_DTYPE_I32 : WEIR_DTYPE_F32,
		ids->ndim + 1, shape);
}

/* dst [.., R, C], b [.., n, C], ids [.., n] */
int weir__rule_set_rows(struct weir__new_node *m)
{
	const struct weir_tensor *dst = source(m, 0), *b = source(m, 1);
	const struct weir_tensor *ids = source(m, 2);

	if (weir__dim_back(dst, 0) != weir__dim_back(b, 0))
		return weir__op_refuse(m, "rows of %lld and %lld elements",
				       (long long)weir__dim_back(dst, 0),
				       (long long)weir__dim_back(b, 0));
	if (!outer_equal(dst, 2, b, 2))
		return weir__op_refuse(m,
				       "outer dimensions of dst and b differ");
	if (weir__dim_back(ids, 0) != weir__dim_back(b, 1))
		return weir__op_refuse(m, "%lld ids for %lld rows",
				       (long long)weir__dim_back(ids, 0),
				       (long long)weir__dim_back(b, 1));
	for (unsigned i = 1; i < WEIR_MAX_DIMS; i++)
		if (!multiple(weir__dim_back(b, i + 1), weir__dim_back(ids, i)))
			return weir__op_refuse(
				m,
				"outer dimensions of b are no multiples of those of ids");
	return 0;
}

/*
 * The mask has @rows rows or more, of @columns elements each, and its outer
 * dimensions are repeated to those of @of.
 */
static int check_mask(const struct weir__new_node *m,
		      const struct weir_tensor *mask, int64_t rows,
		      int64_t columns, const struct weir_tensor *of)
{
	if (weir__dim_back(mask, 0) != columns ||
	    weir__dim_back(mask, 1) < rows)
		return weir__op_refuse(
			m, "mask of %lld rows of %lld, needs %lld of %lld",
			(long long)weir__dim_back(mask, 1),
			(long long)weir__dim_back(mask, 0), (long long)rows,
			(long long)columns);
	if (!outer_multiples(of, mask, 2))
		return weir__op_refuse(
			m,
			"outer dimensions are no multiples of those of mask");
	return 0;
}

static int check_bias(const struct weir__new_node *m, float max_bias, bool mask)
{
	if (!(max_bias >= 0) || !isfinite(max_bias))
		return weir__op_refuse(m,
				       "max_bias %g must be finite, 0 or more",
				       (double)max_bias);
	return max_bias > 0 && !mask
		       ? weir__op_refuse(m, "max_bias %g needs a mask",
					 (double)max_bias)
		       : 0;
}

/*
 * Source @i, if there is one, has an element for each head of @of [.., H, T,
 * ..].
 */
static int check_sinks(const struct weir__new_node *m, unsigned i,
		       const struct weir_tensor *of)
{
	const struct weir_tensor *sinks = optional(m, i);

	if (!sinks ||
	    (sinks->ndim == 1 && sinks->shape[0] == weir__dim_back(of, 2)))
		return 0;
	return weir__op_refuse(m, "sinks is not [%lld]",
			       (long long)weir__dim_back(of, 2));
}

int weir__rule_soft_max(struct weir__new_node *m)
{
	struct weir_op_soft_max *p = m->params;
	const struct weir_tensor *a = source(m, 0), *mask = optional(m, 1);
	int r;

	if (p->scale == 0)
		p->scale = 1;
	if (!isfinite(p->scale))
		return weir__op_refuse(m, "scale %g must be finite",
				       (double)p->scale);
	r = check_bias(m, p->max_bias, mask);
	if (!r && mask)
		r = check_mask(m, mask, weir__dim_back(a, 1),
			       weir__dim_back(a, 0), a);
	if (!r)
		r = check_sinks(m, 2, a);
	return r < 0 ? r : weir__rule_same(m);
}

static bool positive(float x)
{
	return x > 0 && isfinite(x);
}

static int rope_params(const struct weir__new_node *m, struct weir_op_rope *p,
		       int64_t row)
{
	if (!p->n_dims && row <= UINT32_MAX)
		p->n_dims = (uint32_t)row;
	p->base = p->base == 0 ? 10000.0f : p->base;
	p->freq_scale = p->freq_scale == 0 ? 1.0f : p->freq_scale;
	p->attn_factor = p->attn_factor == 0 ? 1.0f : p->attn_factor;
	p->beta_fast = p->beta_fast == 0 ? 32.0f : p->beta_fast;
	p->beta_slow = p->beta_slow == 0 ? 1.0f : p->beta_slow;
	if (p->mode > WEIR_ROPE_NEOX)
		return weir__op_refuse(
			m, "mode %u is not an enum weir_rope_mode", p->mode);
	if (p->n_dims % 2 || p->n_dims > row)
		return weir__op_refuse(
			m, "n_dims %u must be even, and at most %lld",
			p->n_dims, (long long)row);
	if (!positive(p->base) || !positive(p->freq_scale) ||
	    !positive(p->attn_factor) || !positive(p->beta_fast) ||
	    !positive(p->beta_slow) || !isfinite(p->ext_factor))
		return weir__op_refuse(
			m,
			"base, freq_scale, attn_factor and betas must be finite and above 0");
	if (p->ext_factor != 0 && !p->context)
		return weir__op_refuse(m, "ext_factor %g needs a context",
				       (double)p->ext_factor);
	return 0;
}

/* a [.., T, heads, D], pos [T], factors [n_dims / 2 or more] */
int weir__rule_rope(struct weir__new_node *m)
{
	struct weir_op_rope *p = m->params;
	const struct weir_tensor *a = source(m, 0), *pos = source(m, 1);
	const struct weir_tensor *factors = optional(m, 2);
	int r = rope_params(m, p, weir__dim_back(a, 0));

	if (r < 0)
		return r;
	if (pos->ndim != 1 || pos->shape[0] != weir__dim_back(a, 2))
		return weir__op_refuse(m, "pos is not [%lld]",
				       (long long)weir__dim_back(a, 2));
	if (factors &&
	    (factors->ndim != 1 || factors->shape[0] < p->n_dims / 2))
		return weir__op_refuse(m, "factors is not [%u] or longer",
				       p->n_dims / 2);
	return weir__rule_same(m);
}

/* True if the dimensions of @t are 1, without the last @skip ones. */
static bool outer_one(const struct weir_tensor *t, unsigned skip)
{
	for (unsigned i = skip; i < WEIR_MAX_DIMS; i++)
		if (weir__dim_back(t, i) != 1)
			return false;
	return true;
}

/* q [.., H, T, D], k [.., Hk, S, D], v [.., Hk, S, Dv] */
static int check_heads(const struct weir__new_node *m,
		       const struct weir_tensor *q, const struct weir_tensor *k,
		       const struct weir_tensor *v)
{
	if (weir__dim_back(q, 0) != weir__dim_back(k, 0))
		return weir__op_refuse(
			m, "rows of q and k have %lld and %lld elements",
			(long long)weir__dim_back(q, 0),
			(long long)weir__dim_back(k, 0));
	if (weir__dim_back(k, 1) != weir__dim_back(v, 1) ||
	    weir__dim_back(k, 2) != weir__dim_back(v, 2))
		return weir__op_refuse(m,
				       "k and v differ in heads or positions");
	if (!multiple(weir__dim_back(q, 2), weir__dim_back(k, 2)))
		return weir__op_refuse(m, "%lld heads, no multiple of %lld",
				       (long long)weir__dim_back(q, 2),
				       (long long)weir__dim_back(k, 2));
	if (optional(m, 6)) {
		if (!outer_one(k, 3) || !outer_one(v, 3))
			return weir__op_refuse(
				m,
				"with pages all sequences share one k and v [Hk, S, D]");
	} else if (!outer_equal(q, 3, k, 3) || !outer_equal(q, 3, v, 3)) {
		return weir__op_refuse(m,
				       "outer dimensions of q, k and v differ");
	}
	return 0;
}

/* The sequences of q [.., H, T, D]; INT64_MAX if that overflows. */
static int64_t sequences_of(const struct weir_tensor *q)
{
	int64_t n = 1;

	for (unsigned i = 3; i < q->ndim; i++)
		if (__builtin_mul_overflow(n, weir__dim_back(q, i), &n))
			return INT64_MAX;
	return n;
}

/* lengths [B], pages [B, n], where q has B sequences. */
static int check_lengths(const struct weir__new_node *m, uint32_t page,
			 const struct weir_tensor *q)
{
	const struct weir_tensor *lengths = optional(m, 5);
	const struct weir_tensor *pages = optional(m, 6);
	int64_t n = sequences_of(q);

	if (lengths && (lengths->ndim != 1 || lengths->shape[0] != n))
		return weir__op_refuse(m, "lengths is not [%lld]",
				       (long long)n);
	if (!pages)
		return page ? weir__op_refuse(m, "page %u needs pages", page)
			    : 0;
	if (!page || !lengths)
		return weir__op_refuse(m, "pages need %s",
				       page ? "lengths" : "page, above 0");
	if (pages->ndim != 2 || pages->shape[0] != n)
		return weir__op_refuse(m, "pages is not [%lld, n]",
				       (long long)n);
	if (pages->shape[1] > INT32_MAX / page)
		return weir__op_refuse(
			m, "%lld pages of %u positions, over 2^31 - 1",
			(long long)pages->shape[1], page);
	return 0;
}

static int attention_params(const struct weir__new_node *m,
			    struct weir_op_attention *p, int64_t d, bool mask)
{
	if (p->scale == 0 && d)
		p->scale = 1 / sqrtf((float)d);
	if (!isfinite(p->scale) || !(p->softcap >= 0) || !isfinite(p->softcap))
		return weir__op_refuse(
			m,
			"scale %g and softcap %g must be finite, softcap 0 or more",
			(double)p->scale, (double)p->softcap);
	if (check_precision(m, p->precision) < 0)
		return -EINVAL;
	if (p->causal > 1)
		return weir__op_refuse(m, "causal %u is not 0 or 1", p->causal);
	if (p->window && !p->causal)
		return weir__op_refuse(m, "window %u needs causal", p->window);
	return check_bias(m, p->max_bias, mask);
}

int weir__rule_attention(struct weir__new_node *m)
{
	const struct weir_op_attention *p = m->params;
	const struct weir_tensor *q = source(m, 0), *k = source(m, 1);
	const struct weir_tensor *v = source(m, 2), *mask = optional(m, 3);
	int64_t shape[WEIR_MAX_DIMS], positions = weir__dim_back(k, 1);
	int r = check_heads(m, q, k, v);

	if (!r)
		r = attention_params(m, m->params, weir__dim_back(q, 0), mask);
	if (!r)
		r = check_lengths(m, p->page, q);
	if (!r && p->page)
		positions = optional(m, 6)->shape[1] * (int64_t)p->page;
	if (!r && mask)
		r = check_mask(m, mask, weir__dim_back(q, 1), positions, q);
	if (!r)
		r = check_sinks(m, 4, q);
	if (r < 0)
		return r;
	memcpy(shape, q->shape, sizeof(shape));
	assert(q->ndim >= 3); /* the table says so; gcc 14 does not know */
	shape[q->ndim - 3] = weir__dim_back(q, 1);
	shape[q->ndim - 2] = weir__dim_back(q, 2);
	shape[q->ndim - 1] = weir__dim_back(v, 0);
	return weir__op_result(m, WEIR_DTYPE_F32, q->ndim, shape);
}

static uint64_t elements(const struct weir_tensor *t)
{
	uint64_t n = 1;

	for (uint32_t i = 0; i < t->ndim; i++)
		n *= (uint64_t)t->shape[i];
	return n;
}

static bool is_number(uint32_t dtype)
{
	return dtype == WEIR_DTYPE_F32 || dtype == WEIR_DTYPE_F16 ||
	       dtype == WEIR_DTYPE_BF16 || dtype > WEIR_DTYPE_GGML;
}

static int check_convert(const struct weir__new_node *m, uint32_t from,
			 uint32_t to)
{
	if (from == to || (is_number(from) && is_number(to)))
		return 0;
	return weir__op_refuse(m, "%s is not converted to %s",
			       weir__dtype(from)->name, weir__dtype(to)->name);
}

/* -EINVAL: the rows of the result would not be whole blocks. */
static int check_blocks(const struct weir__new_node *m, uint32_t dtype,
			unsigned ndim, const int64_t *shape)
{
	const struct weir_dtype_info *info = weir__dtype(dtype);
	int64_t row = ndim ? shape[ndim - 1] : 1;

	if (row % info->block == 0)
		return 0;
	return weir__op_refuse(
		m,
		"rows of %lld elements are not whole blocks of %u, which %s has",
		(long long)row, info->block, info->name);
}

int weir__rule_copy(struct weir__new_node *m)
{
	const struct weir_tensor *a = source(m, 0), *dst = source(m, 1);

	if (elements(a) != elements(dst))
		return weir__op_refuse(m, "%llu elements, dst has %llu",
				       (unsigned long long)elements(a),
				       (unsigned long long)elements(dst));
	return check_convert(m, a->dtype, dst->dtype);
}

int weir__rule_cont(struct weir__new_node *m)
{
	struct weir_op_cont *p = m->params;
	const struct weir_tensor *a = source(m, 0);
	int r;

	if (!p->dtype)
		p->dtype = a->dtype;
	if (!weir__dtype(p->dtype))
		return weir__op_refuse(m, "%u is not a dtype", p->dtype);
	if ((r = check_convert(m, a->dtype, p->dtype)) < 0 ||
	    (r = check_blocks(m, p->dtype, a->ndim, a->shape)) < 0)
		return r;
	return weir__op_result(m, p->dtype, a->ndim, a->shape);
}

int weir__rule_concat(struct weir__new_node *m)
{
	const struct weir_op_concat *p = m->params;
	const struct weir_tensor *a = source(m, 0), *b = source(m, 1);
	int64_t shape[WEIR_MAX_DIMS], sum;
	int r;

	if (a->dtype != b->dtype || a->ndim != b->ndim)
		return weir__op_refuse(
			m, "dtypes or numbers of dimensions differ");
	if (p->dim >= a->ndim)
		return weir__op_refuse(m, "dimension %u of %u", p->dim,
				       a->ndim);
	for (uint32_t i = 0; i < a->ndim; i++)
		if (i != p->dim && a->shape[i] != b->shape[i])
			return weir__op_refuse(m,
					       "dimension %u is %lld and %lld",
					       i, (long long)a->shape[i],
					       (long long)b->shape[i]);
	if (__builtin_add_overflow(a->shape[p->dim], b->shape[p->dim], &sum))
		return weir__fail(-EOVERFLOW,
				  "concat: dimension %u is over 2^63 - 1",
				  p->dim);
	if ((r = check_blocks(m, a->dtype, a->ndim, a->shape)) < 0 ||
	    (r = check_blocks(m, b->dtype, b->ndim, b->shape)) < 0)
		return r;
	memcpy(shape, a->shape, sizeof(shape));
	shape[p->dim] = sum;
	return weir__op_result(m, a->dtype, a->ndim, shape);
}

static int check_reserved(const struct weir__new_node *m, uint32_t reserved)
{
	return reserved
		       ? weir__op_refuse(m, "reserved %u (must be 0)", reserved)
		       : 0;
}

/*
 * The result has the shape of the parameters. Entries of the shape beyond @ndim
 * become 0, so that they do not change the fingerprint.
 */
static int result_shaped(struct weir__new_node *m, uint32_t dtype,
			 uint32_t ndim, int64_t shape[WEIR_MAX_DIMS])
{
	int r = weir__op_result(m, dtype, ndim, shape);

	for (uint32_t i = ndim; i < WEIR_MAX_DIMS; i++)
		shape[i] = 0;
	return r;
}

int weir__rule_repeat(struct weir__new_node *m)
{
	struct weir_op_repeat *p = m->params;
	const struct weir_tensor *a = source(m, 0);
	int r;

	if ((r = check_reserved(m, p->reserved)) < 0)
		return r;
	if (p->ndim > WEIR_MAX_DIMS)
		return weir__fail(
			-EOPNOTSUPP,
			"repeat: the result would have %u dimensions, at most %d",
			p->ndim, WEIR_MAX_DIMS);
	if (p->ndim < a->ndim)
		return weir__op_refuse(m, "%u dimensions, needs %u to %d",
				       p->ndim, a->ndim, WEIR_MAX_DIMS);
	for (uint32_t i = 0; i < a->ndim; i++) {
		int64_t from = weir__dim_back(a, i);
		int64_t to = p->shape[p->ndim - 1 - i];

		if (from ? to % from : to)
			return weir__op_refuse(
				m, "shape %s: %lld is no multiple of %lld",
				weir__shape_describe(p->ndim, p->shape),
				(long long)to, (long long)from);
	}
	if ((r = check_blocks(m, a->dtype, a->ndim, a->shape)) < 0)
		return r;
	return result_shaped(m, a->dtype, p->ndim, p->shape);
}

int weir__rule_sum(struct weir__new_node *m)
{
	const int64_t one = 1;

	return weir__op_result(m, WEIR_DTYPE_F32, 1, &one);
}

int weir__rule_sum_rows(struct weir__new_node *m)
{
	const struct weir_tensor *a = source(m, 0);
	int64_t shape[WEIR_MAX_DIMS];

	memcpy(shape, a->shape, sizeof(shape));
	shape[a->ndim - 1] = 1;
	return weir__op_result(m, WEIR_DTYPE_F32, a->ndim, shape);
}

/* Indices are I32, and a row without elements has none. */
static int check_indices(const struct weir__new_node *m)
{
	int64_t row = weir__dim_back(source(m, 0), 0);

	if (row < 1 || row > INT32_MAX)
		return weir__op_refuse(m, "rows of %lld elements, not 1 to %d",
				       (long long)row, INT32_MAX);
	return 0;
}

int weir__rule_argmax(struct weir__new_node *m)
{
	const struct weir_tensor *a = source(m, 0);
	int r = check_indices(m);

	return r < 0 ? r
		     : weir__op_result(m, WEIR_DTYPE_I32, a->ndim - 1,
				       a->shape);
}

int weir__rule_top_k(struct weir__new_node *m)
{
	const struct weir_op_top_k *p = m->params;
	const struct weir_tensor *a = source(m, 0);
	int64_t shape[WEIR_MAX_DIMS], row = weir__dim_back(a, 0);
	int r = check_indices(m);

	if (r < 0)
		return r;
	if (p->k < 1 || p->k > row)
		return weir__op_refuse(m, "k %lld, not 1 to %lld",
				       (long long)p->k, (long long)row);
	memcpy(shape, a->shape, sizeof(shape));
	shape[a->ndim - 1] = p->k;
	return weir__op_result(m, WEIR_DTYPE_I32, a->ndim, shape);
}

int weir__rule_argsort(struct weir__new_node *m)
{
	const struct weir_op_argsort *p = m->params;
	int r = check_indices(m);

	if (r < 0)
		return r;
	if (p->order > WEIR_SORT_DESCENDING)
		return weir__op_refuse(
			m, "order %u, the last one is %u (descending)",
			p->order, (unsigned)WEIR_SORT_DESCENDING);
	return result_like(m, source(m, 0), WEIR_DTYPE_I32);
}

int weir__rule_call(struct weir__new_node *m)
{
	struct weir_op_call *p = m->params;
	int r = check_reserved(m, p->reserved);

	if (r < 0)
		return r;
	if (!p->fn)
		return weir__op_refuse(m, "fn is NULL");
	return result_shaped(m, p->dtype, p->ndim, p->shape);
}
