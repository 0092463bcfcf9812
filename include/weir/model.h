/* SPDX-License-Identifier: MIT */
/*
 * Models, plans, loads and weights. To load a model a program makes one after
 * the other:
 *
 *	model    the names, shapes and file offsets of the tensors in a file
 *	plan     which tensors to load, and into which memory
 *	load     the transfer, from weir_load_start() on
 *	weights  the tensors in memory, with the buffers that they are placed in
 *
 * Each has its own references to what it needs: free them in any order.
 */
#ifndef WEIR_MODEL_H
#define WEIR_MODEL_H

#include <weir/base.h>
#include <weir/dev.h>
#include <weir/file.h>
#include <weir/mem.h>
#include <weir/stream.h>
#include <weir/tensor.h>

WEIR__BEGIN

struct weir_model_opts {
	size_t size;
	uint32_t flags;    /* WEIR_MODEL_* */
	uint32_t reserved; /* 0 */
};
WEIR__DECLARE_OPTS_INIT(weir_model_opts)
#define WEIR_MODEL_OPTS_INIT WEIR__OPTS_INIT(weir_model_opts)

/*
 * Accept files that the format's reference reader accepts although its
 * specification forbids them: a name that occurs twice, for instance.
 */
#define WEIR_MODEL_LENIENT 0x01u

/* A tensor as the model's files describe it. */
struct weir_entry {
	size_t size;      /* set by the caller */
	const char *name; /* ends with a NUL, but may contain others */
	size_t name_len;  /* bytes of the name */
	uint32_t dtype;   /* enum weir_dtype */
	uint32_t ndim;
	int64_t shape[WEIR_MAX_DIMS]; /* elements; [0] is the outermost */
	uint32_t shard;               /* number of its file */
	uint32_t reserved;
	uint64_t offset; /* of its first byte in that file */
	uint64_t bytes;  /* size of its data */
};

/* A key of the metadata and its value, which is a string. */
struct weir_value {
	size_t size;     /* set by the caller */
	const char *key; /* ends with a NUL */
	size_t key_len;  /* bytes of the key */
	const char *str; /* the value; ends with a NUL */
	size_t len;      /* bytes of the value */
};

struct weir_model_info {
	size_t size;         /* set by the caller */
	const char *path;    /* of the file or index that was found */
	const char *format;  /* "safetensors" */
	uint64_t bytes;      /* of all tensors */
	uint64_t count;      /* number of tensors */
	uint64_t meta;       /* number of metadata keys */
	uint64_t unlisted;   /* tensors in shards that the index omits */
	uint64_t total_size; /* bytes, as the index says; 0: it does not */
	uint32_t shards;     /* number of files with tensors */
	uint32_t reserved;
};

/*
 * Open a model and read its headers, not its tensors. @path is a safetensors
 * file, an index of shards (*.index.json), or a directory that contains one of
 * them. Every number in a header is checked before it is used.
 *
 * Blocks. If a file was written to just now, the call waits a few milliseconds
 * (up to 2 s on file systems that store whole seconds), so that
 * weir_load_wait() can detect later changes: see weir-io(7).
 *
 * -EBADMSG: the content violates the format; the sentence names the file, the
 * tensor and the numbers. -EOPNOTSUPP: another format. -ESTALE: a file changed
 * while it was read. -EINVAL: not a regular file, or a directory with several
 * models. -ENOMEM. -ENOENT and other errors of open(2) and read(2).
 */
WEIR_API int weir_model_open(struct weir *weir, const char *path,
			     const struct weir_model_opts *opts,
			     struct weir_model **ret_model)
	WEIR_NONNULL(1, 2, 4) WEIR_NODISCARD;
/* Takes NULL; never blocks. Plans, loads and weights stay valid. */
WEIR_API void weir_model_close(struct weir_model *model);
/*
 * Describe the model. The strings that this and the following calls return
 * exist as long as the model.
 */
WEIR_API int weir_model_info(const struct weir_model *model,
			     struct weir_model_info *ret_info)
	WEIR_NONNULL(1, 2);
/* The number of tensors. */
WEIR_API size_t weir_model_count(const struct weir_model *model)
	WEIR_NONNULL(1);
/* Describe tensor @i, in order of shard and offset. -EINVAL: past the end. */
WEIR_API int weir_model_tensor(const struct weir_model *model, size_t i,
			       struct weir_entry *ret_entry) WEIR_NONNULL(1, 3);
/* The number of the tensor with this name. -ENOENT: there is none. */
WEIR_API int weir_model_find(const struct weir_model *model, const char *name,
			     size_t *ret_i) WEIR_NONNULL(1, 2, 3);
/*
 * A value of the metadata, by key or by number. -ENOENT: no such key. -EINVAL:
 * @i is past the end.
 */
WEIR_API int weir_model_meta(const struct weir_model *model, const char *key,
			     struct weir_value *ret_value)
	WEIR_NONNULL(1, 2, 3);
WEIR_API int weir_model_meta_at(const struct weir_model *model, size_t i,
				struct weir_value *ret_value)
	WEIR_NONNULL(1, 3);
/* The file of shard @i, without a reference. NULL: @i is past the end. */
WEIR_API struct weir_file *weir_model_file(const struct weir_model *model,
					   unsigned i) WEIR_NONNULL(1);

/*
 * Make an empty plan. One plan may be used for several loads. Two threads may
 * not change the same plan at the same time. weir_plan_free() takes NULL and
 * may be called while a load of the plan is running.
 */
WEIR_API int weir_plan_new(struct weir_model *model,
			   struct weir_plan **ret_plan)
	WEIR_NONNULL(1, 2) WEIR_NODISCARD;
WEIR_API void weir_plan_free(struct weir_plan *plan);

/* How the bytes get from the file into memory: see weir-io(7). */
enum weir_way {
	WEIR_WAY_AUTO = 0,     /* BUFFERED for what is in the page cache, else
				  DIRECT */
	WEIR_WAY_MAP = 1,      /* no copy: map the file's pages, read-only */
	WEIR_WAY_BUFFERED = 2, /* read them through the page cache */
	WEIR_WAY_DIRECT = 3    /* read them with O_DIRECT */
};

struct weir_put_opts {
	size_t size;
	uint64_t align;       /* of each tensor's address: a power of two up to
				   4096; 0: weir_dtype_info.align, on devices
				   weir_buft_info.align */
	struct weir_buf *buf; /* place the tensors in this; NULL: new buffers */
	uint64_t offset;      /* first byte of @buf that may be used */
	uint32_t way;         /* enum weir_way */
	uint32_t reserved;    /* 0 */
};
WEIR__DECLARE_OPTS_INIT(weir_put_opts)
#define WEIR_PUT_OPTS_INIT WEIR__OPTS_INIT(weir_put_opts)

/*
 * Choose the tensors whose whole name matches @glob (fnmatch(3), no flags) and
 * that no earlier call has chosen; they will be placed in memory of @buft. NULL
 * for @glob matches all. Returns how many tensors it chose.
 *
 * Several calls may use the same buffer, or buffers that wrap the same memory.
 * Each may use the bytes from its offset up to that of the next call, or up to
 * the end of the buffer. Calls with the same offset share these bytes: their
 * tensors follow each other in the order of the calls. Tensors are placed in
 * the order of the file, each aligned, and never overlap.
 *
 * -ENOENT: no tensor of the model matches @glob. -EINVAL: an invalid alignment;
 * a buffer that is joined, read-only, not of @buft or shorter than the offset;
 * an offset without a buffer; WEIR_WAY_MAP with memory that is not of kind
 * MAPPED, or the reverse. -ENOMEM.
 */
WEIR_API int weir_plan_put(struct weir_plan *plan, const char *glob,
			   struct weir_buft *buft,
			   const struct weir_put_opts *opts) WEIR_NONNULL(1, 3);

/* The memory of one buffer type that a plan needs. */
struct weir_estimate {
	size_t size; /* set by the caller in ret[0], for all entries */
	struct weir_buft *buft;
	uint64_t bytes;   /* to allocate */
	uint64_t tensors; /* number of tensors placed in it */
	uint64_t free;    /* bytes available now; UINT64_MAX: unknown */
	uint32_t fits;    /* 1: enough is free for all buffer types of the plan
			     that use the same memory (the host's, or that of
			     one GPU) */
	uint32_t reserved;
	uint64_t given; /* bytes of tensors placed in weir_put_opts.buf */
};
/*
 * Compute what the plan needs, without allocating it. Fills in up to @n entries
 * and returns the number of buffer types, which may exceed @n.
 * -ENOSPC: tensors do not fit the buffer given for them. -ENOMEM: a tensor
 * exceeds the largest buffer of its type, or no memory for the computation.
 */
WEIR_API int weir_plan_estimate(struct weir_plan *plan,
				struct weir_estimate *ret, unsigned n)
	WEIR_NONNULL(1);

struct weir_load_opts {
	size_t size;
	uint32_t flags; /* WEIR_LOAD_* */
	uint32_t depth; /* most chunks of this load in flight; 0: the root's */
	struct weir_weights *into; /* weights of an earlier load by an equal
				   plan: load into their memory again. NULL: new
				   memory */
};
WEIR__DECLARE_OPTS_INIT(weir_load_opts)
#define WEIR_LOAD_OPTS_INIT WEIR__OPTS_INIT(weir_load_opts)

/*
 * Do not check, after the last read, whether the files have changed (device,
 * inode, size, mtime, ctime). For files that may be renamed, linked or removed
 * during the load.
 */
#define WEIR_LOAD_UNCHECKED 0x01u

/*
 * Start the load that @plan describes: allocate the memory, queue the reads in
 * the I/O engine, and return without waiting for a read. The plan may be freed
 * or used again at once. A load of up to 1 MiB may be copied out of the page
 * cache on the calling thread, within the same limit as weir_stream_read().
 *
 * -ENOMEM: the sentence has the needed and the available memory. -ENOSPC: as
 * weir_plan_estimate(). With opts.into: -EBUSY: a load into it is running.
 * -EINVAL: its plan was not equal. -ESTALE: a file that it maps was replaced.
 * -EIO: reads of an earlier load may still write to it. Errors of
 * weir_io_info().
 */
WEIR_API int weir_load_start(struct weir_plan *plan,
			     const struct weir_load_opts *opts,
			     struct weir_load **ret_load)
	WEIR_NONNULL(1, 3) WEIR_NODISCARD;
/* Takes NULL; never blocks. A load that is running continues. */
WEIR_API void weir_load_free(struct weir_load *load);

/*
 * Get the weights, with a reference for the caller, before their bytes have
 * arrived: weir_load_record() and weir_load_wait() report that. Tensor i of the
 * weights is the i-th of those that the plan chose, in the order of the model.
 */
WEIR_API int weir_load_weights(struct weir_load *load,
			       struct weir_weights **ret_weights)
	WEIR_NONNULL(1, 2) WEIR_NODISCARD;

#define WEIR_ALL ((size_t)-1)
/*
 * Record @event: it is done when tensor @i of the weights has arrived, or with
 * WEIR_ALL when the whole load has succeeded. -EINVAL: @i is past the end, or
 * an event of another root.
 */
WEIR_API int weir_load_record(struct weir_load *load, size_t i,
			      struct weir_event *event) WEIR_NONNULL(1, 3);
/*
 * Block until every tensor has arrived or failed and no read is running, apart
 * from reads that were given up, for at most @timeout_ns. Returns 0 if all
 * tensors have arrived, else the errno of the first failure.
 *
 * -ETIMEDOUT: not finished yet; the call returns it for no other reason.
 * -ECANCELED: weir_load_cancel() was called. -ESTALE: a file has changed since
 * the model was opened. -ETIME: a read did not end within
 * weir_opts.read_timeout. -ESHUTDOWN: the root was closed before all reads had
 * ended. -EIO and other errors of read(2).
 */
WEIR_API int weir_load_wait(struct weir_load *load, int64_t timeout_ns)
	WEIR_NONNULL(1);

struct weir_progress {
	size_t size;      /* set by the caller */
	uint64_t bytes;   /* arrived; may be a chunk less than events say */
	uint64_t total;   /* bytes of all tensors of the load */
	uint64_t tensors; /* number that have arrived */
	uint64_t failed;  /* number that have failed */
	uint64_t count;   /* number of all */
	int64_t elapsed;  /* ns since weir_load_start() */
};
/* Get the progress of the load. Never blocks. */
WEIR_API int weir_load_progress(struct weir_load *load,
				struct weir_progress *ret_progress)
	WEIR_NONNULL(1, 2);
/*
 * Why tensor @i failed: returns the errno, or 0 if it has not failed so far.
 * For WEIR_ALL: the first failure so far. ret_failure->number is the number of
 * the tensor that failed; if all tensors arrived but the load failed, since a
 * file has changed, it is weir_weights_count().
 */
WEIR_API int weir_load_error(struct weir_load *load, size_t i,
			     struct weir_failure *ret_failure)
	WEIR_NONNULL(1, 3);

struct weir_load_report {
	size_t size;        /* set by the caller */
	uint64_t bytes;     /* of tensors that arrived */
	uint64_t in_place;  /* bytes read directly into their final memory */
	uint64_t staged;    /* bytes read into a slot and copied from there */
	uint64_t buffered;  /* bytes copied out of the page cache */
	uint64_t mapped;    /* bytes that are mapped pages of the files */
	uint64_t over_read; /* bytes read and dropped: gaps, ends of blocks */
	uint64_t chunks;    /* number of chunks */
	uint64_t retries;   /* reads repeated: short, interrupted, refused */
	uint64_t enters;    /* calls of io_uring_enter(2) during the load */
	uint64_t staging;   /* bytes of slots at the end */
	int64_t touch_ns;   /* time for backing fresh memory with pages: the sum
			       of all threads, ns */
	int64_t elapsed;    /* ns from weir_load_start() to the last tensor */
	uint32_t io; /* WEIR_IO_URING; WEIR_IO_SYNC: no ring, or no need */
	uint32_t fallbacks; /* number of files without O_DIRECT */
	char note[240];     /* why it was slower than it could be, or "" */
};
/* How the bytes were read. Complete when weir_load_wait() has returned. */
WEIR_API int weir_load_report(struct weir_load *load,
			      struct weir_load_report *ret_report)
	WEIR_NONNULL(1, 2);
/*
 * Cancel: start no more reads. Returns at once; reads that are running finish,
 * and weir_load_wait() waits for them. Tensors that have not arrived fail with
 * -ECANCELED.
 */
WEIR_API int weir_load_cancel(struct weir_load *load) WEIR_NONNULL(1);

/*
 * Open the model at @path, load all of its tensors into memory of @buft, and
 * wait, all with defaults. Blocks. Has the errors of all these steps.
 */
WEIR_API int weir_load_all(struct weir *weir, const char *path,
			   struct weir_buft *buft,
			   struct weir_weights **ret_weights)
	WEIR_NONNULL(1, 2, 3, 4) WEIR_NODISCARD;

/*
 * The number of tensors in weights. Weights own the buffers of their tensors:
 * to keep the memory of a tensor @t longer than the weights, call
 * weir_buf_ref(t.buf).
 */
WEIR_API size_t weir_weights_count(const struct weir_weights *weights)
	WEIR_NONNULL(1);
/*
 * A tensor by number or by name; it exists as long as the weights. NULL: past
 * the end, or no tensor has this name. Its bytes may not have arrived yet.
 */
WEIR_API const struct weir_tensor *
weir_weights_get(const struct weir_weights *weights, size_t i) WEIR_NONNULL(1);
WEIR_API const struct weir_tensor *
weir_weights_find(const struct weir_weights *weights, const char *name)
	WEIR_NONNULL(1, 2);
/*
 * Describe where tensor @i came from, as weir_model_tensor() does. -EINVAL:
 * past the end.
 */
WEIR_API int weir_weights_entry(const struct weir_weights *weights, size_t i,
				struct weir_entry *ret_entry)
	WEIR_NONNULL(1, 3);
/* Take a reference and return @weights; drop a reference (NULL is allowed). */
WEIR_API struct weir_weights *weir_weights_ref(struct weir_weights *weights)
	WEIR_NONNULL(1);
WEIR_API void weir_weights_free(struct weir_weights *weights);

enum weir_digest {
	WEIR_DIGEST_XXH3 = 0,  /* XXH3-128, big-endian: 16 bytes */
	WEIR_DIGEST_SHA256 = 1 /* 32 bytes */
};
/*
 * Compute the digest of tensor @i from the bytes in memory. Blocks until the
 * tensor has arrived, then while it computes. Returns the size of the digest in
 * bytes. -EINVAL: @i is past the end, or @kind is not an enum weir_digest.
 * -ENOMEM: no memory to copy device memory through. If the tensor failed to
 * load: its error.
 */
WEIR_API int weir_weights_digest(struct weir_weights *weights, size_t i,
				 enum weir_digest kind, uint8_t ret_digest[32])
	WEIR_NONNULL(1, 4);

WEIR__END

#endif
