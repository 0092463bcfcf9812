# SPDX-License-Identifier: MIT
T_KERNELS_C = %D%/team.t %D%/vec.t %D%/ahead.t %D%/product.t \
	%D%/product-ends.t %D%/invariant.t %D%/mul-mat.t %D%/kernel-elements.t \
	%D%/kernel-rows.t %D%/kernel-copies.t %D%/kernel-whole-rows.t \
	%D%/kernel-rope.t %D%/kernel-attention.t %D%/kernel-lengths.t %D%/attention-reads.t %D%/kernel-products.t \
	%D%/kernel-any.t
check_PROGRAMS += $(T_KERNELS_C)
TESTS += $(T_KERNELS_C)
%C%_kernel_elements_t_SOURCES = %D%/kernel-elements.c $(T_TRIAL)
%C%_kernel_rows_t_SOURCES = %D%/kernel-rows.c $(T_TRIAL)
%C%_kernel_copies_t_SOURCES = %D%/kernel-copies.c $(T_TRIAL)
%C%_kernel_whole_rows_t_SOURCES = %D%/kernel-whole-rows.c $(T_TRIAL)
%C%_kernel_attention_t_SOURCES = %D%/kernel-attention.c $(T_TRIAL)
%C%_kernel_lengths_t_SOURCES = %D%/kernel-lengths.c $(T_TRIAL)
%C%_attention_reads_t_SOURCES = %D%/attention-reads.c $(T_KIND)
%C%_kernel_products_t_SOURCES = %D%/kernel-products.c $(T_TRIAL)
%C%_kernel_any_t_SOURCES = %D%/kernel-any.c $(T_TRIAL)
%C%_kernel_rope_t_SOURCES = %D%/kernel-rope.c $(T_TRIAL)
%C%_mul_mat_t_SOURCES = %D%/mul-mat.c $(T_TRIAL)
%C%_invariant_t_SOURCES = %D%/invariant.c $(T_NUMBERS)
%C%_product_t_SOURCES = %D%/product.c $(T_NUMBERS)
# Counts of instructions: bench/instructions.txt.
dist_check_SCRIPTS += %D%/instructions.sh
TESTS += %D%/instructions.sh
