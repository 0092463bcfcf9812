/* SPDX-License-Identifier: MIT */
#include "alloc/pages.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "alloc/avail.h"
#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"

#define TOUCH_STEP ((size_t)32 << 20)
#define MINCORE_STEP ((size_t)64 << 20)

static const char no_sysfs[] =
	"asked for, but without /sys it is not known whether they are granted";

/* Why the kernel does not use huge pages for a mapping; NULL: it does. */
static const char *no_huge_pages(void)
{
	struct stat st;
	char text[128];

	if (weir__sys_text("/sys/kernel/mm/transparent_hugepage/enabled", text,
			   sizeof(text)) <= 0)
		return weir__sys_stat("/sys/kernel/mm", &st) < 0
			       ? no_sysfs
			       : "the kernel has no transparent huge pages";
	if (strstr(text, "[never]"))
		return "transparent_hugepage/enabled is never";
	if (weir__sys_thp_disabled())
		return "huge pages are disabled for this process (PR_SET_THP_DISABLE)";
	return NULL;
}

/* A mapping of @len bytes at a multiple of @align. */
static int map_aligned(size_t len, size_t align, unsigned char **ret_addr)
{
	size_t extra = align > WEIR__PAGE ? align : 0;
	unsigned char *from, *addr;
	void *map;
	int r = weir__sys_map(len + extra, -1, 0, PROT_READ | PROT_WRITE, &map);

	if (r < 0)
		return weir__fail_sys(
			r,
			"mmap of %zu bytes (address space left under RLIMIT_AS: %llu)",
			len + extra, (unsigned long long)weir__avail_space());
	from = map;
	addr = from + (weir__up((uintptr_t)from, align) - (uintptr_t)from);
	if (addr > from)
		weir__sys_unmap(from, (size_t)(addr - from));
	if (addr < from + extra)
		weir__sys_unmap(addr + len, (size_t)(from + extra - addr));
	*ret_addr = addr;
	return 0;
}

static void advise_pages(struct weir__pages *p)
{
	const char *why;
	int r;

	if (!p->is_huge) {
		weir__sys_madvise(p->addr, p->len, MADV_NOHUGEPAGE);
		return;
	}
	why = no_huge_pages();
	r = why && why != no_sysfs
		    ? 0
		    : weir__sys_madvise(p->addr, p->len, MADV_HUGEPAGE);
	p->huge = !why && r == 0;
	if (why)
		snprintf(p->why, sizeof(p->why), "%s", why);
	else if (r < 0)
		snprintf(p->why, sizeof(p->why), "madvise(MADV_HUGEPAGE): %s",
			 weir__errno_words(-r));
}

/* Call it before the first touch. < 0: it failed, and the nodes are required. */
static int bind_nodes(struct weir__pages *p)
{
	char nodes[WEIR__NODES_TEXT];
	int r;

	if (!weir__nodes_count(&p->nodes))
		return 0;
	r = weir__sys_mbind(p->addr, p->len, &p->nodes, p->only);
	if (!r)
		return 0;
	weir__nodes_text(&p->nodes, nodes);
	if (p->only)
		return weir__fail_sys(r, "%zu bytes on NUMA %s", p->len, nodes);
	snprintf(p->why_not, sizeof(p->why_not), "NUMA %s: %s", nodes,
		 weir__errno_words(-r));
	p->nodes = (struct weir__nodes){ { 0 } };
	return 0;
}

int weir__pages_map(struct weir__pages *p)
{
	int r = map_aligned(p->len, p->is_huge ? WEIR__HUGE_PAGE : WEIR__PAGE,
			    &p->addr);

	if (r < 0)
		return r;
	advise_pages(p);
	r = bind_nodes(p);
	if (r < 0)
		weir__pages_unmap(p);
	return r;
}

void weir__pages_unmap(struct weir__pages *p)
{
	weir__sys_unmap(p->addr, p->len);
}

/* The whole mapping, so that the kernel does not split it. */
void weir__pages_hide(struct weir__pages *p, bool hidden)
{
	weir__sys_madvise(p->addr, p->len,
			  hidden ? MADV_DONTFORK : MADV_DOFORK);
}

int weir__pages_lock(struct weir__pages *p)
{
	int r = p->locked ? 0 : weir__sys_mlock(p->addr, p->len);

	p->locked = r == 0;
	if (!r)
		return 0;
	snprintf(p->why_not, sizeof(p->why_not),
		 "not locked: %s: %zu bytes are needed, RLIMIT_MEMLOCK is %llu",
		 weir__errno_words(-r), p->len,
		 (unsigned long long)weir__sys_limit(RLIMIT_MEMLOCK));
	return r;
}

uint64_t weir__pages_missing(const struct weir__pages *p, size_t touched)
{
	unsigned char vec[MINCORE_STEP / WEIR__PAGE];
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint64_t missing = 0;

	for (size_t at = weir__down(touched, page), n; at < p->len; at += n) {
		n = p->len - at < MINCORE_STEP ? p->len - at : MINCORE_STEP;
		if (weir__sys_mincore(p->addr + at, n, vec) < 0)
			continue;
		for (size_t i = 0; i < n / page; i++)
			missing += vec[i] & 1 ? 0 : page;
	}
	return missing;
}

int weir__pages_touch(struct weir__pages *p, _Atomic size_t *touched,
		      size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t end = weir__up(bytes, page), n;

	for (size_t at = weir__down(atomic_load(touched), page); at < end;
	     at += n) {
		int r;

		n = end - at < TOUCH_STEP ? end - at : TOUCH_STEP;
		r = weir__sys_populate(p->addr + at, n);
		if (r < 0)
			return weir__fail_sys(
				r,
				"touching %zu bytes, of which %zu are backed",
				bytes, at);
		if (at + n > atomic_load(touched))
			atomic_store(touched, at + n);
	}
	return 0;
}
