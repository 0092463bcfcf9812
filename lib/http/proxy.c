/* SPDX-License-Identifier: MIT */
#include "http/proxy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The value of the first of two variables that has one, as libcurl reads it. */
static const char *either(const char *lower, const char *upper)
{
	const char *value = getenv(lower);

	if (value && *value)
		return value;
	value = getenv(upper);
	return value && *value ? value : NULL;
}

/* True if no_proxy names @host, or a domain of it. */
static bool is_direct(const char *host)
{
	const char *list = either("no_proxy", "NO_PROXY");
	size_t len = strlen(host), n;

	if (!list)
		return false;
	if (!strcmp(list, "*"))
		return true;
	if (len && host[len - 1] == '.')
		len--;
	for (; *list; list += n) {
		list += strspn(list, ", \t");
		n = strcspn(list, ", \t");
		if (n && *list == '.') {
			list++;
			n--;
		}
		if (n && list[n - 1] == '.')
			n--;
		if (n && n <= len && !strncasecmp(host + len - n, list, n) &&
		    (n == len || host[len - n - 1] == '.'))
			return true;
		n += list[n] == '.';
	}
	return false;
}

/*
 * HTTP_PROXY is not read: in programs that a web server starts it is a header
 * of a request.
 */
bool weir__http_has_proxy(const struct weir__http_url *u)
{
	const char *proxy = u->scheme == WEIR__HTTP_HTTPS
				    ? either("https_proxy", "HTTPS_PROXY")
				    : either("http_proxy", "http_proxy");

	if (!proxy)
		proxy = either("all_proxy", "ALL_PROXY");
	return proxy && !is_direct(u->host);
}

bool weir__http_goes_by_proxy(const char *url)
{
	char why[WEIR__HTTP_WHY];
	struct weir__http_url u;
	bool r = !weir__http_url_parse(url, &u, why) &&
		 weir__http_has_proxy(&u);

	weir__http_url_clear(&u);
	return r;
}

int weir__http_proxy_fail(const char *shown, long status,
			  char why[static WEIR__HTTP_WHY])
{
	if (status == 407) {
		snprintf(
			why, WEIR__HTTP_WHY,
			"%s: the proxy answers 407: it needs a user and a password, or others: https_proxy=http://USER:PASSWORD@HOST:PORT",
			shown);
		return -EACCES;
	}
	snprintf(
		why, WEIR__HTTP_WHY,
		"%s: the proxy answers %ld: it %s; if this host is to be reached without the proxy, name it in no_proxy",
		shown, status,
		status >= 500
			? "does not reach the host"
			: "does not let this machine connect to the host");
	return status >= 500 ? -EHOSTUNREACH : -EACCES;
}
