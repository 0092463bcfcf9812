/* SPDX-License-Identifier: MIT */
#include "outfile.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "output.h"
#include "signals.h"

int outfile_open(struct outfile *file, const char *path)
{
	*file = (struct outfile){ path ? fopen(path, "ae") : stdout, path };
	if (!file->to)
		return fail("%s: cannot be written: %s", path, strerror(errno));
	return 0;
}

void outfile_begin(struct outfile *file)
{
	/* A pipe or a terminal has no length. */
	if (file->path)
		(void)!ftruncate(fileno(file->to), 0);
}

int outfile_end(struct outfile *file)
{
	FILE *to = file->to;
	int err;

	file->to = NULL;
	if (!file->path)
		return 0;
	err = fflush(to) ? errno : ferror(to) ? EIO : 0;
	if (fclose(to) && !err)
		err = errno;
	return err ? fail("%s: could not be written: %s", file->path,
			  strerror(err))
		   : 0;
}

void outfile_drop(struct outfile *file)
{
	struct stat st;

	if (!file->to || !file->path)
		return;
	if (!fstat(fileno(file->to), &st) && S_ISREG(st.st_mode) && !st.st_size)
		(void)unlink(file->path);
	fclose(file->to);
	file->to = NULL;
}

/* For the signal handler. */
static const char *volatile guarded;
static volatile sig_atomic_t begun;

static void remove_guarded(void)
{
	struct stat st;

	if (guarded && !stat(guarded, &st) && S_ISREG(st.st_mode) &&
	    (begun || !st.st_size))
		(void)unlink(guarded);
}

void outfile_guard(const struct outfile *file)
{
	guarded = file->path;
	begun = 0;
	signals_end(remove_guarded);
}

void outfile_is_begun(void)
{
	begun = 1;
}
