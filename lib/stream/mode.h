/* SPDX-License-Identifier: MIT */
/*
 * The two modes of a stream. All differences are in this table; no other code
 * depends on the mode of a stream.
 *
 * managed (mode_managed.c): only the library queues work on the stream's queue.
 * The library keeps the order: an operation stays pending while it conflicts
 * with one that is issued. No call blocks.
 *
 * native (mode_native.c): the queue's handle is known outside of the library
 * (WEIR_STREAM_NATIVE, or a wrapped stream), and other code queues work there
 * that the library does not see. Such work would overtake a pending operation,
 * so each operation is issued before the call that queues it returns, and the
 * caller blocks until it can be issued.
 */
#ifndef WEIR__STREAM_MODE_H
#define WEIR__STREAM_MODE_H

#include <stddef.h>
#include <stdint.h>

struct weir__timeline;
struct weir__stream_op;
struct weir_backend_work;
struct weir_stream;

/* All members are required. */
struct weir__stream_mode {
	size_t size;
	/*
	 * Issue pending operations, oldest first, as far as the mode permits.
	 * Called whenever one was queued or has finished, on any thread, with
	 * the stream's lock held, which is released meanwhile. Like submit, it
	 * may block if the mode is native.
	 */
	void (*issue)(struct weir_stream *s);
	/*
	 * Submit ready work of one of its operations to the queue: 0 or the
	 * backend's errno. The stream's lock is held; native: it is released
	 * meanwhile, since the driver may block.
	 */
	int (*submit)(struct weir_stream *s, struct weir_backend_work *work);
	/*
	 * Return the number that is done when all work that is now in the queue
	 * is done; native: including work that others have queued. -ENOMEM:
	 * native, no memory for a marker. Another errno: the queue refuses a
	 * marker, or has refused the last one of a stream that was freed.
	 */
	int (*tail)(struct weir_stream *s, uint64_t *ret_tail);
	/*
	 * Queue a host function; queue a file operation whose access to memory
	 * and range of the file are set. On the caller's thread, as
	 * weir__stream_op_queue; queue_file may block if native.
	 */
	int (*queue_call)(struct weir__stream_op *op);
	int (*queue_file)(struct weir__stream_op *op);
	/*
	 * Make work that is queued on @s from now on wait for @number of @tl.
	 * Takes over the reference to @tl. May block if native.
	 */
	int (*wait)(struct weir_stream *s, struct weir__timeline *tl,
		    uint64_t number);
};

extern const struct weir__stream_mode weir__stream_managed, weir__stream_native;

#endif
