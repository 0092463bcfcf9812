/* SPDX-License-Identifier: MIT */
/*
 * Which additions, norms and multiplications, and which swiglu before products,
 * are a group. Each case changes one thing of a group that is one.
 */
#include "cuda/segment.h"
#include "tap.h"

#define ROWS 5
#define COLUMNS 64
#define ROW (COLUMNS * 4)
#define SIZE (ROWS * ROW)
/* Places, far from each other. */
#define A PLACE(4)
#define B PLACE(8)
#define X PLACE(12)
#define Y PLACE(16)
#define Z PLACE(20)
#define SCALE PLACE(24)
#define WEIGHT PLACE(28)
#define P PLACE(32)

static const struct weir_op_norm eps = { .eps = 1e-5F }, no_eps;
static const struct weir_op_mul_mat fast = { .precision = 0 };
static struct weir_backend_node *add, *norm, *mul, *swiglu, *product;

static struct weir_operand rows(unsigned at)
{
	return rows_at(at, F32, ROWS, COLUMNS);
}

static void norm_begin(void)
{
	segment_begin();
	norm = node(WEIR_OP_RMS_NORM, &eps, rows(Y), 1, rows(X));
	mul = node(WEIR_OP_MUL, NULL, rows(Z), 2, rows(Y),
		   rows_at(SCALE, F32, 1, COLUMNS));
}

static void add_begin(void)
{
	segment_begin();
	add = node(WEIR_OP_ADD, NULL, rows(X), 2, rows(A), rows(B));
	norm = node(WEIR_OP_RMS_NORM, &eps, rows(Y), 1, rows(X));
	mul = node(WEIR_OP_MUL, NULL, rows(Z), 2, rows(Y),
		   rows_at(SCALE, F32, 1, COLUMNS));
}

static void swiglu_begin(enum weir_dtype dtype)
{
	segment_begin();
	swiglu = node(WEIR_OP_SWIGLU, NULL, rows_at(Z, dtype, ROWS, COLUMNS), 2,
		      numbers(rows_at(A, dtype, ROWS, COLUMNS)),
		      numbers(rows_at(B, dtype, ROWS, COLUMNS)));
}

static void product_of(struct weir_operand b, enum weir_dtype dtype)
{
	product = node(WEIR_OP_MUL_MAT, &fast, rows_at(P, F32, ROWS, 8), 2,
		       numbers(rows_at(WEIGHT, dtype, 8, COLUMNS)), b);
}

static void groups(void)
{
	norm_begin();
	segment_check(2, 1, "a norm that is multiplied");
	add_begin();
	segment_check(3, 1, "a sum, its norm, that multiplied");
	norm_begin();
	move(&norm->dst, X);
	move(src_of(mul, 0), X);
	move(&mul->dst, X);
	segment_check(2, 1, "all in one place");
	add_begin();
	move(&add->dst, B);
	move(src_of(norm, 0), B);
	segment_check(3, 1, "the sum in the place of b");
	add_begin();
	move(&norm->dst, A);
	move(src_of(mul, 0), A);
	move(&mul->dst, B);
	segment_check(3, 1, "norm and result in the places of a and b");
	norm_begin();
	src_of(mul, 1)->ndim = 1;
	src_of(mul, 1)->shape[0] = COLUMNS;
	src_of(mul, 1)->stride[0] = 4;
	segment_check(2, 1, "a scale of one dimension");
	norm_begin();
	*src_of(mul, 1) = rows(SCALE);
	move(&mul->dst, SCALE);
	segment_check(2, 1, "a scale for each row, the result in its place");
	norm_begin();
	move(src_of(mul, 1), X);
	segment_check(2, 1, "a scale that is a row of the norm's source");
	segment_begin();
	norm = node(WEIR_OP_RMS_NORM, &no_eps, rows_at(Y, F32, 1, SENSITIVE), 1,
		    rows_at(X, F32, 1, SENSITIVE));
	mul = node(WEIR_OP_MUL, NULL, rows_at(Z, F32, 1, SENSITIVE), 2,
		   norm->dst, rows_at(SCALE, F32, 1, SENSITIVE));
	sensitive(*src_of(norm, 0));
	segment_check(2, 1, "the order of the sum");
}

static void neighbours(void)
{
	norm_begin();
	move(src_of(mul, 0), X);
	segment_check(2, 2, "the product is not of the norm");
	norm_begin();
	*src_of(mul, 1) = rows(Y);
	move(src_of(mul, 0), X);
	segment_check(2, 2, "the norm is the second factor");
	norm_begin();
	src_of(mul, 0)->shape[0] = mul->dst.shape[0] = ROWS - 1;
	segment_check(2, 2, "some rows of the norm");
	norm_begin();
	src_of(mul, 0)->stride[0] = 0;
	segment_check(2, 2, "one row of the norm, repeated");
	norm_begin();
	*src_of(mul, 0) = heads_at(Y, F32, 1, ROWS, COLUMNS);
	mul->dst = heads_at(Z, F32, 1, ROWS, COLUMNS);
	segment_check(2, 2, "the norm in another shape");
	norm_begin();
	zeros(rows(X));
	src_of(mul, 0)->dtype = mul->dst.dtype = F16;
	segment_check(2, 2, "the bytes of the norm as another dtype");
	norm_begin();
	norm->dst = heads_at(Y, F32, ROWS, COLUMNS, 1);
	*src_of(norm, 0) = heads_at(X, F32, ROWS, COLUMNS, 1);
	*src_of(mul, 1) = rows_at(SCALE, F32, 1, 1);
	segment_check(2, 2, "norms of numbers in another shape");
	add_begin();
	move(src_of(norm, 0), WEIGHT);
	segment_check(3, 2, "the norm is not of the sum");
}

/* Another place of a source, with numbers. */
static void place(struct weir_operand *t, unsigned at)
{
	move(t, at);
	numbers(*t);
}

/* Tensors with gaps, of three dimensions, and at odd addresses. */
static void views(void)
{
	add_begin();
	src_of(add, 0)->stride[0] = 2 * ROW + 12;
	src_of(add, 0)->stride[1] = 8;
	src_of(add, 1)->stride[0] = -ROW;
	move(src_of(add, 1), B + SIZE);
	src_of(mul, 1)->stride[1] = 12;
	segment_check(3, 1, "sources with gaps");
	norm_begin();
	norm->dst = *src_of(mul, 0) = heads_at(Y, F32, 2, 3, COLUMNS);
	*src_of(norm, 0) = heads_at(X, F32, 2, 3, COLUMNS);
	src_of(norm, 0)->stride[0] = 5 * ROW;
	src_of(norm, 0)->stride[1] = 2 * ROW;
	mul->dst = heads_at(Z, F32, 2, 3, COLUMNS);
	*src_of(mul, 1) = rows_at(SCALE, F32, 3, COLUMNS);
	segment_check(2, 1,
		      "three dimensions, in one of which the scale is not");
	*src_of(mul, 1) = heads_at(SCALE, F32, 2, 1, COLUMNS);
	segment_check(2, 1, "three dimensions, in one of which it is repeated");
	add_begin();
	place(src_of(add, 0), A + 1);
	place(src_of(add, 1), B + 2);
	place(src_of(mul, 1), SCALE + 3);
	segment_check(3, 1, "sources without alignment");
	add_begin();
	move(&add->dst, X + 1);
	move(src_of(norm, 0), X + 1);
	move(&norm->dst, Y + 2);
	move(src_of(mul, 0), Y + 2);
	move(&mul->dst, Z + 3);
	segment_check(3, 1, "results without alignment");
	swiglu_begin(F32);
	product_of(rows(Z), Q8_0);
	src_of(swiglu, 0)->stride[0] = 2 * ROW + 12;
	src_of(swiglu, 0)->stride[1] = 8;
	src_of(swiglu, 1)->stride[0] = 3 * ROW;
	src_of(swiglu, 1)->stride[1] = 12;
	segment_check(3, 2, "gate and up with gaps");
	swiglu_begin(F32);
	place(src_of(swiglu, 0), A + 1);
	place(src_of(swiglu, 1), B + 2);
	move(&swiglu->dst, Z + 3);
	product_of(rows(Z + 3), Q8_0);
	segment_check(3, 2, "gate and up without alignment");
}

/* Other operations in their places. */
static void operations(void)
{
	add_begin();
	add->op = WEIR_OP_SUB;
	segment_check(3, 2, "a difference, its norm, that multiplied");
	norm_begin();
	norm->op = WEIR_OP_NORM;
	segment_check(2, 2, "another norm");
	norm_begin();
	mul->op = WEIR_OP_DIV;
	segment_check(2, 2, "a norm that is divided");
	add_begin();
	norm->op = WEIR_OP_L2_NORM;
	segment_check(3, 3, "a sum and another norm");
	swiglu_begin(F32);
	product_of(rows(Z), Q8_0);
	swiglu->op = WEIR_OP_MUL;
	segment_check(3, 3, "a product of elements, and one of matrices");
}

static void repeated(void)
{
	norm_begin();
	*src_of(mul, 1) = rows_at(SCALE, F32, ROWS, 1);
	segment_check(2, 2, "a scale for each row that is a number");
	add_begin();
	*src_of(add, 1) = rows_at(B, F32, 1, COLUMNS);
	segment_check(3, 2, "a row is added to each");
	norm_begin();
	norm->dst.shape[1] = src_of(norm, 0)->shape[1] = 0;
	src_of(mul, 0)->shape[1] = mul->dst.shape[1] = 0;
	src_of(mul, 1)->shape[1] = 0;
	segment_check(0, 0, "rows of no elements");
}

/* Nodes that read what a later one writes, or the other way round. */
static void hazards(void)
{
	norm_begin();
	move(&mul->dst, X + ROW);
	segment_check(2, 2, "the result where the norm's source was");
	norm_begin();
	move(src_of(mul, 1), Y);
	segment_check(2, 2, "the scale is a row of the norm");
	add_begin();
	move(src_of(mul, 1), X + ROW);
	segment_check(3, 2, "the scale is a row of the sum");
	for (unsigned i = 0; i < 2; i++) {
		add_begin();
		move(&norm->dst, (i ? B : A) + ROW);
		move(src_of(mul, 0), (i ? B : A) + ROW);
		segment_check(3, 2,
			      i ? "the norm where b was"
				: "the norm where a was");
		add_begin();
		move(&mul->dst, (i ? B : A) + ROW);
		segment_check(3, 2,
			      i ? "the result where b was"
				: "the result where a was");
	}
}

/* The bytes of the norm's source end where those of the result begin. */
static void ends(void)
{
	norm_begin();
	move(&mul->dst, X + SIZE);
	segment_check(2, 1, "the result begins after the norm's source");
	norm_begin();
	move(&mul->dst, X + SIZE - 4);
	segment_check(2, 2, "the result begins at its last element");
	norm_begin();
	move(&mul->dst, X - SIZE);
	segment_check(2, 1, "the result ends before it");
	norm_begin();
	move(&mul->dst, X - SIZE + 4);
	segment_check(2, 2, "the result ends at its first element");
	norm_begin();
	move(src_of(norm, 0), X + SIZE - ROW);
	src_of(norm, 0)->stride[0] = -ROW;
	move(&mul->dst, X - SIZE + ROW);
	segment_check(2, 2, "it ends at the last row, which is the lowest");
	norm_begin();
	move(src_of(norm, 0), X + SIZE - ROW);
	src_of(norm, 0)->stride[0] = -ROW;
	move(&mul->dst, X + SIZE);
	segment_check(2, 1, "it begins after the first row, the highest");
}

/* The group has a kernel for the rows, and one for the product. */
static void rounded(void)
{
	norm_begin();
	product_of(rows(Z), Q8_0);
	segment_check(4, 2, "norm, and a product that reads bytes");
	norm_begin();
	product_of(rows(Y), Q8_0);
	segment_check(4, 3, "the product of the norm as it was");
	norm_begin();
	product_of(rows(Z), F32);
	segment_check(3, 2, "norm, and a product that reads floats");
	norm_begin();
	product_of(rows(Z), Q8_0);
	move(&product->dst, X);
	segment_check(4, 2, "the product where the norm's source was");
}

static void swiglus(void)
{
	swiglu_begin(F32);
	product_of(rows(Z), Q8_0);
	segment_check(3, 2, "swiglu, and a product that reads bytes");
	swiglu_begin(F32);
	product_of(rows(Z), F32);
	segment_check(2, 2, "swiglu, and a product that reads floats");
	swiglu_begin(F32);
	product_of(rows(X), Q8_0);
	segment_check(3, 3, "swiglu, and a product of something else");
	swiglu_begin(F16);
	product_of(rows_at(Z, F16, ROWS, COLUMNS), Q8_0);
	segment_check(3, 3, "swiglu of F16, which rounds its result");
	swiglu_begin(F32);
	product_of(rows(Z), Q8_0);
	move(&product->dst, A);
	segment_check(3, 2, "swiglu, the product where the gate was");
}

int main(void)
{
	segments_begin();
	groups();
	neighbours();
	views();
	operations();
	repeated();
	hazards();
	ends();
	rounded();
	swiglus();
	segments_end();
	return done_testing();
}
