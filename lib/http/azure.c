/* SPDX-License-Identifier: MIT */
#include "http/azure.h"
#include "http/credentials.h"
#include "http/hmac.h"
#include "http/listing.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_MAX (16u << 20) /* 5000 blobs, in XML */

#define CONNECTION "AZURE_STORAGE_CONNECTION_STRING"

/* The account, as the environment has it. Strings are of malloc, or NULL. */
struct account {
	char *endpoint; /* the URL of the account */
	char *name, *key, *sas;
	char *suffix; /* of the name of its host */
	char *protocol;
	/* Where they come from, for sentences. */
	const char *endpoint_from, *key_from, *sas_from;
};

static void account_clear(struct account *a)
{
	free(a->endpoint);
	free(a->name);
	weir__http_wipe(a->key);
	weir__http_wipe(a->sas);
	free(a->suffix);
	free(a->protocol);
	memset(a, 0, sizeof(*a));
}

static int fail(char *why, int err, const char *shown, const char *from,
		const char *what)
{
	snprintf(why, WEIR__HTTP_WHY, "%s: %s%s", shown, from, what);
	return err;
}

/* The value of @name in "Name=value;...", in malloc; NULL: there is none. */
static char *part_of(const char *text, const char *name)
{
	size_t len = strlen(name);

	while (*text) {
		size_t n = strcspn(text, ";");

		if (n > len + 1 && text[len] == '=' &&
		    !strncasecmp(text, name, len))
			return strndup(text + len + 1, n - len - 1);
		text += n + (text[n] == ';');
	}
	return NULL;
}

/* The value of the first variable that is set, in malloc. */
static char *first_of(const char *a, const char *b, const char **from)
{
	const char *value = weir__http_env(a);

	*from = a;
	if (!value && b) {
		value = weir__http_env(b);
		*from = b;
	}
	return value ? strdup(value) : NULL;
}

static void read_connection(struct account *a, const char *text)
{
	a->endpoint = part_of(text, "BlobEndpoint");
	a->name = part_of(text, "AccountName");
	a->key = part_of(text, "AccountKey");
	a->sas = part_of(text, "SharedAccessSignature");
	a->suffix = part_of(text, "EndpointSuffix");
	a->protocol = part_of(text, "DefaultEndpointsProtocol");
	a->endpoint_from = CONNECTION;
	a->key_from = CONNECTION;
	a->sas_from = CONNECTION;
}

/* -EINVAL: a value would add lines to a request. */
static int read_variables(struct account *a, const char *shown, char *why)
{
	const char *from[5];
	char *const *values[] = { &a->endpoint, &a->name, &a->key, &a->sas,
				  &a->suffix };

	a->endpoint = first_of("AZURE_STORAGE_BLOB_ENDPOINT",
			       "AZURE_STORAGE_SERVICE_ENDPOINT", &from[0]);
	a->name = first_of("AZURE_STORAGE_ACCOUNT_NAME",
			   "AZURE_STORAGE_ACCOUNT", &from[1]);
	a->key = first_of("AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCOUNT_KEY",
			  &from[2]);
	a->sas = first_of("AZURE_STORAGE_SAS_TOKEN", NULL, &from[3]);
	a->suffix = first_of("AZURE_STORAGE_ENDPOINT_SUFFIX", NULL, &from[4]);
	a->endpoint_from = from[0];
	a->key_from = from[2];
	a->sas_from = from[3];
	for (size_t i = 0; i < sizeof(from) / sizeof(*from); i++)
		if (!weir__http_is_printable(*values[i]))
			return fail(why, -EINVAL, shown, from[i],
				    " has a control character");
	return 0;
}

static int read_account(struct account *a, const char *shown, char *why)
{
	const char *connection = weir__http_env(CONNECTION);

	if (!connection)
		return read_variables(a, shown, why);
	if (!weir__http_is_printable(connection))
		return fail(why, -EINVAL, shown, CONNECTION,
			    " has a control character");
	read_connection(a, connection);
	return 0;
}

/* True if it may be a part of a host's name, to which secrets go. */
static bool is_name(const char *text, const char *more)
{
	size_t n = 0;

	while (text[n] &&
	       (strchr(more, text[n]) || (text[n] >= 'a' && text[n] <= 'z') ||
		(text[n] >= '0' && text[n] <= '9')))
		n++;
	return n && !text[n];
}

/* The URL of the account, without '/' at its end. */
static int find_endpoint(struct account *a, const char *shown, char *why)
{
	const char *suffix = a->suffix ? a->suffix : "core.windows.net";
	const char *protocol = a->protocol ? a->protocol : "https";

	if (a->endpoint) {
		for (size_t n = strlen(a->endpoint);
		     n && a->endpoint[n - 1] == '/';)
			a->endpoint[--n] = '\0';
		return 0;
	}
	if (!a->name)
		return fail(
			why, -EINVAL, shown, "",
			"which account has it? Set AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_BLOB_ENDPOINT or " CONNECTION);
	if (!is_name(a->name, "-") || !is_name(suffix, "-."))
		return fail(
			why, -EINVAL, shown, "",
			"the name of the account has a character other than small letters and digits, or the suffix of its endpoint one that hosts do not have");
	/* Some programs take the suffix with "blob.", others without. */
	a->endpoint = weir__http_print(
		"%s://%s.%s%s", protocol, a->name,
		strncmp(suffix, "blob.", 5) ? "blob." : "", suffix);
	return a->endpoint ? 0 : fail(why, -ENOMEM, shown, "", "no memory");
}

/* True if @key is Base64, as keys of accounts are. */
static bool is_key(const char *key)
{
	size_t room = strlen(key) / 4 * 3 + 3;
	uint8_t *bytes = malloc(room);
	bool good = bytes && weir__http_base64_read(key, bytes) > 0;

	if (bytes)
		explicit_bzero(bytes, room);
	free(bytes);
	return good;
}

/* True if the token may be sent there: not in the clear over a network. */
static bool is_safe(const struct weir__http_url *u)
{
	return u->scheme == WEIR__HTTP_HTTPS ||
	       weir__http_address_rank(u->host) == WEIR__HTTP_LOOPBACK;
}

/* A token goes before a key: it has fewer rights. */
static int find_auth(const struct account *a, struct weir__http_start *s,
		     char *why)
{
	const char *shown = s->q.shown, *sas = a->sas;

	if (sas) {
		sas += strspn(sas, "?&");
		if (!*sas || strpbrk(sas, " #"))
			return fail(
				why, -EINVAL, shown, a->sas_from,
				" has no token: it is empty, or has a space or '#'");
		if (!is_safe(&s->u))
			return fail(
				why, -EPERM, shown, a->sas_from,
				" is not sent over plain http, except to this machine: use an endpoint of https");
	} else if (a->key && !a->name) {
		return fail(
			why, -EINVAL, shown, a->key_from,
			" needs AZURE_STORAGE_ACCOUNT_NAME, which is not set");
	} else if (a->key && (!is_name(a->name, "-") || !is_key(a->key))) {
		return fail(
			why, -EINVAL, shown, a->key_from,
			" is no Base64, or the name of its account has a character other than small letters and digits");
	}
	s->q.auth = weir__http_auth_new(WEIR__HTTP_AUTH_AZURE,
					!sas && a->key ? a->name : NULL,
					sas ? sas : a->key, NULL, NULL);
	return s->q.auth ? 0 : fail(why, -ENOMEM, shown, "", "no memory");
}

/* The URL of @tail, which follows that of the account and '/'. */
static int set_url(const struct account *a, const char *tail,
		   struct weir__http_start *s, char *why)
{
	const char *from = a->endpoint_from;

	if (strpbrk(a->endpoint, "?#"))
		return fail(why, -EINVAL, s->q.shown, from,
			    " has an endpoint with a query");
	s->q.url = weir__http_print("%s/%s", a->endpoint, tail);
	if (!s->q.url)
		return fail(why, -ENOMEM, s->q.shown, "", "no memory");
	if (!weir__http_url_parse(s->q.url, &s->u, why) &&
	    s->u.scheme <= WEIR__HTTP_HTTPS && !s->u.user)
		return 0;
	return fail(
		why, -EINVAL, s->q.shown, from,
		" has an endpoint that is no URL of http or https without a user");
}

/* Begin a request for @tail, which follows the URL of the account and '/'. */
static int begin(const struct weir__http_url *u, const char *tail,
		 struct weir__http_start *s, char *why)
{
	struct account a = { 0 };
	int err;

	s->store = true;
	weir__http_url_show(u, s->q.shown);
	err = read_account(&a, s->q.shown, why);
	if (!err)
		err = find_endpoint(&a, s->q.shown, why);
	if (!err)
		err = set_url(&a, tail, s, why);
	if (!err)
		err = find_auth(&a, s, why);
	account_clear(&a);
	return err;
}

int weir__http_azure_begin(const struct weir__http_url *u,
			   struct weir__http_start *s,
			   char why[static WEIR__HTTP_WHY])
{
	char *name = weir__http_encode(u->path, "/");
	char *tail = name ? weir__http_print("%s/%s", u->host, name) : NULL;
	int err;

	weir__http_url_show(u, s->q.shown);
	if (!tail)
		err = fail(why, -ENOMEM, s->q.shown, "", "no memory");
	else if (!*name)
		err = fail(why, -EINVAL, s->q.shown, "", "it names no blob");
	else
		err = begin(u, tail, s, why);
	free(name);
	free(tail);
	return err;
}

/* Names that XML cannot have are percent-encoded. */
static char *name_of(const char *blob)
{
	static const char mark[] = "<Name Encoded=\"true\">";
	const char *p = strstr(blob, mark);
	char *encoded, *name;

	if (!p)
		return weir__http_listing_text(blob, "Name");
	p += sizeof(mark) - 1;
	encoded = strndup(p, strcspn(p, "<"));
	name = encoded ? weir__http_decode(encoded) : NULL;
	free(encoded);
	return name;
}

const struct weir__http_listing weir__http_azure_listing = {
	.what = "blobs",
	.page = "EnumerationResults",
	.object = "Blob",
	.size = "Content-Length",
	.next = "NextMarker",
	.name = name_of,
};

/* The query, with its names in order: a signature needs that. */
static char *list_tail(const struct weir__http_url *u, const char *next)
{
	char *p = weir__http_encode(u->path, "");
	char *t = weir__http_encode(next ? next : "", "");
	char *tail = NULL;

	if (p && t)
		tail = weir__http_print(
			"%s?comp=list&delimiter=%%2F%s%s%s%s&restype=container",
			u->host, next ? "&marker=" : "", t,
			*p ? "&prefix=" : "", p);
	free(p);
	free(t);
	return tail;
}

static int get_page(struct weir__http_remote *r, const struct weir__http_url *u,
		    const char *next, struct weir__http_body *body, char *why)
{
	struct weir__http_start s = { 0 };
	struct weir__http_call call = { .to = body };
	char *tail = list_tail(u, next);
	int err = tail ? begin(u, tail, &s, why) : -ENOMEM;

	if (!err) {
		call.f.q = s.q;
		memset(&s.q, 0, sizeof(s.q));
		body->max = PAGE_MAX;
		err = weir__http_perform(r->client, &s.u, &call, why);
		weir__http_note_unsigned(call.f.q.auth, err, why);
		if (err == 2)
			err = fail(why, -EBADMSG, call.f.q.shown, "",
				   "the list is somewhere else");
	}
	weir__http_call_clear(&call);
	weir__http_start_clear(&s);
	free(tail);
	return err;
}

int weir__http_azure_list(struct weir__http_remote *r,
			  const struct weir__http_url *u,
			  weir_source_found_fn *found, void *arg,
			  char why[static WEIR__HTTP_WHY])
{
	return weir__http_listing_run(&weir__http_azure_listing, get_page, r, u,
				      found, arg, why);
}
