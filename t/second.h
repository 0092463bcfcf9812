/* SPDX-License-Identifier: MIT */
/*
 * Second readers of the formats, which share no code with the library: for
 * tests that compare what the library finds in any bytes.
 *
 * They are for small files: some checks take quadratic time. A result is freed
 * by second_free, also that of a file that is refused.
 */
#ifndef SECOND_H
#define SECOND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SECOND_DIMS 8

struct second_tensor {
	char *name; /* name_len bytes, then a NUL */
	size_t name_len;
	char type[16]; /* as the library names it */
	unsigned ndim;
	uint64_t shape[SECOND_DIMS]; /* the outermost first */
	uint64_t off;                /* in the file */
	unsigned __int128 bytes;
	bool fits; /* the places of the file have as many bytes */
};

/* A pair of GGUF, in the file. */
struct second_pair {
	const uint8_t *key, *value; /* without its length; from its type on */
	size_t key_len;
};

struct second {
	struct second_tensor *tensor;
	size_t n, pairs;
	struct second_pair *pair; /* NULL: not of a GGUF file */
	char why[100];            /* why the file is refused */
};

enum {
	SECOND_LENIENT = 1,
	SECOND_PART = 2 /* one of the files of a split model */
};

/*
 * A whole file in memory. Each returns whether it is valid. The reader of GGUF
 * knows all of the library's rules. That of safetensors accepts more: it
 * compares neither ranges nor white space nor the type of unused fields, and of
 * fields and names that occur twice the last counts, as in lenient mode.
 */
bool second_gguf(const uint8_t *bytes, size_t n, unsigned flags,
		 struct second *ret);
bool second_st(const uint8_t *bytes, size_t n, struct second *ret);
void second_free(struct second *s);

/*
 * Compare @m, which was read from the same bytes, with @s. Return the first
 * thing that differs, or NULL.
 */
struct weir_model;
const char *second_compare(const struct second *s, const struct weir_model *m);
/* Parts of it: one tensor ... */
const char *second_compare_tensor(const struct second_tensor *t,
				  const struct weir_model *m);
/* ... and the keys and the values of GGUF, in the order of the file. */
const char *second_compare_pairs(const struct second *s,
				 const struct weir_model *m);

/*
 * Used by the readers: return a tensor to fill in, whose name has been copied.
 */
struct second_tensor *second_add(struct second *s, const void *name, size_t n);
/* Note why, and return false. */
bool second_no(struct second *s, const char *why, ...)
	__attribute__((format(printf, 2, 3)));

#endif
