/* SPDX-License-Identifier: MIT */
/*
 * A pool of threads for blocking tasks: copies out of the page cache, and reads
 * where there is no ring. A thread is started when a task finds none idle, up
 * to a limit, and lives as long as the pool. The queue of tasks is bounded and
 * lock-free.
 */
#ifndef WEIR__IO_POOL_H
#define WEIR__IO_POOL_H

#include <stdbool.h>
#include <stdint.h>

struct weir__cpu_set;
struct weir__pool;

/*
 * Embedded in another object. It does not change from push until run is called.
 */
struct weir__task {
	void (*run)(struct weir__task *task);
};

/* @bound: the most tasks that can be queued at once. */
int weir__pool_new(const char *name, unsigned threads, unsigned bound,
		   struct weir__pool **ret_pool);
/*
 * Before the first task: let its threads run on @cpus, which the caller keeps.
 * Without this call they run on all CPUs that the process may use.
 */
void weir__pool_place(struct weir__pool *pool,
		      const struct weir__cpu_set *cpus);
/*
 * Run the queued tasks, then join the threads. Not called on one of them. A
 * task that is pushed later runs in the push. Returns false if some threads
 * were still in their tasks at @deadline: this call has then run the tasks that
 * were left in the queue, and the pool must not be freed.
 */
bool weir__pool_stop(struct weir__pool *pool, int64_t deadline);
/* Stop and free the pool. Takes NULL. */
void weir__pool_free(struct weir__pool *pool);
/* Allow one more thread, in place of one whose task hangs and was given up. */
void weir__pool_more(struct weir__pool *pool);
/* Returns 0, or the -errno with which a thread last could not be started. */
int weir__pool_start_error(struct weir__pool *pool);
/*
 * Queue the task. Any thread. If no thread can be started or the queue is full,
 * the task runs in this call; otherwise the call does not block.
 */
void weir__pool_push(struct weir__pool *pool, struct weir__task *task);

#endif
