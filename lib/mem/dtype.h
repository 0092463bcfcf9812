/* SPDX-License-Identifier: MIT */
/* Element types, from the inside. */
#ifndef WEIR__DTYPE_H
#define WEIR__DTYPE_H

#include <weir/tensor.h>

/* Its row of the table, NULL: not a dtype. */
const struct weir_dtype_info *weir__dtype(uint32_t dtype);

/* By the name that a safetensors header has, by GGML's number; or NONE. */
enum weir_dtype weir__dtype_safetensors(const char *name, size_t len);
enum weir_dtype weir__dtype_ggml(uint32_t number);

#endif
