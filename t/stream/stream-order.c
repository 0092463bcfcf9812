/* SPDX-License-Identifier: MIT */
/*
 * What a managed stream issues, and when, over a queue and file operations that
 * end when the test says so.
 */
#include <errno.h>

#include "core/error.h"
#include "stream/event.h"
#include "stream/stream.h"
#include "core/sys.h"
#include "streams.h"
#include "core/util.h"

static struct weir *weir;
static struct weir_tensor t;

/* Operations that were issued and not ended, by name, in order. */
static char out[64];
static struct weir__stream_op *op_of[128];
static int refuse;

static void note(struct weir__stream_op *op)
{
	size_t n = strlen(out);

	out[n] = op->what[0];
	out[n + 1] = '\0';
	op_of[(unsigned char)op->what[0]] = op;
}

static int hand_submit(void *queue, struct weir_backend_work *work)
{
	(void)queue;
	if (refuse)
		return refuse;
	note(weir__container(work, struct weir__stream_op, work));
	return 0;
}

static void hand_close(void *queue)
{
	(void)queue;
}

static const struct weir_backend_queue_ops hand_ops = {
	.size = sizeof(hand_ops),
	.close = hand_close,
	.submit = hand_submit,
};

static void end(char name, int err)
{
	struct weir__stream_op *op = op_of[(unsigned char)name];
	char *at = strchr(out, name);

	memmove(at, at + 1, strlen(at));
	if (err)
		weir__stream_op_fail(op, err, 0, "by hand");
	else
		weir__stream_op_finish(op, NULL);
}

static struct weir_stream *hand_stream(void)
{
	struct weir_stream *s = new_stream(weir, "hand");

	s->ops->close(s->queue);
	s->ops = &hand_ops;
	out[0] = '\0';
	return s;
}

/* Device work on bytes [lo, hi) of the tensor. */
static void work(struct weir_stream *s, const char *name, uint64_t lo,
		 uint64_t hi, bool write)
{
	struct weir__stream_op *op;
	unsigned char *addr;

	must(weir__stream_op_begin(s, name, WEIR_WORK_FILL, &op));
	must(weir__stream_op_end(op, weir__stream_op_access(op, &t, lo, hi - lo,
							    write, &addr)));
}

static void call(struct weir_stream *s, const char *name)
{
	struct weir__stream_op *op;

	must(weir__stream_op_begin(s, name, WEIR_WORK_CALL, &op));
	op->exclusive = true;
	must(weir__stream_op_queue(op));
}

/* Bytes [lo, hi) of the tensor, from (or to) those at @off of a file. */
static void file_op(struct weir_stream *s, const char *name,
		    struct weir_file *file, uint64_t off, uint64_t lo,
		    uint64_t hi, bool to_file)
{
	struct weir__stream_op *op;
	unsigned char *addr;

	must(weir__stream_op_begin(s, name, WEIR_WORK_COPY, &op));
	op->start = note;
	op->file = weir__file_ref(file);
	op->file_range = (struct weir__range){ off, off + hi - lo, to_file };
	must(weir__stream_op_end(op, weir__stream_op_access(op, &t, lo, hi - lo,
							    !to_file, &addr)));
}

static void device_work(void)
{
	struct weir_stream *s = hand_stream();

	work(s, "a", 0, 10, true);
	work(s, "b", 0, 10, true);
	work(s, "c", 5, 20, false);
	is_str(out, "abc", "device work is submitted at once, in order");
	call(s, "d");
	work(s, "e", 50, 60, true);
	is_str(out, "abc", "a host function waits for device work before it");
	end('a', 0);
	end('b', 0);
	is_str(out, "c", "a host function waits for all device work before it");
	end('c', 0);
	is_str(out, "d",
	       "a host function runs when all before it has finished");
	end('d', 0);
	is_str(out, "e", "device work waits for a host function before it");
	end('e', 0);
	is_int(weir_stream_sync(s, 0), 0,
	       "a stream is done when its device work and host functions are");
	weir_stream_free(s);
}

static void end_all(struct weir_stream *s)
{
	while (out[0])
		end(out[0], 0);
	must(weir_stream_sync(s, 0));
	weir_stream_free(s);
}

static void reads(struct weir_file *f)
{
	struct weir_stream *s = hand_stream();

	file_op(s, "a", f, 0, 0, 10, false);
	file_op(s, "b", f, 0, 10, 20, false);
	is_str(out, "ab", "reads of the same bytes of a file run concurrently");
	work(s, "c", 100, 110, true);
	is_str(out, "abc", "device work runs beside reads of other memory");
	work(s, "d", 15, 16, false);
	is_str(out, "abc", "device work on the memory of a read waits for it");
	work(s, "e", 200, 210, false);
	file_op(s, "f", f, 50, 300, 310, false);
	is_str(out, "abc", "operations queued after a pending one are pending");
	end('a', 0);
	is_str(out, "bc",
	       "pending work is not issued when an unrelated read ends");
	end('b', 0);
	is_str(out, "cdef",
	       "pending work, and all after it, is issued when its read ends");
	end_all(s);
}

static void writes(struct weir_file *f, struct weir_file *g)
{
	struct weir_stream *s = hand_stream();

	file_op(s, "a", f, 50, 300, 310, false);
	file_op(s, "b", f, 100, 400, 410, true);
	is_str(out, "a", "a write to a file waits for a read of the same page");
	end('a', 0);
	is_str(out, "b",
	       "a write to a file is issued when the read of its page ends");
	file_op(s, "c", f, 4096, 500, 510, true);
	is_str(out, "bc", "writes to two pages of a file run concurrently");
	file_op(s, "d", g, 100, 600, 610, true);
	is_str(out, "bcd", "writes to two files run concurrently");
	file_op(s, "e", g, 8192, 605, 615, false);
	is_str(out, "bcd", "a read into the source of a write waits");
	end('d', 0);
	is_str(out, "bce",
	       "a read into the source of a write is issued when that ends");
	end_all(s);
}

static void reads_after_work(struct weir_file *f)
{
	struct weir_stream *s = hand_stream();

	work(s, "a", 100, 110, true);
	work(s, "b", 200, 210, true);
	file_op(s, "c", f, 0, 700, 705, false);
	file_op(s, "d", f, 0, 102, 106, false);
	is_str(out, "abc", "a read into memory of device work waits");
	end('a', 0);
	is_str(out, "bcd",
	       "a read into memory of device work waits for that work alone");
	end_all(s);
}

static void completes_in_order(void)
{
	struct weir_event *ev[3] = { new_event(weir, 0), new_event(weir, 0),
				     new_event(weir, 0) };
	struct weir_stream *s = hand_stream();

	work(s, "a", 0, 1, true);
	must(weir_stream_record(s, ev[0]));
	work(s, "b", 0, 1, true);
	must(weir_stream_record(s, ev[1]));
	work(s, "c", 0, 1, true);
	must(weir_stream_record(s, ev[2]));
	end('b', 0);
	is_int(weir_event_query(ev[1]), 0,
	       "an event is not done while work before it runs");
	end('a', 0);
	is_int(weir_event_query(ev[0]) + weir_event_query(ev[1]), 2,
	       "events are done when the oldest work ends");
	is_int(weir_event_query(ev[2]), 0,
	       "an event is not done before its own work");
	end('c', 0);
	is_int(weir_event_query(ev[2]), 1,
	       "an event is done when its own work ends");
	for (int i = 0; i < 3; i++)
		weir_event_free(ev[i]);
	weir_stream_free(s);
}

static void fails_in_order(struct weir_file *f)
{
	struct weir_event *last = new_event(weir, 0);
	struct weir_stream *s = hand_stream();
	struct weir_failure why;

	file_op(s, "a", f, 0, 0, 10, false);
	file_op(s, "b", f, 0, 10, 20, false);
	file_op(s, "c", f, 0, 20, 30, false);
	file_op(s, "d", f, 0, 30, 40, false);
	call(s, "e");
	must(weir_stream_record(s, last));
	end('c', -EIO);
	is_int(weir_stream_error(s, &why), 0,
	       "a failure is reported when all before it has finished");
	end('b', -ENODATA);
	end('a', 0);
	is_int(weir_stream_error(s, &why), -ENODATA,
	       "of two failures the lower number is the cause");
	is_int(why.number, 2,
	       "the failure has the lower number, though it came second");
	is_int(weir_event_query(last), 0,
	       "an event does not fail while work before it runs");
	is_err(weir_stream_reset(s), -EBUSY, "4 to 5",
	       "resetting a stream while issued work runs returns -EBUSY");
	end('d', 0);
	is_int(weir_event_query(last), -ECANCELED,
	       "an event is cancelled when all work before it has finished");
	is_str(out, "", "pending work of a failed stream is never issued");
	is_int(weir_stream_reset(s), 0,
	       "a failed stream can be reset when nothing is open");
	weir_event_free(last);
	weir_stream_free(s);
}

static void refused(void)
{
	struct weir_stream *s = hand_stream();

	refuse = -EAGAIN;
	work(s, "a", 0, 1, true);
	refuse = 0;
	is_err(weir_stream_sync(s, 0), -EAGAIN, "operation 1 (a)",
	       "work that the queue refuses fails the stream");
	weir_stream_free(s);
}

static void many_files(struct weir_file *f)
{
	static struct weir__stream_op *all[300];
	struct weir_stream *s = hand_stream();
	unsigned n = 0;

	for (unsigned i = 0; i < 300; i++) {
		out[0] = '\0';
		file_op(s, "x", f, 0, i, i + 1, false);
		if (out[0])
			all[n++] = op_of['x'];
	}
	is_int(n, WEIR__STREAM_FILES, "at most %u file operations are issued",
	       WEIR__STREAM_FILES);
	for (unsigned i = 0; i < n; i++) {
		out[0] = '\0';
		weir__stream_op_finish(all[i], NULL);
		if (out[0])
			all[n++] = op_of['x'];
	}
	is_int(n, 300, "each file operation that ends lets another be issued");
	is_int(weir_stream_sync(s, 0), 0,
	       "a stream is done after more file operations than its limit");
	weir_stream_free(s);
}

/* The first byte of each five of the tensor is written, the second is read. */
static void many_ranges(struct weir_file *f)
{
	struct weir_stream *s = hand_stream();
	struct weir__stream_op *op;
	unsigned char *addr;

	file_op(s, "a", f, 0, 705, 706, false);
	must(weir__stream_op_begin(s, "b", WEIR_WORK_FILL, &op));
	/* From the last one on: ranges may be added in any order. */
	for (uint64_t at = 1000; at; at -= 5) {
		must(weir__stream_op_access(op, &t, at - 5, 1, true, &addr));
		must(weir__stream_op_access(op, &t, at - 4, 1, false, &addr));
	}
	must(weir__stream_op_queue(op));
	is_str(out, "a",
	       "an operation of 400 ranges waits for a read to one of them");
	end('a', 0);
	is_str(out, "b",
	       "an operation of 400 ranges is issued after that read");
	file_op(s, "c", f, 0, 502, 505, false);
	file_op(s, "d", f, 8192, 506, 507, true);
	is_str(out, "bcd",
	       "file operations without a conflict run beside an operation of 400 ranges");
	file_op(s, "e", f, 4096, 7, 11, false);
	is_str(out, "bcd", "a read over one of the 400 ranges waits for it");
	end('b', 0);
	is_str(out, "cde", "a read over one of the 400 ranges runs after it");
	end_all(s);
	ok(!t.buf->access,
	   "an operation of 400 ranges leaves no access on the buffer");
}

static void large_numbers(void)
{
	struct weir_event *ev = new_event(weir, 0), *old = new_event(weir, 0);
	struct weir_stream *s = hand_stream();
	bool same = true;

	must(weir_stream_record(s, old));
	s->tail = UINT32_MAX - 3;
	atomic_store(&s->done, UINT32_MAX - 3);
	for (int i = 0; i < 8; i++) {
		work(s, "a", 0, 1, true);
		must(weir_stream_record(s, ev));
		same = same && weir_event_query(ev) == 0;
		end('a', 0);
		same = same && weir_event_query(ev) == 1 &&
		       weir_event_query(old) == 1;
	}
	ok(same, "numbers of operations continue beyond 2^32");
	weir_event_free(ev);
	weir_event_free(old);
	weir_stream_free(s);
}

int main(void)
{
	struct weir_file *f, *g;

	plan(43);
	weir = open_root(WEIR_IO_SYNC);
	t = bytes(weir, 1000);
	f = temp_file(weir, 10, 0);
	g = temp_file(weir, 10, 0);
	device_work();
	reads(f);
	writes(f, g);
	reads_after_work(f);
	completes_in_order();
	fails_in_order(f);
	refused();
	many_files(f);
	many_ranges(f);
	large_numbers();
	weir_file_close(f);
	weir_file_close(g);
	weir_buf_free(t.buf);
	weir_close(weir);
	return done_testing();
}
