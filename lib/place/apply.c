/* SPDX-License-Identifier: MIT */
/* A placement applied: buffers that have room for it, and tensors in them. */
#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"
#include "dev/dev.h"
#include "mem/buf.h"
#include "mem/tensor.h"
#include "place/placement.h"
#include "place/tensors.h"

typedef unsigned long long ull;

/* Bytes to skip in a buffer until its address has the greatest alignment. */
static uint64_t lead_of(const struct weir_placement_info *info,
			const struct weir_buf *member)
{
	return info->align ? -(uintptr_t)member->mem.base & (info->align - 1)
			   : 0;
}

static struct weir_buf *member_of(struct weir_buf *buf, unsigned i)
{
	if (!buf->member)
		return i ? NULL : buf;
	return i < buf->n_members ? buf->member[i] : NULL;
}

/* -ENOSPC: @buf lacks a member, or one is too small. */
static int check_room(const struct weir__placed *placed, unsigned memory,
		      struct weir_buf *buf)
{
	const struct weir_placement_info *info = &placed->info;

	for (unsigned i = 0; i < info->members; i++) {
		struct weir_buf *member = member_of(buf, i);
		uint64_t lead;

		if (!member)
			return weir__fail(
				-ENOSPC,
				"memory %u: the items need %u buffers, there are %u",
				memory, info->members, i);
		lead = lead_of(info, member);
		if (lead > member->bytes ||
		    placed->member[i] > member->bytes - lead)
			return weir__fail(
				-ENOSPC,
				"memory %u: buffer %u has %zu bytes, the items need %llu and %llu to align them to %llu",
				memory, i, member->bytes,
				(ull)placed->member[i], (ull)lead,
				(ull)info->align);
	}
	return 0;
}

/* True if @buf may stay. That it may not is no failure of the call. */
static bool has_room(const struct weir_placement *p, unsigned m,
		     const struct weir_buft *buft, struct weir_buf *buf)
{
	struct weir__error_saved saved;
	bool has;

	if (!buf || buf->buft != buft)
		return false;
	weir__error_save(&saved);
	has = !check_room(&p->memory[m], m, buf);
	weir__error_restore(&saved);
	return has;
}

static int alloc_buf(const struct weir__placed *placed, struct weir_buft *buft,
		     struct weir_buf **ret_buf)
{
	uint64_t align = placed->info.align, own = buft->desc.align;
	size_t n = placed->info.members;
	uint64_t *sizes = weir__malloc((n + !n) * sizeof(*sizes));
	int r;

	if (!sizes)
		return weir__fail(-ENOMEM, "no memory for %zu members", n);
	for (size_t i = 0; i < n; i++)
		sizes[i] = placed->member[i] + (align > own ? align - own : 0);
	r = weir__members_alloc(buft, sizes, n, ret_buf);
	weir__free(sizes);
	return r;
}

/* Allocate what does not stay. After a failure the caller frees @fresh. */
static int alloc_all(const struct weir_placement *p,
		     struct weir_buft *const *bufts,
		     struct weir_buf *const *bufs, struct weir_buf **fresh)
{
	int r = 0;

	for (unsigned m = 0; m < p->n_memories && !r; m++) {
		if (!p->memory[m].info.items)
			continue;
		if (!bufts[m])
			return weir__fail(-EINVAL,
					  "memory %u: its kind is NULL", m);
		r = weir__root_enter(bufts[m]->dev->weir);
		if (!r && !has_room(p, m, bufts[m], bufs[m]))
			r = alloc_buf(&p->memory[m], bufts[m], &fresh[m]);
	}
	return r;
}

int weir_placement_alloc(const struct weir_placement *p,
			 struct weir_buft *const *bufts, struct weir_buf **bufs)
{
	struct weir_buf **fresh =
		weir__calloc(p->n_memories, sizeof(struct weir_buf *));
	int r;

	WEIR__ENTER();
	if (!fresh)
		return weir__fail(-ENOMEM, "no memory for %u buffers",
				  p->n_memories);
	r = alloc_all(p, bufts, bufs, fresh);
	for (unsigned m = 0; m < p->n_memories; m++) {
		if (!r && fresh[m]) {
			weir__buf_put(bufs[m]);
			bufs[m] = fresh[m];
		} else {
			weir__buf_put(fresh[m]);
		}
	}
	weir__free(fresh);
	return r;
}

static int check_tensor(const struct weir_placement *p,
			struct weir_buf *const *bufs,
			const struct weir_tensor *t, size_t i)
{
	const struct weir__place *place = &p->place[i];
	uint64_t need;
	int r;

	if (t->of)
		return weir__fail(-EINVAL, "%s: item %zu is a view",
				  weir__tensor_label(t), i);
	r = weir__buft_need(bufs[place->memory]->buft, t, &need);
	if (r < 0)
		return r;
	if (need > place->bytes)
		return weir__fail(-ENOSPC, "%s: %llu bytes, item %zu has %llu",
				  weir__tensor_label(t), (ull)need, i,
				  (ull)place->bytes);
	return 0;
}

static int check_apply(const struct weir_placement *p,
		       struct weir_buf *const *bufs,
		       const struct weir_tensor *t, size_t n)
{
	int r = 0;

	if (n < p->n || (n && !t))
		return weir__fail(-EINVAL, "%zu tensors for %zu items",
				  t ? n : 0, p->n);
	for (unsigned m = 0; m < p->n_memories && !r; m++) {
		if (!p->memory[m].info.items)
			continue;
		if (!bufs[m])
			return weir__fail(-EINVAL,
					  "memory %u: its buffer is NULL", m);
		r = weir__root_enter(bufs[m]->buft->dev->weir);
		if (!r)
			r = check_room(&p->memory[m], m, bufs[m]);
	}
	for (size_t i = 0; i < p->n && !r; i++)
		r = check_tensor(p, bufs, &t[i], i);
	return r;
}

/* The offset in @buf, whose members may be larger than the placement's. */
static uint64_t offset_in(const struct weir_placement *p,
			  const struct weir__place *place, struct weir_buf *buf)
{
	const struct weir__placed *placed = &p->memory[place->memory];
	uint64_t offset = place->offset;

	if (!placed->info.members)
		return 0;
	offset += lead_of(&placed->info, member_of(buf, place->member));
	if (!place->member)
		return offset;
	return offset - placed->begin[place->member] +
	       buf->member_at[place->member];
}

int weir_placement_apply(const struct weir_placement *p,
			 struct weir_buf *const *bufs, struct weir_tensor *t,
			 size_t n)
{
	int r;

	WEIR__ENTER();
	r = check_apply(p, bufs, t, n);
	if (!r)
		r = weir__views_check(t, n);
	if (r < 0)
		return r;
	for (size_t i = 0; i < p->n; i++) {
		t[i].buf = bufs[p->place[i].memory];
		t[i].offset = offset_in(p, &p->place[i], t[i].buf);
	}
	weir__views_place(t, n);
	return 0;
}
