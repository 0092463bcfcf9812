/* SPDX-License-Identifier: MIT */
/*
 * How reads and writes reach the kernel: a table of functions. All are called
 * on the reactor's thread, which owns the reactor. The tables are in
 * method_uring.c and method_sync.c; a bench has another.
 */
#ifndef WEIR__IO_METHOD_H
#define WEIR__IO_METHOD_H

#include <stddef.h>
#include <stdint.h>

struct weir__loop;
struct weir__op;
struct weir__slot;
struct weir_file;

struct weir__method_ops {
	size_t size;
	uint32_t io; /* enum weir_io */
	const char *name;
	/*
	 * Make what the method needs. Required. < 0, with a reason in
	 * eng->why: the method does not work here.
	 */
	int (*open)(struct weir__loop *loop);
	/* Undo open. Nothing is in flight. Required. */
	void (*close)(struct weir__loop *loop);
	/*
	 * Take one op. Required. Never blocks and never fails, since at most
	 * loop->n_ops are in flight.
	 */
	void (*submit)(struct weir__loop *loop, struct weir__op *op);
	/*
	 * Pass submitted ops to the kernel, and call weir__op_advance() for
	 * those that have completed. Sleep until an op completes or the reactor
	 * is notified, for at most @limit ns (-1: weir__reactor_max_sleep, 0:
	 * do not sleep); the reactor is released while the thread sleeps.
	 * Required.
	 */
	void (*wait)(struct weir__loop *loop, int64_t limit);
	/* @slot is about to be used for the first time. Optional. */
	void (*slot)(struct weir__loop *loop, struct weir__slot *slot);
	/*
	 * Reference @file in the ring's table of files: returns its entry, or
	 * -1; and drop that reference. Optional, both or none.
	 */
	int (*file_get)(struct weir__loop *loop, struct weir_file *file);
	void (*file_put)(struct weir__loop *loop, int fixed);
};

extern const struct weir__method_ops weir__method_uring;
extern const struct weir__method_ops weir__method_sync;

#endif
