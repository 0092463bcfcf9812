/* SPDX-License-Identifier: MIT */
/*
 * Growing arrays, and names found by hash: what the tables of a model are
 * built of. Built by one thread; read by any number afterwards.
 *
 * Here -ENOMEM comes without a sentence: who reads the file names it.
 */
#ifndef WEIR__TABLE_H
#define WEIR__TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "model/json.h"

struct weir_model;

#define WEIR__NONE ((size_t)-1)

/*
 * Name -> number of an item, which is kept elsewhere: in @owner, which tells
 * its name. Open addressing, at most half full. A slot holds half of the hash
 * beside the number, so that a name is compared only when it will most likely
 * be equal. The hash has a secret seed: nobody can write a file whose names
 * all collide.
 */
struct weir__names {
	uint64_t *bucket; /* hash in the low half, number + 1 in the high */
	size_t size;      /* a power of two, or 0 */
	size_t count;
	uint64_t seed;
	const void *arg;
	struct weir__str (*name)(const void *arg, uint32_t number);
};

/* @count: how many names are expected, 0: not known. -ENOMEM. */
int weir__names_init(struct weir__names *names, size_t count, const void *arg,
		     struct weir__str (*name)(const void *arg,
					      uint32_t number));
void weir__names_fini(struct weir__names *names);
/*
 * Add @name as @number, unless it is there. 0: added. 1: it is there, as
 * *ret_number. -ENOMEM.
 */
int weir__names_add(struct weir__names *names, const struct weir__str *name,
		    uint32_t number, uint32_t *ret_number);
/*
 * The same in two steps, of which the first makes the processor fetch the slot
 * (in a large table it comes from memory) while the caller does other things.
 */
uint32_t weir__names_ahead(const struct weir__names *names,
			   const struct weir__str *name);
int weir__names_put(struct weir__names *names, const struct weir__str *name,
		    uint32_t ahead, uint32_t number, uint32_t *ret_number);
/* The number of @name, or WEIR__NONE. */
size_t weir__names_find(const struct weir__names *names,
			const struct weir__str *name);

/* Keep @str, ended by a NUL, in the model's text. */
int weir__text_add(struct weir_model *m, const struct weir__str *str,
		   uint64_t *ret_at);

#endif
