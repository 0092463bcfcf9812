/* SPDX-License-Identifier: MIT */
/* A product of the stand-in for cuBLASLt: what the work of a call needs. */
#ifndef FAKECUDA_CUBLASLT_H
#define FAKECUDA_CUBLASLT_H

#include <stddef.h>
#include <stdint.h>

enum how {
	HOW_IN_ONE, /* sums in the order of k */
	HOW_SPLIT,  /* in two parts, through the workspace */
	HOW_ATOMIC  /* in an order that is different each time */
};

struct product {
	int type; /* of a and b; d is F32 */
	int64_t m, n, k, batches;
	int64_t ld_a, ld_b, ld_d; /* elements */
	int trans_a, trans_b;
	float alpha, beta;
	enum how how;
	size_t workspace;
};

/*
 * @at: a, b and d of each batch, d once more if beta is not 0, and the
 * workspace if it has bytes.
 */
void product_compute(void *product, char *const *at);

#endif
