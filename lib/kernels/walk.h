/* SPDX-License-Identifier: MIT */
/*
 * Rows of tensors, whatever their strides. Dimensions are numbered from the
 * last one, which is 0; those that a tensor does not have are 1.
 */
#ifndef WEIR__WALK_H
#define WEIR__WALK_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/ops.h>

static inline int64_t weir__dim(const struct weir_operand *t, unsigned back)
{
	return back < t->ndim ? t->shape[t->ndim - 1 - back] : 1;
}

static inline int64_t weir__stride(const struct weir_operand *t, unsigned back)
{
	return back < t->ndim ? t->stride[t->ndim - 1 - back] : 0;
}

/*
 * Return the product of dimensions @from and up; at most INT64_MAX. Only a
 * tensor without elements has more: another of its dimensions is 0.
 */
static inline int64_t weir__outer(const struct weir_operand *t, unsigned from)
{
	int64_t n = 1;
	bool over = false;

	for (unsigned i = from; i < t->ndim; i++) {
		if (!weir__dim(t, i))
			return 0;
		over |= __builtin_mul_overflow(n, weir__dim(t, i), &n);
	}
	return over ? INT64_MAX : n;
}

static inline int64_t weir__rows(const struct weir_operand *t)
{
	return weir__outer(t, 1);
}

static inline int64_t weir__elements(const struct weir_operand *t)
{
	return weir__outer(t, 0);
}

/*
 * True if there are no gaps between elements of @bytes bytes; in quantised
 * rows, between blocks.
 */
static inline bool weir__contiguous(const struct weir_operand *t, int64_t bytes,
				    int64_t block)
{
	for (unsigned i = 0; i < t->ndim; i++) {
		if (weir__dim(t, i) > (i ? 1 : block) &&
		    weir__stride(t, i) != bytes)
			return false;
		bytes *= i ? weir__dim(t, i) : weir__dim(t, i) / block;
	}
	return true;
}

/* The position of a row: index[i] is that in dimension i; index[0] is 0. */
struct weir__walk {
	const struct weir_operand *of;
	int64_t index[WEIR_MAX_DIMS];
};

static inline void weir__walk_start(struct weir__walk *w,
				    const struct weir_operand *of, int64_t row)
{
	w->of = of;
	for (unsigned i = 0; i < WEIR_MAX_DIMS; i++)
		w->index[i] = 0;
	for (unsigned i = 1; i < of->ndim && row; i++) {
		w->index[i] = i + 1 < of->ndim ? row % weir__dim(of, i) : row;
		row /= weir__dim(of, i);
	}
}

static inline void weir__walk_next(struct weir__walk *w)
{
	for (unsigned i = 1; i < w->of->ndim; i++) {
		if (++w->index[i] < weir__dim(w->of, i))
			return;
		w->index[i] = 0;
	}
}

/*
 * Return the address of the row of @t at this position. Dimensions of @t are
 * repeated to those of the tensor that is walked.
 */
static inline unsigned char *weir__walk_at(const struct weir__walk *w,
					   const struct weir_operand *t)
{
	unsigned char *p = t->data;

	for (unsigned i = 1; i < t->ndim; i++) {
		int64_t n = weir__dim(t, i), at = w->index[i];

		if (at >= n)
			at %= n;
		p += at * weir__stride(t, i);
	}
	return p;
}

#endif
