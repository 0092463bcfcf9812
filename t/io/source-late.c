/* SPDX-License-Identifier: MIT */
/*
 * Reads of sources that do not end by themselves: cancelled loads, time limits,
 * reads that are given up, and a root that is closed meanwhile. No limit in
 * here is one that a busy machine could exceed, unless it is the one that is to
 * pass.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <weir.h>

#include "mem_source.h"
#include "sample.h"
#include "tap.h"

#define SECOND INT64_C(1000000000)

static char path[] = "/var/tmp/weir-slow-XXXXXX";
static const struct sample_tensor tensors[] = {
	{ "a", "U8", 9000001, 1 },
	{ "b", "U8", 1000, 1 },
	{ "c", "U8", 77, 1 },
};
#define N (sizeof(tensors) / sizeof(tensors[0]))

static struct weir *weir;
static struct weir_buft *ram;
static enum weir_io io;
static const char *method;

static void begin(int64_t read_timeout, int64_t close_timeout)
{
	struct weir_opts o = WEIR_OPTS_INIT;

	o.io = io;
	o.read_timeout = read_timeout;
	o.close_timeout = close_timeout;
	if (weir_open(&o, &weir) < 0 ||
	    weir_dev_buft(weir_dev_get(weir, 0), WEIR_MEM_PLAIN, &ram) < 0)
		bail("%s", weir_error());
	mem_add(weir);
}

static void end(void)
{
	weir_close(weir);
	is_int(mem.wrong, 0, "no call broke a rule of sources");
	is_int(mem.opened, mem.closed, "each object was closed once");
	is_int(mem.stopped, 1, "the source was stopped once");
	mem_reset();
}

static void pause_ns(int64_t ns)
{
	struct timespec ts = { ns / SECOND, ns % SECOND };

	nanosleep(&ts, NULL);
}

/*
 * Its reads end at once, on the engine's thread: they cannot be late, however
 * busy the machine is.
 */
static struct weir_model *model_of(void)
{
	struct weir_model *m;

	mem.inside = true;
	if (weir_model_open(weir, mem_url(path), NULL, &m) < 0)
		bail("%s", weir_error());
	mem.inside = false;
	return m;
}

static struct weir_load *start(struct weir_model *m)
{
	struct weir_load *l;
	struct weir_plan *p;

	if (weir_plan_new(m, &p) < 0 || weir_plan_add(p, NULL, ram, NULL) < 0 ||
	    weir_load_start(p, NULL, &l) < 0)
		bail("%s", weir_error());
	weir_plan_free(p);
	return l;
}

static void wait_for(_Atomic uint32_t *counter, uint32_t least)
{
	while (*counter < least)
		pause_ns(SECOND / 1000);
}

/* Reads of this load, too, end at once. */
static bool loads(struct weir_model *m)
{
	struct weir_load *l;
	struct weir_weights *w;
	int r;

	mem.inside = true;
	l = start(m);
	r = weir_load_wait(l, -1);
	mem.inside = false;
	if (r >= 0)
		r = weir_load_weights(l, &w);
	if (r >= 0) {
		r = sample_wrong(w, 1) ? -1 : 0;
		weir_weights_free(w);
	}
	weir_load_free(l);
	return r >= 0;
}

/* Reads of a cancelled load end, although they never would by themselves. */
static void cancel(void)
{
	struct weir_model *m;
	struct weir_load *l;

	begin(-1, 0);
	m = model_of();
	mem.reads = 0;
	mem.hold = true;
	l = start(m);
	wait_for(&mem.reads, 1);
	is_err(weir_load_wait(l, 0), -ETIMEDOUT, "", "a load waits for reads");
	is_int(weir_load_cancel(l), 0, "it is cancelled");
	is_int(weir_load_wait(l, -1), -ECANCELED, "and ends");
	ok(mem.cancels >= 1, "since its reads were cancelled");
	weir_load_free(l);
	mem.hold = false;
	ok(loads(m), "the model is loaded afterwards");
	weir_model_close(m);
	end();
}

/* A read without progress is late, and is cancelled. */
static void late(void)
{
	struct weir_model *m;
	struct weir_load *l;

	begin(SECOND / 10, 0);
	m = model_of();
	mem.hold = true;
	l = start(m);
	is_int(weir_load_wait(l, -1), -ETIME, "a load without progress ends");
	has_str(weir_error(), "no answer within 0.1 s (read_timeout)",
		"and says why");
	ok(mem.cancels >= 1, "its reads were cancelled");
	is_int(mem.in_flight, 0, "none of them is left");
	weir_load_free(l);
	weir_model_close(m);
	mem.hold = false;
	end();
}

/* A read of which bytes arrive is not late. */
static void trickle(void)
{
	struct weir_model *m;
	struct weir_load *l;
	bool busy;
	int r;

	begin(SECOND, 0);
	m = model_of();
	do {
		mem.gap = 0;
		mem.trickle = mem.hold = true;
		l = start(m);
		r = weir_load_wait(l, 5 * SECOND / 2);
		busy = mem.gap > SECOND / 2;
		mem.hold = false;
		if (r == -ETIMEDOUT)
			r = weir_load_wait(l, -1);
		weir_load_free(l);
		tap_renew();
	} while (r == -ETIME && busy);
	is_int(r, 0, "reads whose bytes trickle in are not late");
	weir_model_close(m);
	mem.trickle = false;
	end();
}

/* A source that does not answer at all: its memory is given up. */
static void deaf(bool has_cancel)
{
	struct weir_model *m;
	struct weir_load *l;
	uint32_t held;

	mem.no_cancel = !has_cancel;
	begin(SECOND / 10, 0);
	m = model_of();
	mem.deaf = mem.hold = true;
	l = start(m);
	is_int(weir_load_wait(l, -1), -ETIME,
	       "a load ends although a read does not");
	ok(mem.in_flight >= 1, "the read has not ended");
	is_int(mem.cancels > 0, has_cancel, "it was cancelled, if possible");
	held = mem.in_flight;
	weir_load_free(l);
	/* They end now: their memory may be written to, and is not used. */
	mem.hold = mem.deaf = false;
	while (mem.in_flight)
		pause_ns(SECOND / 1000);
	ok(held && loads(m), "the next load of the model succeeds");
	weir_model_close(m);
	weir_close(weir);
	is_int(mem.wrong, 0, "no call broke a rule of sources");
	mem_reset();
}

/*
 * A source that does not answer gets as many reads as it can have; files of
 * this machine are read meanwhile, here with one reactor and a small window.
 */
static void others(void)
{
	struct weir_opts o = WEIR_OPTS_INIT;
	struct weir_model *m, *local;
	struct weir_load *slow, *fast;

	o.io = io;
	o.read_timeout = -1;
	o.reactors = 1;
	o.chunk = 64 << 10;
	o.depth = 64;
	if (weir_open(&o, &weir) < 0 ||
	    weir_dev_buft(weir_dev_get(weir, 0), WEIR_MEM_PLAIN, &ram) < 0 ||
	    weir_model_open(weir, path, NULL, &local) < 0)
		bail("%s", weir_error());
	mem_add(weir);
	m = model_of();
	mem.reads = 0;
	mem.hold = true;
	slow = start(m);
	wait_for(&mem.reads, 40);
	pause_ns(SECOND / 10);
	fast = start(local);
	is_int(weir_load_wait(fast, 60 * SECOND), 0,
	       "a load of a file does not wait for a source");
	is_err(weir_load_wait(slow, 0), -ETIMEDOUT, "",
	       "whose load is not over");
	mem.hold = false;
	is_int(weir_load_wait(slow, -1), 0, "and ends later");
	weir_load_free(fast);
	weir_load_free(slow);
	weir_model_close(local);
	weir_model_close(m);
	end();
}

/* The root is closed while reads are in flight, which then are cancelled. */
static void close_root(bool ends)
{
	struct weir_model *m;
	struct weir_load *l;

	begin(-1, ends ? 60 * SECOND : SECOND / 10);
	m = model_of();
	mem.reads = 0;
	mem.hold = true;
	l = start(m);
	wait_for(&mem.reads, 1);
	if (ends)
		mem.hold = false;
	weir_close(weir);
	is_int(weir_load_wait(l, -1), ends ? 0 : -ESHUTDOWN,
	       ends ? "a load ends before its root is closed"
		    : "reads in flight are cancelled when the root closes");
	is_int(mem.in_flight, 0, "no read is left");
	mem.hold = false;
	weir_load_free(l);
	weir_model_close(m);
	is_int(mem.wrong, 0, "no call broke a rule of sources");
	if (ends)
		is_int(mem.stopped, 1, "the source was stopped");
	mem_reset();
}

int main(void)
{
	static const enum weir_io methods[] = { WEIR_IO_AUTO, WEIR_IO_SYNC };

	plan(0);
	close(mkstemp(path));
	sample_write(path, tensors, N, 24, 1);
	for (int i = 0; i < 2; i++) {
		io = methods[i];
		method = i ? "threads: " : "auto: ";
		tap_prefix(method);
		cancel();
		late();
		if (!i)
			trickle();
		others();
		close_root(true);
		close_root(false);
		deaf(true);
		deaf(false);
	}
	unlink(path);
	mem_end();
	return done_testing();
}
