/* SPDX-License-Identifier: MIT */
/*
 * All streams of a root: the list that weir_close() waits for, and the watcher.
 *
 * The watcher is one thread of the root, which polls the queues that do not
 * call work->done by themselves. It is started with the first such stream,
 * sleeps while none of their work is in flight, and otherwise polls each queue
 * after a pause, which grows while nothing completes.
 */
#include <pthread.h>
#include <time.h>

#include "core/clock.h"
#include "core/error.h"
#include "core/root.h"
#include "core/sys.h"
#include "stream/stream.h"

#define PAUSE_MIN 20000 /* ns */
#define PAUSE_MAX 200000

struct watcher {
	pthread_mutex_t lock; /* guards what follows, and stream->watched */
	pthread_cond_t more;
	struct weir_stream *added; /* by next_watched, each referenced */
	pthread_t thread;
	bool started, stop;
};

static int watcher_new(struct watcher **ret_watcher)
{
	struct watcher *w = weir__calloc(1, sizeof(*w));

	if (!w)
		return weir__fail(-ENOMEM, "no memory for the watcher");
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->more, NULL);
	*ret_watcher = w;
	return 0;
}

/*
 * No work seems to be in flight. From here on watcher_add() puts the stream on
 * the list again. Work that was submitted just before, while the stream was
 * still marked as watched, is found by polling once more.
 */
static bool stream_is_idle(struct watcher *w, struct weir_stream *s)
{
	pthread_mutex_lock(&w->lock);
	s->watched = false;
	pthread_mutex_unlock(&w->lock);
	return s->ops->poll(s->queue) == 0;
}

/*
 * Returns false, and drops the reference, if the stream need not stay on the
 * list.
 */
static bool watcher_poll_one(struct watcher *w, struct weir_stream *s,
			     unsigned *ret_out)
{
	unsigned out = (unsigned)s->ops->poll(s->queue);
	bool stays = out != 0;

	/* A thread of the backend may have submitted work to the driver. */
	weir__timeline_changed(&s->timeline);
	if (!out && !stream_is_idle(w, s)) {
		pthread_mutex_lock(&w->lock);
		stays = !s->watched;
		s->watched = true;
		pthread_mutex_unlock(&w->lock);
		out = stays;
	}
	*ret_out += out;
	if (!stays)
		weir__timeline_put(&s->timeline);
	return stays;
}

/* Poll each stream of the list once; returns how many works are in flight. */
static unsigned watcher_poll_all(struct watcher *w, struct weir_stream **list)
{
	struct weir_stream **at = list, *s;
	unsigned out = 0;

	while ((s = *at)) {
		struct weir_stream *next = s->next_watched;

		if (watcher_poll_one(w, s, &out))
			at = &s->next_watched;
		else
			*at = next;
	}
	return out;
}

/*
 * Put the added streams before those of @list. Returns false if the watcher
 * stops.
 */
static bool watcher_take_added(struct watcher *w, struct weir_stream **list)
{
	struct weir_stream *s;
	bool stop;

	pthread_mutex_lock(&w->lock);
	while (!w->added && !*list && !w->stop)
		pthread_cond_wait(&w->more, &w->lock);
	while ((s = w->added)) {
		w->added = s->next_watched;
		s->next_watched = *list;
		*list = s;
	}
	stop = w->stop;
	pthread_mutex_unlock(&w->lock);
	return !stop;
}

static void *watcher_main(void *arg)
{
	struct watcher *w = arg;
	struct weir_stream *list = NULL, *s;
	long pause = PAUSE_MIN;
	unsigned before = 0, out;

	while (watcher_take_added(w, &list)) {
		struct timespec ts = { .tv_nsec = pause };

		out = watcher_poll_all(w, &list);
		if (list)
			nanosleep(&ts, NULL);
		pause = out != before ? PAUSE_MIN : pause + pause / 4;
		if (pause > PAUSE_MAX)
			pause = PAUSE_MAX;
		before = out;
	}
	while ((s = list)) {
		list = s->next_watched;
		weir__timeline_put(&s->timeline);
	}
	return NULL;
}

static int watcher_start(struct watcher *w)
{
	int r = 0;

	pthread_mutex_lock(&w->lock);
	if (!w->started)
		r = weir__thread_start(&w->thread, "weir-watch", watcher_main,
				       w);
	w->started = r == 0;
	pthread_mutex_unlock(&w->lock);
	return r < 0 ? weir__fail_sys(r, "cannot start the watcher") : 0;
}

static void watcher_add(struct watcher *w, struct weir_stream *s)
{
	pthread_mutex_lock(&w->lock);
	if (!s->watched && !w->stop) {
		s->watched = true;
		weir__timeline_ref(&s->timeline);
		s->next_watched = w->added;
		w->added = s;
		pthread_cond_signal(&w->more);
	}
	pthread_mutex_unlock(&w->lock);
}

static void watcher_stop(struct watcher *w)
{
	bool started;

	pthread_mutex_lock(&w->lock);
	w->stop = true;
	started = w->started;
	pthread_cond_signal(&w->more);
	pthread_mutex_unlock(&w->lock);
	if (started)
		pthread_join(w->thread, NULL);
}

static void watcher_free(struct watcher *w)
{
	pthread_mutex_destroy(&w->lock);
	pthread_cond_destroy(&w->more);
	weir__free(w);
}

struct weir__streams {
	struct weir__part part;
	struct weir *weir; /* not referenced: it owns the part */
	struct watcher *watcher;
	pthread_mutex_t lock; /* guards list */
	struct weir_stream *list;
	unsigned made; /* streams so far */
	bool closed;
};

/*
 * Reference the stream if it has open operations. The list of streams has no
 * references; that of open operations has one, until it was seen to be empty
 * under the lock of the stream.
 */
static bool ref_if_open(struct weir_stream *s, uint64_t *ret_tail)
{
	bool open;

	pthread_mutex_lock(&s->lock);
	open = s->open && !atomic_load(&s->abandoned);
	if (open)
		weir__timeline_ref(&s->timeline);
	*ret_tail = s->tail;
	pthread_mutex_unlock(&s->lock);
	return open;
}

/* Returns a stream with open operations, referenced, or NULL. */
static struct weir_stream *next_open(struct weir__streams *p,
				     uint64_t *ret_tail)
{
	struct weir_stream *s;

	pthread_mutex_lock(&p->lock);
	for (s = p->list; s; s = s->next)
		if (ref_if_open(s, ret_tail))
			break;
	pthread_mutex_unlock(&p->lock);
	return s;
}

/*
 * Let no stream take work from here on. A caller that a native stream blocks
 * may go on after weir_close, and asking such a stream for its tail queues a
 * marker: nothing would poll for that work, since the watcher stops.
 */
static void refuse_work(struct weir__streams *p)
{
	pthread_mutex_lock(&p->lock);
	p->closed = true;
	for (struct weir_stream *s = p->list; s; s = s->next) {
		pthread_mutex_lock(&s->lock);
		s->closed = true;
		pthread_mutex_unlock(&s->lock);
	}
	pthread_mutex_unlock(&p->lock);
}

static void streams_close(struct weir__part *part, int64_t deadline)
{
	struct weir__streams *p = (struct weir__streams *)part;
	struct weir_stream *s;
	uint64_t tail;

	refuse_work(p);
	while ((s = next_open(p, &tail))) {
		int64_t left = deadline - weir__now();

		if (deadline == INT64_MAX)
			left = -1;
		else if (left < 0)
			left = 0;
		weir__timeline_block(&s->timeline, tail, left);
		if (left >= 0 && weir__now() >= deadline &&
		    weir__stream_abandon(s))
			weir__log(
				p->weir,
				"weir_close: %s: operations have not finished at the deadline; the memory that they use is leaked",
				s->label);
		weir__timeline_put(&s->timeline);
	}
	watcher_stop(p->watcher);
}

static void streams_free(struct weir__part *part)
{
	struct weir__streams *p = (struct weir__streams *)part;

	watcher_free(p->watcher);
	pthread_mutex_destroy(&p->lock);
	weir__free(p);
}

static int streams_make(struct weir *weir, struct weir__part **ret_part)
{
	struct weir__streams *p = weir__calloc(1, sizeof(*p));
	int r;

	if (!p)
		return weir__fail(-ENOMEM, "no memory for the streams");
	r = watcher_new(&p->watcher);
	if (r < 0) {
		weir__free(p);
		return r;
	}
	p->part.close = streams_close;
	p->part.free = streams_free;
	p->weir = weir;
	pthread_mutex_init(&p->lock, NULL);
	*ret_part = &p->part;
	return 0;
}

int weir__streams_add(struct weir_stream *s)
{
	struct weir__streams *p;
	struct weir__part *part;
	int r;

	r = weir__root_part(s->timeline.weir, WEIR__PART_STREAM, streams_make,
			    &part);
	if (r < 0)
		return r;
	p = (struct weir__streams *)part;
	if (s->ops->poll)
		r = watcher_start(p->watcher);
	if (r < 0)
		return r;
	pthread_mutex_lock(&p->lock);
	s->part = p;
	s->closed = p->closed;
	s->id = p->made++;
	s->link = &p->list;
	s->next = p->list;
	if (s->next)
		s->next->link = &s->next;
	p->list = s;
	pthread_mutex_unlock(&p->lock);
	return 0;
}

void weir__streams_del(struct weir_stream *s)
{
	if (!s->part)
		return;
	pthread_mutex_lock(&s->part->lock);
	*s->link = s->next;
	if (s->next)
		s->next->link = s->link;
	pthread_mutex_unlock(&s->part->lock);
}

void weir__streams_watch(struct weir_stream *s)
{
	watcher_add(s->part->watcher, s);
}
