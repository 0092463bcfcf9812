/* SPDX-License-Identifier: MIT */
/*
 * The files beside the weights of a model of Hugging Face, for another folder
 * of that kind: copies, but for the dtype that config.json names.
 */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "../text/error.h"
#include "../text/json.h"
#include "../text/read_file.h"
#include "convert.h"
#include "output.h"

static const char *const endings[] = { ".json",     ".jinja", ".model", ".txt",
				       ".tiktoken", ".py",    ".md" };
static const char *const beginnings[] = { "LICENSE", "NOTICE", "USE_POLICY" };

static bool ends_with(const char *name, const char *ending)
{
	const size_t n = strlen(name), len = strlen(ending);

	return n > len && !strcmp(name + n - len, ending);
}

/* True if a file belongs to the model, and is neither weights nor their index.
 */
static bool belongs(const char *name)
{
	if (*name == '.' || ends_with(name, ".index.json"))
		return false;
	for (size_t i = 0; i < sizeof(endings) / sizeof(*endings); i++)
		if (ends_with(name, endings[i]))
			return true;
	for (size_t i = 0; i < sizeof(beginnings) / sizeof(*beginnings); i++)
		if (!strncmp(name, beginnings[i], strlen(beginnings[i])))
			return true;
	return false;
}

/* A text that is changed while it is read. */
struct editor {
	const char *dtype;
	FILE *to;
	const unsigned char *done; /* what comes before is written */
};

/* Write what comes before a string, and the dtype instead of the string. */
static int put_dtype(struct editor *e, struct json *j)
{
	struct json_string old;
	int r = text_json_raw(j, &old);

	if (r < 0)
		return r;
	fwrite(e->done, 1, (size_t)(old.s - e->done), e->to);
	fputs(e->dtype, e->to);
	e->done = old.s + old.len;
	return 0;
}

/* Numbers that are packed or have scales apart cannot be converted one by one.
 */
static int check_plain(struct json *j)
{
	if (text_json_peek(j) == 'n')
		return text_json_skip(j);
	return text_fail(-EOPNOTSUPP,
			 "%s: the weights are quantised "
			 "(quantization_config), so --dtype cannot convert "
			 "them",
			 j->file);
}

static int edit_member(struct editor *e, struct json *j,
		       const struct json_string *name);

static int edit_object(struct editor *e, struct json *j)
{
	struct json_string name;
	int r = text_json_enter(j, '{');

	while (r == 0 && (r = text_json_member_raw(j, &name)) > 0)
		r = edit_member(e, j, &name);
	return r;
}

/* A configuration may have others as members, each with its own dtype. */
static int edit_member(struct editor *e, struct json *j,
		       const struct json_string *name)
{
	const unsigned char c = text_json_peek(j);

	if (text_json_is(name, "quantization_config"))
		return check_plain(j);
	if (c == '"' &&
	    (text_json_is(name, "dtype") || text_json_is(name, "torch_dtype")))
		return put_dtype(e, j);
	return c == '{' ? edit_object(e, j) : text_json_skip(j);
}

/* The text of config.json with another dtype; everything else stays. */
static int edit_config(const char *path, unsigned char *bytes, size_t n,
		       struct convert_file *file, const char *dtype)
{
	struct editor e = { .dtype = dtype, .done = bytes };
	struct json j;
	int r;

	e.to = open_memstream(&file->text, &file->len);
	if (!e.to)
		return fail_memory();
	text_json_init(&j, path, bytes, n);
	r = edit_object(&e, &j);
	if (r == 0)
		r = text_json_finish(&j);
	fwrite(e.done, 1, (size_t)(bytes + n - e.done), e.to);
	if (fclose(e.to))
		return fail_memory();
	return r < 0 ? fail("%s", text_error()) : 0;
}

static int read_config(struct convert_file *file, const char *path,
		       const char *dtype)
{
	unsigned char *bytes;
	size_t n;
	int r;

	if (text_file_read(path, &bytes, &n) < 0)
		return fail("%s", text_error());
	r = edit_config(path, bytes, n, file, dtype);
	free(bytes);
	return r;
}

static int open_copy(struct convert_file *file, const char *path)
{
	file->from = fopen(path, "re");
	return file->from ? 0
			  : fail("%s: cannot be opened: %s", path,
				 strerror(errno));
}

static int add(struct convert_job *job, const char *folder, const char *name)
{
	const bool edit = job->args->dtype && !strcmp(name, "config.json");
	struct convert_file *file;
	struct stat st;
	char *path;
	int r = 0;

	if (asprintf(&path, "%s%s", folder, name) < 0)
		return fail_memory();
	if (stat(path, &st) == 0 && S_ISREG(st.st_mode)) {
		file = convert_folder_add(job, name);
		r = !file  ? EXIT_FAILURE
		    : edit ? read_config(file, path,
					 convert_torch_name(job->args->dtype))
			   : open_copy(file, path);
	}
	free(path);
	return r;
}

static int is_listed(const struct dirent *entry)
{
	return belongs(entry->d_name);
}

int convert_beside_list(struct convert_job *job)
{
	char *folder = convert_path_beside(job, "");
	struct dirent **name = NULL;
	int r = 0, n;

	if (!folder)
		return fail_memory();
	n = scandir(*folder ? folder : ".", &name, is_listed, alphasort);
	if (n < 0)
		r = fail("%s: cannot be listed: %s", *folder ? folder : ".",
			 strerror(errno));
	for (int i = 0; i < n; i++) {
		if (r == 0)
			r = add(job, folder, name[i]->d_name);
		free(name[i]);
	}
	free(name);
	free(folder);
	return r;
}
