/* SPDX-License-Identifier: MIT */
/*
 * A program that closes descriptors that are not its own, as daemons do: the
 * eventfds that wake the engine's threads, and those of its rings.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <weir.h>

#include "sample.h"
#include "tap.h"

#define EVENTFD "[eventfd]"
#define RING "[io_uring]"
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

static bool is_kind(int fd, const char *kind);
static _Atomic bool no_fstat, on_engine_only; /* faults of eventfds */
static pthread_t main_thread;

/* In place of the C library's. */
int fstat(int fd, struct stat *st)
{
	if (!no_fstat || (on_engine_only && pthread_self() == main_thread) ||
	    !is_kind(fd, EVENTFD))
		return (int)syscall(SYS_newfstatat, fd, "", st, AT_EMPTY_PATH);
	errno = EPERM;
	return -1;
}

/*
 * What this test does to descriptors is a race, on purpose. A ring that was
 * given up is unmapped by a system call of liburing that the checker does not
 * see: the next ring at its address is other memory.
 */
__attribute__((visibility("default"))) const char *
__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
	return "race:take_away\nrace:weir__sys_file_id\nrace:weir__sys_close\n"
	       "race:round_trip\n";
}

static bool is_kind(int fd, const char *kind)
{
	char name[32], to[64] = "";

	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	return readlink(name, to, sizeof(to) - 1) > 0 && strstr(to, kind);
}

/*
 * Close the descriptors of @kind, or put the file @by in the place of each.
 * Returns how many there were; @taken has their numbers.
 */
static int taken[1000];
static unsigned take_away(const char *kind, int by)
{
	unsigned n = 0;

	for (int fd = 3; fd < 1000; fd++) {
		if (!is_kind(fd, kind))
			continue;
		taken[n++] = fd;
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
	       "a root loads with its own eventfds");
	usleep(20000);
	ok(take_away(EVENTFD, -1) >= 2, "the program closes the eventfds");
	is_int(sample_load_way(root, path, WEIR_WAY_DIRECT, 3, LIMIT), 0,
	       "a root loads after its eventfds were closed");
	is_int(sample_load_way(root, path, WEIR_WAY_BUFFERED, 3, LIMIT), 0,
	       "a root loads from the page cache after its eventfds were closed");
	usleep(20000);
	take_away(EVENTFD, -1);
	begun = seconds();
	weir_close(root);
	ok(seconds() - begun < 25,
	   "a root whose eventfds were closed is closed in time");
}

static void replaced(struct weir *root)
{
	int fd = open(other, O_RDWR | O_CLOEXEC);

	if (fd < 0 || write(fd, "01234567890123456789", 20) != 20 ||
	    lseek(fd, 0, SEEK_SET) < 0)
		bail("%s cannot be written", other);
	is_int(sample_load_way(root, path, WEIR_WAY_DIRECT, 3, LIMIT), 0,
	       "a second root loads with its own eventfds");
	usleep(20000);
	ok(take_away(EVENTFD, fd) >= 2,
	   "a file of the program gets the numbers of the eventfds");
	is_int(sample_load_way(root, path, WEIR_WAY_DIRECT, 3, LIMIT), 0,
	       "a root loads after its eventfds were replaced");
	is_int(sample_load_way(root, path, WEIR_WAY_BUFFERED, 3, LIMIT), 0,
	       "a root loads from the page cache after its eventfds were replaced");
	weir_close(root);
	is_int(lseek(fd, 0, SEEK_CUR), 0,
	       "the file in place of an eventfd is neither written nor read");
	close(fd);
}

/* How many of the taken numbers still refer to the file of @fd. */
static unsigned still(unsigned n, int fd)
{
	struct stat want, st;
	unsigned same = 0;

	fstat(fd, &want);
	for (unsigned i = 0; i < n; i++)
		same += !fstat(taken[i], &st) && st.st_ino == want.st_ino;
	return same;
}

static void ring_replaced(struct weir *root)
{
	struct weir_io_info info = { .size = sizeof(info) };
	int fd = open(other, O_RDWR | O_CLOEXEC);
	unsigned n;

	tap_prefix("ring: ");
	if (!root || weir_io_info(root, &info) < 0 ||
	    info.method != WEIR_IO_URING) {
		skip(4, "no ring here");
		weir_close(root);
		return;
	}
	is_int(sample_load_way(root, path, WEIR_WAY_DIRECT, 3, LIMIT), 0,
	       "a root loads with its own ring");
	usleep(20000);
	n = take_away(RING, fd);
	ok(n >= 2, "a file of the program gets the numbers of the rings");
	/* Reads that are in flight may be orphaned with a ring. */
	sample_load_way(root, path, WEIR_WAY_DIRECT, 3, LIMIT);
	is_int(sample_load_way(root, path, WEIR_WAY_DIRECT, 3, LIMIT), 0,
	       "a root loads after its rings were replaced");
	weir_close(root);
	is_int(still(n, fd), n, "the file in place of a ring stays open");
	for (unsigned i = 0; i < n; i++)
		close(taken[i]);
	close(fd);
}

static void contract(uint32_t io, const char *prefix)
{
	struct weir *root = open_root(io);

	tap_prefix(prefix);
	if (!root) {
		skip(10, "%s", weir_error());
		return;
	}
	closed(root);
	replaced(open_root(io));
}

/* @named: the sentence names the limit of descriptors. */
static void none(int err, bool named)
{
	struct weir *root;

	refusal = err;
	root = open_root(WEIR_IO_AUTO);
	refusal = 0;
	ok(!root && !strstr(weir_error(), "RLIMIT_NOFILE") == !named, "%s: %s",
	   named ? "an eventfd that RLIMIT_NOFILE forbids names that limit"
		 : "an eventfd that fails for another reason names no limit",
	   weir_error());
}

static void without_fstat(void)
{
	struct weir_io_info info = { .size = sizeof(info) };
	struct weir *root;

	main_thread = pthread_self();
	no_fstat = true;
	root = open_root(WEIR_IO_AUTO);
	ok(!root && strstr(weir_error(), "eventfd"),
	   "an engine whose eventfds cannot be checked is refused: %s",
	   weir_error());
	on_engine_only = true;
	root = open_root(WEIR_IO_AUTO);
	if (!root || weir_io_info(root, &info) < 0)
		bail("%s", weir_error());
	is_int(info.method, WEIR_IO_SYNC,
	       "setting up a ring ends although its eventfd is not signalled: %s",
	       info.why);
	is_int(sample_load_way(root, path, WEIR_WAY_DIRECT, 3, LIMIT), 0,
	       "a root loads although its threads cannot check their eventfds");
	no_fstat = on_engine_only = false;
	weir_close(root);
}

int main(void)
{
	int fd = mkstemp(path), fd2 = mkstemp(other);

	plan(29);
	if (fd < 0 || fd2 < 0)
		skip_all("%s cannot be made", path);
	close(fd);
	close(fd2);
	sample_write(path, tensors, N, 16, 3);
	contract(WEIR_IO_AUTO, "auto: ");
	contract(WEIR_IO_SYNC, "sync: ");
	ring_replaced(open_root(WEIR_IO_AUTO));
	tap_prefix("no eventfd: ");
	none(ENOMEM, false);
	none(EMFILE, true);
	tap_prefix(NULL);
	without_fstat();
	unlink(path);
	unlink(other);
	return done_testing();
}
