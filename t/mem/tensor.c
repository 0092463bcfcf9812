/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "kind.h"
#include "testmod.h"
#include "tap.h"

#define MAX INT64_MAX

static struct weir *weir;
static struct weir_buft *plain;

static int init(struct weir_tensor *t, enum weir_dtype dtype, unsigned ndim,
		int64_t a, int64_t b, int64_t c)
{
	const int64_t shape[3] = { a, b, c };

	return weir_tensor_init(t, dtype, ndim, shape);
}

static struct weir_tensor made(enum weir_dtype dtype, unsigned ndim, int64_t a,
			       int64_t b, int64_t c)
{
	struct weir_tensor t;

	if (init(&t, dtype, ndim, a, b, c) < 0)
		bail("%s", weir_error());
	return t;
}

static size_t bytes_of(const struct weir_tensor *t)
{
	size_t n = (size_t)-1;

	weir_tensor_bytes(t, &n);
	return n;
}

static void shapes(void)
{
	struct weir_tensor t = made(WEIR_DTYPE_F32, 3, 2, 3, 4);

	is_int(bytes_of(&t), 96, "a tensor of 2x3x4 F32 has 96 bytes");
	ok(t.stride[0] == 48 && t.stride[1] == 16 && t.stride[2] == 4,
	   "strides of a new tensor are in bytes, outermost first");
	ok(!t.buf && !t.name && !t.reserved[0], "a new tensor is not placed");
}

static void dimensions(void)
{
	int64_t nine[9] = { 1, 1, 1, 1, 1, 1, 1, 1, 1 };
	struct weir_tensor t;

	t = made(WEIR_DTYPE_F64, 0, 0, 0, 0);
	is_int(bytes_of(&t), 8, "a tensor without dimensions is one element");
	t = made(WEIR_DTYPE_F16, 2, 5, 0, 0);
	is_int(bytes_of(&t), 0, "a tensor with a dimension of 0 has no bytes");
	is_int(weir_tensor_init(&t, WEIR_DTYPE_U8, 8, nine), 0,
	       "a tensor may have 8 dimensions");
	is_err(weir_tensor_init(&t, WEIR_DTYPE_U8, 9, nine), -EOPNOTSUPP,
	       "9 dimensions, at most 8",
	       "a tensor of 9 dimensions is refused");
	is_err(init(&t, WEIR_DTYPE_U8, 2, 2, -1, 0), -EINVAL,
	       "dimension 1 is -1", "a negative dimension is refused");
	is_err(init(&t, (enum weir_dtype)200, 1, 1, 0, 0), -EINVAL, "200",
	       "a tensor of an unknown dtype is refused");
	is_err(weir_tensor_init(&t, WEIR_DTYPE_U8, 2, NULL), -EINVAL,
	       "without a shape", "dimensions without a shape are refused");
}

static void limits(void)
{
	struct weir_tensor t = { .ndim = 77 };

	is_err(init(&t, WEIR_DTYPE_I8, 2, MAX, 2, 0), -EOVERFLOW, "elements",
	       "a shape whose product wraps to less than 0 is refused");
	is_err(init(&t, WEIR_DTYPE_I8, 2, (int64_t)1 << 32, (int64_t)1 << 32,
		    0),
	       -EOVERFLOW, "elements",
	       "a shape whose product wraps to 0 is refused");
	is_err(init(&t, WEIR_DTYPE_F64, 1, MAX, 0, 0), -EOVERFLOW,
	       "over 2^63 - 1 bytes",
	       "a shape of more than 2^63 - 1 bytes is refused");
	is_int(t.ndim, 77, "a tensor that is refused is not written to");
	is_int(init(&t, WEIR_DTYPE_I8, 1, MAX, 0, 0), 0,
	       "a tensor may have 2^63 - 1 bytes");
}

static void empty(void)
{
	struct weir_tensor t;

	is_int(init(&t, WEIR_DTYPE_I8, 3, 0, MAX, MAX), 0,
	       "a first dimension of 0 makes a tensor empty, whatever the others are");
	is_int(bytes_of(&t), 0, "an empty tensor has no bytes");
	is_int(init(&t, WEIR_DTYPE_F64, 3, MAX, MAX, 0), 0,
	       "a last dimension of 0 makes a tensor empty, whatever the others are");
	is_int(bytes_of(&t), 0, "an empty tensor has no bytes");
}

static void blocks(void)
{
	struct weir_tensor t = made(WEIR_DTYPE_Q4_0, 2, 3, 64, 0), v;

	ok(bytes_of(&t) == 108 && t.stride[0] == 36 && t.stride[1] == 18,
	   "a row of two blocks of Q4_0 has 36 bytes");
	is_err(init(&t, WEIR_DTYPE_Q4_0, 1, 33, 0, 0), -EINVAL,
	       "33 elements are not whole blocks of 32",
	       "a row that is not a multiple of the block is refused");
	is_err(init(&t, WEIR_DTYPE_F4, 0, 0, 0, 0), -EINVAL, "1 elements",
	       "a single element of F4, half a byte, is refused");
	t = made(WEIR_DTYPE_F4, 2, 2, 3, 0);
	ok(bytes_of(&t) == 3 && !t.stride[0] && !t.stride[1],
	   "a tensor whose rows are not whole blocks has no strides");
	is_err(weir_tensor_view(&t, 0, 0, 1, &v), -EINVAL, "no views",
	       "a tensor whose rows are not whole blocks has no views");
	t = made(WEIR_DTYPE_F6_E2M3, 2, 5, 8, 0);
	ok(bytes_of(&t) == 30 && t.stride[0] == 6 && t.stride[1] == 3,
	   "F6 has 4 elements in 3 bytes");
}

static void views_of_blocks(void)
{
	struct weir_tensor t = made(WEIR_DTYPE_Q4_0, 2, 3, 64, 0), v;

	is_int(weir_tensor_view(&t, 1, 32, 32, &v), 0,
	       "a view of a row may begin at a block");
	ok(v.offset == 18 && v.shape[1] == 32,
	   "a view that begins at a block has that block's offset");
	is_err(weir_tensor_view(&t, 1, 16, 32, &v), -EINVAL, "whole blocks",
	       "a view that begins inside a block is refused");
	is_err(weir_tensor_view(&t, 1, 32, 16, &v), -EINVAL, "whole blocks",
	       "a view that ends inside a block is refused");
}

/* Tensors whose members the caller has changed. */
static void malformed(void)
{
	struct weir_tensor t = made(WEIR_DTYPE_F32, 2, 4, 4, 0);
	size_t n;

	t.stride[0] = 32;
	is_int(bytes_of(&t), 112,
	       "a tensor's bytes include the gaps between rows and none after the last");
	t.stride[0] = MAX;
	is_err(weir_tensor_bytes(&t, &n), -EOVERFLOW, "stride 0",
	       "a stride that reaches beyond all memory is refused");
	t.stride[0] = -16;
	is_err(weir_tensor_bytes(&t, &n), -EINVAL, "stride 0 is -16",
	       "a negative stride is refused");
	t = made(WEIR_DTYPE_F32, 1, 4, 0, 0);
	t.ndim = 1000;
	is_err(weir_tensor_bytes(&t, &n), -EOPNOTSUPP, "1000",
	       "a tensor with 1000 dimensions is refused");
	t = made(WEIR_DTYPE_F32, 1, 4, 0, 0);
	t.name = "a\nb";
	t.shape[0] = -5;
	is_err(weir_tensor_bytes(&t, &n), -EINVAL,
	       "weir_tensor_bytes: tensor 'a\\x0ab': dimension 0 is -5",
	       "a sentence names the tensor, with escapes");
}

static void views(void)
{
	struct weir_tensor t = made(WEIR_DTYPE_F32, 3, 4, 5, 6), v, w;

	t.offset = 1000;
	is_int(weir_tensor_view(&t, 0, 1, 2, &v), 0,
	       "rows of a tensor can be viewed");
	ok(v.offset == 1120 && v.shape[0] == 2 && bytes_of(&v) == 240,
	   "a view of rows has their offset and their bytes");
	is_int(weir_tensor_view(&t, 2, 2, 3, &w), 0,
	       "columns of a tensor can be viewed");
	ok(w.offset == 1008 && bytes_of(&w) == 120 * 4 - 12,
	   "a view of columns reaches from its first byte to its last");
	is_int(weir_tensor_view(&w, 1, 4, 1, &w), 0,
	       "a view may be made of a view, in place");
	is_int(w.offset, 1008 + 4 * 24,
	       "the offset of a view of a view is the sum of both");
	is_int(weir_tensor_view(&t, 0, 4, 0, &w), 0,
	       "an empty view at the end of a tensor is accepted");
	ok(bytes_of(&w) == 0 && w.offset == 1000,
	   "an empty view has no bytes and the offset of its tensor");
}

static void refused_views(void)
{
	struct weir_tensor t = made(WEIR_DTYPE_F32, 3, 4, 5, 6), w;

	is_err(weir_tensor_view(&t, 3, 0, 1, &w), -EINVAL, "dimension 3 of 3",
	       "a view of a dimension that the tensor lacks is refused");
	is_err(weir_tensor_view(&t, 0, 3, 2, &w), -EINVAL,
	       "2 elements from 3 on, dimension 0 has 4",
	       "a view beyond the end of a dimension is refused");
	is_err(weir_tensor_view(&t, 0, MAX, MAX, &w), -EINVAL, "dimension 0",
	       "a view whose end wraps is refused");
	is_err(weir_tensor_view(&t, 0, -1, 1, &w), -EINVAL, "-1",
	       "a view from a negative index is refused");
	t.offset = UINT64_MAX - 10;
	is_err(weir_tensor_view(&t, 0, 1, 1, &w), -EOVERFLOW, "offset",
	       "a view whose offset wraps is refused");
}

static void places(void)
{
	struct weir_tensor t = made(WEIR_DTYPE_F32, 1, 4, 0, 0);
	struct weir_buf *buf;

	if (weir_buf_alloc(plain, 100, NULL, &buf) < 0)
		bail("%s", weir_error());
	ok(!weir_tensor_data(&t), "a tensor that is not placed has no address");
	is_err(weir_tensor_place(&t, buf, 85), -EINVAL,
	       "16 bytes from byte 85 on, the buffer has 100",
	       "an offset is refused if the tensor would end outside the buffer");
	is_err(weir_tensor_place(&t, buf, UINT64_MAX - 7), -EINVAL,
	       "the buffer has 100",
	       "an offset is refused if the tensor's end wraps");
	is_int(weir_tensor_place(&t, buf, 84), 0,
	       "a tensor may end with its buffer");
	ok(weir_tensor_data(&t) == (char *)weir_buf_data(buf) + 84,
	   "a placed tensor's address is the buffer's plus the offset");
	is_err(weir_tensor_place(&t, buf, 0), -EINVAL, "placed already",
	       "a tensor that is placed is not placed again");
	t = made(WEIR_DTYPE_F32, 1, 0, 0, 0);
	is_int(weir_tensor_place(&t, buf, 100), 0,
	       "a tensor of no bytes may be placed at the end of a buffer");
	weir_buf_free(buf);
}

static void odd_address(void)
{
	struct weir_tensor u = made(WEIR_DTYPE_F32, 1, 4, 0, 0);
	struct weir_buf *buf;
	char got[13];

	if (weir_buf_alloc(plain, 100, NULL, &buf) < 0)
		bail("%s", weir_error());
	is_int(weir_tensor_place(&u, buf, 3), 0,
	       "a tensor may be placed at an odd offset");
	is_int(weir_tensor_set(&u, 0, "0123456789abcdef", 16) |
		       weir_tensor_get(&u, 3, got, 13),
	       0, "bytes of a tensor at an odd address can be set and read");
	ok(!memcmp(got, "3456789abcdef", 13),
	   "bytes that are read from an odd address are those that were set");
	is_int(weir_tensor_view(&u, 0, 1, 2, &u), 0,
	       "a tensor at an odd address can be viewed");
	ok(weir_tensor_data(&u) == (char *)weir_buf_data(buf) + 7,
	   "a view of a tensor at an odd address is there");
	weir_buf_free(buf);
}

static void strides_of_one(void)
{
	struct weir_tensor u = made(WEIR_DTYPE_U8, 3, 1, 4, 1);
	struct weir_buf *buf;

	if (weir_buf_alloc(plain, 100, NULL, &buf) < 0)
		bail("%s", weir_error());
	u.stride[0] = 77;
	u.stride[2] = 99;
	weir_tensor_place(&u, buf, 0);
	is_int(weir_tensor_set(&u, 0, "abcd", 4), 0,
	       "the stride of a dimension of 1 makes no gap");
	weir_buf_free(buf);
}

static void alloc_one(void)
{
	struct weir_buf_info info = { .size = sizeof(info) };
	struct weir_tensor t[4];
	struct weir_buf *buf, *none;

	t[0] = made(WEIR_DTYPE_U8, 1, 100, 0, 0);
	t[1] = made(WEIR_DTYPE_U8, 1, 0, 0, 0);
	t[2] = made(WEIR_DTYPE_F32, 1, 3, 0, 0);
	t[3] = made(WEIR_DTYPE_F32, 1, 1, 0, 0);
	is_int(weir_tensors_alloc(plain, t, 4, &buf), 0,
	       "tensors are allocated in one buffer");
	ok(t[0].buf == buf && t[3].buf == buf,
	   "allocated tensors are placed in their buffer");
	ok(t[0].offset == 0 && t[2].offset == 128 && t[3].offset == 192,
	   "allocated tensors begin at multiples of the memory's alignment");
	/* Now all of them are placed. */
	is_int(weir_tensors_alloc(plain, t, 4, &none), 0,
	       "weir_tensors_alloc makes a buffer if all tensors are placed already");
	weir_buf_info(none, &info);
	ok(!info.bytes && weir_buf_data(none),
	   "the buffer for tensors that are all placed has no bytes");
	weir_buf_free(none);
	weir_buf_free(buf);
	is_int(weir_tensors_alloc(plain, NULL, 0, &none), 0,
	       "weir_tensors_alloc makes a buffer for no tensors");
	weir_buf_free(none);
}

static void alloc_joined(void)
{
	struct weir_buft *small = kind_of(weir, "TEST0", WEIR_MEM_PINNED);
	struct weir_buf_info info = { .size = sizeof(info) };
	struct weir_tensor t[9];
	struct weir_buf *buf;
	unsigned outside = 0;

	for (int i = 0; i < 9; i++)
		t[i] = made(WEIR_DTYPE_U8, 1, 1500 + i, 0, 0);
	is_int(weir_tensors_alloc(small, t, 9, &buf), 0,
	       "9 tensors of 1500 bytes fit into buffers of 4096 at most");
	weir_buf_info(buf, &info);
	is_int(info.members, 5,
	       "9 tensors of 1500 bytes are in 5 joined buffers, at most two in each");
	for (int i = 0; i < 9; i++) {
		char *at = weir_tensor_data(&t[i]);
		struct weir_buf *m = weir_buf_member(buf, (unsigned)i / 2);
		char *base = weir_buf_data(m);

		outside += !at || at < base || at + 1500 + i > base + 4096 ||
			   (at - base) % 64;
		if (at)
			memset(at, i, (size_t)(1500 + i));
	}
	is_int(outside, 0, "no tensor crosses two members of a joined buffer");
	weir_buf_free(buf);
}

static void alloc_fails(void)
{
	struct weir_buft *small = kind_of(weir, "TEST0", WEIR_MEM_PINNED);
	struct weir_tensor t[9];
	struct weir_buf *buf;
	unsigned placed = 0;

	for (int i = 0; i < 9; i++)
		t[i] = made(WEIR_DTYPE_U8, 1, 1500 + i, 0, 0);
	t[5] = made(WEIR_DTYPE_U8, 1, 4097, 0, 0);
	t[5].name = "too.large";
	is_err(weir_tensors_alloc(small, t, 9, &buf), -EINVAL,
	       "'too.large': 4097 bytes, the largest buffer of TEST0_Pinned has 4096",
	       "a tensor larger than the largest buffer is refused");
	t[5] = made(WEIR_DTYPE_U8, 1, 4000, 0, 0);
	t[6] = made(WEIR_DTYPE_U8, 1, 1002, 0, 0);
	t[7] = made(WEIR_DTYPE_U8, 1, 4000, 0, 0);
	is_err(weir_tensors_alloc(small, t, 9, &buf), -ENOMEM, "1002 bytes",
	       "weir_tensors_alloc fails if a member cannot be allocated");
	for (int i = 0; i < 9; i++)
		placed += t[i].buf != NULL;
	is_int(placed, 0, "a failed weir_tensors_alloc changes no tensor");
}

static void alloc_padded(void)
{
	struct weir_buft *far = kind_of(weir, "TEST0", WEIR_MEM_DEVICE);
	struct weir_tensor t[2];
	struct weir_buf *buf;

	t[0] = made(WEIR_DTYPE_U8, 1, 513, 0, 0);
	t[1] = made(WEIR_DTYPE_U8, 1, 10, 0, 0);
	is_int(weir_buft_alloc_size(far, &t[0]), 1024,
	       "a backend may pad a tensor");
	is_int(weir_buft_alloc_size(plain, &t[0]), 513,
	       "the CPU does not pad a tensor");
	t[1].ndim = 99;
	is_int(weir_buft_alloc_size(far, &t[1]), 0,
	       "the padded size of a malformed tensor is 0");
	t[1].ndim = 1;
	if (weir_tensors_alloc(far, t, 2, &buf) < 0)
		bail("%s", weir_error());
	is_int(t[1].offset, 1024,
	       "a tensor begins after the padding of the one before it");
	ok(!weir_tensor_data(&t[0]),
	   "a tensor in device memory has no host address");
	weir_buf_free(buf);
}

static void alloc_too_much(void)
{
	struct weir_tensor t[2];
	struct weir_buf *buf;

	t[0] = made(WEIR_DTYPE_U8, 1, MAX, 0, 0);
	t[1] = t[0];
	is_err(weir_tensors_alloc(plain, t, 2, &buf), -EOVERFLOW, "2^63 - 1",
	       "tensors whose sizes add up to over 2^63 - 1 are refused");
	t[0] = made(WEIR_DTYPE_U8, 1, MAX, 0, 0);
	is_err(weir_tensors_alloc(plain, t, 1, &buf), -ENOMEM,
	       "bytes are needed",
	       "tensors larger than the memory are refused");
}

static void measured(void)
{
	struct weir_buft *small = kind_of(weir, "TEST0", WEIR_MEM_PINNED);
	struct weir_tensors_info info = { .size = sizeof(info) };
	struct weir_buf_info made_of = { .size = sizeof(made_of) };
	struct weir_tensor t[9];
	struct weir_buf *buf;
	unsigned placed = 0;

	for (int i = 0; i < 9; i++)
		t[i] = made(WEIR_DTYPE_U8, 1, 1500 + i, 0, 0);
	is_int(weir_tensors_measure(small, t, 9, &info), 0,
	       "tensors are measured");
	for (int i = 0; i < 9; i++)
		placed += t[i].buf != NULL;
	is_int(placed, 0, "measuring places no tensor");
	if (weir_tensors_alloc(small, t, 9, &buf) < 0)
		bail("%s", weir_error());
	weir_buf_info(buf, &made_of);
	weir_buf_free(buf);
	ok(info.tensors == 9 && info.members == 5 &&
		   info.bytes == made_of.bytes,
	   "measuring counts the tensors, buffers and bytes of weir_tensors_alloc");
	t[0] = made(WEIR_DTYPE_U8, 1, MAX, 0, 0);
	ok(weir_tensors_measure(plain, t, 1, &info) == 0 &&
		   info.bytes == (uint64_t)MAX,
	   "measuring allocates nothing, however much it counts");
	is_int(weir_tensors_measure(plain, NULL, 0, &info), 0,
	       "nothing to place is no error of measuring");
	ok(!info.tensors && !info.members && !info.bytes,
	   "nothing to place is measured as 0 tensors in 0 buffers");
	t[0] = made(WEIR_DTYPE_U8, 1, 4097, 0, 0);
	is_err(weir_tensors_measure(small, t, 1, &info), -EINVAL,
	       "the largest buffer of TEST0_Pinned has 4096",
	       "measuring fails where allocating would");
}

/* A list with two views of its last tensor, one of them of the other view. */
static void view_list(struct weir_tensor t[4])
{
	t[0] = made(WEIR_DTYPE_U8, 1, 10, 0, 0);
	t[0].of = 2;
	t[0].offset = 5;
	t[1] = made(WEIR_DTYPE_U8, 1, 40, 0, 0);
	t[1].of = 3;
	t[1].offset = 60;
	t[2] = made(WEIR_DTYPE_U8, 1, 100, 0, 0);
	t[3] = t[1];
	t[3].offset = 0;
}

static void views_follow(void)
{
	struct weir_tensors_info info = { .size = sizeof(info) };
	struct weir_tensor t[4], late;
	struct weir_buf *buf, *more;

	view_list(t);
	weir_tensors_measure(plain, t, 4, &info);
	ok(info.tensors == 1 && info.bytes == 100, "views take no bytes");
	is_int(weir_tensors_alloc(plain, t, 4, &buf), 0,
	       "views are placed with the tensors of their list");
	ok(t[1].buf == buf && t[1].offset == t[2].offset + 60,
	   "a view that is listed before its source follows it");
	ok(t[3].buf == buf && t[3].offset == t[2].offset,
	   "a view that is listed after its source follows it");
	ok(t[0].buf == buf && t[0].offset == t[2].offset + 65,
	   "a view of a view follows the source of both");
	late = made(WEIR_DTYPE_U8, 1, 40, 0, 0);
	late.of = 3;
	late.offset = 1;
	t[0] = late;
	if (weir_tensors_alloc(plain, t, 4, &more) < 0)
		bail("%s", weir_error());
	ok(t[0].buf == buf && t[0].offset == t[2].offset + 1,
	   "a view of a tensor that is placed already gets its place");
	weir_buf_free(more);
	weir_buf_free(buf);
}

static void views_refused(void)
{
	struct weir_tensor t[4];
	struct weir_buf *buf;

	view_list(t);
	t[1].offset = 61;
	is_err(weir_tensors_alloc(plain, t, 4, &buf), -EINVAL,
	       "40 bytes from byte 61 on, its source has 100",
	       "a view in a list must end inside its source");
	view_list(t);
	t[1].of = 5;
	is_err(weir_tensors_alloc(plain, t, 4, &buf), -EINVAL,
	       "a view of tensor 4, the list has 4",
	       "the source of a view must be in the list");
	view_list(t);
	t[1] = t[0];
	t[1].of = 1;
	t[0].offset = t[1].offset = 0;
	is_err(weir_tensors_alloc(plain, t, 4, &buf), -EINVAL,
	       "a view of itself", "views cannot be views of each other");
	ok(!t[0].buf && !t[2].buf && t[3].offset == 0,
	   "a failed call leaves views and tensors as they were");
}

static void place_in_given(void)
{
	struct weir_tensor t[3];
	uint64_t end = 0;
	struct weir_buf *buf;

	if (weir_buf_alloc(plain, 512, NULL, &buf) < 0)
		bail("%s", weir_error());
	for (int i = 0; i < 3; i++)
		t[i] = made(WEIR_DTYPE_U8, 1, 100, 0, 0);
	is_err(weir_tensors_place(buf, 220, t, 3, &end), -ENOSPC,
	       "100 bytes from byte 512 on, the buffer has 512",
	       "tensors that do not fit a given buffer are refused");
	ok(!t[0].buf && !t[1].buf && !end,
	   "a failed weir_tensors_place changes nothing");
	is_int(weir_tensors_place(buf, 100, t, 3, &end), 0,
	       "tensors are placed in a given buffer");
	ok(t[0].offset == 128 && t[1].offset == 256 && t[2].offset == 384 &&
		   t[2].buf == buf,
	   "tensors in a given buffer begin at aligned addresses from its offset on");
	is_int(end, 484,
	       "weir_tensors_place returns where the last tensor ends");
	is_err(weir_tensors_place(buf, 513, t, 3, NULL), -ENOSPC,
	       "byte 513, the buffer has 512",
	       "an offset outside the buffer is refused");
	weir_buf_free(buf);
}

static void place_in_joined(void)
{
	struct weir_tensor t[4];
	struct weir_buf *m[2], *buf;

	if (weir_buf_alloc(plain, 300, NULL, &m[0]) < 0 ||
	    weir_buf_alloc(plain, 400, NULL, &m[1]) < 0 ||
	    weir_buf_join(m, 2, &buf) < 0)
		bail("%s", weir_error());
	for (int i = 0; i < 4; i++)
		t[i] = made(WEIR_DTYPE_U8, 1, 120, 0, 0);
	is_int(weir_tensors_place(buf, 0, t, 4, NULL), 0,
	       "tensors are placed in a joined buffer");
	ok(t[1].offset == 128 && t[2].offset == 300 && t[3].offset == 428,
	   "a tensor that would cross two members is in the second");
	t[0].buf = NULL;
	t[0].offset = 0;
	ok(weir_tensors_place(buf, 550, t, 1, NULL) == 0 && t[0].offset == 556,
	   "tensors are placed from an offset in the second member on");
	weir_buf_free(m[0]);
	weir_buf_free(m[1]);
	weir_buf_free(buf);
}

int main(void)
{
	weir = open_with_good_module();
	plain = kind_of(weir, "CPU", WEIR_MEM_PLAIN);
	plan(10 + 9 + 10 + 5 + 13 + 4 + 9 + 6 + 6 + 7 + 7 + 6 + 4 + 6 + 3);
	shapes();
	dimensions();
	limits();
	empty();
	blocks();
	views_of_blocks();
	malformed();
	views();
	refused_views();
	places();
	odd_address();
	strides_of_one();
	alloc_one();
	alloc_joined();
	alloc_fails();
	alloc_padded();
	alloc_too_much();
	measured();
	views_follow();
	views_refused();
	place_in_given();
	place_in_joined();
	weir_close(weir);
	return done_testing();
}
