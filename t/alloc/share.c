/* SPDX-License-Identifier: MIT */
/* Buffers that processes share, and buffers of descriptors. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir.h>

#include "kind.h"
#include "reserve.h"
#include "sample.h"
#include "tap.h"
#include "testmod.h"

#define SIZE ((size_t)3 << 20)
#define FAULTY __attribute__((visibility("default")))
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

static struct weir *weir;
static struct weir_buft *plain, *huge, *mapped;

static struct weir_buf *alloc_in(struct weir_buft *buft, size_t size,
				 uint32_t flags)
{
	struct weir_buf_opts o = WEIR_BUF_OPTS_INIT;
	struct weir_buf *buf;

	o.flags = flags;
	if (weir_buf_alloc(buft, size, &o, &buf) < 0)
		bail("%s", weir_error());
	return buf;
}

/* A shared buffer with a byte of its own at each place that is looked at. */
static struct weir_buf *shared(void)
{
	struct weir_buf *buf = alloc_in(huge, SIZE, WEIR_BUF_SHARED);
	unsigned char *p = weir_buf_data(buf);

	p[0] = 10;
	p[5001] = 11;
	p[SIZE - 1] = 12;
	return buf;
}

static int share(struct weir_buf *buf, uint32_t flags)
{
	int fd;

	if (weir_buf_share(buf, flags, &fd) < 0)
		bail("%s", weir_error());
	return fd;
}

static struct weir_buf *wrap(struct weir_buft *buft, int fd, uint64_t off,
			     size_t size, uint32_t flags)
{
	struct weir_buf *buf;

	if (weir_buf_wrap_fd(buft, fd, off, size, flags, &buf) < 0)
		bail("%s", weir_error());
	return buf;
}

static int try_wrap(struct weir_buft *buft, int fd, uint64_t off, size_t size)
{
	struct weir_buf *buf;
	int r = weir_buf_wrap_fd(buft, fd, off, size, 0, &buf);

	if (!r)
		weir_buf_free(buf);
	return r;
}

static uint32_t got(struct weir_buf *buf)
{
	struct weir_buf_info info = { .size = sizeof(info) };

	weir_buf_info(buf, &info);
	return info.got;
}

/* A memfd that the test makes. */
static int memfd(size_t size, int seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, (off_t)size) < 0 ||
	    fcntl(fd, F_ADD_SEALS, seals) < 0)
		bail("no memfd: %s", strerror(errno));
	return fd;
}

static void descriptors(void)
{
	struct weir_buf *buf = shared();
	int fd = share(buf, 0), seals = fcntl(fd, F_GET_SEALS);

	ok(got(buf) & WEIR_GOT_SHARED,
	   "a buffer that can be shared is reported as shared");
	is_int(seals & SEALS, SEALS,
	       "the descriptor of a shared buffer can neither shrink nor grow");
	ok(ftruncate(fd, 4096) < 0 && errno == EPERM,
	   "cutting the descriptor of a shared buffer fails");
	ok(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) ==
		   MAP_FAILED,
	   "a descriptor that is shared for reading cannot be mapped writable");
	is_int(fcntl(fd, F_GETFD), FD_CLOEXEC,
	       "the descriptor of a shared buffer is closed at exec");
	((unsigned char *)weir_buf_data(buf))[0] = 99;
	ok(true, "the owner can still write to a buffer that it has shared");
	close(fd);
	weir_buf_free(buf);
}

/* In a child: another root reads what @fd has. */
static int reads(int fd)
{
	struct weir *own;
	struct weir_buft *buft;
	struct weir_buf *buf;
	unsigned char *p;

	if (weir_open(NULL, &own) < 0)
		return 64;
	buft = kind_of(own, "CPU", WEIR_MEM_MAPPED);
	if (weir_buf_wrap_fd(buft, fd, 0, SIZE, 0, &buf) < 0)
		return 65;
	p = weir_buf_data(buf);
	return (p[0] != 10) | (p[5001] != 11) << 1 | (p[SIZE - 1] != 12) << 2;
}

static int in_child(int (*fn)(int fd), int fd)
{
	int status = -1;
	pid_t pid = fork();

	if (!pid)
		_exit(fn(fd));
	waitpid(pid, &status, 0);
	return status;
}

static void other_process(void)
{
	struct weir_buf *buf = shared();
	int fd = share(buf, 0);

	is_int(in_child(reads, fd), 0,
	       "another process reads the bytes of a shared buffer");
	weir_buf_free(buf);
	is_int(in_child(reads, fd), 0,
	       "another process reads shared memory after the buffer was freed");
	buf = alloc_in(huge, SIZE, WEIR_BUF_SHARED);
	memset(weir_buf_data(buf), 0, SIZE);
	is_int(in_child(reads, fd), 0,
	       "shared memory is not used again for another buffer");
	weir_buf_free(buf);
	close(fd);
}

/* In a child: the buffer of the parent, and not a copy of it. */
static unsigned char *parents;

static int forked_child(int fd)
{
	(void)fd;
	parents[7] = 42;
	return parents[0] != 10;
}

static void forked(void)
{
	struct weir_buf *buf = shared();

	parents = weir_buf_data(buf);
	is_int(in_child(forked_child, 0), 0,
	       "a child reads the bytes of a shared buffer of its parent");
	is_int(parents[7], 42,
	       "what a child writes to a shared buffer is seen by its parent");
	weir_buf_free(buf);
}

static int writes(int fd)
{
	struct weir *own;
	struct weir_buf *buf;

	if (weir_open(NULL, &own) < 0 ||
	    weir_buf_wrap_fd(kind_of(own, "CPU", WEIR_MEM_HUGE), fd, 0, SIZE, 0,
			     &buf) < 0)
		return 64;
	((unsigned char *)weir_buf_data(buf))[7] = 42;
	return 0;
}

static void writable(void)
{
	struct weir_buf *buf = shared();
	int fd = share(buf, WEIR_SHARE_WRITABLE), second;

	is_int(in_child(writes, fd), 0,
	       "another process writes to memory that is shared for writing");
	is_int(((unsigned char *)weir_buf_data(buf))[7], 42,
	       "what another process writes to shared memory is seen by its owner");
	second = share(buf, 0);
	is_err(try_wrap(huge, fd, 0, SIZE), -EROFS, "sealed against writing",
	       "memory that is shared for reading is not wrapped as writable");
	is_err(weir_buf_share(buf, WEIR_SHARE_WRITABLE, &second), -EROFS,
	       "shared before without WEIR_SHARE_WRITABLE",
	       "memory that was shared for reading is not shared for writing");
	close(fd);
	weir_buf_free(buf);
}

static void not_shared(void)
{
	struct weir_buf *buf = alloc_in(huge, SIZE, 0), *two[2], *joined;
	struct weir_buft *far;
	int fd;

	is_err(weir_buf_share(buf, 0, &fd), -EOPNOTSUPP, "WEIR_BUF_SHARED",
	       "a buffer that was not allocated for sharing is not shared");
	is_err(weir_buf_share(buf, 2, &fd), -EINVAL, "flags 0x2",
	       "unknown flags of sharing are refused");
	two[0] = two[1] = buf;
	if (weir_buf_join(two, 2, &joined) < 0)
		bail("%s", weir_error());
	is_err(weir_buf_share(joined, 0, &fd), -EINVAL, "2 members",
	       "a joined buffer is not shared");
	weir_buf_free(joined);
	weir_buf_free(buf);
	far = kind_of(weir, "TEST0", WEIR_MEM_DEVICE);
	is_err(weir_buf_alloc(far, 4096,
			      &(struct weir_buf_opts){
				      .size = sizeof(struct weir_buf_opts),
				      .flags = WEIR_BUF_SHARED },
			      &buf),
	       -EOPNOTSUPP, "memory of this device cannot be shared",
	       "memory of a device whose backend cannot share it is not shared");
}

static void windows(void)
{
	int fd = memfd(SIZE, F_SEAL_SHRINK);
	struct weir_buf *all = wrap(huge, fd, 0, SIZE, 0), *part, *read_only;
	unsigned char *p = weir_buf_data(all);

	p[5001] = 55;
	p[SIZE - 1] = 56;
	part = wrap(plain, fd, 5001, SIZE - 5001, 0);
	read_only = wrap(mapped, fd, SIZE - 1, 1, 0);
	ok(got(part) == WEIR_GOT_SHARED,
	   "a buffer of a descriptor is reported as shared and not owned");
	is_int(*(unsigned char *)weir_buf_data(part), 55,
	       "a buffer of a descriptor begins at any byte of it");
	is_int(*(unsigned char *)weir_buf_data(read_only), 56,
	       "a buffer of a descriptor has its last byte");
	close(fd);
	is_int(weir_buf_clear(part, 7), 0,
	       "a buffer of a descriptor can be written to when that is closed");
	is_int(p[SIZE - 1], 7, "two buffers of a descriptor are one memory");
	is_err(weir_buf_clear(read_only, 0), -EROFS, "",
	       "a read-only buffer of a descriptor is not written to");
	is_int(p[5000], 0, "bytes outside a buffer of a descriptor stay");
	weir_buf_free(read_only);
	weir_buf_free(part);
	weir_buf_free(all);
}

static void wrong_sizes(void)
{
	int fd = memfd(SIZE, F_SEAL_SHRINK);

	is_err(try_wrap(mapped, fd, 0, SIZE + 1), -EINVAL,
	       "3145729 bytes at 0 are not in descriptor",
	       "more bytes than a descriptor has are refused");
	is_err(try_wrap(mapped, fd, SIZE + 1, 1), -EINVAL, "which has 3145728",
	       "an offset after the end of a descriptor is refused");
	is_err(try_wrap(mapped, fd, 1, SIZE_MAX), -EINVAL, "are not in",
	       "a size that wraps is refused");
	is_err(try_wrap(mapped, fd, UINT64_MAX, 2), -EINVAL, "are not in",
	       "an offset that wraps is refused");
	is_err(try_wrap(mapped, fd, 0, 0), -EINVAL, "0 bytes",
	       "an empty range of a descriptor is refused");
	close(fd);
}

static void can_shrink(void)
{
	int fd = memfd(SIZE, 0);
	struct weir_buf *buf;

	is_err(try_wrap(mapped, fd, 0, SIZE), -EINVAL,
	       "can shrink, which would kill this process",
	       "a descriptor that can shrink is refused");
	buf = wrap(mapped, fd, 0, SIZE, WEIR_WRAP_UNSEALED);
	ok(buf, "a descriptor that can shrink is accepted on request");
	weir_buf_free(buf);
	is_err(weir_buf_wrap_fd(mapped, fd, 0, SIZE, 4, &buf), -EINVAL,
	       "flags 0x4", "unknown flags of a descriptor are refused");
	close(fd);
}

/* A descriptor that another process cuts and seals when its mode is read. */
static int cut_fd = -1;

FAULTY int fcntl(int fd, int cmd, ...)
{
	va_list ap;
	long arg;

	va_start(ap, cmd);
	arg = va_arg(ap, long);
	va_end(ap);
	if (cmd == F_GETFL && fd == cut_fd) {
		cut_fd = -1;
		if (ftruncate(fd, 4096) < 0 ||
		    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) < 0)
			bail("%s", strerror(errno));
	}
	return (int)syscall(SYS_fcntl, fd, cmd, arg);
}

static void cut_late(void)
{
	int fd = memfd(SIZE, 0);

	cut_fd = fd;
	is_err(try_wrap(mapped, fd, 0, SIZE), -EINVAL, "which has 4096",
	       "a descriptor that is cut and then sealed during the call is refused");
	close(fd);
}

static void foreign(void)
{
	char name[] = "/var/tmp/weir-share-XXXXXX", path[64];
	int fd = memfd(SIZE, F_SEAL_SHRINK), file = mkstemp(name), ends[2];
	int reader;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	reader = open(path, O_RDONLY | O_CLOEXEC);
	is_err(try_wrap(huge, reader, 0, SIZE), -EACCES,
	       "not open for reading and writing",
	       "a descriptor that is open for reading is not writable memory");
	is_int(try_wrap(mapped, reader, 0, SIZE), 0,
	       "a descriptor that is open for reading is read-only memory");
	close(reader);
	reader = open(path, O_WRONLY | O_CLOEXEC);
	is_err(try_wrap(mapped, reader, 0, SIZE), -EACCES,
	       "not open for reading",
	       "a descriptor that is open for writing only is refused");
	close(reader);
	close(fd);
	is_err(try_wrap(mapped, fd, 0, SIZE), -EBADF, "Bad file descriptor",
	       "a descriptor that is closed is refused");
	is_err(try_wrap(mapped, -1, 0, SIZE), -EBADF, "Bad file descriptor",
	       "descriptor -1 is refused");
	if (file < 0 || ftruncate(file, SIZE) < 0 || pipe(ends) < 0)
		bail("no file");
	unlink(name);
	is_err(try_wrap(mapped, file, 0, SIZE), -EOPNOTSUPP, "is not a memfd",
	       "a file on a disk is refused");
	is_err(try_wrap(mapped, ends[0], 0, 1), -EOPNOTSUPP, "is not a memfd",
	       "a pipe is refused");
	is_err(try_wrap(kind_of(weir, "TEST0", WEIR_MEM_DEVICE), file, 0, 1),
	       -EOPNOTSUPP, "cannot have memory of a descriptor",
	       "nor is it made of a descriptor");
	close(file);
	close(ends[0]);
	close(ends[1]);
}

static const struct sample_tensor tensors[] = {
	{ "a", "U8", 700, 1 },
	{ "b", "F32", 300001, 4 },
};

/* Load the model at @path by a put with @o; the weights, or NULL. */
static struct weir_weights *load(const char *path, struct weir_select_opts o)
{
	struct weir_weights *w = NULL;
	struct weir_model *m;
	struct weir_plan *p;

	o.size = sizeof(o);
	if (weir_model_open(weir, path, NULL, &m) < 0 ||
	    weir_plan_new(m, &p) < 0)
		bail("%s", weir_error());
	if (weir_plan_add(p, NULL, huge, &o) >= 0) {
		struct weir_load *l;

		if (weir_load_start(p, NULL, &l) < 0 ||
		    weir_load_wait(l, -1) < 0 || weir_load_weights(l, &w) < 0)
			bail("%s", weir_error());
		weir_load_free(l);
	}
	weir_plan_free(p);
	weir_model_close(m);
	return w;
}

static void loads(void)
{
	char path[] = "/var/tmp/weir-share-XXXXXX";
	struct weir_weights *w;
	struct weir_buf *buf, *copy;
	int fd = mkstemp(path);
	size_t at;

	close(fd);
	sample_write(path, tensors, 2, 0, 3);
	w = load(path,
		 (struct weir_select_opts){ .buf_flags = WEIR_BUF_SHARED });
	ok(w && sample_wrong(w, 3) == 0,
	   "a model is loaded into a shared buffer");
	buf = weir_weights_get(w, 1)->buf;
	at = (size_t)weir_weights_get(w, 1)->offset;
	fd = share(buf, 0);
	copy = wrap(mapped, fd, at, 300001 * 4, 0);
	is_mem(weir_buf_data(copy), weir_tensor_data(weir_weights_get(w, 1)),
	       300001 * 4,
	       "a tensor of a shared load has its bytes in the descriptor");
	weir_buf_free(copy);
	close(fd);
	weir_weights_free(w);
	fd = memfd(SIZE, F_SEAL_SHRINK);
	buf = wrap(huge, fd, 4096, SIZE - 4096, 0);
	w = load(path, (struct weir_select_opts){ .buf = buf });
	ok(w && sample_wrong(w, 3) == 0,
	   "a model is loaded into memory of a descriptor");
	weir_weights_free(w);
	ok(!load(path,
		 (struct weir_select_opts){ .buf = buf,
					    .buf_flags = WEIR_BUF_SHARED }),
	   "a put into a buffer refuses flags of new buffers: %s",
	   weir_error());
	weir_buf_free(buf);
	close(fd);
	unlink(path);
}

/* True if backing pages is refused, as by a cgroup. */
static bool no_populate;

FAULTY int madvise(void *addr, size_t len, int advice)
{
	if (no_populate && advice == MADV_POPULATE_READ)
		return errno = EFAULT, -1;
	return (int)syscall(SYS_madvise, addr, len, advice);
}

static void reserved(const char *why)
{
	struct weir_buf *buf, *copy;
	int fd;

	if (why) {
		skip(5, "%s", why);
		return;
	}
	buf = alloc_in(huge, SIZE,
		       WEIR_BUF_SHARED | WEIR_BUF_HUGETLB | WEIR_BUF_STRICT);
	memset(weir_buf_data(buf), 0, SIZE);
	memcpy((unsigned char *)weir_buf_data(buf) + 5000, "\0\x0b", 2);
	*(unsigned char *)weir_buf_data(buf) = 10;
	((unsigned char *)weir_buf_data(buf))[SIZE - 1] = 12;
	fd = share(buf, 0);
	is_int(in_child(reads, fd), 0,
	       "another process reads shared memory in reserved pages");
	copy = wrap(mapped, fd, 5001, SIZE - 5001, 0);
	is_int(*(unsigned char *)weir_buf_data(copy), 11,
	       "a buffer of reserved pages begins at any byte of its descriptor");
	ok(got(copy) & WEIR_GOT_HUGETLB,
	   "a buffer of a descriptor of reserved pages is reported as such");
	weir_buf_free(copy);
	is_err(try_wrap(huge, fd, 0, SIZE), -EROFS, "sealed",
	       "reserved pages that are shared for reading are not wrapped as writable");
	no_populate = true;
	is_err(try_wrap(mapped, fd, 0, SIZE), -EFAULT,
	       "2 pages of 2097152 bytes of descriptor",
	       "reserved pages that cannot be backed are an error when they are wrapped");
	no_populate = false;
	close(fd);
	weir_buf_free(buf);
}

/* A hole of a descriptor, for which no reserved page is left. */
static void hole(const char *why)
{
	size_t all = (reserve_free((size_t)2 << 20) + 1) << 21;
	struct weir_buf *buf;
	int fd;

	if (why) {
		skip(1, "%s", why);
		return;
	}
	fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING |
					  MFD_HUGETLB | 21u << 26);
	if (fd < 0 || ftruncate(fd, (off_t)all) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) < 0)
		bail("no memfd: %s", strerror(errno));
	is_err(weir_buf_wrap_fd(huge, fd, 0, all, 0, &buf), -ENOMEM,
	       "of descriptor",
	       "a descriptor that needs more reserved pages than there are is an error and not SIGBUS");
	close(fd);
}

#define ROOM ((size_t)1 << 20)

static int open_sparse(const char *dir, size_t size)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "%s/%zu", dir, size);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	return fd < 0 || ftruncate(fd, (off_t)size) < 0 ? -1 : fd;
}

/* In a child: a tmpfs of 1 MiB, with files that have no pages yet. */
static int in_small_tmpfs(int unused)
{
	char dir[] = "/tmp/weir-share-XXXXXX";
	struct weir *own;
	struct weir_buft *buft;
	struct weir_buf *buf;
	int few, many, wrong = 0;

	(void)unused;
	if (!mkdtemp(dir) || unshare(CLONE_NEWNS) < 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("weir", dir, "tmpfs", 0, "size=1m") < 0)
		return rmdir(dir), 64;
	few = open_sparse(dir, ROOM / 2);
	many = open_sparse(dir, 4 * ROOM);
	umount2(dir, MNT_DETACH);
	rmdir(dir);
	if (few < 0 || many < 0 || weir_open(NULL, &own) < 0)
		return 65;
	buft = kind_of(own, "CPU", WEIR_MEM_PLAIN);
	if (weir_buf_wrap_fd(buft, few, 0, ROOM / 2, WEIR_WRAP_UNSEALED, &buf))
		return 66;
	memset(weir_buf_data(buf), 1, ROOM / 2);
	wrong |= weir_buf_wrap_fd(buft, many, 0, 4 * ROOM, WEIR_WRAP_UNSEALED,
				  &buf) != -EFAULT;
	return wrong | !strstr(weir_error(), "of descriptor") << 1;
}

static void full_tmpfs(void)
{
	int status = in_child(in_small_tmpfs, 0);

	if (WIFEXITED(status) && WEXITSTATUS(status) == 64)
		skip(1, "no tmpfs can be mounted here");
	else
		is_int(status, 0,
		       "holes of a file for which its tmpfs has no room are an error and not SIGBUS");
}

int main(void)
{
	const char *why = reserve_pages((size_t)2 << 20, 4);

	plan(6 + 3 + 2 + 4 + 4 + 7 + 5 + 3 + 1 + 8 + 4 + 5 + 1 + 1);
	weir = open_with_good_module();
	plain = kind_of(weir, "CPU", WEIR_MEM_PLAIN);
	huge = kind_of(weir, "CPU", WEIR_MEM_HUGE);
	mapped = kind_of(weir, "CPU", WEIR_MEM_MAPPED);
	descriptors();
	other_process();
	forked();
	writable();
	not_shared();
	windows();
	wrong_sizes();
	can_shrink();
	cut_late();
	foreign();
	loads();
	reserved(why);
	hole(why);
	full_tmpfs();
	weir_close(weir);
	return done_testing();
}
