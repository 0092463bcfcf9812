/* SPDX-License-Identifier: MIT */
/*
 * Where credentials of AWS come from: the environment, a profile with its
 * roles, a session of IAM Identity Center. Each function fills in @k and
 * returns 1; 0: there are none of the kind; or -errno with a sentence. They may
 * block.
 */
#ifndef HTTP_ROLES_H
#define HTTP_ROLES_H

#include "http/credentials.h"
#include "http/profile.h"

int weir__http_by_environment(struct weir__http_keys *k,
			      char why[static WEIR__HTTP_WHY]);
int weir__http_by_profile(struct weir__http_remote *r, const char *region,
			  struct weir__http_keys *k,
			  char why[static WEIR__HTTP_WHY]);
/* By the session of `aws sso login`, if the profile @name has one. */
int weir__http_sso(struct weir__http_remote *r,
		   const struct weir__http_profiles *p, const char *name,
		   struct weir__http_keys *k, char why[static WEIR__HTTP_WHY]);

/* The SHA-1 of @text in hexadecimal digits. */
void weir__http_sha1(const char *text, char hex[static 41]);
/* -EINVAL: "the profile '@name' of AWS @what". */
int weir__http_profile_fail(char why[static WEIR__HTTP_WHY], const char *name,
			    const char *what);

#endif
