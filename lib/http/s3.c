/* SPDX-License-Identifier: MIT */
#include "http/s3.h"
#include "http/listing.h"
#include "http/roles.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define PAGE_MAX (8u << 20) /* 1000 keys of 1 KiB, in XML */

/* Buckets that can be a name of a host in a certificate of AWS. */
static bool is_host_name(const char *bucket)
{
	for (const char *p = bucket; *p; p++)
		if (!((*p >= 'a' && *p <= 'z') || (*p >= '0' && *p <= '9') ||
		      *p == '-'))
			return false;
	return strlen(bucket) <= 63;
}

/* The endpoint that variables or the profile name, in malloc; NULL: none. */
static char *given_endpoint(const struct weir__http_url *u)
{
	if (u->scheme == WEIR__HTTP_GS) {
		const char *given = weir__http_env("STORAGE_EMULATOR_HOST");

		if (given && !strstr(given, "://"))
			return weir__http_print("http://%s", given);
		return given ? strdup(given) : NULL;
	}
	return weir__http_endpoint("s3");
}

enum style {
	STYLE_AUTO,
	STYLE_PATH,
	STYLE_VIRTUAL,
	STYLE_NONE
};

/* How the profile wants buckets to be named: in the path, or in the host. */
static enum style find_style(const struct weir__http_url *u)
{
	static const char *const names[] = { "auto", "path", "virtual" };
	enum style style = STYLE_AUTO;
	struct weir__http_profiles p;
	char *value;

	if (u->scheme != WEIR__HTTP_S3)
		return STYLE_AUTO;
	weir__http_profiles_read(&p);
	value = weir__http_profile_s3(&p, "addressing_style");
	weir__http_profiles_clear(&p);
	while (value && style < STYLE_NONE && strcasecmp(value, names[style]))
		style++;
	free(value);
	return style;
}

/* The URL of the bucket at an endpoint, with '/' at its end. */
static char *url_at(const char *given, const char *bucket, enum style style)
{
	const char *host = strstr(given, "://");
	size_t n = strlen(given);

	while (n && given[n - 1] == '/')
		n--;
	if (style != STYLE_VIRTUAL || !host)
		return weir__http_print("%.*s/%s/", (int)n, given, bucket);
	host += 3;
	return weir__http_print("%.*s%s.%.*s/", (int)(host - given), given,
				bucket, (int)(n - (size_t)(host - given)),
				host);
}

/* The URL of the bucket, with '/' at its end; NULL: no memory. */
static char *bucket_url(const struct weir__http_url *u, const char *region,
			enum style style)
{
	char *given = given_endpoint(u), *url;
	const char *cn = weir__http_cn(region);

	if (given)
		url = url_at(given, u->host, style);
	else if (u->scheme == WEIR__HTTP_GS)
		url = weir__http_print("https://storage.googleapis.com/%s/",
				       u->host);
	else if (style != STYLE_PATH && is_host_name(u->host))
		url = weir__http_print("https://%s.s3.%s.amazonaws.com%s/",
				       u->host, region, cn);
	else
		url = weir__http_print("https://s3.%s.amazonaws.com%s/%s/",
				       region, cn, u->host);
	free(given);
	return url;
}

/* What the profile, or a variable, wants and is not done. */
static int check_wanted(const struct weir__http_url *u, enum style style,
			char *why)
{
	const char *fips = weir__http_env("AWS_USE_FIPS_ENDPOINT");
	char *given = NULL, *value = NULL;
	int err = 0;

	if (u->scheme != WEIR__HTTP_S3)
		return 0;
	if (style == STYLE_NONE)
		return weir__http_profile_fail(
			why, weir__http_profile_name(),
			"has an addressing_style of s3 that is none of auto, path and virtual");
	if (!fips)
		fips = value = weir__http_profile_value("use_fips_endpoint");
	if (fips && !strcasecmp(fips, "true") &&
	    !(given = weir__http_endpoint("s3"))) {
		snprintf(
			why, WEIR__HTTP_WHY,
			"an endpoint of FIPS is wanted (AWS_USE_FIPS_ENDPOINT, use_fips_endpoint): name it by AWS_ENDPOINT_URL_S3");
		err = -EINVAL;
	}
	free(given);
	free(value);
	return err;
}

/* A bearer, keys of HMAC, or nothing for public buckets. */
static int auth_google(struct weir__http_auth **ret, char *why)
{
	const char *token = weir__http_env("CLOUDSDK_AUTH_ACCESS_TOKEN");
	const char *id = weir__http_env("GS_ACCESS_KEY_ID");
	const char *secret = weir__http_env("GS_SECRET_ACCESS_KEY");
	char *user;

	*ret = NULL;
	if (!weir__http_is_printable(token) || !weir__http_is_printable(id) ||
	    !weir__http_is_printable(secret)) {
		snprintf(
			why, WEIR__HTTP_WHY,
			"CLOUDSDK_AUTH_ACCESS_TOKEN, GS_ACCESS_KEY_ID or GS_SECRET_ACCESS_KEY has a control character");
		return -EINVAL;
	}
	if (token) {
		*ret = weir__http_auth_new(WEIR__HTTP_AUTH_BEARER, NULL, token,
					   NULL, NULL);
	} else if (id && secret) {
		user = weir__http_print("%s:%s", id, secret);
		if (user)
			*ret = weir__http_auth_new(WEIR__HTTP_AUTH_AWS, user,
						   NULL, "auto", "s3");
		weir__http_wipe(user);
	} else {
		return 0;
	}
	if (*ret)
		return 0;
	snprintf(why, WEIR__HTTP_WHY, "no memory");
	return -ENOMEM;
}

/*
 * Before 7.87 libcurl signs the digest of an empty body rather than what
 * x-amz-content-sha256 says, and not the headers of AWS: S3 refuses that.
 */
static int check_signing(const struct weir__http_start *s, char *why)
{
	const curl_version_info_data *info = curl_version_info(CURLVERSION_NOW);

	if (!s->q.auth || s->q.auth->kind != WEIR__HTTP_AUTH_AWS ||
	    !s->q.auth->user || info->version_num >= 0x075700)
		return 0;
	snprintf(
		why, WEIR__HTTP_WHY,
		"%s: libcurl is %s, 7.87 is needed to sign requests: use a signed URL of https",
		s->q.shown, info->version);
	return -ENOSYS;
}

/* Begin a request for @tail, which follows the bucket's URL. */
static int begin(struct weir__http_remote *r, const struct weir__http_url *u,
		 const struct weir__http_auth *refused, const char *tail,
		 struct weir__http_start *s, char *why)
{
	char region[40] = "auto", *url, *text;
	enum style style = find_style(u);
	int err = check_wanted(u, style, why);

	s->store = true;
	weir__http_url_show(u, s->q.shown);
	if (err < 0)
		return err;
	if (u->scheme == WEIR__HTTP_GS) {
		err = auth_google(&s->q.auth, why);
	} else {
		weir__http_cloud_region(r, u->host, region);
		err = weir__http_cloud_auth(r, region, refused, &s->q.auth,
					    why);
	}
	if (!err)
		err = check_signing(s, why);
	if (err < 0)
		return err;
	url = bucket_url(u, region, style);
	text = url ? weir__http_print("%s%s", url, tail) : NULL;
	free(url);
	if (!text) {
		snprintf(why, WEIR__HTTP_WHY, "no memory");
		return -ENOMEM;
	}
	err = weir__http_url_parse(text, &s->u, why);
	if (!err && s->u.scheme > WEIR__HTTP_HTTPS) {
		snprintf(why, WEIR__HTTP_WHY,
			 "the endpoint of S3 is no URL of http or https");
		err = -EINVAL;
	}
	s->q.url = text;
	return err;
}

int weir__http_s3_begin(struct weir__http_remote *r,
			const struct weir__http_url *u,
			const struct weir__http_auth *refused,
			struct weir__http_start *s,
			char why[static WEIR__HTTP_WHY])
{
	char *key = weir__http_encode(u->path, "/");
	int err;

	if (!key || !*key) {
		weir__http_url_show(u, s->q.shown);
		snprintf(why, WEIR__HTTP_WHY, "%s: it names no key",
			 s->q.shown);
		free(key);
		return -EINVAL;
	}
	err = begin(r, u, refused, key, s, why);
	free(key);
	return err;
}

static char *name_of(const char *contents)
{
	return weir__http_listing_text(contents, "Key");
}

static const struct weir__http_listing listing = {
	.what = "keys",
	.page = "ListBucketResult",
	.object = "Contents",
	.size = "Size",
	.next = "NextContinuationToken",
	.name = name_of,
};

/* The query, with its names in order: a signature needs that. */
static char *list_query(const char *prefix, const char *next)
{
	char *p = weir__http_encode(prefix, "");
	char *t = weir__http_encode(next ? next : "", "");
	char *query = NULL;

	if (p && t)
		query = weir__http_print(
			"?%s%s%sdelimiter=%%2F&list-type=2&prefix=%s",
			next ? "continuation-token=" : "", t, next ? "&" : "",
			p);
	free(p);
	free(t);
	return query;
}

static int request_page(struct weir__http_remote *r,
			const struct weir__http_url *u, const char *query,
			struct weir__http_body *body, char *why)
{
	struct weir__http_start s = { 0 };
	struct weir__http_call call = { .to = body };
	int err = begin(r, u, NULL, query, &s, why);

	if (!err) {
		call.f.q = s.q;
		memset(&s.q, 0, sizeof(s.q));
		body->max = PAGE_MAX;
		err = weir__http_perform(r->client, &s.u, &call, why);
		weir__http_note_unsigned(call.f.q.auth, err, why);
		if (err < 0 && u->scheme == WEIR__HTTP_S3 &&
		    weir__http_cloud_learn(r, u->host, call.f.a.region))
			err = -EAGAIN;
		if (err == 2) {
			snprintf(why, WEIR__HTTP_WHY,
				 "%s: the list is somewhere else",
				 call.f.q.shown);
			err = -EBADMSG;
		}
	}
	weir__http_call_clear(&call);
	weir__http_start_clear(&s);
	return err;
}

static int get_page(struct weir__http_remote *r, const struct weir__http_url *u,
		    const char *next, struct weir__http_body *body, char *why)
{
	char *query = list_query(u->path, next);
	int err = query ? request_page(r, u, query, body, why) : -ENOMEM;

	/* The bucket is in another region, which is known now. */
	if (err == -EAGAIN)
		err = request_page(r, u, query, body, why);
	free(query);
	return err;
}

int weir__http_s3_list(struct weir__http_remote *r,
		       const struct weir__http_url *u,
		       weir_source_found_fn *found, void *arg,
		       char why[static WEIR__HTTP_WHY])
{
	return weir__http_listing_run(&listing, get_page, r, u, found, arg,
				      why);
}
