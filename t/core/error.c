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

	is_str(weir_error(), "",
	       "weir_error() is empty before the first failure");
	weir__enter("weir_buf_alloc");
	is_err(weir__fail(-EINVAL, "size %d", 7), -EINVAL,
	       "weir_buf_alloc: size 7",
	       "a sentence begins with the name of the public call");
	weir__fail(-EINVAL, "a\nb\033[31m");
	is_str(weir_error(), "weir_buf_alloc: a?b?[31m",
	       "control characters in a sentence become question marks");
	is_err(weir__fail_sys(-ENOENT, "x"), -ENOENT,
	       "x: No such file or directory",
	       "weir__fail_sys appends the text of the errno");
	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	weir__fail(-EINVAL, "%s", longer);
	is_int(strlen(weir_error()), WEIR__ERROR_MAX - 1,
	       "a sentence is cut at WEIR__ERROR_MAX - 1 bytes");
}

static void threads(void)
{
	pthread_t thread;

	weir__enter("weir_buf_alloc");
	weir__fail(-EINVAL, "mine");
	pthread_create(&thread, NULL, other_thread, NULL);
	pthread_join(thread, NULL);
	is_str(weir_error(), "weir_buf_alloc: mine",
	       "a failure in another thread leaves this thread's sentence alone");
}

/* The name of a call may include a path, which may be long. */
static void long_calls(void)
{
	char call[4096];

	memset(call, 'c', sizeof(call) - 1);
	call[sizeof(call) - 1] = '\0';
	weir__enter(call);
	weir__fail(-EINVAL, "the reason");
	has_str(weir_error(), "ccc: the reason",
		"a call's name is shortened so that the reason fits");
	weir__fail_sys(-ENOENT, "%s", call);
	is_int(strlen(weir_error()), WEIR__ERROR_MAX - 1,
	       "a sentence of a long name and a long text is cut");
	weir__enter(NULL);
}

static void appending(void)
{
	char text[8] = "";

	weir__append(text, sizeof(text), "%s", "abc");
	weir__append(text, sizeof(text), "%s", "defgh");
	is_str(text, "abcdefg",
	       "weir__append cuts its text at the end of the buffer");
	weir__append(text, sizeof(text), "%s", "more");
	is_str(text, "abcdefg", "weir__append adds nothing to a full buffer");
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
	       "NULL for options is accepted");
	is_int(known.a | known.b, 0, "NULL for options means all zeroes");
	is_int(weir__opts_in(&known, sizeof(known), &big), 0,
	       "options of a newer program are accepted if the new members are 0");
	is_int(known.b, 2,
	       "the known members of a newer program's options are copied");
	memset(&big, 0xff, sizeof(big));
	big.size = 64;
	is_err(weir__opts_in(&known, sizeof(known), &big), -E2BIG, "64 bytes",
	       "options with unknown members that are not 0 are refused");
	big.size = 0;
	is_err(weir__opts_in(&known, sizeof(known), &big), -EINVAL, ".size",
	       "options without a size are refused");
}

static void failures(void)
{
	struct weir_failure f;

	weir__failure_set(&f, -ETIMEDOUT, 0, 7, "a disk is slow");
	ok(f.err == -EIO && f.native == ETIMEDOUT,
	   "a failure of -ETIMEDOUT is stored as -EIO with native code ETIMEDOUT");
	weir__failure_set(&f, -ETIMEDOUT, 702, 7, "a kernel is slow");
	ok(f.err == -EIO && f.native == 702,
	   "a failure of -ETIMEDOUT with a device's own code keeps that code");
	weir__failure_set(&f, -ENODEV, 0, 7, "it is gone");
	ok(f.err == -ENODEV && f.native == 0,
	   "a failure of another errno is stored unchanged");
}

static void quotes(void)
{
	char bytes[200];

	memset(bytes, 'n', sizeof(bytes));
	ok(strlen(weir__quote(bytes, sizeof(bytes))) < 96,
	   "weir__quote shortens a long name");
	is_str(weir__quote("a\0b\\", 4), "a\\x00b\\x5c",
	       "weir__quote escapes control characters");
	bytes[0] = 'k';
	ok(!strncmp(weir__quote(bytes, 3), "knn", 4),
	   "weir__quote leaves a plain name as it is");
}

int main(void)
{
	plan(22);
	sentences();
	threads();
	long_calls();
	appending();
	options();
	failures();
	quotes();
	return done_testing();
}
