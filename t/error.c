/* SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <string.h>

#include "core/error.h"
#include "tap.h"

static void *other_thread(void *arg)
{
	(void)arg;
	weir__enter("weir_other");
	weir__fail(-EIO, "elsewhere");
	return NULL;
}

static void sentences(void)
{
	char longer[4096];
	pthread_t thread;

	is_str(weir_error(), "",
	       "there is no sentence before the first failure");
	weir__enter("weir_buf_alloc");
	is_err(weir__fail(-EINVAL, "size %d", 7), -EINVAL,
	       "weir_buf_alloc: size 7", "a sentence begins with the call");
	weir__fail(-EINVAL, "a\nb\033[31m");
	is_str(weir_error(), "weir_buf_alloc: a?b?[31m",
	       "control characters do not reach the terminal");
	is_err(weir__fail_sys(-ENOENT, "x"), -ENOENT,
	       "x: No such file or directory", "an errno is put into words");
	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	weir__fail(-EINVAL, "%s", longer);
	is_int(strlen(weir_error()), WEIR__ERROR_MAX - 1,
	       "a sentence that is too long is cut");
	weir__fail(-EINVAL, "mine");
	pthread_create(&thread, NULL, other_thread, NULL);
	pthread_join(thread, NULL);
	is_str(weir_error(), "weir_buf_alloc: mine",
	       "another thread's failure does not touch ours");
}

/* Half of a sentence at most: a call that was given a path has it in its name. */
static void long_calls(void)
{
	char call[4096];

	memset(call, 'c', sizeof(call) - 1);
	call[sizeof(call) - 1] = '\0';
	weir__enter(call);
	weir__fail(-EINVAL, "the reason");
	has_str(weir_error(), "ccc: the reason",
		"a call's name of any length leaves room for the reason");
	weir__fail_sys(-ENOENT, "%s", call);
	is_int(strlen(weir_error()), WEIR__ERROR_MAX - 1,
	       "... and a sentence with such a name is cut");
	weir__enter(NULL);
}

static void appending(void)
{
	char text[8] = "";

	weir__append(text, sizeof(text), "%s", "abc");
	weir__append(text, sizeof(text), "%s", "defgh");
	is_str(text, "abcdefg", "what is appended is cut at the buffer's end");
	weir__append(text, sizeof(text), "%s", "more");
	is_str(text, "abcdefg", "... and nothing follows it");
}

static void options(void)
{
	struct {
		size_t size;
		int a, b, c, hole; /* padding has no value */
	} big = { sizeof(big), 1, 2, 0, 0 };
	struct {
		size_t size;
		int a, b;
	} known;

	is_int(weir__opts_in(&known, sizeof(known), NULL), 0,
	       "no options give defaults");
	is_int(known.a | known.b, 0, "... which are zeroes");
	is_int(weir__opts_in(&known, sizeof(known), &big), 0,
	       "options of a newer program pass while what is new is 0");
	is_int(known.b, 2, "... and what is known is copied");
	memset(&big, 0xff, sizeof(big));
	big.size = 64;
	is_err(weir__opts_in(&known, sizeof(known), &big), -E2BIG, "64 bytes",
	       "options that the library does not know are refused");
	big.size = 0;
	is_err(weir__opts_in(&known, sizeof(known), &big), -EINVAL, ".size",
	       "options without a size are refused");
}

static void failures(void)
{
	struct weir_failure f;

	weir__failure_set(&f, -ETIMEDOUT, 0, 7, "a disk is slow");
	ok(f.err == -EIO && f.native == ETIMEDOUT,
	   "a failure of -ETIMEDOUT is kept as -EIO and its native code");
	weir__failure_set(&f, -ETIMEDOUT, 702, 7, "a kernel is slow");
	ok(f.err == -EIO && f.native == 702,
	   "... unless the device has a code of its own");
	weir__failure_set(&f, -ENODEV, 0, 7, "it is gone");
	ok(f.err == -ENODEV && f.native == 0, "another errno stays as it is");
}

int main(void)
{
	char bytes[200];

	plan(22);
	sentences();
	long_calls();
	appending();
	options();
	failures();
	memset(bytes, 'n', sizeof(bytes));
	ok(strlen(weir__quote(bytes, sizeof(bytes))) < 96,
	   "a name of any length is shortened");
	is_str(weir__quote("a\0b\\", 4), "a\\x00b\\x5c",
	       "a name with control characters is escaped");
	bytes[0] = 'k';
	ok(!strncmp(weir__quote(bytes, 3), "knn", 4),
	   "a plain name is left as it is");
	return done_testing();
}
