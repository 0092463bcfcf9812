/* SPDX-License-Identifier: MIT */
/*
 * lib/cuda/cublaslt_api.h is what NVIDIA's header declares, where that is
 * there.
 */
#include "tap.h"

#include "cuda/cublaslt_api.h"

#if defined(__has_include)
#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
#define HAVE_HEADER 1
#endif
#endif

#ifdef HAVE_HEADER

#define SAME(ours, theirs)            \
	{                             \
#theirs, ours, theirs \
	}
static const struct {
	const char *name;
	long long ours, theirs;
} list[] = {
	SAME(WEIR__CUBLASLT_SUCCESS, CUBLAS_STATUS_SUCCESS),
	SAME(WEIR__CUBLASLT_NOT_INITIALIZED, CUBLAS_STATUS_NOT_INITIALIZED),
	SAME(WEIR__CUBLASLT_ALLOC_FAILED, CUBLAS_STATUS_ALLOC_FAILED),
	SAME(WEIR__CUBLASLT_INVALID_VALUE, CUBLAS_STATUS_INVALID_VALUE),
	SAME(WEIR__CUBLASLT_ARCH_MISMATCH, CUBLAS_STATUS_ARCH_MISMATCH),
	SAME(WEIR__CUBLASLT_EXECUTION_FAILED, CUBLAS_STATUS_EXECUTION_FAILED),
	SAME(WEIR__CUBLASLT_INTERNAL_ERROR, CUBLAS_STATUS_INTERNAL_ERROR),
	SAME(WEIR__CUBLASLT_NOT_SUPPORTED, CUBLAS_STATUS_NOT_SUPPORTED),
	SAME(WEIR__CUBLASLT_F32, CUDA_R_32F),
	SAME(WEIR__CUBLASLT_F16, CUDA_R_16F),
	SAME(WEIR__CUBLASLT_BF16, CUDA_R_16BF),
	SAME(WEIR__CUBLASLT_COMPUTE_F32, CUBLAS_COMPUTE_32F),
	SAME(WEIR__CUBLASLT_N, CUBLAS_OP_N),
	SAME(WEIR__CUBLASLT_T, CUBLAS_OP_T),
	SAME(WEIR__CUBLASLT_DESC_TRANS_A, CUBLASLT_MATMUL_DESC_TRANSA),
	SAME(WEIR__CUBLASLT_DESC_TRANS_B, CUBLASLT_MATMUL_DESC_TRANSB),
	SAME(WEIR__CUBLASLT_LAYOUT_BATCHES, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT),
	SAME(WEIR__CUBLASLT_LAYOUT_BATCH_OFFSET,
	     CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET),
	SAME(WEIR__CUBLASLT_PREFERENCE_WORKSPACE,
	     CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES),
	SAME(WEIR__CUBLASLT_PREFERENCE_REDUCTION,
	     CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK),
	SAME(WEIR__CUBLASLT_PREFERENCE_ALIGN_A,
	     CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES),
	SAME(WEIR__CUBLASLT_PREFERENCE_ALIGN_B,
	     CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES),
	SAME(WEIR__CUBLASLT_PREFERENCE_ALIGN_C,
	     CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES),
	SAME(WEIR__CUBLASLT_PREFERENCE_ALIGN_D,
	     CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES),
	SAME(WEIR__CUBLASLT_REDUCTION_IN_PLACE,
	     CUBLASLT_REDUCTION_SCHEME_INPLACE),
	SAME(WEIR__CUBLASLT_REDUCTION_COMPUTE_TYPE,
	     CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE),
	SAME(WEIR__CUBLASLT_REDUCTION_OUTPUT_TYPE,
	     CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE),
	SAME(sizeof(int), sizeof(cublasStatus_t)),
	SAME(sizeof(int), sizeof(cublasComputeType_t)),
	SAME(sizeof(int), sizeof(cudaDataType_t)),
	SAME(sizeof(int), sizeof(cublasLtMatmulDescAttributes_t)),
	SAME(sizeof(struct weir__cublaslt_algorithm),
	     sizeof(cublasLtMatmulAlgo_t)),
	SAME(sizeof(struct weir__cublaslt_heuristic),
	     sizeof(cublasLtMatmulHeuristicResult_t)),
	SAME(offsetof(struct weir__cublaslt_heuristic, workspace),
	     offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize)),
	SAME(offsetof(struct weir__cublaslt_heuristic, state),
	     offsetof(cublasLtMatmulHeuristicResult_t, state)),
};

int main(void)
{
	plan(1);
	for (size_t i = 0; i < sizeof(list) / sizeof(*list); i++)
		if (list[i].ours != list[i].theirs)
			bail("%s is %lld, not %lld", list[i].name,
			     list[i].theirs, list[i].ours);
	ok(1, "numbers and sizes are those of NVIDIA's header");
	return done_testing();
}

#else

int main(void)
{
	skip_all("the compiler of CUDA has no cublasLt.h");
}

#endif
