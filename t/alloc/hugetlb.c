/* SPDX-License-Identifier: MIT */
/* Buffers in huge pages that the system has reserved. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir.h>

#include "kind.h"
#include "reserve.h"
#include "tap.h"

#define MIB ((size_t)1 << 20)
#define HUGE_2M (2 * MIB)
#define HUGE_1G (1024 * MIB)
#define PAGES 8u
#define RESERVED (WEIR_GOT_HUGE | WEIR_GOT_LOCKED | WEIR_GOT_HUGETLB)

static struct weir *weir;
static struct weir_buft *huge;

static struct weir *open_root(uint64_t keep, uint64_t budget)
{
	struct weir_opts o = WEIR_OPTS_INIT;

	o.keep = keep;
	o.budget = budget;
	if (weir_open(&o, &weir) < 0)
		bail("%s", weir_error());
	huge = kind_of(weir, "CPU", WEIR_MEM_HUGE);
	return weir;
}

static int try_alloc(struct weir_buft *buft, size_t size, uint32_t flags,
		     struct weir_buf **ret_buf)
{
	struct weir_buf_opts o = WEIR_BUF_OPTS_INIT;

	o.flags = flags;
	return weir_buf_alloc(buft, size, &o, ret_buf);
}

static struct weir_buf *alloc(size_t size, uint32_t flags)
{
	struct weir_buf *buf;

	if (try_alloc(huge, size, flags, &buf) < 0)
		bail("%s", weir_error());
	return buf;
}

static struct weir_buf_info info_of(struct weir_buf *buf)
{
	struct weir_buf_info info = { .size = sizeof(info) };

	if (weir_buf_info(buf, &info) < 0)
		bail("%s", weir_error());
	return info;
}

static bool is_reserved(struct weir_buf *buf)
{
	return info_of(buf).got & WEIR_GOT_HUGETLB;
}

/* More bytes than the reserve has pages of 2 MiB for. */
static size_t too_many(void)
{
	return (reserve_free(HUGE_2M) + 4) * HUGE_2M;
}

static void without_reserved_pages(void)
{
	struct weir_buf *buf;
	struct weir_buf_info info;
	size_t size = too_many();
	char both[80];

	open_root(UINT64_MAX, 0);
	snprintf(both, sizeof(both),
		 "pages of 2048 KiB: %zu are needed, %llu of ", size / HUGE_2M,
		 (unsigned long long)reserve_free(HUGE_2M));
	is_err(try_alloc(huge, size, WEIR_BUF_HUGETLB | WEIR_BUF_STRICT, &buf),
	       -EOPNOTSUPP, both,
	       "required reserved pages that the system lacks are an error with both numbers");
	buf = alloc(size, WEIR_BUF_HUGETLB);
	info = info_of(buf);
	ok(!(info.got & WEIR_GOT_HUGETLB),
	   "without reserved pages a buffer has others");
	has_str(info.why, both,
		"a buffer without reserved pages says how many there are");
	memset(weir_buf_data(buf), 1, size);
	weir_buf_free(buf);
	weir_close(weir);
}

static void refused_kinds(void)
{
	struct weir_buft *plain;
	struct weir_buf *buf;

	open_root(0, 0);
	plain = kind_of(weir, "CPU", WEIR_MEM_PLAIN);
	is_err(try_alloc(plain, MIB, WEIR_BUF_HUGETLB, &buf), -EINVAL,
	       "can have reserved ones, not CPU",
	       "memory in small pages cannot have reserved pages");
	weir_close(weir);
}

static void over_the_budget(void)
{
	struct weir_buf *buf;
	struct weir_buf_info info;

	open_root(0, MIB);
	buf = alloc(4096, WEIR_BUF_HUGETLB | WEIR_BUF_HUGETLB_1G);
	info = info_of(buf);
	ok(!(info.got & WEIR_GOT_HUGETLB),
	   "a buffer has small pages if a whole reserved one exceeds the budget");
	has_str(info.why,
		"2097152 bytes are needed, 0 of the root's budget of 1048576",
		"a buffer without reserved pages says that the budget is the reason");
	weir_buf_free(buf);
	weir_close(weir);
}

/* The size of the pages of the mapping at @addr, by /proc/self/smaps; KiB. */
static long kernel_page(const void *addr)
{
	FILE *f = fopen("/proc/self/smaps", "r");
	char line[512];
	bool inside = false;
	long kib = -1;

	while (f && fgets(line, sizeof(line), f)) {
		unsigned long lo, hi;

		if (sscanf(line, "%lx-%lx ", &lo, &hi) == 2)
			inside = (unsigned long)addr >= lo &&
				 (unsigned long)addr < hi;
		if (inside && sscanf(line, "KernelPageSize: %ld", &kib) == 1)
			break;
	}
	if (f)
		fclose(f);
	return kib;
}

static void reserved(void)
{
	uint64_t before = reserve_free(HUGE_2M);
	struct weir_buf *buf;
	struct weir_buf_info info;

	open_root(UINT64_MAX, 0);
	buf = alloc(3 * MIB, WEIR_BUF_HUGETLB | WEIR_BUF_STRICT);
	info = info_of(buf);
	ok((info.got & RESERVED) == RESERVED && !info.why[0],
	   "a buffer in reserved pages is reported as huge, locked and reserved");
	is_int(kernel_page(weir_buf_data(buf)), 2048,
	       "a buffer in reserved pages has pages of 2 MiB");
	is_int(before - reserve_free(HUGE_2M), 2,
	       "a buffer in reserved pages takes whole ones at once");
	memset(weir_buf_data(buf), 1, 3 * MIB);
	weir_buf_free(buf);
	is_int(reserve_free(HUGE_2M), before,
	       "pages that are not kept go back to the reserve");
	weir_close(weir);
}

static void one_gib_first(void)
{
	struct weir_buf *buf, *small;

	open_root(UINT64_MAX, 0);
	if (reserve_free(HUGE_1G)) {
		buf = alloc(MIB, WEIR_BUF_HUGETLB_1G | WEIR_BUF_STRICT);
		is_int(kernel_page(weir_buf_data(buf)), 1 << 20,
		       "a buffer in pages of 1 GiB has such pages");
		ok(info_of(buf).got & WEIR_GOT_HUGETLB_1G,
		   "a buffer in pages of 1 GiB is reported as such");
	} else {
		skip(2, "the system has no reserved page of 1 GiB");
		buf = NULL;
	}
	small = alloc(HUGE_1G * (reserve_free(HUGE_1G) + 1) < 4 * MIB ? MIB
								      : 4 * MIB,
		      WEIR_BUF_HUGETLB_1G);
	if (reserve_free(HUGE_1G)) {
		skip(2, "the system has more pages of 1 GiB");
	} else {
		ok((info_of(small).got &
		    (WEIR_GOT_HUGETLB | WEIR_GOT_HUGETLB_1G)) ==
			   WEIR_GOT_HUGETLB,
		   "without pages of 1 GiB a buffer has reserved ones of 2 MiB");
		has_str(info_of(small).why,
			"of 1048576 KiB: 1 are needed, 0 of",
			"a buffer in smaller pages says that those of 1 GiB are missing");
	}
	weir_buf_free(small);
	weir_buf_free(buf);
	weir_close(weir);
}

static void strict_size(void)
{
	struct weir_buf *buf;

	if (reserve_free(HUGE_1G)) {
		skip(2, "the system has pages of 1 GiB");
		return;
	}
	open_root(UINT64_MAX, 0);
	is_err(try_alloc(huge, MIB, WEIR_BUF_HUGETLB_1G | WEIR_BUF_STRICT,
			 &buf),
	       -EOPNOTSUPP, "of 1048576 KiB: 1 are needed, 0 of",
	       "required pages of 1 GiB are not replaced by others");
	buf = alloc(MIB,
		    WEIR_BUF_HUGETLB | WEIR_BUF_HUGETLB_1G | WEIR_BUF_STRICT);
	ok(is_reserved(buf),
	   "if pages of either size are required, one of them suffices");
	weir_buf_free(buf);
	weir_close(weir);
}

static void kept(void)
{
	uint64_t before = reserve_free(HUGE_2M);
	struct weir_buf *buf;
	void *was;

	open_root(64 * MIB, 0);
	buf = alloc(8 * MIB, WEIR_BUF_HUGETLB);
	was = weir_buf_data(buf);
	weir_buf_free(buf);
	is_int(before - reserve_free(HUGE_2M), 4,
	       "reserved pages of a freed buffer are kept");
	buf = alloc(7 * MIB, WEIR_BUF_HUGETLB);
	ok(weir_buf_data(buf) == was, "kept reserved pages are used again");
	weir_buf_free(buf);
	buf = alloc(7 * MIB, 0);
	ok(!is_reserved(buf),
	   "kept reserved pages serve no buffer that did not ask for them");
	weir_buf_free(buf);
	buf = alloc(reserve_free(HUGE_2M) * HUGE_2M + 8 * MIB,
		    WEIR_BUF_HUGETLB | WEIR_BUF_STRICT);
	ok(is_reserved(buf),
	   "kept reserved pages are freed before a request is refused");
	weir_buf_free(buf);
	weir_trim(weir, 0);
	is_int(reserve_free(HUGE_2M), before,
	       "a trim returns kept pages to the reserve");
	weir_close(weir);
}

static void locked(void)
{
	struct weir_buft *buft;
	struct weir_buf *buf;

	open_root(0, 0);
	buft = kind_of(weir, "CPU", WEIR_MEM_LOCKED);
	if (try_alloc(buft, MIB, WEIR_BUF_HUGETLB | WEIR_BUF_STRICT, &buf) < 0)
		bail("%s", weir_error());
	ok((info_of(buf).got & RESERVED) == RESERVED,
	   "locked memory can have reserved pages, which are never swapped out");
	weir_buf_free(buf);
	weir_close(weir);
}

/* Reads what the parent wrote, and writes itself; no page is free by then. */
static int child_of(volatile unsigned char *p, size_t size, int to, int from)
{
	char go;
	int wrong = p[0] != 1 || p[size - 1] != 1;

	if (write(to, "c", 1) != 1 || read(from, &go, 1) != 1)
		return 64;
	wrong |= (p[0] != 2) << 1;
	p[HUGE_2M] = 3;
	return wrong;
}

static void forked(void)
{
	size_t size = reserve_free(HUGE_2M) * HUGE_2M;
	int down[2], up[2], status = -1;
	struct weir_buf *buf;
	unsigned char *p;
	char go;
	pid_t pid;

	open_root(UINT64_MAX, 0);
	buf = alloc(size, WEIR_BUF_HUGETLB | WEIR_BUF_STRICT);
	p = weir_buf_data(buf);
	memset(p, 1, size);
	if (pipe(down) < 0 || pipe(up) < 0)
		bail("no pipe");
	pid = fork();
	if (!pid)
		_exit(child_of(p, size, up[1], down[0]));
	if (read(up[0], &go, 1) != 1)
		diag("the child has ended");
	memset(p, 2, size);
	ok(write(down[1], "p", 1) == 1,
	   "a parent writes to its reserved pages after a fork without a free page");
	waitpid(pid, &status, 0);
	is_int(status, 0,
	       "a child sees the bytes of the parent in reserved pages, and is not killed");
	is_int(p[HUGE_2M], 3,
	       "the parent sees what a child writes to reserved pages");
	weir_buf_free(buf);
	weir_close(weir);
}

/* Write to a file that exists. */
static bool put(const char *dir, const char *name, const char *text)
{
	char path[256];
	bool done;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	done = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	close(fd);
	return done;
}

/* A group whose processes may have one page of 2 MiB; NULL: not here. */
static const char *small_group(void)
{
	static const char *const roots[] = { "/sys/fs/cgroup",
					     "/sys/fs/cgroup/unified" };
	static char dir[128];

	for (int i = 0; i < 2; i++) {
		put(roots[i], "cgroup.subtree_control", "+hugetlb");
		snprintf(dir, sizeof(dir), "%s/weir-hugetlb-%ld", roots[i],
			 (long)getpid());
		if (mkdir(dir, 0755) < 0)
			continue;
		if (put(dir, "hugetlb.2MB.max", "2097152"))
			return dir;
		rmdir(dir);
	}
	return NULL;
}

static int in_group(const char *dir)
{
	struct weir_buf *buf;
	struct weir_buf_info info;
	char pid[32];
	int wrong = 0;

	snprintf(pid, sizeof(pid), "%ld", (long)getpid());
	if (!put(dir, "cgroup.procs", pid))
		return 64;
	open_root(0, 0);
	buf = alloc(8 * MIB, WEIR_BUF_HUGETLB);
	memset(weir_buf_data(buf), 1, 8 * MIB);
	info = info_of(buf);
	wrong |= (info.got & WEIR_GOT_HUGETLB) != 0;
	wrong |= !strstr(info.why, "2097152 of 8388608 bytes") << 1;
	weir_buf_free(buf);
	wrong |= (try_alloc(huge, 8 * MIB, WEIR_BUF_HUGETLB | WEIR_BUF_STRICT,
			    &buf) != -EOPNOTSUPP)
		 << 2;
	wrong |= !strstr(weir_error(), "by a cgroup") << 3;
	/* One page is within the limit. */
	wrong |= (try_alloc(huge, 2 * MIB, WEIR_BUF_HUGETLB | WEIR_BUF_STRICT,
			    &buf) != 0)
		 << 4;
	weir_close(weir);
	return wrong;
}

static void cgroup_limit(void)
{
	uint64_t before = reserve_free(HUGE_2M);
	const char *dir = small_group();
	int status = -1;
	pid_t pid;

	if (!dir) {
		skip(2, "there is no cgroup of version 2 with hugetlb");
		return;
	}
	pid = fork();
	if (!pid)
		_exit(in_group(dir));
	waitpid(pid, &status, 0);
	is_int(status, 0,
	       "a cgroup's limit of reserved pages is a reason for others, or an error, and not SIGBUS");
	is_int(reserve_free(HUGE_2M), before,
	       "pages that a cgroup's limit made useless go back to the reserve");
	rmdir(dir);
}

/* A limit of file sizes must neither end the process nor fail the buffer. */
static void file_size_limit(void)
{
	int status = -1;
	pid_t pid = fork();

	if (!pid) {
		struct rlimit lim = { MIB, MIB };
		struct weir_buf *buf;

		setrlimit(RLIMIT_FSIZE, &lim);
		open_root(0, 0);
		buf = alloc(4 * MIB, WEIR_BUF_HUGETLB);
		_exit(is_reserved(buf) ||
		      !strstr(info_of(buf).why, "File too large"));
	}
	waitpid(pid, &status, 0);
	is_int(status, 0,
	       "under RLIMIT_FSIZE a buffer has no reserved pages and says why");
}

/* The number of the call that fails, counted down; 0: none. */
static int fail_at;

static bool fails_now(void)
{
	return fail_at > 0 && --fail_at == 0;
}

#define FAULTY __attribute__((visibility("default")))

FAULTY int memfd_create(const char *name, unsigned flags)
{
	if (fails_now())
		return errno = EMFILE, -1;
	return (int)syscall(SYS_memfd_create, name, flags);
}

FAULTY int ftruncate(int fd, off_t len)
{
	if (fails_now())
		return errno = ENOMEM, -1;
	return (int)syscall(SYS_ftruncate, fd, len);
}

/* As before Linux 5.14. */
static bool no_populate;

FAULTY int madvise(void *addr, size_t len, int advice)
{
	if (no_populate && advice == MADV_POPULATE_WRITE)
		return errno = EINVAL, -1;
	if (fails_now())
		return errno = advice == MADV_POPULATE_WRITE ? EFAULT : ENOMEM,
		       -1;
	return (int)syscall(SYS_madvise, addr, len, advice);
}

static void old_kernel(void)
{
	struct weir_buf *buf;

	open_root(0, 0);
	no_populate = true;
	buf = alloc(4 * MIB, WEIR_BUF_HUGETLB);
	no_populate = false;
	ok(!is_reserved(buf), "before Linux 5.14 no page is a reserved one");
	has_str(info_of(buf).why,
		"they need MADV_POPULATE_WRITE, of Linux 5.14",
		"a buffer without reserved pages says which kernel they need");
	weir_buf_free(buf);
	weir_close(weir);
}

static unsigned descriptors(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 64; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void faults(void)
{
	uint64_t before = reserve_free(HUGE_2M);
	unsigned fds = descriptors(), refused = 0;
	int step = 1, r, left;

	do {
		struct weir_buf *buf = NULL;

		open_root(UINT64_MAX, 0);
		fail_at = step++;
		r = try_alloc(huge, 4 * MIB, WEIR_BUF_HUGETLB | WEIR_BUF_STRICT,
			      &buf);
		left = fail_at;
		fail_at = 0;
		refused += r < 0;
		weir_buf_free(buf);
		weir_close(weir);
	} while (!left);
	ok(refused >= 3,
	   "each failure of the system on the way to reserved pages is an error: %u",
	   refused);
	is_int(reserve_free(HUGE_2M), before,
	       "no reserved page is lost by such failures");
	is_int(descriptors(), fds, "no descriptor is lost by such failures");
}

int main(void)
{
	const char *why = reserve_pages(HUGE_2M, PAGES);

	plan(3 + 1 + 2 + 4 + 4 + 2 + 5 + 1 + 3 + 2 + 1 + 2 + 3);
	without_reserved_pages();
	refused_kinds();
	over_the_budget();
	if (why) {
		skip(4 + 4 + 2 + 5 + 1 + 3 + 2 + 1 + 2 + 3, "%s", why);
		return done_testing();
	}
	reserved();
	strict_size();
	diag("a page of 1 GiB: %s", reserve_pages(HUGE_1G, 1) ?: "reserved");
	one_gib_first();
	kept();
	locked();
	forked();
	cgroup_limit();
	file_size_limit();
	old_kernel();
	faults();
	return done_testing();
}
