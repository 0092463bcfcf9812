/* SPDX-License-Identifier: MIT */
/*
 * The module of a source for the scheme of its file's name: a copy of it as
 * weir-source-NAME.so is asked for NAME. Its objects have as many bytes 'x' as
 * the number in the URL says. An environment variable makes it fail.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/source.h>

static int test_open(void *self, const char *url, void **ret_object,
		     struct weir_source_info *ret_info,
		     char why[WEIR_SOURCE_WHY])
{
	const char *number = strrchr(url, '/') + 1;

	if (*number < '0' || *number > '9') {
		snprintf(why, WEIR_SOURCE_WHY, "it is no number");
		return -ENOENT;
	}
	ret_info->bytes = strtoull(number, NULL, 10);
	*ret_object = self;
	return 0;
}

static void test_close(void *object)
{
	(void)object;
}

static void test_read(void *object, struct weir_source_read *read)
{
	(void)object;
	memset(read->buf, 'x', read->len);
	read->done(read, 0, NULL);
}

static void test_stop(void *self)
{
	setenv("WEIR_T_STOPPED", "1", 1);
	free(self);
}

__attribute__((visibility("default"))) int
weir_source_entry(struct weir *weir, const struct weir_source_host *host,
		  const struct weir_source **ret_source, void **ret_self,
		  char why[WEIR_SOURCE_WHY]);

int weir_source_entry(struct weir *weir, const struct weir_source_host *host,
		      const struct weir_source **ret_source, void **ret_self,
		      char why[WEIR_SOURCE_WHY])
{
	static const char *const schemes[] = { "x", "http", NULL };
	static const char *const bad_schemes[] = { "x", "no scheme", NULL };
	static struct weir_source source = {
		.size = sizeof(source),
		.abi = WEIR_SOURCE_ABI,
		.name = "test",
		.open = test_open,
		.close = test_close,
		.read = test_read,
		.stop = test_stop,
	};
	const char *mistake = getenv("WEIR_T_SOURCE");

	if (mistake && !strcmp(mistake, "refuse")) {
		snprintf(why, WEIR_SOURCE_WHY, "there is no network");
		return -ENODEV;
	}
	source.abi = WEIR_SOURCE_ABI;
	if (mistake && !strcmp(mistake, "abi")) {
		source.abi = 77; /* refused: nothing frees what it makes */
		*ret_source = &source;
		return 0;
	}
	source.schemes = mistake && !strcmp(mistake, "scheme") ? bad_schemes
							       : schemes;
	host->log(weir, "the source %s of library %s", source.name,
		  host->version);
	*ret_self = malloc(1);
	*ret_source = &source;
	return 0;
}
