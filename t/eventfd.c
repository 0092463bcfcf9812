/* SPDX-License-Identifier: MIT */
/*
 * A program that closes descriptors that are not its own, as daemons do: those
 * by which the engine's threads are woken, and those of rings.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <weir.h>

#include "sample.h"
#include "tap.h"

#define LIMIT INT64_C(30000000000)

static char path[] = "/var/tmp/weir-eventfd-XXXXXX";
static char other[] = "/var/tmp/weir-eventfd-other-XXXXXX";
static const struct sample_tensor tensors[] = {
	{ "a", "F32", 3000000, 4 },
	{ "b", "U8", 77777, 1 },
};
#define N (sizeof(tensors) / sizeof(tensors[0]))

static int refusal; /* what eventfd(2) fails with */

/* In place of the C library's. */
int eventfd(unsigned count, int flags)
{
	if (!refusal)
		return (int)syscall(SYS_eventfd2, count, flags);
	errno = refusal;
	return -1;
}

static bool is_kind(int fd, const char *kind)
{
	char name[32], to[64] = "";

	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	return readlink(name, to, sizeof(to) - 1) > 0 && strstr(to, kind);
}

/* Close them, or put the file @by in the place of each. How many there were. */
static unsigned take_away(int by)
{
	unsigned n = 0;

	for (int fd = 3; fd < 1000; fd++) {
		if (!is_kind(fd, "[eventfd]"))
			continue;
		n++;
		if (by < 0)
			close(fd);
		else
			dup2(by, fd);
	}
	return n;
}

static struct weir *open_root(uint32_t io)
{
	struct weir_io_info info = { .size = sizeof(info) };
	struct weir_opts o = WEIR_OPTS_INIT;
	struct weir *root;

	o.io = io;
	o.reactors = 2;
	if (weir_open(&o, &root) < 0)
		bail("%s", weir_error());
	if (weir_io_info(root, &info) < 0) {
		weir_close(root);
		return NULL;
	}
	return root;
}

static double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void closed(struct weir *root)
{
	double begun;

	is_int(sample_load_way(root, path, WEIR_WAY_DIRECT, 3, LIMIT), 0,
	       "a root loads");
	usleep(20000);
	ok(take_away(-1) >= 2, "... its eventfds are closed");
	is_int(sample_load_way(root, path, WEIR_WAY_DIRECT, 3, LIMIT), 0,
	       "... and it loads");
	is_int(sample_load_way(root, path, WEIR_WAY_BUFFERED, 3, LIMIT), 0,
	       "... also from the page cache");
	usleep(20000);
	take_away(-1);
	begun = seconds();
	weir_close(root);
	ok(seconds() - begun < 25, "... and is closed, without the last two");
}

static void replaced(struct weir *root)
{
	int fd = open(other, O_RDWR | O_CLOEXEC);

	if (fd < 0 || write(fd, "01234567890123456789", 20) != 20 ||
	    lseek(fd, 0, SEEK_SET) < 0)
		bail("%s cannot be written", other);
	is_int(sample_load_way(root, path, WEIR_WAY_DIRECT, 3, LIMIT), 0,
	       "a root loads");
	usleep(20000);
	ok(take_away(fd) >= 2, "... a file gets the numbers of its eventfds");
	is_int(sample_load_way(root, path, WEIR_WAY_DIRECT, 3, LIMIT), 0,
	       "... and it loads");
	is_int(sample_load_way(root, path, WEIR_WAY_BUFFERED, 3, LIMIT), 0,
	       "... also from the page cache");
	weir_close(root);
	is_int(lseek(fd, 0, SEEK_CUR), 0,
	       "... and that file is neither written nor read");
	close(fd);
}

static void rings_taken(struct weir *root)
{
	int fd = open(other, O_RDWR | O_CLOEXEC), taken[8];
	unsigned n = 0, open_still = 0;

	for (int i = 3; i < 1000 && n < 8; i++)
		if (is_kind(i, "[io_uring]") && dup2(fd, i) == i)
			taken[n++] = i;
	is_int(sample_load_way(root, path, WEIR_WAY_DIRECT, 3, LIMIT), 0,
	       "a root loads whose rings' numbers a file has got");
	weir_close(root);
	for (unsigned i = 0; i < n; i++)
		open_still += fcntl(taken[i], F_GETFD) >= 0;
	is_int(open_still, n, "... and does not close that file");
	for (unsigned i = 0; i < n; i++)
		close(taken[i]);
	close(fd);
}

static void contract(uint32_t io, const char *prefix)
{
	struct weir *root = open_root(io);

	tap_prefix(prefix);
	if (!root) {
		skip(12, "%s", weir_error());
		return;
	}
	closed(root);
	replaced(open_root(io));
	rings_taken(open_root(io));
}

/* @named: the limit of descriptors is in the sentence. */
static void none(int err, bool named)
{
	struct weir *root;

	refusal = err;
	root = open_root(WEIR_IO_AUTO);
	refusal = 0;
	ok(!root && !strstr(weir_error(), "RLIMIT_NOFILE") == !named, "%s: %s",
	   named ? "the limit is named that is in the way"
		 : "no limit is blamed that is not in the way",
	   weir_error());
}

int main(void)
{
	int fd = mkstemp(path), fd2 = mkstemp(other);

	plan(26);
	if (fd < 0 || fd2 < 0)
		skip_all("%s cannot be made", path);
	close(fd);
	close(fd2);
	sample_write(path, tensors, N, 16, 3);
	contract(WEIR_IO_AUTO, "auto: ");
	contract(WEIR_IO_SYNC, "sync: ");
	tap_prefix("no eventfd: ");
	none(ENOMEM, false);
	none(EMFILE, true);
	unlink(path);
	unlink(other);
	return done_testing();
}
