/* SPDX-License-Identifier: MIT */
/*
 * Models at URLs: files, indexes and folders, how many objects are opened for
 * each, and what is missing.
 */
#include <errno.h>
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
	       "a folder with an index and shards, names encoded");
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
	missing();
	weir_close(weir);
	is_int(mem.wrong, 0, "no call broke a rule of sources");
	is_int(mem.opened, mem.closed, "each object was closed");
	mem_end();
	return done_testing();
}
