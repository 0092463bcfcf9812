/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>

#include "streams.h"

static struct weir *weir;

static void never_recorded(void)
{
	struct weir_event *ev = new_event(weir, 0);
	struct weir_failure f;

	is_int(weir_event_query(ev), 1,
	       "an event that was never recorded is done");
	is_int(weir_event_wait(ev, 0), 0,
	       "a wait for an event that was never recorded returns at once");
	is_int(weir_event_error(ev, &f), 0,
	       "an event that was never recorded has no error");
	weir_event_free(ev);
}

static void queries(void)
{
	struct weir_event *ev = new_event(weir, 0);
	struct weir_stream *s = new_stream(weir, "queries");
	struct hold hold;

	must(weir_stream_record(s, ev));
	is_int(weir_event_query(ev), 1,
	       "an event recorded in an idle stream is done");
	hold_stream(s, &hold);
	is_int(weir_event_query(ev), 1,
	       "work queued after a record does not change its event");
	must(weir_stream_record(s, ev));
	is_int(weir_event_query(ev), 0,
	       "an event recorded again after unfinished work is not done");
	release_stream(&hold);
	must(weir_stream_sync(s, -1));
	weir_event_free(ev);
	weir_stream_free(s);
}

static void waits(void)
{
	struct weir_event *ev = new_event(weir, 0);
	struct weir_stream *s = new_stream(weir, "waits");
	struct hold hold;

	hold_stream(s, &hold);
	must(weir_stream_record(s, ev));
	is_err(weir_event_wait(ev, 0), -ETIMEDOUT, "weir_event_wait: ",
	       "a wait with a timeout of 0 returns -ETIMEDOUT");
	is_err(weir_event_wait(ev, 5 * MS), -ETIMEDOUT, "5000000",
	       "a wait returns -ETIMEDOUT after its timeout");
	release_stream(&hold);
	is_int(weir_event_wait(ev, -1), 0,
	       "a wait returns when the work is done");
	is_int(weir_event_query(ev), 1, "an event that was waited for is done");
	weir_event_free(ev);
	weir_stream_free(s);
}

static void freed_early(void)
{
	struct weir_event *ev = new_event(weir, 0);
	struct weir_stream *s = new_stream(weir, "freed");
	struct hold hold;

	hold_stream(s, &hold);
	must(weir_stream_record(s, ev));
	weir_event_free(ev);
	weir_event_free(NULL);
	release_stream(&hold);
	is_int(weir_stream_sync(s, -1), 0,
	       "an event can be freed before it is done");
	weir_stream_free(s);
}

static void sees_writes(void)
{
	struct weir_tensor t = bytes(weir, 1 << 20);
	struct weir_event *ev = new_event(weir, 0);
	struct weir_stream *a = new_stream(weir, "writer");
	struct weir_stream *b = new_stream(weir, "reader");
	unsigned char *in = malloc(1 << 20), *out = malloc(1 << 20);
	struct hold hold;

	pattern(in, 1 << 20, 77);
	hold_stream(a, &hold);
	must(weir_stream_set(a, &t, 0, in, 1 << 20));
	must(weir_stream_record(a, ev));
	must(weir_stream_wait(b, ev));
	must(weir_stream_get(b, &t, 0, out, 1 << 20));
	must(weir_stream_record(b, ev));
	is_err(weir_event_wait(ev, 20 * MS), -ETIMEDOUT, "",
	       "work of a stream that waits for an event is pending");
	release_stream(&hold);
	must(weir_event_wait(ev, -1));
	ok(is_pattern(out, 1 << 20, 77),
	   "a stream that waits sees the writes made before the record");
	must(weir_stream_wait(b, ev));
	must(weir_stream_sync(b, -1));
	ok(true, "a stream can wait for an event of its own");
	weir_stream_free(a);
	weir_stream_free(b);
	weir_event_free(ev);
	weir_buf_free(t.buf);
	free(in);
	free(out);
}

static void recorded_later(void)
{
	struct weir_event *ev = new_event(weir, 0), *end = new_event(weir, 0);
	struct weir_stream *a = new_stream(weir, NULL);
	struct weir_stream *b = new_stream(weir, NULL);
	struct hold first, second;

	hold_stream(a, &first);
	must(weir_stream_record(a, ev));
	must(weir_stream_wait(b, ev));
	must(weir_stream_record(b, end));
	hold_init(&second, 0);
	must(weir_stream_call(a, hold_until_released, &second));
	must(weir_stream_record(a, ev));
	release_stream(&first);
	is_int(weir_event_wait(end, 10 * SEC), 0,
	       "a stream waits for the event as recorded when the wait was queued");
	is_int(weir_event_query(ev), 0,
	       "an event recorded again is not done when its earlier record is");
	release_stream(&second);
	must(weir_stream_sync(a, -1));
	weir_stream_free(a);
	weir_stream_free(b);
	weir_event_free(ev);
	weir_event_free(end);
}

static void two_roots(void)
{
	struct weir *other = open_root(WEIR_IO_AUTO);
	struct weir_stream *s = new_stream(weir, NULL);
	struct weir_event *far = new_event(other, 0), *bad;

	is_err(weir_stream_record(s, far), -EINVAL, "another root",
	       "recording an event of another root returns -EINVAL");
	is_err(weir_stream_wait(s, far), -EINVAL, "another root",
	       "waiting for an event of another root returns -EINVAL");
	is_err(weir_event_new(weir, 8, &bad), -EINVAL, "0x8",
	       "unknown flags of an event return -EINVAL");
	weir_event_free(far);
	weir_stream_free(s);
	weir_close(other);
}

#define LINKS 10000
static void long_chain(void)
{
	static struct weir_stream *s[LINKS];
	struct weir_event *ev = new_event(weir, 0);
	struct hold hold;

	for (int i = 0; i < LINKS; i++)
		s[i] = new_stream(weir, NULL);
	hold_stream(s[0], &hold);
	for (int i = 1; i < LINKS; i++) {
		must(weir_stream_record(s[i - 1], ev));
		must(weir_stream_wait(s[i], ev));
	}
	must(weir_stream_record(s[LINKS - 1], ev));
	is_int(weir_event_query(ev), 0, "%d streams wait in a row", LINKS);
	release_stream(&hold);
	is_int(weir_event_wait(ev, 30 * SEC), 0,
	       "all streams that wait in a row go on when the first does");
	for (int i = 0; i < LINKS; i++)
		weir_stream_free(s[i]);
	weir_event_free(ev);
}

static bool readable(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, ms) == 1 && p.revents & POLLIN;
}

static void descriptors(void)
{
	struct weir_event *ev = new_event(weir, 0);
	struct weir_stream *s = new_stream(weir, "polled");
	int fd = weir_event_fd(ev);
	struct hold hold, old;

	ok(fd >= 0 && readable(fd, 0),
	   "the descriptor of an event never recorded is readable");
	is_int(weir_event_fd(ev), fd, "an event has one descriptor");
	hold_stream(s, &old);
	must(weir_stream_record(s, ev));
	ok(!readable(fd, 0),
	   "a descriptor is not readable after a record of unfinished work");
	hold_init(&hold, 0);
	must(weir_stream_call(s, hold_until_released, &hold));
	must(weir_stream_record(s, ev));
	release_stream(&old);
	sem_wait(&hold.entered);
	ok(!readable(fd, 20),
	   "the end of an earlier record does not make a descriptor readable");
	release_stream(&hold);
	ok(readable(fd, 10000),
	   "a descriptor becomes readable when its event is done");
	is_int(weir_event_query(ev), 1,
	       "an event whose descriptor is readable is done");
	weir_event_free(ev);
	weir_stream_free(s);
}

static void epolled(void)
{
	struct weir_event *ev = new_event(weir, 0);
	struct weir_stream *s = new_stream(weir, "epolled");
	struct epoll_event got = { .events = EPOLLIN };
	int fd = weir_event_fd(ev), ep = epoll_create1(EPOLL_CLOEXEC);
	struct hold hold;

	epoll_ctl(ep, EPOLL_CTL_ADD, fd, &got);
	is_int(epoll_wait(ep, &got, 1, 10000), 1,
	       "epoll reports the descriptor of an event that is done");
	ok(readable(fd, 0), "a descriptor stays readable");
	hold_stream(s, &hold);
	must(weir_stream_record(s, ev));
	is_int(epoll_wait(ep, &got, 1, 0), 0,
	       "a descriptor is not readable after the event is recorded again");
	release_stream(&hold);
	must(weir_stream_sync(s, -1));
	close(ep);
	weir_event_free(ev);
	weir_stream_free(s);
}

static void late_descriptor(void)
{
	struct weir_event *ev = new_event(weir, 0);
	struct weir_stream *s = new_stream(weir, "late");
	struct hold hold;
	int fd;

	hold_stream(s, &hold);
	must(weir_stream_record(s, ev));
	fd = weir_event_fd(ev);
	ok(!readable(fd, 0),
	   "a descriptor made after the record is not readable before its event is done");
	release_stream(&hold);
	ok(readable(fd, 10000),
	   "a descriptor made after the record becomes readable with its event");
	weir_event_free(ev);
	weir_stream_free(s);
}

static void timed(void)
{
	struct weir_event *from = new_event(weir, WEIR_EVENT_TIMED);
	struct weir_event *to = new_event(weir, WEIR_EVENT_TIMED);
	struct weir_event *plain = new_event(weir, 0);
	struct weir_stream *s = new_stream(weir, "timed");
	struct hold hold;
	int64_t ns = -1;

	is_err(weir_event_elapsed(from, to, &ns), -EINVAL, "not recorded",
	       "the time between events that were not recorded is -EINVAL");
	hold_stream(s, &hold);
	must(weir_stream_record(s, to));
	release_stream(&hold);
	must(weir_stream_record(s, from));
	must(weir_event_wait(from, -1));
	hold_stream(s, &hold);
	must(weir_stream_record(s, to));
	is_err(weir_event_elapsed(from, to, &ns), -EAGAIN, "second",
	       "the time between events of which one is not done is -EAGAIN");
	usleep(20000);
	release_stream(&hold);
	must(weir_event_wait(to, -1));
	is_int(weir_event_elapsed(from, to, &ns), 0,
	       "the time between two timed events is available when both are done");
	ok(ns >= 20 * MS && ns < 10 * SEC,
	   "the time between two events is the time that passed");
	is_int(weir_event_elapsed(to, from, &ns), 0,
	       "the time between two events is available in reverse order");
	ok(ns <= -20 * MS,
	   "the time between two events in reverse order is negative");
	must(weir_stream_record(s, plain));
	is_err(weir_event_elapsed(from, plain, &ns), -EINVAL, "TIMED",
	       "the time to an event without WEIR_EVENT_TIMED is -EINVAL");
	weir_event_free(from);
	weir_event_free(to);
	weir_event_free(plain);
	weir_stream_free(s);
}

/* A thread that waits for, polls or epolls one event. */
struct watcher {
	pthread_t thread;
	struct weir_event *ev;
	int fd, result;
};

static void *wait_thread(void *arg)
{
	struct watcher *w = arg;

	w->result = weir_event_wait(w->ev, 20 * SEC);
	return NULL;
}

static void *poll_thread(void *arg)
{
	struct watcher *w = arg;

	w->result = readable(w->fd, 20000) ? weir_event_query(w->ev) : 0;
	return NULL;
}

static void *epoll_thread(void *arg)
{
	struct epoll_event got = { .events = EPOLLIN };
	int ep = epoll_create1(EPOLL_CLOEXEC);
	struct watcher *w = arg;

	epoll_ctl(ep, EPOLL_CTL_ADD, w->fd, &got);
	if (epoll_wait(ep, &got, 1, 20000) == 1)
		w->result = weir_event_query(w->ev);
	close(ep);
	return NULL;
}

static void all_wake(void)
{
	struct weir_event *ev = new_event(weir, 0);
	struct weir_stream *s = new_stream(weir, "fails");
	struct watcher w[3];
	int err = -EIO;
	struct hold hold;

	hold_stream(s, &hold);
	must(weir_stream_call(s, fail_with, &err));
	must(weir_stream_record(s, ev));
	for (int i = 0; i < 3; i++) {
		w[i].ev = ev;
		w[i].fd = weir_event_fd(ev);
		w[i].result = 0;
	}
	pthread_create(&w[0].thread, NULL, wait_thread, &w[0]);
	pthread_create(&w[1].thread, NULL, poll_thread, &w[1]);
	pthread_create(&w[2].thread, NULL, epoll_thread, &w[2]);
	usleep(20000);
	release_stream(&hold);
	for (int i = 0; i < 3; i++)
		pthread_join(w[i].thread, NULL);
	is_int(w[0].result, -EIO,
	       "a thread in weir_event_wait wakes when the event fails");
	is_int(w[1].result, -EIO,
	       "a thread in poll(2) wakes when the event fails");
	is_int(w[2].result, -EIO,
	       "a thread in epoll_wait(2) wakes when the event fails");
	weir_event_free(ev);
	weir_stream_free(s);
}

static int fail_eventfd;

/* Instead of the C library's. */
int eventfd(unsigned count, int flags)
{
	if (!fail_eventfd)
		return (int)syscall(SYS_eventfd2, count, flags);
	errno = fail_eventfd;
	return -1;
}

static void no_descriptor(void)
{
	struct weir_event *ev = new_event(weir, 0);

	fail_eventfd = EMFILE;
	is_err(weir_event_fd(ev), -EMFILE, "RLIMIT_NOFILE is ",
	       "weir_event_fd names RLIMIT_NOFILE where that is reached");
	fail_eventfd = ENFILE;
	is_err(weir_event_fd(ev), -ENFILE, "file-max",
	       "weir_event_fd names file-max where that is reached");
	fail_eventfd = ENOMEM;
	is_err(weir_event_fd(ev), -ENOMEM,
	       "descriptor of the event: eventfd: Cannot allocate memory",
	       "weir_event_fd names no limit where memory is short");
	fail_eventfd = ENOSYS;
	is_err(weir_event_fd(ev), -ENOSYS,
	       "descriptor of the event: eventfd: Function not implemented",
	       "weir_event_fd names no limit where eventfd(2) is missing");
	fail_eventfd = 0;
	ok(weir_event_fd(ev) >= 0,
	   "weir_event_fd succeeds after it has failed");
	weir_event_free(ev);
}

int main(void)
{
	plan(47);
	weir = open_root(WEIR_IO_AUTO);
	never_recorded();
	queries();
	waits();
	freed_early();
	sees_writes();
	recorded_later();
	two_roots();
	long_chain();
	descriptors();
	epolled();
	late_descriptor();
	timed();
	all_wake();
	no_descriptor();
	weir_close(weir);
	return done_testing();
}
