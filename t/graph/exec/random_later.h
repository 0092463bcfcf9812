/* SPDX-License-Identifier: MIT */
/*
 * Bytes that arrive while a run that needs them is running: a stream has a
 * transfer for each tensor, and each of them waits until it may begin.
 */
#ifndef RANDOM_LATER_H
#define RANDOM_LATER_H

#include <stdint.h>

#include <weir.h>

/* Tensors are in memory of the host or of @dev. */
void later_begin(struct weir_dev *dev);
void later_end(void);
/*
 * The tensor has bytes 0xff, which are NaN, or an id out of range, until
 * @bytes arrive; @event is recorded after that. The caller keeps @bytes.
 */
void later_set(const struct weir_tensor *t, const void *bytes,
	       struct weir_event *event);
/* Let all transfers begin, one after the other, after as many loops or less. */
void later_arrive(uint64_t spins);
/* Wait until all transfers have ended. */
void later_wait(void);

#endif
