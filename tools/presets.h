/* SPDX-License-Identifier: MIT */
/* The tensors of the models that weir synth can write. */
#ifndef TOOLS_PRESETS_H
#define TOOLS_PRESETS_H

#include <stddef.h>
#include <stdint.h>

enum {
	SYNTH_DIMS = 4
};

struct synth_dtype {
	const char *name;
	unsigned bits;
};

struct synth_tensor {
	char *name;
	const struct synth_dtype *dtype;
	unsigned ndim;
	uint64_t shape[SYNTH_DIMS];
	uint64_t bytes;
	uint64_t offset; /* offset in the data of its shard; synth_lay_out()
			    sets it */
	uint32_t shard;
};

/* Tensors, in the order of the layers of the architecture. */
struct synth_model {
	struct synth_tensor *tensors;
	size_t count, room;
	uint64_t bytes; /* bytes of all tensors */
	double scale;   /* factor of the first dimension of each */
};

/*
 * Make the tensors of @preset. Only the preset "many" uses @count. Free them
 * with preset_free().
 * -ENOENT: no such preset. -EOVERFLOW: over 2^62 bytes. -ENOMEM.
 */
int preset_make(const char *preset, uint64_t count, double scale,
		struct synth_model *ret_model);
void preset_free(struct synth_model *model);

#endif
