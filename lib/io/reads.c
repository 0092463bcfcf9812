/* SPDX-License-Identifier: MIT */
#include "io/reads.h"

#include <errno.h>
#include <stdio.h>

#include "io/file.h"

/* Single bad blocks of a disk do not make this many reads fail in a row. */
#define MAX_FAILED 32u

/* The clocks of reactors differ: an older time does not replace a newer one. */
static void advance(struct weir__reads *r, int64_t now)
{
	int64_t moved = atomic_load_explicit(&r->moved, memory_order_relaxed);

	while (moved < now &&
	       !atomic_compare_exchange_weak_explicit(&r->moved, &moved, now,
						      memory_order_relaxed,
						      memory_order_relaxed))
		;
}

/* A thread that sees a running read also sees when it began. */
void weir__reads_begin(struct weir__reads *r, int64_t now)
{
	if (!atomic_load_explicit(&r->running, memory_order_relaxed))
		advance(r, now);
	atomic_fetch_add_explicit(&r->running, 1, memory_order_release);
}

void weir__reads_moved(struct weir__reads *r, int64_t now)
{
	advance(r, now);
	if (atomic_load_explicit(&r->failed, memory_order_relaxed))
		atomic_store_explicit(&r->failed, 0, memory_order_relaxed);
}

void weir__reads_wait_anew(struct weir__reads *r, int64_t now)
{
	advance(r, now);
}

bool weir__reads_are_late(const struct weir__reads *r, int64_t now,
			  int64_t limit)
{
	if (!atomic_load_explicit(&r->running, memory_order_acquire))
		return false;
	return now - atomic_load_explicit(&r->moved, memory_order_relaxed) >=
	       limit;
}

/*
 * True if any other read of the file, or its device, would fail in the same
 * way.
 */
static bool is_of_the_file(int err)
{
	switch (-err) {
	case EACCES: /* a source's, as some more of these */
	case EAGAIN:
	case EBADF:
	case ECONNABORTED: /* FUSE: its process has ended */
	case EINTR:
	case ENODEV:
	case ENOENT:
	case ENOTCONN:
	case ENXIO:
	case EPERM:
	case ESHUTDOWN:
	case ESTALE:
	case ETIMEDOUT:
		return true;
	default:
		return false;
	}
}

bool weir__reads_failed(struct weir__reads *r, int err)
{
	uint32_t before =
		atomic_fetch_add_explicit(&r->failed, 1, memory_order_relaxed);

	return r->whole || is_of_the_file(err) || before + 1 >= MAX_FAILED;
}

bool weir__reads_stop(struct weir__reads *r, const struct weir_file *file,
		      const struct weir__outcome *cause)
{
	if (atomic_exchange(&r->claimed, true))
		return false;
	r->cause = *cause;
	/* Its text may be on the stack of the caller. */
	if (cause->end == WEIR__FAILED && cause->why) {
		snprintf(r->why, sizeof(r->why), "%s", cause->why);
		r->cause.why = r->why;
	}
	r->file = file;
	atomic_store_explicit(&r->ended, true, memory_order_release);
	return true;
}

struct weir__outcome weir__reads_outcome(const struct weir__reads *r)
{
	struct weir__outcome outcome = r->cause;

	outcome.after = r->file->base;
	return outcome;
}
