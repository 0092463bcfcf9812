/* SPDX-License-Identifier: MIT */
/*
 * Reads that never end. Those of threads hang in this test's pread(2), those of
 * a ring read a pipe that nobody writes to.
 *
 * For the engine's threads time passes only while reads hang, from the first
 * one on, and only a little between two looks at it. So other reads are never
 * late, and those that hang are, however busy the machine is, and the limits
 * can be short.
 */
#include <dlfcn.h>
#include <errno.h>
#include <liburing.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <weir.h>

#include "sample.h"
#include "tap.h"

#define SECOND INT64_C(1000000000)
#define LIMIT (SECOND / 50) /* time limit of reads that hang */
#define STEP (LIMIT / 4)    /* the most that passes between two looks */

static char path[] = "/var/tmp/weir-deadline-XXXXXX";
static const struct sample_tensor tensors[] = {
	{ "a", "U8", 1600000, 1 },
	{ "b", "U8", 77777, 1 },
};
#define N (sizeof(tensors) / sizeof(tensors[0]))
#define CHUNK (64u << 10)
#define DEPTH 4u

static _Atomic bool hang; /* reads of the engine hang */
/* The time of the engine's threads, under the lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int64_t engine_now, looked_at; /* and the real time of the last look */
static bool time_passes;
static bool no_patience; /* closing waits for hanging threads only shortly */
static _Atomic int64_t slow;    /* how long a read takes, ns */
static _Atomic unsigned hung;   /* reads that hang */
static _Atomic unsigned let_go; /* those that began before a change end */
static pthread_t main_thread;
static int pipe_fd[2];
static unsigned reactors = 1;

/* A thread has no name of the engine's until a moment after it has started. */
static bool on_engine(void)
{
	return !pthread_equal(pthread_self(), main_thread);
}

static int64_t real_now(void)
{
	struct timespec ts;

	syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * SECOND + ts.tv_nsec;
}

static int64_t look(void)
{
	int64_t now, passed, ret;

	pthread_mutex_lock(&lock);
	now = real_now();
	passed = now - looked_at;
	if (time_passes)
		engine_now += passed < STEP ? passed : STEP;
	looked_at = now;
	ret = engine_now;
	pthread_mutex_unlock(&lock);
	return ret;
}

/* In place of the C library's. */
int clock_gettime(clockid_t clock, struct timespec *ts)
{
	int64_t now;

	if (clock != CLOCK_MONOTONIC || !on_engine())
		return (int)syscall(SYS_clock_gettime, clock, ts);
	now = look();
	ts->tv_sec = now / SECOND;
	ts->tv_nsec = now % SECOND;
	return 0;
}

static void read_hangs(void)
{
	pthread_mutex_lock(&lock);
	if (!time_passes)
		looked_at = real_now();
	time_passes = atomic_load(&hang);
	atomic_fetch_add(&hung, 1);
	pthread_mutex_unlock(&lock);
}

/* From now on reads hang; or later ones do not. */
static void set_hang(bool on)
{
	pthread_mutex_lock(&lock);
	atomic_store(&hang, on);
	time_passes &= on;
	pthread_mutex_unlock(&lock);
}

/* In place of the C library's. */
ssize_t pread(int fd, void *buf, size_t n, off_t off)
{
	if (on_engine() && atomic_load(&hang)) {
		unsigned since = atomic_load(&let_go);

		read_hangs();
		while (atomic_load(&let_go) == since)
			usleep(1000);
	}
	if (on_engine() && atomic_load(&slow)) {
		usleep((unsigned)(atomic_load(&slow) / 1000));
		pthread_mutex_lock(&lock);
		engine_now += atomic_load(&slow);
		pthread_mutex_unlock(&lock);
	}
	return syscall(SYS_pread64, fd, buf, n, off);
}

/* In place of the library's: it need not wait a second for what never ends. */
int __real_weir__thread_join(pthread_t thread, int64_t deadline);
int __wrap_weir__thread_join(pthread_t thread, int64_t deadline);
int __wrap_weir__thread_join(pthread_t thread, int64_t deadline)
{
	int64_t soon = real_now() + SECOND / 20;

	return __real_weir__thread_join(
		thread, no_patience && soon < deadline ? soon : deadline);
}

static void divert(struct io_uring *ring)
{
	for (unsigned i = ring->sq.sqe_head; i != ring->sq.sqe_tail; i++) {
		struct io_uring_sqe *sqe =
			&ring->sq.sqes[i & *ring->sq.kring_mask];

		if (sqe->len <= 8 || (sqe->opcode != IORING_OP_READ &&
				      sqe->opcode != IORING_OP_READ_FIXED))
			continue;
		sqe->fd = pipe_fd[0];
		sqe->flags &= (__u8)~IOSQE_FIXED_FILE;
		read_hangs();
	}
}

int io_uring_submit_and_wait_timeout(struct io_uring *ring,
				     struct io_uring_cqe **cqe, unsigned n,
				     struct __kernel_timespec *ts,
				     sigset_t *mask)
{
	int (*real)(struct io_uring *, struct io_uring_cqe **, unsigned,
		    struct __kernel_timespec *, sigset_t *);

	*(void **)&real = dlsym(RTLD_NEXT, "io_uring_submit_and_wait_timeout");
	if (atomic_load(&hang))
		divert(ring);
	return real(ring, cqe, n, ts, mask);
}

static double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static struct weir *open_root(uint32_t io, int64_t read_timeout,
			      int64_t close_timeout)
{
	struct weir_io_info info = { .size = sizeof(info) };
	struct weir_opts o = WEIR_OPTS_INIT;
	struct weir *root;

	o.io = io;
	o.reactors = reactors;
	o.copiers = 1;
	o.chunk = CHUNK;
	o.depth = DEPTH;
	o.read_timeout = read_timeout;
	o.close_timeout = close_timeout;
	if (weir_open(&o, &root) < 0)
		bail("%s", weir_error());
	if (weir_io_info(root, &info) >= 0 &&
	    (io != WEIR_IO_AUTO || info.method == WEIR_IO_URING))
		return root;
	weir_close(root);
	return NULL;
}

/*
 * Closing would wait for threads that hang for a second: other roots test that.
 */
static void close_after_reads(struct weir *root)
{
	atomic_fetch_add(&let_go, 1);
	weir_close(root);
}

static void close_within(struct weir *root, double limit, const char *what)
{
	double begun = seconds();

	no_patience = true;
	weir_close(root);
	no_patience = false;
	begun = seconds() - begun;
	ok(begun < limit, "%s: %.1f s", what, begun);
}

static void given_up(uint32_t io, uint32_t way)
{
	struct weir *root = open_root(io, LIMIT, 0);

	hung = 0;
	set_hang(true);
	is_err(sample_load_way(root, path, way, 3, 40 * SECOND), -ETIME,
	       "read_timeout",
	       "a load whose reads do not end fails and says why: %s",
	       weir_error());
	set_hang(false);
	has_str(weir_error(), strrchr(path, '/') + 1,
		"the failure of a load whose reads do not end names the file");
	/* The two blocks at the ends of a tensor take no room in the window. */
	ok(hung > 0 && hung <= reactors * (DEPTH + 2),
	   "a load starts no more reads after the first have not ended: %u",
	   hung);
	is_int(sample_load_way(root, path, way, 3, 40 * SECOND), 0,
	       "the next load is read by other threads or entries");
	close_within(
		root, 20,
		"a root that closes does not wait for hanging reads of a load");
}

static struct weir_buf *buf_of(struct weir_dev *dev, size_t bytes)
{
	struct weir_buft *huge;
	struct weir_buf *buf;

	if (weir_dev_buft(dev, WEIR_MEM_HUGE, &huge) < 0 ||
	    weir_buf_alloc(huge, bytes, NULL, &buf) < 0)
		bail("%s", weir_error());
	return buf;
}

static void in_a_stream(uint32_t io, uint32_t way)
{
	struct weir_file_opts o = WEIR_FILE_OPTS_INIT;
	struct weir *root = open_root(io, LIMIT, 0);
	struct weir_dev *dev = weir_dev_get(root, 0);
	const int64_t bytes = 256 << 10;
	struct weir_stream *s;
	struct weir_file *file;
	struct weir_tensor t;
	struct weir_buf *buf = buf_of(dev, (size_t)bytes);

	o.flags = way == WEIR_WAY_DIRECT ? 0 : WEIR_FILE_NODIRECT;
	if (weir_tensor_init(&t, WEIR_DTYPE_U8, 1, &bytes) < 0 ||
	    weir_tensor_place(&t, buf, 0) < 0 ||
	    weir_file_open(root, path, &o, &file) < 0 ||
	    weir_stream_new(dev, NULL, &s) < 0)
		bail("%s", weir_error());
	set_hang(true);
	weir_stream_read(s, file, 0, &t, 0, (size_t)bytes);
	is_err(weir_stream_sync(s, 40 * SECOND), -ETIME, "read_timeout",
	       "a stream whose read does not end fails");
	set_hang(false);
	is_int(weir_stream_reset(s), 0,
	       "a stream that failed on a late read can be reset");
	weir_stream_read(s, file, 0, &t, 0, (size_t)bytes);
	is_int(weir_stream_sync(s, 40 * SECOND), 0,
	       "a stream that was reset reads again");
	weir_stream_free(s);
	weir_file_close(file);
	weir_buf_free(buf);
	if (io == WEIR_IO_SYNC)
		close_after_reads(root);
	else
		close_within(
			root, 20,
			"a root that closes does not wait for a hanging read of a stream");
}

/* The first operations hang. Of the others none is started. */
static void in_many(uint32_t io)
{
	struct weir_file_opts o = WEIR_FILE_OPTS_INIT;
	struct weir *root = open_root(io, LIMIT, 0);
	struct weir_dev *dev = weir_dev_get(root, 0);
	const int64_t bytes = 20 * (int64_t)CHUNK;
	struct weir_failure f;
	struct weir_event *e;
	struct weir_stream *s;
	struct weir_file *file;
	struct weir_tensor t;
	struct weir_buf *buf = buf_of(dev, (size_t)bytes);

	if (weir_tensor_init(&t, WEIR_DTYPE_U8, 1, &bytes) < 0 ||
	    weir_tensor_place(&t, buf, 0) < 0 ||
	    weir_file_open(root, path, &o, &file) < 0 ||
	    weir_stream_new(dev, NULL, &s) < 0 ||
	    weir_event_new(root, 0, &e) < 0)
		bail("%s", weir_error());
	hung = 0;
	set_hang(true);
	for (size_t i = 0; i < 20; i++)
		weir_stream_read(s, file, i * CHUNK, &t, i * CHUNK, CHUNK);
	weir_stream_record(s, e);
	is_err(weir_stream_sync(s, 40 * SECOND), -ETIME, "operation 1 (read)",
	       "a stream of reads that do not end fails at the first");
	is_int(weir_event_error(e, &f), -ECANCELED,
	       "a read after one that does not end is cancelled");
	ok(hung <= 2 * (DEPTH + 2),
	   "of 20 reads of a stream that hangs %u were started", hung);
	set_hang(false);
	weir_event_free(e);
	weir_stream_free(s);
	weir_file_close(file);
	weir_buf_free(buf);
	close_after_reads(root);
}

static int take_nothing(void *arg, size_t i, uint64_t off, const void *data,
			size_t n)
{
	(void)arg, (void)i, (void)off, (void)data, (void)n;
	return 0;
}

static void for_a_sink(uint32_t io, uint32_t way)
{
	struct weir *root = open_root(io, LIMIT, 0);
	struct weir_sink sink = WEIR_SINK_INIT;
	struct weir_model *m;
	struct weir_plan *p;
	struct weir_load *l;

	sink.chunk = take_nothing;
	sink.way = way;
	if (weir_model_open(root, path, NULL, &m) < 0 ||
	    weir_plan_new(m, &p) < 0 || weir_plan_sink(p, NULL, &sink) < 0)
		bail("%s", weir_error());
	hung = 0;
	set_hang(true);
	if (weir_load_start(p, NULL, &l) < 0)
		bail("%s", weir_error());
	is_err(weir_load_wait(l, 40 * SECOND), -ETIME, "read_timeout",
	       "a sink whose reads do not end fails");
	ok(hung > 0 && hung <= reactors * (DEPTH + 2),
	   "a sink starts no more reads after the first have not ended: %u",
	   hung);
	set_hang(false);
	weir_load_free(l);
	weir_plan_free(p);
	weir_model_close(m);
	close_after_reads(root);
}

static void for_ever(uint32_t io, uint32_t way)
{
	struct weir *root = open_root(io, -1, SECOND / 10);

	hung = 0;
	set_hang(true);
	is_int(sample_load_way(root, path, way, 3, SECOND / 10), -ETIMEDOUT,
	       "a load without a read_timeout waits for reads that hang");
	set_hang(false);
	if (way == WEIR_WAY_BUFFERED)
		close_after_reads(root);
	else
		close_within(
			root, 20,
			"a root without a read_timeout closes although reads hang");
}

static void moving(uint32_t io)
{
	struct weir *root = open_root(io, SECOND / 5, 0);

	/* Some 27 reads, one after the other. */
	slow = SECOND / 66;
	is_int(sample_load_way(root, path, WEIR_WAY_BUFFERED, 3, 50 * SECOND),
	       0, "reads that arrive slowly are waited for");
	slow = 0;
	weir_close(root);
}

static void contract(uint32_t io, uint32_t way, const char *prefix)
{
	struct weir *root = open_root(io, 0, 0);

	tap_prefix(prefix);
	if (!root) {
		skip(21, "no ring here");
		return;
	}
	weir_close(root);
	given_up(io, way);
	in_a_stream(io, way);
	if (way == WEIR_WAY_DIRECT)
		in_many(io);
	for_a_sink(io, way);
	for_ever(io, way);
	if (io == WEIR_IO_SYNC)
		return;
	reactors = 2;
	given_up(io, way);
	reactors = 1;
}

int main(void)
{
	struct weir_opts o = WEIR_OPTS_INIT;
	struct weir *root;
	int fd = mkstemp(path);

	plan(49);
	if (fd < 0 || pipe(pipe_fd) < 0)
		skip_all("%s cannot be made", path);
	close(fd);
	main_thread = pthread_self();
	engine_now = real_now();
	sample_write(path, tensors, N, 16, 3);
	o.read_timeout = -2;
	is_err(weir_open(&o, &root), -EINVAL, "read_timeout",
	       "a limit of reads is a time or -1");
	contract(WEIR_IO_AUTO, WEIR_WAY_DIRECT, "ring: ");
	contract(WEIR_IO_SYNC, WEIR_WAY_DIRECT, "threads: ");
	contract(WEIR_IO_SYNC, WEIR_WAY_BUFFERED, "page cache: ");
	moving(WEIR_IO_SYNC);
	unlink(path);
	/* These reads were orphaned. */
	let_go++;
	usleep(300000);
	return done_testing();
}
