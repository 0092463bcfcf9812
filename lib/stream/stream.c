/* SPDX-License-Identifier: MIT */
/*
 * The stream as an object, as a timeline, and what keeps it after the
 * program has freed it.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/sys.h"
#include "stream/fileio.h"
#include "stream/stream.h"

void weir__cancelled(struct weir_failure *f, const struct weir_failure *cause)
{
	static const char prefix[] = "not done after a failure: ";
	struct weir_failure first = *cause;
	const char *text = first.text;

	if (!strncmp(text, prefix, sizeof(prefix) - 1))
		text += sizeof(prefix) - 1;
	weir__failure_set(f, -ECANCELED, first.native, first.number, "%s%s",
			  prefix, text);
}

/* fail_lock is held. */
static const struct weir__failed_range *failed_range_of(struct weir_stream *s,
							uint64_t number)
{
	const struct weir__failed_range *range;

	if (number >= s->failed_now.lo)
		return &s->failed_now;
	for (range = s->failed_past; range; range = range->next)
		if (number >= range->lo && number <= range->hi)
			return range;
	return NULL;
}

static int stream_state(struct weir__timeline *tl, uint64_t number,
			struct weir_failure *cause)
{
	struct weir_stream *s = weir__stream_of(tl);
	const struct weir__failed_range *range;
	struct weir_failure f = { .err = 1 };

	/* done is read first: a failure is declared before done reaches it. */
	if (!weir__stream_ended(s, number))
		return 0;
	if (!atomic_load(&s->ever_failed))
		return 1;
	pthread_mutex_lock(&s->fail_lock);
	range = failed_range_of(s, number);
	if (range && (number == range->lo || range->all))
		f = range->cause;
	else if (range)
		weir__cancelled(&f, &range->cause);
	pthread_mutex_unlock(&s->fail_lock);
	if (f.err < 0 && cause)
		*cause = f;
	return f.err;
}

/* Called by the last drop of a reference, perhaps on the queue's own thread. */
static void stream_free(struct weir__timeline *tl)
{
	struct weir_stream *s = weir__stream_of(tl);
	struct weir__failed_range *range;
	struct weir__stream_op *op;
	struct weir__fileio *io;

	assert(!s->open);
	weir__streams_del(s);
	if (s->last_marker)
		weir__stream_op_drop(s->last_marker);
	if (s->queue)
		s->ops->close(s->queue);
	while ((op = s->spare)) {
		s->spare = op->next;
		weir__free(op);
	}
	while ((io = s->spare_io)) {
		s->spare_io = io->next;
		weir__free(io);
	}
	while ((range = s->failed_past)) {
		s->failed_past = range->next;
		weir__free(range);
	}
	pthread_mutex_destroy(&s->fail_lock);
	pthread_mutex_destroy(&s->lock);
	pthread_mutex_destroy(&s->submit_lock);
	weir__timeline_fini(tl);
	weir__free(s);
}

static const struct weir__timeline_ops stream_source = {
	.size = sizeof(stream_source),
	.state = stream_state,
	.free = stream_free,
};

struct weir_dev *weir__timeline_dev(struct weir__timeline *tl)
{
	return tl->ops == &stream_source ? weir__stream_of(tl)->dev : NULL;
}

static void stream_label(struct weir_stream *s, const char *name)
{
	if (name)
		snprintf(s->label, sizeof(s->label), "stream '%s'",
			 weir__quote(name, strnlen(name, 40)));
	else
		snprintf(s->label, sizeof(s->label), "a stream of %s",
			 s->dev->desc.name);
}

/* Make a stream that has no queue yet. */
static int stream_make(struct weir_dev *dev, const char *name,
		       struct weir_stream **ret_stream)
{
	struct weir_stream *s = weir__calloc(1, sizeof(*s));
	int r;

	if (!s)
		return weir__fail(-ENOMEM, "no memory for a stream of %s",
				  dev->desc.name);
	weir__timeline_init(&s->timeline, &stream_source, dev->weir);
	pthread_mutex_init(&s->submit_lock, NULL);
	pthread_mutex_init(&s->lock, NULL);
	pthread_mutex_init(&s->fail_lock, NULL);
	s->dev = dev;
	s->ops = dev->backend->queue;
	s->failed_now.lo = UINT64_MAX;
	stream_label(s, name);
	r = weir__streams_add(s);
	if (r < 0) {
		weir__timeline_put(&s->timeline);
		return r;
	}
	*ret_stream = s;
	return 0;
}

int weir__stream_around(struct weir_dev *dev, void *queue,
			const struct weir__stream_mode *mode, const char *name,
			struct weir_stream **ret_stream)
{
	int r = stream_make(dev, name, ret_stream);

	if (r < 0) {
		dev->backend->queue->close(queue);
		return r;
	}
	(*ret_stream)->queue = queue;
	(*ret_stream)->mode = mode;
	if (weir__races_on(dev->weir))
		weir__stream_races_add(*ret_stream);
	return 0;
}

int weir__stream_new(struct weir_dev *dev, unsigned flags, const char *name,
		     struct weir_stream **ret_stream)
{
	void *queue;
	int r = weir__dev_use(dev);

	if (r < 0)
		return r;
	r = weir__dev_result(dev, "queue->open",
			     dev->backend->queue->open(dev, flags, name,
						       &queue));
	if (r < 0)
		return r;
	r = weir__stream_around(dev, queue,
				flags & WEIR_STREAM_NATIVE
					? &weir__stream_native
					: &weir__stream_managed,
				name, ret_stream);
	if (r == 0)
		(*ret_stream)->owns_queue = true;
	return r;
}

int weir_stream_new(struct weir_dev *dev, const struct weir_stream_opts *opts,
		    struct weir_stream **ret_stream)
{
	struct weir_stream_opts o;
	int r;

	WEIR__ENTER();
	r = weir__root_enter(dev->weir);
	if (r == 0)
		r = weir__opts_in(&o, sizeof(o), opts);
	if (r < 0)
		return r;
	if (o.flags & ~WEIR_STREAM_NATIVE || o.reserved)
		return weir__fail(
			-EINVAL,
			"stream flags %#x (known are %#x), or reserved %#x (must be 0)",
			o.flags, WEIR_STREAM_NATIVE, o.reserved);
	return weir__stream_new(dev, o.flags, o.name, ret_stream);
}

int weir__stream_keep(struct weir_stream *s, struct weir__stream_keeper *keeper)
{
	int r = 0;

	if (s->mode == &weir__stream_native)
		r = weir__stream_reserve_marker(s);
	if (r < 0)
		return r;
	weir__timeline_ref(&s->timeline);
	pthread_mutex_lock(&s->lock);
	keeper->next = s->keepers;
	keeper->link = &s->keepers;
	if (keeper->next)
		keeper->next->link = &keeper->next;
	s->keepers = keeper;
	pthread_mutex_unlock(&s->lock);
	return 0;
}

/* The lock is held. */
static void keeper_del(struct weir__stream_keeper *keeper)
{
	*keeper->link = keeper->next;
	if (keeper->next)
		keeper->next->link = keeper->link;
	keeper->link = NULL;
}

void weir__stream_unkeep(struct weir_stream *s,
			 struct weir__stream_keeper *keeper)
{
	pthread_mutex_lock(&s->lock);
	if (keeper->link)
		keeper_del(keeper);
	pthread_mutex_unlock(&s->lock);
}

static void tell_keepers(struct weir_stream *s)
{
	struct weir__stream_keeper *keeper;

	for (;;) {
		pthread_mutex_lock(&s->lock);
		keeper = s->keepers;
		if (keeper) {
			keeper_del(keeper);
			keeper->hold(keeper);
		}
		pthread_mutex_unlock(&s->lock);
		if (!keeper)
			return;
		keeper->freed(keeper);
	}
}

void weir_stream_free(struct weir_stream *stream)
{
	if (!stream || !weir__root_is_ours(stream->timeline.weir))
		return;
	if (stream->mode == &weir__stream_native)
		weir__stream_leave(stream);
	tell_keepers(stream);
	weir__timeline_put(&stream->timeline);
}

/* A copy of the failure; its err is 0 if there is none. */
static struct weir_failure failure_of(struct weir_stream *s)
{
	struct weir_failure f = { 0 };

	pthread_mutex_lock(&s->lock);
	if (s->failed)
		f = s->failure;
	pthread_mutex_unlock(&s->lock);
	return f;
}

int weir__stream_check(struct weir_stream *s)
{
	struct weir_failure f = failure_of(s);

	if (!f.err)
		return 0;
	weir__cancelled(&f, &f);
	return weir__fail_with(&f);
}

bool weir__stream_has_failed(struct weir_stream *s)
{
	return failure_of(s).err != 0;
}

int weir__stream_check_issued(struct weir_stream *s)
{
	struct weir_failure f = { 0 };

	pthread_mutex_lock(&s->lock);
	if (s->stopped)
		f = s->failure;
	pthread_mutex_unlock(&s->lock);
	if (!f.err)
		return 0;
	weir__cancelled(&f, &f);
	return weir__fail_with(&f);
}

int weir_stream_sync(struct weir_stream *stream, int64_t timeout_ns)
{
	struct weir_failure f;
	uint64_t tail;
	int r, refused;

	WEIR__ENTER();
	r = weir__root_read(stream->timeline.weir);
	if (r < 0)
		return r;
	refused = stream->mode->tail(stream, &tail);
	if (refused == -ENOMEM)
		return refused;
	/* A marker was refused: wait for the library's own work. */
	if (refused < 0)
		tail = weir__stream_tail(stream);
	r = weir__timeline_block(&stream->timeline, tail, timeout_ns);
	if (r >= 0)
		return refused < 0 ? refused : r;
	if (r == -ETIMEDOUT)
		return r;
	f = failure_of(stream);
	return f.err ? weir__fail_with(&f) : r;
}

int weir_stream_error(struct weir_stream *stream,
		      struct weir_failure *ret_failure)
{
	int r;

	WEIR__ENTER();
	r = weir__root_read(stream->timeline.weir);
	if (r < 0)
		return r;
	*ret_failure = failure_of(stream);
	return ret_failure->err ? weir__fail_with(ret_failure) : 0;
}

/* The failed range is kept, since events may have numbers in it. */
static int stream_reset_locked(struct weir_stream *s)
{
	struct weir__failed_range *range;

	if (s->open || s->retiring)
		return weir__fail(
			-EBUSY,
			"%s: operations %llu to %llu have not finished: wait for them first",
			s->label, (unsigned long long)atomic_load(&s->done) + 1,
			(unsigned long long)s->tail);
	if (!s->failed)
		return 0;
	if (s->failure.err == -ENODEV)
		return weir__fail_with(&s->failure);
	range = weir__malloc(sizeof(*range));
	if (!range)
		return weir__fail(-ENOMEM, "%s: no memory to keep the failure",
				  s->label);
	pthread_mutex_lock(&s->fail_lock);
	*range = s->failed_now;
	range->hi = s->tail;
	range->next = s->failed_past;
	s->failed_past = range;
	s->failed_now.lo = UINT64_MAX;
	pthread_mutex_unlock(&s->fail_lock);
	s->failed = false;
	s->stopped = false;
	/* Use up a number, so that later records are outside the range. */
	atomic_store(&s->done, weir__stream_number(s));
	weir__races_host_knows(&s->timeline, weir__stream_tail(s));
	return 0;
}

int weir_stream_reset(struct weir_stream *stream)
{
	int r;

	WEIR__ENTER();
	r = weir__root_enter(stream->timeline.weir);
	if (r < 0)
		return r;
	pthread_mutex_lock(&stream->lock);
	r = stream_reset_locked(stream);
	pthread_mutex_unlock(&stream->lock);
	return r;
}
