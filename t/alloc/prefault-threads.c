/* SPDX-License-Identifier: MIT */
/* How many threads prefault the memory of a load, for many buffers. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <weir.h>

#include "files.h"
#include "core/sys.h"
#include "tap.h"

#define MANY 16u
#define MOST 8u /* threads of one load */

static _Atomic unsigned prefaulters;

/* Counts the threads that prefault. */
int __real_weir__thread_start(pthread_t *ret_thread, const char *name,
			      void *(*fn)(void *), void *arg);
int __wrap_weir__thread_start(pthread_t *ret_thread, const char *name,
			      void *(*fn)(void *), void *arg);
int __wrap_weir__thread_start(pthread_t *ret_thread, const char *name,
			      void *(*fn)(void *), void *arg)
{
	if (!strcmp(name, "weir-prefault"))
		atomic_fetch_add(&prefaulters, 1);
	return __real_weir__thread_start(ret_thread, name, fn, arg);
}

/* A model of @n tensors of @bytes zeroes. */
static const char *hollow(unsigned n, uint64_t bytes)
{
	static char header[MANY * 120];
	size_t at = 0;

	for (unsigned i = 0; i < n; i++)
		at += (size_t)sprintf(
			header + at,
			"%s" ENTRY("t%u", "U8", "[%llu]", "[%llu,%llu]"),
			i ? "," : "{", i, (unsigned long long)bytes,
			(unsigned long long)(i * bytes),
			(unsigned long long)((i + 1) * bytes));
	strcpy(header + at, "}");
	files_st("m", header, n * bytes);
	return files_path("m");
}

/* Load each tensor to a buffer of its own. */
static int load(struct weir *root, unsigned n, uint64_t bytes)
{
	struct weir_select_opts put = WEIR_SELECT_OPTS_INIT;
	struct weir_model *m;
	struct weir_buft *to;
	struct weir_plan *p;
	struct weir_load *l;
	struct weir_dev *cpu;
	int r;

	atomic_store(&prefaulters, 0);
	put.way = WEIR_WAY_DIRECT;
	if (weir_dev_find(root, "CPU", &cpu) < 0 ||
	    weir_dev_buft(cpu, WEIR_MEM_PLAIN, &to) < 0 ||
	    weir_model_open(root, hollow(n, bytes), NULL, &m) < 0 ||
	    weir_plan_new(m, &p) < 0)
		bail("%s", weir_error());
	for (unsigned i = 0; i < n; i++) {
		char name[16];

		snprintf(name, sizeof(name), "t%u", i);
		put.priority = (int32_t)(n - i); /* equal puts share a buffer */
		if (weir_plan_add(p, name, to, &put) != 1)
			bail("%s", weir_error());
	}
	if (weir_load_start(p, NULL, &l) < 0)
		bail("%s", weir_error());
	r = weir_load_wait(l, -1);
	weir_load_free(l);
	weir_plan_free(p);
	weir_model_close(m);
	return r;
}

int main(void)
{
	struct weir_opts o = WEIR_OPTS_INIT;
	struct weir *root;

	plan(6);
	files_begin();
	o.keep = UINT64_MAX;
	if (weir_open(&o, &root) < 0)
		bail("%s", weir_error());
	is_int(load(root, 1, 40u << 20), 0, "a load to one large buffer ends");
	ok(prefaulters > 0,
	   "%u threads prefault a large buffer ahead of the reads",
	   prefaulters);
	is_int(load(root, MANY, 17u << 20), 0,
	       "a load to many large buffers ends");
	ok(prefaulters > 0 && prefaulters <= MOST,
	   "%u threads prefault %u large buffers, not some for each of them",
	   prefaulters, MANY);
	is_int(load(root, MANY, 200000), 0,
	       "a load to many small buffers ends");
	is_int(prefaulters, 0, "no thread prefaults small buffers");
	weir_close(root);
	return done_testing();
}
