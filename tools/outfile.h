/* SPDX-License-Identifier: MIT */
/*
 * A file that a command writes, or stdout. An older file is kept until the new
 * one is begun, and a signal removes a file that is not complete.
 */
#ifndef TOOLS_OUTFILE_H
#define TOOLS_OUTFILE_H

#include <stdio.h>

struct outfile {
	FILE *to;
	const char *path; /* NULL: stdout, whose errors out_finish() reports */
};

/*
 * Open @path, which must remain valid, or stdout if it is NULL. Returns 0, or
 * EXIT_FAILURE after a line on stderr.
 */
int outfile_open(struct outfile *file, const char *path);
/* What an older file contains is removed. */
void outfile_begin(struct outfile *file);
/*
 * Finish and close the file. Returns 0, or EXIT_FAILURE after a line on stderr.
 */
int outfile_end(struct outfile *file);
/* Close it, if it is open; a file that is empty is removed. */
void outfile_drop(struct outfile *file);

/*
 * Until signals_release(), a signal ends the process at once. It removes the
 * file if that is empty, or after outfile_is_begun(). One file at a time.
 */
void outfile_guard(const struct outfile *file);
void outfile_is_begun(void);

#endif
