/* SPDX-License-Identifier: MIT */
/*
 * Helpers for tests of plans: a model of tensors that the test lists, in host
 * memory or that of the device WEIR_T_DEVICE. They bail out rather than fail.
 */
#ifndef T_PLANS_H
#define T_PLANS_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir.h>

#include "sample.h"
#include "tap.h"

#define MAX_TENSORS 5000u

/* Set by plans_begin. */
extern char dir[27];  /* a folder of this test's own */
extern char path[64]; /* path of the model */
extern struct weir *root;
extern const char *device;     /* NULL: the CPU */
extern struct weir_buft *kind; /* memory that plan_add() and buffer() use */
extern size_t kind_align;

/* The tensors of the next model. Set n_tensors to 0 for a new list. */
extern struct sample_tensor tensors[MAX_TENSORS];
extern char names[MAX_TENSORS][48];
extern size_t n_tensors;

/* A plan of @checks, a folder and a root. */
void plans_begin(unsigned checks);
/* Close and remove them; the exit status of main. */
int plans_end(void);

/* The next random number below @below, of a fixed sequence. */
uint64_t some(uint64_t below);
struct weir_buft *memory_of(const char *name, enum weir_mem which);
/* The address of the first byte of @buf, on its device. */
uint64_t address(struct weir_buf *buf);
/* A buffer of kind, each of its bytes 0xa5. */
struct weir_buf *buffer(size_t bytes);

void add_tensor(const char *dtype, unsigned size, uint64_t count);
/* The same with a shape, as "3,4"; @count is its product. */
void add_shape(const char *dtype, unsigned size, uint64_t count,
	       const char *shape);
/* A new list: @n tensors of fewer than @below elements each. */
void some_tensors(size_t n, uint64_t below);
uint64_t bytes_of(size_t i);
/* Write the listed tensors to path, and open it. */
struct weir_model *model(void);

struct weir_plan *new_plan(struct weir_model *m);
/* How many tensors were chosen. */
int plan_add(struct weir_plan *p, const char *glob, struct weir_buf *buf,
	     uint64_t offset, uint64_t align);
/* The weights of a load that has ended; NULL if weir_load_start refused. */
struct weir_weights *load(struct weir_plan *p, struct weir_weights *into);
/* The plan loads, and each tensor has its bytes. */
bool loads(struct weir_plan *p);

#endif
