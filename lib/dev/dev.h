/* SPDX-License-Identifier: MIT */
/*
 * Devices and their kinds of memory, as the registry keeps them, and functions
 * of devices for the layers above.
 */
#ifndef WEIR__DEV_H
#define WEIR__DEV_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "core/root.h"
#include "core/slab.h"
#include <weir/backend.h>
#include "dev/reclaim.h"

#define WEIR__MAX_BUFTS 8u /* a device has each kind of enum weir_mem once */

struct weir_buft {
	struct weir_dev *dev;
	struct weir_backend_buft desc;
	_Atomic uint64_t used;   /* bytes of buffers that were allocated */
	_Atomic uint64_t budget; /* limit of `used`; 0: none */
};

struct weir_dev {
	struct weir *weir;
	const struct weir_backend *backend;
	const char *module; /* path, or NULL: built in */
	unsigned index;     /* the backend's number for it */
	/* Only its node changes. desc.buft is NULL: buft[] has the kinds. */
	struct weir_backend_dev desc;
	struct weir_buft buft[WEIR__MAX_BUFTS];
	pthread_mutex_t lock;  /* guards desc.node, opened, rates and params */
	_Atomic(void *) state; /* the backend's, from dev_open */
	bool opened;
	bool rated; /* rates is set, and does not change any more */
	struct weir_rates rates;
	char params[256];
	struct weir__slab bufs; /* the objects of its buffers: mem/buf.c */
	struct weir__reclaim reclaim;
	struct weir__reclaimed trim; /* mem->trim in weir_close(): registry.c */
};

/* Open the device's state if that has not happened. May block. */
int weir__dev_use(struct weir_dev *dev);
/* weir_dev_memory without the name of the call. */
int weir__dev_memory(struct weir_dev *dev, uint64_t *ret_free,
		     uint64_t *ret_total);
/*
 * The rates of the device, which is open. The first call measures them, which
 * may block for some milliseconds; later calls return the same.
 */
struct weir_rates weir__dev_rates(struct weir_dev *dev);
/* True if all rates are positive and finite. */
bool weir__rates_are_sound(const struct weir_rates *rates);
/* -EIO with a sentence: @what returned @r. */
int weir__dev_no_errno(const struct weir_dev *dev, const char *what, int r);
/* The table of a device that computes; NULL: it does not. */
static inline const struct weir_backend_compute_ops *
weir__dev_compute(const struct weir_dev *dev)
{
	return dev->desc.caps & WEIR_CAP_COMPUTE ? dev->backend->compute : NULL;
}
/*
 * The result of the backend's function @what, as the library passes it on: a
 * number that is neither 0 nor an errno becomes -EIO.
 */
static inline int weir__dev_result(const struct weir_dev *dev, const char *what,
				   int r)
{
	return r <= 0 && r >= -4095 ? r : weir__dev_no_errno(dev, what, r);
}
/*
 * 1: the backend of @dev can copy between memory of @dev and memory of @other;
 * 0: it cannot; < 0 with a sentence: it could, and failed. May block.
 */
int weir__dev_reach(struct weir_dev *dev, struct weir_dev *other);
/*
 * " (the backend's text)" for the code @native, or "". The string is valid
 * until this thread has made two more calls of it.
 */
const char *weir__dev_describe_error(const struct weir_dev *dev,
				     int32_t native);

#endif
