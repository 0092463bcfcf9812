/* SPDX-License-Identifier: MIT */
#include "bus.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIECE ((size_t)32 << 20)
#define PIECES 2u
#define PORTABLE 1u     /* CU_MEMHOSTALLOC_PORTABLE */
#define NON_BLOCKING 1u /* CU_STREAM_NON_BLOCKING */

/*
 * Declared as in <cuda.h>, which may be missing: results are ints, 0 is
 * success; handles are pointers, device addresses have 64 bits.
 */
static struct {
	int (*init)(unsigned flags);
	int (*version)(int *ret);
	int (*get)(int *ret_device, int ordinal);
	int (*name)(char *name, int room, int device);
	int (*retain)(void **ret_context, int device);
	int (*current)(void *context);
	int (*device_alloc)(unsigned long long *ret, size_t bytes);
	int (*device_free)(unsigned long long ptr);
	int (*host_alloc)(void **ret, size_t bytes, unsigned flags);
	int (*host_free)(void *ptr);
	int (*stream)(void **ret_stream, unsigned flags);
	int (*stream_destroy)(void *stream);
	int (*copy)(unsigned long long to, const void *from, size_t bytes,
		    void *stream);
	int (*sync)(void *stream);
	int (*words)(int result, const char **ret);
	int (*set)(const char *option, const char *value); /* stand-in's */
} drv;

static void *lib; /* the driver */
static char name[160];

void *bus_function(const char *symbol)
{
	void *p = dlsym(lib, symbol);

	if (!p)
		die("the driver has no %s", symbol);
	return p;
}

static void find(void)
{
	*(void **)&drv.init = bus_function("cuInit");
	*(void **)&drv.version = bus_function("cuDriverGetVersion");
	*(void **)&drv.get = bus_function("cuDeviceGet");
	*(void **)&drv.name = bus_function("cuDeviceGetName");
	*(void **)&drv.retain = bus_function("cuDevicePrimaryCtxRetain");
	*(void **)&drv.current = bus_function("cuCtxSetCurrent");
	*(void **)&drv.device_alloc = bus_function("cuMemAlloc_v2");
	*(void **)&drv.device_free = bus_function("cuMemFree_v2");
	*(void **)&drv.host_alloc = bus_function("cuMemHostAlloc");
	*(void **)&drv.host_free = bus_function("cuMemFreeHost");
	*(void **)&drv.stream = bus_function("cuStreamCreate");
	*(void **)&drv.stream_destroy = bus_function("cuStreamDestroy_v2");
	*(void **)&drv.copy = bus_function("cuMemcpyHtoDAsync_v2");
	*(void **)&drv.sync = bus_function("cuStreamSynchronize");
	*(void **)&drv.words = bus_function("cuGetErrorString");
	*(void **)&drv.set = dlsym(lib, "fakecuda_set");
}

void bus_must(int result, const char *what)
{
	const char *words = NULL;

	if (!result)
		return;
	drv.words(result, &words);
	die("%s: %d: %s", what, result, words ? words : "");
}

void bus_open(const char *device)
{
	void *context;
	int number, version;
	char text[100];

	if (drv.init)
		return;
	if (strncmp(device, "CUDA", 4))
		die("%s: only devices CUDA<n> are measured", device);
	lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!lib)
		die("no CUDA driver: %s", dlerror());
	find();
	bus_must(drv.init(0), "cuInit");
	bus_must(drv.version(&version), "cuDriverGetVersion");
	bus_must(drv.get(&number, atoi(device + 4)), device);
	bus_must(drv.name(text, sizeof(text), number), "cuDeviceGetName");
	bus_must(drv.retain(&context, number), "cuDevicePrimaryCtxRetain");
	bus_must(drv.current(context), "cuCtxSetCurrent");
	snprintf(name, sizeof(name), "%s, CUDA %d.%d%s", text, version / 1000,
		 version % 1000 / 10,
		 drv.set ? " (the stand-in driver: no GPU)" : "");
}

bool bus_is_stand_in(void)
{
	return drv.set;
}

void bus_set(const char *option, const char *value)
{
	if (drv.set && drv.set(option, value))
		die("the stand-in refuses %s=%s", option, value);
}

const char *bus_name(void)
{
	return name;
}

unsigned char *bus_locked(uint64_t bytes)
{
	void *p;

	bus_must(drv.host_alloc(&p, bytes, PORTABLE), "cuMemHostAlloc");
	return p;
}

void bus_unlock(unsigned char *mem)
{
	bus_must(drv.host_free(mem), "cuMemFreeHost");
}

struct raw_result bus_alloc(uint64_t bytes)
{
	struct raw_result res = { .bytes = bytes };
	double cpu = raw_cpu(), begun = raw_now();
	unsigned char *mem = bus_locked(bytes);

	res.seconds = raw_now() - begun;
	res.cpu_seconds = raw_cpu() - cpu;
	bus_unlock(mem);
	return res;
}

/* Two blocks with a stream each: one is copied while the next is queued. */
struct raw_result bus_copy(uint64_t bytes)
{
	struct raw_result res = { .bytes = bytes };
	unsigned char *from = bus_locked(PIECES * PIECE);
	void *stream[PIECES];
	unsigned long long to;
	double cpu, begun;

	memset(from, 1, PIECES * PIECE);
	bus_must(drv.device_alloc(&to, PIECES * PIECE), "cuMemAlloc");
	for (unsigned i = 0; i < PIECES; i++)
		bus_must(drv.stream(&stream[i], NON_BLOCKING),
			 "cuStreamCreate");
	cpu = raw_cpu();
	begun = raw_now();
	for (uint64_t at = 0; at < bytes; at += PIECE) {
		size_t i = at / PIECE % PIECES;
		size_t n = bytes - at < PIECE ? bytes - at : PIECE;

		bus_must(drv.sync(stream[i]), "cuStreamSynchronize");
		bus_must(drv.copy(to + i * PIECE, from + i * PIECE, n,
				  stream[i]),
			 "cuMemcpyHtoDAsync");
	}
	for (unsigned i = 0; i < PIECES; i++)
		bus_must(drv.sync(stream[i]), "cuStreamSynchronize");
	res.seconds = raw_now() - begun;
	res.cpu_seconds = raw_cpu() - cpu;
	for (unsigned i = 0; i < PIECES; i++)
		bus_must(drv.stream_destroy(stream[i]), "cuStreamDestroy");
	bus_must(drv.device_free(to), "cuMemFree");
	bus_unlock(from);
	return res;
}
