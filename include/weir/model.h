/* SPDX-License-Identifier: MIT */
/*
 * Models, plans, loads and weights.
 *
 * model: what a file says. plan: what to load where. load: the bytes on their
 * way. weights: named tensors in memory. Each holds what it needs of the one
 * before; they may be freed in any order.
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

/* Accept what the format's reference reader accepts and its document does not. */
#define WEIR_MODEL_LENIENT 0x01u

/* One tensor of a model. Strings live as long as the model. */
struct weir_entry {
	size_t size;      /* set by the caller */
	const char *name; /* ended by a NUL, but may have one inside: */
	size_t name_len;  /* its bytes */
	uint32_t dtype;   /* enum weir_dtype */
	uint32_t ndim;
	int64_t shape[WEIR_MAX_DIMS];
	uint32_t shard; /* index of the file it is in */
	uint32_t reserved;
	uint64_t offset; /* in that file, bytes */
	uint64_t bytes;
};

/* A value of the metadata. For now all formats give strings. */
struct weir_value {
	size_t size; /* set by the caller */
	const char *key;
	size_t key_len;
	const char *str; /* ended by a NUL */
	size_t len;
};

struct weir_model_info {
	size_t size;         /* set by the caller */
	const char *path;    /* as it was resolved: a file or an index */
	const char *format;  /* "safetensors" */
	uint64_t bytes;      /* of all tensors */
	uint64_t count;      /* tensors */
	uint64_t meta;       /* pairs of metadata */
	uint64_t unlisted;   /* tensors of shards that the index leaves out */
	uint64_t total_size; /* as the index claims; 0: it does not say */
	uint32_t shards;
	uint32_t reserved;
};

/*
 * Read the tables of a model, and nothing else: a file, an index of shards
 * (*.index.json) or a directory that holds one of them. Every number is
 * checked before it is used.
 *
 * -EBADMSG: the content breaks the format's rules; the sentence names file,
 * tensor and numbers. -ENOENT and other errnos of open(2). -EOPNOTSUPP:
 * another format. -ESTALE: a file changed while it was read. Blocks; a file
 * that was written to just now is waited for (weir-io(7)).
 */
WEIR_API int weir_model_open(struct weir *weir, const char *path,
			     const struct weir_model_opts *opts,
			     struct weir_model **ret_model)
	WEIR_NONNULL(1, 2, 4) WEIR_NODISCARD;
WEIR_API void weir_model_close(struct weir_model *model);
WEIR_API int weir_model_info(const struct weir_model *model,
			     struct weir_model_info *ret_info)
	WEIR_NONNULL(1, 2);
WEIR_API size_t weir_model_count(const struct weir_model *model)
	WEIR_NONNULL(1);
/* Tensor @i, in the order of shard and offset. -EINVAL: past the end. */
WEIR_API int weir_model_tensor(const struct weir_model *model, size_t i,
			       struct weir_entry *ret_entry) WEIR_NONNULL(1, 3);
/* -ENOENT: no tensor of that name. */
WEIR_API int weir_model_find(const struct weir_model *model, const char *name,
			     size_t *ret_i) WEIR_NONNULL(1, 2, 3);
/* Metadata by key, or by number. -ENOENT, -EINVAL: past the end. */
WEIR_API int weir_model_meta(const struct weir_model *model, const char *key,
			     struct weir_value *ret_value)
	WEIR_NONNULL(1, 2, 3);
WEIR_API int weir_model_meta_at(const struct weir_model *model, size_t i,
				struct weir_value *ret_value)
	WEIR_NONNULL(1, 3);
/* Shard @i, borrowed from the model; NULL past the end. */
WEIR_API struct weir_file *weir_model_file(const struct weir_model *model,
					   unsigned i) WEIR_NONNULL(1);

/* A plan with nothing chosen. It may be looked at, used again and freed. */
WEIR_API int weir_plan_new(struct weir_model *model,
			   struct weir_plan **ret_plan)
	WEIR_NONNULL(1, 2) WEIR_NODISCARD;
WEIR_API void weir_plan_free(struct weir_plan *plan);

/* Which way the bytes go: see weir-io(7). */
enum weir_way {
	WEIR_WAY_AUTO = 0,     /* resident: buffered; else direct */
	WEIR_WAY_MAP = 1,      /* read-only pages of the file, in place */
	WEIR_WAY_BUFFERED = 2, /* through the page cache */
	WEIR_WAY_DIRECT = 3    /* O_DIRECT */
};

struct weir_put_opts {
	size_t size;
	uint64_t align;       /* of each tensor's address, a power of two <=
				   4096; 0: the dtype's own (on a device: the
				   kind's) */
	struct weir_buf *buf; /* into this buffer; NULL: new ones */
	uint64_t offset;      /* first byte of @buf that may be used */
	uint32_t way;         /* enum weir_way */
	uint32_t reserved;    /* 0 */
};
WEIR__DECLARE_OPTS_INIT(weir_put_opts)
#define WEIR_PUT_OPTS_INIT WEIR__OPTS_INIT(weir_put_opts)

/*
 * Choose every tensor whose whole name matches @glob (fnmatch(3), no flags)
 * and that no earlier put has chosen, to be placed in memory of @buft. NULL
 * for @glob matches all. Returns how many were chosen.
 *
 * Several puts may share a buffer, or memory that several buffers wrap: each
 * has the bytes from its offset to that of the next one, or the end of its
 * buffer; with the same offset they follow each other in the order of the
 * calls. What fits, in the order of the file and each tensor aligned, is
 * placed there; no two tensors of a plan ever share a byte.
 *
 * -ENOENT: @glob matches no tensor of the model at all. -EINVAL: an alignment,
 * a buffer that is joined, read-only, of another kind or shorter than the
 * offset, an offset without a buffer, or WEIR_WAY_MAP with memory that is not
 * of kind MAPPED (and the reverse).
 */
WEIR_API int weir_plan_put(struct weir_plan *plan, const char *glob,
			   struct weir_buft *buft,
			   const struct weir_put_opts *opts) WEIR_NONNULL(1, 3);

/* What a plan needs of one kind of memory. */
struct weir_estimate {
	size_t size; /* set by the caller, in ret[0] for all */
	struct weir_buft *buft;
	uint64_t bytes; /* to be allocated */
	uint64_t tensors;
	uint64_t free; /* what can be had now; UINT64_MAX: not known */
	uint32_t fits; /* 1: what all kinds that take from the same memory (the
			  host's, or that of one GPU) need together is free */
	uint32_t reserved;
	uint64_t given; /* bytes of tensors in buffers of the caller's */
};
/*
 * Estimate without side effect. Fills up to @n entries, returns how many
 * kinds there are. -ENOSPC: the tensors put into a given buffer do not fit.
 * -ENOMEM: a tensor is larger than any buffer of its kind.
 */
WEIR_API int weir_plan_estimate(struct weir_plan *plan,
				struct weir_estimate *ret, unsigned n)
	WEIR_NONNULL(1);

struct weir_load_opts {
	size_t size;
	uint32_t flags; /* WEIR_LOAD_* */
	uint32_t depth; /* chunks in flight of this load; 0: the root's */
	struct weir_weights *into; /* load again into the memory of these, which
				   an equal plan made; NULL: new memory */
};
WEIR__DECLARE_OPTS_INIT(weir_load_opts)
#define WEIR_LOAD_OPTS_INIT WEIR__OPTS_INIT(weir_load_opts)

/*
 * Do not compare identity, size, mtime and ctime of the files after the last
 * read: for files that are renamed, linked or removed meanwhile.
 */
#define WEIR_LOAD_UNCHECKED 0x01u

/*
 * Start the load that @plan describes: memory is taken, reads are dealt to
 * the engine, and the call returns. The plan may be freed at once.
 * -ENOMEM: the sentence has what is needed and what is available. -ENOSPC: as
 * the estimate. -EBUSY: @into is being loaded already. -EINVAL: @into was made
 * by another plan.
 */
WEIR_API int weir_load_start(struct weir_plan *plan,
			     const struct weir_load_opts *opts,
			     struct weir_load **ret_load)
	WEIR_NONNULL(1, 3) WEIR_NODISCARD;
/* Drop the reference; a load that is under way goes on. Takes NULL. */
WEIR_API void weir_load_free(struct weir_load *load);

/*
 * The tensors, at once; their bytes follow (weir_load_record says when).
 * Tensor i of the weights is the i-th that the plan chose, in model order.
 */
WEIR_API int weir_load_weights(struct weir_load *load,
			       struct weir_weights **ret_weights)
	WEIR_NONNULL(1, 2) WEIR_NODISCARD;

#define WEIR_ALL ((size_t)-1)
/* Record in @event the arrival of tensor @i of the weights, or of WEIR_ALL. */
WEIR_API int weir_load_record(struct weir_load *load, size_t i,
			      struct weir_event *event) WEIR_NONNULL(1, 3);
/*
 * Block until every tensor has arrived or failed and no read is out.
 * 0: all have arrived. -ETIMEDOUT: not yet, and nothing else. Else the errno
 * of the first failure (-ECANCELED after weir_load_cancel, -ESTALE if a file
 * changed meanwhile, -ETIME if a read did not end within read_timeout,
 * -ESHUTDOWN if the root was closed while reads were out).
 */
WEIR_API int weir_load_wait(struct weir_load *load, int64_t timeout_ns)
	WEIR_NONNULL(1);

struct weir_progress {
	size_t size;    /* set by the caller */
	uint64_t bytes; /* arrived; may lag events by up to a chunk */
	uint64_t total;
	uint64_t tensors; /* arrived */
	uint64_t failed;  /* tensors */
	uint64_t count;   /* tensors in all */
	int64_t elapsed;  /* ns since weir_load_start */
};
WEIR_API int weir_load_progress(struct weir_load *load,
				struct weir_progress *ret_progress)
	WEIR_NONNULL(1, 2);
/*
 * Why tensor @i failed, 0: it did not, or not yet. For WEIR_ALL: the first to
 * fail so far, whose number is in *ret_failure; if all tensors had arrived (a
 * file has changed), that is weir_weights_count().
 */
WEIR_API int weir_load_error(struct weir_load *load, size_t i,
			     struct weir_failure *ret_failure)
	WEIR_NONNULL(1, 3);

struct weir_load_report {
	size_t size;        /* set by the caller */
	uint64_t bytes;     /* of tensors that arrived */
	uint64_t in_place;  /* bytes read straight to where they stay */
	uint64_t staged;    /* bytes that went through a slot */
	uint64_t buffered;  /* bytes copied out of the page cache */
	uint64_t mapped;    /* bytes made readable by a mapping */
	uint64_t over_read; /* bytes read and dropped: gaps, block ends */
	uint64_t chunks;
	uint64_t retries;   /* short, interrupted or refused reads repeated */
	uint64_t enters;    /* io_uring_enter(2) of the engine meanwhile */
	uint64_t staging;   /* bytes of slots when it ended */
	int64_t touch_ns;   /* spent touching fresh memory, all threads */
	int64_t elapsed;    /* ns from weir_load_start to the last tensor */
	uint32_t io;        /* WEIR_IO_URING or WEIR_IO_SYNC */
	uint32_t fallbacks; /* files that refused O_DIRECT */
	char note[240];     /* why it went slower than it might, or "" */
};
WEIR_API int weir_load_report(struct weir_load *load,
			      struct weir_load_report *ret_report)
	WEIR_NONNULL(1, 2);
/* Deal no more chunks. Returns at once; weir_load_wait drains. */
WEIR_API int weir_load_cancel(struct weir_load *load) WEIR_NONNULL(1);

/* Everything above with defaults, in one blocking call. */
WEIR_API int weir_load_all(struct weir *weir, const char *path,
			   struct weir_buft *buft,
			   struct weir_weights **ret_weights)
	WEIR_NONNULL(1, 2, 3, 4) WEIR_NODISCARD;

/*
 * Named tensors that own their buffers. A tensor copied out does not:
 * weir_buf_ref(t.buf) keeps its memory.
 */
WEIR_API size_t weir_weights_count(const struct weir_weights *weights)
	WEIR_NONNULL(1);
/* Borrowed; NULL past the end, or no such name. */
WEIR_API const struct weir_tensor *
weir_weights_get(const struct weir_weights *weights, size_t i) WEIR_NONNULL(1);
WEIR_API const struct weir_tensor *
weir_weights_find(const struct weir_weights *weights, const char *name)
	WEIR_NONNULL(1, 2);
/* Number of the tensor in its model. -EINVAL: past the end. */
WEIR_API int weir_weights_entry(const struct weir_weights *weights, size_t i,
				struct weir_entry *ret_entry)
	WEIR_NONNULL(1, 3);
/* Take a reference (returns @weights), drop one. */
WEIR_API struct weir_weights *weir_weights_ref(struct weir_weights *weights)
	WEIR_NONNULL(1);
WEIR_API void weir_weights_free(struct weir_weights *weights);

enum weir_digest {
	WEIR_DIGEST_XXH3 = 0,  /* XXH3-128, canonical (big-endian): 16 bytes */
	WEIR_DIGEST_SHA256 = 1 /* 32 bytes */
};
/*
 * Digest of the bytes of tensor @i where they are now. Blocks until the tensor
 * has arrived. Returns the bytes of the digest written.
 * Its own error if the tensor failed to load.
 */
WEIR_API int weir_weights_digest(struct weir_weights *weights, size_t i,
				 enum weir_digest kind, uint8_t ret_digest[32])
	WEIR_NONNULL(1, 4);

WEIR__END

#endif
