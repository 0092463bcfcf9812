/* SPDX-License-Identifier: MIT */
/*
 * The report of a load counts all bytes that were read: those of the tensors
 * and over_read. The test replaces the calls that read, and counts what they
 * return for the file of the model.
 */
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "plans.h"

static _Atomic uint64_t n_read, n_direct;
static _Atomic ino_t model_inode;
static _Atomic unsigned n_cut; /* so many later reads find few pages */
static _Thread_local bool only_asks;
static _Atomic bool all_cached; /* even what the kernel has evicted */

static ssize_t count(int fd, ssize_t r)
{
	struct stat st;

	if (r > 0 && atomic_load(&model_inode) && fstat(fd, &st) == 0 &&
	    st.st_ino == atomic_load(&model_inode)) {
		atomic_fetch_add(&n_read, (uint64_t)r);
		if (fcntl(fd, F_GETFL) & O_DIRECT)
			atomic_fetch_add(&n_direct, (uint64_t)r);
	}
	return r;
}

/* These replace the functions of the C library, for the library too. */
__attribute__((visibility("default"))) ssize_t pread(int fd, void *buf,
						     size_t n, off_t off)
{
	return count(fd, syscall(SYS_pread64, fd, buf, n, off));
}

__attribute__((visibility("default"))) ssize_t
preadv(int fd, const struct iovec *iov, int n, off_t off)
{
	return count(fd, syscall(SYS_preadv, fd, iov, n, off, 0));
}

/* Like a page cache that has half of the bytes, while n_cut says so. */
static ssize_t read_half(int fd, const struct iovec *iov, off_t off)
{
	struct iovec half = { iov->iov_base, iov->iov_len / 2 };

	return syscall(SYS_preadv2, fd, &half, 1, off, 0, 0);
}

__attribute__((visibility("default"))) ssize_t
preadv2(int fd, const struct iovec *iov, int n, off_t off, int flags)
{
	unsigned left = atomic_load(&n_cut);

	if (only_asks)
		return syscall(SYS_preadv2, fd, iov, n, off, 0, flags);
	while (left && !atomic_compare_exchange_weak(&n_cut, &left, left - 1))
		;
	if (left)
		return count(fd, read_half(fd, iov, off));
	if (atomic_load(&all_cached))
		flags &= ~RWF_NOWAIT;
	return count(fd, syscall(SYS_preadv2, fd, iov, n, off, 0, flags));
}

unsigned __real_weir__sys_peek(int fd, uint64_t off);
unsigned __wrap_weir__sys_peek(int fd, uint64_t off);

/* Where cachestat(2) is missing, the library asks by reads of one byte. */
unsigned __wrap_weir__sys_peek(int fd, uint64_t off)
{
	unsigned r;

	only_asks = true;
	r = __real_weir__sys_peek(fd, off);
	only_asks = false;
	return r;
}

int64_t __real_weir__sys_cached(int fd, uint64_t off, uint64_t len);
int64_t __wrap_weir__sys_cached(int fd, uint64_t off, uint64_t len);

int64_t __wrap_weir__sys_cached(int fd, uint64_t off, uint64_t len)
{
	return atomic_load(&all_cached) ? (int64_t)(len / 4096)
					: __real_weir__sys_cached(fd, off, len);
}

struct form {
	const char *what, *glob;
	uint32_t way;
	unsigned cut;
	struct weir_slice slice;
	uint32_t dtype;
	bool sliced, cached;
};

static void note_inode(void)
{
	struct stat st;

	if (stat(path, &st) < 0)
		bail("%s: %s", path, strerror(errno));
	atomic_store(&model_inode, st.st_ino);
}

static void counted(const struct form *f)
{
	struct weir_load_report rep = { .size = sizeof(rep) };
	struct weir_select_opts o = WEIR_SELECT_OPTS_INIT;
	struct weir_model *m = model();
	struct weir_plan *p = new_plan(m);
	struct weir_load *l;

	atomic_store(&all_cached, f->cached);
	o.way = f->way;
	o.slice = f->sliced ? &f->slice : NULL;
	o.dtype = f->dtype;
	if (weir_plan_add(p, f->glob, kind, &o) < 0)
		bail("%s", weir_error());
	note_inode();
	atomic_store(&n_read, 0);
	atomic_store(&n_direct, 0);
	atomic_store(&n_cut, f->cut);
	if (weir_load_start(p, NULL, &l) < 0 || weir_load_wait(l, -1) < 0 ||
	    weir_load_report(l, &rep) < 0)
		bail("%s", weir_error());
	atomic_store(&n_cut, 0);
	atomic_store(&model_inode, 0);
	if (!is_int((long long)(rep.bytes + rep.over_read),
		    (long long)atomic_load(&n_read),
		    "%s: bytes and over_read are what was read", f->what))
		diag("%llu bytes, over_read %llu, %llu read directly",
		     (unsigned long long)rep.bytes,
		     (unsigned long long)rep.over_read,
		     (unsigned long long)atomic_load(&n_direct));
	ok(rep.bytes == rep.in_place + rep.staged + rep.buffered,
	   "%s: each byte came by one way", f->what);
	weir_load_free(l);
	weir_plan_free(p);
	weir_model_close(m);
}

#define BUF WEIR_WAY_BUFFERED
#define DIR WEIR_WAY_DIRECT
#define COLUMNS(from, len) \
	.sliced = true, .slice = { .dim = 1, .start = (from), .n = (len) }

static const struct form few[] = {
	{ "a small load", NULL, 0, .cached = true },
	{ "a small load of every second tensor", "*[02468]", 0,
	  .cached = true },
	{ "a small load whose second read is cut", "*[02468]", BUF, 1,
	  .cached = true },
};

static const struct form from_disk[] = {
	{ "a small load from the disk", "*[02468]", DIR, .cut = 0 },
};

static const struct form many[] = {
	{ "tensors from the page cache", NULL, BUF, .cached = true },
	{ "some tensors from the page cache", "*[02468]", BUF, .cached = true },
	{ "tensors by the page cache", "*[02468]", BUF, .cut = 0 },
	{ "tensors from the disk", NULL, DIR, .cut = 0 },
	{ "some tensors from the disk", "*[02468]", DIR, .cut = 0 },
	{ "tensors by any way", "*[13579]", 0, .cut = 0 },
};

static const struct form rows[] = {
	{ "short rows from the page cache", NULL, BUF, .cached = true,
	  COLUMNS(7, 30) },
	{ "short rows by the page cache", NULL, BUF, COLUMNS(7, 30) },
	{ "short rows from the disk", NULL, DIR, COLUMNS(7, 30) },
	{ "rows that are converted", NULL, BUF, .cached = true,
	  .dtype = WEIR_DTYPE_F16, COLUMNS(8, 40) },
	{ "rows of which reads are cut", NULL, BUF, 20, .cached = true,
	  COLUMNS(7, 30) },
};

static const struct form far_rows[] = {
	{ "rows that are far apart, from the page cache", NULL, BUF,
	  .cached = true, COLUMNS(1001, 3000) },
	{ "rows that are far apart, from the disk", NULL, DIR,
	  COLUMNS(1001, 3000) },
};

#define N(forms) (sizeof(forms) / sizeof((forms)[0]))

static void each(const struct form *forms, size_t n)
{
	for (size_t i = 0; i < n; i++)
		counted(&forms[i]);
}

static void open_by(uint32_t io)
{
	struct weir_opts o = WEIR_OPTS_INIT;

	weir_close(root);
	o.io = io;
	if (weir_open(&o, &root) < 0)
		bail("%s", weir_error());
	kind = memory_of("CPU", WEIR_MEM_HUGE);
}

int main(void)
{
	plans_begin(2 *
		    (N(few) + N(from_disk) + N(many) + N(rows) + N(far_rows)));
	n_tensors = 0;
	for (size_t i = 0; i < 20; i++)
		add_tensor("F32", 4, 900 + 100 * i);
	each(few, N(few));
	/* The calls of a ring are not seen here. */
	open_by(WEIR_IO_SYNC);
	each(from_disk, N(from_disk));
	n_tensors = 0;
	for (size_t i = 0; i < 600; i++)
		add_tensor("F32", 4, 700 + some(40000));
	each(many, N(many));
	n_tensors = 0;
	add_shape("F32", 4, 20000 * 64, "20000,64");
	each(rows, N(rows));
	n_tensors = 0;
	add_shape("F32", 4, 40 * 100000, "40,100000");
	each(far_rows, N(far_rows));
	return plans_end();
}
