/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "streams.h"

static struct weir *weir;

static void moves(void)
{
	struct weir_tensor a = bytes(weir, 1000), b = bytes(weir, 1000);
	struct weir_stream *s = new_stream(weir, "moves");
	unsigned char in[1000], out[1000];

	pattern(in, sizeof(in), 1);
	must(weir_stream_set(s, &a, 0, in, 1000));
	must(weir_stream_copy(s, &b, &a));
	must(weir_stream_get(s, &b, 0, out, 1000));
	is_int(weir_stream_sync(s, -1), 0,
	       "weir_stream_sync waits for a set, a copy and a get");
	is_mem(out, in, 1000,
	       "bytes that are set, copied and got back are the same");
	must(weir_stream_fill(s, &a, 10, 5, 0xee));
	must(weir_stream_get(s, &a, 8, out, 9));
	must(weir_stream_sync(s, -1));
	memset(in + 10, 0xee, 5);
	is_mem(out, in + 8, 9, "a fill writes its bytes and no others");
	is_int(weir_stream_set(s, &a, 1000, NULL, 0), 0,
	       "setting 0 bytes at the end of a tensor succeeds");
	is_int(weir_stream_copy(s, &a, &a), 0,
	       "copying a tensor to itself succeeds");
	must(weir_stream_sync(s, -1));
	weir_stream_free(s);
	weir_buf_free(a.buf);
	weir_buf_free(b.buf);
}

static void rectangles(void)
{
	struct weir_rect r = {
		.off = 3, .width = 4, .rows = 3, .pitch = 10, .host_pitch = 6
	};
	struct weir_stream *s = new_stream(weir, "rectangles");
	struct weir_tensor t = bytes(weir, 27);
	unsigned char in[16], out[16] = { 0 }, *at = weir_tensor_data(&t);

	pattern(in, sizeof(in), 9);
	must(weir_stream_set_2d(s, &t, &r, in));
	must(weir_stream_get_2d(s, &t, &r, out));
	must(weir_stream_sync(s, -1));
	ok(!memcmp(at + 3, in, 4) && !memcmp(at + 13, in + 6, 4) &&
		   !memcmp(at + 23, in + 12, 4),
	   "weir_stream_set_2d writes rows at the tensor's pitch");
	ok(!memcmp(out, in, 4) && !memcmp(out + 6, in + 6, 4) &&
		   !memcmp(out + 12, in + 12, 4),
	   "weir_stream_get_2d writes rows at the host's pitch");
	ok(!at[7] && !at[12] && !out[4] && !out[5],
	   "bytes between the rows of a rectangle are not written");
	r.off = 4;
	is_err(weir_stream_set_2d(s, &t, &r, in), -EINVAL, "24 bytes",
	       "a rectangle that exceeds its tensor returns -EINVAL");
	r.rows = UINT64_MAX / 10 + 2;
	is_err(weir_stream_set_2d(s, &t, &r, in), -EINVAL, "2^64",
	       "a rectangle whose number of rows overflows returns -EINVAL");
	r.rows = 2;
	r.pitch = UINT64_MAX - 2;
	is_err(weir_stream_get_2d(s, &t, &r, out), -EINVAL, "2^64",
	       "a rectangle whose pitch overflows returns -EINVAL");
	r.pitch = 3;
	is_err(weir_stream_get_2d(s, &t, &r, out), -EINVAL, "pitch of 3",
	       "a tensor pitch below the width returns -EINVAL");
	r.pitch = 10;
	r.host_pitch = 3;
	is_err(weir_stream_get_2d(s, &t, &r, out), -EINVAL, "pitch of 3",
	       "a host pitch below the width returns -EINVAL");
	r.rows = 0;
	is_int(weir_stream_set_2d(s, &t, &r, in), 0,
	       "a rectangle of 0 rows succeeds");
	weir_stream_free(s);
	weir_buf_free(t.buf);
}

static void views(void)
{
	int64_t shape[3] = { 4, 5, 6 };
	unsigned char *from, *to;
	struct weir_tensor a = bytes(weir, 120), b = bytes(weir, 120);
	struct weir_tensor x = { 0 }, y = { 0 }, vx, vy;
	struct weir_stream *s = new_stream(weir, "views");
	bool inside = true, outside = true;

	must(weir_tensor_init(&x, WEIR_DTYPE_U8, 3, shape));
	must(weir_tensor_init(&y, WEIR_DTYPE_U8, 3, shape));
	must(weir_tensor_place(&x, a.buf, 0));
	must(weir_tensor_place(&y, b.buf, 0));
	from = weir_tensor_data(&x);
	to = weir_tensor_data(&y);
	pattern(from, 120, 3);
	must(weir_tensor_view(&x, 1, 1, 3, &vx));
	must(weir_tensor_view(&vx, 2, 2, 2, &vx));
	must(weir_tensor_view(&y, 1, 1, 3, &vy));
	must(weir_tensor_view(&vy, 2, 2, 2, &vy));
	is_int(weir_stream_copy(s, &vy, &vx), 0,
	       "weir_stream_copy takes a view of a view");
	must(weir_stream_sync(s, -1));
	for (int i = 0; i < 120; i++) {
		int row = i / 6 % 5, col = i % 6;

		if (row >= 1 && row < 4 && col >= 2 && col < 4)
			inside = inside && to[i] == from[i];
		else
			outside = outside && !to[i];
	}
	ok(inside, "a copy of a view copies each of its bytes");
	ok(outside, "a copy of a view writes no byte outside of it");
	is_err(weir_stream_copy(s, &y, &vx), -EINVAL, "dimension 1",
	       "a copy between tensors of different shapes returns -EINVAL");
	must(weir_tensor_view(&x, 0, 0, 2, &vx));
	must(weir_tensor_view(&x, 0, 1, 2, &vy));
	is_err(weir_stream_copy(s, &vy, &vx), -EINVAL, "overlap",
	       "a copy between tensors that overlap returns -EINVAL");
	weir_stream_free(s);
	weir_buf_free(a.buf);
	weir_buf_free(b.buf);
}

static void refused(void)
{
	struct weir_stream *s = new_stream(weir, NULL);
	struct weir *other = open_root(WEIR_IO_AUTO);
	struct weir_tensor t = bytes(weir, 100), far = bytes(other, 100);
	struct weir_tensor loose = t;
	struct weir_stream_opts o = WEIR_STREAM_OPTS_INIT;
	struct weir_stream *none;
	unsigned char byte = 0;

	loose.buf = NULL;
	is_err(weir_stream_set(s, &t, 100, &byte, 1), -EINVAL, "has 100",
	       "a set outside of the tensor returns -EINVAL");
	is_err(weir_stream_get(s, &t, SIZE_MAX, &byte, 2), -EINVAL, "has 100",
	       "a get whose end overflows returns -EINVAL");
	is_err(weir_stream_fill(s, &t, 1, SIZE_MAX, 0), -EINVAL, "has 100",
	       "a fill of SIZE_MAX bytes returns -EINVAL");
	is_err(weir_stream_set(s, &t, 0, NULL, 1), -EINVAL, "1 bytes",
	       "a set from NULL returns -EINVAL");
	is_err(weir_stream_set(s, &loose, 0, &byte, 1), -EINVAL, "not placed",
	       "a set of a tensor that is not placed returns -EINVAL");
	is_err(weir_stream_set(s, &far, 0, &byte, 1), -EINVAL, "two roots",
	       "a set of a tensor of another root returns -EINVAL");
	is_int(weir_stream_sync(s, -1), 0,
	       "calls that return -EINVAL do not fail the stream");
	o.flags = WEIR_STREAM_NATIVE;
	is_err(weir_stream_new(cpu_of(weir), &o, &none), -EOPNOTSUPP, "native",
	       "a native CPU stream returns -EOPNOTSUPP");
	o.flags = 0x80;
	is_err(weir_stream_new(cpu_of(weir), &o, &none), -EINVAL, "0x80",
	       "unknown flags of a stream return -EINVAL");
	weir_stream_free(s);
	weir_stream_free(NULL);
	weir_buf_free(t.buf);
	weir_buf_free(far.buf);
	weir_close(other);
}

static void blocking_calls(void)
{
	struct weir_tensor t = bytes(weir, 64);
	struct weir_stream *s = new_stream(weir, "queued");
	unsigned char in[64], out[64];
	struct hold hold;

	pattern(in, 64, 5);
	hold_stream(s, &hold);
	must(weir_stream_set(s, &t, 0, in, 64));
	ok(!((unsigned char *)weir_tensor_data(&t))[1],
	   "a set is queued while a host function blocks the stream");
	release_stream(&hold);
	must(weir_tensor_get(&t, 0, out, 64));
	is_mem(out, in, 64,
	       "weir_tensor_get waits for queued work on its range");
	weir_stream_free(s);
	weir_buf_free(t.buf);
}

static _Atomic int released;

static void release(void *arg)
{
	free(arg);
	released++;
}

static void lifetimes(void)
{
	struct weir_stream *s = new_stream(weir, "lifetimes");
	unsigned char out[64] = { 0 };
	void *own = calloc(1, 64);
	struct weir_buft *plain;
	struct weir_event *ev = new_event(weir, 0);
	int64_t shape = 64;
	struct weir_tensor t;
	struct weir_buf *buf;
	struct hold hold;

	must(weir_dev_buft(cpu_of(weir), WEIR_MEM_PLAIN, &plain));
	released = 0;
	must(weir_tensor_init(&t, WEIR_DTYPE_U8, 1, &shape));
	hold_stream(s, &hold);
	must(weir_buf_wrap(plain, own, 64, release, own, &buf));
	must(weir_tensor_place(&t, buf, 0));
	must(weir_stream_fill(s, &t, 0, 64, 0x42));
	must(weir_stream_get(s, &t, 0, out, 64));
	must(weir_stream_record(s, ev));
	weir_buf_free(buf);
	weir_stream_free(s);
	is_int(released, 0, "queued work references a buffer that was freed");
	release_stream(&hold);
	is_int(weir_event_wait(ev, 10 * SEC), 0,
	       "a stream that was freed runs the work queued on it");
	is_int(out[63], 0x42, "work of a stream that was freed has its effect");
	is_int(released, 1,
	       "a buffer is released before the event of the work that used it is done");
	weir_event_free(ev);
}

static struct weir_stream *self;

static int queue_more(void *arg)
{
	return weir_stream_call(self, count_up, arg);
}

static int free_own_stream(void *arg)
{
	weir_stream_free(arg);
	return 0;
}

static void host_functions(void)
{
	struct weir_event *ev = new_event(weir, 0);
	struct weir_stream *s;
	struct hold hold;
	int calls = 0;

	self = new_stream(weir, "calls");
	must(weir_stream_call(self, count_up, &calls));
	must(weir_stream_call(self, queue_more, &calls));
	must(weir_stream_sync(self, -1));
	must(weir_stream_sync(self, -1));
	is_int(calls, 2, "a host function may queue on its own stream");
	weir_stream_free(self);
	s = new_stream(weir, "gone");
	hold_stream(s, &hold);
	must(weir_stream_call(s, free_own_stream, s));
	must(weir_stream_record(s, ev));
	release_stream(&hold);
	is_int(weir_event_wait(ev, 10 * SEC), 0,
	       "a host function may free its own stream");
	weir_event_free(ev);
}

static void many(void)
{
	struct weir_stream *s = new_stream(weir, "many");
	struct weir_tensor t = bytes(weir, 8);
	static uint64_t value[1000];
	uint64_t n = 0;
	bool order = true;

	for (uint64_t i = 1; i <= 100000; i++) {
		value[i % 1000] = i;
		must(weir_stream_set(s, &t, 0, &value[i % 1000], 8));
		if (i % 1000)
			continue;
		must(weir_stream_get(s, &t, 0, &n, 8));
		must(weir_stream_sync(s, -1));
		order = order && n == i;
	}
	ok(order, "a get returns the last of 100000 sets");
	weir_stream_free(s);
	weir_buf_free(t.buf);
}

/* A stream that is gone before the trace is written. */
static void call_in(const char *name)
{
	struct weir_stream *s = new_stream(weir, name);
	int calls = 0;

	must(weir_stream_call(s, count_up, &calls));
	must(weir_stream_sync(s, -1));
	weir_stream_free(s);
}

static void names_traced(void)
{
	static char text[1 << 16];
	char path[] = "stream-trace-XXXXXX", name[16];
	int fd = mkstemp(path), shown = 0;

	must(weir_trace_start(weir, path));
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "no. %02d", i);
		call_in(name);
	}
	call_in("a \"b\\");
	call_in("\xc3\xa9 \xc3");
	must(weir_trace_stop(weir));
	if (read(fd, text, sizeof(text) - 1) < 0)
		bail("%s", path);
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "'no. %02d'", i);
		shown += strstr(text, name) != NULL;
	}
	is_int(shown, 100, "a trace has the names of 100 streams");
	has_str(text, "{\"name\":\"stream 'a \\\"b\\\\x5c' ",
		"a stream's name in a trace is escaped as JSON");
	has_str(text, "stream '\xc3\xa9 ?'",
		"a stream's name in a trace has '?' for bytes that are not UTF-8");
	close(fd);
	unlink(path);
}

static void traced(void)
{
	struct weir_stream *s = new_stream(weir, "traced");
	struct weir_tensor t = bytes(weir, 4096);
	char path[] = "stream-trace-XXXXXX", text[4096] = "";
	int fd = mkstemp(path);
	struct hold hold;

	must(weir_trace_start(weir, path));
	hold_stream(s, &hold);
	must(weir_stream_fill(s, &t, 0, 4096, 1));
	release_stream(&hold);
	must(weir_stream_sync(s, -1));
	must(weir_trace_stop(weir));
	ok(read(fd, text, sizeof(text) - 1) > 0 && strstr(text, "\"call\"") &&
		   strstr(text, "\"fill\""),
	   "a trace shows the operations of a stream");
	has_str(text, "\"stream 'traced' ",
		"the row of a stream in a trace has its name");
	close(fd);
	unlink(path);
	weir_stream_free(s);
	weir_buf_free(t.buf);
}

/* Rows of 1.5 blocks: 54 bytes in one row. */
static void without_strides(void)
{
	const int64_t shape[] = { 2, 48 };
	struct weir_tensor a = bytes(weir, 54), b = bytes(weir, 60), x, y;
	struct weir_stream *s = new_stream(weir, "rows");
	unsigned char want[60] = { 0 };

	must(weir_tensor_init(&x, WEIR_DTYPE_Q4_0, 2, shape));
	y = x;
	must(weir_tensor_place(&x, a.buf, 0));
	must(weir_tensor_place(&y, b.buf, 0));
	pattern(weir_tensor_data(&x), 54, 5);
	memcpy(want, weir_tensor_data(&x), 54);
	memset(weir_tensor_data(&y), 0, 60);
	must(weir_stream_copy(s, &y, &x));
	must(weir_stream_sync(s, -1));
	is_mem(weir_tensor_data(&y), want, 60,
	       "a tensor whose rows are not whole blocks is copied entirely");
	weir_stream_free(s);
	weir_buf_free(a.buf);
	weir_buf_free(b.buf);
}

int main(void)
{
	plan(43);
	weir = open_root(WEIR_IO_AUTO);
	moves();
	rectangles();
	views();
	without_strides();
	refused();
	blocking_calls();
	lifetimes();
	host_functions();
	many();
	traced();
	names_traced();
	weir_close(weir);
	return done_testing();
}
