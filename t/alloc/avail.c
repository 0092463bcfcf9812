/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "alloc/avail.h"
#include "core/sys.h"
#include "files.h"
#include "tap.h"

#define MIB ((uint64_t)1 << 20)

/* A /proc and a /sys of our own. */
static char root[64] = "/tmp/weir-avail-XXXXXX";

static void put(const char *path, const char *text)
{
	files_below(root, path, text);
}

static void is_ram(uint64_t want_free, uint64_t want_total, const char *what)
{
	uint64_t avail = 0, total = 0;
	int r = weir__avail_ram(root, &avail, &total);

	ok(!r && avail == want_free * MIB && total == want_total * MIB, "%s",
	   what);
	if (avail != want_free * MIB || total != want_total * MIB)
		diag("%llu of %llu MiB", (unsigned long long)(avail / MIB),
		     (unsigned long long)(total / MIB));
}

static void host(void)
{
	uint64_t avail = 0, total = 0;

	is_int(weir__avail_ram(root, &avail, &total), 0,
	       "without /proc the memory that is available is still found");
	ok(avail && avail <= total,
	   "without /proc the available memory is at most the total");
	put("/proc/meminfo", "MemTotal:       10485760 kB\n"
			     "MemFree:         1048576 kB\n"
			     "MemAvailable:    8388608 kB\n");
	is_ram(8192, 10240,
	       "available memory is MemAvailable of /proc/meminfo");
}

static void v2(void)
{
	put("/proc/self/cgroup", "0::/a/b\n");
	is_ram(8192, 10240,
	       "a cgroup whose files are missing does not limit memory");
	put("/sys/fs/cgroup/a/b/memory.max", "max\n");
	put("/sys/fs/cgroup/a/b/memory.current", "1048576\n");
	is_ram(8192, 10240,
	       "a cgroup whose limit is max does not limit memory");
	put("/sys/fs/cgroup/a/b/memory.max", "4294967296\n");
	put("/sys/fs/cgroup/a/b/memory.current", "1073741824\n");
	is_ram(3072, 4096,
	       "a cgroup's limit bounds the total, and less its use what is available");
	put("/sys/fs/cgroup/a/b/memory.stat",
	    "anon 1\ninactive_file 268435456\nactive_file 268435456\n");
	is_ram(3584, 4096, "a cgroup's page cache counts as available");
	put("/sys/fs/cgroup/a/memory.max", "2147483648\n");
	put("/sys/fs/cgroup/a/memory.current", "2147483648\n");
	is_ram(0, 2048, "a parent cgroup's limit bounds its children");
	put("/sys/fs/cgroup/a/memory.current", "3221225472\n");
	is_ram(0, 2048,
	       "a parent cgroup that exceeds its limit leaves nothing available");
	put("/sys/fs/cgroup/a/memory.max", "max\n");
}

static void v1(void)
{
	put("/proc/self/cgroup", "9:name=systemd:/x\n"
				 "4:memory:/docker/0123\n"
				 "1:cpu:/\n0::/a/b\n");
	put("/sys/fs/cgroup/memory/memory.limit_in_bytes",
	    "9223372036854771712\n");
	put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1048576\n");
	is_ram(3584, 4096,
	       "a limit of cgroups v1 beyond any machine's memory is no limit");
	/* In a container the path of the group is the host's. */
	put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n");
	put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "536870912\n");
	is_ram(512, 1024, "a limit of cgroups v1 counts beside those of v2");
	put("/sys/fs/cgroup/memory/memory.stat",
	    "cache 1\ninactive_file 1\ntotal_inactive_file 104857600\n"
	    "total_active_file 4194304\n");
	is_ram(616, 1024,
	       "the page cache of child groups of cgroups v1 counts as available");
	put("/sys/fs/cgroup/memory/docker/0123/memory.limit_in_bytes",
	    "536870912\n");
	put("/sys/fs/cgroup/memory/docker/0123/memory.usage_in_bytes",
	    "5242880\n");
	is_ram(507, 512,
	       "the limit of the process's own group of cgroups v1 counts");
	put("/proc/self/cgroup", "4:memory:/docker/0123/../../etc\n");
	is_ram(507, 512, "a path of a group with .. in it is used as it is");
}

static void space(int resource, const char *name, char flag)
{
	struct rlimit old, lim;
	char part[64];
	struct weir__space s;
	char text[WEIR__LIMITS_TEXT];

	getrlimit(resource, &old);
	weir__sys_space(&s);
	if (old.rlim_cur == RLIM_INFINITY)
		ok(!s.name || strcmp(s.name, name),
		   "without %s it does not limit the address space", name);
	else
		skip(1, "there is a %s", name);
	lim = old;
	lim.rlim_cur = (rlim_t)(64 * 1024 * MIB);
	setrlimit(resource, &lim);
	weir__sys_space(&s);
	weir__space_text(&s, text, sizeof(text));
	if (strcmp(getenv("WEIR_T_SANITIZER") ?: "no", "no")) {
		skip(2, "a sanitizer takes all addresses");
	} else {
		ok(s.left < 64 * 1024 * MIB && s.left > 60 * 1024 * MIB,
		   "with %s the space is the limit less what is mapped", name);
		snprintf(part, sizeof(part), "%s is 68719476736 (ulimit -%c), ",
			 name, flag);
		has_str(text, part, "the text about %s has the limit", name);
	}
	setrlimit(resource, &old);
}

int main(void)
{
	char rm[128];

	if (!mkdtemp(root))
		bail("mkdtemp");
	plan(3 + 6 + 5 + 2 * 3);
	host();
	v2();
	v1();
	space(RLIMIT_AS, "RLIMIT_AS", 'v');
	space(RLIMIT_DATA, "RLIMIT_DATA", 'd');
	snprintf(rm, sizeof(rm), "rm -rf %s", root);
	if (system(rm))
		diag("%s", rm);
	return done_testing();
}
