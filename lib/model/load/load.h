/* SPDX-License-Identifier: MIT */
/*
 * A load. It is referenced by the caller's handle, and by itself until its job
 * has ended. The weights and the arrival may live longer.
 *
 * weir_load_start	allocates memory, makes extents, starts prefaulting,
 *			passes the job to the engine
 * load_chunk_done	on reactors: a chunk has arrived or failed; its bytes
 *			are counted for its tensors
 * load_job_done	on a reactor: no chunk is in flight; the rest may block
 * sink_main		on a thread of each sink (sink.c): reads its tensors and
 *			passes them on
 * load_end		when job and sinks have ended, on a thread of the
 *			engine's pool: checks that the files are unchanged,
 *			completes number n
 *
 * A small load of what is in the page cache is read by weir_load_start itself
 * and has ended when that returns.
 */
#ifndef WEIR__MODEL_LOAD_H
#define WEIR__MODEL_LOAD_H

#include "alloc/prefault.h"
#include "io/engine.h"
#include "mem/access.h"
#include "model/load/chunk_tensors.h"
#include "model/load/verify.h"
#include "model/load/weights.h"

struct weir_load {
	_Atomic uint32_t refs;
	struct weir *weir;        /* referenced by the model */
	struct weir__engine *eng; /* NULL if this load does not need it */
	struct weir_model *model; /* the plan's; its files are read */
	struct weir_weights *weights;
	struct weir__arrival *arrival;
	struct weir__verifier *verifier;  /* NULL: no digests are computed */
	uint32_t flags;                   /* WEIR_LOAD_* */
	struct weir__job *job;            /* NULL if eng is NULL */
	struct weir__task task;           /* load_end */
	struct weir__load_arrays *arrays; /* NULL if eng is NULL */
	size_t n_ext;
	bool direct;                  /* extents may be read in place */
	struct weir__accesses writes; /* held while the engine reads */
	struct weir__prefault
		*prefault;       /* prefaulting of fresh memory, or NULL */
	struct weir__sink *sink; /* the n_sinks sinks of the layout */
	size_t n_sinks;
	struct weir__reads reads; /* reads of the job and the sinks */
	_Atomic uint32_t parts;   /* the job and sinks that have not ended */
	uint64_t total;           /* bytes of all tensors */
	int64_t begun, traced;
	_Atomic int64_t elapsed; /* set when the load ends */
	int64_t prefault_ns;
	uint64_t memory, memory_peak; /* of the root, when the load ended */
	uint64_t enters, staging; /* counted by the engine: at first the values
				     at the start, then the increase since */
	_Atomic uint64_t way[3];  /* bytes by enum weir__chunk_way */
	_Atomic uint64_t gaps;    /* bytes read that belong to no tensor */
	_Atomic uint64_t remote;  /* bytes by @way of objects of sources */
	_Atomic uint64_t cached;  /* bytes of whole files of the cache */
	_Atomic uint64_t mapped; /* bytes of mapped tensors that have arrived */
	/*
	 * Of weir__load_again, else NULL: for each span, and then for each
	 * placement, true if it is not read.
	 */
	bool *skip;
	/* What the weights kept when they were parked; until it has started. */
	struct weir__parked *parked;
	bool taken; /* no thread can park the weights until it has started */
};

/*
 * Read tensors of @w from the files of its model again, to the same memory, as
 * the load that made @w did: those with an entry of keep[] that is false, and
 * others of their spans. Tensors of sinks are not read. No load into @w is
 * running. Errors of weir_load_start().
 */
int weir__load_again(struct weir_weights *w, const bool *keep,
		     struct weir_load **ret_load);
/*
 * Find the placements whose bytes it reads: ret_read[i] is set for each that
 * has a span.
 */
void weir__load_again_covers(const struct weir__layout *layout,
			     const bool *keep, bool *ret_read);

/* extents.c: make the extents, each direct or buffered. -ENOMEM. */
int weir__load_extents(struct weir_load *l);
/* True if [off, off + len) is to be read through the page cache. */
bool weir__goes_buffered(struct weir_file *file, enum weir_way way,
			 uint64_t off, uint64_t len);

/*
 * Explain why the tensor of @p failed: the outcome of bytes [lo, hi) of extent
 * @e.
 */
const struct weir_failure *
weir__load_explain(struct weir_load *l, const struct weir__chunk_tensors *p,
		   const struct weir__extent *e, uint64_t lo, uint64_t hi,
		   const struct weir__outcome *outcome);
/* Called when the job, or a sink, has ended; the last part ends the load. */
/* Count bytes that have arrived, by what their file is. */
void weir__load_count(struct weir_load *l, const struct weir_file *file,
		      uint64_t bytes);
void weir__load_part_done(struct weir_load *l);

/*
 * load_writes.c: until the end blocking calls wait for the load's tensors, and
 * children of fork(2) do not get their memory.
 */
void weir__load_writes_begin(struct weir_load *l);
/* Called at the end. @leaked: the kernel may still write to the memory. */
void weir__load_writes_end(struct weir_load *l, bool leaked);

/* load_prefault.c: prefault fresh memory ahead of the reads. -ENOMEM. */
int weir__load_prefault(struct weir_load *l);
/* Stop when the load has ended, and note which memory has been prefaulted. */
void weir__load_prefault_stop(struct weir_load *l);

/*
 * load_writes.c: tell the race checker of all writes, before the load begins.
 */
void weir__load_report_writes(struct weir_load *l);
/*
 * The program has asked how far the load is, so that it knows whether all has
 * arrived.
 */
void weir__load_arrival_seen(struct weir_load *l);

#endif
