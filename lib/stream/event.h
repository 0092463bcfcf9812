/* SPDX-License-Identifier: MIT */
/*
 * Events inside the library: a copied (source, number), under a lock.
 */
#ifndef WEIR__EVENT_H
#define WEIR__EVENT_H

#include <weir/stream.h>

#include "core/source.h"

/*
 * Record in @event the number @number of @src, of which a reference is taken.
 * -EINVAL: it is of another root. -ENOMEM: the event keeps its earlier record.
 */
int weir__event_record(struct weir_event *event, struct weir__source *src,
		       uint64_t number);

/*
 * Returns what it was recorded in, with a reference to the source; NULL: it was
 * not recorded. -EINVAL: the event is not of @weir.
 */
int weir__event_get(struct weir_event *event, struct weir *weir,
		    struct weir__source **ret_src, uint64_t *ret_number);

#endif
