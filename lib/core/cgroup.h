/* SPDX-License-Identifier: MIT */
/* The control groups (v1 and v2) that limit this process. */
#ifndef WEIR__CGROUP_H
#define WEIR__CGROUP_H

#include <stdbool.h>
#include <stdint.h>

/* The groups of this process, as /proc/self/cgroup has them. */
struct weir__cgroups {
	char text[4096];
};
/*
 * Tests give @root, a prefix of all paths, which is "" elsewhere. False: the
 * groups are unknown.
 */
bool weir__cgroups_read(const char *root, struct weir__cgroups *ret);

/*
 * Call @fn for the directory of the process's group in the hierarchy at @mount,
 * and of each of its parents up to the root: all their limits apply. In a
 * container the path may be the host's, and only the root of the hierarchy
 * mounted, so directories may be missing. @controller is a controller of v1, as
 * in /proc/self/cgroup, or NULL for v2.
 */
void weir__cgroup_each(const char *root, const struct weir__cgroups *groups,
		       const char *mount, const char *controller,
		       void (*fn)(void *arg, const char *dir), void *arg);

/* The number at the beginning of a file. False: there is none, as in "max". */
bool weir__cgroup_number(const char *dir, const char *name, uint64_t *ret);

/*
 * How many CPUs this process may use: those of its affinity, or fewer, if the
 * quotas of its groups allow less time. @root is the prefix of paths.
 */
unsigned weir__cgroup_cpus(const char *root);

#endif
