/* SPDX-License-Identifier: MIT */
/*
 * Small models of which one file is cut after each byte, or has another value
 * in one byte: opening the model fails, or finds what a second reader finds.
 * All files are written before the first is opened, since opening a file waits
 * after a write. (t/fuzz/replay.c tries all values of a byte, without files.)
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir.h>

#include "files.h"
#include "limit.h"
#include "model/format/model.h"
#include "second.h"
#include "tap.h"

#define MOST_FILES 3u
#define MOST_BYTES 1024u
#define MEMORY (64ul << 20)

struct file {
	const char *name;
	size_t n;
	uint8_t bytes[MOST_BYTES];
};

/* A model, and how it is opened in its directory. */
struct set {
	const char *name, *open;
	struct file file[MOST_FILES];
	unsigned n_files;
};

/* A change of one file of a set. */
struct variant {
	unsigned file;
	size_t n;  /* bytes of it that are left */
	size_t at; /* number of the changed one of these */
	uint8_t flip;
};

static struct weir *root;

/* Values that change a count, a sign, a type, a character, a length. */
static const uint8_t flips[] = { 0x01, 0x02, 0x08, 0x20, 0x7f, 0x80, 0xff };
#define FLIPS (sizeof(flips) / sizeof(flips[0]))

static void add_bytes(struct set *s, const char *name, const void *bytes,
		      size_t n)
{
	struct file *f = &s->file[s->n_files++];

	f->name = name;
	f->n = n;
	memcpy(f->bytes, bytes, n);
}

static void add_corpus(struct set *s, const char *name, const char *corpus)
{
	const char *top = getenv("srcdir");
	uint8_t bytes[MOST_BYTES];
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s/t/corpus/%s", top ? top : ".", corpus);
	f = fopen(path, "rb");
	if (!f)
		bail("%s: %s", path, strerror(errno));
	add_bytes(s, name, bytes, fread(bytes, 1, sizeof(bytes), f));
	fclose(f);
}

/* Variant @i of @s; false: past the last. */
static bool variant_at(const struct set *s, size_t i, struct variant *ret)
{
	for (unsigned k = 0; k < s->n_files; k++) {
		size_t n = s->file[k].n;

		*ret = (struct variant){ .file = k, .n = n };
		if (i < n) {
			ret->n = i;
			return true;
		}
		i -= n;
		if (i < n * FLIPS) {
			ret->at = i / FLIPS;
			ret->flip = flips[i % FLIPS];
			return true;
		}
		i -= n * FLIPS;
	}
	return false;
}

/* The bytes of file @k; returns how many. */
static size_t bytes_of(const struct set *s, const struct variant *v, unsigned k,
		       uint8_t bytes[MOST_BYTES])
{
	const struct file *f = &s->file[k];

	memcpy(bytes, f->bytes, f->n);
	if (k != v->file)
		return f->n;
	if (v->flip)
		bytes[v->at] ^= v->flip;
	return v->n;
}

static const char *path_of(const struct set *s, size_t i, const char *name)
{
	static char path[200];

	snprintf(path, sizeof(path), "%s/%zu%s%s", s->name, i, *name ? "/" : "",
		 name);
	return path;
}

static void write_variant(const struct set *s, size_t i,
			  const struct variant *v)
{
	uint8_t bytes[MOST_BYTES];
	char base[200];

	files_dir(path_of(s, i, ""));
	for (unsigned k = 0; k < s->n_files; k++) {
		size_t n = bytes_of(s, v, k, bytes);

		snprintf(base, sizeof(base), "../%s", s->file[k].name);
		if (k == v->file)
			files_bytes(path_of(s, i, s->file[k].name), bytes, n);
		else
			files_link(path_of(s, i, s->file[k].name), base);
	}
}

/* Returns how many variants there are. */
static size_t write_all(const struct set *s)
{
	struct variant v;
	char path[100];
	size_t i = 0;

	files_dir(s->name);
	for (unsigned k = 0; k < s->n_files; k++) {
		snprintf(path, sizeof(path), "%s/%s", s->name, s->file[k].name);
		files_bytes(path, s->file[k].bytes, s->file[k].n);
	}
	for (; variant_at(s, i, &v); i++)
		write_variant(s, i, &v);
	return i;
}

/* The tensors of all files that the model has, as the second reader reads. */
static size_t count_same(const struct set *s, const struct variant *v,
			 const struct weir_model *m, bool lenient)
{
	unsigned flags = SECOND_PART | (lenient ? SECOND_LENIENT : 0);
	uint8_t bytes[MOST_BYTES];
	size_t same = 0;

	for (unsigned k = 0; k < s->n_files; k++) {
		size_t n = bytes_of(s, v, k, bytes);
		struct second t;
		bool good = !strstr(s->file[k].name, ".gguf")
				    ? second_st(bytes, n, &t)
				    : second_gguf(bytes, n, flags, &t);

		for (size_t i = 0; good && i < t.n; i++)
			same += !second_compare_tensor(&t.tensor[i], m);
		second_free(&t);
	}
	return same;
}

static bool is_refusal(int r)
{
	return r == -EBADMSG || r == -EOPNOTSUPP || r == -ENOENT ||
	       r == -EINVAL;
}

/* Open variant @i; false, with a remark, if it is not as it has to be. */
static bool try_variant(const struct set *s, size_t i, bool lenient,
			size_t *accepted)
{
	struct weir_model_opts opts = WEIR_MODEL_OPTS_INIT;
	struct weir_model *m;
	struct variant v;
	bool good;
	int r;

	variant_at(s, i, &v);
	if (lenient)
		opts.flags = WEIR_MODEL_LENIENT;
	r = weir_model_open(root, files_path(path_of(s, i, s->open)), &opts,
			    &m);
	if (r < 0) {
		good = is_refusal(r) && *weir_error();
	} else {
		good = count_same(s, &v, m, lenient) >= m->n_recs;
		weir_model_close(m);
		++*accepted;
	}
	if (!good)
		diag("%s: %zu bytes, byte %zu changed by 0x%02x: %d %s",
		     s->file[v.file].name, v.n, v.at, v.flip, r,
		     r < 0 ? weir_error() : "other tensors");
	return good;
}

static void every_variant(const struct set *s)
{
	size_t n = write_all(s), bad = 0, accepted = 0;

	tap_renew();
	for (size_t i = 0; i < n; i++)
		bad += !try_variant(s, i, false, &accepted) +
		       !try_variant(s, i, true, &accepted);
	is_int(bad, 0,
	       "%s of which one file is cut or has another byte is refused, or read as another reader reads it",
	       s->name);
	ok(accepted && accepted < n,
	   "%s of which one file is cut or has another byte is sometimes accepted",
	   s->name);
	diag("%zu of %zu are accepted", accepted, 2 * n);
}

static void of_a_file(const char *name, const char *file, const char *corpus)
{
	static struct set s;

	s = (struct set){ .name = name, .open = file };
	add_corpus(&s, file, corpus);
	every_variant(&s);
}

static void of_split_gguf(void)
{
	static struct set s = { .name = "a split GGUF model",
				.open = "m-00001-of-00002.gguf" };

	add_corpus(&s, "m-00001-of-00002.gguf", "gguf/split-two");
	add_corpus(&s, "m-00002-of-00002.gguf", "gguf/split-second");
	every_variant(&s);
}

static void of_an_index(void)
{
	static const char index[] =
		"{\"weight_map\":{\"a\":\"s1\",\"b\":\"s2\"}}";
	static const char first[] =
		"\70\0\0\0\0\0\0\0{" ENTRY("a", "U8", "[2]", "[0,2]") "}   xy";
	static const char second[] =
		"\70\0\0\0\0\0\0\0{" ENTRY("b", "U8", "[3]", "[0,3]") "}   xyz";
	static struct set s = { .name = "an index of shards",
				.open = "m.index.json" };

	add_bytes(&s, "m.index.json", index, strlen(index));
	add_bytes(&s, "s1", first, sizeof(first) - 1);
	add_bytes(&s, "s2", second, sizeof(second) - 1);
	every_variant(&s);
}

int main(void)
{
	plan(8);
	files_begin();
	if (weir_open(NULL, &root) < 0)
		bail("%s", weir_error());
	limit_memory(MEMORY);
	of_a_file("a safetensors model", "m.safetensors", "st/metadata");
	of_a_file("a GGUF model", "m.gguf", "gguf/small");
	of_split_gguf();
	of_an_index();
	weir_close(root);
	return done_testing();
}
