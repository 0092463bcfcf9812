/* SPDX-License-Identifier: MIT */
/* lib/http: proxies that the environment names, and their passwords. */
#include "serving.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tap.h"

#define PARAMS "stall-ms=5000,patience-ms=20000,backoff-ms=10"
#define FAR "https://model.example/plain/300000"
#define WORD "dXNlcjpwYTU1" /* user:pa55 in Base64 */

static char proxy[64];

/* An object of a host that only the proxy knows is read: what was asked. */
static const char *by_proxy(const char *variable, const char *title)
{
	const char *log;
	int r;

	setenv(variable, proxy, 1);
	serving_again(PARAMS);
	serving_log();
	r = serving_load(FAR, 300000, 100000);
	log = serving_log();
	if (r)
		ok(false, "%s: %d, '%s'", title, r, serving_why);
	else
		ok(strstr(log, "CONNECT model.example:443 "), "%s", title);
	unsetenv(variable);
	return log;
}

/* An object of the server is read; no proxy is asked. */
static void direct(const char *url, const char *title)
{
	const char *log;
	int r;

	serving_again(PARAMS);
	serving_log();
	r = serving_load(url, 300000, 100000);
	log = serving_log();
	ok(!r && !strstr(log, "CONNECT") && !strstr(log, "proxied"), "%s: %d",
	   title, r);
}

static void test_variables(void)
{
	const char *log = by_proxy("https_proxy", "https_proxy is used");

	ok(strstr(log, "host=model.example"), "for the host of the URL");
	is_int(serving_count(log, "CONNECT"), serving_count(log, "handshake"),
	       "TLS is spoken with that host, through the proxy");
	by_proxy("HTTPS_PROXY", "so is HTTPS_PROXY");
	by_proxy("all_proxy", "and all_proxy");
	by_proxy("ALL_PROXY", "and ALL_PROXY");
	setenv("HTTPS_PROXY", "http://127.0.0.1:1", 1);
	by_proxy("https_proxy", "https_proxy goes before HTTPS_PROXY");
	setenv("ALL_PROXY", "http://127.0.0.1:1", 1);
	setenv("HTTPS_PROXY", "", 1);
	by_proxy("https_proxy", "and before ALL_PROXY");
	setenv("HTTP_PROXY", "http://127.0.0.1:1", 1);
	unsetenv("ALL_PROXY");
	direct(serving_url("/plain/300000"),
	       "HTTP_PROXY is not read: web servers set it from a request");
	unsetenv("HTTP_PROXY");
	unsetenv("HTTPS_PROXY");
}

static void test_no_proxy(void)
{
	char url[128];

	snprintf(url, sizeof(url), "%s", serving_tls("/plain/300000"));
	setenv("all_proxy", proxy, 1);
	setenv("no_proxy", "x.example,localhost", 1);
	direct(url, "no_proxy is kept");
	setenv("no_proxy", "*", 1);
	direct(url, "'*' is for all hosts");
	setenv("no_proxy", "", 1);
	setenv("NO_PROXY", "localhost", 1);
	direct(url, "NO_PROXY is read where no_proxy is empty");
	unsetenv("no_proxy");
	direct(url, "or not set");
	setenv("no_proxy", "x.example", 1);
	serving_again(PARAMS);
	serving_log();
	is_int(serving_load(url, 300000, 300000), 0,
	       "a host that is not named");
	ok(strstr(serving_log(), "CONNECT localhost:"), "goes by the proxy");
	unsetenv("no_proxy");
	unsetenv("NO_PROXY");
	unsetenv("all_proxy");
}

/* Nothing that is printed has the proxy's password. */
static void has_no_word(const char *title)
{
	ok(!strstr(serving_why, "pa55") && !strstr(serving_why, WORD),
	   "%s: '%s'", title, serving_why);
}

static void test_password(void)
{
	char with[80];
	const char *log;

	snprintf(with, sizeof(with), "http://user:pa55@127.0.0.1:%u",
		 serving_port);
	setenv("all_proxy", with, 1);
	serving_again(PARAMS);
	serving_log();
	is_int(serving_load("https://me:mine@secret.example/plain/300000",
			    300000, 100000),
	       0, "a proxy with a password is used for https");
	log = serving_log();
	ok(strstr(log, "CONNECT secret.example:443 auth= proxy=Basic " WORD),
	   "the proxy gets its password, and not that of the host");
	ok(strstr(log, "auth=Basic bWU6bWluZQ==") &&
		   serving_count(log, WORD) == serving_count(log, "CONNECT"),
	   "the host gets its own, and not that of the proxy");
	is_int(serving_load("http://secret.example/plain/300000", 300000,
			    100000),
	       0, "it is used for http");
	serving_fails("https://secret.example/status/404", -ENOENT, "404",
		      "an error of a host behind it");
	has_no_word("does not have the password");

	snprintf(with, sizeof(with), "http://user:pa55s@127.0.0.1:%u",
		 serving_port);
	setenv("all_proxy", with, 1);
	serving_again(PARAMS);
	serving_log();
	serving_fails("https://secret.example/plain/9", -EACCES,
		      "the proxy answers 407",
		      "a wrong password is named as the reason");
	has_no_word("without it");
	is_int(serving_count(serving_log(), "CONNECT"), 1,
	       "the proxy is not asked again");
	serving_fails("http://secret.example/plain/9", -EACCES,
		      "407 Proxy Authentication Required", "also for http");
	has_no_word("without it");

	setenv("all_proxy", "http://user:pa55@127.0.0.1:1", 1);
	serving_again(PARAMS);
	serving_fails(FAR, -ECONNREFUSED, "the proxy does not take connections",
		      "a proxy that is not there is named as such");
	has_no_word("without its password");
	setenv("all_proxy", "http://user:pa55@[::1", 1);
	serving_again(PARAMS);
	serving_fails(FAR, -EHOSTUNREACH, "the proxy cannot be used",
		      "a variable that is no URL of a proxy");
	has_no_word("is not printed");
	unsetenv("all_proxy");
}

static void test_refusing(void)
{
	setenv("https_proxy", proxy, 1);
	serving_again(PARAMS);
	serving_log();
	serving_fails("https://forbidden.example/x", -EACCES,
		      "the proxy answers 403: it does not let this machine",
		      "a proxy that refuses a host");
	is_int(serving_count(serving_log(), "CONNECT"), 1,
	       "is not asked again");
	serving_fails("https://away.example/x", -EHOSTUNREACH,
		      "the proxy answers 502: it does not reach the host",
		      "a proxy that does not reach a host");
	ok(serving_count(serving_log(), "CONNECT") > 1, "is asked again");
	unsetenv("https_proxy");
}

int main(void)
{
	plan(0);
	if (!serving_start(true, PARAMS))
		skip_all("no python3, or no openssl for a certificate");
	snprintf(proxy, sizeof(proxy), "http://127.0.0.1:%u", serving_port);
	setenv("CURL_CA_BUNDLE", serving_cert, 1);
	test_variables();
	test_no_proxy();
	test_password();
	test_refusing();
	serving_stop();
	return done_testing();
}
