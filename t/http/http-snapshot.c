/* SPDX-License-Identifier: MIT */
/* lib/http: hf:// where Hugging Face's clients have a model on this machine. */
#include "serving.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tap.h"

#define A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define SUM "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"
#define OTHER "dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd"

static char folder[400];

static const char *at(const char *name)
{
	static char path[2][900];
	static unsigned i;

	snprintf(path[++i % 2], sizeof(path[0]), "%s/%s", folder, name);
	return path[i % 2];
}

static void folder_at(const char *name)
{
	if (mkdir(at(name), 0700) && errno != EEXIST)
		bail("%s: %s", at(name), strerror(errno));
}

static void file_at(const char *name, const char *text, int64_t bytes)
{
	FILE *f = fopen(at(name), "w");

	if (!f || fputs(text, f) < 0 || fclose(f) ||
	    (bytes && truncate(at(name), bytes)))
		bail("%s: %s", at(name), strerror(errno));
}

static void link_at(const char *name, const char *to)
{
	if (symlink(to, at(name)))
		bail("%s: %s", at(name), strerror(errno));
}

/* The layout that huggingface_hub writes. */
static void make_cache(void)
{
	snprintf(folder, sizeof(folder), "%s/hub", serving_dir);
	folder_at("");
	snprintf(folder, sizeof(folder), "%s/hub/models--me--m", serving_dir);
	folder_at("");
	folder_at("refs");
	folder_at("refs/pr");
	folder_at("blobs");
	folder_at("snapshots");
	folder_at("snapshots/" A);
	folder_at("snapshots/" A "/sub");
	file_at("refs/main", A, 0);
	file_at("refs/pr/1", A "\n", 0);
	file_at("refs/broken", "../../..", 0);
	file_at("blobs/" SUM, "", 7000);
	file_at("blobs/" OTHER, "", 7001);
	file_at("blobs/0123", "{}", 0);
	file_at("../outside", "secret", 0);
	link_at("snapshots/" A "/7000", "../../blobs/" SUM);
	link_at("snapshots/" A "/7001", "../../blobs/" OTHER);
	link_at("snapshots/" A "/7002", "../../blobs/" SUM);
	link_at("snapshots/" A "/sub/config.json", "../../../blobs/0123");
	link_at("snapshots/" A "/evil", "../../../outside");
	link_at("snapshots/" A "/gone", "../../blobs/none");
	folder_at("../models--me--mine");
	file_at("../models--me--mine/file", "secret", 0);
	link_at("snapshots/" A "/mine", "../../../models--me--mine/file");
	file_at("snapshots/" A "/plain.txt", "plain", 0);
}

/* The path that an open gives, "" without one, or the sentence of a failure. */
static const char *opened(const char *url, struct weir_source_info *info)
{
	static char text[4096];
	void *object = NULL;

	if (serving_open(url, &object, info)) {
		snprintf(text, sizeof(text), "%s", serving_why);
		return text;
	}
	if (object)
		serving_source->close(object);
	else if (!*info->path)
		bail("%s: neither an object nor a path", url);
	snprintf(text, sizeof(text), "%s", info->path);
	return text;
}

static void is_blob(const char *url, const char *name, const char *title)
{
	struct weir_source_info info;
	const char *path = opened(url, &info);
	size_t n = strlen(path), m = strlen(name);

	ok(n > m && *path == '/' && !strcmp(path + n - m, name), "%s: %s",
	   title, path);
}

static void test_offline(void)
{
	struct weir_source_info info;

	setenv("HF_HUB_OFFLINE", "1", 1);
	serving_again("");
	serving_log();
	is_blob("hf://me/m/7000", "/blobs/" SUM, "a file of the cache");
	opened("hf://me/m/7000", &info);
	is_int(info.bytes, 7000, "it has its size");
	is_str(info.sha256, SUM, "and the SHA-256 that names its blob");
	is_str(info.name, "hf://me/m/7000", "its name is the URL");
	is_blob("hf://me/m@main/7000", "/blobs/" SUM, "by a branch");
	is_blob("hf://me/m@pr%2F1/7000", "/blobs/" SUM, "by one with a slash");
	is_blob("hf://me/m@" A "/7000", "/blobs/" SUM, "by its commit");
	is_blob("hf://me/m/sub/config.json", "/blobs/0123", "in a folder");
	opened("hf://me/m/sub/config.json", &info);
	is_str(info.sha256, "", "whose blob has another kind of name");
	is_blob("hf://me/m/plain.txt", "/snapshots/" A "/plain.txt",
		"a file that is no link");
	has_str(opened("hf://me/m/evil", &info), "has no such file",
		"a link out of the model's folder is not followed");
	has_str(opened("hf://me/m/mine", &info), "has no such file",
		"nor is one to a folder whose name begins alike");
	has_str(opened("hf://me/m/../../refs/main", &info), "has no such file",
		"nor is a path");
	has_str(opened("hf://me/m/gone", &info),
		"has no such file of commit " A,
		"a link to nothing is no file");
	is_int(serving_load("hf://me/m/none", 1, 1), -ENOENT,
	       "a file that the snapshot lacks does not exist");
	is_int(serving_load("hf://me/m@v9/7000", 1, 1), -ENETDOWN,
	       "a revision that the cache lacks may exist");
	has_str(serving_why, "has no 'v9' of the model", "it is named");
	has_str(opened("hf://me/m@broken/7000", &info), "has no 'broken'",
		"a reference must have a commit");
	has_str(opened("hf://me/m@..%2F..%2Foutside/7000", &info), "has no '..",
		"and be in its folder");
	has_str(opened("hf://me/m@..%2Frefs%2Fmain/7000", &info), "has no '..",
		"without a way out and back");
	is_int(serving_load("hf://me/m@" B "/7000", 1, 1), -ENETDOWN,
	       "so may a commit that the cache lacks");
	is_int(serving_load("hf://me/other/7000", 1, 1), -ENETDOWN,
	       "a model that the cache lacks");
	has_str(serving_why, "HF_HUB_OFFLINE is set", "the variable is named");
	is_int(serving_list("hf://me/m/"), 0, "its files are listed");
	ok(strstr(serving_listed, "7000:7000 ") &&
		   strstr(serving_listed, "plain.txt:5 ") &&
		   !strstr(serving_listed, "sub") &&
		   !strstr(serving_listed, "gone"),
	   "without folders and links to nothing: %s", serving_listed);
	is_int(serving_list("hf://me/m/sub/"), 0, "a folder in it is listed");
	is_str(serving_listed, "config.json:2 ", "too");
	is_int(serving_list("hf://me/m/none/"), -ENOENT, "if it is there");
	is_int(serving_count(serving_log(), "GET"), 0, "no request was sent");
	unsetenv("HF_HUB_OFFLINE");
	setenv("TRANSFORMERS_OFFLINE", "1", 1);
	has_str(opened("hf://me/other/7000", &info),
		"TRANSFORMERS_OFFLINE is set", "so is the other one");
	unsetenv("TRANSFORMERS_OFFLINE");
}

static void test_online(void)
{
	struct weir_source_info info;
	const char *log;

	serving_again("");
	serving_log();
	is_blob("hf://me/m/7000", "/blobs/" SUM,
		"the hub names the commit that the cache has");
	log = serving_log();
	is_int(serving_count(log, "GET"), 1, "one request asks it");
	is_int(serving_count(log, "hosted"), 0, "which no redirect follows");
	opened("hf://me/m/7000", &info);
	is_str(info.sha256, SUM, "its SHA-256 is the blob's");
	is_blob("hf://me/m/sub/config.json", "/blobs/0123",
		"other files of the commit are taken from there");
	is_int(serving_count(serving_log(), "GET"), 0, "without a request");
	serving_again("");
	is_str(opened("hf://me/m/7002", &info), "",
	       "a file of another size than the hub says is not taken");
	serving_again("");
	is_str(opened("hf://me/m/7001", &info), "",
	       "nor one with another SHA-256");
	is_str(opened("hf://me/m@v2/7000", &info), "",
	       "another commit is read from the hub");
	serving_log();
	is_blob("hf://me/m@" A "/7000", "/blobs/" SUM, "a given commit is not");
	is_int(serving_count(serving_log(), "GET"), 0, "nor is it asked");
	is_int(serving_load("hf://me/m@v2/7000", 7000, 7000), 0,
	       "the hub's bytes are read");
}

int main(void)
{
	plan(0);
	if (!serving_start(false, ""))
		skip_all("python3 cannot run the server");
	setenv("HF_ENDPOINT", serving_url("/"), 1);
	make_cache();
	snprintf(folder, sizeof(folder), "%s/hub", serving_dir);
	setenv("HF_HUB_CACHE", folder, 1);
	test_offline();
	setenv("HF_HOME", serving_dir, 1);
	unsetenv("HF_HUB_CACHE");
	test_online();
	serving_stop();
	return done_testing();
}
