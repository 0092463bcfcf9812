/* SPDX-License-Identifier: MIT */
#include "core/cgroup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/sys.h"

/* The path of this process's group, from /proc/self/cgroup: "/a/b". */
static bool own_group(const char *controller, const char *groups,
		      char *ret_path, size_t room)
{
	char key[64];
	const char *line = groups;

	snprintf(key, sizeof(key), ":%s:", controller ? controller : "");
	for (; line; line = strchr(line, '\n')) {
		const char *path;
		size_t len;

		line += *line == '\n';
		path = strstr(line, key);
		len = strcspn(line, "\n");
		if (!path || path >= line + len ||
		    (!controller && strncmp(line, "0::", 3)))
			continue;
		path += strlen(key);
		len = strcspn(path, "\n");
		if (len >= room)
			return false;
		memcpy(ret_path, path, len);
		ret_path[len] = '\0';
		return true;
	}
	return false;
}

bool weir__cgroups_read(const char *root, struct weir__cgroups *ret)
{
	char path[256];

	return snprintf(path, sizeof(path), "%s/proc/self/cgroup", root) <
		       (int)sizeof(path) &&
	       weir__sys_text(path, ret->text, sizeof(ret->text)) > 0;
}

void weir__cgroup_each(const char *root, const struct weir__cgroups *groups,
		       const char *mount, const char *controller,
		       void (*fn)(void *arg, const char *dir), void *arg)
{
	char path[512], dir[768];
	char *slash;

	if (!own_group(controller, groups->text, path, sizeof(path)))
		return;
	for (;;) {
		if (snprintf(dir, sizeof(dir), "%s%s%s", root, mount, path) <
		    (int)sizeof(dir))
			fn(arg, dir);
		slash = strrchr(path, '/');
		if (!slash || !path[0])
			return;
		*slash = '\0';
	}
}

bool weir__cgroup_number(const char *dir, const char *name, uint64_t *ret)
{
	char path[832], text[64];
	char *end;

	if (snprintf(path, sizeof(path), "%s/%s", dir, name) >=
		    (int)sizeof(path) ||
	    weir__sys_text(path, text, sizeof(text)) <= 0)
		return false;
	*ret = strtoull(text, &end, 10);
	return end != text;
}

/* A quota of @quota in each @period is the time of so many CPUs, rounded up. */
static void bound_cpus(unsigned *cpus, uint64_t quota, uint64_t period)
{
	uint64_t n = period ? (quota + period - 1) / period : 0;

	if (n && n < *cpus)
		*cpus = (unsigned)n;
}

/* v2: "QUOTA PERIOD", or "max PERIOD". */
static void bound_v2(void *arg, const char *dir)
{
	char path[832], text[64];
	unsigned long long quota, period;

	if (snprintf(path, sizeof(path), "%s/cpu.max", dir) <
		    (int)sizeof(path) &&
	    weir__sys_text(path, text, sizeof(text)) > 0 &&
	    sscanf(text, "%llu %llu", &quota, &period) == 2)
		bound_cpus(arg, quota, period);
}

/* v1: -1 means no quota. */
static void bound_v1(void *arg, const char *dir)
{
	uint64_t quota, period;

	if (weir__cgroup_number(dir, "cpu.cfs_quota_us", &quota) &&
	    quota <= INT64_MAX &&
	    weir__cgroup_number(dir, "cpu.cfs_period_us", &period))
		bound_cpus(arg, quota, period);
}

unsigned weir__cgroup_cpus(const char *root)
{
	unsigned cpus = weir__cpus();
	struct weir__cgroups groups;

	if (!weir__cgroups_read(root, &groups))
		return cpus;
	weir__cgroup_each(root, &groups, "/sys/fs/cgroup", NULL, bound_v2,
			  &cpus);
	weir__cgroup_each(root, &groups, "/sys/fs/cgroup/cpu", "cpu", bound_v1,
			  &cpus);
	weir__cgroup_each(root, &groups, "/sys/fs/cgroup/cpu,cpuacct",
			  "cpu,cpuacct", bound_v1, &cpus);
	return cpus;
}
