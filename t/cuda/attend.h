/* SPDX-License-Identifier: MIT */
/* Trials of attention on CUDA0, and which kernel computed them. */
#ifndef ATTEND_H
#define ATTEND_H

#include "gpu.h"
#include "kernels/trial.h"

/* Attention of @t tokens to @s positions, in elements of a head. */
struct shape {
	int heads, heads_k, t, s, d, dv;
};

/* k and v have @dtype; @mask and @p may be NULL. */
struct weir_node *attend(const struct shape *f, enum weir_dtype dtype,
			 struct weir_node *mask,
			 const struct weir_op_attention *p);
/* What the stand-in counted of weir_kernel_@kernel; zeros on a real device. */
struct fakecuda_kernel kernel_counts(const char *kernel);
int launches(const char *kernel);

#endif
