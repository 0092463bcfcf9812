/* SPDX-License-Identifier: MIT */
/*
 * Small reads by the calling thread. Copying a few bytes out of the page cache
 * costs less than waking a thread of the engine, so the calling thread tries
 * that first, by reads that fail rather than wait (RWF_NOWAIT). If they fail,
 * the engine reads, as it does everything else.
 */
#ifndef WEIR__IO_NOWAIT_H
#define WEIR__IO_NOWAIT_H

#include "io/file.h"

/*
 * Bytes that a thread copies in one call, and in all calls between two in which
 * it waits or asks for an event. A thread that queues many reads does not wait
 * for them here, and all copiers get work.
 */
#define WEIR__NOWAIT_BYTES (1u << 20)

/* False: the root's method of reading was chosen (io of weir_opts, WEIR_DEBUG). */
bool weir__nowait_root(const struct weir *weir);
/* On a network file system even a cached read may ask the server. */
bool weir__nowait_file(const struct weir_file *file);
/* May this thread copy @bytes now? */
bool weir__nowait_allowed(const struct weir *weir, uint64_t bytes);

/*
 * Is it worth trying to read [off, off + n) of the file? Always for a few pages
 * (the kernel begins to fetch those that are not cached), if the engine runs.
 * Otherwise only if all pages are in the page cache; if the kernel does not
 * say, the first page decides. If the answer is no, the caller starts the
 * engine before it queues anything, so that it can return an error of that.
 */
bool weir__nowait_expected(struct weir_file *file, uint64_t off, uint64_t n);

/*
 * Copy the range to @addr. False: not all of it was cached, or the file ends
 * before it; some of @addr may have been written. Never waits for the disk.
 */
bool weir__nowait_read(const struct weir_file *file, void *addr, uint64_t n,
		       uint64_t off);

#endif
