/* SPDX-License-Identifier: MIT */
/*
 * Objects of a source, loaded, sliced, streamed, hashed and refused; and how
 * many requests and bytes that takes.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir.h>

#include "mem_source.h"
#include "sample.h"
#include "slices.h"
#include "tap.h"

static char path[] = "/var/tmp/weir-source-XXXXXX";
static const struct sample_tensor tensors[] = {
	{ "large", "U8", 9000001, 1 }, { "s1", "U8", 1000, 1 },
	{ "s2", "U8", 77, 1 },         { "s3", "F32", 513, 4 },
	{ "bf", "BF16", 300000, 2 },   { "rows", "F32", 512 * 1024, 4 },
	{ "empty", "U8", 0, 1 },
};
static const char *const shapes[] = { "", "", "", "", "", "512,1024", "" };
#define N (sizeof(tensors) / sizeof(tensors[0]))

static struct weir *weir;
static struct weir_buft *ram;

static void begin(const struct weir_opts *more)
{
	struct weir_opts o = *more;
	struct weir_dev *cpu;

	mem_reset();
	if (weir_open(&o, &weir) < 0)
		bail("%s", weir_error());
	cpu = weir_dev_get(weir, 0);
	if (weir_dev_buft(cpu, WEIR_MEM_PLAIN, &ram) < 0)
		bail("%s", weir_error());
	mem_add(weir);
}

static void end(void)
{
	weir_close(weir);
	is_int(mem.wrong, 0, "no call broke a rule of sources");
	is_int(mem.opened, mem.closed, "each object was closed once");
	is_int(mem.stopped, 1, "the source was stopped once");
}

static struct weir_model *model_of(const char *url)
{
	struct weir_model *m;

	if (weir_model_open(weir, url, NULL, &m) < 0)
		bail("%s", weir_error());
	return m;
}

/* The result of a load of @glob with @o; *ret_w may be NULL. */
static int load(struct weir_model *m, const char *glob,
		const struct weir_select_opts *o, struct weir_weights **ret_w,
		struct weir_load_report *ret_report)
{
	struct weir_load *l = NULL;
	struct weir_plan *p;
	int r;

	*ret_w = NULL;
	if (weir_plan_new(m, &p) < 0)
		bail("%s", weir_error());
	r = weir_plan_add(p, glob, ram, o);
	if (r >= 0)
		r = weir_load_start(p, NULL, &l);
	if (r >= 0)
		r = weir_load_wait(l, -1);
	if (r >= 0)
		r = weir_load_weights(l, ret_w);
	if (l && ret_report) {
		*ret_report = (struct weir_load_report){ .size = sizeof(
								 *ret_report) };
		if (weir_load_report(l, ret_report) < 0)
			bail("%s", weir_error());
	}
	weir_load_free(l);
	weir_plan_free(p);
	return r;
}

static void whole(struct weir_model *m)
{
	struct weir_load_report rep;
	struct weir_weights *w;
	uint64_t bytes = mem.bytes;

	is_int(load(m, NULL, NULL, &w, &rep), 0, "a model of a URL is loaded");
	is_int(w ? sample_wrong(w, 1) : N, 0, "every tensor has its bytes");
	is_int(rep.remote, rep.bytes, "the report has them as remote");
	is_int(rep.in_place + rep.staged, rep.bytes,
	       "they were read in place or staged");
	is_int(rep.buffered, 0, "none came from a page cache");
	ok(rep.in_place >= 9000001 + 600000, "large tensors were in place");
	is_int(mem.bytes - bytes, rep.bytes + rep.over_read,
	       "no byte was requested twice");
	is_str(rep.note, "", "the report does not say that it was slow");
	weir_weights_free(w);
}

static void converted(struct weir_model *m)
{
	struct weir_select_opts o = WEIR_SELECT_OPTS_INIT;
	struct weir_weights *w;
	struct weir_model *local = model_of(path);
	struct weir_weights *same;

	o.dtype = WEIR_DTYPE_F32;
	is_int(load(m, "bf", &o, &w, NULL), 0, "BF16 is loaded as F32");
	if (!w || load(local, "bf", &o, &same, NULL) < 0)
		bail("%s", weir_error());
	is_mem(weir_tensor_data(weir_weights_get(w, 0)),
	       weir_tensor_data(weir_weights_get(same, 0)), 4 * 300000,
	       "the elements are those of the file");
	weir_weights_free(same);
	weir_model_close(local);
	weir_weights_free(w);
}

static size_t rows_of(struct weir_model *m)
{
	size_t i = 0;

	while (strcmp(entry_of(m, i).name, "rows") != 0)
		i++;
	return i;
}

static void sliced(struct weir_model *m, unsigned dim, int64_t start, int64_t n,
		   uint64_t requests, uint64_t bytes, const char *what)
{
	struct weir_select_opts o = WEIR_SELECT_OPTS_INIT;
	const struct weir_slice slice = slice_of(dim, start, n);
	struct weir_weights *w;
	uint64_t reads = mem.reads, before = mem.bytes;

	o.slice = &slice;
	is_int(load(m, "rows", &o, &w, NULL), 0, "%s: is loaded", what);
	is_int(w ? slice_differs(weir_weights_get(w, 0), m, rows_of(m), dim,
				 start)
		 : 1,
	       0, "%s: has its elements", what);
	is_int(mem.reads - reads, requests, "%s: %llu requests", what,
	       (unsigned long long)requests);
	is_int(mem.bytes - before, bytes, "%s: %llu bytes", what,
	       (unsigned long long)bytes);
	weir_weights_free(w);
}

/* A gap is read if that costs less than a request. */
static void slices(void)
{
	struct weir_model *m;

	mem.request_bytes = 1000;
	m = model_of(mem_url(path));
	sliced(m, 0, 100, 64, 1, 64 * 4096, "64 rows of 512");
	sliced(m, 1, 0, 4, 512, 512 * 16, "columns with gaps of 4080 bytes");
	sliced(m, 1, 8, 800, 1, 511 * 4096 + 3200,
	       "columns with gaps of 896 bytes");
	weir_model_close(m);
	mem.request_bytes = 5000;
	m = model_of(mem_url(path));
	sliced(m, 1, 0, 4, 1, 511 * 4096 + 16,
	       "columns, if a request costs 5000 bytes");
	weir_model_close(m);
}

/* Save some tensors to a file, from there. */
static void saved(struct weir_model *m)
{
	char to[] = "/var/tmp/weir-saved-XXXXXX";
	struct weir_weights *w;
	struct weir_model *copy;
	struct weir_save *s;
	struct weir_save_opts o = WEIR_SAVE_OPTS_INIT;

	close(mkstemp(to));
	o.format = "safetensors";
	if (weir_save_new(weir, to, &o, &s) < 0)
		bail("%s", weir_error());
	for (size_t i = 0; i < weir_model_count(m); i++)
		if (weir_save_copy(s, entry_of(m, i).name, m, i, NULL, 0) < 0)
			bail("%s", weir_error());
	is_int(weir_save_start(s, NULL), 0, "a save reads tensors of a URL");
	is_int(weir_save_wait(s, -1), 0, "and writes them");
	weir_save_free(s);
	copy = model_of(to);
	is_int(load(copy, "rows", NULL, &w, NULL), 0, "the file is a model");
	is_int(slice_differs(weir_weights_get(w, 0), m, rows_of(m), 0, 0), 0,
	       "with the bytes");
	weir_weights_free(w);
	weir_model_close(copy);
	unlink(to);
}

static int sink_chunk(void *arg, size_t i, uint64_t off, const void *data,
		      size_t n)
{
	uint64_t *sum = arg;

	(void)i;
	(void)off;
	for (size_t k = 0; k < n; k++)
		*sum += ((const unsigned char *)data)[k];
	return 0;
}

static uint64_t sum_of(struct weir_model *m)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < weir_model_count(m); i++) {
		struct weir_entry e = entry_of(m, i);

		for (uint64_t k = 0; k < e.bytes; k++)
			sum += sample_byte(e.offset + k, 1);
	}
	return sum;
}

static void sinks(struct weir_model *m)
{
	struct weir_sink sink = WEIR_SINK_INIT;
	struct weir_load *l;
	struct weir_plan *p;
	uint64_t sum = 0;

	sink.chunk = sink_chunk;
	sink.arg = &sum;
	if (weir_plan_new(m, &p) < 0 || weir_plan_sink(p, NULL, &sink) < 0 ||
	    weir_load_start(p, NULL, &l) < 0)
		bail("%s", weir_error());
	is_int(weir_load_wait(l, -1), 0, "sinks get the tensors of a URL");
	is_int(sum, sum_of(m), "and their bytes");
	weir_load_free(l);
	weir_plan_free(p);
}

static void files(void)
{
	struct weir_file_opts write = WEIR_FILE_OPTS_INIT;
	struct weir_file_info info = { .size = sizeof(info) };
	uint8_t of_url[32], of_path[32];
	struct weir_file *f, *local;
	struct weir_save *save;
	struct weir_buft *mapped;
	struct weir_dev *cpu;
	struct weir_buf *b;

	if (weir_file_open(weir, mem_url(path), NULL, &f) < 0 ||
	    weir_file_open(weir, path, NULL, &local) < 0 ||
	    weir_file_info(f, &info) < 0)
		bail("%s", weir_error());
	is_str(info.path, mem_url(path), "a file of a URL has it as its path");
	ok(info.network && !info.changed, "it is on a network");
	is_str(info.source, "memory", "it has the name of its source");
	has_str(info.identity, "ino:", "it has the identity of its bytes");
	ok(weir_file_digest(f, WEIR_DIGEST_SHA256, of_url) == 32 &&
		   weir_file_digest(local, WEIR_DIGEST_SHA256, of_path) == 32,
	   "it has a digest");
	is_mem(of_url, of_path, 32, "which is that of the file");
	if (weir_file_info(local, &info) < 0)
		bail("%s", weir_error());
	is_str(info.source, "", "a file of this machine has no source");
	cpu = weir_dev_get(weir, 0);
	if (weir_dev_buft(cpu, WEIR_MEM_MAPPED, &mapped) < 0)
		bail("%s", weir_error());
	is_err(weir_buf_map(mapped, f, 0, 4096, &b), -EINVAL,
	       "cannot be mapped: read it into memory",
	       "a file of a URL is not mapped");
	weir_file_close(f);
	weir_file_close(local);
	write.flags = WEIR_FILE_WRITE;
	is_err(weir_file_open(weir, "mem:///a/b?key=secret", &write, &f),
	       -EROFS, "mem:///a/b: only a file of this machine is written",
	       "nor written, and its query is in no sentence");
	is_err(weir_save_new(weir, "mem:///a/b.safetensors?key=secret", NULL,
			     &save),
	       -EROFS, "mem:///a/b.safetensors: only a file of this machine",
	       "a model is not saved to a URL");
	is_err(weir_file_open(weir, "mem:///nowhere/x?key=secret", NULL, &f),
	       -ENOENT, "mem:///nowhere/x: there is no such object",
	       "one that does not exist is not opened");
	is_err(weir_file_open(weir, "nix://x/y", NULL, &f), -ENOENT,
	       "no source for nix: no directory of modules has weir-source-nix.so",
	       "a scheme without a source is refused");
	is_err(weir_file_open(weir, "file:///etc/passwd", NULL, &f), -EINVAL,
	       "give the path alone", "file:// is refused");
	is_err(weir_file_open(weir, "File:///etc/passwd", NULL, &f), -EINVAL,
	       "give the path alone", "so is File://");
	is_err(weir_source_configure(weir, "../x", "a=b"), -ENOENT,
	       "there is no source for ../x", "what is no scheme");
	is_err(weir_file_open(weir, "https://me:pass@x/y", NULL, &f), -ENOENT,
	       "https://x/y: ", "names and passwords are in no sentence");
}

/* Rows whose gaps cost more than a request are a request each. */
static void far_rows(struct weir_stream *s, struct weir_file *f,
		     const struct weir_tensor *t)
{
	struct weir_rect rect = { 0 };
	const unsigned char *got = weir_tensor_data(t);
	uint64_t bytes = mem.bytes, reads = mem.reads;
	unsigned wrong = 0;

	rect.width = 100;
	rect.rows = 8;
	rect.pitch = 100;
	rect.host_pitch = 1000000;
	if (weir_stream_read_2d(s, f, 4001, t, &rect) < 0)
		bail("%s", weir_error());
	is_int(weir_stream_sync(s, -1), 0, "rows that are far apart are read");
	for (size_t i = 0; i < 800; i++)
		wrong += got[i] !=
			 sample_byte(4001 + i / 100 * 1000000 + i % 100, 1);
	is_int(wrong, 0, "each to its place");
	is_int(mem.reads - reads, 8, "each row is a request");
	is_int(mem.bytes - bytes, 800, "and no gap is read");
}

static void streams(void)
{
	struct weir_stream *s;
	struct weir_tensor t;
	struct weir_file *f;
	struct weir_buf *b;
	const unsigned char *got;
	unsigned wrong = 0;
	const int64_t n = 300000;

	if (weir_file_open(weir, mem_url(path), NULL, &f) < 0 ||
	    weir_stream_new(weir_dev_get(weir, 0), NULL, &s) < 0 ||
	    weir_buf_alloc(ram, (size_t)n, NULL, &b) < 0 ||
	    weir_tensor_init(&t, WEIR_DTYPE_U8, 1, &n) < 0 ||
	    weir_tensor_place(&t, b, 0) < 0)
		bail("%s", weir_error());
	is_int(weir_stream_read(s, f, 4001, &t, 7, 200000), 0,
	       "a stream takes a read of a URL");
	is_int(weir_stream_sync(s, -1), 0, "and makes it");
	got = weir_tensor_data(&t);
	for (size_t i = 0; i < 200000; i++)
		wrong += got[7 + i] != sample_byte(4001 + i, 1);
	is_int(wrong, 0, "the bytes are at their place");
	far_rows(s, f, &t);
	if (weir_stream_read(s, f, 12000000, &t, 0, 100000) < 0)
		bail("%s", weir_error());
	is_err(weir_stream_sync(s, -1), -ENODATA, "ends",
	       "a read past the end of an object fails");
	weir_stream_free(s);
	weir_file_close(f);
	weir_buf_free(b);
}

static void failures(struct weir_model *m)
{
	struct weir_weights *w;

	mem.fail_from = entry_of(m, 0).offset + 5000000;
	mem.fail_to = mem.fail_from + 1;
	mem.fail = -EIO;
	is_err(load(m, NULL, NULL, &w, NULL), -EIO, "read of bytes",
	       "a read that fails ends the load");
	has_str(weir_error(), "the test made it fail",
		"with the sentence of the source");
	mem.fail = -ESTALE;
	is_err(load(m, NULL, NULL, &w, NULL), -ESTALE, "the test made it fail",
	       "an object that changed: -ESTALE");
	mem.fail = -100000;
	is_err(load(m, NULL, NULL, &w, NULL), -EIO, "the test made it fail",
	       "a number that is no errno: -EIO");
	mem.fail = 0;
	mem.stale = -ESTALE;
	is_err(load(m, NULL, NULL, &w, NULL), -ESTALE,
	       "the test has changed it", "check is asked at the end");
	mem.stale = 0;
	mem.open_fails = -EACCES;
	is_err(weir_model_open(weir, "mem:///x", NULL, &m), -EACCES,
	       "the test refuses it", "an open that fails");
	mem.open_fails = 0;
}

static void round_of(const char *name, enum weir_io io, bool inside)
{
	struct weir_opts o = WEIR_OPTS_INIT;
	struct weir_model *m;

	o.io = io;
	tap_prefix(name);
	begin(&o);
	mem.inside = inside;
	m = model_of(mem_url(path));
	whole(m);
	converted(m);
	sinks(m);
	saved(m);
	failures(m);
	weir_model_close(m);
	slices();
	files();
	streams();
	end();
}

/* A window that is smaller than a read, or than its share of a reactor. */
static void small_window(void)
{
	struct weir_opts o = WEIR_OPTS_INIT;
	struct weir_load *l;
	struct weir_model *m;
	struct weir_plan *p;

	tap_prefix("");
	o.reactors = 2;
	begin(&o);
	mem.window_bytes = 1;
	m = model_of(mem_url(path));
	if (weir_plan_new(m, &p) < 0 || weir_plan_add(p, NULL, ram, NULL) < 0 ||
	    weir_load_start(p, NULL, &l) < 0)
		bail("%s", weir_error());
	is_int(weir_load_wait(l, 60 * INT64_C(1000000000)), 0,
	       "a source whose window is 1 byte is read");
	weir_load_free(l);
	weir_plan_free(p);
	ok(mem.most <= 2, "with one read at a time on each reactor");
	weir_model_close(m);
	end();
}

/* A program's own source: slots, its window, and memory for tensors. */
static void budgets(void)
{
	struct weir_load_report rep = { .size = sizeof(rep) };
	struct weir_select_opts how = WEIR_SELECT_OPTS_INIT;
	struct weir_opts o = WEIR_OPTS_INIT;
	struct weir_weights *w;
	struct weir_model *m;

	tap_prefix("budgets: ");
	o.staging = 4 << 20;
	o.chunk = 1 << 17;
	o.reactors = 1;
	o.budget = 14 << 20;
	begin(&o);
	mem.delay = 1000000;
	mem.window_bytes = 2 << 20;
	m = model_of(mem_url(path));
	how.dtype = WEIR_DTYPE_BF16;
	is_int(load(m, "rows", &how, &w, &rep), 0, "2 MiB are converted");
	ok(rep.staged >= 2 << 20 && rep.staging <= o.staging,
	   "by slots of at most 4 MiB: %llu", (unsigned long long)rep.staging);
	ok(mem.most > 1 && mem.most_bytes <= o.staging,
	   "so at most 4 MiB are requested at a time: %llu",
	   (unsigned long long)mem.most_bytes);
	weir_weights_free(w);
	mem.most_bytes = 0;
	is_int(load(m, "large", NULL, &w, &rep), 0, "9 MB are read in place");
	ok(mem.most_bytes <= (2 << 20) + o.chunk,
	   "with the source's window and a chunk at a time: %llu",
	   (unsigned long long)mem.most_bytes);
	ok(rep.memory <= o.budget, "within the budget of the root");
	weir_weights_free(w);
	is_err(load(m, NULL, NULL, &w, &rep), -ENOMEM, "budget of 14680064",
	       "all tensors exceed the budget of the root");
	weir_model_close(m);
	end();
}

/* What is read again is requested again; a trace shows reads of sources. */
static void parked(void)
{
	struct weir_park_opts park = WEIR_PARK_OPTS_INIT;
	struct weir_opts o = WEIR_OPTS_INIT;
	static char text[1 << 20];
	struct weir_weights *w;
	struct weir_model *m;
	char trace[sizeof(path) + 8];
	uint64_t bytes;
	size_t n = 0;
	FILE *f;

	begin(&o);
	snprintf(trace, sizeof(trace), "%s.json", path);
	m = model_of(mem_url(path));
	if (weir_trace_start(weir, trace) < 0 ||
	    load(m, NULL, NULL, &w, NULL) < 0)
		bail("%s", weir_error());
	is_int(weir_trace_stop(weir), 0, "a load is traced");
	f = fopen(trace, "r");
	if (f) {
		n = fread(text, 1, sizeof(text) - 1, f);
		fclose(f);
	}
	unlink(trace);
	ok(n && strstr(text, "\"remote\""), "its reads are remote ones");
	ok(!strstr(text, "\"in place\"") && !strstr(text, "\"staged\""),
	   "and nothing else");
	park.flags = WEIR_PARK_CONSTANT;
	bytes = mem.bytes;
	is_int(weir_weights_park(w, &park), 0, "weights of a URL are parked");
	is_int(mem.bytes, bytes, "without a request");
	is_int(weir_weights_unpark(w, NULL), 0, "they come back");
	is_int(sample_wrong(w, 1), 0, "with their bytes");
	ok(mem.bytes - bytes > 9000001, "which were requested again");
	weir_weights_free(w);
	weir_model_close(m);
	end();
}

/* A root that keeps what it reads in a folder. */
static void cached(void)
{
	struct weir_opts o = WEIR_OPTS_INIT;
	struct weir_load_report rep;
	struct weir_weights *w;
	struct weir_model *m;
	char folder[300], command[320];

	tap_prefix("cached: ");
	snprintf(folder, sizeof(folder), "%s.cache", path);
	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	o.cache = folder;
	begin(&o);
	m = model_of(mem_url(path));
	is_int(load(m, "large", NULL, &w, &rep), 0, "a tensor is loaded");
	is_int(rep.remote, rep.bytes, "from its source");
	is_int(rep.cached, 0, "nothing comes from the cache");
	weir_weights_free(w);
	weir_model_close(m);
	end();
	begin(&o);
	m = model_of(mem_url(path));
	is_int(load(m, NULL, NULL, &w, &rep), 0, "all tensors are loaded");
	is_int(w ? sample_wrong(w, 1) : N, 0, "with their bytes");
	ok(rep.cached > 0 && rep.remote > 0,
	   "some bytes come from the cache, others from the source");
	ok(rep.cached + rep.remote <= rep.bytes &&
		   rep.cached + rep.remote + 1000000 >= rep.bytes,
	   "all are counted once");
	weir_weights_free(w);
	weir_model_close(m);
	end();
	begin(&o);
	m = model_of(mem_url(path));
	is_int(load(m, NULL, NULL, &w, &rep), 0, "they are loaded again");
	is_int(w ? sample_wrong(w, 1) : N, 0, "with their bytes");
	is_int(rep.remote, 0, "no byte comes from the source");
	is_int(rep.cached, rep.bytes, "all come from the cache");
	weir_weights_free(w);
	weir_model_close(m);
	end();
	if (system(command) != 0)
		bail("%s", command);
}

/* A URL whose bytes are also in a file of this machine. */
static void copies(void)
{
	struct weir_opts o = WEIR_OPTS_INIT;
	struct weir_file_info info = { .size = sizeof(info) };
	struct weir_load_report rep;
	struct weir_buft *mapped;
	struct weir_weights *w;
	struct weir_model *m;
	struct weir_file *f;
	struct weir_buf *b;
	char sum[65];

	tap_prefix("copies: ");
	begin(&o);
	memset(sum, 'a', 64);
	sum[64] = '\0';
	mem.sha256 = sum;
	mem.local = 1;
	if (weir_dev_buft(weir_dev_get(weir, 0), WEIR_MEM_MAPPED, &mapped) < 0)
		bail("%s", weir_error());
	is_int(weir_file_open(weir, mem_url(path), NULL, &f), 0,
	       "a URL whose source knows a local file is opened");
	is_int(mem.closed, mem.opened, "its object is closed at once");
	if (weir_file_info(f, &info) < 0)
		bail("%s", weir_error());
	is_str(info.path, mem_url(path), "the file has the URL as its path");
	is_str(info.source, "", "and is one of this machine");
	is_str(info.sha256, sum, "and the SHA-256 that its source knows");
	mem.sha256 = NULL;
	is_int(weir_buf_map(mapped, f, 0, 4096, &b), 0, "it can be mapped");
	weir_buf_free(b);
	weir_file_close(f);
	m = model_of(mem_url(path));
	is_int(load(m, NULL, NULL, &w, &rep), 0, "a model is loaded from it");
	is_int(w ? sample_wrong(w, 1) : N, 0, "every tensor has its bytes");
	is_int(rep.remote + mem.reads, 0, "none of which the source read");
	weir_weights_free(w);
	is_int(weir_model_beside(m, "source.c.none", &f), -ENOENT,
	       "files beside it are sought at the source");
	has_str(weir_error(), "mem://", "by their URL");
	weir_model_close(m);
	mem.no_object = true;
	m = model_of(mem_url(path));
	is_int(load(m, NULL, NULL, &w, &rep), 0,
	       "the file may be the only way to the bytes");
	weir_weights_free(w);
	weir_model_close(m);
	mem.local = 2;
	is_err(weir_file_open(weir, mem_url(path), NULL, &f), -ENOENT, ".none",
	       "then it must exist");
	mem.local = 0;
	is_err(weir_file_open(weir, mem_url(path), NULL, &f), -EINVAL,
	       "neither an object nor a path", "or there must be an object");
	mem.local = 1;
	mem.grown = 1;
	is_err(weir_file_open(weir, mem_url(path), NULL, &f), -ESTALE, "bytes",
	       "and have the size of the object");
	mem.grown = 0;
	mem.no_object = false;
	mem.local = 2;
	m = model_of(mem_url(path));
	is_int(load(m, NULL, NULL, &w, &rep), 0,
	       "an object is read if the file is not there");
	is_int(rep.remote, rep.bytes, "by its source");
	weir_weights_free(w);
	weir_model_close(m);
	mem.bad_sum = true;
	is_err(weir_file_open(weir, mem_url(path), NULL, &f), -EINVAL,
	       "its SHA-256 has no 64 digits", "a digest that is none");
	end();
}

/* Objects that the program has opened itself. */
static void objects(void)
{
	struct weir_opts o = WEIR_OPTS_INIT;
	struct weir_source_info info = { .size = sizeof(info) };
	struct weir_source bad = mem_table;
	struct weir_weights *w;
	struct weir_model *m;
	struct weir_file *f[1];
	void *object;

	tap_prefix("");
	begin(&o);
	if (mem_object(path, &object, &info) < 0)
		bail("%s cannot be read", path);
	strcpy(info.name, "peer 7: layer 3");
	bad.read = NULL;
	is_err(weir_source_file(weir, &bad, object, &info, f), -EINVAL,
	       "source memory: it has no read", "a table without read");
	bad = mem_table;
	bad.abi++;
	is_err(weir_source_file(weir, &bad, object, &info, f), -EPROTO, "ABI 2",
	       "a table of another ABI");
	bad.abi--;
	bad.name = "Memory";
	is_err(weir_source_add(weir, &bad, NULL), -EINVAL, "'Memory'",
	       "an invalid name");
	bad.name = "other";
	is_err(weir_source_add(weir, &bad, NULL), -EEXIST, "for mem already",
	       "a scheme of another source");
	bad.schemes = NULL;
	is_err(weir_source_add(weir, &bad, NULL), -EINVAL, "no schemes",
	       "no schemes");
	is_err(weir_source_configure(weir, "mem", "x"), -EINVAL,
	       "memory: 'x' is not known", "an unknown parameter");
	is_int(weir_source_configure(weir, "mem", "good=1"), 0,
	       "a parameter is passed on");
	is_int(weir_source_file(weir, &mem_table, object, &info, f), 0,
	       "an object of the program becomes a file");
	is_int(weir_model_open_files(weir, f, 1, NULL, &m), 0,
	       "and a file a model");
	weir_file_close(f[0]);
	is_int(load(m, NULL, NULL, &w, NULL), 0, "which is loaded");
	is_int(w ? sample_wrong(w, 1) : N, 0, "every tensor has its bytes");
	weir_weights_free(w);
	mem.stale = -ESTALE;
	is_err(load(m, NULL, NULL, &w, NULL), -ESTALE,
	       "peer 7: layer 3: the test has changed it",
	       "its name is in sentences");
	weir_model_close(m);
	end();
}

int main(void)
{
	plan(0);
	close(mkstemp(path));
	sample_write_shapes(path, tensors, shapes, N, 24, 1);
	round_of("auto: ", WEIR_IO_AUTO, false);
	round_of("threads: ", WEIR_IO_SYNC, false);
	round_of("at once: ", WEIR_IO_AUTO, true);
	small_window();
	budgets();
	parked();
	copies();
	cached();
	objects();
	mem_end();
	unlink(path);
	return done_testing();
}
