/* SPDX-License-Identifier: MIT */
/* AWS's files: credentials and config, and programs that they name. */
#ifndef HTTP_PROFILE_H
#define HTTP_PROFILE_H

#include "http/uri.h"

struct weir__http_client;

/* The text of both files, read once. */
struct weir__http_profiles {
	char *credentials, *config; /* NULL: there is none */
};
void weir__http_profiles_read(struct weir__http_profiles *p);
void weir__http_profiles_clear(struct weir__http_profiles *p);

/* The name in AWS_PROFILE, or AWS_DEFAULT_PROFILE, or "default". */
const char *weir__http_profile_name(void);
/*
 * The value of @key in profile @name, in memory of malloc; NULL: none. The file
 * of credentials goes before the other.
 */
char *weir__http_profile_get(const struct weir__http_profiles *p,
			     const char *name, const char *key);
/* The same of a key nested in "s3 =" of the profile that is used. */
char *weir__http_profile_s3(const struct weir__http_profiles *p,
			    const char *key);
/*
 * The same of section [@kind @name] of the config, such as [sso-session x];
 * nested in "@outer =", or, if that is NULL, directly in the section.
 */
char *weir__http_profile_section(const struct weir__http_profiles *p,
				 const char *kind, const char *name,
				 const char *outer, const char *key);
/* The same for a service, in the section that the profile calls services. */
char *weir__http_profile_service(const struct weir__http_profiles *p,
				 const char *service, const char *key);
/* True if a file has the profile. */
bool weir__http_profile_is(const struct weir__http_profiles *p,
			   const char *name);
/*
 * A value of the file with the text @text, in the section with this header:
 * nested in "@outer =", or, if that is NULL, directly in it. Takes NULL.
 */
char *weir__http_ini_get(const char *text, const char *section,
			 const char *outer, const char *key);

/*
 * Run @command by the shell, and return what it writes to its output in memory
 * of malloc. -errno with a sentence, which does not have the output. Blocks up
 * to 60 s; a command that still runs then, or when @c is left, is killed.
 */
int weir__http_command(struct weir__http_client *c, const char *command,
		       char **ret_text, char why[static WEIR__HTTP_WHY]);

#endif
