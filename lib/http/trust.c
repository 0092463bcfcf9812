/* SPDX-License-Identifier: MIT */
#include "http/trust.h"
#include "http/wire.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

static const char *value_of(const char *name)
{
	const char *value = secure_getenv(name);

	return value && *value ? value : NULL;
}

static bool is_folder(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISDIR(st.st_mode);
}

/*
 * A file or a folder that takes the place of the system's: of AWS as its
 * clients do, then in the order of Python's requests.
 */
static const char *find_bundle(const struct weir__http_auth *auth)
{
	static const char *const names[] = { "REQUESTS_CA_BUNDLE",
					     "CURL_CA_BUNDLE" };
	const char *path = NULL;

	if (auth && auth->kind == WEIR__HTTP_AUTH_AWS) {
		path = value_of("AWS_CA_BUNDLE");
		if (!path)
			path = auth->ca;
	}
	for (size_t i = 0; !path && i < sizeof(names) / sizeof(*names); i++)
		path = value_of(names[i]);
	return path;
}

/* NULL: nothing is trusted by a file, or by a folder. */
static int set(CURL *easy, const char *file, const char *folder)
{
	CURLcode code = curl_easy_setopt(easy, CURLOPT_CAINFO, file);

	if (!code) {
		code = curl_easy_setopt(easy, CURLOPT_CAPATH, folder);
		/* A libcurl without folders has none of the system either. */
		if (code && !folder)
			code = CURLE_OK;
	}
	return code == CURLE_OUT_OF_MEMORY ? -ENOMEM : code ? -EOPNOTSUPP : 0;
}

int weir__http_trust(CURL *easy, const struct weir__http_auth *auth)
{
	const char *bundle = find_bundle(auth);
	const char *file = value_of("SSL_CERT_FILE");
	const char *folder = value_of("SSL_CERT_DIR");
	CURLcode code = CURLE_OK;

	if (bundle)
		return is_folder(bundle) ? set(easy, NULL, bundle)
					 : set(easy, bundle, NULL);
	/* Each of these takes the place of what OpenSSL has for it. */
	if (file)
		code = curl_easy_setopt(easy, CURLOPT_CAINFO, file);
	if (!code && folder)
		code = curl_easy_setopt(easy, CURLOPT_CAPATH, folder);
	return code == CURLE_OUT_OF_MEMORY ? -ENOMEM : code ? -EOPNOTSUPP : 0;
}
