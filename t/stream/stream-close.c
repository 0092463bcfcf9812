/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "streams.h"

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

/*
 * A root that is closed while stream @a is held, with work that was queued on
 * @a before and after that, and on @b, which waits for @a.
 */
struct stuck {
	struct weir_stream *a, *b;
	struct weir_event *early, *mid;
	struct waiting w; /* waits for an event of @b */
	struct hold hold;
	int calls; /* calls of @b */
	int64_t took;
};

static unsigned char memory[64]; /* written to by @a: 1, and 2 */

static void queue_stuck(struct stuck *k, struct weir *weir)
{
	struct weir_buft *plain;
	int64_t shape = 64;
	struct weir_tensor t;
	struct weir_buf *buf;

	k->a = new_stream(weir, "stuck");
	k->b = new_stream(weir, "waits");
	k->early = new_event(weir, 0);
	k->mid = new_event(weir, 0);
	k->w.ev = new_event(weir, 0);
	must(weir_dev_buft(cpu_of(weir), WEIR_MEM_PLAIN, &plain));
	must(weir_buf_wrap(plain, memory, 64, release, NULL, &buf));
	must(weir_tensor_init(&t, WEIR_DTYPE_U8, 1, &shape));
	must(weir_tensor_place(&t, buf, 0));
	must(weir_stream_fill(k->a, &t, 0, 64, 1));
	must(weir_stream_record(k->a, k->early));
	hold_stream(k->a, &k->hold);
	must(weir_stream_fill(k->a, &t, 0, 64, 2));
	must(weir_stream_record(k->a, k->mid));
	must(weir_stream_wait(k->b, k->mid));
	must(weir_stream_call(k->b, count_up, &k->calls));
	must(weir_stream_record(k->b, k->w.ev));
	weir_buf_free(buf);
}

static void close_stuck(struct stuck *k)
{
	struct weir *weir = root(50 * MS);

	*k = (struct stuck){ .calls = 0 };
	queue_stuck(k, weir);
	pthread_create(&k->w.thread, NULL, wait_thread, &k->w);
	usleep(10000);
	k->took = now();
	weir_close(weir);
	k->took = now() - k->took;
	pthread_join(k->w.thread, NULL);
}

static void times_out(struct stuck *k)
{
	ok(k->took >= 40 * MS && k->took < 10 * SEC,
	   "weir_close returns at its timeout");
	has_str(logged, "'", "weir_close logs a stream that it abandons");
	is_int(k->w.result, -ESHUTDOWN,
	       "a thread that waits for an abandoned stream wakes with -ESHUTDOWN");
	has_str(k->w.text, "closed",
		"the sentence of -ESHUTDOWN says that the root was closed");
	is_int(weir_event_query(k->mid), -ESHUTDOWN,
	       "an event of an abandoned stream fails with -ESHUTDOWN");
	is_int(weir_event_query(k->early), 1,
	       "an event that was done before the root was closed stays done");
	is_int(weir_stream_sync(k->a, -1), -ESHUTDOWN,
	       "weir_stream_sync of an abandoned stream returns -ESHUTDOWN");
}

static void ends_after_all(struct stuck *k)
{
	is_int(released, 0, "memory of an abandoned operation is not released");
	weir_stream_free(k->b);
	weir_event_free(k->early);
	weir_event_free(k->w.ev);
	release_stream(&k->hold);
	for (int i = 0; i < 1000 && !released; i++)
		usleep(10000);
	is_int(released, 1,
	       "memory of an abandoned operation is released when that ends after all");
	is_int(memory[63], 1, "no pending work runs after the root was closed");
	is_int(k->calls, 0,
	       "a stream that waited for an abandoned one runs nothing");
	is_int(weir_event_query(k->mid), -ESHUTDOWN,
	       "an abandoned event keeps -ESHUTDOWN after its work has ended");
	weir_event_free(k->mid);
	weir_stream_free(k->a);
}

static int waits(void *arg)
{
	usleep(*(useconds_t *)arg);
	return 0;
}

/* The program has freed the streams: their last operations free them. */
static void ends_beside_close(void)
{
	static useconds_t us[4];
	unsigned n = 0;

	for (; n < 200; n++) {
		struct weir *weir = root(0);

		for (unsigned i = 0; i < 4; i++) {
			struct weir_stream *s = new_stream(weir, NULL);

			us[i] = (n * 7 + i * 31) % 300;
			must(weir_stream_call(s, waits, &us[i]));
			weir_stream_free(s);
		}
		weir_close(weir);
		if (logged[0])
			break;
	}
	is_int(n, 200, "a root is closed while streams end that were freed");
}

int main(void)
{
	static struct stuck k;

	plan(21);
	drains();
	ends_beside_close();
	close_stuck(&k);
	times_out(&k);
	ends_after_all(&k);
	return done_testing();
}
