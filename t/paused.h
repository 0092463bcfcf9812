/* SPDX-License-Identifier: MIT */
/*
 * Loads whose reads a test pauses: with WEIR_IO_SYNC the library reads by
 * pread(2), and these tests have their own. They load to host memory, or that
 * of the device WEIR_T_DEVICE. The helpers bail out rather than fail.
 */
#ifndef T_PAUSED_H
#define T_PAUSED_H

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir.h>

#include "sample.h"
#include "tap.h"

#define SEC INT64_C(1000000000)

/* Set by paused_begin. */
extern char path[64];      /* path of the model */
extern const char *device; /* NULL: the CPU */
extern struct weir *root;  /* set by open_root */

/* Long reads at this offset of a file or later wait. INT64_MAX: none. */
extern _Atomic int64_t paused_from;

/*
 * A model of four tensors of 1 MiB, a to d, and two empty ones, none and nil.
 */
#define FEW 6u
extern const struct sample_tensor few[FEW];

/* A plan of @checks, and a folder. */
void paused_begin(unsigned checks);
/* Remove it; the exit status of main. */
int paused_end(void);

void must(int r);
/* A root with two reactors, and chunks of 1 MiB. */
void open_root(uint32_t io, int64_t close_timeout);
struct weir_buft *memory(void);
/* A plan of the tensors that match @glob. */
struct weir_plan *plan_for(const char *glob, enum weir_way way);
/* Start a load, and free the plan. */
struct weir_load *start(struct weir_plan *p, struct weir_weights *into);
struct weir_load *start_all(void);
/*
 * Load the tensors that match @glob; no read ends before paused_from is set
 * again.
 */
struct weir_load *start_paused(const char *glob);
/* The offset in the file of tensor @name. */
int64_t offset_of(const char *name);
/* The names of up to @n tensors that arrive, "!" after those that fail. */
const char *arrivals(struct weir_load *l, size_t n);
unsigned count(const char *s, char c);

#endif
