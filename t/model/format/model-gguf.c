/* SPDX-License-Identifier: MIT */
/*
 * GGUF models as a program sees them: typed metadata, headers of any length,
 * splits.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir.h>

#include "core/util.h"
#include "files.h"
#include "models.h"
#include "tap.h"

/* GGUF's numbers of types. */
enum {
	U8,
	I8,
	U16,
	I16,
	U32,
	I32,
	F32,
	BOOL,
	STR,
	ARR,
	U64,
	I64,
	F64
};

static struct weir *root;
static unsigned char file[4 << 20]; /* what is being written */
static size_t at;

static void put(const void *bytes, size_t n)
{
	memcpy(file + at, bytes, n);
	at += n;
}

static void put_u32(uint32_t v)
{
	put(&v, 4);
}

static void put_u64(uint64_t v)
{
	put(&v, 8);
}

static void put_str(const char *s)
{
	put_u64(strlen(s));
	put(s, strlen(s));
}

static void begin(uint64_t tensors, uint64_t pairs)
{
	at = 0;
	put("GGUF\3\0\0", 8);
	put_u64(tensors);
	put_u64(pairs);
}

static void put_number(const char *key, uint32_t type, const void *v, size_t n)
{
	put_str(key);
	put_u32(type);
	put(v, n);
}

static void put_u16(const char *key, uint16_t v)
{
	put_number(key, U16, &v, 2);
}

static void put_array(const char *key, uint32_t of, uint64_t n)
{
	put_str(key);
	put_u32(ARR);
	put_u32(of);
	put_u64(n);
}

/* One element of 4 bytes. */
static void put_tensor(const char *name, uint64_t offset)
{
	put_str(name);
	put_u32(0);
	put_u32(0);
	put_u64(offset);
}

/* Write the file with @data bytes of data, all of them 0. */
static void end(const char *name, size_t data)
{
	size_t n = weir__up(at, 32) + data;

	memset(file + at, 0, n - at);
	files_bytes(name, file, data ? n : at);
}

static struct weir_value meta(const struct weir_model *m, const char *key)
{
	struct weir_value v = { .size = sizeof(v) };

	if (weir_model_meta(m, key, &v) < 0)
		bail("%s", weir_error());
	return v;
}

static struct weir_value item(const struct weir_model *m,
			      const struct weir_value *array, size_t i)
{
	struct weir_value v = { .size = sizeof(v) };

	if (weir_model_meta_item(m, array, i, &v) < 0)
		bail("%s", weir_error());
	return v;
}

static void numbers_have_types(void)
{
	static const struct {
		const char *key;
		uint32_t type, want;
		size_t bytes;
		uint64_t bits; /* little-endian */
		uint64_t u;
		double f;
	} all[] = {
		{ "u8", U8, WEIR_VALUE_U8, 1, 255, 255, 255 },
		{ "i8", I8, WEIR_VALUE_I8, 1, 0x80, -128ull, -128 },
		{ "u16", U16, WEIR_VALUE_U16, 2, 65535, 65535, 65535 },
		{ "i16", I16, WEIR_VALUE_I16, 2, 0x8000, -32768ull, -32768 },
		{ "u32", U32, WEIR_VALUE_U32, 4, 1ull << 31, 1ull << 31,
		  2147483648.0 },
		{ "i32", I32, WEIR_VALUE_I32, 4, 0xfffffffe, -2ull, -2 },
		{ "u64", U64, WEIR_VALUE_U64, 8, UINT64_MAX, UINT64_MAX,
		  18446744073709551615.0 },
		{ "i64", I64, WEIR_VALUE_I64, 8, -3ull, -3ull, -3 },
		{ "bool", BOOL, WEIR_VALUE_BOOL, 1, 1, 1, 1 },
		{ "f32", F32, WEIR_VALUE_F32, 4, 0xbfc00000, 0, -1.5 },
		{ "f64", F64, WEIR_VALUE_F64, 8, 0xbff8000000000000, 0, -1.5 },
	};
	const size_t n = sizeof(all) / sizeof(all[0]);
	struct weir_model *m;

	begin(0, n);
	for (size_t i = 0; i < n; i++)
		put_number(all[i].key, all[i].type, &all[i].bits, all[i].bytes);
	end("numbers.gguf", 0);
	m = models_open(root, "numbers.gguf");
	for (size_t i = 0; i < n; i++) {
		struct weir_value v = meta(m, all[i].key);

		ok(v.type == all[i].want && v.u == all[i].u &&
			   v.i == (int64_t)all[i].u && v.f == all[i].f &&
			   !v.str && !v.items && v.len == 0,
		   "a value of type %s has its type and its number",
		   all[i].key);
	}
	weir_model_close(m);
}

/* Arrays at all offsets modulo 8, by keys of growing lengths. */
static void arrays_are_aligned(void)
{
	static const char keys[] = "abcdefgh";
	struct weir_model *m;
	bool good = true;

	begin(0, 8);
	for (size_t i = 0; i < 8; i++) {
		put_array(keys + 7 - i, U64, 3);
		for (uint64_t j = 0; j < 3; j++)
			put_u64(j << 40 | i);
	}
	end("aligned.gguf", 0);
	m = models_open(root, "aligned.gguf");
	for (size_t i = 0; i < 8; i++) {
		struct weir_value v = meta(m, keys + 7 - i);
		const uint64_t *items = v.items;

		good = good && v.type == WEIR_VALUE_ARRAY && v.len == 3 &&
		       v.item_type == WEIR_VALUE_U64 &&
		       (uintptr_t)items % 8 == 0 && !v.str;
		for (uint64_t j = 0; good && j < 3; j++)
			good = items[j] == (j << 40 | i) &&
			       item(m, &v, j).u == items[j];
	}
	ok(good, "the numbers of an array are aligned, wherever it is");
	weir_model_close(m);
}

static void write_arrays(void)
{
	begin(0, 3);
	put_array("strings", STR, 3);
	put_str("first");
	put_str("");
	put_str("last");
	put_array("nested", ARR, 2);
	put_u32(STR);
	put_u64(1);
	put_str("inner");
	put_u32(I16);
	put_u64(2);
	put("\xfe\xff\7\0", 4);
	put_str("text");
	put_u32(STR);
	put_str("end");
	end("arrays.gguf", 0);
}

static void items_are_returned(void)
{
	struct weir_value v, inner, out = { .size = sizeof(out) };
	struct weir_model *m;

	write_arrays();
	m = models_open(root, "arrays.gguf");
	v = meta(m, "strings");
	ok(v.len == 3 && v.item_type == WEIR_VALUE_STRING && !v.items,
	   "an array of strings has their number, and no numbers");
	is_str(item(m, &v, 0).str, "first", "a string is returned by number");
	is_int(item(m, &v, 1).len, 0, "an empty string is returned");
	is_str(item(m, &v, 1).str, "", "an empty string ends with a NUL");
	is_str(item(m, &v, 2).str, "last", "the last string is returned");
	ok(!item(m, &v, 2).key, "an item has no key");
	is_err(weir_model_meta_item(m, &v, 3, &out), -EINVAL,
	       "item 3 of an array of 3", "an item past the end is refused");
	v = meta(m, "nested");
	inner = item(m, &v, 0);
	is_str(item(m, &inner, 0).str, "inner",
	       "an array in an array returns its strings");
	inner = item(m, &v, 1);
	ok(((const int16_t *)inner.items)[0] == -2 && item(m, &inner, 1).i == 7,
	   "an array in an array has its numbers");
	v = meta(m, "text");
	is_str(v.str, "end", "the last string of a header ends with a NUL");
	is_err(weir_model_meta_item(m, &v, 0, &out), -EINVAL,
	       "'text' is not an array", "an item of a string is refused");
	v = meta(m, "strings");
	v.size = offsetof(struct weir_value, internal);
	is_err(weir_model_meta_item(m, &v, 0, &out), -EINVAL, "",
	       "an array without all members is refused");
	weir_model_close(m);
}

static void older_programs_get_their_members(void)
{
	struct weir_value v;
	struct weir_model *m;

	memset(&v, 0x55, sizeof(v));
	v.size = offsetof(struct weir_value, type);
	m = models_open(root, "arrays.gguf");
	is_int(weir_model_meta(m, "text", &v), 0,
	       "a value is returned in a struct without types");
	is_str(v.str, "end", "a struct without types has the string");
	ok(v.type == 0x55555555,
	   "members after the end of a struct are not written");
	weir_model_close(m);
}

/* A header of over 2 MB, read in pieces. */
static void long_headers_are_read(void)
{
	enum {
		N = 40000
	};
	struct weir_value v, scores;
	struct weir_model *m;
	char text[64];
	size_t wrong = 0, i;

	begin(N / 10, 2);
	put_array("tokens", STR, N);
	for (i = 0; i < N; i++) {
		sprintf(text, "token %zu of a vocabulary", i);
		put_str(text);
	}
	put_array("scores", F32, N);
	for (i = 0; i < N; i++)
		put(&(float){ (float)i }, 4);
	for (i = 0; i < N / 10; i++) {
		sprintf(text, "tensor.%zu", i);
		put_tensor(text, 32 * i);
	}
	end("long.gguf", N / 10 * 32);
	m = models_open(root, "long.gguf");
	v = meta(m, "tokens");
	scores = meta(m, "scores");
	for (i = 0; i < N; i++) {
		sprintf(text, "token %zu of a vocabulary", i);
		wrong += strcmp(item(m, &v, i).str, text) != 0 ||
			 ((const float *)scores.items)[i] != (float)i;
	}
	is_int(wrong, 0, "all items of a long header have their values");
	for (i = 0; i < N / 10; i++) {
		size_t found;

		sprintf(text, "tensor.%zu", i);
		wrong += weir_model_find(m, text, &found) < 0 || found != i;
	}
	is_int(wrong, 0, "all tensors of a long header have their names");
	weir_model_close(m);
}

/* File @no of @count with a tensor, by the metadata; @total of them. */
static void write_part(const char *name, uint16_t no, uint16_t count,
		       int32_t total)
{
	char tensor[20];

	begin(1, 4);
	put_u16("split.no", no);
	put_u16("split.count", count);
	put_number("split.tensors.count", I32, &total, 4);
	put_u16("number", (uint16_t)(100 + no));
	sprintf(tensor, "t%u", no);
	put_tensor(tensor, 0);
	end(name, 32);
}

static void write_parts(const char *stem, unsigned count)
{
	char name[64];

	for (unsigned i = 0; i < count; i++) {
		sprintf(name, "%s-%05u-of-%05u.gguf", stem, i + 1, count);
		write_part(name, (uint16_t)i, (uint16_t)count, (int32_t)count);
	}
}

static void any_file_of_a_split_opens_all(void)
{
	struct weir_model_info info = { .size = sizeof(info) };
	struct weir_entry e = { .size = sizeof(e) };
	struct weir_model *m;

	files_dir("s");
	write_parts("s/m", 3);
	m = models_open(root, "s/m-00002-of-00003.gguf");
	weir_model_info(m, &info);
	ok(info.shards == 3 && info.count == 3,
	   "the second file of a split opens all three");
	is_int(weir_model_tensor(m, 0, &e), 0, "a split has tensors");
	is_str(e.name, "t0", "the shards are in the order of their numbers");
	is_int(meta(m, "number").u, 100,
	       "keys of a split have the values of its first file");
	weir_model_close(m);
	is_int(models_try(root, "s/m-00001-of-00003.gguf", 0), 0,
	       "the first file of a split opens it");
	is_int(models_try(root, "s", 0), 0,
	       "a directory with the files of one split is a model");
	write_parts("s/n", 2);
	is_err(models_try(root, "s", 0), -EINVAL, "5 *.gguf: several of a kind",
	       "a directory with two splits is refused");
	is_int(models_try(root, "s/n-00002-of-00002.gguf", 0), 0,
	       "of two splits in a directory one is opened by name");
	files_dir("c");
	write_parts("c/m", 2);
	write_parts("c/m", 3);
	is_err(models_try(root, "c", 0), -EINVAL, "5 *.gguf: several of a kind",
	       "a directory with splits of one name into 2 and 3 files is refused");
}

static void splits_from_descriptors(void)
{
	struct weir_model_fd fds[2], one;
	struct weir_model *m = NULL;

	write_parts("first", 2);
	for (int i = 0; i < 2; i++)
		fds[i] = (struct weir_model_fd){
			.fd = open(files_path(i ? "first-00001-of-00002.gguf"
						: "first-00002-of-00002.gguf"),
				   O_RDONLY | O_CLOEXEC),
		};
	is_err(weir_model_open_fds(root, fds, 2, NULL, &m), -EBADMSG,
	       "this is opened as file 1 of 2 of a model, but its metadata says file 2 of 2",
	       "descriptors of a split in another order are refused");
	one = fds[0];
	fds[0] = fds[1];
	fds[1] = one;
	is_int(weir_model_open_fds(root, fds, 2, NULL, &m), 0,
	       "descriptors of a split in its order are a model");
	is_int(m ? weir_model_count(m) : 0, 2,
	       "a split from descriptors has the tensors of all its files");
	weir_model_close(m);
	close(fds[0].fd);
	close(fds[1].fd);
}

static void splits_are_complete(void)
{
	files_dir("u");
	write_part("u/m-00002-of-00003.gguf", 1, 3, 3);
	is_err(models_try(root, "u", 0), -ENOENT,
	       "m-00002-of-00003.gguf: its shard 'm-00001-of-00003.gguf' does not exist",
	       "a file of a split without the others is refused");
	write_part("u/m-00001-of-00003.gguf", 0, 3, 3);
	is_err(models_try(root, "u", 0), -ENOENT, "'m-00003-of-00003.gguf'",
	       "a missing last file is named");
	write_part("u/m-00003-of-00003.gguf", 1, 3, 3);
	is_err(models_try(root, "u", 0), -EBADMSG,
	       "m-00003-of-00003.gguf: this is opened as file 3 of 3 of a model, but its metadata says file 2 of 3",
	       "a split.no that differs from the name is refused");
	write_part("u/m-00003-of-00003.gguf", 2, 4, 3);
	is_err(models_try(root, "u", 0), -EBADMSG,
	       "but its metadata says file 3 of 4",
	       "a split.count that differs from the name is refused");
	begin(0, 0);
	end("u/m-00003-of-00003.gguf", 0);
	is_err(models_try(root, "u", 0), -EBADMSG,
	       "this is opened as file 3 of 3 of a model, but it has no 'split.count'",
	       "a file of a split without a split.count is refused");
	write_part("u/m-00001-of-00003.gguf", 0, 3, 4);
	write_part("u/m-00003-of-00003.gguf", 2, 3, 4);
	is_err(models_try(root, "u", 0), -EBADMSG,
	       "'split.tensors.count' is 4, but the model has 3 tensors",
	       "a wrong number of tensors is refused");
	files_st("u/m-00002-of-00003.gguf",
		 "{" ENTRY("a", "U8", "[1]", "[0,1]") "}", 1);
	is_err(models_try(root, "u", 0), -EOPNOTSUPP,
	       "this is a safetensors file, but the model's format is GGUF",
	       "a file of another format is refused as part of a split");
}

static void names_are_unique_in_all_files(void)
{
	for (uint16_t no = 0; no < 2; no++) {
		begin(1, 2);
		put_u16("split.no", no);
		put_u16("split.count", 2);
		put_tensor("same", 0);
		end(no ? "t-00002-of-00002.gguf" : "t-00001-of-00002.gguf", 32);
	}
	is_err(models_try(root, "t-00001-of-00002.gguf", 0), -EBADMSG,
	       "t-00002-of-00002.gguf: tensor 'same' is also in t-00001-of-00002.gguf",
	       "a tensor that two files of a split have is refused");
}

static void names_decide_about_splits(void)
{
	write_part("renamed.gguf", 0, 2, 2);
	is_err(models_try(root, "renamed.gguf", 0), -EBADMSG,
	       "renamed.gguf: this is file 1 of 2 of a model, but its name does not end in '-00001-of-00002.gguf'",
	       "a file of a split with another name is refused");
	begin(0, 0);
	end("one-00001-of-00001.gguf", 0);
	is_int(models_try(root, "one-00001-of-00001.gguf", 0), 0,
	       "a file named 1 of 1 needs no metadata of a split model");
	begin(0, 0);
	end("none-00000-of-00003.gguf", 0);
	is_int(models_try(root, "none-00000-of-00003.gguf", 0), 0,
	       "a number 0 in a name does not mean a split");
	begin(0, 0);
	end("more-00004-of-00003.gguf", 0);
	is_int(models_try(root, "more-00004-of-00003.gguf", 0), 0,
	       "a number above the count does not mean a split");
}

/* The pairs of the second file: "k" also in the first one, and twice. */
static void keys_are_unique_in_each_file(void)
{
	for (uint16_t no = 0; no < 2; no++) {
		begin(0, 4 + no);
		put_u16("split.no", no);
		put_u16("split.count", 2);
		put_u16("k", no);
		put_u16(no ? "k" : "other", no);
		put_u16("last", no);
		end(no ? "k-00002-of-00002.gguf" : "k-00001-of-00002.gguf", 0);
	}
	is_err(models_try(root, "k-00001-of-00002.gguf", 0), -EBADMSG,
	       "k-00002-of-00002.gguf: byte",
	       "a key twice in the second file is refused, although the first has it");
}

static void short_files_are_refused(void)
{
	size_t whole, wrong = 0;

	write_arrays();
	whole = at;
	for (size_t n = 0; n < whole; n++) {
		files_bytes("short.gguf", file, n);
		wrong += models_try(root, "short.gguf", 0) != -EBADMSG;
	}
	is_int(wrong, 0, "a header that is cut short anywhere is refused");
}

int main(void)
{
	plan(11 + 1 + 12 + 3 + 2 + 9 + 3 + 7 + 1 + 4 + 1 + 1);
	files_begin();
	if (weir_open(NULL, &root) < 0)
		bail("%s", weir_error());
	numbers_have_types();
	arrays_are_aligned();
	items_are_returned();
	older_programs_get_their_members();
	long_headers_are_read();
	any_file_of_a_split_opens_all();
	splits_from_descriptors();
	splits_are_complete();
	names_are_unique_in_all_files();
	names_decide_about_splits();
	keys_are_unique_in_each_file();
	short_files_are_refused();
	weir_close(root);
	return done_testing();
}
