/* SPDX-License-Identifier: MIT */
/* The ranges of the race checker, compared with an entry for each byte. */
#include <stdlib.h>
#include <string.h>

#include "races/races_map.h"
#include "tap.h"

#define BYTES 200u
#define SPACES 2u
#define ACTORS 4u

/* The last writer of a byte, and the number of each actor that has read it. */
struct byte {
	struct weir__races_epoch write;
	uint64_t read[ACTORS];
};

static struct byte bytes[SPACES][BYTES];
static struct weir__races_map map;
static uint64_t found; /* hash of conflicts, the same in any order */

static uint64_t some(uint64_t below)
{
	return (uint64_t)rand() % below;
}

static uint64_t hash(uint16_t actor, uint64_t number, bool wrote, uint64_t at)
{
	uint64_t h = number * 8 + actor * 2u + wrote;

	return (h * 1000003 + at) * UINT64_C(0x9e3779b97f4a7c15) >> 8;
}

static void conflict(void *arg, const struct weir__races_epoch *other,
		     bool wrote, uint64_t lo, uint64_t hi)
{
	(void)arg;
	for (uint64_t at = lo; at < hi; at++)
		found += hash(other->actor, other->number, wrote, at);
}

static bool never(void *arg, const struct weir__races_epoch *epoch)
{
	(void)arg;
	(void)epoch;
	return false;
}

static bool is_actor_1(void *arg, const struct weir__races_epoch *epoch)
{
	(void)arg;
	return epoch->actor == 1;
}

/* The conflicts of an access with each byte, and its effect. */
static uint64_t plain_visit(const struct weir__races_visit *v)
{
	uint64_t want = 0;

	for (uint64_t at = v->lo; at < v->hi; at++) {
		struct byte *b = &bytes[v->space][at];

		if (b->write.actor != WEIR__RACES_NOBODY)
			want += hash(b->write.actor, b->write.number, true, at);
		for (uint16_t i = 0; v->write && i < ACTORS; i++)
			if (b->read[i])
				want += hash(i, b->read[i], false, at);
		if (v->by.actor == WEIR__RACES_NOBODY)
			continue;
		if (v->write) {
			memset(b->read, 0, sizeof(b->read));
			b->write = v->by;
		} else {
			b->read[v->by.actor] = v->by.number;
		}
	}
	return want;
}

static void plain_forget(uint64_t space, uint64_t lo, uint64_t hi)
{
	for (uint64_t at = lo; at < hi; at++) {
		memset(&bytes[space][at], 0, sizeof(bytes[space][at]));
		bytes[space][at].write.actor = WEIR__RACES_NOBODY;
	}
}

static void plain_prune(void)
{
	for (unsigned s = 0; s < SPACES; s++)
		for (unsigned at = 0; at < BYTES; at++) {
			struct byte *b = &bytes[s][at];

			b->read[1] = 0;
			if (b->write.actor == 1)
				b->write.actor = WEIR__RACES_NOBODY;
		}
}

static bool visit(uint64_t number)
{
	struct weir__races_visit v = { .space = some(SPACES),
				       .write = some(2),
				       .by = { .number = number },
				       .conflict = conflict,
				       .old = never };

	v.by.actor = some(8) ? (uint16_t)some(ACTORS) : WEIR__RACES_NOBODY;
	v.lo = some(BYTES);
	v.hi = v.lo + 1 + some(some(2) ? 8 : BYTES - v.lo);
	v.hi = v.hi < BYTES ? v.hi : BYTES;
	found = 0;
	weir__races_map_visit(&map, &v);
	return found == plain_visit(&v);
}

static bool in_order(void)
{
	const struct weir__races_range *r = map.first[0], *next;
	uint32_t n = r != NULL;

	for (; r && (next = r->next[0]); r = next, n++)
		if (r->lo >= r->hi || next->space < r->space ||
		    (next->space == r->space && next->lo < r->hi))
			return false;
	return n == map.n;
}

static unsigned random_calls(unsigned n)
{
	unsigned wrong = 0;

	for (unsigned i = 1; i <= n; i++) {
		uint64_t space = some(SPACES), lo = some(BYTES);
		uint64_t hi = lo + some(BYTES - lo + 1);

		wrong += !visit(i);
		if (some(20) == 0) {
			weir__races_map_forget(&map, space, lo, hi);
			plain_forget(space, lo, hi);
		}
		if (some(500) == 0) {
			weir__races_map_prune(&map, BYTES * SPACES, is_actor_1,
					      NULL);
			plain_prune();
		}
		wrong += !in_order();
	}
	return wrong;
}

int main(void)
{
	plan(3);
	srand(1);
	for (unsigned s = 0; s < SPACES; s++)
		plain_forget(s, 0, BYTES);
	is_int(random_calls(100000), 0,
	       "ranges find the conflicts that an entry for each byte finds");
	weir__races_map_prune(&map, 10, never, NULL);
	is_int(map.n, 10, "no more ranges are kept than a number");
	weir__races_map_fini(&map);
	is_int(map.n, 0, "all ranges can be freed");
	return done_testing();
}
