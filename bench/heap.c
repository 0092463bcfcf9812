/* SPDX-License-Identifier: MIT */
/*
 * bench/heap: weir's heaps against malloc, jemalloc and mimalloc, and against
 * simulated allocators, on traces. README.md describes the rows.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "calls.h"
#include "fit.h"
#include "raw.h"
#include "result.h"
#include "users.h"

#define MAX_ROUNDS 99u
#define MAX_THREADS 64u
#define STEADY_RUNS 3u
#define SEEDS 7u /* traces of a shape, for memory */

struct args {
	const char *row, *json, *write;
	unsigned rounds, threads;
	bool tiny;
};

static __attribute__((noreturn)) void usage(FILE *to)
{
	fprintf(to,
		"usage: bench/heap [--row PREFIX] [--rounds N] [--threads N] [--json FILE] [--tiny] [--write FILE] [TRACE...]\n"
		"TRACE is a file of weir_heap_record(); without one, all shapes.\n"
		"--write: write the trace of the shape PREFIX to FILE, and end\n"
		"shapes:\n");
	for (unsigned i = 0; i < n_shapes; i++)
		fprintf(to, "  %-12s %s\n", shapes[i].name, shapes[i].what);
	exit(to == stdout ? 0 : 2);
}

/* Times of one call, in ns, of all rounds. */
struct times {
	double ns[USERS][MAX_ROUNDS];
};

/* All allocators take turns; each has replayed the trace once before. */
static void measure(const struct calls *c, unsigned threads, unsigned rounds,
		    struct times *t)
{
	struct user *u[USERS] = { NULL };

	for (unsigned k = 0; k < USERS; k++) {
		const struct allocator *a = &allocators[k];

		if (a->why)
			continue;
		u[k] = a->open(a, c, threads);
		users_run(a, u[k], c, threads);
	}
	for (unsigned i = 0; i < rounds; i++)
		for (unsigned n = 0; n < USERS; n++) {
			unsigned k = (i + n) % USERS;

			if (u[k])
				t->ns[k][i] = users_run(&allocators[k], u[k], c,
							threads) *
					      1e9 / (double)c->n;
		}
	for (unsigned k = 0; k < USERS; k++)
		if (u[k])
			allocators[k].close(u[k]);
}

static void show_time(const char *name, const struct times *t, unsigned other,
		      unsigned rounds, double goal)
{
	double mine[MAX_ROUNDS], theirs[MAX_ROUNDS];

	if (allocators[other].why) {
		result_skip(name, allocators[other].why);
		return;
	}
	for (unsigned i = 0; i < rounds; i++) {
		mine[i] = t->ns[USER_WEIR][i];
		theirs[i] = t->ns[other][i];
	}
	result_add_pairs(name, allocators[other].name, "ns", goal, theirs, mine,
			 rounds);
}

static void row_time(const struct calls *c, const struct args *a,
		     unsigned threads, const char *how)
{
	struct times t;
	char name[64];

	snprintf(name, sizeof(name), "%s, %u thread%s%s", c->name, threads,
		 threads > 1 ? "s" : "", how);
	measure(c, threads, a->rounds, &t);
	show_time(name, &t, USER_MALLOC, a->rounds, 1);
	show_time(name, &t, USER_JEMALLOC, a->rounds, 0);
	show_time(name, &t, USER_MIMALLOC, a->rounds, 0.5);
}

static void row_system_calls(const struct calls *c)
{
	for (unsigned k = 0; k < USERS; k++) {
		const struct allocator *a = &allocators[k];
		struct result r = { .unit = "calls" };
		long n;

		if (a->why)
			continue;
		n = users_system_calls(a, c, STEADY_RUNS);
		snprintf(r.name, sizeof(r.name), "%s, kernel calls, %s",
			 c->name, a->name);
		if (n < 0) {
			result_skip(r.name, "ptrace(2) is not allowed");
			continue;
		}
		r.value = (double)n;
		r.judged = k == USER_WEIR ? GOAL_VALUE : GOAL_NONE;
		result_add(&r);
	}
}

/* Bytes that a trace needs: all at a time, and in the least memory. */
enum {
	LIVE,
	BEST,
	TORCH,
	WEIR,
	NEEDS
};
struct needs {
	uint64_t peak[NEEDS], least[NEEDS];
};

static bool torch_fits(void *arg, uint64_t bytes)
{
	return fit_replay(arg, FIT_TORCH, bytes).fits;
}

static bool best_fits(void *arg, uint64_t bytes)
{
	return fit_replay(arg, FIT_BEST, bytes).fits;
}

static bool weir_fits(void *arg, uint64_t bytes)
{
	return users_height(arg, bytes) != 0;
}

static void needs_of(struct calls *c, struct needs *n)
{
	static bool (*const fits[NEEDS])(void *, uint64_t) = {
		[BEST] = best_fits, [TORCH] = torch_fits, [WEIR] = weir_fits
	};

	n->peak[LIVE] = n->least[LIVE] = c->peak;
	n->peak[BEST] = fit_replay(c, FIT_BEST, UINT64_MAX).height;
	n->peak[TORCH] = fit_replay(c, FIT_TORCH, UINT64_MAX).height;
	n->peak[WEIR] = users_height(c, 4 * n->peak[BEST]);
	for (int i = BEST; i < NEEDS; i++)
		n->least[i] = fit_least(fits[i], c, c->peak - 1, n->peak[i]);
}

/* A ratio of 1: weir needs as little memory; of the median of @n traces. */
static void show_memory(const char *name, const char *limit,
			const struct needs *list, unsigned n, int other,
			bool least, double goal)
{
	double mine[SEEDS], theirs[SEEDS];
	char row[64];

	for (unsigned i = 0; i < n; i++) {
		const uint64_t *b = least ? list[i].least : list[i].peak;

		theirs[i] = (double)b[other] / (1 << 20);
		mine[i] = (double)b[WEIR] / (1 << 20);
	}
	snprintf(row, sizeof(row), "%s, %s", name,
		 least ? "least memory" : "peak");
	result_add_pairs(row, limit, "MiB", goal, theirs, mine, n);
}

static void rows_memory(const char *name, const struct needs *list, unsigned n)
{
	show_memory(name, "live bytes", list, n, LIVE, false, 0);
	show_memory(name, "best fit", list, n, BEST, false, 1 / 1.02);
	show_memory(name, "PyTorch's rules", list, n, TORCH, false, 0);
	show_memory(name, "best fit", list, n, BEST, true, 1 / 1.02);
	show_memory(name, "PyTorch's rules", list, n, TORCH, true, 0);
}

static void rows_timed(struct calls *c, const struct args *a)
{
	row_time(c, a, 1, "");
	if (a->threads > 1)
		row_time(c, a, a->threads, "");
	row_system_calls(c);
	calls_in_stream(c);
	row_time(c, a, 1, ", in a stream");
}

/*
 * A heap in reserved addresses, against live bytes and one that grows by
 * separate buffers; the two take turns, after a replay each.
 */
static void rows_growing(const struct calls *c, unsigned rounds)
{
	double ns[2][MAX_ROUNDS], mib[2], live = (double)c->peak / (1 << 20);
	struct user *u[2];
	char name[64];

	for (unsigned k = 0; k < 2; k++) {
		u[k] = growing[k].open(&growing[k], c, 1);
		users_run(&growing[k], u[k], c, 1);
		mib[k] = (double)users_reserved(u[k]) / (1 << 20);
	}
	for (unsigned i = 0; i < rounds; i++)
		for (unsigned n = 0; n < 2; n++) {
			unsigned k = (i + n) % 2;

			ns[k][i] = users_run(&growing[k], u[k], c, 1) * 1e9 /
				   (double)c->n;
		}
	snprintf(name, sizeof(name), "%s, grown in place, peak", c->name);
	result_add_pairs(name, growing[0].name, "MiB", 0, &mib[0], &mib[1], 1);
	result_add_pairs(name, "live bytes", "MiB", 0, &live, &mib[1], 1);
	snprintf(name, sizeof(name), "%s, grown in place, time", c->name);
	result_add_pairs(name, growing[0].name, "ns", 0.95, ns[0], ns[1],
			 rounds);
	for (unsigned k = 0; k < 2; k++)
		growing[k].close(u[k]);
}

static void shape_make(const struct shape *s, const struct args *a,
		       uint32_t seed, struct calls *c)
{
	calls_init(c, s->name);
	s->make(c, seed, a->tiny);
	calls_end(c);
}

static void run_shape(const struct shape *s, const struct args *a)
{
	unsigned seeds = a->tiny ? 1 : SEEDS;
	struct needs list[SEEDS];
	struct calls c;

	for (unsigned i = 0; i < seeds; i++) {
		shape_make(s, a, i, &c);
		needs_of(&c, &list[i]);
		calls_free(&c);
	}
	rows_memory(s->name, list, seeds);
	if (!s->timed)
		return;
	shape_make(s, a, 0, &c);
	rows_growing(&c, a->rounds);
	rows_timed(&c, a);
	calls_free(&c);
}

static void write_shape(const struct shape *s, const struct args *a)
{
	struct calls c;

	shape_make(s, a, 0, &c);
	calls_write(&c, a->write);
	calls_free(&c);
}

static void run_file(const char *path, const struct args *a)
{
	const char *slash = strrchr(path, '/');
	struct needs needs;
	struct calls c;

	calls_init(&c, slash ? slash + 1 : path);
	calls_read(&c, path);
	needs_of(&c, &needs);
	rows_memory(c.name, &needs, 1);
	rows_timed(&c, a);
	calls_free(&c);
}

static unsigned number(const char *text, unsigned max)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (*end || n < 1 || n > max)
		die("%s: a number from 1 to %u is wanted", text, max);
	return (unsigned)n;
}

static void parse(int argc, char **argv, struct args *a)
{
	static const struct option options[] = {
		{ "row", 1, NULL, 'r' },     { "rounds", 1, NULL, 'n' },
		{ "threads", 1, NULL, 't' }, { "json", 1, NULL, 'j' },
		{ "tiny", 0, NULL, 'y' },    { "write", 1, NULL, 'w' },
		{ "help", 0, NULL, 'h' },    { NULL, 0, NULL, 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		if (c == 'r')
			a->row = optarg;
		else if (c == 'n')
			a->rounds = number(optarg, MAX_ROUNDS);
		else if (c == 't')
			a->threads = number(optarg, MAX_THREADS);
		else if (c == 'j')
			a->json = optarg;
		else if (c == 'w')
			a->write = optarg;
		else if (c == 'y')
			a->tiny = true;
		else
			usage(c == 'h' ? stdout : stderr);
	}
}

static bool chosen(const struct shape *s, const struct args *a)
{
	return !a->row || !strncmp(s->name, a->row, strlen(a->row));
}

int main(int argc, char **argv)
{
	struct args a = { .rounds = 5 };
	unsigned n = 0;

	a.threads = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
	parse(argc, argv, &a);
	users_find(argv);
	if (a.tiny)
		result_judge_nothing();
	if (!a.write)
		result_head();
	for (int i = optind; i < argc; i++)
		run_file(argv[i], &a);
	for (unsigned i = 0; optind == argc && i < n_shapes; i++)
		if (chosen(&shapes[i], &a)) {
			(a.write ? write_shape : run_shape)(&shapes[i], &a);
			n++;
		}
	if (optind == argc && !n)
		usage(stderr);
	if (a.json)
		result_write_json(a.json);
	return !result_all_ok();
}
