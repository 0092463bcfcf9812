/* SPDX-License-Identifier: MIT */
/*
 * Modules of sources: found by the name of a scheme in the directories of
 * modules, checked as those of backends, and loaded when they are needed first.
 *
 * weir-http.so is for http, https, s3, gs, az and hf; weir-source-NAME.so for
 * the scheme NAME.
 */
#ifndef WEIR__IO_SOURCE_MODULE_H
#define WEIR__IO_SOURCE_MODULE_H

#include <weir/source.h>

#include "core/root.h"

struct weir__module;

/* What was searched. Its owner has a lock. */
struct weir__source_search {
	struct weir__source_left_out {
		struct weir__source_left_out *next;
		char *path, *why;
	} * left_out; /* in their order */
	struct weir__source_tried {
		struct weir__source_tried *next;
		char name[40];
	} * tried; /* names of files: each is searched once */
};

/*
 * Load the module for @scheme, and call its entry. < 0: there is none, or it
 * was left out.
 */
int weir__source_module_load(struct weir *weir, struct weir__source_search *s,
			     const char *scheme,
			     struct weir__module **ret_module,
			     const struct weir_source **ret_source,
			     void **ret_self);
/* The reason why the module is left out is this thread's error. */
void weir__source_search_refuse(struct weir *weir,
				struct weir__source_search *s,
				const char *path);
/* Say that there is no source for @scheme, and why. Returns -ENOENT. */
int weir__source_search_fail(const struct weir__source_search *s,
			     const char *scheme);
/* Module @i that was left out, and its path; NULL: there are not as many. */
const char *weir__source_search_refused(const struct weir__source_search *s,
					unsigned i, const char **ret_path);
void weir__source_search_fini(struct weir__source_search *s);

#endif
