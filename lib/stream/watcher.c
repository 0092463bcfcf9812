/* SPDX-License-Identifier: MIT */
#include "stream/watcher.h"

#include <pthread.h>
#include <time.h>

#include "core/error.h"
#include "core/sys.h"
#include "stream/stream.h"

#define PAUSE_MIN 20000 /* ns */
#define PAUSE_MAX 200000

struct weir__watcher {
	pthread_mutex_t lock; /* guards what follows, and stream->watched */
	pthread_cond_t more;
	struct weir_stream *added; /* by next_watched, each referenced */
	pthread_t thread;
	bool started, stop;
};

int weir__watcher_new(struct weir__watcher **ret_watcher)
{
	struct weir__watcher *w = weir__calloc(1, sizeof(*w));

	if (!w)
		return weir__fail(-ENOMEM, "no memory for the watcher");
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->more, NULL);
	*ret_watcher = w;
	return 0;
}

/*
 * No work seems to be in flight. From here on weir__watch puts the stream on
 * the list again; work that was submitted just before, while the stream was
 * still marked as watched, is found by polling once more.
 */
static bool stream_is_idle(struct weir__watcher *w, struct weir_stream *s)
{
	pthread_mutex_lock(&w->lock);
	s->watched = false;
	pthread_mutex_unlock(&w->lock);
	return s->ops->poll(s->queue) == 0;
}

/* Returns false, and drops the reference, if the stream need not stay. */
static bool watcher_poll_one(struct weir__watcher *w, struct weir_stream *s,
			     unsigned *ret_out)
{
	unsigned out = (unsigned)s->ops->poll(s->queue);
	bool stays = out != 0;

	/* A helper of the backend may have brought work into the driver. */
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
static unsigned watcher_poll_all(struct weir__watcher *w,
				 struct weir_stream **list)
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

/* Put the added streams before those of @list. Returns false to stop. */
static bool watcher_take_added(struct weir__watcher *w,
			       struct weir_stream **list)
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
	struct weir__watcher *w = arg;
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

int weir__watcher_start(struct weir__watcher *w)
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

void weir__watch(struct weir__watcher *w, struct weir_stream *s)
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

void weir__watcher_stop(struct weir__watcher *w)
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

void weir__watcher_free(struct weir__watcher *w)
{
	pthread_mutex_destroy(&w->lock);
	pthread_cond_destroy(&w->more);
	weir__free(w);
}
