/* SPDX-License-Identifier: MIT */
/*
 * The functions and numbers of NVIDIA's cuBLASLt that weir uses. They are
 * written from its documentation, since its header comes with the library only;
 * t/cuda/cuda-cublaslt-abi.c compares them with that header where there is one.
 * This file includes no other header of weir, since the stand-in for the
 * library includes it too.
 */
#ifndef WEIR__CUDA_CUBLASLT_API_H
#define WEIR__CUDA_CUBLASLT_API_H

#include <stddef.h>
#include <stdint.h>

enum weir__cublaslt_status {
	WEIR__CUBLASLT_SUCCESS = 0,
	WEIR__CUBLASLT_NOT_INITIALIZED = 1,
	WEIR__CUBLASLT_ALLOC_FAILED = 3,
	WEIR__CUBLASLT_INVALID_VALUE = 7,
	WEIR__CUBLASLT_ARCH_MISMATCH = 8,
	WEIR__CUBLASLT_EXECUTION_FAILED = 13,
	WEIR__CUBLASLT_INTERNAL_ERROR = 14,
	WEIR__CUBLASLT_NOT_SUPPORTED = 15
};

enum weir__cublaslt_type {
	WEIR__CUBLASLT_F32 = 0,
	WEIR__CUBLASLT_F16 = 2,
	WEIR__CUBLASLT_BF16 = 14
};

/* Products are summed in F32; nothing is rounded to TF32 or less before. */
#define WEIR__CUBLASLT_COMPUTE_F32 68

/* Transformations of a matrix: int32_t. */
enum weir__cublaslt_transform {
	WEIR__CUBLASLT_N = 0,
	WEIR__CUBLASLT_T = 1
};

enum weir__cublaslt_desc_attribute {
	WEIR__CUBLASLT_DESC_TRANS_A = 3, /* int32_t */
	WEIR__CUBLASLT_DESC_TRANS_B = 4  /* int32_t */
};

enum weir__cublaslt_layout_attribute {
	WEIR__CUBLASLT_LAYOUT_BATCHES = 5,     /* int32_t */
	WEIR__CUBLASLT_LAYOUT_BATCH_OFFSET = 6 /* int64_t: elements */
};

enum weir__cublaslt_preference_attribute {
	WEIR__CUBLASLT_PREFERENCE_WORKSPACE = 1, /* uint64_t: bytes */
	WEIR__CUBLASLT_PREFERENCE_REDUCTION = 3, /* uint32_t: a mask */
	WEIR__CUBLASLT_PREFERENCE_ALIGN_A = 5,   /* uint32_t: bytes */
	WEIR__CUBLASLT_PREFERENCE_ALIGN_B = 6,   /* uint32_t: bytes */
	WEIR__CUBLASLT_PREFERENCE_ALIGN_C = 7,   /* uint32_t: bytes */
	WEIR__CUBLASLT_PREFERENCE_ALIGN_D = 8    /* uint32_t: bytes */
};

/* How the parts of a sum are added, if it is split: bits. */
enum weir__cublaslt_reduction {
	WEIR__CUBLASLT_REDUCTION_IN_PLACE = 1,
	WEIR__CUBLASLT_REDUCTION_COMPUTE_TYPE = 2,
	WEIR__CUBLASLT_REDUCTION_OUTPUT_TYPE = 4
};

struct weir__cublaslt_algorithm {
	uint64_t data[8];
};

struct weir__cublaslt_heuristic {
	struct weir__cublaslt_algorithm algorithm;
	size_t workspace; /* bytes that it needs */
	int32_t state;    /* enum weir__cublaslt_status */
	float waves;
	int32_t reserved[4];
};

/*
 * The functions: name, result, parameters. Handles and descriptors are
 * pointers; results are enum weir__cublaslt_status if they are int.
 */
#define WEIR__CUBLASLT_FUNCTIONS(X)                                            \
	X(GetVersion, size_t, (void))                                          \
	X(GetStatusName, const char *, (int status))                           \
	X(Create, int, (void **ret))                                           \
	X(Destroy, int, (void *handle))                                        \
	X(MatmulDescCreate, int, (void **ret, int compute, int scale_type))    \
	X(MatmulDescDestroy, int, (void *desc))                                \
	X(MatmulDescSetAttribute, int,                                         \
	  (void *desc, int attribute, const void *value, size_t bytes))        \
	X(MatrixLayoutCreate, int,                                             \
	  (void **ret, int type, uint64_t rows, uint64_t columns, int64_t ld)) \
	X(MatrixLayoutDestroy, int, (void *layout))                            \
	X(MatrixLayoutSetAttribute, int,                                       \
	  (void *layout, int attribute, const void *value, size_t bytes))      \
	X(MatmulPreferenceCreate, int, (void **ret))                           \
	X(MatmulPreferenceDestroy, int, (void *preference))                    \
	X(MatmulPreferenceSetAttribute, int,                                   \
	  (void *preference, int attribute, const void *value, size_t bytes))  \
	X(MatmulAlgoGetHeuristic, int,                                         \
	  (void *handle, void *desc, void *a, void *b, void *c, void *d,       \
	   void *preference, int room, struct weir__cublaslt_heuristic *ret,   \
	   int *ret_n))                                                        \
	X(Matmul, int,                                                         \
	  (void *handle, void *desc, const void *alpha, const void *a,         \
	   void *layout_a, const void *b, void *layout_b, const void *beta,    \
	   const void *c, void *layout_c, void *d, void *layout_d,             \
	   const struct weir__cublaslt_algorithm *algorithm, void *workspace,  \
	   size_t workspace_bytes, void *stream))

#endif
