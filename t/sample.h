/* SPDX-License-Identifier: MIT */
/*
 * Small models for tests of loading: safetensors files whose every byte is
 * known from its place in the file and a salt, so that any mix-up shows.
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
	unsigned size;  /* of an element */
};

/*
 * Write a model whose data begins at a multiple of 64 and @shift (a multiple
 * of 8), and put it out of the page cache. Bails out if it cannot.
 */
void sample_write(const char *path, const struct sample_tensor *t, size_t n,
		  unsigned shift, unsigned salt);
/*
 * Start a load of a model of one tensor of @bytes, with salt 1, and record its
 * arrival. The model at @path is gone when this returns. Bails out if it
 * cannot.
 */
struct weir_load *sample_load(struct weir *weir, const char *path,
			      uint64_t bytes, struct weir_buft *to,
			      struct weir_event *ev);
/*
 * Load a model of @salt to plain memory by @way and wait for it, at most
 * @timeout ns. What weir_load_wait gave, with its sentence; 1: wrong bytes.
 */
int sample_load_way(struct weir *weir, const char *path, uint32_t way,
		    unsigned salt, int64_t timeout);
unsigned char sample_byte(uint64_t off, unsigned salt);
/* Tensor @i has the bytes of the file. */
bool sample_holds(const struct weir_weights *w, size_t i, unsigned salt);
/* How many tensors have not. */
size_t sample_wrong(const struct weir_weights *w, unsigned salt);

#endif
