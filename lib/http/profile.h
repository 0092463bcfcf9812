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

/* The name in AWS_PROFILE, or "default". */
const char *weir__http_profile_name(void);
/*
 * The value of @key in profile @name, in memory of malloc; NULL: none. The file
 * of credentials goes before the other.
 */
char *weir__http_profile_get(const struct weir__http_profiles *p,
			     const char *name, const char *key);
/* A value of the file with the text @text, in a section with this header. */
char *weir__http_ini_get(const char *text, const char *section,
			 const char *key);

/*
 * Run @command by the shell, and return what it writes to its output in memory
 * of malloc. -errno with a sentence, which does not have the output. Blocks up
 * to 60 s; a command that still runs then, or when @c is left, is killed.
 */
int weir__http_command(struct weir__http_client *c, const char *command,
		       char **ret_text, char why[static WEIR__HTTP_WHY]);

#endif
