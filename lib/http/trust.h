/* SPDX-License-Identifier: MIT */
/* The authorities whose certificates are trusted. */
#ifndef HTTP_TRUST_H
#define HTTP_TRUST_H

#include <curl/curl.h>

struct weir__http_auth;

/* Set @easy up to trust those that the environment names for @auth. */
int weir__http_trust(CURL *easy, const struct weir__http_auth *auth);

#endif
