/* SPDX-License-Identifier: MIT */
/*
 * Rings that cannot be entered any more, reads that they cancel, and reactors
 * that are always notified and so never wait. liburing's call that enters a
 * ring is replaced. A refused ring is given up after one second: the clock is
 * moved on, so that the test need not wait for it.
 */
#include <dlfcn.h>
#include <errno.h>
#include <liburing.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <weir.h>

#include "io/owner.h"
#include "sample.h"
#include "tap.h"

#define SECOND INT64_C(1000000000)
#define LIMIT (40 * SECOND)

static char path[] = "/var/tmp/weir-ring-stuck-XXXXXX";
static const struct sample_tensor tensors[] = {
	{ "a", "F32", 6000000, 4 },
	{ "b", "U8", 77777, 1 },
};
#define N (sizeof(tensors) / sizeof(tensors[0]))

static _Atomic int refusal;        /* what the next enters return */
static _Atomic unsigned times;     /* how many of them */
static _Atomic unsigned refusals;  /* how many there were */
static _Atomic bool no_descriptor; /* eventfd(2) finds none */
static _Atomic unsigned to_cancel; /* completions that become -ECANCELED */

static _Atomic int64_t ahead; /* how far time is ahead of the real time, ns */

/* In place of the C library's. */
int clock_gettime(clockid_t clock, struct timespec *ts)
{
	int r = (int)syscall(SYS_clock_gettime, clock, ts);
	int64_t ns = ts->tv_nsec;

	if (clock == CLOCK_MONOTONIC) {
		ns += atomic_load(&ahead);
		ts->tv_sec += ns / SECOND;
		ts->tv_nsec = ns % SECOND;
	}
	return r;
}

/* In place of the C library's. */
int eventfd(unsigned count, int flags)
{
	if (!atomic_load(&no_descriptor))
		return (int)syscall(SYS_eventfd2, count, flags);
	errno = EMFILE;
	return -1;
}

/* Reads that went well come back as if no worker could be started. */
static void cancel_some(struct io_uring *ring)
{
	struct io_uring_cqe *cqe;
	unsigned head;

	io_uring_for_each_cqe(ring, head, cqe)
	{
		if (cqe->res > 8 && atomic_load(&to_cancel)) {
			cqe->res = -ECANCELED;
			atomic_fetch_sub(&to_cancel, 1);
		}
	}
}

int io_uring_submit_and_wait_timeout(struct io_uring *ring,
				     struct io_uring_cqe **cqe, unsigned n,
				     struct __kernel_timespec *ts,
				     sigset_t *mask)
{
	int (*real)(struct io_uring *, struct io_uring_cqe **, unsigned,
		    struct __kernel_timespec *, sigset_t *);
	int r;

	if (atomic_load(&times)) {
		atomic_fetch_sub(&times, 1);
		atomic_fetch_add(&refusals, 1);
		atomic_fetch_add(&ahead, SECOND / 40);
		return atomic_load(&refusal);
	}
	*(void **)&real = dlsym(RTLD_NEXT, "io_uring_submit_and_wait_timeout");
	r = real(ring, cqe, n, ts, mask);
	cancel_some(ring);
	return r;
}

static _Atomic bool messages; /* the reactor is always notified */

/* In place of the library's. */
bool __real_weir__owner_release(struct weir__owner *o);
bool __wrap_weir__owner_release(struct weir__owner *o);
bool __wrap_weir__owner_release(struct weir__owner *o)
{
	return !atomic_load(&messages) && __real_weir__owner_release(o);
}

static struct weir *open_root(uint32_t io)
{
	struct weir_opts o = WEIR_OPTS_INIT;
	struct weir *root;

	o.io = io;
	o.reactors = 1;
	o.chunk = 1u << 20;
	if (weir_open(&o, &root) < 0)
		bail("%s", weir_error());
	return root;
}

static bool has_ring(void)
{
	struct weir_io_info info = { .size = sizeof(info) };
	struct weir *root = open_root(WEIR_IO_AUTO);

	if (weir_io_info(root, &info) < 0)
		bail("%s", weir_error());
	weir_close(root);
	return info.method == WEIR_IO_URING;
}

static void refuse(int err, unsigned n)
{
	atomic_store(&refusals, 0);
	atomic_store(&refusal, err);
	atomic_store(&times, n);
}

static void refused(int err)
{
	struct weir_io_info info = { .size = sizeof(info) };
	struct weir *root = open_root(WEIR_IO_AUTO);
	int r = sample_load_way(root, path, WEIR_WAY_DIRECT, 3, LIMIT);

	is_int(r, 0, "a ring loads a model before it fails");
	refuse(err, 1000000);
	r = sample_load_way(root, path, WEIR_WAY_DIRECT, 3, LIMIT);
	is_int(r, 0,
	       "threads load a model when the ring cannot be entered any more");
	weir_io_info(root, &info);
	ok(info.method == WEIR_IO_SYNC && strstr(info.why, "the ring failed"),
	   "weir_io_info says that the ring failed: %s", info.why);
	ok(refusals >= 32 && refusals < 100,
	   "the ring is given up after %u tries", refusals);
	weir_close(root);
	refuse(0, 0);
}

/* The failed ring may still read the old eventfd. */
static void no_eventfd(void)
{
	struct weir *root = open_root(WEIR_IO_AUTO);
	int r = sample_load_way(root, path, WEIR_WAY_DIRECT, 3, LIMIT);

	atomic_store(&no_descriptor, true);
	refuse(-EBADF, 1000000);
	for (int i = 0; i < 5 && !r; i++)
		r = sample_load_way(root, path, WEIR_WAY_DIRECT, 3, LIMIT);
	is_int(r, 0,
	       "no wakeup is lost when a ring fails while no new eventfd can be made");
	atomic_store(&no_descriptor, false);
	r = sample_load_way(root, path, WEIR_WAY_DIRECT, 3, LIMIT);
	is_int(r, 0, "no wakeup is lost when a new eventfd can be made again");
	weir_close(root);
	refuse(0, 0);
}

static void brief(int err)
{
	struct weir_io_info info = { .size = sizeof(info) };
	struct weir *root = open_root(WEIR_IO_AUTO);
	int r;

	weir_io_info(root, &info);
	refuse(err, 12);
	r = sample_load_way(root, path, WEIR_WAY_DIRECT, 3, LIMIT);
	weir_io_info(root, &info);
	ok(!r && info.method == WEIR_IO_URING && refusals == 12,
	   "a ring that refuses for a moment stays in use");
	weir_close(root);
}

/* Wait until the ring was entered @n times more, or is not used any more. */
static void await_enters(struct weir *root, uint64_t n)
{
	struct weir_io_info info = { .size = sizeof(info) };
	uint64_t until = UINT64_MAX;

	do {
		weir_io_info(root, &info);
		if (until == UINT64_MAX)
			until = info.enters + n;
		usleep(1000);
	} while (info.enters < until && info.method == WEIR_IO_URING);
}

/* The reactor looks at a ring that mostly has no completions. */
static void busy(void)
{
	struct weir_io_info info = { .size = sizeof(info) };
	struct weir *root = open_root(WEIR_IO_AUTO);

	weir_io_info(root, &info);
	atomic_store(&messages, true);
	is_int(sample_load_way(root, path, WEIR_WAY_DIRECT, 3, LIMIT), 0,
	       "a reactor that is always notified reaps its ring");
	await_enters(root, 100);
	atomic_fetch_add(&ahead, 2 * SECOND);
	await_enters(root, 100);
	weir_io_info(root, &info);
	is_int(info.method, WEIR_IO_URING,
	       "the ring of a reactor that is always notified stays in use: %s",
	       info.why);
	atomic_store(&messages, false);
	weir_close(root);
}

static void no_workers(void)
{
	struct weir_io_info info = { .size = sizeof(info) };
	struct weir *root = open_root(WEIR_IO_AUTO);
	int r;

	atomic_store(&to_cancel, 5);
	r = sample_load_way(root, path, WEIR_WAY_DIRECT, 3, LIMIT);
	is_int(r, 0,
	       "threads do reads for which the ring has no worker thread");
	is_int(atomic_load(&to_cancel), 0,
	       "five reads came back without a worker thread");
	weir_io_info(root, &info);
	has_str(info.why, "worker thread",
		"weir_io_info names the missing worker thread");
	weir_close(root);

	root = open_root(WEIR_IO_URING);
	atomic_store(&to_cancel, 5);
	r = sample_load_way(root, path, WEIR_WAY_DIRECT, 3, LIMIT);
	is_err(r, -EAGAIN, "worker thread",
	       "where only the ring may read, a read without a worker thread fails with the reason");
	weir_close(root);
}

int main(void)
{
	int fd = mkstemp(path);

	plan(25);
	if (fd < 0)
		skip_all("%s cannot be made", path);
	close(fd);
	sample_write(path, tensors, N, 16, 3);
	if (has_ring()) {
		busy();
		no_workers();
		no_eventfd();
		brief(-EBUSY);
		tap_prefix("ENOMEM: ");
		refused(-ENOMEM);
		tap_prefix("EAGAIN: ");
		refused(-EAGAIN);
		tap_prefix("EBUSY: ");
		refused(-EBUSY);
		tap_prefix("EINTR: ");
		refused(-EINTR);
	} else {
		skip(25, "no ring here");
	}
	unlink(path);
	return done_testing();
}
