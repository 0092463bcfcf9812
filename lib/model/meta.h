/* SPDX-License-Identifier: MIT */
/*
 * Metadata: pairs of a key, which is unique in a model, and a typed value.
 *
 * The types are those of GGUF; safetensors has only strings. Readers of formats
 * add pairs while a model is built; afterwards they never change. -ENOMEM comes
 * without a sentence: the reader adds the name of the file.
 */
#ifndef WEIR__META_H
#define WEIR__META_H

#include <stddef.h>
#include <stdint.h>

struct weir_model;
struct weir__str;

enum weir__value_type {
	WEIR__VALUE_STRING = 0,
	WEIR__VALUE_BOOL,
	WEIR__VALUE_U8,
	WEIR__VALUE_I8,
	WEIR__VALUE_U16,
	WEIR__VALUE_I16,
	WEIR__VALUE_U32,
	WEIR__VALUE_I32,
	WEIR__VALUE_U64,
	WEIR__VALUE_I64,
	WEIR__VALUE_F32,
	WEIR__VALUE_F64,
	WEIR__VALUE_ARRAY
};

struct weir__value {
	union {
		uint64_t at; /* STRING, ARRAY: offset in model->text */
		uint64_t u;  /* BOOL (0 or 1), U8 to U64 */
		int64_t i;   /* I8 to I64 */
		double f;    /* F32, F64 */
	};
	uint32_t n;   /* bytes of a string, items of an array */
	uint8_t type; /* enum weir__value_type */
	uint8_t of;   /* type of the items of an array */
};

struct weir__pair {
	uint64_t key; /* offset in model->text; followed by a NUL */
	uint32_t key_len;
	struct weir__value value;
};

/*
 * The number of the pair of @key. 0: a new pair, whose value is an empty
 * string. 1: the model has the key. -ENOMEM. -EOPNOTSUPP: too many pairs.
 */
int weir__meta_add(struct weir_model *m, const struct weir__str *key,
		   uint32_t *ret_number);

/* Copy a string of up to 2^32 - 1 bytes into the model. -ENOMEM. */
int weir__value_string(struct weir_model *m, const struct weir__str *str,
		       struct weir__value *ret_value);
/*
 * Copy an array into the model: @n items of type @of, one after the other.
 * Numbers are in the host's byte order and weir__value_bytes long; strings and
 * arrays are struct weir__value. -ENOMEM.
 */
int weir__value_array(struct weir_model *m, enum weir__value_type of,
		      const void *items, uint32_t n,
		      struct weir__value *ret_value);
/* Bytes of an item of an array. */
size_t weir__value_bytes(enum weir__value_type type);
/* Item @i of @array, which has it. */
struct weir__value weir__value_item(const struct weir_model *m,
				    const struct weir__value *array,
				    uint32_t i);

#endif
