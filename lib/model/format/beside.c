/* SPDX-License-Identifier: MIT */
/* The files beside those of a model, such as its config.json. */
#include <errno.h>
#include <string.h>

#include "core/error.h"
#include "core/sys.h"
#include "io/source.h"
#include "model/format/model.h"

static char *path_beside(const struct weir_model *m, const char *name)
{
	const char *slash = strrchr(m->path, '/');
	const size_t dir = slash ? (size_t)(slash + 1 - m->path) : 0;
	char *path;

	if (m->url)
		return weir__url_beside(m->url, name);
	path = weir__malloc(dir + strlen(name) + 1);
	if (!path)
		return NULL;
	memcpy(path, m->path, dir);
	memcpy(path + dir, name, strlen(name) + 1);
	return path;
}

static int open_beside(const struct weir_model *m, const char *name,
		       struct weir_file **ret_file)
{
	char *path = path_beside(m, name);
	int r = path ? weir__file_open(m->weir, path, WEIR_FILE_NODIRECT, 0,
				       ret_file)
		     : weir__fail(-ENOMEM, "%s: no memory for a path", name);

	weir__free(path);
	return r;
}

int weir_model_beside(const struct weir_model *model, const char *name,
		      struct weir_file **ret_file)
{
	int r;

	WEIR__ENTER();
	if (!*name || strchr(name, '/') || !strcmp(name, ".") ||
	    !strcmp(name, ".."))
		return weir__fail(-EINVAL, "'%s' is not the name of a file",
				  weir__quote(name, strlen(name)));
	r = weir__root_enter(model->weir);
	if (r < 0)
		return r;
	if (!model->url && model->n_files && model->file[0]->object)
		return weir__fail(-ENOENT,
				  "%s: has no URL, so no %s is beside it",
				  model->path, name);
	r = open_beside(model, name, ret_file);
	/* As stores answer that do not let the user list names. */
	return r == -EACCES && model->url ? -ENOENT : r;
}
