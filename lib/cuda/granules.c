/* SPDX-License-Identifier: MIT */
/*
 * Reserved addresses of a GPU, for heaps: memory is committed to parts of them
 * and given back. A mapping is unmapped as a whole, but a part that is given
 * back may have been committed by several calls, or be a part of one. So each
 * granule is a mapping of its own. Access is set, and memory unmapped, by one
 * call for all granules of a part.
 */
#include "cuda/memory.h"

#include <errno.h>

#define drv weir__cuda_drv
/* To commit takes three driver calls for each granule. */
#define LARGEST ((size_t)16 << 20)
#define MANY ((size_t)1024) /* granules of a region that has small ones */

/*
 * The granules of reserved addresses; mem->handle points to them. mapped[]
 * needs no lock: the library never commits or decommits overlapping parts at
 * once.
 */
struct granules {
	size_t bytes;  /* reserved */
	size_t each;   /* bytes of a granule, a power of two */
	bool mapped[]; /* for each granule */
};

static CUdeviceptr address(const struct weir_backend_mem *mem, size_t off)
{
	return (CUdeviceptr)(uintptr_t)(mem->base + off);
}

/* Granules are larger in a large region, so that there are not too many. */
static size_t granule_size(size_t unit, size_t bytes)
{
	while (unit < LARGEST && bytes / unit > MANY)
		unit *= 2;
	return unit;
}

static struct granules *granules_new(struct weir__cuda *c, size_t each,
				     size_t bytes)
{
	size_t n = (bytes + each - 1) / each;
	struct granules *g = c->host->calloc(1, sizeof(*g) + n);

	if (!g)
		return NULL;
	g->bytes = n * each;
	g->each = each;
	return g;
}

static int reserve_addresses(struct weir__cuda *c, size_t bytes,
			     struct weir_backend_mem *mem)
{
	CUmemAllocationProp prop = weir__cuda_memory_prop(c);
	CUdeviceptr ptr = 0;
	struct granules *g;
	size_t unit = 0;
	CUresult r;

	r = drv.cuMemGetAllocationGranularity(&unit, &prop,
					      CU_MEM_ALLOC_GRANULARITY_MINIMUM);
	if (r || !unit || unit & (unit - 1))
		return weir__cuda_fail(c, r ? r : CUDA_ERROR_NOT_SUPPORTED,
				       "cuMemGetAllocationGranularity");
	g = granules_new(c, granule_size(unit, bytes), bytes);
	if (!g)
		return c->host->fail(-ENOMEM,
				     "no memory for reserved addresses");
	r = drv.cuMemAddressReserve(&ptr, g->bytes, g->each, 0, 0);
	if (r) {
		bytes = g->bytes;
		c->host->free(g);
		return weir__cuda_fail(c, r, "cuMemAddressReserve of %zu bytes",
				       bytes);
	}
	mem->base = (unsigned char *)(uintptr_t)ptr;
	mem->handle = g;
	mem->how = GRANULES;
	__atomic_store_n(&mem->backed, bytes, __ATOMIC_SEQ_CST);
	return 0;
}

int weir__cuda_reserve(struct weir_dev *dev,
		       const struct weir_backend_buft *desc, size_t bytes,
		       const struct weir_buf_opts *opts,
		       struct weir_backend_mem *mem, size_t *ret_granule)
{
	struct weir__cuda *c = weir__cuda_of(dev);
	int r;

	(void)opts;
	mem->node = -1;
	if (desc->kind != WEIR_MEM_DEVICE)
		return c->host->fail(
			-EOPNOTSUPP,
			"page-locked memory of %s cannot be committed in parts",
			desc->name);
	if (!weir__cuda_has_virtual())
		return c->host->fail(
			-EOPNOTSUPP,
			"memory of %s cannot be committed in parts: the driver lacks the calls for virtual memory",
			desc->name);
	r = weir__cuda_enter(c);
	if (r < 0)
		return r;
	r = reserve_addresses(c, bytes, mem);
	weir__cuda_leave();
	if (r == 0)
		*ret_granule = ((struct granules *)mem->handle)->each;
	return r;
}

/* Unmap the granules [@from, @to), all of which are mapped, by one call. */
static CUresult unmap(const struct weir_backend_mem *mem, size_t from,
		      size_t to)
{
	struct granules *g = mem->handle;
	CUresult r = CUDA_SUCCESS;

	if (from < to)
		r = drv.cuMemUnmap(address(mem, from * g->each),
				   (to - from) * g->each);
	for (size_t i = from; !r && i < to; i++)
		g->mapped[i] = false;
	return r;
}

/*
 * Map memory to the granules [@from, @to), or to none. If a failure cannot be
 * undone, the granules stay mapped, until the next commit or free.
 */
static CUresult map(struct weir__cuda *c, const struct weir_backend_mem *mem,
		    size_t from, size_t to)
{
	struct granules *g = mem->handle;
	CUresult r = CUDA_SUCCESS;
	size_t i = from;

	for (; !r && i < to; i += !r) {
		if (g->mapped[i])
			continue;
		r = weir__cuda_map_new(c, address(mem, i * g->each), g->each);
		g->mapped[i] = !r;
	}
	if (!r)
		r = weir__cuda_set_access(c, address(mem, from * g->each),
					  (to - from) * g->each);
	if (r)
		weir__cuda_note(c, unmap(mem, from, i));
	return r;
}

int weir__cuda_commit(struct weir_dev *dev,
		      const struct weir_backend_buft *desc,
		      struct weir_backend_mem *mem, size_t off, size_t bytes)
{
	struct weir__cuda *c = weir__cuda_of(dev);
	const struct granules *g = mem->handle;
	char memory[64];
	CUresult r;
	int ret = weir__cuda_enter(c);

	(void)desc;
	if (ret < 0)
		return ret;
	r = map(c, mem, off / g->each, (off + bytes) / g->each);
	weir__cuda_describe_free(c, r, memory, sizeof(memory));
	weir__cuda_leave();
	return r ? weir__cuda_fail(c, r, "%zu bytes for reserved addresses%s",
				   bytes, memory)
		 : 0;
}

int weir__cuda_decommit(struct weir_dev *dev,
			const struct weir_backend_buft *desc,
			struct weir_backend_mem *mem, size_t off, size_t bytes)
{
	struct weir__cuda *c = weir__cuda_of(dev);
	const struct granules *g = mem->handle;
	CUresult r;
	int ret = weir__cuda_enter(c);

	(void)desc;
	if (ret < 0)
		return ret;
	r = unmap(mem, off / g->each, (off + bytes) / g->each);
	weir__cuda_leave();
	return r ? weir__cuda_fail(c, r, "cuMemUnmap of %zu bytes", bytes) : 0;
}

static CUresult unmap_all(const struct weir_backend_mem *mem)
{
	const struct granules *g = mem->handle;
	size_t n = g->bytes / g->each, from = 0, to;
	CUresult r = CUDA_SUCCESS;

	for (; !r && from < n; from = to + 1) {
		to = from;
		while (to < n && g->mapped[to])
			to++;
		r = unmap(mem, from, to);
	}
	return r;
}

bool weir__cuda_free_granules(struct weir__cuda *c,
			      struct weir_backend_mem *mem)
{
	struct granules *g = mem->handle;
	CUresult r = weir__cuda_push(c);
	bool gone = r && atomic_load(&c->lost);

	if (!r) {
		r = unmap_all(mem);
		if (!r)
			r = drv.cuMemAddressFree(address(mem, 0), g->bytes);
		weir__cuda_leave();
		weir__cuda_note(c, r);
		gone = !r;
	}
	c->host->free(g);
	return gone;
}
