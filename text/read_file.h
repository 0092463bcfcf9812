/* SPDX-License-Identifier: MIT */
/* Files that describe tokenizers and templates. */
#ifndef TEXT_READ_FILE_H
#define TEXT_READ_FILE_H

#include <stddef.h>

#define TEXT_PATH_MAX 4096u

/*
 * Read a whole file. Free @ret_bytes with free(3); they are followed by a 0.
 * -EFBIG: it is larger than TOKENIZER_FILE_MAX; -EINVAL: it is not a regular
 * file; or an error of open(2) or read(2).
 */
int text_file_read(const char *path, unsigned char **ret_bytes, size_t *ret_n);
/*
 * Make the path of the file @name in the folder whose path is the first @len
 * bytes of @folder. Returns 1 if there is such a file, 0 if not, or
 * -ENAMETOOLONG.
 */
int text_file_in(const char *folder, size_t len, const char *name,
		 char path[TEXT_PATH_MAX]);
/* Return the folder of a file: it is the first @ret_len bytes of the result. */
const char *text_folder_of(const char *path, size_t *ret_len);

#endif
