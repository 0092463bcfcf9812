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

/* What is beside most models: a server is asked for these by name. */
static const char *const usual[] = {
	"LICENSE",
	"NOTICE",
	"README.md",
	"added_tokens.json",
	"chat_template.jinja",
	"chat_template.json",
	"config.json",
	"generation_config.json",
	"merges.txt",
	"preprocessor_config.json",
	"processor_config.json",
	"special_tokens_map.json",
	"tokenizer.json",
	"tokenizer.model",
	"tokenizer_config.json",
	"vocab.json",
};

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

static int read_config(struct convert_job *job, struct convert_file *file,
		       const char *dtype)
{
	const struct text_folder folder = { .model = job->model };
	struct text_file text;
	int r = text_folder_read(&folder, file->name, &text);

	if (r < 0)
		return fail("%s", text_error());
	if (r == 0)
		return fail("%s: does not exist any more", file->name);
	r = edit_config(text.path, text.bytes, text.n, file, dtype);
	free(text.bytes);
	return r;
}

/* Add a file, unless there is none of this name. */
static int add(struct convert_job *job, const char *name)
{
	const bool edit = job->args->dtype && !strcmp(name, "config.json");
	struct convert_file *file;
	struct weir_file *from;
	int r = weir_model_beside(job->model, name, &from);

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return fail_weir();
	file = convert_folder_add(job, name);
	if (file && !edit) {
		file->from = from;
		return 0;
	}
	weir_file_close(from);
	return file ? read_config(job, file,
				  convert_torch_name(job->args->dtype))
		    : EXIT_FAILURE;
}

static int is_listed(const struct dirent *entry)
{
	return belongs(entry->d_name);
}

/* Add a file of a folder of this machine, if it is a regular one. */
static int add_local(struct convert_job *job, const char *folder,
		     const char *name)
{
	struct stat st;
	char *path;
	int r = 0;

	if (asprintf(&path, "%s%s", folder, name) < 0)
		return fail_memory();
	if (stat(path, &st) == 0 && S_ISREG(st.st_mode))
		r = add(job, name);
	free(path);
	return r;
}

static int list_folder(struct convert_job *job, const char *folder)
{
	struct dirent **name = NULL;
	const char *dir = *folder ? folder : ".";
	int r = 0, n = scandir(dir, &name, is_listed, alphasort);

	if (n < 0)
		r = fail("%s: cannot be listed: %s", dir, strerror(errno));
	for (int i = 0; i < n; i++) {
		if (r == 0)
			r = add_local(job, folder, name[i]->d_name);
		free(name[i]);
	}
	free(name);
	return r;
}

/* Not every server lists folders. */
static int ask_for_usual(struct convert_job *job)
{
	int r = 0;

	for (size_t i = 0; i < sizeof(usual) / sizeof(*usual) && r == 0; i++)
		r = add(job, usual[i]);
	return r;
}

int convert_beside_list(struct convert_job *job)
{
	char *folder;
	int r;

	if (convert_is_remote(job))
		return ask_for_usual(job);
	folder = convert_own_folder(job);
	if (!folder)
		return fail_memory();
	r = list_folder(job, folder);
	free(folder);
	return r;
}
