/* SPDX-License-Identifier: MIT */
/*
 * A load from the inside. References: the caller's handle, and one while
 * bytes are on their way; then the weights and the arrival stay.
 *
 * weir_load_start	takes memory, makes extents, starts touching, hands the
 *			job to the engine
 * load_chunk		on reactors: bytes came or failed; tensors are told
 * load_job_done	on a reactor: nothing is out; the rest may block, so
 * load_end		on a pool's thread: files unchanged? number n is told
 */
#ifndef WEIR__MODEL_LOAD_H
#define WEIR__MODEL_LOAD_H

#include "alloc/touch.h"
#include "io/engine.h"
#include "mem/access.h"
#include "model/weights.h"

struct weir_load {
	_Atomic uint32_t refs;
	struct weir *weir;
	struct weir__engine *eng;
	struct weir_model *model; /* whose files are read: the plan's */
	struct weir_weights *weights;
	struct weir__arrival *arrival;
	uint32_t flags; /* WEIR_LOAD_* */
	struct weir__job job;
	struct weir__task task; /* load_end */
	struct weir__extent *ext;
	uint32_t *ext_run; /* extent -> run of the layout */
	size_t n_ext, max_ext;
	struct weir__touch **touch;  /* for each buffer, or NULL */
	struct weir__access *access; /* for each buffer */
	uint64_t total;              /* bytes of all tensors */
	int64_t begun, traced;
	_Atomic int64_t elapsed; /* set when ended */
	int64_t touch_ns;
	uint64_t enters, staging; /* of the engine: before, then since */
	_Atomic uint64_t way[3];  /* bytes by enum weir__chunk_way */
	_Atomic uint64_t gaps;    /* bytes read over */
	uint64_t mapped;
};

/* extents.c: what is to be read, and which way */
int weir__load_extents(struct weir_load *l);

#endif
