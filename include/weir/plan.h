/* SPDX-License-Identifier: MIT */
/* Plans: which tensors of a model to load, and into which memory. */
#ifndef WEIR_PLAN_H
#define WEIR_PLAN_H

#include <weir/base.h>
#include <weir/mem.h>
#include <weir/model.h>
#include <weir/tensor.h>

WEIR__BEGIN

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

WEIR__END

#endif
