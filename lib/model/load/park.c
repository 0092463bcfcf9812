/* SPDX-License-Identifier: MIT */
/*
 * Parking of weights: their memory is released while its addresses stay
 * reserved, and filled again later.
 *
 *	weir_weights_park	waits for queued work; copies what cannot be
 *				read again; releases the buffers
 *	weir_weights_unpark	allocates the buffers again; starts a load of
 *				what the files of the model have; after that,
 *				streams copy the rest; an event is their end
 *	woken			at the end, on the thread that has completed
 *				it: frees the copies
 *
 * The streams and the event exist from the first moment, so that little can
 * fail on the way back. Copies begin after the load, since a span that is read
 * again may contain tensors that the program has changed.
 */
#include <weir/park.h>

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/error.h"
#include "core/refs.h"
#include "core/sys.h"
#include "core/util.h"
#include "io/file.h"
#include "mem/access.h"
#include "mem/tensor.h"
#include "model/load/load.h"
#include "stream/event.h"
#include "stream/stream.h"

/* Copies are as far apart as O_DIRECT wants. */
#define COPY_ALIGN 4096u
/* Other names to try for a file of copies. */
#define NAMES 64u

/* Bytes of a buffer of the weights, and their place in the copies. */
struct kept_range {
	struct weir_buf *buf;
	uint64_t at, bytes, copy_at;
	size_t stream;
};

struct weir__parked {
	_Atomic uint32_t refs; /* of the weights, and of ways back */
	struct weir *weir;
	struct weir_buf *copy;  /* the copies, or NULL */
	struct weir_file *file; /* the file of the copies, or NULL */
	uint64_t room;          /* bytes of either */
	struct kept_range *range;
	size_t n_ranges, max_ranges;
	bool *keep; /* for each placement: it is not read again */
	uint64_t released, copied, again;
	struct weir_stream **stream; /* of each device with copies */
	size_t n_streams, max_streams;
	struct weir_event *event; /* the end of the way back */
	bool returning;           /* event is recorded */
};

/* Waits for the end of one way back. */
struct way_back {
	struct weir__waiter waiter;
	struct weir__timeline *timeline; /* referenced */
	struct weir__parked *parked;     /* referenced */
};

static void drop_copies(struct weir__parked *p)
{
	weir__buf_put(p->copy);
	weir_file_close(p->file);
	p->copy = NULL;
	p->file = NULL;
}

void weir__parked_put(struct weir__parked *p)
{
	if (!p || !weir__refs_drop(&p->refs))
		return;
	drop_copies(p);
	for (size_t i = 0; i < p->n_streams; i++)
		weir_stream_free(p->stream[i]);
	weir_event_free(p->event);
	weir__free(p->stream);
	weir__free(p->range);
	weir__free(p->keep);
	weir__free(p);
}

/* True if the library has allocated buffer @i for these weights. */
static bool is_own(const struct weir_weights *w, size_t i)
{
	const struct weir__layout_buf *b = &w->layout->buf[i];

	return !b->given && b->buft->desc.kind != WEIR_MEM_MAPPED &&
	       w->buf[i]->bytes;
}

static enum weir_park_state state_of(struct weir__parked *p)
{
	struct weir__timeline *tl = NULL;
	uint64_t number;
	int state = 1;

	if (!p)
		return WEIR_PARK_RESIDENT;
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
		r = weir__fail(-EBUSY,
			       "another thread parks or unparks these weights");
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

static int no_memory(const struct weir_weights *w)
{
	return weir__fail(-ENOMEM, "%s: no memory to park %zu tensors",
			  w->model->path, w->layout->n);
}

/*
 * Wait until the last load has ended, and return its result. *ret_leaked: its
 * reads may still write to the memory.
 */
static int wait_load(struct weir_weights *w, bool *ret_leaked)
{
	struct weir__arrival *a;
	int r;

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

		if (is_own(w, i))
			r = weir__buf_check_parkable(w->buf[i]);
		if (r < 0)
			return r;
		if (!b->given)
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

static bool file_unchanged(struct weir_file *file)
{
	struct weir__error_saved saved;
	bool same;

	weir__error_save(&saved);
	same = weir__file_unchanged(file) >= 0;
	weir__error_restore(&saved);
	return same;
}

/* Decide which tensors are not read again. */
static int choose_kept(struct weir__parked *p, const struct weir_weights *w,
		       const struct weir_park_opts *o)
{
	const struct weir__layout *layout = w->layout;
	const bool constant = o->flags & WEIR_PARK_CONSTANT;
	bool *changed = weir__calloc(w->model->n_files + 1, 1);

	p->keep = weir__calloc(layout->n + 1, 1);
	if (!changed || !p->keep) {
		weir__free(changed);
		return no_memory(w);
	}
	for (uint32_t i = 0; constant && i < w->model->n_files; i++)
		changed[i] = !file_unchanged(w->model->file[i]);
	for (size_t i = 0; i < layout->n; i++) {
		const struct weir__tensor_placement *t = &layout->placement[i];

		p->keep[i] = !constant || t->buf == WEIR__NO_BUF ||
			     !is_own(w, t->buf) ||
			     changed[w->model->rec[t->record].shard];
	}
	for (size_t i = 0; i < o->n_changed; i++)
		p->keep[o->changed[i]] = true;
	for (size_t i = 0; i < layout->n; i++)
		p->again += p->keep[i] ? 0 : layout->placement[i].data;
	weir__free(changed);
	return 0;
}

/* Get the number of the stream that copies bytes of @dev. */
static int stream_for(struct weir__parked *p, struct weir_dev *dev,
		      size_t *ret_i)
{
	struct weir_stream **list;
	size_t i = 0;
	int r;

	while (i < p->n_streams && p->stream[i]->dev != dev)
		i++;
	*ret_i = i;
	if (i < p->n_streams)
		return 0;
	list = weir__grow(p->stream, &p->max_streams, i,
			  sizeof(struct weir_stream *));
	if (!list)
		return weir__fail(-ENOMEM, "no memory for %zu streams", i + 1);
	p->stream = list;
	r = weir__stream_new(dev, 0, "park", &p->stream[i]);
	if (r >= 0)
		p->n_streams++;
	return r;
}

static int add_range(struct weir__parked *p, struct weir_buf *buf, uint64_t at,
		     uint64_t bytes)
{
	struct kept_range *range = weir__grow(p->range, &p->max_ranges,
					      p->n_ranges, sizeof(*range));
	int r;

	if (!range)
		return weir__fail(-ENOMEM, "no memory for %zu copies",
				  p->n_ranges + 1);
	p->range = range;
	range += p->n_ranges;
	*range = (struct kept_range){ buf, at, bytes, p->room, 0 };
	r = stream_for(p, buf->buft->dev, &range->stream);
	if (r < 0)
		return r;
	p->n_ranges++;
	p->copied += bytes;
	p->room += weir__up(bytes, COPY_ALIGN);
	return 0;
}

/* List the bytes that are copied: whole buffers, or single tensors. */
static int list_ranges(struct weir__parked *p, const struct weir_weights *w,
		       bool constant)
{
	const struct weir__layout *layout = w->layout;
	int r = 0;

	for (size_t i = 0; i < layout->n_bufs && r >= 0; i++) {
		const struct weir__layout_buf *b = &layout->buf[i];

		if (!is_own(w, i))
			continue;
		p->released += w->buf[i]->bytes;
		if (!constant)
			r = add_range(p, w->buf[i], 0, w->buf[i]->bytes);
		for (size_t k = 0; constant && k < b->n && r >= 0; k++) {
			size_t t = layout->order[b->first + k];

			if (p->keep[t] && layout->placement[t].bytes)
				r = add_range(p, w->buf[i],
					      layout->placement[t].at,
					      layout->placement[t].bytes);
		}
	}
	return r;
}

/*
 * Make a file without a name in @folder: nobody can replace or remove it, and
 * it is gone when the process ends.
 */
static int make_file(struct weir__parked *p, const char *folder)
{
	static _Atomic uint32_t serial;
	char path[4096];
	int fd = -EEXIST, r;

	for (unsigned i = 0; i < NAMES && fd == -EEXIST; i++) {
		int n = snprintf(path, sizeof(path), "%s/.weir-parked-%ld-%u",
				 folder, (long)getpid(),
				 atomic_fetch_add(&serial, 1));

		if (n < 0 || (size_t)n >= sizeof(path))
			return weir__fail(
				-ENAMETOOLONG,
				"the path of the folder has %zu bytes",
				strlen(folder));
		fd = weir__sys_open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	}
	if (fd < 0)
		return weir__fail_sys(fd, "%s", path);
	r = weir__file_take(p->weir, fd, path, &p->file);
	weir__sys_unlink(AT_FDCWD, path);
	if (r < 0)
		return r;
	r = weir__sys_reserve(p->file->fd, p->room);
	/* Other file systems cannot reserve: writes fail there. */
	if (r == -ENOSPC || r == -EDQUOT || r == -EFBIG)
		return weir__fail_sys(r, "%s: %llu bytes", folder,
				      (unsigned long long)p->room);
	return 0;
}

/* The page-locked memory of the first device with copies. */
static struct weir_buft *pinned_of(const struct weir__parked *p)
{
	for (size_t i = 0; i < p->n_ranges; i++) {
		struct weir_dev *dev = p->range[i].buf->buft->dev;

		for (unsigned k = 0; k < dev->desc.n_bufts; k++)
			if (dev->buft[k].desc.kind == WEIR_MEM_PINNED &&
			    !weir__buf_is_host(p->range[i].buf))
				return &dev->buft[k];
	}
	return NULL;
}

static int make_memory(struct weir__parked *p, struct weir_buft *buft)
{
	if (!buft)
		buft = pinned_of(p);
	if (!buft)
		return weir__fail(
			-EINVAL,
			"no device has page-locked memory for copies: name a folder or a kind of memory");
	return weir__buf_alloc(buft, p->room, NULL, &p->copy);
}

static int parked_new(struct weir_weights *w, const struct weir_park_opts *o,
		      struct weir__parked **ret_parked)
{
	struct weir__parked *p = weir__calloc(1, sizeof(*p));
	size_t any;
	int r;

	if (!p)
		return no_memory(w);
	atomic_init(&p->refs, 1);
	p->weir = w->model->weir;
	r = weir_event_new(p->weir, 0, &p->event);
	if (r >= 0)
		r = choose_kept(p, w, o);
	if (r >= 0)
		r = list_ranges(p, w, o->flags & WEIR_PARK_CONSTANT);
	/* If there is nothing to do, a stream ends the way back. */
	if (r >= 0 && !p->n_ranges && !p->again)
		r = stream_for(p, weir_dev_get(p->weir, 0), &any);
	if (r >= 0 && p->n_ranges)
		r = o->folder ? make_file(p, o->folder)
			      : make_memory(p, o->buft);
	if (r < 0) {
		weir__parked_put(p);
		return r;
	}
	*ret_parked = p;
	return 0;
}

/* Queue the copy of a range to the memory or the file, or back. */
static int queue_range(struct weir__parked *p, const struct kept_range *range,
		       bool back)
{
	struct weir_stream *s = p->stream[range->stream];
	struct weir_tensor t =
		weir__flat_tensor(range->buf, range->at, range->bytes);
	struct weir_tensor copy =
		weir__flat_tensor(p->copy, range->copy_at, range->bytes);

	t.name = "weights";
	copy.name = "the copy of weights";
	if (p->file)
		return back ? weir_stream_read(s, p->file, range->copy_at, &t,
					       0, range->bytes)
			    : weir_stream_write(s, p->file, range->copy_at, &t,
						0, range->bytes);
	return back ? weir_stream_copy(s, &t, &copy)
		    : weir_stream_copy(s, &copy, &t);
}

/* Wait until nothing that was queued is running any more. */
static int sync_streams(struct weir__parked *p)
{
	int r = 0;

	for (size_t i = 0; i < p->n_streams; i++) {
		int k = weir_stream_sync(p->stream[i], -1);

		if (r >= 0)
			r = k;
	}
	return r;
}

static int copy_out(struct weir__parked *p)
{
	struct weir__error_saved saved;
	int r = 0, k;

	for (size_t i = 0; i < p->n_ranges && r >= 0; i++)
		r = queue_range(p, &p->range[i], false);
	if (r < 0) {
		weir__error_save(&saved);
		sync_streams(p);
		weir__error_restore(&saved);
		return r;
	}
	r = sync_streams(p);
	if (r < 0 || !p->file)
		return r;
	/* Bytes that the disk loses later must not have been the only ones. */
	k = weir__sys_sync(p->file->fd);
	return k < 0 ? weir__fail_sys(k, "the file of the copies") : 0;
}

static int quiesce(struct weir_weights *w)
{
	int r = 0;

	for (size_t i = 0; i < w->layout->n_bufs && r >= 0; i++)
		if (is_own(w, i))
			r = weir__buf_quiesce(w->buf[i], 0, w->buf[i]->bytes,
					      true);
	return r;
}

/* Release the buffers that are not released. */
static int release(struct weir_weights *w)
{
	int r = quiesce(w);

	for (size_t i = 0; i < w->layout->n_bufs && r >= 0; i++)
		if (is_own(w, i) && !atomic_load(&w->buf[i]->parked))
			r = weir__buf_park(w->buf[i]);
	return r;
}

/* Allocate the released buffers again: all of them, or none. */
static int restore(struct weir_weights *w)
{
	struct weir__error_saved saved;
	int r = 0;

	for (size_t i = 0; i < w->layout->n_bufs && r >= 0; i++)
		if (is_own(w, i) && atomic_load(&w->buf[i]->parked))
			r = weir__buf_unpark(w->buf[i]);
	if (r < 0) {
		weir__error_save(&saved);
		release(w);
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
		drop_copies(back->parked);
	way_back_end(back);
}

/* Start to read what the files of the model have. */
static int read_again(struct weir__parked *p, struct weir_weights *w)
{
	struct weir_load *load;
	int r = weir__load_again(w, p->keep, &load);

	if (r < 0)
		return r;
	r = weir_load_record(load, WEIR_ALL, p->event);
	for (size_t i = 0; i < p->n_streams && r >= 0; i++)
		r = weir_stream_wait(p->stream[i], p->event);
	if (r < 0)
		weir_load_cancel(load);
	weir_load_free(load);
	return r;
}

/* Record the end of all streams in p->event. */
static int join_streams(struct weir__parked *p)
{
	int r = 0;

	for (size_t i = 1; i < p->n_streams && r >= 0; i++) {
		r = weir_stream_record(p->stream[i], p->event);
		if (r >= 0)
			r = weir_stream_wait(p->stream[0], p->event);
	}
	return p->n_streams && r >= 0
		       ? weir_stream_record(p->stream[0], p->event)
		       : r;
}

/* Queue all that fills the memory, and record its end. */
static int fill(struct weir__parked *p, struct weir_weights *w)
{
	int r = 0;

	for (size_t i = 0; i < p->n_streams && r >= 0; i++)
		if (weir__stream_has_failed(p->stream[i]))
			r = weir_stream_reset(p->stream[i]);
	if (r >= 0 && p->again)
		r = read_again(p, w);
	for (size_t i = 0; i < p->n_ranges && r >= 0; i++)
		r = queue_range(p, &p->range[i], true);
	return r < 0 ? r : join_streams(p);
}

/* Wait for all that fills the memory, and release it again. */
static int park_again(struct weir__parked *p, struct weir_weights *w)
{
	struct weir__error_saved saved;
	bool leaked;
	int r;

	weir__error_save(&saved);
	sync_streams(p);
	wait_load(w, &leaked);
	weir__error_restore(&saved);
	r = leaked ? fail_leaked() : release(w);
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
	int r = back ? fill(p, w) : no_memory(w);

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

static int unpark(struct weir_weights *w, struct weir_event *event)
{
	struct weir__parked *p = w->parked;
	struct weir__error_saved saved;
	int r = 0;

	switch (state_of(p)) {
	case WEIR_PARK_RESIDENT:
		return weir__fail(-EALREADY, "the weights are not parked");
	case WEIR_PARK_RETURNING:
		return weir__fail(-EBUSY, "the weights are coming back");
	case WEIR_PARK_FAILED:
		r = park_again(p, w);
		break;
	case WEIR_PARK_PARKED:
		break;
	}
	if (r < 0 || (r = restore(w)) < 0)
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
	if (o->flags & ~WEIR_PARK_CONSTANT || o->reserved)
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
	int r = wait_load(w, &leaked);

	if (leaked)
		r = fail_leaked();
	if (r < 0 || (r = check_bufs(w)) < 0 || (r = quiesce(w)) < 0 ||
	    (r = parked_new(w, o, &p)) < 0)
		return r;
	r = copy_out(p);
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
