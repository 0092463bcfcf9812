/* SPDX-License-Identifier: MIT */
/*
 * The results of a bench: printed as a table, then written as JSON and as a
 * picture.
 */
#ifndef BENCH_RESULT_H
#define BENCH_RESULT_H

#include <stdbool.h>

enum goal {
	GOAL_NONE,  /* printed only */
	GOAL_RATIO, /* ratio >= goal */
	GOAL_VALUE  /* value <= goal */
};

struct result {
	char name[64];
	char limit[48]; /* what it is compared with; "": nothing */
	const char *unit;
	double limit_value, value; /* medians, in the unit */
	double ratio, low, high;   /* ratio of the pairs; 1: as fast as the
				      limit */
	enum goal judged;
	double goal;
	double cpu;          /* ms for each GB; 0: not measured */
	double cpu_goal;     /* at most; 0: none */
	unsigned disturbed;  /* pairs that other programs disturbed */
	const char *skipped; /* why it was not measured, or NULL */
	bool ok;             /* set by result_add() */
};

struct spread {
	double low, mid, high;
};
/* Sorts @v. */
struct spread spread_of(double *v, unsigned n);

/* Print the heading of the table. */
void result_head(void);
/* Compare with the goal, print and record. */
void result_add(const struct result *r);
/*
 * Add a row of @n pairs of measurements, of which less is better: the ratio of
 * limit to value is at least @goal; 0: it has no goal. Sorts both.
 */
void result_add_pairs(const char *name, const char *limit, const char *unit,
		      double goal, double *limits, double *values, unsigned n);
/* Add a row of @n values that are at most @goal. Sorts them. */
void result_add_values(const char *name, const char *unit, double goal,
		       double *values, unsigned n);
/* A row that cannot be measured here. */
void result_skip(const char *name, const char *why);
/* From now on no result is compared with its goal. */
void result_judge_nothing(void);
/* Whether every goal was reached. */
bool result_all_ok(void);
void result_write_json(const char *path);
void result_write_svg(const char *path, const char *title);

/* All results, for the picture. */
const struct result *result_list(unsigned *ret_n);

#endif
