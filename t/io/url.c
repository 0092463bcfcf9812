/* SPDX-License-Identifier: MIT */
/* URLs of files beside others and in folders, and what sentences show. */
#include <stdlib.h>

#include "io/source.h"
#include "tap.h"

static void beside(const char *url, const char *name, const char *want)
{
	char *got = weir__url_beside(url, name);

	is_str(got, want, "'%s' beside %s", name, url);
	free(got);
}

static void inside(const char *url, const char *name, const char *want)
{
	char *got = weir__url_inside(url, name);

	is_str(got, want, "'%s' in %s", name, url);
	free(got);
}

int main(void)
{
	char text[512];

	beside("https://h/a/b?k=1", "x y%1.bin",
	       "https://h/a/x%20y%251.bin?k=1");
	beside("HTTP://h/a", "\xc3\xa9", "HTTP://h/%C3%A9");
	beside("s3://bucket/a/b", "x y%1.bin", "s3://bucket/a/x y%1.bin");
	beside("hf://o/n@main/b", "\xc3\xa9", "hf://o/n@main/\xc3\xa9");
	beside("s3://bucket/a", "x?#", "s3://bucket/x%3F%23");
	inside("https://h/a?k=1", "c d", "https://h/a/c%20d?k=1");
	inside("s3://bucket/a/", "c d", "s3://bucket/a/c d");
	is_str(weir__url_shown("https://user:pw@h/a?sig=1", text, sizeof(text)),
	       "https://h/a", "neither a password nor a query is shown");
	return done_testing();
}
