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

#endif
