/* SPDX-License-Identifier: MIT */
/* Schedulers: their compiled graphs, budget and streams. */
#include "graph/exec/sched.h"

#include <stdio.h>

#include "core/error.h"
#include "core/refs.h"
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
	if (o->copies > MAX_COPIES)
		return weir__fail(-EINVAL, "copies %u (at most %u)", o->copies,
				  MAX_COPIES);
	if (!o->copies)
		o->copies = 1;
	return 0;
}

bool weir__sched_can_use(const struct weir__sched_dev *d,
			 const struct weir_buft *buft)
{
	if (!d->compute)
		return false;
	return buft->dev == d->dev ||
	       (d->compute->supports_buft &&
		d->compute->supports_buft(d->dev, buft->dev, &buft->desc));
}

uint32_t weir__sched_index(const struct weir_sched *sched,
			   const struct weir_dev *dev)
{
	uint32_t i = 0;

	while (i < sched->n_devs && sched->dev[i].dev != dev)
		i++;
	return i;
}

static int check_device(struct weir_dev *const *devs, unsigned i)
{
	if (devs[i]->weir != devs[0]->weir)
		return weir__fail(-EINVAL, "%s and %s are of different roots",
				  devs[0]->desc.name, devs[i]->desc.name);
	for (unsigned k = 0; k < i; k++)
		if (devs[k] == devs[i])
			return weir__fail(-EINVAL, "%s is listed twice",
					  devs[i]->desc.name);
	return weir__dev_use(devs[i]);
}

static int check_devices(struct weir_dev *const *devs, unsigned n)
{
	bool computes = false;
	int r;

	if (!n)
		return weir__fail(-EINVAL, "no device");
	for (unsigned i = 0; i < n; i++)
		if (!devs[i])
			return weir__fail(-EINVAL, "device %u of %u is NULL", i,
					  n);
	r = weir__root_enter(devs[0]->weir);
	if (r == 0 && n > WEIR__LANES)
		r = weir__fail(-EINVAL, "%u devices: a scheduler has up to %u",
			       n, WEIR__LANES);
	for (unsigned i = 0; i < n && !r; i++) {
		r = check_device(devs, i);
		computes |= devs[i]->backend->compute != NULL;
	}
	if (r == 0 && !computes)
		r = weir__fail(-EOPNOTSUPP, "%s does not compute",
			       devs[0]->desc.name);
	return r;
}

/*
 * The devices, the memory in which each of them computes, and the prefetchers.
 */
static int sched_devices(struct weir_sched *s, struct weir_dev *const *devs)
{
	const uint64_t *weights = s->opts.weights;
	int r = 0;

	for (uint32_t i = 0; i < s->n_devs; i++) {
		struct weir__sched_dev *d = &s->dev[i];

		d->dev = devs[i];
		d->buft = &devs[i]->buft[0];
		d->compute = devs[i]->backend->compute;
		d->budget = s->opts.budgets ? s->opts.budgets[i] : 0;
	}
	s->opts.budgets = NULL;
	s->opts.weights = NULL;
	for (uint32_t i = s->n_devs; i-- > 0;) {
		if (s->dev[i].compute)
			s->first = i;
		for (uint32_t k = 0; k < s->n_devs; k++)
			if (weir__sched_can_use(&s->dev[i], s->dev[k].buft))
				s->shares[i] |= UINT64_C(1) << k;
	}
	for (uint32_t i = 0; i < s->n_devs && !r; i++)
		if (s->dev[i].compute)
			r = weir__prefetcher_new(s->dev[i].dev, s->dev[i].buft,
						 weights ? weights[i] : 0,
						 &s->dev[i].prefetcher);
	return r;
}

static void sched_put(struct weir_sched *sched)
{
	if (!weir__refs_drop(&sched->refs))
		return;
	for (uint32_t i = 0; i < sched->n_devs; i++) {
		weir__prefetcher_free(sched->dev[i].prefetcher);
		for (uint32_t k = 0; k < sched->dev[i].n_streams; k++)
			weir__timeline_put(&sched->dev[i].stream[k]->timeline);
	}
	weir__pins_put(sched->pins);
	pthread_mutex_destroy(&sched->start_lock);
	pthread_mutex_destroy(&sched->lock);
	pthread_cond_destroy(&sched->freed_one);
	weir__root_put(sched->weir);
	weir__free(sched);
}

int weir_sched_new(struct weir_dev *const *devs, unsigned n,
		   const struct weir_sched_opts *opts,
		   struct weir_sched **ret_sched)
{
	struct weir_sched_opts o;
	struct weir_sched *s;
	int r;

	WEIR__ENTER();
	r = check_devices(devs, n);
	if (r == 0)
		r = check_opts(&o, opts);
	if (r < 0)
		return r;
	s = weir__calloc(1, sizeof(*s) +
				    n * (sizeof(*s->dev) + sizeof(*s->shares)));
	if (!s)
		return weir__fail(-ENOMEM, "no memory for a scheduler");
	atomic_init(&s->refs, 1);
	s->weir = weir__root_ref(devs[0]->weir);
	s->dev = (void *)(s + 1);
	s->shares = (void *)(s->dev + n);
	s->n_devs = n;
	s->opts = o;
	pthread_mutex_init(&s->start_lock, NULL);
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->freed_one, NULL);
	r = sched_devices(s, devs);
	if (r < 0)
		sched_put(s);
	else
		*ret_sched = s;
	return r;
}

/* The lock is held, as in all functions of lists. */
static void compiled_unlink(struct weir__compiled *cg)
{
	*cg->link = cg->next;
	if (cg->next)
		cg->next->link = cg->link;
}

static void compiled_link(struct weir_sched *sched, struct weir__compiled *cg)
{
	cg->next = sched->compiled;
	cg->link = &sched->compiled;
	if (cg->next)
		cg->next->link = &cg->next;
	sched->compiled = cg;
}

/*
 * Remove from the list the compiled graph that has been unused for the longest
 * time, and return it for compiled_free_all(); NULL: there is none. Its bytes
 * count towards the budget until it is freed.
 */
static struct weir__compiled *kept_pop(struct weir_sched *sched)
{
	struct weir__compiled *cg, *oldest = NULL;

	for (cg = sched->compiled; cg; cg = cg->next)
		if (!cg->refs)
			oldest = cg;
	if (!oldest)
		return NULL;
	compiled_unlink(oldest);
	sched->n_kept--;
	sched->n_freeing++;
	return oldest;
}

/* Free them; no lock is held. */
static void compiled_free_all(struct weir_sched *sched,
			      struct weir__compiled *chain)
{
	struct weir__compiled *cg;

	while ((cg = chain)) {
		chain = cg->next;
		weir__compiled_free(cg);
		pthread_mutex_lock(&sched->lock);
		sched->n_freeing--;
		pthread_cond_broadcast(&sched->freed_one);
		pthread_mutex_unlock(&sched->lock);
	}
}

bool weir__sched_drop_kept(struct weir_sched *sched)
{
	struct weir__compiled *chain = NULL, *p;
	bool any;

	pthread_mutex_lock(&sched->lock);
	while ((p = kept_pop(sched))) {
		p->next = chain;
		chain = p;
	}
	any = sched->n_freeing > 0;
	pthread_mutex_unlock(&sched->lock);
	compiled_free_all(sched, chain);
	pthread_mutex_lock(&sched->lock);
	while (sched->n_freeing)
		pthread_cond_wait(&sched->freed_one, &sched->lock);
	pthread_mutex_unlock(&sched->lock);
	return any;
}

/* Bytes that the compiled graph has of the budget of device @i, or of all. */
#define ALL_DEVICES UINT32_MAX
static uint64_t compiled_bytes(const struct weir__compiled *cg, uint32_t i)
{
	uint64_t bytes = 0;

	if (i != ALL_DEVICES)
		return cg->reserved[i];
	for (i = 0; i < cg->sched->n_devs; i++)
		bytes += cg->reserved[i];
	return bytes;
}

/* The same, of compiled graphs that no executable graph uses. */
static uint64_t kept_bytes(const struct weir_sched *sched, uint32_t i)
{
	const struct weir__compiled *cg;
	uint64_t bytes = 0;

	for (cg = sched->compiled; cg; cg = cg->next)
		if (!cg->refs)
			bytes += compiled_bytes(cg, i);
	return bytes;
}

static bool exceeds(uint64_t budget, uint64_t used, uint64_t bytes)
{
	uint64_t all;

	return budget && (weir__add_over(used, bytes, &all) || all > budget);
}

/*
 * Check that the budgets have room for @bytes. @kept: unused compiled graphs are
 * counted, as if they stayed. < 0 with a sentence; without one if @kept.
 */
static int reserve_check(const struct weir_sched *sched, const uint64_t *bytes,
			 bool kept)
{
	uint64_t all = 0, used;

	for (uint32_t i = 0; i < sched->n_devs; i++) {
		const struct weir__sched_dev *d = &sched->dev[i];

		if (weir__add_over(all, bytes[i], &all))
			all = UINT64_MAX;
		used = d->reserved - (kept ? 0 : kept_bytes(sched, i));
		if (!exceeds(d->budget, used, bytes[i]))
			continue;
		return kept ? -ENOMEM
			    : weir__fail(
				      -ENOMEM,
				      "the graph needs %llu bytes on %s; executable graphs in use have %llu of its budget of %llu",
				      (ull)bytes[i], d->dev->desc.name,
				      (ull)used, (ull)d->budget);
	}
	used = sched->reserved - (kept ? 0 : kept_bytes(sched, ALL_DEVICES));
	if (!exceeds(sched->opts.budget, used, all))
		return 0;
	return kept ? -ENOMEM
		    : weir__fail(
			      -ENOMEM,
			      "the graph needs %llu bytes on %s%s; executable graphs in use have %llu of the budget of %llu",
			      (ull)all, sched->dev[0].dev->desc.name,
			      sched->n_devs > 1 ? " and others" : "", (ull)used,
			      (ull)sched->opts.budget);
}

static void count_bytes(struct weir_sched *sched, const uint64_t *bytes,
			bool add)
{
	for (uint32_t i = 0; i < sched->n_devs; i++) {
		uint64_t n = add ? bytes[i] : -bytes[i];

		sched->dev[i].reserved += n;
		sched->reserved += n;
	}
}

int weir__sched_reserve(struct weir_sched *sched, const uint64_t *bytes)
{
	struct weir__compiled *chain = NULL, *p;
	int r;

	pthread_mutex_lock(&sched->lock);
	while ((r = reserve_check(sched, bytes, false)) < 0 && sched->n_freeing)
		pthread_cond_wait(&sched->freed_one, &sched->lock);
	while (r == 0 && reserve_check(sched, bytes, true) < 0) {
		p = kept_pop(sched);
		count_bytes(sched, p->reserved, false);
		p->next = chain;
		chain = p;
	}
	if (r == 0)
		count_bytes(sched, bytes, true);
	/* Freeing a compiled graph gives its bytes back. */
	for (p = chain; p; p = p->next)
		count_bytes(sched, p->reserved, true);
	pthread_mutex_unlock(&sched->lock);
	compiled_free_all(sched, chain);
	return r;
}

void weir__sched_unreserve(struct weir_sched *sched, const uint64_t *bytes)
{
	pthread_mutex_lock(&sched->lock);
	count_bytes(sched, bytes, false);
	pthread_mutex_unlock(&sched->lock);
}

static struct weir__compiled *find_locked(struct weir_sched *sched,
					  const uint64_t fingerprint[2],
					  uint64_t key)
{
	struct weir__compiled *cg = sched->compiled;

	while (cg && (cg->fingerprint[0] != fingerprint[0] ||
		      cg->fingerprint[1] != fingerprint[1] || cg->key != key))
		cg = cg->next;
	if (!cg)
		return NULL;
	if (!cg->refs++) {
		sched->n_kept--;
		weir__refs_add(&sched->refs, 1);
	}
	cg->times++;
	compiled_unlink(cg);
	compiled_link(sched, cg);
	return cg;
}

struct weir__compiled *weir__sched_find(struct weir_sched *sched,
					const uint64_t fingerprint[2],
					uint64_t key)
{
	struct weir__compiled *cg;

	pthread_mutex_lock(&sched->lock);
	cg = find_locked(sched, fingerprint, key);
	pthread_mutex_unlock(&sched->lock);
	return cg;
}

void weir__sched_add(struct weir_sched *sched, struct weir__compiled *cg)
{
	pthread_mutex_lock(&sched->lock);
	compiled_link(sched, cg);
	cg->times = 1;
	weir__refs_add(&sched->refs, 1);
	pthread_mutex_unlock(&sched->lock);
}

/*
 * The lock is held. Remove unused compiled graphs from the list and return
 * them: all if the program has freed the scheduler; else all but the newest, if
 * they are too many or too large.
 */
static struct weir__compiled *kept_excess(struct weir_sched *sched)
{
	struct weir__compiled *chain = NULL, *p;

	while (sched->n_kept &&
	       (sched->freed || sched->n_kept > WEIR__SCHED_KEPT ||
		(sched->n_kept > 1 &&
		 kept_bytes(sched, ALL_DEVICES) > WEIR__SCHED_KEPT_BYTES))) {
		p = kept_pop(sched);
		p->next = chain;
		chain = p;
	}
	return chain;
}

void weir_sched_free(struct weir_sched *sched)
{
	struct weir__compiled *chain;

	if (!sched || !weir__root_is_ours(sched->weir))
		return;
	pthread_mutex_lock(&sched->lock);
	sched->freed = true;
	chain = kept_excess(sched);
	pthread_mutex_unlock(&sched->lock);
	compiled_free_all(sched, chain);
	sched_put(sched);
}

/* A compiled graph is kept for a while, since an equal graph may come soon. */
void weir__compiled_put(struct weir__compiled *cg)
{
	struct weir_sched *sched = cg->sched;
	struct weir__compiled *chain;

	pthread_mutex_lock(&sched->lock);
	if (--cg->refs) {
		pthread_mutex_unlock(&sched->lock);
		return;
	}
	compiled_unlink(cg);
	compiled_link(sched, cg);
	sched->n_kept++;
	chain = kept_excess(sched);
	pthread_mutex_unlock(&sched->lock);
	compiled_free_all(sched, chain);
	sched_put(sched);
}

int weir__sched_stream(struct weir_sched *sched, struct weir__sched_dev *d,
		       struct weir_stream **ret_stream)
{
	struct weir_stream *s = NULL;
	char name[48];

	pthread_mutex_lock(&sched->lock);
	if (d->n_streams)
		s = d->stream[--d->n_streams];
	pthread_mutex_unlock(&sched->lock);
	snprintf(name, sizeof(name), "run %s", d->dev->desc.name);
	if (!s)
		return weir__stream_new(d->dev, 0, name, ret_stream);
	*ret_stream = s;
	return 0;
}

/* A stream that has failed is not used again. */
void weir__sched_stream_back(struct weir_sched *sched,
			     struct weir__sched_dev *d, struct weir_stream *s)
{
	struct weir_failure f;
	bool keep = s->timeline.ops->state(&s->timeline, weir__stream_tail(s),
					   &f) == 1;

	pthread_mutex_lock(&sched->lock);
	keep = keep && !sched->freed && d->n_streams < WEIR__SCHED_STREAMS;
	if (keep)
		d->stream[d->n_streams++] = s;
	pthread_mutex_unlock(&sched->lock);
	if (!keep)
		weir__timeline_put(&s->timeline);
}
