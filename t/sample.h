/* SPDX-License-Identifier: MIT */
/*
 * Small models for tests of loading: safetensors files in which each byte
 * follows from its offset and a salt, so that bytes at a wrong place are
 * noticed.
 */
#ifndef SAMPLE_H
#define SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir.h>

struct sample_tensor {
	const char *name, *dtype;
	uint64_t count; /* elements; one dimension */
	unsigned size;  /* bytes of an element */
};

/*
 * Write a model whose data begins @shift bytes (a multiple of 8) after a
 * multiple of 64, and drop it from the page cache. Bails out on failure.
 */
void sample_write(const char *path, const struct sample_tensor *t, size_t n,
		  unsigned shift, unsigned salt);
/* The same with a shape for each tensor, as "3,4"; "": one dimension. */
void sample_write_shapes(const char *path, const struct sample_tensor *t,
			 const char *const *shapes, size_t n, unsigned shift,
			 unsigned salt);
/*
 * Start a load of a model of one tensor of @bytes, with salt 1, and record its
 * arrival in @ev. Removes the model at @path before it returns. Bails out on
 * failure.
 */
struct weir_load *sample_load(struct weir *weir, const char *path,
			      uint64_t bytes, struct weir_buft *to,
			      struct weir_event *ev);
/*
 * Load a model of @salt into plain memory by @way, and wait up to @timeout ns.
 * The result of weir_load_wait, with its sentence; 1: the bytes are wrong.
 */
int sample_load_way(struct weir *weir, const char *path, uint32_t way,
		    unsigned salt, int64_t timeout);
unsigned char sample_byte(uint64_t off, unsigned salt);
/* Tensor @i has the bytes of the file. */
bool sample_holds(const struct weir_weights *w, size_t i, unsigned salt);
/* How many tensors do not have the bytes of the file. */
size_t sample_wrong(const struct weir_weights *w, unsigned salt);

#endif
