/* SPDX-License-Identifier: MIT */
/* lib/http: redirects, credentials in them, signed URLs that end. */
#include "serving.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tap.h"
#include "http/wire.h"

static void test_limits(void)
{
	is_int(serving_load(serving_url("/hops/4/300000"), 300000, 50000), 0,
	       "five redirects are followed");
	serving_fails(serving_url("/hops/5/300000"), -ELOOP,
		      "more than 5 redirects", "six are not");
	serving_fails(serving_url("/loop"), -ELOOP, "302", "nor is a loop");
	serving_fails(serving_url("/to?file:///etc/passwd"), -EPERM, "refused",
		      "a redirect to file:// is refused");
	serving_fails(serving_url("/to?ftp://127.0.0.1/x"), -EPERM, "refused",
		      "a redirect to another scheme is refused");
	serving_fails(serving_url("/to?http://169.254.169.254/latest/"), -EPERM,
		      "inner network",
		      "a redirect to the metadata of an instance");
	serving_fails(serving_url("/to?http://[fe80::1]/x"), -EPERM,
		      "inner network", "a redirect to an address of the link");
}

static void test_moved(void)
{
	const char *log;

	serving_log();
	is_int(serving_load(serving_url("/hops/0/9000000"), 9000000, 3000000),
	       0, "an object that has moved is read");
	log = serving_log();
	is_int(serving_count(log, "GET /hops"), 1,
	       "its redirect is asked for once, not for each range");
	is_int(serving_load(serving_url("/signed/9000000"), 9000000, 1000000),
	       0, "a signed URL that ends is asked for again");
	log = serving_log();
	ok(serving_count(log, "GET /signed") > 1 &&
		   serving_count(log, "GET /ending/0") <= 20,
	   "%u times", serving_count(log, "GET /signed"));
}

static void test_credentials(void)
{
	char url[400];
	const char *log;

	snprintf(url, sizeof(url), "http://user:word@127.0.0.1:%u/plain/9",
		 serving_port);
	serving_log();
	is_int(serving_load(url, 9, 9), 0, "a URL may have a password");
	ok(strstr(serving_log(), "auth=Basic"), "its host gets it");
	snprintf(url, sizeof(url),
		 "http://user:word@127.0.0.1:%u/to?http://localhost:%u/plain/9",
		 serving_port, serving_port);
	is_int(serving_load(url, 9, 9), 0, "after a redirect to another host");
	log = serving_log();
	ok(strstr(log, "GET /to") && serving_count(log, "auth=Basic") == 1,
	   "that one does not get it");
	snprintf(url, sizeof(url), "http://user:word@127.0.0.1:%u/status/404",
		 serving_port);
	serving_fails(url, -ENOENT, "404", "an error");
	ok(!strstr(serving_why, "word"), "does not have it: %s", serving_why);
}

static bool is_inside(const char *name)
{
	struct addrinfo *found, hints = { .ai_socktype = SOCK_STREAM };
	enum weir__http_rank rank = WEIR__HTTP_PUBLIC;
	char text[64];

	if (getaddrinfo(name, NULL, &hints, &found))
		return false;
	for (struct addrinfo *at = found; at; at = at->ai_next) {
		if (getnameinfo(at->ai_addr, at->ai_addrlen, text, sizeof(text),
				NULL, 0, NI_NUMERICHOST) ||
		    weir__http_address_rank(text) <= rank) {
			freeaddrinfo(found);
			return false;
		}
	}
	freeaddrinfo(found);
	return true;
}

/* The host is public: only the proxy finds its address. */
static void test_proxy(void)
{
	char proxy[64], name[65] = "", direct[80];

	snprintf(proxy, sizeof(proxy), "http://127.0.0.1:%u", serving_port);
	setenv("http_proxy", proxy, 1);
	setenv("no_proxy", "127.0.0.1", 1);
	serving_log();
	is_int(serving_load("http://model.example/plain/400000", 400000, 50000),
	       0, "http_proxy is used");
	ok(strstr(serving_log(), "host=model.example"),
	   "and asked for the host");
	serving_fails("http://metadata.example/x", -EPERM, "inner network",
		      "a public host that leads to this machine is refused");
	is_int(serving_load(serving_url("/plain/9"), 9, 9), 0,
	       "no_proxy is kept");
	gethostname(name, sizeof(name) - 1);
	snprintf(direct, sizeof(direct), "10.0.0.1, %s", name);
	setenv("no_proxy", direct, 1);
	if (is_inside(name)) {
		serving_fails("http://inward.example/x", -EPERM,
			      "inner network",
			      "a public host that leads to one of no_proxy");
		setenv("no_proxy", "", 1);
		setenv("NO_PROXY", direct, 1);
		serving_fails("http://inward.example/x", -EPERM,
			      "inner network",
			      "or of NO_PROXY, if no_proxy is empty");
		unsetenv("NO_PROXY");
	} else {
		skip(2, "the name of this machine has no private address");
	}
	unsetenv("http_proxy");
	unsetenv("no_proxy");
}

static size_t drop(char *data, size_t one, size_t n, void *arg)
{
	(void)data;
	(void)arg;
	return one * n;
}

/* Ask for 9 bytes on a connection that may not go further than @inside. */
static CURLcode ask(CURL *easy, enum weir__http_rank inside, bool *ret_refused)
{
	struct weir__http_query q = { .inside = inside };
	CURLcode code;

	q.url = strdup(serving_url("/plain/9"));
	if (weir__http_wire(easy, &q) < 0)
		bail("libcurl does not take a request");
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, drop);
	code = curl_easy_perform(easy);
	*ret_refused = q.went_inside;
	weir__http_query_clear(&q);
	return code;
}

/* A connection that a URL has opened, and a redirect would use again. */
static void test_open_connection(void)
{
	CURL *easy = curl_easy_init();
	long opened = -1;
	bool refused;

	is_int(ask(easy, 0, &refused), CURLE_OK, "a URL leads to any address");
	is_int(ask(easy, WEIR__HTTP_LOOPBACK, &refused), CURLE_OK,
	       "a redirect of this machine leads to it");
	curl_easy_getinfo(easy, CURLINFO_NUM_CONNECTS, &opened);
	diag("%ld further connections", opened);
	serving_log();
	ok(ask(easy, WEIR__HTTP_PUBLIC, &refused) && refused,
	   "one of a public host is refused, where a connection is open");
	is_int(serving_count(serving_log(), "GET /plain"), 0,
	       "and nothing is asked");
	curl_easy_cleanup(easy);
}

int main(void)
{
	plan(0);
	if (!serving_start(false, "stall-ms=2000,patience-ms=20000"))
		skip_all("python3 cannot run the server");
	test_limits();
	test_moved();
	test_credentials();
	test_proxy();
	test_open_connection();
	serving_stop();
	return done_testing();
}
