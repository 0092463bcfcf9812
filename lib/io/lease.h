/* SPDX-License-Identifier: MIT */
/*
 * A mapping of a file that nobody can truncate or change while it is used,
 * because the library has a read lease on it (fcntl(2), F_SETLEASE). A process
 * that opens the file for writing, or truncates it, waits until a thread of the
 * library has given up the lease, at most as long as a few uses; then there is
 * no mapping.
 *
 * If a lease is not given up for 45 s (lease-break-time), because the process
 * is stopped, the kernel ends it: a use that goes on later may get SIGBUS. So
 * may a use whose pages leave the page cache, just after they were seen there,
 * if the disk fails. If the process ends while a child of fork(2) has its
 * descriptors, writers wait for 45 s.
 */
#ifndef WEIR__IO_LEASE_H
#define WEIR__IO_LEASE_H

#include "io/file.h"

/*
 * Try to lease the file, once. It needs a local file system, a file that we own
 * and nobody has open for writing, and /proc. At most 32 files of the process
 * have a lease. May block shortly.
 */
void weir__file_lease(struct weir_file *file);
/* End the lease. No use is left. */
void weir__lease_free(struct weir_file *file);
/*
 * Begin a use: returns the address of bytes [off, off + n) of the file, all of
 * them in the page cache, until weir__lease_put(). NULL: there is no lease any
 * more, or some bytes are not in the page cache. A use is short and does not
 * block, since writers wait for it. Any thread.
 */
const unsigned char *weir__lease_get(struct weir_file *file, uint64_t off,
				     uint64_t n);
void weir__lease_put(struct weir_file *file);
/*
 * The same, and unmap the pages of these bytes, which are not used again soon:
 * else they would count as memory of the process.
 */
void weir__lease_drop(struct weir_file *file, const unsigned char *bytes,
		      uint64_t n);

#endif
