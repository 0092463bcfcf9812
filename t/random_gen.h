/* SPDX-License-Identifier: MIT */
/* Parts of random_graph.c that random_ops.c makes operations of. */
#ifndef RANDOM_GEN_H
#define RANDOM_GEN_H

#include <stdbool.h>

#include "random_graph.h"

#define GEN_MOST 512 /* elements of a source */

uint64_t gen_below(uint64_t n);
struct weir_graph *gen_graph(void);
/* Register a node that was just made. Returns it. */
struct weir_node *gen_add(struct weir_node *node, struct known known,
			  int cache);
struct weir_node *gen_view(struct weir_node *node, const struct weir_node *of);
/* Register a write to a cache. */
void gen_write(int cache, struct known k);

struct known gen_known(const struct weir_node *node);
int gen_cache(const struct weir_node *node);
int64_t gen_count(const struct weir_node *node);
struct known gen_round(struct known k, enum weir_dtype dtype);
bool gen_useful(struct known k);

struct weir_node *gen_weights(enum weir_dtype dtype, unsigned ndim,
			      const int64_t *shape);
struct weir_node *gen_order(int64_t n);
struct weir_node *gen_cache_leaf(int cache, unsigned ndim,
				 const int64_t *shape);
struct weir_node *gen_input(enum weir_dtype dtype, unsigned ndim,
			    const int64_t *shape);
struct weir_node *gen_pick(uint32_t dtype);

/* random_ops.c: make one operation, or a few nodes or none. */
void gen_operation(void);
/* Mark outputs and observed nodes. */
void gen_marks(size_t nodes);

#endif
