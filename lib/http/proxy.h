/* SPDX-License-Identifier: MIT */
/* Proxies that the environment names, by the rules of libcurl. */
#ifndef HTTP_PROXY_H
#define HTTP_PROXY_H

#include "http/uri.h"

/* True if a connection to @u is made by a proxy, which then finds the host. */
bool weir__http_has_proxy(const struct weir__http_url *u);
/* The same for a URL as it is sent. */
bool weir__http_goes_by_proxy(const char *url);

/*
 * The errno and the sentence if a proxy answers @status to a request for a
 * connection of TLS.
 */
int weir__http_proxy_fail(const char *shown, long status,
			  char why[static WEIR__HTTP_WHY]);

#endif
