/* SPDX-License-Identifier: MIT */
/*
 * A layout: what follows from a plan before any memory is allocated. It has the
 * number and sizes of the buffers, the placement of each tensor, and the spans:
 * neighbouring tensors that have the same distances in a buffer as in the file.
 * Equal plans have equal layouts.
 *
 *	layout.c		lists the tensors, then calls:
 *	layout_place.c		a place for each tensor, and the spans
 *	layout.c		the checks, and the order of reading
 *
 * A layout of the program's memory alone is kept by the plan until that
 * changes. Another layout gets the addresses of the new memory of one load, and
 * is computed again for the next load.
 */
#ifndef WEIR__MODEL_LAYOUT_H
#define WEIR__MODEL_LAYOUT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/array.h"
#include "model/load/plan.h"

struct weir__extent;

#define WEIR__NO_BUF UINT32_MAX
#define WEIR__NO_SLICE UINT32_MAX

/* Where a tensor, or a slice of it, is. */
struct weir__tensor_placement {
	size_t record;
	uint32_t buf;   /* number of the buffer; WEIR__NO_BUF: a sink */
	uint32_t slice; /* number in layout->slice; WEIR__NO_SLICE: it is
			   plain */
	uint64_t at;    /* offset in the buffer */
	uint64_t off;   /* offset of its first byte in the file */
	uint64_t bytes; /* bytes in memory, from its first to its last byte */
	uint64_t data;  /* bytes in the file, without gaps */
};

/*
 * A span of neighbouring tensors. A tensor that has several rows, or is
 * converted, has a span of its own.
 */
struct weir__load_span {
	uint32_t shard;
	uint32_t buf;      /* number in layout->buf */
	uint64_t off, len; /* place in the file */
	uint64_t at;       /* offset in the buffer */
	size_t first, n;   /* its tensors: layout->order[first...] */
	enum weir_way way;
	int32_t priority;
	uint32_t placement; /* placement of its first tensor */
	uint32_t slice;     /* number of its slice, as in a placement */
};

struct weir__layout_buf {
	struct weir_buft *buft;
	/* A buffer of the program, which the plan references; or NULL. */
	struct weir_buf *given;
	unsigned char *base; /* its address; that of a new buffer is set when
				it is allocated */
	uint64_t room;       /* bytes of given */
	uint64_t bytes;      /* bytes up to the end of the last tensor */
	uint32_t flags;      /* WEIR_BUF_* of new memory */
	/*
	 * Tensors are placed as if new memory began at a multiple of align. If
	 * its kind guarantees less, weir__layout_bytes adds the difference, and
	 * the first lead bytes of the memory stay unused.
	 */
	uint64_t align, lead;
	uint32_t map_shard; /* the mapped file, if it is of kind MAPPED */
	uint64_t map_off;   /* offset where the mapping begins */
	size_t first, n;    /* its tensors: layout->order[first...] */
	bool foreign; /* the program's memory, not allocated by the library */
};

/*
 * The tensors of a selection that is a sink: they have no places. A sink
 * without a function computes digests of some of the tensors of a selection
 * without memory, or of a mapped one.
 */
struct weir__layout_sink {
	struct weir_sink call;
	struct weir__load_span *span; /* spans by file, without buf and at */
	size_t n_spans, max_spans;
};

/* An entry of the one array that has the placements, then their order. */
struct weir__layout_places {
	struct weir__tensor_placement placement;
	size_t order;
};

/*
 * The large arrays of a load. With thousands of buffers the kernel needs as
 * long to clear new pages for them as weir to fill them in. So a layout that a
 * plan keeps has the arrays of a load that has ended, for the next one.
 */
struct weir__load_arrays {
	struct weir__extent *ext;
	uint32_t *ext_span; /* the span of each extent in the layout */
	size_t max_ext;
};

struct weir__layout {
	_Atomic uint32_t refs;
	/*
	 * Placements of selections, in the order of the model, then those of
	 * targets.
	 */
	struct weir__tensor_placement *placement;
	size_t n;
	/*
	 * Numbers of placements, by buffer and place; it follows placement[].
	 */
	size_t *order;
	size_t n_order;
	struct weir__load_span *span; /* spans in the order of reading */
	size_t n_spans, max_spans;
	struct weir__layout_buf *buf;
	size_t n_bufs, max_bufs;
	size_t n_selected_bufs; /* buffers of selections; those of targets
				   follow, by address */
	/*
	 * If rows are interleaved: the most bytes, from the first to the last,
	 * of a tensor that ends after the next one begins; else 0.
	 */
	uint64_t interleaved;
	struct weir__slice *slice; /* slices that are not plain */
	size_t n_slices, max_slices;
	struct weir__layout_sink *sink;
	size_t n_sinks, max_sinks;
	/* The plan keeps the layout, which keeps `spare` of an ended load. */
	_Atomic bool kept;
	_Atomic(struct weir__load_arrays *) spare;
	/* Room for the first entries of the arrays. */
	WEIR__ARRAY_ROOM(struct weir__layout_places, 1) room_places;
	WEIR__ARRAY_ROOM(struct weir__load_span, 1) room_spans;
	WEIR__ARRAY_ROOM(struct weir__layout_buf, 1) room_bufs;
};

static inline bool weir__span_is_plain(const struct weir__load_span *span)
{
	return span->slice == WEIR__NO_SLICE;
}

/*
 * Get the layout of a plan, with a reference. -EINVAL: tensors would overlap.
 * -ENOSPC: they do not fit the program's buffer. -ENOMEM. Never blocks.
 */
int weir__layout_get(struct weir_plan *plan, struct weir__layout **ret_layout);
/* Drop a reference. NULL is allowed. */
void weir__layout_put(struct weir__layout *l);
/* Drop the layout that the plan keeps: the plan changes, or is freed. */
void weir__layout_forget(struct weir_plan *plan);

/*
 * Fail with -EINVAL if two tensors, of any selections, targets and buffers,
 * would share a byte, or a tensor would end after its buffer. weir__layout_get
 * checks every layout so. Sets interleaved.
 */
int weir__layout_check(const struct weir_model *model, struct weir__layout *l);
/* layout_place.c: place the tensors that are listed. -ENOSPC, -ENOMEM. */
int weir__layout_place(struct weir__layout *l, const struct weir_plan *plan);

/* The tensors of one selection, in the order of the file. */
struct weir__selected {
	const struct weir_plan *plan;
	const struct weir__selection *sel;
	const size_t *number; /* numbers of their placements */
	size_t n;
};
/*
 * layout_sink.c: the tensors of a sink have spans, and no places in memory.
 * -ENOMEM.
 */
int weir__layout_sink(struct weir__layout *l, const struct weir__selected *s);
/*
 * Divide the tensors, which may have memory, among sinks without a function,
 * which compute digests at the same time. -ENOMEM.
 */
int weir__layout_hashed(struct weir__layout *l, const struct weir__selected *s);

/*
 * Return the arrays that the layout keeps, or new ones. NULL: no memory. Any
 * thread.
 */
struct weir__load_arrays *weir__load_arrays_take(struct weir__layout *layout);
/* Give the arrays back when the load has ended. NULL is allowed. Any thread. */
void weir__load_arrays_give(struct weir__layout *layout,
			    struct weir__load_arrays *arrays);

/* Return the slice of a span or a placement; NULL: it is plain. */
static inline const struct weir__slice *
weir__layout_slice(const struct weir__layout *l, uint32_t number)
{
	return number == WEIR__NO_SLICE ? NULL : &l->slice[number];
}

/* Return the bytes to allocate for a new buffer. */
static inline uint64_t weir__layout_bytes(const struct weir__layout_buf *b)
{
	uint64_t has = b->buft->desc.align;

	return b->bytes && b->align > has ? b->bytes + b->align - has
					  : b->bytes;
}
/* Move the tensors of each buffer by its lead. Called once. */
void weir__layout_lead(struct weir__layout *l);

/*
 * Fail with -EINVAL if a load with layout @a cannot fill the memory of layout
 * @b.
 */
int weir__layout_same(const struct weir__layout *a,
		      const struct weir__layout *b);

/*
 * Return the address space of memory; 0: the host's. Devices of a backend that
 * can access each other share one.
 */
uint64_t weir__mem_space(const struct weir_buft *buft);

#endif
