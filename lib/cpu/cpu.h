/* SPDX-License-Identifier: MIT */
/* The CPU backend: one device, whose memory is the host's. */
#ifndef WEIR__CPU_H
#define WEIR__CPU_H

#include "dev/backend.h"

/* The device's state, from its parameters. */
struct weir__cpu {
	int32_t node; /* NUMA node that its memory is bound to, -1: none */
};

/* memory.c */
extern const struct weir__mem_ops weir__cpu_mem_ops;
/* queue.c */
extern const struct weir__queue_ops weir__cpu_queue_ops;

extern const struct weir__backend weir__cpu_backend;

#endif
