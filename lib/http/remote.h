/* SPDX-License-Identifier: MIT */
/*
 * The source, one for each root, and its objects: what <weir/source.h> calls
 * self and object.
 */
#ifndef HTTP_REMOTE_H
#define HTTP_REMOTE_H

#include <weir/source.h>

#include "http/perform.h"

struct weir__http_cloud; /* credentials.c */
struct weir__http_hub;   /* hub.c */

struct weir__http_remote {
	struct weir *weir;
	const struct weir_source_host *host;
	struct weir__http_client *client;
	struct weir__http_cloud *cloud; /* credentials of AWS */
	struct weir__http_hub *hub;     /* commits that are pinned */
	/* The thread that finds targets again; guarded by the client's lock. */
	pthread_t renewer;
	bool renewing; /* the thread was started */
	bool stopping;
	pthread_cond_t renew; /* something was queued, or it stops */
	struct weir__http_object *stale;
};

/* Where the bytes of an object are now: a redirect may have led there. */
struct weir__http_target {
	struct weir__http_url u;
	struct weir__http_auth *auth; /* for this host, or NULL */
	struct weir__http_host *host;
	enum weir__http_rank inside; /* 0: the URL itself names it */
	bool moved;                  /* by a redirect */
};
void weir__http_target_clear(struct weir__http_target *t);

/* What is known of an object once it was found. */
struct weir__http_facts {
	uint64_t bytes;
	char etag[160], modified[64];
	char identity[160], sha256[72]; /* as of weir_source_info */
	struct weir__http_target target;
	/*
	 * A file of this machine with the same bytes, in memory of malloc;
	 * NULL: none is known. If the target has no host, it is the only way.
	 */
	char *copy;
};

/*
 * The query that an object's own URL leads to, and the URL to which it goes:
 * http.c, s3.c, azure.c and hub.c, each for its schemes. @refused: use other
 * credentials than these; NULL: any will do.
 */
struct weir__http_start {
	struct weir__http_url u;
	struct weir__http_query q;
	bool hub, store; /* a hub, or a store of objects, answers */
};
void weir__http_start_clear(struct weir__http_start *s);
int weir__http_begin(struct weir__http_remote *r,
		     const struct weir__http_url *u,
		     const struct weir__http_auth *refused,
		     struct weir__http_start *s,
		     char why[static WEIR__HTTP_WHY]);

/*
 * Find an object: send a request for its bytes [0, @want), follow redirects,
 * and keep the bytes that came in @front. Blocks. @before: what was known of
 * it; other facts are then -ESTALE; NULL: it is opened.
 */
int weir__http_find(struct weir__http_remote *r, const char *shown,
		    const struct weir__http_url *u, uint64_t want,
		    const struct weir__http_auth *refused,
		    const struct weir__http_facts *before,
		    struct weir__http_body *front, struct weir__http_facts *ret,
		    char why[static WEIR__HTTP_WHY]);

/* @err is for a request that had no secret in @auth: have @why say so. */
void weir__http_note_unsigned(const struct weir__http_auth *auth, int err,
			      char why[static WEIR__HTTP_WHY]);

/* An object: object.c says who may access what. */
struct weir__http_object;
int weir__http_open(void *self, const char *url, void **ret_object,
		    struct weir_source_info *ret_info,
		    char why[WEIR_SOURCE_WHY]);
void weir__http_close(void *object);
void weir__http_read(void *object, struct weir_source_read *read);
void weir__http_cancel(void *object, struct weir_source_read *read);
int weir__http_check(void *object, char why[WEIR_SOURCE_WHY]);
/* The next request for a host: weir__http_client.more. */
struct weir__http_flight *weir__http_more(struct weir__http_host *host);

/* Find the target of @o again: parts of it wait. The lock is held. */
void weir__http_renew(struct weir__http_object *o);
/* End the thread. */
void weir__http_renew_stop(struct weir__http_remote *r);

#endif
