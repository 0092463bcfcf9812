/* SPDX-License-Identifier: MIT */
#include "plan.h"

#include <errno.h>
#include "infile.h"
#include "output.h"

/* More than ten million buffers. */
static const size_t text_max = (size_t)512 << 20;

static int parse(struct plan_job *job, size_t n)
{
	struct csv_error error;
	int r = plan_csv_parse(job->text, n, &job->csv, &error);

	if (r == -ENOMEM)
		return fail_memory();
	if (r < 0)
		return fail("%s: line %zu, column %zu: %s", job->name,
			    error.line, error.column, error.why);
	return 0;
}

int plan_read(struct plan_job *job)
{
	size_t n = 0;
	int r;

	job->name = infile_name(job->args->path);
	r = infile_read(job->args->path, text_max, true, &job->text, &n);
	return r ? r : parse(job, n);
}
