/* SPDX-License-Identifier: MIT */
/*
 * The CPU backend: one device, whose memory is the host's. It is written like a
 * module: it includes backend.h, and lib/kernels, which computes.
 */
#ifndef WEIR__CPU_H
#define WEIR__CPU_H

#include "dev/backend.h"
#include "kernels/team.h"

/* The device's state, from its parameters. Constant. */
struct weir__cpu {
	int32_t node; /* NUMA node that its memory is bound to, -1: none */
	struct weir__team *team; /* computes */
};

/* cpu.c. The library's functions: the same table in every root. */
extern const struct weir__host *_Atomic weir__cpu_host;
struct weir__cpu *weir__cpu_of(struct weir_dev *dev);
/* The backend's entry, like weir_module_entry of a module. */
weir_backend_entry_fn weir__cpu_entry;

/* memory.c */
extern const struct weir__mem_ops weir__cpu_mem_ops;
/* queue.c */
extern const struct weir__queue_ops weir__cpu_queue_ops;
/* compute.c */
extern const struct weir__compute_ops weir__cpu_compute_ops;

#endif
