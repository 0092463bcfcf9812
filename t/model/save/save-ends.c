/* SPDX-License-Identifier: MIT */
/*
 * How saves end: after their event, cancelled, abandoned, without memory; and
 * models at the limits: empty, of many tensors, of a huge alignment.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <weir.h>

#include "files.h"
#include "nomem.h"
#include "streams.h"
#include "tap.h"

#define BYTES (12u << 20)
#define MANY 100000u

static struct weir *root;
static struct weir_buft *plain;
static struct weir_buf *buf;
static uint32_t io;

static void begin_root(void)
{
	root = open_root(io);
	if (weir_dev_buft(cpu_of(root), WEIR_MEM_PLAIN, &plain) < 0 ||
	    weir_buf_alloc(plain, BYTES, NULL, &buf) < 0)
		bail("%s", weir_error());
	for (size_t i = 0; i < BYTES; i++)
		((unsigned char *)weir_buf_data(buf))[i] =
			(unsigned char)(i * 7 + i / 300);
}

static struct weir_tensor tensor_of(enum weir_dtype dtype, unsigned ndim,
				    const int64_t *shape)
{
	struct weir_tensor t;

	if (weir_tensor_init(&t, dtype, ndim, shape) < 0 ||
	    weir_tensor_place(&t, buf, 0) < 0)
		bail("%s", weir_error());
	return t;
}

static struct weir_save *empty_save(const char *name)
{
	struct weir_save *s;

	if (weir_save_new(root, files_path(name), NULL, &s) < 0)
		bail("%s", weir_error());
	return s;
}

static struct weir_save *begin(const char *name)
{
	const int64_t shape = BYTES;
	struct weir_tensor t = tensor_of(WEIR_DTYPE_I8, 1, &shape);
	struct weir_save *s = empty_save(name);

	if (weir_save_add(s, "all", &t, 0) < 0)
		bail("%s", weir_error());
	return s;
}

static int finish(struct weir_save *s)
{
	int r = weir_save_start(s, NULL);

	if (r >= 0)
		r = weir_save_wait(s, -1);
	weir_save_free(s);
	return r;
}

static bool exists(const char *name)
{
	return access(files_path(name), F_OK) == 0;
}

/* True if a name has no temporary file. */
static bool clean(const char *name)
{
	char text[200];

	snprintf(text, sizeof(text), "ls -A %s | grep -q '^\\.%s.weir-'",
		 files_path(""), name);
	return WEXITSTATUS(system(text)) == 1;
}

static void order_of_calls(void)
{
	struct weir_progress p = { .size = sizeof(p) };
	struct weir_save_report rep = { .size = sizeof(rep) };
	struct weir_failure failure;
	struct weir_save *s = begin("order.gguf");
	struct weir_event *event = new_event(root, 0);

	is_err(weir_save_cancel(s), -EINVAL, "not started",
	       "a save that was not started is not cancelled");
	is_err(weir_save_progress(s, &p), -EINVAL, "not started",
	       "a save that was not started has no progress");
	is_err(weir_save_report(s, &rep), -EINVAL, "not started",
	       "a save that was not started has no report");
	is_err(weir_save_record(s, event), -EINVAL, "not started",
	       "a save that was not started is not recorded");
	is_err(weir_save_error(s, &failure), -EINVAL, "not started",
	       "a save that was not started has no error");
	is_err(weir_save_start(s, event), -EINVAL, "never recorded",
	       "an event that was never recorded is refused");
	is_int(weir_save_start(s, NULL), 0, "the save can be started later");
	is_err(weir_save_start(s, NULL), -EINVAL, "has been started",
	       "a save is started once");
	is_int(weir_save_record(s, event), 0, "a save is recorded");
	is_int(weir_event_wait(event, -1), 0, "its event is done at its end");
	is_int(weir_save_cancel(s), 0, "a save that has ended is cancelled");
	is_int(weir_save_wait(s, 0), 0, "it has succeeded nevertheless");
	weir_save_free(s);
	weir_event_free(event);
}

/* More tensors are added after weir_save_info(). */
static void info(void)
{
	struct weir_save_info a = { .size = sizeof(a) }, b = a;
	const int64_t shape = 100;
	struct weir_tensor t = tensor_of(WEIR_DTYPE_I8, 1, &shape);
	struct weir_save *s = begin("info.safetensors");

	is_int(weir_save_info(s, &a), 0, "a save is described");
	if (weir_save_add(s, "more", &t, 0) < 0)
		bail("%s", weir_error());
	is_int(weir_save_info(s, &b), 0, "a save with one more, too");
	ok(a.tensors == 1 && b.tensors == 2 && b.data == a.data + 100 &&
		   b.bytes > a.bytes && b.files == 1 && b.free,
	   "both descriptions are right");
	is_int(finish(s), 0, "the save that was described succeeds");
}

static void extremes(void)
{
	const int64_t none[] = { 0, 3 }, two = 2;
	struct weir_tensor empty = tensor_of(WEIR_DTYPE_F32, 2, none);
	struct weir_tensor scalar = tensor_of(WEIR_DTYPE_F32, 0, NULL);
	struct weir_tensor last = tensor_of(WEIR_DTYPE_F32, 1, &two);
	static const char *const name[] = { "odd.safetensors", "odd.gguf" };

	for (unsigned i = 0; i < 2; i++) {
		struct weir_save *s = empty_save(name[i]);
		struct weir_weights *w;
		const struct weir_tensor *t;

		if (weir_save_add(s, "empty", &empty, 0) < 0 ||
		    weir_save_add(s, "scalar", &scalar, 0) < 0 ||
		    weir_save_add(s, "none", &empty, 0) < 0 ||
		    weir_save_add(s, "last", &last, WEIR_DTYPE_F16) < 0)
			bail("%s", weir_error());
		is_int(finish(s), 0, "%s: empty tensors and a scalar are saved",
		       name[i]);
		if (weir_load_all(root, files_path(name[i]), plain, NULL, &w) <
		    0)
			bail("%s", weir_error());
		t = weir_weights_find(w, "scalar");
		ok(weir_weights_count(w) == 4 &&
			   !memcmp(weir_tensor_data(t), weir_buf_data(buf), 4),
		   "%s: they come back", name[i]);
		weir_weights_free(w);
	}
	is_int(finish(empty_save("nothing.safetensors")), 0,
	       "a model without tensors is saved");
	ok(exists("nothing.safetensors"), "it is a file");
}

/* In a file without holes, the padding alone would be 2 GiB of memory. */
static void huge_alignment(void)
{
	const struct weir_value align = { .size = sizeof(align),
					  .key = "general.alignment",
					  .type = WEIR_VALUE_U32,
					  .u = 1u << 26 };
	struct weir_save *s = begin("far.gguf");
	struct weir_model *m;
	struct weir_entry e = { .size = sizeof(e) };

	is_int(weir_save_meta(s, &align), 0, "a large alignment is accepted");
	is_int(finish(s), 0, "a file of a large alignment is saved");
	if (weir_model_open(root, files_path("far.gguf"), NULL, &m) < 0)
		bail("%s", weir_error());
	weir_model_tensor(m, 0, &e);
	ok(e.offset == 1u << 26, "its tensor begins at a multiple of it");
	weir_model_close(m);
	unlink(files_path("far.gguf"));
}

/* A view that repeats its bytes has any number of them. */
static void too_large(void)
{
	struct weir_tensor t = { .dtype = WEIR_DTYPE_I8,
				 .ndim = 2,
				 .shape = { INT64_C(1) << 62, 1 },
				 .stride = { 0, 1 },
				 .buf = buf };
	struct weir_save *s = empty_save("vast.safetensors");
	int r = weir_save_add(s, "a", &t, 0);

	if (r >= 0)
		r = weir_save_add(s, "b", &t, 0);
	if (r >= 0)
		r = weir_save_start(s, NULL);
	is_err(r, -EFBIG, "2^63", "over 2^63 bytes are refused");
	weir_save_free(s);
	t.shape[0] = INT64_C(1) << 50;
	s = empty_save("vast.safetensors");
	r = weir_save_add(s, "a", &t, 0);
	if (r >= 0)
		r = weir_save_start(s, NULL);
	ok(r == -EFBIG || r == -ENOSPC, "2^50 bytes do not fit the disk");
	has_str(weir_error(), "112589990684", "the sentence has the number");
	weir_save_free(s);
	ok(clean("vast.safetensors") && !exists("vast.safetensors"),
	   "nothing is left of it");
}

static void many(void)
{
	const int64_t shape = 3;
	struct weir_tensor t = tensor_of(WEIR_DTYPE_I8, 1, &shape);
	struct weir_save *s = empty_save("many.safetensors");
	struct weir_model *m;
	char name[40];
	int r = 0;

	for (unsigned i = 0; r >= 0 && i < MANY; i++) {
		snprintf(name, sizeof(name), "model.layers.%u.weight", i);
		r = weir_save_add(s, name, &t, 0);
	}
	is_int(r, 0, "%u tensors are added", MANY);
	is_int(finish(s), 0, "%u tensors are saved", MANY);
	if (weir_model_open(root, files_path("many.safetensors"), NULL, &m) < 0)
		bail("%s", weir_error());
	is_int(weir_model_count(m), MANY, "the file has %u tensors", MANY);
	s = empty_save("many.safetensors");
	for (unsigned i = 0; r >= 0 && i < MANY; i++) {
		struct weir_entry e = { .size = sizeof(e) };

		r = weir_model_tensor(m, i, &e);
		if (r >= 0)
			r = weir_save_copy(s, e.name, m, i, NULL, 0);
	}
	weir_model_close(m);
	is_int(r, 0,
	       "they are copied from the file to a save of the same path");
	is_int(finish(s), 0, "a model is saved over the file that is read");
}

/* The source of a copy is written to. */
static void changed(void)
{
	struct weir_save *s = begin("from.safetensors");
	struct weir_model *m;
	int fd;

	if (finish(s) < 0 ||
	    weir_model_open(root, files_path("from.safetensors"), NULL, &m) < 0)
		bail("%s", weir_error());
	s = empty_save("to.safetensors");
	if (weir_save_copy(s, "all", m, 0, NULL, 0) < 0)
		bail("%s", weir_error());
	weir_model_close(m);
	fd = open(files_path("from.safetensors"), O_WRONLY);
	if (pwrite(fd, "x", 1, 5000) != 1)
		bail("pwrite");
	close(fd);
	is_err(finish(s), -ESTALE, "from.safetensors",
	       "a copy of a file that is written to meanwhile fails");
	ok(!exists("to.safetensors") && clean("to.safetensors"),
	   "nothing is left of it");
	s = empty_save("to.safetensors");
	if (weir_model_open(root, files_path("from.safetensors"), NULL, &m) <
		    0 ||
	    weir_save_copy(s, "all", m, 0, NULL, 0) < 0)
		bail("%s", weir_error());
	weir_model_close(m);
	files_truncate("from.safetensors", 1 << 20);
	is_err(finish(s), -ESTALE, "from.safetensors",
	       "a copy of a file that was cut fails");
}

/* A stream that is held, and an event behind what holds it. */
struct held {
	struct hold hold;
	struct weir_stream *stream;
	struct weir_event *event;
};

static void held_begin(struct held *h, int result)
{
	h->stream = new_stream(root, "held");
	h->event = new_event(root, 0);
	hold_stream(h->stream, &h->hold);
	h->hold.result = result;
	must(weir_stream_record(h->stream, h->event));
}

static void held_end(struct held *h)
{
	weir_stream_free(h->stream);
	weir_event_free(h->event);
}

static void after_event(void)
{
	struct weir_save *s = begin("after.gguf");
	struct held h;

	held_begin(&h, 0);
	is_int(weir_save_start(s, h.event), 0,
	       "a save starts before its event is done");
	is_int(weir_save_wait(s, 20 * MS), -ETIMEDOUT,
	       "it waits for its event");
	ok(!exists("after.gguf") && !clean("after.gguf"),
	   "meanwhile the file has its temporary name");
	release_stream(&h.hold);
	is_int(weir_save_wait(s, -1), 0, "then it goes on, and succeeds");
	ok(exists("after.gguf") && clean("after.gguf"),
	   "the file has its own name");
	weir_save_free(s);
	held_end(&h);
	unlink(files_path("after.gguf"));

	s = begin("after.gguf");
	held_begin(&h, -EDOM);
	is_int(weir_save_start(s, h.event), 0, "a save waits for an event");
	release_stream(&h.hold);
	is_err(weir_save_wait(s, -1), -EDOM, "event before the save failed",
	       "a save whose event fails, fails with its error");
	ok(!exists("after.gguf") && clean("after.gguf"), "no file is left");
	weir_save_free(s);
	held_end(&h);
}

static void cancelled(void)
{
	struct weir_save *s = begin("stop.gguf");
	struct held h;
	unsigned left = 0;

	held_begin(&h, 0);
	must(weir_save_start(s, h.event));
	is_int(weir_save_cancel(s), 0, "a save that waits is cancelled");
	is_int(weir_save_wait(s, -1), -ECANCELED,
	       "it ends at once, although its event is not done");
	is_int(weir_save_cancel(s), 0, "it can be cancelled again");
	weir_save_free(s);
	ok(!exists("stop.gguf") && clean("stop.gguf"),
	   "nothing is left of a save that was cancelled");
	release_stream(&h.hold);
	held_end(&h);
	/* At any moment: later and later. */
	for (unsigned i = 0; i < 40; i++) {
		int r;

		s = begin("stop.gguf");
		must(weir_save_start(s, NULL));
		usleep(i * 300);
		must(weir_save_cancel(s));
		r = weir_save_wait(s, -1);
		weir_save_free(s);
		left += (r != 0 && r != -ECANCELED) || !clean("stop.gguf") ||
			exists("stop.gguf") != (r == 0);
		unlink(files_path("stop.gguf"));
	}
	is_int(left, 0,
	       "a save that is cancelled at any moment is whole, or leaves nothing");
}

static int64_t cpu_time(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

static struct weir_save *begin_slow(void)
{
	const int64_t shape[] = { BYTES / 4 / 2048, 2048 };
	struct weir_tensor t = tensor_of(WEIR_DTYPE_F32, 2, shape);
	struct weir_save *s = empty_save("slow.gguf");

	must(weir_save_add(s, "all", &t, WEIR_DTYPE_Q4_K));
	return s;
}

/* Its chunk takes long: it is left in the middle. */
static void cancelled_conversion(void)
{
	int64_t begin, whole;
	struct weir_save *s;

	begin = cpu_time();
	is_int(finish(begin_slow()), 0, "a tensor is quantised while saved");
	whole = cpu_time() - begin;
	s = begin_slow();
	begin = cpu_time();
	must(weir_save_start(s, NULL));
	while (cpu_time() - begin < whole / 16)
		usleep(100);
	must(weir_save_cancel(s));
	is_int(weir_save_wait(s, -1), -ECANCELED,
	       "a save is cancelled while it converts");
	begin = cpu_time() - begin;
	ok(begin < whole / 2, "it does not convert the rest of its chunk");
	diag("%lld of %lld us", (long long)begin / 1000,
	     (long long)whole / 1000);
	weir_save_free(s);
}

/* The program drops all that it has of a save before its end. */
static void dropped(void)
{
	struct weir_event *event = new_event(root, 0);
	struct weir_save *s = begin("alone.gguf");
	struct held h;

	held_begin(&h, 0);
	must(weir_save_start(s, h.event));
	must(weir_save_record(s, event));
	weir_save_free(s);
	weir_buf_free(buf);
	release_stream(&h.hold);
	is_int(weir_event_wait(event, -1), 0,
	       "a save goes on without its program's references");
	ok(exists("alone.gguf"), "its file is there");
	weir_event_free(event);
	held_end(&h);
	weir_close(root);
	begin_root();
}

static void closed(void)
{
	struct weir_save *s = begin("closed.gguf");
	struct held h;

	must(weir_save_start(s, NULL));
	weir_close(root);
	is_int(weir_save_wait(s, 0), 0, "closing the root waits for a save");
	ok(exists("closed.gguf"), "its file is there");
	is_err(weir_save_cancel(s) < 0 ? 0 : weir_save_start(s, NULL),
	       -ESHUTDOWN, "", "after that no save starts");
	weir_save_free(s);
	weir_buf_free(buf);

	begin_root();
	s = begin("late.gguf");
	held_begin(&h, 0);
	must(weir_save_start(s, h.event));
	release_stream(&h.hold);
	weir_close(root);
	ok(weir_save_wait(s, 0) != -ETIMEDOUT,
	   "closing the root ends a save that waits for an event");
	ok(clean("late.gguf"), "and leaves no temporary file");
	weir_save_free(s);
	held_end(&h);
	weir_buf_free(buf);
	begin_root();
}

static struct weir_model *source;

static int save_once(void)
{
	const struct weir_value words[] = {
		{ .type = WEIR_VALUE_STRING, .str = "a", .len = 1 },
	};
	const struct weir_value v = { .size = sizeof(v),
				      .key = "words",
				      .type = WEIR_VALUE_ARRAY,
				      .item_type = WEIR_VALUE_STRING,
				      .len = 1,
				      .items = words };
	struct weir_save_opts o = WEIR_SAVE_OPTS_INIT;
	const int64_t shape = 40000;
	struct weir_tensor t = tensor_of(WEIR_DTYPE_F32, 1, &shape);
	struct weir_save *s;
	int r;

	o.shard_bytes = 100000;
	o.format = source ? "GGUF" : "safetensors";
	if (source)
		o.shard_bytes = 0;
	r = weir_save_new(root, files_path("memory"), &o, &s);
	if (r < 0)
		return r;
	r = weir_save_add(s, "one", &t, 0);
	if (r >= 0)
		r = weir_save_add(s, "two", &t, WEIR_DTYPE_F16);
	if (r >= 0 && source)
		r = weir_save_meta(s, &v);
	if (r >= 0 && source)
		r = weir_save_copy(s, "three", source, 0, NULL, 0);
	if (r >= 0)
		r = weir_save_start(s, NULL);
	if (r >= 0)
		r = weir_save_wait(s, -1);
	weir_save_free(s);
	return r;
}

static void memory(void)
{
	unsigned before;

	must(save_once());
	before = files_open();
	nomem_each(save_once, 10, "shards");
	must(weir_model_open(root, files_path("order.gguf"), NULL, &source));
	nomem_each(save_once, 10, "GGUF");
	weir_model_close(source);
	source = NULL;
	is_int(files_open(), before, "no descriptor is left open");
	ok(clean("memory"), "no temporary file is left");
}

/* Memory for two slots only, and more threads than slots. */
static void budget(void)
{
	struct weir_opts o = WEIR_OPTS_INIT;
	struct weir *own = root;
	struct weir_save *s;

	weir_buf_free(buf);
	o.io = io;
	o.staging = 2 << 20;
	o.chunk = 1 << 20;
	must(weir_open(&o, &root));
	must(weir_dev_buft(cpu_of(root), WEIR_MEM_PLAIN, &plain));
	must(weir_buf_alloc(plain, BYTES, NULL, &buf));
	s = begin("budget.safetensors");
	is_int(finish(s), 0, "a save needs no more than two slots");
	weir_buf_free(buf);
	weir_close(root);
	weir_close(own);
	begin_root();
}

static void contract(uint32_t method, const char *prefix)
{
	struct weir_io_info have = { .size = sizeof(have) };

	tap_prefix(prefix);
	io = method;
	begin_root();
	if (weir_io_info(root, &have) < 0) {
		skip(1, "%s", weir_error());
	} else {
		order_of_calls();
		info();
		extremes();
		huge_alignment();
		too_large();
		changed();
		after_event();
		cancelled();
		cancelled_conversion();
		dropped();
		closed();
		budget();
	}
	weir_buf_free(buf);
	weir_close(root);
}

int main(void)
{
	plan(0);
	files_begin();
	contract(WEIR_IO_URING, "uring: ");
	contract(WEIR_IO_SYNC, "sync: ");
	tap_prefix(NULL);
	begin_root();
	many();
	memory();
	weir_buf_free(buf);
	weir_close(root);
	return done_testing();
}
