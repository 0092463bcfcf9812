/* SPDX-License-Identifier: MIT */
#include "graph/compile/compiler.h"

#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"
#include "dev/dev.h"
#include "graph/compile/compiled.h"
#include "graph/prefetch/prefetcher.h"
#include "mem/buf.h"

typedef unsigned long long ull;

bool weir__compiler_dev_can_use(const struct weir__compiler_dev *d,
				const struct weir_buft *buft)
{
	if (!d->compute)
		return false;
	if (!d->compute->supports_buft)
		return buft->dev == d->dev;
	return d->compute->supports_buft(d->dev, buft->dev, &buft->desc);
}

uint32_t weir__compiler_dev_index(const struct weir__compiler *c,
				  const struct weir_dev *dev)
{
	uint32_t i = 0;

	while (i < c->n_devs && c->dev[i].dev != dev)
		i++;
	return i;
}

/* Set the devices, the memory in which each computes, and prefetchers. */
static int compiler_devices(struct weir__compiler *c,
			    struct weir_dev *const *devs,
			    const struct weir_sched_opts *opts)
{
	int r = 0;

	for (uint32_t i = 0; i < c->n_devs; i++) {
		struct weir__compiler_dev *d = &c->dev[i];

		d->dev = devs[i];
		d->buft = &devs[i]->buft[0];
		d->compute = weir__dev_compute(devs[i]);
		d->budget = opts->budgets ? opts->budgets[i] : 0;
	}
	for (uint32_t i = c->n_devs; i-- > 0;) {
		if (c->dev[i].compute)
			c->first = i;
		for (uint32_t k = 0; k < c->n_devs; k++)
			if (weir__compiler_dev_can_use(&c->dev[i],
						       c->dev[k].buft))
				c->shares[i] |= UINT64_C(1) << k;
	}
	for (uint32_t i = 0; i < c->n_devs && !r; i++)
		if (c->dev[i].compute)
			r = weir__prefetcher_new(
				c->dev[i].dev, c->dev[i].buft,
				opts->weights ? opts->weights[i] : 0,
				&c->dev[i].prefetcher);
	return r;
}

int weir__compiler_new(struct weir_dev *const *devs, uint32_t n,
		       const struct weir_sched_opts *opts,
		       struct weir__compiler **ret_compiler)
{
	struct weir__compiler *c;
	int r;

	c = weir__calloc(1, sizeof(*c) +
				    n * (sizeof(*c->dev) + sizeof(*c->shares)));
	if (!c)
		return weir__fail(-ENOMEM, "no memory for a scheduler");
	c->dev = (void *)(c + 1);
	c->shares = (void *)(c->dev + n);
	c->n_devs = n;
	c->copies = opts->copies;
	c->place_ns = opts->place_ms * INT64_C(1000000);
	c->budget = opts->budget;
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->freed_one, NULL);
	r = compiler_devices(c, devs, opts);
	if (r < 0)
		weir__compiler_free(c);
	else
		*ret_compiler = c;
	return r;
}

void weir__compiler_free(struct weir__compiler *c)
{
	for (uint32_t i = 0; i < c->n_devs; i++)
		weir__prefetcher_free(c->dev[i].prefetcher);
	pthread_mutex_destroy(&c->lock);
	pthread_cond_destroy(&c->freed_one);
	weir__free(c);
}

/* Take it off the list. The lock is held, as in all functions of lists. */
static void compiled_unlink(struct weir__compiled *cg)
{
	*cg->link = cg->next;
	if (cg->next)
		cg->next->link = cg->link;
}

static void compiled_link(struct weir__compiler *c, struct weir__compiled *cg)
{
	cg->next = c->compiled;
	cg->link = &c->compiled;
	if (cg->next)
		cg->next->link = &cg->next;
	c->compiled = cg;
}

/*
 * Remove from the list the compiled graph that has been unused for the longest
 * time, and return it for compiled_free_all(); NULL: there is none. Its bytes
 * count towards the budget until it is freed.
 */
static struct weir__compiled *kept_pop(struct weir__compiler *c)
{
	struct weir__compiled *cg, *oldest = NULL;

	for (cg = c->compiled; cg; cg = cg->next)
		if (!cg->refs)
			oldest = cg;
	if (!oldest)
		return NULL;
	compiled_unlink(oldest);
	c->n_kept--;
	c->n_freeing++;
	return oldest;
}

/* Free them; no lock is held. */
static void compiled_free_all(struct weir__compiler *c,
			      struct weir__compiled *chain)
{
	struct weir__compiled *cg;

	while ((cg = chain)) {
		chain = cg->next;
		weir__compiled_free(cg);
		pthread_mutex_lock(&c->lock);
		c->n_freeing--;
		pthread_cond_broadcast(&c->freed_one);
		pthread_mutex_unlock(&c->lock);
	}
}

bool weir__compiler_drop_kept(struct weir__compiler *c)
{
	struct weir__compiled *chain = NULL, *p;
	bool any;

	pthread_mutex_lock(&c->lock);
	while ((p = kept_pop(c))) {
		p->next = chain;
		chain = p;
	}
	any = c->n_freeing > 0;
	pthread_mutex_unlock(&c->lock);
	compiled_free_all(c, chain);
	pthread_mutex_lock(&c->lock);
	while (c->n_freeing)
		pthread_cond_wait(&c->freed_one, &c->lock);
	pthread_mutex_unlock(&c->lock);
	return any;
}

/* Bytes that the compiled graph has of the budget of device @i, or of all. */
#define ALL_DEVICES UINT32_MAX
static uint64_t compiled_bytes(const struct weir__compiled *cg, uint32_t i)
{
	uint64_t bytes = 0;

	if (i != ALL_DEVICES)
		return cg->reserved[i];
	for (i = 0; i < cg->compiler->n_devs; i++)
		bytes += cg->reserved[i];
	return bytes;
}

/* The same for all compiled graphs that no executable graph uses. */
static uint64_t kept_bytes(const struct weir__compiler *c, uint32_t i)
{
	const struct weir__compiled *cg;
	uint64_t bytes = 0;

	for (cg = c->compiled; cg; cg = cg->next)
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
 * Check that the budgets have room for @bytes. If @kept, compiled graphs that
 * are only kept are counted, too, and a refusal has no sentence.
 */
static int reserve_check(const struct weir__compiler *c, const uint64_t *bytes,
			 bool kept)
{
	uint64_t all = 0, used;

	for (uint32_t i = 0; i < c->n_devs; i++) {
		const struct weir__compiler_dev *d = &c->dev[i];

		if (weir__add_over(all, bytes[i], &all))
			all = UINT64_MAX;
		used = d->reserved - (kept ? 0 : kept_bytes(c, i));
		if (!exceeds(d->budget, used, bytes[i]))
			continue;
		return kept ? -ENOMEM
			    : weir__fail(
				      -ENOMEM,
				      "the graph needs %llu bytes on %s; executable graphs in use have %llu of its budget of %llu",
				      (ull)bytes[i], d->dev->desc.name,
				      (ull)used, (ull)d->budget);
	}
	used = c->reserved - (kept ? 0 : kept_bytes(c, ALL_DEVICES));
	if (!exceeds(c->budget, used, all))
		return 0;
	return kept ? -ENOMEM
		    : weir__fail(
			      -ENOMEM,
			      "the graph needs %llu bytes on %s%s; executable graphs in use have %llu of the budget of %llu",
			      (ull)all, c->dev[0].dev->desc.name,
			      c->n_devs > 1 ? " and others" : "", (ull)used,
			      (ull)c->budget);
}

static void count_bytes(struct weir__compiler *c, const uint64_t *bytes,
			bool add)
{
	for (uint32_t i = 0; i < c->n_devs; i++) {
		uint64_t n = add ? bytes[i] : -bytes[i];

		c->dev[i].reserved += n;
		c->reserved += n;
	}
}

int weir__compiler_reserve(struct weir__compiler *c, const uint64_t *bytes)
{
	struct weir__compiled *chain = NULL, *p;
	int r;

	pthread_mutex_lock(&c->lock);
	while ((r = reserve_check(c, bytes, false)) < 0 && c->n_freeing)
		pthread_cond_wait(&c->freed_one, &c->lock);
	while (r == 0 && reserve_check(c, bytes, true) < 0) {
		p = kept_pop(c);
		count_bytes(c, p->reserved, false);
		p->next = chain;
		chain = p;
	}
	if (r == 0)
		count_bytes(c, bytes, true);
	/* Freeing a compiled graph gives its bytes back. */
	for (p = chain; p; p = p->next)
		count_bytes(c, p->reserved, true);
	pthread_mutex_unlock(&c->lock);
	compiled_free_all(c, chain);
	return r;
}

void weir__compiler_unreserve(struct weir__compiler *c, const uint64_t *bytes)
{
	pthread_mutex_lock(&c->lock);
	count_bytes(c, bytes, false);
	pthread_mutex_unlock(&c->lock);
}

static struct weir__compiled *find_locked(struct weir__compiler *c,
					  const uint64_t fingerprint[2],
					  uint64_t key)
{
	struct weir__compiled *cg = c->compiled;

	while (cg && (cg->fingerprint[0] != fingerprint[0] ||
		      cg->fingerprint[1] != fingerprint[1] || cg->key != key))
		cg = cg->next;
	if (!cg)
		return NULL;
	if (!cg->refs++)
		c->n_kept--;
	cg->n_uses++;
	compiled_unlink(cg);
	compiled_link(c, cg);
	return cg;
}

struct weir__compiled *weir__compiler_find(struct weir__compiler *c,
					   const uint64_t fingerprint[2],
					   uint64_t key)
{
	struct weir__compiled *cg;

	pthread_mutex_lock(&c->lock);
	cg = find_locked(c, fingerprint, key);
	pthread_mutex_unlock(&c->lock);
	return cg;
}

void weir__compiler_add(struct weir__compiler *c, struct weir__compiled *cg)
{
	pthread_mutex_lock(&c->lock);
	compiled_link(c, cg);
	cg->n_uses = 1;
	pthread_mutex_unlock(&c->lock);
}

/*
 * Remove compiled graphs that are only kept from the list, and return them: all
 * if the compiler is closed; otherwise the oldest, while they are too many or
 * too large. The lock is held.
 */
static struct weir__compiled *kept_excess(struct weir__compiler *c)
{
	struct weir__compiled *chain = NULL, *p;

	while (c->n_kept &&
	       (c->closed || c->n_kept > WEIR__COMPILER_KEPT ||
		(c->n_kept > 1 &&
		 kept_bytes(c, ALL_DEVICES) > WEIR__COMPILER_KEPT_BYTES))) {
		p = kept_pop(c);
		p->next = chain;
		chain = p;
	}
	return chain;
}

void weir__compiler_close(struct weir__compiler *c)
{
	struct weir__compiled *chain;

	pthread_mutex_lock(&c->lock);
	c->closed = true;
	chain = kept_excess(c);
	pthread_mutex_unlock(&c->lock);
	compiled_free_all(c, chain);
}

/* A compiled graph is kept for a while, since an equal graph may come soon. */
void weir__compiled_put(struct weir__compiled *cg)
{
	struct weir__compiler *c = cg->compiler;
	struct weir__compiled *chain;

	pthread_mutex_lock(&c->lock);
	if (--cg->refs) {
		pthread_mutex_unlock(&c->lock);
		return;
	}
	compiled_unlink(cg);
	compiled_link(c, cg);
	c->n_kept++;
	chain = kept_excess(c);
	pthread_mutex_unlock(&c->lock);
	compiled_free_all(c, chain);
}
