/* SPDX-License-Identifier: MIT */
/*
 * Small reads by the calling thread. Copying what is in the page cache costs
 * less than waking a thread of the engine for it, so the caller's own thread
 * tries that first, by reads that refuse to wait (RWF_NOWAIT). What they
 * refuse is the engine's, as everything else.
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

/*
 * May this thread copy @bytes now? Not in a root that was told which method
 * reads (io of weir_opts, WEIR_DEBUG).
 */
bool weir__nowait_allowed(const struct weir *weir, uint64_t bytes);

/*
 * Is it worth trying to read [off, off + n) of the file? A few pages are simply
 * asked for: if they are not there the kernel begins to fetch them. More have
 * to be in the page cache, as far as the kernel says; where it does not, the
 * first page stands for all. So must a few if the engine does not run yet,
 * which is then started, or fails to, before anything is queued.
 */
bool weir__nowait_expected(struct weir_file *file, uint64_t off, uint64_t n);

/*
 * Copy it to @addr. False: not all of it was there at once, or the file has
 * ended; some of @addr may have been written. Never waits for the disk.
 */
bool weir__nowait_read(const struct weir_file *file, void *addr, uint64_t n,
		       uint64_t off);

#endif
