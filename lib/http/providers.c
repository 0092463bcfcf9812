/* SPDX-License-Identifier: MIT */
/* Services that give credentials: STS, containers, instances. */
#include "http/credentials.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_MAX (64u << 10)

int weir__http_ask(struct weir__http_remote *r, const char *url,
		   struct weir__http_call *call, struct weir__http_body *body,
		   char why[static WEIR__HTTP_WHY])
{
	struct weir__http_url u;
	int err = weir__http_url_parse(url, &u, why);

	if (err < 0)
		return err;
	body->max = ANSWER_MAX;
	call->to = body;
	call->f.q.url = strdup(url);
	weir__http_url_show(&u, call->f.q.shown);
	if (call->f.q.url) {
		err = weir__http_perform(r->client, &u, call, why);
		if (err == 2) {
			snprintf(why, WEIR__HTTP_WHY,
				 "%s: a service of credentials redirects",
				 call->f.q.shown);
			err = -EPERM;
		}
	} else {
		err = -ENOMEM;
		snprintf(why, WEIR__HTTP_WHY, "no memory");
	}
	weir__http_url_clear(&u);
	if (!err && !body->data) {
		snprintf(why, WEIR__HTTP_WHY, "%s: an empty answer",
			 call->f.q.shown);
		err = -EBADMSG;
	}
	return err;
}

/* Append "&NAME=VALUE" to *@form, which becomes NULL: no memory. */
static void add_field(char **form, const char *name, const char *value)
{
	char *encoded = weir__http_encode(value, "");
	char *longer = *form && encoded ? weir__http_print("%s&%s=%s", *form,
							   name, encoded)
					: NULL;

	weir__http_wipe(encoded);
	weir__http_wipe(*form);
	*form = longer;
}

/* The form that STS takes, in memory of malloc; NULL: no memory. */
static char *sts_form(const struct weir__http_role *role, const char *token)
{
	char *form = weir__http_print("Action=%s&Version=2011-06-15",
				      token ? "AssumeRoleWithWebIdentity"
					    : "AssumeRole");

	add_field(&form, "RoleArn", role->arn);
	add_field(&form, "RoleSessionName",
		  role->session ? role->session : "weir");
	if (token)
		add_field(&form, "WebIdentityToken", token);
	if (role->seconds)
		add_field(&form, "DurationSeconds", role->seconds);
	if (role->external)
		add_field(&form, "ExternalId", role->external);
	return form;
}

int weir__http_sts(struct weir__http_remote *r,
		   const struct weir__http_role *role,
		   struct weir__http_keys *k, char why[static WEIR__HTTP_WHY])
{
	struct weir__http_call call = { 0 };
	struct weir__http_body body = { 0 };
	char *token = NULL, *given, *url;
	int err;

	if (!role->by) {
		token = weir__http_file(role->token_file, ANSWER_MAX);
		if (!token) {
			snprintf(
				why, WEIR__HTTP_WHY,
				"AWS_WEB_IDENTITY_TOKEN_FILE: %.200s cannot be read",
				role->token_file);
			return -EACCES;
		}
	}
	given = weir__http_endpoint("sts");
	url = given ? weir__http_print("%s%s", given,
				       given[strlen(given) - 1] == '/' ? ""
								       : "/")
		    : weir__http_print("https://sts.%s.amazonaws.com%s/",
				       role->region,
				       weir__http_cn(role->region));
	call.f.q.post = sts_form(role, token);
	call.f.q.auth =
		role->by ? weir__http_auth_get(role->by)
			 : weir__http_auth_aws(NULL, NULL, role->region, "sts");
	if (url && call.f.q.post && call.f.q.auth) {
		err = weir__http_ask(r, url, &call, &body, why);
	} else {
		snprintf(why, WEIR__HTTP_WHY, "no memory");
		err = -ENOMEM;
	}
	if (!err)
		err = weir__http_keys_xml(k, body.data, "STS", why);
	weir__http_call_clear(&call);
	weir__http_body_clear(&body);
	free(given);
	free(url);
	weir__http_wipe(token);
	return err < 0 ? err : 1;
}

/* The token goes to this machine's services, or by TLS, only. */
static bool is_container_host(const struct weir__http_url *u)
{
	return u->scheme == WEIR__HTTP_HTTPS ||
	       weir__http_address_rank(u->host) == WEIR__HTTP_LOOPBACK ||
	       !strcmp(u->host, "169.254.170.2") ||
	       !strcmp(u->host, "169.254.170.23") ||
	       !strcmp(u->host, "[fd00:ec2::23]");
}

/* The header with the token of the container, or NULL. < 0: no file. */
static int container_token(char **ret, char *why)
{
	const char *path =
		weir__http_env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
	const char *given = weir__http_env("AWS_CONTAINER_AUTHORIZATION_TOKEN");
	char *token = NULL;
	int err = 0;

	*ret = NULL;
	if (path) {
		token = weir__http_file(path, ANSWER_MAX);
		if (!token) {
			snprintf(
				why, WEIR__HTTP_WHY,
				"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: %.200s cannot be read",
				path);
			return -EACCES;
		}
		given = token;
	}
	if (!weir__http_is_printable(given)) {
		snprintf(
			why, WEIR__HTTP_WHY,
			"AWS_CONTAINER_AUTHORIZATION_TOKEN, or its file, has a control character");
		err = -EINVAL;
	} else if (given) {
		*ret = weir__http_print("Authorization: %s", given);
	}
	free(token);
	return err;
}

int weir__http_container(struct weir__http_remote *r, struct weir__http_keys *k,
			 char why[static WEIR__HTTP_WHY])
{
	const char *relative =
		weir__http_env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
	const char *full = weir__http_env("AWS_CONTAINER_CREDENTIALS_FULL_URI");
	struct weir__http_call call = { .f.q.direct = true };
	struct weir__http_body body = { 0 };
	struct weir__http_url u;
	char *url;
	int err;

	if (!relative && !full)
		return 0;
	url = relative ? weir__http_print("http://169.254.170.2%s", relative)
		       : strdup(full);
	if (!url)
		return -ENOMEM;
	err = weir__http_url_parse(url, &u, why);
	if (!err && !is_container_host(&u)) {
		snprintf(
			why, WEIR__HTTP_WHY,
			"AWS_CONTAINER_CREDENTIALS_FULL_URI: neither https nor an address of this machine");
		err = -EPERM;
	}
	weir__http_url_clear(&u);
	if (!err)
		err = container_token(&call.f.q.extra[0], why);
	if (!err)
		err = weir__http_ask(r, url, &call, &body, why);
	if (!err)
		err = weir__http_keys_json(k, body.data, "the container", why);
	weir__http_call_clear(&call);
	weir__http_body_clear(&body);
	free(url);
	return err < 0 ? err : 1;
}

/* One request to the metadata of the instance, which answers at once. */
static int metadata(struct weir__http_remote *r, const char *path,
		    const char *token, struct weir__http_body *body, char *why)
{
	const char *base = weir__http_env("AWS_EC2_METADATA_SERVICE_ENDPOINT");
	struct weir__http_call call = {
		.f.q.direct = true,
		.f.q.connect_ms = 1000,
		.patience = 5 * WEIR__HTTP_SECOND,
		.tries = 1,
	};
	char *url;
	int err = -ENOMEM;

	if (!base)
		base = "http://169.254.169.254";
	url = weir__http_print(
		"%.*s%s", (int)(strlen(base) - (base[strlen(base) - 1] == '/')),
		base, path);
	if (token) {
		call.f.q.extra[0] =
			weir__http_print("X-aws-ec2-metadata-token: %s", token);
	} else {
		call.f.q.method = "PUT";
		call.f.q.extra[0] =
			strdup("X-aws-ec2-metadata-token-ttl-seconds: 21600");
	}
	if (url && call.f.q.extra[0])
		err = weir__http_ask(r, url, &call, body, why);
	weir__http_call_clear(&call);
	free(url);
	return err;
}

int weir__http_instance(struct weir__http_remote *r, struct weir__http_keys *k,
			char why[static WEIR__HTTP_WHY])
{
	static const char roles[] =
		"/latest/meta-data/iam/security-credentials/";
	const char *off = weir__http_env("AWS_EC2_METADATA_DISABLED");
	struct weir__http_body token = { 0 }, role = { 0 }, keys = { 0 };
	struct weir__http_body region = { 0 };
	char *path = NULL, unused[WEIR__HTTP_WHY];
	int err;

	if (off && !strcasecmp(off, "true"))
		return 0;
	/* No answer: this machine is no instance. */
	err = metadata(r, "/latest/api/token", NULL, &token, why);
	if (err < 0 || !weir__http_is_printable(token.data)) {
		weir__http_body_clear(&token);
		return 0;
	}
	err = metadata(r, roles, token.data, &role, why);
	if (!err) {
		role.data[strcspn(role.data, "\r\n")] = '\0';
		path = weir__http_print("%s%s", roles, role.data);
		err = path ? metadata(r, path, token.data, &keys, why)
			   : -ENOMEM;
	}
	if (!err)
		err = weir__http_keys_json(k, keys.data, "the instance", why);
	/* Without an answer the region stays unknown. */
	if (!err &&
	    !metadata(r, "/latest/meta-data/placement/region", token.data,
		      &region, unused) &&
	    weir__http_is_region(region.data))
		snprintf(k->region, sizeof(k->region), "%s", region.data);
	free(path);
	weir__http_body_clear(&region);
	weir__http_body_clear(&token);
	weir__http_body_clear(&role);
	weir__http_body_clear(&keys);
	/* An instance without a role has no credentials. */
	return err == -ENOENT ? 0 : err < 0 ? err : 1;
}
