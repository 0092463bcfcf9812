/* SPDX-License-Identifier: MIT */
/* Slices as rows of bytes: of every kind of dtype, dimension and size. */
#include <errno.h>
#include <string.h>

#include "core/util.h"
#include "model/load/slice.h"
#include "model/format/model.h"
#include "tap.h"

struct shape {
	unsigned ndim;
	int64_t dim[4];
};

/* A model of one tensor 't', converted to @to. */
static int sliced_to(enum weir_dtype to, enum weir_dtype dtype,
		     struct shape shape, const struct weir_slice *slice,
		     struct weir__slice *ret_slice,
		     struct weir_tensor *ret_tensor)
{
	struct weir__record rec = { .name_len = 1,
				    .dtype = (uint16_t)dtype,
				    .ndim = (uint16_t)shape.ndim };
	struct weir_model m = { .rec = &rec,
				.dims = shape.dim,
				.text = (char[]){ "t" } };
	struct weir_tensor whole;
	size_t bytes;

	if (weir_tensor_init(&whole, dtype, shape.ndim, shape.dim) < 0 ||
	    weir_tensor_bytes(&whole, &bytes) < 0)
		bail("%s", weir_error());
	rec.bytes = bytes;
	return weir__slice_make(&m, 0, slice, to, ret_slice, ret_tensor);
}

static int sliced(enum weir_dtype dtype, struct shape shape,
		  const struct weir_slice *slice, struct weir__slice *ret_slice,
		  struct weir_tensor *ret_tensor)
{
	return sliced_to(WEIR_DTYPE_NONE, dtype, shape, slice, ret_slice,
			 ret_tensor);
}

static const struct {
	const char *title;
	enum weir_dtype dtype;
	struct shape shape;
	struct weir_slice slice;
	uint64_t off, rows, width, pitch; /* pitch 0: contiguous */
} good[] = {
	{ "a slice of the outermost dimension is contiguous",
	  WEIR_DTYPE_F32,
	  { 2, { 6, 10 } },
	  { 0, 0, 0, 0, 2, 3 },
	  80,
	  1,
	  120,
	  0 },
	{ "a slice of the innermost dimension has a row for each outer index",
	  WEIR_DTYPE_F32,
	  { 2, { 6, 10 } },
	  { 1, 0, 0, 0, 2, 3 },
	  8,
	  6,
	  12,
	  40 },
	{ "a slice of a middle dimension has rows of whole inner dimensions",
	  WEIR_DTYPE_F16,
	  { 3, { 4, 6, 5 } },
	  { 1, 0, 0, 0, 1, 2 },
	  10,
	  4,
	  20,
	  60 },
	{ "a slice of all of a dimension is contiguous",
	  WEIR_DTYPE_F16,
	  { 3, { 4, 6, 5 } },
	  { 1, 0, 0, 0, 0, 6 },
	  0,
	  1,
	  240,
	  0 },
	{ "a slice within a dimension after dimensions of 1 is contiguous",
	  WEIR_DTYPE_U8,
	  { 3, { 1, 1, 9 } },
	  { 2, 0, 0, 0, 3, 2 },
	  3,
	  1,
	  2,
	  0 },
	{ "a rank has its part of equal parts",
	  WEIR_DTYPE_U8,
	  { 2, { 8, 12 } },
	  { 1, 2, 4, 0, 0, 0 },
	  6,
	  8,
	  3,
	  12 },
	{ "rows of quantised blocks are cut between blocks",
	  WEIR_DTYPE_Q8_0,
	  { 2, { 3, 128 } },
	  { 1, 0, 0, 0, 32, 64 },
	  34,
	  3,
	  68,
	  136 },
	{ "rows of quantised blocks are cut between rows",
	  WEIR_DTYPE_Q4_K,
	  { 2, { 5, 512 } },
	  { 0, 0, 0, 0, 1, 2 },
	  288,
	  1,
	  576,
	  0 },
	{ "elements of half a byte are cut between bytes",
	  WEIR_DTYPE_F4,
	  { 2, { 3, 8 } },
	  { 1, 0, 0, 0, 2, 4 },
	  1,
	  3,
	  2,
	  4 },
	{ "a slice without elements has no bytes",
	  WEIR_DTYPE_F32,
	  { 2, { 6, 10 } },
	  { 1, 0, 0, 0, 10, 0 },
	  0,
	  0,
	  0,
	  0 },
	{ "a slice of an empty tensor has no bytes",
	  WEIR_DTYPE_F32,
	  { 2, { 0, 10 } },
	  { 1, 0, 0, 0, 2, 3 },
	  0,
	  0,
	  0,
	  0 },
};

static void slices_are_rows(void)
{
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct weir_tensor t;
		struct weir__slice c;
		bool same = sliced(good[i].dtype, good[i].shape, &good[i].slice,
				   &c, &t) == 0;

		same = same && c.off == good[i].off && c.rows == good[i].rows &&
		       c.width == good[i].width &&
		       (!good[i].pitch || c.file_pitch == good[i].pitch);
		if (!ok(same, "%s", good[i].title))
			diag("off %llu, %llu rows of %llu, pitch %llu",
			     (unsigned long long)c.off,
			     (unsigned long long)c.rows,
			     (unsigned long long)c.width,
			     (unsigned long long)c.file_pitch);
	}
}

static const struct {
	const char *title;
	enum weir_dtype dtype;
	struct shape shape;
	struct weir_slice slice;
	const char *sentence;
} bad[] = {
	{ "a slice of a scalar is refused",
	  WEIR_DTYPE_F32,
	  { 0, { 0 } },
	  { 0, 0, 0, 0, 0, 1 },
	  "'t' has 0 dimensions: no slice of dimension 0" },
	{ "a slice that cuts a block is refused",
	  WEIR_DTYPE_Q8_0,
	  { 2, { 3, 128 } },
	  { 1, 0, 0, 0, 16, 32 },
	  "a slice of 32 elements from 16 on cuts blocks of 32 (Q8_0)" },
	{ "a part of a block is refused",
	  WEIR_DTYPE_Q8_0,
	  { 2, { 3, 128 } },
	  { 1, 0, 0, 0, 32, 16 },
	  "a slice of 16 elements from 32 on cuts blocks of 32" },
	{ "a rank whose part would cut a block is refused",
	  WEIR_DTYPE_Q4_K,
	  { 2, { 3, 512 } },
	  { 1, 1, 4, 0, 0, 0 },
	  "a slice of 128 elements from 128 on cuts blocks of 256" },
	{ "a slice of a tensor whose rows are not whole blocks is refused",
	  WEIR_DTYPE_F4,
	  { 2, { 4, 3 } },
	  { 0, 0, 0, 0, 0, 2 },
	  "rows of 3 elements are not whole blocks of 2 (F4)" },
	{ "a rank together with a range is refused",
	  WEIR_DTYPE_U8,
	  { 1, { 8 } },
	  { 0, 1, 2, 0, 0, 4 },
	  "rank 1 of 2, with start 0 and n 4" },
	{ "a slice with a reserved member that is not 0 is refused",
	  WEIR_DTYPE_U8,
	  { 1, { 8 } },
	  { 0, 0, 0, 7, 0, 4 },
	  "reserved" },
};

static void wrong_slices_are_refused(void)
{
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct weir_tensor t;
		struct weir__slice c;

		is_err(sliced(bad[i].dtype, bad[i].shape, &bad[i].slice, &c,
			      &t),
		       -EINVAL, bad[i].sentence, "%s", bad[i].title);
	}
}

/* The place of a slice of 6 x 10 elements in a view of a larger tensor. */
static int fit(const struct weir_slice *slice, struct shape larger,
	       unsigned dim, int64_t n, struct weir__slice *c)
{
	const struct shape shape = { 2, { 6, 10 } };
	struct weir_tensor t, all, view;

	if (sliced(WEIR_DTYPE_F32, shape, slice, c, &t) < 0 ||
	    weir_tensor_init(&all, WEIR_DTYPE_F32, larger.ndim, larger.dim) <
		    0 ||
	    weir_tensor_view(&all, dim, 0, n, &view) < 0)
		bail("%s", weir_error());
	return weir__slice_fit(c, &t, &view);
}

static void destinations_may_be_views(void)
{
	const struct weir_slice columns = { .dim = 1, .start = 5, .n = 5 };
	struct weir__slice c;

	is_int(fit(NULL, (struct shape){ 2, { 6, 30 } }, 1, 10, &c), 0,
	       "a tensor fits columns of a larger tensor");
	ok(c.rows == 6 && c.width == 40 && c.file_pitch == 40 &&
		   c.mem_pitch == 120,
	   "a contiguous tensor is cut into the rows of its destination");
	is_int(fit(&columns, (struct shape){ 2, { 6, 30 } }, 1, 5, &c), 0,
	       "columns fit columns of a larger tensor");
	ok(c.rows == 6 && c.width == 20 && c.file_pitch == 40 &&
		   c.mem_pitch == 120,
	   "rows of a slice go to the rows of its destination");
	is_int(fit(NULL, (struct shape){ 2, { 9, 10 } }, 0, 6, &c), 0,
	       "a tensor fits rows of a larger tensor");
	is_int(c.rows, 1,
	       "a tensor in whole rows of a larger one is contiguous");
	is_err(fit(NULL, (struct shape){ 2, { 6, 30 } }, 1, 9, &c), -EINVAL,
	       "another shape", "a view of another shape is refused");
}

static void blocks_are_converted(void)
{
	const struct weir_slice columns = { .dim = 1, .start = 256, .n = 512 };
	const struct shape shape = { 2, { 6, 1024 } };
	struct weir_tensor t;
	struct weir__slice c;

	is_int(sliced_to(WEIR_DTYPE_BF16, WEIR_DTYPE_Q4_K, shape, &columns, &c,
			 &t),
	       0, "columns of a quantised tensor can be converted");
	ok(c.off == 144 && c.rows == 6 && c.width == 288 &&
		   c.file_pitch == 576 && c.mem_width == 1024 &&
		   t.dtype == WEIR_DTYPE_BF16 && t.shape[1] == 512,
	   "rows of blocks become rows of elements");
	is_int(sliced_to(WEIR_DTYPE_Q8_0, WEIR_DTYPE_Q4_K, shape, &columns, &c,
			 &t),
	       0, "they can be converted to another quantised dtype");
	ok(c.rows == 6 && c.width == 288 && c.mem_width == 544 &&
		   t.dtype == WEIR_DTYPE_Q8_0,
	   "rows of blocks become rows of other blocks");
	is_err(sliced_to(WEIR_DTYPE_IQ2_XS, WEIR_DTYPE_Q4_K, shape, NULL, &c,
			 &t),
	       -EINVAL, "'t' cannot be converted from Q4_K to IQ2_XS",
	       "a conversion to a dtype that is only read is refused");
}

/* 6 rows of 2 blocks, to a view whose elements have this distance. */
static int fit_blocks(int64_t stride, struct weir__slice *c)
{
	const struct shape shape = { 2, { 6, 64 } };
	struct weir_tensor t, view;

	if (sliced_to(WEIR_DTYPE_F32, WEIR_DTYPE_Q4_0, shape, NULL, c, &t) < 0)
		bail("%s", weir_error());
	view = t;
	view.stride[0] = 1024;
	view.stride[1] = stride;
	return weir__slice_fit(c, &t, &view);
}

static void converted_blocks_in_views(void)
{
	struct weir__slice c;

	is_int(fit_blocks(4, &c), 0, "converted blocks fit rows of a view");
	ok(c.rows == 6 && c.width == 36 && c.mem_width == 256 &&
		   c.mem_pitch == 1024,
	   "each row of a view gets its blocks");
	is_err(fit_blocks(16, &c), -EINVAL,
	       "rows of 4 bytes are not whole blocks of 32",
	       "a view that divides converted blocks is refused");
}

int main(void)
{
	plan(0);
	blocks_are_converted();
	converted_blocks_in_views();
	slices_are_rows();
	wrong_slices_are_refused();
	destinations_may_be_views();
	return done_testing();
}
