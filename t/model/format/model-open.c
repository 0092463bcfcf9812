/* SPDX-License-Identifier: MIT */
/*
 * A model that is one file: opening it, its getters, and files that are
 * refused.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weir.h>

#include "files.h"
#include "models.h"
#include "model/format/model.h"
#include "tap.h"

#define A ENTRY("a", "F32", "[1]", "[0,4]")
#define ONE                                                                 \
	"{\"__metadata__\":{\"format\":\"pt\",\"k\":\"v\"}," ENTRY(         \
		"w", "BF16", "[2,3]", "[0,12]") "," ENTRY("\\u00e9", "I64", \
							  "[]", "[12,20]") "}"
#define MANY 100000u

static struct weir *root;

static struct weir_model *open_one(void)
{
	files_st("one.safetensors", ONE, 20);
	return models_open(root, "one.safetensors");
}

static void info_describes_the_file(void)
{
	struct weir_model_info info = { .size = sizeof(info) };
	struct weir_model *m = open_one();

	is_int(weir_model_info(m, &info), 0, "weir_model_info succeeds");
	is_str(info.path, files_path("one.safetensors"),
	       "a model has the path of its file");
	is_str(info.format, "safetensors",
	       "a model has the name of its format");
	ok(info.bytes == 20 && info.count == 2 && info.meta == 2,
	   "a model counts bytes, tensors and pairs of metadata");
	ok(info.shards == 1 && info.unlisted == 0 && info.total_size == 0,
	   "a model of one file has one shard and no total_size");
	is_int(weir_model_count(m), 2,
	       "weir_model_count returns the number of tensors");
	weir_model_close(m);
}

static void entries_describe_tensors(void)
{
	struct weir_entry e = { .size = sizeof(e) };
	struct weir_model *m = open_one();

	is_int(weir_model_tensor(m, 0, &e), 0,
	       "weir_model_tensor finds a tensor by number");
	is_str(e.name, "w", "an entry has the name of the tensor");
	ok(e.name_len == 1 && e.dtype == WEIR_DTYPE_BF16 && e.ndim == 2 &&
		   e.shape[0] == 2 && e.shape[1] == 3 && e.shape[2] == 0,
	   "an entry has dtype and shape, and 0 in unused dimensions");
	ok(e.shard == 0 && e.bytes == 12,
	   "an entry has the shard and the bytes");
	is_int(e.offset, 8 + sizeof(ONE) - 1,
	       "an entry has the offset in the file");
	weir_model_tensor(m, 1, &e);
	is_str(e.name, "\xc3\xa9", "an entry has the decoded name");
	is_int(e.ndim, 0, "an entry of a single element has no dimensions");
	is_err(weir_model_tensor(m, 2, &e), -EINVAL,
	       "weir_model_tensor: tensor 2 of a model of 2",
	       "a tensor past the last is refused");
	weir_model_close(m);
}

static void tensors_are_found_by_name(void)
{
	struct weir_model *m = open_one();
	size_t i = 77;

	is_int(weir_model_find(m, "\xc3\xa9", &i), 0,
	       "weir_model_find finds a tensor by name");
	is_int(i, 1, "weir_model_find returns the number of the tensor");
	is_err(weir_model_find(m, "x", &i), -ENOENT, "no tensor 'x' in ",
	       "an unknown name is not found");
	is_int(i, 1, "a failed weir_model_find writes no number");
	weir_model_close(m);
}

static void metadata_is_found(void)
{
	struct weir_value v = { .size = sizeof(v) };
	struct weir_model *m = open_one();

	is_int(weir_model_meta(m, "format", &v), 0,
	       "weir_model_meta finds a pair by key");
	ok(!strcmp(v.key, "format") && !strcmp(v.str, "pt") && v.len == 2,
	   "a pair has its key and its value");
	is_err(weir_model_meta(m, "x", &v), -ENOENT, "no metadata 'x'",
	       "an unknown key is not found");
	is_int(weir_model_meta_at(m, 1, &v), 0,
	       "weir_model_meta_at finds a pair by number");
	is_str(v.str, "v", "pairs are in the order of the file");
	is_err(weir_model_meta_at(m, 2, &v), -EINVAL, "pair 2 of metadata of 2",
	       "a pair past the last is refused");
	weir_model_close(m);
}

static void shards_have_files(void)
{
	struct weir_model *m = open_one();

	ok(weir_model_file(m, 0) != NULL,
	   "weir_model_file returns the first shard");
	ok(weir_model_file(m, 1) == NULL,
	   "weir_model_file returns NULL past the last shard");
	weir_model_close(m);
	weir_model_close(NULL);
}

static void options_are_checked(void)
{
	struct {
		struct weir_model_opts known;
		uint64_t more;
	} big = { .known = WEIR_MODEL_OPTS_INIT };
	struct weir_model *m = (struct weir_model *)&big;

	files_st("twice.safetensors", "{" A "," A "}", 4);
	is_err(models_try(root, "twice.safetensors", 0), -EBADMSG,
	       "weir_model_open: twice.safetensors: byte 66, in tensor 'a': named twice",
	       "a model is read in strict mode by default");
	is_int(models_try(root, "twice.safetensors", WEIR_MODEL_LENIENT), 0,
	       "WEIR_MODEL_LENIENT makes the reader lenient");
	is_err(models_try(root, "one.safetensors", 2), -EINVAL,
	       "unknown flags 0x2", "unknown flags are refused");
	big.known.size = sizeof(big);
	big.more = 1;
	is_err(weir_model_open(root, files_path("one.safetensors"), &big.known,
			       &m),
	       -E2BIG, "", "unknown options are refused");
	ok(m == (struct weir_model *)&big, "a failure writes no model");
}

static void other_files_are_refused(void)
{
	files_bytes("empty", "", 0);
	files_bytes("gguf.safetensors", "GGUF\3\0\0\0\0\0\0\0", 12);
	files_dir("dir");
	if (mkfifo(files_path("pipe"), 0600) < 0)
		bail("mkfifo: %s", strerror(errno));
	files_link("zero", "/dev/zero");
	files_link("loop", "loop");
	files_link("there", "one.safetensors");
	is_err(models_try(root, "missing", 0), -ENOENT, "missing: No such file",
	       "a missing file is refused");
	is_err(models_try(root, "loop", 0), -ELOOP, "loop",
	       "a link to itself is refused");
	is_err(models_try(root, "empty", 0), -EBADMSG,
	       "empty: a file of 0 bytes", "an empty file is refused");
	is_err(models_try(root, "pipe", 0), -EINVAL,
	       "not a regular file but a pipe",
	       "a pipe is refused without waiting for its other end");
	is_err(models_try(root, "zero", 0), -EINVAL,
	       "not a regular file but a device",
	       "a device is refused without reading it");
	is_err(models_try(root, "gguf.safetensors", 0), -EBADMSG,
	       "gguf.safetensors: a file of 12 bytes; a GGUF file has",
	       "a GGUF file is read as GGUF, whatever its name");
	is_int(models_try(root, "there", 0), 0, "a link is followed");
}

/* A header of @n bytes, nearly all of them spaces. */
static void spaces(const char *name, uint64_t n, size_t file_n)
{
	unsigned char *bytes = malloc(file_n);

	memset(bytes, ' ', file_n);
	for (int i = 0; i < 8; i++)
		bytes[i] = (unsigned char)(n >> 8 * i);
	memcpy(bytes + 8, "{}", 2);
	files_bytes(name, bytes, file_n);
	free(bytes);
}

static void headers_have_bounds(void)
{
	spaces("header", 100, 108);
	is_int(models_try(root, "header", 0), 0,
	       "a header that ends with the file is read");
	spaces("header", 101, 108);
	is_err(models_try(root, "header", 0), -EBADMSG,
	       "header: a header of 101 bytes in a file that has 100",
	       "a header that ends a byte after the file is refused");
	spaces("header", 1ull << 62, 108);
	is_err(models_try(root, "header", 0), -EBADMSG,
	       "the length of a header, which is 2 to 100000000",
	       "a header of 2^62 bytes is refused");
	spaces("header", 100000000, 100000008);
	is_int(models_try(root, "header", 0), 0,
	       "a header of 100 000 000 bytes is read");
	spaces("header", 100000001, 108);
	files_truncate("header", 100000009);
	is_err(models_try(root, "header", 0), -EBADMSG,
	       "a header of 100000001 bytes",
	       "a header of 100 000 001 bytes is refused");
	files_st("cut", "{" A "}", 3);
	is_err(models_try(root, "cut", 0), -EBADMSG,
	       "cut: tensor 'a': ends at byte 4 of the data, but the file has only 3",
	       "a file that was cut short is refused, with the tensor that is incomplete");
	files_st("more", "{" A "}", 5);
	is_err(models_try(root, "more", 0), -EBADMSG,
	       "more: its tensors end at byte 4 of the data, but the file has 5",
	       "a file with bytes after the last tensor is refused");
}

static void changes_are_noticed(void)
{
	struct weir_file *f;
	char head[8];

	files_st("changing", "{" A "}", 4);
	if (weir_file_open(root, files_path("changing"), NULL, &f) < 0)
		bail("%s", weir_error());
	is_int(weir__model_read(f, head, 8, 0), 0, "an unchanged file is read");
	files_truncate("changing", 4);
	is_err(weir__model_read(f, head, 8, 0), -ESTALE,
	       "changing: changed while it was read: it had 66 bytes and has 4",
	       "a file that shrank after it was opened is -ESTALE");
	files_truncate("changing", 4000);
	is_err(weir__model_read(f, head, 8, 0), -ESTALE, "has 4000",
	       "a file that grew after it was opened is -ESTALE");
	weir_file_close(f);
}

/* @n tensors of one byte. @step 1: in the order of the data; else not. */
static void write_many(const char *name, unsigned n, unsigned step)
{
	char *text = malloc(80 * (size_t)n + 10);
	size_t at = (size_t)sprintf(text, "{");

	for (unsigned i = 0; i < n; i++) {
		unsigned k = (unsigned)((uint64_t)i * step % n);

		at += (size_t)sprintf(
			text + at,
			"%s\"t.%u\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%u,%u]}",
			i ? "," : "", k, k, k + 1);
	}
	sprintf(text + at, "}");
	files_st(name, text, n);
	free(text);
}

/* How many of t.0 to t.@n-1 do not have that number. */
static unsigned misplaced(const struct weir_model *m, unsigned n)
{
	unsigned wrong = 0;
	char name[32];
	size_t i;

	for (unsigned k = 0; k < n; k++) {
		sprintf(name, "t.%u", k);
		if (weir_model_find(m, name, &i) < 0 || i != k ||
		    strcmp(weir__record_name(m, k), name) != 0)
			wrong++;
	}
	return wrong;
}

static void many_tensors_are_found(void)
{
	struct weir_model *m;

	write_many("many", MANY, 1);
	m = models_open(root, "many");
	is_int(weir_model_count(m), MANY, "100 000 tensors are read");
	is_int(misplaced(m, MANY), 0,
	       "each of 100 000 tensors is found by its name");
	weir_model_close(m);
	write_many("many", MANY, 7919);
	m = models_open(root, "many");
	is_int(misplaced(m, MANY), 0,
	       "100 000 tensors are in the order of the data, not of the header");
	weir_model_close(m);
}

static unsigned resident(const char *name, bool *ret_direct)
{
	struct weir_file_info info = { .size = sizeof(info) };
	struct weir_file *f;
	unsigned share;

	if (weir_file_open(root, files_path(name), NULL, &f) < 0 ||
	    weir_file_info(f, &info) < 0)
		bail("%s", weir_error());
	share = weir__file_resident(f, 0, info.bytes);
	*ret_direct = info.direct;
	weir_file_close(f);
	return share;
}

static void cold_headers_are_read_directly(void)
{
	int fd = open(files_path("many"), O_RDONLY);
	struct weir_model *m;
	bool direct;

	if (fd < 0 || fsync(fd) < 0)
		bail("fsync: %s", strerror(errno));
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	close(fd);
	if (resident("many", &direct) > 100 || !direct) {
		skip(2, "the page cache keeps it, or no direct I/O");
		return;
	}
	m = models_open(root, "many");
	is_int(misplaced(m, MANY), 0,
	       "a long header that is not in the page cache is read");
	ok(resident("many", &direct) < 500,
	   "a long header is read past the page cache");
	weir_model_close(m);
}

static void models_are_counted_and_outlive_the_root(void)
{
	struct weir_model *m = models_open(root, "one.safetensors"), *none;
	unsigned before = files_open();
	struct weir *other;
	size_t i;

	for (int n = 0; n < 100; n++) {
		weir_model_close(models_open(root, "one.safetensors"));
		models_try(root, "cut", 0);
	}
	is_int(files_open(), before,
	       "closed models and failed opens leak no descriptor");
	if (weir_open(NULL, &other) < 0)
		bail("%s", weir_error());
	if (weir_model_open(other, files_path("one.safetensors"), NULL, &none))
		bail("%s", weir_error());
	weir_close(other);
	is_int(weir_model_find(none, "w", &i), 0,
	       "a model answers after its root is closed");
	weir_model_close(none);
	weir__model_ref(m);
	weir_model_close(m);
	is_int(weir_model_count(m), 2,
	       "a referenced model survives weir_model_close");
	weir__model_put(m);
}

int main(void)
{
	plan(26 + 5 + 7 + 7 + 3 + 3 + 2 + 3);
	files_begin();
	if (weir_open(NULL, &root) < 0)
		bail("%s", weir_error());
	info_describes_the_file();
	entries_describe_tensors();
	tensors_are_found_by_name();
	metadata_is_found();
	shards_have_files();
	options_are_checked();
	other_files_are_refused();
	headers_have_bounds();
	changes_are_noticed();
	many_tensors_are_found();
	cold_headers_are_read_directly();
	models_are_counted_and_outlive_the_root();
	weir_close(root);
	return done_testing();
}
