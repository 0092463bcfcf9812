/* SPDX-License-Identifier: MIT */
/* lib/http/uri.c: URLs parsed, followed, encoded and printed. */
#include "http/address.h"
#include "http/uri.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tap.h"

static char why[WEIR__HTTP_WHY];

/* The URL as it is sent, and as it is shown. */
static void is_sent(const char *text, const char *sent, const char *shown)
{
	char got[WEIR__HTTP_SHOWN];
	struct weir__http_url u;
	char *url;

	is_int(weir__http_url_parse(text, &u, why), 0, "%s is a URL", text);
	url = weir__http_url_text(&u);
	is_str(url, sent, "it is sent as %s", sent);
	weir__http_url_show(&u, got);
	is_str(got, shown, "and shown as %s", shown);
	free(url);
	weir__http_url_clear(&u);
}

static void is_refused(const char *text, const char *part)
{
	struct weir__http_url u;

	is_int(weir__http_url_parse(text, &u, why), -EINVAL,
	       "'%.*s' is refused", (int)strcspn(text, "\r"), text);
	has_str(why, part, "since %s", part);
}

static void leads(const char *from, const char *to, const char *want)
{
	struct weir__http_url u, next;
	char *text;
	int r;

	if (weir__http_url_parse(from, &u, why))
		bail("%s", why);
	r = weir__http_url_follow(&u, to, &next, why);
	if (!want) {
		is_int(r, -EINVAL, "%s leads nowhere", to);
	} else {
		text = r ? NULL : weir__http_url_text(&next);
		is_str(text ? text : why, want, "%s at %s leads to %s", to,
		       from, want);
		free(text);
	}
	weir__http_url_clear(&u);
	weir__http_url_clear(&next);
}

static void test_hub(void)
{
	struct weir__http_url u;
	char shown[WEIR__HTTP_SHOWN];

	is_int(weir__http_url_parse("hf://me/m.1@refs%2Fpr%2F1/a b/c", &u, why),
	       0, "a file of a model of a hub is a URL");
	is_str(u.owner, "me/m.1", "with an owner and a name");
	is_str(u.revision, "refs%2Fpr%2F1", "a revision");
	is_str(u.path, "a b/c", "and a path as it is");
	weir__http_url_show(&u, shown);
	is_str(shown, "hf://me/m.1@refs%2Fpr%2F1/a b/c", "it is shown whole");
	weir__http_url_clear(&u);
	is_refused("hf://model", "hf://OWNER/NAME");
	is_refused("hf://../m/x", "hf://OWNER/NAME");
	is_refused("hf://a/b@/x", "revision");
}

static void test_bucket(void)
{
	struct weir__http_url u;
	char *key;

	is_int(weir__http_url_parse("s3://my.bucket/a b+c?d#e/\xc3\xa9", &u,
				    why),
	       0, "a key may have any character");
	is_str(u.host, "my.bucket", "its bucket is the host");
	is_str(u.path, "a b+c?d#e/\xc3\xa9", "its key is not decoded");
	key = weir__http_encode(u.path, "/");
	is_str(key, "a%20b%2Bc%3Fd%23e/%C3%A9", "it is encoded for a request");
	free(key);
	weir__http_url_clear(&u);
	is_refused("s3://ab/x", "3 to 222 bytes");
	is_refused("s3://a/../b", "3 to 222 bytes");
	is_refused("gs://bad bucket/x", "letters");
}

static void test_container(void)
{
	struct weir__http_url u;
	char shown[WEIR__HTTP_SHOWN];

	is_int(weir__http_url_parse("az://my-models/a b?c/x", &u, why), 0,
	       "a blob may have any character in its name");
	is_str(u.host, "my-models", "its container is the host");
	is_str(u.path, "a b?c/x", "its name is not decoded");
	weir__http_url_show(&u, shown);
	is_str(shown, "az://my-models/a b?c/x", "it is shown whole");
	weir__http_url_clear(&u);
	is_int(weir__http_url_parse("az://$root/x", &u, why), 0,
	       "the root container is one");
	weir__http_url_clear(&u);
	is_refused("az://a/x", "3 to 63 bytes");
	is_refused("az://Models/x", "small letters");
	is_refused("az://a$bc/x", "small letters");
	is_refused("az://a@b.c/x", "small letters");
}

static void test_ranks(void)
{
	static const struct {
		const char *text;
		enum weir__http_rank rank;
	} all[] = {
		{ "example.org", WEIR__HTTP_NAME },
		{ "8.8.8.8", WEIR__HTTP_PUBLIC },
		{ "192.0.0.192", WEIR__HTTP_LINK },
		{ "192.0.2.1", WEIR__HTTP_PUBLIC },
		{ "168.63.129.16", WEIR__HTTP_LINK },
		{ "168.63.129.17", WEIR__HTTP_PUBLIC },
		{ "100.100.100.200", WEIR__HTTP_LINK },
		{ "100.100.100.201", WEIR__HTTP_PRIVATE },
		{ "[::ffff:0:10.0.0.1]", WEIR__HTTP_PRIVATE },
		{ "[::ffff:0:808:808]", WEIR__HTTP_PUBLIC },
		{ "[64:ff9b:1::a9fe:a9fe]", WEIR__HTTP_PRIVATE },
		{ "[2001:0:1::5601:5601]", WEIR__HTTP_LINK },
		{ "[2001:0:1::f7f7:f7f7]", WEIR__HTTP_PUBLIC },
		{ "10.1.2.3", WEIR__HTTP_PRIVATE },
		{ "172.16.0.1", WEIR__HTTP_PRIVATE },
		{ "172.32.0.1", WEIR__HTTP_PUBLIC },
		{ "192.168.1.1", WEIR__HTTP_PRIVATE },
		{ "100.64.0.1", WEIR__HTTP_PRIVATE },
		{ "127.0.0.1", WEIR__HTTP_LOOPBACK },
		{ "127.1", WEIR__HTTP_LOOPBACK },
		{ "0x7f000001", WEIR__HTTP_LOOPBACK },
		{ "2130706433", WEIR__HTTP_LOOPBACK },
		{ "0.0.0.0", WEIR__HTTP_LOOPBACK },
		{ "localhost", WEIR__HTTP_LOOPBACK },
		{ "169.254.169.254", WEIR__HTTP_LINK },
		{ "224.0.0.1", WEIR__HTTP_LINK },
		{ "[::1]", WEIR__HTTP_LOOPBACK },
		{ "[::ffff:127.0.0.1]", WEIR__HTTP_LOOPBACK },
		{ "[::ffff:169.254.169.254]", WEIR__HTTP_LINK },
		{ "[64:ff9b::a9fe:a9fe]", WEIR__HTTP_LINK },
		{ "[fe80::1]", WEIR__HTTP_LINK },
		{ "[fd00:ec2::254]", WEIR__HTTP_LINK },
		{ "[fd12::1]", WEIR__HTTP_PRIVATE },
		{ "[2606:4700::1]", WEIR__HTTP_PUBLIC },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		is_int(weir__http_address_rank(all[i].text), all[i].rank,
		       "%s has its rank", all[i].text);
}

int main(void)
{
	plan(0);
	is_sent("HTTPS://Example.ORG/a b/\xc3\xa9?q=1 2#frag",
		"https://example.org/a%20b/%C3%A9?q=1%202",
		"https://example.org/a%20b/%C3%A9");
	is_sent("http://h:8080", "http://h:8080/", "http://h:8080/");
	is_sent("https://u:p%40ss@h/x?sig=s", "https://h/x?sig=s",
		"https://h/x");
	is_sent("https://[::1]:9/x", "https://[::1]:9/x", "https://[::1]:9/x");
	is_refused("file:///etc/passwd", "not a URL of http");
	is_refused("ftp://h/x", "not a URL of http");
	is_refused("http:///x", "host is missing");
	is_refused("http://h:0/x", "port");
	is_refused("http://h:99999/x", "port");
	is_refused("http://h:8a/x", "port");
	is_refused("http://h o/x", "character");
	is_refused("http://h/\r\nX: y", "control character");
	is_refused("http://u:secret@h:x/y?sig=secret", "port");
	ok(!strstr(why, "secret"), "a sentence has no password and no query");
	leads("http://h/a/b?q", "c", "http://h/a/c");
	leads("http://h/a/b?q", "/c?d", "http://h/c?d");
	leads("http://h:8/a/b?q", "?d", "http://h:8/a/b?d");
	leads("https://h/a", "//other/x", "https://other/x");
	leads("https://h/a", "http://other/x", "http://other/x");
	leads("https://h/a", "file:///etc/passwd", NULL);
	leads("https://h/a", "s3://bucket/x", NULL);
	test_hub();
	test_bucket();
	test_container();
	test_ranks();
	return done_testing();
}
