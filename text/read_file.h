/* SPDX-License-Identifier: MIT */
/* Files that describe tokenizers and templates. */
#ifndef TEXT_READ_FILE_H
#define TEXT_READ_FILE_H

#include <stddef.h>

struct weir_model;

#define TEXT_PATH_MAX 4096u

/* A file that was read whole. A 0 is after its bytes. */
struct text_file {
	char path[TEXT_PATH_MAX]; /* for sentences; long ones are cut */
	unsigned char *bytes;     /* the caller frees them with free(3) */
	size_t n;
};

/*
 * Read a file of this machine. -EFBIG: it is larger than TOKENIZER_FILE_MAX;
 * -EINVAL: it is not a regular file; or an error of open(2) or read(2).
 */
int text_file_read(const char *path, struct text_file *ret_file);

/* Where files are looked for: beside those of a model, or in a folder. */
struct text_folder {
	const struct weir_model *model; /* NULL: path counts */
	const char *path;
};
/*
 * Read the file @name there. Returns 1, or 0 if there is no such file; errors
 * as above, and of sources.
 */
int text_folder_read(const struct text_folder *folder, const char *name,
		     struct text_file *ret_file);

#endif
