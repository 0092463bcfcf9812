/* SPDX-License-Identifier: MIT */
#include "http/azure_sign.h"
#include "http/proxy.h"
#include "http/trust.h"
#include "http/wire.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* False: no memory. */
static bool copy(char **to, const char *from)
{
	*to = from ? strdup(from) : NULL;
	return *to || !from;
}

struct weir__http_auth *weir__http_auth_new(enum weir__http_auth_kind kind,
					    const char *user, const char *token,
					    const char *region,
					    const char *service)
{
	struct weir__http_auth *auth = calloc(1, sizeof(*auth));

	if (!auth)
		return NULL;
	atomic_init(&auth->refs, 1);
	auth->kind = kind;
	snprintf(auth->region, sizeof(auth->region), "%s",
		 region ? region : "");
	snprintf(auth->service, sizeof(auth->service), "%s",
		 service ? service : "");
	if (copy(&auth->user, user) && copy(&auth->token, token))
		return auth;
	weir__http_auth_put(auth);
	return NULL;
}

struct weir__http_auth *weir__http_auth_get(struct weir__http_auth *auth)
{
	if (auth)
		atomic_fetch_add(&auth->refs, 1);
	return auth;
}

void weir__http_auth_put(struct weir__http_auth *auth)
{
	if (!auth || atomic_fetch_sub(&auth->refs, 1) != 1)
		return;
	weir__http_wipe(auth->user);
	weir__http_wipe(auth->token);
	free(auth->ca);
	free(auth);
}

bool weir__http_auth_is_none(const struct weir__http_auth *auth)
{
	return !auth || (!auth->user && !auth->token);
}

static void wipe_headers(struct weir__http_query *q)
{
	for (struct curl_slist *h = q->headers; h; h = h->next)
		explicit_bzero(h->data, strlen(h->data));
	curl_slist_free_all(q->headers);
	q->headers = NULL;
}

void weir__http_query_clear(struct weir__http_query *q)
{
	wipe_headers(q);
	weir__http_wipe(q->url);
	weir__http_wipe(q->post);
	for (size_t i = 0; i < sizeof(q->extra) / sizeof(*q->extra); i++)
		weir__http_wipe(q->extra[i]);
	weir__http_auth_put(q->auth);
	memset(q, 0, sizeof(*q));
}

static bool add_header(struct weir__http_query *q, const char *text)
{
	struct curl_slist *list = curl_slist_append(q->headers, text);

	if (list)
		q->headers = list;
	return list;
}

static bool add_pair(struct weir__http_query *q, const char *name,
		     const char *value)
{
	char *text = weir__http_print("%s: %s", name, value);
	bool good = text && add_header(q, text);

	weir__http_wipe(text);
	return good;
}

/* The version of the service, also for requests without a signature. */
static bool wire_azure(struct weir__http_query *q)
{
	char date[40], range[48] = "", *value;
	struct weir__http_azure_get get = {
		.url = q->url,
		.date = date,
		.range = range,
		.match = q->match,
		.unmodified = q->unmodified,
	};
	bool good;

	if (!add_pair(q, "x-ms-version", WEIR__HTTP_AZURE_VERSION))
		return false;
	if (!q->auth->user)
		return true;
	weir__http_azure_date(time(NULL), date);
	if (q->range)
		snprintf(range, sizeof(range), "bytes=%llu-%llu",
			 (unsigned long long)q->from,
			 (unsigned long long)q->to);
	value = weir__http_azure_sign(q->auth->user, q->auth->token, &get);
	good = value && add_pair(q, "x-ms-date", date) &&
	       add_pair(q, "Authorization", value);
	weir__http_wipe(value);
	return good;
}

/*
 * If-Match is no header that a signature of AWS must cover; x-amz-* are, and
 * libcurl signs those it is given.
 */
static bool wire_headers(struct weir__http_query *q)
{
	const struct weir__http_auth *auth = q->auth;
	bool aws = auth && auth->kind == WEIR__HTTP_AUTH_AWS && auth->user;

	if (!add_header(q, "Accept-Encoding: identity") ||
	    (q->post && !add_header(q, "Expect:")) ||
	    (*q->match && !add_pair(q, "If-Match", q->match)) ||
	    (*q->unmodified &&
	     !add_pair(q, "If-Unmodified-Since", q->unmodified)))
		return false;
	for (size_t i = 0; i < sizeof(q->extra) / sizeof(*q->extra); i++)
		if (q->extra[i] && !add_header(q, q->extra[i]))
			return false;
	if (auth && auth->kind == WEIR__HTTP_AUTH_BEARER) {
		char *text = weir__http_print("Authorization: Bearer %s",
					      auth->token);
		bool good = text && add_header(q, text);

		weir__http_wipe(text);
		return good;
	}
	if (auth && auth->kind == WEIR__HTTP_AUTH_AZURE)
		return wire_azure(q);
	if (aws && !strcmp(auth->service, "s3") &&
	    !add_header(q, "x-amz-content-sha256: UNSIGNED-PAYLOAD"))
		return false;
	return !aws || !auth->token ||
	       add_pair(q, "x-amz-security-token", auth->token);
}

static enum weir__http_rank rank_of(const struct sockaddr *addr, socklen_t len)
{
	char text[NI_MAXHOST];

	if (getnameinfo(addr, len, text, sizeof(text), NULL, 0, NI_NUMERICHOST))
		return WEIR__HTTP_LINK;
	return weir__http_address_rank(text);
}

/* Opens the socket of a connection, unless it goes too far inside. */
static curl_socket_t open_socket(void *arg, curlsocktype purpose,
				 struct curl_sockaddr *addr)
{
	struct weir__http_query *q = arg;

	(void)purpose;
	if (rank_of(&addr->addr, addr->addrlen) > q->inside) {
		q->went_inside = true;
		return CURL_SOCKET_BAD;
	}
	return socket(addr->family, addr->socktype | SOCK_CLOEXEC,
		      addr->protocol);
}

#if LIBCURL_VERSION_NUM >= 0x075000
/* A connection that is used again was opened for a request without @inside. */
static int check_connection(void *arg, char *ip, char *local_ip, int port,
			    int local_port)
{
	struct weir__http_query *q = arg;
	enum weir__http_rank rank = weir__http_address_rank(ip);

	(void)local_ip;
	(void)port;
	(void)local_port;
	if (rank != WEIR__HTTP_NAME && rank <= q->inside)
		return CURL_PREREQFUNC_OK;
	q->went_inside = true;
	return CURL_PREREQFUNC_ABORT;
}
#endif

enum weir__http_rank weir__http_wire_rank(CURL *easy,
					  const struct weir__http_url *u)
{
	enum weir__http_rank rank = weir__http_address_rank(u->host);
	char *ip = NULL;

	if (rank == WEIR__HTTP_NAME && !weir__http_has_proxy(u) &&
	    !curl_easy_getinfo(easy, CURLINFO_PRIMARY_IP, &ip) && ip && *ip)
		rank = weir__http_address_rank(ip);
	return rank == WEIR__HTTP_NAME ? WEIR__HTTP_PUBLIC : rank;
}

#define SET(option, value)                                                 \
	do {                                                               \
		CURLcode code_ = curl_easy_setopt(easy, option, value);    \
		if (code_)                                                 \
			return code_ == CURLE_OUT_OF_MEMORY ? -ENOMEM      \
							    : -EOPNOTSUPP; \
	} while (0)

/* CURLOPT_PROTOCOLS, at which compilers warn where there is a newer option. */
#define PROTOCOLS ((CURLoption)(CURLOPTTYPE_LONG + 181))

/*
 * The libcurl that runs may be older than the header that was compiled: an
 * option that 7.75 lacks is tried first, and replaced if libcurl refuses it.
 */
static int wire_protocols(CURL *easy)
{
#if LIBCURL_VERSION_NUM >= 0x075500
	if (!curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https"))
		return 0;
#endif
	SET(PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
	return 0;
}

static int wire_auth(CURL *easy, const struct weir__http_auth *auth)
{
	char text[96];

	if (!auth || !auth->user || auth->kind == WEIR__HTTP_AUTH_AZURE)
		return 0;
	SET(CURLOPT_USERPWD, auth->user);
	if (auth->kind == WEIR__HTTP_AUTH_BASIC) {
		SET(CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
		return 0;
	}
	snprintf(text, sizeof(text), "aws:amz:%s:%s", auth->region,
		 auth->service);
	SET(CURLOPT_AWS_SIGV4, text);
	return 0;
}

/* A token of Azure is a part of the query, only in what libcurl has. */
static int wire_url(CURL *easy, const struct weir__http_query *q)
{
	const struct weir__http_auth *auth = q->auth;
	CURLcode code;
	char *url;

	if (!auth || auth->kind != WEIR__HTTP_AUTH_AZURE || auth->user ||
	    !auth->token) {
		SET(CURLOPT_URL, q->url);
		return 0;
	}
	url = weir__http_print("%s%c%s", q->url,
			       strchr(q->url, '?') ? '&' : '?', auth->token);
	if (!url)
		return -ENOMEM;
	code = curl_easy_setopt(easy, CURLOPT_URL, url);
	weir__http_wipe(url);
	return code ? -ENOMEM : 0;
}

static int wire_body(CURL *easy, struct weir__http_query *q)
{
	if (q->post) {
		SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(q->post));
		SET(CURLOPT_POSTFIELDS, q->post);
	}
	if (q->method)
		SET(CURLOPT_CUSTOMREQUEST, q->method);
	return 0;
}

/* Refuse addresses that are further inside than @q->inside. */
static int wire_inside(CURL *easy, struct weir__http_query *q)
{
	SET(CURLOPT_OPENSOCKETFUNCTION, open_socket);
	SET(CURLOPT_OPENSOCKETDATA, q);
#if LIBCURL_VERSION_NUM >= 0x075000
	if (!curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, check_connection)) {
		SET(CURLOPT_PREREQDATA, q);
		return 0;
	}
#endif
	SET(CURLOPT_FRESH_CONNECT, 1L);
	return 0;
}

static int wire_connection(CURL *easy, struct weir__http_query *q)
{
	int r = weir__http_trust(easy, q->auth);

	if (r < 0)
		return r;
	SET(CURLOPT_SSL_VERIFYPEER, 1L);
	SET(CURLOPT_SSL_VERIFYHOST, 2L);
	SET(CURLOPT_CONNECTTIMEOUT_MS,
	    (long)(q->connect_ms ? q->connect_ms : 15000));
	SET(CURLOPT_TCP_KEEPALIVE, 1L);
	/*
	 * A buffer for each connection, beside the slots of a load: together
	 * they stay within weir_opts.staging. Larger ones are not faster.
	 */
	SET(CURLOPT_BUFFERSIZE, 128L * 1024);
#if LIBCURL_VERSION_NUM >= 0x075700
	/*
	 * A request that ends while its host's name is sought: libcurl's thread
	 * for that is left to end by itself, or the system's resolver would
	 * hold up this thread with all its other requests. An older libcurl at
	 * run time waits.
	 */
	(void)curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
#endif
	SET(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
	/* Streams of one HTTP/2 connection would share its window. */
	SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	if (q->fresh)
		SET(CURLOPT_FRESH_CONNECT, 1L);
	if (q->direct)
		SET(CURLOPT_NOPROXY, "*");
	if (q->inside && (q->direct || !weir__http_goes_by_proxy(q->url)))
		return wire_inside(easy, q);
	return 0;
}

int weir__http_wire(CURL *easy, struct weir__http_query *q)
{
	char range[48];
	int r;

	curl_easy_reset(easy);
	wipe_headers(q);
	q->went_inside = false;
	q->proxy_status = 0;
	if (!wire_headers(q))
		return -ENOMEM;
	r = wire_url(easy, q);
	if (r < 0)
		return r;
	/* A signature covers the path as it is written here. */
	SET(CURLOPT_PATH_AS_IS, 1L);
	SET(CURLOPT_HTTPHEADER, q->headers);
	SET(CURLOPT_NOSIGNAL, 1L);
	SET(CURLOPT_FOLLOWLOCATION, 0L);
	SET(CURLOPT_USERAGENT, "weir");
	if (q->range) {
		snprintf(range, sizeof(range), "%llu-%llu",
			 (unsigned long long)q->from,
			 (unsigned long long)q->to);
		SET(CURLOPT_RANGE, range);
	}
	r = wire_protocols(easy);
	if (!r)
		r = wire_auth(easy, q->auth);
	if (!r)
		r = wire_body(easy, q);
	return r ? r : wire_connection(easy, q);
}

bool weir__http_wire_retry(const struct weir__http_query *q, CURLcode code)
{
	if (q->proxy_status >= 400 && q->proxy_status < 500)
		return false;
	switch (code) {
	case CURLE_COULDNT_RESOLVE_PROXY:
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_CONNECT:
	case CURLE_PARTIAL_FILE:
	case CURLE_OPERATION_TIMEDOUT:
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_GOT_NOTHING:
	case CURLE_SEND_ERROR:
	case CURLE_RECV_ERROR:
	case CURLE_WEIRD_SERVER_REPLY:
	case CURLE_UNSUPPORTED_PROTOCOL:
	case CURLE_ABORTED_BY_CALLBACK:
	case CURLE_WRITE_ERROR:
	case CURLE_HTTP2:
		return true;
	default:
		return false;
	}
}

static const struct {
	CURLcode code;
	int err;
	const char *means;
} failures[] = {
	{ CURLE_COULDNT_RESOLVE_HOST, -EHOSTUNREACH,
	  "its host has no address: DNS does not know the name, or does not answer" },
	{ CURLE_COULDNT_RESOLVE_PROXY, -EHOSTUNREACH,
	  "the proxy cannot be used: its host has no address, or the variable that names it (https_proxy and others) has no URL" },
	{ CURLE_PROXY, -ECONNREFUSED, "the proxy does not make a connection" },
	{ CURLE_COULDNT_CONNECT, -ECONNREFUSED,
	  "its host does not take connections" },
	{ CURLE_OPERATION_TIMEDOUT, -ETIMEDOUT, "its host does not answer" },
	{ CURLE_PEER_FAILED_VERIFICATION, -EPROTO,
	  "the certificate of its host is not valid for it; CURL_CA_BUNDLE names other authorities" },
	{ CURLE_SSL_CACERT_BADFILE, -EPROTO,
	  "the file of CURL_CA_BUNDLE, REQUESTS_CA_BUNDLE, SSL_CERT_FILE or of AWS cannot be read" },
	{ CURLE_SSL_CONNECT_ERROR, -EPROTO, "TLS does not work with its host" },
	{ CURLE_PARTIAL_FILE, -EIO,
	  "the connection is cut before the end, again and again" },
	{ CURLE_GOT_NOTHING, -EIO, "its host closes connections unanswered" },
	{ CURLE_RECV_ERROR, -EIO, "the connection breaks, again and again" },
	{ CURLE_SEND_ERROR, -EIO, "the connection breaks, again and again" },
	{ CURLE_WEIRD_SERVER_REPLY, -EPROTO, "its host does not speak HTTP" },
	{ CURLE_UNSUPPORTED_PROTOCOL, -EPROTO, "its host does not speak HTTP" },
	{ CURLE_OUT_OF_MEMORY, -ENOMEM, "no memory" },
};

int weir__http_wire_fail(const struct weir__http_query *q, CURLcode code,
			 const char *detail, char why[static WEIR__HTTP_WHY])
{
	const char *means = curl_easy_strerror(code);
	int err = -EIO;

	if (q->went_inside) {
		snprintf(
			why, WEIR__HTTP_WHY,
			"%s: refused: the answer of another host led to this address of an inner network",
			q->shown);
		return -EPERM;
	}
	if (q->proxy_status >= 300)
		return weir__http_proxy_fail(q->shown, q->proxy_status, why);
	for (size_t i = 0; i < sizeof(failures) / sizeof(*failures); i++)
		if (failures[i].code == code) {
			means = failures[i].means;
			err = failures[i].err;
		}
	if (code == CURLE_COULDNT_CONNECT && !q->direct &&
	    weir__http_goes_by_proxy(q->url))
		means = "the proxy does not take connections";
	/* libcurl's texts of these have no part of the URL but its host. */
	if (code != CURLE_PEER_FAILED_VERIFICATION &&
	    code != CURLE_SSL_CONNECT_ERROR && code != CURLE_COULDNT_CONNECT)
		detail = "";
	snprintf(why, WEIR__HTTP_WHY, "%s: %s%s%.120s%s", q->shown, means,
		 *detail ? " (" : "", detail, *detail ? ")" : "");
	return err;
}
