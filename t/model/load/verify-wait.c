/* SPDX-License-Identifier: MIT */
/*
 * Chunks of a tensor that is verified, of which the first is read last: the
 * others wait for it.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <weir.h>

#include "sample.h"
#include "tap.h"

#define BYTES (6u << 20)

static char dir[] = "/var/tmp/weir-wait-XXXXXX", path[64];
static struct weir *root;
static struct weir_buft *huge;
static _Atomic bool paused;
static _Atomic unsigned others; /* reads of chunks after the first */

/* The library calls this one too. The first chunk of the data waits. */
__attribute__((visibility("default"))) ssize_t pread(int fd, void *buf,
						     size_t n, off_t off)
{
	bool first = n >= 65536 && off < 1 << 20;

	while (first && atomic_load(&paused))
		usleep(1000);
	if (n >= 65536 && !first)
		atomic_fetch_add(&others, 1);
	return syscall(SYS_pread64, fd, buf, n, off);
}

static void must(int r)
{
	if (r < 0)
		bail("%s", weir_error());
}

static void open_root(void)
{
	struct weir_opts o = WEIR_OPTS_INIT;
	struct weir_dev *dev;

	o.io = WEIR_IO_SYNC;
	o.reactors = 2;
	o.chunk = 1u << 20;
	o.close_timeout = 300 * 1000 * 1000;
	must(weir_open(&o, &root));
	must(weir_dev_find(root, "CPU", &dev));
	must(weir_dev_buft(dev, WEIR_MEM_HUGE, &huge));
}

/* A load that computes digests, of which all chunks but the first are read. */
static struct weir_load *start_waiting(uint32_t dtype)
{
	struct weir_select_opts how = WEIR_SELECT_OPTS_INIT;
	struct weir_model *m;
	struct weir_plan *p;
	struct weir_load *l;

	must(weir_model_open(root, path, NULL, &m));
	must(weir_plan_new(m, &p));
	how.way = WEIR_WAY_DIRECT;
	how.dtype = dtype;
	must(weir_plan_add(p, NULL, huge, &how));
	must(weir_plan_digest(p, WEIR_DIGEST_SHA256));
	atomic_store(&others, 0);
	atomic_store(&paused, true);
	must(weir_load_start(p, NULL, &l));
	weir_plan_free(p);
	weir_model_close(m);
	while (atomic_load(&others) < 3)
		usleep(1000);
	usleep(20000);
	return l;
}

static bool is_waiting(struct weir_load *l)
{
	uint8_t digest[32];

	return weir_load_wait(l, 0) == -ETIMEDOUT &&
	       weir_load_digest(l, 0, digest) == -EAGAIN;
}

static void chunks_wait(uint32_t dtype, const char *what)
{
	struct weir_load *l = start_waiting(dtype);
	uint8_t digest[32];

	ok(is_waiting(l), "a load waits for the first chunk of its tensor (%s)",
	   what);
	atomic_store(&paused, false);
	is_int(weir_load_wait(l, -1), 0,
	       "it succeeds when that has been read (%s)", what);
	is_int(weir_load_digest(l, 0, digest), 32, "it has the digest (%s)",
	       what);
	weir_load_free(l);
}

static void a_cancelled_load_ends(void)
{
	struct weir_load *l = start_waiting(0);

	weir_load_cancel(l);
	atomic_store(&paused, false);
	ok(weir_load_wait(l, -1) != -ETIMEDOUT,
	   "a load ends that is cancelled while chunks wait");
	weir_load_free(l);
}

static void closing_does_not_wait(void)
{
	struct weir_load *l = start_waiting(0);

	weir_close(root);
	is_int(weir_load_wait(l, -1), -ESHUTDOWN,
	       "closing the root ends a load of which chunks wait");
	atomic_store(&paused, false);
	weir_load_free(l);
	usleep(100000);
}

int main(void)
{
	const struct sample_tensor t = { "a", "F32", BYTES / 4, 4 };

	plan(8);
	if (!mkdtemp(dir))
		skip_all("%s cannot be made", dir);
	snprintf(path, sizeof(path), "%s/model.safetensors", dir);
	sample_write(path, &t, 1, 8, 1);
	open_root();
	chunks_wait(0, "in place");
	chunks_wait(WEIR_DTYPE_BF16, "converted");
	a_cancelled_load_ends();
	closing_does_not_wait();
	unlink(path);
	rmdir(dir);
	return done_testing();
}
