/* SPDX-License-Identifier: MIT */
/* Opens a tokenizer from a model, a file or memory. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <weir.h>

#include "read_file.h"
#include "tokenizer_internal.h"
#include "table_memory.h"

/* Files of a folder that describe a tokenizer, the most exact first. */
static const char *const names[] = { "tokenizer.json", "tokenizer.model" };

static int complete(int r, struct tokenizer *t, const char *file,
		    struct tokenizer **ret_t)
{
	if (!r)
		r = tokenizer_finish(t, file);
	if (r < 0)
		tokenizer_free(t);
	else
		*ret_t = t;
	return r;
}

/*
 * True if a file is JSON: it begins with '{' or white space. A tokenizer.model
 * begins with 0x0a too.
 */
static bool is_json(const unsigned char *s, size_t n)
{
	while (n && (*s == ' ' || *s == '\t' || *s == '\r' || *s == '\n')) {
		s++;
		n--;
	}
	return n && *s == '{';
}

/*
 * Parse a file. @t and @bytes, which are followed by a 0, are this function's.
 */
static int parse_bytes(const char *name, unsigned char *bytes, size_t n,
		       struct tokenizer *t, struct tokenizer **ret_t)
{
	int r;

	t->storage = bytes;
	r = is_json(bytes, n) ? read_json(t, name, bytes, n)
			      : read_sentencepiece(t, name, bytes, n);
	return complete(r, t, name, ret_t);
}

int tokenizer_parse(const char *name, const void *bytes, size_t n,
		    struct tokenizer **ret_t)
{
	struct tokenizer *t;
	unsigned char *copy;

	if (n > TOKENIZER_FILE_MAX)
		return text_fail(-EFBIG, "%s: %zu bytes, at most %u", name, n,
				 TOKENIZER_FILE_MAX);
	t = tokenizer_alloc();
	copy = memory_table(n + 1);
	if (!t || !copy) {
		tokenizer_free(t);
		free(copy);
		return text_fail(-ENOMEM, "no memory for %zu bytes", n);
	}
	memcpy(copy, bytes, n);
	copy[n] = 0;
	return parse_bytes(name, copy, n, t, ret_t);
}

/*
 * Read where generation stops from a folder's generation_config.json, if there
 * is one.
 */
static int read_ends(const struct text_folder *folder, struct tokenizer *t)
{
	struct text_file file;
	int r = text_folder_read(folder, "generation_config.json", &file);

	if (r <= 0)
		return r;
	r = read_generation(t, file.path, file.bytes, file.n);
	free(file.bytes);
	return r;
}

/* Read a file of the folder into @t. Returns 0 if there is none, else 1. */
static int read_in(const struct text_folder *folder, const char *name,
		   struct tokenizer *t, int *ret, struct tokenizer **ret_t)
{
	struct text_file file;
	int r = text_folder_read(folder, name, &file);

	if (r > 0)
		*ret = parse_bytes(file.path, file.bytes, file.n, t, ret_t);
	return r;
}

/* Read a folder, which is called @name in sentences, into @t. */
static int open_folder(const struct text_folder *folder, const char *name,
		       int len, struct tokenizer *t, struct tokenizer **ret_t)
{
	int r = read_ends(folder, t), parsed = 0;

	for (size_t i = 0; r >= 0 && i < sizeof(names) / sizeof(names[0]);
	     i++) {
		r = read_in(folder, names[i], t, &parsed, ret_t);
		if (r > 0)
			return parsed;
	}
	tokenizer_free(t);
	return r < 0 ? r
		     : text_fail(-ENOENT, "%.*s: has neither %s nor %s", len,
				 name, names[0], names[1]);
}

/* Read a file into @t, which is this function's. */
static int open_file(const char *path, struct tokenizer *t,
		     struct tokenizer **ret_t)
{
	struct text_file file;
	int r = text_file_read(path, &file);

	if (r < 0) {
		tokenizer_free(t);
		return r;
	}
	return parse_bytes(path, file.bytes, file.n, t, ret_t);
}

int tokenizer_open(const char *path, struct tokenizer **ret_t)
{
	const struct text_folder folder = { .path = path };
	struct tokenizer *t = tokenizer_alloc();
	struct stat st;

	if (!t)
		return text_fail(-ENOMEM, "no memory for a tokenizer");
	if (!stat(path, &st) && S_ISDIR(st.st_mode))
		return open_folder(&folder, path, (int)strlen(path), t, ret_t);
	return open_file(path, t, ret_t);
}

int tokenizer_open_beside(const struct weir_model *model, const char *name,
			  struct tokenizer **ret_t)
{
	const struct text_folder folder = { .model = model };
	struct tokenizer *t = tokenizer_alloc();
	int r, parsed = 0;

	if (!t)
		return text_fail(-ENOMEM, "no memory for a tokenizer");
	r = read_in(&folder, name, t, &parsed, ret_t);
	if (r > 0)
		return parsed;
	tokenizer_free(t);
	return r < 0 ? r : text_fail(-ENOENT, "there is no %s", name);
}

int tokenizer_from_model(const struct weir_model *model,
			 struct tokenizer **ret_t)
{
	struct weir_value value = { .size = sizeof(value) };
	struct weir_model_info info = { .size = sizeof(info) };
	struct tokenizer *t;
	const struct text_folder folder = { .model = model };
	const char *slash;
	int r = weir_model_info(model, &info);

	if (r < 0)
		return text_fail(r, "%s", weir_error());
	t = tokenizer_alloc();
	if (!t)
		return text_fail(-ENOMEM, "no memory for a tokenizer");
	if (strcmp(info.format, "GGUF") &&
	    weir_model_meta(model, "tokenizer.ggml.model", &value) == -ENOENT) {
		slash = strrchr(info.path, '/');
		return open_folder(&folder, slash ? info.path : ".",
				   slash ? (int)(slash - info.path) : 1, t,
				   ret_t);
	}
	r = read_gguf(t, model, info.path);
	return complete(r, t, info.path, ret_t);
}
