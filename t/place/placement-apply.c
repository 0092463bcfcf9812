/* SPDX-License-Identifier: MIT */
/* Placements applied: buffers for them, and tensors in these. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <weir.h>

#include "kind.h"
#include "placed.h"
#include "tap.h"

static struct weir *weir;
static struct weir_buft *plain;

/*
 * The graph of a known mistake: a = x + k, b = a * k, and d = b + k, or d = b +
 * a, with as many nodes of the same sizes. x = 1, k = 2.
 */
static void graph_items(bool uses_a, struct weir_lifetime items[3])
{
	for (int i = 0; i < 3; i++)
		items[i] = (struct weir_lifetime){
			.lower = i,
			.upper = i + 2,
			.bytes = 4,
			.flags = i ? WEIR_PLACE_OVER : 0,
			.over = i ? (uint64_t)i - 1 : 0
		};
	if (uses_a)
		items[0].upper = 3;
	items[2].flags |= WEIR_PLACE_OUTPUT;
}

static float graph_run(const struct weir_placement *p, bool uses_a)
{
	struct weir_buf *buf = NULL;
	struct weir_tensor t[3];
	float *a, *b, *d, result;

	for (int i = 0; i < 3; i++)
		weir_tensor_init(&t[i], WEIR_DTYPE_F32, 0, NULL);
	if (weir_placement_alloc(p, &plain, &buf) < 0 ||
	    weir_placement_apply(p, &buf, t, 3) < 0)
		bail("%s", weir_error());
	a = weir_tensor_data(&t[0]);
	b = weir_tensor_data(&t[1]);
	d = weir_tensor_data(&t[2]);
	*a = 1 + 2;
	*b = *a * 2;
	*d = *b + (uses_a ? *a : 2);
	result = *d;
	weir_buf_free(buf);
	return result;
}

/* True if the fingerprints are the same. */
static bool same(const struct weir_placement *a, const struct weir_placement *b)
{
	struct weir_placement_info x = placed_info(a), y = placed_info(b);

	return !memcmp(x.fingerprint, y.fingerprint, sizeof(x.fingerprint));
}

static void changed_edges(void)
{
	struct weir_lifetime first[3], second[3];
	struct weir_placement *p, *q;

	graph_items(false, first);
	graph_items(true, second);
	p = placed(first, 3, NULL);
	q = placed(second, 3, NULL);
	ok(!same(p, q),
	   "placements of graphs with other edges have other fingerprints");
	is_int((int)graph_run(p, false), 8,
	       "the first graph computes in place");
	is_int((int)graph_run(q, true), 9,
	       "a graph that uses a tensor longer does not overwrite it in place");
	weir_placement_free(p);
	weir_placement_free(q);
}

static struct weir_placement *of_bytes(uint64_t bytes)
{
	struct weir_lifetime item = { .upper = 1, .bytes = bytes };

	return placed(&item, 1, NULL);
}

static void failed_alloc(void)
{
	struct weir_placement *p = of_bytes(4096);
	struct weir_placement *large = of_bytes((uint64_t)1 << 59);
	struct weir_buf *buf = NULL, *before;
	struct weir_tensor t;
	int64_t n = 4096;

	if (weir_placement_alloc(p, &plain, &buf) < 0)
		bail("%s", weir_error());
	before = buf;
	memset(weir_buf_data(buf), 42, 4096);
	is_err(weir_placement_alloc(large, &plain, &buf), -ENOMEM, "bytes",
	       "a placement that is too large is not allocated");
	ok(buf == before && ((char *)weir_buf_data(buf))[4095] == 42,
	   "a placement that cannot be allocated leaves the buffer in use as it is");
	weir_tensor_init(&t, WEIR_DTYPE_U8, 1, &n);
	ok(weir_placement_alloc(p, &plain, &buf) == 0 &&
		   weir_placement_apply(p, &buf, &t, 1) == 0 &&
		   weir_tensor_data(&t) == weir_buf_data(before),
	   "the placement in use is applied again after a larger one has failed");
	weir_buf_free(buf);
	weir_placement_free(p);
	weir_placement_free(large);
}

static void measuring(void)
{
	struct weir_buf_info info = { .size = sizeof(info) };
	struct weir_placement *p = of_bytes(256), *measured;
	struct weir_buf *buf = NULL, *before;
	void *data;

	if (weir_placement_alloc(p, &plain, &buf) < 0)
		bail("%s", weir_error());
	before = buf;
	data = weir_buf_data(buf);
	measured = of_bytes(1 << 20);
	is_int(placed_info(measured).bytes, 1 << 20,
	       "a placement tells its bytes before anything is allocated");
	weir_placement_free(measured);
	weir_buf_info(buf, &info);
	ok(buf == before && info.bytes == 256 && weir_buf_data(buf) == data,
	   "measuring a larger graph leaves the buffer in use as it is");
	weir_buf_free(buf);
	weir_placement_free(p);
}

static void buffers_stay(void)
{
	struct weir_placement *small = of_bytes(100), *large = of_bytes(9000);
	struct weir_buf *buf = NULL, *before;

	if (weir_placement_alloc(small, &plain, &buf) < 0)
		bail("%s", weir_error());
	before = weir_buf_ref(buf);
	is_int(weir_placement_alloc(large, &plain, &buf), 0,
	       "a buffer that is too small is replaced");
	ok(buf != before, "a larger placement has a larger buffer");
	weir_buf_free(before);
	before = buf;
	is_int(weir_placement_alloc(small, &plain, &buf), 0,
	       "a smaller placement has room in a large buffer");
	ok(buf == before, "a buffer that is large enough stays");
	weir_buf_free(buf);
	weir_placement_free(small);
	weir_placement_free(large);
}

static struct weir_tensor tensor_of(int64_t n)
{
	struct weir_tensor t;

	if (weir_tensor_init(&t, WEIR_DTYPE_U8, 1, &n) < 0)
		bail("%s", weir_error());
	return t;
}

static void apply_refused(void)
{
	struct weir_lifetime items[2] = { { .upper = 1, .bytes = 100 },
					  { .upper = 1, .bytes = 100 } };
	struct weir_placement *p = placed(items, 2, NULL);
	struct weir_tensor t[3] = { tensor_of(100), tensor_of(101),
				    tensor_of(60) };
	struct weir_buf *buf, *none = NULL;

	if (weir_buf_alloc(plain, 199, NULL, &buf) < 0)
		bail("%s", weir_error());
	is_err(weir_placement_apply(p, &buf, t, 2), -ENOSPC,
	       "buffer 0 has 199 bytes, the items need 200",
	       "a buffer of the caller that is too small is refused");
	is_err(weir_placement_apply(p, &none, t, 2), -EINVAL, "NULL",
	       "a missing buffer is refused");
	weir_buf_free(buf);
	if (weir_buf_alloc(plain, 200, NULL, &buf) < 0)
		bail("%s", weir_error());
	is_err(weir_placement_apply(p, &buf, t, 2), -ENOSPC,
	       "101 bytes, item 1 has 100",
	       "a tensor that is larger than its item is refused");
	is_err(weir_placement_apply(p, &buf, t, 1), -EINVAL,
	       "1 tensors for 2 items", "a missing tensor is refused");
	t[1] = tensor_of(100);
	t[2].of = 2;
	t[2].offset = 41;
	is_err(weir_placement_apply(p, &buf, t, 3), -EINVAL,
	       "60 bytes from byte 41 on, its source has 100",
	       "a view that ends outside its source is refused");
	ok(!t[0].buf && !t[1].buf && !t[2].buf,
	   "a failed weir_placement_apply changes no tensor");
	t[2].offset = 40;
	is_int(weir_placement_apply(p, &buf, t, 3), 0,
	       "views follow the tensors of the items");
	ok(t[2].buf == buf && t[2].offset == t[1].offset + 40,
	   "a view is where its source is");
	weir_buf_free(buf);
	weir_placement_free(p);
}

/* A view of a view of a tensor that is no item, and is placed later. */
static void apply_leaves_other_views(void)
{
	struct weir_lifetime item = { .upper = 1, .bytes = 64 };
	struct weir_placement *p = placed(&item, 1, NULL);
	struct weir_tensor t[4] = { tensor_of(64), tensor_of(64), tensor_of(40),
				    tensor_of(8) };
	struct weir_buf *buf;

	t[2].of = 2;
	t[2].offset = 16;
	t[3].of = 3;
	t[3].offset = 8;
	if (weir_buf_alloc(plain, 128, NULL, &buf) < 0)
		bail("%s", weir_error());
	for (int i = 0; i < 3; i++)
		if (weir_placement_apply(p, &buf, t, 4) < 0)
			bail("%s", weir_error());
	ok(!t[3].buf && t[3].offset == 8,
	   "a view of what is not placed stays as it is");
	if (weir_tensor_place(&t[1], buf, 64) < 0 ||
	    weir_placement_apply(p, &buf, t, 4) < 0)
		bail("%s", weir_error());
	ok(t[3].buf == buf && t[3].offset == 64 + 16 + 8,
	   "it follows once its source is placed");
	weir_buf_free(buf);
	weir_placement_free(p);
}

/* Joined buffers at odd addresses that are larger than the placement needs. */
static void apply_joined(void)
{
	static unsigned char memory[2][20000] __attribute__((aligned(4096)));
	struct weir_lifetime items[4];
	struct weir_place_memory kind = { .align = 256, .max = 8192 };
	struct weir_tensor t[4];
	struct weir_buf *m[2], *buf, *own = NULL;
	struct weir_placement *p;
	unsigned wrong = 0;

	for (int i = 0; i < 4; i++) {
		items[i] = (struct weir_lifetime){ .upper = 1, .bytes = 4000 };
		t[i] = tensor_of(4000);
	}
	items[3].align = 4096;
	p = placed(items, 4, &kind);
	for (int i = 0; i < 2; i++)
		if (weir_buf_wrap(plain, memory[i] + 1 + i, 15000, NULL, NULL,
				  &m[i]) < 0)
			bail("%s", weir_error());
	if (weir_buf_join(m, 2, &buf) < 0)
		bail("%s", weir_error());
	is_int(weir_placement_apply(p, &buf, t, 4), 0,
	       "a placement is applied to a joined buffer of the caller's memory");
	for (size_t i = 0; i < 4; i++) {
		uintptr_t at = (uintptr_t)weir_tensor_data(&t[i]);

		wrong += !at || at % (i == 3 ? 4096 : 256);
		for (size_t k = 0; k < i; k++)
			wrong += llabs((long long)at -
				       (long long)(uintptr_t)weir_tensor_data(
					       &t[k])) < 4000;
	}
	is_int(wrong, 0,
	       "tensors in the caller's memory have aligned addresses and are apart");
	is_int(weir_placement_alloc(p, &plain, &own), 0,
	       "a placement of several buffers is allocated");
	ok(weir_buf_member(own, 1) && !weir_buf_member(own, 2) &&
		   weir_placement_apply(p, &own, t, 4) == 0 &&
		   !((uintptr_t)weir_tensor_data(&t[3]) % 4096),
	   "tensors are placed again, in the joined buffer that was allocated");
	weir_buf_free(m[0]);
	weir_buf_free(m[1]);
	weir_buf_free(buf);
	weir_buf_free(own);
	weir_placement_free(p);
}

int main(void)
{
	if (weir_open(NULL, &weir) < 0)
		bail("%s", weir_error());
	plain = kind_of(weir, "CPU", WEIR_MEM_PLAIN);
	plan(3 + 3 + 2 + 4 + 8 + 2 + 4);
	changed_edges();
	failed_alloc();
	measuring();
	buffers_stay();
	apply_refused();
	apply_leaves_other_views();
	apply_joined();
	weir_close(weir);
	return done_testing();
}
