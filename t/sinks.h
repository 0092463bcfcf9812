/* SPDX-License-Identifier: MIT */
/*
 * Helpers for tests of sinks: a function that checks what it receives, for
 * models of plans.h, and can block or fail.
 */
#ifndef T_SINKS_H
#define T_SINKS_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weir.h>

/* What a sink has received; its arg. */
struct seen {
	struct weir_model *model;
	const size_t *record;   /* record of tensor i of the weights; NULL: i */
	uint64_t at[5000];      /* bytes of each tensor, without gaps */
	uint64_t place;         /* in the file, after the last chunk */
	_Atomic uint64_t bytes; /* bytes of all chunks */
	_Atomic unsigned chunks;
	_Atomic bool busy;
	pthread_t thread; /* thread of the last call */
	/* How often something was wrong: */
	unsigned disorder, differing, concurrent, other_thread;
	/* What to do at the chunk with byte @when of tensor @tensor: */
	size_t tensor;
	uint64_t when;
	int (*act)(void *arg);
	void *act_arg;
};

void seen_init(struct seen *seen, struct weir_model *m);
void seen_act(struct seen *seen, size_t tensor, uint64_t when,
	      int (*act)(void *arg), void *arg);
/* All calls had the right bytes, in order, one at a time, on one thread. */
bool seen_right(const struct seen *seen);
/* How many tensors of the model did not get all of their bytes. */
size_t seen_missing(const struct seen *seen);
struct weir_sink seen_sink(struct seen *seen);
/* Choose what @glob matches for the sink of @seen. */
int sink(struct weir_plan *p, const char *glob, struct seen *seen);

#endif
