/* SPDX-License-Identifier: MIT */
/*
 * A file that a command writes, or stdout. A temporary file beside it is
 * written and replaces it at the end, so that an older file is kept until then,
 * and after a failure or a signal. What is no regular file (a pipe, a device),
 * what is stdout or stderr, and a file in a folder that cannot be written to,
 * is written itself.
 */
#ifndef TOOLS_OUTFILE_H
#define TOOLS_OUTFILE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct weir;
struct weir_model;

struct outfile {
	FILE *to;
	const char *path; /* NULL: stdout, whose errors out_finish() reports */
	char *target;     /* the file to which links at @path lead */
	char *tmp;        /* becomes @target; NULL: @path itself is written */
	bool clear;       /* without @tmp: outfile_begin() empties the file */
};

/*
 * Open @path, which must remain valid, or stdout if it is NULL. Returns 0, or
 * EXIT_FAILURE after a line on stderr. At most two files at a time.
 */
int outfile_open(struct outfile *file, const char *path);
/* The path for a writer that opens the file itself. */
const char *outfile_name(const struct outfile *file);
/* If no temporary file is used, truncate the existing file. */
void outfile_begin(struct outfile *file);
/*
 * Finish and close the file. Returns 0, or EXIT_FAILURE after a line on stderr.
 */
int outfile_end(struct outfile *file);
/* Close it, if it is open, without replacing an older file. */
void outfile_drop(struct outfile *file);

/*
 * Until signals_release(), a signal ends the process at once, and removes the
 * temporary files. Call it before outfile_open().
 */
void outfile_guard(void);
/* Remove the temporary files, in a signal handler: for signals_catch(). */
void outfile_remove(void);

/*
 * True if two outputs (NULL: none) would replace each other. Other names of a
 * file are found if it exists.
 */
bool outfile_same(const char *a, const char *b);
/*
 * Refuse to replace an input, whatever its name or its links. Returns 0 unless
 * @path (NULL: none) is the file @input ("-": stdin), else EXIT_FAILURE after a
 * line on stderr.
 */
int outfile_spare(const char *path, const char *input);
/* The same for all files of @model, which was opened as @name. */
int outfile_spare_files(const char *path, const struct weir_model *model,
			const char *name);
/*
 * The same for all files of @model, which was opened as @name, and for any
 * other model: a model given as output is most likely a mistake, and would be
 * lost.
 */
int outfile_spare_model(const char *path, struct weir *weir,
			const struct weir_model *model, const char *name);

#endif
