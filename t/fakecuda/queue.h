/* SPDX-License-Identifier: MIT */
/*
 * Operations: a call queues one on a stream, and a worker runs it later.
 *
 * fc_op_new makes an operation, the caller fills in the members of its kind,
 * fc_queue takes it, and the worker frees it.
 */
#ifndef FAKECUDA_QUEUE_H
#define FAKECUDA_QUEUE_H

#include "fakecuda.h"

enum fc_what {
	FC_COPY,
	FC_FILL,
	FC_MARK, /* a record */
	FC_WAIT_MARK,
	FC_WAIT_STREAM, /* stream 0 and the others wait for each other */
	FC_WAIT_VALUE,
	FC_WRITE_VALUE,
	FC_HOST_FN,
	FC_LAUNCH,
	FC_LIBRARY_WORK,
};

/* A rectangle; one row for a plain copy. Addresses are the driver's. */
struct fc_move {
	char *dst;
	const char *src;
	size_t width, height;
	size_t dst_pitch, src_pitch;
};

struct fc_op {
	struct fc_op *next;
	struct CUstream_st *stream;
	uint64_t number; /* number of the stream */
	uint64_t queued_at;
	enum fc_what what;
	struct fc_fault fault; /* strikes when the operation runs */
	bool dry;              /* takes its time but moves no bytes */

	/* FC_COPY, FC_FILL */
	struct fc_engine *engine; /* NULL: a copy inside a device */
	enum fc_direction direction;
	struct fc_move *moves;
	size_t count;
	uint64_t bytes;
	char *stage; /* a copy of pageable sources, freed with this */
	bool summed; /* the sources must not change until the copy runs */
	uint64_t sum;
	unsigned char fill;

	/* FC_MARK, FC_WAIT_MARK: referenced */
	struct fc_mark *mark;

	/* FC_WAIT_STREAM */
	struct CUstream_st *other;
	uint64_t other_number;

	/* FC_WAIT_VALUE, FC_WRITE_VALUE */
	void *addr;
	uint64_t value;
	unsigned flags;
	bool wide; /* 64 bits */

	struct fc_launch *launch; /* FC_LAUNCH */

	/*
	 * FC_LIBRARY_WORK: stage is its argument; the dst of moves are rows,
	 * whose src_pitch is not 0 if they are written
	 */
	void (*library)(void *arg, char *const *at);

	/* FC_HOST_FN */
	CUhostFn fn;
	void *arg;
};

struct fc_op *fc_op_new(enum fc_what what, size_t moves);
void fc_op_free(struct fc_op *op);

/* True if @op is dropped, since its context or device has failed. */
bool fc_op_dropped(const struct fc_op *op);

/* engine.c: both drop fc.lock while they work. */
void fc_run_copy(struct fc_op *op);
void fc_run_fill(struct fc_op *op);
uint64_t fc_moves_sum(const struct fc_move *moves, size_t count);
void fc_moves_do(const struct fc_move *moves, size_t count);

/* library.c: drops fc.lock while it works. */
void fc_run_library(struct fc_op *op);

/* value.c */
void fc_run_wait_value(struct fc_op *op);
void fc_run_write_value(struct fc_op *op);

#endif
