/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "tap.h"
#include "stream.inc"

static char logged[1000];

static void log_line(void *arg, const char *text)
{
	(void)arg;
	snprintf(logged, sizeof(logged), "%s", text);
}

static struct weir *root(int64_t close_timeout)
{
	struct weir_opts o = WEIR_OPTS_INIT;
	struct weir *weir;

	o.close_timeout = close_timeout;
	o.log = log_line;
	logged[0] = '\0';
	must(weir_open(&o, &weir));
	return weir;
}

static int slow(void *arg)
{
	usleep(1000);
	(*(int *)arg)++;
	return 0;
}

static void drains(void)
{
	struct weir *weir = root(0);
	struct weir_stream *a = new_stream(weir, "a");
	struct weir_stream *b = new_stream(weir, "b");
	struct weir_event *ev = new_event(weir, 0);
	struct weir_tensor t = bytes(weir, 4 << 20);
	struct weir_file *file = temp_file(weir, 4 << 20, 3);
	struct weir_failure f;
	int calls = 0;

	for (int i = 0; i < 50; i++)
		must(weir_stream_call(a, slow, &calls));
	must(weir_stream_record(a, ev));
	must(weir_stream_wait(b, ev));
	must(weir_stream_read(b, file, 0, &t, 0, 4 << 20));
	must(weir_stream_record(b, ev));
	weir_stream_free(a);
	weir_close(weir);
	is_int(calls, 50, "closing the root runs queued work");
	is_int(weir_event_query(ev), 1,
	       "closing the root runs queued work of each stream");
	ok(is_pattern(weir_tensor_data(&t), 4 << 20, 3),
	   "closing the root runs work that waits for other streams");
	is_str(logged, "", "closing a root that finishes in time logs nothing");
	is_err(weir_stream_call(b, slow, &calls), -ESHUTDOWN, "",
	       "a stream of a closed root takes no work");
	is_int(weir_stream_sync(b, -1), 0,
	       "a stream of a closed root can be synchronised");
	is_int(weir_stream_error(b, &f), 0,
	       "a stream of a closed root has no error");
	is_int(weir_event_wait(ev, -1), 0,
	       "an event of a closed root can be waited for");
	weir_event_free(ev);
	weir_stream_free(b);
	weir_file_close(file);
	weir_buf_free(t.buf);
}

struct waiting {
	pthread_t thread;
	struct weir_event *ev;
	int result;
	char text[300];
};

static void *wait_thread(void *arg)
{
	struct waiting *w = arg;

	w->result = weir_event_wait(w->ev, 20 * SEC);
	snprintf(w->text, sizeof(w->text), "%s", weir_error());
	return NULL;
}

static int64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * SEC + ts.tv_nsec;
}

static _Atomic int released;

static void release(void *arg)
{
	(void)arg;
	released++;
}

static void times_out(void)
{
	static unsigned char memory[64];
	struct weir *weir = root(50 * MS);
	struct weir_stream *a = new_stream(weir, "stuck");
	struct weir_stream *b = new_stream(weir, "behind");
	struct weir_event *early = new_event(weir, 0);
	struct weir_event *mid = new_event(weir, 0);
	struct waiting w = { .ev = new_event(weir, 0) };
	struct weir_buft *plain;
	int64_t shape = 64, begun;
	struct weir_tensor t;
	struct weir_buf *buf;
	int calls = 0;
	struct gate gate;

	must(weir_dev_buft(cpu_of(weir), WEIR_MEM_PLAIN, &plain));
	must(weir_buf_wrap(plain, memory, 64, release, NULL, &buf));
	must(weir_tensor_init(&t, WEIR_DTYPE_U8, 1, &shape));
	must(weir_tensor_place(&t, buf, 0));
	must(weir_stream_fill(a, &t, 0, 64, 1));
	must(weir_stream_record(a, early));
	shut(a, &gate);
	must(weir_stream_fill(a, &t, 0, 64, 2));
	must(weir_stream_record(a, mid));
	must(weir_stream_wait(b, mid));
	must(weir_stream_call(b, count_up, &calls));
	must(weir_stream_record(b, w.ev));
	weir_buf_free(buf);
	pthread_create(&w.thread, NULL, wait_thread, &w);
	usleep(10000);
	begun = now();
	weir_close(weir);
	begun = now() - begun;
	ok(begun >= 40 * MS && begun < 10 * SEC,
	   "weir_close returns at its timeout");
	has_str(logged, "'", "weir_close logs a stream that it abandons");
	pthread_join(w.thread, NULL);
	is_int(w.result, -ESHUTDOWN,
	       "a thread that waits for an abandoned stream wakes with -ESHUTDOWN");
	has_str(w.text, "closed",
		"the sentence of -ESHUTDOWN says that the root was closed");
	is_int(weir_event_query(mid), -ESHUTDOWN,
	       "an event of an abandoned stream fails with -ESHUTDOWN");
	is_int(weir_event_query(early), 1,
	       "an event that was done before the root was closed stays done");
	is_int(weir_stream_sync(a, -1), -ESHUTDOWN,
	       "weir_stream_sync of an abandoned stream returns -ESHUTDOWN");
	is_int(released, 0, "memory of an abandoned operation is not released");
	weir_stream_free(b);
	weir_event_free(early);
	weir_event_free(w.ev);
	open_gate(&gate);
	for (int i = 0; i < 1000 && !released; i++)
		usleep(10000);
	is_int(released, 1,
	       "memory of an abandoned operation is released when that ends after all");
	is_int(memory[63], 1, "no pending work runs after the root was closed");
	is_int(calls, 0,
	       "a stream that waited for an abandoned one runs nothing");
	is_int(weir_event_query(mid), -ESHUTDOWN,
	       "an abandoned event keeps -ESHUTDOWN after its work has ended");
	weir_event_free(mid);
	weir_stream_free(a);
}

int main(void)
{
	plan(20);
	drains();
	times_out();
	return done_testing();
}
