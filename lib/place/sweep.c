/* SPDX-License-Identifier: MIT */
#include "place/sweep.h"

#include "core/error.h"
#include "core/sys.h"
#include "place/gaps.h"

struct sweep {
	struct weir__field *f;
	const struct weir__pieces *p;
	struct weir__gaps gaps;
	bool backwards;
	struct weir__box_key *key; /* heads of linked boxes, by their begin */
	size_t n;
	uint32_t *ending; /* n + 1: 1 + the last head that ends there */
	uint32_t *next;   /* 1 + the one that ends there too */
	uint64_t height;
};

/* The begin and the end of a box and those linked to it, in the sweep. */
static uint32_t begin_of(const struct sweep *s, uint32_t i)
{
	if (!s->backwards)
		return s->f->box[i].from;
	while (s->f->box[i].next != WEIR__NO_PIECE)
		i = s->f->box[i].next;
	return (uint32_t)s->f->n - s->f->box[i].to;
}

static uint32_t end_of(const struct sweep *s, uint32_t i)
{
	if (s->backwards)
		return (uint32_t)s->f->n - s->f->box[i].from;
	while (s->f->box[i].next != WEIR__NO_PIECE)
		i = s->f->box[i].next;
	return s->f->box[i].to;
}

static void sweep_sort(struct sweep *s)
{
	for (uint32_t i = 0; i < s->f->n; i++) {
		uint32_t end;

		if (s->f->box[i].follows)
			continue;
		s->key[s->n++] =
			(struct weir__box_key){ UINT32_MAX - begin_of(s, i),
						s->f->box[i].bytes, i };
		end = end_of(s, i);
		s->next[i] = s->ending[end];
		s->ending[end] = i + 1;
	}
	weir__boxes_sort(s->key, s->n);
}

static void sweep_end(struct sweep *s, uint32_t moment)
{
	for (uint32_t i = s->ending[moment]; i; i = s->next[i - 1]) {
		struct weir__box_place *span = &s->f->span[i - 1];

		weir__gaps_give(&s->gaps, span->at, span->end);
	}
}

static void sweep_place(struct sweep *s, uint32_t i)
{
	struct weir__box *box = s->f->box;
	uint64_t bytes = box[i].bytes;
	uint64_t at =
		weir__gaps_take(&s->gaps, bytes, box[i].align, s->p->unit);

	if (s->height < at + bytes)
		s->height = at + bytes;
	for (; i != WEIR__NO_PIECE; i = box[i].next)
		s->f->span[i] = (struct weir__box_place){ at, at + bytes };
}

static void sweep_run(struct sweep *s)
{
	uint32_t moment = 0;

	sweep_sort(s);
	for (size_t k = 0; k < s->n; k++) {
		uint32_t begin = UINT32_MAX - (uint32_t)s->key[k].first;

		while (moment < begin)
			sweep_end(s, ++moment);
		sweep_place(s, s->key[k].box);
	}
}

int weir__sweep(struct weir__field *f, const struct weir__pieces *p,
		uint64_t base, bool backwards, uint64_t *ret_height)
{
	struct sweep s = { .f = f, .p = p, .backwards = backwards };
	int r = weir__gaps_init(&s.gaps, f->n, base, p->chunk);

	s.key = weir__malloc(f->n * sizeof(*s.key));
	s.ending = weir__calloc(f->n + 1, sizeof(*s.ending));
	s.next = weir__calloc(f->n, sizeof(*s.next));
	if (!r && s.key && s.ending && s.next) {
		sweep_run(&s);
		*ret_height = s.height;
	} else {
		r = weir__fail(-ENOMEM, "no memory to place %zu items", f->n);
	}
	weir__gaps_free(&s.gaps);
	weir__free(s.key);
	weir__free(s.ending);
	weir__free(s.next);
	return r;
}
