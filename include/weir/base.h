/* SPDX-License-Identifier: MIT */
/*
 * The root object, errors and the rules that every call follows.
 *
 * A call that can fail returns int: 0 or more, or a negative errno. What it
 * makes comes out through a last parameter ret_x, which is written only on
 * success. Times are int64_t nanoseconds, -1 for ever. Sizes are size_t, file
 * offsets uint64_t, both in bytes. Every call may be made from any thread
 * unless its comment says otherwise. No call may be made in a signal handler.
 * In a child of fork(2) calls with an object of the parent's fail with -EPERM,
 * or give NULL or 0.
 */
#ifndef WEIR_BASE_H
#define WEIR_BASE_H

#include <stddef.h>
#include <stdint.h>

/* gcc's -Wshadow takes struct weir_x_info and weir_x_info() for a mistake. */
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
#else
#define WEIR_API
#define WEIR_NONNULL(...)
#define WEIR_NODISCARD
#endif

/*
 * Options: the first member of each struct weir_x_opts is its own size, so
 * that a library newer or older than the program knows what it was given.
 * Bytes beyond what the library knows must be 0, else -E2BIG.
 *
 *	struct weir_x_opts o = WEIR_X_OPTS_INIT;
 *
 * In C that is a designated initialiser, in C++ an inline function.
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
/* 0xMMmmpp00; weir_version() gives that of the library at run time. */
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
struct weir_event;
struct weir_file;
struct weir_model;
struct weir_plan;
struct weir_load;
struct weir_weights;

/* How an asynchronous operation failed, as kept where it happened. */
struct weir_failure {
	int32_t err;     /* negative errno; 0: no failure; never -ETIMEDOUT */
	int32_t native;  /* the device's own code (CUresult), else 0; ETIMEDOUT
			    if that was the cause, which err calls -EIO */
	uint64_t number; /* of the operation or tensor that failed */
	char text[240];  /* a sentence, always ended by a NUL */
};

/* The method by which a root does file I/O. */
enum weir_io {
	WEIR_IO_AUTO = 0,  /* the ring where it works, else threads */
	WEIR_IO_URING = 1, /* io_uring, or an error */
	WEIR_IO_SYNC = 2   /* a pool of threads with pread(2) */
};

/*
 * Receives messages that no call can return: memory that was leaked rather
 * than freed under hardware, a fallback that was taken. @text
 * is one line without a newline, valid during the call. Called on any thread;
 * it may not call into weir.
 */
typedef void weir_log_fn(void *arg, const char *text);

struct weir_opts {
	size_t size;
	uint32_t io;           /* enum weir_io */
	uint32_t reactors;     /* 0: chosen by the number of CPUs */
	uint32_t depth;        /* chunks in flight for each reactor; 0: 32 MiB
				   of them (256 MiB on network file systems) */
	uint32_t copiers;      /* threads that copy from the page cache; 0: one
				   for each CPU, at most 16 */
	uint64_t chunk;        /* bytes, a multiple of 4096; 0: 4 MiB */
	uint64_t staging;      /* budget of the staging slots of all reactors
				   together, bytes; 0: 64 MiB, or a chunk. At
				   least one large and one small slot exist */
	uint64_t keep;         /* host memory kept when buffers are freed,
				   bytes; 0: a quarter of what is available;
				   UINT64_MAX: keep none */
	int64_t close_timeout; /* ns; 0: 30 s */
	weir_log_fn *log;      /* NULL: nowhere */
	void *log_arg;
	const char *module_path; /* directories, colon separated, absolute,
				   searched before the built-in ones; NULL:
				   those of WEIR_MODULE_PATH */
	uint32_t flags;          /* WEIR_OPEN_* */
	uint32_t reserved;       /* 0 */
	int64_t read_timeout;    /* ns; a read that has not ended for so long
				   fails, if no other read of its load has
				   ended either; 0: 120 s, -1: never */
};
WEIR__DECLARE_OPTS_INIT(weir_opts)
#define WEIR_OPTS_INIT WEIR__OPTS_INIT(weir_opts)

/* Refuse modules that others could have written, instead of warning. */
#define WEIR_OPEN_STRICT_MODULES 1u

/* "0.1.0", and the same as a number like WEIR_VERSION. Never fail. */
WEIR_API const char *weir_version_string(void);
WEIR_API unsigned weir_version(void);

/*
 * This thread's last failure as a sentence, prefixed with the call:
 * "weir_model_open: a.safetensors: ...". Never NULL; "" before the first
 * failure. Valid until this thread's next failing call.
 */
WEIR_API const char *weir_error(void);

/*
 * Make a root: devices, modules, I/O engine and memory, all lazily. Cheap: no
 * thread, ring or device context exists before something needs it. NULL for
 * @opts means defaults. Free it by weir_close().
 *
 * -EINVAL: an option out of range. -E2BIG: options of a newer library.
 * -ENOMEM.
 */
WEIR_API int weir_open(const struct weir_opts *opts, struct weir **ret_weir)
	WEIR_NONNULL(2) WEIR_NODISCARD;

/*
 * Close the root. Takes NULL. Work that is queued is drained for at most
 * close_timeout; then what the kernel may still write to is leaked, never
 * freed, and reported to the log; waiters wake with -ESHUTDOWN. Objects made
 * from the root that are still held stay valid to free and to read; every call
 * that would need the root then fails with -ESHUTDOWN. Blocks. Not from a
 * host function or a release function.
 */
WEIR_API void weir_close(struct weir *weir);

/*
 * Give kept memory back to the system until at most @keep bytes of arenas and
 * staging slots stay: arenas at once, slots when their reactor next looks.
 * Memory in use stays, as do slots that are registered with the ring or
 * page-locked for a device. Fails only in a child of fork(2): -EPERM.
 */
WEIR_API int weir_trim(struct weir *weir, size_t keep) WEIR_NONNULL(1);

/* What the I/O engine of a root can do here, as found by trying. */
struct weir_io_info {
	size_t size;       /* set by the caller: sizeof(struct weir_io_info) */
	uint32_t method;   /* WEIR_IO_URING or WEIR_IO_SYNC: what is used */
	uint32_t features; /* WEIR_IO_HAS_* */
	uint32_t reactors;
	uint32_t depth; /* chunks in flight for each reactor */
	uint32_t copiers;
	uint32_t reserved;
	uint64_t chunk;
	uint64_t staging; /* bytes of slots that exist now */
	uint64_t enters;  /* calls of io_uring_enter(2) so far */
	char why[240];    /* why not the ring, or not all of it: each reason
			     that fits, in the order in which they were
			     found; "" if all */
};
#define WEIR_IO_HAS_RING 0x01u /* requests came back from a ring */
#define WEIR_IO_HAS_DEFER_TASKRUN 0x02u
#define WEIR_IO_HAS_RING_FD 0x04u /* registered ring */
#define WEIR_IO_HAS_FILES 0x08u   /* registered files */
#define WEIR_IO_HAS_BUFFERS 0x10u /* registered slots */

/*
 * Start the engine if it is not running yet, and say what it got.
 * -EPERM, -ENOSYS, ...: the root was opened with WEIR_IO_URING and the ring
 * does not work here; weir_error() says what forbids it.
 */
WEIR_API int weir_io_info(struct weir *weir, struct weir_io_info *ret_info)
	WEIR_NONNULL(1, 2);

/*
 * A trace of the engine and of the streams: Chrome's trace event format
 * (JSON), which Perfetto shows; a row for each reactor, each copier and each
 * stream, with the stream's name.
 * One at a time for a root: -EBUSY. It is kept in memory, up to 2^20 spans
 * (what comes later is left out), and written when it is stopped; -EIO and
 * others: it could not be written.
 */
WEIR_API int weir_trace_start(struct weir *weir, const char *path)
	WEIR_NONNULL(1, 2);
WEIR_API int weir_trace_stop(struct weir *weir) WEIR_NONNULL(1);

WEIR__END

#endif
