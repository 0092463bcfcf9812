/* SPDX-License-Identifier: MIT */
/* lib/http: a libcurl at run time that is older than the header. */
#include <errno.h>
#include <dlfcn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "serving.h"
#include "tap.h"
#include "http/wire.h"

#undef curl_easy_setopt

static unsigned refused;

/* True for an option that came after 7.75, and that the module uses. */
static bool is_newer(CURLoption option)
{
#if LIBCURL_VERSION_NUM >= 0x075000
	if (option == CURLOPT_PREREQFUNCTION || option == CURLOPT_PREREQDATA)
		return true;
#endif
#if LIBCURL_VERSION_NUM >= 0x075500
	if (option == CURLOPT_PROTOCOLS_STR)
		return true;
#endif
#if LIBCURL_VERSION_NUM >= 0x075700
	if (option == CURLOPT_QUICK_EXIT)
		return true;
#endif
	return false;
}

/* That of libcurl 7.75, for the module, which is linked into this program. */
CURLcode curl_easy_setopt(CURL *easy, CURLoption option, ...)
{
	CURLcode (*set)(CURL *, CURLoption, ...);
	CURLcode code;
	va_list args;

	if (is_newer(option)) {
		refused++;
		return CURLE_UNKNOWN_OPTION;
	}
	*(void **)&set = dlsym(RTLD_NEXT, "curl_easy_setopt");
	va_start(args, option);
	if (option < CURLOPTTYPE_OBJECTPOINT)
		code = set(easy, option, va_arg(args, long));
	else if (option < CURLOPTTYPE_OFF_T)
		code = set(easy, option, va_arg(args, void *));
	else
		code = set(easy, option, va_arg(args, curl_off_t));
	va_end(args);
	return code;
}

/* Of Ubuntu 22.04. */
curl_version_info_data *curl_version_info(CURLversion age)
{
	static curl_version_info_data info;

	info.age = age;
	info.version = "7.81.0";
	info.version_num = 0x075100;
	return &info;
}

static size_t drop(char *data, size_t one, size_t n, void *arg)
{
	(void)data;
	(void)arg;
	return one * n;
}

/* Ask @url on a connection that may not go further than @inside. */
static CURLcode ask(CURL *easy, const char *url, enum weir__http_rank inside,
		    bool *ret_refused)
{
	struct weir__http_query q = { .inside = inside };
	CURLcode code;

	q.url = strdup(url);
	if (weir__http_wire(easy, &q) < 0)
		bail("libcurl does not take a request");
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, drop);
	code = curl_easy_perform(easy);
	*ret_refused = q.went_inside;
	weir__http_query_clear(&q);
	return code;
}

int main(void)
{
	CURL *easy;
	bool inside;

	plan(7);
	if (!serving_start(false, ""))
		skip_all("python3 cannot run the server");
	is_int(serving_load(serving_url("/hops/2/300000"), 300000, 50000), 0,
	       "an object is read, and redirects are followed");
	easy = curl_easy_init();
	is_int(ask(easy, serving_url("/plain/9"), 0, &inside), CURLE_OK,
	       "a URL leads to any address");
	ok(ask(easy, serving_url("/plain/9"), WEIR__HTTP_PUBLIC, &inside) &&
		   inside,
	   "a redirect of a public host does not use its connection again");
	is_int(ask(easy, "ftp://127.0.0.1/x", 0, &inside),
	       CURLE_UNSUPPORTED_PROTOCOL, "no other protocol is spoken");
	curl_easy_cleanup(easy);
	setenv("AWS_ENDPOINT_URL_S3", serving_url("/"), 1);
	is_int(serving_load("s3://bucket/k", 300000, 300000), -EACCES,
	       "S3 is asked without credentials");
	setenv("AWS_ACCESS_KEY_ID", "one", 1);
	setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
	serving_again("");
	ok(serving_load("s3://bucket/k", 300000, 300000) == -ENOSYS &&
		   strstr(serving_why, "libcurl is 7.81.0"),
	   "credentials need a newer one: %s", serving_why);
	diag("%u options were refused", refused);
	ok(LIBCURL_VERSION_NUM < 0x075500 || refused,
	   "libcurl refused newer options");
	serving_stop();
	return done_testing();
}
