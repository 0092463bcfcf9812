/* SPDX-License-Identifier: MIT */
/*
 * weir synth: the layout of tensors in files (synth_layout.c, synth_gguf.c),
 * and the files.
 */
#ifndef TOOLS_SYNTH_H
#define TOOLS_SYNTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "presets.h"

enum {
	SYNTH_SHARD_NAME = 64,
	SYNTH_GGUF_ALIGN = 32
};

/*
 * Assign each tensor a shard and an offset that is a multiple of @align. Sorts
 * the tensors in the order of the files: by shard, then wider elements first,
 * then by name.
 */
void synth_lay_out(struct synth_model *m, uint64_t shards, uint64_t align);
/*
 * The header of a file of @n tensors: 8 bytes with the length of the JSON, and
 * the JSON, padded with spaces to 8 bytes. The caller frees it. NULL: no
 * memory.
 */
char *synth_header(const struct synth_tensor *t, size_t n, size_t *ret_size);
/*
 * The index of all shards. Sorts the tensors by name. The caller frees it.
 * NULL: no memory.
 */
char *synth_index(struct synth_model *m, uint64_t shards, size_t *ret_size);
/* @suffix: ".safetensors" or ".gguf". */
void synth_shard_name(uint32_t shard, uint64_t shards, const char *suffix,
		      char name[SYNTH_SHARD_NAME]);

/* GGUF: drop the tensors whose dtypes it lacks. */
void synth_gguf_filter(struct synth_model *m);
/*
 * The header of the GGUF file of @n tensors of @m, padded to the data. The
 * caller frees it. NULL: no memory.
 */
char *synth_gguf_header(const struct synth_model *m,
			const struct synth_tensor *t, size_t n, uint64_t shards,
			size_t *ret_size);

/*
 * Files. Each is written under a temporary name in its final directory, and is
 * renamed when all of them are complete. After a failure or a signal none is
 * left.
 *
 * Functions that return int return 0, or print one line about the failure on
 * stderr and return EXIT_FAILURE.
 */
struct synth_file {
	char *tmp;    /* temporary path */
	char *path;   /* final path */
	bool renamed; /* it has its final path */
};

struct synth_files {
	const char *out;
	char *dir;
	bool force; /* may replace an existing model */
	bool made_dir;
	struct synth_file *files;
	volatile size_t count; /* read by the signal handler */
};

/*
 * Prepare for up to @n files in the directory @out, or for the file @out if
 * @single. Fails if @out exists, unless @force is set or it is an empty
 * directory. Catches signals until synth_files_end().
 */
int synth_files_begin(struct synth_files *fs, const char *out, bool single,
		      bool force, size_t n);
/*
 * Create the next file, @name in the directory (NULL: the file @out itself),
 * and reserve @bytes on the disk.
 */
int synth_files_create(struct synth_files *fs, const char *name, uint64_t bytes,
		       int *ret_fd);
/* Write all of @data to the file created last. */
int synth_files_write(const struct synth_files *fs, int fd, const void *data,
		      size_t n);
/*
 * Close the file created last. @status is the result of writing it; if it is 0,
 * flush the file to the disk first. Returns @status, or EXIT_FAILURE.
 */
int synth_files_close(struct synth_files *fs, int fd, int status);
/* Rename all files to their final paths, in the order of their creation. */
int synth_files_commit(struct synth_files *fs);
/* Remove the files if they were not committed; free @fs. */
void synth_files_end(struct synth_files *fs);

#endif
