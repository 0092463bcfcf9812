/* SPDX-License-Identifier: MIT */
#include "http/uri.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_URL 16384u /* signed URLs have up to some 4 KiB */

static const char *const schemes[] = {
	[WEIR__HTTP_HTTP] = "http", [WEIR__HTTP_HTTPS] = "https",
	[WEIR__HTTP_S3] = "s3",     [WEIR__HTTP_GS] = "gs",
	[WEIR__HTTP_AZ] = "az",     [WEIR__HTTP_HF] = "hf",
};

void weir__http_wipe(char *secret)
{
	if (secret)
		explicit_bzero(secret, strlen(secret));
	free(secret);
}

char *weir__http_print(const char *fmt, ...)
{
	va_list ap;
	char *text;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	return n < 0 ? NULL : text;
}

static bool is_unreserved(unsigned char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9') || (c && strchr("-._~", c));
}

/* @n bytes, of which those that @keep says stay as they are. */
static char *encode(const char *text, size_t n, const char *keep)
{
	static const char hex[] = "0123456789ABCDEF";
	char *out = malloc(3 * n + 1), *p = out;

	if (!out)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)text[i];

		if (is_unreserved(c) || (c && strchr(keep, c))) {
			*p++ = (char)c;
		} else {
			*p++ = '%';
			*p++ = hex[c >> 4];
			*p++ = hex[c & 15];
		}
	}
	*p = '\0';
	return out;
}

char *weir__http_encode(const char *text, const char *keep)
{
	return encode(text, strlen(text), keep);
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static char *decode(const char *text, size_t n)
{
	char *out = malloc(n + 1), *p = out;

	if (!out)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		int high = -1, low = -1;

		if (text[i] == '%' && n - i > 2) {
			high = hex_digit(text[i + 1]);
			low = hex_digit(text[i + 2]);
		}
		if (high >= 0 && low >= 0) {
			*p++ = (char)(high << 4 | low);
			i += 2;
		} else {
			*p++ = text[i];
		}
	}
	*p = '\0';
	return out;
}

char *weir__http_decode(const char *text)
{
	return decode(text, strlen(text));
}

void weir__http_url_clear(struct weir__http_url *u)
{
	weir__http_wipe(u->user);
	free(u->path);
	weir__http_wipe(u->query);
	memset(u, 0, sizeof(*u));
}

static int refuse(char *why, const char *shown, const char *reason)
{
	snprintf(why, WEIR__HTTP_WHY, "%s: %s", shown, reason);
	return -EINVAL;
}

/* The scheme that @text begins with; -1: none that is known. */
static int find_scheme(const char *text, size_t *ret_len)
{
	size_t len = strcspn(text, ":");

	if (strncmp(text + len, "://", 3))
		return -1;
	for (int i = 0; i < (int)(sizeof(schemes) / sizeof(*schemes)); i++)
		if (strlen(schemes[i]) == len &&
		    !strncasecmp(text, schemes[i], len)) {
			*ret_len = len + 3;
			return i;
		}
	return -1;
}

/* Host and port, without the user. */
static const char *parse_host(const char *at, size_t n,
			      struct weir__http_url *u)
{
	size_t len = n;
	unsigned long port;
	char *end;

	if (n && *at == '[') {
		const char *close = memchr(at, ']', n);

		if (!close)
			return "its address has no ']'";
		len = (size_t)(close - at) + 1;
	} else {
		const char *colon = memchr(at, ':', n);

		if (colon)
			len = (size_t)(colon - at);
	}
	if (!len || len >= sizeof(u->host))
		return "its host is missing or has more than 255 bytes";
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)at[i];

		if (!is_unreserved(c) && !strchr("[]:", c))
			return "its host has a character that hosts do not have";
		u->host[i] = (char)(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
	}
	u->host[len] = '\0';
	if (len == n)
		return NULL;
	if (at[len] != ':' || len + 1 == n)
		return "its port is no number";
	for (size_t i = len + 1; i < n; i++)
		if (at[i] < '0' || at[i] > '9')
			return "its port is no number";
	port = strtoul(at + len + 1, &end, 10);
	if (!port || port > 65535)
		return "its port is not in 1 to 65535";
	u->port = (uint16_t)port;
	return NULL;
}

/* What stays as it is in a URL that is given: '%' too, as it is encoded. */
#define SENT "!#$%&'()*+,;=:@/?[]"

static const char *parse_web(const char *at, struct weir__http_url *u)
{
	size_t n = strcspn(at, "/?#"), q;
	const char *host = at, *user = memrchr(at, '@', n), *why;

	if (user) {
		u->user = decode(at, (size_t)(user - at));
		if (!u->user)
			return "no memory";
		host = user + 1;
	}
	why = parse_host(host, n - (size_t)(host - at), u);
	if (why)
		return why;
	at += n;
	n = strcspn(at, "#");
	q = strcspn(at, "?#");
	u->path = q ? encode(at, q, SENT) : strdup("/");
	u->query = encode(at + q, n - q, SENT);
	return u->path && u->query ? NULL : "no memory";
}

/* Containers, of which "$root" and "$web" are special. */
static const char *parse_container(const char *at, struct weir__http_url *u)
{
	size_t n = strcspn(at, "/");

	if (n < 3 || n > 63)
		return "the name of a container has 3 to 63 bytes";
	for (size_t i = 0; i < n; i++) {
		char c = at[i];

		if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
		      c == '-' || (c == '$' && !i)))
			return "the name of a container has small letters, digits and '-'";
		u->host[i] = c;
	}
	u->host[n] = '\0';
	u->path = strdup(at[n] ? at + n + 1 : "");
	u->query = strdup("");
	return u->path && u->query ? NULL : "no memory";
}

static const char *parse_bucket(const char *at, struct weir__http_url *u)
{
	size_t n = strcspn(at, "/");

	if (n < 3 || n > 222)
		return "the name of a bucket has 3 to 222 bytes";
	for (size_t i = 0; i < n; i++) {
		if (!is_unreserved((unsigned char)at[i]) || at[i] == '~')
			return "the name of a bucket has letters, digits, '.', '-' and '_'";
		u->host[i] = at[i];
	}
	u->host[n] = '\0';
	u->path = strdup(at[n] ? at + n + 1 : "");
	u->query = strdup("");
	return u->path && u->query ? NULL : "no memory";
}

static bool is_repo_name(const char *at, size_t n)
{
	if (!n || n > 96 || *at == '.' || *at == '-')
		return false;
	for (size_t i = 0; i < n; i++)
		if (!is_unreserved((unsigned char)at[i]) || at[i] == '~')
			return false;
	return true;
}

static const char *parse_hub(const char *at, struct weir__http_url *u)
{
	static const char form[] =
		"a model of a hub is hf://OWNER/NAME, then @REVISION or nothing, then /FILE or nothing";
	size_t owner = strcspn(at, "/"), name, n;
	const char *p;

	if (at[owner] != '/')
		return form;
	name = strcspn(at + owner + 1, "/@");
	if (!is_repo_name(at, owner) || !is_repo_name(at + owner + 1, name))
		return form;
	snprintf(u->owner, sizeof(u->owner), "%.*s", (int)(owner + 1 + name),
		 at);
	p = at + owner + 1 + name;
	if (*p == '@') {
		n = strcspn(++p, "/");
		if (!n || n >= sizeof(u->revision))
			return "a revision has 1 to 127 bytes; '/' in it is written %2F";
		memcpy(u->revision, p, n);
		u->revision[n] = '\0';
		p += n;
	}
	u->path = strdup(*p ? p + 1 : "");
	u->query = strdup("");
	return u->path && u->query ? NULL : "no memory";
}

int weir__http_url_parse(const char *text, struct weir__http_url *u,
			 char why[static WEIR__HTTP_WHY])
{
	char shown[WEIR__HTTP_SHOWN];
	const char *reason = NULL;
	size_t skip = 0;
	int scheme = find_scheme(text, &skip);

	memset(u, 0, sizeof(*u));
	weir__http_text_show(text, shown);
	if (scheme < 0)
		return refuse(why, shown,
			      "not a URL of http, https, s3, gs, az or hf");
	if (strlen(text) > MAX_URL)
		return refuse(why, shown, "it has more than 16384 bytes");
	for (const char *p = text; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			return refuse(why, shown, "it has a control character");
	u->scheme = (enum weir__http_scheme)scheme;
	if (u->scheme <= WEIR__HTTP_HTTPS)
		reason = parse_web(text + skip, u);
	else if (u->scheme == WEIR__HTTP_HF)
		reason = parse_hub(text + skip, u);
	else if (u->scheme == WEIR__HTTP_AZ)
		reason = parse_container(text + skip, u);
	else
		reason = parse_bucket(text + skip, u);
	if (!reason)
		return 0;
	weir__http_url_clear(u);
	return refuse(why, shown, reason);
}

char *weir__http_url_text(const struct weir__http_url *u)
{
	char port[8] = "";

	if (u->port)
		snprintf(port, sizeof(port), ":%u", u->port);
	return weir__http_print("%s://%s%s%s%s", schemes[u->scheme], u->host,
				port, u->path, u->query);
}

int weir__http_url_follow(const struct weir__http_url *base,
			  const char *location, struct weir__http_url *u,
			  char why[static WEIR__HTTP_WHY])
{
	const char *scheme = schemes[base->scheme];
	size_t colon = strcspn(location, ":/?#");
	char port[8] = "", *text;
	int r;

	if (base->port)
		snprintf(port, sizeof(port), ":%u", base->port);
	if (location[colon] == ':') {
		text = strdup(location);
	} else if (!strncmp(location, "//", 2)) {
		text = weir__http_print("%s:%s", scheme, location);
	} else if (*location == '/') {
		text = weir__http_print("%s://%s%s%s", scheme, base->host, port,
					location);
	} else {
		const char *slash = strrchr(base->path, '/');
		int keep = *location == '?' ? (int)strlen(base->path)
					    : (int)(slash - base->path) + 1;

		text = weir__http_print("%s://%s%s%.*s%s", scheme, base->host,
					port, keep, base->path, location);
	}
	if (!text) {
		memset(u, 0, sizeof(*u));
		return refuse(why, scheme, "no memory");
	}
	r = weir__http_url_parse(text, u, why);
	free(text);
	if (!r && u->scheme > WEIR__HTTP_HTTPS) {
		r = refuse(why, schemes[u->scheme],
			   "an answer leads to this scheme");
		weir__http_url_clear(u);
	}
	return r;
}

/* Append what is printable. */
static void show(char *shown, const char *text, size_t n)
{
	size_t len = strlen(shown);

	for (size_t i = 0; i < n && len < WEIR__HTTP_SHOWN - 1; i++)
		shown[len++] = (unsigned char)text[i] < 0x20 || text[i] == 0x7f
				       ? '?'
				       : text[i];
	shown[len] = '\0';
}

void weir__http_url_show(const struct weir__http_url *u,
			 char shown[static WEIR__HTTP_SHOWN])
{
	char port[8] = "";

	*shown = '\0';
	if (u->port)
		snprintf(port, sizeof(port), ":%u", u->port);
	show(shown, schemes[u->scheme], strlen(schemes[u->scheme]));
	show(shown, "://", 3);
	show(shown, u->host, strlen(u->host));
	show(shown, port, strlen(port));
	show(shown, u->owner, strlen(u->owner));
	if (*u->revision) {
		show(shown, "@", 1);
		show(shown, u->revision, strlen(u->revision));
	}
	if (u->scheme > WEIR__HTTP_HTTPS && *u->path)
		show(shown, "/", 1);
	show(shown, u->path, strlen(u->path));
}

void weir__http_text_show(const char *text, char shown[static WEIR__HTTP_SHOWN])
{
	const char *p = strstr(text, "://"), *user;
	size_t len;
	/* In the others '?' is part of the key or file. */
	bool key = !strncasecmp(text, "s3:", 3) ||
		   !strncasecmp(text, "gs:", 3) ||
		   !strncasecmp(text, "az:", 3) || !strncasecmp(text, "hf:", 3);

	*shown = '\0';
	if (!p) {
		show(shown, text, strcspn(text, "?#"));
		return;
	}
	p += 3;
	show(shown, text, (size_t)(p - text));
	len = strcspn(p, "/?#");
	user = memrchr(p, '@', len);
	if (user)
		p = user + 1;
	if (!key)
		show(shown, p, strcspn(p, "?#"));
	else
		show(shown, p, strlen(p));
}

uint16_t weir__http_url_port(const struct weir__http_url *u)
{
	if (u->port)
		return u->port;
	return u->scheme == WEIR__HTTP_HTTP ? 80 : 443;
}

bool weir__http_url_same_host(const struct weir__http_url *a,
			      const struct weir__http_url *b)
{
	return a->scheme == b->scheme && !strcmp(a->host, b->host) &&
	       weir__http_url_port(a) == weir__http_url_port(b);
}
