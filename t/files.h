/* SPDX-License-Identifier: MIT */
/*
 * Files for tests, in a directory of their own that is removed when the test
 * ends. Names are relative to it. Each function bails out on failure.
 */
#ifndef T_FILES_H
#define T_FILES_H

#include <stddef.h>
#include <stdint.h>

/* An entry of a safetensors header; @s and @o are a shape and data_offsets. */
#define ENTRY(n, d, s, o) \
	"\"" n "\":{\"dtype\":\"" d "\",\"shape\":" s ",\"data_offsets\":" o "}"

/* Make the directory, under /var/tmp. */
void files_begin(void);
/* The path of @name; "" is the directory. One of a ring of buffers. */
const char *files_path(const char *name);
void files_dir(const char *name);
void files_link(const char *name, const char *to);
void files_text(const char *name, const char *text);
void files_bytes(const char *name, const void *bytes, size_t n);
/* A safetensors file: @header and @data bytes of data, all of them 0. */
void files_st(const char *name, const char *header, uint64_t data);
void files_truncate(const char *name, uint64_t bytes);

/*
 * A file below the directory @root, for a /proc or a /sys of a test's own:
 * @path begins with a slash, and its directories are made.
 */
void files_below(const char *root, const char *path, const char *text);

/* How many descriptors this process has open. */
unsigned files_open(void);

#endif
