/* SPDX-License-Identifier: MIT */
/*
 * Runs and the race checker (races/races.h). Each function is called only if
 * weir__races_on().
 */
#ifndef WEIR__GRAPH_RACES_H
#define WEIR__GRAPH_RACES_H

#include "races/races.h"

struct weir__run_lane;

/*
 * The lane's operation has begun. The thread that holds the lane calls this and
 * the other functions.
 */
void weir__run_lane_races_begin(struct weir__run_lane *lane);
/*
 * From its next step on the lane comes after @number of @tl. The thread that
 * starts the run may call this, too.
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
