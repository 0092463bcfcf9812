/* SPDX-License-Identifier: MIT */
/* The pass that decides which imports are kept and which are prefetched. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <weir.h>

#include "core/util.h"
#include "graph/prefetch/imports.h"
#include "tap.h"

#define MOST 200u
#define ANY WEIR__IMPORTS_ANY

static uint64_t bytes[MOST];
static uint32_t first[MOST], last[MOST], phase[MOST];
static uint32_t same[MOST];
static uint64_t by_rows[MOST];
static bool there[MOST];
static struct weir__imports_in in;
static struct weir__imports out;
static uint64_t seed;

static unsigned rnd(unsigned n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(seed >> 33) % n;
}

/* @n imports of @size bytes, each read by the step of its number. */
static void begin(uint32_t n, uint64_t size)
{
	memset(there, 0, sizeof(there));
	for (uint32_t i = 0; i < n; i++) {
		bytes[i] = size;
		first[i] = last[i] = i;
		phase[i] = ANY;
		same[i] = i;
		by_rows[i] = 0;
	}
	in = (struct weir__imports_in){ .n = n,
					.bytes = bytes,
					.first = first,
					.last = last,
					.phase = phase,
					.is_kept = there,
					.same = same,
					.by_rows = by_rows,
					.align = 64 };
}

static void decide(uint64_t budget)
{
	weir__imports_free(&out);
	in.budget = budget;
	if (weir__imports(&in, &out) < 0)
		bail("%s", weir_error());
}

static uint32_t count_prefetched(uint32_t lo, uint32_t hi)
{
	uint32_t n = 0;

	for (uint32_t i = lo; i < hi; i++)
		n += out.prefetched[i];
	return n;
}

/* All that has to hold, by plain loops. */
static const char *wrong(void)
{
	uint64_t kept = 0;

	for (uint32_t i = 0; i < in.n; i++) {
		if (out.prefetched[i] != out.prefetched[same[i]])
			return "one of several with the same bytes is prefetched";
		if (!out.prefetched[i]) {
			kept += there[i] || same[i] != i
					? 0
					: weir__import_need(&in, i);
			continue;
		}
		if (there[i])
			return "one that is there is prefetched";
		if (by_rows[i])
			continue;
		if (out.offset[i] + bytes[i] > out.buffer)
			return "one ends after the buffer";
		if (phase[i] == ANY ? out.offset[i] % in.align
				    : out.offset[i] % WEIR__PAGE != phase[i])
			return "a place has the wrong phase";
		for (uint32_t j = 0; j < i; j++)
			if (out.prefetched[j] && !by_rows[j] &&
			    last[j] >= first[i] &&
			    out.offset[j] < out.offset[i] + bytes[i] &&
			    out.offset[i] < out.offset[j] + bytes[j])
				return "two that are needed at once overlap";
	}
	if (kept + (out.buffer == in.buffer ? 0 : out.buffer) > in.budget)
		return "the budget is exceeded";
	return NULL;
}

static void all_kept(void)
{
	begin(10, 1000);
	decide(10240);
	ok(!count_prefetched(0, 10) && !out.buffer,
	   "all imports are kept if they fit in the budget");
	is_int(out.kept_bytes, 10000, "the bytes that are kept are counted");
	decide(10239);
	ok(count_prefetched(0, 10) > 0 && !wrong(),
	   "one byte less than all, and some are prefetched");
}

static void spread(void)
{
	begin(100, 6400);
	decide(50 * 6400);
	is_int(count_prefetched(0, 100), 53,
	       "half of the bytes less a buffer of three are kept");
	ok(out.buffer == 3 * 6400 && !wrong(), "the buffer has room for three");
	ok(count_prefetched(0, 50) >= 26 && count_prefetched(0, 50) <= 28 &&
		   count_prefetched(20, 40) >= 10 &&
		   count_prefetched(20, 40) <= 12,
	   "the imports that are prefetched are evenly spread");
	is_int(out.prefetched_bytes, 53 * 6400,
	       "the bytes that are prefetched are counted");
}

static void large(void)
{
	begin(100, 6400);
	bytes[0] = bytes[99] = 64000;
	decide(60 * 6400);
	ok(!out.prefetched[0] && !out.prefetched[99] && out.buffer < 4 * 6400,
	   "imports that would make the buffer large are kept");
	bytes[0] = bytes[99] = 6400;
	for (uint32_t i = 0; i < 100; i += 10)
		bytes[i] = 64;
	decide(50 * 6400);
	ok(!out.prefetched[0] && !out.prefetched[50] && !out.prefetched[90] &&
		   !wrong(),
	   "tiny imports are kept");
	begin(100, 6400);
	last[3] = 80;
	decide(20 * 6400);
	ok(!out.prefetched[3] && !wrong(),
	   "an import that is in use for long is kept");
}

/* The first, the middle one and the last have the same bytes. */
static void repeated(void)
{
	begin(101, 6400);
	same[50] = same[100] = 0;
	decide(99 * 6400);
	ok(!count_prefetched(0, 101) && out.kept_bytes == 99 * 6400,
	   "imports with the same bytes are kept and counted once");
	decide(50 * 6400);
	ok(!out.prefetched[0] && !out.prefetched[50] && !out.prefetched[100] &&
		   !wrong(),
	   "of the imports that do not all fit those are kept that are read again");
	is_int(out.kept_bytes + out.prefetched_bytes, 99 * 6400,
	       "imports that are kept once are not prefetched");
	decide(2 * 6400);
	ok(count_prefetched(0, 101) == 101 &&
		   out.prefetched_bytes == 101 * 6400 && !wrong(),
	   "imports with the same bytes that are prefetched are read each time");
}

/* The first is larger than all others, and read by rows. */
static void by_their_rows(void)
{
	begin(100, 6400);
	bytes[0] = 640000;
	by_rows[0] = 100;
	decide(6400);
	is_int(out.prefetched_bytes, 100 + 99 * 6400,
	       "of an import that is read by rows these are prefetched");
	decide(99 * 6400);
	ok(out.prefetched[0] && count_prefetched(1, 100) == 0 && !out.buffer,
	   "an import that is read by rows needs no buffer");
	decide(50 * 6400);
	ok(out.prefetched[0] && count_prefetched(1, 100) == 52 &&
		   out.buffer == 3 * 6400 && !wrong(),
	   "an import that is read by rows takes no bytes from the others");
	decide(99 * 6400 + 640000);
	ok(!count_prefetched(0, 100),
	   "an import that is read by rows is kept if all others are");
	same[99] = 0;
	bytes[99] = 640000;
	decide(640000 + 98 * 6400);
	ok(!count_prefetched(0, 100) && out.kept_bytes == 640000 + 98 * 6400,
	   "bytes that are read by rows and as a whole are kept once");
	decide(2 * 640000);
	ok(!wrong() && out.prefetched[0] == out.prefetched[99],
	   "bytes that are read by rows and as a whole are kept or prefetched as one");
}

static void tight(void)
{
	begin(20, 6400);
	decide(2 * 6400);
	ok(count_prefetched(0, 20) == 20 && out.buffer == 2 * 6400 && !wrong(),
	   "the buffer is smaller if the budget has no room for three");
	decide(6400);
	ok(count_prefetched(0, 20) == 20 && out.buffer == 6400 && !wrong(),
	   "a buffer of one import is enough");
	in.budget = 6399;
	is_int(weir__imports(&in, &out), -ENOMEM,
	       "a budget that lacks one byte for one import is refused");
	has_str(weir_error(), "step 0 needs 6400 bytes",
		"the refusal has the bytes that are needed");
	has_str(weir_error(), "leaves 6399", "the refusal has the budget");
	first[7] = 6;
	in.budget = 12799;
	is_int(weir__imports(&in, &out), -ENOMEM,
	       "a budget that lacks one byte for the two of a step is refused");
	decide(12800);
	ok(!wrong(), "a budget for the two imports of one step is enough");
}

static void again(void)
{
	begin(20, 6400);
	in.buffer = 4 * 6400;
	for (uint32_t i = 0; i < 20; i += 2)
		there[i] = true;
	decide(0);
	ok(count_prefetched(0, 20) == 10 && out.buffer == in.buffer && !wrong(),
	   "what is there, and the buffer that is there, cost nothing");
	bytes[1] = 8 * 6400;
	decide(10 * 6400);
	ok(!wrong() && (!out.prefetched[1] || out.buffer > in.buffer),
	   "a buffer that is too small is not taken");
}

/* Give import @i the bytes of an earlier one that is not in use any more. */
static void random_same(uint32_t i)
{
	uint32_t k = i ? rnd(2 * i) : 0;

	if (k >= i)
		return;
	for (uint32_t j = k; j < i; j++)
		if (same[j] == same[k] && last[j] >= first[i])
			return;
	same[i] = same[k];
	bytes[i] = bytes[k];
	phase[i] = phase[k];
	there[i] = there[k];
}

static void random_list(void)
{
	uint32_t n = 1 + rnd(MOST - 1), step = 0;

	begin(n, 0);
	for (uint32_t i = 0; i < n; i++) {
		step += rnd(3);
		bytes[i] = rnd(4) ? 1 + rnd(9000) : 1 + rnd(90000);
		first[i] = step;
		last[i] = step + (rnd(8) ? rnd(3) : rnd(100));
		phase[i] = rnd(4) ? ANY : rnd(WEIR__PAGE);
		there[i] = !rnd(6);
		by_rows[i] = rnd(10) ? 0 : 1 + rnd(100);
		random_same(i);
	}
	in.buffer = rnd(2) ? 0 : rnd(200000);
}

static void randoms(void)
{
	unsigned refused = 0, taken = 0;
	const char *why = NULL;

	for (unsigned k = 0; k < 20000 && !why; k++) {
		seed = k;
		random_list();
		in.budget = rnd(1u << (10 + rnd(14)));
		weir__imports_free(&out);
		if (weir__imports(&in, &out) < 0) {
			refused++;
			continue;
		}
		taken += out.buffer != 0;
		why = wrong();
		if (why)
			diag("seed %u: %s", k, why);
	}
	ok(!why, "20000 random lists get valid places");
	ok(refused > 100 && taken > 1000,
	   "of the random lists %u are refused, %u have a buffer", refused,
	   taken);
}

int main(void)
{
	plan(31);
	all_kept();
	spread();
	large();
	repeated();
	by_their_rows();
	tight();
	again();
	randoms();
	weir__imports_free(&out);
	return done_testing();
}
