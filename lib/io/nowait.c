/* SPDX-License-Identifier: MIT */
#include "io/nowait.h"

#include "core/debug.h"
#include "core/timeline.h"
#include "core/sys.h"
#include "core/util.h"

/* For fewer bytes, asking whether they are cached costs more than it saves. */
#define FEW (64u << 10)

bool weir__nowait_root(const struct weir *weir)
{
	return weir->opts.io == WEIR_IO_AUTO &&
	       !weir__debug_has(weir, "io=sync") &&
	       !weir__debug_has(weir, "io=uring");
}

bool weir__nowait_file(const struct weir_file *file)
{
	return file->nowait && !file->network;
}

bool weir__nowait_allowed(const struct weir *weir, uint64_t bytes)
{
	return weir__unwaited < WEIR__NOWAIT_BYTES &&
	       bytes <= WEIR__NOWAIT_BYTES - weir__unwaited &&
	       weir__nowait_root(weir);
}

static bool is_cached(const struct weir_file *file, uint64_t off, uint64_t n)
{
	uint64_t from = weir__down(off, WEIR__PAGE);
	uint64_t bytes = weir__up(off + n, WEIR__PAGE) - from;
	int64_t pages = weir__sys_cached(file->fd, from, bytes);

	if (pages < 0) /* an old kernel, or a file that we may not write */
		return weir__sys_peek(file->fd, off) == 1;
	return (uint64_t)pages >= bytes / WEIR__PAGE;
}

bool weir__nowait_expected(struct weir_file *file, uint64_t off, uint64_t n)
{
	if (!weir__nowait_file(file))
		return false;
	return (n < FEW && atomic_load(&file->weir->part[WEIR__PART_IO])) ||
	       is_cached(file, off, n);
}

bool weir__nowait_read(const struct weir_file *file, void *addr, uint64_t n,
		       uint64_t off)
{
	weir__unwaited += n;
	return weir__sys_pread_nowait(file->fd, addr, n, off) == (int64_t)n;
}
