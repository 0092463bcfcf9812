/* SPDX-License-Identifier: MIT */
/*
 * Many threads on few streams and events, for a second or two each: no wakeup
 * is lost, no thread hangs (the watchdog would end the test), and
 * ThreadSanitizer is silent.
 */
#include <errno.h>
#include <pthread.h>

#include "streams.h"

#define THREADS 4
#define STREAMS 3
#define EVENTS 3
/* Laps of each thread, about a second each on an idle machine. */
#define CALLS 50000u
#define WAITS 20000
#define LIVES 3000u
#define FAILURES 5000u

static struct weir *weir;
static struct weir_stream *stream[STREAMS];
static struct weir_event *event[EVENTS];
static _Atomic uint64_t ran, queued;
static _Atomic int wrong;

static int run_one(void *arg)
{
	(void)arg;
	ran++;
	return 0;
}

static void check(int r)
{
	if (r < 0 && !wrong++)
		diag("%s", weir_error());
}

/* Record, wait, query and block, on whatever the numbers say. */
static void *hammer(void *arg)
{
	uint32_t x = *(uint32_t *)arg;

	for (unsigned i = 0; i < CALLS; i++) {
		struct weir_stream *s;
		struct weir_event *ev;

		x = x * 1664525u + 1013904223u;
		s = stream[(x >> 8) % STREAMS];
		ev = event[(x >> 12) % EVENTS];
		switch ((x >> 16) % 8) {
		case 0:
		case 1:
		case 2:
			queued++;
			check(weir_stream_call(s, run_one, NULL));
			break;
		case 3:
			check(weir_stream_record(s, ev));
			break;
		case 4:
			check(weir_stream_wait(s, ev));
			break;
		case 5:
			check(weir_event_query(ev));
			break;
		case 6:
			check(weir_event_wait(ev, -1));
			break;
		case 7:
			check(weir_stream_sync(s, -1));
			break;
		}
	}
	return NULL;
}

static void hammering(void)
{
	uint32_t seed[THREADS];
	pthread_t thread[THREADS];

	for (int i = 0; i < STREAMS; i++)
		stream[i] = new_stream(weir, NULL);
	for (int i = 0; i < EVENTS; i++) {
		event[i] = new_event(weir, i == 1 ? WEIR_EVENT_TIMED : 0);
		if (i == 2)
			must(weir_event_fd(event[i]));
	}
	for (int i = 0; i < THREADS; i++) {
		seed[i] = (uint32_t)i * 77777u + 1;
		pthread_create(&thread[i], NULL, hammer, &seed[i]);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	for (int i = 0; i < STREAMS; i++)
		check(weir_stream_sync(stream[i], -1));
	ok(ran == queued,
	   "all work runs while threads record and wait at random");
	is_int(wrong, 0,
	       "no call fails while threads record and wait at random");
	diag("%llu host functions", (unsigned long long)ran);
	for (int i = 0; i < EVENTS; i++)
		weir_event_free(event[i]);
	for (int i = 0; i < STREAMS; i++)
		weir_stream_free(stream[i]);
}

static void wakes(void)
{
	struct weir_stream *s = new_stream(weir, NULL);
	struct weir_event *ev = new_event(weir, 0);
	uint64_t before = ran;

	for (int i = 0; i < WAITS; i++) {
		check(weir_stream_call(s, run_one, NULL));
		check(weir_stream_record(s, ev));
		check(weir_event_wait(ev, 20 * SEC));
	}
	ok(ran - before == WAITS && !wrong,
	   "no wakeup is lost in %d short waits", WAITS);
	weir_event_free(ev);
	weir_stream_free(s);
}

/* Streams and events that die while others are being woken. */
static void *short_lives(void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < LIVES; i++) {
		struct weir_tensor t = bytes(weir, 64);
		struct weir_stream *a = new_stream(weir, NULL);
		struct weir_stream *b = new_stream(weir, NULL);
		struct weir_event *ev = new_event(weir, WEIR_EVENT_TIMED);

		check(weir_stream_call(a, run_one, NULL));
		check(weir_stream_fill(a, &t, 0, 64, 1));
		check(weir_stream_record(a, ev));
		check(weir_stream_wait(b, ev));
		check(weir_stream_call(b, run_one, NULL));
		check(weir_stream_record(b, ev));
		weir_buf_free(t.buf);
		weir_stream_free(a);
		weir_stream_free(b);
		if (i & 1)
			check(weir_event_wait(ev, 20 * SEC));
		weir_event_free(ev);
	}
	return NULL;
}

static void dying(void)
{
	pthread_t thread[THREADS];

	for (int i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, short_lives, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	is_int(wrong, 0,
	       "streams, events and buffers may be freed while their work runs");
}

/* Failures and resets beside records and waits. */
static void *failing(void *arg)
{
	static int err = -EIO;
	struct weir_stream *s = arg;

	for (unsigned i = 0; i < FAILURES; i++) {
		weir_stream_call(s, fail_with, &err);
		weir_stream_record(s, event[0]);
		weir_stream_call(s, run_one, NULL);
		weir_event_wait(event[0], 20 * SEC);
		weir_stream_sync(s, -1);
		weir_stream_reset(s);
	}
	return NULL;
}

static void *followers(void *arg)
{
	struct weir_stream *s = arg;

	for (unsigned i = 0; i < FAILURES; i++) {
		weir_stream_wait(s, event[0]);
		weir_stream_record(s, event[1]);
		if (weir_event_wait(event[1], 20 * SEC) == -ETIMEDOUT)
			wrong++;
		weir_stream_sync(s, -1);
		weir_stream_reset(s);
	}
	return NULL;
}

static void failures(void)
{
	struct weir_stream *a = new_stream(weir, NULL);
	struct weir_stream *b = new_stream(weir, NULL);
	pthread_t thread[3];

	event[0] = new_event(weir, 0);
	event[1] = new_event(weir, 0);
	must(weir_event_fd(event[0]));
	pthread_create(&thread[0], NULL, failing, a);
	pthread_create(&thread[1], NULL, followers, b);
	pthread_create(&thread[2], NULL, followers, b);
	for (int i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	is_int(wrong, 0,
	       "each waiter of a stream that fails and is reset wakes");
	weir_event_free(event[0]);
	weir_event_free(event[1]);
	weir_stream_free(a);
	weir_stream_free(b);
}

int main(void)
{
	plan(5);
	weir = open_root(WEIR_IO_AUTO);
	hammering();
	wakes();
	dying();
	failures();
	weir_close(weir);
	return done_testing();
}
