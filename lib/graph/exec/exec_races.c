/* SPDX-License-Identifier: MIT */
/*
 * Reports runs to the race checker (races/races.h). The progress of a lane is
 * an actor, whose numbers are steps. It begins after what the lane's operation
 * comes after, and at sync points after more. Its accesses are checked when a
 * work has ended.
 */
#include "graph/exec/exec_races.h"

#include <string.h>

#include "dev/dev.h"
#include "graph/prefetch/prefetcher.h"
#include "graph/ops.h"
#include "graph/exec/run.h"
#include "mem/buf.h"
#include "mem/dtype.h"
#include "mem/tensor.h"

/* Rectangles of a tensor that are looked at. */
#define RECTANGLES 64u

/* The number that is done when the next step is. */
static uint64_t next_number(const struct weir__run_lane *lane)
{
	return lane->base + lane->step + 1;
}

void weir__run_lane_races_begin(struct weir__run_lane *lane)
{
	weir__races_inside(&lane->progress->timeline, next_number(lane),
			   &lane->op->stream->timeline, lane->op->number);
}

void weir__run_lane_races_knows(struct weir__run_lane *lane,
				struct weir__timeline *tl, uint64_t number)
{
	weir__races_waited(&lane->progress->timeline, next_number(lane), tl,
			   number);
}

void weir__run_lane_races_call(struct weir__run_lane *lane, bool ends)
{
	if (ends)
		weir__races_call_end(&lane->progress->timeline,
				     next_number(lane));
	else
		weir__races_call_begin(&lane->progress->timeline,
				       next_number(lane));
}

void weir__run_lane_races_end(struct weir__run_lane *lane)
{
	weir__races_waited(&lane->op->stream->timeline, lane->op->number,
			   &lane->progress->timeline, lane->base + lane->step);
}

/*
 * The address space of the memory that has the address: the lane's, that of a
 * leaf, or a prefetcher's.
 */
static uint64_t space_at(const struct weir__run_lane *lane, uint64_t address)
{
	const struct weir__accessed *t = lane->accessed;
	size_t lo = 0, hi = lane->n_accessed;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if ((uintptr_t)t[mid].buf->mem.base + t[mid].lo <= address)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo ? weir__buf_space(t[lo - 1].buf)
		  : weir__buft_space(lane->of->on->buft);
}

/* True if dimension @i of @t is further out than @k. */
static bool is_outer(const struct weir_tensor *t, unsigned i, unsigned k)
{
	return t->shape[i] == 1 ||
	       (t->shape[k] != 1 && t->stride[i] > t->stride[k]);
}

static void swap(int64_t *x, int64_t *y)
{
	int64_t old = *x;

	*x = *y;
	*y = old;
}

/*
 * The operand with its dimensions in the order of strides: the same bytes in
 * fewer rows, if its dimensions are permuted. Blocks stay in the last
 * dimension.
 */
static struct weir_tensor operand_bytes(const struct weir_operand *o)
{
	struct weir_tensor t = { .dtype = o->dtype, .ndim = o->ndim };
	unsigned n = weir__dtype(o->dtype)->block > 1 ? o->ndim - 1 : o->ndim;

	memcpy(t.shape, o->shape, o->ndim * sizeof(*o->shape));
	memcpy(t.stride, o->stride, o->ndim * sizeof(*o->stride));
	if (weir__tensor_one_row(&t))
		return t;
	for (unsigned i = 0; i < n; i++)
		if (!t.stride[i])
			t.shape[i] = 1;
	for (unsigned i = 1; i < n; i++)
		for (unsigned k = i; k && !is_outer(&t, k - 1, k); k--) {
			swap(&t.shape[k], &t.shape[k - 1]);
			swap(&t.stride[k], &t.stride[k - 1]);
		}
	return t;
}

static void operand_access(const struct weir__run_lane *lane, uint64_t number,
			   const struct weir_backend_node *node,
			   const struct weir_operand *o, bool write)
{
	struct weir__races_bytes b = { .rows = 1, .write = write };
	struct weir_tensor t = operand_bytes(o);
	int64_t index[WEIR_MAX_DIMS] = { 0 };
	uint64_t off = 0, base = (uintptr_t)o->data;
	unsigned outer, n = 0;
	size_t row;

	outer = weir__tensor_outer(&t, &row);
	if (outer) {
		b.rows = weir__tensor_steps(&t, outer - 1);
		b.pitch = (uint64_t)t.stride[outer - 1];
	}
	b.space = space_at(lane, base);
	b.width = row;
	if (write) {
		b.name = node->name;
		b.base = base;
	}
	do {
		b.lo = base + off;
		weir__races_access(&lane->progress->timeline, number,
				   weir__op_row(node->op)->name, &b);
	} while (++n < RECTANGLES &&
		 weir__tensor_next_row(&t, outer ? outer - 1 : 0, index, &off));
}

/* True if other bytes decide which rows of source @s are accessed. */
static bool is_by_index(const struct weir_backend_node *node, uint32_t s)
{
	return s == 0 &&
	       (node->op == WEIR_OP_GET_ROWS || node->op == WEIR_OP_MUL_MAT_ID);
}

/*
 * Report that the node reads source 0 from its file. This is known until the
 * lane's next step begins.
 */
static void reader_access(const struct weir__run_lane *lane, uint64_t number,
			  const struct weir_backend_node *node)
{
	struct weir__races_bytes b = { .rows = 1 };
	const struct weir__entry_reader *p =
		(const struct weir__entry_reader *)node->reader;

	if (!p || is_by_index(node, 0) ||
	    !__atomic_load_n(&p->of.active, __ATOMIC_SEQ_CST))
		return;
	b.space = weir__races_file(p->file->id.dev, p->file->id.ino);
	b.lo = p->at;
	b.width = p->of.bytes;
	weir__races_access(&lane->progress->timeline, number,
			   weir__op_row(node->op)->name, &b);
}

static void node_access(const struct weir__run_lane *lane, uint64_t number,
			const struct weir_backend_node *node)
{
	const struct weir__op_info *row = weir__op_row(node->op);
	bool writes = row->flags & WEIR__OP_WRITES;

	reader_access(lane, number, node);
	for (uint32_t s = 0; s < node->n_src; s++)
		if (node->src[s].data && !is_by_index(node, s) &&
		    !(writes && s == row->target))
			operand_access(lane, number, node, &node->src[s],
				       false);
	if (node->op != WEIR_OP_SET_ROWS)
		operand_access(lane, number, node, &node->dst, true);
}

static void workspace_access(const struct weir__run_lane *lane)
{
	const struct weir_buf *w = lane->of->workspace;
	struct weir__races_bytes b = { .rows = 1, .write = true };

	if (!w || w->member)
		return;
	b.space = weir__buf_space(w);
	b.lo = (uintptr_t)w->mem.base;
	b.width = w->bytes;
	weir__races_access(&lane->progress->timeline, lane->base + lane->end,
			   "workspace", &b);
}

void weir__run_lane_races_computed(const struct weir__run_lane *lane)
{
	const struct weir_backend_node *const *list =
		lane->of->copy[lane->run->copy].list;

	for (uint32_t i = lane->step; i < lane->end; i++)
		node_access(lane, lane->base + i + 1, list[i]);
	workspace_access(lane);
	weir__races_flush(lane->run->exec->sched->weir);
}
