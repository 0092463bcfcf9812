/* SPDX-License-Identifier: MIT */
/*
 * The memory that headers of models take: a limit of each model, and the root's
 * budget; and the memory of manifests. Files may be long without blocks on the
 * disk.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "files.h"
#include "kind.h"
#include "models.h"
#include "tap.h"

#define MANY UINT64_C(50000000) /* empty strings, 8 bytes each */
#define SOME 1000000u           /* 8 MB */
#define MIB ((uint64_t)1 << 20)

static struct weir *root_of(uint64_t budget)
{
	struct weir_opts o = WEIR_OPTS_INIT;
	struct weir *weir;

	o.budget = budget;
	if (weir_open(&o, &weir) < 0)
		bail("%s", weir_error());
	return weir;
}

/*
 * A GGUF file without tensors: its one pair "a" has @n items of @type, each of
 * @bytes bytes, which are 0.
 */
static void write_items(const char *name, uint64_t n, char type, uint64_t bytes)
{
	unsigned char head[] = "GGUF\3\0\0\0"
			       "\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0"
			       "\1\0\0\0\0\0\0\0a\x9\0\0\0\0\0\0\0"
			       "\0\0\0\0\0\0\0\0";

	memcpy(head + sizeof(head) - 13, &type, 1);
	memcpy(head + sizeof(head) - 9, &n, sizeof(n));
	files_bytes(name, head, sizeof(head) - 1);
	files_truncate(name, sizeof(head) - 1 + bytes * n);
}

static void write_empty(const char *name, uint64_t n)
{
	write_items(name, n, 8, 8);
}

/* Arrays of no numbers in an array. */
static void write_arrays(const char *name, uint64_t n)
{
	write_items(name, n, 9, 12);
}

static int open_with(struct weir *weir, const char *name, uint64_t memory,
		     struct weir_model **ret_model)
{
	struct weir_model_opts o = WEIR_MODEL_OPTS_INIT;

	o.memory = memory;
	return weir_model_open(weir, files_path(name), &o, ret_model);
}

static long peak_kib(void)
{
	struct rusage use;

	getrusage(RUSAGE_SELF, &use);
	return use.ru_maxrss;
}

static struct weir_value array_of(const struct weir_model *m)
{
	struct weir_value v = { .size = sizeof(v) };

	if (weir_model_meta(m, "a", &v) < 0)
		bail("%s", weir_error());
	return v;
}

static int item_of(const struct weir_model *m, size_t i,
		   struct weir_value *ret_item)
{
	struct weir_value array = array_of(m);

	ret_item->size = sizeof(*ret_item);
	return weir_model_meta_item(m, &array, i, ret_item);
}

static void headers_have_a_limit(void)
{
	struct weir *weir = root_of(0);
	struct weir_model *m;
	long before = peak_kib();

	write_empty("many.gguf", MANY);
	is_err(open_with(weir, "many.gguf", 0, &m), -ENOMEM,
	       "many.gguf: headers and their tables need 400000049",
	       "50 million strings exceed the limit");
	is_err(open_with(weir, "many.gguf", 0, &m), -ENOMEM,
	       "268435456 are allowed (weir_model_opts.memory)",
	       "the sentence names the limit and the option");
	ok(peak_kib() - before < 64 << 10,
	   "what is refused is not read before (%ld KiB)", peak_kib() - before);
	write_empty("some.gguf", SOME);
	is_err(open_with(weir, "some.gguf", 8000000, &m), -ENOMEM, "8000000",
	       "a lower limit counts");
	is_int(open_with(weir, "some.gguf", 8 * MIB, &m), 0,
	       "a header within its limit is read");
	weir_model_close(m);
	weir_close(weir);
}

static void headers_count_for_the_budget(void)
{
	struct weir *weir = root_of(12 * MIB);
	struct weir_buft *host = kind_of(weir, "CPU", WEIR_MEM_PLAIN);
	struct weir_value item;
	struct weir_model *m;
	struct weir_buf *buf;

	is_err(open_with(weir, "many.gguf", UINT64_MAX, &m), -ENOMEM,
	       "the root's budget of 12582912",
	       "headers do not exceed the root's budget");
	is_int(weir_buf_alloc(host, 11 * MIB, NULL, &buf), 0,
	       "a model that was refused takes nothing of the budget");
	weir_buf_free(buf);
	is_int(open_with(weir, "some.gguf", 0, &m), 0,
	       "a header within the budget is read");
	is_err(weir_buf_alloc(host, 5 * MIB, NULL, &buf), -ENOMEM,
	       "the root's budget", "an open model counts for the budget");
	is_int(item_of(m, 63, &item), 0,
	       "the first strings of an array need no memory");
	is_err(item_of(m, SOME - 1, &item), -ENOMEM,
	       "an index of 1000000 strings",
	       "the index of an array counts for the budget");
	weir_model_close(m);
	is_int(weir_buf_alloc(host, 11 * MIB, NULL, &buf), 0,
	       "a closed model has given back its part of the budget");
	weir_buf_free(buf);
	weir_close(weir);
}

static void an_index_is_given_back(void)
{
	struct weir *weir = root_of(20 * MIB);
	struct weir_buft *host = kind_of(weir, "CPU", WEIR_MEM_PLAIN);
	struct weir_value item;
	struct weir_model *m;
	struct weir_buf *buf;

	if (open_with(weir, "some.gguf", 0, &m) < 0)
		bail("%s", weir_error());
	ok(item_of(m, SOME - 1, &item) == 0 && item.len == 0 && !*item.str,
	   "the last string of many is found");
	is_err(item_of(m, SOME, &item), -EINVAL, "item 1000000 of an array",
	       "there is no string after the last");
	is_err(weir_buf_alloc(host, 8 * MIB, NULL, &buf), -ENOMEM, "budget",
	       "text and index count for the budget together");
	weir_model_close(m);
	is_int(weir_buf_alloc(host, 19 * MIB, NULL, &buf), 0,
	       "a closed model has given back its index, too");
	weir_buf_free(buf);
	weir_close(weir);
}

/* Files are read in steps of up to 1 MiB, beyond the end of the header. */
static void data_do_not_count(void)
{
	struct weir *weir = root_of(8 * MIB);
	struct weir_buft *host = kind_of(weir, "CPU", WEIR_MEM_PLAIN);
	struct weir_model *m;
	struct weir_buf *buf = NULL;

	write_empty("data.gguf", 3 * MIB / 8);
	files_truncate("data.gguf", 16 * MIB);
	is_int(open_with(weir, "data.gguf", 0, &m), 0,
	       "a header that data follow is read");
	is_int(weir_buf_alloc(host, 9 * MIB / 2, NULL, &buf), 0,
	       "what was read of the data does not count afterwards");
	weir_buf_free(buf);
	weir_model_close(m);
	weir_close(weir);
}

static void arrays_of_arrays_count(void)
{
	struct weir *weir = root_of(0);
	struct weir_model *m;

	write_arrays("arrays.gguf", 200000);
	is_err(open_with(weir, "arrays.gguf", 7 * MIB, &m), -ENOMEM, "7340032",
	       "the arrays of an array count while they are collected");
	is_int(open_with(weir, "arrays.gguf", 16 * MIB, &m), 0,
	       "an array of arrays within its limit is read");
	weir_model_close(m);
	weir_close(weir);
}

/* "0", "1", ... with as many dots as their number. */
static void strings_of_any_length(void)
{
	static unsigned char file[1 << 17];
	struct weir *weir = root_of(0);
	struct weir_value item;
	struct weir_model *m;
	unsigned wrong = 0;
	size_t at, n = 300;
	FILE *f;

	write_empty("text.gguf", n);
	f = fopen(files_path("text.gguf"), "r");
	if (!f || fread(file, 1, 49, f) != 49)
		bail("text.gguf");
	fclose(f);
	at = 49;
	for (size_t i = 0; i < n; i++) {
		uint64_t len =
			(uint64_t)sprintf((char *)file + at + 8, "%zu", i);

		memset(file + at + 8 + len, '.', i);
		len += i;
		memcpy(file + at, &len, 8);
		at += 8 + len;
	}
	files_bytes("text.gguf", file, at);
	m = models_open(weir, "text.gguf");
	for (size_t k = 0; k < 2 * n; k++) {
		size_t i = k < n ? n - 1 - k : k - n;
		char want[512];
		int len = snprintf(want, sizeof(want), "%zu", i);

		memset(want + len, '.', i);
		want[(size_t)len + i] = '\0';
		wrong += item_of(m, i, &item) < 0 || item.len != strlen(want) ||
			 strcmp(item.str, want) != 0;
	}
	is_int(wrong, 0,
	       "strings of any length are found in any order, each with a NUL");
	weir_model_close(m);
	weir_close(weir);
}

static void safetensors_count(void)
{
	static char text[4 << 20];
	struct weir *weir = root_of(12 * MIB);
	struct weir_model *m;
	size_t at = (size_t)sprintf(text, "{\"__metadata__\":{\"k\":\"");

	memset(text + at, 'x', 3 << 20);
	strcpy(text + at + (3 << 20), "\"}}");
	files_st("st.safetensors", text, 0);
	is_err(open_with(weir, "st.safetensors", 1 * MIB, &m), -ENOMEM,
	       "st.safetensors: headers and their tables need 3145",
	       "the text of a safetensors header counts");
	is_err(open_with(weir, "st.safetensors", 4 * MIB, &m), -ENOMEM,
	       "st.safetensors: headers and their tables need 62",
	       "its metadata count beside it");
	is_int(open_with(weir, "st.safetensors", 0, &m), 0,
	       "a safetensors header within the budget is read");
	weir_model_close(m);
	weir_close(weir);
}

static void indexes_count(void)
{
	struct weir *weir = root_of(8 * MIB);
	struct weir_model *m;

	files_text("big.index.json", "{");
	files_truncate("big.index.json", 16 << 20);
	is_err(open_with(weir, "big.index.json", 0, &m), -ENOMEM,
	       "the root's budget of 8388608",
	       "the text of an index counts for the budget");
	weir_close(weir);
}

/* The manifest of a model of 10000 empty tensors, whose names are long. */
static struct weir_manifest *manifest_of_many(struct weir *weir)
{
	static char text[4 << 20];
	size_t at = 0;
	struct weir_manifest *manifest;
	struct weir_model *m;
	struct weir_plan *p;
	struct weir_load *l;

	for (unsigned i = 0; i < 10000; i++)
		at += (size_t)sprintf(
			text + at,
			"%c\"%0200u\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}",
			i ? ',' : '{', i);
	strcpy(text + at, "}");
	files_st("tensors.safetensors", text, 0);
	m = models_open(weir, "tensors.safetensors");
	if (weir_plan_new(m, &p) < 0 ||
	    weir_plan_add(p, NULL, kind_of(weir, "CPU", WEIR_MEM_PLAIN), NULL) <
		    0 ||
	    weir_plan_digest(p, WEIR_DIGEST_XXH3) < 0 ||
	    weir_load_start(p, NULL, &l) < 0 || weir_load_wait(l, -1) < 0 ||
	    weir_load_manifest(l, &manifest) < 0)
		bail("%s", weir_error());
	weir_load_free(l);
	weir_plan_free(p);
	weir_model_close(m);
	return manifest;
}

/* Write a manifest of many tensors, whose text and tables have over 3 MiB. */
static void write_manifest(const char *name)
{
	struct weir *weir = root_of(0);
	struct weir_manifest *manifest = manifest_of_many(weir);
	FILE *f = fopen(files_path(name), "w");

	if (!f || weir_manifest_write(manifest, fileno(f)) < 0)
		bail("%s", name);
	fclose(f);
	weir_manifest_close(manifest);
	weir_close(weir);
}

static void manifests_count(void)
{
	struct weir *weir = root_of(8 * MIB);
	struct weir_buft *host = kind_of(weir, "CPU", WEIR_MEM_PLAIN);
	struct weir_manifest *manifest;
	struct weir_buf *buf;

	files_text("big.json", "{");
	files_truncate("big.json", 16 << 20);
	is_err(weir_manifest_open(weir, files_path("big.json"), &manifest),
	       -ENOMEM, "big.json: a manifest: 16781312 bytes are needed",
	       "the text of a manifest counts for the budget");
	write_manifest("man.json");
	is_int(weir_manifest_open(weir, files_path("man.json"), &manifest), 0,
	       "a manifest within the budget is read");
	is_err(weir_buf_alloc(host, 5 * MIB, NULL, &buf), -ENOMEM,
	       "the root's budget", "an open manifest counts for the budget");
	weir_manifest_close(manifest);
	is_int(weir_buf_alloc(host, 5 * MIB, NULL, &buf), 0,
	       "a closed manifest has given back its part of the budget");
	is_err(weir_manifest_open(weir, files_path("man.json"), &manifest),
	       -ENOMEM, "man.json: a manifest: 4096 bytes are needed",
	       "the tables of a manifest count beside its text");
	weir_buf_free(buf);
	is_int(weir_buf_alloc(host, 8 * MIB, NULL, &buf), 0,
	       "a manifest that was refused takes nothing of the budget");
	weir_buf_free(buf);
	weir_close(weir);
}

static void made_manifests_count(void)
{
	struct weir *weir = root_of(64 * MIB);
	struct weir_buft *host = kind_of(weir, "CPU", WEIR_MEM_PLAIN);
	struct weir_manifest *manifest = manifest_of_many(weir);
	size_t step = 64 << 10, n = 0, more = 0;
	static struct weir_buf *buf[1024];

	while (n < 1024 && weir_buf_alloc(host, step, NULL, &buf[n]) == 0)
		n++;
	weir_manifest_close(manifest);
	while (n < 1024 && weir_buf_alloc(host, step, NULL, &buf[n]) == 0)
		n++, more++;
	ok(more >= 2 * MIB / step,
	   "a manifest of a load counts until it is closed (%zu KiB)",
	   more * step / 1024);
	while (n)
		weir_buf_free(buf[--n]);
	weir_close(weir);
}

int main(void)
{
	plan(32);
	files_begin();
	headers_have_a_limit();
	headers_count_for_the_budget();
	an_index_is_given_back();
	data_do_not_count();
	arrays_of_arrays_count();
	strings_of_any_length();
	safetensors_count();
	indexes_count();
	manifests_count();
	made_manifests_count();
	return done_testing();
}
