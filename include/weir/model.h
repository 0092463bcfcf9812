/* SPDX-License-Identifier: MIT */
/*
 * Models: the names, shapes, metadata and file offsets of the tensors in model
 * files. To load a model a program makes one after the other:
 *
 *	model    what is in the files: this header
 *	plan     which tensors to load, and into which memory: plan.h
 *	load     the transfer, from weir_load_start() on: load.h
 *	weights  the tensors in memory, with the buffers that they are placed in
 *
 * Each has its own references to what it needs: free them in any order.
 */
#ifndef WEIR_MODEL_H
#define WEIR_MODEL_H

#include <weir/base.h>
#include <weir/file.h>
#include <weir/tensor.h>

WEIR__BEGIN

struct weir_model_opts {
	size_t size;
	uint32_t flags;    /* WEIR_MODEL_* */
	uint32_t reserved; /* 0 */
	uint64_t memory;   /* most bytes for headers and the tables made from
			      them, of all files together; 0: 256 MiB */
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
	uint64_t offset; /* place of its first byte in that file */
	uint64_t bytes;  /* size of its data */
};

/*
 * Types of metadata: those of GGUF; safetensors has only strings. The numbers
 * are part of the ABI; new ones are added at the end.
 */
enum weir_value_type {
	WEIR_VALUE_STRING = 0,
	WEIR_VALUE_BOOL = 1,
	WEIR_VALUE_U8 = 2,
	WEIR_VALUE_I8 = 3,
	WEIR_VALUE_U16 = 4,
	WEIR_VALUE_I16 = 5,
	WEIR_VALUE_U32 = 6,
	WEIR_VALUE_I32 = 7,
	WEIR_VALUE_U64 = 8,
	WEIR_VALUE_I64 = 9,
	WEIR_VALUE_F32 = 10,
	WEIR_VALUE_F64 = 11,
	WEIR_VALUE_ARRAY = 12
};

/*
 * A key of the metadata and its value, or an item of an array. Members that
 * the type does not use are 0 or NULL.
 */
struct weir_value {
	size_t size;        /* set by the caller */
	const char *key;    /* ends with a NUL; NULL: an item of an array */
	size_t key_len;     /* bytes of the key */
	const char *str;    /* STRING: the value; ends with a NUL */
	size_t len;         /* STRING: bytes of str; ARRAY: number of items */
	uint32_t type;      /* enum weir_value_type */
	uint32_t item_type; /* ARRAY: the type of its items */
	uint64_t u;         /* BOOL (0 or 1) and integers: modulo 2^64 */
	int64_t i;          /* the same, as a signed number */
	double f; /* BOOL, integers, F32 and F64: rounded to a double */
	/*
	 * ARRAY of BOOL (bytes, each 0 or 1), of integers or of F32 and F64:
	 * len items in the host's byte order, one after the other, aligned to
	 * the size of one. NULL for STRING and ARRAY: see
	 * weir_model_meta_item().
	 */
	const void *items;
	const void *internal; /* ARRAY: for weir_model_meta_item() */
};

struct weir_model_info {
	size_t size;         /* set by the caller */
	const char *path;    /* path of the file or index that was found */
	const char *format;  /* "safetensors" or "GGUF" */
	uint64_t bytes;      /* bytes of all tensors */
	uint64_t count;      /* number of tensors */
	uint64_t meta;       /* number of metadata keys */
	uint64_t unlisted;   /* tensors in shards that the index omits */
	uint64_t total_size; /* bytes according to the index; 0: it has no such
				number */
	uint32_t shards;     /* number of files with tensors */
	uint32_t reserved;
};

/*
 * Open a model and read its headers, not its tensors. @path is a safetensors
 * or GGUF file, an index of safetensors shards (*.index.json), any file of a
 * split GGUF model (NAME-00001-of-00003.gguf), or a directory that contains
 * one model; or the URL of one of these, where shards and parts are beside an
 * index. Every number in a header is checked before it is used.
 *
 * Blocks. If a file was written to just before, it waits a few milliseconds
 * (2 s on file systems that store whole seconds; three times as long at most
 * if it is written to meanwhile), so that weir_load_wait() can detect later
 * changes: see weir-io(7).
 *
 * -EBADMSG: the content violates the format; the sentence names the file, the
 * tensor and the numbers. -EOPNOTSUPP: another format. -ESTALE: a file changed
 * while it was read. -EINVAL: @path is not a regular file, or is a directory
 * with several models. -ENOMEM: there is no memory, or opts->memory or the
 * root's budget would be exceeded. -ENOENT and other errors of open(2) and
 * read(2).
 */
WEIR_API int weir_model_open(struct weir *weir, const char *path,
			     const struct weir_model_opts *opts,
			     struct weir_model **ret_model)
	WEIR_NONNULL(1, 2, 4) WEIR_NODISCARD;

/* A file that the caller has open. */
struct weir_model_fd {
	int fd;
	uint32_t reserved; /* 0 */
	const char *name;  /* its name in sentences; NULL: "descriptor FD" */
};
/*
 * Open a model whose @n files the caller has opened: one file, or the shards
 * in their order, without an index; the model has the tensors of all.
 * Descriptors stay the caller's, with their offsets and flags, and may be
 * closed when the call returns. Memory files (memfd_create(2)) and removed
 * files work, too. weir_model_info.path is the name of the first.
 *
 * Each file is opened again through /proc/self/fd. Where that is refused, the
 * descriptor is duplicated, and there are no direct reads.
 *
 * Blocks as weir_model_open() does, and has its errors. -EBADF: a descriptor
 * is not open, or does not allow reads. -EISDIR: it is of a directory.
 * -EINVAL: @n is 0; it is of a pipe, socket or device; or O_DIRECT or
 * O_NONBLOCK is set and the file cannot be opened again. -EBADMSG: two files
 * have a tensor of the same name.
 */
WEIR_API int weir_model_open_fds(struct weir *weir,
				 const struct weir_model_fd *fds, unsigned n,
				 const struct weir_model_opts *opts,
				 struct weir_model **ret_model)
	WEIR_NONNULL(1, 2, 5) WEIR_NODISCARD;
/*
 * Open a model whose @n files are open: one file, or the shards in their order,
 * without an index, as weir_model_open_fds() does. The model references them.
 * They may be objects of sources: weir_source_file(). Errors of
 * weir_model_open(). -EINVAL: @n is 0, or a file is of another root.
 */
WEIR_API int weir_model_open_files(struct weir *weir,
				   struct weir_file *const *files, unsigned n,
				   const struct weir_model_opts *opts,
				   struct weir_model **ret_model)
	WEIR_NONNULL(1, 2, 5) WEIR_NODISCARD;
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
/*
 * Describe tensor @i, in the order of shards and offsets. -EINVAL: @i is past
 * the end.
 */
WEIR_API int weir_model_tensor(const struct weir_model *model, size_t i,
			       struct weir_entry *ret_entry) WEIR_NONNULL(1, 3);
/* Get the number of the tensor with this name. -ENOENT: there is none. */
WEIR_API int weir_model_find(const struct weir_model *model, const char *name,
			     size_t *ret_i) WEIR_NONNULL(1, 2, 3);
/*
 * Get a value of the metadata, by key or by number; if several files have a
 * key, the value in the first of them. -ENOENT: no such key. -EINVAL: @i is
 * past the end.
 */
WEIR_API int weir_model_meta(const struct weir_model *model, const char *key,
			     struct weir_value *ret_value)
	WEIR_NONNULL(1, 2, 3);
WEIR_API int weir_model_meta_at(const struct weir_model *model, size_t i,
				struct weir_value *ret_value)
	WEIR_NONNULL(1, 3);
/*
 * Get item @i of @array, whose type is WEIR_VALUE_ARRAY: a value without a
 * key. Takes the same time for each item, and copies no strings; the first
 * call for an array of strings makes an index of it. One of these calls has
 * returned @array, in a struct of the full size, and the program has not
 * changed it. -EINVAL: @array is not an array, or @i is past its end. -ENOMEM.
 */
WEIR_API int weir_model_meta_item(const struct weir_model *model,
				  const struct weir_value *array, size_t i,
				  struct weir_value *ret_item)
	WEIR_NONNULL(1, 2, 4);
/* The file of shard @i, without a reference. NULL: @i is past the end. */
WEIR_API struct weir_file *weir_model_file(const struct weir_model *model,
					   unsigned i) WEIR_NONNULL(1);
/*
 * Open the file @name in the folder of the model, such as its config.json: the
 * folder of weir_model_info.path, or that of its URL. Close it with
 * weir_file_close(). Any thread; blocks as weir_file_open() does.
 *
 * -ENOENT: there is no such file; or it is refused by the server of the model,
 * as stores answer that do not let the user list names; or the model has no
 * URL, since weir_source_file() made its files. -EINVAL: @name is empty, "." or
 * "..", or has a slash. Errors of weir_file_open().
 */
WEIR_API int weir_model_beside(const struct weir_model *model, const char *name,
			       struct weir_file **ret_file)
	WEIR_NONNULL(1, 2, 3) WEIR_NODISCARD;

WEIR__END

#endif
