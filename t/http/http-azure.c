/* SPDX-License-Identifier: MIT */
/* lib/http: az://, with keys, tokens and connection strings of Azure. */
#include "serving.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tap.h"
#include "http/azure.h"
#include "http/azure_sign.h"
#include "http/hmac.h"

/* The key of the account devstoreaccount1 of Azure's emulators, for all. */
#define KEY                                            \
	"Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6" \
	"IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
#define DATE "Fri, 26 Jun 2015 23:39:12 GMT"
#define LIST "https://myaccount.blob.core.windows.net/c?comp=list&delimiter=%2F"

static const char *const variables[] = {
	"AZURE_STORAGE_CONNECTION_STRING", "AZURE_STORAGE_ACCOUNT_NAME",
	"AZURE_STORAGE_ACCOUNT",           "AZURE_STORAGE_KEY",
	"AZURE_STORAGE_ACCOUNT_KEY",       "AZURE_STORAGE_SAS_TOKEN",
	"AZURE_STORAGE_ENDPOINT_SUFFIX",   "AZURE_STORAGE_BLOB_ENDPOINT",
	"AZURE_STORAGE_SERVICE_ENDPOINT",
};

/* Only these variables; a value NULL is not set. The endpoint is the server. */
static void account(const char *name, const char *key, const char *token)
{
	for (size_t i = 0; i < sizeof(variables) / sizeof(*variables); i++)
		unsetenv(variables[i]);
	setenv("AZURE_STORAGE_BLOB_ENDPOINT", serving_url("/devstoreaccount1/"),
	       1);
	if (name)
		setenv("AZURE_STORAGE_ACCOUNT_NAME", name, 1);
	if (key)
		setenv("AZURE_STORAGE_KEY", key, 1);
	if (token)
		setenv("AZURE_STORAGE_SAS_TOKEN", token, 1);
}

/* RFC 4231, test cases 1, 2, 6 and 7. */
static void test_hmac(void)
{
	static const char *const data[] = {
		"Hi There",
		"what do ya want for nothing?",
		"Test Using Larger Than Block-Size Key - Hash Key First",
		"This is a test using a larger than block-size key and a "
		"larger than block-size data. The key needs to be hashed "
		"before being used by the HMAC algorithm.",
	};
	static const char *const macs[] = {
		"sDRMYdjbOFNcqK/OrwvxK4gdwgDJgz2nJuk3bC4yz/c=",
		"W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM=",
		"YOQxWR7gtn8Niiaqy/W3f44LxiE3KMUUBUYEDw7jf1Q=",
		"mwn/pxuUL8snY1+81bDpRL/cY2RPBxOTin9RU1w6NeI=",
	};
	uint8_t key[131], mac[WEIR__HTTP_SHA256];

	for (unsigned i = 0; i < 4; i++) {
		size_t n = i == 0 ? 20 : i == 1 ? 4 : sizeof(key);
		char *text;

		memset(key, i ? 0xaa : 0x0b, n);
		if (i == 1)
			memcpy(key, "Jefe", 4);
		weir__http_hmac(key, n, data[i], strlen(data[i]), mac);
		text = weir__http_base64(mac, sizeof(mac));
		is_str(text, macs[i], "HMAC-SHA-256 of RFC 4231: '%.20s'",
		       data[i]);
		free(text);
	}
}

/* RFC 4648, section 10. */
static void test_base64(void)
{
	static const char *const coded[] = {
		"", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"
	};
	static const char *const wrong[] = { "Z", "Zg=x",
					     "Zg===", "Z-==", "Zg ==" };
	uint8_t bytes[16];

	for (int i = 0; i < 7; i++) {
		char *text =
			weir__http_base64((const uint8_t *)"foobar", (size_t)i);

		is_str(text, coded[i], "Base64 of %d bytes", i);
		free(text);
		if (weir__http_base64_read(coded[i], bytes) == i)
			ok(!memcmp(bytes, "foobar", (size_t)i), "and back");
		else
			ok(false, "and back");
	}
	for (int i = 0; i < 5; i++)
		is_int(weir__http_base64_read(wrong[i], bytes), -EINVAL,
		       "'%s' is no Base64", wrong[i]);
}

/*
 * The text is that of "Authorize with Shared Key" of Microsoft's reference, but
 * for the version. The signatures are those of azure-storage-blob 12.31.1 of
 * PyPI for the same requests; it asks for ranges by another header, so
 * server.py checks signatures of ranges, as the reference has them.
 */
static void test_signature(void)
{
	static const struct {
		struct weir__http_azure_get get;
		const char *account, *signature;
	} all[] = {
		{ { "https://myaccount.blob.core.windows.net/mycontainer"
		    "?comp=metadata&restype=container&timeout=20",
		    DATE, "", "", "" },
		  "myaccount",
		  "e5TGtx82y7hiuUggUz65t9G3j7+ZOihpMZ663DFSmD0=" },
		{ { "https://myaccount.blob.core.windows.net/c/a%20b%2Bc/"
		    "%C3%A9.bin",
		    DATE, "", "\"0x8D\"", "" },
		  "myaccount",
		  "nbCkp7D87RTHwPG1ksxSd9sj9tDUuwzQ9bjh+KEwfEw=" },
		{ { "http://127.0.0.1:10000/devstoreaccount1/c?comp=list"
		    "&delimiter=%2F&prefix=a%20b%2F&restype=container",
		    DATE, "", "", "" },
		  "devstoreaccount1",
		  "UnOufobg1niTFVSDwHhN5GLi5pEmrK/mqOh+D9kbE/o=" },
		{ { LIST "&marker=m%2F1%3D%3D%26&prefix=a%20b%2F"
			 "&restype=container",
		    DATE, "", "", "" },
		  "myaccount",
		  "RPoKStxNQ8UZ0UP8uMVg0cmxnIFITBOGPv0W57jY8sc=" },
	};
	char date[40], *text;

	text = weir__http_azure_text("myaccount", &all[0].get);
	is_str(text,
	       "GET\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:" DATE
	       "\nx-ms-version:2021-12-02\n/myaccount/mycontainer\n"
	       "comp:metadata\nrestype:container\ntimeout:20",
	       "the text that is signed is that of the reference");
	free(text);
	for (unsigned i = 0; i < sizeof(all) / sizeof(*all); i++) {
		text = weir__http_azure_sign(all[i].account, KEY, &all[i].get);
		has_str(text, all[i].signature, "the signature of GET %s",
			all[i].get.url);
		free(text);
	}
	weir__http_azure_date(1435361952, date);
	is_str(date, DATE, "the time is written as in the reference");
}

static void test_page(void)
{
	static const struct {
		const char *text, *listed, *title;
		int r;
	} all[] = {
		{ "<EnumerationResults><Blobs><Blob><Name>p/a&lt;b</Name>"
		  "<Content-Length>7</Content-Length></Blob><Blob>"
		  "<Name Encoded=\"true\">p/%EF%BF%BE&</Name>"
		  "<Content-Length>8</Content-Length></Blob><BlobPrefix>"
		  "<Name>p/s/</Name></BlobPrefix></Blobs><NextMarker/>"
		  "</EnumerationResults>",
		  "a<b:7 \xef\xbf\xbe&:8 ", "names with entities, or encoded",
		  0 },
		{ "<EnumerationResults><Blobs><Blob><Name>p/s/deep</Name>"
		  "<Content-Length>7</Content-Length></Blob><Blob>"
		  "<Name>q/a</Name><Content-Length>7</Content-Length></Blob>"
		  "</Blobs></EnumerationResults>",
		  "", "what is not in the folder is left out", 0 },
		{ "<EnumerationResults><Blobs><Blob><Name>p/a</Name>"
		  "<Content-Length>7</Content-Length></Blob>",
		  "", "a list that is cut short", -EBADMSG },
		{ "<html>", "", "something else than a list", -EBADMSG },
	};

	for (unsigned i = 0; i < sizeof(all) / sizeof(*all); i++) {
		char *next = NULL;

		*serving_listed = '\0';
		is_int(weir__http_listing_page(&weir__http_azure_listing,
					       all[i].text, "p/", serving_found,
					       NULL, &next, serving_why),
		       all[i].r, "%s", all[i].title);
		is_str(serving_listed, all[i].listed, "has the names");
		ok(!next, "and no next page");
		free(next);
	}
}

static void test_key(void)
{
	struct weir_source_info info;
	const char *log;
	void *o;

	account("devstoreaccount1", KEY, NULL);
	serving_log();
	is_int(serving_load("az://models/a b+c/\xc3\xa9~(1)", 300000, 100000),
	       0, "a blob is read by the key of the account: %s", serving_why);
	log = serving_log();
	has_str(log, "GET /devstoreaccount1/models/a%20b%2Bc/%C3%A9~%281%29 ",
		"its name is encoded");
	has_str(log, "match=\"0x8D1\"", "ranges have the ETag of the first");
	ok(!strstr(log, KEY), "the key is not sent");
	if (serving_open("az://models/x", &o, &info))
		bail("%s", serving_why);
	is_str(info.identity, "etag:\"0x8D1\"", "the ETag is the identity");
	serving_source->close(o);
	is_int(serving_list("az://models/dir/"), 0, "a folder is listed: %s",
	       serving_why);
	is_str(serving_listed, "a.json:16 b&c.safetensors:29 d.json:16 ",
	       "its blobs, of all pages, without those of folders");
	is_int(serving_list("az://models"), 0, "a container is listed");
	is_str(serving_listed, "a.json:16 b&c.safetensors:29 d.json:16 ",
	       "by its name alone");
	is_int(serving_load("az://models/busy", 300000, 100000), 0,
	       "a server that is busy is asked again");
	serving_fails("az://models/changes", -ESTALE, "412",
		      "a blob that changes while it is read");
	serving_fails("az://models/none", -ENOENT, "there is no such blob",
		      "a blob that is not there");
	serving_fails("az://missing/x", -ENOENT, "there is no such container",
		      "a container that is not there");
	serving_fails("az://models/", -EINVAL, "names no blob",
		      "a container alone");
	account("devstoreaccount1", "d3Jvbmc=", NULL);
	serving_fails("az://models/x", -EACCES, "AZURE_STORAGE_KEY",
		      "a wrong key");
	account("devstoreaccount1", "no key", NULL);
	serving_fails("az://models/x", -EINVAL,
		      "AZURE_STORAGE_KEY is no Base64", "a key that is none");
	account(NULL, KEY, NULL);
	serving_fails("az://models/x", -EINVAL,
		      "needs AZURE_STORAGE_ACCOUNT_NAME",
		      "a key without an account");
}

/* The last sentence has no token. */
static void hides(void)
{
	ok(!strstr(serving_why, "sig=") && strstr(serving_why, "az://"),
	   "is not told: %s", serving_why);
}

static void test_token(void)
{
	static const char token[] = "?sv=2021-12-02&se=2036-01-01&sp=rl"
				    "&sig=good%2F%3D";
	struct weir_source_info info;
	void *o;

	account(NULL, NULL, token);
	serving_log();
	is_int(serving_load("az://models/x", 300000, 100000), 0,
	       "a blob is read by a token: %s", serving_why);
	has_str(serving_log(),
		"/models/x?sv=2021-12-02&se=2036-01-01&sp=rl&sig=good%2F%3D ",
		"that follows the path");
	is_int(serving_list("az://models/dir/"), 0, "a folder is listed");
	has_str(serving_log(), "&restype=container&sv=2021-12-02&se=",
		"with the token after the query");
	if (serving_open("az://models/x", &o, &info))
		bail("%s", serving_why);
	ok(!strstr(info.identity, "good"), "it is not in the identity");
	serving_source->close(o);
	account("devstoreaccount1", KEY, token);
	is_int(serving_load("az://models/x", 300000, 300000), 0,
	       "a token and a key");
	has_str(serving_log(), "auth= ", "the token is used");
	account(NULL, NULL, "sig=old");
	serving_fails("az://models/x", -EACCES,
		      "the time of the signature is over",
		      "a token that has ended");
	hides();
	account(NULL, NULL, "sig=ends");
	serving_fails("az://models/x", -EACCES,
		      "the time of the signature is over",
		      "a token that ends during a load");
	hides();
	account(NULL, NULL, "sig=write");
	serving_fails("az://models/x", -EACCES, "no right to read",
		      "a token without the right to read");
	hides();
	account(NULL, NULL, "sig=blobs");
	is_int(serving_list("az://models/dir/"), -EACCES,
	       "a token without the right to list");
	has_str(serving_why, "AZURE_STORAGE_SAS_TOKEN", "is named");
	hides();
	account(NULL, NULL, "sig=a b");
	serving_fails("az://models/x", -EINVAL,
		      "AZURE_STORAGE_SAS_TOKEN has no token",
		      "a token with a space");
	account(NULL, NULL, token);
	setenv("AZURE_STORAGE_BLOB_ENDPOINT", "http://192.0.2.1/a", 1);
	serving_fails("az://models/x", -EPERM, "not sent over plain http",
		      "a token goes over plain http to this machine only");
}

/* A blob is somewhere else: @part is of what the account gets, once. */
static void leads(const char *part, const char *title)
{
	const char *log, *other;

	serving_log();
	is_int(serving_load("az://models/leads", 300000, 100000), 0,
	       "an account may lead to another host, %s", title);
	log = serving_log();
	other = strstr(log, "GET /plain/300000 ");
	ok(other && !strstr(other, "sig=") &&
		   !strstr(other, "auth=SharedKey") && !strstr(other, "GMT") &&
		   serving_count(log, part) == 1,
	   "which does not get it");
}

static void test_leads(void)
{
	account("devstoreaccount1", KEY, NULL);
	leads("auth=SharedKey", "with a key");
	account(NULL, NULL, "sig=good%2F%3D");
	leads("sig=good", "with a token");
}

static void test_public(void)
{
	account(NULL, NULL, NULL);
	is_int(serving_load("az://public/x", 300000, 100000), 0,
	       "a public blob needs neither: %s", serving_why);
	is_int(serving_list("az://public/dir/"), 0, "nor does a folder");
	serving_fails("az://models/x", -EACCES, "has no public containers",
		      "an account without public containers");
	has_str(serving_why, "no credentials were found",
		"there were no credentials");
	is_int(serving_list("az://models/dir/"), -EACCES, "its folders");
	has_str(serving_why, "no credentials were found",
		"there were none either");
}

static void test_connection(void)
{
	char text[600];

	account("other", "d3Jvbmc=", "sig=old");
	snprintf(text, sizeof(text),
		 "DefaultEndpointsProtocol=http;accountname=devstoreaccount1;"
		 "AccountKey=" KEY ";BlobEndpoint=%s;",
		 serving_url("/devstoreaccount1"));
	setenv("AZURE_STORAGE_CONNECTION_STRING", text, 1);
	is_int(serving_load("az://models/x", 300000, 100000), 0,
	       "a connection string has all, and goes before others: %s",
	       serving_why);
	snprintf(text, sizeof(text),
		 "BlobEndpoint=%s;SharedAccessSignature=sig=good%%2F%%3D",
		 serving_url("/devstoreaccount1"));
	setenv("AZURE_STORAGE_CONNECTION_STRING", text, 1);
	is_int(serving_load("az://models/x", 300000, 100000), 0,
	       "one with a token: %s", serving_why);
	setenv("AZURE_STORAGE_CONNECTION_STRING", "AccountKey=" KEY, 1);
	serving_fails("az://models/x", -EINVAL, "which account has it?",
		      "one without an account");
	setenv("AZURE_STORAGE_CONNECTION_STRING",
	       "BlobEndpoint=https://a.example/?sig=good", 1);
	serving_fails("az://models/x", -EINVAL, "with a query",
		      "a token in its URL");
	hides();
	account(NULL, NULL, NULL);
	setenv("AZURE_STORAGE_BLOB_ENDPOINT", "127.0.0.1:10000/a", 1);
	serving_fails("az://models/x", -EINVAL,
		      "AZURE_STORAGE_BLOB_ENDPOINT has an",
		      "an endpoint that is no URL");
}

/* Where requests go that no endpoint is given for. */
static void test_names(void)
{
	static const struct {
		const char *name, *suffix, *url;
	} all[] = {
		{ "acct", NULL,
		  "https://acct.blob.core.windows.net/c-1/x%20y" },
		{ "acct", "core.chinacloudapi.cn",
		  "https://acct.blob.core.chinacloudapi.cn/c-1/x%20y" },
		{ "acct", "blob.core.usgovcloudapi.net",
		  "https://acct.blob.core.usgovcloudapi.net/c-1/x%20y" },
		{ "a.evil.example/", NULL, NULL },
		{ "acct", "evil.example/", NULL },
	};

	for (unsigned i = 0; i < sizeof(all) / sizeof(*all); i++) {
		struct weir__http_start s = { 0 };
		struct weir__http_url u;
		int r;

		account(NULL, NULL, NULL);
		unsetenv("AZURE_STORAGE_BLOB_ENDPOINT");
		setenv("AZURE_STORAGE_ACCOUNT", all[i].name, 1);
		if (all[i].suffix)
			setenv("AZURE_STORAGE_ENDPOINT_SUFFIX", all[i].suffix,
			       1);
		if (weir__http_url_parse("az://c-1/x y", &u, serving_why))
			bail("%s", serving_why);
		r = weir__http_azure_begin(&u, &s, serving_why);
		if (all[i].url)
			is_str(s.q.url, all[i].url, "account %s, suffix %s",
			       all[i].name,
			       all[i].suffix ? all[i].suffix : "none");
		else
			is_int(r, -EINVAL, "%s and %s would be another host",
			       all[i].name,
			       all[i].suffix ? all[i].suffix : "no suffix");
		weir__http_url_clear(&u);
		weir__http_start_clear(&s);
	}
}

/* Values that would add lines to a request. */
static void test_injection(void)
{
	for (size_t i = 0; i < sizeof(variables) / sizeof(*variables); i++) {
		account(NULL, NULL, NULL);
		if (!strcmp(variables[i], "AZURE_STORAGE_SERVICE_ENDPOINT"))
			unsetenv("AZURE_STORAGE_BLOB_ENDPOINT");
		setenv(variables[i], "t\r\nX-Evil: 1", 1);
		serving_log();
		serving_fails("az://public/x", -EINVAL, variables[i],
			      variables[i]);
		has_str(serving_why, "has a control character", "is refused");
		is_int(serving_count(serving_log(), "GET"), 0, "is not sent");
	}
}

int main(void)
{
	plan(0);
	test_hmac();
	test_base64();
	test_signature();
	if (!serving_start(false, "patience-ms=20000,backoff-ms=10"))
		skip_all("python3 cannot run the server");
	test_page();
	test_key();
	test_token();
	test_leads();
	test_public();
	test_connection();
	test_names();
	test_injection();
	serving_stop();
	return done_testing();
}
