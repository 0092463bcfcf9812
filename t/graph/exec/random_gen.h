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
struct weir_node *gen_order(enum weir_dtype dtype, int64_t n);
struct weir_node *gen_cache_leaf(int cache, unsigned ndim,
				 const int64_t *shape);
struct weir_node *gen_input(enum weir_dtype dtype, unsigned ndim,
			    const int64_t *shape);
struct weir_node *gen_pick(uint32_t dtype);

/* random_find.c: sources of a dtype and shape. */
int64_t one_of(const int64_t *of, size_t n);
int64_t small_dim(void);
enum weir_dtype float_dtype(void);
const struct weir_tensor *tensor(const struct weir_node *node);
/* Dimension @i, counted from the last; 1 if there is none. */
int64_t back(const struct weir_node *node, uint32_t i);
struct weir_node *cont(struct weir_node *node);
/* The node, or a contiguous copy. */
struct weir_node *whole(struct weir_node *node);
/* The node, if elements of a row are neighbours; or a contiguous copy. */
struct weir_node *with_rows(struct weir_node *node);
/* A node of this dtype and shape: one that exists, a view of one, or new. */
struct weir_node *of_shape(enum weir_dtype dtype, unsigned ndim,
			   const int64_t *shape);
struct weir_node *of_dims(enum weir_dtype dtype, unsigned ndim, int64_t a,
			  int64_t b, int64_t c, int64_t d);
struct weir_node *any(enum weir_dtype dtype); /* any source */

/* random_ops.c: make one operation, or a few nodes or none. */
void gen_operation(void);
/* Mark outputs and observed nodes. */
void gen_marks(size_t nodes);

#endif
