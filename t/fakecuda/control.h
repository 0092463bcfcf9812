/* SPDX-License-Identifier: MIT */
/*
 * The interface of the stand-in driver for tests, beside the driver's own
 * calls. Only the stand-in's libcuda.so.1 exports these names: a test finds
 * them with dlsym, and if they are missing it runs on a real driver.
 *
 * All may be called at any time, on any thread, with or without a context.
 */
#ifndef FAKECUDA_CONTROL_H
#define FAKECUDA_CONTROL_H

#include <stddef.h>
#include <stdint.h>

enum fakecuda_mode {
	FAKECUDA_ONCE = 1,     /* the call fails and has no effect; cuMemRelease
			      has it, and returns an error of earlier work */
	FAKECUDA_FROM_THEN_ON, /* the call and all later ones of that name */
	FAKECUDA_STICKY,       /* the call, then every call of the context */
	/*
	 * The work that the call queues is not done until fakecuda_release. A
	 * call that queues nothing blocks until then.
	 */
	FAKECUDA_HANG,
	/*
	 * The call succeeds, but the work that it queued has no effect. The
	 * next call of the context returns the error; or all of them do, if the
	 * code is one that ends a context.
	 */
	FAKECUDA_LATE,
	/*
	 * The call succeeds; the device is lost after half of the bytes. All
	 * calls of its contexts fail from then on.
	 */
	FAKECUDA_LOST,
	/* The call blocks until fakecuda_release, and then does its work. */
	FAKECUDA_STALL,
};

/*
 * Make the @nth call (from 1) after this one of @fn fail in @mode with
 * CUresult @code. @fn is a base name ("cuMemAlloc"), or "*" for any call that
 * a driver may fail. 0, or -1 if too many are armed.
 */
int fakecuda_arm(const char *fn, unsigned nth, int mode, int code);

/* How many calls the armed failures have struck so far. */
unsigned long fakecuda_struck(void);

/* Disarm all failures. Operations that hang keep hanging. */
void fakecuda_disarm(void);

/* Release operations and calls that hang, and those that would hang later. */
void fakecuda_release(void);

/*
 * Set an option: the name of its variable without FAKECUDA_, and the text
 * that the variable would have. 0, or -1 for a name that is unknown or a
 * value that can be given in the environment only.
 */
int fakecuda_set(const char *option, const char *value);

/* How often @fn (NULL: any function) has been called. */
unsigned long fakecuda_calls(const char *fn);

/* Objects that a program creates and must free. */
enum fakecuda_thing {
	FAKECUDA_DEVICE_MEMORY, /* cuMemAlloc, cuMemCreate */
	FAKECUDA_HOST_MEMORY,   /* cuMemHostAlloc */
	FAKECUDA_REGISTERED,    /* cuMemHostRegister */
	FAKECUDA_STREAM,
	FAKECUDA_EVENT,
	FAKECUDA_CONTEXT,    /* cuCtxCreate */
	FAKECUDA_RETAINED,   /* cuDevicePrimaryCtxRetain */
	FAKECUDA_ADDRESSES,  /* cuMemAddressReserve */
	FAKECUDA_MODULE,     /* cuModuleLoadData */
	FAKECUDA_LIBRARY,    /* cuLibraryLoadData */
	FAKECUDA_GRAPH,      /* cuGraphCreate */
	FAKECUDA_GRAPH_EXEC, /* cuGraphInstantiate */
	FAKECUDA_THINGS
};

struct fakecuda_counts {
	unsigned long made[FAKECUDA_THINGS];
	unsigned long live[FAKECUDA_THINGS]; /* neither freed nor lost */
	unsigned long lost[FAKECUDA_THINGS]; /* destroyed with their context */
	uint64_t device_bytes;               /* now */
	uint64_t device_peak;
	uint64_t pinned_bytes; /* host memory, allocated and registered */
	uint64_t to_device;    /* bytes copied by the engines */
	uint64_t to_host;
	uint64_t pageable;      /* bytes of these from or to pageable memory */
	unsigned long queued;   /* operations that streams took */
	unsigned long finished; /* done, failed or dropped */
	unsigned long misuse;   /* calls refused for a caller's mistake */
	unsigned long reused;   /* sources that changed before their copy ran */
	unsigned long findings; /* of the checker in kernels */
};

void fakecuda_counts(struct fakecuda_counts *ret);

/* The last misuse in words, "" if there was none. Valid until the next. */
const char *fakecuda_misuse(void);

/*
 * The last finding in a kernel, or why the last module was refused; "" if there
 * was none. Valid until the next.
 */
const char *fakecuda_finding(void);

/* What the launches of all kernels of one name did so far. */
struct fakecuda_kernel {
	uint64_t launches, blocks;
	uint64_t instructions;      /* of warps */
	uint64_t lane_instructions; /* of lanes that took part */
	/* Global memory: requests of a warp, and sectors of 32 bytes. */
	uint64_t load_requests, load_sectors, load_bytes;
	uint64_t store_requests, store_sectors, store_bytes;
	/* Shared memory: passes over the banks beyond the fewest. */
	uint64_t shared_requests, bank_conflicts;
	uint64_t barriers;
	uint64_t watched_sectors; /* of loads from bytes that were watched */
};

/* 0, or -1 if no kernel @name was launched. */
int fakecuda_kernel(const char *name, struct fakecuda_kernel *ret);

/* The name of the kernel number @i of those that were launched, or NULL. */
const char *fakecuda_kernel_name(unsigned i);

/* Watch @bytes of device memory at @ptr, in launches that run from now on. */
void fakecuda_watch(uint64_t ptr, size_t bytes);

/* Memory of GPU number @gpu, without a context. 0, or -1: it is no device. */
int fakecuda_memory(unsigned gpu, size_t *ret_free, size_t *ret_total);

/*
 * Device memory as the calls for virtual memory make it: @n adjoining
 * allocations of @bytes (a multiple of 512) each, without a context. 0: no
 * room. fakecuda_unmap frees all of them.
 */
uint64_t fakecuda_map(int ordinal, size_t bytes, unsigned n);
void fakecuda_unmap(uint64_t ptr);

/* The driver's mapping of the byte at device pointer @ptr, or NULL. */
void *fakecuda_at(uint64_t ptr);

/*
 * For stand-ins of libraries above the driver. A call is counted, and can be
 * armed, by its name @fn, a constant; returns a CUresult. It needs a context.
 */
int fakecuda_library_call(const char *fn);
/* Count a mistake of the caller. */
void fakecuda_library_wrong(const char *fn, const char *what);
/* The option CUBLASLT. */
unsigned fakecuda_library_version(void);

#define FAKECUDA_LIBRARY_ROWS 1024u

/* Rows of device memory that a work reads or writes. */
struct fakecuda_rows {
	uint64_t ptr;
	size_t width, n, pitch; /* bytes of a row; rows; bytes between them */
	int written;
};

/* The work; @at: the driver's mapping of each rows. */
typedef void fakecuda_library_fn(void *arg, char *const *at);

/*
 * A call that queues @work on @stream, where it accesses @rows, at most
 * FAKECUDA_LIBRARY_ROWS. @arg is from malloc(3), and is freed in any case.
 */
int fakecuda_library_queue(const char *fn, void *stream,
			   const struct fakecuda_rows *rows, unsigned n,
			   fakecuda_library_fn *work, void *arg);

#endif
