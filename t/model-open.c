/* SPDX-License-Identifier: MIT */
/* A model that is one file: opening it, asking it, and what is refused. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weir.h>

#include "files.h"
#include "model/model.h"
#include "tap.h"

#define A ENTRY("a", "F32", "[1]", "[0,4]")
#define ONE                                                                 \
	"{\"__metadata__\":{\"format\":\"pt\",\"k\":\"v\"}," ENTRY(         \
		"w", "BF16", "[2,3]", "[0,12]") "," ENTRY("\\u00e9", "I64", \
							  "[]", "[12,20]") "}"
#define MANY 100000u

static struct weir *root;

static int try_open(const char *name, uint32_t flags)
{
	struct weir_model_opts opts = WEIR_MODEL_OPTS_INIT;
	struct weir_model *m = NULL;
	int r;

	opts.flags = flags;
	r = weir_model_open(root, files_path(name), &opts, &m);
	weir_model_close(m);
	return r;
}

static struct weir_model *must_open(const char *name)
{
	struct weir_model *m;

	if (weir_model_open(root, files_path(name), NULL, &m) < 0)
		bail("%s", weir_error());
	return m;
}

static void asking(void)
{
	struct weir_model_info info = { .size = sizeof(info) };
	struct weir_entry e = { .size = sizeof(e) };
	struct weir_value v = { .size = sizeof(v) };
	struct weir_model *m;
	size_t i = 77;

	files_st("one.safetensors", ONE, 20);
	m = must_open("one.safetensors");
	is_int(weir_model_info(m, &info), 0, "a model says what it is");
	is_str(info.path, files_path("one.safetensors"), "its path");
	is_str(info.format, "safetensors", "its format");
	ok(info.bytes == 20 && info.count == 2 && info.meta == 2,
	   "its bytes, its tensors, its metadata");
	ok(info.shards == 1 && info.unlisted == 0 && info.total_size == 0,
	   "and that it is one file, without an index");
	is_int(weir_model_count(m), 2, "tensors are counted");
	is_int(weir_model_tensor(m, 0, &e), 0, "a tensor is got by number");
	is_str(e.name, "w", "it has its name");
	ok(e.name_len == 1 && e.dtype == WEIR_DTYPE_BF16 && e.ndim == 2 &&
		   e.shape[0] == 2 && e.shape[1] == 3 && e.shape[2] == 0,
	   "its dtype and its shape");
	ok(e.shard == 0 && e.bytes == 12, "its shard and its bytes");
	is_int(e.offset, 8 + sizeof(ONE) - 1, "and its place in the file");
	weir_model_tensor(m, 1, &e);
	is_str(e.name, "\xc3\xa9", "an escaped name is decoded");
	is_int(e.ndim, 0, "one element has no dimensions");
	is_err(weir_model_tensor(m, 2, &e), -EINVAL,
	       "weir_model_tensor: tensor 2 of a model of 2",
	       "there is no tensor past the end");
	is_int(weir_model_find(m, "\xc3\xa9", &i), 0, "a name is looked up");
	is_int(i, 1, "... and has its number");
	is_err(weir_model_find(m, "x", &i), -ENOENT, "no tensor 'x' in ",
	       "a name that is not there is not found");
	is_int(i, 1, "... and nothing is written");
	is_int(weir_model_meta(m, "format", &v), 0, "metadata have keys");
	ok(!strcmp(v.key, "format") && !strcmp(v.str, "pt") && v.len == 2,
	   "and values");
	is_err(weir_model_meta(m, "x", &v), -ENOENT, "no metadata 'x'",
	       "a key that is not there is not found");
	is_int(weir_model_meta_at(m, 1, &v), 0, "pairs have numbers");
	is_str(v.str, "v", "in the order of the file");
	is_err(weir_model_meta_at(m, 2, &v), -EINVAL, "pair 2 of metadata of 2",
	       "there is no pair past the end");
	ok(weir_model_file(m, 0) != NULL, "the shard is a file");
	ok(weir_model_file(m, 1) == NULL, "there is no second one");
	weir_model_close(m);
	weir_model_close(NULL);
}

static void options(void)
{
	struct {
		struct weir_model_opts known;
		uint64_t more;
	} big = { .known = WEIR_MODEL_OPTS_INIT };
	struct weir_model *m = (struct weir_model *)&big;

	files_st("twice.safetensors", "{" A "," A "}", 4);
	is_err(try_open("twice.safetensors", 0), -EBADMSG,
	       "weir_model_open: twice.safetensors: byte 66, in tensor 'a': named twice",
	       "a model is read strictly");
	is_int(try_open("twice.safetensors", WEIR_MODEL_LENIENT), 0,
	       "... or leniently, on request");
	is_err(try_open("one.safetensors", 2), -EINVAL, "unknown flags 0x2",
	       "flags that we do not know are refused");
	big.known.size = sizeof(big);
	big.more = 1;
	is_err(weir_model_open(root, files_path("one.safetensors"), &big.known,
			       &m),
	       -E2BIG, "", "so are options that we do not know");
	ok(m == (struct weir_model *)&big, "a failure writes no model");
}

static void kinds(void)
{
	files_bytes("empty", "", 0);
	files_bytes("gguf.safetensors", "GGUF\3\0\0\0\0\0\0\0", 12);
	files_dir("dir");
	if (mkfifo(files_path("pipe"), 0600) < 0)
		bail("mkfifo: %s", strerror(errno));
	files_link("zero", "/dev/zero");
	files_link("loop", "loop");
	files_link("there", "one.safetensors");
	is_err(try_open("missing", 0), -ENOENT, "missing: No such file",
	       "a file that is not there");
	is_err(try_open("loop", 0), -ELOOP, "loop", "a link to itself");
	is_err(try_open("empty", 0), -EBADMSG, "empty: a file of 0 bytes",
	       "an empty file");
	is_err(try_open("pipe", 0), -EINVAL, "not a regular file but a pipe",
	       "a pipe, without waiting for its other end");
	is_err(try_open("zero", 0), -EINVAL, "not a regular file but a device",
	       "a device, without reading it");
	is_err(try_open("gguf.safetensors", 0), -EOPNOTSUPP,
	       "gguf.safetensors: this is a GGUF file",
	       "a file of another format, whatever its name");
	is_int(try_open("there", 0), 0, "a link is followed");
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

static void lengths(void)
{
	spaces("header", 100, 108);
	is_int(try_open("header", 0), 0, "a header that ends with the file");
	spaces("header", 101, 108);
	is_err(try_open("header", 0), -EBADMSG,
	       "header: a header of 101 bytes in a file that has 100",
	       "one that ends a byte behind it");
	spaces("header", 1ull << 62, 108);
	is_err(try_open("header", 0), -EBADMSG, "4611686018427387904",
	       "one that no machine could hold");
	spaces("header", 100000000, 100000008);
	is_int(try_open("header", 0), 0, "a header of 100 000 000 bytes");
	spaces("header", 100000001, 108);
	files_truncate("header", 100000009);
	is_err(try_open("header", 0), -EBADMSG, "a header of 100000001 bytes",
	       "one of a byte more");
	files_st("cut", "{" A "}", 3);
	is_err(try_open("cut", 0), -EBADMSG,
	       "cut: tensor 'a': ends at byte 4 of the data, but the file has only 3",
	       "a file that was cut short names the tensor that was hit");
	files_st("more", "{" A "}", 5);
	is_err(try_open("more", 0), -EBADMSG,
	       "more: its tensors end at byte 4 of the data, but the file has 5",
	       "a file with bytes left over");
}

/* What is read belongs to the file that was opened. */
static void changes(void)
{
	struct weir_file *f;
	char head[8];

	files_st("changing", "{" A "}", 4);
	if (weir_file_open(root, files_path("changing"), NULL, &f) < 0)
		bail("%s", weir_error());
	is_int(weir__model_read(f, head, 8, 0), 0,
	       "a file that stays as it is can be read");
	files_truncate("changing", 4);
	is_err(weir__model_read(f, head, 8, 0), -ESTALE,
	       "changing: changed while it was read: it had 66 bytes and has 4",
	       "one that shrank is stale, not short");
	files_truncate("changing", 4000);
	is_err(weir__model_read(f, head, 8, 0), -ESTALE, "has 4000",
	       "so is one that grew");
	weir_file_close(f);
}

/* @n tensors of one byte; @step 1: in order, another: not. */
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

/* Every tensor is at the place of its number, and found there. */
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

static void many(void)
{
	struct weir_model *m;

	write_many("many", MANY, 1);
	m = must_open("many");
	is_int(weir_model_count(m), MANY, "100 000 tensors are read");
	is_int(misplaced(m, MANY), 0, "and each is found by its name");
	weir_model_close(m);
	write_many("many", MANY, 7919);
	m = must_open("many");
	is_int(misplaced(m, MANY), 0,
	       "in the order of their data, whatever that of the header");
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

/* A long header that is not in the page cache is read around it. */
static void cold(void)
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
	m = must_open("many");
	is_int(misplaced(m, MANY), 0, "a long header that is cold");
	ok(resident("many", &direct) < 500, "... is read directly");
	weir_model_close(m);
}

static void lifetime(void)
{
	struct weir_model *m = must_open("one.safetensors"), *none;
	unsigned before = files_open();
	struct weir *other;
	size_t i;

	for (int n = 0; n < 100; n++) {
		weir_model_close(must_open("one.safetensors"));
		try_open("cut", 0);
	}
	is_int(files_open(), before, "no descriptor is left behind");
	if (weir_open(NULL, &other) < 0)
		bail("%s", weir_error());
	if (weir_model_open(other, files_path("one.safetensors"), NULL, &none))
		bail("%s", weir_error());
	weir_close(other);
	is_int(weir_model_find(none, "w", &i), 0,
	       "a model can be asked after its root is closed");
	weir_model_close(none);
	weir__model_ref(m);
	weir_model_close(m);
	is_int(weir_model_count(m), 2, "a reference keeps a model");
	weir__model_put(m);
}

int main(void)
{
	plan(26 + 5 + 7 + 7 + 3 + 3 + 2 + 3);
	files_begin();
	if (weir_open(NULL, &root) < 0)
		bail("%s", weir_error());
	asking();
	options();
	kinds();
	lengths();
	changes();
	many();
	cold();
	lifetime();
	weir_close(root);
	return done_testing();
}
