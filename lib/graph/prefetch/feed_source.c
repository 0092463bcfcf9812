/* SPDX-License-Identifier: MIT */
/* A feed: the timeline of a feeder's numbers, and the stream that reads. */
#include "core/error.h"
#include "core/sys.h"
#include "graph/prefetch/feed.h"
#include "stream/stream.h"

static int feed_state(struct weir__timeline *tl, uint64_t number,
		      struct weir_failure *cause)
{
	struct weir__feed *feed = (struct weir__feed *)tl;
	bool failed = atomic_load(&feed->failed);

	if (number <= atomic_load(&feed->done))
		return 1;
	if (!failed)
		return 0;
	if (cause)
		*cause = feed->cause;
	return feed->cause.err;
}

static void feed_free(struct weir__timeline *tl)
{
	struct weir__feed *feed = (struct weir__feed *)tl;

	weir__timeline_put(&feed->stream->timeline);
	weir__timeline_fini(tl);
	weir__free(feed);
}

static const struct weir__timeline_ops feed_timeline = {
	.size = sizeof(feed_timeline),
	.state = feed_state,
	.free = feed_free,
};

int weir__feed_new(struct weir__feeder *f, struct weir__feed *before,
		   struct weir__feed **ret)
{
	struct weir__feed *feed = weir__calloc(1, sizeof(*feed));
	int r;

	if (!feed)
		return weir__fail(-ENOMEM, "no memory for a feed of %s",
				  f->dev->desc.name);
	r = weir__stream_new(f->dev, 0, "feed", &feed->stream);
	if (r < 0) {
		weir__free(feed);
		return r;
	}
	weir__timeline_init(&feed->timeline, &feed_timeline, f->dev->weir);
	if (before)
		r = weir__stream_wait_ended(feed->stream,
					    &before->stream->timeline,
					    weir__stream_tail(before->stream));
	feed->after = weir__stream_tail(feed->stream);
	if (r < 0)
		weir__timeline_put(&feed->timeline);
	else
		*ret = feed;
	return r;
}
