/* SPDX-License-Identifier: MIT */
/*
 * The list of formats, and nothing else: a test that brings a list of its own
 * is linked without this file.
 */
#include "model/format/gguf.h"
#include "model/format/safetensors.h"

const struct weir__format *const weir__formats[] = {
	&weir__safetensors,
	&weir__gguf,
	NULL,
};
