/* SPDX-License-Identifier: MIT */
/* lib/http: s3://, gs:// and hf://, credentials and lists. */
#include "serving.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tap.h"

/* The name of the access key by which a new root signs. */
static void signs_as(const char *key, const char *title)
{
	char part[100];
	const char *log;
	int r;

	serving_again("patience-ms=5000");
	serving_log();
	r = serving_load("s3://bucket/k", 300000, 300000);
	log = serving_log();
	snprintf(part, sizeof(part), "Credential=%s/", key);
	if (r)
		ok(false, "%s: %d, '%s'", title, r, serving_why);
	else
		ok(strstr(log, part), "%s", title);
}

/* Values that would add lines to a request. */
static void test_injection(void)
{
	static const struct {
		const char *variable, *url;
		int err;
	} all[] = {
		{ "AWS_ACCESS_KEY_ID", "s3://bucket/k", -EBADMSG },
		{ "AWS_SESSION_TOKEN", "s3://bucket/k", -EBADMSG },
		{ "GS_ACCESS_KEY_ID", "gs://bucket/k", -EINVAL },
		{ "CLOUDSDK_AUTH_ACCESS_TOKEN", "gs://bucket/k", -EINVAL },
		{ "HF_TOKEN", "hf://me/m/k", -EINVAL },
	};

	setenv("HF_ENDPOINT", serving_url("/"), 1);
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		setenv("AWS_ACCESS_KEY_ID", "a", 1);
		setenv(all[i].variable, "t\r\nX-Evil: 1", 1);
		serving_again("");
		serving_log();
		serving_fails(all[i].url, all[i].err, "control character",
			      all[i].variable);
		is_int(serving_count(serving_log(), "GET"), 0, "is not sent");
		unsetenv(all[i].variable);
	}
	unsetenv("AWS_ACCESS_KEY_ID");
	unsetenv("HF_ENDPOINT");
}

static unsigned many;

static int on_one(void *arg, const char *name, uint64_t bytes)
{
	(void)arg;
	many += strtoul(name, NULL, 10) == many && bytes == 7;
	return 0;
}

static void test_many(void)
{
	serving_log();
	is_int(serving_source->list(serving_self, "s3://many/", on_one, NULL,
				    serving_why),
	       0, "a prefix with many keys is listed");
	is_int(many, 100000, "all of them, in order");
	is_int(serving_count(serving_log(), "GET /many"), 100,
	       "by a request for each 1000");
}

static void test_s3(void)
{
	const char *log;

	setenv("AWS_ENDPOINT_URL_S3", serving_url("/"), 1);
	serving_fails("s3://bucket/k", -EACCES, "no credentials were found",
		      "without credentials a request is not signed");
	is_int(serving_list("s3://bucket/dir/"), -EACCES,
	       "nor is one for a list");
	has_str(serving_why, "no credentials were found", "both say so");
	setenv("AWS_ACCESS_KEY_ID", "one", 1);
	setenv("AWS_SECRET_ACCESS_KEY", "very secret", 1);
	setenv("AWS_SESSION_TOKEN", "session", 1);
	setenv("AWS_REGION", "eu-west-1", 1);
	serving_again("");
	serving_log();
	is_int(serving_load("s3://bucket/a b+c/\xc3\xa9~(1)", 300000, 100000),
	       0, "an object of a bucket is read");
	log = serving_log();
	has_str(log, "GET /bucket/a%20b%2Bc/%C3%A9~%281%29 ",
		"its key is encoded");
	has_str(log, "/eu-west-1/s3/aws4_request",
		"the signature is for the region");
	has_str(log, "token=session", "the token of the session is sent");
	ok(!strstr(log, "very secret"), "the secret is not");
	is_int(serving_load("s3://leads/k", 300000, 300000), 0,
	       "a bucket may lead to another host");
	log = serving_log();
	ok(strstr(log, "GET /leads/k") &&
		   strstr(log, "GET /plain/300000 range=bytes=0-131071 "
			       "host=localhost:") &&
		   serving_count(log, "Credential=") == 1 &&
		   serving_count(log, "token=session") == 1,
	   "which gets neither the signature nor the token: %s", log);
	is_int(serving_list("s3://bucket/dir/"), 0, "a prefix is listed");
	is_str(serving_listed, "a.json:16 b&c.safetensors:29 ",
	       "its keys, without those of folders");
	log = serving_log();
	has_str(log, "?delimiter=%2F&list-type=2&prefix=dir%2F ",
		"the query is in order");
	has_str(log, "?continuation-token=t%2F1%3D%3D&delimiter",
		"all pages are asked for");
	serving_fails("s3://bucket/", -EINVAL, "names no key",
		      "a bucket alone");
	test_many();
	serving_fails("s3://away/k", -EACCES,
		      "the region is not that of the bucket",
		      "a region that is no name");
	ok(!strstr(serving_log(), "evil"), "is not used");
	is_int(serving_list("s3://endless/"), -EBADMSG,
	       "a list that is cut short is refused");
	setenv("AWS_ACCESS_KEY_ID", "old", 1);
	serving_again("");
	serving_fails("s3://bucket/k", -EACCES, "have ended",
		      "credentials that have ended");
	unsetenv("AWS_ACCESS_KEY_ID");
	unsetenv("AWS_SESSION_TOKEN");
}

static void test_credentials(void)
{
	char text[600];

	serving_file("jwt", "jwt+/=\n");
	snprintf(text, sizeof(text), "%s/jwt", serving_dir);
	setenv("AWS_WEB_IDENTITY_TOKEN_FILE", text, 1);
	setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/r", 1);
	setenv("AWS_ENDPOINT_URL_STS", serving_url("/sts"), 1);
	signs_as("web", "a web identity becomes a role");
	unsetenv("AWS_WEB_IDENTITY_TOKEN_FILE");

	setenv("AWS_CONFIG_FILE",
	       serving_file("config",
			    "# comment\n[default]\nregion = x\n"
			    "[profile tool]\ncredential_process = "
			    "echo '{\"AccessKeyId\":\"tool\","
			    "\"SecretAccessKey\":\"s\"}'\n"
			    "[profile broken]\ncredential_process = false\n"
			    "[profile role]\nrole_arn = a\n"
			    "source_profile = plain\n"
			    "[profile chain]\nrole_arn = b\n"
			    "source_profile = role\n"
			    "[profile self]\nrole_arn = a\n"
			    "source_profile = self\naws_access_key_id = x\n"
			    "aws_secret_access_key = s\n"
			    "[profile a]\nrole_arn = a\nsource_profile = b\n"
			    "[profile b]\nrole_arn = a\nsource_profile = a\n"
			    "[profile alone]\nrole_arn = a\n"
			    "[profile empty]\nrole_arn = a\n"
			    "source_profile = none\n"),
	       1);
	setenv("AWS_SHARED_CREDENTIALS_FILE",
	       serving_file("credentials", "[plain]\naws_access_key_id = file\n"
					   "aws_secret_access_key = s=/+\n"),
	       1);
	setenv("AWS_PROFILE", "plain", 1);
	signs_as("file", "the file of credentials is read");
	setenv("AWS_PROFILE", "tool", 1);
	signs_as("tool", "credential_process is run");
	setenv("AWS_PROFILE", "role", 1);
	signs_as("assumed", "a profile may assume a role by another one");
	setenv("AWS_PROFILE", "chain", 1);
	signs_as("assumed", "whose credentials are those of a role");
	setenv("AWS_PROFILE", "self", 1);
	signs_as("assumed", "a profile may name itself for its own keys");
	setenv("AWS_PROFILE", "a", 1);
	serving_again("");
	serving_fails("s3://bucket/k", -EINVAL, "does one lead back to itself?",
		      "profiles that name each other");
	setenv("AWS_PROFILE", "alone", 1);
	serving_again("");
	serving_fails("s3://bucket/k", -EINVAL, "neither source_profile",
		      "a role without a source");
	setenv("AWS_PROFILE", "empty", 1);
	serving_again("");
	serving_fails("s3://bucket/k", -EINVAL, "has no credentials",
		      "a source that is no profile");
	setenv("AWS_PROFILE", "broken", 1);
	serving_again("");
	serving_fails("s3://bucket/k", -EACCES,
		      "credential_process of profile 'broken'",
		      "a credential_process that fails");
	unsetenv("AWS_PROFILE");
	unsetenv("AWS_CONFIG_FILE");
	unsetenv("AWS_SHARED_CREDENTIALS_FILE");

	setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", serving_url("/keys"), 1);
	setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "container", 1);
	signs_as("container", "a container's service is asked");
	setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "t\r\nX-Evil: 1", 1);
	serving_again("");
	serving_fails("s3://bucket/k", -EINVAL, "control character",
		      "a container's token with a line break");
	setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://10.0.0.1/x", 1);
	serving_again("");
	serving_fails("s3://bucket/k", -EPERM, "neither https",
		      "its token goes to no other host");
	unsetenv("AWS_CONTAINER_CREDENTIALS_FULL_URI");
	unsetenv("AWS_EC2_METADATA_DISABLED");
	setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", serving_url("/"), 1);
	signs_as("instance", "an instance's service is asked, by IMDSv2");
	unsetenv("AWS_REGION");
	serving_again("");
	serving_log();
	is_int(serving_load("s3://bucket/k", 300000, 300000), 0,
	       "an instance without AWS_REGION");
	has_str(serving_log(), "/ap-east-1/s3/aws4_request",
		"says in which region it is");
	setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
}

/*
 * A credential_process that gives the keys "first", then what @then says, which
 * is shell.
 */
static void set_tool(const char *seconds, const char *then)
{
	char text[1600], config[400];

	snprintf(text, sizeof(text), "%s/runs", serving_dir);
	unlink(text);
	snprintf(text, sizeof(text),
		 "id=second\n"
		 "[ -f %s/runs ] || id=first\n"
		 "echo run >>%s/runs\n"
		 "[ $id = first ] || %s\n"
		 "until=$(date -u -d '%s seconds' +%%Y-%%m-%%dT%%H:%%M:%%SZ)\n"
		 "echo '{\"AccessKeyId\":\"'$id'\",\"SecretAccessKey\":\"s\","
		 "\"Expiration\":\"'$until'\"}'\n",
		 serving_dir, serving_dir, then, seconds);
	serving_file("tool.sh", text);
	snprintf(config, sizeof(config),
		 "[default]\ncredential_process = sh %s/tool.sh\n",
		 serving_dir);
	setenv("AWS_CONFIG_FILE", serving_file("config", config), 1);
}

/* True if the process in the file "child" still runs after 20 s. */
static bool child_left(void)
{
	char path[300], state[64] = "";
	long pid = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s/child", serving_dir);
	f = fopen(path, "r");
	if (!f || fscanf(f, "%ld", &pid) != 1)
		bail("the tool has not started a process");
	fclose(f);
	snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
	for (int i = 0; i < 200; i++) {
		f = fopen(path, "r");
		if (!f)
			return false;
		if (!fgets(state, sizeof(state), f))
			*state = '\0';
		fclose(f);
		if (strstr(state, ") Z") || !*state)
			return false;
		usleep(100000);
	}
	kill((pid_t)pid, SIGKILL);
	return true;
}

static unsigned count_runs(void)
{
	char path[300], line[16];
	unsigned n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s/runs", serving_dir);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f))
		n++;
	if (f)
		fclose(f);
	return n;
}

static void test_renewal(void)
{
	enum {
		OBJECTS = 8
	};
	static unsigned char buf[100000];
	struct weir_source_info info;
	void *o[OBJECTS];
	char url[64], tool[700];
	unsigned bad = 0;
	time_t before;

	set_tool("9999", ":");
	serving_again("");
	for (unsigned i = 0; i < OBJECTS; i++) {
		snprintf(url, sizeof(url), "s3://rotating/%u", i);
		if (serving_open(url, &o[i], &info))
			bail("%s", serving_why);
	}
	for (unsigned i = 0; i < OBJECTS; i++) {
		bad += serving_read(o[i], 200000, 100000, 100000, buf) != 0;
		serving_source->close(o[i]);
	}
	is_int(bad, 0, "credentials that end are replaced: %s", serving_why);
	is_int(count_runs(), 2, "once for all objects");

	set_tool("100", "exit 1");
	serving_again("");
	if (serving_open("s3://bucket/k", &o[0], &info))
		bail("%s", serving_why);
	is_int(serving_read(o[0], 200000, 100000, 100000, buf), 0,
	       "credentials that cannot be replaced serve until they end");
	is_int(count_runs(), 2, "others were sought before");
	serving_source->close(o[0]);

	set_tool("9999", ":");
	serving_again("patience-ms=60000,stall-ms=60000");
	if (serving_open("s3://rotating/hangs", &o[0], &info))
		bail("%s", serving_why);
	is_int(serving_drop(o[0], 200000, 100000, "=second", buf), 0,
	       "a read may be cancelled while its object is found again");
	serving_source->close(o[0]);
	before = time(NULL);
	serving_again("");
	ok(time(NULL) - before < 20, "and a root then closes soon");

	snprintf(tool, sizeof(tool),
		 "{ sleep 300 2>&- & echo $! >%s/child; "
		 "python3 -c 'import urllib.request as r;"
		 "r.urlopen(\"%s\")'; wait; }",
		 serving_dir, serving_url("/plain/9/tool"));
	set_tool("9999", tool);
	serving_again("");
	if (serving_open("s3://rotating/tool", &o[0], &info))
		bail("%s", serving_why);
	is_int(serving_drop(o[0], 200000, 100000, "GET /plain/9/tool", buf), 0,
	       "a read may be cancelled while a credential_process runs");
	serving_source->close(o[0]);
	before = time(NULL);
	serving_again("");
	ok(time(NULL) - before < 20, "which is killed when the root closes");

	is_int(child_left(), 0, "with what it has started");

	serving_file("config", "[default]\ncredential_process = "
			       "echo '{\"AccessKeyId\":\"a\","
			       "\"SecretAccessKey\":\"s\"}'; "
			       "exec sleep 60 >&-\n");
	before = time(NULL);
	is_int(serving_load("s3://bucket/k", 300000, 300000), 0,
	       "a credential_process that closes its output and goes on");
	ok(time(NULL) - before < 40, "is not waited for");
	unsetenv("AWS_CONFIG_FILE");
}

static void test_google(void)
{
	char host[64];

	snprintf(host, sizeof(host), "127.0.0.1:%u", serving_port);
	setenv("STORAGE_EMULATOR_HOST", host, 1);
	setenv("GS_ACCESS_KEY_ID", "GOOG1", 1);
	setenv("GS_SECRET_ACCESS_KEY", "s", 1);
	serving_log();
	is_int(serving_load("gs://bucket/k", 300000, 300000), 0,
	       "an object of Google is read by HMAC keys");
	has_str(serving_log(), "Credential=GOOG1/", "that sign its requests");
	setenv("CLOUDSDK_AUTH_ACCESS_TOKEN", "ya29", 1);
	serving_fails("gs://bucket/k", -EACCES, "403",
		      "a token is used before them");
	has_str(serving_log(), "auth=Bearer ya29", "as a bearer");
}

static void test_hub(void)
{
	struct weir_source_info info;
	const char *log;
	void *object;

	setenv("HF_ENDPOINT", serving_url("/"), 1);
	setenv("HF_TOKEN", "good", 1);
	serving_again("");
	serving_log();
	is_int(serving_load("hf://me/gated/700000", 700000, 700000), 0,
	       "a file of a hub is read");
	log = serving_log();
	has_str(log, "/me/gated/resolve/main/700000 ", "by resolve");
	is_int(serving_count(log, "resolve"), 1, "once");
	is_int(serving_load("hf://me/gated/700001", 700001, 700001), 0,
	       "another file");
	has_str(serving_log(),
		"/resolve/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/",
		"is asked for by the commit of the first");
	if (serving_open("hf://me/m/700000", &object, &info))
		bail("%s", serving_why);
	has_str(info.identity,
		"sha256:cccccccccccccccccccccccccccccccccccccccccccccccccc",
		"the hub's SHA-256 is the identity");
	has_str(info.sha256,
		"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc",
		"and is given by itself");
	serving_source->close(object);
	if (serving_open("hf://me/m@v2/config.json", &object, &info))
		bail("%s", serving_why);
	has_str(info.identity, "commit:bbbb", "or the commit");
	is_int(info.bytes, 23, "a small file comes whole");
	serving_source->close(object);
	serving_log();
	is_int(serving_load("hf://me/elsewhere/7000", 7000, 7000), 0,
	       "a file that is on another host");
	log = serving_log();
	is_int(serving_count(log, "auth=Bearer good"), 1,
	       "is read there without the token");
	if (serving_open("hf://me/elsewhere/7000", &object, &info))
		bail("%s", serving_why);
	has_str(info.identity, "sha256:cccc",
		"what that host says of commit and SHA-256 does not count");
	serving_source->close(object);
	serving_fails("hf://me/metadata/7000", -EPERM, "inner network",
		      "a hub that leads to the metadata of an instance");
	setenv("HF_ENDPOINT", "http://hub.example", 1);
	setenv("http_proxy", serving_url("/"), 1);
	serving_again("");
	serving_fails("hf://me/inward/7000", -EPERM,
		      "an address of an inner network, http://10.0.0.1/x",
		      "one that leads to an inner network");
	unsetenv("http_proxy");
	setenv("HF_ENDPOINT", serving_url("/"), 1);
	serving_again("");
	serving_fails("hf://me/liar/7000", -EBADMSG, "the hub says 7001",
		      "a size that is not the hub's is refused");
	is_int(serving_load("hf://me/moving/1", 1, 1), 0,
	       "a hub that answers for another commit later");
	serving_fails("hf://me/moving/1", -ESTALE,
		      "other files of the model were of", "is refused");
	is_int(serving_list("hf://me/m/"), 0,
	       "the files of a model are listed");
	is_str(serving_listed, "config.json:23 model.safetensors:7000 ",
	       "from all pages, without folders");
	is_int(serving_list("hf://me/away/"), -EBADMSG,
	       "a list that goes on at another host is refused");
	setenv("HF_TOKEN", "bad", 1);
	serving_fails("hf://me/gated/7000", -EACCES, "must be granted",
		      "a gated model says so");
	ok(!strstr(serving_why, "bad"), "without the token: %s", serving_why);
	setenv("HF_HUB_OFFLINE", "1", 1);
	serving_log();
	serving_fails("hf://me/m/7000", -ENETDOWN, "HF_HUB_OFFLINE",
		      "HF_HUB_OFFLINE is kept");
	is_int(serving_count(serving_log(), "resolve"), 0, "nothing is asked");
}

int main(void)
{
	plan(0);
	if (!serving_start(false, "patience-ms=5000"))
		skip_all("python3 cannot run the server");
	test_s3();
	test_injection();
	test_credentials();
	test_renewal();
	test_google();
	test_hub();
	serving_stop();
	return done_testing();
}
