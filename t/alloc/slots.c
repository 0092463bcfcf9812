/* SPDX-License-Identifier: MIT */
/* Staging slots: free, reserved and taken. */
#include <weir.h>

#include "alloc/slots.h"
#include "tap.h"

#define CHUNK ((size_t)1 << 20)

static struct weir *weir;

static size_t backed(const struct weir__slots *s)
{
	return weir__slots_bytes(s) / CHUNK;
}

static bool reserve(struct weir__slots *s)
{
	return weir__slot_reserve(s, CHUNK);
}

static struct weir__slot *take_reserved(struct weir__slots *s)
{
	return weir__slot_take_reserved(s, CHUNK);
}

/* Three slots of a chunk, and eight of 128 KiB. */
static struct weir__slots *new_slots(void)
{
	struct weir__slots *s;

	if (weir__slots_new(weir, 4 * CHUNK, CHUNK, &s) < 0)
		bail("no slots");
	return s;
}

static void taken(void)
{
	struct weir__slots *s = new_slots();
	struct weir__slot *a = weir__slot_get(s, CHUNK);
	struct weir__slot *b = weir__slot_get(s, CHUNK);

	ok(a && b && a != b, "two slots that are taken are different");
	is_int(backed(s), 2, "a slot that is taken has its pages");
	weir__slots_free(s);
}

static void reserved(void)
{
	struct weir__slots *s = new_slots();

	ok(reserve(s) && reserve(s) && reserve(s),
	   "each free slot can be reserved");
	ok(!reserve(s), "no more slots can be reserved than are free");
	ok(!weir__slot_get(s, CHUNK), "a reserved slot cannot be taken");
	is_int(backed(s), 0, "a reserved slot needs no pages");
	ok(weir__slot_reserve(s, 4096),
	   "a small slot can be reserved when all large ones are");
	weir__slots_free(s);
}

static void reserved_taken(void)
{
	struct weir__slots *s = new_slots();
	struct weir__slot *a, *b, *c, *small;

	for (int i = 0; i < 3; i++)
		reserve(s);
	weir__slot_reserve(s, 4096);
	a = take_reserved(s);
	b = take_reserved(s);
	ok(a && b && a != b, "two reserved slots that are taken are different");
	weir__slot_put(s, b);
	ok(reserve(s) && take_reserved(s) == b,
	   "the slot that was used last is taken first");
	weir__slot_put(s, a);
	ok(weir__slot_get(s, CHUNK) == a,
	   "a free slot can be taken while another is reserved");
	c = take_reserved(s);
	ok(c && c != a && c != b, "the last reserved slot can be taken");
	is_int(backed(s), 3, "a reserved slot has its pages when it is taken");
	small = weir__slot_take_reserved(s, 4096);
	ok(small && small->bytes < CHUNK,
	   "a reserved small slot can be taken when all large ones are");
	weir__slots_free(s);
}

int main(void)
{
	plan(13);
	if (weir_open(NULL, &weir) < 0)
		bail("%s", weir_error());
	taken();
	reserved();
	reserved_taken();
	weir_close(weir);
	return done_testing();
}
