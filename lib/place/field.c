/* SPDX-License-Identifier: MIT */
#include "place/field.h"

#include <stdlib.h>

#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"
#include "place/skyline.h"

/* Conflicts that are listed at most; boxes with too many become long. */
#define PAIRS(n) (((uint64_t)1 << 20) + 12 * (uint64_t)(n))

static int no_memory(size_t n)
{
	return weir__fail(-ENOMEM, "no memory to place %zu items", n);
}

/* Times as numbers of boxes: half-open, as the lifetimes are. */
static void field_times(struct weir__field *f, const struct weir__pieces *p,
			const struct weir__section *s)
{
	size_t from = 0;

	for (size_t i = 0; i < s->n; i++) {
		const struct weir__place_piece *piece = &p->piece[s->piece[i]];
		size_t low = i + 1, high = s->n;

		if (piece->lower != p->piece[s->piece[from]].lower)
			from = i;
		while (low < high) {
			size_t mid = low + (high - low) / 2;

			if (p->piece[s->piece[mid]].lower < piece->upper)
				low = mid + 1;
			else
				high = mid;
		}
		f->box[i].from = (uint32_t)from;
		f->box[i].to = (uint32_t)low;
	}
}

/* Linked pieces by the numbers of their boxes. */
static void field_links(struct weir__field *f, struct weir__pieces *p,
			const struct weir__section *s)
{
	for (size_t i = 0; i < s->n; i++)
		p->piece[s->piece[i]].box = (uint32_t)i;
	/* Backwards: a next piece begins later than the one before it. */
	for (size_t i = s->n; i-- > 0;) {
		const struct weir__place_piece *piece = &p->piece[s->piece[i]];
		struct weir__box *b = &f->box[i];

		b->time = (uint64_t)piece->upper - (uint64_t)piece->lower;
		b->next = piece->next;
		if (piece->next != WEIR__NO_PIECE) {
			b->next = p->piece[piece->next].box;
			b->time += f->box[b->next].time;
		}
	}
}

static void field_boxes(struct weir__field *f, struct weir__pieces *p,
			const struct weir__section *s)
{
	for (size_t i = 0; i < s->n; i++) {
		const struct weir__place_piece *piece = &p->piece[s->piece[i]];

		f->box[i].bytes = piece->bytes;
		f->box[i].align = piece->align;
		f->box[i].lowest = s->base;
		f->box[i].follows = piece->follows;
	}
	field_times(f, p, s);
	field_links(f, p, s);
}

/* The most bytes that live at one time of each box's life. */
static int field_pressure(struct weir__field *f)
{
	struct weir__skyline live;
	int64_t *change = weir__calloc(f->n + 1, sizeof(*change)), sum = 0;

	if (!change || weir__skyline_init(&live, f->n) < 0) {
		weir__free(change);
		return no_memory(f->n);
	}
	for (size_t i = 0; i < f->n; i++) {
		change[f->box[i].from] += (int64_t)f->box[i].bytes;
		change[f->box[i].to] -= (int64_t)f->box[i].bytes;
	}
	for (size_t i = 0; i < f->n; i++) {
		sum += change[i];
		weir__skyline_raise(&live, i, i + 1, (uint64_t)sum);
	}
	for (size_t i = f->n; i-- > 0;) {
		struct weir__box *b = &f->box[i];

		b->pressure = weir__skyline_max(&live, b->from, b->to);
		if (b->next != WEIR__NO_PIECE &&
		    b->pressure < f->box[b->next].pressure)
			b->pressure = f->box[b->next].pressure;
	}
	weir__skyline_free(&live);
	weir__free(change);
	return 0;
}

/*
 * Numbers of boxes that are not long: alive[i] when box i begins, begun[i]
 * before box i. Returns the sum of the former: the pairs that conflict.
 */
static uint64_t count_alive(const struct weir__field *f, uint32_t *alive,
			    uint32_t *begun)
{
	uint64_t pairs = 0;
	uint32_t sum = 0;

	for (size_t i = 0; i <= f->n; i++)
		alive[i] = 0;
	for (size_t i = 0; i < f->n; i++) {
		const struct weir__box *b = &f->box[i];

		begun[i] = i ? begun[i - 1] + !f->box[i - 1].is_long : 0;
		if (!b->is_long) {
			alive[i]++;
			alive[b->to]--; /* may wrap: sums are right */
		}
	}
	begun[f->n] = f->n ? begun[f->n - 1] + !f->box[f->n - 1].is_long : 0;
	for (size_t i = 0; i < f->n; i++) {
		uint32_t change = alive[i];

		/* Boxes that end before box i no longer live. */
		alive[i] = sum + change - (f->box[i].is_long ? 0 : 1);
		sum += change;
		if (!f->box[i].is_long)
			pairs += alive[i];
	}
	return pairs;
}

/* Make the boxes with the most conflicts long; false: they are alike. */
static bool field_lengthen(struct weir__field *f, const uint32_t *alive,
			   const uint32_t *begun, uint64_t pairs)
{
	uint64_t mean = 2 * pairs / begun[f->n];
	bool any = false;

	for (size_t i = 0; i < f->n; i++) {
		struct weir__box *b = &f->box[i];
		uint64_t own = alive[i] + begun[b->to] - begun[i];

		if (!b->is_long && own > 2 * mean)
			any = b->is_long = true;
	}
	return any;
}

/* Linked boxes are long together. */
static void field_lengthen_links(struct weir__field *f)
{
	for (size_t i = 0; i < f->n; i++) {
		uint32_t j = (uint32_t)i;
		bool is_long = false;

		if (f->box[i].follows || f->box[i].next == WEIR__NO_PIECE)
			continue;
		for (; j != WEIR__NO_PIECE; j = f->box[j].next)
			is_long |= f->box[j].is_long;
		for (j = (uint32_t)i; j != WEIR__NO_PIECE; j = f->box[j].next)
			f->box[j].is_long = is_long;
	}
}

/* List the boxes that live when each box begins. */
static int field_alive(struct weir__field *f, uint64_t pairs)
{
	uint32_t *now = weir__malloc(f->n * sizeof(*now));
	size_t n_now = 0, at = 0;

	f->alive = weir__malloc((pairs + 1) * sizeof(*f->alive));
	if (!now || !f->alive) {
		weir__free(now);
		return no_memory(f->n);
	}
	for (size_t i = 0; i < f->n; i++) {
		size_t kept = 0;

		f->alive_at[i] = at;
		if (f->box[i].is_long)
			continue;
		for (size_t k = 0; k < n_now; k++)
			if (f->box[now[k]].to > i)
				now[kept++] = f->alive[at++] = now[k];
		n_now = kept;
		now[n_now++] = (uint32_t)i;
	}
	f->alive_at[f->n] = at;
	weir__free(now);
	return 0;
}

static int key_order(const void *a, const void *b)
{
	const struct weir__box_key *x = a, *y = b;

	if (x->first != y->first)
		return x->first > y->first ? -1 : 1;
	if (x->second != y->second)
		return x->second > y->second ? -1 : 1;
	return x->box < y->box ? -1 : x->box > y->box;
}

void weir__boxes_sort(struct weir__box_key *key, size_t n)
{
	size_t i = 1;

	while (i < n && key_order(&key[i - 1], &key[i]) < 0)
		i++;
	if (i < n)
		qsort(key, n, sizeof(*key), key_order);
}

/* Place a long box, and its next ones, on top of those that were placed. */
static void long_place(struct weir__field *f, const struct weir__pieces *p,
		       struct weir__skyline *sky, uint32_t i)
{
	uint64_t at = f->box[i].lowest, top;
	uint32_t j;

	for (j = i; j != WEIR__NO_PIECE; j = f->box[j].next) {
		top = weir__skyline_max(sky, f->box[j].from, f->box[j].to);
		if (at < top)
			at = top;
	}
	at = weir__pieces_fit(p, at, f->box[i].bytes, f->box[i].align);
	for (j = i; j != WEIR__NO_PIECE; j = f->box[j].next) {
		f->long_at[j] = at;
		weir__skyline_raise(sky, f->box[j].from, f->box[j].to,
				    at + f->box[j].bytes);
	}
	if (f->long_end < at + f->box[i].bytes)
		f->long_end = at + f->box[i].bytes;
}

/* Place the long boxes, the longest first; the others come above them. */
static int field_place_long(struct weir__field *f, const struct weir__pieces *p)
{
	struct weir__skyline sky;
	struct weir__box_key *key = weir__malloc(f->n * sizeof(*key));
	size_t n = 0;

	if (!key || weir__skyline_init(&sky, f->n) < 0) {
		weir__free(key);
		return no_memory(f->n);
	}
	for (uint32_t i = 0; i < f->n; i++) {
		const struct weir__box *b = &f->box[i];

		if (b->is_long && !b->follows)
			key[n++] =
				(struct weir__box_key){ b->time, b->bytes, i };
	}
	weir__boxes_sort(key, n);
	for (size_t i = 0; i < n; i++)
		long_place(f, p, &sky, key[i].box);
	for (size_t i = 0; i < f->n; i++) {
		struct weir__box *b = &f->box[i];
		uint64_t top = weir__skyline_max(&sky, b->from, b->to);

		if (b->lowest < top)
			b->lowest = top;
	}
	weir__skyline_free(&sky);
	weir__free(key);
	return 0;
}

static void field_most(struct weir__field *f)
{
	for (uint32_t i = 0; i < f->n; i++) {
		size_t sum = 0;

		if (f->box[i].follows)
			continue;
		for (uint32_t j = i; j != WEIR__NO_PIECE; j = f->box[j].next)
			sum += f->alive_at[j + 1] - f->alive_at[j] +
			       f->box[j].to - j;
		if (f->most < sum)
			f->most = sum;
	}
}

void weir__field_shorten(struct weir__field *f)
{
	for (size_t i = 0; i < f->n; i++)
		f->box[i].is_long = false;
	f->has_long = false;
}

/* Decide which boxes are long, until the others' conflicts can be listed. */
static int field_conflicts(struct weir__field *f, const struct weir__pieces *p)
{
	uint32_t *alive = weir__malloc(2 * (f->n + 1) * sizeof(*alive));
	uint64_t pairs;

	if (!alive)
		return no_memory(f->n);
	while ((pairs = count_alive(f, alive, alive + f->n + 1)) >
		       PAIRS(f->n) &&
	       !f->crowded) {
		if (!field_lengthen(f, alive, alive + f->n + 1, pairs)) {
			weir__field_shorten(f);
			f->crowded = true;
		}
		field_lengthen_links(f);
		f->has_long = !f->crowded;
	}
	weir__free(alive);
	if (f->crowded)
		return 0;
	if (f->has_long && field_place_long(f, p) < 0)
		return -ENOMEM;
	return field_alive(f, pairs);
}

int weir__field_init(struct weir__field *f, struct weir__pieces *p,
		     const struct weir__section *s)
{
	int r;

	*f = (struct weir__field){ .n = s->n };
	f->box = weir__calloc(s->n, sizeof(*f->box));
	f->span = weir__calloc(s->n, sizeof(*f->span));
	f->long_at = weir__calloc(s->n, sizeof(*f->long_at));
	f->alive_at = weir__calloc(s->n + 1, sizeof(*f->alive_at));
	if (!f->box || !f->span || !f->long_at || !f->alive_at)
		return no_memory(s->n);
	field_boxes(f, p, s);
	r = field_conflicts(f, p);
	if (r < 0 || f->crowded)
		return r;
	r = field_pressure(f);
	if (r < 0)
		return r;
	field_most(f);
	return 0;
}

void weir__field_free(struct weir__field *f)
{
	weir__free(f->box);
	weir__free(f->span);
	weir__free(f->long_at);
	weir__free(f->alive_at);
	weir__free(f->alive);
}
