/* SPDX-License-Identifier: MIT */
/*
 * The files that are loaded. A missing file is written, read once, and kept, so
 * that no timing comes soon after a write or a delete.
 */
#ifndef BENCH_MODELS_H
#define BENCH_MODELS_H

#include <stdbool.h>
#include <stdint.h>

struct file {
	char path[4096];
	uint64_t bytes; /* bytes of the file */
};

/* The folder of the files, which is made. @tiny: a thousandth of the bytes. */
void models_dir(const char *dir, bool tiny);

const struct file *model_large(void); /* 2.2 GB, 201 tensors */
const struct file *model_many(void);  /* 100,000 tensors of 32 KiB */
const struct file *model_one(void);   /* one tensor of the same size */
const struct file *model_qwen(void);  /* 18,867 tensors, 3.2 GB */
const struct file *model_small(void); /* 20,000 tensors of 32 KiB */
const struct file *model_wide(void);  /* BF16, 1024 rows of 1 MiB */
const struct file *model_f8(void);    /* F8_E4M3, 1024 rows of 1 MiB */
/* @n tensors of 16 bytes with short names; the data are a hole. */
const struct file *model_table(unsigned n);

#endif
