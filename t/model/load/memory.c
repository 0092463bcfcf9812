/* SPDX-License-Identifier: MIT */
/*
 * Each allocation of a thread fails once, from opening a model to a digest: the
 * call fails with -ENOMEM, and its sentence says for what.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir.h>

#include "files.h"
#include "nomem.h"
#include "tap.h"

static struct weir *root;
static struct weir_buft *huge;
static struct weir_buf *given;
static bool in_parts; /* the plan has slices, conversions and targets */
static bool verified; /* by a manifest */

/* The objects of one pass from opening a model to a digest. */
struct pass {
	struct weir_model *model;
	struct weir_plan *plan;
	struct weir_load *load;
	struct weir_weights *weights;
	struct weir_manifest *manifest, *made;
};

/* Columns of c, converted, to columns of a wider tensor; and all of a. */
static int pass_targets(struct pass *l)
{
	const int64_t fused[] = { 50, 40 }, flat = 100;
	const struct weir_slice columns = { .dim = 1, .start = 30, .n = 20 };
	struct weir_target t[2] = { { .size = sizeof(t[0]), .way = 3 } };
	struct weir_tensor whole, part, a;
	int r = weir_tensor_init(&whole, WEIR_DTYPE_BF16, 2, fused);

	if (r >= 0)
		r = weir_tensor_place(&whole, given, 2000);
	if (r >= 0)
		r = weir_tensor_view(&whole, 1, 10, 20, &part);
	if (r >= 0)
		r = weir_tensor_init(&a, WEIR_DTYPE_U8, 1, &flat);
	if (r >= 0)
		r = weir_tensor_place(&a, given, 7000);
	t[0].tensor = 2;
	t[0].dst = &part;
	t[0].slice = &columns;
	t[1].dst = &a;
	return r < 0 ? r : weir_plan_add_tensors(l->plan, t, 2);
}

static int pass_parts(struct pass *l)
{
	const struct weir_slice half = { .ranks = 2, .rank = 1 };
	struct weir_select_opts how = WEIR_SELECT_OPTS_INIT;
	int r;

	how.slice = &half;
	how.dtype = WEIR_DTYPE_F16;
	how.capacity = 40;
	how.way = WEIR_WAY_BUFFERED;
	r = weir_plan_add(l->plan, "[ab]", huge, &how);
	how.capacity = 0;
	if (r >= 0)
		r = weir_plan_add(l->plan, "c", huge, &how);
	return r < 0 ? r : pass_targets(l);
}

static int pass_plan(struct pass *l)
{
	struct weir_select_opts how = WEIR_SELECT_OPTS_INIT;
	int r = weir_plan_new(l->model, &l->plan);

	if (r >= 0 && in_parts)
		return pass_parts(l);
	how.buf = given;
	if (r >= 0)
		r = weir_plan_add(l->plan, "a", huge, &how);
	how.offset = 1000;
	if (r >= 0)
		r = weir_plan_add(l->plan, "b", huge, &how);
	return r < 0 ? r : weir_plan_add(l->plan, NULL, huge, NULL);
}

static int pass_verify(struct pass *l)
{
	int r = weir_manifest_open(root, files_path("man.json"), &l->manifest);

	return r < 0 ? r : weir_plan_verify(l->plan, l->manifest);
}

static int pass_manifest(struct pass *l)
{
	int r = weir_load_manifest(l->load, &l->made);
	int fd = open("/dev/null", O_WRONLY);

	if (r >= 0)
		r = weir_manifest_write(l->made, fd);
	close(fd);
	return r;
}

static int pass_run(struct pass *l, const char *path)
{
	struct weir_entry entry = { .size = sizeof(entry) };
	uint8_t digest[32];
	int r = weir_model_open(root, path, NULL, &l->model);

	if (r >= 0)
		r = pass_plan(l);
	if (r >= 0 && verified)
		r = pass_verify(l);
	if (r >= 0)
		r = weir_plan_estimate(l->plan, NULL, 0);
	if (r >= 0)
		r = weir_load_start(l->plan, NULL, &l->load);
	if (r >= 0)
		r = weir_load_wait(l->load, -1);
	if (r >= 0 && verified)
		r = pass_manifest(l);
	if (r >= 0)
		r = weir_load_weights(l->load, &l->weights);
	/* A name is found without memory for an index, too. */
	for (size_t i = 0; r >= 0 && i < weir_weights_count(l->weights); i++) {
		r = weir_weights_entry(l->weights, i, &entry);
		if (r >= 0 && !weir_weights_find(l->weights, entry.name))
			r = -ENOENT;
	}
	for (size_t i = 0; r >= 0 && i < weir_weights_count(l->weights); i++)
		r = weir_weights_digest(l->weights, i, WEIR_DIGEST_SHA256,
					digest);
	return r;
}

static void pass_free(struct pass *l)
{
	weir_manifest_close(l->manifest);
	weir_manifest_close(l->made);
	weir_weights_free(l->weights);
	weir_load_free(l->load);
	weir_plan_free(l->plan);
	weir_model_close(l->model);
}

/* Memory of a buffer belongs to no file, so its sentence names the buffer. */
static bool names_object(const char *sentence)
{
	return strstr(sentence, "m.safetensors") ||
	       strstr(sentence, "m.index.json") ||
	       strstr(sentence, "man.json") || strstr(sentence, "a manifest") ||
	       strstr(sentence, "tensor '") || strstr(sentence, "buffer");
}

static void each(const char *path, const char *what)
{
	unsigned n = 0, other = 0, nameless = 0;
	struct weir_dev *none;

	for (;; n++) {
		struct pass l = { .model = NULL };
		int r;

		/* A sentence that a call without one of its own would leave. */
		(void)!weir_dev_find(root, "none", &none);
		nomem_begin(n + 1);
		r = pass_run(&l, files_path(path));
		if (!nomem_end()) {
			pass_free(&l);
			is_int(r < 0, 0,
			       "%s: without a failing allocation all calls succeed",
			       what);
			break;
		}
		/* An allocation that is optional may fail without an error. */
		if (r < 0 && r != -ENOMEM)
			other++;
		if (r == -ENOMEM && !names_object(weir_error())) {
			nameless++;
			diag("%u: %s", n, weir_error());
		}
		pass_free(&l);
	}
	ok(n > 20, "%s: its calls allocate memory (%u times)", what, n);
	is_int(other, 0, "%s: a failing allocation fails with -ENOMEM", what);
	is_int(nameless, 0,
	       "%s: the sentence of -ENOMEM names the file, the tensor or the buffer",
	       what);
}

/* The manifest of m.safetensors, in man.json. */
static void write_manifest(void)
{
	int fd = open(files_path("man.json"), O_WRONLY | O_CREAT, 0600);
	struct pass l = { 0 };

	if (weir_model_open(root, files_path("m.safetensors"), NULL, &l.model) <
		    0 ||
	    weir_plan_new(l.model, &l.plan) < 0 ||
	    weir_plan_add(l.plan, NULL, huge, NULL) < 0 ||
	    weir_plan_digest(l.plan, WEIR_DIGEST_SHA256) < 0 ||
	    weir_load_start(l.plan, NULL, &l.load) < 0 ||
	    weir_load_wait(l.load, -1) < 0 ||
	    weir_load_manifest(l.load, &l.made) < 0 ||
	    weir_manifest_write(l.made, fd) < 0)
		bail("%s", weir_error());
	close(fd);
	pass_free(&l);
}

int main(void)
{
	struct weir_io_info io = { .size = sizeof(io) };
	struct weir_dev *cpu;

	plan(4 * 4);
	files_begin();
	files_st(
		"m.safetensors",
		"{" ENTRY("a", "U8", "[100]", "[0,100]") "," ENTRY(
			"b", "U8", "[50]",
			"[100,150]") "," ENTRY("c", "F32", "[50,100]",
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
	verified = true;
	write_manifest();
	each("m.safetensors", "verified");
	verified = false;
	in_parts = true;
	each("m.safetensors", "parts of tensors");
	weir_buf_free(given);
	weir_close(root);
	return done_testing();
}
