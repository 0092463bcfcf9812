/* SPDX-License-Identifier: MIT */
/* Signatures of requests for Azure Blob Storage by the key of an account. */
#ifndef HTTP_AZURE_SIGN_H
#define HTTP_AZURE_SIGN_H

#include <time.h>

#include "http/uri.h"

/* The version of the service that requests name, all of them. */
#define WEIR__HTTP_AZURE_VERSION "2021-12-02"

/* Write the time as in "Fri, 26 Jun 2015 23:39:12 GMT". */
void weir__http_azure_date(time_t now, char date[static 40]);

/* A GET, as a signature covers it; headers that are not sent are "". */
struct weir__http_azure_get {
	/* As it is sent; names in its query are in order and in lower case. */
	const char *url;
	const char *date;  /* x-ms-date */
	const char *range; /* as in "bytes=0-9" */
	const char *match, *unmodified;
};

/* The text that is signed, in memory of malloc; NULL: no memory. */
char *weir__http_azure_text(const char *account,
			    const struct weir__http_azure_get *get);
/*
 * The value of Authorization, in memory of malloc: @key is in Base64. NULL: no
 * memory, or it is not.
 */
char *weir__http_azure_sign(const char *account, const char *key,
			    const struct weir__http_azure_get *get);

#endif
