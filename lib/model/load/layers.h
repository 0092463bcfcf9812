/* SPDX-License-Identifier: MIT */
/*
 * Tensors by layer, to fill memory of a limited capacity with whole layers. One
 * thread uses the object.
 */
#ifndef WEIR__MODEL_LAYERS_H
#define WEIR__MODEL_LAYERS_H

#include <stddef.h>
#include <stdint.h>

struct weir_model;

struct weir__layers {
	const struct weir_model *model;
	struct weir__layer_tensor {
		size_t record;
		uint64_t layer; /* its number; UINT64_MAX: of no layer */
		uint64_t bytes;
	} * tensor;
	size_t n, max;
};

void weir__layers_init(struct weir__layers *layers,
		       const struct weir_model *model);
void weir__layers_fini(struct weir__layers *layers);
/* Add record @record, which needs @bytes of memory. -ENOMEM. */
int weir__layers_add(struct weir__layers *layers, size_t record,
		     uint64_t bytes);
/*
 * Keep the layers that fit @capacity bytes, in the order of their numbers, up
 * to the first that does not; then tensors of no layer, in the order of the
 * model.
 */
void weir__layers_fit(struct weir__layers *layers, uint64_t capacity);

#endif
