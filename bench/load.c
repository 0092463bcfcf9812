/* SPDX-License-Identifier: MIT */
/*
 * bench/load FILE: how close a load comes to the limit of the machine.
 *
 * Each row compares weir (B) with the plainest loop that does the same work
 * (A), interleaved A B B A so that drift of a shared machine cancels, and
 * gives the median of the ratios of the pairs. Files are never deleted near a
 * timing, and residency is checked before each.
 */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <weir.h>

#include "raw.h"

#define CHUNK ((size_t)4 << 20)
#define DEPTH 8u
#define MAX_PAIRS 101u

struct sample {
	double seconds, cpu;
};

struct bench {
	const char *path;
	uint64_t bytes; /* of the file */
	unsigned pairs;
	bool json, first;
	unsigned char *mem;
	struct weir *weir;
	struct weir_buft *huge, *mapped;
	struct weir_weights *kept;      /* memory that is touched */
	struct weir_load_report report; /* of the last load */
};

struct row {
	const char *name;
	const char *limit; /* what A is */
	double goal;       /* least ratio of the rates, B to A */
	bool warm;
	void (*a)(struct bench *b, struct sample *s);
	void (*b)(struct bench *b, struct sample *s);
};

static void check(int r)
{
	if (r < 0)
		die("%s", weir_error());
}

static void take(struct sample *s, struct raw_result r)
{
	s->seconds = r.seconds;
	s->cpu = r.cpu_seconds;
}

static void raw_cold_touched(struct bench *b, struct sample *s)
{
	take(s, raw_direct(b->path, b->mem, CHUNK, DEPTH));
}

static void raw_warm_1(struct bench *b, struct sample *s)
{
	take(s, raw_pread(b->path, b->mem, CHUNK, 1));
}

static void raw_warm_2(struct bench *b, struct sample *s)
{
	take(s, raw_pread(b->path, b->mem, CHUNK, 2));
}

static void raw_warm_fresh(struct bench *b, struct sample *s)
{
	unsigned char *mem = raw_fresh(b->bytes);

	take(s, raw_pread(b->path, mem, CHUNK, 2));
	raw_unmap(mem, b->bytes);
}

/* One whole load: open, plan, memory, reads. */
static void load(struct bench *b, struct sample *s, struct weir_weights *into,
		 struct weir_weights **ret)
{
	struct weir_load_opts o = WEIR_LOAD_OPTS_INIT;
	double cpu = raw_cpu(), begun = raw_now();
	struct weir_model *model;
	struct weir_plan *plan;
	struct weir_load *l;

	o.into = into;
	check(weir_model_open(b->weir, b->path, NULL, &model));
	check(weir_plan_new(model, &plan));
	check(weir_plan_put(plan, NULL, b->huge, NULL));
	check(weir_load_start(plan, &o, &l));
	check(weir_load_wait(l, -1));
	s->seconds = raw_now() - begun;
	s->cpu = raw_cpu() - cpu;
	check(weir_load_weights(l, ret));
	b->report.size = sizeof(b->report);
	check(weir_load_report(l, &b->report));
	weir_load_free(l);
	weir_plan_free(plan);
	weir_model_close(model);
}

static void weir_touched(struct bench *b, struct sample *s)
{
	struct weir_weights *w;

	if (!b->kept) {
		load(b, s, NULL, &b->kept);
		if (b->report.in_place)
			raw_cold(b->path);
	}
	load(b, s, b->kept, &w);
	weir_weights_free(w);
}

static void weir_fresh(struct bench *b, struct sample *s)
{
	struct weir_weights *w;

	weir_trim(b->weir, 0);
	load(b, s, NULL, &w);
	weir_weights_free(w);
	weir_trim(b->weir, 0);
}

static const struct row rows[] = {
	{ "cold, touched memory", "O_DIRECT loop, ring, 4 MiB x 8", 0.95, false,
	  raw_cold_touched, weir_touched },
	{ "cold, fresh memory", "O_DIRECT loop, touched memory", 0.90, false,
	  raw_cold_touched, weir_fresh },
	{ "resident, touched memory", "pread, 1 thread", 0.95, true, raw_warm_1,
	  weir_touched },
	{ "resident, touched memory", "pread, 2 threads", 0.95, true,
	  raw_warm_2, weir_touched },
	{ "resident, fresh memory", "pread, 2 threads, fresh", 0.95, true,
	  raw_warm_fresh, weir_fresh },
};

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double median(double *v, unsigned n)
{
	qsort(v, n, sizeof(*v), by_value);
	return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static void ready(struct bench *b, const struct row *row)
{
	unsigned in;

	if (row->warm)
		raw_warm(b->path);
	else
		raw_cold(b->path);
	in = raw_resident(b->path);
	if (row->warm ? in < 990 : in > 10)
		die("%s: %u of 1000 pages are in the page cache, the row '%s' wants %s",
		    b->path, in, row->name, row->warm ? "all" : "none");
}

static void measure(struct bench *b, const struct row *row, bool second,
		    struct sample *s)
{
	ready(b, row);
	(second ? row->b : row->a)(b, s);
}

static void print_row(struct bench *b, const struct row *row, double *ratio,
		      double *rate_a, double *rate_b, double *cpu)
{
	unsigned n = b->pairs;
	double mid = median(ratio, n), low = ratio[0], high = ratio[n - 1];
	double a = median(rate_a, n), w = median(rate_b, n);
	double ms = median(cpu, n);

	if (b->json) {
		printf("%s{\"row\":\"%s\",\"limit\":\"%s\",\"limit_gbps\":%.3f,"
		       "\"weir_gbps\":%.3f,\"ratio\":%.4f,\"min\":%.4f,"
		       "\"max\":%.4f,\"goal\":%.2f,\"cpu_ms_per_gb\":%.2f,"
		       "\"enters\":%llu,\"chunks\":%llu,\"staging\":%llu,"
		       "\"in_place\":%.4f}",
		       b->first ? "" : ",\n ", row->name, row->limit, a, w, mid,
		       low, high, row->goal, ms,
		       (unsigned long long)b->report.enters,
		       (unsigned long long)b->report.chunks,
		       (unsigned long long)b->report.staging,
		       (double)b->report.in_place / (double)b->report.bytes);
		b->first = false;
		return;
	}
	printf("%-26s %-32s %6.2f %6.2f  %5.3f (%5.3f-%5.3f) %s %.2f %7.1f\n",
	       row->name, row->limit, a, w, mid, low, high,
	       mid >= row->goal ? ">=" : "< ", row->goal, ms);
	fflush(stdout);
}

static void run_row(struct bench *b, const struct row *row)
{
	double ratio[MAX_PAIRS], rate_a[MAX_PAIRS], rate_b[MAX_PAIRS];
	double cpu[MAX_PAIRS];
	double gb = (double)b->bytes / 1e9;
	struct sample s[2];

	measure(b, row, false, &s[0]); /* not counted */
	measure(b, row, true, &s[1]);
	for (unsigned i = 0; i < b->pairs; i++) {
		bool second = i % 2; /* A B, B A, ... */

		measure(b, row, second, &s[second]);
		measure(b, row, !second, &s[!second]);
		ratio[i] = s[0].seconds / s[1].seconds;
		rate_a[i] = gb / s[0].seconds;
		rate_b[i] = gb / s[1].seconds;
		cpu[i] = s[1].cpu * 1e3 / gb;
	}
	print_row(b, row, ratio, rate_a, rate_b, cpu);
}

static void open_root(struct bench *b)
{
	struct weir_opts o = WEIR_OPTS_INIT;
	struct weir_io_info info = { .size = sizeof(info) };
	struct weir_dev *cpu;

	check(weir_open(&o, &b->weir));
	check(weir_dev_find(b->weir, "CPU", &cpu));
	check(weir_dev_buft(cpu, WEIR_MEM_HUGE, &b->huge));
	check(weir_io_info(b->weir, &info));
}

static void usage(void)
{
	fprintf(stderr,
		"usage: bench/load [--pairs N] [--row N] [--json] FILE.safetensors\n");
	exit(2);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "pairs", required_argument, NULL, 'p' },
		{ "row", required_argument, NULL, 'r' },
		{ "json", no_argument, NULL, 'j' },
		{ 0 },
	};
	struct bench b = { .pairs = 7, .first = true };
	unsigned only = 0;
	struct stat st;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
		if (c == 'p')
			b.pairs = (unsigned)strtoul(optarg, NULL, 10);
		else if (c == 'r')
			only = (unsigned)strtoul(optarg, NULL, 10);
		else if (c == 'j')
			b.json = true;
		else
			usage();
	if (optind + 1 != argc || !b.pairs || b.pairs > MAX_PAIRS)
		usage();
	b.path = argv[optind];
	if (stat(b.path, &st) < 0)
		die("%s: cannot be read", b.path);
	b.bytes = (uint64_t)st.st_size;
	b.mem = raw_memory(b.bytes);
	open_root(&b);
	if (!b.json)
		printf("%-26s %-32s %6s %6s  %5s %15s %7s %7s\n", "row",
		       "limit", "limit", "weir", "ratio", "(spread)", "goal",
		       "ms/GB");
	else
		printf("[");
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (!only || only == i + 1)
			run_row(&b, &rows[i]);
	if (b.json)
		printf("]\n");
	weir_weights_free(b.kept);
	weir_close(b.weir);
	return 0;
}
