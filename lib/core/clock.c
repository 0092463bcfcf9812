/* SPDX-License-Identifier: MIT */
#include "core/clock.h"

#include <errno.h>
#include <time.h>

#define RETRY_AT_ONCE 8u
#define RETRY_LEAST 32u
#define RETRY_NS INT64_C(1000000000)
#define RETRY_PAUSE INT64_C(1000000)

int64_t weir__now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

int64_t weir__file_clock(int64_t *ret_tick)
{
	struct timespec now, tick;

	clock_gettime(CLOCK_REALTIME_COARSE, &now);
	clock_getres(CLOCK_REALTIME_COARSE, &tick);
	*ret_tick = tick.tv_sec * 1000000000 + tick.tv_nsec;
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

void weir__sleep(int64_t ns)
{
	struct timespec ts = { ns / 1000000000, ns % 1000000000 };

	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, &ts) == EINTR)
		;
}

int64_t weir__deadline(int64_t timeout_ns)
{
	int64_t deadline;

	if (timeout_ns < 0 ||
	    __builtin_add_overflow(weir__now(), timeout_ns, &deadline))
		return INT64_MAX;
	return deadline;
}

bool weir__retry(struct weir__retry *retry)
{
	if (!retry->tries++)
		retry->since = weir__now();
	if (retry->tries <= RETRY_AT_ONCE)
		return true;
	if (retry->tries > RETRY_LEAST && weir__now() - retry->since > RETRY_NS)
		return false;
	weir__sleep(RETRY_PAUSE);
	return true;
}
