/* SPDX-License-Identifier: MIT */
/*
 * The engine of a root, for its own files: limits, pools, and the flags that
 * end it. Any thread of the engine reads it. Members that are neither atomic
 * nor under a lock do not change after the first reactor has started.
 */
#ifndef WEIR__IO_ENGINE_STATE_H
#define WEIR__IO_ENGINE_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/root.h"
#include "io/engine.h"
#include "io/pool.h"

struct weir__method_ops;
struct weir__reactor;

struct weir__engine {
	struct weir__part part;
	struct weir *weir;

	/* Limits, from the options. */
	uint32_t wanted; /* enum weir_io */
	bool only_ring;  /* WEIR_IO_URING: threads read only FUSE files */
	const struct weir__method_ops *only_method; /* a bench's, or NULL */
	uint64_t chunk_bytes;
	uint64_t window;         /* bytes in flight of each reactor */
	uint64_t network_window; /* the same, for network file systems */
	unsigned n_ops;          /* most ops of each reactor */
	unsigned n_reactors, n_started, n_copiers, n_readers;
	uint64_t staging;  /* bytes of slots, of all reactors together */
	int64_t max_sleep; /* how long a reactor sleeps at most, ns */
	char late_why[64]; /* the sentence of a read that was given up */

	struct weir__reactor *reactor[WEIR__MAX_REACTORS];
	struct weir__pool *copiers; /* page cache and slots to memory */
	struct weir__pool *readers; /* blocking direct reads */

	pthread_mutex_t lock; /* guards why */
	char why[240];        /* why the ring is not used, or not in full */

	/* Opening queues to devices: queues.c. */
	pthread_mutex_t open_lock; /* guards unready, opening */
	struct weir__job *unready; /* jobs that wait for queues */
	bool opening;              /* open_task is queued or runs */
	struct weir__task open_task;
	_Atomic bool queues_closed;
	_Atomic uint32_t
		queue_users; /* calls of weir__engine_queues; a futex */

	_Atomic uint32_t next_reactor; /* gets the next short job */
	_Atomic uint32_t jobs;         /* not ended, and holds; a futex */
	_Atomic uint32_t ready;        /* reactors that have started; a futex */
	_Atomic int start_err;

	_Atomic uint32_t posting; /* threads of sources that end a read */

	int64_t deadline;    /* when closing gives up; set before @closed */
	_Atomic bool closed; /* no job starts any more */
	_Atomic bool leaked; /* the kernel may still write: never freed */
	_Atomic bool stop;   /* reactors end when nothing is in flight */
	_Atomic bool abort;  /* reactors orphan all ops in flight, and end */
};

/*
 * True if no byte has arrived for read_timeout, at @now of a reactor's clock.
 * The clock may be max_sleep behind, which is added to the limit.
 */
bool weir__engine_is_late(const struct weir__engine *eng,
			  const struct weir__reads *reads, int64_t now);

/*
 * Make an engine with @method (NULL: as the root's options say). A bench
 * replaces the disk by a method of its own.
 */
int weir__engine_make(struct weir *weir, const struct weir__method_ops *method,
		      struct weir__part **ret_part);

/*
 * Add a reason to weir_io_info's @why: why the ring or the slots do not work,
 * or only in part. @instead: it replaces the earlier reasons. Any thread.
 */
void weir__engine_explain(struct weir__engine *eng, bool instead,
			  const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
