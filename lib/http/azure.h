/* SPDX-License-Identifier: MIT */
/* az://: accounts of Azure Blob Storage, signatures, lists of blobs. */
#ifndef HTTP_AZURE_H
#define HTTP_AZURE_H

#include "http/listing.h"

int weir__http_azure_begin(const struct weir__http_url *u,
			   struct weir__http_start *s,
			   char why[static WEIR__HTTP_WHY]);
int weir__http_azure_list(struct weir__http_remote *r,
			  const struct weir__http_url *u,
			  weir_source_found_fn *found, void *arg,
			  char why[static WEIR__HTTP_WHY]);

extern const struct weir__http_listing weir__http_azure_listing;

#endif
