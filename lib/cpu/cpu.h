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

#define WEIR__CPU_DEVICES 16u /* at most */

struct weir__cpu_range;

/*
 * A device's number in the library, which dev_open gets: 0 for "CPU"; for those
 * beside it their part of the CPUs, and what the parameters of "CPU" say.
 */
struct weir__cpu_number {
	struct weir__share share; /* of the CPUs */
	uint32_t threads; /* of all devices together; 0: one for each CPU */
	bool apart;       /* it computes in its own memory only */
};

/* The device's state, from its parameters. Constant, except the list. */
struct weir__cpu {
	int32_t node; /* NUMA node that its memory is bound to, -1: none */
	struct weir__team *team;
	bool apart;
	pthread_mutex_t lock;           /* guards what follows */
	struct weir__cpu_range *ranges; /* its memory; only if it is apart */
};

/* The parameters of a device; -1: not given. */
struct weir__cpu_params {
	int64_t node, threads, devices, apart;
};

/* A description, and what it points to. */
struct weir__cpu_desc {
	struct weir_backend_dev dev;
	struct weir_backend_buft buft[6];
	const struct weir_backend_buft *list[6];
};

/* cpu.c: the state and the team of an open device. */
struct weir__cpu *weir__cpu_of(struct weir_dev *dev);
struct weir__team *weir__team_of(struct weir_dev *dev);
/* The backend's entry, like weir_module_entry of a module. */
weir_backend_entry_fn weir__cpu_entry;

/* describe.c. Describe the device "CPU" (0), "CPU1" and so on. */
void weir__cpu_describe(unsigned part, struct weir__cpu_desc *ret);
/* True if the machine has NUMA node @node. */
bool weir__cpu_has_node(uint64_t node);

/*
 * params.c: the parameters of @dev. The library has checked the form:
 * key=value, separated by commas. -EINVAL. An added device has no "devices" and
 * "apart".
 */
int weir__cpu_params(struct weir_dev *dev, bool added, const char *params,
		     struct weir__cpu_params *ret);

/* virtual.c. Decode number @i, which is not 0. */
struct weir__cpu_number weir__cpu_number(unsigned i);
/*
 * Add the devices that share the CPUs with "CPU", which is @dev; @first has its
 * own part. Errors of dev_add.
 */
int weir__cpu_add(struct weir_dev *dev, struct weir__cpu_number first);

/*
 * apart.c: the memory of a device that computes in its own memory only. Add a
 * range of it (-ENOMEM), remove it, and check that nodes have all operands in
 * such ranges: -EINVAL with a sentence.
 */
int weir__cpu_range_add(struct weir__cpu *cpu, const void *base, size_t bytes);
void weir__cpu_range_remove(struct weir__cpu *cpu, const void *base,
			    size_t bytes);
int weir__cpu_check(struct weir_dev *dev,
		    const struct weir_backend_node *const *nodes, size_t n);

/* cpu_rates.c: .rates of the table in compute.c. */
int weir__cpu_rates(struct weir_dev *dev, struct weir_rates *ret_rates);

/* memory.c */
extern const struct weir_backend_mem_ops weir__cpu_mem_ops;
/* queue.c */
extern const struct weir_backend_queue_ops weir__cpu_queue_ops;
/* compute.c */
extern const struct weir_backend_compute_ops weir__cpu_compute_ops;

#endif
