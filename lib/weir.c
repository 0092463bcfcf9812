/* SPDX-License-Identifier: MIT */
/*
 * weir_open(), which makes the first parts of a root, and the table of
 * functions that the library offers its backends. Only this file includes all
 * layers that they come from.
 */
#include <weir.h>
#include <weir/backend.h>

#include "alloc/addresses.h"
#include "alloc/arena.h"
#include "alloc/host.h"
#include "core/cgroup.h"
#include "core/error.h"
#include "core/root.h"
#include "core/sys.h"
#include "cpu/cpu.h"
#include "dev/dev.h"
#include "dev/registry.h"
#include "mem/convert.h"
#include "mem/dtype.h"
#include "races/races.h"

static struct weir *dev_root(struct weir_dev *dev)
{
	return dev->weir;
}

static void *dev_state(struct weir_dev *dev)
{
	return atomic_load_explicit(&dev->state, memory_order_acquire);
}

static const char *dev_name(struct weir_dev *dev)
{
	return dev->desc.name;
}

/* dev->lock is held: dev_open was called under it. */
static void dev_set_node(struct weir_dev *dev, int32_t node)
{
	dev->desc.node = node;
}

static int thread_start(pthread_t *ret_thread, const char *name,
			void *(*fn)(void *), void *arg)
{
	int r = weir__thread_start(ret_thread, name, fn, arg);
	char limits[WEIR__LIMITS_TEXT];

	if (r >= 0)
		return r;
	weir__thread_limits(limits);
	return weir__fail(r, "cannot start thread '%s': %s%s", name,
			  weir__errno_describe(-r), limits);
}

static unsigned cpus(void)
{
	return weir__cgroup_cpus("");
}

static int futex_wait(void *word, uint32_t val, int64_t deadline)
{
	return weir__futex_wait(word, val, deadline);
}

static void futex_wake(void *word, int n)
{
	weir__futex_wake(word, n);
}

static const struct weir_backend_host host = {
	.size = sizeof(struct weir_backend_host),
	.abi = WEIR_BACKEND_ABI,
	.fail = weir__fail,
	.fail_sys = weir__fail_sys,
	.log = weir__log,
	.debug = weir__debug_has,
	.calloc = weir__calloc,
	.free = weir__free,
	.text = weir__sys_text,
	.dlopen = weir__sys_dlopen,
	.thread = thread_start,
	.futex_wait = futex_wait,
	.futex_wake = futex_wake,
	.dev_describe = weir__registry_describe,
	.dev_add = weir__registry_beside,
	.dev_root = dev_root,
	.dev_state = dev_state,
	.dev_name = dev_name,
	.dev_set_node = dev_set_node,
	.host_alloc = weir__host_alloc,
	.host_free = weir__arena_give,
	.host_leak = weir__arena_leak,
	.host_hide = weir__arena_hide,
	.host_available = weir__host_available,
	.host_reserve = weir__arena_reserve,
	.host_unreserve = weir__arena_unreserve,
	.host_nodes = weir__host_nodes,
	.convert_find = weir__convert_find,
	.dtype = weir__dtype,
	.cpus = cpus,
	.dtype_grid = weir__dtype_grid,
	.host_park = weir__arena_park,
	.host_unpark = weir__arena_unpark,
	.host_reserve_addresses = weir__host_reserve,
	.host_commit = weir__addresses_commit,
	.host_decommit = weir__addresses_decommit,
};

const char *weir_version_string(void)
{
	return PACKAGE_VERSION;
}

unsigned weir_version(void)
{
	return WEIR_VERSION;
}

int weir_open(const struct weir_opts *opts, struct weir **ret_weir)
{
	struct weir__part *registry;
	struct weir *weir;
	int r;

	WEIR__ENTER();
	r = weir__root_new(opts, &weir);
	if (r < 0)
		return r;
	if (weir__debug_has(weir, "races"))
		r = weir__races_start(weir);
	if (r >= 0)
		r = weir__root_part(weir, WEIR__PART_DEV, weir__registry_new,
				    &registry);
	if (r >= 0) {
		weir__registry(weir)->host = &host;
		r = weir__registry_enter(weir, weir__cpu_entry, NULL);
	}
	if (r < 0) {
		weir__root_put(weir);
		return r;
	}
	*ret_weir = weir;
	return 0;
}
