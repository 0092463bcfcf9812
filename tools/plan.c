/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include "args.h"
#include "command.h"
#include "infile.h"
#include "output.h"
#include "plan.h"
#include "signals.h"

/* Enough for ten million buffers. */
static const size_t text_max = (size_t)512 << 20;

static int parse(struct plan_job *job, size_t n)
{
	struct csv_error error;
	int r = plan_csv_parse(job->text, n, &job->csv, &error);

	if (r == -ENOMEM)
		return fail_memory();
	if (r < 0)
		return fail("%s: line %zu, column %zu: %s", job->name,
			    error.line, error.column, error.why);
	return 0;
}

/*
 * Read the file of job->args into job->text and job->csv. Returns 0, or
 * EXIT_FAILURE after a line on stderr.
 */
static int plan_read(struct plan_job *job)
{
	size_t n = 0;
	int r;

	job->name = infile_name(job->args->path);
	r = infile_read(job->args->path, text_max, true, &job->text, &n);
	return r ? r : parse(job, n);
}

static const char help[] =
	"usage: weir plan [OPTION]... FILE\n"
	"Place buffers with known lifetimes in one memory: write the lines of FILE\n"
	"with the offset of each buffer on stdout, and the height that was reached on\n"
	"stderr. FILE is CSV; - is stdin. Its first line names the columns:\n"
	"\n"
	"  id,lower,upper,size    the buffer needs SIZE bytes at the times\n"
	"                         LOWER <= t < UPPER\n"
	"  alignment              optional: its offset is a multiple of this\n"
	"\n"
	"Defaults are in brackets.\n"
	"\n"
	"  --capacity SIZE  stop as soon as the buffers fit into SIZE bytes; the exit\n"
	"                   status says whether they fit: 0 yes, 3 no, 4 not known\n"
	"  --time SECONDS   after the greedy planner, search at most this long for a\n"
	"                   lower placement; 0: no search [10]\n"
	"  --threads N      threads of the search [1]\n"
	"  --svg OUT        draw the placement: time across, address up\n"
	"  --json           print a JSON object on stdout instead of CSV and report\n"
	"  --quiet          print no report\n"
	"\n"
	"Sizes may have the suffixes K, M, G and T.\n";

enum {
	PLAN_CAPACITY = ARGS_OPTION,
	PLAN_TIME,
	PLAN_THREADS,
	PLAN_SVG,
	PLAN_JSON,
	PLAN_QUIET
};

static const struct option options[] = {
	{ "capacity", required_argument, NULL, PLAN_CAPACITY },
	{ "time", required_argument, NULL, PLAN_TIME },
	{ "threads", required_argument, NULL, PLAN_THREADS },
	{ "svg", required_argument, NULL, PLAN_SVG },
	{ "json", no_argument, NULL, PLAN_JSON },
	{ "quiet", no_argument, NULL, PLAN_QUIET },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

enum {
	DEFAULT_SECONDS = 10,
	THREADS_MAX = 1024
};

static int take_threads(const struct args *args, struct plan_args *a)
{
	uint64_t threads = 0;
	int r = args_number(args, "--threads", 1, THREADS_MAX, &threads);

	a->threads = (uint32_t)threads;
	return r;
}

static int take_option(const struct args *args, int c, void *to)
{
	struct plan_args *a = to;

	switch (c) {
	case PLAN_CAPACITY:
		return args_size(args, "--capacity", 1, INT64_MAX,
				 &a->capacity);
	case PLAN_TIME:
		return args_seconds(args, "--time", &a->time_ns);
	case PLAN_THREADS:
		return take_threads(args, a);
	case PLAN_SVG:
		a->svg = optarg;
		return args_out(args, "--svg", optarg);
	case PLAN_JSON:
		a->json = true;
		break;
	case PLAN_QUIET:
		a->quiet = true;
		break;
	}
	return 0;
}

static int parse_args(const struct args *args, struct plan_args *a)
{
	static const char *const operands[] = { "FILE" };
	int r;

	*a = (struct plan_args){
		.time_ns = DEFAULT_SECONDS * INT64_C(1000000000),
		.threads = 1,
	};
	r = args_options(args, take_option, a);
	if (r)
		return r;
	r = args_operands(args, 1, operands);
	a->path = args->argv[optind];
	return r;
}

/*
 * Return the capacity, rounded up to a multiple of the smallest alignment, as
 * sizes are, and therefore the height and the bound.
 */
static uint64_t rounded_capacity(const struct plan_job *job)
{
	uint64_t unit = UINT64_MAX, align;

	for (size_t i = 0; i < job->csv.n; i++) {
		align = job->csv.row[i].align ? job->csv.row[i].align : 1;
		unit = align < unit ? align : unit;
	}
	return job->csv.n ? (job->args->capacity + unit - 1) / unit * unit
			  : job->args->capacity;
}

static uint64_t highest_end(const struct plan_job *job)
{
	uint64_t highest = 0;

	for (size_t i = 0; i < job->csv.n; i++) {
		uint64_t end = weir_placement_offset(job->placement, i) +
			       job->csv.row[i].bytes;

		highest = end > highest ? end : highest;
	}
	return highest;
}

static enum plan_fit find_fit(const struct plan_job *job)
{
	if (!job->args->capacity || highest_end(job) <= job->args->capacity)
		return PLAN_FITS;
	return job->info.bound > rounded_capacity(job) ? PLAN_TOO_LARGE
						       : PLAN_NOT_FOUND;
}

static struct weir_lifetime *items_of(const struct plan_csv *csv)
{
	struct weir_lifetime *item = calloc(csv->n + 1, sizeof(*item));

	for (size_t i = 0; item && i < csv->n; i++)
		item[i] = (struct weir_lifetime){
			.lower = csv->row[i].lower,
			.upper = csv->row[i].upper,
			.bytes = csv->row[i].bytes,
			.align = csv->row[i].align,
		};
	return item;
}

/* Compute job->placement, and what is known of it. */
static int place(struct plan_job *job)
{
	const struct plan_args *args = job->args;
	struct weir_place_memory memory = { .enough = rounded_capacity(job) };
	struct weir_placement_opts opts = WEIR_PLACEMENT_OPTS_INIT;
	struct weir_lifetime *item = items_of(&job->csv);
	int r;

	if (!item)
		return fail_memory();
	opts.memory = &memory;
	opts.n_memories = 1;
	opts.time_ns = args->time_ns;
	opts.threads = args->threads;
	r = weir_placement_new(item, job->csv.n, &opts, &job->placement);
	free(item);
	if (r < 0)
		return fail_weir();
	job->info.size = sizeof(job->info);
	if (weir_placement_info(job->placement, 0, &job->info) < 0)
		return fail_weir();
	job->fit = find_fit(job);
	return plan_live(job);
}

static void put_output(const struct plan_job *job)
{
	const struct plan_args *args = job->args;

	if (args->json) {
		plan_put_json(job);
		return;
	}
	plan_put_csv(job);
	if (!args->quiet)
		plan_report(job);
}

/*
 * The picture is opened first: a path that cannot be written costs no time. An
 * older picture stays until the new one is complete.
 */
static int place_and_draw(struct plan_job *job)
{
	struct svg svg;
	int r = outfile_spare(job->args->svg, job->args->path);

	if (r)
		return r;
	outfile_guard();
	r = svg_open(&svg, job->args->svg);
	if (r == 0)
		r = place(job);
	if (r == 0)
		r = plan_draw(job, &svg);
	svg_drop(&svg);
	signals_release();
	return r;
}

static int plan(struct plan_job *job)
{
	static const int statuses[] = {
		[PLAN_FITS] = 0,
		[PLAN_TOO_LARGE] = EXIT_NO_ROOM,
		[PLAN_NOT_FOUND] = EXIT_NOT_KNOWN,
	};
	int r = plan_read(job);

	if (r == 0)
		r = job->args->svg ? place_and_draw(job) : place(job);
	if (r)
		return r;
	put_output(job);
	return statuses[job->fit];
}

int plan_main(int argc, char **argv)
{
	const struct args args = {
		"plan", help, options, argc, argv, NULL, NULL
	};
	struct plan_args a;
	struct plan_job job = { .args = &a };
	int r = parse_args(&args, &a);

	if (r)
		return r == ARGS_HELP ? 0 : r;
	r = plan(&job);
	weir_placement_free(job.placement);
	plan_csv_free(&job.csv);
	free(job.live.time);
	free(job.live.bytes);
	free(job.text);
	return r;
}
