/* SPDX-License-Identifier: MIT */
/* lib/http: HTTPS, certificates, and redirects from it. */
#include "serving.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tap.h"

int main(void)
{
	char url[300];

	plan(0);
	if (!serving_start(true, "stall-ms=2000,patience-ms=20000"))
		skip_all("no python3, or no openssl for a certificate");
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
	unsetenv("CURL_CA_BUNDLE");
	setenv("SSL_CERT_FILE", serving_cert, 1);
	serving_again("stall-ms=2000");
	is_int(serving_load(serving_tls("/plain/9"), 9, 9), 0,
	       "so does SSL_CERT_FILE");
	snprintf(url, sizeof(url), "/to?http://localhost:%u/plain/9",
		 serving_port);
	serving_fails(serving_tls(url), -EPERM, "from https to http",
		      "a redirect from https to http is refused");
	snprintf(url, sizeof(url), "/to?https://localhost:%u/plain/9",
		 serving_tls_port);
	is_int(serving_load(serving_tls(url), 9, 9), 0,
	       "one from https to https is followed");
	setenv("SSL_CERT_FILE", "/nonexistent.pem", 1);
	serving_again("stall-ms=2000");
	serving_fails(serving_tls("/plain/9"), -EPROTO, "cannot be read",
		      "a file of authorities that is not there");
	is_int(serving_load(serving_url("/plain/9"), 9, 9), 0,
	       "http needs none");
	serving_stop();
	return done_testing();
}
