/* SPDX-License-Identifier: MIT */
/* The descriptor of the queue of arrived tensors, weir_load_fd. */
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "paused.h"

static int fail_eventfd; /* what eventfd(2) fails with */

/* In place of the C library's. */
__attribute__((visibility("default"))) int eventfd(unsigned count, int flags)
{
	if (!fail_eventfd)
		return (int)syscall(SYS_eventfd2, count, flags);
	errno = fail_eventfd;
	return -1;
}

/* While this is set no load ends: its check of the files waits. */
static _Atomic bool end_held;

__attribute__((visibility("default"))) int fstat(int fd, struct stat *st)
{
	int r = fstatat(fd, "", st, AT_EMPTY_PATH);

	while (atomic_load(&end_held) && r == 0 && S_ISREG(st->st_mode))
		usleep(100);
	return r;
}

static bool readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

static void descriptor(void)
{
	struct weir_load *l;
	unsigned wrong = 0;
	size_t i;
	int fd, r;

	l = start_paused(NULL);
	fd = weir_load_fd(l);
	ok(fd >= 0 && readable(fd),
	   "the descriptor is readable while an empty tensor is not returned");
	is_int(weir_load_fd(l), fd, "a load has one descriptor");
	must(weir_load_next(l, 0, &i));
	ok(readable(fd), "the descriptor is readable while tensors are left");
	must(weir_load_next(l, 0, &i));
	ok(!readable(fd), "the descriptor is not readable before an arrival");
	atomic_store(&paused_from, INT64_MAX);
	do {
		struct epoll_event got = { .events = EPOLLIN };
		int ep = epoll_create1(EPOLL_CLOEXEC);

		epoll_ctl(ep, EPOLL_CTL_ADD, fd, &got);
		wrong += epoll_wait(ep, &got, 1, 20000) != 1;
		close(ep);
		r = weir_load_next(l, 0, &i);
		wrong += r < 0;
	} while (r > 0);
	is_int(wrong, 0,
	       "weir_load_next does not block when epoll_wait(2) returns");
	ok(readable(fd), "the descriptor is readable at the end of the queue");
	is_int(weir_load_next(l, 0, &i), 0, "the end of the queue stays");
	weir_load_free(l);
	is_int(fcntl(fd, F_GETFD), -1, "weir_load_free closes the descriptor");
}

/* An event loop needs no other descriptor to learn the outcome of the load. */
static void descriptor_says_the_end(void)
{
	struct weir_load *l = start_paused(NULL);
	struct pollfd p = { .fd = weir_load_fd(l), .events = POLLIN };
	size_t i;

	atomic_store(&end_held, true);
	atomic_store(&paused_from, INT64_MAX);
	arrivals(l, FEW);
	ok(!readable(p.fd),
	   "the descriptor is not readable between the last tensor and the end");
	is_err(weir_load_next(l, 0, &i), -ETIMEDOUT, "the load has not ended",
	       "weir_load_next does not return 0 before the load has ended");
	atomic_store(&end_held, false);
	is_int(poll(&p, 1, 20000), 1,
	       "the descriptor becomes readable when the load ends");
	is_int(weir_load_next(l, 0, &i), 0,
	       "weir_load_next returns 0 when the load has ended");
	is_int(weir_load_wait(l, 0), 0,
	       "weir_load_wait with no time is final after weir_load_next has returned 0");
	weir_load_free(l);
}

static void descriptor_at_the_end(void)
{
	struct weir_load *l = start_all();

	arrivals(l, SIZE_MAX);
	ok(readable(weir_load_fd(l)),
	   "a descriptor that is made at the end is readable");
	weir_load_free(l);
}

/* A daemon that closes all descriptors, and opens files of its own. */
static void descriptor_taken_away(void)
{
	struct weir_load *l;
	int fd, pipes[2];

	if (pipe(pipes) < 0)
		bail("pipe");
	l = start_paused("[abcd]");
	fd = weir_load_fd(l);
	dup2(pipes[1], fd);
	atomic_store(&paused_from, INT64_MAX);
	is_int(count(arrivals(l, FEW), ' '), 4,
	       "tensors are returned when the program has closed the descriptor");
	ok(!readable(pipes[0]),
	   "the library does not write to a file with its descriptor's number");
	weir_load_free(l);
	ok(fcntl(fd, F_GETFD) >= 0,
	   "the library does not close a file with its descriptor's number");
	close(fd);
	close(pipes[0]);
	close(pipes[1]);
}

static void no_descriptor(void)
{
	struct weir_load *l = start_all();

	fail_eventfd = EMFILE;
	is_err(weir_load_fd(l), -EMFILE, "the load: eventfd, RLIMIT_NOFILE is ",
	       "weir_load_fd names RLIMIT_NOFILE where that is reached");
	fail_eventfd = 0;
	ok(weir_load_fd(l) >= 0, "weir_load_fd succeeds after it has failed");
	weir_load_free(l);
}

static void closed_root(void)
{
	struct weir_load *l = start_all();

	must(weir_load_wait(l, -1));
	weir_close(root);
	ok(readable(weir_load_fd(l)),
	   "weir_load_fd succeeds after the root was closed");
	weir_load_free(l);
}

int main(void)
{
	paused_begin(20);
	sample_write(path, few, FEW, 8, 1);
	open_root(WEIR_IO_SYNC, 0);
	descriptor();
	descriptor_says_the_end();
	descriptor_at_the_end();
	descriptor_taken_away();
	no_descriptor();
	closed_root();
	return paused_end();
}
