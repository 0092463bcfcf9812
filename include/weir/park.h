/* SPDX-License-Identifier: MIT */
/* Parking: weights leave their memory, and come back to its addresses. */
#ifndef WEIR_PARK_H
#define WEIR_PARK_H

#include <weir/base.h>
#include <weir/load.h>
#include <weir/mem.h>
#include <weir/stream.h>

WEIR__BEGIN

struct weir_park_opts {
	size_t size;
	uint32_t flags;         /* WEIR_PARK_* */
	uint32_t reserved;      /* 0 */
	struct weir_buft *buft; /* host memory for the copies; NULL: memory that
				   is page-locked for the weights' device */
	const char *folder;     /* write the copies to a file without a name in
				   this folder, not to memory; or NULL */
	const size_t *changed;  /* with WEIR_PARK_CONSTANT: the numbers of the
				   tensors that the program has changed ... */
	size_t n_changed;       /* ... and how many they are */
};
WEIR__DECLARE_OPTS_INIT(weir_park_opts)
#define WEIR_PARK_OPTS_INIT WEIR__OPTS_INIT(weir_park_opts)

/*
 * The program has changed no tensor since it was loaded, except those of
 * opts.changed. The others are not copied: weir_weights_unpark() reads them
 * again from the files of their model, which must not change until then. A
 * tensor whose file has changed already is copied too.
 */
#define WEIR_PARK_CONSTANT 0x01u
/*
 * The buffers that targets (weir_plan_add_tensors()) are in were allocated by
 * weir_buf_alloc(), and nothing but these weights is in use in them: they are
 * released too. Without this, weights with targets are refused.
 */
#define WEIR_PARK_TARGETS 0x02u

/*
 * Copy what cannot be read again from the files of the model, then release the
 * memory of @weights. Its addresses stay reserved, so views, graphs and plans
 * stay valid; but until weir_weights_unpark() is called, work that accesses the
 * memory is refused with -ENODATA, and weir_tensor_data() returns NULL. Budgets
 * do not count it. Waits for the load and for the work that was queued before,
 * also for runs that were started before and prefetch leaves from @weights
 * (weir_sched_opts.weights); no thread may queue more meanwhile. Mapped tensors
 * stay.
 *
 * If the call fails, the weights are as before; if their device is lost while
 * it releases memory, their state is FAILED. -EALREADY: they are parked.
 * -EBUSY: another thread parks or unparks them, or starts a load into them.
 * -EINVAL: a tensor is in a buffer of the program, and not a target of
 * WEIR_PARK_TARGETS; host memory without
 * opts.buft and opts.folder; invalid options. -EOPNOTSUPP: the memory was not
 * allocated with WEIR_BUF_PARKABLE, or cannot be released, or is shared.
 * -ENOMEM, -ENOSPC and other errors of write(2): the copies have no room. The
 * error of the load, if it failed.
 */
WEIR_API int weir_weights_park(struct weir_weights *weights,
			       const struct weir_park_opts *opts)
	WEIR_NONNULL(1);

/*
 * Allocate the memory of parked weights again at the same addresses, and start
 * to fill it. The tensors are then in use as during a load: @event is done when
 * all bytes are back, and blocking calls wait for them. With @event NULL the
 * call waits itself. The copies are freed when the bytes are back.
 *
 * -ENOMEM and other errors of this call: the weights are still parked. If
 * @event fails, the contents are undefined and the copies are kept: call
 * weir_weights_unpark() or weir_weights_park() again. -EALREADY: the weights
 * are not parked. -EBUSY: they are coming back already. -ESTALE, by the event
 * or the call: a file of the model has changed. The file that is there now can
 * be loaded into parked weights: see weir_load_opts.into.
 */
WEIR_API int weir_weights_unpark(struct weir_weights *weights,
				 struct weir_event *event) WEIR_NONNULL(1);

enum weir_park_state {
	WEIR_PARK_RESIDENT = 0,  /* in memory */
	WEIR_PARK_PARKED = 1,    /* parked */
	WEIR_PARK_RETURNING = 2, /* weir_weights_unpark() has been called */
	WEIR_PARK_FAILED = 3     /* the bytes have not come back */
};
struct weir_park_info {
	size_t size;       /* set by the caller */
	uint32_t state;    /* enum weir_park_state */
	uint32_t reserved; /* 0 */
	uint64_t released; /* bytes of memory that were released; RESIDENT: 0 */
	uint64_t copied;   /* bytes that are in copies */
	uint64_t again; /* bytes that are read again from the model's files */
};
/* Describe where parked weights are. Never blocks. */
WEIR_API int weir_weights_park_info(struct weir_weights *weights,
				    struct weir_park_info *ret_info)
	WEIR_NONNULL(1, 2);

WEIR__END

#endif
