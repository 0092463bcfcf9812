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
	cpu_set_t part[4]; /* one set of 4096 CPUs */
};

#define WEIR__CPUS_TEXT 128u /* bytes of a list as text, shortened to fit */

/*
 * Determine the CPUs of this process, if that has not happened. Functions that
 * may start its first thread, such as weir_open(), call it: in a child of
 * fork(2) the CPUs that are known are the parent's.
 */
void weir__cpus_note(void);
/*
 * The CPUs that the process may use; they do not change while a root is open.
 * The set is empty if the kernel does not say: then threads stay on the CPUs of
 * their creator, and any list of CPUs is accepted.
 */
const struct weir__cpu_set *weir__cpus_usable(void);
/* The number of CPUs in the set; 1 if it is empty. */
unsigned weir__cpus_count(const struct weir__cpu_set *set);

/*
 * Read a list such as "0-3,8" or "0-3+8". -EINVAL with a sentence that begins
 * with @what: the text is no such list, or has CPUs that the process may not
 * use.
 */
int weir__cpus_parse(const char *what, const char *list,
		     struct weir__cpu_set *ret_set);

/*
 * Let the calling thread run on the CPUs of @set. If the kernel refuses, since
 * a cpuset has changed, the thread stays where it is.
 */
void weir__cpus_enter(const struct weir__cpu_set *set);

#endif
