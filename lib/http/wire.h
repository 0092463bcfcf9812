/* SPDX-License-Identifier: MIT */
/*
 * One request: what is sent, by which credentials, and how libcurl is set up
 * for it. All requests verify TLS, follow no redirect by themselves, and ask
 * for bodies that are not compressed.
 */
#ifndef HTTP_WIRE_H
#define HTTP_WIRE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <curl/curl.h>

#include "http/address.h"
#include "http/uri.h"

enum weir__http_auth_kind {
	WEIR__HTTP_AUTH_BASIC,
	WEIR__HTTP_AUTH_BEARER,
	WEIR__HTTP_AUTH_AWS,
	WEIR__HTTP_AUTH_AZURE,
};

/* Credentials: constant once they are made, and counted. */
struct weir__http_auth {
	atomic_uint refs;
	enum weir__http_auth_kind kind;
	char *user; /* "user:password", or "key:secret"; the account of Azure */
	/*
	 * Of bearers, or of a session. Of Azure the key of the account, or,
	 * without an account, the token that is added to URLs. NULL: none.
	 */
	char *token;
	char region[40];
	char service[16]; /* "s3", "sts" */
	char *ca;         /* the profile's ca_bundle of AWS, or NULL */
	int64_t until;    /* seconds of CLOCK_REALTIME; 0: no end is known */
};

/* Strings are copied, NULL stays NULL. NULL: no memory. */
struct weir__http_auth *weir__http_auth_new(enum weir__http_auth_kind kind,
					    const char *user, const char *token,
					    const char *region,
					    const char *service);
struct weir__http_auth *weir__http_auth_get(struct weir__http_auth *auth);
void weir__http_auth_put(struct weir__http_auth *auth);
/* True if no secret is in it: the request is not signed. Takes NULL. */
bool weir__http_auth_is_none(const struct weir__http_auth *auth);

/* What is sent. Zeroed but for url and shown, it is a plain GET. */
struct weir__http_query {
	char *url; /* of malloc, freed with the query; has secrets */
	char shown[WEIR__HTTP_SHOWN];
	struct weir__http_auth *auth; /* put with the query */
	bool range;
	uint64_t from, to;   /* of the range; @to is the last byte */
	char match[160];     /* If-Match */
	char unmodified[64]; /* If-Unmodified-Since */
	const char *method;  /* NULL: GET, or POST with a body */
	char *post;          /* of malloc, freed with the query; NULL: none */
	char *extra[3];      /* further headers, of malloc; NULL: none */
	/* The connection may not go further inside than this; 0: anywhere. */
	enum weir__http_rank inside;
	bool direct;        /* through no proxy */
	bool fresh;         /* on a connection of its own */
	int64_t connect_ms; /* 0: 15 s */
	/* Set while the request is made. */
	bool went_inside;  /* an address was refused because of @inside */
	long proxy_status; /* a proxy's answer to CONNECT; 0: none */
	struct curl_slist *headers;
};

void weir__http_query_clear(struct weir__http_query *q);

/*
 * Set @easy up for @q, which must live until the request has ended. -ENOMEM, or
 * -EOPNOTSUPP if this libcurl cannot do what is needed.
 */
int weir__http_wire(CURL *easy, struct weir__http_query *q);

/* The rank of the address that answered; a proxy makes it public. */
enum weir__http_rank weir__http_wire_rank(CURL *easy,
					  const struct weir__http_url *u);

/*
 * The errno and the sentence for a request that had no answer; @detail is
 * libcurl's own text, or "".
 */
int weir__http_wire_fail(const struct weir__http_query *q, CURLcode code,
			 const char *detail, char why[static WEIR__HTTP_WHY]);
/* True if the same request may do better on another connection. */
bool weir__http_wire_retry(const struct weir__http_query *q, CURLcode code);

#endif
