/* SPDX-License-Identifier: MIT */
/*
 * A device for tests of executable graphs: it computes a few operations on F32,
 * slowly, and records what it is asked. A test can make it refuse, hold or
 * fail.
 */
#ifndef T_GDEV_H
#define T_GDEV_H

#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <weir.h>

#define GDEV_NONE UINT64_MAX
#define GDEV_LOG 64

extern struct gdev {
	/* What it is to do. */
	uint32_t refuse; /* an enum weir_op that it does not have */
	_Atomic uint64_t fail_at, hold_at; /* nodes; GDEV_NONE */
	_Atomic bool hold_release;         /* the next time it is asked */
	_Atomic unsigned copy_us;          /* how long a copy takes longer */
	int fail_with;
	size_t workspace; /* bytes that prepare asks for */
	size_t measured;  /* bytes that measure returns */
	double rate;      /* rate of all kinds; 0: rates returns none */
	int rates_with;   /* 0, or the error of rates */
	/* What it was asked. */
	_Atomic unsigned supports, prepares, releases, works, nodes, fills,
		allocs, frees, rates;
	_Atomic uint64_t bytes; /* allocated now */
	struct {
		size_t first, n;
	} log[GDEV_LOG]; /* log of the works */
	sem_t held, go;  /* at hold_at, or in a release */
} gdev;

/* A root whose device "GDEV0" this is, and the device. Bails out. */
struct weir *gdev_open(struct weir_dev **ret_dev);
/* The same with a time-out of weir_close(). */
struct weir *gdev_open_timeout(struct weir_dev **ret_dev, int64_t timeout_ns);
/* The same with a device that only has memory: it does not compute. */
struct weir *gdev_open_memory(struct weir_dev **ret_dev);
/* Forget what it was asked, and do everything. */
void gdev_reset(void);

/* A placed leaf of @n F32, each of them @value, in a buffer of its own. */
struct weir_node *gdev_leaf(struct weir_graph *g, struct weir_dev *dev,
			    const char *name, int n, float value,
			    struct weir_event *event, struct weir_buf **buf);
/* An input of @n F32. */
struct weir_node *gdev_input(struct weir_graph *g, const char *name, int n);
/* Each element of an input of up to 64 is @value in the next runs. */
void gdev_set(struct weir_run *run, const struct weir_node *node, float value);
/* The first element; of an output of a run. */
float gdev_value(const struct weir_tensor *t);
float gdev_output(struct weir_run *run, const struct weir_node *node);

#endif
