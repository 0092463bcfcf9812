/* SPDX-License-Identifier: MIT */
/*
 * Loads of files that cannot be read any more: they end at once, and do not ask
 * for each of their chunks. The reads of threads fail in this test's pread(2),
 * those of a ring in its completions.
 */
#include <dlfcn.h>
#include <errno.h>
#include <liburing.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <weir.h>

#include "sample.h"
#include "tap.h"

#define CHUNK (64u << 10)
#define DEPTH 4u

static char path[] = "/var/tmp/weir-load-ends-XXXXXX";
static const struct sample_tensor tensors[] = {
	{ "a", "U8", 64 * CHUNK, 1 },
	{ "b", "U8", 16 * CHUNK, 1 },
	{ "c", "U8", 77777, 1 },
};
#define N (sizeof(tensors) / sizeof(tensors[0]))

static _Atomic int fault;        /* errno of reads of the engine; 0: none */
static _Atomic unsigned to_fail; /* so many of them */
static _Atomic unsigned started; /* how many there were */
static _Atomic unsigned by_ring; /* completions of the ring */
static bool on_fuse;             /* files are, as far as fstatfs(2) says */

/* In place of the C library's. */
int fstatfs(int fd, struct statfs *s)
{
	int r = (int)syscall(SYS_fstatfs, fd, s);

	if (on_fuse)
		s->f_type = FUSE_SUPER_MAGIC;
	return r;
}

static bool fails(void)
{
	unsigned n = atomic_load(&to_fail);

	atomic_fetch_add(&started, 1);
	while (n && !atomic_compare_exchange_weak(&to_fail, &n, n - 1))
		;
	return n;
}

/* In place of the C library's. */
ssize_t pread(int fd, void *buf, size_t n, off_t off)
{
	char name[16] = "";

	pthread_getname_np(pthread_self(), name, sizeof(name));
	if (!atomic_load(&fault) || strncmp(name, "weir-", 5) || n < 4096 ||
	    !fails())
		return syscall(SYS_pread64, fd, buf, n, off);
	errno = atomic_load(&fault);
	return -1;
}

int io_uring_submit_and_wait_timeout(struct io_uring *ring,
				     struct io_uring_cqe **cqe, unsigned n,
				     struct __kernel_timespec *ts,
				     sigset_t *mask)
{
	int (*real)(struct io_uring *, struct io_uring_cqe **, unsigned,
		    struct __kernel_timespec *, sigset_t *);
	struct io_uring_cqe *each;
	unsigned head;
	int r;

	*(void **)&real = dlsym(RTLD_NEXT, "io_uring_submit_and_wait_timeout");
	r = real(ring, cqe, n, ts, mask);
	io_uring_for_each_cqe(ring, head, each)
	{
		by_ring += each->res > 8;
		if (atomic_load(&fault) && each->res > 8 && fails())
			each->res = -atomic_load(&fault);
	}
	return r;
}

static struct weir *open_root(uint32_t io)
{
	struct weir_io_info info = { .size = sizeof(info) };
	struct weir_opts o = WEIR_OPTS_INIT;
	struct weir *root;

	o.io = io;
	o.reactors = 1;
	o.chunk = CHUNK;
	o.depth = DEPTH;
	if (weir_open(&o, &root) < 0)
		bail("%s", weir_error());
	if (weir_io_info(root, &info) == 0 &&
	    (io == WEIR_IO_SYNC || info.method == WEIR_IO_URING))
		return root;
	weir_close(root);
	return NULL;
}

static struct weir_plan *plan_of(struct weir *root)
{
	struct weir_select_opts put = WEIR_SELECT_OPTS_INIT;
	struct weir_buft *plain;
	struct weir_model *m;
	struct weir_plan *p;

	put.way = WEIR_WAY_DIRECT;
	if (weir_dev_buft(weir_dev_get(root, 0), WEIR_MEM_PLAIN, &plain) < 0 ||
	    weir_model_open(root, path, NULL, &m) < 0 ||
	    weir_plan_new(m, &p) < 0 || weir_plan_add(p, NULL, plain, &put) < 0)
		bail("%s", weir_error());
	weir_model_close(m);
	return p;
}

/*
 * Load with the next @n reads failing with @err; returns what weir_load_wait
 * did.
 */
static int load_with(struct weir *root, int err, unsigned n,
		     struct weir_failure *ret_last)
{
	struct weir_plan *p = plan_of(root);
	struct weir_load *l;
	int r;

	started = 0;
	to_fail = n;
	fault = err;
	if (weir_load_start(p, NULL, &l) < 0)
		bail("%s", weir_error());
	r = weir_load_wait(l, -1);
	fault = 0;
	weir_load_error(l, N - 1, ret_last);
	weir_load_free(l);
	weir_plan_free(p);
	return r;
}

/* How often the library repeats one read, at most. */
static unsigned tries(int err, uint32_t io)
{
	if (err == EINTR && io == WEIR_IO_SYNC)
		return 1500; /* they take a second, with pauses of 1 ms */
	return err == EINTR || err == EAGAIN ? 16 : 1;
}

static void file_is_gone(struct weir *root, uint32_t io)
{
	static const int gone[] = { ESTALE, ENOTCONN, ENODEV, ENXIO,
				    EBADF,  EAGAIN,   EINTR };
	struct weir_failure f;

	for (size_t i = 0; i < sizeof(gone) / sizeof(gone[0]); i++) {
		int r = load_with(root, gone[i], UINT32_MAX, &f);

		is_err(r, -gone[i], strrchr(path, '/') + 1,
		       "a load of a file whose reads all fail returns the error");
		ok(started <= tries(gone[i], io) * (DEPTH + 2),
		   "a load whose reads all fail (%s) starts no more: %u",
		   strerror(gone[i]), (unsigned)started);
		is_int(f.err, -gone[i],
		       "a tensor that was not read fails with the error of the load");
		has_str(f.text, "were not read, because a read of ",
			"a tensor that was not read says so");
	}
}

/* The disk could not read, and says so for each block, or for some. */
static void blocks_are_bad(struct weir *root)
{
	struct weir_failure f;
	int r = load_with(root, EIO, UINT32_MAX, &f);

	is_err(r, -EIO, strrchr(path, '/') + 1,
	       "a load of a disk that reads nothing fails");
	ok(started >= 32 && started <= 32 + DEPTH + 2,
	   "a load ends after 32 errors in a row: %u reads", (unsigned)started);
	r = load_with(root, EIO, 20, &f);
	is_int(r, -EIO, "a load with bad blocks fails");
	is_int(f.err, 0, "a tensor arrives although 20 blocks before are bad");
}

static void a_device_times_out(struct weir *root)
{
	struct weir_failure f;

	is_int(load_with(root, ETIMEDOUT, UINT32_MAX, &f), -EIO,
	       "a load of a disk that does not answer fails");
	ok(started <= DEPTH + 2,
	   "a load of a disk that does not answer asks it %u times",
	   (unsigned)started);
}

/*
 * The kernel would repeat a read in a ring if FUSE answers EOPNOTSUPP or
 * EAGAIN.
 */
static void fuse(void)
{
	struct weir_load_report rep = { .size = sizeof(rep) };
	struct weir *root = open_root(WEIR_IO_URING);
	struct weir_plan *p;
	struct weir_load *l;

	tap_prefix(NULL);
	if (!root) {
		skip(3, "no ring here");
		return;
	}
	on_fuse = true;
	p = plan_of(root);
	on_fuse = false;
	by_ring = 0;
	if (weir_load_start(p, NULL, &l) < 0)
		bail("%s", weir_error());
	is_int(weir_load_wait(l, -1), 0,
	       "a file of FUSE is loaded where only the ring reads");
	is_int(by_ring, 0, "threads read a file of FUSE, also with a ring");
	weir_load_report(l, &rep);
	has_str(rep.note, "FUSE", "the report says that threads read FUSE: %s",
		rep.note);
	weir_load_free(l);
	weir_plan_free(p);
	weir_close(root);
}

static void contract(uint32_t io, const char *prefix)
{
	struct weir *root = open_root(io);

	tap_prefix(prefix);
	if (!root) {
		skip(35, "no ring here");
		return;
	}
	file_is_gone(root, io);
	blocks_are_bad(root);
	a_device_times_out(root);
	is_int(sample_load_way(root, path, WEIR_WAY_DIRECT, 5, -1), 0,
	       "a file that can be read again is loaded");
	weir_close(root);
}

int main(void)
{
	int fd = mkstemp(path);

	plan(73);
	if (fd < 0)
		skip_all("%s cannot be made", path);
	close(fd);
	sample_write(path, tensors, N, 16, 5);
	contract(WEIR_IO_AUTO, "ring: ");
	contract(WEIR_IO_SYNC, "threads: ");
	fuse();
	unlink(path);
	return done_testing();
}
