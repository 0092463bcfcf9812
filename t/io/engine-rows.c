/* SPDX-License-Identifier: MIT */
/* Extents with rows and with conversions to host memory, over both methods. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir.h>

#include "mem/convert.h"
#include "rows.h"
#include "tap.h"

#define GUARD 4096u
#define CHUNK (1u << 20)
#define CHECKS 102 /* checks of a contract */

static struct weir *root;
static struct weir__engine *eng;
static struct weir_file *file;

/* Read @ext to memory with @skew, and compare all bytes, those beside too. */
static void read_one(struct weir__extent ext, unsigned skew, const char *what)
{
	size_t room = rows_room(&ext) + 2 * GUARD;
	unsigned char *mem = malloc(room), *want = malloc(room);
	struct rows_job j;

	memset(mem, 0xa5, room);
	memset(want, 0xa5, room);
	rows_expect(&ext, want + skew);
	ext.file = file;
	ext.addr = mem + skew;
	if (rows_start(&j, eng, &ext) < 0)
		bail("%s", weir_error());
	rows_wait(&j);
	is_int(j.outcome.end, WEIR__DONE, "%s: the job ends well", what);
	ok(!memcmp(mem, want, room),
	   "%s: each row is at its place, and no byte beside is written", what);
	ok(rows_once(&j), "%s: each row is reported once, as a whole", what);
	rows_job_free(&j);
	free(mem);
	free(want);
}

static void read_both(struct weir__extent ext, unsigned skew, const char *what)
{
	char title[120];

	ext.buffered = false;
	read_one(ext, skew, what);
	snprintf(title, sizeof(title), "%s through the page cache", what);
	ext.buffered = true;
	read_one(ext, skew, title);
}

#define ROWS(at, n, w, p, m)                                               \
	(struct weir__extent)                                              \
	{                                                                  \
		.off = (at), .rows = (n), .width = (w), .file_pitch = (p), \
		.mem_pitch = (m), .len = ((n)-1) * (uint64_t)(p) + (w)     \
	}

static void rows(void)
{
	read_both(ROWS(0, 4096, 512, 4096, 512), 0, "an eighth of each block");
	read_both(ROWS(12345, 3001, 333, 6007, 340), 7,
		  "odd widths, pitches and places");
	read_both(ROWS(100, 37, 70001, 500009, 70001), 1,
		  "rows of several blocks");
	read_both(ROWS(8, 5, 900000, 900000, 1000000), 3,
		  "rows without gaps, nearly as long as a chunk");
	read_both(ROWS(5, 9, 10, 2200000, 64), 5,
		  "rows that are farther apart than a chunk");
	read_both(ROWS(4095, 2, 2, 4096, 2), 0, "two rows of two bytes");
	read_both(ROWS(3, 1000000, 2, 20, 2), 2, "a million rows");
	read_both(ROWS(ROWS_FILE - 7000, 7, 1000, 1000, 1500), 0,
		  "rows up to the end of the file");
}

static struct weir__extent with(struct weir__extent ext,
				const struct weir_backend_convert *convert,
				uint64_t mem_pitch)
{
	ext.convert = convert;
	ext.mem_pitch = mem_pitch;
	return ext;
}

static void conversions(void)
{
	struct weir__extent flat = { .off = 1001, .len = 9000002 };

	read_both(with(flat, &rows_widen, 0), 3, "a range that is widened");
	flat.len = 9000004;
	read_both(with(flat, &rows_narrow, 0), 1, "a range that is narrowed");
	flat.len = 2;
	read_both(with(flat, &rows_widen, 0), 0, "one element");
	read_both(with(ROWS(77, 2000, 1000, 9001, 0), &rows_widen, 2003), 5,
		  "rows that are widened");
	read_both(with(ROWS(77, 20, 200000, 900000, 0), &rows_narrow, 100000),
		  0, "long rows that are narrowed");
}

/* A conversion whose unit is more than an element, and longer in memory. */
static void blocks(void)
{
	const struct weir_backend_convert *convert =
		weir__convert_find(WEIR_DTYPE_IQ1_S, WEIR_DTYPE_F32);
	struct weir__extent flat = { .off = 1001, .len = 50 * 9001 };

	read_both(with(flat, convert, 0), 3, "a range of blocks");
	read_both(with(ROWS(77, 300, 150, 901, 0), convert, 3075), 1,
		  "rows of blocks");
}

/*
 * The gaps in the file count as read and not wanted, except those between two
 * calls that read from the page cache. What was read there before a missing
 * page is read again, and counts, too: t/model/load/over-read.c compares the
 * sums.
 */
static void over_read(void)
{
	struct weir__extent ext = ROWS(0, 1024, 512, 3584, 512);
	const uint64_t all = 1024 * (512 + 3072);
	unsigned char *mem = malloc(rows_room(&ext));
	struct rows_job j;

	ext.file = file;
	ext.addr = mem;
	for (int buffered = 0; buffered < 2; buffered++) {
		ext.buffered = buffered;
		rows_start(&j, eng, &ext);
		rows_wait(&j);
		if (!ok(j.job.over_read >= (buffered ? 960 : 1000) * 3072 &&
				j.job.over_read <=
					1024 * 3072 +
						(buffered ? all : 8 * 8192),
			"%s: gaps between rows that are read count as read too much",
			buffered ? "buffered" : "direct"))
			diag("over_read is %llu",
			     (unsigned long long)j.job.over_read);
		rows_job_free(&j);
	}
	free(mem);
}

/* The file ends inside the last row, or the range to convert. */
static void short_file(bool convert, bool buffered, const char *what)
{
	struct weir__extent ext = ROWS(ROWS_FILE - 3500, 4, 600, 1000, 1200);
	unsigned char *mem = calloc(2, ext.len);
	struct rows_job j;

	ext.file = file;
	ext.addr = mem;
	ext.buffered = buffered;
	if (convert) {
		ext.convert = &rows_widen;
		ext.rows = 0;
	}
	rows_start(&j, eng, &ext);
	rows_wait(&j);
	is_int(j.outcome.end, WEIR__END_OF_FILE,
	       "%s: bytes beyond the end of the file fail", what);
	ok(rows_once(&j), "%s: what fails is reported once", what);
	rows_job_free(&j);
	free(mem);
}

static void cancel(void)
{
	struct weir__extent ext = ROWS(0, 100000, 100, 200, 100);
	unsigned char *mem = malloc(rows_room(&ext));
	struct rows_job j;

	ext.file = file;
	ext.addr = mem;
	rows_start(&j, eng, &ext);
	weir__job_cancel(&j.job);
	rows_wait(&j);
	ok(rows_once(&j), "a cancelled job reports each row once");
	rows_job_free(&j);
	free(mem);
}

static void too_long(void)
{
	struct weir__extent ext = ROWS(0, 2, CHUNK, CHUNK, CHUNK);
	struct rows_job j;

	ext.file = file;
	ext.addr = rows_content;
	is_err(rows_start(&j, eng, &ext), -EINVAL, "1048576",
	       "a row that does not fit a chunk is refused, with both sizes");
}

static void contract(uint32_t io, const char *prefix)
{
	struct weir_opts o = WEIR_OPTS_INIT;

	tap_prefix(prefix);
	o.io = io;
	o.chunk = CHUNK;
	o.reactors = io == WEIR_IO_AUTO ? 1 : 2;
	if (weir_open(&o, &root) < 0)
		bail("%s", weir_error());
	if (weir__engine_get(root, &eng) < 0) {
		skip(CHECKS, "%s", weir_error());
		weir_close(root);
		return;
	}
	if (weir_file_open(root, rows_path, NULL, &file) < 0)
		bail("%s", weir_error());
	rows();
	conversions();
	blocks();
	over_read();
	short_file(false, false, "direct");
	short_file(false, true, "buffered");
	short_file(true, false, "direct, converted");
	short_file(true, true, "buffered, converted");
	cancel();
	too_long();
	weir_file_close(file);
	weir_close(root);
}

int main(void)
{
	plan(3 * CHECKS);
	rows_file_make();
	contract(WEIR_IO_AUTO, "auto: ");
	contract(WEIR_IO_URING, "uring: ");
	contract(WEIR_IO_SYNC, "sync: ");
	unlink(rows_path);
	return done_testing();
}
