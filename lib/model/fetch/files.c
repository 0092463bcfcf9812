/* SPDX-License-Identifier: MIT */
/*
 * The files of a model at a URL: those with tensors, its index, and the small
 * files beside them. Names come from servers: each must be the name of a file
 * in the folder.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/array.h"
#include "core/error.h"
#include "core/sys.h"
#include "io/file.h"
#include "io/source.h"
#include "model/fetch/fetch.h"
#include "model/format/model.h"

#define MAX_NAME 200u
#define MAX_FILES 10000u

/* Beside a model, where a source cannot list names. */
static const char *const usual[] = {
	"LICENSE",
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

/* Weights, of which the model needs only those that it names. */
static const char *const weights[] = { ".safetensors", ".gguf",      ".bin",
				       ".pt",          ".pth",       ".ckpt",
				       ".h5",          ".msgpack",   ".onnx",
				       ".onnx_data",   ".npz",       ".ot",
				       ".tflite",      ".index.json" };

static bool ends_in(const char *name, const char *suffix)
{
	size_t n = strlen(name), len = strlen(suffix);

	return n >= len && !strcmp(name + n - len, suffix);
}

static bool is_weights(const char *name)
{
	for (size_t i = 0; i < sizeof(weights) / sizeof(weights[0]); i++)
		if (ends_in(name, weights[i]))
			return true;
	return false;
}

/* A name of a file in the folder, which is none of our own. */
static bool is_name(const char *name)
{
	size_t n = strlen(name);

	if (!n || n > MAX_NAME || *name == '.' || ends_in(name, ".part"))
		return false;
	for (const char *c = name; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f || *c == '/')
			return false;
	return true;
}

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decode percent signs, in place. False: a NUL, or no digits. */
static bool decode(char *text)
{
	char *to = text;

	for (; *text; text++) {
		int hi, lo;

		if (*text != '%') {
			*to++ = *text;
			continue;
		}
		hi = digit(text[1]);
		lo = hi < 0 ? -1 : digit(text[2]);
		if (lo < 0 || !(hi | lo))
			return false;
		*to++ = (char)(hi << 4 | lo);
		text += 2;
	}
	*to = '\0';
	return true;
}

/* Where the name of the file begins in a URL. */
static size_t name_at(const char *url)
{
	size_t at = strcspn(url, "?#");

	while (at && url[at - 1] != '/')
		at--;
	return at;
}

/* The name of the file at a URL. NULL: no memory. "": it has none. */
static char *name_of(const char *url)
{
	size_t n = strcspn(url, "?#"), at = name_at(url);
	bool web = !strncasecmp(url, "http://", 7) ||
		   !strncasecmp(url, "https://", 8);
	char *name;

	name = weir__malloc(n - at + 1);
	if (!name)
		return NULL;
	memcpy(name, url + at, n - at);
	name[n - at] = '\0';
	if (web && !decode(name))
		*name = '\0';
	return name;
}

static bool has(const struct weir__fetch_list *list, const char *name)
{
	for (size_t i = 0; i < list->n; i++)
		if (!strcmp(list->file[i].name, name))
			return true;
	return false;
}

static int add(struct weir__fetch_list *list, struct weir_file *file)
{
	struct weir__fetch_file *more, *f;
	char *name = name_of(file->url);

	if (!name)
		return weir__fail(-ENOMEM, "no memory for a name");
	if (!is_name(name)) {
		weir__fail(-EBADMSG,
			   "%s: '%s' is not a name that a file can get",
			   file->path, weir__quote(name, strlen(name)));
		weir__free(name);
		return -EBADMSG;
	}
	if (has(list, name)) {
		weir__free(name);
		return 0;
	}
	more = weir__grow(list->file, &list->room, list->n,
			  sizeof(*list->file));
	if (!more) {
		weir__free(name);
		return weir__fail(-ENOMEM, "no memory for %zu files", list->n);
	}
	list->file = more;
	f = &list->file[list->n++];
	*f = (struct weir__fetch_file){
		.file = weir__file_ref(file),
		.name = name,
		.id = { .name = file->path,
			.identity = file->identity,
			.sha256 = file->sha256,
			.bytes = file->id.bytes },
	};
	return 0;
}

/* Open the object at @url, and add it. */
static int add_url(struct weir__fetch_list *list, struct weir *weir,
		   const char *url)
{
	struct weir_file *file;
	int r = weir__file_open(weir, url, 0, 0, &file);

	if (r < 0)
		return r;
	r = add(list, file);
	weir__file_put(file);
	return r;
}

/* Names that a source lists. */
struct beside {
	char **name;
	size_t n, room;
};

static int on_found(void *arg, const char *name, uint64_t bytes)
{
	struct beside *found = arg;
	char **more;

	(void)bytes;
	if (!is_name(name) || is_weights(name))
		return 0;
	if (found->n == MAX_FILES)
		return -E2BIG;
	more = weir__grow(found->name, &found->room, found->n,
			  sizeof(*found->name));
	if (!more)
		return -ENOMEM;
	found->name = more;
	found->name[found->n] = weir__strdup(name);
	return found->name[found->n++] ? 0 : -ENOMEM;
}

static int add_beside(struct weir__fetch_list *list, struct weir *weir,
		      const char *url, const char *name, bool optional)
{
	char *path = weir__url_beside(url, name);
	int r;

	if (!path)
		return weir__fail(-ENOMEM, "no memory for a URL");
	r = add_url(list, weir, path);
	weir__free(path);
	return optional && (r == -ENOENT || r == -EACCES) ? 0 : r;
}

/* What else is in the folder of the model, except other weights. */
static int add_small(struct weir__fetch_list *list, struct weir *weir,
		     const char *url)
{
	const size_t n_usual = sizeof(usual) / sizeof(usual[0]);
	struct weir__error_saved saved;
	struct beside found = { 0 };
	char *folder = weir__url_beside(url, "");
	int r;

	weir__error_save(&saved);
	r = folder ? weir__url_list(weir, folder, on_found, &found)
		   : weir__fail(-ENOMEM, "no memory for a URL");
	weir__free(folder);
	for (size_t i = 0; r >= 0 && i < found.n; i++)
		if (!has(list, found.name[i]))
			r = add_beside(list, weir, url, found.name[i], false);
	if (r == -EOPNOTSUPP || r == -EACCES || r == -ENOENT) {
		weir__error_restore(&saved);
		r = 0;
		for (size_t i = 0; r >= 0 && i < n_usual; i++)
			if (!has(list, usual[i]))
				r = add_beside(list, weir, url, usual[i], true);
		if (r >= 0)
			weir__error_restore(&saved);
	}
	while (found.n)
		weir__free(found.name[--found.n]);
	weir__free(found.name);
	return r;
}

/* An index names its shards relative to its folder. */
static int check_beside(const struct weir_model *m,
			const struct weir_file *shard)
{
	size_t at = name_at(m->url);

	if (at == name_at(shard->url) && !strncmp(m->url, shard->url, at))
		return 0;
	return weir__fail(-EBADMSG, "%s: is not in the folder of its index, %s",
			  shard->path, m->path);
}

static int add_model(struct weir__fetch_list *list, struct weir *weir,
		     const struct weir_model *m, const char *url)
{
	bool index = ends_in(m->path, ".json");
	bool whole = !weir__url_names_model(url) || index;
	int r = 0;

	for (uint32_t i = 0; r >= 0 && i < m->n_files; i++) {
		r = index ? check_beside(m, m->file[i]) : 0;
		if (r >= 0)
			r = add(list, m->file[i]);
	}
	if (r >= 0 && index)
		r = add_url(list, weir, m->url);
	if (r >= 0 && whole)
		r = add_small(list, weir, m->url);
	return r;
}

int weir__fetch_list(struct weir *weir, const char *url,
		     struct weir__fetch_list *ret_list)
{
	struct weir_model_opts opts = WEIR_MODEL_OPTS_INIT;
	struct weir__fetch_list list = { 0 };
	struct weir_model *m;
	int r;

	opts.flags = WEIR_MODEL_LENIENT;
	r = weir_model_open(weir, url, &opts, &m);
	if (r < 0)
		return weir__fail_as("weir_fetch", r);
	weir__enter("weir_fetch");
	r = add_model(&list, weir, m, url);
	weir_model_close(m);
	if (r < 0)
		weir__fetch_list_free(&list);
	else
		*ret_list = list;
	return r;
}

void weir__fetch_list_free(struct weir__fetch_list *list)
{
	while (list->n) {
		struct weir__fetch_file *f = &list->file[--list->n];

		weir__partial_close(f->part);
		weir__free(f->block);
		weir__free(f->name);
		weir__file_put(f->file);
	}
	weir__free(list->file);
	list->file = NULL;
}
