/* SPDX-License-Identifier: MIT */
/*
 * The table of dtypes. Everything else that needs the size of an element or of
 * a block derives it from here. README.md, "To add a dtype", lists what a new
 * row needs. This header declares constants only, so that lib/kernels can
 * include it too.
 */
#ifndef WEIR__DTYPE_TABLE_H
#define WEIR__DTYPE_TABLE_H

/* clang-format off */

/*
 * The dtypes of safetensors, which have these names there: the name, elements
 * of a block, bytes of a block, alignment, and the number in GGML or -1.
 */
#define WEIR__SAFETENSORS_DTYPES(X) \
	X(BOOL, 1, 1, 1, -1)        \
	X(U8, 1, 1, 1, -1)          \
	X(I8, 1, 1, 1, 24)          \
	X(U16, 1, 2, 2, -1)         \
	X(I16, 1, 2, 2, 25)         \
	X(U32, 1, 4, 4, -1)         \
	X(I32, 1, 4, 4, 26)         \
	X(U64, 1, 8, 8, -1)         \
	X(I64, 1, 8, 8, 27)         \
	X(F16, 1, 2, 2, 1)          \
	X(BF16, 1, 2, 2, 30)        \
	X(F32, 1, 4, 4, 0)          \
	X(F64, 1, 8, 8, 28)         \
	X(C64, 1, 8, 4, -1)         \
	X(F8_E5M2, 1, 1, 1, -1)     \
	X(F8_E4M3, 1, 1, 1, -1)     \
	X(F8_E8M0, 1, 1, 1, -1)     \
	X(F8_E4M3FNUZ, 1, 1, 1, -1) \
	X(F8_E5M2FNUZ, 1, 1, 1, -1) \
	X(F6_E2M3, 4, 3, 1, -1)     \
	X(F6_E3M2, 4, 3, 1, -1)     \
	X(F4, 2, 1, 1, -1)

/*
 * The quantised dtypes of GGML: the name, elements of a block, bytes of a
 * block, and the alignment, which is that of the scales in a block. The number
 * in GGML is WEIR_DTYPE_<name> - WEIR_DTYPE_GGML.
 */
#define WEIR__QUANTISED_DTYPES(X) \
	X(Q4_0, 32, 18, 2)     \
	X(Q4_1, 32, 20, 4)     \
	X(Q5_0, 32, 22, 2)     \
	X(Q5_1, 32, 24, 4)     \
	X(Q8_0, 32, 34, 2)     \
	X(Q8_1, 32, 36, 4)     \
	X(Q2_K, 256, 84, 4)    \
	X(Q3_K, 256, 110, 2)   \
	X(Q4_K, 256, 144, 4)   \
	X(Q5_K, 256, 176, 4)   \
	X(Q6_K, 256, 210, 2)   \
	X(Q8_K, 256, 292, 4)   \
	X(IQ2_XXS, 256, 66, 2) \
	X(IQ2_XS, 256, 74, 2)  \
	X(IQ3_XXS, 256, 98, 2) \
	X(IQ1_S, 256, 50, 2)   \
	X(IQ4_NL, 32, 18, 2)   \
	X(IQ3_S, 256, 110, 2)  \
	X(IQ2_S, 256, 82, 2)   \
	X(IQ4_XS, 256, 136, 2) \
	X(IQ1_M, 256, 56, 2)   \
	X(TQ1_0, 256, 54, 2)   \
	X(TQ2_0, 256, 66, 2)   \
	X(MXFP4, 32, 17, 1)    \
	X(NVFP4, 64, 36, 1)    \
	X(Q1_0, 128, 18, 2)    \
	X(Q2_0, 64, 18, 2)

/* Quantised dtypes to which elements are converted, not only from. */
#define WEIR__WRITTEN_QUANTS(X) X(Q4_0) X(Q8_0) X(Q4_K) X(Q6_K)

/* clang-format on */

/*
 * WEIR__BLOCK_<name>: elements of a block. WEIR__BYTES_<name>: bytes of a
 * block.
 */
enum {
#define WEIR__SIZES(name, block, bytes, ...) \
	WEIR__BLOCK_##name = block, WEIR__BYTES_##name = bytes,
	WEIR__SAFETENSORS_DTYPES(WEIR__SIZES)
	WEIR__QUANTISED_DTYPES(WEIR__SIZES)
#undef WEIR__SIZES
};

#endif
