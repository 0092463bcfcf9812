/* SPDX-License-Identifier: MIT */
/*
 * A pool of threads for what blocks: copies out of the page cache, and reads
 * where there is no ring. Threads start when work finds none idle, up to a
 * limit, and stay. The queue between is bounded and lock-free.
 */
#ifndef WEIR__IO_POOL_H
#define WEIR__IO_POOL_H

#include <stdbool.h>
#include <stdint.h>

struct weir__pool;

/* Embedded in what is to be done; the pool's from push until run is called. */
struct weir__task {
	void (*run)(struct weir__task *task);
};

/* @bound: tasks that can be queued at once. */
int weir__pool_new(const char *name, unsigned threads, unsigned bound,
		   struct weir__pool **ret_pool);
/*
 * Run what is queued, then join the threads: not from one of them. A task that
 * is pushed later is run by who pushes it. False: at @deadline some were still
 * in their tasks. What is left in the queue has then been run by the caller,
 * and the pool may not be freed.
 */
bool weir__pool_stop(struct weir__pool *pool, int64_t deadline);
/* Takes NULL. Stops it first. */
void weir__pool_free(struct weir__pool *pool);
/* A task hangs and was given up: one thread more may be started. */
void weir__pool_more(struct weir__pool *pool);
/* 0, or why a thread that was wanted could not be started (-errno). */
int weir__pool_lacks(struct weir__pool *pool);
/*
 * Never blocks. Where no thread can be made or the queue is full, the task is
 * run here.
 */
void weir__pool_push(struct weir__pool *pool, struct weir__task *task);

#endif
