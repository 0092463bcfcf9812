/* SPDX-License-Identifier: MIT */
/*
 * Free memory that a stream may use after it has waited for others: which pieces,
 * and what to wait for. Called with the heap's lock held, after a gather.
 */
#include <limits.h>

#include "heap/heap.h"
#include "stream/stream.h"

/* After so many refusals the stream waits for no lane at all. */
static bool refused(const struct weir__want *w, const struct weir__lane *lane)
{
	if (w->n_refused == WEIR__DEPS)
		return true;
	for (unsigned i = 0; i < w->n_refused; i++)
		if (w->refused[i] == lane->index)
			return true;
	return false;
}

/* The stream has to wait for the free point of @c. False: too many. */
static bool add_dep(struct weir__shard *s, struct weir__want *w,
		    const struct weir__piece *c)
{
	struct weir__lane *lane = s->lane[c->lane];

	if (weir__want_allows(w, c))
		return true;
	for (unsigned i = w->n_queued; i < w->n_deps; i++)
		if (w->dep[i].lane == lane) {
			w->dep[i].number = c->number;
			return true;
		}
	if (w->n_deps == WEIR__DEPS || refused(w, lane))
		return false;
	lane->users++;
	w->dep[w->n_deps].lane = lane;
	w->dep[w->n_deps++].number = c->number;
	return true;
}

static bool piece_after_wait(struct weir__shard *s, struct weir__want *w)
{
	struct weir__piece *best = NULL;

	for (struct weir__lane *lane = s->busy; lane; lane = lane->busy_next) {
		if (lane != w->lane && !refused(w, lane))
			best = weir__piece_smaller(
				best,
				weir__bins_find(&s->heap->pieces, &lane->bins,
						w->bytes, w->align, UINT_MAX));
	}
	return best && add_dep(s, w, best);
}

/*
 * Neighbours that are free, [first, last], with @bytes in all, and how many of them
 * are of each lane for which the stream would have to wait.
 */
struct window {
	struct weir__piece *first, *last; /* NULL: empty */
	uint64_t bytes;
	unsigned n_lanes;
	uint16_t lane[WEIR__DEPS + 1];
	uint32_t count[WEIR__DEPS + 1];
};

static void window_add(struct window *win, const struct weir__want *w,
		       struct weir__piece *c)
{
	unsigned i = 0;

	if (!win->first)
		win->first = c;
	win->last = c;
	win->bytes += c->bytes;
	if (weir__want_allows(w, c))
		return;
	while (i < win->n_lanes && win->lane[i] != c->lane)
		i++;
	if (i == win->n_lanes) {
		win->lane[win->n_lanes++] = c->lane;
		win->count[i] = 0;
	}
	win->count[i]++;
}

/* Remove the first piece. */
static void window_shift(struct weir__shard *s, struct window *win,
			 const struct weir__want *w)
{
	struct weir__piece *c = win->first;
	unsigned i = 0;

	win->first = c == win->last ? NULL : weir__heap_piece(s->heap, c->next);
	win->bytes -= c->bytes;
	if (weir__want_allows(w, c))
		return;
	while (win->lane[i] != c->lane)
		i++;
	if (--win->count[i])
		return;
	win->n_lanes--;
	win->lane[i] = win->lane[win->n_lanes];
	win->count[i] = win->count[win->n_lanes];
}

static bool window_fits(const struct window *win, const struct weir__want *w)
{
	return win->first && weir__want_fits(w, win->first, win->bytes);
}

/* Without the pieces at its left that the block does not need. */
static void window_trim(struct weir__shard *s, struct window *win,
			const struct weir__want *w)
{
	struct window less = *win;

	while (window_fits(&less, w)) {
		*win = less;
		window_shift(s, &less, w);
	}
}

/*
 * The first window with a place for the block among the free neighbours from @c on,
 * with few enough streams to wait for. False: there is none.
 */
static bool window_find(struct weir__shard *s, const struct weir__want *w,
			struct weir__piece *c, struct window *win)
{
	*win = (struct window){ 0 };
	for (;;) {
		if (!weir__want_allows(w, c) && refused(w, s->lane[c->lane]))
			*win = (struct window){ 0 };
		else
			window_add(win, w, c);
		while (win->n_lanes > WEIR__DEPS - w->n_deps)
			window_shift(s, win, w);
		if (window_fits(win, w)) {
			window_trim(s, win, w);
			return true;
		}
		if (!c->next)
			return false;
		c = weir__heap_piece(s->heap, c->next);
		if (!weir__piece_is_free(c))
			return false;
	}
}

/*
 * The first of the free neighbours of @c; NULL: to the left of @c is another one that
 * is in a queue, which finds them.
 */
static struct weir__piece *neighbours_first(struct weir__shard *s,
					    struct weir__piece *c)
{
	struct weir__piece *first = c, *other;

	for (uint32_t i = c->prev; i; i = other->prev) {
		other = weir__heap_piece(s->heap, i);
		if (!weir__piece_is_free(other))
			break;
		if (other->lane)
			return NULL;
		first = other;
	}
	return first;
}

/* Add the free points of several neighbours, if one of them is @c. */
static bool several_after_waits(struct weir__shard *s, struct weir__want *w,
				struct weir__piece *c)
{
	struct weir__piece *first = neighbours_first(s, c);
	struct window win;

	if (!first || !window_find(s, w, first, &win))
		return false;
	for (c = win.first; add_dep(s, w, c) && c != win.last;)
		c = weir__heap_piece(s->heap, c->next);
	return true;
}

bool weir__shard_after_waits(struct weir__shard *s, struct weir__want *w,
			     bool several)
{
	struct weir__piece *c;

	if (!several)
		return piece_after_wait(s, w);
	for (struct weir__lane *lane = s->busy; lane; lane = lane->busy_next)
		for (uint32_t i = lane->oldest; i; i = c->after) {
			c = weir__heap_piece(s->heap, i);
			if (several_after_waits(s, w, c))
				return true;
		}
	return false;
}
