/* SPDX-License-Identifier: MIT */
/*
 * Runs that read rows of a table which does not fit in the memory for weights.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/ops.h>

#include "cached.h"
#include "files.h"
#include "io/file.h"
#include "leaf.h"
#include "streams.h"

#define ROWS 4096
#define IDS 6

static struct weir *weir;
static struct weir_file *file;
static unsigned char *table; /* the contents of the file */
static size_t table_bytes;

/*
 * Bytes of the table that were asked for by reads out of the page cache. The
 * engine may still read an earlier table, for a run that has ended.
 */
static _Atomic uint64_t asked;
static _Atomic int table_fd;
/* The run that the next read cancels; NULL: none. */
static _Atomic(struct weir_run *) cancels;

int64_t __real_weir__sys_pread_nowait(int fd, void *buf, size_t n,
				      uint64_t off);
int64_t __wrap_weir__sys_pread_nowait(int fd, void *buf, size_t n,
				      uint64_t off);

int64_t __wrap_weir__sys_pread_nowait(int fd, void *buf, size_t n, uint64_t off)
{
	struct weir_run *run = NULL;

	if (fd == table_fd) {
		run = atomic_exchange(&cancels, NULL);
		asked += n;
	}
	if (run)
		must(weir_run_cancel(run));
	return __real_weir__sys_pread_nowait(fd, buf, n, off);
}

/* Rows of blocks of 32 elements and a scale, as Q8_0 has them. */
static void blocks_fill(unsigned char *to, size_t bytes)
{
	const uint16_t half = 0x3800; /* 0.5 as F16 */

	for (size_t i = 0; i < bytes; i++)
		to[i] = (unsigned char)(i * 37 % 251);
	for (size_t i = 0; i < bytes; i += 34)
		memcpy(to + i, &half, sizeof(half));
}

static void floats_fill(enum weir_dtype dtype, unsigned char *to, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		float x = (float)((int)(i * 37 % 127) - 63) / 64;
		uint32_t bits;

		memcpy(&bits, &x, sizeof(bits));
		if (dtype == WEIR_DTYPE_BF16)
			memcpy(to + i * 2, (char *)&bits + 2, 2);
		else
			memcpy(to + i * 4, &bits, 4);
	}
}

static void table_make(enum weir_dtype dtype, int64_t columns)
{
	const int64_t shape[] = { ROWS, columns };
	struct weir_tensor t;
	uint64_t bytes;

	must(weir_tensor_init(&t, dtype, 2, shape));
	must(weir_tensor_bytes(&t, &bytes));
	table_bytes = bytes;
	table = malloc(table_bytes);
	if (dtype == WEIR_DTYPE_Q8_0)
		blocks_fill(table, table_bytes);
	else
		floats_fill(dtype, table, ROWS * (size_t)columns);
	files_bytes("table.bin", table, table_bytes);
	must(weir_file_open(weir, files_path("table.bin"), NULL, &file));
	table_fd = file->fd;
}

static void table_end(void)
{
	weir_file_close(file);
	free(table);
}

/* A graph that reads rows of the table. */
struct reader {
	struct weir_graph *g;
	struct weir_node *ids, *rows;
	struct weir_sched *sched;
	struct weir_exec *s;
	struct weir_run *run;
	size_t floats; /* elements of the result */
};

/* Rows [@skip, ROWS) of the table. */
static void build(struct reader *x, enum weir_dtype dtype, int64_t columns,
		  int64_t skip)
{
	const int64_t n = IDS, shape[] = { ROWS, columns };
	struct weir_node *a;
	struct weir_tensor t;

	x->g = graph_new();
	x->ids = weir_graph_input(x->g, "ids", WEIR_DTYPE_I32, 1, &n);
	must(weir_tensor_init(&t, dtype, 2, shape));
	a = weir_graph_leaf_file(x->g, &t, file, 0);
	weir_node_set_name(a, "table");
	if (skip)
		a = weir_slice(x->g, a, 0, skip, ROWS - skip);
	x->rows = weir_graph_output(x->g, weir_get_rows(x->g, a, x->ids));
	weir_node_set_name(x->rows, "rows");
	must(weir_graph_error(x->g, NULL));
	x->floats = IDS * (size_t)columns;
}

static void begin(struct reader *x, uint64_t limit)
{
	struct weir_sched_opts o = { .size = sizeof(o), .weights = &limit };
	struct weir_dev *dev = cpu_of(weir);

	must(weir_sched_new(&dev, 1, &o, &x->sched));
	must(weir_exec_new(x->sched, x->g, &x->s));
	must(weir_run_new(x->s, &x->run));
}

static void end(struct reader *x)
{
	weir_run_free(x->run);
	weir_exec_free(x->s);
	weir_sched_free(x->sched);
}

static int run_with(struct reader *x, const int32_t *ids)
{
	int r;

	must(weir_run_input(x->run, x->ids, ids, IDS * sizeof(*ids)));
	r = weir_run_start(x->run);
	return r < 0 ? r : weir_run_wait(x->run, -1);
}

static float *result(struct reader *x)
{
	float *y = malloc(x->floats * sizeof(float));
	struct weir_tensor t;

	must(weir_run_output(x->run, x->rows, &t));
	must(weir_tensor_get(&t, 0, y, x->floats * sizeof(float)));
	return y;
}

static struct weir_exec_info info_of(struct reader *x)
{
	struct weir_exec_info info = { .size = sizeof(info) };

	must(weir_exec_info(x->s, &info));
	return info;
}

static uint64_t fed_for(struct reader *x)
{
	struct weir_run_report report = { .size = sizeof(report) };

	must(weir_run_report(x->run, &report));
	return report.prefetched;
}

static const int32_t some[IDS] = { 7, 4000, 7, 0, 4095, 1234 };
static const int32_t first[IDS] = { 1, 2, 3, 4, 5, 6 };

/* The same rows as from a table that is kept, of which none is read before. */
static bool equals_kept(struct reader *x, const int32_t *ids)
{
	struct reader kept = *x;
	float *want, *got = result(x);
	bool equal;

	begin(&kept, 0);
	must(run_with(&kept, ids));
	want = result(&kept);
	equal = !memcmp(got, want, x->floats * sizeof(float));
	free(want);
	free(got);
	end(&kept);
	return equal;
}

static void rows_of(enum weir_dtype dtype, int64_t columns, const char *what)
{
	const uint64_t row = (table_make(dtype, columns), table_bytes / ROWS);
	struct weir_exec_info guess = { .size = sizeof(guess) };
	/* Nobody can lease a file that is open for writing: rows are read. */
	int fd = open(files_path("table.bin"), O_RDWR);
	struct weir_exec_info info;
	struct reader x;

	build(&x, dtype, columns, 0);
	begin(&x, 64);
	info = info_of(&x);
	must(weir_sched_estimate(x.sched, x.g, &guess));
	ok(info.prefetched == IDS * row && !info.prefetch_buffer &&
		   !info.kept && guess.prefetched == info.prefetched &&
		   !guess.prefetch_buffer,
	   "%s: a table that does not fit costs its rows only", what);
	asked = 0;
	must(run_with(&x, some));
	is_int(asked, IDS * row, "%s: a run reads the rows that it needs",
	       what);
	is_int(fed_for(&x), IDS * row, "%s: a run reports the bytes of rows",
	       what);
	ok(equals_kept(&x, some), "%s: rows that are read are right", what);
	must(run_with(&x, first));
	ok(equals_kept(&x, first), "%s: the next run reads other rows", what);
	end(&x);
	close(fd);
	begin(&x, 64);
	must(run_with(&x, some));
	ok(equals_kept(&x, some), "%s: rows of a leased file are right", what);
	end(&x);
	weir_graph_free(x.g);
	table_end();
}

static void fails(void)
{
	const int32_t outside[IDS] = { 1, ROWS, 0, 0, 0, 0 };
	struct reader x;
	int fd;

	table_make(WEIR_DTYPE_F32, 64);
	build(&x, WEIR_DTYPE_F32, 64, 0);
	fd = open(files_path("table.bin"), O_RDWR);
	begin(&x, 64);
	is_err(run_with(&x, outside), -EINVAL,
	       "(get_rows 'rows'): index 4096 at 1 is not one of 4096 rows",
	       "an index that is outside a table in a file is refused");
	must(run_with(&x, some));
	ok(equals_kept(&x, some),
	   "a run after one with a wrong index is right");
	files_truncate("table.bin", 1000 * 256);
	is_err(run_with(&x, some), -ENODATA,
	       "(get_rows 'rows'): source 0 (node 1): table.bin: ends before bytes",
	       "a run whose row cannot be read fails with node and file");
	is_err(run_with(&x, first), -ESTALE, "table.bin: ",
	       "a run fails if the file of its rows has changed");
	close(fd);
	end(&x);
	weir_graph_free(x.g);
	table_end();
}

static void views(void)
{
	struct reader x;

	table_make(WEIR_DTYPE_F32, 64);
	build(&x, WEIR_DTYPE_F32, 64, 5);
	begin(&x, 64);
	must(run_with(&x, first));
	ok(info_of(&x).prefetched == IDS * 256 && equals_kept(&x, first),
	   "rows of a view of a table are read");
	end(&x);
	weir_graph_free(x.g);
	table_end();
}

/* The table is multiplied, too: it is prefetched as a whole for that. */
static void tied(void)
{
	struct weir_node *y;
	struct reader x;

	table_make(WEIR_DTYPE_F32, 64);
	build(&x, WEIR_DTYPE_F32, 64, 0);
	for (int twice = 0; twice < 2; twice++) {
		struct weir_tensor t =
			*weir_node_tensor(weir_graph_node(x.g, 1));
		struct weir_node *a = weir_graph_node(x.g, 1);

		if (!twice)
			a = weir_graph_leaf_file(x.g, &t, file, 0);
		y = weir_mul_mat(x.g, a, x.rows);
		weir_graph_output(x.g, weir_sum(x.g, y));
		must(weir_graph_error(x.g, NULL));
		begin(&x, table_bytes + 8192);
		is_int(info_of(&x).kept, table_bytes,
		       "a table that is also multiplied is kept once (%d)",
		       twice);
		end(&x);
		begin(&x, table_bytes);
		must(run_with(&x, some));
		ok(equals_kept(&x, some),
		   "rows of a table that is also multiplied are right (%d)",
		   twice);
		end(&x);
	}
	weir_graph_free(x.g);
	table_end();
}

/* Neither the page cache nor the calling thread is used. */
static void chosen_method(void)
{
	struct weir *before = weir;
	struct reader x;

	weir = open_root(WEIR_IO_SYNC);
	table_make(WEIR_DTYPE_Q8_0, 64);
	build(&x, WEIR_DTYPE_Q8_0, 64, 0);
	begin(&x, 64);
	asked = 0;
	must(run_with(&x, some));
	is_int(asked, 0, "the engine reads rows if its method was chosen");
	ok(equals_kept(&x, some), "rows that the engine reads are right");
	end(&x);
	weir_graph_free(x.g);
	table_end();
	weir_close(weir);
	weir = before;
}

static void uncached(void)
{
	struct reader x;

	table_make(WEIR_DTYPE_F32, 64);
	build(&x, WEIR_DTYPE_F32, 64, 0);
	begin(&x, 64);
	cached = false;
	must(run_with(&x, some));
	cached = true;
	ok(equals_kept(&x, some), "rows out of the page cache are right");
	end(&x);
	weir_graph_free(x.g);
	table_end();
}

/* The first read of the run cancels it: its bytes are what is read. */
static void cancelled(struct reader *x, const void *in, size_t n,
		      uint64_t limit, uint64_t bytes, const char *what)
{
	begin(x, limit);
	must(weir_run_input(x->run, weir_graph_node(x->g, 0), in, n));
	asked = 0;
	cancels = x->run;
	must(weir_run_start(x->run));
	is_err(weir_run_wait(x->run, -1), -ECANCELED, "the run was cancelled",
	       "%s: a run is cancelled while an operation reads", what);
	is_int(asked, bytes, "%s: after a cancel no further read begins", what);
	end(x);
	weir_graph_free(x->g);
}

/* One thread computes, and reads 128 KiB of a matrix at once. */
static void cancels_reads(void)
{
	const int64_t shape[] = { ROWS, 64 }, one[] = { 1, 64 };
	static const float zeros[64];
	struct weir *before = weir;
	struct weir_dev *dev;
	struct weir_node *v;
	struct weir_tensor t;
	struct reader x;
	int fd;

	weir = open_root(WEIR_IO_AUTO);
	must(weir_dev_configure(weir, "CPU:threads=1", &dev));
	table_make(WEIR_DTYPE_F32, 64);
	fd = open(files_path("table.bin"), O_RDWR);
	build(&x, WEIR_DTYPE_F32, 64, 0);
	cancelled(&x, some, sizeof(some), 64, 256, "get_rows");

	x = (struct reader){ .g = graph_new() };
	must(weir_tensor_init(&t, WEIR_DTYPE_F32, 2, shape));
	v = weir_graph_input(x.g, "x", WEIR_DTYPE_F32, 2, one);
	v = weir_mul_mat(x.g, weir_graph_leaf_file(x.g, &t, file, 0), v);
	weir_graph_output(x.g, v);
	must(weir_graph_error(x.g, NULL));
	cancelled(&x, zeros, sizeof(zeros), table_bytes, 128 << 10, "mul_mat");
	close(fd);
	table_end();
	weir_close(weir);
	weir = before;
}

int main(void)
{
	plan(0);
	files_begin();
	weir = open_root(WEIR_IO_AUTO);
	rows_of(WEIR_DTYPE_F32, 64, "F32");
	rows_of(WEIR_DTYPE_BF16, 96, "BF16");
	rows_of(WEIR_DTYPE_Q8_0, 64, "Q8_0");
	/* A row is more than a thread reads at once. */
	rows_of(WEIR_DTYPE_F32, 3000, "long rows");
	fails();
	views();
	tied();
	chosen_method();
	uncached();
	cancels_reads();
	weir_close(weir);
	return done_testing();
}
