/* SPDX-License-Identifier: MIT */
#include "read_gpu.h"

#include <stdio.h>
#include <stdlib.h>

#include "bus.h"
#include "raw.h"

#define THREADS 512u
#define SMS 16u         /* CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT */
#define NON_BLOCKING 1u /* CU_STREAM_NON_BLOCKING */
#define MOST_PARTS 64u

__asm__(".pushsection .rodata\n"
	"bench_read_ptx:\n"
	".incbin \"" READ_PTX "\"\n"
	".byte 0\n"
	".popsection\n");
extern const char bench_read_ptx[];

/* Declared as in <cuda.h>, which may be missing: bus.c. */
static struct {
	int (*get)(int *ret_device, int ordinal);
	int (*attribute)(int *ret, int what, int device);
	int (*device_alloc)(unsigned long long *ret, size_t bytes);
	int (*device_free)(unsigned long long ptr);
	int (*copy)(unsigned long long to, const void *from, size_t n);
	int (*load)(void **ret_module, const void *image);
	int (*unload)(void *module);
	int (*function)(void **ret, void *module, const char *name);
	int (*launch)(void *function, unsigned gx, unsigned gy, unsigned gz,
		      unsigned bx, unsigned by, unsigned bz, unsigned shared,
		      void *stream, void **params, void **extra);
	int (*stream)(void **ret_stream, unsigned flags);
	int (*stream_destroy)(void *stream);
	int (*sync)(void *stream);
} drv;

static struct {
	unsigned long long part[MOST_PARTS], out;
	unsigned parts, next;
	unsigned long long units; /* of 16 bytes, in a part */
	void *module, *kernel, *stream;
	unsigned sms, blocks; /* blocks for each SM */
	char grid[64];
} r;

static void find(void)
{
	static const struct {
		const char *name;
		void *to;
	} entries[] = {
		{ "cuDeviceGet", &drv.get },
		{ "cuDeviceGetAttribute", &drv.attribute },
		{ "cuMemAlloc_v2", &drv.device_alloc },
		{ "cuMemFree_v2", &drv.device_free },
		{ "cuMemcpyHtoD_v2", &drv.copy },
		{ "cuModuleLoadData", &drv.load },
		{ "cuModuleUnload", &drv.unload },
		{ "cuModuleGetFunction", &drv.function },
		{ "cuLaunchKernel", &drv.launch },
		{ "cuStreamCreate", &drv.stream },
		{ "cuStreamDestroy_v2", &drv.stream_destroy },
		{ "cuStreamSynchronize", &drv.sync },
	};

	for (size_t i = 0; i < sizeof(entries) / sizeof(*entries); i++)
		*(void **)entries[i].to = bus_function(entries[i].name);
}

static double read_parts(unsigned n, unsigned blocks)
{
	double begun = raw_now();

	for (unsigned i = 0; i < n; i++) {
		void *params[] = { &r.part[r.next], &r.units, &r.out };

		bus_must(drv.launch(r.kernel, r.sms * blocks, 1, 1, THREADS, 1,
				    1, 0, r.stream, params, NULL),
			 "cuLaunchKernel");
		r.next = (r.next + 1) % r.parts;
	}
	bus_must(drv.sync(r.stream), "cuStreamSynchronize");
	return raw_now() - begun;
}

/* The fastest of several grids. */
static void choose(void)
{
	static const unsigned all[] = { 1, 2, 4, 8, 16 };
	double best = 0;

	read_parts(r.parts, 4);
	for (unsigned i = 0; i < sizeof(all) / sizeof(*all); i++) {
		double s = read_parts(4 * r.parts, all[i]);

		if (i && s >= best)
			continue;
		best = s;
		r.blocks = all[i];
	}
	snprintf(r.grid, sizeof(r.grid), "%u blocks of %u threads for each SM",
		 r.blocks, THREADS);
}

void read_gpu_open(const char *device, size_t bytes, unsigned parts,
		   const void *noise, size_t noise_bytes)
{
	int dev, sms;

	bus_open(device);
	find();
	bus_must(drv.get(&dev, atoi(device + 4)), device);
	bus_must(drv.attribute(&sms, SMS, dev), "cuDeviceGetAttribute");
	r.sms = (unsigned)sms;
	if (bus_is_stand_in())
		r.sms = 2;
	r.units = bytes / 16;
	r.parts = parts < MOST_PARTS ? parts : MOST_PARTS;
	r.next = 0;
	bus_must(drv.stream(&r.stream, NON_BLOCKING), "cuStreamCreate");
	bus_must(drv.load(&r.module, bench_read_ptx), "cuModuleLoadData");
	bus_must(drv.function(&r.kernel, r.module, "bench_read"),
		 "cuModuleGetFunction");
	bus_must(drv.device_alloc(&r.out, 16), "cuMemAlloc");
	for (unsigned i = 0; i < r.parts; i++) {
		bus_must(drv.device_alloc(&r.part[i], bytes), "cuMemAlloc");
		for (size_t at = 0, n; at < bytes; at += n) {
			n = bytes - at < noise_bytes ? bytes - at : noise_bytes;
			bus_must(drv.copy(r.part[i] + at, noise, n),
				 "cuMemcpyHtoD");
		}
	}
	choose();
}

double read_gpu(unsigned n)
{
	return read_parts(n, r.blocks);
}

const char *read_gpu_grid(void)
{
	return r.grid;
}

void read_gpu_close(void)
{
	for (unsigned i = 0; i < r.parts; i++)
		bus_must(drv.device_free(r.part[i]), "cuMemFree");
	bus_must(drv.device_free(r.out), "cuMemFree");
	bus_must(drv.unload(r.module), "cuModuleUnload");
	bus_must(drv.stream_destroy(r.stream), "cuStreamDestroy");
}
