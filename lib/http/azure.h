/* SPDX-License-Identifier: MIT */
/* az://: accounts of Azure Blob Storage, signatures, lists of blobs. */
#ifndef HTTP_AZURE_H
#define HTTP_AZURE_H

#include "http/remote.h"

int weir__http_azure_begin(const struct weir__http_url *u,
			   struct weir__http_start *s,
			   char why[static WEIR__HTTP_WHY]);
int weir__http_azure_list(struct weir__http_remote *r,
			  const struct weir__http_url *u,
			  weir_source_found_fn *found, void *arg,
			  char why[static WEIR__HTTP_WHY]);

/*
 * Read one page of List Blobs: call @found for the blobs below @prefix.
 * *@ret_next is the marker of the next page, in memory of malloc, or NULL.
 */
int weir__http_azure_page(const char *text, const char *prefix,
			  weir_source_found_fn *found, void *arg,
			  char **ret_next, char why[static WEIR__HTTP_WHY]);

#endif
