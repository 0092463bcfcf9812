/* SPDX-License-Identifier: MIT */
/*
 * The list of formats, and nothing else: a test that brings a list of its own
 * is linked without this file.
 */
#include <string.h>

#include "model/safetensors.h"

static bool gguf_probe(const struct weir__head *head)
{
	return head->n >= 4 && !memcmp(head->bytes, "GGUF", 4);
}

/* Recognised, and refused: there is no reader. */
static const struct weir__format gguf = {
	.name = "GGUF",
	.suffix = ".gguf",
	.probe = gguf_probe,
};

const struct weir__format *const weir__formats[] = {
	&weir__safetensors,
	&gguf,
	NULL,
};
