/* SPDX-License-Identifier: MIT */
/* The CPUs that a process may use, in a /proc and a /sys of our own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/cgroup.h"
#include "core/sys.h"
#include "files.h"
#include "tap.h"

static char root[64] = "/tmp/weir-cpus-XXXXXX";

static void put(const char *path, const char *text)
{
	files_below(root, path, text);
}

static void clear(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s/*", root);
	if (system(command))
		bail("%s failed", command);
}

/* Quotas of no more than one CPU are seen on every machine. */
static void version_2(void)
{
	put("/proc/self/cgroup", "0::/a/b\n");
	put("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
	is_int(weir__cgroup_cpus(root), weir__cpus(),
	       "a group without a quota has the CPUs of the affinity");
	put("/sys/fs/cgroup/a/b/cpu.max", "30000 100000\n");
	is_int(weir__cgroup_cpus(root), 1,
	       "a quota of a part of a CPU is one CPU");
	put("/sys/fs/cgroup/a/b/cpu.max", "90000000 100000\n");
	is_int(weir__cgroup_cpus(root), weir__cpus(),
	       "a quota of more CPUs than the affinity changes nothing");
	put("/sys/fs/cgroup/a/cpu.max", "100000 100000\n");
	is_int(weir__cgroup_cpus(root), 1, "the quota of a parent counts");
	put("/sys/fs/cgroup/a/cpu.max", "nonsense\n");
	is_int(weir__cgroup_cpus(root), weir__cpus(),
	       "a file that has no numbers is no quota");
	clear();
}

static void version_1(void)
{
	put("/proc/self/cgroup", "5:memory:/m\n4:cpu,cpuacct:/c\n");
	put("/sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_quota_us", "-1\n");
	put("/sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_period_us", "100000\n");
	is_int(weir__cgroup_cpus(root), weir__cpus(),
	       "a group of version 1 with quota -1 has all CPUs");
	put("/sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_quota_us", "100000\n");
	is_int(weir__cgroup_cpus(root), 1,
	       "a quota of a group of version 1 counts");
	clear();
}

int main(void)
{
	plan(8);
	if (!mkdtemp(root))
		bail("mkdtemp failed");
	is_int(weir__cgroup_cpus(root), weir__cpus(),
	       "without /proc the CPUs are those of the affinity");
	version_2();
	version_1();
	rmdir(root);
	return 0;
}
