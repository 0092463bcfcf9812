/* SPDX-License-Identifier: MIT */
/* Budgets of a root's host memory and of kinds of memory. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir.h>

#include "alloc/arena.h"
#include "core/root.h"
#include <weir/backend.h>
#include "dev/registry.h"
#include "kind.h"
#include "sample.h"
#include "tap.h"
#include "testmod.h"

#define MIB ((size_t)1 << 20)
#define BUDGET (64 * MIB)

static struct weir *weir;
static struct weir_buft *plain, *huge;

static void open_root(uint64_t budget, uint64_t keep)
{
	struct weir_opts o = WEIR_OPTS_INIT;

	o.budget = budget;
	o.keep = keep;
	if (weir_open(&o, &weir) < 0)
		bail("%s", weir_error());
	plain = kind_of(weir, "CPU", WEIR_MEM_PLAIN);
	huge = kind_of(weir, "CPU", WEIR_MEM_HUGE);
}

static struct weir_buf *alloc(struct weir_buft *buft, size_t size)
{
	struct weir_buf *buf;

	if (weir_buf_alloc(buft, size, NULL, &buf) < 0)
		bail("%s", weir_error());
	return buf;
}

static int try_alloc(struct weir_buft *buft, size_t size)
{
	struct weir_buf *buf;
	int r = weir_buf_alloc(buft, size, NULL, &buf);

	if (!r)
		weir_buf_free(buf);
	return r;
}

static struct weir_buft_info kind_info(struct weir_buft *buft)
{
	struct weir_buft_info info = { .size = sizeof(info) };

	if (weir_buft_info(buft, &info) < 0)
		bail("%s", weir_error());
	return info;
}

static void edge(void)
{
	struct weir_buf *most, *rest;

	open_root(BUDGET, UINT64_MAX);
	most = alloc(plain, BUDGET - MIB);
	rest = alloc(huge, MIB);
	ok(rest, "buffers of two kinds can have all of a root's budget");
	is_err(try_alloc(plain, 1), -ENOMEM,
	       "4096 bytes are needed, 67108864 of the root's budget of 67108864 are in use",
	       "a page over the budget of a root is refused with both numbers");
	weir_buf_free(rest);
	is_int(try_alloc(plain, MIB), 0,
	       "memory that is freed can be allocated again within the budget");
	weir_buf_free(most);
	is_err(try_alloc(plain, BUDGET + 1), -ENOMEM, "67112960 bytes",
	       "a buffer larger than the budget is refused");
	is_err(try_alloc(plain, SIZE_MAX), -ENOMEM, "bytes",
	       "SIZE_MAX bytes are refused within a budget");
	weir_close(weir);
}

static void kept(void)
{
	open_root(BUDGET, BUDGET);
	weir_buf_free(alloc(huge, 40 * MIB));
	weir_buf_free(alloc(plain, 20 * MIB));
	is_int(try_alloc(plain, 44 * MIB), 0,
	       "kept memory is freed before the budget refuses a buffer");
	is_int(try_alloc(huge, BUDGET), 0,
	       "all of the budget can be allocated while memory is kept");
	weir_close(weir);
}

/* Two buffers that fit, after one that is kept and a little larger. */
static void kept_larger(void)
{
	struct weir_buf *buf;

	open_root(BUDGET, 0);
	weir_buf_free(alloc(huge, 36 * MIB));
	buf = alloc(huge, 30 * MIB);
	is_int(try_alloc(huge, 34 * MIB), 0,
	       "a larger buffer that is kept takes no bytes of the budget from others");
	weir_buf_free(buf);
	weir_close(weir);
}

static void wrapped(void)
{
	static unsigned char bytes[4096];
	struct weir_buf *all, *buf;

	open_root(BUDGET, UINT64_MAX);
	all = alloc(plain, BUDGET);
	is_int(weir_buf_wrap(plain, bytes, sizeof(bytes), NULL, NULL, &buf), 0,
	       "memory of the caller does not count towards the budget");
	weir_buf_free(buf);
	weir_buf_free(all);
	weir_close(weir);
}

static uint64_t slots_of(uint64_t budget, uint64_t staging, size_t in_use)
{
	struct weir_opts o = WEIR_OPTS_INIT;
	struct weir_io_info info = { .size = sizeof(info) };
	struct weir_buf *buf;
	uint64_t left;

	o.budget = budget;
	o.staging = staging;
	o.keep = UINT64_MAX;
	if (weir_open(&o, &weir) < 0)
		bail("%s", weir_error());
	plain = kind_of(weir, "CPU", WEIR_MEM_PLAIN);
	buf = alloc(plain, in_use);
	if (weir_io_info(weir, &info) < 0)
		bail("%s", weir_error());
	left = weir__arena_budget_left(weir);
	weir_buf_free(buf);
	weir_close(weir);
	return budget - in_use - left;
}

static void slots(void)
{
	struct weir_io_info info = { .size = sizeof(info) };
	struct weir_buf *all;

	open_root(5 * MIB, UINT64_MAX);
	is_err(weir_io_info(weir, &info), -ENOMEM,
	       "staging slots: ", "slots that exceed the budget are refused");
	has_str(weir_error(),
		"6291456 bytes are needed, 0 of the root's budget of 5242880",
		"the error of slots that are refused has the budget");
	weir_close(weir);
	open_root(BUDGET, UINT64_MAX);
	if (weir_io_info(weir, &info) < 0)
		bail("%s", weir_error());
	is_err(try_alloc(plain, BUDGET), -ENOMEM, "of the root's budget",
	       "slots count towards the budget before they are used");
	all = alloc(plain, BUDGET / 4 * 3);
	ok(all, "three quarters of a budget are left beside slots");
	weir_buf_free(all);
	weir_close(weir);
	is_int(slots_of(6 * MIB, 0, 0), 6 * MIB,
	       "the engine works with a budget of 6 MiB");
	ok(slots_of(32 * MIB, 0, 0) <= 8 * MIB,
	   "slots have a quarter of a small budget");
	ok(slots_of(32 * MIB, 64 * MIB, 11 * MIB) <= 20 * MIB,
	   "slots that were asked for take only what a budget has left");
}

static void reservations(void)
{
	struct weir_buf *half;

	open_root(BUDGET, BUDGET);
	weir_buf_free(alloc(plain, BUDGET));
	is_int(weir__registry(weir)->host->host_reserve(weir, BUDGET / 2), 0,
	       "kept memory is freed before a driver's memory is refused");
	half = alloc(plain, BUDGET / 2);
	is_err(weir__registry(weir)->host->host_reserve(weir, 1), -ENOMEM,
	       "67108864 of the root's budget",
	       "a driver's memory over the budget is refused");
	weir_buf_free(half);
	weir__registry(weir)->host->host_unreserve(weir, BUDGET / 2);
	is_int(try_alloc(huge, BUDGET), 0,
	       "a driver's memory that is freed counts no longer");
	weir_close(weir);
}

static void kind_edge(void)
{
	struct weir_buf *a, *b;

	open_root(0, 0);
	is_int(weir_buft_set_budget(plain, 1000), 0,
	       "a kind of memory can have a budget");
	a = alloc(plain, 600);
	b = alloc(plain, 400);
	is_err(try_alloc(plain, 1), -ENOMEM,
	       "1 bytes are needed, 1000 of the budget of 1000 of CPU are in use",
	       "a byte over the budget of a kind is refused with both numbers");
	is_int(try_alloc(huge, MIB), 0,
	       "the budget of a kind does not limit another kind");
	ok(kind_info(plain).used == 1000 && kind_info(plain).budget == 1000,
	   "weir_buft_info returns the budget and its use");
	weir_buft_set_budget(plain, 500);
	weir_buf_free(b);
	is_err(try_alloc(plain, 1), -ENOMEM, "600 of the budget of 500",
	       "buffers that exceed a new budget stay, and new ones are refused");
	weir_buft_set_budget(plain, 0);
	is_int(try_alloc(plain, MIB), 0, "a budget of 0 is no limit");
	weir_buf_free(a);
	is_int(kind_info(plain).used, 0, "freed buffers do not count");
	weir_close(weir);
}

static void failed(void)
{
	static unsigned char byte;
	struct weir_buf *bufs[2], *joined, *wrap;

	open_root(0, 0);
	if (try_alloc(plain, (size_t)1 << 40) != -ENOMEM)
		bail("1 TiB was allocated");
	is_int(kind_info(plain).used, 0,
	       "a buffer that could not be allocated does not count");
	bufs[0] = alloc(plain, 10);
	bufs[1] = alloc(plain, 20);
	if (weir_buf_join(bufs, 2, &joined) < 0 ||
	    weir_buf_wrap(plain, &byte, 1, NULL, NULL, &wrap) < 0)
		bail("%s", weir_error());
	is_int(kind_info(plain).used, 30,
	       "a joined buffer and one of the caller's memory do not count");
	weir_buf_free(wrap);
	weir_buf_free(joined);
	weir_buf_free(bufs[0]);
	weir_buf_free(bufs[1]);
	is_int(kind_info(plain).used, 0,
	       "a joined buffer that is freed is not subtracted");
	weir_close(weir);
}

static void of_a_device(void)
{
	struct weir_buft *far;
	struct weir_buf *buf;

	weir = open_with_good_module();
	far = kind_of(weir, "TEST0", WEIR_MEM_DEVICE);
	weir_buft_set_budget(far, 4096);
	buf = alloc(far, 4000);
	is_err(try_alloc(far, 97), -ENOMEM,
	       "97 bytes are needed, 4000 of the budget of 4096 of ",
	       "memory of a device has a budget too");
	weir_buf_free(buf);
	weir_close(weir);
}

static struct weir_estimate estimate(struct weir_plan *p)
{
	struct weir_estimate e = { .size = sizeof(e) };

	if (weir_plan_estimate(p, &e, 1) != 1)
		bail("%s", weir_error());
	return e;
}

static void estimates(void)
{
	static const struct sample_tensor tensor = { "a", "U8", 4000000, 1 };
	char path[] = "/var/tmp/weir-budget-XXXXXX";
	struct weir_model *m;
	struct weir_plan *p;
	uint64_t header;

	close(mkstemp(path));
	sample_write(path, &tensor, 1, 0, 1);
	open_root(5000000, 0);
	if (weir_model_open(weir, path, NULL, &m) < 0 ||
	    weir_plan_new(m, &p) < 0 || weir_plan_add(p, NULL, huge, NULL) != 1)
		bail("%s", weir_error());
	header = 5000000 - estimate(p).free;
	ok(estimate(p).fits && header > 0 && header <= 262144,
	   "an estimate has what the root's budget has left beside the header");
	weir_buft_set_budget(huge, 3000000);
	ok(!estimate(p).fits && estimate(p).free == 3000000,
	   "a load that exceeds the budget of its kind of memory does not fit");
	weir_buft_set_budget(huge, 0);
	weir->opts.budget = 4100000 + header;
	ok(!estimate(p).fits && estimate(p).free == 4100000,
	   "an estimate counts whole huge pages for the root's budget");
	weir->opts.budget = 3000000 + header;
	ok(!estimate(p).fits && estimate(p).free == 3000000,
	   "a load that exceeds the root's budget does not fit");
	weir_plan_free(p);
	weir_model_close(m);
	weir_close(weir);
	unlink(path);
}

static struct weir_load_report report_of(const char *path)
{
	struct weir_load_report report = { .size = sizeof(report) };
	struct weir_load *load;
	struct weir_model *m;
	struct weir_plan *p;

	if (weir_model_open(weir, path, NULL, &m) < 0 ||
	    weir_plan_new(m, &p) < 0 ||
	    weir_plan_add(p, NULL, huge, NULL) != 1 ||
	    weir_load_start(p, NULL, &load) < 0 ||
	    weir_load_wait(load, -1) < 0 || weir_load_report(load, &report) < 0)
		bail("%s", weir_error());
	is_int(report.memory, weir->opts.budget - weir__arena_budget_left(weir),
	       "a load reports the memory that counts towards the root's budget");
	weir_load_free(load);
	weir_plan_free(p);
	weir_model_close(m);
	return report;
}

static void reported(void)
{
	static const struct sample_tensor tensor = { "a", "U8", 4000000, 1 };
	char path[] = "/var/tmp/weir-budget-XXXXXX";
	struct weir_load_report report;

	close(mkstemp(path));
	sample_write(path, &tensor, 1, 0, 1);
	open_root(4 * BUDGET, UINT64_MAX);
	weir_buf_free(alloc(plain, 3 * BUDGET));
	report = report_of(path);
	ok(report.memory >= 4000000 && report.memory < 3 * BUDGET,
	   "a load reports the memory of its weights, and none that is freed");
	is_int(report.memory_peak, 3 * BUDGET,
	       "a load reports the most memory that its root has had");
	weir_close(weir);
	unlink(path);
}

#define THREADS 4
#define ROUNDS 300

static _Atomic int64_t in_use, most;
static _Atomic unsigned refused, wrong;

static size_t some(unsigned *seed)
{
	return (rand_r(seed) % 40u + 1) * 256 * 1024;
}

/* Buffers whose bytes are added up here: less than what the root counts. */
static void *churn(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;

	for (int i = 0; i < ROUNDS; i++) {
		size_t size = some(&seed);
		struct weir_buf *buf;
		int r = weir_buf_alloc(i % 2 ? plain : huge, size, NULL, &buf);
		int64_t now, old;

		if (r < 0) {
			refused += r == -ENOMEM;
			wrong += r != -ENOMEM;
			continue;
		}
		now = atomic_fetch_add(&in_use, (int64_t)size) + (int64_t)size;
		old = atomic_load(&most);
		while (now > old &&
		       !atomic_compare_exchange_weak(&most, &old, now))
			;
		memset(weir_buf_data(buf), i, 4096);
		if (i % 8 == 0)
			usleep(50);
		atomic_fetch_sub(&in_use, (int64_t)size);
		weir_buf_free(buf);
	}
	return NULL;
}

static void run_threads(void)
{
	pthread_t t[THREADS];

	in_use = 0;
	most = 0;
	refused = 0;
	wrong = 0;
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, churn, (void *)(i + 1));
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
}

static void threads(void)
{
	open_root(20 * MIB, 8 * MIB);
	run_threads();
	ok(refused && !wrong && most <= (int64_t)(20 * MIB),
	   "threads at the edge of a root's budget never exceed it: %u refused, %lld MiB at most",
	   atomic_load(&refused), (long long)most >> 20);
	is_int(try_alloc(plain, 20 * MIB), 0,
	       "all of a root's budget is left when all buffers are freed");
	weir_close(weir);
	open_root(0, 8 * MIB);
	weir_buft_set_budget(plain, 10 * MIB);
	weir_buft_set_budget(huge, 10 * MIB);
	run_threads();
	ok(refused && !wrong && most <= (int64_t)(20 * MIB),
	   "threads at the edge of the budgets of kinds never exceed them: %u refused",
	   atomic_load(&refused));
	ok(!kind_info(plain).used && !kind_info(huge).used,
	   "the budgets of kinds are unused when all buffers are freed");
	weir_close(weir);
}

static void closed(void)
{
	struct weir_buf *buf;

	open_root(BUDGET, BUDGET);
	buf = alloc(plain, MIB);
	weir_close(weir);
	is_err(weir_buft_set_budget(plain, 1), -ESHUTDOWN, "closed",
	       "a kind of memory of a closed root gets no budget");
	weir_buf_free(buf);
}

int main(void)
{
	plan(5 + 2 + 1 + 1 + 7 + 3 + 7 + 3 + 1 + 4 + 3 + 4 + 1);
	edge();
	kept();
	kept_larger();
	wrapped();
	slots();
	reservations();
	kind_edge();
	failed();
	of_a_device();
	estimates();
	reported();
	threads();
	closed();
	return done_testing();
}
