/* SPDX-License-Identifier: MIT */
/*
 * Credentials of IAM Identity Center: `aws sso login` keeps a token in a file,
 * for which the service gives the keys of a role. The token is not renewed.
 */
#include "http/roles.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jansson.h>

#define TOKEN_MAX (64u << 10)

static uint32_t rotate(uint32_t x, unsigned n)
{
	return x << n | x >> (32 - n);
}

static void sha1_block(uint32_t h[5], const unsigned char *block)
{
	static const uint32_t add[4] = { 0x5a827999, 0x6ed9eba1, 0x8f1bbcdc,
					 0xca62c1d6 };
	uint32_t w[80], a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];

	for (unsigned i = 0; i < 16; i++)
		w[i] = (uint32_t)block[4 * i] << 24 |
		       (uint32_t)block[4 * i + 1] << 16 |
		       (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
	for (unsigned i = 16; i < 80; i++)
		w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
	for (unsigned i = 0; i < 80; i++) {
		uint32_t f = i < 20             ? (b & c) | (~b & d)
			     : i < 40 || i > 59 ? b ^ c ^ d
						: (b & c) | (b & d) | (c & d);
		uint32_t next = rotate(a, 5) + f + e + add[i / 20] + w[i];

		e = d;
		d = c;
		c = rotate(b, 30);
		b = a;
		a = next;
	}
	h[0] += a;
	h[1] += b;
	h[2] += c;
	h[3] += d;
	h[4] += e;
}

/* By which AWS's clients name files of tokens; it protects nothing. */
void weir__http_sha1(const char *text, char hex[static 41])
{
	uint32_t h[5] = { 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476,
			  0xc3d2e1f0 };
	size_t n = strlen(text), at = 0;
	uint64_t bits = (uint64_t)n * 8;
	unsigned char last[128] = { 0 };
	size_t rest, room;

	for (; n - at >= 64; at += 64)
		sha1_block(h, (const unsigned char *)text + at);
	rest = n - at;
	room = rest < 56 ? 64 : 128;
	memcpy(last, text + at, rest);
	last[rest] = 0x80;
	for (unsigned i = 0; i < 8; i++)
		last[room - 1 - i] = (unsigned char)(bits >> (8 * i));
	for (at = 0; at < room; at += 64)
		sha1_block(h, last + at);
	for (unsigned i = 0; i < 5; i++)
		snprintf(hex + 8 * (size_t)i, 9, "%08x", h[i]);
}

/* The settings of a session in a profile: strings of malloc, or NULL. */
struct session {
	char *name; /* of its section; NULL: the profile has all itself */
	char *account, *role, *url, *region;
};

static void session_clear(struct session *s)
{
	free(s->name);
	free(s->account);
	free(s->role);
	free(s->url);
	free(s->region);
}

/* False: the profile has none. */
static bool session_read(const struct weir__http_profiles *p, const char *name,
			 struct session *s)
{
	*s = (struct session){
		.name = weir__http_profile_get(p, name, "sso_session"),
		.account = weir__http_profile_get(p, name, "sso_account_id"),
		.role = weir__http_profile_get(p, name, "sso_role_name"),
	};
	if (s->name) {
		s->url = weir__http_profile_section(p, "sso-session", s->name,
						    NULL, "sso_start_url");
		s->region = weir__http_profile_section(
			p, "sso-session", s->name, NULL, "sso_region");
	} else {
		s->url = weir__http_profile_get(p, name, "sso_start_url");
		s->region = weir__http_profile_get(p, name, "sso_region");
	}
	/* With a session alone a profile may be for other services. */
	return s->account || s->role;
}

static int fail_login(char *why, const char *name, const char *what)
{
	snprintf(
		why, WEIR__HTTP_WHY,
		"the profile '%.64s' of AWS is one of IAM Identity Center, and %s: run aws sso login --profile %.64s",
		name, what, name);
	return -EACCES;
}

/* The token that was kept for the session, in memory of malloc. */
static int read_token(const struct session *s, const char *name, char **ret,
		      char *why)
{
	const char *home = weir__http_env("HOME"), *token, *until;
	char hex[41], *path, *text;
	json_t *object;
	int err = 0;

	weir__http_sha1(s->name ? s->name : s->url, hex);
	path = weir__http_print("%s/.aws/sso/cache/%s.json", home ? home : "",
				hex);
	text = path ? weir__http_file(path, TOKEN_MAX) : NULL;
	free(path);
	if (!text)
		return fail_login(why, name, "there is no session");
	object = json_loads(text, 0, NULL);
	weir__http_wipe(text);
	token = json_string_value(json_object_get(object, "accessToken"));
	until = json_string_value(json_object_get(object, "expiresAt"));
	if (!token || !until || !weir__http_is_printable(token))
		err = fail_login(why, name,
				 "the file of its session cannot be read");
	else if (weir__http_time(until) <= time(NULL))
		err = fail_login(why, name, "its session has ended");
	else
		*ret = strdup(token);
	json_decref(object);
	return err;
}

static char *copy_of(const json_t *object, const char *key)
{
	const char *value = json_string_value(json_object_get(object, key));

	return value ? strdup(value) : NULL;
}

static int read_keys(const char *text, struct weir__http_keys *k, char *why)
{
	json_t *object = json_loads(text, 0, NULL);
	const json_t *keys = json_object_get(object, "roleCredentials");

	k->id = copy_of(keys, "accessKeyId");
	k->secret = copy_of(keys, "secretAccessKey");
	k->token = copy_of(keys, "sessionToken");
	k->until =
		json_integer_value(json_object_get(keys, "expiration")) / 1000;
	json_decref(object);
	return weir__http_keys_check(k, "IAM Identity Center", why);
}

/* The URL of GetRoleCredentials, in memory of malloc; NULL: no memory. */
static char *keys_url(const struct session *s)
{
	char *given = weir__http_endpoint("sso");
	char *account = weir__http_encode(s->account, "");
	char *role = weir__http_encode(s->role, ""), *url = NULL;
	size_t n = given ? strlen(given) : 0;

	n -= n && given[n - 1] == '/';
	if (given && account && role)
		url = weir__http_print(
			"%.*s/federation/credentials?account_id=%s&role_name=%s",
			(int)n, given, account, role);
	else if (account && role)
		url = weir__http_print(
			"https://portal.sso.%s.amazonaws.com%s/federation/credentials?account_id=%s&role_name=%s",
			s->region, weir__http_cn(s->region), account, role);
	free(given);
	free(account);
	free(role);
	return url;
}

/* The keys for @token. */
static int get_keys(struct weir__http_remote *r, const struct session *s,
		    const char *name, const char *token,
		    struct weir__http_keys *k, char *why)
{
	struct weir__http_call call = { 0 };
	struct weir__http_body body = { 0 };
	char *url = keys_url(s);
	int err = -ENOMEM;

	call.f.q.extra[0] =
		weir__http_print("x-amz-sso_bearer_token: %s", token);
	call.f.q.auth = weir__http_auth_aws(NULL, NULL, s->region, "sso");
	if (url && call.f.q.extra[0] && call.f.q.auth)
		err = weir__http_ask(r, url, &call, &body, why);
	else
		snprintf(why, WEIR__HTTP_WHY, "no memory");
	if (!err)
		err = read_keys(body.data, k, why);
	else if (call.f.a.status == 401)
		err = fail_login(why, name, "its session has ended");
	else if (call.f.a.status == 403 || call.f.a.status == 404)
		err = weir__http_profile_fail(
			why, name,
			"is one of IAM Identity Center, which does not give this role of this account: look at sso_account_id and sso_role_name");
	weir__http_call_clear(&call);
	weir__http_body_clear(&body);
	free(url);
	return err < 0 ? err : 1;
}

int weir__http_sso(struct weir__http_remote *r,
		   const struct weir__http_profiles *p, const char *name,
		   struct weir__http_keys *k, char why[static WEIR__HTTP_WHY])
{
	struct session s;
	char *token = NULL;
	int err = 0;

	if (session_read(p, name, &s)) {
		if (!s.account || !s.role || !s.url || !s.region ||
		    !weir__http_is_region(s.region))
			err = weir__http_profile_fail(
				why, name,
				"lacks one of sso_account_id, sso_role_name, sso_start_url and sso_region; the last two are in its sso-session, if it names one");
		else
			err = read_token(&s, name, &token, why);
		if (!err && !token)
			err = -ENOMEM;
		if (!err)
			err = get_keys(r, &s, name, token, k, why);
	}
	weir__http_wipe(token);
	session_clear(&s);
	return err;
}
