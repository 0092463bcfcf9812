/* SPDX-License-Identifier: MIT */
/* The descriptor of the queue of arrived tensors, weir_load_fd. */
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>

#include "held.h"

static int fail_eventfd; /* what eventfd(2) fails with */

/* In place of the C library's. */
__attribute__((visibility("default"))) int eventfd(unsigned count, int flags)
{
	if (!fail_eventfd)
		return (int)syscall(SYS_eventfd2, count, flags);
	errno = fail_eventfd;
	return -1;
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

	l = start_held(NULL);
	fd = weir_load_fd(l);
	ok(fd >= 0 && readable(fd),
	   "the descriptor is readable while an empty tensor is not returned");
	is_int(weir_load_fd(l), fd, "a load has one descriptor");
	must(weir_load_next(l, 0, &i));
	ok(readable(fd), "the descriptor is readable while tensors are left");
	must(weir_load_next(l, 0, &i));
	ok(!readable(fd), "the descriptor is not readable before an arrival");
	atomic_store(&held_from, INT64_MAX);
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
	l = start_held("[abcd]");
	fd = weir_load_fd(l);
	dup2(pipes[1], fd);
	atomic_store(&held_from, INT64_MAX);
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
	held_begin(15);
	sample_write(path, few, FEW, 8, 1);
	open_root(WEIR_IO_SYNC, 0);
	descriptor();
	descriptor_at_the_end();
	descriptor_taken_away();
	no_descriptor();
	closed_root();
	return held_end();
}
