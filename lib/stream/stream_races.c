/* SPDX-License-Identifier: MIT */
#include "stream/stream_races.h"

#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "mem/tensor.h"
#include "stream/stream.h"

void weir__stream_races_add(struct weir_stream *s)
{
	char label[sizeof(s->label) + 16];
	bool named = strncmp(s->label, "stream '", 8) == 0;

	/* Streams without a name are distinguished by their numbers. */
	if (named)
		snprintf(label, sizeof(label), "%s", s->label);
	else
		snprintf(label, sizeof(label), "%s (%u)", s->label, s->id);
	weir__races_add(&s->timeline, label, "operation");
	if (s->mode == &weir__stream_native)
		weir__races_native(&s->timeline);
}

void weir__op_races_init(struct weir__stream_op *op)
{
	memset(&op->races, 0, sizeof(op->races));
}

void weir__op_races_name(struct weir__stream_op *op, size_t i,
			 const struct weir_tensor *t)
{
	if (i >= WEIR__OP_NAMES || !t->name)
		return;
	snprintf(op->races.name[i].text, sizeof(op->races.name[i].text), "%s",
		 t->name);
	if (t->buf && !t->buf->member)
		op->races.name[i].base =
			(uintptr_t)t->buf->mem.base + t->offset;
}

void weir__op_races_queued(struct weir__stream_op *op)
{
	weir__races_queued(&op->stream->timeline, &op->races.order);
}

/*
 * Report the bytes at @addr: those of access @i of @op, or of the program's
 * memory.
 */
static void work_access(struct weir__stream_op *op, size_t i, const void *addr,
			uint64_t pitch, bool write)
{
	const struct weir_backend_work *w = &op->work;
	struct weir__races_bytes b = { .lo = (uintptr_t)addr,
				       .width = w->width,
				       .pitch = pitch,
				       .rows = w->rows,
				       .write = write };

	if (!addr)
		return;
	if (i < op->n_access) {
		b.space = weir__buf_space(op->access[i].buf);
		b.base = op->races.name[i].base;
	}
	if (i < op->n_access && op->races.name[i].text[0])
		b.name = op->races.name[i].text;
	weir__races_access(&op->stream->timeline, op->number, op->what, &b);
}

/*
 * The first of two accesses is the source of a copy; other works have one
 * access.
 */
static void check_work(struct weir__stream_op *op)
{
	const struct weir_backend_work *w = &op->work;
	bool two = op->n_access == 2;

	if (w->kind != WEIR_WORK_FILL)
		work_access(op, two || w->kind == WEIR_WORK_GET ? 0 : 1, w->src,
			    w->src_pitch, false);
	work_access(op, two || w->kind == WEIR_WORK_GET, w->dst, w->dst_pitch,
		    true);
}

static void check_file(struct weir__stream_op *op)
{
	const struct weir__file_id *id = &op->file->id;
	bool to_file = op->file_range.write;
	const struct weir_backend_work *w = &op->work;
	struct weir__races_bytes b = {
		.space = weir__races_file(id->dev, id->ino),
		.lo = op->file_range.lo,
		.width = w->width,
		.pitch = w->src_pitch,
		.rows = w->rows,
		.write = to_file,
		.name = op->file->base,
	};

	weir__races_access(&op->stream->timeline, op->number, op->what, &b);
	work_access(op, 0, op->access[0].buf->mem.base + op->access[0].lo,
		    w->dst_pitch, !to_file);
}

/* Later operations are issued before the function is called. */
static bool is_native_call(const struct weir__stream_op *op)
{
	return op->races.call && op->stream->mode == &weir__stream_native;
}

void weir__op_races_issued(struct weir__stream_op *op)
{
	weir__races_begin(&op->stream->timeline, op->number, &op->races.order);
	if (is_native_call(op))
		weir__races_call_given(&op->stream->timeline, op->number);
	if (op->timeline) {
		/* The device waits: later work does not wait for the answer. */
		if (op->barrier)
			weir__op_races_waited(op);
	} else if (op->file) {
		check_file(op);
	} else if (op->n_access && !op->start) {
		check_work(op);
	}
}

void weir__op_races_waited(struct weir__stream_op *op)
{
	weir__races_waited(&op->stream->timeline, op->number, op->timeline,
			   op->waiter.number);
}

/* On a thread of the backend. */
static int call_program(void *arg)
{
	struct weir__stream_op *op = arg;
	struct weir__timeline *tl = &op->stream->timeline;
	int r;

	weir__races_call_begin(tl, op->number);
	r = op->races.call(op->races.arg);
	weir__races_call_end(tl, op->number);
	return r;
}

void weir__op_races_call(struct weir__stream_op *op)
{
	op->races.call = op->work.call;
	op->races.arg = op->work.arg;
	op->work.call = call_program;
	op->work.arg = op;
}

void weir__op_races_drop(struct weir__stream_op *op)
{
	weir__races_order_drop(op->stream->timeline.weir, &op->races.order);
	if (is_native_call(op))
		weir__races_call_over(&op->stream->timeline, op->number);
}
