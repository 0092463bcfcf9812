/* SPDX-License-Identifier: MIT */
/* s3:// and gs://: endpoints, credentials, lists of keys. */
#ifndef HTTP_S3_H
#define HTTP_S3_H

#include "http/credentials.h"

int weir__http_s3_begin(struct weir__http_remote *r,
			const struct weir__http_url *u,
			const struct weir__http_auth *refused,
			struct weir__http_start *s,
			char why[static WEIR__HTTP_WHY]);
int weir__http_s3_list(struct weir__http_remote *r,
		       const struct weir__http_url *u,
		       weir_source_found_fn *found, void *arg,
		       char why[static WEIR__HTTP_WHY]);

/*
 * Read one page of ListObjectsV2: call @found for the keys below @prefix.
 * *@ret_next is the token of the next page, in memory of malloc, or NULL.
 */
int weir__http_s3_page(const char *text, const char *prefix,
		       weir_source_found_fn *found, void *arg, char **ret_next,
		       char why[static WEIR__HTTP_WHY]);

/* Replace the entities of XML, in place. */
void weir__http_entities(char *text);

#endif
