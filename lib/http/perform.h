/* SPDX-License-Identifier: MIT */
/* A request whose caller waits for its answer. */
#ifndef HTTP_PERFORM_H
#define HTTP_PERFORM_H

#include "http/client.h"

struct weir__http_body {
	char *data; /* of malloc, with a 0 after its @n bytes; NULL: none */
	size_t n, room;
	size_t max; /* a longer body is refused */
};
void weir__http_body_clear(struct weir__http_body *b);

struct weir__http_call {
	struct weir__http_flight f;         /* f.q: set by the caller */
	const struct weir__http_want *want; /* of a range; NULL: any 2xx */
	struct weir__http_body *to;
	int64_t patience; /* ns; 0: that of the client, at most 60 s */
	unsigned tries;   /* at most so many if the host is not there; 0: 4 */
	int result;       /* of weir__http_answer_check */
	bool over;
	char why[WEIR__HTTP_WHY];
};

/*
 * Send @call->f.q to the host of @u, again while that may help, and wait.
 * Returns 0, 1 (the body is the whole object) or 2 (it has moved: f.a.location
 * is not NULL); or -errno with a sentence in @why. Then f.a.status is that of
 * the last answer. weir__http_call_clear frees what @call has in each case.
 */
int weir__http_perform(struct weir__http_client *c,
		       const struct weir__http_url *u,
		       struct weir__http_call *call,
		       char why[static WEIR__HTTP_WHY]);
void weir__http_call_clear(struct weir__http_call *call);

#endif
