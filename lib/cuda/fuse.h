/* SPDX-License-Identifier: MIT */
/*
 * Groups of neighbouring nodes that one kernel computes. A run whose range has
 * a whole group makes its launches; if the range has a part of the group, the
 * launches of the single nodes. Both write all results, with the same bits, so
 * nobody needs to know which of them are read elsewhere. What operations and
 * plans guarantee of each node is not checked: <weir/backend.h>, struct
 * weir_backend_node.
 */
#ifndef WEIR__CUDA_FUSE_H
#define WEIR__CUDA_FUSE_H

#include <stddef.h>

struct weir_backend_node;
struct weir__cuda_launches;

/*
 * Append the launches of all groups to those of the single nodes. The tensors
 * have their addresses: nodes whose bytes overlap are left as they are.
 */
void weir__cuda_fuse(struct weir__cuda_launches *l,
		     const struct weir_backend_node *const *nodes, size_t n);

#endif
