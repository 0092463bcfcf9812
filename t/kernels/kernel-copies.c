/* SPDX-License-Identifier: MIT */
/* Kernels that copy and convert elements, and the program's own operation. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include <weir.h>

#include "dtypes.h"
#include "naive.h"
#include "tap.h"
#include "trial.h"

static const enum weir_dtype floats[] = { F32, F16, BF16 };

static void cont(void)
{
	const enum weir_dtype any[] = { F32,
					F16,
					BF16,
					I32,
					WEIR_DTYPE_I64,
					WEIR_DTYPE_I8,
					WEIR_DTYPE_F64,
					WEIR_DTYPE_Q4_0,
					WEIR_DTYPE_Q6_K,
					WEIR_DTYPE_C64 };

	for (unsigned i = 0; i < sizeof(any) / sizeof(*any); i++) {
		enum weir_dtype d = any[i];
		int64_t c = d > WEIR_DTYPE_GGML ? 512 : 7;

		if (d == WEIR_DTYPE_I8 || d == WEIR_DTYPE_C64)
			continue;
		same(weir_cont(g, weir_permute(g, put(d, 3, 4, 5, (int)c), 3,
					       D(1, 0, 2))),
		     0, "cont of permuted rows of %s is exact", dtype_name(d));
	}
	same(weir_cont(g, weir_permute(g, put(F16, 4, 2, 3, 4, 5), 4,
				       D(3, 1, 0, 2))),
	     0, "cont of permuted elements is exact");
	same(weir_cont(g, weir_transpose(g, put(F32, 2, 129, 257))), 0,
	     "cont of a large transposed matrix is exact in all its parts");
	same(weir_cont(g, weir_slice(g, put(I32, 2, 9, 9), 0, 3, 0)), 0,
	     "cont of an empty slice is empty");
	same(weir_cont(g,
		       weir_view(g, put(F32, 1, 20), 2, D(5, 6), D(8, 4), 16)),
	     0, "cont of a view whose rows overlap is exact");
	same(weir_cont(g, put(F32, 0)), 0, "cont of one element is exact");
}

static void cast(void)
{
	for (unsigned i = 0; i < 9; i++) {
		enum weir_dtype from = floats[i / 3], to = floats[i % 3];

		same(weir_cast(g, weir_slice(g, put(from, 2, 9, 67), 1, 1, 65),
			       to),
		     0, "cast of %s to %s is exact", dtype_name(from),
		     dtype_name(to));
	}
	for (unsigned i = 0; i < 3; i++) {
		same(weir_cast(g, put(WEIR_DTYPE_Q4_K, 2, 3, 512), floats[i]),
		     near_of(floats[i]), "cast of Q4_K to %s is right",
		     dtype_name(floats[i]));
		same(weir_cast(g, put(WEIR_DTYPE_Q8_0, 2, 3, 96), floats[i]),
		     near_of(floats[i]), "cast of Q8_0 to %s is right",
		     dtype_name(floats[i]));
	}
	same(weir_cast(g, put(F32, 2, 9, 96), WEIR_DTYPE_Q8_0), 1e-4,
	     "cast of F32 to Q8_0 rounds as well as it can");
	same(weir_cast(g, put(F32, 2, 9, 96), WEIR_DTYPE_Q4_0), 1e-3,
	     "cast of F32 to Q4_0 rounds as well as it can");
	same(weir_cast(g, put(F32, 2, 301, 129), F16), 0,
	     "cast of a large tensor is exact in all its parts");
	refuses(weir_cast(g, put(F32, 2, 9, 256), WEIR_DTYPE_IQ2_XXS),
		"IQ2_XXS", "cast to a dtype that only files have is refused");
}

static void cast_odd(void)
{
	const double odd[] = {
		NAN,  INFINITY, -INFINITY, 65504, 65520,  1e-8,
		-0.0, 3e38,     1e-40,     0.1,   -65519, 6.1e-5
	};
	const double zero[64] = { 0 };

	for (unsigned i = 1; i < 3; i++)
		same(weir_cast(g, put_values(F32, odd, 1, 12), floats[i]), 0,
		     "cast of F32 to %s rounds odd numbers to the nearest",
		     dtype_name(floats[i]));
	same(weir_cast(g, put_values(F32, zero, 1, 64), WEIR_DTYPE_Q8_0), 0,
	     "cast of zeros to Q8_0 gives zeros");
	same(weir_cast(g, put_values(F32, zero, 1, 64), WEIR_DTYPE_Q4_0), 0,
	     "cast of zeros to Q4_0 gives zeros");
}

static void copy(void)
{
	for (unsigned i = 0; i < 9; i++) {
		enum weir_dtype from = floats[i / 3], to = floats[i % 3];

		same(weir_copy(g, put(from, 2, 6, 35),
			       weir_slice(g, put(to, 3, 5, 2, 60), 2, 3, 21)),
		     0, "copy of %s to a view of %s of another shape is exact",
		     dtype_name(from), dtype_name(to));
	}
	same(weir_copy(g, weir_transpose(g, put(F32, 2, 8, 7)),
		       weir_transpose(g, put(F16, 2, 14, 4))),
	     0, "copy keeps the order of elements of transposed tensors");
	same(weir_copy(g, put(WEIR_DTYPE_Q4_0, 2, 4, 64),
		       put(WEIR_DTYPE_Q4_0, 3, 2, 4, 32)),
	     0, "copy of quantised rows copies blocks");
	same(weir_copy(g, put(WEIR_DTYPE_Q5_K, 2, 4, 256),
		       weir_transpose(g, put(F32, 2, 256, 4))),
	     NEAR_F32, "copy of quantised rows converts them to any strides");
	same(weir_copy(g, put(I32, 2, 4, 6),
		       weir_transpose(g, put(I32, 2, 3, 8))),
	     0, "copy of I32 is exact");
	same(weir_copy(g, put(F32, 2, 3, 0), put(F32, 1, 0)), 0,
	     "copy of no elements changes nothing");
	same(weir_copy(g, put(F32, 1, 50001), put(F16, 1, 50001)), 0,
	     "copy of a long row is exact in all its parts");
}

/* Both sources' outer dimensions are in another order. */
static void copy_dims(void)
{
	const enum weir_dtype to[] = { F32, F16, I32, WEIR_DTYPE_Q8_0,
				       WEIR_DTYPE_Q4_0 };

	for (unsigned i = 0; i < 5; i++) {
		enum weir_dtype d = to[i], from = d == I32 ? I32 : F32;

		same(weir_copy(
			     g,
			     weir_permute(g,
					  put(from, 8, 2, 3, 2, 2, 3, 2, 2, 64),
					  8, D(6, 5, 4, 3, 2, 1, 0, 7)),
			     weir_permute(g, put(d, 8, 3, 2, 2, 3, 2, 2, 2, 64),
					  8, D(3, 2, 5, 6, 0, 1, 4, 7))),
		     d == WEIR_DTYPE_Q4_0   ? 1e-3
		     : d == WEIR_DTYPE_Q8_0 ? 1e-4
					    : 0,
		     "copy of 8 dimensions in another order to %s",
		     dtype_name(d));
	}
}

static void concat(void)
{
	const enum weir_dtype any[] = { F32, F16, I32, WEIR_DTYPE_Q8_0 };

	for (unsigned i = 0; i < 4; i++)
		for (unsigned dim = 0; dim < 3; dim++) {
			int c = any[i] == WEIR_DTYPE_Q8_0 ? 64 : 6;
			int a[3] = { 3, 4, c }, b[3] = { 3, 4, c };

			a[dim] /= 2;
			same(weir_concat(g, put(any[i], 3, a[0], a[1], a[2]),
					 put(any[i], 3, b[0], b[1], b[2]), dim),
			     0, "concat of %s along dimension %u is exact",
			     dtype_name(any[i]), dim);
		}
	same(weir_concat(g, weir_transpose(g, put(F32, 2, 5, 4)),
			 weir_slice(g, put(F32, 2, 4, 9), 1, 3, 2), 1),
	     0, "concat takes views");
	same(weir_concat(g, put(F32, 2, 0, 4), put(F32, 2, 3, 4), 0), 0,
	     "concat with an empty tensor is the other one");
	same(weir_concat(g, put(F32, 2, 150, 201), put(F32, 2, 150, 99), 1), 0,
	     "concat of large tensors is exact in all its parts");
}

static void repeat(void)
{
	const enum weir_dtype any[] = { F32, BF16, I32 };

	for (unsigned i = 0; i < 3; i++)
		same(weir_repeat(g, put(any[i], 2, 3, 5), 3, D(2, 6, 15)), 0,
		     "repeat of %s along all dimensions is exact",
		     dtype_name(any[i]));
	same(weir_repeat(g, weir_transpose(g, put(F32, 2, 3, 5)), 2, D(5, 6)),
	     0, "repeat takes a transposed tensor");
	same(weir_repeat(g, put(WEIR_DTYPE_Q4_0, 2, 3, 32), 2, D(6, 96)), 0,
	     "repeat of quantised rows repeats blocks");
	same(weir_repeat(g, put(F32, 0), 2, D(3, 4)), 0,
	     "repeat of one element fills the result");
	same(weir_repeat(g, put(F32, 2, 3, 5), 2, D(0, 5)), 0,
	     "repeat to no rows is empty");
	same(weir_repeat(g, put(F32, 1, 333), 2, D(200, 333)), 0,
	     "repeat to a large tensor is exact in all its parts");
}

/* Each part adds the sources' elements that are its own; all are contiguous. */
static int add_all(void *arg, const struct weir_operand *dst,
		   const struct weir_operand *src, unsigned n, unsigned part,
		   unsigned parts)
{
	int64_t count = naive_count(dst);
	float *to = dst->data;

	for (int64_t i = part; i < count; i += parts) {
		to[i] = *(const float *)arg;
		for (unsigned s = 0; s < n; s++)
			to[i] += ((const float *)src[s].data)[i];
	}
	return 0;
}

static int refuse(void *arg, const struct weir_operand *dst,
		  const struct weir_operand *src, unsigned n, unsigned part,
		  unsigned parts)
{
	(void)arg, (void)dst, (void)src, (void)n, (void)parts;
	return part ? 0 : -EDOM;
}

static struct weir_node *own(weir_call_fn *fn, unsigned n, int c)
{
	static float bias = 0.5f;
	struct weir_node *src[8];
	struct weir_op_call call = {
		.fn = fn, .arg = &bias, .dtype = F32, .ndim = 1, .shape = { c }
	};

	for (unsigned i = 0; i < n; i++)
		src[i] = put(F32, 1, c);
	return weir_call(g, &call, src, n);
}

static void call(void)
{
	same(own(add_all, 0, 11), NEAR_F32, "a call needs no sources");
	same(own(add_all, 3, 11), NEAR_F32, "a call has three sources");
	same(own(add_all, 7, 20001), NEAR_F32, "a call has seven sources");
	fails(own(refuse, 1, 11), -EDOM, "call", "a call's errno ends the run");
}

int main(void)
{
	trials_begin();
	cont();
	cast();
	cast_odd();
	copy();
	copy_dims();
	concat();
	repeat();
	call();
	return trials_end();
}
