/* SPDX-License-Identifier: MIT */
/*
 * How many requests a host gets at a time, how soon one after another, and how
 * long a request that failed waits. The caller guards a limit by its own lock,
 * and passes the time, in ns of CLOCK_MONOTONIC.
 */
#ifndef HTTP_LIMIT_H
#define HTTP_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#define WEIR__HTTP_MS INT64_C(1000000)
#define WEIR__HTTP_SECOND (1000 * WEIR__HTTP_MS)

/*
 * The limit grows by one request for each round of answers, and by one for each
 * answer until the host has refused for the first time. It is halved when the
 * host says that it has too much to do (503, 429), once for all requests that
 * had been sent before; the interval between requests is doubled then, and
 * shrinks with each answer.
 */
struct weir__http_limit {
	double allowed;       /* requests in flight, at least 1 */
	unsigned max;         /* at most so many */
	unsigned in_flight;   /* started and not ended */
	bool refused;         /* since it was made */
	int64_t interval;     /* ns from the start of one request to the next */
	int64_t last_start;   /* of a request */
	int64_t last_cut;     /* when the limit was halved */
	int64_t closed_until; /* Retry-After of the host */
};

void weir__http_limit_init(struct weir__http_limit *l, unsigned max);

/* Change how many requests there may be at a time. */
void weir__http_limit_max(struct weir__http_limit *l, unsigned max);

/* When the next request may start: <= @now at once; INT64_MAX: after an end. */
int64_t weir__http_limit_when(const struct weir__http_limit *l, int64_t now);
void weir__http_limit_start(struct weir__http_limit *l, int64_t now);

enum weir__http_end {
	WEIR__HTTP_END_GOOD,   /* it was answered */
	WEIR__HTTP_END_BUSY,   /* 503, 429: the host has too much to do */
	WEIR__HTTP_END_BROKEN, /* no answer, for whatever reason */
};
/* @started: when the request that ended was. */
void weir__http_limit_end(struct weir__http_limit *l, enum weir__http_end how,
			  int64_t started, int64_t now);

/*
 * The wait before try number @tries (1: the first one after a failure): random,
 * between a little and a bound that doubles from @first up to 20 seconds.
 * @random is any number.
 */
int64_t weir__http_backoff(unsigned tries, int64_t first, uint64_t random);

#endif
