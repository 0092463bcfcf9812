/* SPDX-License-Identifier: MIT */
/* Modules of sources: loaded when their scheme is used first, or left out. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weir.h>

#include "files.h"
#include "tap.h"

static char logged[4096];

static void note(void *arg, const char *text)
{
	(void)arg;
	strncat(logged, text, sizeof(logged) - strlen(logged) - 1);
}

static struct weir *root(void)
{
	struct weir_opts o = WEIR_OPTS_INIT;
	struct weir *weir;

	*logged = '\0';
	o.module_path = files_path("");
	o.log = note;
	if (weir_open(&o, &weir) < 0)
		bail("%s", weir_error());
	return weir;
}

/* A copy of the module beside the tests, as @name. */
static void copy(const char *name)
{
	static char bytes[1 << 20];
	const char *build = getenv("builddir");
	char path[4096];
	FILE *f;
	size_t n;

	snprintf(path, sizeof(path), "%s/t/modules/.libs/weir-source-x.so",
		 build ? build : ".");
	f = fopen(path, "rb");
	if (!f)
		bail("the module of the test is not there");
	n = fread(bytes, 1, sizeof(bytes), f);
	fclose(f);
	files_bytes(name, bytes, n);
}

static void loaded(void)
{
	struct weir_source_desc d = { .size = sizeof(d) };
	struct weir *weir = root();
	struct weir_file_info info = { .size = sizeof(info) };
	struct weir_file *f;
	uint8_t digest[32];
	unsigned devs = weir_dev_count(weir);
	const char *path, *why;

	ok(devs >= 1 && !strstr(logged, "weir-source"),
	   "the search for devices leaves modules of sources alone");
	is_err(weir_module_refused(weir, 0, &path, &why), -ENOENT, "",
	       "and does not refuse them");
	is_int(weir_file_open(weir, "x://a/100000", NULL, &f), 0,
	       "a URL loads the module for its scheme");
	has_str(logged, "the source test of library", "which gets the log");
	is_int(weir_file_info(f, &info), 0, "its object is a file");
	is_int(info.bytes, 100000, "with its size");
	is_str(info.path, "x://a/100000", "and its URL");
	is_int(weir_file_digest(f, WEIR_DIGEST_XXH3, digest), 16,
	       "and is read");
	weir_file_close(f);
	is_err(weir_file_open(weir, "X://a/b", NULL, &f), -ENOENT,
	       "it is no number", "schemes may have upper case");
	is_int(weir_source_describe(weir, 0, &d), 0, "the source is described");
	is_str(d.schemes, "x http ", "with its schemes");
	has_str(d.module, "/weir-source-x.so", "and its module");
	is_err(weir_source_configure(weir, "x", "a=b"), -EINVAL,
	       "it has no parameters", "a source without parameters");
	weir_close(weir);
}

static void left_out(const char *mistake, int err, const char *part)
{
	struct weir_source_desc d = { .size = sizeof(d) };
	struct weir *weir;
	struct weir_file *f;

	setenv("WEIR_T_SOURCE", mistake, 1);
	weir = root();
	is_err(weir_file_open(weir, "x://a/1", NULL, &f), err, part,
	       "%s: the module is left out, and the error says why", mistake);
	is_err(weir_file_open(weir, "x://a/1", NULL, &f), err, part,
	       "%s: so does the next one", mistake);
	is_int(weir_source_describe(weir, 0, &d), 0, "%s: it is listed",
	       mistake);
	has_str(d.why, strrchr(part, ':') ? strrchr(part, ':') + 2 : part,
		"%s: with the reason", mistake);
	weir_close(weir);
	unsetenv("WEIR_T_SOURCE");
}

static void others_may_write(void)
{
	struct weir_opts o = WEIR_OPTS_INIT;
	struct weir_file *f;
	struct weir *weir;

	chmod(files_path("weir-source-x.so"), 0666);
	o.module_path = files_path("");
	o.flags = WEIR_OPEN_STRICT_MODULES;
	if (weir_open(&o, &weir) < 0)
		bail("%s", weir_error());
	is_err(weir_file_open(weir, "x://a/1", NULL, &f), -ENOENT,
	       "refused: it can be written by everybody",
	       "a strict root refuses a module that others may write");
	weir_close(weir);
}

/* As where a wheel has its command: at the name of a directory of modules. */
static void no_directory(void)
{
	struct weir_opts o = WEIR_OPTS_INIT;
	struct weir_file *f;
	struct weir *weir;

	files_text("file", "no directory");
	o.module_path = files_path("file");
	if (weir_open(&o, &weir) < 0)
		bail("%s", weir_error());
	is_err(weir_file_open(weir, "x://a/1", NULL, &f), -ENOENT,
	       "no directory of modules has weir-source-x.so",
	       "a file where a directory of modules would be has no module");
	weir_close(weir);
}

int main(void)
{
	plan(0);
	files_begin();
	copy("weir-source-x.so");
	chmod(files_path("weir-source-x.so"), 0644);
	loaded();
	left_out("refuse", -ENOENT, "there is no network");
	left_out("abi", -ENOENT, "ABI 77");
	unsetenv("WEIR_T_STOPPED");
	left_out("scheme", -ENOENT, "'no scheme' is no scheme");
	ok(getenv("WEIR_T_STOPPED"),
	   "a module whose table is refused is stopped");
	files_truncate("weir-source-x.so", 4000);
	left_out("none", -ENOENT, "cut short");
	copy("weir-source-x.so");
	others_may_write();
	no_directory();
	return done_testing();
}
