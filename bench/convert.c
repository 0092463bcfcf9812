/* SPDX-License-Identifier: MIT */
/*
 * bench/convert [RUNS [SET]]: the rate of each conversion, in bytes read and
 * written per second, and its ratio to memcpy that reads and writes as many
 * bytes. The two alternate; the ratio is the median of RUNS (9). Three places:
 * "cache": source and destination stay in the cache; "load": the source is one
 * slot of 1 MiB that was just written, the destination is large, as in a load
 * that converts; "memory": both are larger than the cache. SET, "AVX2" for
 * instance, limits it to the sets of that name; "blocks" are quantised dtypes.
 * What goes "by way of F32" is measured only if it is named.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/tensor.h>

#include "mem/convert.h"
#include "mem/dtype.h"
#include "raw.h"

#define MAX_RUNS 101u
#define LARGE ((size_t)512 << 20)
#define SLOT ((size_t)1 << 20)
#define SMALL ((size_t)96 << 10)

static unsigned char *src_memory, *dst_memory;

/* Source and destination of one step, and steps in a run. */
struct place {
	const char *name;
	size_t traffic; /* bytes that a step reads and writes */
	size_t steps;
	bool src_moves, dst_moves;
};

static const struct place places[] = {
	{ "cache", SMALL, 2000, false, false },
	{ "load", 3 * SLOT, 64, false, true },
	{ "memory", 3 * SLOT, 64, true, true },
};

/* One run; convert is NULL for memcpy. Returns bytes of traffic per second. */
static double rate(const struct place *p,
		   const struct weir_backend_convert *convert)
{
	size_t from = convert ? convert->src_bytes : 1;
	size_t to = convert ? convert->dst_bytes : 1;
	size_t n = p->traffic / (from + to);
	double seconds = 0, begun;

	for (size_t i = 0; i < p->steps; i++) {
		unsigned char *src = src_memory, *dst = dst_memory;

		src += p->src_moves ? i * n * from : 0;
		dst += p->dst_moves ? i * n * to : 0;
		if (p->dst_moves && !p->src_moves)
			memset(src, (int)i & 0x3f, n * from);
		begun = raw_now();
		if (convert)
			convert->run(dst, src, n);
		else
			memcpy(dst, src, n);
		seconds += raw_now() - begun;
	}
	return (double)(p->steps * n * (from + to)) / seconds;
}

static int order(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void show(const struct place *p, const struct weir__convert_set *set,
		 const struct weir_backend_convert *convert, unsigned runs)
{
	double rates[MAX_RUNS], ratios[MAX_RUNS];

	rate(p, convert);
	for (unsigned i = 0; i < runs; i++) {
		rates[i] = rate(p, convert);
		ratios[i] = rates[i] / rate(p, NULL);
	}
	qsort(rates, runs, sizeof(*rates), order);
	qsort(ratios, runs, sizeof(*ratios), order);
	printf("%-8s %-8s %-11s to %-4s %6.1f GB/s %5.2f of memcpy (%.2f-%.2f)\n",
	       p->name, set->name, weir__dtype(convert->from)->name,
	       weir__dtype(convert->to)->name, rates[runs / 2] / 1e9,
	       ratios[runs / 2], ratios[0], ratios[runs - 1]);
}

static void show_set(const struct weir__convert_set *set, unsigned runs)
{
	for (size_t k = 0; k < sizeof(places) / sizeof(places[0]); k++)
		for (size_t i = 0; i < set->n; i++)
			show(&places[k], set, &set->list[i], runs);
}

int main(int argc, char **argv)
{
	unsigned runs = argc > 1 ? (unsigned)atoi(argv[1]) : 9;
	const struct weir__convert_set *set;

	if (argc > 3 || runs < 1 || runs > MAX_RUNS)
		die("usage: convert [RUNS [SET]], at most %u", MAX_RUNS);
	src_memory = raw_memory(LARGE);
	dst_memory = raw_memory(LARGE);
	for (size_t i = 0; (set = weir__convert_sets[i]); i++)
		if (set->usable() && (argc < 3 ? set != &weir__convert_via
					       : !strcmp(set->name, argv[2])))
			show_set(set, runs);
	return 0;
}
