/* SPDX-License-Identifier: MIT */
/* Element types, from the inside. */
#ifndef WEIR__DTYPE_H
#define WEIR__DTYPE_H

#include <weir/tensor.h>

#include "dev/host.h" /* weir__dtype */

/* The dtype of a name in safetensors, or of a type number of GGML; or NONE. */
enum weir_dtype weir__dtype_safetensors(const char *name, size_t len);
enum weir_dtype weir__dtype_ggml(uint32_t number);

#endif
