/* SPDX-License-Identifier: MIT */
/* Each call of the system on the way to shared memory fails once. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <weir.h>

#include "kind.h"
#include "tap.h"

#define FAULTY __attribute__((visibility("default")))
#define SIZE ((size_t)3 << 20)

static struct weir *weir;
static struct weir_buft *huge, *mapped;

/* The number of the call that fails, counted down; 0: none. */
static int fail_at;

static bool fails_now(void)
{
	return fail_at > 0 && --fail_at == 0;
}

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

/* A sanitizer maps memory before it can be called. */
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
FAULTY void *mmap(void *addr, size_t len, int prot, int flags, int fd,
		  off_t off)
{
	if (fd >= 0 && fails_now())
		return errno = ENOMEM, MAP_FAILED;
	return (void *)syscall(SYS_mmap, addr, len, prot, flags, fd, off);
}
#endif

FAULTY int fcntl(int fd, int cmd, ...)
{
	va_list ap;
	long arg;

	va_start(ap, cmd);
	arg = va_arg(ap, long);
	va_end(ap);
	if (fails_now())
		return errno = EMFILE, -1;
	return (int)syscall(SYS_fcntl, fd, cmd, arg);
}

static unsigned open_descriptors(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 64; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* Allocate, share and wrap. Returns 0, or a failure. */
static int whole_way(void)
{
	struct weir_buf *buf = NULL, *copy = NULL;
	struct weir_buf_opts o = WEIR_BUF_OPTS_INIT;
	int fd = -1, r;

	o.flags = WEIR_BUF_SHARED;
	r = weir_buf_alloc(huge, SIZE, &o, &buf);
	if (!r)
		r = weir_buf_share(buf, 0, &fd);
	if (!r)
		r = weir_buf_wrap_fd(mapped, fd, 0, SIZE, 0, &copy);
	weir_buf_free(copy);
	if (fd >= 0)
		close(fd);
	weir_buf_free(buf);
	return r;
}

int main(void)
{
	unsigned fds = open_descriptors(), refused = 0, silent = 0;
	int step = 1, r, left;

	plan(2);
	if (weir_open(NULL, &weir) < 0)
		bail("%s", weir_error());
	huge = kind_of(weir, "CPU", WEIR_MEM_HUGE);
	mapped = kind_of(weir, "CPU", WEIR_MEM_MAPPED);
	do {
		fail_at = step++;
		r = whole_way();
		left = fail_at;
		fail_at = 0;
		refused += r < 0;
		silent += r < 0 && !weir_error()[0];
	} while (!left);
	ok(refused >= 6 && !silent,
	   "each failure of the system while memory is shared is an error with a sentence: %u",
	   refused);
	is_int(open_descriptors(), fds,
	       "no descriptor is lost when sharing memory fails");
	weir_close(weir);
	return done_testing();
}
