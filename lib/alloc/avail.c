/* SPDX-License-Identifier: MIT */
#include "alloc/avail.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/cgroup.h"
#include "core/error.h"
#include "core/sys.h"

/* A hierarchy of cgroups, and the names of its files. */
struct hierarchy {
	const char *mount;
	const char *controller; /* NULL: version 2 */
	const char *limit, *usage, *stat;
	const char *cache[2]; /* lines of stat: inactive and active page
				 cache */
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

/* The bytes of page cache of the cgroup @dir. */
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

struct bound {
	const struct hierarchy *h;
	uint64_t *avail, *total;
};

/* Lower the bound by the limit of the cgroup @dir. */
static void bound_by_group(void *arg, const char *dir)
{
	struct bound *b = arg;
	uint64_t limit, usage, cache;

	/* Version 1 writes a huge number for "no limit". */
	if (!weir__cgroup_number(dir, b->h->limit, &limit) ||
	    limit >= *b->total ||
	    !weir__cgroup_number(dir, b->h->usage, &usage))
		return;
	cache = read_cache(b->h, dir);
	usage -= cache < usage ? cache : usage;
	lower_to(b->total, limit);
	lower_to(b->avail, usage < limit ? limit - usage : 0);
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
	struct weir__cgroups groups;
	int r = ram_of_host(root, ret_free, ret_total);

	if (r < 0)
		return weir__fail_sys(-ENODATA,
				      "neither /proc/meminfo nor sysinfo(2)");
	if (!weir__cgroups_read(root, &groups))
		return 0;
	for (size_t i = 0; i < sizeof(hierarchies) / sizeof(hierarchies[0]);
	     i++) {
		const struct hierarchy *h = &hierarchies[i];
		struct bound bound = { h, ret_free, ret_total };

		weir__cgroup_each(root, &groups, h->mount, h->controller,
				  bound_by_group, &bound);
	}
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
	if (!weir__cgroup_number(dir, "free_hugepages", &idle) ||
	    !weir__cgroup_number(dir, "resv_hugepages", &taken) ||
	    !weir__cgroup_number(dir, "nr_hugepages", &total))
		return -ENODATA;
	*ret_free = idle > taken ? idle - taken : 0;
	*ret_total = total;
	return 0;
}
