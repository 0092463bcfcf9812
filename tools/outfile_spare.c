/* SPDX-License-Identifier: MIT */
/* Outputs that would replace an input. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <weir.h>
#include "outfile.h"
#include "output.h"

/* Nothing but a regular file is replaced by an output. */
static bool is_regular(const char *path, struct stat *st)
{
	return path && !stat(path, st) && S_ISREG(st->st_mode);
}

bool outfile_same(const char *a, const char *b)
{
	struct stat sa, sb;

	if (!a || !b)
		return false;
	if (!is_regular(a, &sa) || !is_regular(b, &sb))
		return !strcmp(a, b) && access(a, F_OK) < 0;
	return sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
}

int outfile_spare(const char *path, const char *input)
{
	struct stat to, from;
	int r;

	if (!is_regular(path, &to))
		return 0;
	r = strcmp(input, "-") ? stat(input, &from) : fstat(0, &from);
	if (r < 0 || to.st_dev != from.st_dev || to.st_ino != from.st_ino)
		return 0;
	return fail("%s: is an input, and would be replaced; give the output "
		    "another name",
		    path);
}

static int spare_shards(const char *path, const struct weir_model *model)
{
	struct weir_file_info info = { .size = sizeof(info) };
	struct weir_file *file;
	int r = 0;

	for (unsigned i = 0; r == 0 && (file = weir_model_file(model, i)); i++)
		if (!weir_file_info(file, &info))
			r = outfile_spare(path, info.path);
	return r;
}

/* The config.json in the folder of the model, and the index. */
static int spare_beside(const char *path, const char *found)
{
	const char *slash = strrchr(found, '/');
	char *config;
	int r;

	if (asprintf(&config, "%.*sconfig.json",
		     slash ? (int)(slash + 1 - found) : 0, found) < 0)
		return fail_memory();
	r = outfile_spare(path, config);
	free(config);
	return r ? r : outfile_spare(path, found);
}

int outfile_spare_model(const char *path, struct weir *weir,
			const struct weir_model *model, const char *name)
{
	struct weir_model_info info = { .size = sizeof(info) };
	struct weir_model *other;
	struct stat st;
	int r;

	if (!is_regular(path, &st))
		return 0;
	r = outfile_spare(path, name);
	if (r == 0)
		r = spare_shards(path, model);
	if (r == 0 && !weir_model_info(model, &info))
		r = spare_beside(path, info.path);
	if (r || weir_model_open(weir, path, NULL, &other) < 0)
		return r;
	weir_model_close(other);
	return fail("%s: is a model, and would be replaced; give the output "
		    "another name, or remove the model first",
		    path);
}
