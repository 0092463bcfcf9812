/* SPDX-License-Identifier: MIT */
#include "core/debug.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/root.h"
#include "core/sys.h"

/* "1" and "log" only turn the log on, as any word does. */
static const char *const known[] = { "1",        "log",      "io=sync",
				     "io=uring", "batch=no", "races" };
#define N_KNOWN (sizeof(known) / sizeof(known[0]))

static const char *variable(void)
{
	const char *text = secure_getenv("WEIR_DEBUG");

	return text && *text ? text : NULL;
}

static bool is_word(const char *at, size_t n, const char *word)
{
	return strlen(word) == n && !memcmp(at, word, n);
}

/* Move *at to the next word, and return its length; 0 at the end. */
static size_t next_word(const char **at)
{
	*at += strspn(*at, ", ");
	return strcspn(*at, ", ");
}

static bool is_known(const char *at, size_t n)
{
	for (size_t i = 0; i < N_KNOWN; i++)
		if (is_word(at, n, known[i]))
			return true;
	return false;
}

static void report_unknown(struct weir *weir)
{
	const char *at = weir->debug;
	size_t n;

	for (; (n = next_word(&at)); at += n)
		if (!is_known(at, n))
			weir__log(weir, "WEIR_DEBUG: '%.*s' is not known",
				  n < 100 ? (int)n : 100, at);
}

bool weir__debug_on(void)
{
	return variable() != NULL;
}

int weir__debug_read(struct weir *weir)
{
	const char *text = variable();

	if (!text)
		return 0;
	weir->debug = weir__strdup(text);
	if (!weir->debug)
		return weir__fail(-ENOMEM, "no memory for WEIR_DEBUG");
	report_unknown(weir);
	return 0;
}

bool weir__debug_find(const struct weir *weir, const char *word)
{
	const char *at = weir->debug;
	size_t n;

	for (; at && (n = next_word(&at)); at += n)
		if (is_word(at, n, word))
			return true;
	return false;
}
