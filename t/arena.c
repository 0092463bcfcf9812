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
#include "tap.h"

#define MIB ((size_t)1 << 20)
#define NOBODY 65534
#define NO_LIMIT 128 /* the status of a child that could set none */

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
		struct weir__mem *mem)
{
	struct weir__arena_req req = { .bytes = bytes,
				       .kind = kind,
				       .node = -1 };

	memset(mem, 0, sizeof(*mem));
	return weir__arena_take(weir, &req, mem);
}

static void take_or_bail(struct weir *weir, size_t bytes, enum weir_mem kind,
			 struct weir__mem *mem)
{
	if (take(weir, bytes, kind, mem) < 0)
		bail("%s", weir_error());
}

/* A line of /proc/self/smaps for the mapping at @addr, or its sum in KiB. */
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

static void kinds(void)
{
	struct weir *weir = open_root(0);
	char flags[512] = "";
	struct weir__mem mem;

	take_or_bail(weir, 5 * MIB, WEIR_MEM_HUGE, &mem);
	is_int((uintptr_t)mem.base % (2 * MIB), 0,
	       "memory in huge pages is aligned to them");
	memset(mem.base, 1, 5 * MIB);
	if (thp_on()) {
		ok(mem.got == WEIR_GOT_HUGE && !mem.why[0], "it says huge");
		ok(smaps(mem.base, "AnonHugePages:", flags) >= 4096,
		   "... and is");
	} else {
		ok(!mem.got && mem.why[0], "it says why it is not huge: %s",
		   mem.why);
		ok(smaps(mem.base, "AnonHugePages:", flags) == 0,
		   "... which is so");
	}
	ok(!strstr(flags, " dc"), "a child after fork has it, too");
	weir__arena_hide(&mem, true);
	smaps(mem.base, "AnonHugePages:", flags);
	has_str(flags, " dc", "... unless it is hidden");
	weir__arena_give(weir, &mem);

	take_or_bail(weir, 5 * MIB, WEIR_MEM_PLAIN, &mem);
	memset(mem.base, 1, 5 * MIB);
	is_int(smaps(mem.base, "AnonHugePages:", NULL), 0,
	       "plain memory has no huge pages");
	is_int(mem.got, 0, "... and does not claim them");
	weir__arena_give(weir, &mem);

	take_or_bail(weir, 4096, WEIR_MEM_HUGE, &mem);
	has_str(mem.why, "smaller than a huge page of 2 MiB",
		"less than a huge page is small pages, which says so");
	weir__arena_give(weir, &mem);
	weir_close(weir);
}

static void strict(void)
{
	struct weir__arena_req req = {
		.bytes = 4096, .kind = WEIR_MEM_HUGE, .node = -1, .strict = true
	};
	struct weir *weir = open_root(0);
	struct weir__mem mem = { 0 };

	weir__enter("weir_buf_alloc");
	is_err(weir__arena_take(weir, &req, &mem), -EOPNOTSUPP,
	       "4096 bytes: no huge pages: smaller than",
	       "... unless that is an error");
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	req.bytes = 4 * MIB;
	is_err(weir__arena_take(weir, &req, &mem), -EOPNOTSUPP, "no huge pages",
	       "huge pages that are switched off are noticed");
	req.strict = false;
	is_int(weir__arena_take(weir, &req, &mem), 0,
	       "... and small ones given");
	ok(!(mem.got & WEIR_GOT_HUGE) && mem.why[0], "... saying why: %s",
	   mem.why);
	weir__arena_give(weir, &mem);
	prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
	req.node = 1000;
	is_int(weir__arena_take(weir, &req, &mem), 0,
	       "memory of a node that is not there comes from anywhere");
	ok(mem.node == -1 && strstr(mem.why, "NUMA node 1000"),
	   "... saying why: %s", mem.why);
	weir__arena_give(weir, &mem);
	req.strict = true;
	ok(weir__arena_take(weir, &req, &mem) < 0,
	   "... unless that is an error: %s", weir_error());
	weir_close(weir);
}

static void kept(void)
{
	struct weir *weir = open_root(64 * MIB);
	struct weir__mem a, b, c;
	unsigned char *was;

	take_or_bail(weir, 16 * MIB, WEIR_MEM_HUGE, &a);
	is_int(atomic_load(&a.touched), 0, "fresh memory is not touched yet");
	is_int(weir__arena_touch(&a, 16 * MIB), 0, "it can be touched ahead");
	is_int(atomic_load(&a.touched), 16 * MIB, "... and then is");
	was = a.base;
	was[5 * MIB] = 77;
	weir__arena_give(weir, &a);
	take_or_bail(weir, 13 * MIB, WEIR_MEM_HUGE, &b);
	ok(b.base == was && was[5 * MIB] == 77,
	   "memory that was given back is used again");
	is_int(atomic_load(&b.touched), 16 * MIB,
	       "... and known to be touched");
	weir__arena_give(weir, &b);
	take_or_bail(weir, 12 * MIB, WEIR_MEM_HUGE, &c);
	ok(c.base != was, "... but not where over a quarter would be wasted");
	take_or_bail(weir, 16 * MIB, WEIR_MEM_PLAIN, &b);
	ok(b.base != was, "... nor for another kind");
	weir__arena_give(weir, &b);
	weir__arena_give(weir, &c);
	take_or_bail(weir, 11 * MIB, WEIR_MEM_HUGE, &a);
	ok(a.base != was, "the smallest that fits is taken");
	take_or_bail(weir, 14 * MIB, WEIR_MEM_HUGE, &b);
	ok(b.base == was, "... and the larger one kept for more");
	weir__arena_give(weir, &a);
	weir__arena_give(weir, &b);
	weir_close(weir);
}

/* Is the first page of what was @addr still backed? */
static bool mapped(const void *addr)
{
	return smaps(addr, "Rss:", NULL) > 0;
}

static void given_back(void)
{
	struct weir *weir = open_root(40 * MIB);
	struct weir__mem mem[3];
	unsigned char *at[3];

	for (int i = 0; i < 3; i++) {
		take_or_bail(weir, 16 * MIB, WEIR_MEM_HUGE, &mem[i]);
		weir__arena_touch(&mem[i], 16 * MIB);
		at[i] = mem[i].base;
	}
	for (int i = 0; i < 3; i++)
		weir__arena_give(weir, &mem[i]);
	ok(!mapped(at[0]), "over what may be kept, the oldest goes first");
	ok(mapped(at[1]) && mapped(at[2]), "... and no more than must");
	weir_trim(weir, 16 * MIB);
	ok(!mapped(at[1]) && mapped(at[2]), "a trim leaves what it is told");
	weir_trim(weir, 0);
	ok(!mapped(at[2]), "... or nothing");
	take_or_bail(weir, 64 * MIB, WEIR_MEM_HUGE, &mem[0]);
	take_or_bail(weir, 16 * MIB, WEIR_MEM_HUGE, &mem[1]);
	weir__arena_touch(&mem[1], MIB);
	weir__arena_give(weir, &mem[1]);
	weir__arena_give(weir, &mem[0]);
	take_or_bail(weir, 16 * MIB, WEIR_MEM_HUGE, &mem[2]);
	ok(atomic_load(&mem[2].touched) >= MIB,
	   "what is too large to keep pushes nothing out");
	weir__root_ref(weir);
	weir_close(weir);
	at[2] = mem[2].base;
	weir__arena_give(weir, &mem[2]);
	ok(!mapped(at[2]), "after the root is closed nothing is kept");
	weir__root_put(weir);
	weir = open_root(UINT64_MAX);
	take_or_bail(weir, 4 * MIB, WEIR_MEM_HUGE, &mem[0]);
	weir__arena_touch(&mem[0], 4 * MIB);
	at[0] = mem[0].base;
	weir__arena_give(weir, &mem[0]);
	ok(!mapped(at[0]), "... nor by a root that keeps none");
	weir_close(weir);
}

static void too_much(void)
{
	struct weir *weir = open_root(0);
	struct weir__mem mem, half, rest;
	uint64_t avail, total;

	weir__enter("weir_buf_alloc");
	is_err(take(weir, (size_t)1 << 40, WEIR_MEM_HUGE, &mem), -ENOMEM,
	       "1099511627776 bytes are needed, ",
	       "1 TiB is refused at once, with what there is");
	is_err(take(weir, SIZE_MAX, WEIR_MEM_PLAIN, &mem), -ENOMEM, "bytes",
	       "SIZE_MAX bytes do not wrap");
	is_err(take(weir, SIZE_MAX - 4095, WEIR_MEM_HUGE, &mem), -ENOMEM,
	       "bytes", "... nor what is aligned to nearly that");
	is_err(take(weir, (size_t)1 << 63, WEIR_MEM_HUGE, &mem), -ENOMEM,
	       "bytes", "... nor 2^63");
	weir__avail_ram("", &avail, &total);
	take_or_bail(weir, avail / 4 * 3, WEIR_MEM_HUGE, &half);
	is_err(take(weir, avail / 4 * 3, WEIR_MEM_HUGE, &rest), -ENOMEM,
	       "promised to other buffers",
	       "what was promised is not promised twice, touched or not");
	weir__arena_give(weir, &half);
	weir_close(weir);
}

/* Fill 1 GiB, and ask for all that is available then but for 512 MiB. */
static int beside_touched(struct weir *weir)
{
	struct weir__mem kept, all;
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
	struct weir__mem kept, all;
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

/* Other programs take memory meanwhile: one refusal proves nothing. */
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

static void room(void)
{
	struct weir *weir = open_root(1024 * MIB);
	uint64_t avail, total;

	weir__avail_ram("", &avail, &total);
	if (avail < 4096 * MIB) {
		skip(2, "%llu bytes are too few to fill 1 GiB",
		     (unsigned long long)avail);
	} else {
		is_int(in_the_end(beside_touched, weir), 0,
		       "what a program touched by itself is not promised any more");
		is_int(in_the_end(instead_of_kept, weir), 0,
		       "what is kept is given back before memory is refused");
	}
	weir_close(weir);
}

/* 8 MiB, or what there may be at most; root may have more than its limit. */
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
	struct weir__mem mem = { 0 }, other = { 0 };
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
	/* 3/4 of it are kept locked: all only fits when those are given back. */
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

static void locked(void)
{
	struct weir *weir = open_root(0);
	struct weir__mem mem;
	int status = -1;
	pid_t pid;

	take_or_bail(weir, MIB, WEIR_MEM_LOCKED, &mem);
	memset(mem.base, 1, MIB);
	if (mem.got & WEIR_GOT_LOCKED)
		is_int(smaps(mem.base, "Locked:", NULL), 1024,
		       "locked memory is locked");
	else
		has_str(mem.why, "RLIMIT_MEMLOCK",
			"memory that cannot be locked says why: %s", mem.why);
	weir__arena_give(weir, &mem);
	weir_close(weir);
	pid = fork();
	if (!pid)
		_exit(locked_child());
	waitpid(pid, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == NO_LIMIT)
		skip(1, "less than 64 KiB may be locked here");
	else
		is_int(status, 0,
		       "under RLIMIT_MEMLOCK it is not, with both numbers, and what is kept locked makes room");
}

static int space_child(void)
{
	struct weir *weir = open_root(0);
	struct rlimit lim;
	struct weir__mem mem;
	int wrong = 0;

	getrlimit(RLIMIT_AS, &lim);
	lim.rlim_cur = 512 * MIB;
	if (setrlimit(RLIMIT_AS, &lim) < 0)
		return 128;
	take_or_bail(weir, 200 * MIB, WEIR_MEM_HUGE, &mem);
	weir__arena_give(weir, &mem);
	/* Another kind: only fits when the kept ones are unmapped. */
	take_or_bail(weir, 350 * MIB, WEIR_MEM_PLAIN, &mem);
	wrong |= take(weir, 400 * MIB, WEIR_MEM_HUGE, &mem) != -ENOMEM;
	wrong |= !strstr(weir_error(), "RLIMIT_AS") << 1;
	return wrong;
}

static void space(void)
{
	const char *sanitizer = getenv("WEIR_T_SANITIZER");
	int status = -1;
	pid_t pid;

	if (sanitizer && strcmp(sanitizer, "no")) {
		skip(1, "a sanitizer takes all addresses");
		return;
	}
	pid = fork();
	if (!pid)
		_exit(space_child());
	waitpid(pid, &status, 0);
	is_int(status, 0,
	       "under RLIMIT_AS kept memory makes room, and the sentence names it");
}

int main(void)
{
	plan(8 + 7 + 9 + 7 + 7 + 2 + 1);
	kinds();
	strict();
	kept();
	given_back();
	too_much();
	room();
	locked();
	space();
	return done_testing();
}
