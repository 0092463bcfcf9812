/* SPDX-License-Identifier: MIT */
/*
 * The streams' part of the root: a list of all streams, which weir_close waits
 * for, and the watcher.
 */
#include "core/clock.h"
#include "core/error.h"
#include "core/root.h"
#include "core/sys.h"
#include "stream/stream.h"
#include "stream/watcher.h"

struct weir__streams {
	struct weir__part part;
	struct weir *weir; /* not referenced: it owns the part */
	struct weir__watcher *watcher;
	pthread_mutex_t lock; /* guards list */
	struct weir_stream *list;
	unsigned made; /* streams so far */
	bool closed;
};

/*
 * Reference the stream if it has open operations. The list of streams has no
 * references; that of open operations has one, until it was seen to be empty under
 * the lock of the stream.
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

/* A stream with open operations, and a reference to it; NULL: none. */
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
 * A caller that a native stream blocks continues after weir_close, and asking
 * such a stream for its tail queues a marker. Nothing would poll for that work,
 * since the watcher stops: so no stream takes work from here on.
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

static int streams_close(struct weir__part *part, int64_t deadline)
{
	struct weir__streams *p = (struct weir__streams *)part;
	struct weir_stream *s;
	uint64_t tail;
	int ret = 0;

	refuse_work(p);
	while ((s = next_open(p, &tail))) {
		int64_t left = deadline - weir__now();

		if (deadline == INT64_MAX)
			left = -1;
		else if (left < 0)
			left = 0;
		weir__timeline_block(&s->timeline, tail, left);
		if (left >= 0 && weir__now() >= deadline &&
		    weir__stream_abandon(s)) {
			weir__log(
				p->weir,
				"weir_close: %s: operations have not finished at the deadline; the memory that they use is leaked",
				s->label);
			ret = -ETIMEDOUT;
		}
		weir__timeline_put(&s->timeline);
	}
	weir__watcher_stop(p->watcher);
	return ret;
}

static void streams_free(struct weir__part *part)
{
	struct weir__streams *p = (struct weir__streams *)part;

	weir__watcher_free(p->watcher);
	pthread_mutex_destroy(&p->lock);
	weir__free(p);
}

static int streams_make(struct weir *weir, struct weir__part **ret_part)
{
	struct weir__streams *p = weir__calloc(1, sizeof(*p));
	int r;

	if (!p)
		return weir__fail(-ENOMEM, "no memory for the streams");
	r = weir__watcher_new(&p->watcher);
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
		r = weir__watcher_start(p->watcher);
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
	weir__watch(s->part->watcher, s);
}
