/* SPDX-License-Identifier: MIT */
/*
 * The keys and values of earlier tokens. Rows that no token has written have
 * any bytes: no token attends to them.
 */
#include <errno.h>
#include <stdlib.h>

#include "llama.h"

int llama_cache_init(const struct llama_config *c, enum weir_dtype dtype,
		     int64_t length, struct llama_cache *cache)
{
	const int64_t shape[] = { length, c->kv_heads * c->head };
	const size_t n = 2 * (size_t)c->layers;
	int ret = 0;

	*cache = (struct llama_cache){ .layers = c->layers, .length = length };
	cache->tensor = calloc(n, sizeof(*cache->tensor));
	if (!cache->tensor)
		return llama_fail(-ENOMEM, "no memory for a cache");
	for (size_t i = 0; i < n && ret == 0; i++) {
		ret = weir_tensor_init(&cache->tensor[i], dtype, 2, shape);
		cache->tensor[i].name = "cache";
	}
	return ret;
}

/* True if tensor @i is the cache of a layer that part @p computes. */
static bool is_cache_of(const struct llama *l, size_t i, unsigned p)
{
	return llama_computer_of(l, (int64_t)i % l->config.layers) == p;
}

int llama_cache_alloc(struct llama *l)
{
	const size_t n = 2 * (size_t)l->config.layers;
	int ret = 0;

	for (unsigned p = 0; p < l->n_parts && ret == 0; p++)
		ret = llama_part_alloc(l, p, l->cache.tensor, n, is_cache_of,
				       &l->part[p].cache);
	return ret;
}

void llama_cache_free(struct llama_cache *cache)
{
	free(cache->tensor);
}
