/* SPDX-License-Identifier: MIT */
/* The module as the library loads it: URLs as files. */
#include <weir.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serving.h"
#include "tap.h"

#define SIZE 9000000

/* The digest of an object, and of a file with the same bytes. */
static void test_file(struct weir *weir)
{
	static unsigned char buf[SIZE];
	uint8_t far[32] = { 1 }, near[32] = { 2 };
	struct weir_file *file;
	char path[300];
	FILE *f;

	for (size_t i = 0; i < SIZE; i++)
		buf[i] = (unsigned char)(i / 8 >> i % 8 * 8);
	snprintf(path, sizeof(path), "%s/object", serving_dir);
	f = fopen(path, "w");
	if (!f || fwrite(buf, SIZE, 1, f) != 1 || fclose(f))
		bail("%s cannot be written", path);
	if (weir_file_open(weir, serving_url("/plain/%d?sig=secret", SIZE),
			   NULL, &file))
		bail("the module opens no URL: %s", weir_error());
	is_int(weir_file_digest(file, WEIR_DIGEST_XXH3, far), 16,
	       "it reads all of the object");
	weir_file_close(file);
	if (weir_file_open(weir, path, NULL, &file))
		bail("%s", weir_error());
	weir_file_digest(file, WEIR_DIGEST_XXH3, near);
	weir_file_close(file);
	is_mem(far, near, 16, "its bytes are those of the file");
}

/* A model of one tensor, its header and its bytes in two requests. */
static void test_model(struct weir *weir)
{
	struct weir_model *model;
	const char *log;

	serving_log();
	if (weir_model_open(weir, serving_url("/model/%d/m.safetensors", SIZE),
			    NULL, &model))
		bail("a model does not open by its URL: %s", weir_error());
	log = serving_log();
	is_int(serving_count(log, "GET /model"), 1, "with one request");
	is_int(weir_model_count(model), 1, "it has its tensor");
	weir_model_close(model);
}

int main(void)
{
	const char *build = getenv("builddir");
	char path[1024];
	struct weir_file *file;
	struct weir_opts opts = WEIR_OPTS_INIT;
	struct weir *weir;

	plan(0);
	if (!serving_start(false, ""))
		skip_all("python3 cannot run the server");
	snprintf(path, sizeof(path), "%s/lib/http/.libs", build ? build : ".");
	opts.module_path = path;
	if (weir_open(&opts, &weir) < 0)
		bail("%s", weir_error());
	test_file(weir);
	test_model(weir);
	is_err(weir_file_open(weir, serving_url("/status/404?sig=secret"), NULL,
			      &file),
	       -ENOENT, "404 Not Found", "an object that is not there");
	ok(!strstr(weir_error(), "secret"), "the sentence has no query");
	is_int(serving_count(weir_error(), "http://"), 1,
	       "and the URL once: %s", weir_error());
	is_err(weir_file_open(weir, "oss://bucket/object", NULL, &file),
	       -ENOENT, "weir-source-oss.so",
	       "oss:// is no scheme of the module");
	is_int(weir_source_configure(weir, "https", "connections=4"), 0,
	       "the module has parameters");
	is_err(weir_source_configure(weir, "https", "speed=9"), -EINVAL,
	       "'speed=9' is unknown", "an unknown one is refused");
	weir_close(weir);
	serving_stop();
	return done_testing();
}
