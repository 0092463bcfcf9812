/* SPDX-License-Identifier: MIT */
/*
 * Which products, with which biases, are a group. Each case changes one thing
 * of a group that is one.
 */
#include "cuda/segment.h"
#include "tap.h"

#define M 8
#define K 64
#define BYTES (M * K * 4) /* of a matrix of F32 */
/* Places: of product i those of a, y, bias and sum. */
#define B PLACE(1)
#define A(i) PLACE(4 + 8 * (i))
#define Y(i) PLACE(6 + 8 * (i))
#define BIAS(i) PLACE(8 + 8 * (i))
#define SUM(i) PLACE(10 + 8 * (i))

static const struct weir_op_mul_mat fast = { .precision = 0 };
static struct weir_backend_node *product[5], *bias[5];

static void product_of(unsigned i, enum weir_dtype dtype)
{
	product[i] = node(WEIR_OP_MUL_MAT, &fast, rows_at(Y(i), F32, 1, M), 2,
			  numbers(rows_at(A(i), dtype, M, K)),
			  rows_at(B, F32, 1, K));
}

static void bias_of(unsigned i)
{
	bias[i] = node(WEIR_OP_ADD, NULL, rows_at(SUM(i), F32, 1, M), 2,
		       rows_at(Y(i), F32, 1, M), rows_at(BIAS(i), F32, 1, M));
}

static void products_begin(unsigned n)
{
	segment_begin();
	for (unsigned i = 0; i < n; i++)
		product_of(i, F32);
}

/* Products of one b and their biases. */
static void biased_begin(unsigned n)
{
	segment_begin();
	for (unsigned i = 0; i < n; i++) {
		product_of(i, F32);
		bias_of(i);
	}
}

static void numbers_of_products(void)
{
	products_begin(1);
	segment_check(1, 1, "one product");
	products_begin(2);
	segment_check(2, 1, "two products");
	products_begin(3);
	segment_check(3, 1, "three products");
	products_begin(4);
	segment_check(4, 2, "four products: three and one");
	products_begin(5);
	segment_check(5, 2, "five products: three and two");
}

static void hazards(void)
{
	products_begin(2);
	move(&product[1]->dst, Y(0));
	segment_check(2, 2, "the second result in the place of the first");
	products_begin(2);
	move(&product[1]->dst, A(0) + BYTES - 4);
	segment_check(2, 2, "the second result in the first matrix");
	products_begin(2);
	move(&product[1]->dst, A(0) + BYTES);
	segment_check(2, 1, "the second result after the first matrix");
	products_begin(2);
	move(&product[0]->dst, A(1));
	segment_check(2, 2, "the first result is read as a matrix");
	products_begin(2);
	move(src_of(product[1], 1), B + 4 * K);
	segment_check(2, 2, "two of b");
	products_begin(3);
	move(&product[2]->dst, A(0));
	segment_check(3, 2, "the third result in the first matrix");
	products_begin(3);
	move(&product[2]->dst, A(1));
	segment_check(3, 2, "the third result in the second matrix");
	segment_begin();
	product_of(0, Q8_0);
	product_of(1, Q8_0);
	move(&product[1]->dst, A(0) + M * K / 32 * 34);
	segment_check(4, 2, "the second result after the first, of blocks");
	segment_begin();
	product_of(0, Q8_0);
	product_of(1, Q8_0);
	move(&product[1]->dst, A(0) + M * K / 32 * 34 - 4);
	segment_check(4, 4, "the second result at its last block");
}

static void single_biases(void)
{
	biased_begin(1);
	segment_check(2, 1, "a product and its bias");
	biased_begin(1);
	move(&bias[0]->dst, Y(0));
	segment_check(2, 1, "the sum in the place of the product");
	biased_begin(1);
	move(&bias[0]->dst, BIAS(0));
	segment_check(2, 1, "the sum in the place of the bias");
	biased_begin(1);
	move(src_of(bias[0], 0), SUM(1));
	segment_check(2, 2, "a sum of something else");
	biased_begin(1);
	move(src_of(bias[0], 1), Y(0));
	segment_check(2, 2, "the product is added to itself");
	biased_begin(1);
	move(&bias[0]->dst, A(0) + BYTES - 4 * M);
	segment_check(2, 2, "the sum where the matrix was");
	biased_begin(1);
	move(&bias[0]->dst, B);
	segment_check(2, 2, "the sum where b was");
	biased_begin(1);
	*src_of(bias[0], 1) = rows_at(BIAS(0), F32, 1, 1);
	segment_check(2, 2, "a bias that is a number");
	biased_begin(1);
	bias[0]->op = WEIR_OP_SUB;
	segment_check(2, 2, "a row that is subtracted");
	biased_begin(1);
	src_of(bias[0], 1)->stride[1] = 8;
	segment_check(2, 2, "a bias with gaps");
	biased_begin(1);
	*src_of(bias[0], 1) = numbers(rows_at(BIAS(0), F16, 1, M));
	segment_check(2, 2, "a bias of F16");
	biased_begin(1);
	bias[0]->dst.dtype = F16;
	bias[0]->dst = rows_at(SUM(0), F16, 1, M);
	segment_check(2, 2, "a sum of F16");
	biased_begin(1);
	*src_of(product[0], 1) = rows_at(B, F32, 2, K);
	product[0]->dst = *src_of(bias[0], 0) = rows_at(Y(0), F32, 2, M);
	bias[0]->dst = rows_at(SUM(0), F32, 2, M);
	segment_check(2, 1, "two columns, one bias");
	*src_of(bias[0], 1) = rows_at(BIAS(0), F32, 2, M);
	segment_check(2, 2, "two columns, a bias for each");
}

static void two_biases(void)
{
	biased_begin(2);
	segment_check(4, 1, "two products and their biases");
	biased_begin(2);
	move(&bias[1]->dst, A(0));
	segment_check(4, 2, "the second sum in the first matrix");
	biased_begin(2);
	move(&bias[1]->dst, BIAS(0));
	segment_check(4, 2, "the second sum in the first bias");
	biased_begin(2);
	move(&product[1]->dst, BIAS(0));
	move(src_of(bias[1], 0), BIAS(0));
	segment_check(4, 2, "the second product in the first bias");
	biased_begin(2);
	move(&product[1]->dst, SUM(0));
	move(src_of(bias[1], 0), SUM(0));
	segment_check(4, 2, "the second product in the first sum");
	biased_begin(2);
	move(src_of(bias[1], 1), SUM(0));
	segment_check(4, 2, "the second bias is the first sum");
	biased_begin(2);
	move(src_of(bias[1], 1), Y(0));
	segment_check(4, 2, "the second bias is the first product");
	biased_begin(2);
	move(&bias[0]->dst, A(1));
	segment_check(4, 2, "the first sum is read as a matrix");
}

int main(void)
{
	segments_begin();
	numbers_of_products();
	hazards();
	single_biases();
	two_biases();
	segments_end();
	return done_testing();
}
