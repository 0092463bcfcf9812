/* SPDX-License-Identifier: MIT */
/*
 * When the reads of a load count as late: struct weir__reads, and a stopped
 * process.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <weir.h>

#include "io/reads.h"
#include "sample.h"
#include "tap.h"

#define CHUNK (64u << 10)
#define DEPTH 4u
#define LIMIT 1000

static char path[] = "/var/tmp/weir-reads-XXXXXX";
static const struct sample_tensor tensors[] = {
	{ "a", "U8", 64 * CHUNK, 1 },
};
#define N (sizeof(tensors) / sizeof(tensors[0]))

static _Atomic int64_t later;  /* seconds that the clock is ahead */
static _Atomic unsigned begun; /* reads of the engine */
static _Atomic bool jump;      /* the first of them lasts for an hour */
static _Atomic bool ended;     /* the load */

/* In place of the C library's. */
int clock_gettime(clockid_t clock, struct timespec *ts)
{
	int r = (int)syscall(SYS_clock_gettime, clock, ts);

	if (clock == CLOCK_MONOTONIC)
		ts->tv_sec += atomic_load(&later);
	return r;
}

/*
 * In place of the C library's. The first read ends when the reactor has looked
 * for late ones: it did that before it started more than DEPTH reads.
 */
ssize_t pread(int fd, void *buf, size_t n, off_t off)
{
	char name[16] = "";

	pthread_getname_np(pthread_self(), name, sizeof(name));
	if (!strncmp(name, "weir-", 5)) {
		unsigned before = atomic_fetch_add(&begun, 1);

		if (atomic_exchange(&jump, false)) {
			atomic_fetch_add(&later, 3600);
			while (atomic_load(&begun) < before + 3 * DEPTH &&
			       !atomic_load(&ended))
				usleep(1000);
		}
	}
	return syscall(SYS_pread64, fd, buf, n, off);
}

static void ages(void)
{
	struct weir__reads r = { 0 };

	ok(!weir__reads_are_late(&r, 10 * LIMIT, LIMIT),
	   "a load is not late while none of its reads runs");
	weir__reads_begin(&r, 10 * LIMIT);
	ok(!weir__reads_are_late(&r, 11 * LIMIT - 1, LIMIT),
	   "a load that waited for its program has all of its time for the next read");
	ok(weir__reads_are_late(&r, 11 * LIMIT, LIMIT),
	   "a load is late when a read has run for too long");
	weir__reads_begin(&r, 11 * LIMIT - 1);
	ok(weir__reads_are_late(&r, 11 * LIMIT, LIMIT),
	   "a read that begins gives no more time to those that run");
	weir__reads_moved(&r, 11 * LIMIT);
	ok(!weir__reads_are_late(&r, 12 * LIMIT - 1, LIMIT),
	   "bytes that arrive give the other reads more time");
	weir__reads_moved(&r, 10 * LIMIT);
	ok(!weir__reads_are_late(&r, 12 * LIMIT - 1, LIMIT),
	   "a reactor whose clock is older takes no time away");
	weir__reads_end(&r);
	weir__reads_end(&r);
	weir__reads_begin(&r, 10 * LIMIT);
	ok(!weir__reads_are_late(&r, 12 * LIMIT - 1, LIMIT),
	   "nor does it when it begins the first read");
}

static void stopped(uint32_t way, const char *what)
{
	struct weir_opts o = WEIR_OPTS_INIT;
	struct weir_select_opts put = WEIR_SELECT_OPTS_INIT;
	struct weir_buft *plain;
	struct weir_plan *p;
	struct weir_model *m;
	struct weir_load *l;
	struct weir *root;

	o.io = WEIR_IO_SYNC;
	o.reactors = 1;
	o.copiers = 2;
	o.chunk = CHUNK;
	o.depth = DEPTH;
	put.way = way;
	if (weir_open(&o, &root) < 0 ||
	    weir_dev_buft(weir_dev_get(root, 0), WEIR_MEM_PLAIN, &plain) < 0 ||
	    weir_model_open(root, path, NULL, &m) < 0 ||
	    weir_plan_new(m, &p) < 0 || weir_plan_add(p, NULL, plain, &put) < 0)
		bail("%s", weir_error());
	begun = 0;
	ended = false;
	jump = true;
	if (weir_load_start(p, NULL, &l) < 0)
		bail("%s", weir_error());
	is_int(weir_load_wait(l, -1), 0, "%s: %s", what, weir_error());
	ended = true;
	ok(begun >= 3 * DEPTH, "%u reads began, one of them before the hour",
	   begun);
	weir_load_free(l);
	weir_plan_free(p);
	weir_model_close(m);
	weir_close(root);
}

int main(void)
{
	int fd = mkstemp(path);

	plan(9);
	if (fd < 0)
		skip_all("%s cannot be made", path);
	close(fd);
	sample_write(path, tensors, N, 16, 3);
	ages();
	stopped(WEIR_WAY_DIRECT,
		"a load goes on after the process was stopped for an hour");
	unlink(path);
	return done_testing();
}
