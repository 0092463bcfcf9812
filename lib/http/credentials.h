/* SPDX-License-Identifier: MIT */
/*
 * Credentials of AWS, looked for in the order of AWS's own clients:
 * environment, web identity, profile, container, instance. They are kept until
 * two minutes before they end.
 */
#ifndef HTTP_CREDENTIALS_H
#define HTTP_CREDENTIALS_H

#include "http/remote.h"

struct weir__http_cloud *weir__http_cloud_new(void);
void weir__http_cloud_free(struct weir__http_cloud *cloud);

/*
 * Get credentials for S3 in @region; if it is "", it becomes that of the
 * instance that gives them, else us-east-1. Blocks. @refused: these were
 * refused, or end soon; NULL: any will do.
 * *@ret_auth has no user if there are none; -errno with a sentence: there are
 * some, and they cannot be had.
 */
int weir__http_cloud_auth(struct weir__http_remote *r, char region[static 40],
			  const struct weir__http_auth *refused,
			  struct weir__http_auth **ret_auth,
			  char why[static WEIR__HTTP_WHY]);

/* The region of a bucket, as AWS_REGION and others say; "": none does. */
void weir__http_cloud_region(struct weir__http_remote *r, const char *bucket,
			     char region[static 40]);
/*
 * True if it may be a region: it becomes a part of a host's name, to which
 * signed requests go.
 */
bool weir__http_is_region(const char *text);
/* What follows "amazonaws.com" in names of hosts of @region: "", or ".cn". */
const char *weir__http_cn(const char *region);
/* A server said that the region of @bucket is another one. */
bool weir__http_cloud_learn(struct weir__http_remote *r, const char *bucket,
			    const char *region);

/*
 * The endpoint that variables or the profile name for a service ("s3"), in
 * memory of malloc, or NULL.
 */
char *weir__http_endpoint(const char *service);
/* A value of the profile that is used, in memory of malloc, or NULL. */
char *weir__http_profile_value(const char *key);

/*
 * Credentials of AWS, or, without @user, none, with the authorities that the
 * profile trusts. NULL: no memory.
 */
struct weir__http_auth *weir__http_auth_aws(const char *user, const char *token,
					    const char *region,
					    const char *service);

/*
 * True if @secret has no control characters: it becomes a part of a header,
 * where a line break would begin another one. Takes NULL.
 */
bool weir__http_is_printable(const char *secret);
/* The variable's value; NULL: not set, or empty. */
const char *weir__http_env(const char *name);
/* Read a small file, without white space at its end; NULL: it cannot be. */
char *weir__http_file(const char *path, size_t max);

/* What a provider of credentials gives. Strings are of malloc, or NULL. */
struct weir__http_keys {
	char *id, *secret, *token;
	int64_t until;
	char region[40]; /* of the instance that gave them, or "" */
};
void weir__http_keys_clear(struct weir__http_keys *k);
/* Read {"AccessKeyId": ...}; -EBADMSG with a sentence that begins with @from */
int weir__http_keys_json(struct weir__http_keys *k, const char *text,
			 const char *from, char why[static WEIR__HTTP_WHY]);
/* Check the keys of @from. -EBADMSG with a sentence: they were cleared. */
int weir__http_keys_check(struct weir__http_keys *k, const char *from,
			  char why[static WEIR__HTTP_WHY]);
/* Read the answer of STS. */
int weir__http_keys_xml(struct weir__http_keys *k, const char *text,
			const char *from, char why[static WEIR__HTTP_WHY]);
/* "2026-11-28T15:02:00Z" in seconds; 0: it is no time. */
int64_t weir__http_time(const char *text);

/* The text between <@name> and </@name>, in memory of malloc, or NULL. */
char *weir__http_xml(const char *text, const char *name);

/*
 * Credentials of web identity and of roles, of containers, and of instances:
 * 1 if @k is filled in, 0 if this machine has none of the kind, or -errno.
 */
struct weir__http_role {
	const char *arn, *session, *token_file; /* of web identity */
	const char *external, *seconds;         /* of AssumeRole, or NULL */
	const char *region;
	struct weir__http_auth *by; /* AssumeRole instead, signed by it */
};
int weir__http_sts(struct weir__http_remote *r,
		   const struct weir__http_role *role,
		   struct weir__http_keys *k, char why[static WEIR__HTTP_WHY]);
int weir__http_container(struct weir__http_remote *r, struct weir__http_keys *k,
			 char why[static WEIR__HTTP_WHY]);
int weir__http_instance(struct weir__http_remote *r, struct weir__http_keys *k,
			char why[static WEIR__HTTP_WHY]);

/*
 * A small request to @url, a service of credentials. The caller has filled in
 * the other members of call->f.q, and clears @call and @body in each case. 0,
 * or -errno with a sentence.
 */
int weir__http_ask(struct weir__http_remote *r, const char *url,
		   struct weir__http_call *call, struct weir__http_body *body,
		   char why[static WEIR__HTTP_WHY]);

#endif
