/* SPDX-License-Identifier: MIT */
/*
 * The interface of a backend: the tables of functions by which the library
 * reaches the devices of one kind. Modules, and programs that contain a
 * backend, include it; <weir.h> does not. weir-backend(7) is its page.
 *
 * A module is a shared object that exports one symbol, weir_module_entry, and
 * is not linked with libweir: struct weir_backend_host has the functions of
 * the library that it may call. Its version is WEIR_BACKEND_ABI, not that of
 * the public calls.
 *
 * Compatibility: each table and each description begins with its size and gets
 * new members only at its end, all of them optional. The library treats
 * members that an older module lacks as NULL or 0, and ignores members of a
 * newer one that it does not know. A module may use a member of the host table
 * that was added later only if WEIR_BACKEND_HAS says that it is there. struct
 * weir_backend_work and struct weir_backend_mem are allocated by the library
 * and grow at their ends too. struct weir_backend_copy is passed in arrays and
 * never grows. Any other change gets a new WEIR_BACKEND_ABI, and modules of
 * another ABI are refused.
 *
 * Atomic members: several threads access a member whose comment says "atomic".
 * Its type is a plain one, so that the header is the same in C and C++: access
 * it by the __atomic builtins of gcc and clang, or by std::atomic_ref of
 * C++20.
 */
#ifndef WEIR_BACKEND_H
#define WEIR_BACKEND_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/dev.h>
#include <weir/mem.h>
#include <weir/ops.h>

#define WEIR_BACKEND_ABI 4u

/* Bytes of @type up to the end of @member. */
#define WEIR_BACKEND_END_OF(type, member) \
	(offsetof(type, member) + sizeof(((type *)NULL)->member))
/* True if the struct at @table, which begins with its size, has @member. */
#define WEIR_BACKEND_HAS(table, member)                                   \
	((table)->size >= (size_t)((const char *)(&(table)->member + 1) - \
				   (const char *)(table)))

WEIR__BEGIN

struct weir_backend;
struct weir_backend_buft;
struct weir_backend_convert;
struct weir_backend_dev;
struct weir_backend_mem;
struct weir_backend_probe;
struct weir_backend_work;
struct weir_threads;

/*
 * The library's functions for backends: one constant table for all roots. Any
 * thread may call these functions. None takes a lock of the library unless its
 * comment says so.
 */
struct weir_backend_host {
	size_t size;
	uint32_t abi;
	uint32_t reserved;
	/* Set the error sentence of this thread. Returns @err. */
	int (*fail)(int err, const char *fmt, ...) WEIR_PRINTF(2, 3);
	/* The same with ": strerror(-err)" at its end. */
	int (*fail_sys)(int err, const char *fmt, ...) WEIR_PRINTF(2, 3);
	/* Pass a line to the log function of the root. */
	void (*log)(struct weir *weir, const char *fmt, ...) WEIR_PRINTF(2, 3);
	/* True if @word is in WEIR_DEBUG. */
	bool (*debug)(const struct weir *weir, const char *word);

	/*
	 * Allocate memory that is all 0. NULL: there is none, or n * size is
	 * too large.
	 */
	void *(*calloc)(size_t n, size_t size);
	void (*free)(void *p);
	/*
	 * Read a small file, such as one of /sys, as a string: at most @room -
	 * 1 bytes and a 0. Returns its length, or < 0 without a sentence.
	 */
	int64_t (*text)(const char *path, char *buf, size_t room);
	/*
	 * Call dlopen(3) with RTLD_NOW | RTLD_LOCAL. -ENOEXEC: dlerror(3) says
	 * why it failed.
	 */
	int (*dlopen)(const char *path, void **ret_handle);
	/*
	 * Start a thread that blocks all signals and may run on all CPUs of
	 * the process. @name has at most 15 bytes. < 0 with a sentence, which
	 * has the limits of the process.
	 */
	int (*thread)(pthread_t *ret_thread, const char *name,
		      void *(*fn)(void *), void *arg);
	/*
	 * futex_wait sleeps while the atomic uint32_t at @word is @val, until
	 * @deadline (ns of CLOCK_MONOTONIC, INT64_MAX: no limit). It returns 0
	 * or -ETIMEDOUT, and may return without a reason. futex_wake wakes at
	 * most @n threads that sleep on @word.
	 */
	int (*futex_wait)(void *word, uint32_t val, int64_t deadline);
	void (*futex_wake)(void *word, int n);

	/*
	 * Describe the next device; devices are numbered from 0. Only probe
	 * may call it.
	 * @desc is copied. < 0 with a sentence: the backend is refused, and
	 * probe returns that result.
	 */
	int (*dev_describe)(struct weir_backend_probe *probe,
			    const struct weir_backend_dev *desc);
	/*
	 * Add device number @i (for dev_open) to the root and the backend of
	 * @beside: for devices that parameters create. dev_open of @beside may
	 * call it. Takes the lock of the root.
	 */
	int (*dev_add)(struct weir_dev *beside,
		       const struct weir_backend_dev *desc, unsigned i);
	/* The root of a device, its state (NULL: not open) and its name. */
	struct weir *(*dev_root)(struct weir_dev *dev);
	void *(*dev_state)(struct weir_dev *dev);
	const char *(*dev_name)(struct weir_dev *dev);
	/*
	 * Set the NUMA node that parameters chose. Only dev_open may call it.
	 */
	void (*dev_set_node)(struct weir_dev *dev, int32_t node);

	/*
	 * Allocate host memory in mappings of its own, which are kept when
	 * they are freed and used again. @kind: WEIR_MEM_PLAIN, HUGE, LOCKED,
	 * HBM or FAR; @node: a NUMA node, -1: any (for HBM and FAR: the nodes
	 * nearest to it, -1: all); @flags: WEIR_BUF_STRICT, HUGETLB,
	 * HUGETLB_1G and SHARED, and WEIR_BUF_PREFAULT to back all of it with
	 * pages. Fills in @mem, which then does not move. May block; takes the
	 * lock of arenas, as host_free and host_leak do. -ENOMEM and others
	 * with a sentence.
	 */
	int (*host_alloc)(struct weir *weir, enum weir_mem kind, size_t bytes,
			  int32_t node, uint32_t flags,
			  struct weir_backend_mem *mem);
	void (*host_free)(struct weir *weir, struct weir_backend_mem *mem);
	/*
	 * Called instead of host_free if a device may still write to the
	 * pages: they stay mapped for ever. The library forgets @mem.
	 */
	void (*host_leak)(struct weir *weir, struct weir_backend_mem *mem);
	/*
	 * Hide the pages from the children of later forks, or show them again,
	 * as they are after host_alloc. Memory that a device may write to must
	 * be hidden. One call at a time for one @mem; takes no lock.
	 */
	void (*host_hide)(struct weir_backend_mem *mem, bool hidden);
	/*
	 * Get the bytes of host memory that this process can still allocate,
	 * and all bytes, both within its limits. Reads /proc. -ENODATA.
	 */
	int (*host_available)(uint64_t *ret_free, uint64_t *ret_total);
	/*
	 * The same for a kind of host memory that only some NUMA nodes have,
	 * WEIR_MEM_HBM or FAR; @node: -1 for all of these nodes, or a node for
	 * those nearest to it. Reads /sys. -EOPNOTSUPP: there is none.
	 */
	int (*host_nodes)(enum weir_mem kind, int32_t node, uint64_t *ret_free,
			  uint64_t *ret_total);
	/*
	 * Count host memory that the backend does not take from host_alloc
	 * towards the root's budget: before it is allocated, and until it is
	 * freed. Take the lock of arenas. -ENOMEM with a sentence.
	 */
	int (*host_reserve)(struct weir *weir, size_t bytes);
	void (*host_unreserve)(struct weir *weir, size_t bytes);

	/*
	 * Find the conversion between two enum weir_dtype: to F32, F16 or BF16
	 * from one of these, from F64, an F8 or a quantised dtype of GGML.
	 * NULL: there is none, or both dtypes are the same.
	 */
	const struct weir_backend_convert *(*convert_find)(uint32_t from,
							   uint32_t to);
	/* As weir_dtype_info; NULL: not a dtype. Constant. */
	const struct weir_dtype_info *(*dtype)(uint32_t dtype);
	/*
	 * The number of CPUs that this process may use. Reads /proc and /sys.
	 */
	unsigned (*cpus)(void);
	/*
	 * The points of the grid of an IQ1, IQ2 or IQ3 dtype of GGML. A point
	 * has the numbers of the values of its elements, the first in the
	 * lowest bits: 2 bits for each of 8 elements, for IQ3 3 bits for each
	 * of 4. NULL: another dtype. Constant.
	 */
	const uint16_t *(*dtype_grid)(uint32_t dtype);

	/*
	 * Release the pages of memory of host_alloc that is neither shared nor
	 * in reserved pages; its addresses stay reserved, and cannot be
	 * accessed. Back them again, with undefined contents. host_free
	 * accepts released memory.
	 * May block; take the lock of arenas. -ENOMEM and others with a
	 * sentence: the memory is as before.
	 */
	int (*host_park)(struct weir *weir, struct weir_backend_mem *mem);
	int (*host_unpark)(struct weir *weir, struct weir_backend_mem *mem);

	/*
	 * Reserve host addresses without memory, as mem->reserve does; @kind,
	 * @node and @flags as of host_alloc. host_free frees them, and what is
	 * committed. Commit memory, or give it back, as mem->commit and
	 * mem->decommit do. May block; take the lock of arenas.
	 */
	int (*host_reserve_addresses)(struct weir *weir, enum weir_mem kind,
				      size_t bytes, int32_t node,
				      uint32_t flags,
				      struct weir_backend_mem *mem,
				      size_t *ret_granule);
	int (*host_commit)(struct weir *weir, struct weir_backend_mem *mem,
			   size_t off, size_t bytes);
	int (*host_decommit)(struct weir *weir, struct weir_backend_mem *mem,
			     size_t off, size_t bytes);
};

/*
 * A conversion of elements, or of the blocks of a quantised dtype. The struct
 * is constant and never grows. run converts @n units, which may be 0, on any
 * thread. Neither address need be aligned; source and destination may not
 * overlap. It writes n * dst_bytes bytes, does not block, and neither depends
 * on the thread's floating-point environment nor changes it.
 */
struct weir_backend_convert {
	void (*run)(void *dst, const void *src, size_t n);
	uint32_t block;                /* elements of a unit */
	uint32_t src_bytes, dst_bytes; /* bytes of a unit */
	uint32_t from, to;             /* enum weir_dtype */
};

/* A kind of memory of a device. */
struct weir_backend_buft {
	size_t size;
	char name[40];  /* unique in the root */
	uint32_t kind;  /* enum weir_mem; a device has each at most once */
	uint32_t flags; /* WEIR_BUFT_* */
	size_t align;   /* power of two */
	size_t max;     /* > 0 */
};

/* A backend's description of a device. dev_describe and dev_add check it. */
struct weir_backend_dev {
	size_t size;
	char name[32]; /* "CUDA0": [A-Za-z0-9_-]+, not empty; unique */
	char description[128];
	char pci[16];
	uint32_t type;    /* enum weir_dev_type */
	uint32_t caps;    /* WEIR_CAP_*; COMPUTE needs the compute table */
	int32_t node;     /* NUMA node nearest to it, -1: not known */
	uint32_t n_bufts; /* at least 1 */
	/* Its kinds of memory, the default first. */
	const struct weir_backend_buft *const *buft;
	/*
	 * The UUID of the device, or of the part of one that it is: the same in
	 * all processes, whichever devices they have. "": not known.
	 */
	char uuid[40];
	/* Why it does not have WEIR_CAP_COMPUTE, in words; "": not said. */
	char no_compute[200];
};

/*
 * The part of a buffer that its backend fills in. Host memory is addressed by
 * base; device memory by base too if addresses are unified, as CUDA's are.
 */
struct weir_backend_mem {
	unsigned char *base; /* address of byte 0 */
	void *handle;        /* the backend's own */
	uint32_t got;        /* WEIR_GOT_* */
	int32_t node;        /* NUMA node to which it is bound; -1: none */
	uint32_t how;        /* the backend's own: how to free it */
	/*
	 * Host memory: bytes from base that are known to be backed by pages.
	 * Atomic. The thread that prefaults more of it raises it, so
	 * that memory which is kept and used again is not prefaulted twice.
	 */
	size_t backed;
	char why[240]; /* why it lacks a property that was requested */
};

struct weir_backend_mem_ops {
	size_t size;
	/*
	 * Allocate @bytes (> 0) of the kind @desc. Required. May block. @mem
	 * is zeroed. The backend reads flags of @opts and, with
	 * WEIR_BUF_ON_NODE, node. -ENOMEM with a sentence.
	 */
	int (*alloc)(struct weir_dev *dev, const struct weir_backend_buft *desc,
		     size_t bytes, const struct weir_buf_opts *opts,
		     struct weir_backend_mem *mem);
	/*
	 * Required. Called once for each alloc and wrap, when no work uses the
	 * memory.
	 */
	void (*free)(struct weir_dev *dev, const struct weir_backend_buft *desc,
		     size_t bytes, struct weir_backend_mem *mem);
	/*
	 * Make memory of the caller usable as the kind @desc. Optional: NULL
	 * means -EOPNOTSUPP.
	 */
	int (*wrap)(struct weir_dev *dev, const struct weir_backend_buft *desc,
		    void *ptr, size_t bytes, struct weir_backend_mem *mem);
	/*
	 * Copy between host memory and memory of @dev, and inside the latter,
	 * or fill it. They block until the bytes are there. Optional for
	 * devices whose memory is all WEIR_BUFT_HOST.
	 */
	int (*set)(struct weir_dev *dev, void *dst, const void *src, size_t n);
	int (*get)(struct weir_dev *dev, void *dst, const void *src, size_t n);
	int (*fill)(struct weir_dev *dev, void *dst, uint8_t byte, size_t n);
	int (*copy)(struct weir_dev *dev, void *dst, const void *src, size_t n);
	/*
	 * Prepare copies between memory of @dev and of @other, a device of
	 * this backend that is in use: 0 from then on, < 0 with a sentence.
	 * Optional: NULL means that no queue of @dev reaches another device.
	 * Any thread; the first call for a pair may block.
	 */
	int (*reach)(struct weir_dev *dev, struct weir_dev *other);
	/* As copy, from memory of @from, within reach. Required with reach. */
	int (*copy_from)(struct weir_dev *dev, void *dst, struct weir_dev *from,
			 const void *src, size_t n);
	/*
	 * Page-lock host memory of the library for copies to @dev, and unlock
	 * it. Optional. pin returns 1 if it is locked already: then unpin is
	 * not called. unpin returns < 0 if the device may still access the
	 * memory at any later time.
	 */
	int (*pin)(struct weir_dev *dev, void *ptr, size_t bytes);
	int (*unpin)(struct weir_dev *dev, void *ptr, size_t bytes);
	/*
	 * Hide memory of alloc from the children of later forks, or show it to
	 * them again. It is hidden while the kernel or a device writes to it
	 * past the page tables. Optional: NULL means that it is always hidden.
	 * Called under the lock of the buffer; calls nothing of the library
	 * that takes a lock.
	 */
	void (*hide)(struct weir_dev *dev, struct weir_backend_mem *mem,
		     bool hidden);
	/*
	 * The bytes that a tensor takes. Optional: NULL means its own bytes.
	 */
	size_t (*alloc_size)(struct weir_dev *dev,
			     const struct weir_backend_buft *desc,
			     const struct weir_tensor *t, size_t bytes);
	/*
	 * Get the free and the total bytes of the kind @desc. Makes no
	 * context. Optional: NULL, or -EOPNOTSUPP, is for kinds that have no
	 * memory of their own; host memory is then that of the CPU, and other
	 * memory that of the device.
	 */
	int (*memory)(struct weir_dev *dev,
		      const struct weir_backend_buft *desc, uint64_t *ret_free,
		      uint64_t *ret_total);
	/*
	 * True if free of @mem may wait for other work of the device. Then the
	 * library calls free on a thread of its own; if a backend has this
	 * function, the library also calls unpin there. Optional: NULL means
	 * that free never waits. Any thread; does not block.
	 */
	bool (*free_waits)(struct weir_dev *dev,
			   const struct weir_backend_buft *desc,
			   const struct weir_backend_mem *mem);
	/*
	 * Free the memory that the device keeps for later use. Called in
	 * weir_close, when the engine and the streams have ended, on the
	 * thread that calls free. May block. Optional.
	 */
	void (*trim)(struct weir_dev *dev);
	/*
	 * Release the physical memory of @mem, which has WEIR_GOT_PARKABLE,
	 * but keep its addresses; and allocate memory at these addresses
	 * again, with undefined contents. No work uses the memory. free accepts
	 * memory that is released. May block. Optional, but both or neither:
	 * NULL means that no memory has WEIR_GOT_PARKABLE. < 0 with a sentence
	 * (unpark: -ENOMEM): the memory is as before.
	 */
	int (*park)(struct weir_dev *dev, const struct weir_backend_buft *desc,
		    size_t bytes, struct weir_backend_mem *mem);
	int (*unpark)(struct weir_dev *dev,
		      const struct weir_backend_buft *desc, size_t bytes,
		      struct weir_backend_mem *mem);
	/*
	 * Reserve addresses for @bytes, a multiple of 2 MiB, without memory.
	 * Parts of them are then committed; parts begin and end at multiples
	 * of *@ret_granule, a power of two, as the address does. free frees
	 * the addresses, and what is committed. As alloc in all else.
	 * Optional, all three or none: NULL means -EOPNOTSUPP, which reserve
	 * may also return for a device or for flags that cannot have it.
	 */
	int (*reserve)(struct weir_dev *dev,
		       const struct weir_backend_buft *desc, size_t bytes,
		       const struct weir_buf_opts *opts,
		       struct weir_backend_mem *mem, size_t *ret_granule);
	/*
	 * Commit memory to a part that has none; its contents are undefined.
	 * May block. < 0 with a sentence: no byte of it is committed. -ENOMEM.
	 */
	int (*commit)(struct weir_dev *dev,
		      const struct weir_backend_buft *desc,
		      struct weir_backend_mem *mem, size_t off, size_t bytes);
	/*
	 * Give the memory of a part back, all of which is committed, perhaps by
	 * several calls of commit. No work uses it. May block. < 0 with a
	 * sentence: all of it is still committed.
	 */
	int (*decommit)(struct weir_dev *dev,
			const struct weir_backend_buft *desc,
			struct weir_backend_mem *mem, size_t off, size_t bytes);
	/*
	 * Get a descriptor of memory that is not host memory, and which alloc
	 * has given WEIR_GOT_SHARED because of WEIR_BUF_SHARED. Byte 0 of @mem
	 * is its byte 0. Any process that has it can read and write the memory,
	 * which exists until the last of them has unmapped it and closed its
	 * descriptors. It is closed at exec, and the caller closes it. Any
	 * thread. Optional, but both or neither: NULL means that only host
	 * memory can be shared.
	 */
	int (*share)(struct weir_dev *dev, const struct weir_backend_buft *desc,
		     size_t bytes, struct weir_backend_mem *mem, int *ret_fd);
	/*
	 * Make memory of the kind @desc of the bytes [@off, @off + @bytes) of
	 * @fd, a descriptor that share has returned in this process or another;
	 * free frees it. @fd is not used after the call. If @readonly is set,
	 * nothing writes to the memory: map it so if the device can, else say
	 * in mem->why that it cannot. @mem is zeroed. May block. < 0 with a
	 * sentence; -EINVAL: @fd is no such descriptor, is of another device,
	 * or has fewer bytes.
	 */
	int (*wrap_fd)(struct weir_dev *dev,
		       const struct weir_backend_buft *desc, int fd,
		       uint64_t off, size_t bytes, bool readonly,
		       struct weir_backend_mem *mem);
};

/* Work of a queue. When it is submitted, all that it depends on is done. */
enum weir_backend_work_kind {
	WEIR_WORK_SET,  /* host to device memory; rows of width */
	WEIR_WORK_GET,  /* device to host memory */
	WEIR_WORK_COPY, /* device to device memory */
	WEIR_WORK_FILL,
	WEIR_WORK_CALL,
	/* Only for queues with all_submitted(): */
	WEIR_WORK_WAIT, /* wait for all that the queue arg has submitted */
	WEIR_WORK_MARK, /* a marker, which is done when all work before it is */
	/* Only for queues whose backend has a compute table: */
	WEIR_WORK_COMPUTE /* arg is a struct weir_backend_compute */
};

/*
 * One of the copies that a scatter copy makes. It is passed in arrays and
 * never grows.
 */
struct weir_backend_copy {
	unsigned char *dst;
	const unsigned char *src;
	size_t bytes; /* > 0 */
};

struct weir_backend_work {
	struct weir_backend_work *next; /* used by the backend until done */
	enum weir_backend_work_kind kind;
	uint8_t byte;            /* FILL */
	bool dst_host, src_host; /* in host memory, locked or not */
	unsigned char *dst;
	const unsigned char *src;
	/* COPY: the device of the memory; NULL: the queue's. */
	struct weir_dev *dst_dev, *src_dev;
	size_t width, rows; /* bytes of a row; rows (1 if flat) */
	size_t dst_pitch, src_pitch;
	/*
	 * SET: a scatter copy, which makes these copies instead of one of
	 * rows. The array is the caller's and does not change until the work
	 * is done. The copies may be made in any order: none reads or writes
	 * what another writes. dst and src are those of the first, width is
	 * the sum of their bytes.
	 */
	const struct weir_backend_copy *copy;
	size_t n_copies;
	int (*call)(void *arg); /* CALL */
	void *arg;
	/*
	 * Called once, on a thread of the backend or inside poll, when the
	 * effect is visible. @res is 0 or -errno, and @native is the error
	 * code of the device. The work may be freed when it returns.
	 */
	void (*done)(struct weir_backend_work *work, int res, int32_t native);
	/*
	 * Set before done if the work failed and the device may still access
	 * its memory at any later time.
	 */
	bool leaked;
	/* The number of its operation in the stream; 0: there is none. */
	uint64_t number;
	/*
	 * WAIT: only works up to this number of the other queue, and what was
	 * submitted before them, have to be waited for; 0: all.
	 */
	uint64_t until;
};

struct weir_backend_queue_ops {
	size_t size;
	/* Make an in-order queue. Required. Starts no thread yet. */
	int (*open)(struct weir_dev *dev, unsigned flags, const char *name,
		    void **ret_queue);
	/*
	 * Close the queue, all of whose work is done. Required. May be called
	 * on a thread of the queue.
	 */
	void (*close)(void *queue);
	/*
	 * Run @work after all work that was submitted before. Required. Blocks
	 * on native queues only; does not call work->done before it returns,
	 * nor anything that takes a lock of the library. The caller serialises
	 * the calls, by a lock. < 0, perhaps with a sentence: the queue did
	 * not take the work.
	 */
	int (*submit)(void *queue, struct weir_backend_work *work);
	/*
	 * Call work->done for all work that has completed. Returns the number
	 * of works that are not done. Optional: NULL means that the backend
	 * calls done on a thread of its own. Any thread; never blocks. The
	 * caller serialises the calls, but not with those of submit.
	 */
	int (*poll)(void *queue);
	/*
	 * True if the driver of the device has all work of the queue, so that
	 * another queue of this backend may WAIT for it. False while a thread
	 * of the backend still prepares some of it. Optional. Any thread.
	 */
	bool (*all_submitted)(void *queue);
};

/*
 * A reader, for read-through: it reads a constant source for a node while the
 * node is computed. While @active is set, the bytes of the source are not at
 * its address. The node gets them a part at a time, each byte that it needs
 * about once, and may write to the memory at the address. A node of get_rows
 * requests only rows, and its source may have no memory at all. @active does
 * not change while a work with the node is queued or runs.
 */
struct weir_backend_reader {
	unsigned char *place; /* the address of byte 0 */
	uint64_t bytes;
	bool active; /* atomic */
	/*
	 * Get *@n bytes from offset @at on. Returns where all of them are
	 * already; or @room, to which at most @room_bytes of them were read,
	 * and sets *@n to their number. NULL: *ret_err is the errno, and @why
	 * has a sentence, as in struct weir_backend_compute. The bytes are
	 * valid until put. Each thread has one such part at a time, for at
	 * most some milliseconds. Any thread. Blocks, but only for a short
	 * time while the file is in the page cache.
	 */
	const unsigned char *(*get)(struct weir_backend_reader *reader,
				    uint64_t at, size_t *n, unsigned char *room,
				    size_t room_bytes, char why[240],
				    int *ret_err);
	/* Give back what get has returned, unless that is @room. */
	void (*put)(struct weir_backend_reader *reader,
		    const unsigned char *bytes);
};

/*
 * One operation of a graph, with the final addresses of its tensors. Allocated
 * by the library; grows at its end. Nodes that compute nothing (leaves,
 * inputs, views) are not given to backends. The result has no gaps and is apart
 * from the sources, or has the very place of one of the same shape and dtype,
 * which only operations on elements and rows allow; set_rows and copy write a
 * leaf, which may have gaps.
 */
struct weir_backend_node {
	size_t size;
	uint32_t op; /* enum weir_op */
	uint32_t n_src;
	uint64_t index;     /* its number in the graph */
	const char *name;   /* or NULL */
	const void *params; /* the operation's struct of <weir/ops.h>, defaults
			       filled in */
	size_t params_size;
	struct weir_operand dst;
	const struct weir_operand *src; /* n_src; data NULL: left out */
	/*
	 * The reader of source 0, if takes_reader allows it. NULL: the bytes
	 * of the source are at its address.
	 */
	struct weir_backend_reader *reader;
};

struct weir_backend_prepare_opts {
	size_t size;
};

/*
 * How a segment is given to a device, as weir_exec_lane(3) reports it; zeroed
 * by the library.
 */
struct weir_backend_launches {
	size_t size;
	uint64_t kernels;  /* launches that its nodes need; 0: not known */
	uint64_t graphs;   /* CUDA graphs that were built of them so far */
	uint64_t as_graph; /* works so far that were launched as a graph */
	uint64_t directly; /* the others */
	char why[200];     /* why the last one was not a graph; "": it was */
	/*
	 * Products of many columns that a library of the device's vendor
	 * computes, and its name and version; or 0, and why it computes none,
	 * "": there is no product that it might compute.
	 */
	uint64_t by_library;
	char library[200];
};

/* One run of nodes of a prepared segment: the arg of WEIR_WORK_COMPUTE. */
struct weir_backend_compute {
	size_t size;
	void *prepared;
	void *workspace; /* the run has it: the bytes that prepare requested */
	size_t first, n; /* the nodes [first, first + n) of the segment */
	/*
	 * If it is not 0, give no further node to the device; the work then
	 * ends with -ECANCELED. Atomic; read at least before each node, or
	 * before several nodes that take the device no longer than it takes to
	 * read all of its memory once.
	 */
	const uint32_t *stop;
	/*
	 * Set by the backend before a work ends with another error: the node
	 * of the segment that failed, and a sentence.
	 */
	size_t failed;
	char why[240];
};

/*
 * Operations of graphs. A backend without this table only moves memory, and
 * its devices do not have WEIR_CAP_COMPUTE. The table is not used for devices
 * without it, such as a GPU that is too old for the kernels.
 */
struct weir_backend_compute_ops {
	size_t size;
	/*
	 * Returns 0 if @dev can run @node, or -EOPNOTSUPP with a sentence that
	 * names the operation, its dtypes and the reason. Required. Any
	 * thread; does not block. The tensors need not have addresses yet.
	 */
	int (*supports)(struct weir_dev *dev,
			const struct weir_backend_node *node);
	/*
	 * Make a segment of a graph, @n nodes in their order, ready to be run
	 * many times; nothing is allocated in a run. A work may run any range
	 * of it; two works with one segment may run at once, with a workspace
	 * each. *ret_workspace: bytes of memory of @dev that each run is
	 * given. Required. Any thread; may block, for seconds when a device
	 * loads its kernels, but holds up no work of its queues. The nodes, and
	 * what they point to, stay until release. Reads no bytes of tensors:
	 * they may not be there yet.
	 */
	int (*prepare)(struct weir_dev *dev,
		       const struct weir_backend_node *const *nodes, size_t n,
		       const struct weir_backend_prepare_opts *opts,
		       void **ret_prepared, size_t *ret_workspace);
	/* Release the segment, of which no run is left. Required. */
	void (*release)(struct weir_dev *dev, void *prepared);
	/*
	 * True if @dev can run nodes whose tensors are in memory of the kind
	 * @desc of @owner, which may be @dev. Optional: NULL means in all its
	 * own memory, and no other. Any thread; does not block.
	 */
	bool (*supports_buft)(struct weir_dev *dev, struct weir_dev *owner,
			      const struct weir_backend_buft *desc);
	/*
	 * The implementation of weir_dev_set_threads. Optional: NULL means
	 * -EOPNOTSUPP. Any thread; may block until the device has computed
	 * what it is computing.
	 */
	int (*set_threads)(struct weir_dev *dev,
			   const struct weir_threads *threads);
	/*
	 * Compute the workspace that prepare would request, for estimates and
	 * budgets. The tensors of the nodes need not have addresses yet.
	 * Optional: NULL means that the workspace is known only after prepare.
	 * Any thread; keeps nothing.
	 */
	int (*measure)(struct weir_dev *dev,
		       const struct weir_backend_node *const *nodes, size_t n,
		       const struct weir_backend_prepare_opts *opts,
		       size_t *ret_workspace);
	/*
	 * Get the rates of @dev, measured or known. *ret_rates has the
	 * defaults of the device's type on entry. Optional; NULL: the defaults
	 * are used. Any thread; may block for some milliseconds. The library
	 * keeps the first answer.
	 */
	int (*rates)(struct weir_dev *dev, struct weir_rates *ret_rates);
	/*
	 * True if @dev can compute @node while a reader for source 0 is active
	 * (struct weir_backend_reader). The address of the source is in the
	 * node. Optional: NULL means no. Any thread; does not block.
	 */
	bool (*takes_reader)(struct weir_dev *dev,
			     const struct weir_backend_node *node);
	/*
	 * Describe how works of the segment are launched. Optional: NULL means
	 * that nothing is known. Any thread; may block while the device is
	 * given a work.
	 */
	void (*launches)(struct weir_dev *dev, void *prepared,
			 struct weir_backend_launches *ret);
};

struct weir_backend {
	size_t size;
	uint32_t abi; /* WEIR_BACKEND_ABI */
	uint32_t reserved;
	const char *name; /* "CPU", "CUDA" */
	/*
	 * Find devices and describe each to host->dev_describe; makes no
	 * context. Called under the lock of modules. Required. < 0 with a
	 * sentence: the backend cannot be used on this machine.
	 */
	int (*probe)(struct weir *weir, const struct weir_backend_host *host,
		     struct weir_backend_probe *probe);
	/*
	 * Make the state of device @i at its first use. @params is "k=v,..."
	 * or "". Called under the lock of the device. Required. -EINVAL: a
	 * parameter is unknown.
	 */
	int (*dev_open)(struct weir_dev *dev, unsigned i, const char *params,
			void **ret_state);
	/* Free the state of a device. Optional. */
	void (*dev_close)(struct weir_dev *dev, void *state);
	/*
	 * Get the free and the total bytes of memory. Required. Makes no
	 * context: -ENODATA if that would be needed.
	 */
	int (*dev_memory)(struct weir_dev *dev, unsigned i, uint64_t *ret_free,
			  uint64_t *ret_total);
	/*
	 * The message of the device for a native code. Optional. Any thread.
	 */
	void (*explain)(int32_t native, char *text, size_t room);
	/* The implementation of weir_dev_proc. Optional. */
	void (*(*proc)(struct weir_dev *dev, const char *name))(void);
	const struct weir_backend_mem_ops *mem;         /* required */
	const struct weir_backend_queue_ops *queue;     /* required */
	const struct weir_backend_compute_ops *compute; /* optional */
};

/* The one symbol of a module, a weir_backend_entry_fn. */
#define WEIR_BACKEND_ENTRY "weir_module_entry"

WEIR__END

#endif
