/* SPDX-License-Identifier: MIT */
/*
 * Memory that is backed with pages and locked before it is used: a buffer with
 * WEIR_BUF_PREFAULT, against one thread that maps, populates and locks the same
 * kind of pages.
 */
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "bench.h"

#define BYTES ((size_t)4 << 30)
#define TINY ((size_t)64 << 20)

struct prefaulted {
	struct weir_buft *buft;
	size_t bytes;
	bool huge, lock; /* what the limit does */
};

/*
 * MAP_POPULATE cannot have huge pages where these are granted by madvise(2)
 * only, so the limit populates them by MADV_POPULATE_WRITE, which does the
 * same.
 */
static unsigned char *map_populated(const struct prefaulted *t)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS;
	unsigned char *p;

	if (t->huge) {
		p = raw_fresh(t->bytes);
		if (madvise(p, t->bytes, MADV_POPULATE_WRITE))
			die("MADV_POPULATE_WRITE failed");
		return p;
	}
	p = mmap(NULL, t->bytes, PROT_READ | PROT_WRITE, flags | MAP_POPULATE,
		 -1, 0);
	if (p == MAP_FAILED)
		die("no memory of %zu bytes", t->bytes);
	return p;
}

static void settle(void *arg)
{
	const struct prefaulted *t = arg;

	if (!bench_tiny)
		raw_settle(t->bytes);
}

static void prefault_raw(void *arg, struct sample *s)
{
	struct prefaulted *t = arg;
	double begun, cpu;
	unsigned char *p;

	/* As weir's small pages, where the system's setting is "always". */
	prctl(PR_SET_THP_DISABLE, !t->huge, 0, 0, 0);
	cpu = raw_cpu();
	begun = raw_now();
	p = map_populated(t);
	if (t->lock && mlock(p, t->bytes))
		die("mlock of %zu bytes failed", t->bytes);
	s->seconds = raw_now() - begun;
	s->cpu = raw_cpu() - cpu;
	s->bytes = t->bytes;
	prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
	if (t->huge)
		raw_unmap(p, t->bytes);
	else
		munmap(p, t->bytes);
}

static void prefault_weir(void *arg, struct sample *s)
{
	struct weir_buf_opts opts = WEIR_BUF_OPTS_INIT;
	struct prefaulted *t = arg;
	struct weir_buf *buf;
	double begun, cpu;

	opts.flags = WEIR_BUF_PREFAULT;
	prctl(PR_SET_THP_DISABLE, !t->huge, 0, 0, 0);
	cpu = raw_cpu();
	begun = raw_now();
	must(weir_buf_alloc(t->buft, t->bytes, &opts, &buf));
	s->seconds = raw_now() - begun;
	s->cpu = raw_cpu() - cpu;
	s->bytes = t->bytes;
	prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
	weir_buf_free(buf);
}

/*
 * True if the kernel grants what is to be measured. If not, *ret_why says why.
 */
static bool is_granted(const struct prefaulted *t, char *ret_why, size_t room)
{
	struct weir_buf_info info = { .size = sizeof(info) };
	struct weir_buf *buf;

	must(weir_buf_alloc(t->buft, t->bytes, NULL, &buf));
	must(weir_buf_info(buf, &info));
	weir_buf_free(buf);
	snprintf(ret_why, room, "%s", info.why);
	return (!t->huge || info.got & WEIR_GOT_HUGE) &&
	       (!t->lock || info.got & WEIR_GOT_LOCKED);
}

static void prefault(struct weir *weir, enum weir_mem kind, bool huge,
		     const char *what, unsigned pairs)
{
	struct prefaulted t = { .bytes = bench_tiny ? TINY : BYTES,
				.huge = huge,
				.lock = kind == WEIR_MEM_LOCKED };
	struct pair p = { .limit = "one thread",
			  .before = settle,
			  .a = prefault_raw,
			  .b = prefault_weir,
			  .arg = &t };
	static char why[4][240]; /* a sentence for each call, to which results
				    point */
	static unsigned calls;
	char *reason = why[calls++ % 4];
	struct result r;
	char name[64];

	snprintf(name, sizeof(name), "prefault 4 GiB%s, %s",
		 t.lock ? " and lock" : "", what);
	p.name = name;
	must(weir_dev_buft(weir_dev_get(weir, 0), kind, &t.buft));
	if (!is_granted(&t, reason, sizeof(why[0]))) {
		result_skip(name, reason);
		return;
	}
	pair_run(&p, pairs, true, &r);
	r.judged = GOAL_RATIO;
	r.goal = sysconf(_SC_NPROCESSORS_ONLN) < 2 ? 0.9 : 1.7;
	result_add(&r);
}

void row_prefault(unsigned pairs)
{
	struct weir_opts opts = WEIR_OPTS_INIT;
	struct weir *weir;

	opts.keep = UINT64_MAX; /* each buffer is fresh memory */
	must(weir_open(&opts, &weir));
	prefault(weir, WEIR_MEM_HUGE, true, "huge pages", pairs);
	prefault(weir, WEIR_MEM_LOCKED, true, "huge pages", pairs);
	prefault(weir, WEIR_MEM_PLAIN, false, "small pages", pairs);
	prefault(weir, WEIR_MEM_LOCKED, false, "small pages", pairs);
	weir_close(weir);
}
