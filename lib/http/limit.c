/* SPDX-License-Identifier: MIT */
#include "http/limit.h"

#define FIRST 16.0                       /* requests in flight at first */
#define INTERVAL_MIN (4 * WEIR__HTTP_MS) /* shorter ones are none */
#define INTERVAL_MAX (2 * WEIR__HTTP_SECOND)
#define BACKOFF_MIN (5 * WEIR__HTTP_MS)
#define BACKOFF_MAX (20 * WEIR__HTTP_SECOND)

void weir__http_limit_init(struct weir__http_limit *l, unsigned max)
{
	*l = (struct weir__http_limit){
		.allowed = max < FIRST ? max : FIRST,
		.max = max,
		.last_start = INT64_MIN / 2,
		.last_cut = INT64_MIN / 2,
	};
}

int64_t weir__http_limit_when(const struct weir__http_limit *l, int64_t now)
{
	int64_t when = l->last_start + l->interval;

	if (l->in_flight >= (unsigned)l->allowed)
		return INT64_MAX;
	if (when < l->closed_until)
		when = l->closed_until;
	return when > now ? when : now;
}

void weir__http_limit_start(struct weir__http_limit *l, int64_t now)
{
	l->in_flight++;
	l->last_start = now;
}

static void limit_grow(struct weir__http_limit *l)
{
	l->allowed += l->refused ? 1 / l->allowed : 1;
	if (l->allowed > l->max)
		l->allowed = l->max;
	/* A twentieth less for each answer: it ends below what is refused. */
	l->interval -= l->interval / 20;
	if (l->interval < INTERVAL_MIN)
		l->interval = 0;
}

static void limit_cut(struct weir__http_limit *l, int64_t now)
{
	l->refused = true;
	l->last_cut = now;
	l->allowed /= 2;
	if (l->allowed < 1)
		l->allowed = 1;
	l->interval = l->interval ? 2 * l->interval : INTERVAL_MIN;
	if (l->interval > INTERVAL_MAX)
		l->interval = INTERVAL_MAX;
}

void weir__http_limit_end(struct weir__http_limit *l, enum weir__http_end how,
			  int64_t started, int64_t now)
{
	l->in_flight--;
	if (how == WEIR__HTTP_END_GOOD)
		limit_grow(l);
	else if (how == WEIR__HTTP_END_BUSY && started > l->last_cut)
		limit_cut(l, now);
}

int64_t weir__http_backoff(unsigned tries, int64_t first, uint64_t random)
{
	int64_t bound = BACKOFF_MAX;

	if (tries < 17 && first << (tries ? tries - 1 : 0) < bound)
		bound = first << (tries ? tries - 1 : 0);
	return BACKOFF_MIN + (int64_t)(random % (uint64_t)bound);
}

void weir__http_limit_max(struct weir__http_limit *l, unsigned max)
{
	l->max = max;
	if (l->allowed > max)
		l->allowed = max;
}
