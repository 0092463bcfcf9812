/* SPDX-License-Identifier: MIT */
/*
 * Saves: what is written is read back by the library's own readers, over both
 * methods of the engine.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir.h>

#include "files.h"
#include "tap.h"

#define CHECKS 61 /* checks of a contract */
#define ELEMENTS 3072

static struct weir *root;
static struct weir_buft *plain;

static struct weir_save *begin(const char *name,
			       const struct weir_save_opts *opts)
{
	struct weir_save *s;

	if (weir_save_new(root, files_path(name), opts, &s) < 0)
		bail("%s", weir_error());
	return s;
}

/* Start, wait and free; the result of the first that fails. */
static int finish(struct weir_save *s)
{
	int r = weir_save_start(s, NULL);

	if (r >= 0)
		r = weir_save_wait(s, -1);
	weir_save_free(s);
	return r;
}

/* A buffer whose bytes follow from their offsets. */
static struct weir_buf *bytes_buf(size_t n)
{
	struct weir_buf *buf;
	unsigned char *p;

	if (weir_buf_alloc(plain, n, NULL, &buf) < 0)
		bail("%s", weir_error());
	p = weir_buf_data(buf);
	for (size_t i = 0; i < n; i++)
		p[i] = (unsigned char)(i * 2654435761u >> 11);
	return buf;
}

static struct weir_tensor tensor_at(struct weir_buf *buf, uint64_t off,
				    enum weir_dtype dtype, unsigned ndim,
				    const int64_t *shape)
{
	struct weir_tensor t;

	if (weir_tensor_init(&t, dtype, ndim, shape) < 0 ||
	    weir_tensor_place(&t, buf, off) < 0)
		bail("%s", weir_error());
	return t;
}

static void add(struct weir_save *s, const char *name,
		const struct weir_tensor *t, uint32_t dtype)
{
	if (weir_save_add(s, name, t, dtype) < 0)
		bail("%s", weir_error());
}

static struct weir_weights *load(const char *name)
{
	struct weir_weights *w;

	if (weir_load_all(root, files_path(name), plain, NULL, &w) < 0)
		bail("%s", weir_error());
	return w;
}

/* True if the weights have @want as the bytes of tensor @name. */
static bool holds(struct weir_weights *w, const char *name, const void *want,
		  size_t n)
{
	const struct weir_tensor *t = weir_weights_find(w, name);
	size_t bytes;

	return t && weir_tensor_bytes(t, &bytes) >= 0 && bytes == n &&
	       !memcmp(weir_tensor_data(t), want, n);
}

static bool holds_at(const char *path, const char *name, const void *want,
		     size_t n)
{
	struct weir_weights *w = load(path);
	bool right = holds(w, name, want, n);

	weir_weights_free(w);
	return right;
}

/* A tensor of each dtype that the format has comes back bit for bit. */
static void every_dtype(const char *name, bool gguf)
{
	const int64_t shape[] = { ELEMENTS / 1024, 1024 };
	struct weir_buf *buf = bytes_buf(ELEMENTS * 16);
	struct weir_save *s = begin(name, NULL);
	struct weir_weights *w;
	size_t n = 0, right = 0;

	for (unsigned d = 0; d < 128; d++) {
		struct weir_dtype_info info = { .size = sizeof(info) };
		struct weir_tensor t;

		if (weir_dtype_info((enum weir_dtype)d, &info) < 0 ||
		    (gguf ? info.ggml < 0 : !info.safetensors))
			continue;
		t = tensor_at(buf, d, (enum weir_dtype)d, 2, shape);
		add(s, info.name, &t, 0);
		n++;
	}
	is_int(finish(s), 0, "a tensor of each dtype is saved to %s", name);
	w = load(name);
	is_int(weir_weights_count(w), n, "%s has all %zu tensors", name, n);
	for (unsigned d = 0; d < 128; d++) {
		struct weir_dtype_info info = { .size = sizeof(info) };

		if (weir_dtype_info((enum weir_dtype)d, &info) >= 0 &&
		    holds(w, info.name, (char *)weir_buf_data(buf) + d,
			  ELEMENTS / info.block * info.bytes))
			right++;
	}
	is_int(right, n, "the bytes of each tensor in %s are those in memory",
	       name);
	weir_weights_free(w);
	weir_buf_free(buf);
}

/* Large tensors cross chunks, are written in place, and end off a block. */
static void large(const char *name, uint64_t shard_bytes, const char *open)
{
	struct weir_save_opts o = WEIR_SAVE_OPTS_INIT;
	struct weir_save_report rep = { .size = sizeof(rep) };
	struct weir_progress p = { .size = sizeof(p) };
	const int64_t shape = 9000001;
	struct weir_buf *buf = bytes_buf(3 * 9000064);
	struct weir_save *s;
	struct weir_weights *w;
	bool same = true;

	o.shard_bytes = shard_bytes;
	s = begin(name, &o);
	for (unsigned i = 0; i < 3; i++) {
		struct weir_tensor t =
			tensor_at(buf, i * 9000064, WEIR_DTYPE_I8, 1, &shape);
		char label[8];

		snprintf(label, sizeof(label), "t%u", i);
		add(s, label, &t, 0);
	}
	is_int(weir_save_start(s, NULL), 0, "a save to %s starts", open);
	is_int(weir_save_wait(s, -1), 0, "a save to %s ends well", open);
	weir_save_report(s, &rep);
	weir_save_progress(s, &p);
	ok(rep.bytes == p.total && p.bytes == p.total && p.tensors == 3,
	   "the progress of the save to %s is at its end", open);
	weir_save_free(s);
	w = load(open);
	for (unsigned i = 0; i < 3; i++) {
		char label[8];

		snprintf(label, sizeof(label), "t%u", i);
		same &= holds(w, label,
			      (char *)weir_buf_data(buf) + i * 9000064,
			      9000001);
	}
	ok(same, "large tensors of %s come back bit for bit", open);
	weir_weights_free(w);
	weir_buf_free(buf);
}

/* A view is saved without its gaps; a view of a file likewise. */
/* Neighbours in memory and in the file, of whole pages. */
static void in_place(void)
{
	const int64_t shape = 3 << 20;
	struct weir_buf *buf = bytes_buf(9u << 20 | 4096);
	uint64_t from = -(uintptr_t)weir_buf_data(buf) % 4096;
	struct weir_save *s = begin("pages.safetensors", NULL);
	struct weir_save_report rep = { .size = sizeof(rep) };
	struct weir_entry e = { .size = sizeof(e) };
	struct weir_model *m;
	char name[] = "a";

	for (; *name <= 'c'; ++*name, from += (uint64_t)shape) {
		struct weir_tensor t =
			tensor_at(buf, from, WEIR_DTYPE_U8, 1, &shape);

		add(s, name, &t, 0);
	}
	if (weir_save_start(s, NULL) < 0 || weir_save_wait(s, -1) < 0 ||
	    weir_save_report(s, &rep) < 0 ||
	    weir_model_open(root, files_path("pages.safetensors"), NULL, &m) <
		    0 ||
	    weir_model_tensor(m, 0, &e) < 0)
		bail("%s", weir_error());
	weir_save_free(s);
	is_int(e.offset % 4096, 0, "the data of a large file begins at a page");
	ok(!rep.direct || rep.in_place >= 4 << 20,
	   "tensors that are neighbours are written where they are");
	weir_model_close(m);
	from -= 3 * (uint64_t)shape;
	ok(holds_at("pages.safetensors", "b",
		    (unsigned char *)weir_buf_data(buf) + from + shape,
		    (size_t)shape),
	   "and come back bit for bit");
	weir_buf_free(buf);
}

static void views(void)
{
	int64_t flat = 300 * 7 * 64;
	const int64_t shape[] = { 300, 7, 64 };
	struct weir_buf *buf = bytes_buf(300 * 7 * 64 * 4);
	struct weir_tensor t = tensor_at(buf, 0, WEIR_DTYPE_F32, 3, shape);
	struct weir_tensor cut, swapped = t, unplaced;
	const float *p = weir_buf_data(buf);
	struct weir_save *s = begin("views.safetensors", NULL);
	float *want = malloc(300 * 7 * 64 * 4);
	struct weir_weights *w;
	struct weir_model *m;

	weir_tensor_view(&t, 2, 5, 11, &cut);
	swapped.shape[0] = 7;
	swapped.shape[1] = 300;
	swapped.stride[0] = t.stride[1];
	swapped.stride[1] = t.stride[0];
	add(s, "whole", &t, 0);
	add(s, "cut", &cut, 0);
	add(s, "swapped", &swapped, 0);
	is_int(finish(s), 0, "views are saved");
	w = load("views.safetensors");
	for (size_t i = 0; i < 300u * 7; i++)
		memcpy(want + i * 11, p + i * 64 + 5, 11 * 4);
	ok(holds(w, "cut", want, 300 * 7 * 11 * 4),
	   "a slice of the last dimension has no gaps in the file");
	for (size_t i = 0; i < 7; i++)
		for (size_t k = 0; k < 300; k++)
			memcpy(want + (i * 300 + k) * 64, p + (k * 7 + i) * 64,
			       64 * 4);
	ok(holds(w, "swapped", want, 300 * 7 * 64 * 4),
	   "two dimensions are saved in the other order");
	weir_weights_free(w);

	if (weir_model_open(root, files_path("views.safetensors"), NULL, &m))
		bail("%s", weir_error());
	s = begin("copies.gguf", NULL);
	unplaced = swapped;
	unplaced.buf = NULL;
	unplaced.offset = 0;
	for (size_t i = 0; i < weir_model_count(m); i++) {
		struct weir_entry e = { .size = sizeof(e) };
		bool whole;

		weir_model_tensor(m, i, &e);
		whole = !strcmp(e.name, "whole");
		if (weir_save_copy(s, e.name, m, i, whole ? &unplaced : NULL,
				   0) < 0)
			bail("%s", weir_error());
	}
	weir_model_close(m);
	is_int(weir_save_shape(s, "whole", 1, &flat), 0,
	       "a tensor gets another shape");
	is_int(weir_save_shape(s, "none", 1, &flat), -ENOENT,
	       "a tensor that was not added gets none");
	flat--;
	is_int(weir_save_shape(s, "swapped", 1, &flat), -EINVAL,
	       "a shape of fewer elements is refused");
	is_int(finish(s), 0, "tensors are copied from another model");
	w = load("copies.gguf");
	is_int(weir_weights_get(w, 0)->ndim, 1,
	       "the file has the tensor in its other shape");
	ok(holds(w, "whole", want, 300 * 7 * 64 * 4),
	   "a view of a tensor in a file is copied in its order");
	ok(holds(w, "swapped", want, 300 * 7 * 64 * 4),
	   "a whole tensor of a file is copied as it is");
	weir_weights_free(w);
	free(want);
	weir_buf_free(buf);
}

/* Units of a conversion cross the chunks of the file. */
static void conversions(void)
{
	enum {
		N = 3000000
	};
	const int64_t shape = N;
	struct weir_buf *buf = bytes_buf(N * 4);
	struct weir_tensor t = tensor_at(buf, 0, WEIR_DTYPE_F32, 1, &shape);
	struct weir_save *s = begin("half.gguf", NULL);
	char *want = malloc(N * 4);
	struct weir_weights *w;
	float *p = weir_buf_data(buf);

	for (size_t i = 0; i < N; i++)
		p[i] = (float)(int)(i % 5000 - 2500) / 7;
	add(s, "odd", &t, WEIR_DTYPE_F16);
	add(s, "same", &t, WEIR_DTYPE_F32);
	add(s, "brain", &t, WEIR_DTYPE_BF16);
	is_int(finish(s), 0, "tensors are converted while they are saved");
	w = load("half.gguf");
	weir_convert(WEIR_DTYPE_F16, want, WEIR_DTYPE_F32, p, N);
	ok(holds(w, "odd", want, N * 2), "F16 has the values of weir_convert");
	weir_convert(WEIR_DTYPE_BF16, want, WEIR_DTYPE_F32, p, N);
	ok(holds(w, "brain", want, N * 2),
	   "BF16 has the values of weir_convert");
	ok(holds(w, "same", p, N * 4),
	   "a conversion to itself changes nothing");
	weir_weights_free(w);
	free(want);
	weir_buf_free(buf);
}

static void metadata(void)
{
	const uint16_t numbers[] = { 1, 2, 65535 };
	const struct weir_value words[] = {
		{ .type = WEIR_VALUE_STRING, .str = "a\0b", .len = 3 },
		{ .type = WEIR_VALUE_STRING, .str = "", .len = 0 },
	};
	struct weir_value v[] = {
		{ .key = "s", .type = WEIR_VALUE_STRING, .str = "x", .len = 1 },
		{ .key = "b", .type = WEIR_VALUE_BOOL, .u = 1 },
		{ .key = "i8", .type = WEIR_VALUE_I8, .i = -7 },
		{ .key = "u64", .type = WEIR_VALUE_U64, .u = UINT64_MAX },
		{ .key = "f32", .type = WEIR_VALUE_F32, .f = 0.5 },
		{ .key = "f64", .type = WEIR_VALUE_F64, .f = 1e300 },
		{ .key = "n",
		  .type = WEIR_VALUE_ARRAY,
		  .item_type = WEIR_VALUE_U16,
		  .len = 3,
		  .items = numbers },
		{ .key = "w",
		  .type = WEIR_VALUE_ARRAY,
		  .item_type = WEIR_VALUE_STRING,
		  .len = 2,
		  .items = words },
		{ .key = "s",
		  .type = WEIR_VALUE_STRING,
		  .str = "yz",
		  .len = 2 },
	};
	struct weir_save *s = begin("meta.gguf", NULL);
	struct weir_value got = { .size = sizeof(got) }, item = got;
	struct weir_model *m, *again;

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		v[i].size = sizeof(v[i]);
		if (weir_save_meta(s, &v[i]) < 0)
			bail("%s", weir_error());
	}
	is_int(finish(s), 0, "a file without tensors is saved");
	if (weir_model_open(root, files_path("meta.gguf"), NULL, &m) < 0)
		bail("%s", weir_error());
	s = begin("meta2.gguf", NULL);
	is_int(weir_save_copy_meta(s, m, NULL), 8,
	       "all pairs of a model are copied");
	is_int(finish(s), 0, "they are saved");
	if (weir_model_open(root, files_path("meta2.gguf"), NULL, &again) < 0)
		bail("%s", weir_error());
	weir_model_meta(again, "s", &got);
	is_str(got.str, "yz", "the last value of a key counts");
	weir_model_meta(again, "i8", &got);
	ok(got.type == WEIR_VALUE_I8 && got.i == -7, "a signed number is kept");
	weir_model_meta(again, "u64", &got);
	ok(got.u == UINT64_MAX, "the largest number is kept");
	weir_model_meta(again, "f64", &got);
	ok(got.type == WEIR_VALUE_F64 && got.f == 1e300, "a double is kept");
	weir_model_meta(again, "n", &got);
	ok(got.len == 3 && got.items && !memcmp(got.items, numbers, 6),
	   "an array of numbers is kept");
	weir_model_meta(again, "w", &got);
	weir_model_meta_item(again, &got, 0, &item);
	ok(got.len == 2 && item.len == 3 && !memcmp(item.str, "a\0b", 3),
	   "an array of strings is kept, NULs too");
	weir_model_close(again);

	s = begin("meta.safetensors", NULL);
	is_int(weir_save_copy_meta(s, m, "s"), 1,
	       "the pairs that match a pattern are copied");
	is_err(weir_save_copy_meta(s, m, "u*"), -EOPNOTSUPP, "strings",
	       "safetensors refuses a number");
	weir_save_free(s);
	weir_model_close(m);
}

static void refused(void)
{
	const int64_t shape[] = { 2, 3, 1, 1, 1 };
	struct weir_buf *buf = bytes_buf(4096);
	struct weir_tensor t = tensor_at(buf, 0, WEIR_DTYPE_U16, 2, shape);
	struct weir_tensor five = tensor_at(buf, 0, WEIR_DTYPE_F32, 5, shape);
	struct weir_tensor nowhere = t;
	struct weir_save_opts o = WEIR_SAVE_OPTS_INIT;
	struct weir_save *s;
	char name[80];

	is_err(weir_save_new(root, "model.bin", NULL, &s), -EINVAL,
	       ".safetensors nor .gguf", "a path without a format is refused");
	o.format = "ONNX";
	is_err(weir_save_new(root, "model.bin", &o, &s), -EINVAL, "'ONNX'",
	       "an unknown format is refused");
	s = begin("refused.gguf", NULL);
	is_err(weir_save_add(s, "t", &t, 0), -EOPNOTSUPP, "no dtype U16",
	       "GGUF refuses a dtype that it does not have");
	is_err(weir_save_add(s, "five", &five, 0), -EOPNOTSUPP, "5 dimensions",
	       "GGUF refuses five dimensions");
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	t.dtype = WEIR_DTYPE_F16;
	is_err(weir_save_add(s, name, &t, 0), -EOPNOTSUPP, "79 bytes",
	       "GGUF refuses a long name");
	is_err(weir_save_add(s, "\xff", &t, 0), -EINVAL, "UTF-8",
	       "a name that is not UTF-8 is refused");
	nowhere.buf = NULL;
	is_err(weir_save_add(s, "t", &nowhere, 0), -EINVAL, "not placed",
	       "a tensor without memory is refused");
	add(s, "t", &t, 0);
	is_err(weir_save_add(s, "t", &t, 0), -EEXIST, "'t'",
	       "a second tensor of a name is refused");
	is_err(weir_save_wait(s, 0), -EINVAL, "not started",
	       "there is nothing to wait for before the start");
	weir_save_free(s);

	s = begin("none/x.gguf", NULL);
	add(s, "t", &t, 0);
	is_err(weir_save_start(s, NULL), -ENOENT, "none/",
	       "a folder that does not exist is named");
	weir_save_free(s);
	files_text("there.gguf", "kept");
	o.format = NULL;
	o.flags = WEIR_SAVE_NEW;
	s = begin("there.gguf", &o);
	add(s, "t", &t, 0);
	is_err(weir_save_start(s, NULL), -EEXIST, "there.gguf",
	       "with WEIR_SAVE_NEW a file is not replaced");
	weir_save_free(s);
	weir_buf_free(buf);
}

static void contract(uint32_t io, const char *prefix)
{
	struct weir_opts o = WEIR_OPTS_INIT;
	struct weir_io_info info = { .size = sizeof(info) };
	struct weir_dev *cpu;

	tap_prefix(prefix);
	o.io = io;
	if (weir_open(&o, &root) < 0 || weir_dev_find(root, "CPU", &cpu) < 0 ||
	    weir_dev_buft(cpu, WEIR_MEM_PLAIN, &plain) < 0)
		bail("%s", weir_error());
	if (weir_io_info(root, &info) < 0) {
		skip(CHECKS, "%s", weir_error());
		weir_close(root);
		return;
	}
	every_dtype("all.safetensors", false);
	every_dtype("all.gguf", true);
	large("large.safetensors", 0, "large.safetensors");
	large("large.gguf", 0, "large.gguf");
	large("shards.safetensors", 10 << 20, "shards.safetensors.index.json");
	large("again.gguf", 10 << 20, "again-00001-of-00003.gguf");
	unlink(files_path("again-00001-of-00003.gguf"));
	unlink(files_path("again-00002-of-00003.gguf"));
	unlink(files_path("again-00003-of-00003.gguf"));
	in_place();
	views();
	conversions();
	metadata();
	refused();
	weir_close(root);
}

int main(void)
{
	plan(3 * CHECKS);
	files_begin();
	contract(WEIR_IO_AUTO, "auto: ");
	contract(WEIR_IO_URING, "uring: ");
	contract(WEIR_IO_SYNC, "sync: ");
	return done_testing();
}
