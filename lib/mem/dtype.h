/* SPDX-License-Identifier: MIT */
/* What the library knows of dtypes, beside <weir/tensor.h>. */
#ifndef WEIR__DTYPE_H
#define WEIR__DTYPE_H

#include <weir/tensor.h>

/* Return a constant description, or NULL if @dtype is not a dtype. */
const struct weir_dtype_info *weir__dtype(uint32_t dtype);
/* This is .dtype_grid of struct weir_backend_host. */
const uint16_t *weir__dtype_grid(uint32_t dtype);

/*
 * Return the dtype that safetensors names so, or that has this number in GGML;
 * or NONE.
 */
enum weir_dtype weir__dtype_safetensors(const char *name, size_t len);
enum weir_dtype weir__dtype_ggml(uint32_t number);

#endif
