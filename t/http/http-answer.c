/* SPDX-License-Identifier: MIT */
/* lib/http/answer.c: headers read a line at a time. */
#include "http/answer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tap.h"

static struct weir__http_answer a;
static char why[WEIR__HTTP_WHY];

/* Read the lines in @text, which end with '|'. */
static void read_lines(const char *text)
{
	weir__http_answer_clear(&a);
	while (*text) {
		size_t n = strcspn(text, "|");

		weir__http_answer_line(&a, text, n);
		text += n + 1;
	}
}

static int check(uint64_t from, uint64_t to, bool open)
{
	struct weir__http_want want = { .shown = "u",
					.from = from,
					.to = to,
					.open = open,
					.total = 100,
					.etag = "\"e\"",
					.modified = "" };

	return weir__http_answer_check(&a, &want, why);
}

static void test_ranges(void)
{
	static const char good[] =
		"HTTP/1.1 206 x|Content-Range: bytes 0-9/100|ETag: \"e\"|";

	read_lines(good);
	is_int(check(0, 9, true), 0, "the range that was asked for is good");
	is_int(check(0, 9, false), 0, "also later");
	is_int(check(0, 8, false), -EBADMSG, "a longer one is not");
	is_int(check(1, 9, false), -EBADMSG, "nor one that begins before");
	read_lines("HTTP/1.1 206 x|content-range:bytes 0-99/100|etag: \"e\"|");
	is_int(check(0, 4095, true), 0, "a range may end with the object");
	is_int(check(0, 4095, false), -EBADMSG, "but not one inside of it");
	read_lines("HTTP/1.1 416 x|Content-Range: bytes */0|");
	is_int(check(0, 9, true), 1, "416 of an empty object is the object");
	is_int(check(0, 9, false), -EBADMSG, "but not later");
	read_lines("HTTP/1.1 206 x|Content-Range: bytes 0-9/101|ETag: \"e\"|");
	is_int(check(0, 9, false), -ESTALE, "another size is a change");
	read_lines("HTTP/1.1 206 x|Content-Range: bytes 0-9/100|ETag: \"f\"|");
	is_int(check(0, 9, false), -ESTALE, "another ETag is a change");
	read_lines("HTTP/1.1 206 x|Content-Range: bytes 9-0/100|ETag: \"e\"|");
	is_int(check(0, 9, false), -EBADMSG, "a range that ends before itself");
	read_lines("HTTP/1.1 206 x|Content-Range: lines 0-9/100|ETag: \"e\"|");
	is_int(check(0, 9, false), -EBADMSG, "another unit is refused");
}

static void test_headers(void)
{
	char date[128], text[160];
	time_t later = time(NULL) + 30;
	struct tm tm;

	read_lines("HTTP/1.1 503 x|Retry-After: 7|");
	is_int(a.retry_after, 7, "Retry-After has seconds");
	gmtime_r(&later, &tm);
	strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", &tm);
	snprintf(text, sizeof(text), "HTTP/1.1 503 x|Retry-After: %s|", date);
	read_lines(text);
	ok(a.retry_after > 5 && a.retry_after <= 30, "or a date");
	read_lines("HTTP/1.1 503 x|Retry-After: soon|");
	is_int(a.retry_after, -1, "other text is no time");
	read_lines("HTTP/1.1 503 x|Retry-After: 999999999999|");
	is_int(a.retry_after, 86400, "a day is the longest");
	read_lines("HTTP/1.1 100 x|ETag: \"a\"|HTTP/1.1 200 y|");
	is_str(a.etag, "", "a new answer has nothing of the one before");
	read_lines("HTTP/1.1 302 x|Location: /y|X-Linked-Etag: \"abc\"|"
		   "X-Linked-Size: 12|X-Repo-Commit: 0123|");
	is_str(a.location, "/y", "Location is kept");
	is_str(a.linked_etag, "abc", "X-Linked-Etag loses its quotes");
	ok(a.has_linked_size && a.linked_size == 12,
	   "X-Linked-Size is a number");
	read_lines("HTTP/1.1 200 x|Link: <http://h/n?a>; rel=\"next\"|");
	is_str(a.next, "http://h/n?a", "Link has the next page");
	read_lines("HTTP/1.1 200 x|Link: <http://h/n>; rel=\"prev\"|");
	ok(!a.next, "but not the one before");
}

int main(void)
{
	plan(0);
	test_ranges();
	test_headers();
	weir__http_answer_clear(&a);
	return done_testing();
}
