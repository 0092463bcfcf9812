/* SPDX-License-Identifier: MIT */
/* lib/http: AWS's files: roles, sessions of IAM Identity Center, endpoints. */
#include "serving.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tap.h"
#include "http/roles.h"

#define PARAMS "patience-ms=5000,backoff-ms=10"

static void test_files(void)
{
	static const char text[] = "[a]\nk=1\ns3 =\n  k = 2\n # no\n  m = 3\n"
				   "n = 4\n[ b ]\nk = 3 = 4\ns3 = x\n  k = 5\n";
	static const struct {
		const char *section, *outer, *key, *value;
	} all[] = {
		{ "a", NULL, "k", "1" },     { "a", "s3", "k", "2" },
		{ "a", "s3", "m", "3" },     { "a", NULL, "m", NULL },
		{ "a", "s3", "n", NULL },    { "a", NULL, "n", "4" },
		{ "b", NULL, "k", "3 = 4" }, { "b", "s3", "k", NULL },
		{ "c", NULL, "k", NULL },
	};
	char hex[41];

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		char *value = weir__http_ini_get(text, all[i].section,
						 all[i].outer, all[i].key);

		is_str(value ? value : "none",
		       all[i].value ? all[i].value : "none", "[%s] %s %s",
		       all[i].section, all[i].outer ? all[i].outer : "",
		       all[i].key);
		free(value);
	}
	is_int(weir__http_time("2026-11-28T15:02:00Z"), 1795878120,
	       "times of AWS are read");
	is_int(weir__http_time("soon"), 0, "other text is none");
	weir__http_sha1("", hex);
	is_str(hex, "da39a3ee5e6b4b0d3255bfef95601890afd80709",
	       "SHA-1 of nothing");
	weir__http_sha1(
		"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
		hex);
	is_str(hex, "84983e441c3bd26ebaae4aa1f95129e5e54670f1",
	       "and of the 56 bytes of its standard");
}

/* The log of the server, of a read of an object with profile @name. */
static const char *reads(const char *name, const char *title)
{
	const char *log;
	int r;

	setenv("AWS_PROFILE", name, 1);
	serving_again(PARAMS);
	serving_log();
	r = serving_load("s3://bucket/k", 300000, 300000);
	log = serving_log();
	if (r)
		ok(false, "%s: %d, '%s'", title, r, serving_why);
	else
		ok(true, "%s", title);
	return log;
}

static void refuses(const char *name, int err, const char *part,
		    const char *title)
{
	setenv("AWS_PROFILE", name, 1);
	serving_again(PARAMS);
	serving_fails("s3://bucket/k", err, part, title);
}

/* A source opens objects with keys of the environment before any profile. */
static void test_environment(void)
{
	struct weir__http_keys k = { 0 };
	char why[WEIR__HTTP_WHY];

	is_int(weir__http_by_environment(&k, why), 0,
	       "without keys the environment has none");
	setenv("AWS_ACCESS_KEY_ID", "one", 1);
	is_int(weir__http_by_environment(&k, why), 0, "nor with a half");
	setenv("AWS_SECRET_ACCESS_KEY", "two", 1);
	is_int(weir__http_by_environment(&k, why), 1, "both are keys");
	is_str(k.id, "one", "which are taken");
	weir__http_keys_clear(&k);
	setenv("AWS_PROFILE", "env", 1);
	is_int(weir__http_by_profile(serving_self, "us-east-1", &k, why), 1,
	       "credential_source may be the environment");
	is_str(k.id, "assumed", "by which a role is assumed, with its id");
	weir__http_keys_clear(&k);
	setenv("AWS_PROFILE", "noid", 1);
	is_int(weir__http_by_profile(serving_self, "us-east-1", &k, why),
	       -EACCES, "without external_id the service may refuse: %s", why);
	unsetenv("AWS_ACCESS_KEY_ID");
	unsetenv("AWS_SECRET_ACCESS_KEY");
}

static void test_sources(void)
{
	const char *log;

	setenv("AWS_CONFIG_FILE",
	       serving_file("config",
			    "[profile env]\nrole_arn = secret\n"
			    "credential_source = Environment\n"
			    "external_id = a+b/=\nduration_seconds = 900\n"
			    "role_session_name = me\n"
			    "[profile noid]\nrole_arn = secret\n"
			    "credential_source = Environment\n"
			    "[profile box]\nrole_arn = a\n"
			    "credential_source = EcsContainer\n"
			    "[profile machine]\nrole_arn = a\n"
			    "credential_source = ec2InstanceMetadata\n"
			    "[profile odd]\nrole_arn = a\n"
			    "credential_source = Thin air\n"
			    "[profile both]\nrole_arn = a\n"
			    "credential_source = EcsContainer\n"
			    "source_profile = box\n"
			    "[profile code]\nrole_arn = a\n"
			    "source_profile = box\nmfa_serial = arn\n"
			    "[profile login]\nlogin_session = arn\n"),
	       1);
	refuses("env", -EINVAL,
		"credential_source = Environment, where there are no",
		"credential_source without credentials there");
	test_environment();
	setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", serving_url("/keys"), 1);
	log = reads("box", "credential_source is a container");
	has_str(log, "Credential=container/", "whose keys sign for the role");
	has_str(log, "Credential=assumed/", "of which the keys are used");
	unsetenv("AWS_CONTAINER_CREDENTIALS_FULL_URI");
	unsetenv("AWS_EC2_METADATA_DISABLED");
	setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", serving_url("/"), 1);
	log = reads("machine", "credential_source is an instance, in any case");
	has_str(log, "Credential=instance/", "whose keys sign for the role");
	setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
	refuses("odd", -EINVAL, "is none of Environment",
		"a credential_source that is not known");
	refuses("both", -EINVAL, "one of them is to be removed",
		"two sources for a role");
	refuses("code", -EINVAL, "weir asks for no code",
		"a role that needs a code");
	refuses("login", -EINVAL, "login_session",
		"a session that is not read");
	refuses("nobody", -EINVAL, "the profile 'nobody' of AWS is in neither",
		"a profile that is in no file");
}

static void write_token(const char *session, const char *text)
{
	char hex[41], name[100];

	weir__http_sha1(session, hex);
	snprintf(name, sizeof(name), ".aws/sso/cache/%s.json", hex);
	serving_file(name, text);
}

static void make_folders(void)
{
	static const char *const names[] = { ".aws", ".aws/sso",
					     ".aws/sso/cache" };
	char path[400];

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		snprintf(path, sizeof(path), "%s/%s", serving_dir, names[i]);
		if (mkdir(path, 0700))
			bail("%s cannot be made", path);
	}
}

static void test_center(void)
{
	static const char good[] = "{\"accessToken\": \"sso-token\","
				   "\"expiresAt\": \"2036-01-01T00:00:00Z\"}";
	const char *log;

	setenv("AWS_CONFIG_FILE",
	       serving_file("config",
			    "[sso-session work]\nsso_region = eu-west-1\n"
			    "sso_start_url = https://x.example/start\n"
			    "[profile new]\nsso_session = work\n"
			    "sso_account_id = 123\nsso_role_name = Read+List\n"
			    "[profile old]\nsso_region = eu-west-1\n"
			    "sso_start_url = https://old.example/start\n"
			    "sso_account_id = 123\nsso_role_name = Read+List\n"
			    "[profile other]\nsso_session = work\n"
			    "sso_account_id = 123\nsso_role_name = Write\n"
			    "[profile half]\nsso_session = gone\n"
			    "sso_account_id = 123\nsso_role_name = Write\n"
			    "[profile role]\nrole_arn = a\n"
			    "source_profile = new\n"),
	       1);
	setenv("AWS_ENDPOINT_URL_SSO", serving_url("/"), 1);
	make_folders();
	refuses("new", -EACCES,
		"there is no session: run aws sso login --profile new",
		"IAM Identity Center without a session");
	write_token("work", good);
	log = reads("new", "the token of a session is read");
	has_str(log, "Credential=center/", "and gives the keys of a role");
	ok(!strstr(log, "sso-token"), "the store does not get the token");
	log = reads("role", "they may be the source of another role");
	has_str(log, "Credential=assumed/", "of which the keys are used");
	refuses("other", -EINVAL, "sso_role_name", "a role that is not given");
	refuses("half", -EINVAL, "lacks one of",
		"a session that the file does not have");
	write_token("https://old.example/start", good);
	reads("old", "the older form has no section for the session");
	write_token("work", "{\"accessToken\": \"sso-token\","
			    "\"expiresAt\": \"2020-06-17T10:02:08UTC\"}");
	refuses("new", -EACCES, "has ended: run aws sso login",
		"a session that has ended");
	write_token("work", "{\"accessToken\": \"revoked\","
			    "\"expiresAt\": \"2036-01-01T00:00:00Z\"}");
	refuses("new", -EACCES, "has ended: run aws sso login",
		"a session that the service does not know");
	ok(!strstr(serving_why, "revoked"), "no sentence has its token");
	write_token("work", "{\"accessToken\": \"a\\nb: c\","
			    "\"expiresAt\": \"2036-01-01T00:00:00Z\"}");
	refuses("new", -EACCES, "cannot be read", "a token with a line break");
	unsetenv("AWS_ENDPOINT_URL_SSO");
	unsetenv("AWS_PROFILE");
}

/* The host to which a proxy is to connect for an object of a bucket. */
static void connects(const char *url, const char *host, const char *title)
{
	char part[200];
	const char *log;

	serving_again(PARAMS);
	serving_log();
	serving_load(url, 9, 9);
	log = serving_log();
	snprintf(part, sizeof(part), "CONNECT %s:443 ", host);
	if (strstr(log, part))
		ok(true, "%s", title);
	else
		ok(false, "%s: '%s', '%s'", title, log, serving_why);
}

static void test_hosts(void)
{
	char config[600];

	setenv("AWS_CONFIG_FILE",
	       serving_file(
		       "config",
		       "[default]\nregion = eu-west-1\n"
		       "[profile path]\nregion = eu-west-1\n"
		       "s3 =\n  addressing_style = path\n"
		       "[profile china]\nregion = cn-north-1\n"
		       "role_arn = a\nweb_identity_token_file = /dev/null\n"
		       "[profile odd]\ns3 =\n  addressing_style = any\n"
		       "[profile fips]\nuse_fips_endpoint = true\n"),
	       1);
	setenv("https_proxy", serving_url("/"), 1);
	connects("s3://plain/9", "plain.s3.eu-west-1.amazonaws.com",
		 "a bucket is a part of the host's name");
	connects("s3://with.dot/9", "s3.eu-west-1.amazonaws.com",
		 "unless no certificate has it");
	setenv("AWS_DEFAULT_PROFILE", "path", 1);
	connects("s3://plain/9", "s3.eu-west-1.amazonaws.com",
		 "or addressing_style = path wants it in the path");
	setenv("AWS_PROFILE", "china", 1);
	connects("s3://plain/9", "sts.cn-north-1.amazonaws.com.cn",
		 "AWS_PROFILE goes before AWS_DEFAULT_PROFILE; STS in China");
	setenv("AWS_PROFILE", "odd", 1);
	serving_again(PARAMS);
	serving_fails("s3://plain/9", -EINVAL, "none of auto, path and virtual",
		      "another addressing_style is refused");
	setenv("AWS_PROFILE", "fips", 1);
	serving_again(PARAMS);
	serving_fails("s3://plain/9", -EINVAL, "AWS_ENDPOINT_URL_S3",
		      "an endpoint of FIPS must be named");
	unsetenv("AWS_PROFILE");
	unsetenv("AWS_DEFAULT_PROFILE");

	snprintf(config, sizeof(config),
		 "[default]\nregion = eu-west-1\n"
		 "endpoint_url = http://store.example\n"
		 "[profile virtual]\nendpoint_url = http://store.example/\n"
		 "s3 =\n  addressing_style = virtual\n"
		 "[profile own]\nendpoint_url = http://none.example\n"
		 "services = mine\n"
		 "[services mine]\ns3 =\n  endpoint_url = %s\n",
		 serving_url("/"));
	setenv("AWS_CONFIG_FILE", serving_file("config", config), 1);
	setenv("http_proxy", serving_url("/"), 1);
	setenv("no_proxy", "127.0.0.1", 1);
	serving_again(PARAMS);
	serving_log();
	serving_load("s3://plain/9", 9, 9);
	has_str(serving_log(), "GET /proxied/store.example/plain/9 ",
		"endpoint_url of the profile has buckets in the path");
	setenv("AWS_PROFILE", "virtual", 1);
	serving_again(PARAMS);
	serving_log();
	is_int(serving_load("s3://bucket/plain/9", 9, 9), 0,
	       "or in the name of the host, by addressing_style = virtual");
	has_str(serving_log(), "GET /proxied/bucket.store.example/plain/9 ",
		"the bucket is there");
	setenv("AWS_PROFILE", "own", 1);
	serving_again(PARAMS);
	is_int(serving_load("s3://plain/9", 9, 9), 0,
	       "services of the profile has an endpoint for S3 alone");
	setenv("AWS_ENDPOINT_URL", "http://all.example", 1);
	serving_again(PARAMS);
	serving_log();
	serving_load("s3://plain/9", 9, 9);
	has_str(serving_log(), "GET /proxied/all.example/",
		"AWS_ENDPOINT_URL goes before it");
	setenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true", 1);
	connects("s3://plain/9", "plain.s3.us-east-1.amazonaws.com",
		 "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS is kept");
}

int main(void)
{
	plan(0);
	if (!serving_start(false, PARAMS))
		skip_all("python3 cannot run the server");
	setenv("AWS_ENDPOINT_URL_S3", serving_url("/"), 1);
	setenv("AWS_ENDPOINT_URL_STS", serving_url("/sts"), 1);
	test_files();
	test_sources();
	test_center();
	unsetenv("AWS_ENDPOINT_URL_S3");
	unsetenv("AWS_ENDPOINT_URL_STS");
	test_hosts();
	serving_stop();
	return done_testing();
}
