/* SPDX-License-Identifier: MIT */
/*
 * A made-up format of models, for tests of what all formats share. toy.c is all
 * that it needs, besides its row in the list of formats: README.md of
 * lib/model/format has the steps.
 *
 *	struct toy_head, its pairs, its tensors, padding to 64 bytes, data
 *
 * Tensors begin at multiples of 32 bytes in the data section. Lenient: there
 * may be gaps between them. Numbers are in the host's byte order.
 */
#ifndef TOY_H
#define TOY_H

#include "model/format/format.h"

#define TOY_ALIGN 32u

struct toy_head {
	char magic[4]; /* "TOY1" */
	uint32_t n_pairs;
	uint32_t n_tensors;
};

struct toy_pair {
	char key[12];  /* ended by a NUL */
	uint32_t type; /* enum weir_value_type */
	union {
		char str[8];    /* STRING */
		int16_t i16[4]; /* ARRAY */
		uint64_t u;
		int64_t i;
		double f;
	};
};

struct toy_tensor {
	char name[12];       /* ended by a NUL */
	uint32_t dtype;      /* enum weir_dtype */
	uint64_t count;      /* elements; one dimension */
	uint64_t begin, end; /* in the data section */
};

extern const struct weir__format toy;

#endif
