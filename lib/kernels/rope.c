/* SPDX-License-Identifier: MIT */
/* Rotary positions. A part is a range of tokens, with all their heads. */
#include <math.h>
#include <string.h>

#include "kernels/floats.h"
#include "kernels/kernels.h"
#include "kernels/vec.h"
#include "kernels/walk.h"

static int rope_supports(const struct weir_backend_node *node)
{
	if (!weir__is_float(node->src[0].dtype))
		return weir__kernel_refuse(node, "a is not floating-point");
	if (node->src[1].dtype != WEIR_DTYPE_I32)
		return weir__kernel_refuse(node, "pos is not I32");
	return 0;
}

/*
 * The scratch memory has angles of position 1, cosines and sines, and a row as
 * F32.
 */
static void rope_plan(const struct weir_backend_node *node, unsigned threads,
		      struct weir__kernel_plan *ret)
{
	const struct weir_op_rope *p = node->params;
	uint64_t tokens = (uint64_t)weir__outer(&node->dst, 2);

	ret->scratch = p->n_dims / 2 * sizeof(double) +
		       p->n_dims * 2 * sizeof(float) +
		       (size_t)weir__dim(&node->dst, 0) * sizeof(float);
	ret->cost = (uint64_t)weir__elements(&node->dst) / 2 +
		    tokens * p->n_dims * 10;
	ret->parts = weir__kernel_parts(ret->cost, tokens, threads);
}

/*
 * Return the index of the pair, as a fraction, whose angle turns @beta times in
 * the context.
 */
static double corrected_dim(const struct weir_op_rope *p, double beta)
{
	return p->n_dims * log(p->context / (beta * 2 * M_PI)) /
	       (2 * log((double)p->base));
}

/* Return how much of pair @i is extrapolated: from 1 at low to 0 at high. */
static double extrapolated(const struct weir_op_rope *p, uint32_t i)
{
	double low = floor(corrected_dim(p, (double)p->beta_fast));
	double high = ceil(corrected_dim(p, (double)p->beta_slow)), y;

	low = low > 0 ? low : 0;
	high = high < p->n_dims - 1 ? high : p->n_dims - 1;
	y = (i - low) / (high - low > 0.001 ? high - low : 0.001);
	return 1 - (y < 0 ? 0 : y > 1 ? 1 : y);
}

/* Compute the angle of each pair at position 1, in turns. */
static void rope_angles(const struct weir_backend_node *node, double *angle)
{
	const struct weir_op_rope *p = node->params;
	const unsigned char *factors = node->n_src > 2 ? node->src[2].data
						       : NULL;
	double step = pow((double)p->base, -2.0 / p->n_dims), power = 1, mix;
	float factor = 1;

	for (uint32_t i = 0; i < p->n_dims / 2; i++, power *= step) {
		double scale = (double)p->freq_scale;

		if (factors)
			memcpy(&factor, factors + i * sizeof(factor),
			       sizeof(factor));
		if (p->ext_factor != 0) {
			mix = extrapolated(p, i) * (double)p->ext_factor;
			scale = scale * (1 - mix) + mix;
		}
		angle[i] = power / (double)factor * scale / (2 * M_PI);
	}
}

/*
 * Compute cosines and sines in the order that rotate_halves and rotate_pairs
 * need.
 */
static void rope_table(const struct weir_op_rope *p, int32_t pos,
		       const double *angle, float *c, float *s)
{
	double size = (double)p->attn_factor;

	if (p->ext_factor != 0)
		size *= 1 + 0.1 * log(1 / (double)p->freq_scale);
	for (uint32_t i = 0; i < p->n_dims / 2; i++) {
		double turns = angle[i] * pos;
		float turned = (float)((turns - rint(turns)) * (2 * M_PI));
		float cs = cosf(turned) * (float)size;
		float sn = sinf(turned) * (float)size;

		if (p->mode == WEIR_ROPE_NEOX) {
			c[i] = cs;
			s[i] = sn;
		} else {
			c[2 * i] = c[2 * i + 1] = cs;
			s[2 * i] = -sn;
			s[2 * i + 1] = sn;
		}
	}
}

static void rotate(const struct weir_op_rope *p, float *d, const float *a,
		   const float *c, const float *s, size_t n)
{
	if (p->mode == WEIR_ROPE_NEOX)
		weir__vec()->rotate_halves(d, a, c, s, p->n_dims / 2);
	else
		weir__vec()->rotate_pairs(d, a, c, s, p->n_dims / 2);
	memmove(d + p->n_dims, a + p->n_dims, (n - p->n_dims) * sizeof(*d));
}

/* Rotate a row. One that is not F32 is rotated in @row. */
static void rope_row(const struct weir_backend_node *node, void *d,
		     const void *a, const float *c, const float *s, float *row)
{
	size_t n = (size_t)weir__dim(&node->dst, 0);
	uint32_t dtype = node->dst.dtype;

	if (dtype == WEIR_DTYPE_F32) {
		rotate(node->params, d, a, c, s, n);
		return;
	}
	weir__to_f32(dtype)->run(row, a, n);
	rotate(node->params, row, row, c, s, n);
	weir__from_f32(dtype)->run(d, row, n);
}

static int32_t position(const struct weir_operand *pos, int64_t token)
{
	int32_t x;

	memcpy(&x, (unsigned char *)pos->data + token * weir__stride(pos, 0),
	       sizeof(x));
	return x;
}

static int rope_run(const struct weir__kernel_run *run)
{
	const struct weir_backend_node *node = run->node;
	const struct weir_op_rope *p = node->params;
	const struct weir_operand *dst = &node->dst;
	double *angle = run->scratch;
	float *c = (void *)(angle + p->n_dims / 2), *s = c + p->n_dims;
	int64_t heads = weir__dim(dst, 1), token, end;
	struct weir__walk w;

	weir__kernel_range(run, weir__outer(dst, 2), &token, &end);
	if (token == end)
		return 0;
	rope_angles(node, angle);
	weir__walk_start(&w, dst, token * heads);
	for (; token < end; token++) {
		rope_table(p, position(&node->src[1], w.index[2]), angle, c, s);
		for (int64_t h = 0; h < heads; h++) {
			rope_row(node, weir__walk_at(&w, dst),
				 weir__walk_at(&w, &node->src[0]), c, s,
				 s + p->n_dims);
			weir__walk_next(&w);
		}
	}
	return 0;
}

const struct weir__kernel weir__kernel_rope = {
	.op = WEIR_OP_ROPE,
	.name = "rope",
	.supports = rope_supports,
	.plan = rope_plan,
	.run = rope_run,
};
