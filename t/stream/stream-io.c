/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "streams.h"

#define MB ((size_t)1 << 20)

static struct weir *weir;

/* Compare the file with a pattern, by a stream of its own. */
static bool file_has(struct weir_file *file, uint64_t off, size_t n,
		     unsigned seed)
{
	struct weir_stream *s = new_stream(weir, "check");
	struct weir_tensor t = bytes(weir, n);
	bool same;

	must(weir_stream_read(s, file, off, &t, 0, n));
	must(weir_stream_sync(s, -1));
	same = is_pattern(weir_tensor_data(&t), n, seed);
	weir_stream_free(s);
	weir_buf_free(t.buf);
	return same;
}

static void reads(void)
{
	static const struct {
		size_t off, n;
	} at[] = { { 0, 1 },          { 4096, 4096 }, { 5, MB },
		   { 0, 9 * MB + 7 }, { 9 * MB, 7 },  { MB - 1, 8 * MB } };
	struct weir_file *file = temp_file(weir, 9 * MB + 7, 0);
	struct weir_tensor t = bytes(weir, 9 * MB + 10);
	struct weir_stream *s = new_stream(weir, "reads");
	unsigned char *all = malloc(9 * MB + 7);
	unsigned char *got = weir_tensor_data(&t);
	bool same = true;

	pattern(all, 9 * MB + 7, 0);
	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		memset(got, 0, 9 * MB + 10);
		must(weir_stream_read(s, file, at[i].off, &t, 3, at[i].n));
		must(weir_stream_sync(s, -1));
		same = same && !memcmp(got + 3, all + at[i].off, at[i].n) &&
		       !got[0] && !got[2];
	}
	ok(same, "any bytes of a file are read to any byte of a tensor");
	is_int(weir_stream_read(s, file, 0, &t, 0, 0), 0,
	       "a read of 0 bytes succeeds");
	free(all);
	weir_file_close(file);
	weir_file_close(NULL);
	weir_stream_free(s);
	weir_buf_free(t.buf);
}

/* Read @r, and compare all of the tensor with what it should have. */
static bool reads_rect(struct weir_file *file, const unsigned char *all,
		       uint64_t file_off, const struct weir_rect *r)
{
	size_t n = 10 * MB;
	struct weir_stream *s = new_stream(weir, "rectangle");
	struct weir_tensor t = bytes(weir, n);
	unsigned char *want = malloc(n);
	bool same;

	memset(want, 0x5a, n);
	for (size_t k = 0; k < r->rows; k++)
		memcpy(want + r->off + k * r->pitch,
		       all + file_off + k * r->host_pitch, r->width);
	must(weir_stream_fill(s, &t, 0, n, 0x5a));
	must(weir_stream_read_2d(s, file, file_off, &t, r));
	must(weir_stream_sync(s, -1));
	same = !memcmp(weir_tensor_data(&t), want, n);
	free(want);
	weir_stream_free(s);
	weir_buf_free(t.buf);
	return same;
}

static void rectangles(void)
{
	static const struct {
		const char *what;
		uint64_t file_off;
		struct weir_rect r; /* off, width, rows, pitch, host_pitch */
	} at[] = {
		{ "short rows", 4, { 3, 100, 50, 120, 333 } },
		{ "many rows", 5, { 1, 9000, 700, 9001, 13000 } },
		{ "rows that are far apart",
		  1,
		  { 2, 80000, 40, 80000, 220000 } },
		{ "rows longer than a chunk",
		  0,
		  { 0, 4300000, 2, 4300100, 4500000 } },
		{ "rows without gaps", 7, { 5, 1000, 5000, 1000, 1000 } },
	};
	struct weir_file *file = temp_file(weir, 9 * MB + 7, 0);
	unsigned char *all = malloc(9 * MB + 7);

	pattern(all, 9 * MB + 7, 0);
	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++)
		ok(reads_rect(file, all, at[i].file_off, &at[i].r),
		   "%s are read to their places, and no byte beside them changes",
		   at[i].what);
	free(all);
	weir_file_close(file);
}

static void refused_rectangles(void)
{
	struct weir_rect r = {
		.width = 100, .rows = 10, .pitch = 100, .host_pitch = 99
	};
	struct weir_file *file = temp_file(weir, 1000, 0);
	struct weir_stream *s = new_stream(weir, "refused");
	struct weir_tensor t = bytes(weir, 1000);

	is_err(weir_stream_read_2d(s, file, 0, &t, &r), -EINVAL, "99",
	       "a pitch in the file that is less than the width is refused");
	r.rows = 0;
	is_int(weir_stream_read_2d(s, file, 0, &t, &r), 0,
	       "a rectangle without rows is read");
	r.rows = 10;
	r.host_pitch = 101;
	must(weir_stream_read_2d(s, file, 0, &t, &r));
	is_err(weir_stream_sync(s, -1), -ENODATA, "1000 bytes",
	       "a rectangle that the file ends in fails, with the file's size");
	weir_stream_free(s);
	weir_buf_free(t.buf);
	weir_file_close(file);
}

static void writes(void)
{
	struct weir_file *file = temp_file(weir, 0, 0);
	struct weir_tensor t = bytes(weir, 3 * MB + 100);
	struct weir_stream *s = new_stream(weir, "writes");
	unsigned char *at = weir_tensor_data(&t);

	pattern(at, 3 * MB + 100, 21);
	must(weir_stream_write(s, file, 0, &t, 0, 3 * MB + 100));
	must(weir_stream_fill(s, &t, 0, 3 * MB + 100, 0));
	must(weir_stream_read(s, file, 0, &t, 0, 3 * MB + 100));
	must(weir_stream_sync(s, -1));
	ok(is_pattern(at, 3 * MB + 100, 21),
	   "a write, a fill of its source and a read take effect in order");
	ok(file_has(file, 0, 3 * MB + 100, 21),
	   "the bytes of a write are in the file");
	weir_stream_free(s);
	weir_buf_free(t.buf);
	weir_file_close(file);
}

/* Neighbours of one page, some large enough to go around the page cache. */
static void neighbours(void)
{
	enum {
		N = 200
	};
	struct weir_file *file = temp_file(weir, 0, 0);
	struct weir_stream *s = new_stream(weir, "neighbours");
	size_t n = N * 80000ul, at = 0;
	struct weir_tensor t = bytes(weir, n);
	unsigned char *p = weir_tensor_data(&t);

	pattern(p, n, 4);
	for (unsigned i = 0; at < n; i++) {
		size_t len = i % 3 ? 1111 * (i % 7 + 1) : 70000 + i * 13;

		if (len > n - at)
			len = n - at;
		must(weir_stream_write(s, file, at, &t, at, len));
		at += len;
	}
	must(weir_stream_sync(s, -1));
	ok(file_has(file, 0, n, 4),
	   "writes of neighbouring bytes, of any size, do not undo each other");
	weir_stream_free(s);
	weir_buf_free(t.buf);
	weir_file_close(file);
}

static void ordered(void)
{
	struct weir_file *file = temp_file(weir, 4 * MB, 50);
	struct weir_tensor t = bytes(weir, 4 * MB), u = bytes(weir, 4 * MB);
	struct weir_stream *s = new_stream(weir, "ordered");
	bool same = true;

	for (int i = 0; i < 10; i++) {
		must(weir_stream_fill(s, &t, 0, 4 * MB, 1));
		must(weir_stream_read(s, file, 0, &t, 0, 4 * MB));
		must(weir_stream_copy(s, &u, &t));
		must(weir_stream_fill(s, &t, 0, 4 * MB, 2));
		must(weir_stream_sync(s, -1));
		same = same && is_pattern(weir_tensor_data(&u), 4 * MB, 50) &&
		       *(unsigned char *)weir_tensor_data(&t) == 2;
	}
	ok(same,
	   "a read between a fill, a copy and a fill takes effect in order");
	for (int i = 0; i < 200; i++) {
		must(weir_stream_read(s, file, (size_t)i * 64, &t, 0, 8192));
		must(weir_stream_read(s, file, (size_t)i * 128, &t, 0, 8192));
	}
	must(weir_stream_read(s, file, 0, &t, 0, 8192));
	must(weir_stream_sync(s, -1));
	ok(is_pattern(weir_tensor_data(&t), 8192, 50),
	   "of reads into the same bytes the last takes effect last");
	weir_stream_free(s);
	weir_buf_free(t.buf);
	weir_buf_free(u.buf);
	weir_file_close(file);
}

static void concurrent(void)
{
	struct weir_file *file = temp_file(weir, 2 * MB, 8);
	struct weir_tensor t = bytes(weir, 2 * MB);
	struct weir_stream *s = new_stream(weir, "a");
	unsigned char *at = weir_tensor_data(&t);
	struct weir_event *ev = new_event(weir, 0);
	struct hold hold;
	bool landed = false;

	hold_init(&hold, 0);
	must(weir_stream_read(s, file, 0, &t, 0, MB));
	must(weir_stream_read(s, file, MB, &t, MB, MB));
	must(weir_stream_call(s, hold_until_released, &hold));
	must(weir_stream_record(s, ev));
	sem_wait(&hold.entered);
	landed = is_pattern(at, 2 * MB, 8);
	ok(landed, "a host function sees all reads queued before it");
	must(weir_stream_fill(s, &t, 0, MB, 0));
	must(weir_stream_read(s, file, MB, &t, 0, MB));
	ok(at[MB - 1] != 0, "operations after a host function wait for it");
	release_stream(&hold);
	must(weir_stream_sync(s, -1));
	is_int(weir_event_query(ev), 1,
	       "the event of a host function is done after it");
	weir_event_free(ev);
	weir_stream_free(s);
	weir_buf_free(t.buf);
	weir_file_close(file);
}

static void many_small(void)
{
	enum {
		N = 3000,
		EACH = 1024
	};
	struct weir_file *file = temp_file(weir, N * EACH, 60);
	struct weir_tensor t = bytes(weir, N * EACH);
	struct weir_stream *s = new_stream(weir, "many");

	for (size_t i = 0; i < N; i++)
		must(weir_stream_read(s, file, i * EACH, &t, i * EACH, EACH));
	weir_file_close(file);
	must(weir_stream_sync(s, -1));
	ok(is_pattern(weir_tensor_data(&t), N * EACH, 60),
	   "3000 reads are queued at once, and run after the file was closed");
	weir_stream_free(s);
	weir_buf_free(t.buf);
}

static void short_file(void)
{
	struct weir_event *first = new_event(weir, 0);
	struct weir_event *second = new_event(weir, 0);
	struct weir_file *file = temp_file(weir, 10000, 0);
	struct weir_tensor t = bytes(weir, 20000);
	struct weir_stream *s = new_stream(weir, "short");
	struct weir_failure f;
	struct hold hold;

	hold_stream(s, &hold);
	must(weir_stream_read(s, file, 0, &t, 0, 5000));
	must(weir_stream_record(s, first));
	must(weir_stream_read(s, file, 9000, &t, 9000, 2000));
	must(weir_stream_read(s, file, 50000, &t, 12000, 10));
	must(weir_stream_record(s, second));
	release_stream(&hold);
	is_err(weir_stream_sync(s, -1), -ENODATA, "operation 3 (read)",
	       "of two reads over the end of the file the first is the failure");
	weir_stream_error(s, &f);
	ok(strstr(f.text, "ends before") && strstr(f.text, "10000"),
	   "a read over the end of the file names the bytes and the file's size");
	is_int(weir_event_query(first), 1,
	       "a read before a failed one is done");
	is_int(weir_event_query(second), -ECANCELED,
	       "a read after a failed one is cancelled");
	weir_file_close(file);
	weir_event_free(first);
	weir_event_free(second);
	weir_stream_free(s);
	weir_buf_free(t.buf);
}

static void refused(void)
{
	struct weir *other = open_root(WEIR_IO_SYNC);
	struct weir_file *file = temp_file(weir, 10000, 0);
	struct weir_file *far = temp_file(other, 10, 0);
	struct weir_tensor t = bytes(weir, 20000);
	struct weir_stream *s = new_stream(weir, "refused");

	is_err(weir_stream_read(s, far, 0, &t, 0, 1), -EINVAL, "two roots",
	       "a read of a file of another root returns -EINVAL");
	is_err(weir_stream_read(s, file, UINT64_MAX - 5, &t, 0, 10), -EINVAL,
	       "2^63", "a read whose offset overflows returns -EINVAL");
	is_err(weir_stream_read(s, file, 0, &t, 19999, 2), -EINVAL, "has 20000",
	       "a read to bytes outside of the tensor returns -EINVAL");
	weir_file_close(file);
	weir_file_close(far);
	must(weir_file_open(weir, "/proc/self/exe", NULL, &file));
	is_err(weir_stream_write(s, file, 0, &t, 0, 1), -EBADF,
	       "for reading only",
	       "a write to a file opened for reading returns -EBADF");
	is_int(weir_stream_sync(s, -1), 0,
	       "calls that return an error do not fail the stream");
	weir_file_close(file);
	weir_stream_free(s);
	weir_buf_free(t.buf);
	weir_close(other);
}

#define TESTS 28
static void all(const char *prefix, uint32_t io)
{
	struct weir_io_info info = { .size = sizeof(info) };

	tap_prefix(prefix);
	weir = open_root(io);
	if (weir_io_info(weir, &info) < 0) {
		skip(TESTS, "%s", weir_error());
	} else {
		reads();
		rectangles();
		refused_rectangles();
		writes();
		neighbours();
		ordered();
		concurrent();
		many_small();
		short_file();
		refused();
	}
	weir_close(weir);
}

int main(void)
{
	plan(2 * TESTS);
	all("uring: ", WEIR_IO_URING);
	all("sync: ", WEIR_IO_SYNC);
	return done_testing();
}
