/* SPDX-License-Identifier: MIT */
/* lib/http: HTTPS, certificates, and redirects from it. */
#include "serving.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tap.h"

/* The authority of another server, and the folder that OpenSSL looks in. */
static char other[300], folder[300];

static void make_others(void)
{
	char command[2000];

	snprintf(other, sizeof(other), "%s/other.pem", serving_dir);
	snprintf(folder, sizeof(folder), "%s/authorities", serving_dir);
	snprintf(command, sizeof(command),
		 "openssl req -x509 -newkey rsa:2048 -nodes -days 2 "
		 "-subj /CN=other -keyout /dev/null -out %s >/dev/null 2>&1 && "
		 "mkdir %s && cp %s %s/$(openssl x509 -hash -noout -in %s).0",
		 other, folder, serving_cert, folder, serving_cert);
	if (system(command))
		bail("openssl makes no second certificate");
}

/* An object is read by TLS; what @name names is trusted. */
static void trusted(const char *name, const char *value, const char *title)
{
	int r;

	setenv(name, value, 1);
	serving_again("stall-ms=2000");
	r = serving_load(serving_tls("/plain/9"), 9, 9);
	if (r)
		ok(false, "%s: %d, '%s'", title, r, serving_why);
	else
		ok(true, "%s", title);
}

/* No object is read by TLS. */
static void refused(const char *title)
{
	serving_again("stall-ms=2000");
	serving_fails(serving_tls("/plain/9"), -EPROTO, "certificate", title);
}

static void test_bundles(void)
{
	unsetenv("CURL_CA_BUNDLE");
	refused("without a variable nothing is trusted");
	trusted("SSL_CERT_FILE", serving_cert, "SSL_CERT_FILE is a file");
	setenv("CURL_CA_BUNDLE", other, 1);
	refused("CURL_CA_BUNDLE takes its place");
	unsetenv("SSL_CERT_FILE");
	unsetenv("CURL_CA_BUNDLE");
	trusted("SSL_CERT_DIR", folder, "SSL_CERT_DIR is a folder");
	setenv("CURL_CA_BUNDLE", other, 1);
	refused("which CURL_CA_BUNDLE takes the place of, too");
	unsetenv("CURL_CA_BUNDLE");
	setenv("SSL_CERT_FILE", other, 1);
	trusted("SSL_CERT_DIR", folder, "SSL_CERT_FILE does not");
	unsetenv("SSL_CERT_FILE");
	unsetenv("SSL_CERT_DIR");
	setenv("CURL_CA_BUNDLE", other, 1);
	trusted("REQUESTS_CA_BUNDLE", serving_cert,
		"REQUESTS_CA_BUNDLE goes before CURL_CA_BUNDLE");
	trusted("REQUESTS_CA_BUNDLE", folder, "and may be a folder");
	setenv("AWS_CA_BUNDLE", other, 1);
	trusted("REQUESTS_CA_BUNDLE", serving_cert,
		"AWS_CA_BUNDLE is not for other servers");
	unsetenv("AWS_CA_BUNDLE");
	unsetenv("REQUESTS_CA_BUNDLE");
	unsetenv("CURL_CA_BUNDLE");
}

/* An object of S3 is read from the server, of a bucket that is public. */
static void trusted_s3(const char *title)
{
	int r;

	serving_again("stall-ms=2000");
	r = serving_load("s3://plain/9", 9, 9);
	if (r)
		ok(false, "%s: %d, '%s'", title, r, serving_why);
	else
		ok(true, "%s", title);
}

static void test_aws(void)
{
	char text[400], path[300];

	setenv("AWS_ENDPOINT_URL", serving_tls(""), 1);
	setenv("REQUESTS_CA_BUNDLE", serving_cert, 1);
	trusted_s3("REQUESTS_CA_BUNDLE is for S3 too");
	setenv("REQUESTS_CA_BUNDLE", other, 1);
	setenv("AWS_CA_BUNDLE", serving_cert, 1);
	trusted_s3("AWS_CA_BUNDLE goes before it, also without credentials");
	unsetenv("AWS_CA_BUNDLE");
	snprintf(text, sizeof(text), "[default]\nca_bundle = %s\n",
		 serving_cert);
	setenv("AWS_CONFIG_FILE", serving_file("config", text), 1);
	trusted_s3("so does ca_bundle of the profile");
	setenv("AWS_CA_BUNDLE", other, 1);
	serving_again("stall-ms=2000");
	serving_fails("s3://plain/300000", -EPROTO, "certificate",
		      "AWS_CA_BUNDLE goes before that one");
	unsetenv("AWS_CONFIG_FILE");
	setenv("AWS_CA_BUNDLE", serving_cert, 1);
	snprintf(path, sizeof(path), "%s", serving_file("jwt", "jwt+/="));
	setenv("AWS_WEB_IDENTITY_TOKEN_FILE", path, 1);
	setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/r", 1);
	setenv("AWS_ENDPOINT_URL_STS", serving_tls("/sts"), 1);
	serving_log();
	trusted_s3("a web identity is taken to a role over TLS");
	ok(strstr(serving_log(), "Credential=web/"), "by AWS_CA_BUNDLE");
	unsetenv("AWS_WEB_IDENTITY_TOKEN_FILE");
	unsetenv("AWS_ROLE_ARN");
	unsetenv("AWS_ENDPOINT_URL_STS");
	unsetenv("AWS_ENDPOINT_URL");
	unsetenv("AWS_CA_BUNDLE");
	unsetenv("REQUESTS_CA_BUNDLE");
}

int main(void)
{
	char url[300];

	plan(0);
	if (!serving_start(true, "stall-ms=2000,patience-ms=20000"))
		skip_all("no python3, or no openssl for a certificate");
	make_others();
	serving_fails(serving_tls("/plain/9?sig=secret"), -EPROTO,
		      "certificate",
		      "a certificate that nobody has signed is refused");
	ok(!strstr(serving_why, "secret"), "%s", serving_why);
	is_int(serving_count(serving_log(), "handshake"), 1,
	       "the server is not asked again");
	setenv("CURL_CA_BUNDLE", serving_cert, 1);
	serving_again("stall-ms=2000");
	is_int(serving_load(serving_tls("/plain/9000000"), 9000000, 1000000), 0,
	       "CURL_CA_BUNDLE names authorities that are trusted");
	is_int(serving_load(serving_tls("/cuts/40000/900000"), 900000, 300000),
	       0, "connections of TLS that are cut go on");
	snprintf(url, sizeof(url), "https://127.0.0.1:%u/plain/9",
		 serving_tls_port);
	serving_fails(url, -EPROTO, "certificate",
		      "a certificate for another name is refused");
	test_bundles();
	test_aws();
	setenv("CURL_CA_BUNDLE", serving_cert, 1);
	serving_again("stall-ms=2000");
	snprintf(url, sizeof(url), "/to?http://localhost:%u/plain/9",
		 serving_port);
	serving_fails(serving_tls(url), -EPERM, "from https to http",
		      "a redirect from https to http is refused");
	snprintf(url, sizeof(url), "/to?https://localhost:%u/plain/9",
		 serving_tls_port);
	is_int(serving_load(serving_tls(url), 9, 9), 0,
	       "one from https to https is followed");
	setenv("CURL_CA_BUNDLE", "/nonexistent.pem", 1);
	serving_again("stall-ms=2000");
	serving_fails(serving_tls("/plain/9"), -EPROTO, "cannot be read",
		      "a file of authorities that is not there");
	is_int(serving_load(serving_url("/plain/9"), 9, 9), 0,
	       "http needs none");
	serving_stop();
	return done_testing();
}
