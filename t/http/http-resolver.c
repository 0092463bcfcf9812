/* SPDX-License-Identifier: MIT */
/* lib/http: a system's resolver that knows no host, or does not answer. */
#include "serving.h"

#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <curl/curl.h>

#include "tap.h"

#define HELD 60 /* seconds that a resolver hangs at most */

static atomic_bool go_on;
static atomic_uint held, left;

typedef int getaddrinfo_fn(const char *node, const char *service,
			   const struct addrinfo *hints, struct addrinfo **ret);

/* libcurl's threads call this one. */
int getaddrinfo(const char *node, const char *service,
		const struct addrinfo *hints, struct addrinfo **ret)
{
	getaddrinfo_fn *real;

	if (node && !strcmp(node, "unknown.example"))
		return EAI_NONAME;
	if (node && !strcmp(node, "hangs.example")) {
		held++;
		for (int i = 0; i < HELD * 10 && !go_on; i++)
			usleep(100000);
		left++;
		return EAI_AGAIN;
	}
	*(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
	return real(node, service, hints, ret);
}

static bool is_old(void)
{
	return curl_version_info(CURLVERSION_NOW)->version_num < 0x075700;
}

int main(void)
{
	struct weir_source_info info;
	time_t before;
	void *object;
	int r;

	plan(0);
	if (!serving_start(false, "threads=1,patience-ms=2000,backoff-ms=10"))
		skip_all("python3 cannot run the server");
	serving_fails(
		"https://unknown.example/x?sig=secret", -EHOSTUNREACH,
		"https://unknown.example/x: its host has no address: DNS does not know the name",
		"a host that DNS does not know");
	if (is_old()) {
		skip(6, "libcurl before 7.87 waits for resolvers");
		serving_stop();
		return done_testing();
	}
	serving_again("threads=1,patience-ms=2000");
	before = time(NULL);
	r = serving_open("http://hangs.example/x", &object, &info);
	ok(r == -EHOSTUNREACH || r == -ETIMEDOUT,
	   "a host whose name is not found in time: %s", serving_why);
	ok(held > 0, "the resolver was asked");
	is_int(serving_load(serving_url("/plain/300000"), 300000, 100000), 0,
	       "the only thread serves other hosts meanwhile");
	serving_again("threads=1,patience-ms=2000");
	ok(time(NULL) - before < HELD / 2 && !left,
	   "a root closes while the resolver hangs");
	go_on = true;
	for (int i = 0; i < 100 && left < held; i++)
		usleep(100000);
	is_int(left, held, "and nothing breaks when it ends");
	serving_stop();
	return done_testing();
}
