/* SPDX-License-Identifier: MIT */
#include "http/credentials.h"
#include "http/profile.h"
#include "http/roles.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#define NONE 60  /* seconds that it stays so if there are none */
#define SOON 120 /* seconds before their end credentials are not used */

/* A bucket whose region a server has said. */
struct weir__http_bucket {
	struct weir__http_bucket *next;
	char name[256];
	char region[40];
};

/* The lock guards all; it is held while credentials are fetched. */
struct weir__http_cloud {
	pthread_mutex_t lock;
	struct weir__http_keys keys;
	bool kept;
	int64_t none_until; /* none were found; not looked for until then */
	struct weir__http_bucket *buckets;
};

const char *weir__http_env(const char *name)
{
	const char *value = secure_getenv(name);

	return value && *value ? value : NULL;
}

char *weir__http_file(const char *path, size_t max)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char *text = fd < 0 ? NULL : malloc(max + 1);
	size_t n = 0;
	ssize_t got = 0;

	while (text && n < max && (got = read(fd, text + n, max - n)) > 0)
		n += (size_t)got;
	if (fd >= 0)
		close(fd);
	if (!text || got < 0) {
		free(text);
		return NULL;
	}
	while (n && isspace((unsigned char)text[n - 1]))
		n--;
	text[n] = '\0';
	return text;
}

void weir__http_keys_clear(struct weir__http_keys *k)
{
	weir__http_wipe(k->id);
	weir__http_wipe(k->secret);
	weir__http_wipe(k->token);
	memset(k, 0, sizeof(*k));
}

int64_t weir__http_time(const char *text)
{
	struct tm tm = { 0 };

	if (sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d", &tm.tm_year, &tm.tm_mon,
		   &tm.tm_mday, &tm.tm_hour, &tm.tm_min, &tm.tm_sec) != 6)
		return 0;
	tm.tm_year -= 1900;
	tm.tm_mon--;
	return timegm(&tm);
}

char *weir__http_xml(const char *text, const char *name)
{
	size_t len = strlen(name);
	const char *p = text, *end;

	while ((p = strchr(p, '<'))) {
		p++;
		if (strncmp(p, name, len) || p[len] != '>')
			continue;
		p += len + 1;
		end = strchr(p, '<');
		return end ? strndup(p, (size_t)(end - p)) : NULL;
	}
	return NULL;
}

bool weir__http_is_printable(const char *secret)
{
	for (; secret && *secret; secret++)
		if ((unsigned char)*secret < 0x20 || *secret == 0x7f)
			return false;
	return true;
}

int weir__http_keys_check(struct weir__http_keys *k, const char *from,
			  char why[static WEIR__HTTP_WHY])
{
	bool whole = k->id && *k->id && k->secret && *k->secret;

	if (whole && weir__http_is_printable(k->id) &&
	    weir__http_is_printable(k->secret) &&
	    weir__http_is_printable(k->token))
		return 0;
	weir__http_keys_clear(k);
	if (whole)
		snprintf(why, WEIR__HTTP_WHY,
			 "a key or token of %s has a control character", from);
	else
		snprintf(
			why, WEIR__HTTP_WHY,
			"the answer of %s has no AccessKeyId and SecretAccessKey",
			from);
	return -EBADMSG;
}

static char *json_text(const json_t *object, const char *key)
{
	const char *value = json_string_value(json_object_get(object, key));

	return value ? strdup(value) : NULL;
}

int weir__http_keys_json(struct weir__http_keys *k, const char *text,
			 const char *from, char why[static WEIR__HTTP_WHY])
{
	json_t *object = json_loads(text, 0, NULL);
	const char *until;

	if (!json_is_object(object)) {
		json_decref(object);
		snprintf(why, WEIR__HTTP_WHY, "the answer of %s is no JSON",
			 from);
		return -EBADMSG;
	}
	k->id = json_text(object, "AccessKeyId");
	k->secret = json_text(object, "SecretAccessKey");
	k->token = json_text(object, "SessionToken");
	if (!k->token)
		k->token = json_text(object, "Token");
	until = json_string_value(json_object_get(object, "Expiration"));
	k->until = until ? weir__http_time(until) : 0;
	json_decref(object);
	return weir__http_keys_check(k, from, why);
}

int weir__http_keys_xml(struct weir__http_keys *k, const char *text,
			const char *from, char why[static WEIR__HTTP_WHY])
{
	char *until = weir__http_xml(text, "Expiration");

	k->id = weir__http_xml(text, "AccessKeyId");
	k->secret = weir__http_xml(text, "SecretAccessKey");
	k->token = weir__http_xml(text, "SessionToken");
	k->until = until ? weir__http_time(until) : 0;
	free(until);
	return weir__http_keys_check(k, from, why);
}

struct weir__http_cloud *weir__http_cloud_new(void)
{
	struct weir__http_cloud *cloud = calloc(1, sizeof(*cloud));

	if (cloud)
		pthread_mutex_init(&cloud->lock, NULL);
	return cloud;
}

void weir__http_cloud_free(struct weir__http_cloud *cloud)
{
	struct weir__http_bucket *b;

	if (!cloud)
		return;
	while ((b = cloud->buckets)) {
		cloud->buckets = b->next;
		free(b);
	}
	weir__http_keys_clear(&cloud->keys);
	pthread_mutex_destroy(&cloud->lock);
	free(cloud);
}

char *weir__http_profile_value(const char *key)
{
	struct weir__http_profiles p;
	char *value;

	weir__http_profiles_read(&p);
	value = weir__http_profile_get(&p, weir__http_profile_name(), key);
	weir__http_profiles_clear(&p);
	return value;
}

char *weir__http_endpoint(const char *service)
{
	char name[40] = "AWS_ENDPOINT_URL_";
	const char *given =
		weir__http_env("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS");
	struct weir__http_profiles p;
	char *value;
	size_t n = strlen(name);

	if (given && !strcasecmp(given, "true"))
		return NULL;
	for (size_t i = 0; service[i] && n < sizeof(name) - 1; i++)
		name[n++] = (char)toupper((unsigned char)service[i]);
	name[n] = '\0';
	given = weir__http_env(name);
	if (!given)
		given = weir__http_env("AWS_ENDPOINT_URL");
	if (given)
		return strdup(given);
	weir__http_profiles_read(&p);
	value = weir__http_profile_service(&p, service, "endpoint_url");
	if (!value)
		value = weir__http_profile_get(&p, weir__http_profile_name(),
					       "endpoint_url");
	weir__http_profiles_clear(&p);
	if (value && *value)
		return value;
	free(value);
	return NULL;
}

struct weir__http_auth *weir__http_auth_aws(const char *user, const char *token,
					    const char *region,
					    const char *service)
{
	struct weir__http_auth *auth = weir__http_auth_new(
		WEIR__HTTP_AUTH_AWS, user, token, region, service);

	if (auth)
		auth->ca = weir__http_profile_value("ca_bundle");
	return auth;
}

/* The region that variables or the profile name, or "". */
static void default_region(char region[static 40])
{
	const char *given = weir__http_env("AWS_REGION");
	char *value = NULL;

	if (!given)
		given = weir__http_env("AWS_DEFAULT_REGION");
	if (!given) {
		value = weir__http_profile_value("region");
		given = value;
	}
	snprintf(region, 40, "%s", given ? given : "");
	free(value);
}

void weir__http_cloud_region(struct weir__http_remote *r, const char *bucket,
			     char region[static 40])
{
	pthread_mutex_lock(&r->cloud->lock);
	for (struct weir__http_bucket *b = r->cloud->buckets; b; b = b->next)
		if (!strcmp(b->name, bucket)) {
			memcpy(region, b->region, sizeof(b->region));
			pthread_mutex_unlock(&r->cloud->lock);
			return;
		}
	pthread_mutex_unlock(&r->cloud->lock);
	default_region(region);
}

bool weir__http_is_region(const char *text)
{
	return *text && strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-") ==
				strlen(text);
}

const char *weir__http_cn(const char *region)
{
	return strncmp(region, "cn-", 3) ? "" : ".cn";
}

bool weir__http_cloud_learn(struct weir__http_remote *r, const char *bucket,
			    const char *region)
{
	char before[40];
	struct weir__http_bucket *b;

	weir__http_cloud_region(r, bucket, before);
	if (!strcmp(before, region) || !weir__http_is_region(region))
		return false;
	b = calloc(1, sizeof(*b));
	if (!b)
		return false;
	snprintf(b->name, sizeof(b->name), "%s", bucket);
	snprintf(b->region, sizeof(b->region), "%s", region);
	pthread_mutex_lock(&r->cloud->lock);
	b->next = r->cloud->buckets;
	r->cloud->buckets = b;
	pthread_mutex_unlock(&r->cloud->lock);
	return true;
}

static int by_web_identity(struct weir__http_remote *r, const char *region,
			   struct weir__http_keys *k, char *why)
{
	struct weir__http_role role = {
		.arn = weir__http_env("AWS_ROLE_ARN"),
		.session = weir__http_env("AWS_ROLE_SESSION_NAME"),
		.token_file = weir__http_env("AWS_WEB_IDENTITY_TOKEN_FILE"),
		.region = region,
	};

	return role.arn && role.token_file ? weir__http_sts(r, &role, k, why)
					   : 0;
}

static int find_keys(struct weir__http_remote *r, const char *named,
		     struct weir__http_keys *k, char *why)
{
	const char *region = *named ? named : "us-east-1"; /* of STS */
	int err = weir__http_by_environment(k, why);

	if (!err)
		err = by_web_identity(r, region, k, why);
	if (!err)
		err = weir__http_by_profile(r, region, k, why);
	if (!err)
		err = weir__http_container(r, k, why);
	if (!err)
		err = weir__http_instance(r, k, why);
	return err;
}

static bool is_good(const struct weir__http_cloud *cloud)
{
	const struct weir__http_keys *k = &cloud->keys;

	return cloud->kept && k->id &&
	       (!k->until || k->until - time(NULL) > SOON);
}

/* True if nothing newer than @auth is kept: many objects may have had it. */
static bool are_kept(const struct weir__http_cloud *cloud,
		     const struct weir__http_auth *auth)
{
	const struct weir__http_keys *k = &cloud->keys;
	size_t n;

	if (!cloud->kept || !auth->user)
		return true;
	n = strlen(k->id);
	return !strncmp(auth->user, k->id, n) && auth->user[n] == ':' &&
	       !strcmp(auth->user + n + 1, k->secret) &&
	       !strcmp(auth->token ? auth->token : "",
		       k->token ? k->token : "");
}

/* Look for keys. Kept ones that have not ended and were not refused stay. */
static int renew_keys(struct weir__http_remote *r, const char *region,
		      bool refused, char *why)
{
	struct weir__http_cloud *cloud = r->cloud;
	struct weir__http_keys new = { 0 };
	int err = find_keys(r, region, &new, why);

	if (err < 0 && !refused && cloud->kept &&
	    cloud->keys.until > time(NULL)) {
		weir__http_keys_clear(&new);
		return 0;
	}
	weir__http_keys_clear(&cloud->keys);
	cloud->kept = err > 0;
	if (cloud->kept)
		cloud->keys = new;
	else
		weir__http_keys_clear(&new);
	if (!err)
		cloud->none_until = weir__http_now() + NONE * WEIR__HTTP_SECOND;
	return err;
}

/* From the keys that are kept, or without any. The lock is held. */
static int make_auth(const struct weir__http_cloud *cloud, const char *region,
		     struct weir__http_auth **ret)
{
	const struct weir__http_keys *k = &cloud->keys;
	char *user = NULL;

	if (cloud->kept) {
		user = weir__http_print("%s:%s", k->id, k->secret);
		if (!user)
			return -ENOMEM;
	}
	*ret = weir__http_auth_aws(user, cloud->kept ? k->token : NULL, region,
				   "s3");
	weir__http_wipe(user);
	if (!*ret)
		return -ENOMEM;
	if (cloud->kept)
		(*ret)->until = k->until;
	return 0;
}

int weir__http_cloud_auth(struct weir__http_remote *r, char region[static 40],
			  const struct weir__http_auth *refused,
			  struct weir__http_auth **ret_auth,
			  char why[static WEIR__HTTP_WHY])
{
	struct weir__http_cloud *cloud = r->cloud;
	bool anew;
	int err = 0;

	*ret_auth = NULL;
	*why = '\0';
	pthread_mutex_lock(&cloud->lock);
	anew = refused && are_kept(cloud, refused);
	if ((anew || !is_good(cloud)) && weir__http_now() > cloud->none_until)
		err = renew_keys(r, region, anew, why);
	if (!*region)
		snprintf(region, 40, "%s",
			 cloud->kept && *cloud->keys.region ? cloud->keys.region
							    : "us-east-1");
	if (err >= 0)
		err = make_auth(cloud, region, ret_auth);
	pthread_mutex_unlock(&cloud->lock);
	if (err < 0 && !*why)
		snprintf(why, WEIR__HTTP_WHY, "no memory");
	return err;
}
