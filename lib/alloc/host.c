/* SPDX-License-Identifier: MIT */
#include "alloc/host.h"

#include "alloc/addresses.h"
#include "alloc/arena.h"
#include "alloc/avail.h"
#include "alloc/topology.h"
#include "core/sys.h"
#include "core/util.h"

static struct weir__arena_req request(enum weir_mem kind, size_t bytes,
				      int32_t node, uint32_t flags)
{
	return (struct weir__arena_req){
		.bytes = bytes,
		.kind = kind,
		.node = node,
		.strict = flags & WEIR_BUF_STRICT,
		.shared = flags & WEIR_BUF_SHARED,
		.hugetlb = flags & WEIR_BUF_HUGETLB,
		.hugetlb_1g = flags & WEIR_BUF_HUGETLB_1G,
	};
}

int weir__host_alloc(struct weir *weir, enum weir_mem kind, size_t bytes,
		     int32_t node, uint32_t flags, struct weir_backend_mem *mem)
{
	struct weir__arena_req req = request(kind, bytes, node, flags);
	int r = weir__arena_take(weir, &req, mem);

	if (r < 0 || !(flags & WEIR_BUF_PREFAULT))
		return r;
	r = weir__arena_back(weir, mem, bytes);
	if (r < 0)
		weir__arena_give(weir, mem);
	return r;
}

int weir__host_reserve(struct weir *weir, enum weir_mem kind, size_t bytes,
		       int32_t node, uint32_t flags,
		       struct weir_backend_mem *mem, size_t *ret_granule)
{
	struct weir__arena_req req = request(kind, bytes, node, flags);

	*ret_granule = WEIR__HUGE_PAGE;
	return weir__addresses_take(weir, &req, flags & WEIR_BUF_PREFAULT, mem);
}

int weir__host_available(uint64_t *ret_free, uint64_t *ret_total)
{
	uint64_t avail, total;
	struct weir__space space;
	int r = weir__avail_ram("", &avail, &total);

	if (r < 0)
		return r;
	weir__sys_space(&space);
	*ret_free = avail < space.left ? avail : space.left;
	*ret_total = total;
	return 0;
}

int weir__host_nodes(enum weir_mem kind, int32_t node, uint64_t *ret_free,
		     uint64_t *ret_total)
{
	uint64_t avail, total, room, all;
	struct weir__nodes nodes;
	int r = weir__topology_nodes("", kind, node, &nodes);

	if (r < 0 || (r = weir__topology_room("", &nodes, &room, &all)) < 0 ||
	    (r = weir__host_available(&avail, &total)) < 0)
		return r;
	*ret_total = all < total ? all : total;
	*ret_free = room < avail ? room : avail;
	if (*ret_free > *ret_total)
		*ret_free = *ret_total;
	return 0;
}
