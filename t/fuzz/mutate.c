/* SPDX-License-Identifier: MIT */
#include "mutate.h"

#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

uint64_t edit_random(struct edit *e)
{
	uint64_t x = e->random += 0x9e3779b97f4a7c15; /* splitmix64 */

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

size_t edit_below(struct edit *e, size_t n)
{
	return (size_t)(edit_random(e) % n);
}

bool edit_one_in(struct edit *e, size_t n)
{
	return edit_below(e, n) == 0;
}

bool edit_put(struct edit *e, struct span at, const void *bytes, size_t n)
{
	size_t tail = e->n - at.at - at.len;
	uint8_t *copy;

	if (n > e->max - (e->n - at.len))
		return false;
	copy = malloc(n + 1); /* @bytes may be a part of the input */
	if (n)
		memcpy(copy, bytes, n);
	memmove(e->bytes + at.at + n, e->bytes + at.at + at.len, tail);
	if (n)
		memcpy(e->bytes + at.at, copy, n);
	free(copy);
	e->n = at.at + n + tail;
	return true;
}

bool edit_copy(struct edit *e, struct span at, struct span from)
{
	return edit_put(e, at, e->bytes + from.at, from.len);
}

void edit_swap(struct edit *e, struct span a, struct span b)
{
	size_t n, between;
	uint8_t *copy;

	if (a.at > b.at) {
		struct span c = a;

		a = b;
		b = c;
	}
	if (a.at + a.len > b.at)
		return;
	n = b.at + b.len - a.at;
	between = n - a.len - b.len;
	copy = malloc(n + 1);
	memcpy(copy, e->bytes + b.at, b.len);
	memcpy(copy + b.len, e->bytes + a.at + a.len, between);
	memcpy(copy + b.len + between, e->bytes + a.at, a.len);
	memcpy(e->bytes + a.at, copy, n);
	free(copy);
}

static void change_bytes(struct edit *e, struct span at)
{
	uint8_t any[4];
	size_t i = at.at + edit_below(e, at.len + 1);
	size_t n = 1 + edit_below(e, sizeof(any));
	struct span here = { i, 0 };

	if (n > at.at + at.len - i)
		n = at.at + at.len - i;
	for (size_t k = 0; k < sizeof(any); k++)
		any[k] = (uint8_t)edit_random(e);
	switch (edit_below(e, 4)) {
	case 0:
		if (n)
			e->bytes[i] ^= (uint8_t)(1u << (any[0] & 7));
		break;
	case 1:
		here.len = n;
		edit_put(e, here, "", 0);
		break;
	case 2:
		edit_put(e, here, any, 1 + edit_below(e, sizeof(any)));
		break;
	default:
		if (n)
			e->bytes[i] = any[0];
	}
}

#ifdef FUZZING
size_t LLVMFuzzerMutate(uint8_t *bytes, size_t n, size_t max);
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t n, size_t max,
			       unsigned seed);

void edit_bytes(struct edit *e, struct span at)
{
	size_t room = e->max - (e->n - at.len), n;
	uint8_t *copy;

	if (!at.len || !room || edit_one_in(e, 8)) {
		change_bytes(e, at);
		return;
	}
	copy = malloc(room);
	memcpy(copy, e->bytes + at.at, at.len);
	n = LLVMFuzzerMutate(copy, at.len, room);
	edit_put(e, at, copy, n);
	free(copy);
}

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t n, size_t max,
			       unsigned seed)
{
	struct edit e = { bytes, n, max, seed };

	if (edit_one_in(&e, 10))
		return LLVMFuzzerMutate(bytes, n, max);
	fz_mutate(&e);
	return e.n;
}
#else
void edit_bytes(struct edit *e, struct span at)
{
	change_bytes(e, at);
}
#endif

uint64_t edit_number(struct edit *e, uint64_t old)
{
	static const uint64_t limits[] = {
		0,          1,          2,          4,          7,
		8,          9,          31,         32,         63,
		64,         65,         128,        255,        256,
		1ull << 16, 1ull << 20, 1ull << 24, 1ull << 30, 1ull << 31,
		1ull << 32, 1ull << 33, 1ull << 60, 1ull << 61, 1ull << 62,
		1ull << 63, 0xffff,     0xffffffff, UINT64_MAX,
	};
	uint64_t x = limits[edit_below(e, sizeof(limits) / sizeof(limits[0]))];

	switch (edit_below(e, 8)) {
	case 0:
		return old + 1 + edit_below(e, 3);
	case 1:
		return old - 1 - edit_below(e, 3);
	case 2:
		return old * 2;
	case 3:
		return old / 2;
	case 4:
		return x - 1 - edit_below(e, 32);
	case 5:
		return old ^ 1ull << edit_below(e, 64);
	default:
		return x;
	}
}
