/* SPDX-License-Identifier: MIT */
/*
 * Extents with rows and with conversions to device memory: copies with pitches
 * out of a slot, after the conversion if there is one.
 */
#include "gpu.h"
#include "mem/buf.h"
#include "rows.h"

static struct weir *weir;
static struct weir__engine *eng;
static struct weir_file *file;

/* Read @ext to a buffer of the device, and compare it with the gaps in it. */
static void read_one(struct weir__extent ext, const char *what)
{
	size_t room = rows_room(&ext) + 100;
	struct weir_tensor t = on_gpu(weir, room);
	unsigned char *got = malloc(room), *want = malloc(room);
	struct rows_job j;

	memset(want, 0xa5, room);
	must(weir_tensor_set(&t, 0, want, room));
	rows_expect(&ext, want + 50);
	ext.file = file;
	ext.dev = gpu(weir);
	ext.addr = t.buf->mem.base + 50;
	must(rows_start(&j, eng, &ext));
	rows_wait(&j);
	is_int(j.outcome.end, WEIR__DONE, "%s: the job ends well", what);
	must(weir_tensor_get(&t, 0, got, room));
	ok(!memcmp(got, want, room),
	   "%s: each row is at its place, and no byte beside is written", what);
	ok(rows_once(&j), "%s: each row is reported once, as a whole", what);
	rows_job_free(&j);
	free(got);
	free(want);
	weir_buf_free(t.buf);
}

static void read_both(struct weir__extent ext, const char *what)
{
	char title[120];

	if (ext.rows > 1)
		ext.len = (ext.rows - 1) * ext.file_pitch + ext.width;
	read_one(ext, what);
	snprintf(title, sizeof(title), "%s through the page cache", what);
	ext.buffered = true;
	read_one(ext, title);
}

static void rows(void)
{
	struct weir__extent e = {
		.rows = 4096, .width = 512, .file_pitch = 4096, .mem_pitch = 512
	};

	read_both(e, "an eighth of each block");
	e = (struct weir__extent){ .off = 12345,
				   .rows = 3001,
				   .width = 333,
				   .file_pitch = 6007,
				   .mem_pitch = 340 };
	read_both(e, "odd widths, pitches and places");
	e = (struct weir__extent){ .off = 100,
				   .rows = 37,
				   .width = 70001,
				   .file_pitch = 500009,
				   .mem_pitch = 70001 };
	read_both(e, "rows of several blocks");
}

static void conversions(void)
{
	struct weir__extent e = { .off = 1001,
				  .len = 9000002,
				  .convert = &rows_widen };

	read_both(e, "a range that is widened");
	e.len = 9000004;
	e.convert = &rows_narrow;
	read_both(e, "a range that is narrowed");
	e.len = 4;
	read_both(e, "one element");
	e = (struct weir__extent){ .off = 77,
				   .rows = 2000,
				   .width = 1000,
				   .file_pitch = 9001,
				   .mem_pitch = 2003,
				   .convert = &rows_widen };
	read_both(e, "rows that are widened");
	e = (struct weir__extent){ .off = 77,
				   .rows = 20,
				   .width = 200000,
				   .file_pitch = 900000,
				   .mem_pitch = 100000,
				   .convert = &rows_narrow };
	read_both(e, "long rows that are narrowed");
}

/* The file ends inside the last row. */
static void short_file(void)
{
	struct weir_tensor t = on_gpu(weir, 10000);
	struct weir__extent e = { .file = file,
				  .dev = gpu(weir),
				  .addr = t.buf->mem.base,
				  .off = ROWS_FILE - 3500,
				  .rows = 4,
				  .width = 600,
				  .file_pitch = 1000,
				  .mem_pitch = 600 };
	struct rows_job j;

	for (int buffered = 0; buffered < 2; buffered++) {
		e.buffered = buffered;
		must(rows_start(&j, eng, &e));
		rows_wait(&j);
		is_int(j.outcome.end, WEIR__END_OF_FILE,
		       "%s: a row that the file ends in fails",
		       buffered ? "buffered" : "direct");
		ok(rows_once(&j), "%s: each failed row is reported once",
		   buffered ? "buffered" : "direct");
		rows_job_free(&j);
	}
	weir_buf_free(t.buf);
}

static void cancel(void)
{
	struct weir_tensor t = on_gpu(weir, 40 << 20);
	struct weir__extent e = { .file = file,
				  .dev = gpu(weir),
				  .addr = t.buf->mem.base,
				  .len = 20 << 20,
				  .convert = &rows_widen };
	struct rows_job j;

	must(rows_start(&j, eng, &e));
	weir__job_cancel(&j.job);
	rows_wait(&j);
	ok(rows_once(&j), "a cancelled conversion is reported once");
	rows_job_free(&j);
	weir_buf_free(t.buf);
}

static void contract(uint32_t io, const char *prefix)
{
	tap_prefix(prefix);
	/* With this, a reactor has one or two large slots. */
	cuda_chunk = 1 << 20;
	weir = open_cuda_by(io);
	if (weir__engine_get(weir, &eng) < 0) {
		skip(53, "%s", weir_error());
		weir_close(weir);
		return;
	}
	must(weir_file_open(weir, rows_path, NULL, &file));
	rows();
	conversions();
	short_file();
	cancel();
	weir_file_close(file);
	weir_close(weir);
}

int main(void)
{
	open_driver();
	plan(3 * 53 + 2);
	rows_file_make();
	contract(WEIR_IO_AUTO, "auto: ");
	contract(WEIR_IO_URING, "uring: ");
	contract(WEIR_IO_SYNC, "sync: ");
	tap_prefix(NULL);
	all_given_back("after rows and conversions");
	unlink(rows_path);
	return done_testing();
}
