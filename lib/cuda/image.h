/* SPDX-License-Identifier: MIT */
/*
 * The images, which contain the kernels of kernels/: each is loaded into the
 * context of a device when one of its kernels is first needed.
 */
#ifndef WEIR__CUDA_IMAGE_H
#define WEIR__CUDA_IMAGE_H

#include <pthread.h>
#include <stdbool.h>

#include "cuda/driver.h"

struct weir__cuda;

/* kernels/NAME.cu */
#define WEIR__CUDA_IMAGES(X) \
	X(elements)          \
	X(fused)             \
	X(rows)              \
	X(copies)            \
	X(encode)            \
	X(products)          \
	X(tiles)             \
	X(tiles_blocks)      \
	X(tiles_k)           \
	X(tiles_small)       \
	X(tiles_values)      \
	X(columns)           \
	X(matvec_floats)     \
	X(matvec_blocks)     \
	X(matvec_k)          \
	X(matvec_small)      \
	X(matvec_values)     \
	X(matvec_codebooks)  \
	X(attention)         \
	X(attention_chunks)  \
	X(attention_tiles)   \
	X(reduce)            \
	X(sort)

/* Products of 1, 2, 4 and 8 columns. */
#define WEIR__CUDA_MATVEC(X, image, name) \
	X(image, name##_1)                \
	X(image, name##_2) X(image, name##_4) X(image, name##_8)
/* Of 1, 4 and 8: that of 4 computes 2, too. */
#define WEIR__CUDA_CODEBOOK(X, name)  \
	X(matvec_codebooks, name##_1) \
	X(matvec_codebooks, name##_4) \
	X(matvec_codebooks, name##_8)
#define WEIR__CUDA_CODEBOOKS(X)                \
	WEIR__CUDA_CODEBOOK(X, matvec_iq1_s)   \
	WEIR__CUDA_CODEBOOK(X, matvec_iq1_m)   \
	WEIR__CUDA_CODEBOOK(X, matvec_iq2_xxs) \
	WEIR__CUDA_CODEBOOK(X, matvec_iq2_xs)  \
	WEIR__CUDA_CODEBOOK(X, matvec_iq2_s)   \
	WEIR__CUDA_CODEBOOK(X, matvec_iq3_xxs) \
	WEIR__CUDA_CODEBOOK(X, matvec_iq3_s)   \
	WEIR__CUDA_CODEBOOK(X, matvec_tq1_0)   \
	WEIR__CUDA_CODEBOOK(X, matvec_tq2_0)   \
	WEIR__CUDA_CODEBOOK(X, matvec_q1_0)    \
	WEIR__CUDA_CODEBOOK(X, matvec_q2_0)
#define WEIR__CUDA_MATVECS(X)                              \
	X(matvec_floats, matvec_floats)                    \
	X(matvec_blocks, matvec_bytes)                     \
	WEIR__CUDA_MATVEC(X, matvec_floats, matvec_f32)    \
	WEIR__CUDA_MATVEC(X, matvec_floats, matvec_f16)    \
	WEIR__CUDA_MATVEC(X, matvec_floats, matvec_bf16)   \
	WEIR__CUDA_MATVEC(X, matvec_blocks, matvec_q8_0)   \
	WEIR__CUDA_MATVEC(X, matvec_blocks, matvec_q4_0)   \
	WEIR__CUDA_MATVEC(X, matvec_blocks, matvec_q4_k)   \
	WEIR__CUDA_MATVEC(X, matvec_blocks, matvec_q6_k)   \
	WEIR__CUDA_MATVEC(X, matvec_small, matvec_q4_1)    \
	WEIR__CUDA_MATVEC(X, matvec_small, matvec_q5_0)    \
	WEIR__CUDA_MATVEC(X, matvec_small, matvec_q5_1)    \
	WEIR__CUDA_MATVEC(X, matvec_k, matvec_q2_k)        \
	WEIR__CUDA_MATVEC(X, matvec_k, matvec_q3_k)        \
	WEIR__CUDA_MATVEC(X, matvec_k, matvec_q5_k)        \
	WEIR__CUDA_MATVEC(X, matvec_values, matvec_iq4_nl) \
	WEIR__CUDA_MATVEC(X, matvec_values, matvec_iq4_xs) \
	WEIR__CUDA_MATVEC(X, matvec_values, matvec_mxfp4)  \
	WEIR__CUDA_MATVEC(X, matvec_values, matvec_nvfp4)

#define WEIR__CUDA_ATTENTIONS(X)                      \
	X(attention, attention)                       \
	X(attention_chunks, attention_chunks_f32)     \
	X(attention_chunks, attention_chunks_f16)     \
	X(attention_chunks, attention_chunks_bf16)    \
	X(attention_chunks, attention_chunks_blocks)  \
	X(attention_tiles, attention_tiles_f16)       \
	X(attention_tiles, attention_tiles_bf16)      \
	X(attention_tiles, attention_tiles_f16_large) \
	X(attention_tiles, attention_tiles_bf16_large)

/* The kernels: their image, their name without "weir_kernel_". */
#define WEIR__CUDA_KERNELS(X)                \
	X(elements, elements)                \
	X(fused, rms_norm_mul)               \
	X(fused, rope_set_rows)              \
	X(fused, swiglu_bytes)               \
	X(rows, rms_norm)                    \
	X(rows, norm)                        \
	X(rows, l2_norm)                     \
	X(rows, soft_max)                    \
	X(rows, rope)                        \
	X(copies, copy_units)                \
	X(copies, copy_floats)               \
	X(copies, get_rows)                  \
	X(copies, set_rows)                  \
	X(encode, copy_blocks)               \
	X(encode, set_rows_blocks)           \
	X(products, mul_mat_f32)             \
	X(products, mul_mat_f16)             \
	X(products, mul_mat_bf16)            \
	X(products, mul_mat_quants)          \
	X(tiles, tiles_bf16_wide)            \
	X(tiles, tiles_bf16_narrow)          \
	X(tiles, tiles_f16_wide)             \
	X(tiles, tiles_f16_narrow)           \
	X(tiles, tiles_f32_wide)             \
	X(tiles, tiles_f32_narrow)           \
	X(tiles_blocks, tiles_q8_0_wide)     \
	X(tiles_blocks, tiles_q8_0_narrow)   \
	X(tiles_blocks, tiles_q4_0_wide)     \
	X(tiles_blocks, tiles_q4_0_narrow)   \
	X(tiles_blocks, tiles_q4_k_wide)     \
	X(tiles_blocks, tiles_q4_k_narrow)   \
	X(tiles_blocks, tiles_q6_k_wide)     \
	X(tiles_blocks, tiles_q6_k_narrow)   \
	X(tiles_k, tiles_q2_k_wide)          \
	X(tiles_k, tiles_q2_k_narrow)        \
	X(tiles_k, tiles_q3_k_wide)          \
	X(tiles_k, tiles_q3_k_narrow)        \
	X(tiles_k, tiles_q5_k_wide)          \
	X(tiles_k, tiles_q5_k_narrow)        \
	X(tiles_small, tiles_q4_1_wide)      \
	X(tiles_small, tiles_q4_1_narrow)    \
	X(tiles_small, tiles_q5_0_wide)      \
	X(tiles_small, tiles_q5_0_narrow)    \
	X(tiles_small, tiles_q5_1_wide)      \
	X(tiles_small, tiles_q5_1_narrow)    \
	X(tiles_values, tiles_iq4_nl_wide)   \
	X(tiles_values, tiles_iq4_nl_narrow) \
	X(tiles_values, tiles_iq4_xs_wide)   \
	X(tiles_values, tiles_iq4_xs_narrow) \
	X(tiles_values, tiles_mxfp4_wide)    \
	X(tiles_values, tiles_mxfp4_narrow)  \
	X(tiles_values, tiles_nvfp4_wide)    \
	X(tiles_values, tiles_nvfp4_narrow)  \
	X(columns, columns)                  \
	X(columns, lists)                    \
	X(columns, unscale)                  \
	WEIR__CUDA_MATVECS(X)                \
	WEIR__CUDA_CODEBOOKS(X)              \
	WEIR__CUDA_ATTENTIONS(X)             \
	X(reduce, sum)                       \
	X(reduce, sum_blocks)                \
	X(reduce, sum_rows)                  \
	X(reduce, argmax)                    \
	X(sort, sort_chunks)                 \
	X(sort, sort_merge)                  \
	X(sort, top_k)

#define WEIR__CUDA_IMAGE_ID(name) WEIR__CUDA_IMAGE_##name,
#define WEIR__CUDA_KERNEL_ID(image, name) WEIR__CUDA_KERNEL_##name,

enum weir__cuda_image_id {
	WEIR__CUDA_IMAGES(WEIR__CUDA_IMAGE_ID) WEIR__CUDA_N_IMAGES
};
enum weir__cuda_kernel_id {
	WEIR__CUDA_KERNELS(WEIR__CUDA_KERNEL_ID) WEIR__CUDA_N_KERNELS
};

/* The modules and kernels that are loaded into the context of a device. */
struct weir__cuda_loaded {
	pthread_mutex_t lock; /* guards what follows */
	CUmodule module[WEIR__CUDA_N_IMAGES];
	CUfunction kernel[WEIR__CUDA_N_KERNELS];
	/*
	 * Why the driver refused an image. Written once, before is_refused is
	 * set; from then on the device supports no operation.
	 */
	char refused[400];
	_Atomic bool is_refused; /* read without the lock, which is held long */
};

/*
 * Returns NULL if a device of this driver can compute, or the reason why it
 * cannot, in @room bytes of @text. Loads nothing.
 */
const char *weir__cuda_image_unfit(CUdevice device, char *text, size_t room);
/*
 * Get a kernel, and load its image if needed. Any thread; may block, for
 * seconds if the driver has to compile PTX, and while another thread loads one.
 * Only prepare calls it, whose caller waits: no thread loads kernels ahead,
 * since programs prepare while they read weights. -EOPNOTSUPP: the driver
 * refuses the image; -ENOMEM, -ENODEV and others: it could not be loaded now.
 * With a sentence.
 */
int weir__cuda_image_kernel(struct weir__cuda *c, enum weir__cuda_kernel_id id,
			    unsigned shared, CUfunction *ret_kernel);
const char *weir__cuda_kernel_name(enum weir__cuda_kernel_id id);
/* Unload all, while the device is not lost; a context is current. */
void weir__cuda_image_unload(struct weir__cuda *c);

#endif
