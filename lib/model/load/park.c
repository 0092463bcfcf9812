/* SPDX-License-Identifier: MIT */
/*
 * Parking of weights: their memory is released while its addresses stay
 * reserved, and filled again later.
 *
 *	weir_weights_park	waits for queued work; copies what cannot be
 *				read again; releases the buffers
 *	weir_weights_unpark	allocates the buffers again; starts a load of
 *				what the files of the model have; streams copy
 *				the rest (park_copies.c); an event is their end
 *	woken			at the end, on the thread that has completed
 *				it: frees the copies
 *
 * The streams and the event exist from the first moment, so that little can
 * fail on the way back.
 */
#include <weir/park.h>

#include "core/error.h"
#include "core/refs.h"
#include "core/sys.h"
#include "core/util.h"
#include "mem/access.h"
#include "model/load/load.h"
#include "model/load/park_copies.h"
#include "stream/event.h"

/* Waits for the end of one way back. */
struct way_back {
	struct weir__waiter waiter;
	struct weir__timeline *timeline; /* referenced */
	struct weir__parked *parked;     /* referenced */
};

static enum weir_park_state state_of(struct weir__parked *p)
{
	struct weir__timeline *tl = NULL;
	uint64_t number;
	int state = 1;

	if (!p)
		return WEIR_PARK_RESIDENT;
	if (p->stuck)
		return WEIR_PARK_FAILED;
	if (!p->returning)
		return WEIR_PARK_PARKED;
	weir__event_get(p->event, p->weir, &tl, &number);
	if (tl) {
		state = tl->ops->state(tl, number, NULL);
		weir__timeline_put(tl);
	}
	return state == 1 ? WEIR_PARK_RESIDENT
	       : state    ? WEIR_PARK_FAILED
			  : WEIR_PARK_RETURNING;
}

/* Let the weights keep @p instead of what they kept. */
static void set_parked(struct weir_weights *w, struct weir__parked *p)
{
	struct weir__parked *old;

	pthread_mutex_lock(&w->lock);
	old = w->parked;
	w->parked = p;
	pthread_mutex_unlock(&w->lock);
	weir__parked_put(old);
}

/*
 * Begin to park or unpark: other threads get -EBUSY until parking_end. Forgets
 * what was kept of weights whose bytes are back.
 */
static int parking_begin(struct weir_weights *w)
{
	int r = weir__root_enter(w->model->weir);

	if (r < 0)
		return r;
	pthread_mutex_lock(&w->lock);
	if (w->parking)
		r = weir__fail(
			-EBUSY,
			"another thread parks, unparks or loads these weights");
	w->parking = true;
	pthread_mutex_unlock(&w->lock);
	if (r >= 0 && state_of(w->parked) == WEIR_PARK_RESIDENT)
		set_parked(w, NULL);
	return r;
}

static void parking_end(struct weir_weights *w)
{
	pthread_mutex_lock(&w->lock);
	w->parking = false;
	pthread_mutex_unlock(&w->lock);
}

/*
 * Wait until the last load has ended, and return its result. *ret_leaked: its
 * reads may still write to the memory.
 */
static int wait_load(struct weir_weights *w, bool *ret_leaked)
{
	struct weir__arrival *a;
	int r;

	*ret_leaked = false;
	pthread_mutex_lock(&w->lock);
	a = w->arrival;
	weir__timeline_ref(&a->timeline);
	pthread_mutex_unlock(&w->lock);
	r = weir__timeline_block(&a->timeline, a->n, -1);
	*ret_leaked = atomic_load(&a->leaked);
	weir__arrival_put(a);
	return r;
}

static int fail_leaked(void)
{
	return weir__fail(
		-EIO,
		"reads of an earlier load were lost and may still write to these weights");
}

static int check_bufs(const struct weir_weights *w)
{
	for (size_t i = 0; i < w->layout->n_bufs; i++) {
		const struct weir__layout_buf *b = &w->layout->buf[i];
		const struct weir__tensor_placement *place;
		const struct weir__record *rec;
		int r = 0;

		if (weir__weights_park_buf(w, i))
			r = weir__buf_check_parkable(w->buf[i]);
		if (r < 0)
			return r;
		if (!b->given || !b->n || weir__weights_park_buf(w, i))
			continue;
		place = &w->layout->placement[w->layout->order[b->first]];
		rec = &w->model->rec[place->record];
		return weir__fail(
			-EINVAL,
			"tensor '%s' is in a buffer of the program, which may hold other things too",
			weir__quote(w->model->text + rec->name, rec->name_len));
	}
	return 0;
}

static int quiesce(struct weir_weights *w)
{
	int r = 0;

	for (size_t i = 0; i < w->layout->n_bufs && r >= 0; i++)
		if (weir__weights_park_buf(w, i))
			r = weir__buf_quiesce(w->buf[i], 0, w->buf[i]->bytes,
					      true);
	return r;
}

/*
 * Release the buffers that are not released, as many as possible. Returns the
 * first failure.
 */
static int release(struct weir_weights *w)
{
	struct weir__error_saved saved;
	int r = quiesce(w), k;

	if (r < 0)
		return r;
	weir__error_save(&saved);
	for (size_t i = 0; i < w->layout->n_bufs; i++) {
		if (!weir__weights_park_buf(w, i) ||
		    atomic_load(&w->buf[i]->parked))
			continue;
		k = weir__buf_park(w->buf[i]);
		if (k >= 0 || r < 0)
			continue;
		r = k;
		weir__error_save(&saved);
	}
	if (r < 0)
		weir__error_restore(&saved);
	return r;
}

/* Allocate the released buffers again: all of them, or none. */
static int restore(struct weir_weights *w)
{
	struct weir__error_saved saved;
	int r = 0;

	for (size_t i = 0; i < w->layout->n_bufs && r >= 0; i++)
		if (weir__weights_park_buf(w, i) &&
		    atomic_load(&w->buf[i]->parked))
			r = weir__buf_unpark(w->buf[i]);
	if (r < 0) {
		weir__error_save(&saved);
		w->parked->stuck = release(w) < 0;
		weir__error_restore(&saved);
	}
	return r;
}

static void way_back_end(struct way_back *back)
{
	weir__timeline_put(back->timeline);
	weir__parked_put(back->parked);
	weir__free(back);
}

static void woken(struct weir__waiter *waiter)
{
	struct way_back *back =
		weir__container(waiter, struct way_back, waiter);

	if (back->timeline->ops->state(back->timeline, waiter->number, NULL) ==
	    1)
		weir__parked_drop_copies(back->parked);
	way_back_end(back);
}

/* Wait for all that fills the memory, and release it again. */
static int park_again(struct weir__parked *p, struct weir_weights *w)
{
	struct weir__error_saved saved;
	bool leaked;
	int r;

	weir__error_save(&saved);
	weir__parked_sync(p);
	wait_load(w, &leaked);
	weir__error_restore(&saved);
	r = leaked ? fail_leaked() : release(w);
	p->stuck = r < 0;
	if (r >= 0)
		p->returning = false;
	return r;
}

/* Free the copies when all that has been queued is done. */
static void wait_back(struct way_back *back)
{
	if (weir__timeline_wait(back->timeline, &back->waiter))
		woken(&back->waiter);
}

/* The memory is there. Returns when it is being filled. */
static int start_return(struct weir__parked *p, struct weir_weights *w,
			struct weir_event *event)
{
	struct way_back *back = weir__calloc(1, sizeof(*back));
	int r = back ? weir__parked_fill(p, w) : weir__parked_no_memory(w);

	if (r >= 0)
		r = weir__event_get(p->event, p->weir, &back->timeline,
				    &back->waiter.number);
	if (r >= 0 && event)
		r = weir__event_record(event, back->timeline,
				       back->waiter.number);
	if (r < 0) {
		if (back && back->timeline)
			weir__timeline_put(back->timeline);
		weir__free(back);
		return r;
	}
	p->returning = true;
	back->waiter.wake = woken;
	back->parked = p;
	weir__refs_add(&p->refs, 1);
	wait_back(back);
	return 0;
}

/* Allocate the memory of parked weights again. */
static int take_memory(struct weir_weights *w)
{
	int r = 0;

	switch (state_of(w->parked)) {
	case WEIR_PARK_RESIDENT:
		return weir__fail(-EALREADY, "the weights are not parked");
	case WEIR_PARK_RETURNING:
		return weir__fail(-EBUSY, "the weights are coming back");
	case WEIR_PARK_FAILED:
		r = park_again(w->parked, w);
		break;
	case WEIR_PARK_PARKED:
		break;
	}
	return r < 0 ? r : restore(w);
}

static int unpark(struct weir_weights *w, struct weir_event *event)
{
	struct weir__parked *p = w->parked;
	struct weir__error_saved saved;
	int r = take_memory(w);

	if (r < 0)
		return r;
	r = start_return(p, w, event);
	if (r >= 0 && !event)
		r = weir_event_wait(p->event, -1);
	if (r < 0) {
		weir__error_save(&saved);
		park_again(p, w);
		weir__error_restore(&saved);
	}
	return r;
}

/* Fail if memory is parked that does not come back with the weights. */
static int check_there(const struct weir_weights *w)
{
	int r = 0;

	for (size_t i = 0; i < w->layout->n_bufs && r >= 0; i++)
		if (w->layout->buf[i].given &&
		    !(w->parked && weir__weights_park_buf(w, i)))
			r = weir__buf_check_there(w->buf[i], "their memory");
	return r;
}

int weir__parked_take(struct weir_weights *w, struct weir__parked **ret_parked)
{
	int r = parking_begin(w);

	if (r < 0)
		return r;
	r = check_there(w);
	if (r >= 0 && w->parked)
		r = take_memory(w);
	if (r >= 0) {
		pthread_mutex_lock(&w->lock);
		*ret_parked = w->parked;
		w->parked = NULL;
		pthread_mutex_unlock(&w->lock);
	} else {
		parking_end(w);
	}
	return r;
}

void weir__parked_return(struct weir_weights *w, struct weir__parked *parked)
{
	struct weir__error_saved saved;

	if (parked) {
		weir__error_save(&saved);
		set_parked(w, parked);
		parked->stuck = release(w) < 0;
		weir__error_restore(&saved);
	}
	parking_end(w);
}

void weir__parked_done(struct weir_weights *w, struct weir__parked *parked)
{
	weir__parked_put(parked);
	parking_end(w);
}

static int check_event(const struct weir_weights *w, struct weir_event *event)
{
	struct weir__timeline *tl = NULL;
	uint64_t number;
	int r = weir__event_get(event, w->model->weir, &tl, &number);

	if (tl)
		weir__timeline_put(tl);
	return r;
}

int weir_weights_unpark(struct weir_weights *weights, struct weir_event *event)
{
	int r;

	WEIR__ENTER();
	r = parking_begin(weights);
	if (r < 0)
		return r;
	if (event)
		r = check_event(weights, event);
	if (r >= 0)
		r = unpark(weights, event);
	parking_end(weights);
	return r < 0 ? weir__fail_as("weir_weights_unpark", r) : 0;
}

static int check_opts(const struct weir_weights *w,
		      const struct weir_park_opts *o)
{
	if (o->flags & ~(WEIR_PARK_CONSTANT | WEIR_PARK_TARGETS) || o->reserved)
		return weir__fail(-EINVAL, "unknown flags %#x", o->flags);
	if (o->n_changed && !(o->flags & WEIR_PARK_CONSTANT))
		return weir__fail(
			-EINVAL,
			"%zu tensors have changed, but WEIR_PARK_CONSTANT is not set",
			o->n_changed);
	for (size_t i = 0; i < o->n_changed; i++)
		if (o->changed[i] >= w->layout->n)
			return weir__fail(
				-EINVAL,
				"tensor %zu has changed, there are %zu",
				o->changed[i], w->layout->n);
	if (o->buft && o->folder)
		return weir__fail(-EINVAL,
				  "both a folder and memory for copies");
	if (o->buft && (o->buft->dev->weir != w->model->weir ||
			!(o->buft->desc.flags & WEIR_BUFT_HOST) ||
			o->buft->desc.flags & WEIR_BUFT_READONLY))
		return weir__fail(
			-EINVAL,
			"%s is not host memory of this root that can be written to",
			o->buft->desc.name);
	return 0;
}

/* Copy and release. */
static int park(struct weir_weights *w, const struct weir_park_opts *o)
{
	struct weir__error_saved saved;
	struct weir__parked *p = NULL;
	bool leaked;
	int r;

	if (!w->model->n_files)
		return weir__fail(
			-EOPNOTSUPP,
			"weights of weir_weights_open() cannot be parked: their memory is that of other processes too");
	w->targets_park = o->flags & WEIR_PARK_TARGETS;
	r = check_bufs(w);
	if (r < 0)
		return r;
	r = wait_load(w, &leaked);
	if (leaked)
		r = fail_leaked();
	if (r < 0 || (r = quiesce(w)) < 0 ||
	    (r = weir__parked_new(w, o, &p)) < 0)
		return r;
	r = weir__parked_copy_out(p);
	if (r < 0) {
		weir__parked_put(p);
		return r;
	}
	set_parked(w, p);
	r = release(w);
	if (r < 0) {
		weir__error_save(&saved);
		if (unpark(w, NULL) >= 0)
			set_parked(w, NULL);
		weir__error_restore(&saved);
	}
	return r;
}

/* The weights are parked, coming back, or have failed to. */
static int park_kept(struct weir_weights *w, const struct weir_park_opts *o)
{
	struct weir__parked *p = w->parked;

	if (p->returning)
		weir_event_wait(p->event, -1);
	if (state_of(p) == WEIR_PARK_PARKED)
		return weir__fail(-EALREADY, "the weights are parked already");
	if (state_of(p) == WEIR_PARK_FAILED)
		return park_again(p, w);
	set_parked(w, NULL);
	return park(w, o);
}

int weir_weights_park(struct weir_weights *weights,
		      const struct weir_park_opts *opts)
{
	struct weir_park_opts o;
	int r;

	WEIR__ENTER();
	r = weir__opts_in(&o, sizeof(o), opts);
	if (r >= 0)
		r = parking_begin(weights);
	if (r < 0)
		return r;
	r = check_opts(weights, &o);
	if (r >= 0)
		r = weights->parked ? park_kept(weights, &o)
				    : park(weights, &o);
	parking_end(weights);
	return r < 0 ? weir__fail_as("weir_weights_park", r) : 0;
}

int weir_weights_park_info(struct weir_weights *weights,
			   struct weir_park_info *ret_info)
{
	struct weir_park_info info = { .size = sizeof(info) };
	int r;

	WEIR__ENTER();
	r = weir__root_read(weights->model->weir);
	if (r < 0)
		return r;
	pthread_mutex_lock(&weights->lock);
	info.state = state_of(weights->parked);
	if (info.state != WEIR_PARK_RESIDENT) {
		info.released = weights->parked->released;
		info.copied = weights->parked->copied;
		info.again = weights->parked->again;
	}
	pthread_mutex_unlock(&weights->lock);
	return weir__info_out(ret_info, &info, sizeof(info));
}
