/* SPDX-License-Identifier: MIT */
/* Our own strerrorname_np and others, compiled on every C library. */
#include <errno.h>
#include <string.h>

#include "tap.h"

#ifdef __GLIBC__
static const char *theirs(int err)
{
	return strerrorname_np(err);
}
#endif

#undef HAVE_STRERRORNAME_NP
#undef HAVE_STRERRORDESC_NP
#undef STRERROR_R_CHAR_P
#define strerrorname_np our_name
#define strerrordesc_np our_desc
const char *our_name(int err);
const char *our_desc(int err);
char *weir__strerror_r(int err, char *buf, size_t n);
#include "core/compat.c"

static void all_names(void)
{
#ifdef __GLIBC__
	int wrong = 0;

	for (int err = 1; err < 200; err++) {
		const char *want = theirs(err);

		wrong += want && strcmp(our_name(err), want) != 0;
		wrong += !want && !strstr(our_name(err), "unknown");
	}
	is_int(wrong, 0, "the name of each errno is glibc's");
#else
	skip(1, "there is no glibc to compare with");
#endif
}

int main(void)
{
	char text[8];

	plan(6);
	is_str(our_name(ENOMEM), "ENOMEM",
	       "our_name returns the name of an errno");
	all_names();
	has_str(our_name(-1), "unknown", "a negative errno is unknown");
	has_str(our_name(100000), "unknown",
		"an errno above all in the table is unknown");
	is_str(our_desc(ENOENT), strerror(ENOENT),
	       "the description of an errno is strerror's");
	is_str(weir__strerror_r(ENOENT, text, sizeof(text)), "No such",
	       "weir__strerror_r cuts the description to its buffer");
	return done_testing();
}
