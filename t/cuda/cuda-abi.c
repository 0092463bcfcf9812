/* SPDX-License-Identifier: MIT */
/* The CUDA module beside an older or a newer library. */
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/backend.h>
#include "tap.h"

/* The part of the host table that the module needs. */
#define LEAST WEIR_BACKEND_END_OF(struct weir_backend_host, host_hide)

static char said[256];

__attribute__((format(printf, 2, 3))) static int fail(int err, const char *fmt,
						      ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(said, sizeof(said), fmt, ap);
	va_end(ap);
	return err;
}

/* A machine without a driver. */
static int no_driver(const char *path, void **ret_handle)
{
	(void)path;
	*ret_handle = dlopen("/nonexistent/libcuda.so.1", RTLD_NOW);
	return -ENOENT;
}

/* The host table of a newer library: with members that the module lacks. */
struct newer_host {
	struct weir_backend_host host;
	void *unknown[4];
};

static int enter(weir_backend_entry_fn *entry, uint32_t abi, size_t size)
{
	static struct newer_host newer;
	int err = 0;

	memset(&newer, 0xff, sizeof(newer));
	newer.host = (struct weir_backend_host){
		.size = size, .abi = abi, .fail = fail, .dlopen = no_driver
	};
	if (entry(&newer.host, &err))
		bail("there is no driver");
	return err;
}

static void refuses(weir_backend_entry_fn *entry, uint32_t abi, size_t size,
		    const char *what)
{
	char numbers[64];

	is_int(enter(entry, abi, size), -EPROTO, "%s is refused with EPROTO",
	       what);
	snprintf(numbers, sizeof(numbers),
		 "made for ABI %u and a host of %zu bytes", WEIR_BACKEND_ABI,
		 LEAST);
	has_str(said, numbers, "the error for %s has what the module needs",
		what);
	snprintf(numbers, sizeof(numbers), "has %u and %zu", abi, size);
	has_str(said, numbers, "the error for %s has what the library offers",
		what);
}

static void accepts(weir_backend_entry_fn *entry, size_t size, const char *what)
{
	is_int(enter(entry, WEIR_BACKEND_ABI, size), -ENODEV,
	       "with %s the module goes on and looks for a driver", what);
}

int main(void)
{
	const char *build = getenv("builddir");
	weir_backend_entry_fn *entry = NULL;
	char path[512];
	void *handle;

	snprintf(path, sizeof(path), "%s/lib/cuda/.libs/weir-cuda.so",
		 build ? build : ".");
	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		bail("%s", dlerror());
	*(void **)&entry = dlsym(handle, WEIR_BACKEND_ENTRY);
	if (!entry)
		bail("%s", dlerror());
	plan(3 * 3 + 3);
	refuses(entry, WEIR_BACKEND_ABI - 1, sizeof(struct weir_backend_host),
		"an older ABI");
	refuses(entry, WEIR_BACKEND_ABI + 1, sizeof(struct weir_backend_host),
		"a newer ABI");
	refuses(entry, WEIR_BACKEND_ABI, LEAST - 8,
		"a host table that is too short");
	accepts(entry, LEAST, "a host table that ends after what it needs");
	accepts(entry, sizeof(struct weir_backend_host),
		"the host table it knows");
	accepts(entry, sizeof(struct newer_host), "a longer host table");
	return done_testing();
}
