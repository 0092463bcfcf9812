/* SPDX-License-Identifier: MIT */
/*
 * Reports a stream's operations to the race checker (races/races.h). Each
 * function is called only if weir__races_on().
 */
#ifndef WEIR__STREAM_RACES_H
#define WEIR__STREAM_RACES_H

#include "races/races.h"

struct weir_stream;
struct weir_tensor;
struct weir__stream_op;

#define WEIR__OP_NAMES 2u

/* An operation's data for the checker; not set if it is off. */
struct weir__op_races {
	struct weir__races_order order;
	int (*call)(void *arg); /* the program's function */
	void *arg;
	struct {
		char text[40];
		uint64_t base;  /* address of the tensor, 0: unknown */
	} name[WEIR__OP_NAMES]; /* names of its accesses' tensors */
};

/* Add the stream to the checker. */
void weir__stream_races_add(struct weir_stream *s);
void weir__op_races_init(struct weir__stream_op *op);
/* Access @i of @op is to @t. */
void weir__op_races_name(struct weir__stream_op *op, size_t i,
			 const struct weir_tensor *t);
/* @op has its number. The stream's lock is held, also in the next function. */
void weir__op_races_queued(struct weir__stream_op *op);
/* @op is being issued: check its accesses, unless they are made later. */
void weir__op_races_issued(struct weir__stream_op *op);
/* Called when what @op waits for has ended. */
void weir__op_races_waited(struct weir__stream_op *op);
/*
 * Wrap the program's host function, so that the checker sees it begin and end.
 */
void weir__op_races_call(struct weir__stream_op *op);
void weir__op_races_drop(struct weir__stream_op *op);

#endif
