/* SPDX-License-Identifier: MIT */
/* WEIR_DEBUG: words that change how a root works for one run. */
#include <stdlib.h>
#include <string.h>

#include <weir.h>

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

	ok(!weir__debug_has(root, "io=sync"),
	   "without WEIR_DEBUG no word is set");
	weir_close(root);
	root = open_with("io=synchro,io=sync, log,", WEIR_IO_AUTO);
	ok(weir__debug_has(root, "io=sync") && weir__debug_has(root, "log"),
	   "words of WEIR_DEBUG are separated by commas");
	ok(!weir__debug_has(root, "io=sy") && !weir__debug_has(root, "io"),
	   "words of WEIR_DEBUG match as a whole");
	is_str(lines, "WEIR_DEBUG: 'io=synchro' is not known",
	       "an unknown word of WEIR_DEBUG is logged");
	setenv("WEIR_DEBUG", "1", 1);
	ok(weir__debug_has(root, "io=sync"),
	   "WEIR_DEBUG is read when the root is opened");
	weir_close(root);
}

static void method(void)
{
	struct weir_io_info info = { .size = sizeof(info) };
	struct weir *root = open_with("io=sync", WEIR_IO_URING);

	is_int(weir_io_info(root, &info), 0,
	       "io=sync: a root that asks for the ring can be opened");
	is_int(info.method, WEIR_IO_SYNC, "io=sync: the method is threads");
	has_str(info.why, "WEIR_DEBUG", "io=sync: the reason names WEIR_DEBUG");
	weir_close(root);
	root = open_with("io=uring", WEIR_IO_SYNC);
	if (weir_io_info(root, &info) < 0)
		has_str(weir_error(), "io_uring was asked for",
			"io=uring: a root that asks for threads uses the ring or fails");
	else
		is_int(info.method, WEIR_IO_URING,
		       "io=uring: a root that asks for threads uses the ring or fails");
	weir_close(root);
}

int main(void)
{
	plan(9);
	words();
	method();
	return done_testing();
}
