/* SPDX-License-Identifier: MIT */
/*
 * Helpers for tests of the CUDA backend: the driver, and roots that load the
 * module of this build. The driver is the stand-in, which is opened first so
 * that the module finds it under its name; or the machine's own driver if
 * WEIR_T_FAKECUDA is set and empty. A test begins with one of
 *
 *	open_fake()	the test needs the stand-in; on a real device it is
 *			skipped
 *	open_driver()	the test runs on both. On a real device the members of
 *			fake have no effect and count nothing; N checks that
 *			depend on them are written after if (on_fake(N)), which
 *			skips them there
 */
#ifndef T_GPU_H
#define T_GPU_H

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>

#include <weir/cuda.h>

#include "fakecuda/control.h"
#include "streams.h"

void open_fake(void);
void open_driver(void);
/* As open_fake, but without the stand-in for cuBLASLt. */
void open_fake_driver(void);
/* Whether the driver is the stand-in. If not, @n checks are skipped. */
bool on_fake(unsigned n);
/* A function of the stand-in. */
void *fake_symbol(const char *name);
/*
 * Make the primary context of device 0 current for this thread, as a program of
 * its own would, and undo it.
 */
void enter_context(void);
void leave_context(void);

/* The stand-in's controls (fakecuda/control.h). */
extern struct fake_calls {
	void *handle; /* NULL: the driver is not the stand-in */
	void *cublaslt;
	__typeof__(&fakecuda_arm) arm;
	__typeof__(&fakecuda_disarm) disarm;
	__typeof__(&fakecuda_struck) struck;
	__typeof__(&fakecuda_release) release;
	__typeof__(&fakecuda_set) set;
	__typeof__(&fakecuda_calls) calls;
	__typeof__(&fakecuda_counts) counts;
	__typeof__(&fakecuda_misuse) misuse;
	__typeof__(&fakecuda_finding) finding;
} fake;

/*
 * How many objects of the driver are left. Waits for those that a thread of a
 * queue destroys a little later; a test fails if any is left.
 */
unsigned long objects_left(void);
/* Two checks: no object of the driver is left, and no call misused it. */
void all_given_back(const char *when);

/* The log of the last root that was opened here. */
extern char cuda_log[8192];
void keep_log(void *arg, const char *text);
/* The chunk size of roots opened here, with 4 chunks of staging; 0: default. */
extern uint64_t cuda_chunk;
/* A root with the module of this build; @io: its I/O method. */
struct weir *open_cuda_by(uint32_t io);
struct weir *open_cuda(void);

struct weir_dev *gpu(struct weir *weir);
/* Skip the test unless the device computes. */
void need_compute(struct weir_dev *dev);
/*
 * The same for CUDA0 of the stand-in, for tests that fork(2): asked in a
 * process of its own, so that this one has not initialized the driver.
 */
void need_compute_apart(void);
/*
 * The result of @fn in a process of its own, which prints nothing: for what
 * happens once in a process, and for lost devices, on which the driver's
 * objects are leaked. Called before the driver is opened.
 */
bool in_child(bool (*fn)(const char *arg), const char *arg);
struct weir_stream *gpu_stream(struct weir *weir, const char *name,
			       uint32_t flags);
struct weir_buft *gpu_memory(struct weir *weir, enum weir_mem kind);

/* A tensor of @n bytes in a device buffer of its own. */
struct weir_tensor on_gpu(struct weir *weir, size_t n);
/* The same, filled with pattern @seed. */
struct weir_tensor patterned(struct weir *weir, size_t n, unsigned seed);
bool holds_pattern(const struct weir_tensor *t, size_t n, unsigned seed);
/* The first @n bytes of @file are pattern @seed; read into host memory. */
bool file_has(struct weir *weir, struct weir_file *file, size_t n,
	      unsigned seed);

#endif
