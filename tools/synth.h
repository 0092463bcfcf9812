/* SPDX-License-Identifier: MIT */
/*
 * What weir synth makes: where tensors lie in their files, and the files.
 */
#ifndef TOOLS_SYNTH_H
#define TOOLS_SYNTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "presets.h"

enum {
	SYNTH_SHARD_NAME = 64
};

/*
 * Deal the tensors to @shards files and give each its offset. Tensors are
 * then in the order of the files: by shard, wide elements first, by name.
 */
void synth_lay_out(struct synth_model *m, uint64_t shards);
/*
 * The head of a file of @n tensors: 8 bytes of length and the JSON, padded
 * with spaces to 8 bytes. NULL: no memory.
 */
char *synth_header(const struct synth_tensor *t, size_t n, size_t *ret_size);
/* The index of all shards; sorts the tensors by name. NULL: no memory. */
char *synth_index(struct synth_model *m, uint64_t shards, size_t *ret_size);
void synth_shard_name(uint32_t shard, uint64_t shards,
		      char name[SYNTH_SHARD_NAME]);

/*
 * Files. Each is written under a temporary name in
 * the directory where it will stay, and gets its own name when all of them
 * are complete; on failure and on a signal nothing of them is left.
 *
 * Functions that return int say on stderr what failed and then return
 * EXIT_FAILURE; 0 is success.
 */
struct synth_file {
	char *tmp;   /* path it is written under */
	char *path;  /* path it gets */
	bool placed; /* it has it */
};

struct synth_files {
	const char *out;
	char *dir;
	bool force; /* may replace a model that is there */
	bool made_dir;
	struct synth_file *files;
	volatile size_t count; /* read by the signal handler */
};

/*
 * Prepare for up to @n files in OUT, or for OUT itself if @single. What is
 * there already is refused, unless @force, or if it is an empty directory.
 */
int synth_files_begin(struct synth_files *fs, const char *out, bool single,
		      bool force, size_t n);
/*
 * Make the next file, called @name in the directory (NULL: OUT itself), and
 * reserve @bytes on the disk.
 */
int synth_files_create(struct synth_files *fs, const char *name, uint64_t bytes,
		       int *ret_fd);
/* Write all of @data to the file made last. */
int synth_files_write(const struct synth_files *fs, int fd, const void *data,
		      size_t n);
/*
 * Close the file made last; if @status, that of writing it, is 0, flush it to
 * the disk before. Returns @status, or EXIT_FAILURE.
 */
int synth_files_close(struct synth_files *fs, int fd, int status);
/* All are complete: give them their names, in the order they were made. */
int synth_files_commit(struct synth_files *fs);
/* Remove what was not committed, and free. */
void synth_files_end(struct synth_files *fs);

#endif
