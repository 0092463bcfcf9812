/* SPDX-License-Identifier: MIT */
/*
 * Sinks that block, fail or cancel, reads that fail for a sink, and closing
 * meanwhile. The test replaces pread(2), so the method is sync.
 */
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#include "slices.h"
#include "plans.h"
#include "sinks.h"

#define MIB (1u << 20)
#define BUFFER (2u * MIB)

static struct seen seen;
static struct weir_load *the_load;

/* Reads with a byte in [lo, hi) of the file fail with err, or hang. */
static struct {
	_Atomic uint64_t lo, hi;
	_Atomic int err;
	_Atomic bool hang;
	_Atomic uint64_t bytes; /* read so far */
	_Atomic unsigned hits;
	_Atomic unsigned delay;        /* us, of all that are counted */
	_Atomic unsigned n, now, most; /* counted; at once; at most */
} reads;

static void read_slowly(void)
{
	unsigned now = ++reads.now;

	reads.n++;
	if (now > reads.most)
		reads.most = now;
	usleep(reads.delay);
	reads.now--;
}

/* Replaces that of the C library, for the library too. */
__attribute__((visibility("default"))) ssize_t pread(int fd, void *buf,
						     size_t n, off_t off)
{
	uint64_t from = (uint64_t)off;

	if (n >= 8192) /* not /proc and /sys */
		reads.bytes += n;
	if (n >= 8192 && reads.delay)
		read_slowly();
	if (from < reads.hi && from + n > reads.lo) {
		reads.hits++;
		while (reads.hang)
			usleep(1000);
		if (reads.err) {
			errno = reads.err;
			return -1;
		}
	}
	return syscall(SYS_pread64, fd, buf, n, off);
}

static void open_root_depth(int64_t close_timeout, int64_t read_timeout,
			    uint32_t depth)
{
	struct weir_opts o = WEIR_OPTS_INIT;

	weir_close(root);
	o.depth = depth;
	o.io = WEIR_IO_SYNC;
	o.chunk = 256 << 10;
	o.copiers = 2;
	o.close_timeout = close_timeout;
	o.read_timeout = read_timeout;
	if (weir_open(&o, &root) < 0)
		bail("%s", weir_error());
	kind = memory_of("CPU", WEIR_MEM_HUGE);
}

static void open_root(int64_t close_timeout, int64_t read_timeout)
{
	open_root_depth(close_timeout, read_timeout, 0);
}

/* Three tensors: of 1, 20 and 3 MiB. */
static struct weir_model *three(void)
{
	n_tensors = 0;
	add_tensor("U8", 1, MIB);
	add_tensor("U8", 1, 20 * MIB);
	add_tensor("U8", 1, 3 * MIB + 1);
	return model();
}

static struct weir_plan *plan_of(struct weir_model *m, uint32_t way)
{
	struct weir_plan *p = new_plan(m);
	struct weir_sink s;

	seen_init(&seen, m);
	s = seen_sink(&seen);
	s.buffer = BUFFER;
	s.way = way;
	if (weir_plan_sink(p, NULL, &s) < 0)
		bail("%s", weir_error());
	return p;
}

static struct weir_load *start_depth(struct weir_plan *p, uint32_t depth)
{
	struct weir_load_opts o = WEIR_LOAD_OPTS_INIT;
	struct weir_load *l;

	o.depth = depth;
	reads.bytes = 0;
	reads.n = reads.most = 0;
	if (weir_load_start(p, &o, &l) < 0)
		bail("%s", weir_error());
	return l;
}

static struct weir_load *start(struct weir_plan *p)
{
	return start_depth(p, 0);
}

static void finish(struct weir_load *l, struct weir_plan *p,
		   struct weir_model *m)
{
	reads.hi = 0;
	reads.err = 0;
	weir_load_free(l);
	weir_plan_free(p);
	weir_model_close(m);
}

struct hold {
	sem_t entered, released;
};

static void hold_init(struct hold *g)
{
	sem_init(&g->entered, 0, 0);
	sem_init(&g->released, 0, 0);
}

static int hold_until_released(void *arg)
{
	struct hold *g = arg;

	sem_post(&g->entered);
	while (sem_wait(&g->released) < 0)
		;
	return 0;
}

/* The bytes read when reading has stopped, which are to be @least. */
static uint64_t settled_bytes(uint64_t least)
{
	uint64_t before;

	for (int ms = 0; ms < 60000 && reads.bytes < least; ms++)
		usleep(1000);
	do {
		before = reads.bytes;
		usleep(100000);
	} while (reads.bytes != before);
	return before;
}

static void reads_wait_for_the_sink(uint32_t way)
{
	struct weir_model *m = three();
	struct weir_plan *p = plan_of(m, way), *other = new_plan(m);
	struct weir_load *l;
	struct hold hold;
	uint64_t bytes, least;

	least = 9 * MIB + BUFFER / (way == WEIR_WAY_DIRECT ? 2 : 4);
	hold_init(&hold);
	plan_add(other, NULL, NULL, 0, 0);
	seen_act(&seen, 1, 8 * MIB, hold_until_released, &hold);
	l = start(p);
	sem_wait(&hold.entered);
	bytes = settled_bytes(least);
	ok(bytes <= 9 * MIB + BUFFER + 65536,
	   "reads wait while the sink blocks and the buffer is full");
	ok(bytes >= least,
	   "reads are ahead of the sink as far as the buffer goes");
	is_err(weir_load_wait(l, 1000000), -ETIMEDOUT, "",
	       "a load does not end before its sink returns");
	ok(loads(other), "another load ends while a sink blocks");
	sem_post(&hold.released);
	is_int(weir_load_wait(l, -1), 0, "the load goes on after that");
	ok(seen_right(&seen) && !seen_missing(&seen),
	   "a sink that blocked receives every byte once");
	weir_plan_free(other);
	finish(l, p, m);
}

static int refuse(void *arg)
{
	return *(int *)arg;
}

static void a_sink_fails(void)
{
	struct weir_model *m = three();
	struct weir_plan *p = plan_of(m, WEIR_WAY_DIRECT);
	struct weir_failure f;
	struct weir_load *l;
	int err = -EXDEV;

	seen_act(&seen, 1, 5 * MIB, refuse, &err);
	l = start(p);
	is_err(weir_load_wait(l, -1), -EXDEV, "tensor 't1': the sink returned",
	       "a load fails with the errno of its sink");
	is_int(weir_load_error(l, 1, &f), -EXDEV,
	       "the tensor that the sink refused has failed");
	is_int(weir_load_error(l, 0, &f) | weir_load_error(l, 2, &f), 0,
	       "other tensors of the sink arrive");
	ok(seen.at[1] > 5 * MIB && seen.at[1] <= 5 * MIB + (256 << 10),
	   "a sink receives no more of a tensor that it refused");
	ok(seen.at[0] == MIB && seen.at[2] == 3 * MIB + 1,
	   "a sink receives the other tensors");
	finish(l, p, m);
}

static int cancel(void *arg)
{
	sem_wait(arg);
	return weir_load_cancel(the_load);
}

static void a_sink_cancels(void)
{
	struct weir_model *m = three();
	struct weir_plan *p = plan_of(m, WEIR_WAY_AUTO);
	struct weir_progress prog = { .size = sizeof(prog) };
	struct weir_failure f;
	unsigned chunks;
	sem_t started;

	sem_init(&started, 0, 0);
	seen_act(&seen, 1, 3 * MIB, cancel, &started);
	the_load = start(p);
	sem_post(&started);
	is_err(weir_load_wait(the_load, -1), -ECANCELED, "cancelled",
	       "a sink may cancel its load");
	chunks = seen.chunks;
	ok(seen.at[1] < 4 * MIB && !seen.at[2],
	   "a sink receives nothing after the load was cancelled");
	is_int(weir_load_error(the_load, 0, &f), 0,
	       "a tensor that the sink had received has arrived");
	is_int(weir_load_error(the_load, 2, &f), -ECANCELED,
	       "tensors that it had not received fail");
	weir_load_progress(the_load, &prog);
	is_int(prog.tensors + prog.failed, 3,
	       "each tensor of a cancelled sink is counted once");
	usleep(10000);
	is_int(seen.chunks, chunks, "a sink is not called after the load");
	finish(the_load, p, m);
}

static void reads_are_limited(void)
{
	struct weir_model *m = three();
	struct weir_plan *p = plan_of(m, WEIR_WAY_DIRECT);
	struct weir_load *l;

	reads.delay = 2000;
	l = start_depth(p, 3);
	is_int(weir_load_wait(l, -1), 0, "a sink with a depth is loaded");
	ok(reads.most > 1 && reads.most <= 3,
	   "a sink has at most as many reads in flight as the load's depth");
	reads.delay = 0;
	finish(l, p, m);
}

/*
 * The engine has one read in flight, so others of the sink's buffer are queued.
 */
static void a_cancel_ends_reads(void)
{
	struct weir_model *m;
	struct weir_plan *p;
	struct weir_load *l;
	unsigned n;

	open_root_depth(0, 0, 1);
	m = three();
	p = plan_of(m, WEIR_WAY_DIRECT);
	reads.delay = 100000;
	l = start(p);
	while (reads.n < 1)
		usleep(1000);
	if (weir_load_cancel(l) < 0)
		bail("%s", weir_error());
	n = reads.n;
	is_err(weir_load_wait(l, -1), -ECANCELED, "cancelled",
	       "a load with a sink is cancelled");
	ok(reads.n <= n + 2, "a cancelled sink starts no more reads");
	diag("%u reads at the cancel, %u at the end, %u at once", n, reads.n,
	     reads.most);
	reads.delay = 0;
	finish(l, p, m);
	open_root(0, 0);
}

static void a_read_fails(int err, const char *what)
{
	struct weir_model *m = three();
	struct weir_plan *p = plan_of(m, WEIR_WAY_DIRECT);
	uint64_t place = entry_of(m, 1).offset + 9 * MIB;
	struct weir_failure f;
	struct weir_load *l;

	reads.lo = place;
	reads.hi = place + 1;
	reads.err = err;
	l = start(p);
	is_err(weir_load_wait(l, -1), -err, "tensor 't1'",
	       "a read for a sink fails: %s", what);
	ok(seen.at[1] <= 9 * MIB,
	   "bytes of a tensor after those that were not read are left out");
	is_int(weir_load_error(l, 1, &f), -err,
	       "the tensor whose read failed has failed");
	ok(seen.at[0] == MIB && seen.at[2] == 3 * MIB + 1 && seen_right(&seen),
	   "a sink receives the tensors beside one whose read failed");
	finish(l, p, m);
}

static void a_file_is_cut(void)
{
	struct weir_model *m = three();
	struct weir_plan *p = plan_of(m, WEIR_WAY_DIRECT);
	struct weir_failure f;
	struct weir_load *l;

	if (truncate(path, (off_t)(entry_of(m, 2).offset + MIB)) < 0)
		bail("%s cannot be cut", path);
	l = start(p);
	is_int(weir_load_wait(l, -1), -ESTALE,
	       "a load to a sink fails if its file was cut");
	is_int(weir_load_error(l, 1, &f), 0,
	       "a tensor before the cut has arrived");
	is_int(weir_load_error(l, 2, &f), -ESTALE,
	       "a tensor after the cut has failed");
	ok(seen_right(&seen) && seen.at[1] == 20 * MIB,
	   "a sink receives the tensors before the cut");
	finish(l, p, m);
}

static void a_file_changes(void)
{
	struct weir_model *m = three();
	struct weir_plan *p = plan_of(m, WEIR_WAY_DIRECT);
	struct weir_load *l;
	struct hold hold;
	FILE *file;

	hold_init(&hold);
	seen_act(&seen, 2, 0, hold_until_released, &hold);
	l = start(p);
	sem_wait(&hold.entered);
	file = fopen(path, "r+");
	if (!file || fputc('x', file) == EOF || fclose(file))
		bail("%s cannot be written", path);
	sem_post(&hold.released);
	is_err(weir_load_wait(l, -1), -ESTALE, "",
	       "a file that changes while a sink receives it fails the load");
	finish(l, p, m);
}

static void *close_root(void *arg)
{
	(void)arg;
	weir_close(root);
	return NULL;
}

static void closing_waits_for_a_sink(void)
{
	struct weir_model *m = three();
	struct weir_plan *p = plan_of(m, WEIR_WAY_DIRECT);
	struct weir_load *l;
	struct hold hold;
	pthread_t closer;

	hold_init(&hold);
	seen_act(&seen, 1, 3 * MIB, hold_until_released, &hold);
	l = start(p);
	sem_wait(&hold.entered);
	pthread_create(&closer, NULL, close_root, NULL);
	usleep(100000);
	is_int(pthread_tryjoin_np(closer, NULL), EBUSY,
	       "weir_close waits for a sink that blocks");
	sem_post(&hold.released);
	pthread_join(closer, NULL);
	is_int(weir_load_wait(l, 0), 0,
	       "a load to a sink has ended when the root is closed");
	ok(!seen_missing(&seen) && seen_right(&seen),
	   "a sink receives every byte while the root is being closed");
	finish(l, p, m);
	root = NULL;
}

static void closing_does_not_wait_for_ever(void)
{
	struct weir_load *l;
	struct weir_model *m;
	struct weir_plan *p;
	struct hold hold;
	unsigned chunks;

	open_root(100000000, 0);
	m = three();
	p = plan_of(m, WEIR_WAY_DIRECT);
	hold_init(&hold);
	seen_act(&seen, 1, 3 * MIB, hold_until_released, &hold);
	l = start(p);
	sem_wait(&hold.entered);
	weir_close(root);
	ok(true, "weir_close returns while a sink blocks, after its timeout");
	chunks = seen.chunks;
	sem_post(&hold.released);
	is_err(weir_load_wait(l, -1), -ESHUTDOWN, "",
	       "the load fails when the sink has returned");
	ok(seen.chunks <= chunks + BUFFER / (256 << 10) && seen_right(&seen),
	   "the sink receives what was read before, and no more");
	finish(l, p, m);
	root = NULL;
}

static void a_read_is_lost(void)
{
	struct weir_model *m;
	struct weir_plan *p;
	struct weir_load *l;
	struct weir_failure f;
	uint64_t place;

	open_root(100000000, 200000000);
	m = three();
	p = plan_of(m, WEIR_WAY_DIRECT);
	place = entry_of(m, 1).offset + 9 * MIB;
	reads.lo = place;
	reads.hi = place + 1;
	reads.hang = true;
	l = start(p);
	is_err(weir_load_wait(l, -1), -ETIME, "",
	       "a read that never ends fails the load of a sink");
	is_int(weir_load_error(l, 0, &f), 0,
	       "a tensor that the sink has received before has arrived");
	ok(weir_load_error(l, 1, &f) < 0 && weir_load_error(l, 2, &f) < 0 &&
		   seen_right(&seen),
	   "the rest of a sink that lost a read fails");
	reads.hang = false;
	finish(l, p, m);
}

int main(void)
{
	static const uint32_t ways[] = { WEIR_WAY_DIRECT, WEIR_WAY_BUFFERED };

	plans_begin(0);
	open_root(0, 0);
	for (int i = 0; i < 2; i++) {
		tap_prefix(i ? "buffered: " : "direct: ");
		reads_wait_for_the_sink(ways[i]);
	}
	tap_prefix(NULL);
	a_sink_fails();
	a_sink_cancels();
	reads_are_limited();
	a_cancel_ends_reads();
	a_read_fails(EIO, "EIO");
	a_file_is_cut();
	a_file_changes();
	closing_waits_for_a_sink();
	closing_does_not_wait_for_ever();
	a_read_is_lost();
	return plans_end();
}
