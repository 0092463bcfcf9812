/* SPDX-License-Identifier: MIT */
/*
 * The ranges of memory of an operation, compared with a map that has a byte
 * for each address; and an operation for whose ranges there is no memory: the
 * linker replaces the library's weir__realloc by this test's.
 */
#include <errno.h>

#include "core/sys.h"
#include "stream/stream.h"
#include "tap.h"
#include "streams.h"

#define SPACE 256u

/* Reallocations until one fails; 0: none does. */
static unsigned until;

void *__real_weir__realloc(void *p, size_t n, size_t size);
void *__wrap_weir__realloc(void *p, size_t n, size_t size);

void *__wrap_weir__realloc(void *p, size_t n, size_t size)
{
	if (until && --until == 0)
		return NULL;
	return __real_weir__realloc(p, n, size);
}

static uint32_t next_random(void)
{
	static uint32_t x = 1;

	x = x * 1664525u + 1013904223u;
	return x >> 8;
}

/* By address: 0 not accessed, 1 read, 2 written. */
struct map {
	unsigned char at[SPACE];
};

/*
 * At most @n random ranges, of which no read overlaps a write: that would
 * become part of the write.
 */
static void fill_in(struct weir__access_ranges *r, struct map *map, unsigned n)
{
	weir__ranges_init(r);
	memset(map, 0, sizeof(*map));
	for (unsigned i = 0; i < n; i++) {
		unsigned lo = next_random() % SPACE;
		unsigned hi = lo + next_random() % 4;
		bool write = next_random() % 4 == 0;

		if (hi > SPACE)
			hi = SPACE;
		for (unsigned at = lo; at < hi; at++)
			if (map->at[at] && map->at[at] != 1 + write)
				hi = lo;
		must(weir__ranges_add(r, lo, hi, write));
		for (unsigned at = lo; at < hi; at++)
			map->at[at] = (unsigned char)(1 + write);
	}
	weir__ranges_sort(r);
}

static bool maps_conflict(const struct map *a, const struct map *b)
{
	for (unsigned i = 0; i < SPACE; i++)
		if (a->at[i] && b->at[i] && a->at[i] + b->at[i] > 2)
			return true;
	return false;
}

static bool is_map(const struct weir__access_ranges *r, const struct map *want)
{
	struct map got = { { 0 } };

	for (size_t i = 0; i < r->n; i++) {
		if (r->n > WEIR__RANGES_FEW && i &&
		    r->list[i].lo < r->list[i - 1].hi)
			return false;
		for (uint64_t at = r->list[i].lo; at < r->list[i].hi; at++)
			got.at[at] = (unsigned char)(1 + r->list[i].write);
	}
	return !memcmp(&got, want, sizeof(got));
}

static void like_a_map(void)
{
	unsigned wrong_map = 0, wrong = 0, conflicts = 0;

	for (unsigned i = 0; i < 20000; i++) {
		struct weir__access_ranges a, b;
		struct map in_a, in_b;
		bool conflict;

		fill_in(&a, &in_a, next_random() % 20);
		fill_in(&b, &in_b, next_random() % (i % 2 ? 20 : 4));
		wrong_map += !is_map(&a, &in_a) || !is_map(&b, &in_b);
		conflict = maps_conflict(&in_a, &in_b);
		conflicts += conflict;
		wrong += weir__ranges_conflict(&a, &b) != conflict;
		wrong += weir__ranges_conflict(&b, &a) != conflict;
		weir__ranges_fini(&a);
		weir__ranges_fini(&b);
	}
	is_int(wrong_map, 0,
	       "sorted ranges cover the bytes that were added, many of them disjointly");
	ok(conflicts > 1000 && conflicts < 19000,
	   "of 20000 pairs of random ranges some conflict and some do not");
	is_int(wrong, 0,
	       "two sets of ranges conflict if one writes a byte that the other accesses");
}

static void mixed(void)
{
	struct weir__access_ranges a, b;

	weir__ranges_init(&a);
	weir__ranges_init(&b);
	must(weir__ranges_add(&a, 0, 10, false));
	must(weir__ranges_add(&a, 5, 6, true));
	must(weir__ranges_add(&a, 20, 21, false));
	must(weir__ranges_add(&b, 4, 7, false));
	weir__ranges_sort(&a);
	ok(weir__ranges_conflict(&a, &b),
	   "a write inside a range that is read as well is not lost");
	weir__ranges_fini(&a);
	weir__ranges_fini(&b);
}

static int access_one(struct weir__stream_op *op, struct weir_tensor *t,
		      uint64_t at)
{
	unsigned char *addr;

	return weir__stream_op_access(op, t, at, 1, true, &addr);
}

/* Access @n, from 0, fails at its reallocation @nth; @which is its list. */
static void short_of_memory(struct weir *weir, unsigned n, unsigned nth,
			    const char *which)
{
	struct weir_stream *s = new_stream(weir, "short");
	struct weir_tensor t = bytes(weir, 64);
	struct weir__stream_op *op;

	must(weir__stream_op_begin(s, "many", WEIR_WORK_FILL, &op));
	for (unsigned i = 0; i < n; i++)
		must(access_one(op, &t, 2 * i));
	until = nth;
	is_err(access_one(op, &t, 2 * n), -ENOMEM, "no memory for",
	       "access %u fails where its %s cannot grow", n, which);
	until = 0;
	weir__stream_op_drop(op);
	is_int(t.buf->refs, 1,
	       "an operation dropped after %u accesses references no buffer",
	       n);
	weir_stream_free(s);
	weir_buf_free(t.buf);
}

int main(void)
{
	struct weir *weir;

	plan(10);
	like_a_map();
	mixed();
	weir = open_root(WEIR_IO_SYNC);
	short_of_memory(weir, 2, 1, "list of ranges");
	short_of_memory(weir, 2, 2, "list of buffers");
	short_of_memory(weir, 16, 1, "list of ranges");
	weir_close(weir);
	return done_testing();
}
