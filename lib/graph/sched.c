/* SPDX-License-Identifier: MIT */
/* Schedulers: their plans, budget and streams. */
#include "graph/sched.h"

#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"
#include "stream/stream.h"

typedef unsigned long long ull;

#define MAX_COPIES 1024u

static int check_opts(struct weir_sched_opts *o,
		      const struct weir_sched_opts *opts)
{
	int r = weir__opts_in(o, sizeof(*o), opts);

	if (r < 0)
		return r;
	if (o->reserved || o->copies > MAX_COPIES)
		return weir__fail(
			-EINVAL,
			"copies %u (at most %u), or reserved %u (must be 0)",
			o->copies, MAX_COPIES, o->reserved);
	if (!o->copies)
		o->copies = 1;
	return 0;
}

static int check_device(struct weir_dev *const *devs, unsigned n)
{
	int r;

	if (!n)
		return weir__fail(-EINVAL, "no device");
	r = weir__root_enter(devs[0]->weir);
	if (r < 0)
		return r;
	if (n > 1)
		return weir__fail(-EOPNOTSUPP,
				  "%u devices: a scheduler has one", n);
	if (!devs[0]->backend->compute)
		return weir__fail(-EOPNOTSUPP, "%s does not compute",
				  devs[0]->desc.name);
	return weir__dev_use(devs[0]);
}

int weir_sched_new(struct weir_dev *const *devs, unsigned n,
		   const struct weir_sched_opts *opts,
		   struct weir_sched **ret_sched)
{
	struct weir_sched_opts o;
	struct weir_sched *s;
	int r;

	WEIR__ENTER();
	r = check_device(devs, n);
	if (r == 0)
		r = check_opts(&o, opts);
	if (r < 0)
		return r;
	s = weir__calloc(1, sizeof(*s));
	if (!s)
		return weir__fail(-ENOMEM, "no memory for a scheduler");
	atomic_init(&s->refs, 1);
	s->weir = weir__root_ref(devs[0]->weir);
	s->dev = devs[0];
	s->buft = &devs[0]->buft[0];
	s->compute = devs[0]->backend->compute;
	s->opts = o;
	pthread_mutex_init(&s->lock, NULL);
	*ret_sched = s;
	return 0;
}

void weir__sched_put(struct weir_sched *sched)
{
	if (atomic_fetch_sub_explicit(&sched->refs, 1, memory_order_acq_rel) !=
	    1)
		return;
	for (uint32_t i = 0; i < sched->n_streams; i++)
		weir__source_put(&sched->stream[i]->src);
	pthread_mutex_destroy(&sched->lock);
	weir__root_put(sched->weir);
	weir__free(sched);
}

/* The lock is held, as in all functions of lists. */
static void plan_unlink(struct weir__graph_plan *p)
{
	*p->link = p->next;
	if (p->next)
		p->next->link = p->link;
}

static void plan_link(struct weir_sched *sched, struct weir__graph_plan *p)
{
	p->next = sched->plans;
	p->link = &sched->plans;
	if (p->next)
		p->next->link = &p->next;
	sched->plans = p;
}

/* Take the plan off the list that was not in use for longest; NULL: none. */
static struct weir__graph_plan *kept_pop(struct weir_sched *sched)
{
	struct weir__graph_plan *p, *oldest = NULL;

	for (p = sched->plans; p; p = p->next)
		if (!p->refs)
			oldest = p;
	if (!oldest)
		return NULL;
	plan_unlink(oldest);
	sched->n_kept--;
	return oldest;
}

/* Free them; no lock is held. */
static void plans_free(struct weir__graph_plan *chain)
{
	struct weir__graph_plan *p;

	while ((p = chain)) {
		chain = p->next;
		weir__graph_plan_free(p);
	}
}

/* Bytes of plans that are only kept. */
static uint64_t kept_bytes(const struct weir_sched *sched)
{
	const struct weir__graph_plan *p;
	uint64_t bytes = 0;

	for (p = sched->plans; p; p = p->next)
		if (!p->refs)
			bytes += p->reserved;
	return bytes;
}

static int reserve_check(const struct weir_sched *sched, uint64_t bytes)
{
	uint64_t budget = sched->opts.budget, all;
	uint64_t used = sched->reserved - kept_bytes(sched);

	if (!budget || (!weir__add_over(used, bytes, &all) && all <= budget))
		return 0;
	return weir__fail(
		-ENOMEM,
		"the graph needs %llu bytes on %s; schedules in use have %llu of the budget of %llu",
		(ull)bytes, sched->dev->desc.name, (ull)used, (ull)budget);
}

int weir__sched_reserve(struct weir_sched *sched, uint64_t bytes)
{
	struct weir__graph_plan *chain = NULL, *p;
	uint64_t given_back = 0;
	int r;

	pthread_mutex_lock(&sched->lock);
	r = reserve_check(sched, bytes);
	while (r == 0 && sched->opts.budget &&
	       sched->reserved - given_back + bytes > sched->opts.budget) {
		p = kept_pop(sched);
		given_back += p->reserved;
		p->next = chain;
		chain = p;
	}
	if (r == 0)
		sched->reserved += bytes;
	pthread_mutex_unlock(&sched->lock);
	plans_free(chain);
	return r;
}

void weir__sched_unreserve(struct weir_sched *sched, uint64_t bytes)
{
	pthread_mutex_lock(&sched->lock);
	sched->reserved -= bytes;
	pthread_mutex_unlock(&sched->lock);
}

static struct weir__graph_plan *find_locked(struct weir_sched *sched,
					    const uint64_t fingerprint[2])
{
	struct weir__graph_plan *p = sched->plans;

	while (p && (p->fingerprint[0] != fingerprint[0] ||
		     p->fingerprint[1] != fingerprint[1]))
		p = p->next;
	if (!p)
		return NULL;
	if (!p->refs++) {
		sched->n_kept--;
		atomic_fetch_add(&sched->refs, 1);
	}
	p->times++;
	plan_unlink(p);
	plan_link(sched, p);
	return p;
}

struct weir__graph_plan *weir__sched_find(struct weir_sched *sched,
					  const uint64_t fingerprint[2])
{
	struct weir__graph_plan *p;

	pthread_mutex_lock(&sched->lock);
	p = find_locked(sched, fingerprint);
	pthread_mutex_unlock(&sched->lock);
	return p;
}

void weir__sched_add(struct weir_sched *sched, struct weir__graph_plan *p)
{
	pthread_mutex_lock(&sched->lock);
	plan_link(sched, p);
	p->times = 1;
	atomic_fetch_add(&sched->refs, 1);
	pthread_mutex_unlock(&sched->lock);
}

/*
 * The lock is held. Take what is too much off the list: all if the program has
 * freed the scheduler, else all but the plan that was used last if they are too
 * many or too large.
 */
static struct weir__graph_plan *kept_excess(struct weir_sched *sched)
{
	struct weir__graph_plan *chain = NULL, *p;

	while (sched->n_kept &&
	       (sched->freed || sched->n_kept > WEIR__SCHED_KEPT ||
		(sched->n_kept > 1 &&
		 kept_bytes(sched) > WEIR__SCHED_KEPT_BYTES))) {
		p = kept_pop(sched);
		p->next = chain;
		chain = p;
	}
	return chain;
}

void weir_sched_free(struct weir_sched *sched)
{
	struct weir__graph_plan *chain;

	if (!sched || !weir__root_is_ours(sched->weir))
		return;
	pthread_mutex_lock(&sched->lock);
	sched->freed = true;
	chain = kept_excess(sched);
	pthread_mutex_unlock(&sched->lock);
	plans_free(chain);
	weir__sched_put(sched);
}

/* A plan is kept for a while, since an equal graph may come soon. */
void weir__graph_plan_put(struct weir__graph_plan *p)
{
	struct weir_sched *sched = p->sched;
	struct weir__graph_plan *chain;

	pthread_mutex_lock(&sched->lock);
	if (--p->refs) {
		pthread_mutex_unlock(&sched->lock);
		return;
	}
	plan_unlink(p);
	plan_link(sched, p);
	sched->n_kept++;
	chain = kept_excess(sched);
	pthread_mutex_unlock(&sched->lock);
	plans_free(chain);
	weir__sched_put(sched);
}

int weir__sched_stream(struct weir_sched *sched,
		       struct weir_stream **ret_stream)
{
	struct weir_stream *s = NULL;

	pthread_mutex_lock(&sched->lock);
	if (sched->n_streams)
		s = sched->stream[--sched->n_streams];
	pthread_mutex_unlock(&sched->lock);
	if (!s)
		return weir__stream_new(sched->dev, 0, "graph", ret_stream);
	*ret_stream = s;
	return 0;
}

/* A stream that has failed is not used again. */
void weir__sched_stream_back(struct weir_sched *sched, struct weir_stream *s)
{
	struct weir_failure f;
	bool keep = s->src.ops->state(&s->src, weir__stream_tail(s), &f) == 1;

	pthread_mutex_lock(&sched->lock);
	keep = keep && !sched->freed && sched->n_streams < WEIR__SCHED_STREAMS;
	if (keep)
		sched->stream[sched->n_streams++] = s;
	pthread_mutex_unlock(&sched->lock);
	if (!keep)
		weir__source_put(&s->src);
}
