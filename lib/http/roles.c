/* SPDX-License-Identifier: MIT */
/* Profiles of AWS: keys, roles by other credentials, programs, sessions. */
#include "http/roles.h"
#include "http/credentials.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MAX_SOURCES 8

static int by_profile(struct weir__http_remote *r,
		      const struct weir__http_profiles *p, const char *name,
		      const char *region, unsigned depth,
		      struct weir__http_keys *k, char *why);

static int keys_copy(struct weir__http_keys *k, const char *id,
		     const char *secret, const char *token, const char *from,
		     char *why)
{
	int err;

	k->id = strdup(id);
	k->secret = strdup(secret);
	k->token = token ? strdup(token) : NULL;
	if (!k->id || !k->secret || (token && !k->token))
		return -ENOMEM;
	err = weir__http_keys_check(k, from, why);
	return err < 0 ? err : 1;
}

int weir__http_by_environment(struct weir__http_keys *k,
			      char why[static WEIR__HTTP_WHY])
{
	const char *id = weir__http_env("AWS_ACCESS_KEY_ID");
	const char *secret = weir__http_env("AWS_SECRET_ACCESS_KEY");

	return id && secret ? keys_copy(k, id, secret,
					weir__http_env("AWS_SESSION_TOKEN"),
					"the environment", why)
			    : 0;
}

/* The keys that the profile itself has. */
static int own_keys(const struct weir__http_profiles *p, const char *name,
		    struct weir__http_keys *k, char *why)
{
	char *id = weir__http_profile_get(p, name, "aws_access_key_id");
	char *secret = weir__http_profile_get(p, name, "aws_secret_access_key");
	char *token = weir__http_profile_get(p, name, "aws_session_token");
	int err = 0;

	if (id && secret)
		err = keys_copy(k, id, secret, token, "the profile", why);
	weir__http_wipe(id);
	weir__http_wipe(secret);
	weir__http_wipe(token);
	return err;
}

int weir__http_profile_fail(char why[static WEIR__HTTP_WHY], const char *name,
			    const char *what)
{
	snprintf(why, WEIR__HTTP_WHY, "the profile '%.64s' of AWS %s", name,
		 what);
	return -EINVAL;
}

/* The keys of another profile, or the profile's own. */
static int by_source(struct weir__http_remote *r,
		     const struct weir__http_profiles *p, const char *name,
		     const char *source, const char *region, unsigned depth,
		     struct weir__http_keys *by, char *why)
{
	int err;

	if (depth == MAX_SOURCES)
		return weir__http_profile_fail(
			why, name,
			"is the last of a long chain of source_profile: does one lead back to itself?");
	if (!strcmp(source, name))
		err = own_keys(p, name, by, why);
	else
		err = by_profile(r, p, source, region, depth + 1, by, why);
	return err ? err
		   : weir__http_profile_fail(
			     why, name,
			     "has a source_profile that has no credentials");
}

/* The keys of the environment, or of the machine, by credential_source. */
static int by_machine(struct weir__http_remote *r, const char *name,
		      const char *source, struct weir__http_keys *by, char *why)
{
	int err;

	if (!strcasecmp(source, "Environment"))
		err = weir__http_by_environment(by, why);
	else if (!strcasecmp(source, "EcsContainer"))
		err = weir__http_container(r, by, why);
	else if (!strcasecmp(source, "Ec2InstanceMetadata"))
		err = weir__http_instance(r, by, why);
	else
		return weir__http_profile_fail(
			why, name,
			"has a credential_source that is none of Environment, EcsContainer and Ec2InstanceMetadata");
	if (!err)
		snprintf(
			why, WEIR__HTTP_WHY,
			"the profile '%.64s' of AWS has credential_source = %.32s, where there are no credentials",
			name, source);
	return err ? err : -EINVAL;
}

/* The settings of a role in a profile: strings of malloc, or NULL. */
struct role_of {
	char *arn, *file, *source, *machine, *session, *external, *seconds;
	char *mfa;
};

static void role_read(const struct weir__http_profiles *p, const char *name,
		      struct role_of *o)
{
	*o = (struct role_of){
		.arn = weir__http_profile_get(p, name, "role_arn"),
		.file = weir__http_profile_get(p, name,
					       "web_identity_token_file"),
		.source = weir__http_profile_get(p, name, "source_profile"),
		.machine = weir__http_profile_get(p, name, "credential_source"),
		.session = weir__http_profile_get(p, name, "role_session_name"),
		.external = weir__http_profile_get(p, name, "external_id"),
		.seconds = weir__http_profile_get(p, name, "duration_seconds"),
		.mfa = weir__http_profile_get(p, name, "mfa_serial"),
	};
}

static void role_clear(struct role_of *o)
{
	free(o->arn);
	free(o->file);
	free(o->source);
	free(o->machine);
	free(o->session);
	weir__http_wipe(o->external);
	free(o->seconds);
	free(o->mfa);
}

static int role_check(const struct role_of *o, const char *name, char *why)
{
	if (o->file)
		return 1;
	if (o->mfa)
		return weir__http_profile_fail(
			why, name,
			"has an mfa_serial, and weir asks for no code: use a credential_process, or credentials of aws sts get-session-token");
	if (o->source && o->machine)
		return weir__http_profile_fail(
			why, name,
			"has a source_profile and a credential_source: one of them is to be removed");
	if (!o->source && !o->machine)
		return weir__http_profile_fail(
			why, name,
			"has a role_arn, and neither source_profile nor credential_source nor web_identity_token_file");
	return 1;
}

/* The role of a profile: by a file with a token, or by other credentials. */
static int by_role(struct weir__http_remote *r,
		   const struct weir__http_profiles *p, const char *name,
		   const struct role_of *o, const char *region, unsigned depth,
		   struct weir__http_keys *k, char *why)
{
	struct weir__http_role role = {
		.arn = o->arn,
		.session = o->session,
		.token_file = o->file,
		.external = o->file ? NULL : o->external,
		.seconds = o->seconds,
		.region = region,
	};
	struct weir__http_keys by = { 0 };
	char *user = NULL;
	int err = role_check(o, name, why);

	if (err > 0 && !o->file) {
		err = o->source ? by_source(r, p, name, o->source, region,
					    depth, &by, why)
				: by_machine(r, name, o->machine, &by, why);
		user = err > 0 ? weir__http_print("%s:%s", by.id, by.secret)
			       : NULL;
		role.by = user ? weir__http_auth_aws(user, by.token, region,
						     "sts")
			       : NULL;
		if (err > 0 && !role.by)
			err = -ENOMEM;
	}
	if (err > 0)
		err = weir__http_sts(r, &role, k, why);
	weir__http_wipe(user);
	weir__http_auth_put(role.by);
	weir__http_keys_clear(&by);
	return err;
}

/* The keys that the program of a profile prints. */
static int by_command(struct weir__http_remote *r,
		      const struct weir__http_profiles *p, const char *name,
		      struct weir__http_keys *k, char *why)
{
	char *command = weir__http_profile_get(p, name, "credential_process");
	char *text;
	int err;

	if (!command)
		return 0;
	err = weir__http_command(r->client, command, &text, why);
	if (!err) {
		err = weir__http_keys_json(k, text, "credential_process", why);
		weir__http_wipe(text);
	}
	free(command);
	return err < 0 ? err : 1;
}

/* A session of `aws login`, which its own program renews. */
static int by_login(const struct weir__http_profiles *p, const char *name,
		    char *why)
{
	char *login = weir__http_profile_get(p, name, "login_session");

	if (!login)
		return 0;
	free(login);
	return weir__http_profile_fail(
		why, name,
		"has a login_session, which weir does not read: give another profile credential_process = aws configure export-credentials --format process --profile and this name");
}

static int by_profile(struct weir__http_remote *r,
		      const struct weir__http_profiles *p, const char *name,
		      const char *region, unsigned depth,
		      struct weir__http_keys *k, char *why)
{
	struct role_of role;
	int err = 0;

	role_read(p, name, &role);
	if (role.arn)
		err = by_role(r, p, name, &role, region, depth, k, why);
	role_clear(&role);
	if (!err)
		err = weir__http_sso(r, p, name, k, why);
	if (!err)
		err = own_keys(p, name, k, why);
	if (!err)
		err = by_command(r, p, name, k, why);
	if (!err)
		err = by_login(p, name, why);
	return err;
}

int weir__http_by_profile(struct weir__http_remote *r, const char *region,
			  struct weir__http_keys *k,
			  char why[static WEIR__HTTP_WHY])
{
	const char *name = weir__http_profile_name();
	struct weir__http_profiles p;
	int err;

	weir__http_profiles_read(&p);
	if (strcmp(name, "default") && !weir__http_profile_is(&p, name))
		err = weir__http_profile_fail(
			why, name,
			"is in neither ~/.aws/credentials nor ~/.aws/config, or what names these files: AWS_PROFILE names it");
	else
		err = by_profile(r, &p, name, region, 0, k, why);
	weir__http_profiles_clear(&p);
	return err;
}
