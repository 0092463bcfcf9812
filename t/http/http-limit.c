/* SPDX-License-Identifier: MIT */
/* lib/http/limit.c: requests at a time, intervals, and waits. */
#include "http/limit.h"

#include "tap.h"

#define S WEIR__HTTP_SECOND

static void test_grows(void)
{
	struct weir__http_limit l;

	weir__http_limit_init(&l, 32);
	is_int(weir__http_limit_when(&l, S), S, "a request may start at once");
	for (int i = 0; i < 16; i++)
		weir__http_limit_start(&l, S);
	is_int(weir__http_limit_when(&l, S), INT64_MAX,
	       "the seventeenth waits for an end");
	for (int i = 0; i < 16; i++)
		weir__http_limit_end(&l, WEIR__HTTP_END_GOOD, S, 2 * S);
	is_int(l.allowed, 32, "each answer allows one more");
	for (int i = 0; i < 100; i++) {
		weir__http_limit_start(&l, S);
		weir__http_limit_end(&l, WEIR__HTTP_END_GOOD, S, 2 * S);
	}
	is_int(l.allowed, 32, "up to the maximum");
}

static void test_cut(void)
{
	struct weir__http_limit l;

	weir__http_limit_init(&l, 16);
	for (int i = 0; i < 16; i++)
		weir__http_limit_start(&l, S);
	for (int i = 0; i < 16; i++)
		weir__http_limit_end(&l, WEIR__HTTP_END_BUSY, S, 2 * S);
	is_int(l.allowed, 8, "refusals of one round halve the limit once");
	weir__http_limit_start(&l, 3 * S);
	ok(weir__http_limit_when(&l, 3 * S) > 3 * S,
	   "the next request waits an interval");
	weir__http_limit_end(&l, WEIR__HTTP_END_BUSY, 3 * S, 4 * S);
	is_int(l.allowed, 4, "the next round halves it again");
	for (int i = 0; i < 50; i++) {
		weir__http_limit_start(&l, (5 + i) * S);
		weir__http_limit_end(&l, WEIR__HTTP_END_BUSY, (5 + i) * S,
				     (5 + i) * S + 1);
	}
	is_int(l.allowed, 1, "never below one");
	ok(l.interval <= 2 * S, "the interval has a bound");
	for (int i = 0; i < 400; i++) {
		weir__http_limit_start(&l, (60 + i) * S);
		weir__http_limit_end(&l, WEIR__HTTP_END_GOOD, (60 + i) * S,
				     (61 + i) * S);
	}
	is_int(l.allowed, 16, "it grows again with answers");
	is_int(l.interval, 0, "and the interval ends");
	weir__http_limit_start(&l, 900 * S);
	weir__http_limit_end(&l, WEIR__HTTP_END_BROKEN, 900 * S, 901 * S);
	is_int(l.allowed, 16, "a broken connection does not change it");
	l.closed_until = 1000 * S;
	is_int(weir__http_limit_when(&l, 950 * S), 1000 * S,
	       "Retry-After closes the host");
	weir__http_limit_max(&l, 3);
	is_int(l.allowed, 3, "another maximum holds at once");
}

static void test_backoff(void)
{
	int64_t least = INT64_MAX, most = 0;

	for (uint64_t i = 0; i < 1000; i++) {
		int64_t wait = weir__http_backoff(3, 100 * WEIR__HTTP_MS,
						  i * 7919 * 1000003);

		least = wait < least ? wait : least;
		most = wait > most ? wait : most;
	}
	ok(least < S / 25 && most > 3 * S / 10 && most < S / 2,
	   "the third wait is random, up to 0.4 s");
	ok(weir__http_backoff(1000, 100 * WEIR__HTTP_MS, UINT64_MAX) <= 21 * S,
	   "no wait is longer than 20 s and a little");
}

int main(void)
{
	plan(0);
	test_grows();
	test_cut();
	test_backoff();
	return done_testing();
}
