/* SPDX-License-Identifier: MIT */
/*
 * Internal declarations. README.md says what the stand-in imitates.
 *
 * One lock, fc.lock, guards everything. Each entry point takes it in
 * fc_enter and drops it in fc_leave; workers hold it except while they move
 * bytes, sleep or run a host function. fc.moved is signalled when anything
 * completes, is released, or fails.
 */
#ifndef FAKECUDA_H
#define FAKECUDA_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * All versions of all entry points are declared, and everything declared in
 * this block is exported.
 */
#define __CUDA_API_VERSION_INTERNAL
#pragma GCC visibility push(default)
#include <cuda.h>
#include "control.h"
#pragma GCC visibility pop

#define FC_DEVICES_MAX 8
#define FC_ARMS_MAX 16
#define FC_DEPTH_MAX 32
#define FC_TEXT 256u /* bytes of an option that is text */
/* Bit of a device address of registered memory that differs from the host's. */
#define FC_ALIAS ((uintptr_t)1 << 47)

struct fc_op;
struct fc_channel;

/* options.c: each is the variable FAKECUDA_<NAME>. */
struct fc_options {
	unsigned devices;
	unsigned version;
	unsigned channels; /* 0: as many as streams */
	uint64_t mem;      /* bytes of a device */
	uint64_t span;     /* bytes of addresses of a device, at least */
	uint64_t pinned;   /* bytes of host memory that may be page-locked */
	uint64_t pitch;    /* the largest pitch of a copy of rows */
	double rate;       /* bytes a second; 0: as fast as memcpy */
	double latency;    /* microseconds before each copy */
	double jitter;     /* microseconds at most before each operation */
	unsigned seed;     /* seed of the jitter */
	double call;       /* microseconds that each call takes on the host */
	bool dry;          /* copies take their time, but move no bytes */
	bool check;        /* sources are summed when queued and when copied */
	int node;          /* NUMA node of the devices */
	int sms;           /* multiprocessors of each device */
	bool kernelcheck;  /* races and unwritten bytes of kernels */
	bool strict;       /* a program with a mistake exits with 99 */
	bool rough;        /* kernels compute with the errors of a GPU */
	unsigned order;    /* seed of the order of warps and blocks */
	unsigned cublaslt; /* version of its stand-in; 0: it has none */
	uint64_t kernellimit; /* instructions of a launch; 0: no limit */
	/* The GPUs that are devices, in this order. */
	unsigned gpu[FC_DEVICES_MAX];
	unsigned capability; /* of the GPUs; 90: sm_90 */
	char no[FC_TEXT];    /* words, separated by commas */
	char jit[FC_TEXT];   /* what the compiler of PTX says; "": nothing */
};

/* Takes the time of copies; one for each direction of each device. */
struct fc_engine {
	pthread_mutex_t busy; /* one copy at a time; taken without fc.lock */
	uint64_t free_at;     /* when its last reservation ends, in ns */
};

enum fc_direction {
	FC_TO_DEVICE,
	FC_TO_HOST,
	FC_TO_PEER,
	FC_DIRECTIONS
};

struct fc_device {
	int ordinal;
	char *base;   /* the program's addresses, which nobody can access */
	char *shadow; /* the same bytes, for the driver */
	unsigned char *written; /* a bit for each byte */
	size_t span;   /* address space of both; many times the memory */
	size_t cursor; /* where the search for room begins */
	int fd;
	uint64_t used;
	CUresult lost;
	struct CUctx_st *primary;
	unsigned retained;
	struct fc_engine engine[FC_DIRECTIONS];
};

enum fc_kind {
	FC_CONTEXT = 0x77656972,
	FC_STREAM,
	FC_EVENT,
	FC_MODULE,
	FC_FUNCTION,
	FC_KERNEL,
	FC_LIBRARY,
	FC_GRAPH,
	FC_NODE,
	FC_EXEC,
};

/*
 * What a handle points to. Handles are never used again, so that a stale
 * handle is recognised.
 */
struct fc_handle {
	enum fc_kind kind;
	bool live;
	struct CUctx_st *ctx;
};

struct CUctx_st {
	struct fc_handle handle;
	struct fc_device *device;
	bool primary;
	unsigned flags;
	CUresult error;              /* returned by every call */
	CUresult late;               /* returned by the next call, once */
	struct CUstream_st *streams; /* also destroyed ones with work left */
	struct CUstream_st *legacy;  /* stream 0 */
	struct CUstream_st *thread;  /* CU_STREAM_PER_THREAD, of all threads */
	unsigned peers; /* bits of the devices that it can access */
};

struct CUstream_st {
	struct fc_handle handle;
	struct CUstream_st *next;
	struct fc_channel *channel;
	uint64_t id;
	uint64_t queued; /* number of the last operation */
	uint64_t done;
	uint64_t time; /* engine time at the end of the last operation */
	unsigned flags;
	int priority;
	CUstreamCaptureStatus capture;
	CUstreamCaptureMode capture_mode;
	const void *capturer; /* the thread that began the capture */
};

/*
 * A point in a stream. Created by a record; referenced by the event, by the
 * operation that completes it and by operations that wait for it.
 */
struct fc_mark {
	unsigned refs;
	bool done;
	bool captured; /* into a graph: it never completes */
	uint64_t time;
	struct CUctx_st *ctx;
};

struct CUevent_st {
	struct fc_handle handle;
	unsigned flags;
	struct fc_mark *mark; /* mark of the last record, NULL before the
				 first */
};

/* Memory that the driver knows. */
enum fc_memory {
	FC_UNKNOWN,
	FC_DEVICE,
	FC_HOST,
	FC_REGISTERED,
	/* Addresses that are reserved, with no memory or no access. */
	FC_RESERVED
};

struct fc_range {
	uintptr_t start, end;
	enum fc_memory memory;
	struct CUctx_st *ctx;
	struct fc_device *device;
	unsigned flags;
	uint64_t id;
	bool piece;                 /* one of several adjoining allocations */
	struct fc_physical *mapped; /* by cuMemMap; or NULL */
	bool readonly;              /* mapped for reading only */
	bool code;                  /* the variables of a module */
};

/* An armed failure that has reached its call. There is none if mode is 0. */
struct fc_fault {
	int mode;
	CUresult code;
};

/* A call of fc_enter in the source. */
struct fc_site {
	const char *name; /* the base name */
	unsigned need;
	unsigned long calls;
	struct fc_site *next;
	bool linked;
};

#define FC_FREE 0u    /* needs nothing, cannot be armed */
#define FC_INIT 1u    /* needs cuInit */
#define FC_CTX 2u     /* needs a current context */
#define FC_QUEUE 4u   /* queues an operation, which a fault may strike */
#define FC_BARE 8u    /* works before cuInit, can be armed */
#define FC_UNSAFE 16u /* forbidden while a stream is captured */
#define FC_DONE 32u   /* has its effect also if it fails, see cuMemRelease */

struct fc_call {
	struct fc_site *site;
	struct CUctx_st *ctx; /* context of the thread */
	struct fc_fault fault;
	char note[120]; /* arguments for the log, or the misuse */
};

struct fc_state {
	pthread_mutex_t lock;
	pthread_cond_t moved;
	struct fc_options opt;
	struct fc_device device[FC_DEVICES_MAX];
	struct fakecuda_counts count;
	struct fc_site *sites;
	bool inited, gone;
	bool released;     /* operations that are armed to hang do not */
	unsigned writers;  /* operations that may yet change host memory */
	unsigned captures; /* streams that are being captured */
	pid_t pid;
	char misuse[256];
	char finding[400]; /* the last one of a kernel or a module */
	uint64_t watch_start, watch_end; /* fakecuda_watch() */
};

extern struct fc_state fc;

/* True if this thread runs a host function. */
extern _Thread_local bool fc_host_fn;

/* driver.c */
CUresult fc_enter(struct fc_call *call, struct fc_site *site);
CUresult fc_leave(struct fc_call *call, CUresult result);
CUresult fc_wrong(struct fc_call *call, CUresult result, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void fc_note(struct fc_call *call, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Begin an entry point. fc.lock is held from here to fc_leave. */
#define FC_ENTER(base, needs)                                            \
	static struct fc_site fc_site = { .name = base, .need = needs }; \
	struct fc_call call;                                             \
	CUresult fc_entered = fc_enter(&call, &fc_site);                 \
	if (fc_entered != CUDA_SUCCESS)                                  \
	return fc_entered

/* options.c */
void fc_options_read(void);
bool fc_no(const char *word);

/* faults.c */
struct fc_fault fc_strike(const struct fc_site *site);
void fc_arms_read(const char *text);
bool fc_sticky(CUresult code);

/* report.c */
void fc_log(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
bool fc_logging(void);
void fc_report_open(const char *log, const char *report);
void fc_report(void);
void fc_made(enum fakecuda_thing thing);
void fc_went(enum fakecuda_thing thing);
void fc_went_with_context(enum fakecuda_thing thing);

/* handle.c */
void *fc_handle_new(enum fc_kind kind, struct CUctx_st *ctx);
bool fc_handle_ok(const void *handle, enum fc_kind kind);
void *fc_handle_next(const void *after, enum fc_kind kind);

/* device.c */
int fc_devices_start(void);
struct fc_device *fc_device_of(const void *ptr);

/* context.c */
struct CUctx_st *fc_current(void);
void fc_context_fail(struct CUctx_st *ctx, CUresult code);
void fc_device_lose(struct fc_device *dev, CUresult code);
CUresult fc_context_error(struct CUctx_st *ctx);

/* memory.c */
struct fc_range *fc_range_of(const void *ptr);
struct fc_range *fc_range_add(const struct fc_range *range);
void fc_range_remove(struct fc_range *range);
bool fc_range_overlaps(uintptr_t start, uintptr_t end);
/* The end of @range and of the allocations that adjoin it. */
uintptr_t fc_range_end(const struct fc_range *range);
/* Find room for @size bytes in the address space of @dev; 0: none. */
uintptr_t fc_room(struct fc_device *dev, size_t size);
/* Give fresh memory bytes that are not 0. */
void fc_poison(struct fc_device *dev, uintptr_t at, size_t size);
/* Drop the bytes of memory, so that they are gone. */
void fc_punch(struct fc_device *dev, uintptr_t at, size_t size);
void *fc_shadow(struct fc_device *dev, const void *ptr);
/* Bytes at @shadow, the driver's address, are written now. */
void fc_written(const void *shadow, size_t bytes);
/* True if all of them were, or if they are memory that is not tracked. */
bool fc_is_written(const void *shadow, size_t bytes);
struct ptx_range;
/* What kernels of @ctx may access, to be freed; the number. */
size_t fc_ranges_of(struct CUctx_st *ctx, struct ptx_range **ret);
void fc_memory_drop(struct CUctx_st *ctx);
void fc_device_memory_free(struct fc_range *range);

/* report.c */
struct ptx_kernel;
struct ptx_counts;
void fc_kernel_counted(struct ptx_kernel *kernel,
		       const struct ptx_counts *counts);

/* host.c */
void fc_host_memory_free(struct fc_range *range);

/* stream.c */
struct CUstream_st *fc_stream_get(struct fc_call *call, CUstream stream);
struct CUstream_st *fc_stream_new(struct CUctx_st *ctx, unsigned flags,
				  int priority);
void fc_stream_close(struct CUstream_st *stream);
void fc_stream_settle(struct CUstream_st *stream);
void fc_stream_wait(struct CUstream_st *stream, uint64_t number);
void fc_streams_wait(struct CUctx_st *ctx);

/* queue.c */
struct fc_channel *fc_channel_get(void);
void fc_channel_put(struct fc_channel *channel);
void fc_queue(struct fc_call *call, struct CUstream_st *stream,
	      struct fc_op *op);

/* event.c */
struct fc_mark *fc_mark_new(struct CUctx_st *ctx);
void fc_mark_put(struct fc_mark *mark);

/*
 * capture.c. The result of a call that captures may forbid; a forbidden call
 * also invalidates them. fc_capture_admit: any call that is unsafe during a
 * capture. fc_capture_ask: a query of @stream or a wait for its end.
 */
CUresult fc_capture_admit(void);
CUresult fc_capture_ask(struct CUstream_st *stream);

/* engine.c */
uint64_t fc_now(void);
void fc_sleep_until(uint64_t when);

#endif
