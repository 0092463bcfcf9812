/* SPDX-License-Identifier: MIT */
/*
 * What a backend is: the tables of functions that lib/cpu and each module
 * implement. The layers above (io, stream, model) reach devices by nothing
 * else.
 *
 * A module is a shared object that exports one symbol, weir_module_entry, and
 * is not linked with libweir: what it needs of the library it gets in struct
 * weir__host. Tables begin with their own size; a table whose size or ABI
 * number is not the library's is refused.
 */
#ifndef WEIR__BACKEND_H
#define WEIR__BACKEND_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weir/dev.h>
#include <weir/mem.h>

#define WEIR__ABI 3u
#define WEIR__MAX_DEVS 64u /* of one backend */

struct weir__backend;
struct weir__buft_desc;
struct weir__dev_desc;
struct weir__mem;
struct weir__work;

/* What the library offers a backend. Lives as long as the root. */
struct weir__host {
	size_t size;
	uint32_t abi;
	uint32_t reserved;
	/* Keep this thread's error sentence; returns err. */
	int (*fail)(int err, const char *fmt, ...)
		__attribute__((format(printf, 2, 3)));
	/* Tell the root's log sink. */
	void (*log)(struct weir *weir, const char *fmt, ...)
		__attribute__((format(printf, 2, 3)));
	/* As weir__calloc, weir__free, weir__sys_text, ... of sys.h. */
	void *(*calloc)(size_t n, size_t size);
	void (*free)(void *p);
	int64_t (*text)(const char *path, char *buf, size_t room);
	int (*dlopen)(const char *path, void **ret_handle);
	int (*thread)(pthread_t *ret_thread, const char *name,
		      void *(*fn)(void *), void *arg);
	/* Of a device: its root, its state (NULL: not open), its name. */
	struct weir *(*dev_root)(struct weir_dev *dev);
	void *(*dev_state)(struct weir_dev *dev);
	const char *(*dev_name)(struct weir_dev *dev);
	/*
	 * Host memory in huge pages, backed by pages already, on NUMA node
	 * opts->node - 1 (0: any): what the CPU would allocate, hidden from
	 * children of fork(2). May block.
	 */
	int (*host_take)(struct weir *weir, size_t bytes,
			 const struct weir_buf_opts *opts,
			 struct weir__mem *mem);
	void (*host_give)(struct weir *weir, size_t bytes,
			  struct weir__mem *mem);
	/*
	 * One device more, which dev_open knows as number @i: for devices that
	 * parameters make. Any thread, dev_open's too.
	 */
	int (*dev_add)(struct weir_dev *beside,
		       const struct weir__dev_desc *desc, unsigned i);
	/*
	 * Instead of host_give, where hardware may still write to the pages:
	 * they stay for ever, and @mem is no longer looked at.
	 */
	void (*host_leak)(struct weir *weir, struct weir__mem *mem);
	/* Is @word in WEIR_DEBUG? */
	bool (*debug)(const struct weir *weir, const char *word);
};

/* What a backend says of one device. Checked at registration. */
struct weir__dev_desc {
	char name[32]; /* "CUDA0": [A-Za-z0-9_-]+, not empty */
	char description[128];
	char pci[16];
	uint32_t type;    /* enum weir_dev_type */
	uint32_t caps;    /* WEIR_CAP_* */
	int32_t node;     /* -1: not known */
	uint32_t n_bufts; /* 1..WEIR__MAX_BUFTS; [0] is the default */
	struct weir__buft_desc {
		char name[40];  /* unique in the root */
		uint32_t kind;  /* enum weir_mem */
		uint32_t flags; /* WEIR_BUFT_* */
		size_t align;   /* power of two */
		size_t max;     /* > 0 */
	} buft[6];
};
#define WEIR__MAX_BUFTS 6u

/*
 * The part of a buffer that its backend fills in. Host memory is addressed by
 * base; device memory by base too if addresses are unified, as CUDA's are.
 */
struct weir__mem {
	unsigned char *base; /* address of byte 0 */
	void *handle;        /* the backend's own */
	uint32_t got;        /* WEIR_GOT_* */
	int32_t node;        /* bound to, -1: not */
	uint32_t how;        /* the backend's own: how to free it */
	/*
	 * Host memory: bytes from base that are known to be backed by pages.
	 * Whoever touches more of it (lib/alloc/touch.h) raises it, so that
	 * memory which is kept and used again is not touched twice.
	 */
	_Atomic size_t touched;
	char why[240]; /* why less than asked for */
};

struct weir__mem_ops {
	size_t size;
	/*
	 * Allocate @bytes (> 0) of the kind @desc. Required. May block.
	 * @mem is zeroed. -ENOMEM with a sentence.
	 */
	int (*alloc)(struct weir_dev *dev, const struct weir__buft_desc *desc,
		     size_t bytes, const struct weir_buf_opts *opts,
		     struct weir__mem *mem);
	/* Required. Called once for each alloc and wrap; no work is out. */
	void (*free)(struct weir_dev *dev, const struct weir__buft_desc *desc,
		     size_t bytes, struct weir__mem *mem);
	/* Take the caller's memory. Optional: NULL, -EOPNOTSUPP. */
	int (*wrap)(struct weir_dev *dev, const struct weir__buft_desc *desc,
		    void *ptr, size_t bytes, struct weir__mem *mem);
	/*
	 * Blocking moves between host memory and memory of @dev, and inside
	 * the latter. Optional for devices whose memory is all WEIR_BUFT_HOST.
	 */
	int (*set)(struct weir_dev *dev, void *dst, const void *src, size_t n);
	int (*get)(struct weir_dev *dev, void *dst, const void *src, size_t n);
	int (*fill)(struct weir_dev *dev, void *dst, uint8_t byte, size_t n);
	int (*copy)(struct weir_dev *dev, void *dst, const void *src, size_t n);
	/*
	 * Make ready for copies between memory of @dev and of @other, a device
	 * of this backend that is in use: 0 from then on, < 0 with a sentence.
	 * Optional: no queue of @dev reaches another device. Any thread; the
	 * first call for a pair may block.
	 */
	int (*reach)(struct weir_dev *dev, struct weir_dev *other);
	/* As copy, from memory of @from, within reach. Needed with reach. */
	int (*copy_from)(struct weir_dev *dev, void *dst, struct weir_dev *from,
			 const void *src, size_t n);
	/*
	 * Page-lock host memory of the library's for copies to @dev, and let
	 * go of it. Optional. pin gives 1: it is locked already, and not ours
	 * to unpin. unpin gives < 0: the device may still use it, for ever.
	 */
	int (*pin)(struct weir_dev *dev, void *ptr, size_t bytes);
	int (*unpin)(struct weir_dev *dev, void *ptr, size_t bytes);
	/*
	 * Hide memory of alloc from the children of later forks, or show it to
	 * them again: hidden while the kernel or a device writes to it past the
	 * page tables (lib/access.c). Optional: NULL, it is always hidden.
	 * Called under the buffer's lock; calls no function of the library's
	 * that takes one.
	 */
	void (*hide)(struct weir_dev *dev, struct weir__mem *mem, bool hidden);
	/* Bytes that a tensor takes; optional: NULL, its own bytes. */
	size_t (*alloc_size)(struct weir_dev *dev,
			     const struct weir__buft_desc *desc,
			     const struct weir_tensor *t, size_t bytes);
	/* The CPU's: host_leak. Others have none. */
	void (*leak)(struct weir_dev *dev, struct weir__mem *mem);
};

/* One piece of work of a queue. Ready: nothing that it needs is still open. */
enum weir__work_kind {
	WEIR__WORK_SET,  /* host to device memory; rows of width */
	WEIR__WORK_GET,  /* device to host memory */
	WEIR__WORK_COPY, /* device to device memory */
	WEIR__WORK_FILL,
	WEIR__WORK_CALL,
	/* For queues with all_in_driver(): */
	WEIR__WORK_WAIT, /* for all that was handed over by the queue arg */
	WEIR__WORK_MARK  /* nothing: done when all before it is */
};

/* Bytes that are to lie elsewhere. */
struct weir__segment {
	unsigned char *dst;
	const unsigned char *src;
	size_t bytes; /* > 0 */
};

struct weir__work {
	struct weir__work *next; /* the backend's, while it has it */
	enum weir__work_kind kind;
	uint8_t byte;            /* FILL */
	bool dst_host, src_host; /* in host memory, locked or not */
	unsigned char *dst;
	const unsigned char *src;
	/* COPY: whose memory it is; NULL: the device's of the queue. */
	struct weir_dev *dst_dev, *src_dev;
	size_t width, rows; /* bytes of a row; rows (1 if flat) */
	size_t dst_pitch, src_pitch;
	/*
	 * SET: not rows but these, the caller's until it is done, in any order:
	 * none reads or writes what another writes. dst and src are those of
	 * the first, width is the bytes of all.
	 */
	const struct weir__segment *segment;
	size_t n_segments;
	int (*call)(void *arg); /* CALL */
	void *arg;
	/*
	 * Called once, on a thread of the backend, when the effect is visible:
	 * @res 0 or -errno, @native the device's own code. The work may be
	 * gone when it returns.
	 */
	void (*done)(struct weir__work *work, int res, int32_t native);
	/*
	 * Set before done: it failed, and the device may still touch its
	 * memory. Nobody knows for how long.
	 */
	bool leaked;
};

struct weir__queue_ops {
	size_t size;
	/* Make an in-order queue. Required. May not start threads yet. */
	int (*open)(struct weir_dev *dev, unsigned flags, const char *name,
		    void **ret_queue);
	/* No work is out. Required. May be called on a thread of the queue. */
	void (*close)(void *queue);
	/*
	 * Take ready work, to be run in the order of the calls. Required.
	 * Never blocks, but on a native queue; never calls work->done before
	 * it returns, nor what takes a lock of the library's. Calls are
	 * serialised by the caller, by a lock. < 0: not taken.
	 */
	int (*submit)(void *queue, struct weir__work *work);
	/*
	 * Call work->done for what has completed. Optional; NULL: the backend
	 * does it by itself. Returns the works still out. Any thread, never
	 * blocks, serialised by the caller; beside submit.
	 */
	int (*poll)(void *queue);
	/*
	 * All work taken so far is with the device, which orders it by itself:
	 * another queue of this backend may WAIT for it. Optional. Any thread.
	 */
	bool (*all_in_driver)(void *queue);
};

struct weir__backend {
	size_t size;
	uint32_t abi; /* WEIR__ABI */
	uint32_t reserved;
	const char *name; /* "CPU", "CUDA" */
	/*
	 * Find devices; makes no context. Fills @descs[0..n), returns n <= @max.
	 * Called under the lock of modules. Required. < 0: the backend is of no
	 * use here; a sentence says why.
	 */
	int (*probe)(struct weir *weir, const struct weir__host *host,
		     struct weir__dev_desc *descs, unsigned max);
	/*
	 * Make the state of device @i at its first use. @params is "k=v,..."
	 * or "". Called under the device's lock. Required. -EINVAL for a
	 * parameter it does not know.
	 */
	int (*dev_open)(struct weir_dev *dev, unsigned i, const char *params,
			void **ret_state);
	void (*dev_close)(struct weir_dev *dev, void *state);
	/* Required. Makes no context: -ENODATA where that would be needed. */
	int (*dev_memory)(struct weir_dev *dev, unsigned i, uint64_t *ret_free,
			  uint64_t *ret_total);
	/* The device's own words for a native code. Optional. Any thread. */
	void (*explain)(int32_t native, char *text, size_t room);
	/* Optional: weir_dev_proc. */
	void (*(*proc)(struct weir_dev *dev, const char *name))(void);
	const struct weir__mem_ops *mem;     /* required */
	const struct weir__queue_ops *queue; /* required */
};

/* The one symbol of a module. NULL, with *ret_err < 0: not usable here. */
typedef const struct weir__backend *
weir__module_entry_fn(const struct weir__host *host, int *ret_err);
#define WEIR__MODULE_ENTRY "weir_module_entry"

#endif
