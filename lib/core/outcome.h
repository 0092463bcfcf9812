/* SPDX-License-Identifier: MIT */
/*
 * How a piece of work ended. What the library itself decides (the end of a
 * file, a cancel, a root that closes) is a value of its own, since each errno
 * that could stand for it is also one that the kernel gives for something else:
 * Linux reports an error of the medium as ENODATA and a device that does not
 * answer as ETIMEDOUT.
 */
#ifndef WEIR__OUTCOME_H
#define WEIR__OUTCOME_H

#include <stdbool.h>
#include <stdint.h>

enum weir__end {
	WEIR__DONE,
	WEIR__END_OF_FILE, /* the file ends before the last byte */
	WEIR__CANCELLED,   /* by the caller, before it began */
	WEIR__LATE,        /* not within read_timeout: it may still go on */
	WEIR__ABANDONED,   /* the root closed first: it may still go on */
	WEIR__FAILED       /* for err */
};

struct weir__outcome {
	enum weir__end end;
	int err;        /* FAILED: -errno, of the kernel or a backend */
	int32_t native; /* FAILED: the device's own code; 0: no device's */
	const char
		*why; /* LATE, FAILED: words in place of the usual, or NULL */
	bool in_copy; /* FAILED: between a slot and a device, not the file */
};

static inline struct weir__outcome weir__failed(int err, const char *why)
{
	return (struct weir__outcome){ .end = WEIR__FAILED,
				       .err = err,
				       .why = why };
}

/*
 * The errno for the caller: 0; -ENODATA: end of file; -ECANCELED; -ETIME: late;
 * -ESHUTDOWN: abandoned. A failure has its own, and -EIO where that would say
 * one of the first three. (For -ETIMEDOUT see weir__cause_errno.)
 */
int weir__outcome_errno(const struct weir__outcome *outcome);
/* What happened, in words. */
const char *weir__outcome_words(const struct weir__outcome *outcome);

#endif
