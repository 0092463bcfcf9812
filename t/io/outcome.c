/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "io/file.h"
#include "io/outcome.h"
#include "io/reads.h"
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

	return weir__outcome_describe(&outcome);
}

static void errnos(void)
{
	is_int(errno_of(WEIR__DONE), 0, "work that is done has no errno");
	is_int(errno_of(WEIR__END_OF_FILE), -ENODATA,
	       "the end of a file is -ENODATA");
	is_int(errno_of(WEIR__CANCELLED), -ECANCELED,
	       "cancelled work is -ECANCELED");
	is_int(errno_of(WEIR__LATE), -ETIME,
	       "a read that was given up at its deadline is -ETIME");
	is_int(errno_of(WEIR__ABANDONED), -ESHUTDOWN,
	       "work that was abandoned when its root closed is -ESHUTDOWN");
	is_int(errno_of_failure(-EACCES), -EACCES,
	       "a failure has the errno of its cause");
	is_int(errno_of_failure(-ENODATA), -EIO,
	       "-ENODATA from the kernel is -EIO, not the end of a file");
	is_int(errno_of_failure(-ECANCELED), -EIO,
	       "-ECANCELED from the kernel is -EIO, not a cancelled load");
	is_int(errno_of_failure(-ETIME), -EIO,
	       "-ETIME from a device is -EIO, not a read that was given up");
	is_int(errno_of_failure(-ESHUTDOWN), -ESHUTDOWN,
	       "-ESHUTDOWN from a driver that has ended stays -ESHUTDOWN");
}

static void sentences(void)
{
	has_str(words_of_failure(-ENODATA), "medium",
		"the sentence of -ENODATA names the medium");
	has_str(words_of_failure(-ETIMEDOUT), "did not answer",
		"the sentence of -ETIMEDOUT says that the device did not answer");
	has_str(words_of_failure(-EIO), "error",
		"the sentence of another failure is that of its errno");
	has_str(words_of_failure(-524), "524",
		"the sentence of an errno without a name has its number");
}

/* Another reactor may report them before the read that failed. */
static void after(void)
{
	struct weir_file file = { .base = "shard" };
	struct weir__reads reads = { 0 };
	struct weir__outcome outcome;
	char why[] = "the store has no such version";

	outcome = weir__failed(-ESTALE, why);
	ok(weir__reads_stop(&reads, &file, &outcome), "a failure ends reads");
	why[0] = '\0';
	outcome = weir__reads_outcome(&reads);
	is_str(outcome.after, "shard", "others were not started after it");
	is_str(weir__outcome_describe(&outcome),
	       "the store has no such version", "and have its sentence");
}

int main(void)
{
	plan(17);
	after();
	errnos();
	sentences();
	return done_testing();
}
