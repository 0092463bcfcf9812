/* SPDX-License-Identifier: MIT */
/*
 * WEIR_DEBUG=races: accesses that nothing orders are reported, each once, and
 * accesses that anything orders are not. Streams are idle or blocked as a test
 * needs it; a report does not depend on what has run by then.
 */
#include <unistd.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>

#include "stream/stream.h"
#include "racing.h"

static unsigned char host[256];

static void missing_wait(void)
{
	set_up();
	fill(a, 0, 64);
	must(weir_stream_sync(b, -1));
	must(weir_stream_get(b, &t, 32, host, 64));
	expect_race(
		"stream 'b' operation 1 (get) reads bytes [32, 64) of 't', which stream 'a' operation 1 (fill) writes, and nothing orders the two: stream 'b' needs to wait for stream 'a' operation 1",
		"a read without a wait for the stream that wrote");
}

static void write_after_read(void)
{
	set_up();
	must(weir_stream_copy(a, &u, &t));
	fill(b, 255, 1);
	expect_race(
		"stream 'b' operation 1 (fill) writes bytes [255, 256) of 't', which stream 'a' operation 1 (copy) reads, and nothing orders the two: stream 'b' needs to wait for stream 'a' operation 1",
		"a write without a wait for the stream that reads");
}

static void event_too_early(void)
{
	set_up();
	fill(a, 0, 8);
	must(weir_stream_record(a, ev));
	fill(a, 8, 8);
	must(weir_stream_wait(b, ev));
	fill(b, 0, 16);
	must(weir_stream_sync(b, -1));
	is_int(reports(1), 1,
	       "a wait for an event recorded too early: one report");
	has_str(said,
		"writes bytes [8, 16) of 't', which stream 'a' operation 2 (fill)",
		"a wait for an event recorded too early covers what was queued before");
	tear_down();
}

/* After a report the wait is assumed: what it would order is not reported. */
static void once(void)
{
	set_up();
	fill(a, 0, 8);
	fill(a, 8, 8);
	for (int i = 0; i < 100; i++)
		fill(b, 0, 16);
	is_int(reports(1), 1,
	       "accesses that one wait would order are reported once");
	tear_down();
	set_up();
	for (int i = 0; i < 100; i++) {
		fill(a, 0, 16);
		fill(b, 0, 16);
	}
	is_int(reports(2), 2,
	       "a race in a loop is reported once for each side");
	tear_down();
}

static struct weir__stream_op *blocks;

static void note_op(struct weir__stream_op *op)
{
	blocks = op;
}

static void late_wait(void)
{
	struct weir__stream_op *op;

	set_up();
	must(weir__stream_op_begin(b, "hand", WEIR_WORK_CALL, &op));
	op->exclusive = true;
	op->start = note_op;
	must(weir__stream_op_queue(op));
	must(weir_stream_get(b, &t, 0, host, 8));
	fill(a, 0, 8);
	must(weir_stream_sync(a, -1));
	weir__stream_op_finish(blocks, NULL);
	must(weir_stream_sync(b, -1));
	is_int(reports(1), 1,
	       "a wait of the program does not order what was queued before it");
	tear_down();
}

static void rectangles(void)
{
	struct weir_rect left = { 0 }, right;

	set_up();
	left.width = 8;
	left.rows = 16;
	left.pitch = 16;
	left.host_pitch = 8;
	right = left;
	right.off = 8;
	must(weir_stream_set_2d(a, &t, &left, host));
	must(weir_stream_set_2d(b, &t, &right, host + 128));
	is_str(said, "", "rows beside each other are different bytes");
	right.off = 7;
	must(weir_stream_set_2d(b, &t, &right, host + 128));
	reports(1);
	has_str(said, "writes bytes [7, 8) of 't'",
		"rows that overlap in one byte race");
	is_int(reports(1), 1, "rows of two operations that race: one report");
	tear_down();
}

static void memory_of_the_program(void)
{
	set_up();
	must(weir_stream_get(a, &t, 0, host, 16));
	must(weir_stream_set(b, &u, 0, host + 8, 16));
	reports(1);
	has_str(said, "stream 'b' operation 1 (set) reads 8 bytes at",
		"memory of the program that two streams use is checked");
	must(weir_stream_get(a, &t, 0, host + 100, 16));
	must(weir_tensor_set(&u, 100, host + 100, 1));
	reports(2);
	has_str(said, "race: the program (weir_tensor_set) reads 1 bytes at",
		"memory of the program that a blocking call uses is checked");
	has_str(said,
		"the program needs to wait for stream 'a' operation 2 before this call",
		"a report of a blocking call says what the program needs to wait for");
	tear_down();
}

static void files(void)
{
	struct weir_file *file;

	set_up();
	file = temp_file(weir, 4096, 1);
	must(weir_stream_read(a, file, 0, &t, 0, 100));
	must(weir_stream_read(b, file, 0, &u, 0, 100));
	is_str(said, "", "reads of the same bytes of a file do not race");
	must(weir_stream_sync(a, -1));
	must(weir_stream_sync(b, -1));
	weir_file_close(file);
	expect_no_race("reads of files into different tensors do not race");
}

static void buffer_and_file(void)
{
	struct weir_file *file;

	set_up();
	file = temp_file(weir, 4096, 1);
	must(weir_stream_read(a, file, 0, &t, 0, 100));
	must(weir_stream_get(b, &t, 50, host, 100));
	weir_file_close(file);
	expect_race(
		"stream 'b' operation 1 (get) reads bytes [50, 100) of 't', which stream 'a' operation 1 (read) writes, and nothing orders the two: stream 'b' needs to wait for stream 'a' operation 1",
		"a tensor that is read from a file");
}

static void waits(void)
{
	struct weir_stream *c;

	set_up();
	c = new_stream(weir, "c");
	fill(a, 0, 64);
	must(weir_stream_record(a, ev));
	must(weir_stream_wait(b, ev));
	fill(b, 0, 64);
	must(weir_stream_record(b, ev));
	must(weir_stream_wait(c, ev));
	fill(c, 0, 64);
	must(weir_stream_sync(c, -1));
	fill(a, 0, 64);
	weir_stream_free(c);
	expect_no_race(
		"waits of streams order what they wait for, also through others");
}

static void done_event(void)
{
	set_up();
	fill(a, 0, 64);
	must(weir_stream_record(a, ev));
	usleep(20000);
	must(weir_stream_wait(b, ev));
	fill(b, 0, 64);
	expect_no_race("a wait for an event that is done orders, too");
}

/* How the program learns that the event is done, which is that of a fill. */
static void by_wait(void)
{
	must(weir_event_wait(ev, -1));
}

static void by_query(void)
{
	while (weir_event_query(ev) == 0)
		usleep(100);
}

static void by_descriptor(void)
{
	struct pollfd p = { .fd = weir_event_fd(ev), .events = POLLIN };

	must(p.fd);
	while (poll(&p, 1, -1) != 1)
		;
}

static void by_sync(void)
{
	must(weir_stream_sync(a, -1));
}

static void *wait_thread(void *arg)
{
	by_wait();
	return arg;
}

static void by_thread(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, wait_thread, NULL);
	pthread_join(thread, NULL);
}

static int post(void *sem)
{
	sem_post(sem);
	return 0;
}

static void by_function(void)
{
	sem_t sem;

	sem_init(&sem, 0, 0);
	must(weir_stream_call(a, post, &sem));
	while (sem_wait(&sem) < 0)
		;
}

static void by_blocking_get(void)
{
	must(weir_tensor_get(&t, 0, host + 200, 1));
}

/* The fill may be over by now, and the call is a wait all the same. */
static void by_late_blocking_get(void)
{
	usleep(20000);
	by_blocking_get();
}

static void by_blocking_fill(void)
{
	must(weir_tensor_fill(&t, 0, 1, 1));
}

static void program_waits(void (*wait)(void), const char *how)
{
	char text[120];

	set_up();
	fill(a, 0, 64);
	must(weir_stream_record(a, ev));
	wait();
	fill(b, 0, 64);
	snprintf(text, sizeof(text), "no race is reported if %s", how);
	expect_no_race(text);
}

static int wait_for(void *sem)
{
	while (sem_wait(sem) < 0)
		;
	return 0;
}

/* What follows in stream b comes after what the program did before sem_post. */
static void function_that_waits(void)
{
	sem_t sem;

	set_up();
	sem_init(&sem, 0, 0);
	must(weir_stream_call(b, wait_for, &sem));
	must(weir_stream_get(b, &t, 0, host, 64));
	fill(a, 0, 64);
	must(weir_stream_sync(a, -1));
	sem_post(&sem);
	expect_no_race(
		"a host function that waits for the program orders what follows it");
}

static int fill_in_b(void *arg)
{
	(void)arg;
	fill(b, 0, 64);
	return 0;
}

static void function_that_queues(void)
{
	set_up();
	fill(a, 0, 64);
	must(weir_stream_call(a, fill_in_b, NULL));
	must(weir_stream_sync(a, -1));
	expect_no_race(
		"what a host function queues comes after what is before it");
}

static void freed_buffers(void)
{
	struct weir_tensor again;

	set_up();
	fill(a, 0, 64);
	weir_buf_free(t.buf);
	usleep(20000);
	for (int i = 0; i < 20; i++) {
		again = bytes(weir, 256);
		must(weir_stream_fill(b, &again, 0, 256, 1));
		weir_buf_free(again.buf);
	}
	t = bytes(weir, 256);
	expect_no_race(
		"memory of a freed buffer is new when another buffer gets it");
}

static void failures(void)
{
	int err = -EIO;

	set_up();
	fill(a, 0, 64);
	must(weir_stream_call(a, fail_with, &err));
	is_int(weir_stream_sync(a, -1), -EIO, "a stream fails");
	fill(b, 0, 64);
	must(weir_stream_reset(a));
	must(weir_stream_sync(b, -1));
	fill(a, 0, 64);
	expect_no_race("a wait that returns a failure orders, too");
}

static void both_read(void)
{
	set_up();
	must(weir_stream_get(a, &t, 0, host, 100));
	must(weir_stream_get(b, &t, 0, host + 100, 100));
	expect_no_race("two reads do not race");
}

static void heap_blocks(void)
{
	struct weir_heap_opts o = WEIR_HEAP_OPTS_INIT;
	struct weir_block block;
	struct weir_heap *heap;
	struct weir_buft *plain;

	set_up();
	must(weir_dev_buft(cpu_of(weir), WEIR_MEM_PLAIN, &plain));
	o.grow = 1 << 20;
	o.limit = 1 << 20;
	must(weir_heap_new(plain, &o, &heap));
	for (int i = 0; i < 2000; i++) {
		struct weir_stream *s = i % 3 ? a : b;
		int64_t n = 300000 + i % 7 * 50000;
		struct weir_tensor part;

		must(weir_heap_alloc(heap, (size_t)n, 0, s, &block));
		must(weir_tensor_init(&part, WEIR_DTYPE_U8, 1, &n));
		must(weir_tensor_place(&part, block.buf, block.offset));
		must(weir_stream_fill(s, &part, 0, (size_t)n / 2, 1));
		/*
		 * In some turns the operation is over before the block is
		 * freed.
		 */
		if (i % 100 < 2)
			usleep(2000);
		must(weir_heap_free(&block, s));
	}
	weir_heap_destroy(heap);
	expect_no_race(
		"blocks of a heap that streams use one after another do not race");
}

/* More streams than the checker can tell apart, and many ranges. */
static void many_streams(void)
{
	struct weir_stream *s[300];

	set_up();
	for (int i = 0; i < 300; i++) {
		s[i] = new_stream(weir, "many");
		if (i)
			must(weir_stream_wait(s[i], ev));
		fill(s[i], 0, 64);
		must(weir_stream_record(s[i], ev));
	}
	must(weir_event_wait(ev, -1));
	for (int i = 0; i < 300; i++)
		weir_stream_free(s[i]);
	expect_no_race(
		"streams beyond the number that is told apart are thought to be ordered");
}

static void off(void)
{
	unsetenv("WEIR_DEBUG");
	set_up();
	fill(a, 0, 64);
	fill(b, 0, 64);
	expect_no_race("without the word races nothing is reported");
}

static void racing(void)
{
	missing_wait();
	write_after_read();
	event_too_early();
	once();
	late_wait();
	rectangles();
	memory_of_the_program();
	buffer_and_file();
}

int main(void)
{
	plan(0);
	setenv("WEIR_DEBUG", "races", 1);
	if (may_race())
		racing();
	files();
	waits();
	done_event();
	program_waits(by_wait, "the program waits for an event");
	program_waits(by_query, "the program asks until an event is done");
	program_waits(by_descriptor, "the program polls an event's descriptor");
	program_waits(by_sync, "the program waits for a stream");
	program_waits(by_thread, "another thread waits for an event");
	program_waits(
		by_function,
		"a host function posts a semaphore that the program waits for");
	program_waits(by_blocking_get, "a blocking read comes after a write");
	program_waits(by_late_blocking_get,
		      "a blocking read comes after a write that has ended");
	program_waits(by_blocking_fill, "a blocking write comes after a write");
	function_that_waits();
	function_that_queues();
	freed_buffers();
	failures();
	both_read();
	heap_blocks();
	many_streams();
	if (may_race())
		off();
	return done_testing();
}
