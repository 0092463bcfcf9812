/* SPDX-License-Identifier: MIT */
/*
 * Small reads of bytes in the page cache: the calling thread makes them, and no
 * thread is started.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>

#include "cached.h"
#include "core/timeline.h"
#include "files.h"
#include "io/caller_read.h"
#include "sample.h"
#include "streams.h"

#define KB ((size_t)1 << 10)
#define N_TESTS 28

static const struct sample_tensor tensors[] = {
	{ "small", "U8", 4096, 1 },
	{ "none", "F32", 0, 4 },
	{ "more", "F32", 25 * KB, 4 },
	{ "large", "U8", 3 << 20, 1 },
};

static char path[4096];

/* Threads of this process. */
static unsigned threads(void)
{
	DIR *dir = opendir("/proc/self/task");
	unsigned n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n - 2; /* . and .. */
}

/* A file of @n bytes of pattern 5. */
static struct weir_file *written(struct weir *weir, size_t n)
{
	unsigned char *all = malloc(n);
	struct weir_file *f;

	pattern(all, n, 5);
	files_bytes("pattern", all, n);
	free(all);
	must(weir_file_open(weir, files_path("pattern"), NULL, &f));
	return f;
}

static struct weir_buft *plain_of(struct weir *weir)
{
	struct weir_buft *buft;

	must(weir_dev_buft(cpu_of(weir), WEIR_MEM_PLAIN, &buft));
	return buft;
}

static struct weir_load *start_load(struct weir_model *m, struct weir *weir,
				    const char *name, struct weir_weights *into)
{
	struct weir_load_opts o = WEIR_LOAD_OPTS_INIT;
	struct weir_plan *p;
	struct weir_load *l;

	o.into = into;
	must(weir_plan_new(m, &p));
	must(weir_plan_add(p, name, plain_of(weir), NULL));
	must(weir_load_start(p, &o, &l));
	weir_plan_free(p);
	return l;
}

static struct weir_model *open_model(struct weir *weir)
{
	struct weir_model *m;

	must(weir_model_open(weir, path, NULL, &m));
	return m;
}

static struct weir_weights *weights_of(struct weir_load *l)
{
	struct weir_weights *w;

	must(weir_load_weights(l, &w));
	return w;
}

static uint64_t buffered(struct weir_load *l)
{
	struct weir_load_report r = { .size = sizeof(r) };

	must(weir_load_report(l, &r));
	return r.bytes == r.buffered && !r.enters && !r.staging ? r.buffered
								: 0;
}

static void load_starts_no_thread(void)
{
	struct weir *weir = open_root(WEIR_IO_AUTO);
	struct weir_model *m = open_model(weir);
	struct weir_event *ev = new_event(weir, 0);
	struct weir_progress p = { .size = sizeof(p) };
	struct weir_weights *w;
	struct weir_load *l;
	unsigned before;

	cached = true;
	before = threads();
	l = start_load(m, weir, "small", NULL);
	w = weights_of(l);
	must(weir_load_record(l, 0, ev));
	is_int(weir_event_query(ev), 1,
	       "a small resident tensor has arrived when its load has started");
	must(weir_load_wait(l, -1));
	is_int(threads(), before, "a small resident load starts no thread");
	ok(sample_holds(w, 0, 7), "a small resident load has the right bytes");
	is_int(buffered(l), 4096,
	       "the report counts the bytes of a small resident load as buffered");
	must(weir_load_progress(l, &p));
	ok(p.bytes == 4096 && p.tensors == 1 && !p.failed,
	   "the progress of a small resident load is complete");
	must(weir_load_cancel(l));
	is_int(weir_load_wait(l, 0), 0,
	       "a small resident load cannot be cancelled any more");
	weir_load_free(l);
	l = start_load(m, weir, "small", w);
	must(weir_load_wait(l, -1));
	ok(sample_holds(w, 0, 7),
	   "a small load into weights that exist has the right bytes");
	weir_load_free(l);
	weir_weights_free(w);
	weir_event_free(ev);
	weir_model_close(m);
	weir_close(weir);
}

static void load_of_some(void)
{
	struct weir *weir = open_root(WEIR_IO_AUTO);
	struct weir_model *m = open_model(weir);
	unsigned before = threads();
	struct weir_load *l;
	struct weir_weights *w;

	cached = true;
	l = start_load(m, weir, "[smn]*", NULL);
	must(weir_load_wait(l, -1));
	w = weights_of(l);
	ok(weir_weights_count(w) == 3 && !sample_wrong(w, 7) &&
		   weir_weights_find(w, "more") && !weir_weights_find(w, "x") &&
		   !weir_weights_find(w, "large"),
	   "several small tensors, one without bytes, arrive by one load");
	is_int(threads(), before, "several small tensors start no thread");
	weir_load_free(l);
	weir_weights_free(w);
	weir_model_close(m);
	weir_close(weir);
}

/* The load needs the engine because of @io, its size or the page cache. */
static void load_by_engine(uint32_t io, const char *name, bool resident,
			   const char *what)
{
	struct weir *weir = open_root(io);
	struct weir_model *m = open_model(weir);
	unsigned before = threads();
	struct weir_weights *w;
	struct weir_load *l;

	cached = resident;
	l = start_load(m, weir, name, NULL);
	must(weir_load_wait(l, -1));
	w = weights_of(l);
	ok(threads() > before && !sample_wrong(w, 7),
	   "the engine's threads read %s", what);
	weir_load_free(l);
	weir_weights_free(w);
	weir_model_close(m);
	weir_close(weir);
}

static int load_after(void (*change)(void))
{
	struct weir *weir = open_root(WEIR_IO_AUTO);
	struct weir_model *m = open_model(weir);
	struct weir_load *l;
	int r;

	cached = true;
	change();
	l = start_load(m, weir, "small", NULL);
	r = weir_load_wait(l, -1);
	weir_load_free(l);
	weir_model_close(m);
	weir_close(weir);
	return r;
}

static void write_byte(void)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (pwrite(fd, " ", 1, 300) != 1)
		bail("%s cannot be written", path);
	close(fd);
}

static void truncate_file(void)
{
	if (truncate(path, 100))
		bail("%s cannot be truncated", path);
}

static void files_that_change(void)
{
	is_err(load_after(write_byte), -ESTALE, "was written to",
	       "a small load of a file that was written to is refused");
	sample_write(path, tensors, 4, 8, 7);
	is_err(load_after(truncate_file), -ESTALE, "",
	       "a small load of a file that became shorter is refused");
	sample_write(path, tensors, 4, 8, 7);
}

static void stream_starts_no_thread(void)
{
	struct weir *weir = open_root(WEIR_IO_AUTO);
	struct weir_file *f = written(weir, 2 << 20);
	struct weir_tensor t = bytes(weir, 2 << 20);
	struct weir_stream *s = new_stream(weir, "alone");
	struct weir_event *ev = new_event(weir, 0);
	unsigned before = threads();

	must(weir_stream_read(s, f, 0, &t, 0, 64 * KB));
	must(weir_stream_record(s, ev));
	is_int(weir_event_query(ev), 1,
	       "a small resident read on an idle stream is done at once");
	ok(is_pattern(weir_tensor_data(&t), 64 * KB, 5),
	   "a small resident read has the right bytes");
	must(weir_stream_read(s, f, 0, &t, 0, 1 << 20));
	must(weir_stream_sync(s, -1));
	ok(is_pattern(weir_tensor_data(&t), 1 << 20, 5),
	   "a resident read of 1 MiB has the right bytes");
	is_int(threads(), before, "small resident reads start no thread");
	must(weir_stream_read(s, f, 0, &t, 0, (1 << 20) + 1));
	must(weir_stream_sync(s, -1));
	ok(threads() > before, "a larger read is made by the engine");
	weir_event_free(ev);
	weir_stream_free(s);
	weir_buf_free(t.buf);
	weir_file_close(f);
	weir_close(weir);
}

static void many_without_waiting(void)
{
	struct weir *weir = open_root(WEIR_IO_AUTO);
	struct weir_file *f = written(weir, 2 << 20);
	struct weir_tensor t = bytes(weir, 2 << 20);
	struct weir_stream *s = new_stream(weir, "many");
	unsigned before = threads();

	must(weir_stream_sync(s, -1));
	for (size_t at = 0; at < 1 << 20; at += 64 * KB)
		must(weir_stream_read(s, f, at, &t, at, 64 * KB));
	is_int(threads(), before,
	       "reads of up to 1 MiB in all are made by the caller");
	must(weir_stream_read(s, f, 1 << 20, &t, 1 << 20, 64 * KB));
	ok(threads() > before,
	   "the engine makes the reads after 1 MiB without a wait");
	must(weir_stream_sync(s, -1));
	ok(is_pattern(weir_tensor_data(&t), (1 << 20) + 64 * KB, 5),
	   "reads by the caller and by the engine have the right bytes");
	must(weir_stream_read(s, f, 0, &t, 0, 64 * KB));
	is_int((int64_t)weir__unwaited, 64 * KB,
	       "a caller that has waited makes reads again");
	weir_stream_free(s);
	weir_buf_free(t.buf);
	weir_file_close(f);
	weir_close(weir);
}

static void order_is_kept(void)
{
	struct weir *weir = open_root(WEIR_IO_AUTO);
	struct weir_file *f = written(weir, 64 * KB);
	struct weir_tensor t = bytes(weir, 64 * KB);
	struct weir_stream *s = new_stream(weir, "order");
	unsigned char *at = weir_tensor_data(&t);
	struct hold hold;

	hold_init(&hold, 0);
	hold_stream(s, &hold);
	must(weir_stream_fill(s, &t, 0, 64 * KB, 9));
	must(weir_stream_read(s, f, 0, &t, 0, 32 * KB));
	ok(!at[0] && !at[100],
	   "a small read waits for what was queued before it");
	release_stream(&hold);
	must(weir_stream_sync(s, -1));
	ok(is_pattern(at, 32 * KB, 5) && at[32 * KB] == 9,
	   "a small read takes effect after what was queued before it");
	weir_stream_free(s);
	weir_buf_free(t.buf);
	weir_file_close(f);
	weir_close(weir);
}

/* The 4096 bytes at @off of the model. */
static bool at_is(const struct weir_tensor *t, uint64_t off)
{
	const unsigned char *p = weir_tensor_data(t);

	for (uint64_t k = 0; k < 4096; k++)
		if (p[k] != sample_byte(off + k, 7))
			return false;
	return true;
}

static void stream_by_engine(void)
{
	struct weir *weir = open_root(WEIR_IO_AUTO);
	struct weir_file_opts o = WEIR_FILE_OPTS_INIT;
	struct weir_tensor t = bytes(weir, 64 * KB);
	struct weir_stream *s = new_stream(weir, "cold");
	unsigned before = threads();
	struct weir_file *f;

	must(weir_file_open(weir, path, &o, &f));
	cached = false;
	must(weir_stream_read(s, f, 1 << 20, &t, 0, 4096));
	must(weir_stream_sync(s, -1));
	ok(threads() > before && at_is(&t, 1 << 20),
	   "the engine reads what is not in the page cache");
	cached = false;
	must(weir_stream_read(s, f, 2 << 20, &t, 0, 4096));
	must(weir_stream_sync(s, -1));
	ok(at_is(&t, 2 << 20),
	   "a small cold read that was tried first has the right bytes");
	must(weir_stream_read(s, f, 4 << 20, &t, 0, 4096));
	is_err(weir_stream_sync(s, -1), -ENODATA, "ends before bytes",
	       "a small read past the end of the file fails with -ENODATA");
	weir_stream_free(s);
	weir_buf_free(t.buf);
	weir_file_close(f);
	weir_close(weir);
}

int main(void)
{
	files_begin();
	snprintf(path, sizeof(path), "%s", files_path("m.safetensors"));
	sample_write(path, tensors, 4, 8, 7);
	plan(N_TESTS);
	load_starts_no_thread();
	load_of_some();
	load_by_engine(WEIR_IO_AUTO, "small", false, "a small cold tensor");
	load_by_engine(WEIR_IO_AUTO, "large", true, "a large tensor");
	load_by_engine(WEIR_IO_SYNC, "small", true,
		       "a small tensor where the method was chosen");
	files_that_change();
	stream_starts_no_thread();
	many_without_waiting();
	order_is_kept();
	stream_by_engine();
	return done_testing();
}
