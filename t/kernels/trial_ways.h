/* SPDX-License-Identifier: MIT */
/* The ways in which a trial is computed. */
#ifndef TRIAL_WAYS_H
#define TRIAL_WAYS_H

#include <stdbool.h>

#include <weir.h>

struct trial {
	struct weir_graph *g;
	struct weir_node *node; /* the last one */
	double nmse;
	bool fails; /* every way has to */
	/* On a device: in another order of warps and blocks, the same bits. */
	bool again;
	/* The first way that was wrong: */
	char way[64];
	int err;
	char why[256];   /* the sentence of err */
	char wrong[256]; /* what differs; "": nothing */
	bool skipped;    /* the device does not compute it; why says more */
};

/* Returns the root of the trials. */
struct weir *ways_begin(void);
/* Closes it. */
void ways_end(void);
void ways_try(struct trial *t);
/* What the device says of the node by itself: 0, or -EOPNOTSUPP. */
int ways_supports(const struct weir_node *node);
/* Whether the device refuses what the CPU refuses, in its words. */
bool ways_refuse_alike(void);

#endif
