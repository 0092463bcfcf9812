/* SPDX-License-Identifier: MIT */
/* lib/http: answers that are refused, each with a sentence. */
#include "serving.h"

#include <errno.h>
#include <netdb.h>
#include <string.h>
#include <time.h>

#include "tap.h"

static void fails(const char *url, uint64_t size, int err, const char *part,
		  const char *title)
{
	int r = serving_load(url, size, 100000);

	if (r == err && strstr(serving_why, part))
		ok(true, "%s", title);
	else
		ok(false, "%s: %d, '%s'", title, r, serving_why);
}

/* True if the resolver says so, and soon. */
static bool no_such_host(void)
{
	struct addrinfo *found;
	time_t before = time(NULL);

	if (!getaddrinfo("no-such-host.invalid", "80", NULL, &found)) {
		freeaddrinfo(found);
		return false;
	}
	return time(NULL) - before < 3;
}

static void test_refused(void)
{
	fails(serving_url("/whole/5000000"), 5000000, -EBADMSG,
	      "it has no ranges", "a large file of a server without ranges");
	fails(serving_url("/whole_later/5000000"), 5000000, -EBADMSG,
	      "stopped sending ranges", "ranges that are ignored later");
	fails(serving_url("/html/x"), 1, -EBADMSG, "portal",
	      "a page of HTML with status 200 is named as such");
	fails(serving_url("/gzip/500000"), 500000, -EBADMSG,
	      "compressed the body (gzip)", "a compressed body is refused");
	fails(serving_url("/wrong/shift/500000"), 500000, -EBADMSG,
	      "were asked for", "another range is refused");
	fails(serving_url("/wrong/total/500000"), 500000, -ESTALE,
	      "500001 bytes, and had 500000", "another size is a change");
	fails(serving_url("/wrong/none/500000"), 500000, -EBADMSG,
	      "no Content-Range", "206 without Content-Range is refused");
	fails(serving_url("/wrong/open/500000"), 500000, -EBADMSG,
	      "size of the object", "the same when an object is opened");
	fails(serving_url("/wrong/nototal/500000"), 500000, -EBADMSG,
	      "size of the object", "a size that is not told is refused");
	fails(serving_url("/wrong/huge/500000"), 500000, -EBADMSG,
	      "no Content-Range that can be read",
	      "numbers that are too large are refused");
	fails(serving_url("/wrong/less/500000"), 500000, -EBADMSG,
	      "Content-Length", "a Content-Length that does not fit");
	fails(serving_url("/wrong/long/500000"), 500000, -EBADMSG,
	      "more bytes came", "a body that is too long is refused");
	fails(serving_url("/wrong/garbage/500000"), 500000, -EPROTO,
	      "does not speak HTTP", "another protocol is named as such");
	fails(serving_url("/changes/9000000"), 9000000, -ESTALE,
	      "412 Precondition Failed", "an object that changes: 412");
	fails(serving_url("/changes-silently/9000000"), 9000000, -ESTALE,
	      "its ETag is another one",
	      "an object that changes on a server that ignores If-Match");
	fails(serving_url("/dated/9000000"), 9000000, -ESTALE,
	      "its Last-Modified is another one",
	      "an object without ETag whose time changes");
	fails(serving_url("/status/404/x?sig=secret"), 1, -ENOENT,
	      "404 Not Found", "an object that is not there");
	ok(!strstr(serving_why, "secret") && strstr(serving_why, "/status/404"),
	   "the sentence has the URL without its query: %s", serving_why);
	fails("http://127.0.0.1:1/x", 1, -ECONNREFUSED,
	      "does not take connections", "a host that is not there");
	if (no_such_host())
		fails("http://no-such-host.invalid/x", 1, -EHOSTUNREACH,
		      "has no address", "a name that DNS does not know");
	else
		skip(1, "the resolver of this machine does not answer");
	fails(serving_url("/error/403/SignatureDoesNotMatch"), 1, -EACCES,
	      "secret access key is not the one", "a wrong secret");
	fails(serving_url("/error/403/AccessDenied"), 1, -EACCES,
	      "no right to read it", "no rights");
	fails(serving_url("/error/403/RequestTimeTooSkewed"), 1, -EACCES,
	      "clock of this machine", "a wrong clock");
	fails(serving_url("/error/403/ExpiredToken"), 1, -EACCES, "have ended",
	      "credentials that ended");
	fails(serving_url("/error/404/NoSuchBucket"), 1, -ENOENT,
	      "no such bucket", "a bucket that is not there");
	fails(serving_url("/later-error/403/AccessDenied/5000000"), 5000000,
	      -EACCES, "AccessDenied", "rights that end during a load");
	fails(serving_url("/shrinks/300000"), 300000, -ESTALE, "had 300000",
	      "an object without ETag whose size changes");
}

int main(void)
{
	plan(0);
	if (!serving_start(false,
			   "stall-ms=1000,patience-ms=20000,backoff-ms=10"))
		skip_all("python3 cannot run the server");
	test_refused();
	serving_stop();
	return done_testing();
}
