/* SPDX-License-Identifier: MIT */
/*
 * bench/load: how close a load comes to the limit of the machine. README.md
 * says how figures are measured; the rows are in files by subject.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "place.h"

static const struct row {
	const char *name;
	void (*run)(unsigned pairs);
} rows[] = {
	{ "peak", row_peak }, /* first: it forks */
	{ "cold-prefaulted", row_cold_prefaulted },
	{ "cold-fresh", row_cold_fresh },
	{ "resident-1", row_resident_one },
	{ "resident-2", row_resident_two },
	{ "resident-fresh", row_resident_fresh },
	{ "sink-cold", row_sink_cold },
	{ "sink-resident", row_sink_resident },
	{ "verify-cold", row_verify_cold },
	{ "verify-resident", row_verify_resident },
	{ "digest-cold", row_digest_cold },
	{ "digest-sha256", row_digest_sha256 },
	{ "map", row_map },
	{ "many", row_many },
	{ "open", row_open },
	{ "stream", row_stream },
	{ "alone", row_alone },
	{ "steady", row_steady },
	{ "targets", row_targets },
	{ "slice", row_slice },
	{ "convert", row_convert },
	{ "plan", row_plan },
	{ "prefault", row_prefault },
	/* With --device only: */
	{ "device-bus", row_device_bus },
	{ "device-slow", row_device_slow },
	{ "device-null", row_device_null },
	{ "device-ring-1", row_device_ring_one },
	{ "device-ring-2", row_device_ring_two },
	{ "device-lock-ring", row_device_lock_ring },
	{ "device-lock-8g", row_device_lock },
	{ "device-resident", row_device_resident },
	{ "device-cold", row_device_cold },
	{ "device-many", row_device_many },
	{ "device-first", row_device_first },
};

#define N_ROWS (sizeof(rows) / sizeof(rows[0]))

const char *bench_device;
bool bench_tiny;

struct args {
	const char *dir, *json, *svg, *row;
	unsigned pairs;
};

static __attribute__((noreturn)) void usage(FILE *to)
{
	fprintf(to,
		"usage: bench/load [--device [NAME]] [--dir DIR] [--row PREFIX] [--pairs N] [--json FILE] [--svg FILE] [--tiny]\n"
		"DIR is where models are kept [%s], NAME a GPU [CUDA0]\n"
		"--tiny: only try whether the rows run, and judge nothing\n"
		"rows:",
		BENCH_DIR);
	for (size_t i = 0; i < N_ROWS; i++)
		fprintf(to, " %s", rows[i].name);
	fputc('\n', to);
	exit(to == stdout ? 0 : 2);
}

/* "--device=NAME", "--device NAME", or "--device" alone. */
static const char *device_name(int argc, char **argv)
{
	if (optarg)
		return optarg;
	if (optind < argc && argv[optind][0] != '-')
		return argv[optind++];
	return "CUDA0";
}

static void take_args(int argc, char **argv, struct args *a)
{
	static const struct option options[] = {
		{ "device", optional_argument, NULL, 'D' },
		{ "dir", required_argument, NULL, 'd' },
		{ "help", no_argument, NULL, 'h' },
		{ "json", required_argument, NULL, 'j' },
		{ "pairs", required_argument, NULL, 'p' },
		{ "row", required_argument, NULL, 'r' },
		{ "svg", required_argument, NULL, 's' },
		{ "tiny", no_argument, NULL, 't' },
		{ 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
		if (c == 'd')
			a->dir = optarg;
		else if (c == 'D')
			bench_device = device_name(argc, argv);
		else if (c == 'j')
			a->json = optarg;
		else if (c == 'p')
			a->pairs = (unsigned)strtoul(optarg, NULL, 10);
		else if (c == 'r')
			a->row = optarg;
		else if (c == 's')
			a->svg = optarg;
		else if (c == 't')
			bench_tiny = true;
		else
			usage(c == 'h' ? stdout : stderr);
	if (optind != argc || !a->pairs || a->pairs > MAX_PAIRS)
		usage(stderr);
}

static bool wanted(const char *name, const char *prefix)
{
	return strncmp(name, prefix, strlen(prefix)) == 0 &&
	       (bench_device || strncmp(name, "device-", 7) != 0);
}

int main(int argc, char **argv)
{
	struct args a = { .dir = BENCH_DIR, .row = "", .pairs = 7 };
	unsigned n = 0;

	take_args(argc, argv, &a);
	models_dir(a.dir, bench_tiny);
	if (bench_tiny)
		result_judge_nothing();
	for (size_t i = 0; i < N_ROWS; i++) {
		if (!wanted(rows[i].name, a.row))
			continue;
		if (!n++)
			result_head();
		rows[i].run(a.pairs);
	}
	if (!n)
		usage(stderr);
	if (a.json)
		result_write_json(a.json);
	if (a.svg)
		result_write_svg(a.svg, "bench/load: weir against the limit");
	return result_all_ok() ? 0 : 1;
}
