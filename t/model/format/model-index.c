/* SPDX-License-Identifier: MIT */
/* A model of several files: its index, and how a directory is searched. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <weir.h>

#include "files.h"
#include "models.h"
#include "tap.h"

#define A ENTRY("a", "U8", "[2]", "[0,2]")
#define B ENTRY("b", "U8", "[3]", "[0,3]")
#define B2 ENTRY("b", "U8", "[2]", "[0,2]")
#define C ENTRY("c", "U8", "[4]", "[3,7]")
#define D ENTRY("d", "U8", "[1]", "[0,1]")

static struct weir *root;

/* The path of the file that opening @name finds; "" if it fails. */
static const char *resolved(const char *name)
{
	struct weir_model_info info = { .size = sizeof(info) };
	static char path[4096];
	struct weir_model *m;

	path[0] = '\0';
	if (weir_model_open(root, files_path(name), NULL, &m) < 0)
		return path;
	weir_model_info(m, &info);
	snprintf(path, sizeof(path), "%s", info.path);
	weir_model_close(m);
	return path;
}

static void an_index_joins_files(void)
{
	struct weir_model_info info = { .size = sizeof(info) };
	struct weir_file_info file = { .size = sizeof(file) };
	struct weir_entry e = { .size = sizeof(e) };
	struct weir_value v = { .size = sizeof(v) };
	struct weir_model *m;

	files_dir("m");
	files_st("m/s-1.safetensors", "{\"__metadata__\":{\"k\":\"1\"}," A "}",
		 2);
	files_st("m/s-2.safetensors",
		 "{" C "," B ",\"__metadata__\":{\"k\":\"2\"}}", 7);
	files_text("m/m.safetensors.index.json",
		   "{\"metadata\":{\"total_size\":9},\"weight_map\":{"
		   "\"c\":\"s-2.safetensors\",\"b\":\"s-2.safetensors\","
		   "\"a\":\"s-1.safetensors\"}}");
	m = models_open(root, "m/m.safetensors.index.json");
	weir_model_info(m, &info);
	ok(info.shards == 2 && info.count == 3 && info.bytes == 9,
	   "an index makes one model of two files");
	is_int(info.total_size, 9, "a model has the total_size of its index");
	weir_model_file(m, 1);
	weir_file_info(weir_model_file(m, 1), &file);
	is_str(file.path, files_path("m/s-2.safetensors"),
	       "shards are in the order of their names");
	weir_model_tensor(m, 0, &e);
	is_str(e.name, "a", "tensors come in the order of the shards");
	weir_model_tensor(m, 1, &e);
	is_str(e.name, "b", "tensors of a shard come in the order of its data");
	is_int(e.shard, 1, "an entry has the number of its shard");
	weir_model_meta(m, "k", &v);
	is_str(v.str, "1",
	       "if several shards have a key of metadata, the value of the first counts");
	weir_model_close(m);
}

static void unlisted_tensors_are_left_out(void)
{
	struct weir_model_info info = { .size = sizeof(info) };
	struct weir_model *m;
	size_t i;

	files_text("m/part.index.json",
		   "{\"weight_map\":{\"b\":\"s-2.safetensors\"}}");
	m = models_open(root, "m/part.index.json");
	weir_model_info(m, &info);
	ok(info.count == 1 && info.shards == 1,
	   "a tensor that the index does not name is not part of the model");
	is_int(info.unlisted, 1,
	       "a tensor that the index does not name is counted as unlisted");
	is_int(info.bytes, 3,
	       "a tensor that the index does not name is not in the sum of bytes");
	weir_model_close(m);
	files_st("m/s-8.safetensors", "{" B "," C "}", 7);
	files_st("m/s-9.safetensors", "{" D "}", 1);
	files_text("m/less.index.json",
		   "{\"weight_map\":{\"c\":\"s-8.safetensors\","
		   "\"d\":\"s-9.safetensors\"}}");
	m = models_open(root, "m/less.index.json");
	ok(weir_model_find(m, "c", &i) == 0 && i == 0 &&
		   weir_model_find(m, "d", &i) == 0 && i == 1,
	   "tensors after one that the index does not name keep their names and numbers");
	is_err(weir_model_find(m, "b", &i), -ENOENT, "'b'",
	       "a tensor that the index does not name is not found");
	weir_model_close(m);
}

static void the_index_places_tensors(void)
{
	struct weir_model_info info = { .size = sizeof(info) };
	struct weir_model *m;

	files_text("m/elsewhere.index.json",
		   "{\"weight_map\":{\"a\":\"s-2.safetensors\","
		   "\"b\":\"s-2.safetensors\"}}");
	is_err(models_try(root, "m/elsewhere.index.json", 0), -EBADMSG,
	       "elsewhere.index.json: tensor 'a' is placed in 's-2.safetensors', which does not have it",
	       "a tensor placed in a shard that lacks it is refused");
	files_st("m/s-4.safetensors",
		 "{" ENTRY("a", "U8", "[1]", "[2,3]") "," B2 "}", 3);
	files_text("m/both.index.json",
		   "{\"weight_map\":{\"a\":\"s-1.safetensors\","
		   "\"b\":\"s-4.safetensors\"}}");
	m = models_open(root, "m/both.index.json");
	weir_model_info(m, &info);
	ok(info.count == 2 && info.bytes == 4 && info.unlisted == 1,
	   "if two shards have a tensor, that of the index counts");
	weir_model_close(m);
}

static void wrong_shards_are_refused(void)
{
	files_text("m/gone.index.json",
		   "{\"weight_map\":{\"a\":\"s-1.safetensors\","
		   "\"b\":\"s-3.safetensors\"}}");
	is_err(models_try(root, "m/gone.index.json", 0), -ENOENT,
	       "gone.index.json: its shard 's-3.safetensors' does not exist",
	       "a missing shard is refused");
	files_st("m/bad.safetensors", "{" A "}", 1);
	files_text("m/bad.index.json",
		   "{\"weight_map\":{\"a\":\"bad.safetensors\"}}");
	is_err(models_try(root, "m/bad.index.json", 0), -EBADMSG,
	       "bad.safetensors: tensor 'a': ends at byte 2",
	       "an error in a shard names the shard");
}

static void a_tensor_has_one_place(void)
{
	files_text("m/twice.index.json",
		   "{\"weight_map\":{\"a\":\"s-9.safetensors\","
		   "\"a\":\"s-1.safetensors\"}}");
	is_err(models_try(root, "m/twice.index.json", 0), -EBADMSG,
	       "named twice", "a tensor placed twice is refused");
	is_int(models_try(root, "m/twice.index.json", WEIR_MODEL_LENIENT), 0,
	       "lenient: of a tensor placed twice only the last shard is opened");
}

static void an_empty_map_is_an_empty_model(void)
{
	struct weir_model *m;

	files_text("m/empty.index.json", "{\"weight_map\":{}}");
	m = models_open(root, "m/empty.index.json");
	is_int(weir_model_count(m), 0, "an empty map is an empty model");
	weir_model_close(m);
}

static void shards_have_safe_names(void)
{
	files_dir("blobs");
	files_dir("snap");
	files_st("blobs/1234", "{" A "}", 2);
	files_text("blobs/5678",
		   "{\"weight_map\":{\"a\":\"model.safetensors\"}}");
	files_link("snap/model.safetensors", "../blobs/1234");
	files_link("snap/x.safetensors.index.json", "../blobs/5678");
	is_int(models_try(root, "snap/x.safetensors.index.json", 0), 0,
	       "links are followed, and shards are found beside the name of the index");
	files_text("up.index.json",
		   "{\"weight_map\":{\"a\":\"gone\",\"b\":\"../x\"}}");
	is_err(models_try(root, "up.index.json", 0), -EBADMSG,
	       "in tensor 'b': the shard's name '../x' is refused",
	       "a shard with '..' in its name is refused before any is opened");
	if (mkfifo(files_path("pipe"), 0600) < 0)
		bail("mkfifo: %s", strerror(errno));
	files_text("pipe.index.json", "{\"weight_map\":{\"a\":\"pipe\"}}");
	is_err(models_try(root, "pipe.index.json", 0), -EINVAL, "but a pipe",
	       "a shard that is a pipe is refused without waiting");
	files_text("dir.index.json", "{\"weight_map\":{\"a\":\"snap/\"}}");
	is_err(models_try(root, "dir.index.json", 0), -EISDIR, "snap/",
	       "a shard that is a directory is refused");
	files_text("sub.index.json",
		   "{\"weight_map\":{\"a\":\"snap/model.safetensors\"}}");
	is_int(models_try(root, "sub.index.json", 0), 0,
	       "a shard may be in a subdirectory");
	files_text("self.index.json",
		   "{\"weight_map\":{\"a\":\"self.index.json\"}}");
	is_err(models_try(root, "self.index.json", 0), -EOPNOTSUPP, "JSON text",
	       "an index is refused as a shard");
}

static void an_index_has_a_bound(void)
{
	files_text("big.index.json", "{\"weight_map\":{}}");
	files_truncate("big.index.json", 100000001);
	is_err(models_try(root, "big.index.json", 0), -EBADMSG,
	       "big.index.json: an index of 100000001 bytes; 100000000 at most",
	       "an index of 100 000 001 bytes is refused");
	files_truncate("big.index.json", 100000000);
	is_err(models_try(root, "big.index.json", 0), -EBADMSG,
	       "found byte 0x00", "an index of 100 000 000 bytes is read");
}

static void descriptors_may_run_out(void)
{
	struct rlimit old, few;
	unsigned before = files_open();
	char text[8000], name[32];
	size_t at = (size_t)sprintf(text, "{\"weight_map\":{");

	files_dir("n");
	for (int i = 0; i < 100; i++) {
		char header[100];

		sprintf(name, "n/%d.safetensors", i);
		sprintf(header,
			"{\"t%d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
			i);
		files_st(name, header, 1);
		at += (size_t)sprintf(text + at, "%s\"t%d\":\"%d.safetensors\"",
				      i ? "," : "", i, i);
	}
	sprintf(text + at, "}}");
	files_text("n/n.safetensors.index.json", text);
	is_int(models_try(root, "n", 0), 0, "100 shards are opened");
	getrlimit(RLIMIT_NOFILE, &old);
	few = old;
	few.rlim_cur = 60;
	setrlimit(RLIMIT_NOFILE, &few);
	is_err(models_try(root, "n", 0), -EMFILE, "RLIMIT_NOFILE",
	       "too few descriptors for the shards are reported with the limit");
	setrlimit(RLIMIT_NOFILE, &old);
	is_int(files_open(), before,
	       "an open that fails for want of descriptors leaks none");
}

static void directories_are_searched(void)
{
	files_dir("d");
	is_err(models_try(root, "d", 0), -ENOENT,
	       "d: no *.safetensors.index.json, no *.safetensors, no *.gguf; it has no files",
	       "an empty directory is refused");
	files_text("d/config.json", "{}");
	files_text("d/pytorch_model.bin", "x");
	files_text("d/.safetensors", "x");
	files_text("d/._model.safetensors", "x");
	is_err(models_try(root, "d", 0), -ENOENT,
	       "it has config.json, pytorch_model.bin",
	       "a directory without a model is refused, with a list of its files");
	files_bytes("d/m.gguf", "GGUF\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
		    24);
	is_str(resolved("d"), files_path("d/m.gguf"),
	       "the one GGUF file of a directory is opened");
	files_st("d/b.safetensors", "{" A "}", 2);
	is_str(resolved("d"), files_path("d/b.safetensors"),
	       "the one *.safetensors of a directory is preferred to a GGUF file");
	is_str(resolved("d/"), files_path("d/b.safetensors"),
	       "the path of a directory may end in a slash");
	files_st("d/c.safetensors", "{" A "}", 2);
	is_err(models_try(root, "d", 0), -EINVAL,
	       "one of b.safetensors, c.safetensors, m.gguf",
	       "of two *.safetensors neither is chosen, and both are listed");
	files_text("d/x.safetensors.index.json",
		   "{\"weight_map\":{\"a\":\"c.safetensors\"}}");
	is_str(resolved("d"), files_path("d/x.safetensors.index.json"),
	       "the one index of a directory is preferred to files");
	files_text("d/y.safetensors.index.json", "{}");
	is_err(models_try(root, "d", 0), -EINVAL,
	       "d: 2 *.safetensors.index.json, 2 *.safetensors, 1 *.gguf",
	       "a directory of two indexes and two files is refused");
	files_dir("e");
	files_text("e/x.safetensors.index.json", "{}");
	files_text("e/y.safetensors.index.json", "{}");
	files_st("e/b.safetensors", "{" A "}", 2);
	is_str(resolved("e"), files_path("e/b.safetensors"),
	       "beside two indexes the one *.safetensors is chosen");
	files_dir("f");
	for (int i = 0; i < 10; i++) {
		char name[40];

		sprintf(name, "f/%d.safetensors", i);
		files_text(name, "");
	}
	is_err(models_try(root, "f", 0), -EINVAL,
	       "0.safetensors, 1.safetensors, 2.safetensors, 3.safetensors, 4.safetensors, 5.safetensors and 4 more",
	       "a long list of files is cut short");
}

int main(void)
{
	plan(7 + 12 + 6 + 2 + 3 + 10);
	files_begin();
	if (weir_open(NULL, &root) < 0)
		bail("%s", weir_error());
	an_index_joins_files();
	unlisted_tensors_are_left_out();
	the_index_places_tensors();
	wrong_shards_are_refused();
	a_tensor_has_one_place();
	an_empty_map_is_an_empty_model();
	shards_have_safe_names();
	an_index_has_a_bound();
	descriptors_may_run_out();
	directories_are_searched();
	weir_close(root);
	return done_testing();
}
