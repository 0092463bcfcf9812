/* SPDX-License-Identifier: MIT */
/*
 * A child of fork(2) sees weights that have arrived, and nothing of a buffer
 * while the kernel may write to it past the page tables. This test defines
 * pread(2), so that it can stop a read at a known point.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir.h>

#include "dev/registry.h"
#include "kind.h"
#include "sample.h"
#include "tap.h"

#define BYTES ((size_t)5 << 20) /* more than a huge page */

static char path[] = "/var/tmp/weir-fork-XXXXXX";
static struct weir *weir;
static struct weir_dev *cpu;
static _Atomic bool block, blocked;

/* The library calls this one; it blocks large reads while block is set. */
__attribute__((visibility("default"))) ssize_t pread(int fd, void *buf,
						     size_t n, off_t off)
{
	if (n >= 65536) {
		while (atomic_load(&block)) {
			atomic_store(&blocked, true);
			usleep(1000);
		}
	}
	return syscall(SYS_pread64, fd, buf, n, off);
}

static void must(int r)
{
	if (r < 0)
		bail("%s", weir_error());
}

/*
 * Look at the memory @p in a child. Returns 0 if it has the bytes @want, 1 if
 * it is not mapped, 2 if it has other bytes.
 */
static int look(const volatile unsigned char *p, const unsigned char *want)
{
	unsigned char in_core;

	/* mincore(2) fails for memory that is not mapped. */
	if (mincore((void *)((uintptr_t)p & ~(uintptr_t)4095), 4096, &in_core) <
	    0)
		return 1;
	for (size_t i = 0; i < BYTES; i++)
		if (p[i] != want[i])
			return 2;
	return 0;
}

/* The result of look() in a new child, or -1 if the child was killed. */
static int seen_by_child(const void *p, const unsigned char *want)
{
	int status = -1;
	pid_t pid = fork();

	if (!pid) {
		alarm(60);
		_exit(look(p, want));
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static struct weir_load *start(struct weir_buft *to, struct weir_weights *into)
{
	struct weir_load_opts o = WEIR_LOAD_OPTS_INIT;
	struct weir_select_opts put = WEIR_SELECT_OPTS_INIT;
	struct weir_model *model;
	struct weir_plan *plan;
	struct weir_load *load;

	o.into = into;
	put.way = WEIR_WAY_DIRECT;
	must(weir_model_open(weir, path, NULL, &model));
	must(weir_plan_new(model, &plan));
	must(weir_plan_add(plan, NULL, to, &put));
	must(weir_load_start(plan, &o, &load));
	weir_plan_free(plan);
	weir_model_close(model);
	return load;
}

static struct weir_weights *weights_of(struct weir_load *load)
{
	struct weir_weights *w;

	must(weir_load_weights(load, &w));
	return w;
}

static void wait_until_blocked(void)
{
	while (!atomic_load(&blocked))
		usleep(1000);
}

/* The bytes of the only tensor, as the parent has loaded them. */
static unsigned char *copy_of(const struct weir_weights *w)
{
	unsigned char *copy = malloc(BYTES);

	memcpy(copy, weir_tensor_data(weir_weights_get(w, 0)), BYTES);
	return copy;
}

static void loaded(enum weir_mem kind, const char *name)
{
	struct weir_load *load = start(kind_of(weir, "CPU", kind), NULL);
	struct weir_weights *w = weights_of(load);
	unsigned char *want;
	const void *p;

	is_int(weir_load_wait(load, -1), 0, "a load to memory of kind %s ends",
	       name);
	is_int(sample_wrong(w, 1), 0,
	       "memory of kind %s has the right bytes after a load", name);
	want = copy_of(w);
	p = weir_tensor_data(weir_weights_get(w, 0));
	is_int(seen_by_child(p, want), 0,
	       "a child can read loaded weights in memory of kind %s", name);
	weir_load_free(load);
	weir_weights_free(w);
	is_int(seen_by_child(p, want), 1,
	       "freed memory of kind %s that is kept is hidden from children",
	       name);
	load = start(kind_of(weir, "CPU", kind), NULL);
	w = weights_of(load);
	must(weir_load_wait(load, -1));
	ok(weir_tensor_data(weir_weights_get(w, 0)) == p,
	   "freed memory of kind %s is used again", name);
	is_int(seen_by_child(p, want), 0,
	       "a child can read memory of kind %s that is used again", name);
	weir_load_free(load);
	weir_weights_free(w);
	free(want);
}

static void during_a_load(void)
{
	struct weir_load *load =
		start(kind_of(weir, "CPU", WEIR_MEM_HUGE), NULL);
	struct weir_weights *w = weights_of(load);
	unsigned char *want;
	const void *p;

	must(weir_load_wait(load, -1));
	weir_load_free(load);
	want = copy_of(w);
	p = weir_tensor_data(weir_weights_get(w, 0));
	atomic_store(&blocked, false);
	atomic_store(&block, true);
	load = start(kind_of(weir, "CPU", WEIR_MEM_HUGE), w);
	wait_until_blocked();
	is_int(seen_by_child(p, want), 1,
	       "memory that a load fills is hidden from children");
	atomic_store(&block, false);
	is_int(weir_load_wait(load, -1), 0,
	       "a load ends well after a child was forked during it");
	is_int(sample_wrong(w, 1), 0,
	       "a load during which a child was forked has the right bytes");
	is_int(seen_by_child(p, want), 0,
	       "a child that is forked after a load can read the weights");
	weir_load_free(load);
	weir_weights_free(w);
	free(want);
}

/* Children start and end while loads run. */
static void many(void)
{
	struct weir_weights *w = NULL;
	size_t wrong = 0;

	for (int i = 0; i < 10; i++) {
		struct weir_load *load =
			start(kind_of(weir, "CPU", WEIR_MEM_PLAIN), w);
		pid_t pid = fork();
		int status;

		if (!pid)
			_exit(0);
		if (!w)
			w = weights_of(load);
		must(weir_load_wait(load, -1));
		wrong += sample_wrong(w, 1);
		weir_load_free(load);
		waitpid(pid, &status, 0);
	}
	is_int(wrong, 0, "a parent that forks during loads gets all its bytes");
	weir_weights_free(w);
}

static void by_a_stream(void)
{
	struct weir_tensor t;
	struct weir_stream *s;
	struct weir_file *file;
	unsigned char *want = malloc(BYTES);
	struct weir_buf *buf;
	int64_t shape = (int64_t)BYTES;
	int fd = open(path, O_RDONLY);

	if (fd < 0 || pread(fd, want, BYTES, 0) != (ssize_t)BYTES)
		bail("%s", path);
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	close(fd);
	must(weir_tensor_init(&t, WEIR_DTYPE_U8, 1, &shape));
	must(weir_tensors_alloc(kind_of(weir, "CPU", WEIR_MEM_HUGE), &t, 1,
				&buf));
	must(weir_tensor_fill(&t, 0, BYTES, 0));
	must(weir_file_open(weir, path, NULL, &file));
	must(weir_stream_new(cpu, NULL, &s));
	atomic_store(&blocked, false);
	atomic_store(&block, true);
	must(weir_stream_read(s, file, 0, &t, 0, BYTES));
	wait_until_blocked();
	is_int(seen_by_child(weir_tensor_data(&t), want), 1,
	       "memory that a stream reads to is hidden from children");
	atomic_store(&block, false);
	must(weir_stream_sync(s, -1));
	is_int(seen_by_child(weir_tensor_data(&t), want), 0,
	       "a child can read memory when the stream's read is done");
	weir_stream_free(s);
	weir_file_close(file);
	weir_buf_free(buf);
	free(want);
}

static void of_devices(void)
{
	struct weir_backend_mem mem = { .base = NULL };
	unsigned char *none = calloc(1, BYTES);

	must(weir__registry(weir)->host->host_alloc(weir, WEIR_MEM_HUGE, BYTES,
						    -1, 0, &mem));
	weir__registry(weir)->host->host_hide(&mem, true);
	is_int(seen_by_child(mem.base, none), 1,
	       "memory that a device is registered with is always hidden");
	weir__registry(weir)->host->host_free(weir, &mem);
	free(none);
}

int main(void)
{
	static const struct sample_tensor tensor = { "a", "U8", BYTES, 1 };
	struct weir_opts o = WEIR_OPTS_INIT;
	int fd = mkstemp(path);

	plan(3 * 6 + 4 + 1 + 2 + 1);
	if (fd < 0)
		bail("%s", path);
	close(fd);
	sample_write(path, &tensor, 1, 8, 1);
	o.io = WEIR_IO_SYNC;
	must(weir_open(&o, &weir));
	must(weir_dev_find(weir, "CPU", &cpu));
	loaded(WEIR_MEM_PLAIN, "PLAIN");
	loaded(WEIR_MEM_HUGE, "HUGE");
	loaded(WEIR_MEM_LOCKED, "LOCKED");
	during_a_load();
	many();
	by_a_stream();
	of_devices();
	weir_close(weir);
	unlink(path);
	return done_testing();
}
