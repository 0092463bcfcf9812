/* SPDX-License-Identifier: MIT */
#include "stream/keeper.h"

#include "stream/stream.h"

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

void weir__stream_tell_keepers(struct weir_stream *s)
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
