/* SPDX-License-Identifier: MIT */
#include "io/outcome.h"

#include <errno.h>

#include "core/error.h"

int weir__outcome_errno(const struct weir__outcome *outcome)
{
	switch (outcome->end) {
	case WEIR__DONE:
		return 0;
	case WEIR__END_OF_FILE:
		return -ENODATA;
	case WEIR__CANCELLED:
		return -ECANCELED;
	case WEIR__LATE:
		return -ETIME;
	case WEIR__ABANDONED:
		return -ESHUTDOWN;
	case WEIR__FAILED:
		break;
	}
	if (outcome->err == -ENODATA || outcome->err == -ECANCELED ||
	    outcome->err == -ETIME)
		return -EIO;
	return outcome->err;
}

const char *weir__outcome_describe(const struct weir__outcome *outcome)
{
	if (outcome->why)
		return outcome->why;
	switch (outcome->end) {
	case WEIR__DONE:
		return "done";
	case WEIR__END_OF_FILE:
		return "the file ends before that";
	case WEIR__CANCELLED:
		return "cancelled";
	case WEIR__LATE:
		return "no answer within read_timeout";
	case WEIR__ABANDONED:
		return "the root was closed and it did not end in time";
	case WEIR__FAILED:
		break;
	}
	/* These two mean something else when a block device reports them. */
	if (outcome->err == -ENODATA)
		return "error of the medium (ENODATA)";
	if (outcome->err == -ETIMEDOUT)
		return "the device did not answer in time (ETIMEDOUT)";
	return weir__errno_describe(-outcome->err);
}
