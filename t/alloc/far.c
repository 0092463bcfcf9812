/* SPDX-License-Identifier: MIT */
/*
 * Memory of kinds HBM and FAR on a machine whose /sys the test has written:
 * reads of text files there go to the test's tree, and mbind(2) is only
 * recorded.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef HAVE_NUMA
#include <numaif.h>
#endif

#include <weir.h>

#include "core/numa.h"
#include "core/sys.h"
#include "kind.h"
#include "nodes.h"
#include "sample.h"
#include "tap.h"

#ifndef HAVE_NUMA
enum {
	MPOL_PREFERRED = 1,
	MPOL_BIND,
	MPOL_INTERLEAVE
};
long mbind(void *addr, unsigned long len, int mode, const unsigned long *mask,
	   unsigned long max, unsigned flags);
#endif

#define MIB ((size_t)1 << 20)
#define OPTS(...)                                                       \
	(&(struct weir_buf_opts){ .size = sizeof(struct weir_buf_opts), \
				  __VA_ARGS__ })

/* The last call of mbind(2), and the errno of the next; 0: it succeeds. */
static struct {
	char nodes[WEIR__NODES_TEXT];
	size_t len;
	int mode;
	unsigned calls;
} bound;
static int bind_errno;

int64_t __real_weir__sys_text(const char *path, char *buf, size_t room);
int64_t __wrap_weir__sys_text(const char *path, char *buf, size_t room);
int64_t __wrap_weir__sys_text(const char *path, char *buf, size_t room)
{
	char full[600];

	if (strncmp(path, "/sys/devices/system/node", 24) &&
	    strcmp(path, "/proc/self/status"))
		return __real_weir__sys_text(path, buf, room);
	snprintf(full, sizeof(full), "%s%s", nodes_root, path);
	return __real_weir__sys_text(full, buf, room);
}

long mbind(void *addr, unsigned long len, int mode, const unsigned long *mask,
	   unsigned long max, unsigned flags)
{
	struct weir__nodes nodes = { { 0 } };

	(void)addr;
	/* The kernel uses one bit less than @max. */
	for (unsigned n = 0; n + 1 < max; n++)
		if (mask[n / WEIR__NODE_BITS] >> n % WEIR__NODE_BITS & 1)
			weir__nodes_add(&nodes, n);
	weir__nodes_text(&nodes, bound.nodes);
	bound.len = len;
	bound.mode = flags ? -1 : mode;
	bound.calls++;
	errno = bind_errno;
	return bind_errno ? -1 : 0;
}

static bool is_bound(int mode, const char *nodes)
{
	return bound.mode == mode && !strcmp(bound.nodes, nodes);
}

static struct weir *weir;
static struct weir_buft *hbm, *far;

static void open_root(const char *cpu, uint64_t keep)
{
	struct weir_opts opts = WEIR_OPTS_INIT;
	struct weir_dev *dev;

	opts.keep = keep;
	if (weir_open(&opts, &weir) < 0 ||
	    weir_dev_configure(weir, cpu, &dev) < 0)
		bail("%s", weir_error());
	hbm = kind_of(weir, "CPU", WEIR_MEM_HBM);
	far = kind_of(weir, "CPU", WEIR_MEM_FAR);
}

static struct weir_buf *take(struct weir_buft *buft, size_t bytes,
			     const struct weir_buf_opts *opts,
			     struct weir_buf_info *ret_info)
{
	struct weir_buf *buf;

	*ret_info = (struct weir_buf_info){ .size = sizeof(*ret_info) };
	if (weir_buf_alloc(buft, bytes, opts, &buf) < 0 ||
	    weir_buf_info(buf, ret_info) < 0)
		bail("%s", weir_error());
	return buf;
}

static void kinds(void)
{
	struct weir_buft_info info = { .size = sizeof(info) };

	weir_buft_info(hbm, &info);
	ok(!strcmp(info.name, "CPU_HBM") && info.kind == WEIR_MEM_HBM &&
		   info.flags == WEIR_BUFT_HOST && info.align == 64 &&
		   info.max == SIZE_MAX,
	   "a CPU with high-bandwidth nodes has memory CPU_HBM");
	weir_buft_info(far, &info);
	ok(!strcmp(info.name, "CPU_Far") && info.kind == WEIR_MEM_FAR &&
		   info.flags == WEIR_BUFT_HOST,
	   "a CPU with far nodes has memory CPU_Far");
}

static void sizes(void)
{
	struct weir_buft *plain = kind_of(weir, "CPU", WEIR_MEM_PLAIN);
	uint64_t avail = 0, total = 0, cpu_free, cpu_total;

	is_int(weir_buft_memory(hbm, &avail, &total), 0,
	       "HBM reports its memory");
	ok(avail == 96 * MIB && total == 128 * MIB,
	   "the memory of HBM is the sum of its nodes: %llu of %llu",
	   (unsigned long long)avail, (unsigned long long)total);
	is_int(weir_buft_memory(far, &avail, &total), 0,
	       "far memory reports its memory");
	ok(avail == 48 * MIB && total == 64 * MIB,
	   "the memory of FAR is that of its node: %llu of %llu",
	   (unsigned long long)avail, (unsigned long long)total);
	is_int(weir_buft_memory(plain, &avail, &total), 0,
	       "plain memory reports its memory");
	weir_dev_memory(weir_dev_get(weir, 0), &cpu_free, &cpu_total);
	ok(total == cpu_total && avail && avail <= total,
	   "the memory of other kinds is that of the CPU");
}

static void policy(void)
{
	struct weir_buf_info info;
	struct weir_buf *buf = take(hbm, 4 * MIB, NULL, &info);

	ok(is_bound(MPOL_INTERLEAVE, "nodes 2-3") && bound.len == 4 * MIB,
	   "HBM is interleaved over all nodes of the kind: %s", bound.nodes);
	ok(info.node == -1 && !info.why[0],
	   "a buffer on several nodes reports no node and no reason: %s",
	   info.why);
	weir_buf_free(buf);
	buf = take(far, 4 * MIB, NULL, &info);
	ok(is_bound(MPOL_PREFERRED, "node 4"),
	   "far memory prefers its node: %s", bound.nodes);
	is_int(info.node, 4, "a buffer of far memory reports its node");
	weir_buf_free(buf);
	buf = take(hbm, 4 * MIB, OPTS(.flags = WEIR_BUF_STRICT), &info);
	ok(is_bound(MPOL_BIND, "nodes 2-3"),
	   "strict HBM is bound to its nodes: %s", bound.nodes);
	weir_buf_free(buf);
	buf = take(hbm, 4 * MIB, OPTS(.flags = WEIR_BUF_ON_NODE, .node = 1),
		   &info);
	ok(is_bound(MPOL_PREFERRED, "node 3") && info.node == 3,
	   "HBM for a node is that nearest to it: %s", bound.nodes);
	weir_buf_free(buf);
	is_err(weir_buf_alloc(hbm, MIB,
			      OPTS(.flags = WEIR_BUF_ON_NODE, .node = 9), &buf),
	       -EINVAL, "there is no NUMA node 9",
	       "HBM for a node that does not exist is refused");
	buf = take(far, 0, NULL, &info);
	ok(true, "a buffer of far memory may be empty");
	weir_buf_free(buf);
}

static void near_node(void)
{
	struct weir_buf_info info;
	uint64_t avail, total;
	struct weir_buf *buf;

	weir_close(weir);
	open_root("CPU:node=0", 0);
	buf = take(hbm, MIB, NULL, &info);
	ok(is_bound(MPOL_PREFERRED, "node 2"),
	   "HBM of a CPU that is bound to a node is the nearest: %s",
	   bound.nodes);
	weir_buft_memory(hbm, &avail, &total);
	is_int(total, 64 * MIB,
	       "the memory of HBM of such a CPU is that of the nearest node");
	weir_buf_free(buf);
	weir_close(weir);
	open_root("CPU", 0);
}

static void full(void)
{
	const struct weir_buf_opts *strict = OPTS(.flags = WEIR_BUF_STRICT);
	struct weir_buf_info info;
	struct weir_buf *first, *second;

	is_err(weir_buf_alloc(far, 64 * MIB, strict, &first), -ENOMEM,
	       "67108864 bytes are needed, 50331648 are available on NUMA node 4",
	       "strict far memory that exceeds its node is refused");
	first = take(far, 64 * MIB, NULL, &info);
	has_str(info.why, "50331648 are available on NUMA node 4",
		"other far memory that exceeds its node says so: %s", info.why);
	weir_buf_free(first);
	first = take(far, 32 * MIB, strict, &info);
	is_err(weir_buf_alloc(far, 20 * MIB, strict, &second), -ENOMEM,
	       "20971520 bytes are needed, 16777216 are available",
	       "bytes that other buffers will touch on a node count as used");
	weir_buf_free(first);
	first = take(far, 48 * MIB, strict, &info);
	ok(true, "kept memory of a node does not count as used");
	weir_buf_free(first);
	is_err(weir_buf_alloc(far, 64 * MIB, strict, &first), -ENOMEM,
	       "50331648 are available",
	       "far memory that exceeds its node is refused beside kept memory");
	bound.calls = 0;
	weir_buf_free(take(far, 48 * MIB, strict, &info));
	is_int(bound.calls, 1,
	       "kept memory of a node is unmapped before more is refused");
}

static void kept(void)
{
	struct weir_buf_info info;
	struct weir_buf *buf;

	weir_trim(weir, 0);
	weir_buf_free(take(hbm, 8 * MIB, NULL, &info));
	bound.calls = 0;
	buf = take(hbm, 8 * MIB, NULL, &info);
	is_int(bound.calls, 0, "kept HBM is used again for HBM");
	weir_buf_free(buf);
	buf = take(far, 8 * MIB, NULL, &info);
	is_int(bound.calls, 1, "kept HBM is not used for far memory");
	weir_buf_free(buf);
	buf = take(kind_of(weir, "CPU", WEIR_MEM_HUGE), 8 * MIB, NULL, &info);
	ok(bound.calls == 1 && info.node == -1,
	   "kept HBM is not used for memory of any node");
	weir_buf_free(buf);
}

static void refused(void)
{
	struct weir_buf_info info;
	struct weir_buf *buf;

	weir_trim(weir, 0);
	bind_errno = EPERM;
	buf = take(hbm, MIB, NULL, &info);
	has_str(info.why, "NUMA nodes 2-3: Operation not permitted",
		"HBM that cannot be bound is other memory, with the reason");
	weir_buf_free(buf);
	is_err(weir_buf_alloc(hbm, MIB, OPTS(.flags = WEIR_BUF_STRICT), &buf),
	       -EPERM,
	       "1048576 bytes on NUMA nodes 2-3: Operation not permitted",
	       "strict HBM that cannot be bound is refused");
	bind_errno = 0;
}

static void load(void)
{
	static const struct sample_tensor tensor = { "a", "F32", MIB / 4, 4 };
	struct weir_estimate e = { .size = sizeof(e) };
	char path[] = "/tmp/weir-far-XXXXXX";
	struct weir_weights *weights;
	struct weir_model *model;
	struct weir_plan *plan;
	struct weir_load *load;

	close(mkstemp(path));
	sample_write(path, &tensor, 1, 0, 1);
	if (weir_model_open(weir, path, NULL, &model) < 0 ||
	    weir_plan_new(model, &plan) < 0 ||
	    weir_plan_add(plan, NULL, far, NULL) < 0)
		bail("%s", weir_error());
	is_int(weir_plan_estimate(plan, &e, 1), 1,
	       "a plan for far memory is estimated");
	ok(e.fits && e.free == 48 * MIB,
	   "an estimate compares far memory with that of its node");
	nodes_memory(4, 0, 0, 64);
	e.size = sizeof(e);
	weir_plan_estimate(plan, &e, 1);
	ok(!e.fits && e.free == 0,
	   "a plan does not fit if the far node has no room");
	nodes_memory(4, 40, 8, 64);
	bound.nodes[0] = '\0';
	if (weir_load_start(plan, NULL, &load) < 0 ||
	    weir_load_wait(load, -1) < 0 ||
	    weir_load_weights(load, &weights) < 0)
		bail("%s", weir_error());
	ok(sample_wrong(weights, 1) == 0 && is_bound(MPOL_PREFERRED, "node 4"),
	   "a model is loaded into far memory");
	weir_weights_free(weights);
	weir_load_free(load);
	weir_plan_free(plan);
	weir_model_close(model);
	unlink(path);
}

static void missing(void)
{
	struct weir_buft *buft;
	struct weir_buf *buf;

	nodes_put("/sys/devices/system/node/has_memory", "0-1\n");
	is_err(weir_buf_alloc(hbm, MIB, NULL, &buf), -EOPNOTSUPP,
	       "no NUMA node that this process may use has memory of kind HBM",
	       "HBM that has been taken away is refused");
	weir_close(weir);
	if (weir_open(NULL, &weir) < 0)
		bail("%s", weir_error());
	is_err(weir_dev_buft(weir_dev_get(weir, 0), WEIR_MEM_HBM, &buft),
	       -EOPNOTSUPP, "CPU has no memory of kind HBM: no NUMA node",
	       "a machine without high-bandwidth nodes has no HBM");
	is_err(weir_dev_buft(weir_dev_get(weir, 0), WEIR_MEM_FAR, &buft),
	       -EOPNOTSUPP, "CPU has no memory of kind FAR: every NUMA node",
	       "a machine without far nodes has no far memory");
	weir_close(weir);
}

int main(void)
{
#ifndef HAVE_NUMA
	skip_all("built without libnuma");
#endif
	plan(0);
	nodes_begin();
	nodes_usual();
	open_root("CPU", 0);
	kinds();
	sizes();
	policy();
	near_node();
	full();
	kept();
	refused();
	load();
	missing();
	nodes_end();
	return done_testing();
}
