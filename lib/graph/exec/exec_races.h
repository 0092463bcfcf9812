/* SPDX-License-Identifier: MIT */
/*
 * Runs and the race checker (races/races.h). Each function is called only if
 * weir__races_on().
 */
#ifndef WEIR__GRAPH_RACES_H
#define WEIR__GRAPH_RACES_H

#include "races/races.h"

struct weir__run_lane;

/* Its operation has begun. By the thread that moves the lane, as all others. */
void weir__run_lane_races_begin(struct weir__run_lane *lane);
/*
 * The lane is after @number of @tl from its next step on. Also by the thread
 * that starts the run.
 */
void weir__run_lane_races_knows(struct weir__run_lane *lane,
				struct weir__timeline *tl, uint64_t number);
/* The observer is called, or has returned. */
void weir__run_lane_races_call(struct weir__run_lane *lane, bool ends);
/*
 * The steps from lane->step to lane->end are computed, and not published yet.
 */
void weir__run_lane_races_computed(const struct weir__run_lane *lane);
/* The operation is about to end. */
void weir__run_lane_races_end(struct weir__run_lane *lane);

#endif
