/* SPDX-License-Identifier: MIT */
/*
 * The CUDA backend: GPUs, their memory and queues, on the driver API. README.md
 * has the states.
 */
#ifndef WEIR__CUDA_H
#define WEIR__CUDA_H

#include <pthread.h>
#include <stdatomic.h>

#include "cuda/cublaslt.h"
#include "cuda/driver.h"
#include "cuda/image.h"
#include <weir/backend.h>

#define WEIR__CUDA_ALIGN ((size_t)256)

#define WEIR__CUDA_MOVERS 2u

/* A stream for the blocking moves of one thread at a time. */
struct weir__cuda_mover {
	struct weir__cuda *c;
	pthread_mutex_t lock;   /* held by a move; guards what follows */
	CUstream stream;        /* made by the first move */
	unsigned errors_before; /* c->unknown_errors when the move began */
};

/* A device's state, made at its first use. */
struct weir__cuda {
	const struct weir_backend_host *host;
	struct weir_dev *dev;
	CUdevice device;
	CUcontext context; /* the primary one, retained */
	int32_t node;      /* NUMA node nearest to it, -1: not known */
	bool locks_files;  /* pages of mapped files are locked */
	bool reads_only;   /* memory can be registered for reading only */
	bool batches;      /* cuMemcpyBatchAsync may be used */
	bool exports;      /* its memory can have file descriptors */
	bool graphs;       /* runs may be CUDA graphs */
	bool fuses;        /* one launch may have several nodes */
	size_t max_pitch;  /* the most in copies of rows */
	size_t memory;     /* bytes that the GPU has */
	unsigned sms;      /* multiprocessors */
	unsigned parts;    /* devices that the GPU is shown as; at least 1 */
	_Atomic int lost;  /* the CUresult that lost it, or 0 */
	_Atomic uint64_t
		reached; /* bits of the devices whose access was asked for */
	_Atomic unsigned
		refused; /* pushes of the context that failed in a row */
	/*
	 * How often the driver has returned CUDA_ERROR_UNKNOWN, which may be
	 * the error of earlier work. Work that was submitted then fails with
	 * it.
	 */
	_Atomic unsigned unknown_errors;
	/*
	 * Bounce buffers that no helper uses: freeing one would wait for all
	 * work of the context. Each begins with a pointer to the next.
	 */
	pthread_mutex_t bounce_lock; /* guards bounces; taken last */
	void *bounces;
	/* While the move of one thread runs, that of another is queued. */
	struct weir__cuda_mover mover[WEIR__CUDA_MOVERS];
	_Atomic unsigned moves;          /* that have found no mover unused */
	struct weir__cuda_loaded loaded; /* the kernels */
	struct weir__cublaslt cublaslt;
	struct weir__cuda_pieces
		*pieces;                /* rates.c: are being freed; or NULL */
	pthread_mutex_t found_lock;     /* guards found; taken last */
	struct weir__cuda_found *found; /* found.c: those no run uses */
	struct weir__cuda_found_slab *found_slabs;
};

/* The library's functions: a copy of its host table, for all roots. */
extern struct weir_backend_host weir__cuda_host;

/* cuda.c */
struct weir__cuda *weir__cuda_of(struct weir_dev *dev);
/* Free the bounce buffers that no helper uses. */
void weir__cuda_trim(struct weir_dev *dev);
/* "0000:3b:00.0", as sysfs has it; "" if it is not known. */
void weir__cuda_pci(CUdevice device, char *pci, size_t room);
/*
 * Its UUID, or that of the MIG device, as text of 36 letters; "" if it is not
 * known: before CUDA 11.4 a MIG device has that of its GPU.
 */
void weir__cuda_uuid(CUdevice device, char uuid[40]);
/*
 * context.c. Make the device's context current, and then the caller's again.
 * Every driver call that needs a context is made between the two. -ENODEV: the
 * device is lost, and the driver is not called.
 */
int weir__cuda_enter(struct weir__cuda *c);
void weir__cuda_leave(void);
/*
 * Between the two the thread's mode of stream capture is relaxed: otherwise
 * calls that a capture forbids fail, and break a capture by another thread of
 * the program. weir__cuda_enter and _leave include these; they are used alone
 * around driver calls that need no context.
 */
void weir__cuda_relax(void);
void weir__cuda_restore(void);
/*
 * weir__cuda_enter without a sentence: the driver's result, or the one by which
 * the device was lost.
 */
CUresult weir__cuda_push(struct weir__cuda *c);
/*
 * Take note of a driver call's result, also if that call's failure does not
 * matter: it may mean that the device is lost, or that earlier work failed.
 */
void weir__cuda_note(struct weir__cuda *c, CUresult result);
/* True if earlier work may have failed since c->unknown_errors was @before. */
bool weir__cuda_unknown_error_since(struct weir__cuda *c, unsigned before);
/* Mark the device as lost by @result. */
void weir__cuda_lose(struct weir__cuda *c, CUresult result);
/*
 * True if the device is lost because the driver has shut down, as it does at
 * exit.
 */
bool weir__cuda_ended(struct weir__cuda *c);
/* The errno of a driver's result for this device. */
int weir__cuda_result(struct weir__cuda *c, CUresult result);
/*
 * Returns the errno of @result, with a sentence about it. @what is the driver's
 * call that returned it, with its sizes.
 */
int weir__cuda_fail(struct weir__cuda *c, CUresult result, const char *what,
		    ...) __attribute__((format(printf, 3, 4)));

/* memory.c */
extern const struct weir_backend_mem_ops weir__cuda_mem_ops;
/*
 * Check that @bytes at @ptr are allocated memory of the device. -EINVAL with a
 * sentence.
 */
int weir__cuda_check_pointer(struct weir_dev *dev, uint64_t ptr, size_t bytes);
/* True if the driver says that @ptr is page-locked host memory. */
bool weir__cuda_is_pinned(struct weir__cuda *c, const void *ptr);
/* copy.c: copies between devices. A context is current for the second. */
int weir__cuda_reach(struct weir_dev *dev, struct weir_dev *other);
CUresult weir__cuda_copy_peer(struct weir__cuda *dst_dev, void *dst,
			      struct weir__cuda *src_dev, const void *src,
			      size_t n, CUstream stream);
/* compute.c */
extern const struct weir_backend_compute_ops weir__cuda_compute_ops;
/* rates.c */
int weir__cuda_rates(struct weir_dev *dev, struct weir_rates *ret_rates);
/* Wait until the memory of a measurement is freed. */
void weir__cuda_rates_close(struct weir__cuda *c);
/* queue.c */
extern const struct weir_backend_queue_ops weir__cuda_queue_ops;
/* A queue around @stream, which the caller still owns. */
int weir__cuda_queue_wrap(struct weir_dev *dev, void *stream, void **ret_queue);
int weir__cuda_queue_native(void *queue, void **ret_stream);
/*
 * nvml.c. Memory of the GPU, or of the MIG device; makes no context. -ENODATA
 * with a sentence: libnvidia-ml.so.1 is not there, or does not know it.
 */
int weir__cuda_nvml_memory(CUdevice device, uint64_t *ret_free,
			   uint64_t *ret_total);

#endif
