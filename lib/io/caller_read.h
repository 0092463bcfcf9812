/* SPDX-License-Identifier: MIT */
/*
 * Reads that the calling thread makes itself or waits for.
 *
 * Copying a few bytes out of the page cache costs less than waking a thread of
 * the engine, so the calling thread tries that first, by reads that fail rather
 * than wait (RWF_NOWAIT). If they fail, the engine reads the bytes, as it reads
 * everything else.
 */
#ifndef WEIR__IO_CALLER_READ_H
#define WEIR__IO_CALLER_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io/file.h"

/*
 * A thread copies up to this many bytes in one call, and in all calls between
 * two in which it waits or asks for an event. So a thread that queues many
 * reads does not make all of them itself, and the copiers get work.
 */
#define WEIR__NOWAIT_BYTES (1u << 20)

/*
 * True if the program has not chosen how files are read (io of weir_opts,
 * WEIR_DEBUG), so that a caller may read them itself.
 */
bool weir__nowait_root(const struct weir *weir);
/*
 * True if a read of @file can fail rather than wait. On a network file system
 * even a cached read may ask the server.
 */
bool weir__nowait_file(const struct weir_file *file);
/* True if the calling thread may copy @bytes now. */
bool weir__nowait_allowed(const struct weir *weir, uint64_t bytes);

/*
 * True if it is worth trying to read [off, off + n) of the file. If the engine
 * runs, this holds for any few pages: the kernel begins to fetch those that are
 * not cached. Otherwise all pages have to be in the page cache; if the kernel
 * does not say which are, the first one decides. If this returns false, the
 * caller starts the engine before it queues anything, so that it can return the
 * engine's error.
 */
bool weir__nowait_expected(struct weir_file *file, uint64_t off, uint64_t n);

/*
 * Copy the range to @addr; never waits for the disk. Returns the number of
 * bytes that were copied: fewer than @n if not all were cached, or the file
 * ends.
 */
uint64_t weir__nowait_read(const struct weir_file *file, void *addr, uint64_t n,
			   uint64_t off);

/*
 * Read @n bytes through the engine and wait for them: directly if the file
 * allows it, for at most the root's read_timeout without progress, and until
 * the root is closed. If it returns < 0, @words says why. Any thread except the
 * engine's own.
 */
int weir__read_blocking(struct weir_file *file, void *to, size_t n,
			uint64_t off, char *words, size_t room);

#endif
