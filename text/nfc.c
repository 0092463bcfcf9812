/* SPDX-License-Identifier: MIT */
/*
 * A text is decomposed, marks are ordered by their combining classes, and then
 * characters are composed again.
 */
#include "nfc.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "error.h"
#include "table_memory.h"
#include "nfc_mappings.h"
#include "nfc_order.h"
#include "utf8.h"

#define N(array) (sizeof(array) / sizeof((array)[0]))
#define MASK 0x1fffffu /* the bits of a character in a table */

/* Hangul syllables are made of a first, a second and perhaps a third part. */
#define FIRST 0x1100u
#define SECOND 0x1161u
#define THIRD 0x11a7u /* the code of no third part */
#define SYLLABLE 0xac00u
#define FIRSTS 19u
#define SECONDS 21u
#define THIRDS 28u

/*
 * A decomposed text. An item is a combining class << 56, a place among marks
 * << 24, and a character, so that sorting by numbers keeps equal classes in
 * their order.
 */
struct decomposed {
	uint64_t *item;
	size_t n;
};

static uint32_t item_char(uint64_t item)
{
	return item & 0xffffff;
}

static unsigned item_class(uint64_t item)
{
	return (unsigned)(item >> 56);
}

static unsigned class_of(uint32_t c)
{
	size_t low = 0, high = N(classes);

	while (high - low > 1) {
		size_t middle = (low + high) / 2;

		if (classes[middle] >> 8 <= c)
			low = middle;
		else
			high = middle;
	}
	return classes[low] & 0xff;
}

/* Return the entry of @table whose bits from @shift up are @key, or 0. */
static uint64_t mapping_find(const uint64_t *table, size_t n, unsigned shift,
			     uint32_t key)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (table[middle] >> shift < key)
			low = middle + 1;
		else
			high = middle;
	}
	return low < n && table[low] >> shift == key ? table[low] : 0;
}

static void put_char(struct decomposed *d, uint32_t c)
{
	d->item[d->n++] = (uint64_t)class_of(c) << 56 | c;
}

static void put_syllable(struct decomposed *d, uint32_t c)
{
	uint32_t i = c - SYLLABLE;

	put_char(d, FIRST + i / (SECONDS * THIRDS));
	put_char(d, SECOND + i / THIRDS % SECONDS);
	if (i % THIRDS)
		put_char(d, THIRD + i % THIRDS);
}

/* Of two parts only the first is decomposed further, a few times. */
static void decompose(struct decomposed *d, uint32_t c)
{
	uint64_t pair, single;

	if (c >= SYLLABLE && c < SYLLABLE + FIRSTS * SECONDS * THIRDS) {
		put_syllable(d, c);
		return;
	}
	pair = c < 0xc0 ? 0 : mapping_find(pairs, N(pairs), 42, c);
	if (pair) {
		decompose(d, pair >> 21 & MASK);
		decompose(d, pair & MASK);
		return;
	}
	single = c < 0xc0 ? 0 : mapping_find(singles, N(singles), 21, c);
	if (single)
		decompose(d, single & MASK);
	else
		put_char(d, c);
}

static int item_compare(const void *x, const void *y)
{
	uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;

	return (a > b) - (a < b);
}

/* Sort the items from @from to @to, which are marks. */
static void order_marks(struct decomposed *d, size_t from, size_t to)
{
	if (to - from < 2)
		return;
	for (size_t i = from; i < to; i++)
		d->item[i] |= (uint64_t)(i - from) << 24;
	qsort(d->item + from, to - from, sizeof(*d->item), item_compare);
}

static void order(struct decomposed *d)
{
	size_t from = 0;

	for (size_t i = 0; i <= d->n; i++) {
		if (i < d->n && item_class(d->item[i]))
			continue;
		order_marks(d, from, i);
		from = i + 1;
	}
}

/* Return the character that two characters compose to, or 0. */
static uint32_t compose_pair(uint32_t a, uint32_t b)
{
	uint64_t key = (uint64_t)a << 21 | b, lower = (1ull << 42) - 1;
	size_t low = 0, high = N(composed);

	if (a >= FIRST && a < FIRST + FIRSTS && b >= SECOND &&
	    b < SECOND + SECONDS)
		return SYLLABLE + ((a - FIRST) * SECONDS + b - SECOND) * THIRDS;
	if (a >= SYLLABLE && a < SYLLABLE + FIRSTS * SECONDS * THIRDS &&
	    (a - SYLLABLE) % THIRDS == 0 && b > THIRD && b < THIRD + THIRDS)
		return a + b - THIRD;
	while (low < high) {
		size_t middle = (low + high) / 2;

		if ((pairs[composed[middle]] & lower) < key)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == N(composed) || (pairs[composed[low]] & lower) != key)
		return 0;
	return (uint32_t)(pairs[composed[low]] >> 42);
}

/*
 * A mark composes with the last starter (a character of class 0) unless one of
 * its class or a greater one is between them.
 */
static void compose(struct decomposed *d)
{
	size_t starter = SIZE_MAX, n = 0;
	unsigned last = 0;

	for (size_t i = 0; i < d->n; i++) {
		unsigned class = item_class(d->item[i]);
		bool near = n == starter + 1;
		uint32_t c = 0;

		if (starter != SIZE_MAX && (near || last < class))
			c = compose_pair(item_char(d->item[starter]),
					 item_char(d->item[i]));
		if (c) {
			d->item[starter] = c;
			continue;
		}
		if (!class)
			starter = n;
		last = class;
		d->item[n++] = d->item[i];
	}
	d->n = n;
}

bool nfc_needed(const unsigned char *s, size_t len)
{
	/* Characters below U+0300 neither compose nor change. */
	for (size_t i = 0; i < len; i++)
		if (s[i] >= 0xcc)
			return true;
	return false;
}

int nfc_put(const unsigned char *s, size_t len, unsigned char *to,
	    size_t *ret_len)
{
	struct decomposed d = { .n = 0 };
	size_t n = 0;
	uint32_t c;

	/* Two bytes become three characters at most, three bytes also. */
	d.item = memory_table((len / 2 * 3 + 3) * sizeof(*d.item));
	if (!d.item)
		return text_fail(-ENOMEM, "no memory for %zu bytes", len);
	for (size_t i = 0; i < len;) {
		i += utf8_get(s + i, &c);
		decompose(&d, c);
	}
	order(&d);
	compose(&d);
	for (size_t i = 0; i < d.n; i++)
		n += utf8_put(to + n, item_char(d.item[i]));
	*ret_len = n;
	free(d.item);
	return 0;
}
