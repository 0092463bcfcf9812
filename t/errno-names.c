/* SPDX-License-Identifier: MIT */
/* The stand-ins for what a C library may lack, compiled wherever we are. */
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
	is_int(wrong, 0, "each errno has the name that glibc gives it");
#else
	skip(1, "there is no glibc to compare with");
#endif
}

int main(void)
{
	char text[8];

	plan(6);
	is_str(our_name(ENOMEM), "ENOMEM", "an errno has its name");
	all_names();
	has_str(our_name(-1), "unknown", "... one below all has none");
	has_str(our_name(100000), "unknown", "... nor one above all");
	is_str(our_desc(ENOENT), strerror(ENOENT),
	       "the description is that of strerror");
	is_str(weir__strerror_r(ENOENT, text, sizeof(text)), "No such",
	       "... and is cut to the room that there is");
	return done_testing();
}
