/* SPDX-License-Identifier: MIT */
/*
 * Events inside the library: a copied (timeline, number), under a lock.
 */
#ifndef WEIR__EVENT_H
#define WEIR__EVENT_H

#include <weir/stream.h>

#include "core/timeline.h"

/*
 * Record in @event the number @number of @tl, of which a reference is taken.
 * -EINVAL: it is of another root. -ENOMEM: the event keeps its earlier record.
 */
int weir__event_record(struct weir_event *event, struct weir__timeline *tl,
		       uint64_t number);

/*
 * Returns what it was recorded in, with a reference to the timeline; NULL: it was
 * not recorded. -EINVAL: the event is not of @weir.
 */
int weir__event_get(struct weir_event *event, struct weir *weir,
		    struct weir__timeline **ret_timeline, uint64_t *ret_number);

#endif
