/* SPDX-License-Identifier: MIT */
/* Staging slots: those that are free, and those that are promised. */
#include "alloc/slots.h"
#include "tap.h"

#define CHUNK ((size_t)1 << 20)

static size_t backed(const struct weir__slots *s)
{
	return weir__slots_bytes(s) / CHUNK;
}

static bool promise(struct weir__slots *s)
{
	return weir__slot_reserve(s, CHUNK);
}

static struct weir__slot *keep(struct weir__slots *s)
{
	return weir__slot_take_reserved(s, CHUNK);
}

int main(void)
{
	struct weir__slot *a, *b, *c, *small;
	struct weir__slots *s;

	plan(13);
	/* Eight of 128 KiB, three of a chunk. */
	if (weir__slots_new(4 * CHUNK, CHUNK, &s) < 0)
		bail("no slots");
	a = weir__slot_get(s, CHUNK);
	b = weir__slot_get(s, CHUNK);
	ok(a && b && a != b, "a slot is one's own");
	is_int(backed(s), 2, "... and its pages are there");
	weir__slot_put(s, b);
	weir__slot_put(s, a);
	ok(promise(s) && promise(s) && promise(s), "each can be promised");
	ok(!promise(s), "... but once");
	ok(!weir__slot_get(s, CHUNK), "... and is nobody else's");
	is_int(backed(s), 2, "a promise needs no memory");
	ok(weir__slot_reserve(s, 4096), "small ones are others");
	a = keep(s);
	b = keep(s);
	ok(a && b && a != b, "a promise is kept");
	weir__slot_put(s, b);
	ok(promise(s) && keep(s) == b,
	   "of several the one that was used last is given");
	weir__slot_put(s, a);
	ok(weir__slot_get(s, CHUNK) == a, "what is not promised can be had");
	c = keep(s);
	ok(c && c != a && c != b, "... and the last promise is kept");
	is_int(backed(s), 3, "... backed when it is");
	small = weir__slot_take_reserved(s, 4096);
	ok(small && small->bytes < CHUNK, "so is the small one");
	weir__slots_free(s);
	return done_testing();
}
