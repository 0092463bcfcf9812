/* SPDX-License-Identifier: MIT */
/*
 * The CPUs that the process may use: the affinity of the thread that loaded the
 * library, when it did. That is normally the main thread before main() begins,
 * so it is what a launcher has set (taskset, numactl, srun, a cpuset). A thread
 * that the program pins later keeps its affinity to itself: threads of the
 * library are not started on the one CPU of a thread that happens to call it.
 * In a child of fork(2), which its program may confine, it is the affinity of
 * the thread that opens the first root there, or searches the first placement
 * by threads.
 */
#ifndef WEIR__CPUS_H
#define WEIR__CPUS_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

struct weir__cpu_set {
	cpu_set_t part[4]; /* of one set of 4096 CPUs */
};

#define WEIR__CPUS_TEXT 128u /* bytes of a text; a longer one is cut */

/*
 * Whoever may start the first thread of the process calls it, such as
 * weir_open(): in a child of fork(2), what was noted is the parent's.
 */
void weir__cpus_note(void);
/*
 * Does not change while a root is open. Empty: the kernel does not say; then
 * threads stay on the CPUs of their creator, and any list of CPUs is accepted.
 */
const struct weir__cpu_set *weir__cpus_usable(void);
unsigned weir__cpus_count(const struct weir__cpu_set *set); /* empty: 1 */

/*
 * Read a list such as "0-3,8" or "0-3+8". -EINVAL with a sentence that begins
 * with @what: it is no such list, or has CPUs that the process may not use.
 */
int weir__cpus_parse(const char *what, const char *list,
		     struct weir__cpu_set *ret_set);

/*
 * From now on the calling thread runs on the CPUs of @set. If the kernel
 * refuses, since a cpuset has changed, it stays where it is.
 */
void weir__cpus_enter(const struct weir__cpu_set *set);

#endif
