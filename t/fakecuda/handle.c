/* SPDX-License-Identifier: MIT */
/*
 * Contexts, streams, events, modules and functions are slots of one reserved
 * range, each used only once. So any pointer that a program passes can be
 * checked without reading foreign memory, and a handle that was destroyed is
 * recognised.
 */
#include <assert.h>
#include <sys/mman.h>

#include "kernel.h"

#define SLOT 128u
#define SLOTS ((size_t)1 << 22)

union slot {
	struct fc_handle handle;
	struct CUctx_st ctx;
	struct CUstream_st stream;
	struct CUevent_st event;
	struct CUmod_st module;
	struct CUfunc_st function;
	struct CUlib_st library;
	char room[SLOT];
};

static_assert(sizeof(union slot) == SLOT, "a handle fits into its slot");

static union slot *slots;
static size_t used;

/* NULL: no memory. Under fc.lock. */
void *fc_handle_new(enum fc_kind kind, struct CUctx_st *ctx)
{
	union slot *slot;

	if (!slots) {
		slot = mmap(NULL, SLOTS * SLOT, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (slot == MAP_FAILED)
			return NULL;
		slots = slot;
	}
	if (used == SLOTS)
		return NULL;
	slot = &slots[used++];
	slot->handle.kind = kind;
	slot->handle.live = true;
	slot->handle.ctx = ctx;
	return slot;
}

/* True if @handle names a live object of that kind. */
bool fc_handle_ok(const void *handle, enum fc_kind kind)
{
	uintptr_t at = (uintptr_t)handle, start = (uintptr_t)slots;
	const struct fc_handle *head = handle;

	if (at < start || at >= start + used * SLOT || (at - start) % SLOT)
		return false;
	return head->kind == kind && head->live;
}

/* The next live object of a kind; NULL begins and ends the iteration. */
void *fc_handle_next(const void *after, enum fc_kind kind)
{
	const union slot *last = after;
	size_t i = last ? (size_t)(last - slots) + 1 : 0;

	for (; i < used; i++) {
		if (fc_handle_ok(&slots[i], kind))
			return &slots[i];
	}
	return NULL;
}
