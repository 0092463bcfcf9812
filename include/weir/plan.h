/* SPDX-License-Identifier: MIT */
/* Plans: which tensors of a model to load, and into which memory. */
#ifndef WEIR_PLAN_H
#define WEIR_PLAN_H

#include <weir/base.h>
#include <weir/digest.h>
#include <weir/mem.h>
#include <weir/model.h>
#include <weir/tensor.h>

WEIR__BEGIN

/*
 * Make an empty plan. One plan may be used for several loads. While a thread
 * changes it, no other may change it, load it or estimate it. weir_plan_free()
 * takes NULL and may be called while a load of the plan is running. -ENOMEM.
 */
WEIR_API int weir_plan_new(struct weir_model *model,
			   struct weir_plan **ret_plan)
	WEIR_NONNULL(1, 2) WEIR_NODISCARD;
WEIR_API void weir_plan_free(struct weir_plan *plan);

/* How the bytes get from the file into memory: see weir-io(7). */
enum weir_way {
	WEIR_WAY_AUTO = 0,     /* as BUFFERED for parts of the file of which
				  enough is in the page cache, else DIRECT */
	WEIR_WAY_MAP = 1,      /* no copy: map the file's pages, read-only */
	WEIR_WAY_BUFFERED = 2, /* read them through the page cache */
	WEIR_WAY_DIRECT = 3    /* read them with O_DIRECT */
};

/*
 * A part of a tensor: the indices [start, start + n) of one dimension; or, if
 * ranks is not 0, part `rank` of so many equal parts (start and n are 0 then).
 * Only its bytes are read, except for gaps of up to 64 KiB between them. In
 * the last dimension a slice consists of whole blocks (weir_dtype_info.block).
 */
struct weir_slice {
	uint32_t dim; /* dimension that is divided; 0 is the outermost */
	uint32_t rank, ranks;
	uint32_t reserved; /* 0 */
	int64_t start, n;  /* elements; without ranks, n 0 is an empty slice */
};

struct weir_select_opts {
	size_t size;
	uint64_t align;       /* alignment of each tensor's address: a power of
				   two up to 4096; 0: that of the plan, which
				   weir_plan_set_align() sets. Mapped tensors
				   have that of the file */
	struct weir_buf *buf; /* place the tensors in this; NULL: new buffers */
	uint64_t offset;      /* first byte of @buf that may be used */
	uint32_t way;         /* enum weir_way */
	uint32_t dtype;       /* convert floating-point and quantised tensors
				   to this enum weir_dtype; 0: do not convert */
	const struct weir_slice *slice; /* load this part of each tensor; NULL:
					     all of it */
	uint64_t capacity;  /* most bytes of memory for the tensors, which are
				selected layer by layer; 0: no limit */
	int32_t priority;   /* greater: read earlier */
	uint32_t buf_flags; /* weir_buf_opts.flags of new buffers */
};
WEIR__DECLARE_OPTS_INIT(weir_select_opts)
#define WEIR_SELECT_OPTS_INIT WEIR__OPTS_INIT(weir_select_opts)

/*
 * Set the alignment of tensors that later calls of weir_plan_add() select
 * without an alignment in their options: a power of two up to 4096. Without
 * this call it is weir_dtype_info.align in host memory, and
 * weir_buft_info.align in memory of devices. -EINVAL: @align is not such a
 * number.
 */
WEIR_API int weir_plan_set_align(struct weir_plan *plan, uint64_t align)
	WEIR_NONNULL(1);

/*
 * Add a selection: the tensors whose whole name matches @glob (fnmatch(3), no
 * flags; NULL matches all) and that no earlier call has selected. They will be
 * placed in memory of @buft. Returns the number of selected tensors. Never
 * blocks.
 *
 * With opts.capacity whole layers are selected, in the order of their numbers,
 * as long as they fit; later calls may select the rest. The layer of a tensor
 * is the first number between dots in its name ("blk.7."); tensors without a
 * number follow after the layers, one by one.
 *
 * With opts.dtype, F64, F32, F16, BF16, F8 and GGML's quantised tensors are
 * converted to F32, F16, BF16, Q8_0, Q4_0, Q4_K or Q6_K, as by weir_convert();
 * others, and F8_E8M0 (scales), are not changed. Tensors with opts.slice are
 * smaller in memory: their shape is that of the slice.
 *
 * Several calls may use the same buffer, or buffers that wrap the same memory.
 * Each may use the bytes from its offset up to the next greater offset that a
 * call has in the same memory, or up to the end of its buffer. Calls with the
 * same offset share these bytes: their tensors follow each other in the order
 * of the calls. Tensors are placed in the order of the file, each aligned, and
 * never overlap.
 *
 * -ENOENT: no tensor of the model matches @glob. -EINVAL: an invalid
 * alignment; a buffer that is joined, read-only, not of @buft or shorter than
 * the offset; an offset without a buffer; WEIR_WAY_MAP with memory that is not
 * of kind MAPPED, or the reverse; a slice that a tensor does not have, or that
 * divides a block; a dtype to which a tensor cannot be converted, or any for
 * memory of kind MAPPED; buf_flags with a buffer or memory of kind MAPPED, or
 * that @buft does not have. The sentence names the tensor. -ENOMEM.
 */
WEIR_API int weir_plan_add(struct weir_plan *plan, const char *glob,
			   struct weir_buft *buft,
			   const struct weir_select_opts *opts)
	WEIR_NONNULL(1, 3);

/*
 * A function that receives the bytes of tensors as they are read: to repack
 * them into another layout, or to write them where only the program can.
 */
struct weir_sink {
	size_t size;
	/*
	 * Bytes [off, off + n) of tensor @i of the weights, in @data until the
	 * call returns. A negative errno fails the tensor. NULL: the bytes are
	 * read, for weir_plan_verify() and weir_plan_digest(), and dropped.
	 */
	int (*chunk)(void *arg, size_t i, uint64_t off, const void *data,
		     size_t n);
	void *arg;
	uint64_t buffer;   /* most bytes that are read ahead of chunk, at least
			    128 KiB; 0: 64 MiB */
	uint32_t way;      /* enum weir_way */
	uint32_t reserved; /* 0 */
};
WEIR__DECLARE_OPTS_INIT(weir_sink)
#define WEIR_SINK_INIT WEIR__OPTS_INIT(weir_sink)
/*
 * Select tensors as weir_plan_add() does. No memory is allocated for them: a
 * load passes their bytes to @sink, of which the plan keeps a copy. In the
 * weights their buf is NULL. A tensor has arrived when chunk has returned for
 * its last bytes.
 *
 * Each load calls chunk on a thread of its own for each sink, one call at a
 * time, in the order of the files, for every byte once; perhaps before
 * weir_load_start() returns, and not after weir_load_wait() has returned
 * anything but -ETIMEDOUT. It may block for any time: its reads wait when the
 * buffer is full, and nothing else waits. It may call weir, but not
 * weir_close(), and may not wait for the load. When a tensor
 * has failed, or after weir_load_cancel(), no more of its bytes are passed on.
 * Whether a file has changed is checked at the end of the load, after chunk
 * has received the bytes. Calls with an equal sink are one sink, with one
 * thread; if it has no chunk, with several, which read different tensors.
 *
 * Returns the number of selected tensors. -ENOENT: no tensor of the model
 * matches @glob. -EINVAL: the way is unknown or WEIR_WAY_MAP. -ENOMEM.
 */
WEIR_API int weir_plan_sink(struct weir_plan *plan, const char *glob,
			    const struct weir_sink *sink) WEIR_NONNULL(1, 3);

/* A tensor of the model, or a slice of it, and the memory to load it into. */
struct weir_target {
	size_t size;   /* set by the caller in targets[0], for all entries */
	size_t tensor; /* its number in the model */
	const struct weir_tensor *dst;
	const struct weir_slice *slice; /* NULL: the whole tensor */
	int32_t priority;               /* greater: read earlier */
	uint32_t way;                   /* enum weir_way */
};
/*
 * Load tensors into memory of the caller, for instance that of an inference
 * engine: each to exactly the place of its dst. The call keeps copies of dst
 * and slice, and references the buffer. All of the @n targets are added, or
 * none. A tensor may be the target of several calls, whole or in slices;
 * later calls of weir_plan_add() and weir_plan_sink() do not select it.
 *
 * dst has the dtype and the shape of the tensor or slice; if it is contiguous,
 * its shape may be another of as many elements. If its dtype differs, elements
 * are converted as by weir_select_opts.dtype. dst may be a view whose rows
 * have equal distances; if the bytes of the slice are not contiguous in the
 * file, they are rows, and dst must have as many. In the weights, targets
 * follow after the tensors of weir_plan_add() and weir_plan_sink(), in the
 * order of the calls and of @targets; dst->name is not used. Bytes that N
 * targets need are read N times; with WEIR_WAY_BUFFERED the page cache serves
 * all but the first read.
 *
 * -EINVAL: no such tensor or slice; another number of elements; dst is not
 * placed, read-only or of another root; a dtype that cannot be converted; rows
 * with unequal distances, or not those of the slice, or that divide blocks
 * which are converted; WEIR_WAY_MAP. -ENOMEM. Targets that overlap each other,
 * or tensors of selections, are refused by weir_plan_estimate() and
 * weir_load_start().
 */
WEIR_API int weir_plan_add_tensors(struct weir_plan *plan,
				   const struct weir_target *targets, size_t n)
	WEIR_NONNULL(1);

/*
 * Let loads of the plan compute the digest of each tensor as they read it, for
 * weir_load_digest() and weir_load_manifest(). The last call of this and
 * weir_plan_verify() decides. A load with a slice of a tensor does not start:
 * the digest is of whole tensors. -EINVAL: @kind is not an enum weir_digest.
 * -ENOMEM.
 */
WEIR_API int weir_plan_digest(struct weir_plan *plan, enum weir_digest kind)
	WEIR_NONNULL(1);
/*
 * Let loads of the plan check each tensor against @manifest as they read it,
 * without another read: before conversions and copies to devices, and before
 * the tensor's event. A tensor that does not match fails with -EBADMSG, and its
 * sentence has both digests; what is in its memory then is not specified. The
 * other tensors are loaded. A sink does not receive the last bytes of a tensor
 * that does not match. Mapped tensors are read once, through the page cache,
 * and arrive when they have been checked.
 *
 * A load with a slice of a tensor does not start (-EINVAL): it does not read
 * all bytes of the digest. The plan keeps the manifest; the caller may close
 * it.
 *
 * -EBADMSG: manifest and model do not have the same tensors, with the same
 * dtypes and shapes; the sentence has the first ten that differ, and their
 * number. -ENOMEM.
 */
WEIR_API int weir_plan_verify(struct weir_plan *plan,
			      struct weir_manifest *manifest)
	WEIR_NONNULL(1, 2);

/*
 * Compute places for the tensors in one block of memory of the program, so
 * that direct reads land in place: target i begins at byte ret_offset[i] of
 * the block, which has *ret_bytes bytes. The address of its first byte will be
 * @base; only its value modulo 4096 matters. Each address is a multiple of
 * @align, a power of two up to 4096 (0: weir_dtype_info.align), and is
 * congruent modulo 4096 to the offset in the file where both are possible.
 * Tensors follow each other in the order of the files; before a tensor that is
 * no neighbour of the one before it in the file, less than 4096 bytes are
 * lost.
 *
 * Of each target, tensor and slice are used. Its dst may be NULL, or a tensor
 * that has its dtype and strides and is not placed yet. Any thread; never
 * blocks. -EINVAL: as for weir_plan_add_tensors(), or @align is invalid.
 * -EOVERFLOW: 2^64 bytes or more. -ENOMEM.
 */
WEIR_API int weir_targets_layout(const struct weir_model *model,
				 const struct weir_target *targets, size_t n,
				 uint64_t base, uint64_t align,
				 uint64_t *ret_offset, uint64_t *ret_bytes)
	WEIR_NONNULL(1, 7);

/* The memory of one buffer type that a plan needs. */
struct weir_estimate {
	size_t size; /* set by the caller in ret[0], for all entries */
	struct weir_buft *buft;
	uint64_t bytes;   /* bytes to allocate */
	uint64_t tensors; /* number of tensors placed in it */
	uint64_t free;    /* bytes available now; UINT64_MAX: unknown */
	uint32_t fits;    /* 1: enough is free for all buffer types of the plan
			     that use the same memory (the host's, or that of
			     one GPU) */
	uint32_t reserved;
	uint64_t given; /* bytes of tensors placed in memory of the program:
			   weir_select_opts.buf and targets */
};
/*
 * Compute what the plan needs, without allocating it. Fills in up to @n
 * entries and returns the number of buffer types, which may exceed @n. Tensors
 * and buffers of sinks are not counted.
 *
 * The root's budget (weir_opts.budget) counts host memory in whole pages, and
 * buffers of 2 MiB or more in pages of 2 MiB, so a plan may not fit although
 * its bytes are free. It also counts the slots of the I/O engine once that
 * runs: if there is a budget, call weir_io_info(), which starts the engine,
 * before this.
 *
 * Never blocks. -ENOSPC: tensors do not fit in their buffer. -EINVAL: tensors
 * would overlap. -ENOMEM: a tensor exceeds the largest buffer of its type, or
 * there is no memory for the computation.
 */
WEIR_API int weir_plan_estimate(struct weir_plan *plan,
				struct weir_estimate *ret, unsigned n)
	WEIR_NONNULL(1);

WEIR__END

#endif
