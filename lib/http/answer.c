/* SPDX-License-Identifier: MIT */
#include "http/answer.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include <curl/curl.h>

void weir__http_answer_clear(struct weir__http_answer *a)
{
	free(a->location);
	free(a->next);
	memset(a, 0, sizeof(*a));
	a->retry_after = -1;
}

/* The number at *@p, which moves past it. */
static bool number(const char **p, uint64_t *ret)
{
	uint64_t n = 0;
	const char *at = *p;

	if (!isdigit((unsigned char)*at))
		return false;
	for (; isdigit((unsigned char)*at); at++)
		if (__builtin_mul_overflow(n, 10, &n) ||
		    __builtin_add_overflow(n, (uint64_t)(*at - '0'), &n))
			return false;
	*p = at;
	*ret = n;
	return true;
}

/* "bytes 0-9/100", "bytes 0-9/" and '*', "bytes '*'/100". */
static void read_range(struct weir__http_answer *a, const char *p)
{
	uint64_t from, to, total;

	if (strncasecmp(p, "bytes", 5))
		return;
	p += 5;
	p += strspn(p, " \t=");
	if (*p == '*') {
		p++;
	} else {
		if (!number(&p, &from) || *p++ != '-' || !number(&p, &to) ||
		    to < from)
			return;
		a->has_range = true;
		a->from = from;
		a->to = to;
	}
	p += *p == '/';
	if (number(&p, &total)) {
		a->has_total = true;
		a->total = total;
	}
}

static int64_t read_retry(const char *p)
{
	uint64_t n;
	time_t at;

	if (number(&p, &n))
		return n > 86400 ? 86400 : (int64_t)n;
	at = curl_getdate(p, NULL);
	if (at == (time_t)-1)
		return -1;
	at -= time(NULL);
	return at < 0 ? 0 : at > 86400 ? 86400 : at;
}

static void copy(char *to, size_t room, const char *from)
{
	size_t n = strlen(from);

	/* A value that is cut would be another one. */
	if (n < room)
		memcpy(to, from, n + 1);
}

static void copy_bare(char *to, size_t room, const char *from)
{
	size_t n;

	from += strncmp(from, "W/", 2) ? 0 : 2;
	n = strlen(from);
	if (n >= 2 && *from == '"' && from[n - 1] == '"' && n - 2 < room) {
		memcpy(to, from + 1, n - 2);
		to[n - 2] = '\0';
	} else {
		copy(to, room, from);
	}
}

/* <https://host/path>; rel="next" */
static void read_link(struct weir__http_answer *a, const char *p)
{
	const char *end = strchr(p, '>');

	if (*p == '<' && end && strstr(end, "rel=\"next\"")) {
		free(a->next);
		a->next = strndup(p + 1, (size_t)(end - p) - 1);
	}
}

static void read_header(struct weir__http_answer *a, const char *name,
			const char *value)
{
	const char *p = value;

	if (!strcasecmp(name, "etag")) {
		copy(a->etag, sizeof(a->etag), value);
	} else if (!strcasecmp(name, "content-range")) {
		read_range(a, value);
	} else if (!strcasecmp(name, "content-length")) {
		a->has_length = number(&p, &a->length);
	} else if (!strcasecmp(name, "content-type")) {
		snprintf(a->type, sizeof(a->type), "%.*s",
			 (int)strcspn(value, "; \t"), value);
	} else if (!strcasecmp(name, "content-encoding")) {
		snprintf(a->encoding, sizeof(a->encoding), "%s", value);
	} else if (!strcasecmp(name, "last-modified")) {
		copy(a->modified, sizeof(a->modified), value);
	} else if (!strcasecmp(name, "retry-after")) {
		a->retry_after = read_retry(value);
	} else if (!strcasecmp(name, "location")) {
		free(a->location);
		a->location = strdup(value);
	} else if (!strcasecmp(name, "link")) {
		read_link(a, value);
	} else if (!strcasecmp(name, "x-repo-commit")) {
		copy(a->commit, sizeof(a->commit), value);
	} else if (!strcasecmp(name, "x-linked-etag")) {
		copy_bare(a->linked_etag, sizeof(a->linked_etag), value);
	} else if (!strcasecmp(name, "x-linked-size")) {
		a->has_linked_size = number(&p, &a->linked_size);
	} else if (!strcasecmp(name, "x-amz-bucket-region")) {
		copy(a->region, sizeof(a->region), value);
	} else if (!strcasecmp(name, "x-error-code")) {
		copy(a->hub_error, sizeof(a->hub_error), value);
	}
}

void weir__http_answer_line(struct weir__http_answer *a, const char *line,
			    size_t n)
{
	const char *colon;
	char *text;

	while (n && isspace((unsigned char)line[n - 1]))
		n--;
	text = strndup(line, n);
	if (!text)
		return;
	if (!strncmp(text, "HTTP/", 5)) {
		const char *p = strchr(text, ' ');

		weir__http_answer_clear(a);
		a->status = p ? atoi(p) : 0;
	} else {
		colon = strchr(text, ':');
		if (colon) {
			text[colon - text] = '\0';
			colon++;
			colon += strspn(colon, " \t");
			read_header(a, text, colon);
		}
	}
	free(text);
}

void weir__http_answer_body(struct weir__http_answer *a, const char *data,
			    size_t n)
{
	size_t room = sizeof(a->body) - 1 - a->body_len;

	if (n > room)
		n = room;
	memcpy(a->body + a->body_len, data, n);
	a->body_len += n;
	a->body[a->body_len] = '\0';
}

bool weir__http_answer_moved(const struct weir__http_answer *a)
{
	return a->status == 301 || a->status == 302 || a->status == 303 ||
	       a->status == 307 || a->status == 308;
}

bool weir__http_answer_busy(const struct weir__http_answer *a)
{
	return a->status == 503 || a->status == 429;
}

bool weir__http_answer_retry(const struct weir__http_answer *a)
{
	return a->status == 408 || a->status == 425 || a->status == 429 ||
	       (a->status >= 500 && a->status != 501 && a->status != 505);
}

void weir__http_answer_code(const struct weir__http_answer *a,
			    char code[static 64])
{
	const char *p = strstr(a->body, "<Code>");
	size_t n;

	*code = '\0';
	if (!p)
		return;
	p += 6;
	n = strspn(
		p,
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.");
	if (n < 64 && p[n] == '<') {
		memcpy(code, p, n);
		code[n] = '\0';
	}
}

/* Codes of errors of S3, Azure and hubs, their errnos and sentences. */
static const struct {
	const char *code;
	int err;
	const char *means;
} codes[] = {
	{ "SignatureDoesNotMatch", -EACCES,
	  "the secret access key is not the one of this access key, or a proxy changed the request" },
	{ "InvalidAccessKeyId", -EACCES, "there is no such access key here" },
	{ "AccessDenied", -EACCES,
	  "these credentials have no right to read it, or it does not exist" },
	{ "AllAccessDisabled", -EACCES, "the bucket is disabled" },
	{ "RequestTimeTooSkewed", -EACCES,
	  "the clock of this machine is more than 15 minutes wrong" },
	{ "ExpiredToken", -EACCES, "the temporary credentials have ended" },
	{ "InvalidToken", -EACCES, "the session token is not valid" },
	{ "TokenRefreshRequired", -EACCES,
	  "the temporary credentials have ended" },
	{ "AuthorizationHeaderMalformed", -EACCES,
	  "the region is not that of the bucket: set AWS_REGION" },
	{ "NoSuchKey", -ENOENT, "the bucket has no such key" },
	{ "NoSuchBucket", -ENOENT, "there is no such bucket" },
	{ "InvalidObjectState", -EACCES,
	  "the object is archived and must be restored first" },
	{ "PermanentRedirect", -ENOENT,
	  "the bucket is in another region: set AWS_REGION" },
	{ "AuthenticationFailed", -EACCES,
	  "the signature is wrong or has ended: that of the URL or of AZURE_STORAGE_SAS_TOKEN, or the one by AZURE_STORAGE_KEY; or the clock of this machine is wrong" },
	{ "AuthorizationFailure", -EACCES,
	  "the account's network rules do not let this machine in, or the signature does not allow it" },
	{ "AuthorizationPermissionMismatch", -EACCES,
	  "the signature has no right to read, or to list for a folder: that of the URL or of AZURE_STORAGE_SAS_TOKEN" },
	{ "AuthorizationResourceTypeMismatch", -EACCES,
	  "the signature is not for blobs, or not for lists: that of the URL or of AZURE_STORAGE_SAS_TOKEN" },
	{ "AuthorizationServiceMismatch", -EACCES,
	  "the signature of AZURE_STORAGE_SAS_TOKEN is not for blobs" },
	{ "AuthorizationProtocolMismatch", -EACCES,
	  "the signature is for https only" },
	{ "AuthorizationSourceIPMismatch", -EACCES,
	  "the signature is for other addresses than that of this machine" },
	{ "KeyBasedAuthenticationNotPermitted", -EACCES,
	  "the account takes no keys: neither AZURE_STORAGE_KEY nor a token signed by it" },
	{ "AccountIsDisabled", -EACCES, "the account is disabled" },
	{ "NoAuthenticationInformation", -EACCES,
	  "the container is not public: set AZURE_STORAGE_SAS_TOKEN or AZURE_STORAGE_KEY, or use a URL with a signature" },
	{ "PublicAccessNotPermitted", -EACCES,
	  "the account has no public containers: set AZURE_STORAGE_SAS_TOKEN or AZURE_STORAGE_KEY, or use a URL with a signature" },
	{ "ResourceNotFound", -ENOENT,
	  "there is no such container or blob, or it is not public: then set AZURE_STORAGE_SAS_TOKEN or AZURE_STORAGE_KEY" },
	{ "BlobNotFound", -ENOENT, "there is no such blob" },
	{ "ContainerNotFound", -ENOENT, "there is no such container" },
	{ "BlobArchived", -EACCES,
	  "the blob is archived and must be restored first" },
	{ "GatedRepo", -EACCES,
	  "access to this model must be granted on its page first" },
	{ "RepoNotFound", -ENOENT,
	  "there is no such model, or HF_TOKEN has no right to see it" },
	{ "RevisionNotFound", -ENOENT, "the model has no such revision" },
	{ "EntryNotFound", -ENOENT, "the model has no such file" },
};

static const struct {
	int status, err;
	const char *name, *means;
} statuses[] = {
	{ 400, -EINVAL, "Bad Request", "the server does not take the request" },
	{ 401, -EACCES, "Unauthorized", "it needs credentials" },
	{ 403, -EACCES, "Forbidden",
	  "no right to read it, or a signed URL has ended" },
	{ 404, -ENOENT, "Not Found", "there is no such object" },
	{ 407, -EACCES, "Proxy Authentication Required",
	  "the proxy needs a user and password in its URL" },
	{ 410, -ENOENT, "Gone", "the object was removed" },
	{ 412, -ESTALE, "Precondition Failed",
	  "the object changed since it was opened: open it again" },
	{ 416, -EBADMSG, "Range Not Satisfiable",
	  "the object is shorter than when it was opened" },
	{ 429, -EBUSY, "Too Many Requests", "it was asked again in vain" },
	{ 500, -EIO, "Internal Server Error", "it was asked again in vain" },
	{ 502, -EIO, "Bad Gateway", "it was asked again in vain" },
	{ 503, -EBUSY, "Service Unavailable", "it was asked again in vain" },
	{ 504, -EIO, "Gateway Timeout", "it was asked again in vain" },
};

int weir__http_answer_fail(const struct weir__http_answer *a, const char *shown,
			   bool hub, char why[static WEIR__HTTP_WHY])
{
	const char *name = "", *means = "the server does not send it";
	int err = a->status >= 500 ? -EIO : -EBADMSG;
	char code[64];

	weir__http_answer_code(a, code);
	if (hub && *a->hub_error)
		snprintf(code, sizeof(code), "%s", a->hub_error);
	for (size_t i = 0; i < sizeof(statuses) / sizeof(*statuses); i++)
		if (statuses[i].status == a->status) {
			name = statuses[i].name;
			means = statuses[i].means;
			err = statuses[i].err;
		}
	for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++)
		if (a->status != 412 && !strcmp(codes[i].code, code)) {
			means = codes[i].means;
			err = codes[i].err;
		}
	if (!strcmp(code, "AuthenticationFailed") &&
	    strstr(a->body, "not valid in the specified time frame"))
		means = "the time of the signature is over, or has not begun: get a new AZURE_STORAGE_SAS_TOKEN or URL";
	if (a->status == 401 && hub && !*code)
		means = "set HF_TOKEN to a token that may read this model";
	snprintf(why, WEIR__HTTP_WHY, "%s: %d%s%s%s%s: %s", shown, a->status,
		 *name ? " " : "", name, *code ? ", " : "", code, means);
	return err;
}

static int wrong(char *why, const char *shown, int status, const char *reason)
{
	snprintf(why, WEIR__HTTP_WHY, "%s: %d, but %s", shown, status, reason);
	return -EBADMSG;
}

static bool is_html(const struct weir__http_answer *a)
{
	return !strcasecmp(a->type, "text/html") ||
	       !strcasecmp(a->type, "application/xhtml+xml");
}

/* A header, where it is given, that makes the body another thing. */
static int check_coding(const struct weir__http_answer *a, const char *shown,
			char *why)
{
	if (!*a->encoding || !strcasecmp(a->encoding, "identity"))
		return 0;
	snprintf(
		why, WEIR__HTTP_WHY,
		"%s: %d, but the server compressed the body (%s), which was not asked for",
		shown, a->status, a->encoding);
	return -EBADMSG;
}

/* 200: the server ignores ranges. */
static int check_whole(const struct weir__http_answer *a,
		       const struct weir__http_want *w, char *why)
{
	if (is_html(a))
		return wrong(
			why, w->shown, a->status,
			"a page of HTML came instead of the object: a portal or login page answers here");
	if (!w->open)
		return wrong(
			why, w->shown, a->status,
			"206 was asked for: the server stopped sending ranges");
	if (!a->has_length)
		return wrong(
			why, w->shown, a->status,
			"the server sends no ranges and no length: copy the file and load the copy");
	if (a->length > w->to - w->from + 1)
		return wrong(
			why, w->shown, a->status,
			"the server sends the whole file for a range of it: it has no ranges; copy the file and load the copy");
	return 1;
}

static int check_total(const struct weir__http_answer *a,
		       const struct weir__http_want *w, char *why)
{
	if (w->open && !a->has_total)
		return wrong(
			why, w->shown, a->status,
			"Content-Range does not have the size of the object");
	if (w->open || !a->has_total || a->total == w->total)
		return 0;
	snprintf(
		why, WEIR__HTTP_WHY,
		"%s: the object changed while it was read: it has %llu bytes, and had %llu",
		w->shown, (unsigned long long)a->total,
		(unsigned long long)w->total);
	return -ESTALE;
}

static int check_range(const struct weir__http_answer *a,
		       const struct weir__http_want *w, char *why)
{
	uint64_t last = w->to;

	if (!a->has_range)
		return wrong(why, w->shown, a->status,
			     "it has no Content-Range that can be read");
	if (w->open && a->has_total && a->total && last >= a->total)
		last = a->total - 1;
	if (a->from != w->from || a->to != last) {
		snprintf(
			why, WEIR__HTTP_WHY,
			"%s: %d with bytes %llu to %llu, %llu to %llu were asked for",
			w->shown, a->status, (unsigned long long)a->from,
			(unsigned long long)a->to, (unsigned long long)w->from,
			(unsigned long long)last);
		return -EBADMSG;
	}
	if (a->has_length && a->length != a->to - a->from + 1) {
		snprintf(why, WEIR__HTTP_WHY,
			 "%s: %d with Content-Length %llu for %llu bytes",
			 w->shown, a->status, (unsigned long long)a->length,
			 (unsigned long long)(a->to - a->from + 1));
		return -EBADMSG;
	}
	return 0;
}

/* Servers may ignore If-Match and If-Unmodified-Since. */
static int check_version(const struct weir__http_answer *a,
			 const struct weir__http_want *w, char *why)
{
	const char *what = NULL;

	if (*w->etag && strcmp(a->etag, w->etag))
		what = "ETag";
	else if (!*w->etag && *w->modified && strcmp(a->modified, w->modified))
		what = "Last-Modified";
	if (!what)
		return 0;
	snprintf(
		why, WEIR__HTTP_WHY,
		"%s: the object changed while it was read: its %s is another one",
		w->shown, what);
	return -ESTALE;
}

int weir__http_answer_check(const struct weir__http_answer *a,
			    const struct weir__http_want *w,
			    char why[static WEIR__HTTP_WHY])
{
	int r;

	/* An empty object has no range of which bytes could be sent. */
	if (a->status == 416 && w->open && a->has_total && !a->total)
		return 1;
	if (a->status != 200 && a->status != 206)
		return weir__http_answer_fail(a, w->shown, w->hub, why);
	r = check_coding(a, w->shown, why);
	if (r < 0)
		return r;
	if (a->status == 200)
		return check_whole(a, w, why);
	if ((r = check_total(a, w, why)) < 0 ||
	    (r = check_range(a, w, why)) < 0)
		return r;
	return w->open ? 0 : check_version(a, w, why);
}
