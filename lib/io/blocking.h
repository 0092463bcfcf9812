/* SPDX-License-Identifier: MIT */
#ifndef WEIR__IO_BLOCKING_H
#define WEIR__IO_BLOCKING_H

#include <stddef.h>
#include <stdint.h>

#include "io/file.h"

/*
 * Read @n bytes through the engine and wait for them: direct if the file allows it,
 * no longer than the root's read_timeout, and until its close. < 0: why it failed
 * is in @words. Any thread but those of the engine.
 */
int weir__read_blocking(struct weir_file *file, void *to, size_t n,
			uint64_t off, char *words, size_t room);

#endif
