/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir.h>

#include "alloc/arena.h"
#include "alloc/avail.h"
#include "core/error.h"
#include "core/root.h"
#include "limit.h"
#include "tap.h"

#define MIB ((size_t)1 << 20)
#define NOBODY 65534
#define NO_LIMIT 128 /* exit status of a child that could set no limit */

static struct weir *open_root(uint64_t keep)
{
	struct weir_opts o = WEIR_OPTS_INIT;
	struct weir *weir;

	o.keep = keep;
	if (weir_open(&o, &weir) < 0)
		bail("%s", weir_error());
	return weir;
}

static int take(struct weir *weir, size_t bytes, enum weir_mem kind,
		struct weir_backend_mem *mem)
{
	struct weir__arena_req req = { .bytes = bytes,
				       .kind = kind,
				       .node = -1 };

	memset(mem, 0, sizeof(*mem));
	return weir__arena_take(weir, &req, mem);
}

static void take_or_bail(struct weir *weir, size_t bytes, enum weir_mem kind,
			 struct weir_backend_mem *mem)
{
	if (take(weir, bytes, kind, mem) < 0)
		bail("%s", weir_error());
}

/*
 * The KiB that /proc/self/smaps has under @key for the mapping at @addr, or -1;
 * its VmFlags in @ret_flags, which may be NULL.
 */
static long smaps(const void *addr, const char *key, char *ret_flags)
{
	FILE *f = fopen("/proc/self/smaps", "r");
	char line[512];
	bool inside = false;
	long kib = -1;

	while (f && fgets(line, sizeof(line), f)) {
		unsigned long lo, hi;

		if (sscanf(line, "%lx-%lx ", &lo, &hi) == 2)
			inside = (unsigned long)addr >= lo &&
				 (unsigned long)addr < hi;
		if (inside && !strncmp(line, key, strlen(key)))
			kib = atol(line + strlen(key));
		if (inside && ret_flags && !strncmp(line, "VmFlags:", 8))
			strcpy(ret_flags, line);
	}
	if (f)
		fclose(f);
	return kib;
}

static bool thp_on(void)
{
	char text[128] = "";
	FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");

	if (!f || !fgets(text, sizeof(text), f))
		text[0] = '\0';
	if (f)
		fclose(f);
	return text[0] && !strstr(text, "[never]");
}

static void huge(void)
{
	struct weir *weir = open_root(0);
	char flags[512] = "";
	struct weir_backend_mem mem;

	take_or_bail(weir, 5 * MIB, WEIR_MEM_HUGE, &mem);
	is_int((uintptr_t)mem.base % (2 * MIB), 0,
	       "memory in huge pages begins at a multiple of 2 MiB");
	memset(mem.base, 1, 5 * MIB);
	if (thp_on()) {
		ok(mem.got == WEIR_GOT_HUGE && !mem.why[0],
		   "memory in huge pages is reported as huge");
		ok(smaps(mem.base, "AnonHugePages:", flags) >= 4096,
		   "memory that is reported as huge is backed by huge pages");
	} else {
		ok(!mem.got && mem.why[0],
		   "memory without huge pages reports the reason: %s", mem.why);
		ok(smaps(mem.base, "AnonHugePages:", flags) == 0,
		   "memory that is not reported as huge has no huge pages");
	}
	ok(!strstr(flags, " dc"), "memory is passed to a child of fork");
	weir__arena_hide(&mem, true);
	smaps(mem.base, "AnonHugePages:", flags);
	has_str(flags, " dc", "hidden memory is not passed to a child of fork");
	weir__arena_give(weir, &mem);
	weir_close(weir);
}

static void plain(void)
{
	struct weir *weir = open_root(0);
	struct weir_backend_mem mem;

	take_or_bail(weir, 5 * MIB, WEIR_MEM_PLAIN, &mem);
	memset(mem.base, 1, 5 * MIB);
	is_int(smaps(mem.base, "AnonHugePages:", NULL), 0,
	       "plain memory has no huge pages");
	is_int(mem.got, 0, "plain memory is not reported as huge");
	weir__arena_give(weir, &mem);
	weir_close(weir);
}

static void too_small(void)
{
	struct weir *weir = open_root(0);
	struct weir_backend_mem mem;

	take_or_bail(weir, 4096, WEIR_MEM_HUGE, &mem);
	has_str(mem.why, "smaller than a huge page of 2 MiB",
		"less than a huge page of memory reports that it has small pages");
	weir__arena_give(weir, &mem);
	weir_close(weir);
}

static void no_huge_pages(void)
{
	struct weir__arena_req req = {
		.bytes = 4096, .kind = WEIR_MEM_HUGE, .node = -1, .strict = true
	};
	struct weir *weir = open_root(0);
	struct weir_backend_mem mem = { 0 };

	weir__enter("weir_buf_alloc");
	is_err(weir__arena_take(weir, &req, &mem), -EOPNOTSUPP,
	       "4096 bytes: no huge pages: smaller than",
	       "less than a huge page of memory fails if huge pages are required");
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	req.bytes = 4 * MIB;
	is_err(weir__arena_take(weir, &req, &mem), -EOPNOTSUPP, "no huge pages",
	       "required huge pages fail if the process has them switched off");
	req.strict = false;
	is_int(weir__arena_take(weir, &req, &mem), 0,
	       "small pages are used if huge pages are switched off");
	ok(!(mem.got & WEIR_GOT_HUGE) && mem.why[0],
	   "small pages report the reason: %s", mem.why);
	weir__arena_give(weir, &mem);
	prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
	weir_close(weir);
}

static void no_node(void)
{
	struct weir__arena_req req = { .bytes = 4 * MIB,
				       .kind = WEIR_MEM_HUGE,
				       .node = 1000 };
	struct weir *weir = open_root(0);
	struct weir_backend_mem mem = { 0 };

	weir__enter("weir_buf_alloc");
	is_int(weir__arena_take(weir, &req, &mem), 0,
	       "memory of a NUMA node that does not exist comes from any node");
	ok(mem.node == -1 && strstr(mem.why, "NUMA node 1000"),
	   "memory of another node reports the reason: %s", mem.why);
	weir__arena_give(weir, &mem);
	req.strict = true;
	ok(weir__arena_take(weir, &req, &mem) < 0,
	   "required memory of a NUMA node that does not exist fails: %s",
	   weir_error());
	weir_close(weir);
}

static void prefaulted(void)
{
	struct weir *weir = open_root(64 * MIB);
	struct weir_backend_mem a;

	take_or_bail(weir, 16 * MIB, WEIR_MEM_HUGE, &a);
	is_int(__atomic_load_n(&a.backed, __ATOMIC_SEQ_CST), 0,
	       "fresh memory is not backed");
	is_int(weir__arena_prefault(&a, 16 * MIB), 0,
	       "memory can be prefaulted ahead of its use");
	is_int(__atomic_load_n(&a.backed, __ATOMIC_SEQ_CST), 16 * MIB,
	       "memory that was prefaulted is known to be backed");
	weir__arena_give(weir, &a);
	weir_close(weir);
}

static void used_again(void)
{
	struct weir *weir = open_root(64 * MIB);
	struct weir_backend_mem a, b, c;
	unsigned char *was;

	take_or_bail(weir, 16 * MIB, WEIR_MEM_HUGE, &a);
	weir__arena_prefault(&a, 16 * MIB);
	was = a.base;
	was[5 * MIB] = 77;
	weir__arena_give(weir, &a);
	take_or_bail(weir, 13 * MIB, WEIR_MEM_HUGE, &b);
	ok(b.base == was && was[5 * MIB] == 77, "freed memory is used again");
	is_int(__atomic_load_n(&b.backed, __ATOMIC_SEQ_CST), 16 * MIB,
	       "memory that is used again is known to be backed");
	weir__arena_give(weir, &b);
	take_or_bail(weir, 12 * MIB, WEIR_MEM_HUGE, &c);
	ok(c.base != was,
	   "freed memory is not used again if over a quarter would be wasted");
	take_or_bail(weir, 16 * MIB, WEIR_MEM_PLAIN, &b);
	ok(b.base != was, "freed memory is not used again for another kind");
	weir__arena_give(weir, &b);
	weir__arena_give(weir, &c);
	take_or_bail(weir, 11 * MIB, WEIR_MEM_HUGE, &a);
	ok(a.base != was, "the smallest freed memory that fits is used again");
	take_or_bail(weir, 14 * MIB, WEIR_MEM_HUGE, &b);
	ok(b.base == was, "larger freed memory stays for a larger request");
	weir__arena_give(weir, &a);
	weir__arena_give(weir, &b);
	weir_close(weir);
}

/* Whether the page at @addr is still backed. */
static bool mapped(const void *addr)
{
	return smaps(addr, "Rss:", NULL) > 0;
}

static void trimmed(void)
{
	struct weir *weir = open_root(40 * MIB);
	struct weir_backend_mem mem[3];
	unsigned char *at[3];

	for (int i = 0; i < 3; i++) {
		take_or_bail(weir, 16 * MIB, WEIR_MEM_HUGE, &mem[i]);
		weir__arena_prefault(&mem[i], 16 * MIB);
		at[i] = mem[i].base;
	}
	for (int i = 0; i < 3; i++)
		weir__arena_give(weir, &mem[i]);
	ok(!mapped(at[0]),
	   "when freed memory exceeds what may be kept, the oldest is unmapped");
	ok(mapped(at[1]) && mapped(at[2]),
	   "no more freed memory is unmapped than must be");
	weir_trim(weir, 16 * MIB);
	ok(!mapped(at[1]) && mapped(at[2]),
	   "a trim keeps as many bytes as its argument says");
	weir_trim(weir, 0);
	ok(!mapped(at[2]), "a trim to 0 keeps nothing");
	weir_close(weir);
}

static void too_large_to_keep(void)
{
	struct weir *weir = open_root(40 * MIB);
	struct weir_backend_mem large, mem;

	take_or_bail(weir, 64 * MIB, WEIR_MEM_HUGE, &large);
	take_or_bail(weir, 16 * MIB, WEIR_MEM_HUGE, &mem);
	weir__arena_prefault(&mem, MIB);
	weir__arena_give(weir, &mem);
	weir__arena_give(weir, &large);
	take_or_bail(weir, 16 * MIB, WEIR_MEM_HUGE, &mem);
	ok(__atomic_load_n(&mem.backed, __ATOMIC_SEQ_CST) >= MIB,
	   "memory that is too large to keep does not evict what is kept");
	weir__arena_give(weir, &mem);
	weir_close(weir);
}

static void not_kept(void)
{
	struct weir *weir = open_root(40 * MIB);
	struct weir_backend_mem mem;
	unsigned char *at;

	take_or_bail(weir, 16 * MIB, WEIR_MEM_HUGE, &mem);
	weir__arena_prefault(&mem, MIB);
	at = mem.base;
	weir__root_ref(weir);
	weir_close(weir);
	weir__arena_give(weir, &mem);
	ok(!mapped(at), "nothing is kept after the root is closed");
	weir__root_put(weir);
	weir = open_root(UINT64_MAX);
	take_or_bail(weir, 4 * MIB, WEIR_MEM_HUGE, &mem);
	weir__arena_prefault(&mem, 4 * MIB);
	at = mem.base;
	weir__arena_give(weir, &mem);
	ok(!mapped(at), "a root with keep UINT64_MAX keeps nothing");
	weir_close(weir);
}

static void too_much(void)
{
	struct weir *weir = open_root(0);
	struct weir_backend_mem mem;

	weir__enter("weir_buf_alloc");
	is_err(take(weir, (size_t)1 << 40, WEIR_MEM_HUGE, &mem), -ENOMEM,
	       "1099511627776 bytes are needed, ",
	       "1 TiB is refused, and the error says how much there is");
	is_err(take(weir, SIZE_MAX, WEIR_MEM_PLAIN, &mem), -ENOMEM, "bytes",
	       "SIZE_MAX bytes are refused");
	is_err(take(weir, SIZE_MAX - 4095, WEIR_MEM_HUGE, &mem), -ENOMEM,
	       "bytes", "a size that wraps when it is aligned is refused");
	is_err(take(weir, (size_t)1 << 63, WEIR_MEM_HUGE, &mem), -ENOMEM,
	       "bytes", "2^63 bytes are refused");
	weir_close(weir);
}

static void promised(void)
{
	struct weir *weir = open_root(0);
	struct weir_backend_mem half, rest;
	uint64_t avail, total;

	weir__enter("weir_buf_alloc");
	weir__avail_ram("", &avail, &total);
	take_or_bail(weir, avail / 4 * 3, WEIR_MEM_HUGE, &half);
	is_err(take(weir, avail / 4 * 3, WEIR_MEM_HUGE, &rest), -ENOMEM,
	       "promised to other buffers",
	       "memory that a buffer may still touch is not promised to another");
	weir__arena_give(weir, &half);
	weir_close(weir);
}

/* Fill 1 GiB, then ask for what is available less 512 MiB. */
static int beside_touched(struct weir *weir)
{
	struct weir_backend_mem kept, all;
	uint64_t avail, total;
	int r;

	take_or_bail(weir, 1024 * MIB, WEIR_MEM_HUGE, &kept);
	memset(kept.base, 1, 1024 * MIB);
	weir__avail_ram("", &avail, &total);
	r = take(weir, avail - 512 * MIB, WEIR_MEM_PLAIN, &all);
	if (!r)
		weir__arena_give(weir, &all);
	weir__arena_give(weir, &kept);
	return r;
}

/* 1 GiB is kept: ask for 512 MiB more than is available without it. */
static int instead_of_kept(struct weir *weir)
{
	struct weir_backend_mem kept, all;
	uint64_t avail, total;
	int r;

	take_or_bail(weir, 1024 * MIB, WEIR_MEM_HUGE, &kept);
	memset(kept.base, 1, 1024 * MIB);
	weir__arena_give(weir, &kept);
	weir__avail_ram("", &avail, &total);
	r = take(weir, avail + 512 * MIB, WEIR_MEM_PLAIN, &all);
	if (!r)
		weir__arena_give(weir, &all);
	return r;
}

/* Retry: a refusal may be due to memory that another program uses. */
static int in_the_end(int (*fn)(struct weir *weir), struct weir *weir)
{
	int r = fn(weir);

	for (int i = 0; r < 0 && i < 20; i++) {
		diag("%s", weir_error());
		usleep(300000);
		r = fn(weir);
	}
	return r;
}

static void almost_all(void)
{
	struct weir *weir = open_root(1024 * MIB);
	uint64_t avail, total;

	weir__avail_ram("", &avail, &total);
	if (avail < 4096 * MIB) {
		skip(2, "%llu bytes are too few to fill 1 GiB",
		     (unsigned long long)avail);
	} else {
		is_int(in_the_end(beside_touched, weir), 0,
		       "memory that the program has touched itself is not counted twice");
		is_int(in_the_end(instead_of_kept, weir), 0,
		       "freed memory that is kept is unmapped before a request is refused");
	}
	weir_close(weir);
}

/* At most 8 MiB, and not as root, which may lock more than its limit. */
static size_t limit_memlock(void)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_MEMLOCK, &lim) < 0)
		return 0;
	if (lim.rlim_max > 8 * MIB)
		lim.rlim_max = 8 * MIB;
	lim.rlim_max &= ~(rlim_t)0xffff;
	lim.rlim_cur = lim.rlim_max;
	if (setrlimit(RLIMIT_MEMLOCK, &lim) < 0 ||
	    (!geteuid() && setresuid(NOBODY, NOBODY, NOBODY) < 0))
		return 0;
	return lim.rlim_max;
}

static int locked_child(void)
{
	struct weir__arena_req req = { .kind = WEIR_MEM_LOCKED, .node = -1 };
	struct weir_backend_mem mem = { 0 }, other = { 0 };
	struct weir *weir = open_root(64 * MIB);
	size_t lim = limit_memlock();
	char both[128], one[64];
	int wrong = 0;

	if (!lim)
		return NO_LIMIT;
	snprintf(one, sizeof(one), "RLIMIT_MEMLOCK is %zu", lim);
	snprintf(both, sizeof(both), "%zu bytes are needed, %s", 2 * lim, one);
	req.bytes = 2 * lim;
	wrong |= weir__arena_take(weir, &req, &mem) != 0;
	wrong |= ((mem.got & WEIR_GOT_LOCKED) != 0) << 1;
	wrong |= !strstr(mem.why, both) << 2;
	weir__arena_give(weir, &mem);
	req.strict = true;
	wrong |= (weir__arena_take(weir, &req, &mem) >= 0) << 3;
	wrong |= !strstr(weir_error(), one) << 4;
	/*
	 * 3/4 of the limit stays locked; all of it fits when that is unlocked.
	 */
	req.bytes = lim / 4 * 3;
	wrong |= (weir__arena_take(weir, &req, &other) != 0) << 5;
	if (wrong)
		return wrong;
	weir__arena_give(weir, &other);
	req.bytes = lim;
	wrong |= (weir__arena_take(weir, &req, &other) != 0) << 6;
	weir_close(weir);
	return wrong;
}

/* Memory that is kept and not locked stays kept: it cannot help. */
static int unlocked_child(void)
{
	struct weir__arena_req req = { .kind = WEIR_MEM_LOCKED, .node = -1 };
	struct weir_backend_mem kept, mem = { 0 };
	struct weir *weir = open_root(64 * MIB);
	size_t lim = limit_memlock();

	if (!lim)
		return NO_LIMIT;
	take_or_bail(weir, 4 * MIB, WEIR_MEM_PLAIN, &kept);
	if (weir__arena_prefault(&kept, 4 * MIB) < 0)
		bail("%s", weir_error());
	weir__arena_give(weir, &kept);
	req.bytes = 2 * lim;
	if (weir__arena_take(weir, &req, &mem) < 0)
		return 1;
	weir__arena_give(weir, &mem);
	take_or_bail(weir, 4 * MIB, WEIR_MEM_PLAIN, &kept);
	return kept.backed != 4 * MIB ? 2 : 0;
}

static void locked(void)
{
	struct weir *weir = open_root(0);
	struct weir_backend_mem mem;

	take_or_bail(weir, MIB, WEIR_MEM_LOCKED, &mem);
	memset(mem.base, 1, MIB);
	if (mem.got & WEIR_GOT_LOCKED)
		is_int(smaps(mem.base, "Locked:", NULL), 1024,
		       "locked memory is locked");
	else
		has_str(mem.why, "RLIMIT_MEMLOCK",
			"memory that cannot be locked reports the reason: %s",
			mem.why);
	weir__arena_give(weir, &mem);
	weir_close(weir);
}

static void under_memlock_limit(int (*child)(void), const char *title)
{
	int status = -1;
	pid_t pid;

	pid = fork();
	if (!pid)
		_exit(child());
	waitpid(pid, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == NO_LIMIT)
		skip(1, "less than 64 KiB may be locked here");
	else
		is_int(status, 0, "%s", title);
}

static void memlock_limit(void)
{
	under_memlock_limit(
		locked_child,
		"over RLIMIT_MEMLOCK memory is not locked, and kept locked memory is unlocked first");
	under_memlock_limit(
		unlocked_child,
		"over RLIMIT_MEMLOCK memory that is kept and not locked stays kept");
}

static int space_child(void)
{
	struct weir *weir = open_root(0);
	struct rlimit lim;
	struct weir_backend_mem mem;
	int wrong = 0;

	getrlimit(RLIMIT_AS, &lim);
	lim.rlim_cur = 512 * MIB;
	if (setrlimit(RLIMIT_AS, &lim) < 0)
		return 128;
	take_or_bail(weir, 200 * MIB, WEIR_MEM_HUGE, &mem);
	weir__arena_give(weir, &mem);
	/* Memory of another kind fits if what is kept is unmapped. */
	take_or_bail(weir, 350 * MIB, WEIR_MEM_PLAIN, &mem);
	wrong |= take(weir, 400 * MIB, WEIR_MEM_HUGE, &mem) != -ENOMEM;
	wrong |= !strstr(weir_error(), "RLIMIT_AS") << 1;
	return wrong;
}

static void space_limit(void)
{
	limited_child(
		space_child,
		"under RLIMIT_AS kept memory is unmapped first, and the error names the limit");
}

int main(void)
{
	plan(8 + 7 + 9 + 7 + 7 + 3 + 1);
	huge();
	plain();
	too_small();
	no_huge_pages();
	no_node();
	prefaulted();
	used_again();
	trimmed();
	too_large_to_keep();
	not_kept();
	too_much();
	promised();
	almost_all();
	locked();
	memlock_limit();
	space_limit();
	return done_testing();
}
