/* SPDX-License-Identifier: MIT */
/*
 * The queue of arrived tensors: weir_load_next and weir_load_fd. Into host
 * memory, or that of the device WEIR_T_DEVICE. This test has its own pread(2),
 * so that it can hold up the reads of the threads' method.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <weir.h>

#include "sample.h"
#include "tap.h"

#define SEC INT64_C(1000000000)
#define MANY 20000u
#define CHECKS 14u /* of contract() */

static char dir[] = "/var/tmp/weir-load-next-XXXXXX";
static char path[64];
static const char *device; /* NULL: the CPU */
static struct weir *root;

static const struct sample_tensor few[] = {
	{ "a", "U8", 1u << 20, 1 }, { "none", "F32", 0, 4 },
	{ "b", "U8", 1u << 20, 1 }, { "c", "U8", 1u << 20, 1 },
	{ "d", "U8", 1u << 20, 1 }, { "nil", "F32", 0, 4 },
};
#define FEW (sizeof(few) / sizeof(few[0]))

static struct sample_tensor many[MANY];
static char many_names[MANY][8];

/* Long reads at this offset of a file or later wait. */
static _Atomic int64_t held_from = INT64_MAX;

/* The library calls this one too. */
__attribute__((visibility("default"))) ssize_t pread(int fd, void *buf,
						     size_t n, off_t off)
{
	while (n >= 65536 && off >= atomic_load(&held_from))
		usleep(1000);
	return syscall(SYS_pread64, fd, buf, n, off);
}

static int fail_eventfd; /* what eventfd(2) fails with */

/* In place of the C library's. */
__attribute__((visibility("default"))) int eventfd(unsigned count, int flags)
{
	if (!fail_eventfd)
		return (int)syscall(SYS_eventfd2, count, flags);
	errno = fail_eventfd;
	return -1;
}

static void must(int r)
{
	if (r < 0)
		bail("%s", weir_error());
}

static int64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * SEC + ts.tv_nsec;
}

static void open_root(uint32_t io, int64_t close_timeout)
{
	struct weir_opts o = WEIR_OPTS_INIT;

	o.io = io;
	o.reactors = 2;
	o.chunk = 1u << 20;
	o.close_timeout = close_timeout;
	must(weir_open(&o, &root));
}

static struct weir_buft *memory(void)
{
	struct weir_buft *buft;
	struct weir_dev *dev;

	must(weir_dev_find(root, device ? device : "CPU", &dev));
	must(weir_dev_buft(dev, device ? WEIR_MEM_DEVICE : WEIR_MEM_HUGE,
			   &buft));
	return buft;
}

/* A plan of the tensors that match @glob. */
static struct weir_plan *plan_for(const char *glob, enum weir_way way)
{
	struct weir_put_opts put = WEIR_PUT_OPTS_INIT;
	struct weir_model *m;
	struct weir_plan *p;

	put.way = way;
	must(weir_model_open(root, path, NULL, &m));
	must(weir_plan_new(m, &p));
	must(weir_plan_put(p, glob, memory(), &put));
	weir_model_close(m);
	return p;
}

/* Start a load, and free the plan. */
static struct weir_load *start(struct weir_plan *p, struct weir_weights *into)
{
	struct weir_load_opts o = WEIR_LOAD_OPTS_INIT;
	struct weir_load *l;

	o.into = into;
	must(weir_load_start(p, &o, &l));
	weir_plan_free(p);
	return l;
}

static struct weir_load *start_all(void)
{
	return start(plan_for(NULL, WEIR_WAY_DIRECT), NULL);
}

/* The same; no read ends before held_from is set again. */
static struct weir_load *start_held(const char *glob)
{
	struct weir_plan *p = plan_for(glob, WEIR_WAY_DIRECT);

	atomic_store(&held_from, 0);
	return start(p, NULL);
}

/* The offset of tensor @name of the file at path. */
static int64_t offset_of(const char *name)
{
	struct weir_entry e = { .size = sizeof(e) };
	struct weir_model *m;
	size_t i;

	must(weir_model_open(root, path, NULL, &m));
	must(weir_model_find(m, name, &i));
	must(weir_model_tensor(m, i, &e));
	weir_model_close(m);
	return (int64_t)e.offset;
}

/* The names of up to @n tensors that arrive, "!" after those that fail. */
static const char *arrivals(struct weir_load *l, size_t n)
{
	static char text[256];
	struct weir_weights *w;
	char *at = text;
	size_t i = 0;

	*at = '\0';
	must(weir_load_weights(l, &w));
	while (n--) {
		int r = weir_load_next(l, 20 * SEC, &i);

		if (r == 0 || r == -ETIMEDOUT)
			break;
		at += sprintf(at, "%s%s ", weir_weights_get(w, i)->name,
			      r < 0 ? "!" : "");
	}
	weir_weights_free(w);
	return text;
}

static unsigned count(const char *s, char c)
{
	unsigned n = 0;

	for (; *s; s++)
		n += *s == c;
	return n;
}

static void order_of_completion(void)
{
	const char *names;
	struct weir_load *l;

	atomic_store(&held_from, offset_of("c"));
	l = start_all();
	is_str(arrivals(l, 2), "none nil ",
	       "empty tensors are returned first, in order");
	names = arrivals(l, 2);
	ok(strlen(names) == 4 && !strpbrk(names, "cd"),
	   "tensors are returned while others are still being read");
	atomic_store(&held_from, INT64_MAX);
	is_int(weir_load_wait(l, -1), 0, "the reads that waited end");
	is_int(count(arrivals(l, FEW), ' '), 2,
	       "the other tensors are returned");
	weir_load_free(l);
}

static void mapped_first(void)
{
	struct weir_put_opts put = WEIR_PUT_OPTS_INIT;
	struct weir_plan *p = plan_for("[ac]", WEIR_WAY_DIRECT);
	struct weir_buft *mapped;
	struct weir_dev *cpu;
	struct weir_load *l;

	put.way = WEIR_WAY_MAP;
	must(weir_dev_find(root, "CPU", &cpu));
	must(weir_dev_buft(cpu, WEIR_MEM_MAPPED, &mapped));
	must(weir_plan_put(p, NULL, mapped, &put));
	atomic_store(&held_from, 0);
	l = start(p, NULL);
	is_str(arrivals(l, 4), "none b d nil ",
	       "mapped and empty tensors are returned first, in order");
	atomic_store(&held_from, INT64_MAX);
	weir_load_free(l);
}

static void times_out(void)
{
	int64_t before;
	struct weir_load *l;
	size_t i = 77;

	l = start_held("[abcd]");
	is_err(weir_load_next(l, 0, &i), -ETIMEDOUT, "within 0 ns",
	       "weir_load_next with no time returns -ETIMEDOUT at once");
	before = clock_ns(CLOCK_MONOTONIC);
	is_int(weir_load_next(l, SEC / 50, &i), -ETIMEDOUT,
	       "weir_load_next returns -ETIMEDOUT after its time");
	ok(clock_ns(CLOCK_MONOTONIC) - before >= SEC / 50,
	   "weir_load_next does not return before its time");
	is_int(i, 77, "weir_load_next does not write a number at a time-out");
	atomic_store(&held_from, INT64_MAX);
	weir_load_free(l);
}

static bool readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

static void descriptor(void)
{
	struct weir_load *l;
	unsigned wrong = 0;
	size_t i;
	int fd, r;

	l = start_held(NULL);
	fd = weir_load_fd(l);
	ok(fd >= 0 && readable(fd),
	   "the descriptor is readable while an empty tensor is not returned");
	is_int(weir_load_fd(l), fd, "a load has one descriptor");
	must(weir_load_next(l, 0, &i));
	ok(readable(fd), "the descriptor is readable while tensors are left");
	must(weir_load_next(l, 0, &i));
	ok(!readable(fd), "the descriptor is not readable before an arrival");
	atomic_store(&held_from, INT64_MAX);
	do {
		struct epoll_event got = { .events = EPOLLIN };
		int ep = epoll_create1(EPOLL_CLOEXEC);

		epoll_ctl(ep, EPOLL_CTL_ADD, fd, &got);
		wrong += epoll_wait(ep, &got, 1, 20000) != 1;
		close(ep);
		r = weir_load_next(l, 0, &i);
		wrong += r < 0;
	} while (r > 0);
	is_int(wrong, 0,
	       "weir_load_next does not block when epoll_wait(2) returns");
	ok(readable(fd), "the descriptor is readable at the end of the queue");
	is_int(weir_load_next(l, 0, &i), 0, "the end of the queue stays");
	weir_load_free(l);
	is_int(fcntl(fd, F_GETFD), -1, "weir_load_free closes the descriptor");
}

static void descriptor_at_the_end(void)
{
	struct weir_load *l = start_all();

	arrivals(l, SIZE_MAX);
	ok(readable(weir_load_fd(l)),
	   "a descriptor that is made at the end is readable");
	weir_load_free(l);
}

/* A daemon that closes all descriptors, and opens files of its own. */
static void descriptor_taken_away(void)
{
	struct weir_load *l;
	int fd, pipes[2];

	if (pipe(pipes) < 0)
		bail("pipe");
	l = start_held("[abcd]");
	fd = weir_load_fd(l);
	dup2(pipes[1], fd);
	atomic_store(&held_from, INT64_MAX);
	is_int(count(arrivals(l, FEW), ' '), 4,
	       "tensors are returned when the program has closed the descriptor");
	ok(!readable(pipes[0]),
	   "the library does not write to a file with its descriptor's number");
	weir_load_free(l);
	ok(fcntl(fd, F_GETFD) >= 0,
	   "the library does not close a file with its descriptor's number");
	close(fd);
	close(pipes[0]);
	close(pipes[1]);
}

static void no_descriptor(void)
{
	struct weir_load *l = start_all();

	fail_eventfd = EMFILE;
	is_err(weir_load_fd(l), -EMFILE, "the load: eventfd, RLIMIT_NOFILE is ",
	       "weir_load_fd names RLIMIT_NOFILE where that is reached");
	fail_eventfd = 0;
	ok(weir_load_fd(l) >= 0, "weir_load_fd succeeds after it has failed");
	weir_load_free(l);
}

/* One chunk is being read, and the others are not started. */
static void cancelled(void)
{
	struct weir_load_opts o = WEIR_LOAD_OPTS_INIT;
	struct weir_plan *p = plan_for(NULL, WEIR_WAY_DIRECT);
	int r, failed = 0, wrong = 0;
	struct weir_load *l;
	size_t i, n = 0;

	o.depth = 1;
	atomic_store(&held_from, 0);
	must(weir_load_start(p, &o, &l));
	weir_plan_free(p);
	must(weir_load_cancel(l));
	atomic_store(&held_from, INT64_MAX);
	for (; (r = weir_load_next(l, 20 * SEC, &i)) != 0 && n < FEW; n++) {
		failed += r == -ECANCELED;
		wrong += r != 1 && r != -ECANCELED;
	}
	ok(n == FEW && failed > 0 && !wrong,
	   "the tensors of a cancelled load are returned, with -ECANCELED");
	weir_load_free(l);
}

/* The reads do not end before weir_close() gives them up. */
static void root_closed(void)
{
	const char *names;
	struct weir_load *l;

	weir_close(root);
	open_root(WEIR_IO_SYNC, SEC / 10);
	l = start_held(NULL);
	weir_close(root);
	names = arrivals(l, FEW + 1);
	ok(count(names, ' ') == FEW && count(names, '!') == 4,
	   "tensors that the close of the root gave up are returned");
	ok(readable(weir_load_fd(l)),
	   "the descriptor of a load can be had after its root was closed");
	weir_load_free(l);
	atomic_store(&held_from, INT64_MAX);
	open_root(WEIR_IO_SYNC, 0);
}

/* How often each tensor was returned. */
static _Atomic unsigned times[MANY];

struct taker {
	pthread_t thread;
	struct weir_load *load;
	struct weir_weights *w;
	size_t n, wrong;
	int end;
};

static void *take_thread(void *arg)
{
	struct taker *t = arg;
	size_t i;

	while ((t->end = weir_load_next(t->load, 20 * SEC, &i)) == 1) {
		atomic_fetch_add(&times[i], 1);
		t->wrong += !device && !sample_holds(t->w, i, 1);
		t->n++;
	}
	return NULL;
}

/*
 * Four threads take @n tensors: each is returned once, with its bytes. Reads
 * are held up until the threads wait, if this is the method of threads.
 */
static void four_threads(size_t n)
{
	struct taker t[4];
	struct weir_weights *w;
	struct weir_load *l;
	size_t twice = 0, sum = 0, wrong = 0;
	int ends = 0;

	for (size_t i = 0; i < n; i++)
		atomic_store(&times[i], 0);
	l = start_held(NULL);
	must(weir_load_weights(l, &w));
	for (int i = 0; i < 4; i++) {
		t[i] = (struct taker){ .load = l, .w = w };
		pthread_create(&t[i].thread, NULL, take_thread, &t[i]);
	}
	usleep(10000);
	atomic_store(&held_from, INT64_MAX);
	for (int i = 0; i < 4; i++) {
		pthread_join(t[i].thread, NULL);
		sum += t[i].n;
		wrong += t[i].wrong;
		ends += t[i].end == 0;
	}
	for (size_t i = 0; i < n; i++)
		twice += times[i] != 1;
	ok(sum == n && !twice, "four threads take each of %zu tensors once", n);
	is_int(wrong, 0, "a tensor that a thread has taken has its bytes");
	is_int(ends, 4, "all threads that take tensors return at the end");
	weir_load_free(l);
	weir_weights_free(w);
}

static unsigned open_fds(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 4096; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* CPU time of this thread, since other programs may use the CPUs. */
static int64_t cost_of_taking(struct weir_load *l)
{
	int64_t before = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	size_t i, n = 0;

	while (weir_load_next(l, 0, &i) == 1)
		n++;
	if (n != MANY)
		bail("%zu of %u tensors arrived", n, MANY);
	return clock_ns(CLOCK_THREAD_CPUTIME_ID) - before;
}

/* The same with an event and a descriptor for each tensor. */
static int64_t cost_of_events(struct weir_load *l)
{
	int64_t before = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	struct weir_event *ev;

	for (size_t i = 0; i < MANY; i++) {
		must(weir_event_new(root, 0, &ev));
		must(weir_load_record(l, i, ev));
		must(weir_event_fd(ev));
		must(weir_event_query(ev));
		weir_event_free(ev);
	}
	return clock_ns(CLOCK_THREAD_CPUTIME_ID) - before;
}

static void cheap(void)
{
	struct weir_load *l = start_all();
	int64_t queue, events;
	unsigned before;

	must(weir_load_wait(l, -1));
	before = open_fds();
	must(weir_load_fd(l));
	queue = cost_of_taking(l);
	is_int(open_fds() - before, 1, "%u tensors need one descriptor", MANY);
	events = cost_of_events(l);
	diag("%u tensors: %lld us from the queue, %lld us by events", MANY,
	     (long long)queue / 1000, (long long)events / 1000);
#ifdef WEIR_SANITIZER
	skip(1, "a sanitizer makes the library slower");
#else
	ok(queue < SEC / 50, "%u tensors are taken in under 20 ms", MANY);
#endif
	ok(queue * 5 < events,
	   "the queue costs less than a fifth of events with descriptors");
	weir_load_free(l);
}

static void failed_tensors(void)
{
	struct weir_load *l;
	struct weir_plan *p;
	struct weir_weights *w;
	unsigned wrong = 0, n = 0;
	size_t i;
	int r;

	sample_write(path, few, FEW, 8, 1);
	p = plan_for(NULL, WEIR_WAY_DIRECT);
	if (truncate(path, offset_of("c")) < 0)
		bail("truncate");
	l = start(p, NULL);
	must(weir_load_weights(l, &w));
	for (; (r = weir_load_next(l, 20 * SEC, &i)) != 0 && n < FEW; n++) {
		const char *name = weir_weights_get(w, i)->name;

		if (r < 0)
			wrong += r != -ESTALE || !strstr(weir_error(), name) ||
				 *name < 'b' || *name == 'n';
		else
			wrong += r != 1 || *name == 'c' || *name == 'd';
	}
	ok(n == FEW && !wrong,
	   "tensors that fail are returned once, with errno and sentence");
	weir_weights_free(w);
	weir_load_free(l);
	sample_write(path, few, FEW, 8, 1);
}

static void small_load(void)
{
	static const struct sample_tensor tiny[] = { { "x", "U8", 70, 1 },
						     { "none", "U8", 0, 1 },
						     { "y", "U8", 9, 1 } };
	struct weir_load *l;

	sample_write(path, tiny, 3, 8, 1);
	for (int i = 0; i < 2; i++) { /* the second from the page cache */
		l = start(plan_for(NULL, WEIR_WAY_AUTO), NULL);
		is_str(arrivals(l, 4), "none x y ",
		       "a small load returns its tensors in order");
		weir_load_free(l);
	}
}

static void loaded_again(void)
{
	struct weir_weights *w;
	struct weir_load *first, *again;

	first = start_all();
	must(weir_load_wait(first, -1));
	must(weir_load_weights(first, &w));
	again = start(plan_for(NULL, WEIR_WAY_DIRECT), w);
	is_int(count(arrivals(again, FEW + 1), ' '), FEW,
	       "a load into earlier weights returns all tensors");
	is_int(count(arrivals(first, FEW + 1), ' '), FEW,
	       "the queue of the earlier load still has its tensors");
	weir_load_free(again);
	weir_load_free(first);
	weir_weights_free(w);
}

static void contract(uint32_t io, const char *prefix)
{
	struct weir_io_info info = { .size = sizeof(info) };

	tap_prefix(prefix);
	open_root(io, 0);
	if (weir_io_info(root, &info) < 0) {
		skip(CHECKS, "%s", weir_error());
		weir_close(root);
		return;
	}
	sample_write(path, many, MANY, 8, 1);
	four_threads(MANY);
	cheap();
	failed_tensors();
	four_threads(FEW);
	loaded_again();
	small_load();
	weir_close(root);
}

static void reads_held_up(void)
{
	tap_prefix("sync: ");
	sample_write(path, few, FEW, 8, 1);
	open_root(WEIR_IO_SYNC, 0);
	order_of_completion();
	if (device)
		skip(1, "pages of a file are host memory");
	else
		mapped_first();
	times_out();
	descriptor();
	descriptor_at_the_end();
	descriptor_taken_away();
	no_descriptor();
	cancelled();
	root_closed();
	weir_close(root);
}

int main(void)
{
	device = getenv("WEIR_T_DEVICE");
	plan(26 + 3 * CHECKS);
	if (!mkdtemp(dir))
		skip_all("%s cannot be made", dir);
	snprintf(path, sizeof(path), "%s/model.safetensors", dir);
	for (unsigned i = 0; i < MANY; i++) {
		snprintf(many_names[i], sizeof(many_names[i]), "t%u", i);
		many[i] = (struct sample_tensor){ many_names[i], "U8",
						  100 + i % 200, 1 };
	}
	reads_held_up();
	contract(WEIR_IO_AUTO, "auto: ");
	contract(WEIR_IO_URING, "uring: ");
	contract(WEIR_IO_SYNC, "sync: ");
	unlink(path);
	rmdir(dir);
	return done_testing();
}
