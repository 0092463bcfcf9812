/* SPDX-License-Identifier: MIT */
#include "model/format/shards_ahead.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "core/error.h"
#include "core/sys.h"
#include "model/format/model.h"

#define THREADS 8u

int weir__opening_new(struct weir__opening *a, struct weir *weir, size_t n)
{
	memset(a, 0, sizeof(*a));
	a->weir = weir;
	a->path = weir__calloc(n, sizeof(*a->path));
	a->file = weir__calloc(n, sizeof(*a->file));
	if (a->path && a->file) {
		a->n = n;
		return 0;
	}
	weir__opening_fini(a);
	return -ENOMEM;
}

static void *open_next(void *arg)
{
	struct weir__opening *a = arg;
	size_t i;

	while (!a->failed && (i = a->next++) < a->n) {
		if (a->file[i])
			continue;
		if (!a->path[i] ||
		    weir__model_file(a->weir, a->path[i], &a->file[i]) < 0)
			a->failed = true;
	}
	return NULL;
}

void weir__opening_open(struct weir__opening *a)
{
	struct weir__error_saved saved;
	pthread_t thread[THREADS - 1];
	unsigned n = 0;

	weir__error_save(&saved);
	/* Fewer threads than wanted are enough. */
	while (n < THREADS - 1 && n + 1 < a->n &&
	       weir__thread_start(&thread[n], "weir-shards", open_next, a) == 0)
		n++;
	open_next(a);
	while (n)
		pthread_join(thread[--n], NULL);
	weir__error_restore(&saved);
}

struct weir_file *weir__opening_take(struct weir__opening *a, size_t i)
{
	struct weir_file *file = i < a->n ? a->file[i] : NULL;

	if (file)
		a->file[i] = NULL;
	return file;
}

void weir__opening_fini(struct weir__opening *a)
{
	for (size_t i = 0; i < a->n; i++) {
		weir__file_put(a->file[i]);
		weir__free(a->path[i]);
	}
	weir__free(a->path);
	weir__free(a->file);
	memset(a, 0, sizeof(*a));
}
