/* SPDX-License-Identifier: MIT */
/*
 * The CPU backend: a device whose memory is the host's, or several that divide
 * the CPUs. It is written like a module: it includes backend.h, and
 * lib/kernels, which computes.
 */
#ifndef WEIR__CPU_H
#define WEIR__CPU_H

#include <weir/backend.h>
#include "kernels/segment.h"
#include "kernels/team.h"

struct weir__cpu_range;

/* The device's state, from its parameters. Constant, except the list. */
struct weir__cpu {
	int32_t node; /* NUMA node that its memory is bound to, -1: none */
	struct weir__team *team;
	bool apart; /* it computes in its own memory only, as accelerators do */
	pthread_mutex_t lock;           /* guards what follows */
	struct weir__cpu_range *ranges; /* its memory; only if it is apart */
};

/* The backend's entry, like weir_module_entry of a module. */
weir_backend_entry_fn weir__cpu_entry;

/* The state of an open device. */
struct weir__cpu *weir__cpu_of(struct weir_dev *dev);

/*
 * True if @ptr is in memory of the device, which is apart. The device's lock is
 * held.
 */
bool weir__cpu_owns(struct weir__cpu *cpu, const void *ptr);

/* memory.c */
extern const struct weir_backend_mem_ops weir__cpu_mem_ops;
/* queue.c */
extern const struct weir_backend_queue_ops weir__cpu_queue_ops;
/* compute.c */
extern const struct weir_backend_compute_ops weir__cpu_compute_ops;

#endif
