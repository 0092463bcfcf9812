/* SPDX-License-Identifier: MIT */
/* URLs: their parts, and what sentences show of them. Any thread. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/error.h"
#include "core/sys.h"
#include "io/source.h"

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

size_t weir__url_scheme(const char *path)
{
	size_t n = 0;

	while (is_letter(path[n]) ||
	       (n && path[n] && strchr("0123456789+-.", path[n])))
		n++;
	return n && !strncmp(path + n, "://", 3) ? n : 0;
}

bool weir__is_url(const char *path)
{
	return weir__url_scheme(path) > 0;
}

const char *weir__url_shown(const char *url, char *text, size_t room)
{
	size_t n = weir__url_scheme(url), host = n + 3, end, at;

	end = host + strcspn(url + host, "?#");
	at = host + strcspn(url + host, "/?#");
	for (size_t i = host; i < at; i++)
		if (url[i] == '@')
			host = i + 1;
	snprintf(text, room, "%.*s://%s", (int)n, url,
		 weir__quote(url + host, end - host));
	return text;
}

int weir__refuse_url(const char *path, const char *what)
{
	char text[512];

	if (!weir__is_url(path))
		return 0;
	return weir__fail(-EROFS, "%s: only a file of this machine %s",
			  weir__url_shown(path, text, sizeof(text)), what);
}

/* True if the paths of the URL are percent-encoded: those of the web. */
static bool is_web(const char *url)
{
	size_t n = weir__url_scheme(url);

	return (n == 4 && !strncasecmp(url, "http", n)) ||
	       (n == 5 && !strncasecmp(url, "https", n));
}

/* True if the byte of a name means itself in the path of a URL. */
static bool is_plain(unsigned char c, bool web)
{
	if (c == '?' || c == '#')
		return false;
	return !web || (c > 0x20 && c < 0x7f && c != '%');
}

/*
 * Replace what follows @keep bytes of the path, which get a name in which the
 * bytes that mean something else in a URL are encoded; the query stays.
 */
static char *join(const char *url, size_t keep, const char *slash,
		  const char *name)
{
	static const char digit[] = "0123456789ABCDEF";
	const char *query = url + strcspn(url, "?#");
	char *to = weir__malloc(keep + 1 + 3 * strlen(name) + strlen(query) +
				1),
	     *end = to;
	bool web = is_web(url);

	if (!to)
		return NULL;
	memcpy(end, url, keep);
	end += keep;
	if (*slash)
		*end++ = *slash;
	for (const unsigned char *c = (const unsigned char *)name; *c; c++) {
		if (is_plain(*c, web)) {
			*end++ = (char)*c;
		} else {
			*end++ = '%';
			*end++ = digit[*c >> 4];
			*end++ = digit[*c & 15];
		}
	}
	memcpy(end, query, strlen(query) + 1);
	return to;
}

char *weir__url_beside(const char *url, const char *name)
{
	size_t n = strcspn(url, "?#"), least = weir__url_scheme(url) + 3;

	while (n > least && url[n - 1] != '/')
		n--;
	return join(url, n, "", name);
}

char *weir__url_inside(const char *url, const char *name)
{
	size_t n = strcspn(url, "?#");

	return join(url, n, n && url[n - 1] == '/' ? "" : "/", name);
}
