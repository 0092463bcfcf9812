/* SPDX-License-Identifier: MIT */
/*
 * The CUDA backend: GPUs, their memory and queues, on the driver's own
 * interface. README.md has the states.
 */
#ifndef WEIR__CUDA_H
#define WEIR__CUDA_H

#include <pthread.h>
#include <stdatomic.h>

#include "cuda/driver.h"
#include "dev/backend.h"

#define WEIR__CUDA_ALIGN ((size_t)256)

/* A device's state, from its first use on. */
struct weir__cuda {
	const struct weir__host *host;
	struct weir_dev *dev;
	CUdevice device;
	CUcontext context; /* the primary one, retained */
	int32_t node;      /* NUMA node nearest to it, -1: not known */
	bool reads_only;   /* memory can be registered for reading only */
	bool batches;      /* copies in a batch may be asked for */
	size_t max_pitch;  /* of copies of rows */
	_Atomic int lost;  /* the CUresult by which it was, or 0 */
	_Atomic uint64_t reached; /* devices, by ordinal, asked for access to */
	_Atomic unsigned refused; /* contexts in a row that could not be had */
	/*
	 * How often the driver gave an error that may be of earlier work: what
	 * was out then fails with it.
	 */
	_Atomic unsigned doubts;
	pthread_mutex_t lock; /* guards what follows: one move at a time */
	CUstream blocking;    /* for moves that block; made at first use */
	unsigned moving;      /* doubts when the move began */
};

/* What the library offers: the same functions in every root. */
extern struct weir__host weir__cuda_host;

/* cuda.c */
struct weir__cuda *weir__cuda_of(struct weir_dev *dev);
/*
 * context.c. Make the device's context current, and the caller's again. Every
 * call of the driver that needs one stands between the two. -ENODEV: the
 * device is lost, and the driver is not asked.
 */
int weir__cuda_enter(struct weir__cuda *c);
void weir__cuda_leave(void);
/*
 * Between the two the thread's mode of stream capture is relaxed: else calls
 * that capture forbids fail, and break the capture of whoever is capturing. So
 * it is between these, around what needs no context.
 */
void weir__cuda_relax(void);
void weir__cuda_restore(void);
/* The same without a sentence: what the driver says, or said of its loss. */
CUresult weir__cuda_push(struct weir__cuda *c);
/*
 * What a call of the driver's gave, also one whose failure does not matter: it
 * may say that nothing works any more, or that earlier work has failed.
 */
void weir__cuda_note(struct weir__cuda *c, CUresult result);
/* Has it said the latter since there were @before doubts? */
bool weir__cuda_doubted(struct weir__cuda *c, unsigned before);
/* From now on it is lost, by @result, whatever that is. */
void weir__cuda_lose(struct weir__cuda *c, CUresult result);
/* Is it lost because the driver has ended, as it does before the program? */
bool weir__cuda_ended(struct weir__cuda *c);
/* @result as an errno, of this device. */
int weir__cuda_result(struct weir__cuda *c, CUresult result);
/* @what, which named the call and its sizes, gave @result: errno, sentence. */
int weir__cuda_fail(struct weir__cuda *c, CUresult result, const char *what,
		    ...) __attribute__((format(printf, 3, 4)));

/* memory.c */
extern const struct weir__mem_ops weir__cuda_mem_ops;
/*
 * What memory the driver takes @ptr for; 0: it does not know it. A context is
 * current.
 */
CUresult weir__cuda_ask(struct weir__cuda *c, const void *ptr,
			CUmemorytype *ret_type);
/* Is it page-locked host memory? No, if the driver cannot be asked. */
bool weir__cuda_is_pinned(struct weir__cuda *c, const void *ptr);
/* peer.c: between devices; a context is current for those of CUresult. */
int weir__cuda_reach(struct weir_dev *dev, struct weir_dev *other);
CUresult weir__cuda_copy_peer(struct weir__cuda *dst_dev, void *dst,
			      struct weir__cuda *src_dev, const void *src,
			      size_t n, CUstream stream);
/* queue.c */
extern const struct weir__queue_ops weir__cuda_queue_ops;
/* A queue around @stream, which stays the caller's. */
int weir__cuda_queue_wrap(struct weir_dev *dev, void *stream, void **ret_queue);
int weir__cuda_queue_native(void *queue, void **ret_stream);
/*
 * nvml.c. Of the GPU at @pci; makes no context. -ENODATA with a sentence: the
 * library that knows is not there.
 */
int weir__cuda_nvml_memory(const char *pci, uint64_t *ret_free,
			   uint64_t *ret_total);

#endif
