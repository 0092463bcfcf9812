/* SPDX-License-Identifier: MIT */
/*
 * Saves, which write tensors of any memory, or of other models' files, to
 * safetensors and GGUF files.
 *
 *	weir_save_new()		where to, in which format
 *	weir_save_add(), ...	tensors and metadata, in their order
 *	weir_save_start()	the rest happens in the background
 *	weir_save_wait()
 *
 * The files get temporary names in the folder of the path, and their own names
 * when all bytes are on the disk; the last name is the one by which the model
 * is opened. So at every moment the earlier model of that path or the new one
 * is whole, also if the process is killed or the machine stops.
 */
#ifndef WEIR_SAVE_H
#define WEIR_SAVE_H

#include <weir/base.h>
#include <weir/load.h>
#include <weir/model.h>
#include <weir/stream.h>
#include <weir/tensor.h>

WEIR__BEGIN

struct weir_save_opts {
	size_t size;
	const char *format;   /* "safetensors" or "GGUF"; NULL: by the ending of
				 the path, .safetensors or .gguf */
	uint64_t shard_bytes; /* at most so many bytes of tensors in a file,
				 unless one tensor has more; 0: one file */
	uint32_t flags;       /* WEIR_SAVE_* */
	uint32_t depth;       /* most chunks in flight; 0: the root's */
};
WEIR__DECLARE_OPTS_INIT(weir_save_opts)
#define WEIR_SAVE_OPTS_INIT WEIR__OPTS_INIT(weir_save_opts)

/*
 * Fail with -EEXIST if there is a file of that path, rather than replace it.
 */
#define WEIR_SAVE_NEW 0x01u
/*
 * Do not wait until the bytes are on the disk: after a power failure neither
 * the earlier model nor the new one may be whole.
 */
#define WEIR_SAVE_NOSYNC 0x02u
/*
 * Leave nothing in the page cache, neither of the files that are written nor
 * of those that weir_save_copy() reads.
 */
#define WEIR_SAVE_DROP 0x04u

/*
 * Make a save to @path. Nothing is written before weir_save_start().
 *
 * With opts.shard_bytes, if not all tensors fit one file, the files have names
 * with their numbers: of NAME.safetensors they are
 * NAME-00001-of-00003.safetensors ..., with NAME.safetensors.index.json; of
 * NAME.gguf, NAME-00001-of-00003.gguf ....
 *
 * -EINVAL: no file name, an unknown format, a path whose ending says none, or a
 * name of one file of a split GGUF model. -EROFS: @path is a URL.
 * -ENAMETOOLONG. -ENOMEM.
 */
WEIR_API int weir_save_new(struct weir *weir, const char *path,
			   const struct weir_save_opts *opts,
			   struct weir_save **ret_save)
	WEIR_NONNULL(1, 2, 4) WEIR_NODISCARD;
/*
 * Takes NULL; never blocks. A save that was started continues. No other thread
 * may be in a call with @save.
 */
WEIR_API void weir_save_free(struct weir_save *save);

/*
 * Add a tensor by the name @name. The call keeps a copy of @t, and references
 * its buffer. From weir_save_start() to the end of the save its bytes must not
 * be changed. @dtype: convert it to this enum weir_dtype, as weir_convert()
 * does; 0: do not convert. @t may be a view with any strides.
 *
 * One thread at a time adds tensors and metadata. -EEXIST: the save has a
 * tensor of that name. -EOPNOTSUPP: the format cannot hold the dtype, name or
 * dimensions. -EINVAL: not placed, of another root, no such conversion, or the
 * save has started. -ENOMEM.
 */
WEIR_API int weir_save_add(struct weir_save *save, const char *name,
			   const struct weir_tensor *t, uint32_t dtype)
	WEIR_NONNULL(1, 2, 3);
/*
 * Add tensor @i of @model, which is copied from its file, a chunk at a time.
 * @view, if it is not NULL, chooses a part of it, or another order of its
 * elements: a tensor that is not placed, of the same dtype, whose offset and
 * strides count in the bytes of tensor @i. Otherwise as weir_save_add(). The
 * model is referenced.
 *
 * -EINVAL also: no such tensor, or @view exceeds it.
 */
WEIR_API int weir_save_copy(struct weir_save *save, const char *name,
			    struct weir_model *model, size_t i,
			    const struct weir_tensor *view, uint32_t dtype)
	WEIR_NONNULL(1, 2, 3);
/*
 * Give tensor @name, which was added, another shape in the files: as many
 * elements in the same order. A view can so have more dimensions than the
 * tensor that is written. -ENOENT: no tensor of that name. -EINVAL: another
 * number of elements, or rows that are not whole blocks, or the save has
 * started. -EOPNOTSUPP: the format cannot hold it. -ENOMEM.
 */
WEIR_API int weir_save_shape(struct weir_save *save, const char *name,
			     unsigned ndim, const int64_t *shape)
	WEIR_NONNULL(1, 2);

/*
 * Set a pair of metadata: value->key and its value. A later value of the same
 * key replaces it. value->size is set. Of an array of strings or of arrays,
 * items is an array of len struct weir_value; of others as in struct
 * weir_value. All is copied.
 *
 * split.no, split.count and split.tensors.count, of a split GGUF model, are not
 * written as they are given, but as the files of the save are split.
 *
 * -EINVAL: no key, a key that is not UTF-8, or no such type. -EOPNOTSUPP: the
 * format cannot hold it: values in safetensors are strings of UTF-8. -ENOMEM.
 */
WEIR_API int weir_save_meta(struct weir_save *save,
			    const struct weir_value *value) WEIR_NONNULL(1, 2);
/*
 * Set the pairs of @model whose keys match @glob (fnmatch(3), no flags; NULL:
 * all), and that the save does not have. Returns how many. Errors of
 * weir_save_meta().
 */
WEIR_API int weir_save_copy_meta(struct weir_save *save,
				 const struct weir_model *model,
				 const char *glob) WEIR_NONNULL(1, 2);

struct weir_save_info {
	size_t size;        /* set by the caller */
	const char *format; /* "safetensors" or "GGUF" */
	uint64_t bytes;     /* bytes of all files, with headers and gaps */
	uint64_t tensors;   /* number of tensors */
	uint64_t data;      /* bytes of the tensors */
	uint64_t free;      /* bytes free in the file system of the path */
	uint32_t files;     /* number of files with tensors */
	uint32_t reserved;
};
/*
 * Compute what the files of the save have, as it is so far. Errors as
 * weir_save_start(). After that: what is written.
 */
WEIR_API int weir_save_info(struct weir_save *save,
			    struct weir_save_info *ret_info) WEIR_NONNULL(1, 2);

/*
 * Make the files, queue the work in the I/O engine, and return. @after: an
 * event after which the tensors may be read; NULL: now. A save is started
 * once. A relative path counts from the working directory of this moment.
 *
 * -EEXIST: with WEIR_SAVE_NEW, or files of a split GGUF model of these names
 * exist, which cannot be replaced at once. -ENOSPC, -EDQUOT, -EFBIG: the file
 * system has not as many bytes. -EINVAL: a device or pipe has the name, it was
 * started before, or @after was never recorded. Errors of open(2), fallocate(2)
 * and weir_io_info(). -ENOMEM.
 */
WEIR_API int weir_save_start(struct weir_save *save, struct weir_event *after)
	WEIR_NONNULL(1) WEIR_NODISCARD;
/*
 * Block until the files have their names, or the save has failed and its
 * temporary files are gone, for at most @timeout_ns.
 *
 * -ETIMEDOUT: not finished yet; the call returns it for no other reason.
 * -ECANCELED: weir_save_cancel() was called. -ESTALE: a file of a model that
 * weir_save_copy() reads has changed. -ESHUTDOWN: the root was closed.
 * -ENOSPC, -EIO and other errors of write(2), fsync(2) and rename(2).
 */
WEIR_API int weir_save_wait(struct weir_save *save, int64_t timeout_ns)
	WEIR_NONNULL(1);
/*
 * Record @event: it is done when the save has succeeded. -EINVAL: not started,
 * or an event of another root. -ENOMEM.
 */
WEIR_API int weir_save_record(struct weir_save *save, struct weir_event *event)
	WEIR_NONNULL(1, 2);
/*
 * Cancel: start no more writes. Returns at once; weir_save_wait() waits for
 * what is running. The temporary files are removed; their blocks may be freed
 * after the wait. A save whose files have their names already succeeds.
 */
WEIR_API int weir_save_cancel(struct weir_save *save) WEIR_NONNULL(1);
/*
 * Get the progress: bytes written and all bytes, headers included. tensors and
 * count are 0 and the number of tensors until the save has succeeded. Never
 * blocks.
 */
WEIR_API int weir_save_progress(struct weir_save *save,
				struct weir_progress *ret_progress)
	WEIR_NONNULL(1, 2);
/*
 * Why the save failed: returns the errno, or 0 if it has not failed so far.
 * ret_failure->number is the number of the tensor, in the order of the calls
 * that added them, or the number of tensors if it belongs to none.
 */
WEIR_API int weir_save_error(struct weir_save *save,
			     struct weir_failure *ret_failure)
	WEIR_NONNULL(1, 2);

struct weir_save_report {
	size_t size;        /* set by the caller */
	uint64_t bytes;     /* bytes that were written */
	uint64_t direct;    /* bytes of these that O_DIRECT wrote */
	uint64_t in_place;  /* bytes of direct that were written from the
			       tensors' own memory */
	uint64_t chunks;    /* number of chunks */
	uint64_t retries;   /* writes repeated: short, interrupted, refused */
	int64_t sync_ns;    /* time of the last fsync(2) calls */
	int64_t elapsed;    /* ns from weir_save_start() to the end */
	uint32_t io;        /* WEIR_IO_URING; WEIR_IO_SYNC */
	uint32_t leftovers; /* files that saves to this path have left, which
			       were killed; the note names them */
	char note[512];     /* what is worth to be known, or "" */
};
/* How the bytes were written. Complete when weir_save_wait() has returned. */
WEIR_API int weir_save_report(struct weir_save *save,
			      struct weir_save_report *ret_report)
	WEIR_NONNULL(1, 2);

WEIR__END

#endif
