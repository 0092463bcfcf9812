/* SPDX-License-Identifier: MIT */
/* The queue of arrived tensors, weir_load_next; its descriptor: load-fd.c. */
#include <pthread.h>
#include <time.h>

#include "paused.h"

#define MANY 20000u
#define CHECKS 14u /* checks of contract() */

static struct sample_tensor many[MANY];
static char many_names[MANY][8];

static int64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * SEC + ts.tv_nsec;
}

static void order_of_completion(void)
{
	const char *names;
	struct weir_load *l;

	atomic_store(&paused_from, offset_of("c"));
	l = start_all();
	is_str(arrivals(l, 2), "none nil ",
	       "empty tensors are returned first, in order");
	names = arrivals(l, 2);
	ok(strlen(names) == 4 && !strpbrk(names, "cd"),
	   "tensors are returned while others are still being read");
	atomic_store(&paused_from, INT64_MAX);
	is_int(weir_load_wait(l, -1), 0, "the reads that waited end");
	is_int(count(arrivals(l, FEW), ' '), 2,
	       "the other tensors are returned");
	weir_load_free(l);
}

static void mapped_first(void)
{
	struct weir_select_opts how = WEIR_SELECT_OPTS_INIT;
	struct weir_plan *p = plan_for("[ac]", WEIR_WAY_DIRECT);
	struct weir_buft *mapped;
	struct weir_dev *cpu;
	struct weir_load *l;

	how.way = WEIR_WAY_MAP;
	must(weir_dev_find(root, "CPU", &cpu));
	must(weir_dev_buft(cpu, WEIR_MEM_MAPPED, &mapped));
	must(weir_plan_add(p, NULL, mapped, &how));
	atomic_store(&paused_from, 0);
	l = start(p, NULL);
	is_str(arrivals(l, 4), "none b d nil ",
	       "mapped and empty tensors are returned first, in order");
	atomic_store(&paused_from, INT64_MAX);
	weir_load_free(l);
}

static void times_out(void)
{
	int64_t before;
	struct weir_load *l;
	size_t i = 77;

	l = start_paused("[abcd]");
	is_err(weir_load_next(l, 0, &i), -ETIMEDOUT, "within 0 ns",
	       "weir_load_next with no time returns -ETIMEDOUT at once");
	before = clock_ns(CLOCK_MONOTONIC);
	is_int(weir_load_next(l, SEC / 50, &i), -ETIMEDOUT,
	       "weir_load_next returns -ETIMEDOUT after its time");
	ok(clock_ns(CLOCK_MONOTONIC) - before >= SEC / 50,
	   "weir_load_next does not return before its time");
	is_int(i, 77, "weir_load_next does not write a number at a time-out");
	atomic_store(&paused_from, INT64_MAX);
	weir_load_free(l);
}

/* One chunk is being read, and the others are not started. */
static void cancelled(void)
{
	struct weir_load_opts o = WEIR_LOAD_OPTS_INIT;
	struct weir_plan *p = plan_for(NULL, WEIR_WAY_DIRECT);
	int r, failed = 0, wrong = 0;
	struct weir_failure failure;
	struct weir_load *l;
	size_t i, n = 0;

	o.depth = 1;
	atomic_store(&paused_from, 0);
	must(weir_load_start(p, &o, &l));
	weir_plan_free(p);
	must(weir_load_cancel(l));
	atomic_store(&paused_from, INT64_MAX);
	for (; (r = weir_load_next(l, 20 * SEC, &i)) != 0 && n < FEW; n++) {
		int err = weir_load_error(l, i, &failure);

		failed += r == WEIR_NEXT_FAILED && err == -ECANCELED;
		wrong += r != (err ? WEIR_NEXT_FAILED : WEIR_NEXT_ARRIVED);
	}
	ok(n == FEW && failed > 0 && !wrong,
	   "the tensors of a cancelled load are returned, as failed with -ECANCELED");
	weir_load_free(l);
}

/* The reads do not end before weir_close() gives them up. */
static void root_closed(void)
{
	const char *names;
	struct weir_load *l;

	weir_close(root);
	open_root(WEIR_IO_SYNC, SEC / 10);
	l = start_paused(NULL);
	weir_close(root);
	names = arrivals(l, FEW + 1);
	ok(count(names, ' ') == FEW && count(names, '!') == 4,
	   "tensors that weir_close gave up are returned");
	weir_load_free(l);
	atomic_store(&paused_from, INT64_MAX);
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
	l = start_paused(NULL);
	must(weir_load_weights(l, &w));
	for (int i = 0; i < 4; i++) {
		t[i] = (struct taker){ .load = l, .w = w };
		pthread_create(&t[i].thread, NULL, take_thread, &t[i]);
	}
	usleep(10000);
	atomic_store(&paused_from, INT64_MAX);
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
	struct weir_failure f;
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

		int err = weir_load_error(l, i, &f);

		if (r == WEIR_NEXT_FAILED)
			wrong += err != -ESTALE || !strstr(f.text, name) ||
				 *name < 'b' || *name == 'n';
		else
			wrong += r != WEIR_NEXT_ARRIVED || err ||
				 *name == 'c' || *name == 'd';
	}
	ok(n == FEW && !wrong,
	   "tensors that fail are returned once, and weir_load_error says why");
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
	cancelled();
	root_closed();
	weir_close(root);
}

int main(void)
{
	paused_begin(11 + 3 * CHECKS);
	for (unsigned i = 0; i < MANY; i++) {
		snprintf(many_names[i], sizeof(many_names[i]), "t%u", i);
		many[i] = (struct sample_tensor){ many_names[i], "U8",
						  100 + i % 200, 1 };
	}
	reads_held_up();
	contract(WEIR_IO_AUTO, "auto: ");
	contract(WEIR_IO_URING, "uring: ");
	contract(WEIR_IO_SYNC, "sync: ");
	return paused_end();
}
