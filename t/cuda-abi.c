/* SPDX-License-Identifier: MIT */
/* The CUDA module beside a library of another ABI. */
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "dev/backend.h"
#include "tap.h"

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

static void refuses(weir__module_entry_fn *entry, uint32_t abi, size_t size,
		    const char *what)
{
	struct weir__host host = { .size = size, .abi = abi, .fail = fail };
	char numbers[64];
	int err = 0;

	ok(!entry(&host, &err), "%s is refused", what);
	is_int(err, -EPROTO, "... with EPROTO");
	snprintf(numbers, sizeof(numbers), "made for ABI %u ", WEIR__ABI);
	has_str(said, numbers, "... naming the module's own");
	snprintf(numbers, sizeof(numbers), "has %u and %zu", abi, size);
	has_str(said, numbers, "... and the library's");
}

int main(void)
{
	const char *build = getenv("builddir");
	weir__module_entry_fn *entry = NULL;
	char path[512];
	void *handle;

	snprintf(path, sizeof(path), "%s/lib/cuda/.libs/weir-cuda.so",
		 build ? build : ".");
	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		bail("%s", dlerror());
	*(void **)&entry = dlsym(handle, WEIR__MODULE_ENTRY);
	if (!entry)
		bail("%s", dlerror());
	plan(12);
	refuses(entry, WEIR__ABI - 1, sizeof(struct weir__host),
		"an older library");
	refuses(entry, WEIR__ABI + 1, sizeof(struct weir__host),
		"a newer library");
	refuses(entry, WEIR__ABI, sizeof(struct weir__host) - 8,
		"one that offers less");
	return done_testing();
}
