/* SPDX-License-Identifier: MIT */
/* lib/http: answers that are refused, each with a sentence. */
#include "serving.h"

#include <errno.h>
#include <string.h>

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

/* How reading an object of the server fails. */
static const struct {
	const char *path;
	uint64_t size;
	int err;
	const char *part, *title;
} refused[] = {
	{ "/whole/5000000", 5000000, -EBADMSG, "it has no ranges",
	  "a large file of a server without ranges" },
	{ "/whole_later/5000000", 5000000, -EBADMSG, "stopped sending ranges",
	  "ranges that are ignored later" },
	{ "/html/x", 1, -EBADMSG, "portal",
	  "a page of HTML with status 200 is named as such" },
	{ "/gzip/500000", 500000, -EBADMSG, "compressed the body (gzip)",
	  "a compressed body is refused" },
	{ "/wrong/shift/500000", 500000, -EBADMSG, "were asked for",
	  "another range is refused" },
	{ "/wrong/total/500000", 500000, -ESTALE,
	  "500001 bytes, and had 500000", "another size is a change" },
	{ "/wrong/none/500000", 500000, -EBADMSG, "no Content-Range",
	  "206 without Content-Range is refused" },
	{ "/wrong/open/500000", 500000, -EBADMSG, "size of the object",
	  "the same when an object is opened" },
	{ "/wrong/nototal/500000", 500000, -EBADMSG, "size of the object",
	  "a size that is not told is refused" },
	{ "/wrong/huge/500000", 500000, -EBADMSG,
	  "no Content-Range that can be read",
	  "numbers that are too large are refused" },
	{ "/wrong/less/500000", 500000, -EBADMSG, "Content-Length",
	  "a Content-Length that does not fit" },
	{ "/wrong/long/500000", 500000, -EBADMSG, "more bytes came",
	  "a body that is too long is refused" },
	{ "/wrong/garbage/500000", 500000, -EPROTO, "does not speak HTTP",
	  "another protocol is named as such" },
	{ "/changes/9000000", 9000000, -ESTALE, "412 Precondition Failed",
	  "an object that changes: 412" },
	{ "/changes-silently/9000000", 9000000, -ESTALE,
	  "its ETag is another one",
	  "an object that changes on a server that ignores If-Match" },
	{ "/dated/9000000", 9000000, -ESTALE,
	  "its Last-Modified is another one",
	  "an object without ETag whose time changes" },
	{ "/status/404/x", 1, -ENOENT, "404 Not Found",
	  "an object that is not there" },
	{ "/error/403/AuthenticationFailed", 1, -EACCES,
	  "the signature is wrong or has ended", "a wrong signature of Azure" },
	{ "/error/409/PublicAccessNotPermitted", 1, -EACCES,
	  "no public containers", "an account without public containers" },
	{ "/error/404/ContainerNotFound", 1, -ENOENT, "no such container",
	  "a container that is not there" },
	{ "/error/403/SignatureDoesNotMatch", 1, -EACCES,
	  "secret access key is not the one", "a wrong secret" },
	{ "/error/403/AccessDenied", 1, -EACCES, "no right to read it",
	  "no rights" },
	{ "/error/403/RequestTimeTooSkewed", 1, -EACCES,
	  "clock of this machine", "a wrong clock" },
	{ "/error/403/ExpiredToken", 1, -EACCES, "have ended",
	  "credentials that ended" },
	{ "/error/404/NoSuchBucket", 1, -ENOENT, "no such bucket",
	  "a bucket that is not there" },
	{ "/later-error/403/AccessDenied/5000000", 5000000, -EACCES,
	  "AccessDenied", "rights that end during a load" },
	{ "/shrinks/300000", 300000, -ESTALE, "had 300000",
	  "an object without ETag whose size changes" },
};

static void test_refused(void)
{
	for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
		fails(serving_url("%s?sig=hidden", refused[i].path),
		      refused[i].size, refused[i].err, refused[i].part,
		      refused[i].title);
		ok(strstr(serving_why, refused[i].path) &&
			   !strstr(serving_why, "hidden"),
		   "its URL is named without the query: %s", serving_why);
	}
}

static void test_unreachable(void)
{
	fails("http://127.0.0.1:1/x", 1, -ECONNREFUSED,
	      "does not take connections", "a host that is not there");
}

int main(void)
{
	plan(0);
	if (!serving_start(false,
			   "stall-ms=1000,patience-ms=20000,backoff-ms=10"))
		skip_all("python3 cannot run the server");
	test_refused();
	test_unreachable();
	serving_stop();
	return done_testing();
}
