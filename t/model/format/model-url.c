/* SPDX-License-Identifier: MIT */
/*
 * Models at URLs: files, indexes and folders, how many objects are opened for
 * each, and what is missing.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir.h>

#include "files.h"
#include "mem_source.h"
#include "sample.h"
#include "tap.h"

static struct weir *weir;

static const struct sample_tensor a[] = { { "a", "U8", 100001, 1 } };
static const struct sample_tensor b[] = { { "b", "F32", 1000, 4 } };

static const char *url(const char *name)
{
	return mem_url(files_path(name));
}

/* Opens @name, and loads it. The result, or 1 if bytes are wrong. */
static int load(const char *name, size_t tensors)
{
	struct weir_buft *ram;
	struct weir_weights *w;
	int r;

	if (weir_dev_buft(weir_dev_get(weir, 0), WEIR_MEM_PLAIN, &ram) < 0)
		bail("%s", weir_error());
	r = weir_load_all(weir, name, ram, NULL, &w);
	if (r < 0)
		return r;
	r = weir_weights_count(w) != tensors || sample_wrong(w, 1);
	weir_weights_free(w);
	return r;
}

static void make(void)
{
	files_dir("sharded");
	sample_write(files_path("sharded/x y%1.safetensors"), a, 1, 0, 1);
	sample_write(files_path("sharded/two.safetensors"), b, 1, 0, 1);
	files_text("sharded/model.safetensors.index.json",
		   "{\"weight_map\":{\"a\":\"x y%1.safetensors\","
		   "\"b\":\"two.safetensors\"}}");
	files_dir("single");
	sample_write(files_path("single/model.safetensors"), a, 1, 0, 1);
	files_dir("other");
	sample_write(files_path("other/weights.safetensors"), a, 1, 0, 1);
	files_text("other/config.json", "{}");
	files_dir("two");
	sample_write(files_path("two/one.safetensors"), a, 1, 0, 1);
	sample_write(files_path("two/two.safetensors"), a, 1, 0, 1);
	files_dir("none");
	files_text("none/README.md", "nothing");
	files_dir("lacks");
	files_text("lacks/model.safetensors.index.json",
		   "{\"weight_map\":{\"a\":\"gone.safetensors\"}}");
	files_dir("up");
	files_text("up/model.safetensors.index.json",
		   "{\"weight_map\":{\"a\":\"../single/model.safetensors\"}}");
	files_text("page.safetensors",
		   "<!DOCTYPE html><html></html>          ");
}

static void found(void)
{
	is_int(load(url("single/model.safetensors"), 1), 0, "a file");
	is_int(mem.opened, 1, "one object is opened for it");
	mem.opened = mem.closed = 0;
	is_int(load(url("single/model.safetensors?key=secret"), 1), 0,
	       "a file with a query");
	mem.opened = mem.closed = 0;
	is_int(load(url("single"), 1), 0, "a folder with a file");
	is_int(mem.opened, 1, "one object is opened for it");
	mem.opened = mem.closed = 0;
	is_int(load(url("sharded/"), 2), 0,
	       "a folder with an index and shards, names as they are");
	is_int(mem.opened, 3, "an object is opened for each of them");
	is_int(load(url("sharded?key=secret"), 2), 0,
	       "a folder with a query, which is passed on");
	ok(mem.queries >= 3, "the query was part of each URL");
	is_int(load(url("sharded/model.safetensors.index.json"), 2), 0,
	       "an index");
	sample_write(files_path("blob"), a, 1, 0, 1);
	is_int(load(url("blob"), 1), 0, "a file whose name does not say so");
	is_int(load(url("other"), 1), 0,
	       "a folder with another name, which is listed");
}

/* Shards are opened several at once: each open waits for four of them. */
static void together(void)
{
	static const char *const names[] = { "a", "b", "c", "d", "e" };
	char path[64], text[400] = "{\"weight_map\":{";

	files_dir("many");
	for (unsigned i = 0; i < 5; i++) {
		struct sample_tensor t = { names[i], "U8", 1000, 1 };

		snprintf(path, sizeof(path), "many/%s.safetensors", names[i]);
		sample_write(files_path(path), &t, 1, 0, 1);
		snprintf(text + strlen(text), sizeof(text) - strlen(text),
			 "%s\"%s\":\"%s.safetensors\"", i ? "," : "", names[i],
			 names[i]);
	}
	strcat(text, "}}");
	files_text("many/model.safetensors.index.json", text);
	mem.together = 4;
	mem.opened = mem.closed = mem.began = mem.apart = 0;
	is_int(load(url("many/model.safetensors.index.json"), 5), 0,
	       "an index and five shards");
	is_int(mem.apart, 0, "several are opened at once");
	is_int(mem.opened, 6, "each once");
	is_int(mem.closed, 6, "and closed");
	mem.together = 0;
	unlink(files_path("many/b.safetensors"));
	unlink(files_path("many/d.safetensors"));
	is_err(load(url("many/model.safetensors.index.json"), 5), -ENOENT,
	       "its shard 'b.safetensors' does not exist",
	       "the first shard that is missing is named");
	is_int(mem.opened, mem.closed, "those that were opened are closed");
}

static void missing(void)
{
	is_err(load(url("two"), 1), -EINVAL,
	       "several of a kind; name the file to open, one of one.safetensors, two.safetensors",
	       "a folder with two models");
	is_err(load(url("none"), 1), -ENOENT, "it has README.md",
	       "a folder without a model");
	is_err(load(url("nowhere?key=secret"), 1), -ENOENT,
	       "nowhere/: there is no such folder", "a folder that is missing");
	ok(!strstr(weir_error(), "secret"), "no query is in the sentence");
	is_err(load(url("lacks"), 1), -ENOENT,
	       "its shard 'gone.safetensors' does not exist",
	       "a shard that is missing");
	is_err(load(url("up"), 1), -EBADMSG, "..",
	       "a shard outside of the folder");
	is_err(load(url("page.safetensors"), 1), -EOPNOTSUPP,
	       "an HTML or XML page", "a page instead of a model");
	mem.open_fails = -EACCES;
	is_err(load(url("single"), 1), -EACCES, "the test refuses it",
	       "an object that may not be read is not a missing one");
	mem.open_fails = 0;
	mem.no_list = true;
	is_err(load(url("other"), 1), -ENOENT,
	       "neither model.safetensors.index.json nor model.safetensors is there",
	       "a folder that cannot be listed");
	is_err(load("nix://x/y", 1), -ENOENT, "weir-source-nix.so",
	       "a scheme without a source");
}

static int read_beside(const struct weir_model *m, const char *name, char *text)
{
	struct weir_file_info info = { .size = sizeof(info) };
	struct weir_file *file;
	int r = weir_model_beside(m, name, &file);

	if (r < 0)
		return r;
	r = weir_file_info(file, &info);
	if (r == 0)
		r = weir_file_read(file, 0, text, (size_t)info.bytes);
	text[info.bytes] = '\0';
	if (r == 0 &&
	    weir_file_read(file, 1, text, (size_t)info.bytes) != -EINVAL)
		r = 1;
	weir_file_close(file);
	return r;
}

/* The files beside a model at @path. */
static void beside(const char *path, const char *what)
{
	struct weir_model *m;
	char text[100] = "";

	if (weir_model_open(weir, path, NULL, &m) < 0)
		bail("%s", weir_error());
	is_int(read_beside(m, "config.json", text), 0, "a file beside %s",
	       what);
	is_str(text, "{}", "the bytes of a file beside %s", what);
	is_err(read_beside(m, "none.json", text), -ENOENT, "none.json",
	       "a file that is not beside %s", what);
	ok(!strstr(weir_error(), "secret"), "no query is in the sentence");
	is_err(read_beside(m, "../other/config.json", text), -EINVAL,
	       "'../other/config.json' is not the name of a file",
	       "a path is no name of a file beside %s", what);
	is_err(read_beside(m, "..", text), -EINVAL, "'..'",
	       "the folder above is no file beside %s", what);
	is_err(read_beside(m, ".", text), -EINVAL, "'.'",
	       "the folder itself is no file beside %s", what);
	is_err(read_beside(m, "", text), -EINVAL, "''",
	       "a file beside %s needs a name", what);
	weir_model_close(m);
}

static void all_beside(void)
{
	struct weir_source_info info = { .size = sizeof(info) };
	struct weir_model *m;
	struct weir_file *file;
	char text[100];
	void *object;

	beside(files_path("other/weights.safetensors"), "a file");
	beside(files_path("other"), "the file of a folder");
	beside(url("other"), "the object of a folder");
	beside(url("other/weights.safetensors?key=secret"),
	       "an object with a query");
	if (weir_model_open(weir, url("other"), NULL, &m) < 0)
		bail("%s", weir_error());
	mem.open_fails = -EACCES;
	is_int(read_beside(m, "config.json", text), -ENOENT,
	       "an object beside a model that may not be read is a missing one");
	mem.open_fails = 0;
	weir_model_close(m);
	if (mem_object(files_path("blob"), &object, &info) < 0 ||
	    weir_source_file(weir, &mem_table, object, &info, &file) < 0 ||
	    weir_model_open_files(weir, &file, 1, NULL, &m) < 0)
		bail("%s", weir_error());
	is_err(read_beside(m, "config.json", text), -ENOENT, "has no URL",
	       "nothing is beside an object without a URL");
	weir_model_close(m);
	weir_file_close(file);
}

/* An index of this machine names files beside it, whatever they are called. */
static void local_index(void)
{
	char text[5000];

	snprintf(text, sizeof(text), "{\"weight_map\":{\"a\":\"%s\"}}",
		 url("single/model.safetensors"));
	files_text("local.safetensors.index.json", text);
	if (chdir(files_path("")) != 0)
		bail("chdir");
	mem.opened = mem.closed = 0;
	is_err(load("local.safetensors.index.json", 1), -ENOENT,
	       "does not exist", "a shard's name is not a URL");
	is_int(mem.opened, 0, "no source was asked for it");
}

int main(void)
{
	plan(0);
	files_begin();
	make();
	mem_reset();
	if (weir_open(NULL, &weir) < 0)
		bail("%s", weir_error());
	mem_add(weir);
	found();
	together();
	missing();
	mem.no_list = false;
	all_beside();
	local_index();
	weir_close(weir);
	is_int(mem.wrong, 0, "no call broke a rule of sources");
	is_int(mem.opened, mem.closed, "each object was closed");
	mem_end();
	return done_testing();
}
