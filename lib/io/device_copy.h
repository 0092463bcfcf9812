/* SPDX-License-Identifier: MIT */
/* Copies between slots and devices. For the reactor's owner. */
#ifndef WEIR__IO_COPY_H
#define WEIR__IO_COPY_H

#include <stdbool.h>

struct weir__loop;
struct weir__op;

/*
 * Start the copy of the op's chunk between its slot and its device. When the
 * copy has ended the op is posted to its reactor. -errno with a sentence: it
 * was not started.
 */
int weir__copy_start(struct weir__loop *loop, struct weir__op *op);
/* Poll for copies that have ended. Returns true if some are in flight. */
bool weir__copy_poll(struct weir__loop *loop);

#endif
