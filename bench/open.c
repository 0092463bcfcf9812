/* SPDX-License-Identifier: MIT */
/*
 * bench/open FILE [N]: the cost per tensor of opening a model: time (the median
 * of N runs), memory while it is open, and peak memory while it is opened. With
 * N = 1 callgrind counts it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <weir.h>

#include "raw.h"

#define MAX_RUNS 101u

static struct weir *weir;

static double resident(void)
{
	unsigned long pages = 0;
	FILE *file = fopen("/proc/self/statm", "r");

	if (!file || fscanf(file, "%*u %lu", &pages) != 1)
		die("/proc/self/statm cannot be read");
	fclose(file);
	return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static double peak(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)u.ru_maxrss * 1024;
}

static struct weir_model *open_model(const char *path)
{
	struct weir_model *model;

	if (weir_model_open(weir, path, NULL, &model) < 0)
		die("%s", weir_error());
	return model;
}

/* The first open, before which no memory was allocated. */
static void show_memory(const char *path)
{
	double before = resident();
	struct weir_model *model = open_model(path);
	double n = (double)weir_model_count(model);

	printf("%.0f tensors: %.0f bytes each are kept, %.0f at the peak\n", n,
	       (resident() - before) / n, (peak() - before) / n);
	weir_model_close(model);
}

static void show_time(const char *path, unsigned runs)
{
	double each[MAX_RUNS], begun, took, n = 1;
	struct weir_model *model;

	for (unsigned i = 0; i < runs; i++) {
		unsigned at = i;

		begun = raw_now();
		model = open_model(path);
		n = (double)weir_model_count(model);
		took = (raw_now() - begun) * 1e9 / n;
		weir_model_close(model);
		for (; at && each[at - 1] > took; at--)
			each[at] = each[at - 1];
		each[at] = took;
	}
	printf("%.1f ms, %.0f ns each (%.0f-%.0f)\n", each[runs / 2] * n / 1e6,
	       each[runs / 2], each[0], each[runs - 1]);
}

int main(int argc, char **argv)
{
	unsigned runs = argc > 2 ? (unsigned)atoi(argv[2]) : 7;

	if (argc < 2 || argc > 3 || runs < 1 || runs > MAX_RUNS)
		die("usage: open FILE [N], N at most %u", MAX_RUNS);
	if (weir_open(NULL, &weir) < 0)
		die("%s", weir_error());
	if (runs > 1)
		show_memory(argv[1]);
	show_time(argv[1], runs);
	weir_close(weir);
	return 0;
}
