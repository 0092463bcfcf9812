/* SPDX-License-Identifier: MIT */
/*
 * How a transfer ended. The ends that the library decides on (end of file,
 * cancel, close of the root) are values of an enum and not errnos, because the
 * kernel uses each errno that could stand for them: Linux reports a medium
 * error of a disk as ENODATA and a device that does not answer as ETIMEDOUT.
 */
#ifndef WEIR__OUTCOME_H
#define WEIR__OUTCOME_H

#include <stdbool.h>
#include <stdint.h>

enum weir__end {
	WEIR__DONE,
	WEIR__END_OF_FILE, /* the file is shorter than the range */
	WEIR__CANCELLED,   /* by the caller, before it began */
	WEIR__LATE,        /* read_timeout has passed; it may still run */
	WEIR__ABANDONED,   /* the root was closed; it may still run */
	WEIR__FAILED       /* with err */
};

struct weir__outcome {
	enum weir__end end;
	int err;         /* FAILED: -errno, of the kernel or a backend */
	int32_t native;  /* FAILED: the device's own code; 0: no device's */
	const char *why; /* LATE, FAILED: replaces the usual text, or NULL */
	bool in_copy;    /* FAILED: the copy to or from a device, not the I/O */
	/*
	 * LATE, FAILED: not started, because a read of the file with this name
	 * ended so. NULL: this transfer itself did.
	 */
	const char *after;
};

static inline struct weir__outcome weir__failed(int err, const char *why)
{
	return (struct weir__outcome){ .end = WEIR__FAILED,
				       .err = err,
				       .why = why };
}

/*
 * The errno for the caller. DONE: 0, END_OF_FILE: -ENODATA, CANCELLED:
 * -ECANCELED, LATE: -ETIME, ABANDONED: -ESHUTDOWN, FAILED: err, or -EIO if err
 * is one of the first three of these. (For -ETIMEDOUT see weir__cause_errno.)
 */
int weir__outcome_errno(const struct weir__outcome *outcome);
/* Describe the outcome, for a sentence. */
const char *weir__outcome_describe(const struct weir__outcome *outcome);

#endif
