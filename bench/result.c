/* SPDX-License-Identifier: MIT */
#include "result.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "raw.h"

#define MAX_RESULTS 128u

static struct result results[MAX_RESULTS];
static unsigned n_results;
static bool judging = true;

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

struct spread spread_of(double *v, unsigned n)
{
	struct spread s;

	qsort(v, n, sizeof(*v), by_value);
	s.low = v[0];
	s.mid = n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
	s.high = v[n - 1];
	return s;
}

static bool judge(const struct result *r)
{
	if (r->cpu_goal && r->cpu > r->cpu_goal)
		return false;
	if (r->judged == GOAL_RATIO)
		return r->ratio >= r->goal;
	return r->judged != GOAL_VALUE || r->value <= r->goal;
}

void result_head(void)
{
	printf("%-32s %-30s %8s %8s %-6s %5s %15s %-8s %-6s %s\n", "row",
	       "limit", "limit", "weir", "unit", "ratio", "(spread)", "goal",
	       "", "CPU ms/GB");
}

static void print_goal(const struct result *r)
{
	char goal[32] = "";

	if (r->judged != GOAL_NONE)
		snprintf(goal, sizeof(goal), "%s %.4g",
			 r->judged == GOAL_RATIO ? ">=" : "<=", r->goal);
	printf("%-8s ", goal);
}

static void print_verdict(const struct result *r)
{
	if (r->judged == GOAL_NONE && !r->cpu_goal)
		printf("%-6s ", "");
	else
		printf("%-6s ", r->ok ? "ok" : "MISSED");
}

static void print_line(const struct result *r)
{
	printf("%-32s %-30s ", r->name, r->limit);
	if (r->limit[0])
		printf("%8.4g ", r->limit_value);
	else
		printf("%8s ", "");
	printf("%8.4g %-6s ", r->value, r->unit);
	if (r->ratio)
		printf("%5.3f (%6.3f-%6.3f) ", r->ratio, r->low, r->high);
	else
		printf("%5s %15s ", "", "");
	print_goal(r);
	print_verdict(r);
	if (r->cpu)
		printf("%.1f", r->cpu);
	if (r->cpu_goal)
		printf(" <= %.1f", r->cpu_goal);
	if (r->disturbed)
		printf(" (%u disturbed)", r->disturbed);
	printf("\n");
	fflush(stdout);
}

void result_add(const struct result *r)
{
	struct result *mine = &results[n_results];

	if (n_results++ == MAX_RESULTS)
		die("more than %u results", MAX_RESULTS);
	*mine = *r;
	if (!judging) {
		mine->judged = GOAL_NONE;
		mine->cpu_goal = 0;
	}
	mine->ok = judge(mine);
	if (r->skipped)
		printf("%-32s skipped: %s\n", r->name, r->skipped);
	else
		print_line(mine);
}

void result_add_pairs(const char *name, const char *limit, const char *unit,
		      double goal, double *limits, double *values, unsigned n)
{
	double *ratios = calloc(n, sizeof(*ratios));
	struct result r = { .unit = unit,
			    .judged = goal ? GOAL_RATIO : GOAL_NONE,
			    .goal = goal };
	struct spread s;

	if (!ratios)
		die("no memory");
	for (unsigned i = 0; i < n; i++)
		ratios[i] = limits[i] / values[i];
	s = spread_of(ratios, n);
	free(ratios);
	snprintf(r.name, sizeof(r.name), "%s", name);
	snprintf(r.limit, sizeof(r.limit), "%s", limit);
	r.limit_value = spread_of(limits, n).mid;
	r.value = spread_of(values, n).mid;
	r.ratio = s.mid;
	r.low = s.low;
	r.high = s.high;
	result_add(&r);
}

void result_add_values(const char *name, const char *unit, double goal,
		       double *values, unsigned n)
{
	struct spread s = spread_of(values, n);
	struct result r = { .unit = unit,
			    .limit_value = goal,
			    .value = s.mid,
			    .ratio = goal / s.mid,
			    .low = goal / s.high,
			    .high = goal / s.low,
			    .judged = GOAL_VALUE,
			    .goal = goal };

	snprintf(r.name, sizeof(r.name), "%s", name);
	snprintf(r.limit, sizeof(r.limit), "%g %s", goal, unit);
	result_add(&r);
}

void result_skip(const char *name, const char *why)
{
	struct result r = { .unit = "", .skipped = why };

	snprintf(r.name, sizeof(r.name), "%s", name);
	result_add(&r);
}

void result_judge_nothing(void)
{
	judging = false;
}

bool result_all_ok(void)
{
	for (unsigned i = 0; i < n_results; i++)
		if (!results[i].ok)
			return false;
	return true;
}

const struct result *result_list(unsigned *ret_n)
{
	*ret_n = n_results;
	return results;
}

/* Names and units are constants that need no escapes. */
static void put_json(FILE *f, const struct result *r)
{
	static const char *const judged[] = { "nothing", "ratio", "value" };

	if (r->skipped) {
		fprintf(f, "{\"row\": \"%s\", \"skipped\": \"%s\"}", r->name,
			r->skipped);
		return;
	}
	fprintf(f,
		"{\"row\": \"%s\", \"limit\": \"%s\", \"unit\": \"%s\", "
		"\"limit_value\": %.6g, \"value\": %.6g, \"ratio\": %.5g, "
		"\"min\": %.5g, \"max\": %.5g, \"judged\": \"%s\", "
		"\"goal\": %.6g, \"cpu_ms_per_gb\": %.5g, "
		"\"cpu_goal\": %.5g, \"disturbed\": %u, \"ok\": %s}",
		r->name, r->limit, r->unit, r->limit_value, r->value, r->ratio,
		r->low, r->high, judged[r->judged], r->goal, r->cpu,
		r->cpu_goal, r->disturbed, r->ok ? "true" : "false");
}

void result_write_json(const char *path)
{
	FILE *f = fopen(path, "we");

	if (!f)
		die("%s: %s", path, strerror(errno));
	for (unsigned i = 0; i < n_results; i++) {
		fputs(i ? ",\n " : "[", f);
		put_json(f, &results[i]);
	}
	fputs(n_results ? "]\n" : "[]\n", f);
	if (fclose(f))
		die("%s: %s", path, strerror(errno));
}
