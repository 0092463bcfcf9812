/* SPDX-License-Identifier: MIT */
/*
 * Loads where little memory is available, as in a small cgroup: the staging
 * slots of the engine are fewer, or there are none. The test replaces the
 * function that says how much there is.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "alloc/avail.h"
#include "limit.h"
#include "plans.h"
#include "sinks.h"

#define KIB 1024ull
#define MIB (1024 * KIB)

static _Atomic uint64_t available = UINT64_MAX;
static uint32_t method;

/* In place of the library's. */
int __real_weir__avail_ram(const char *root_dir, uint64_t *ret_free,
			   uint64_t *ret_total);
int __wrap_weir__avail_ram(const char *root_dir, uint64_t *ret_free,
			   uint64_t *ret_total);
int __wrap_weir__avail_ram(const char *root_dir, uint64_t *ret_free,
			   uint64_t *ret_total)
{
	int r = __real_weir__avail_ram(root_dir, ret_free, ret_total);

	if (!r && available < *ret_free)
		*ret_free = available;
	return r;
}

static void open_root(uint64_t avail, uint64_t reactors)
{
	struct weir_opts o = WEIR_OPTS_INIT;

	available = UINT64_MAX;
	weir_close(root);
	o.io = method;
	o.keep = UINT64_MAX;
	o.reactors = (uint32_t)reactors;
	if (weir_open(&o, &root) < 0)
		bail("%s", weir_error());
	kind = memory_of("CPU", WEIR_MEM_PLAIN);
	available = avail;
}

static struct weir_plan *plan_by(struct weir_model *m, uint32_t way)
{
	struct weir_select_opts o = WEIR_SELECT_OPTS_INIT;
	struct weir_plan *p = new_plan(m);

	o.way = way;
	if (weir_plan_add(p, NULL, kind, &o) < 0)
		bail("%s", weir_error());
	return p;
}

static bool loads_by(uint32_t way)
{
	struct weir_model *m = model();
	struct weir_plan *p = plan_by(m, way);
	bool right = loads(p);

	if (!right)
		diag("%s", weir_error());
	weir_plan_free(p);
	weir_model_close(m);
	return right;
}

/* Two tensors, of 3 MiB together, and some of a few bytes. */
static void three_mib(void)
{
	n_tensors = 0;
	add_tensor("U8", 1, 77);
	add_tensor("U8", 1, 2 * MIB + 5);
	add_tensor("F32", 4, 3);
	add_tensor("U8", 1, MIB - 1000);
}

static struct weir_io_info io_info(void)
{
	struct weir_io_info info = { .size = sizeof(info) };

	if (weir_io_info(root, &info) < 0)
		bail("%s", weir_error());
	return info;
}

static void fewer_slots(void)
{
	three_mib();
	open_root(19 * MIB + 700 * KIB, 0);
	ok(loads_by(WEIR_WAY_DIRECT),
	   "a model of 3 MiB is loaded directly with 19.7 MiB available");
	open_root(19 * MIB + 700 * KIB, 0);
	ok(loads_by(WEIR_WAY_BUFFERED),
	   "a model of 3 MiB is loaded from the page cache with 19.7 MiB available");
	open_root(40 * MIB, 4);
	is_int(io_info().reactors, 2,
	       "there are as many reactors as a quarter of the available memory has slots for");
	has_str(io_info().why, "staging",
		"weir_io_info says that memory for slots is short: %s",
		io_info().why);
}

static void no_slots(void)
{
	three_mib();
	open_root(4 * MIB, 0);
	ok(loads_by(WEIR_WAY_DIRECT),
	   "a model of 3 MiB is loaded directly with 4 MiB available");
	has_str(io_info().why, "0 bytes of staging slots instead of 67108864: ",
		"weir_io_info says that there are no slots: %s", io_info().why);
	ok(loads_by(WEIR_WAY_BUFFERED),
	   "a model of 3 MiB is loaded from the page cache with 4 MiB available");
	is_int(io_info().staging, 0, "an engine without slots has none");
	weir_trim(root, 0);
	ok(loads_by(WEIR_WAY_DIRECT),
	   "an engine without slots is trimmed and loads again");
}

/* Sinks have buffers of their own. */
static void a_sink(void)
{
	static struct seen seen;
	struct weir_model *m;
	struct weir_plan *p;
	struct weir_load *l;

	n_tensors = 0;
	add_tensor("U8", 1, 70 * MIB);
	m = model();
	open_root(20 * MIB, 0);
	weir_model_close(m);
	if (weir_model_open(root, path, NULL, &m) < 0)
		bail("%s", weir_error());
	p = new_plan(m);
	seen_init(&seen, m);
	if (sink(p, NULL, &seen) < 0)
		bail("%s", weir_error());
	is_int(weir_load_start(p, NULL, &l), 0,
	       "a sink of 64 MiB gets a smaller buffer with 20 MiB available: %s",
	       weir_error());
	is_int(weir_load_wait(l, -1), 0,
	       "a sink with a smaller buffer is read");
	ok(seen_right(&seen) && !seen_missing(&seen),
	   "a sink with a smaller buffer gets all bytes");
	weir_load_free(l);
	weir_plan_free(p);
	weir_model_close(m);
}

/* In a child, since the limit stays. */
static int data_child(void)
{
	const struct rlimit limit = { 64 * MIB, RLIM_INFINITY };
	struct weir_buf *buf;

	open_root(UINT64_MAX, 0);
	if (setrlimit(RLIMIT_DATA, &limit) < 0 ||
	    weir_buf_alloc(kind, 80 * MIB, NULL, &buf) != -ENOMEM)
		return 1;
	return !strstr(weir_error(), "; RLIMIT_DATA is 67108864 (ulimit -d), ");
}

static void a_limit_of_data(void)
{
	limited_child(
		data_child,
		"memory that RLIMIT_DATA refuses names it, with both numbers");
}

int main(void)
{
	plans_begin(2 * 12 + 1);
	method = WEIR_IO_AUTO;
	tap_prefix("ring: ");
	fewer_slots();
	no_slots();
	a_sink();
	method = WEIR_IO_SYNC;
	tap_prefix("threads: ");
	fewer_slots();
	no_slots();
	a_sink();
	tap_prefix(NULL);
	a_limit_of_data();
	return plans_end();
}
