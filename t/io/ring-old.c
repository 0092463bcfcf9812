/* SPDX-License-Identifier: MIT */
/*
 * Rings of old kernels: made, entered, and yet without something that reactors
 * need. liburing's call that makes a ring is replaced by one that takes away
 * what the kernel gave.
 */
#include <dlfcn.h>
#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <weir.h>

#include "sample.h"
#include "tap.h"

static char path[] = "/var/tmp/weir-ring-old-XXXXXX";
static const struct sample_tensor tensors[] = {
	{ "a", "F32", 2000000, 4 },
	{ "b", "U8", 77777, 1 },
};
#define N (sizeof(tensors) / sizeof(tensors[0]))

static enum {
	WHOLE,
	NO_EXT_ARG, /* Linux 5.6 to 5.10 */
	NO_READ     /* Linux 5.1 to 5.5 */
} kernel;

/* From now on a NOP goes round, and nothing else. */
static int only_nops(struct io_uring *ring)
{
	struct io_uring_restriction only = {
		.opcode = IORING_RESTRICTION_SQE_OP,
		.sqe_op = IORING_OP_NOP,
	};

	if (syscall(SYS_io_uring_register, ring->ring_fd,
		    IORING_REGISTER_RESTRICTIONS, &only, 1) < 0 ||
	    syscall(SYS_io_uring_register, ring->ring_fd,
		    IORING_REGISTER_ENABLE_RINGS, NULL, 0) < 0)
		return -errno;
	return 0;
}

int io_uring_queue_init(unsigned entries, struct io_uring *ring, unsigned flags)
{
	int (*real)(unsigned, struct io_uring *, unsigned);
	int r;

	*(void **)&real = dlsym(RTLD_NEXT, "io_uring_queue_init");
	if (kernel == NO_READ)
		flags |= IORING_SETUP_R_DISABLED;
	r = real(entries, ring, flags);
	if (r < 0)
		return r;
	if (kernel == NO_EXT_ARG)
		ring->features &= ~IORING_FEAT_EXT_ARG;
	return kernel == NO_READ ? only_nops(ring) : 0;
}

/* @lacks: part of the reason. */
static void without(const char *lacks)
{
	struct weir_io_info info = { .size = sizeof(info) };
	struct weir_opts o = WEIR_OPTS_INIT;
	struct weir *root;

	if (weir_open(&o, &root) < 0 || weir_io_info(root, &info) < 0)
		bail("%s", weir_error());
	is_int(info.method, WEIR_IO_SYNC, "the ring is not used");
	has_str(info.why, lacks, "weir_io_info says why the ring is not used");
	is_int(sample_load_way(root, path, WEIR_WAY_DIRECT, 3, -1), 0,
	       "threads load a model in place of the ring");
	weir_close(root);
	o.io = WEIR_IO_URING;
	if (weir_open(&o, &root) < 0)
		bail("%s", weir_error());
	ok(weir_io_info(root, &info) < 0 && strstr(weir_error(), lacks),
	   "opening fails where the ring was asked for: %s", weir_error());
	weir_close(root);
}

static bool has_ring(void)
{
	struct weir_io_info info = { .size = sizeof(info) };
	struct weir *root;

	if (weir_open(NULL, &root) < 0 || weir_io_info(root, &info) < 0)
		bail("%s", weir_error());
	weir_close(root);
	return info.method == WEIR_IO_URING;
}

int main(void)
{
	int fd = mkstemp(path);

	plan(8);
	if (fd < 0)
		skip_all("%s cannot be made", path);
	close(fd);
	sample_write(path, tensors, N, 16, 3);
	if (has_ring()) {
		tap_prefix("waits of a ring cannot be limited: ");
		kernel = NO_EXT_ARG;
		without("IORING_FEAT_EXT_ARG");
		tap_prefix("a ring refuses to read: ");
		kernel = NO_READ;
		without("IORING_OP_");
	} else {
		skip(8, "no ring here");
	}
	unlink(path);
	return done_testing();
}
