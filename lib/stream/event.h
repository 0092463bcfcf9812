/* SPDX-License-Identifier: MIT */
/*
 * Events inside the library: a copied (timeline, number), under a lock.
 */
#ifndef WEIR__EVENT_H
#define WEIR__EVENT_H

#include <weir/stream.h>

#include "core/timeline.h"

/*
 * Record @number of @tl in @event, and reference @tl. -EINVAL: the event
 * belongs to another root. -ENOMEM: the event keeps its earlier record.
 */
int weir__event_record(struct weir_event *event, struct weir__timeline *tl,
		       uint64_t number);

/*
 * Return the timeline and the number that @event has recorded, with a reference
 * to the timeline. NULL: it was never recorded. -EINVAL: the event belongs to
 * another root.
 */
int weir__event_get(struct weir_event *event, struct weir *weir,
		    struct weir__timeline **ret_timeline, uint64_t *ret_number);
/*
 * The same, but also NULL if the record is done, without taking a lock if that
 * is known. The detector of races does not learn of it.
 */
int weir__event_get_pending(struct weir_event *event, struct weir *weir,
			    struct weir__timeline **ret_timeline,
			    uint64_t *ret_number);

#endif
