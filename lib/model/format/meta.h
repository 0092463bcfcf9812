/* SPDX-License-Identifier: MIT */
/*
 * Metadata: pairs of a key, which is unique in a model, and a typed value (enum
 * weir_value_type).
 *
 * Readers of formats add pairs while a model is built; afterwards they never
 * change. -ENOMEM comes without a sentence: the reader adds the name of the
 * file.
 */
#ifndef WEIR__META_H
#define WEIR__META_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/model.h>

struct weir__str;

struct weir__value {
	union {
		/*
		 * STRING: offset in model->text. ARRAY of numbers: offset there
		 * of the numbers, one after the other, in the host's byte
		 * order, aligned to their size. ARRAY of STRING or ARRAY:
		 * number of its first item in model->item, or if they are
		 * @packed, number of the array in model->strings.
		 */
		uint64_t at;
		uint64_t u; /* BOOL (0 or 1), U8 to U64 */
		int64_t i;  /* I8 to I64 */
		double f;   /* F32, F64 */
	};
	uint32_t n;   /* bytes of a string, items of an array */
	uint8_t type; /* enum weir_value_type */
	uint8_t of;   /* type of the items of an array */
	bool packed;  /* an array of strings, each after its length */
};

struct weir__pair {
	uint64_t key; /* offset in model->text; followed by a NUL */
	uint32_t key_len;
	uint32_t header; /* the last one that has the key: model->n_headers */
	struct weir__value value;
};

/*
 * Find or add the pair of @key. Returns 0 for a new pair, whose value is an
 * empty string, or 1 if the model has the key. -ENOMEM. -EOPNOTSUPP: too many
 * pairs.
 */
int weir__meta_add(struct weir_model *m, const struct weir__str *key,
		   uint32_t *ret_number);
/* Return the value of a key without NULs, or NULL. */
const struct weir__value *weir__meta_find(const struct weir_model *m,
					  const char *key);

/* Return the bytes of a number of this type or of a BOOL; 0: neither. */
size_t weir__value_bytes(enum weir_value_type type);
/* Add a string of up to 2^32 - 1 bytes to the model's text. -ENOMEM. */
int weir__value_string(struct weir_model *m, const struct weir__str *str,
		       struct weir__value *ret_value);
/*
 * Return the number at @bytes, which is in the host's byte order and not
 * aligned.
 */
struct weir__value weir__value_number(enum weir_value_type type,
				      const void *bytes);
/*
 * Make an array of the @n numbers at offset @at of the model's text. They are
 * moved down to be aligned, over up to 7 bytes that must not be in use.
 */
struct weir__value weir__value_numbers(struct weir_model *m,
				       enum weir_value_type of, uint64_t at,
				       uint32_t n);
/* Append to model->item, for an array of strings or arrays. -ENOMEM. */
int weir__item_add(struct weir_model *m, const struct weir__value *item);
/* Get item @i of @array, which has it and is not packed. */
struct weir__value weir__value_item(const struct weir_model *m,
				    const struct weir__value *array,
				    uint64_t i);

#endif
