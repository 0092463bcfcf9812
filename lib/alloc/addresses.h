/* SPDX-License-Identifier: MIT */
/*
 * Host addresses that are reserved without memory, of which parts are committed
 * and given back. Parts begin and end at multiples of 2 MiB.
 */
#ifndef WEIR__ADDRESSES_H
#define WEIR__ADDRESSES_H

#include "alloc/arena.h"

/*
 * Reserve addresses, as many as a multiple of 2 MiB has, and fill in @mem,
 * which weir__arena_give() gives back with all that is committed. @prefault:
 * commit backs the memory with pages. Any thread. -EOPNOTSUPP: memory that is
 * locked, shared or in reserved pages. -ENOMEM and errors of mbind(2), with a
 * sentence.
 */
int weir__addresses_take(struct weir *weir, const struct weir__arena_req *req,
			 bool prefault, struct weir_backend_mem *mem);
/*
 * Give a part memory, whose bytes are 0. May block. -ENOMEM as
 * weir__arena_take(), or the errno of mprotect(2): the part has none.
 */
int weir__addresses_commit(struct weir *weir, struct weir_backend_mem *mem,
			   size_t off, size_t bytes);
/* Give the memory of a part back. < 0: it still has it. */
int weir__addresses_decommit(struct weir *weir, struct weir_backend_mem *mem,
			     size_t off, size_t bytes);

#endif
