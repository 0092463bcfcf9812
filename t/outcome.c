/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "core/outcome.h"
#include "tap.h"

static int errno_of(enum weir__end end)
{
	struct weir__outcome outcome = { .end = end, .err = -EIO };

	return weir__outcome_errno(&outcome);
}

static int errno_of_failure(int err)
{
	struct weir__outcome outcome = weir__failed(err, NULL);

	return weir__outcome_errno(&outcome);
}

static const char *words_of_failure(int err)
{
	struct weir__outcome outcome = weir__failed(err, NULL);

	return weir__outcome_words(&outcome);
}

int main(void)
{
	plan(14);
	is_int(errno_of(WEIR__DONE), 0, "what is done has no errno");
	is_int(errno_of(WEIR__END_OF_FILE), -ENODATA,
	       "the end of a file is -ENODATA");
	is_int(errno_of(WEIR__CANCELLED), -ECANCELED,
	       "cancelled work is -ECANCELED");
	is_int(errno_of(WEIR__LATE), -ETIME,
	       "a read that was not waited for any longer is -ETIME");
	is_int(errno_of(WEIR__ABANDONED), -ESHUTDOWN,
	       "work that the root could not wait for is -ESHUTDOWN");
	is_int(errno_of_failure(-EACCES), -EACCES,
	       "a failure has the errno of its cause");
	is_int(errno_of_failure(-ENODATA), -EIO,
	       "an error of the medium is not the end of a file");
	is_int(errno_of_failure(-ECANCELED), -EIO,
	       "a read that the kernel cancelled is not a cancelled load");
	is_int(errno_of_failure(-ETIME), -EIO,
	       "a device's -ETIME is not a read that was given up");
	has_str(words_of_failure(-ENODATA), "medium",
		"an error of the medium is called that");
	has_str(words_of_failure(-ETIMEDOUT), "did not answer",
		"a device that does not answer is said not to");
	has_str(words_of_failure(-EIO), "error",
		"another failure has the words of its errno");
	has_str(words_of_failure(-524), "524",
		"a failure that only the kernel has a name for has its number");
	is_int(errno_of_failure(-ESHUTDOWN), -ESHUTDOWN,
	       "a driver that has ended is -ESHUTDOWN");
	return done_testing();
}
