/* SPDX-License-Identifier: MIT */
/*
 * Where the bytes of a tensor that is saved come from: memory, or the file of
 * another model; and how they are converted.
 *
 * The bytes of an item are those of its elements without gaps, in the order of
 * the tensor. They are produced in any ranges, by several threads at once.
 */
#ifndef WEIR__MODEL_SAVE_ITEM_H
#define WEIR__MODEL_SAVE_ITEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/backend.h>
#include <weir/tensor.h>

struct weir_file;
struct weir_model;

struct weir__save_item {
	/*
	 * In memory, with a reference to its buffer. Of a file: not placed, and
	 * its offset is that of the first byte in the file.
	 */
	struct weir_tensor t;
	struct weir_model *model; /* referenced; NULL: in memory */
	struct weir_file *file;   /* the model's */
	bool drop;                /* leave nothing in the page cache */
	const struct weir_backend_convert *convert; /* NULL: none */
	/* Rows of contiguous bytes, spread over the first dimensions of t. */
	size_t width;
	unsigned outer;
	uint64_t span;  /* bytes from the first element to the last */
	uint64_t bytes; /* as produced */
};

/*
 * Make an item of a valid tensor, which is placed, or of tensor @i of @model
 * with @view or NULL: see <weir/save.h>. @dtype 0: not converted. -EINVAL.
 */
int weir__save_item_memory(struct weir__save_item *item, struct weir *weir,
			   const struct weir_tensor *t, uint32_t dtype);
int weir__save_item_file(struct weir__save_item *item, struct weir_model *model,
			 size_t i, const struct weir_tensor *view,
			 uint32_t dtype);
void weir__save_item_free(struct weir__save_item *item);

/* The address of byte @at, from where on all are in host memory; or NULL. */
unsigned char *weir__save_item_address(const struct weir__save_item *item,
				       uint64_t at);
/*
 * How many bytes of the item to produce by one call: others may want to stop it
 * in between. A multiple of the units of its conversion.
 */
uint64_t weir__save_item_step(const struct weir__save_item *item);
/*
 * Write bytes [lo, hi) of the item to @dst. Blocks. -ESTALE: the file is
 * shorter than it was. Errors of read(2) and of devices. With a sentence.
 */
int weir__save_item_produce(const struct weir__save_item *item, uint64_t lo,
			    uint64_t hi, unsigned char *dst);

#endif
