/* SPDX-License-Identifier: MIT */
/* WEIR_DEBUG: words that change how a root works for one run. */
#include <stdlib.h>
#include <string.h>

#include <weir.h>

#include "core/debug.h"
#include "core/root.h"
#include "tap.h"

static char lines[2000];

static void keep(void *arg, const char *text)
{
	(void)arg;
	strncat(lines, text, sizeof(lines) - strlen(lines) - 1);
}

static struct weir *open_with(const char *words, uint32_t io)
{
	struct weir_opts o = WEIR_OPTS_INIT;
	struct weir *root;

	*lines = '\0';
	o.io = io;
	o.log = keep;
	if (words)
		setenv("WEIR_DEBUG", words, 1);
	else
		unsetenv("WEIR_DEBUG");
	if (weir_open(&o, &root) < 0)
		bail("%s", weir_error());
	return root;
}

static void words(void)
{
	struct weir *root = open_with(NULL, WEIR_IO_AUTO);

	ok(!weir__debug_has(root, "io=sync"), "without the variable no word");
	weir_close(root);
	root = open_with("io=synchro,io=sync, log,", WEIR_IO_AUTO);
	ok(weir__debug_has(root, "io=sync") && weir__debug_has(root, "log"),
	   "words are separated by commas");
	ok(!weir__debug_has(root, "io=sy") && !weir__debug_has(root, "io"),
	   "... and taken whole");
	is_str(lines, "WEIR_DEBUG: 'io=synchro' is not known",
	       "... those that are not known go to the log");
	setenv("WEIR_DEBUG", "1", 1);
	ok(weir__debug_has(root, "io=sync"),
	   "the variable is read when the root is opened");
	weir_close(root);
}

static void method(void)
{
	struct weir_io_info info = { .size = sizeof(info) };
	struct weir *root = open_with("io=sync", WEIR_IO_URING);

	is_int(weir_io_info(root, &info), 0,
	       "io=sync: a root that wants the ring gets threads");
	is_int(info.method, WEIR_IO_SYNC, "... and no ring");
	has_str(info.why, "WEIR_DEBUG", "... and the reason is said");
	weir_close(root);
	root = open_with("io=uring", WEIR_IO_SYNC);
	if (weir_io_info(root, &info) < 0)
		has_str(weir_error(), "io_uring was asked for",
			"io=uring: the ring or an error");
	else
		is_int(info.method, WEIR_IO_URING,
		       "io=uring: the ring or an error");
	weir_close(root);
}

int main(void)
{
	plan(9);
	words();
	method();
	return done_testing();
}
