/* SPDX-License-Identifier: MIT */
/*
 * Each allocation of a thread fails in turn, from opening a model to a digest:
 * the call says so, and of what. The linker gives us the library's allocations.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <weir.h>

#include "files.h"
#include "core/sys.h"
#include "tap.h"

/* Allocations until one fails; 0: none does. */
static _Thread_local unsigned until;
static _Thread_local unsigned failed;

static bool fails(void)
{
	bool now = until && --until == 0;

	failed += now;
	return now;
}

void *__real_weir__malloc(size_t n);
void *__real_weir__calloc(size_t n, size_t size);
void *__real_weir__calloc_aligned(size_t n, size_t size);
void *__real_weir__realloc(void *p, size_t n, size_t size);
void *__real_weir__malloc_pages(size_t n);
char *__real_weir__strdup(const char *s);
void *__wrap_weir__malloc(size_t n);
void *__wrap_weir__calloc(size_t n, size_t size);
void *__wrap_weir__calloc_aligned(size_t n, size_t size);
void *__wrap_weir__realloc(void *p, size_t n, size_t size);
void *__wrap_weir__malloc_pages(size_t n);
char *__wrap_weir__strdup(const char *s);

void *__wrap_weir__malloc(size_t n)
{
	return fails() ? NULL : __real_weir__malloc(n);
}

void *__wrap_weir__calloc(size_t n, size_t size)
{
	return fails() ? NULL : __real_weir__calloc(n, size);
}

void *__wrap_weir__calloc_aligned(size_t n, size_t size)
{
	return fails() ? NULL : __real_weir__calloc_aligned(n, size);
}

void *__wrap_weir__realloc(void *p, size_t n, size_t size)
{
	return fails() ? NULL : __real_weir__realloc(p, n, size);
}

void *__wrap_weir__malloc_pages(size_t n)
{
	return fails() ? NULL : __real_weir__malloc_pages(n);
}

char *__wrap_weir__strdup(const char *s)
{
	return fails() ? NULL : __real_weir__strdup(s);
}

static struct weir *root;
static struct weir_buft *huge;
static struct weir_buf *given;

/* What one life of a model has to show. */
struct life {
	struct weir_model *model;
	struct weir_plan *plan;
	struct weir_load *load;
	struct weir_weights *weights;
};

static int plan_it(struct life *l)
{
	struct weir_put_opts put = WEIR_PUT_OPTS_INIT;
	int r = weir_plan_new(l->model, &l->plan);

	put.buf = given;
	if (r >= 0)
		r = weir_plan_put(l->plan, "a", huge, &put);
	put.offset = 1000;
	if (r >= 0)
		r = weir_plan_put(l->plan, "b", huge, &put);
	return r < 0 ? r : weir_plan_put(l->plan, NULL, huge, NULL);
}

static int live(struct life *l, const char *path)
{
	uint8_t digest[32];
	int r = weir_model_open(root, path, NULL, &l->model);

	if (r >= 0)
		r = plan_it(l);
	if (r >= 0)
		r = weir_plan_estimate(l->plan, NULL, 0);
	if (r >= 0)
		r = weir_load_start(l->plan, NULL, &l->load);
	if (r >= 0)
		r = weir_load_wait(l->load, -1);
	if (r >= 0)
		r = weir_load_weights(l->load, &l->weights);
	if (r >= 0)
		r = weir_weights_digest(l->weights, 0, WEIR_DIGEST_SHA256,
					digest);
	return r;
}

static void end(struct life *l)
{
	weir_weights_free(l->weights);
	weir_load_free(l->load);
	weir_plan_free(l->plan);
	weir_model_close(l->model);
}

/* Memory for buffers is asked for by their kind, not for a file. */
static bool names_it(const char *says)
{
	return strstr(says, "m.safetensors") || strstr(says, "m.index.json") ||
	       strstr(says, "tensor '") || strstr(says, "buffer");
}

static void each(const char *path, const char *what)
{
	unsigned n = 0, other = 0, nameless = 0;
	struct weir_dev *none;

	for (;; n++) {
		struct life l = { .model = NULL };
		int r;

		/* Whatever has no sentence of its own has this one. */
		(void)!weir_dev_find(root, "none", &none);
		failed = 0;
		until = n + 1;
		r = live(&l, files_path(path));
		until = 0;
		if (!failed) {
			end(&l);
			is_int(r < 0, 0, "%s: with memory all is well", what);
			break;
		}
		/* What is only better with memory may do without. */
		if (r < 0 && r != -ENOMEM)
			other++;
		if (r == -ENOMEM && !names_it(weir_error())) {
			nameless++;
			diag("%u: %s", n, weir_error());
		}
		end(&l);
	}
	ok(n > 20, "%s: its life takes memory (%u times)", what, n);
	is_int(other, 0, "%s: without it the error is ENOMEM", what);
	is_int(nameless, 0,
	       "%s: ... and the sentence names the file or the tensor", what);
}

int main(void)
{
	struct weir_io_info io = { .size = sizeof(io) };
	struct weir_dev *cpu;

	plan(2 * 4);
	files_begin();
	files_st(
		"m.safetensors",
		"{" ENTRY("a", "U8", "[100]", "[0,100]") "," ENTRY(
			"b", "U8", "[50]",
			"[100,150]") "," ENTRY("c", "F32", "[5000]",
					       "[150,20150]") ","
							      "\"__metadata__\":{\"k\":\"v\"}}",
		20150);
	files_text("m.index.json",
		   "{\"weight_map\":{\"a\":\"m.safetensors\","
		   "\"b\":\"m.safetensors\",\"c\":\"m.safetensors\"}}");
	if (weir_open(NULL, &root) < 0 ||
	    weir_dev_find(root, "CPU", &cpu) < 0 ||
	    weir_dev_buft(cpu, WEIR_MEM_HUGE, &huge) < 0 ||
	    weir_io_info(root, &io) < 0 ||
	    weir_buf_alloc(huge, 10000, NULL, &given) < 0)
		bail("%s", weir_error());
	each("m.safetensors", "a file");
	each("m.index.json", "an index");
	weir_buf_free(given);
	weir_close(root);
	return done_testing();
}
