/* SPDX-License-Identifier: MIT */
/*
 * Names found by hash, and the text of a model. One thread builds them; then
 * any number of threads read them.
 *
 * -ENOMEM comes without a sentence here: the reader adds the name of the file.
 */
#ifndef WEIR__TABLE_H
#define WEIR__TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "model/format/json.h"

struct weir_model;

#define WEIR__NONE ((size_t)-1)
#define WEIR__NAME_BYTES 32u /* most bytes of buckets for each name */

/*
 * A table from a name to the number of an item. The items and their names are
 * stored elsewhere: name(arg, number) returns the name of an item. Open
 * addressing, at most half full. A bucket has half of the hash beside the
 * number, so nearly every name that is compared is equal. The hash has a secret
 * seed, so a file whose names all collide cannot be made.
 */
struct weir__names {
	uint64_t *bucket; /* hash in the low half, number + 1 in the high */
	size_t size;      /* a power of two, or 0 */
	size_t count;
	uint64_t seed;
	const void *arg;
	struct weir__str (*name)(const void *arg, uint32_t number);
};

/*
 * Make a table for about @count names; 0: their number is not known. -ENOMEM.
 */
int weir__names_init(struct weir__names *names, size_t count, const void *arg,
		     struct weir__str (*name)(const void *arg,
					      uint32_t number));
void weir__names_fini(struct weir__names *names);
/*
 * Add @name as @number. Returns 0, or 1 if the table already has it, as
 * *ret_number. -ENOMEM.
 */
int weir__names_add(struct weir__names *names, const struct weir__str *name,
		    uint32_t number, uint32_t *ret_number);
/*
 * The same in two steps. weir__names_ahead returns the hash and prefetches the
 * bucket (a large table is not in the processor's cache); weir__names_put takes
 * that hash as @ahead, after other work of the caller.
 */
uint32_t weir__names_ahead(const struct weir__names *names,
			   const struct weir__str *name);
int weir__names_put(struct weir__names *names, const struct weir__str *name,
		    uint32_t ahead, uint32_t number, uint32_t *ret_number);
/* Return the number of @name, or WEIR__NONE. */
size_t weir__names_find(const struct weir__names *names,
			const struct weir__str *name);

/*
 * Append @str and a NUL to the model's text; if @str points to a string in the
 * text that ends with a NUL, take that. -ENOMEM.
 */
int weir__text_add(struct weir_model *m, const struct weir__str *str,
		   uint64_t *ret_at);

#endif
