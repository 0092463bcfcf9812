/* SPDX-License-Identifier: MIT */
#include "alloc/pages.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "alloc/avail.h"
#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"

#define PREFAULT_STEP ((size_t)32 << 20)
#define MINCORE_STEP ((size_t)64 << 20)
#define HUGE_2M_SHIFT 21
#define HUGE_1G_SHIFT 30

size_t weir__pages_size(enum weir__page_type type)
{
	switch (type) {
	case WEIR__PAGES_RESERVED_1G:
		return (size_t)1 << HUGE_1G_SHIFT;
	case WEIR__PAGES_RESERVED:
	case WEIR__PAGES_TRANSPARENT:
		return WEIR__HUGE_PAGE;
	case WEIR__PAGES_SMALL:
		break;
	}
	return (size_t)sysconf(_SC_PAGESIZE);
}

/* Write to p->why why it failed, instead of setting a sentence. */
__attribute__((format(printf, 3, 4))) static int
pages_fail(struct weir__pages *p, int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(p->why, sizeof(p->why), fmt, ap);
	va_end(ap);
	weir__append(p->why, sizeof(p->why), ": %s",
		     weir__errno_describe(-err));
	return weir__cause_errno(err);
}

static const char not_known[] =
	"asked for, but transparent_hugepage/enabled in /sys/kernel/mm cannot be read: it is not known whether they are granted";

/* The setting in brackets in file @path. -ENOENT: there is no such file. */
static int setting_of(const char *path, char *ret_word, size_t room)
{
	char text[128], *word;
	int64_t r = weir__sys_text(path, text, sizeof(text));

	if (r < 0)
		return (int)r;
	word = strchr(text, '[');
	word = word ? word + 1 : text;
	snprintf(ret_word, room, "%.*s", (int)strcspn(word, "]"), word);
	return 0;
}

#define THP "/sys/kernel/mm/transparent_hugepage/"

/*
 * The reason why the kernel does not use huge pages for memfds; NULL: it does.
 * Since Linux 6.10 each size has a setting of its own.
 */
static const char *no_huge_shared(void)
{
	char word[16];
	int r = setting_of(THP "hugepages-2048kB/shmem_enabled", word,
			   sizeof(word));

	if (r < 0 || !strcmp(word, "inherit"))
		r = setting_of(THP "shmem_enabled", word, sizeof(word));
	if (r < 0)
		return r == -ENOENT
			       ? "the kernel has no transparent huge pages for shared memory"
			       : not_known;
	if (!strcmp(word, "never") || !strcmp(word, "deny"))
		return "transparent_hugepage/shmem_enabled is never or deny";
	return NULL;
}

/* The reason why the kernel does not use huge pages; NULL: it does. */
static const char *no_huge_pages(bool shared)
{
	struct stat st;
	char word[16];
	int r = setting_of(THP "enabled", word, sizeof(word));

	if (r == -ENOENT && weir__sys_stat("/sys/kernel/mm", &st) == 0)
		return "the kernel has no transparent huge pages";
	if (r < 0)
		return not_known;
	if (weir__sys_thp_disabled())
		return "huge pages are disabled for this process (PR_SET_THP_DISABLE)";
	if (shared)
		return no_huge_shared();
	return strcmp(word, "never") ? NULL
				     : "transparent_hugepage/enabled is never";
}

/* Map p->len bytes, anonymous, at a multiple of @align. */
static int map_aligned(struct weir__pages *p, size_t align)
{
	size_t len = p->len, extra = align > WEIR__PAGE ? align : 0;
	unsigned char *from, *addr;
	void *map;
	int prot = p->bare ? PROT_NONE : PROT_READ | PROT_WRITE;
	int r = weir__sys_map(len + extra, -1, 0, prot, &map);

	if (r < 0) {
		char limit[WEIR__LIMITS_TEXT];
		struct weir__space space;

		weir__sys_space(&space);
		weir__space_text(&space, limit, sizeof(limit));
		return pages_fail(p, r, "mmap of %zu bytes%s", len + extra,
				  limit);
	}
	from = map;
	addr = from + (weir__up((uintptr_t)from, align) - (uintptr_t)from);
	if (addr > from)
		weir__sys_unmap(from, (size_t)(addr - from));
	if (addr < from + extra)
		weir__sys_unmap(addr + len, (size_t)(from + extra - addr));
	p->addr = addr;
	return 0;
}

/*
 * Write why reserved pages could not be mapped: too few are free, or another
 * reason.
 */
static int fail_reserved(struct weir__pages *p, int err)
{
	size_t page = weir__pages_size(p->type);
	uint64_t avail, total;

	if (err == -ENOMEM &&
	    weir__avail_reserved("", page, &avail, &total) == 0)
		snprintf(p->why, sizeof(p->why),
			 "%zu are needed, %llu of %llu are free", p->len / page,
			 (unsigned long long)avail, (unsigned long long)total);
	else
		pages_fail(p, err, "a memfd of %zu bytes", p->len);
	return err;
}

/*
 * Map the memfd. Reserved pages are taken from the reserve for the whole
 * mapping. The descriptor of pages that are not shared is not needed any more.
 */
static int map_memfd(struct weir__pages *p)
{
	int r = weir__sys_map_at(p->addr, p->len, p->fd);

	if (r < 0)
		return weir__pages_reserved(p)
			       ? fail_reserved(p, r)
			       : pages_fail(p, r, "mmap of %zu shared bytes",
					    p->len);
	if (p->shared) {
		r = weir__sys_add_seals(p->fd, F_SEAL_SHRINK | F_SEAL_GROW);
		return r < 0 ? pages_fail(p, r, "sealing a memfd") : 0;
	}
	weir__sys_close(p->fd);
	p->fd = -1;
	return 0;
}

/*
 * Map a memfd, for shared memory and for reserved pages. A private mapping of
 * reserved pages would be copied on write after fork(2). If pages for that are
 * missing, the kernel takes them from the child, and kills it at the next
 * access.
 */
static int map_file(struct weir__pages *p)
{
	unsigned shift = p->type == WEIR__PAGES_RESERVED_1G ? HUGE_1G_SHIFT
			 : weir__pages_reserved(p)          ? HUGE_2M_SHIFT
							    : 0;
	int r = map_aligned(p, weir__pages_size(p->type));

	if (r < 0)
		return r;
	p->fd = weir__sys_memfd("weir", shift, p->len);
	if (p->fd >= 0)
		r = map_memfd(p);
	else if (shift)
		r = fail_reserved(p, p->fd);
	else
		r = pages_fail(p, p->fd, "memfd of %zu bytes", p->len);
	if (r < 0)
		weir__pages_unmap(p);
	return r;
}

/*
 * True if the kernel may refuse a page of a memfd: vm.overcommit_memory is 2.
 */
static bool is_strict_overcommit(void)
{
	char text[8];

	return weir__sys_text("/proc/sys/vm/overcommit_memory", text,
			      sizeof(text)) > 0 &&
	       text[0] == '2';
}

/*
 * Without MADV_POPULATE_WRITE pages cannot be backed without the risk of
 * SIGBUS. No page is backed here, since the lock of all arenas is held.
 */
static int check_populate(struct weir__pages *p)
{
	int r = weir__sys_madvise(p->addr, 0, MADV_POPULATE_WRITE);

	p->huge = p->locked = true;
	return r < 0 ? pages_fail(
			       p, r,
			       "they need MADV_POPULATE_WRITE, of Linux 5.14")
		     : 0;
}

/* Ask for the pages of p->type, and note whether huge ones are granted. */
static void advise_pages(struct weir__pages *p)
{
	const char *why;
	int r;

	if (p->type == WEIR__PAGES_SMALL) {
		weir__sys_madvise(p->addr, p->len, MADV_NOHUGEPAGE);
		return;
	}
	why = no_huge_pages(p->shared);
	r = why && why != not_known
		    ? 0
		    : weir__sys_madvise(p->addr, p->len, MADV_HUGEPAGE);
	p->huge = !why && r == 0;
	if (why)
		snprintf(p->why, sizeof(p->why), "%s", why);
	else if (r < 0)
		snprintf(p->why, sizeof(p->why), "madvise(MADV_HUGEPAGE): %s",
			 weir__errno_describe(-r));
}

/*
 * Bind @p to its nodes, before the first touch. < 0: it failed, and they are
 * required.
 */
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
		return pages_fail(p, r, "%zu bytes on NUMA %s", p->len, nodes);
	snprintf(p->why_not, sizeof(p->why_not), "NUMA %s: %s", nodes,
		 weir__errno_describe(-r));
	p->nodes = (struct weir__nodes){ { 0 } };
	return 0;
}

int weir__pages_map(struct weir__pages *p)
{
	bool reserved = weir__pages_reserved(p);
	int r;

	p->fd = -1;
	r = reserved || p->shared
		    ? map_file(p)
		    : map_aligned(p, p->bare ? WEIR__HUGE_PAGE
					     : weir__pages_size(p->type));
	if (r < 0)
		return r;
	p->eager = reserved || (p->shared && is_strict_overcommit());
	if (!reserved)
		advise_pages(p);
	r = bind_nodes(p);
	if (!r && reserved)
		r = check_populate(p);
	if (r < 0)
		weir__pages_unmap(p);
	return r;
}

void weir__pages_unmap(struct weir__pages *p)
{
	weir__sys_unmap(p->addr, p->len);
	weir__sys_close(p->fd);
	p->fd = -1;
}

/* Advise the whole mapping, so that the kernel does not split it. */
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
		 weir__errno_describe(-r), p->len,
		 (unsigned long long)weir__sys_limit(RLIMIT_MEMLOCK));
	return r;
}

uint64_t weir__pages_missing(const struct weir__pages *p, size_t backed)
{
	unsigned char vec[MINCORE_STEP / WEIR__PAGE];
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint64_t missing = 0;

	for (size_t at = weir__down(backed, page), n; at < p->len; at += n) {
		n = p->len - at < MINCORE_STEP ? p->len - at : MINCORE_STEP;
		if (weir__sys_mincore(p->addr + at, n, vec) < 0)
			continue;
		for (size_t i = 0; i < n / page; i++)
			missing += vec[i] & 1 ? 0 : page;
	}
	return missing;
}

int weir__pages_prefault(struct weir__pages *p, size_t *backed, size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t end = weir__up(bytes, page), n;

	for (size_t at = weir__down(atomic_load(backed), page); at < end;
	     at += n) {
		int r;

		n = end - at < PREFAULT_STEP ? end - at : PREFAULT_STEP;
		r = weir__sys_populate(p->addr + at, n);
		if (r < 0)
			return weir__fail_sys(
				r,
				"prefaulting %zu bytes, of which %zu are backed",
				bytes, at);
		if (at + n > atomic_load(backed))
			atomic_store(backed, at + n);
	}
	return 0;
}
