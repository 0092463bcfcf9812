/* SPDX-License-Identifier: MIT */
#include "alloc/avail.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/error.h"
#include "core/sys.h"

struct hierarchy {
	const char *mount;
	const char *controller; /* of v1; NULL: v2 */
	const char *limit, *usage, *stat;
	const char *cache[2]; /* lines of stat: page cache, by age */
};

static const struct hierarchy hierarchies[] = {
	{ "/sys/fs/cgroup",
	  NULL,
	  "memory.max",
	  "memory.current",
	  "memory.stat",
	  { "inactive_file ", "active_file " } },
	{ "/sys/fs/cgroup/unified",
	  NULL,
	  "memory.max",
	  "memory.current",
	  "memory.stat",
	  { "inactive_file ", "active_file " } },
	{ "/sys/fs/cgroup/memory",
	  "memory",
	  "memory.limit_in_bytes",
	  "memory.usage_in_bytes",
	  "memory.stat",
	  { "total_inactive_file ", "total_active_file " } },
};

/* The number that follows @key, which begins a line of @text. */
static bool number_after(const char *text, const char *key, uint64_t *ret)
{
	size_t len = strlen(key);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!strncmp(line, key, len)) {
			*ret = strtoull(line + len, NULL, 10);
			return true;
		}
	}
	return false;
}

/* A value of a group; false: there is no such file, or it says "max". */
static bool read_number(const char *dir, const char *name, uint64_t *ret)
{
	char path[768], text[64];
	char *end;

	if (snprintf(path, sizeof(path), "%s/%s", dir, name) >=
		    (int)sizeof(path) ||
	    weir__sys_text(path, text, sizeof(text)) <= 0)
		return false;
	*ret = strtoull(text, &end, 10);
	return end != text;
}

static uint64_t read_cache(const struct hierarchy *h, const char *dir)
{
	char path[768], text[8192];
	uint64_t n, sum = 0;

	if (snprintf(path, sizeof(path), "%s/%s", dir, h->stat) >=
		    (int)sizeof(path) ||
	    weir__sys_text(path, text, sizeof(text)) <= 0)
		return 0;
	for (int i = 0; i < 2; i++)
		if (number_after(text, h->cache[i], &n))
			sum += n;
	return sum;
}

static void lower_to(uint64_t *n, uint64_t to)
{
	if (to < *n)
		*n = to;
}

static void bound_by_group(const struct hierarchy *h, const char *dir,
			   uint64_t *avail, uint64_t *total)
{
	uint64_t limit, usage, cache;

	/* v1 writes a huge number for "no limit". */
	if (!read_number(dir, h->limit, &limit) || limit >= *total ||
	    !read_number(dir, h->usage, &usage))
		return;
	cache = read_cache(h, dir);
	usage -= cache < usage ? cache : usage;
	lower_to(total, limit);
	lower_to(avail, usage < limit ? limit - usage : 0);
}

/* The path of this process's group in @h, from /proc/self/cgroup: "/a/b". */
static bool own_group(const struct hierarchy *h, const char *groups,
		      char *ret_path, size_t room)
{
	char key[64];
	const char *line = groups;

	snprintf(key, sizeof(key), ":%s:", h->controller ? h->controller : "");
	for (; line; line = strchr(line, '\n')) {
		const char *path;
		size_t len;

		line += *line == '\n';
		path = strstr(line, key);
		len = strcspn(line, "\n");
		if (!path || path >= line + len ||
		    (!h->controller && strncmp(line, "0::", 3)))
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

/*
 * Apply the limits of the group and of its parents up to the root of the
 * hierarchy: the lowest counts. In a container the path may be the host's, and
 * only the root of the hierarchy mounted: directories that are missing are
 * skipped.
 */
static void bound_by(const char *root, const struct hierarchy *h,
		     const char *groups, uint64_t *avail, uint64_t *total)
{
	char path[512], dir[640];
	char *slash;

	if (!own_group(h, groups, path, sizeof(path)))
		return;
	for (;;) {
		if (snprintf(dir, sizeof(dir), "%s%s%s", root, h->mount, path) <
		    (int)sizeof(dir))
			bound_by_group(h, dir, avail, total);
		slash = strrchr(path, '/');
		if (!slash || !path[0])
			return;
		*slash = '\0';
	}
}

static int ram_of_host(const char *root, uint64_t *ret_free,
		       uint64_t *ret_total)
{
	char path[256], text[4096];
	uint64_t avail, total;

	if (snprintf(path, sizeof(path), "%s/proc/meminfo", root) <
		    (int)sizeof(path) &&
	    weir__sys_text(path, text, sizeof(text)) > 0 &&
	    number_after(text, "MemAvailable:", &avail) &&
	    number_after(text, "MemTotal:", &total)) {
		*ret_free = avail * 1024;
		*ret_total = total * 1024;
		return 0;
	}
	return weir__sys_ram(ret_free, ret_total);
}

int weir__avail_ram(const char *root, uint64_t *ret_free, uint64_t *ret_total)
{
	char path[256], groups[4096];
	int r = ram_of_host(root, ret_free, ret_total);

	if (r < 0)
		return weir__fail_sys(-ENODATA,
				      "neither /proc/meminfo nor sysinfo(2)");
	if (snprintf(path, sizeof(path), "%s/proc/self/cgroup", root) >=
		    (int)sizeof(path) ||
	    weir__sys_text(path, groups, sizeof(groups)) <= 0)
		return 0;
	for (size_t i = 0; i < sizeof(hierarchies) / sizeof(hierarchies[0]);
	     i++)
		bound_by(root, &hierarchies[i], groups, ret_free, ret_total);
	lower_to(ret_free, *ret_total);
	return 0;
}

int weir__avail_reserved(const char *root, size_t page, uint64_t *ret_free,
			 uint64_t *ret_total)
{
	uint64_t idle, taken, total;
	char dir[256];

	snprintf(dir, sizeof(dir), "%s/sys/kernel/mm/hugepages/hugepages-%zukB",
		 root, page >> 10);
	if (!read_number(dir, "free_hugepages", &idle) ||
	    !read_number(dir, "resv_hugepages", &taken) ||
	    !read_number(dir, "nr_hugepages", &total))
		return -ENODATA;
	*ret_free = idle > taken ? idle - taken : 0;
	*ret_total = total;
	return 0;
}

uint64_t weir__avail_space(void)
{
	uint64_t limit = weir__sys_limit(RLIMIT_AS), used;
	char text[128];

	if (limit == UINT64_MAX ||
	    weir__sys_text("/proc/self/statm", text, sizeof(text)) <= 0)
		return limit;
	used = strtoull(text, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
	return used < limit ? limit - used : 0;
}
