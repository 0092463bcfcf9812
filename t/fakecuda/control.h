/* SPDX-License-Identifier: MIT */
/*
 * What a test may ask of the stand-in driver beside the driver's own calls.
 * The names are exported by our libcuda.so.1 only: a test finds them with
 * dlsym, and knows by their absence that it runs on a real driver.
 *
 * All may be called at any time, on any thread, with or without a context.
 */
#ifndef FAKECUDA_CONTROL_H
#define FAKECUDA_CONTROL_H

#include <stddef.h>
#include <stdint.h>

enum fakecuda_mode {
	FAKECUDA_ONCE = 1,     /* that call fails, and does nothing */
	FAKECUDA_FROM_THEN_ON, /* that call and all later ones of the name */
	FAKECUDA_STICKY,       /* that call; then every call of the context */
	/*
	 * What the call queues stays unfinished until fakecuda_release. A call
	 * that queues nothing blocks for as long.
	 */
	FAKECUDA_HANG,
	/*
	 * The call succeeds; what it queued does not happen, and the error
	 * comes out of a later call of the context: of the next one, once, or
	 * for ever if the code is one that a context does not survive.
	 */
	FAKECUDA_LATE,
	/*
	 * The call succeeds; the device is lost after half of the bytes. All
	 * its contexts fail for ever.
	 */
	FAKECUDA_LOST,
};

/*
 * Make the @nth call (from 1) after this one of @fn fail in @mode with
 * CUresult @code. @fn is a base name ("cuMemAlloc"), or "*" for any call that
 * a driver may fail. 0, or -1 if there are too many.
 */
int fakecuda_arm(const char *fn, unsigned nth, int mode, int code);

/* How many calls have been struck so far by what was armed. */
unsigned long fakecuda_struck(void);

/* Forget what is armed. What hangs goes on hanging. */
void fakecuda_disarm(void);

/* Let go on what hangs, and what will. */
void fakecuda_release(void);

/*
 * Set an option: the name of its variable without FAKECUDA_, and the text
 * that the variable would have. 0, or -1 for a name that is unknown or a
 * value that can be given in the environment only.
 */
int fakecuda_set(const char *option, const char *value);

/* How often @fn (NULL: anything) has been called. */
unsigned long fakecuda_calls(const char *fn);

/* Things that are made and must go. */
enum fakecuda_thing {
	FAKECUDA_DEVICE_MEMORY, /* cuMemAlloc */
	FAKECUDA_HOST_MEMORY,   /* cuMemHostAlloc */
	FAKECUDA_REGISTERED,    /* cuMemHostRegister */
	FAKECUDA_STREAM,
	FAKECUDA_EVENT,
	FAKECUDA_CONTEXT,  /* cuCtxCreate */
	FAKECUDA_RETAINED, /* cuDevicePrimaryCtxRetain */
	FAKECUDA_THINGS
};

struct fakecuda_counts {
	unsigned long made[FAKECUDA_THINGS];
	unsigned long live[FAKECUDA_THINGS]; /* neither gone nor lost */
	unsigned long lost[FAKECUDA_THINGS]; /* went with their context */
	uint64_t device_bytes;               /* now */
	uint64_t device_peak;
	uint64_t pinned_bytes; /* host memory, allocated and registered */
	uint64_t to_device;    /* bytes copied by the engines */
	uint64_t to_host;
	uint64_t pageable;    /* of these, from or to memory not page-locked */
	unsigned long queued; /* operations given to streams */
	unsigned long finished; /* done, failed or dropped */
	unsigned long misuse;   /* calls refused for a caller's mistake */
	unsigned long reused;   /* sources that changed before their copy ran */
};

void fakecuda_counts(struct fakecuda_counts *ret);

/* The last misuse in words, "" if there was none. Valid until the next. */
const char *fakecuda_misuse(void);

/* Memory of device @ordinal, without a context. 0, or -1: no such device. */
int fakecuda_memory(int ordinal, size_t *ret_free, size_t *ret_total);

/*
 * Device memory as the calls for virtual memory make it: @n adjoining pieces of
 * @bytes (a multiple of 512) each, of no context. 0: no room. It goes as a
 * whole.
 */
uint64_t fakecuda_map(int ordinal, size_t bytes, unsigned n);
void fakecuda_unmap(uint64_t ptr);

/* Where the driver sees the byte at device pointer @ptr; NULL if nowhere. */
void *fakecuda_at(uint64_t ptr);

#endif
