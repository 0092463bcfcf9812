/* SPDX-License-Identifier: MIT */
#include "models.h"

#include "files.h"
#include "tap.h"

int models_try(struct weir *weir, const char *name, uint32_t flags)
{
	struct weir_model_opts opts = WEIR_MODEL_OPTS_INIT;
	struct weir_model *m = NULL;
	int r;

	opts.flags = flags;
	r = weir_model_open(weir, files_path(name), &opts, &m);
	weir_model_close(m);
	return r;
}

struct weir_model *models_open(struct weir *weir, const char *name)
{
	struct weir_model *m;

	if (weir_model_open(weir, files_path(name), NULL, &m) < 0)
		bail("%s", weir_error());
	return m;
}
