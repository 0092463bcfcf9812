/* SPDX-License-Identifier: MIT */
/*
 * The list of accesses of a buffer, and waiting for them. A blocking call waits
 * only for work that was queued before it: it collects the conflicts once,
 * under the buffer's lock and then under that of the root's list, and waits for
 * them without a lock.
 */
#include <string.h>

#include "core/error.h"
#include "races/races.h"
#include "core/sys.h"
#include "core/util.h"
#include "dev/dev.h"
#include "mem/access.h"
#include "mem/buf.h"

/*
 * Count an access by DMA, and hide the buffer from children of fork(2) from the
 * first such access until the last. The buffer's lock is held.
 *
 * After fork(2) parent and child share their pages copy-on-write. If the parent
 * then writes to a page that is the target of DMA, the parent gets a copy of
 * the page, and the DMA writes to the page that the child keeps. Since Linux
 * 6.5 the child gets the copy of a page that a direct read has pinned; for
 * older kernels open(2) demands that such memory is hidden from children.
 */
static void count_dma(struct weir_buf *buf, bool hidden)
{
	struct weir_dev *dev = buf->buft->dev;
	bool changes = hidden ? buf->n_dma++ == 0 : --buf->n_dma == 0;

	if (changes && !buf->foreign && buf->bytes && dev->backend->mem->hide)
		dev->backend->mem->hide(dev, &buf->mem, hidden);
}

void weir__access_hide(struct weir_buf *buf, bool hidden)
{
	pthread_mutex_lock(&buf->lock);
	count_dma(buf, hidden);
	pthread_mutex_unlock(&buf->lock);
}

void weir__access_add(struct weir__access *access)
{
	struct weir_buf *buf = access->buf;

	pthread_mutex_lock(&buf->lock);
	access->next = buf->access;
	access->link = &buf->access;
	if (access->next)
		access->next->link = &access->next;
	buf->access = access;
	if (access->dma)
		count_dma(buf, true);
	pthread_mutex_unlock(&buf->lock);
}

void weir__access_del(struct weir__access *access)
{
	struct weir_buf *buf = access->buf;

	pthread_mutex_lock(&buf->lock);
	if (access->link) {
		*access->link = access->next;
		if (access->next)
			access->next->link = access->link;
		access->link = NULL;
		if (access->dma)
			count_dma(buf, false);
	}
	pthread_mutex_unlock(&buf->lock);
}

struct access_conflict {
	struct weir__timeline *timeline; /* holds a reference */
	uint64_t number;
};

struct weir__conflicts {
	struct access_conflict *list;
	size_t n, room;
	struct access_conflict few[16]; /* the list while it is short */
};

int weir__conflicts_add(struct weir__conflicts *c, struct weir__timeline *tl,
			uint64_t number)
{
	if (c->n == c->room) {
		size_t room = 2 * c->room;
		struct access_conflict *list =
			weir__realloc(c->list == c->few ? NULL : c->list, room,
				      sizeof(*list));

		if (!list)
			return weir__fail(
				-ENOMEM, "no memory to wait for %zu operations",
				room);
		if (c->list == c->few)
			memcpy(list, c->few, sizeof(c->few));
		c->list = list;
		c->room = room;
	}
	c->list[c->n].timeline = weir__timeline_ref(tl);
	c->list[c->n++].number = number;
	return 0;
}

void weir__accesses_add(struct weir *weir, struct weir__accesses *accesses)
{
	struct weir__accesses_list *list = &weir->accesses;

	pthread_mutex_lock(&list->lock);
	accesses->next = list->first;
	accesses->link = &list->first;
	if (accesses->next)
		accesses->next->link = &accesses->next;
	list->first = accesses;
	atomic_fetch_add(&list->n, 1);
	pthread_mutex_unlock(&list->lock);
}

void weir__accesses_del(struct weir *weir, struct weir__accesses *accesses)
{
	struct weir__accesses_list *list = &weir->accesses;

	pthread_mutex_lock(&list->lock);
	*accesses->link = accesses->next;
	if (accesses->next)
		accesses->next->link = accesses->link;
	atomic_fetch_sub(&list->n, 1);
	pthread_mutex_unlock(&list->lock);
}

static int collect_writes(const struct weir_buf *buf, uint64_t lo, uint64_t hi,
			  struct weir__conflicts *c)
{
	struct weir__accesses_list *list = &buf->buft->dev->weir->accesses;
	int r = 0;

	if (!atomic_load(&list->n))
		return 0;
	pthread_mutex_lock(&list->lock);
	for (struct weir__accesses *a = list->first; a && !r; a = a->next)
		r = a->find(a, buf, lo, hi, c);
	pthread_mutex_unlock(&list->lock);
	return r;
}

static int collect_conflicts(struct weir_buf *buf, uint64_t lo, uint64_t hi,
			     bool write, struct weir__conflicts *c)
{
	int r = 0;

	pthread_mutex_lock(&buf->lock);
	for (struct weir__access *a = buf->access; a && !r; a = a->next)
		if ((write || a->write) && a->lo < hi && lo < a->hi)
			r = weir__conflicts_add(c, a->timeline, a->number);
	pthread_mutex_unlock(&buf->lock);
	return r ? r : collect_writes(buf, lo, hi, c);
}

/*
 * Wait for all conflicting work. Its failures are reported to the callers that
 * queued it, not to this one.
 */
static void wait_for(struct weir__conflicts *c)
{
	struct weir__error_saved saved;

	weir__error_save(&saved);
	for (size_t i = 0; i < c->n; i++)
		weir__timeline_block(c->list[i].timeline, c->list[i].number,
				     -1);
	weir__error_restore(&saved);
}

/*
 * Tell the race checker that the host has waited for all work that conflicts
 * with this access, also for work that had ended before the call.
 */
static void races_waited(const struct weir_buf *buf, uint64_t lo, uint64_t hi,
			 bool write)
{
	const struct weir__races_bytes bytes = {
		.space = weir__buf_space(buf),
		.lo = (uintptr_t)buf->mem.base + lo,
		.width = hi - lo,
		.write = write,
	};

	weir__races_host_waited(buf->buft->dev->weir, &bytes);
}

int weir__buf_quiesce(struct weir_buf *buf, uint64_t lo, uint64_t hi,
		      bool write)
{
	struct weir__conflicts c;
	int r;

	c.list = c.few;
	c.n = 0;
	c.room = sizeof(c.few) / sizeof(c.few[0]);
	r = collect_conflicts(buf, lo, hi, write, &c);
	if (!r && c.n)
		wait_for(&c);
	if (!r && weir__races_on(buf->buft->dev->weir))
		races_waited(buf, lo, hi, write);
	for (size_t i = 0; i < c.n; i++)
		weir__timeline_put(c.list[i].timeline);
	if (c.list != c.few)
		weir__free(c.list);
	return r;
}
