/* SPDX-License-Identifier: MIT */
/*
 * The root, errors, and the rules that all calls follow:
 *
 * - A call that can fail returns int: 0 or more on success, else a negative
 *   errno. Results come out through the last parameters, named ret_x, which
 *   are written only on success.
 * - Times are int64_t nanoseconds; a timeout of -1 means no limit. Sizes are
 *   size_t and file offsets are uint64_t, both in bytes.
 * - Any thread may make any call, unless the comment at the call says
 *   otherwise. A signal handler may make none.
 * - A root belongs to the process that opened it. In a child of fork(2), calls
 *   with the parent's objects fail with -EPERM, or return NULL or 0.
 * - Every call that takes a root, or an object made from one, can return
 *   -EPERM (after a fork) and, if it needs the root's services, -ESHUTDOWN
 *   (after weir_close). The comments at the calls list only further errors.
 */
#ifndef WEIR_BASE_H
#define WEIR_BASE_H

#include <stddef.h>
#include <stdint.h>

/*
 * In C++, gcc's -Wshadow warns that the function weir_x_info() hides the
 * constructor of struct weir_x_info.
 */
#ifdef __cplusplus
#define WEIR__BEGIN                                                       \
	_Pragma("GCC diagnostic push")                                    \
		_Pragma("GCC diagnostic ignored \"-Wshadow\"") extern "C" \
	{
#define WEIR__END \
	}         \
	_Pragma("GCC diagnostic pop")
#else
#define WEIR__BEGIN
#define WEIR__END
#endif

#if defined(__GNUC__)
#define WEIR_API __attribute__((visibility("default")))
#define WEIR_NONNULL(...) __attribute__((nonnull(__VA_ARGS__)))
#define WEIR_NODISCARD __attribute__((warn_unused_result))
/* A format of printf(3) is parameter @fmt, its values begin with @first. */
#define WEIR_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#else
#define WEIR_API
#define WEIR_NONNULL(...)
#define WEIR_NODISCARD
#define WEIR_PRINTF(fmt, first)
#endif

/*
 * Options. The first member of each struct weir_x_opts is the size of the
 * struct, so that program and library may be of different versions: the
 * library reads missing members as 0, and returns -E2BIG if a member that it
 * does not know is not 0. Initialise each struct of options in
 * this way:
 *
 *	struct weir_x_opts o = WEIR_X_OPTS_INIT;
 *
 * This sets all other members to 0, their default. It is a designated
 * initialiser in C and a call of an inline function in C++.
 */
#ifdef __cplusplus
#define WEIR__OPTS_INIT(type) (type##_init())
#define WEIR__DECLARE_OPTS_INIT(type)               \
	static inline struct type type##_init(void) \
	{                                           \
		struct type o = type();             \
		o.size = sizeof(o);                 \
		return o;                           \
	}
#else
#define WEIR__OPTS_INIT(type)               \
	{                                   \
		.size = sizeof(struct type) \
	}
#define WEIR__DECLARE_OPTS_INIT(type) struct type;
#endif

#define WEIR_VERSION_MAJOR 0
#define WEIR_VERSION_MINOR 1
#define WEIR_VERSION_PATCH 0
/* The version of the headers, as 0xMMmmpp00. See also weir_version(). */
#define WEIR_VERSION                                               \
	((WEIR_VERSION_MAJOR << 24) | (WEIR_VERSION_MINOR << 16) | \
	 (WEIR_VERSION_PATCH << 8))

WEIR__BEGIN

struct weir;
struct weir_dev;
struct weir_buft;
struct weir_buf;
struct weir_tensor;
struct weir_stream;
struct weir_heap;
struct weir_event;
struct weir_file;
struct weir_model;
struct weir_plan;
struct weir_load;
struct weir_weights;
struct weir_publication;
struct weir_save;
struct weir_placement;

/*
 * Why an asynchronous operation failed. The stream, event or load keeps it:
 * weir_stream_error(), weir_event_error(), weir_load_error().
 */
struct weir_failure {
	int32_t err;     /* negative errno, 0: no failure. Never -ETIMEDOUT: an
			    operation that failed with it has -EIO here */
	int32_t native;  /* the error code of the device (a CUresult). If it has
			    none: ETIMEDOUT if that was the cause, else 0 */
	uint64_t number; /* operation of the stream, tensor of the load */
	char text[240];  /* a sentence that ends with a NUL */
};

/* How a root reads and writes files. */
enum weir_io {
	WEIR_IO_AUTO = 0,  /* io_uring where it works, else threads */
	WEIR_IO_URING = 1, /* io_uring, or an error if it does not work */
	WEIR_IO_SYNC = 2   /* threads that call pread(2) and pwrite(2) */
};

/*
 * A log function. It receives messages that no call can return, such as memory
 * that was leaked because the kernel might still write to it, or a fallback.
 * @text is one line without a newline; it is valid during the call only. Any
 * thread may call the function. The function may not call weir.
 */
typedef void weir_log_fn(void *arg, const char *text);

/*
 * Options of a root, which use these words: A chunk is the unit in which the
 * I/O engine reads and writes; a load is divided into chunks. A reactor is a
 * thread of the engine with its own io_uring. A copier is a thread that copies
 * file data out of the page cache. A slot is a staging buffer for bytes that
 * cannot be read directly into their final memory. See weir-io(7).
 */
struct weir_opts {
	size_t size;
	uint32_t io;           /* enum weir_io */
	uint32_t reactors;     /* at most 16; 0: chosen from the number of
				   CPUs. Fewer are started if @staging has no
				   room for a slot of a chunk, and a small one,
				   for each */
	uint32_t depth;        /* chunks in flight per reactor, at most 1024; 0:
				   as many as have 32 MiB (256 MiB on network
				   file systems) */
	uint32_t copiers;      /* at most 256; 0: one per CPU, at most 16 */
	uint64_t chunk;        /* bytes of a chunk: a multiple of 4096 from 64
				   KiB to 256 MiB; 0: 4 MiB */
	uint64_t staging;      /* most bytes of slots, of all reactors together:
				   from a chunk to 64 GiB; 0: 64 MiB, or a
				   quarter of @budget if that is less, or a
				   chunk if that is larger. Less is used if
				   @budget has less left when the engine
				   starts, and at most a quarter of the memory
				   that is available then. There are always a
				   slot of a chunk and one of 128 KiB, even if
				   these are more, unless there is no room for
				   them: then there are no slots */
	uint64_t keep;         /* bytes of host memory that are kept for reuse
				   when buffers are freed; 0: a quarter of the
				   available memory; UINT64_MAX: none */
	int64_t close_timeout; /* ns that weir_close() waits for queued work; 0:
				   30 s, -1: no limit */
	weir_log_fn *log;      /* NULL: messages are dropped */
	void *log_arg;         /* first argument of @log */
	const char *module_path; /* absolute directories, separated by colons,
				   that are searched for modules before the
				   built-in ones; NULL: those of the environment
				   variable WEIR_MODULE_PATH */
	uint32_t flags;          /* WEIR_OPEN_* */
	uint32_t reserved;       /* 0 */
	int64_t read_timeout;    /* ns after which a load fails, if it waits for
				   reads and none of them has ended in that
				   time; 0: 120 s, -1: no limit */
	uint64_t budget;         /* most bytes of host memory of the root, in
				   whole pages: buffers that weir allocates
				   (wrapped memory and mapped files do not
				   count), kept memory, which is freed before
				   an allocation is refused, slots, and headers
				   of models and manifests with their tables;
				   0: no limit */
	const char *io_cpus;     /* CPUs of the threads that read, copy and
				    prefault memory, such as "0-3,8"; NULL: all
				    that the process may use */
	const char *cache;       /* a folder that keeps copies of objects that
				    are opened by URLs, made with mode 0700 if
				    it is not there. It must be the user's, and
				    nobody else may be able to write to it. An
				    object that is whole there is read as a
				    file, if its source says that it has not
				    changed. NULL: the environment variable
				    WEIR_CACHE, "": none */
	uint64_t cache_bytes;    /* most bytes of the folder, in which copies
				    that are not in use make room for new ones;
				    0: no limit */
};
WEIR__DECLARE_OPTS_INIT(weir_opts)
#define WEIR_OPTS_INIT WEIR__OPTS_INIT(weir_opts)

/* Refuse modules that other users could have written, instead of warning. */
#define WEIR_OPEN_STRICT_MODULES 1u

/* The version of the library, as "0.1.0" and as a number like WEIR_VERSION. */
WEIR_API const char *weir_version_string(void);
WEIR_API unsigned weir_version(void);

/*
 * The last failure of this thread, as a sentence that begins with the call:
 * "weir_model_open: a.safetensors: ...". Returns "" before the first failure,
 * never NULL. The string is valid until the next call of this thread fails. A
 * call that succeeds does not change it.
 */
WEIR_API const char *weir_error(void);

/*
 * Make a root, which owns the devices, the modules, the I/O engine and the
 * kept memory. This is cheap: threads, rings and device contexts are made when
 * a call first needs them. NULL for @opts means defaults. Close the root with
 * weir_close().
 *
 * -EINVAL: an option is out of range. -E2BIG: the options have members that
 * this library does not know. -ENOMEM.
 */
WEIR_API int weir_open(const struct weir_opts *opts, struct weir **ret_weir)
	WEIR_NONNULL(2) WEIR_NODISCARD;

/*
 * Close the root; NULL is allowed. Blocks until queued work has ended, at most
 * for close_timeout. If work has not ended by then, the memory that the kernel
 * or a device may still write to is leaked (never freed) and reported to the
 * log, and threads that wait for the work return with -ESHUTDOWN; those that
 * wait for a load with a sink return when the sink's function has returned.
 *
 * Objects made from the root can still be read and freed afterwards; calls
 * that need the root's services fail with -ESHUTDOWN. Call weir_close() once,
 * not in a function given to weir_stream_call() or weir_buf_wrap(), and while
 * no other thread is in a call that takes the root itself.
 */
WEIR_API void weir_close(struct weir *weir);

/*
 * Return kept memory to the system until at most @keep bytes of it are left.
 * Memory of freed buffers is returned at once, and what heaps have and do not
 * use, as by weir_heap_trim(); that of free slots a little later, by their
 * reactor. Memory in use stays, and so do slots that are
 * registered with the ring or page-locked for a device. Fails only with
 * -EPERM.
 */
WEIR_API int weir_trim(struct weir *weir, size_t keep) WEIR_NONNULL(1);

/* The I/O engine of a root, and its features, which it tests by using them. */
struct weir_io_info {
	size_t size;       /* set by the caller: sizeof the struct */
	uint32_t method;   /* the method in use: WEIR_IO_URING or _SYNC */
	uint32_t features; /* WEIR_IO_HAS_* */
	uint32_t reactors; /* number of reactors */
	uint32_t depth;    /* chunks in flight per reactor */
	uint32_t copiers;  /* number of copiers */
	uint32_t reserved;
	uint64_t chunk;   /* bytes of a chunk */
	uint64_t staging; /* bytes of slots that exist now */
	uint64_t enters;  /* calls of io_uring_enter(2) so far */
	char why[240];    /* why io_uring or a feature of it is not used: all
			     reasons that fit, in the order in which they were
			     found; "" if everything is used */
};
#define WEIR_IO_HAS_RING 0x01u          /* io_uring completed test requests */
#define WEIR_IO_HAS_DEFER_TASKRUN 0x02u /* IORING_SETUP_DEFER_TASKRUN */
#define WEIR_IO_HAS_RING_FD 0x04u       /* the ring itself is registered */
#define WEIR_IO_HAS_FILES 0x08u         /* files are registered */
#define WEIR_IO_HAS_BUFFERS 0x10u       /* slots are registered */

/*
 * Start the I/O engine, if it is not running, and describe it. Blocks the
 * first time, while the threads start.
 * -EPERM, -ENOSYS and others: the root was opened with WEIR_IO_URING, and
 * io_uring does not work here; weir_error() says why. -EMFILE, -ENFILE,
 * -EAGAIN, -ENOMEM: no descriptor, thread or memory for the engine.
 */
WEIR_API int weir_io_info(struct weir *weir, struct weir_io_info *ret_info)
	WEIR_NONNULL(1, 2);

/*
 * Trace the I/O engine and the streams in Chrome's trace event format (JSON),
 * which Perfetto displays, with a track for each reactor, copier and stream.
 * The trace is kept in memory, up to 2^20 events; later ones are dropped.
 * weir_trace_stop() writes it to the file @path and blocks meanwhile.
 *
 * start: -EBUSY: this root is being traced already. Errors of open(2).
 * -ENOMEM. stop: -EINVAL: no trace was started. -EIO, -ENOSPC and other errors
 * of write(2): the file is incomplete.
 */
WEIR_API int weir_trace_start(struct weir *weir, const char *path)
	WEIR_NONNULL(1, 2);
WEIR_API int weir_trace_stop(struct weir *weir) WEIR_NONNULL(1);

WEIR__END

#endif
