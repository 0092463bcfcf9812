/* SPDX-License-Identifier: MIT */
/*
 * NVIDIA's cuBLASLt: products of many columns. The library is opened when a
 * plan first has such a product, and then stays; each device has a handle.
 * Without it tiles compute them (operation_tiles.c).
 */
#ifndef WEIR__CUDA_CUBLASLT_H
#define WEIR__CUDA_CUBLASLT_H

#include <pthread.h>
#include <stdbool.h>

#include "cuda/cublaslt_api.h"
#include "cuda/driver.h"

struct weir__cuda;
struct weir__cublaslt_api;

/* The library, as a device uses it. */
struct weir__cublaslt {
	bool off;             /* by a parameter; constant */
	pthread_mutex_t lock; /* guards what follows, until handle is set */
	bool tried;           /* there is a handle, or never will be */
	void *handle;         /* constant from then on; NULL: there is none */
	const struct weir__cublaslt_api *api;
	char name[40]; /* "cuBLASLt 13.0.2" */
	char why[200]; /* why there is no handle */
};

/*
 * Products of one shape: d[n, m] = sum over k of a[m, k] * b[n, k], rows of k
 * elements, and of m. Strides are in elements, alignments in bytes. d is F32.
 */
struct weir__cublaslt_shape {
	int type; /* of a and b: enum weir__cublaslt_type */
	int64_t m, n, k, batches;
	int64_t row_a, row_b, row_d;       /* from one row to the next */
	int64_t batch_a, batch_b, batch_d; /* from one batch to the next */
	uint32_t align_a, align_b, align_d;
};

/* A shape with its descriptors, and the algorithm that was chosen for it. */
struct weir__cublaslt_product {
	struct weir__cublaslt_product *next; /* of the segment */
	struct weir__cublaslt_shape shape;
	const struct weir__cublaslt *library;
	void *desc, *a, *b, *d;
	struct weir__cublaslt_heuristic chosen;
};

/* The addresses of a product. */
struct weir__cublaslt_call {
	const struct weir__cublaslt_product *product;
	uint64_t a, b, d;
	uint64_t b_at;      /* b is in the workspace; 0: it is at b */
	uint64_t workspace; /* of the algorithm: where it begins */
	bool adds;          /* to what is in d */
};

/*
 * True if the device uses the library. @may: or may use it later, which opens
 * nothing; otherwise it is opened, which takes up to a second, and @why of
 * @room bytes says why not. Any thread; no context is needed.
 */
bool weir__cublaslt_use(struct weir__cuda *c, bool may, char *why, size_t room);
/* The most bytes of workspace of an algorithm. */
size_t weir__cublaslt_room(const struct weir__cuda *c);
/*
 * Choose an algorithm for @shape. NULL: there is none, or no memory; @why says
 * which. The device uses the library. Any thread; may block.
 */
struct weir__cublaslt_product *
weir__cublaslt_product_new(struct weir__cuda *c,
			   const struct weir__cublaslt_shape *shape, char *why,
			   size_t room);
/* Does not call the driver. */
void weir__cublaslt_product_free(struct weir__cublaslt_product *p);
/*
 * Queue a product; its context is current. Returns the driver's error, if the
 * stream has one. If only the library failed, *@ret_res is set, to what its
 * status means. Both are described in @why. Any thread; the first time it may
 * block, while the library loads kernels.
 */
CUresult weir__cublaslt_launch(struct weir__cuda *c,
			       const struct weir__cublaslt_call *call,
			       uint64_t workspace, CUstream stream,
			       int *ret_res, char *why, size_t room);
/* Free the handle, while the device is not lost; a context is current. */
void weir__cublaslt_close(struct weir__cublaslt *l);

#endif
