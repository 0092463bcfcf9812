/* SPDX-License-Identifier: MIT */
#include "place/scan.h"

#include <string.h>

#include "core/error.h"
#include "core/sys.h"

/* A power of two; a full block is split in half. */
#define BLOCK 64u

/*
 * Boxes by address. Unused entries have the empty life [INT32_MAX, 0), so that
 * the loop over a block has a fixed length, and the compiler vectorises it.
 */
struct weir__scan_block {
	uint32_t n;
	int32_t from, to; /* of all boxes together */
	int32_t begin[BLOCK], end[BLOCK];
	uint64_t at[BLOCK], top[BLOCK];
};

static void block_clear(struct weir__scan_block *b)
{
	b->n = 0;
	b->from = INT32_MAX;
	b->to = 0;
	for (uint32_t i = 0; i < BLOCK; i++) {
		b->begin[i] = INT32_MAX;
		b->end[i] = 0;
	}
}

int weir__scan_init(struct weir__scan *s, size_t n)
{
	/* At least half of each block but one is used. */
	size_t most = n / (BLOCK / 2) + 2;

	*s = (struct weir__scan){ .n_blocks = 0 };
	s->block = weir__malloc(most * sizeof(*s->block));
	s->order = weir__malloc(most * sizeof(*s->order));
	if (s->block && s->order)
		return 0;
	return weir__fail(-ENOMEM, "no memory to place %zu items", n);
}

void weir__scan_free(struct weir__scan *s)
{
	weir__free(s->block);
	weir__free(s->order);
}

void weir__scan_clear(struct weir__scan *s)
{
	s->n_blocks = 1;
	s->order[0] = 0;
	block_clear(&s->block[0]);
}

/* The boxes of the block that live in [from, to), as bits. */
static uint64_t block_match(const struct weir__scan_block *b, int32_t from,
			    int32_t to)
{
	uint8_t lives[BLOCK];
	uint64_t set = 0;

	for (uint32_t i = 0; i < BLOCK; i++)
		lives[i] = (b->begin[i] < to) & (b->end[i] > from);
	for (uint32_t k = 0; k < BLOCK; k += 8) {
		uint64_t eight;

		/* The product has byte k of @eight as bit 56 + k. */
		memcpy(&eight, lives + k, sizeof(eight));
		set |= eight * UINT64_C(0x0102040810204080) >> 56 << k;
	}
	return set;
}

/* What is sought, and what was found so far. */
struct gap_search {
	const struct weir__pieces *p;
	uint64_t bytes, align;
	uint64_t at; /* all gaps below were seen */
	uint64_t best, least;
	enum weir__fit fit;
};

/*
 * Pass the boxes of the block that live, as bits of @set. False: the gap was
 * found.
 */
static bool search_pass(struct gap_search *f, const struct weir__scan_block *b,
			uint64_t set)
{
	const uint64_t bytes = f->bytes;
	uint64_t at = f->at;

	for (; set; set &= set - 1) {
		unsigned i = (unsigned)__builtin_ctzll(set);
		uint64_t begin = b->at[i], top = b->top[i];

		if (begin >= at + bytes) {
			uint64_t left = begin - at - bytes;

			if (left < f->least) {
				f->least = left;
				f->best = at;
			}
			if (f->fit == WEIR__FIT_FIRST)
				return false;
		}
		if (top > at)
			at = weir__pieces_fit(f->p, top, bytes, f->align);
	}
	f->at = at;
	return true;
}

uint64_t weir__scan_gap(struct weir__scan *s, const struct weir__pieces *p,
			const struct weir__box *box, uint64_t bytes,
			uint64_t align, uint64_t lowest, enum weir__fit fit)
{
	int32_t from = (int32_t)box->from, to = (int32_t)box->to;
	struct gap_search f = { .p = p,
				.bytes = bytes,
				.align = align,
				.at = weir__pieces_fit(p, lowest, bytes, align),
				.least = UINT64_MAX,
				.fit = fit };

	for (size_t k = 0; k < s->n_blocks; k++) {
		const struct weir__scan_block *b = &s->block[s->order[k]];

		if (b->from >= to || b->to <= from)
			continue;
		s->examined += BLOCK;
		if (!search_pass(&f, b, block_match(b, from, to)))
			break;
	}
	return f.least < UINT64_MAX ? f.best : f.at;
}

static void block_insert(struct weir__scan_block *b, uint32_t i, int32_t begin,
			 int32_t end, uint64_t at, uint64_t top)
{
	for (uint32_t k = b->n++; k > i; k--) {
		b->begin[k] = b->begin[k - 1];
		b->end[k] = b->end[k - 1];
		b->at[k] = b->at[k - 1];
		b->top[k] = b->top[k - 1];
	}
	b->begin[i] = begin;
	b->end[i] = end;
	b->at[i] = at;
	b->top[i] = top;
	if (b->from > begin)
		b->from = begin;
	if (b->to < end)
		b->to = end;
}

/* Move the upper half of block order[k] to a new block after it. */
static void scan_split(struct weir__scan *s, size_t k)
{
	uint32_t fresh = (uint32_t)s->n_blocks++;
	struct weir__scan_block whole = s->block[s->order[k]];
	struct weir__scan_block *low = &s->block[s->order[k]];
	struct weir__scan_block *high = &s->block[fresh];

	memmove(&s->order[k + 2], &s->order[k + 1],
		(fresh - k - 1) * sizeof(*s->order));
	s->order[k + 1] = fresh;
	block_clear(low);
	block_clear(high);
	for (uint32_t i = 0; i < BLOCK; i++) {
		struct weir__scan_block *half = i < BLOCK / 2 ? low : high;

		block_insert(half, half->n, whole.begin[i], whole.end[i],
			     whole.at[i], whole.top[i]);
	}
}

void weir__scan_add(struct weir__scan *s, const struct weir__box *box,
		    uint64_t at)
{
	size_t low = 0, high = s->n_blocks;
	struct weir__scan_block *b;
	uint32_t i = 0;

	/* The last block that begins at or below @at, else the first. */
	while (high - low > 1) {
		size_t mid = low + (high - low) / 2;

		if (s->block[s->order[mid]].at[0] <= at)
			low = mid;
		else
			high = mid;
	}
	if (s->block[s->order[low]].n == BLOCK) {
		scan_split(s, low);
		if (s->block[s->order[low + 1]].at[0] <= at)
			low++;
	}
	b = &s->block[s->order[low]];
	while (i < b->n && b->at[i] <= at)
		i++;
	block_insert(b, i, (int32_t)box->from, (int32_t)box->to, at,
		     at + box->bytes);
}
