/* SPDX-License-Identifier: MIT */
/* The registry of backends and their devices: describe, add, free. */
#include <errno.h>
#include <string.h>

#include "core/clock.h"
#include "core/error.h"
#include "core/root.h"
#include "core/sys.h"
#include "core/util.h"
#include "dev/registry.h"

/* The devices that a backend has described so far. */
struct weir_backend_probe {
	struct weir *weir;
	const struct weir_backend *backend;
	const char *module;
	struct weir_dev *dev[WEIR__MAX_DEVS];
	unsigned n;
	int err; /* of the first description that was refused */
};

static bool same_names(const struct weir_dev *a, const struct weir_dev *b,
		       const char **ret_name)
{
	*ret_name = a->desc.name;
	if (!strcmp(a->desc.name, b->desc.name))
		return true;
	for (unsigned i = 0; i < a->desc.n_bufts; i++)
		for (unsigned j = 0; j < b->desc.n_bufts; j++) {
			*ret_name = a->buft[i].desc.name;
			if (!strcmp(*ret_name, b->buft[j].desc.name))
				return true;
		}
	return false;
}

/* @devs: @n devices that are not added yet. weir->lock is held. */
static int check_unique(const struct weir__registry *registry,
			struct weir_dev *const *devs, unsigned n,
			const struct weir_dev *dev)
{
	const char *name;

	for (unsigned i = 0; i < n; i++)
		if (same_names(dev, devs[i], &name))
			return weir__fail(-EBADMSG, "the name %s is used twice",
					  name);
	for (unsigned i = 0; i < registry->n_devs; i++)
		if (same_names(dev, registry->dev[i], &name))
			return weir__fail(
				-EEXIST,
				"the name %s is that of another backend's device or memory",
				name);
	return 0;
}

/* Adds all of them or none. weir->lock is held. */
static int add_devs(struct weir__registry *registry,
		    struct weir_dev *const *devs, unsigned n)
{
	const unsigned room = sizeof(registry->dev) / sizeof(registry->dev[0]);
	unsigned at = registry->n_devs;
	int r = 0;

	if (n > room - at)
		return weir__fail(-ENOSPC, "%u devices besides %u: over %u", n,
				  at, room);
	for (unsigned i = 0; i < n && r >= 0; i++)
		r = check_unique(registry, devs, i, devs[i]);
	if (r < 0)
		return r;
	for (unsigned i = 0; i < n; i++)
		registry->dev[at + i] = devs[i];
	/* Readers load the count first: the devices below it are complete. */
	atomic_store_explicit(&registry->n_devs, at + n, memory_order_release);
	return 0;
}

int weir__registry_describe(struct weir_backend_probe *p,
			    const struct weir_backend_dev *desc)
{
	int r;

	if (p->n == WEIR__MAX_DEVS)
		r = weir__fail(-EBADMSG, "it describes more than %u devices",
			       WEIR__MAX_DEVS);
	else
		r = weir__dev_new(p->weir, p->backend, p->module, p->n, desc,
				  &p->dev[p->n]);
	if (r >= 0)
		p->n++;
	else if (!p->err)
		p->err = r;
	return r;
}

static int backend_probe(struct weir_backend_probe *p)
{
	int r = p->backend->probe(p->weir, weir__registry(p->weir)->host, p);

	if (r < -4095 || r > 0)
		return weir__fail(-EBADMSG,
				  "its probe returned %d, which is no errno",
				  r);
	return r < 0 ? r : p->err;
}

/* weir->lock is held. */
static int check_backend_name(const struct weir__registry *registry,
			      const char *backend)
{
	for (const struct weir__tables *t = registry->tables; t; t = t->next)
		if (!strcmp(t->backend.name, backend))
			return weir__fail(-EEXIST,
					  "there is a backend %s already",
					  backend);
	return 0;
}

/*
 * Calls do not overlap: they hold module_lock, or no other thread has the root
 * yet. So a name that is new stays new.
 */
static int add_tables(struct weir *weir, struct weir__tables *tables,
		      const char *module)
{
	struct weir__registry *registry = weir__registry(weir);
	struct weir_backend_probe p = { .weir = weir,
					.backend = &tables->backend,
					.module = module };
	int r;

	pthread_mutex_lock(&weir->lock);
	r = check_backend_name(registry, tables->backend.name);
	pthread_mutex_unlock(&weir->lock);
	if (r >= 0)
		r = backend_probe(&p);
	if (r >= 0) {
		pthread_mutex_lock(&weir->lock);
		r = add_devs(registry, p.dev, p.n);
		if (r >= 0) {
			tables->next = registry->tables;
			registry->tables = tables;
		}
		pthread_mutex_unlock(&weir->lock);
	}
	for (unsigned i = 0; i < p.n && r < 0; i++)
		weir__dev_free(p.dev[i]);
	return r;
}

int weir__registry_add(struct weir *weir, const struct weir_backend *backend,
		       const char *module)
{
	struct weir__tables *tables;
	int r = weir__tables_in(backend, &tables);

	if (r < 0)
		return r;
	r = add_tables(weir, tables, module);
	if (r < 0)
		weir__free(tables);
	return r;
}

int weir__registry_enter(struct weir *weir, weir_backend_entry_fn *entry,
			 const char *module)
{
	const struct weir_backend *backend;
	int r = 0;

	backend = entry(weir__registry(weir)->host, &r);
	if (!backend)
		return r < 0 && r >= -4095 ? r : -EBADMSG;
	return weir__registry_add(weir, backend, module);
}

int weir__registry_beside(struct weir_dev *beside,
			  const struct weir_backend_dev *desc, unsigned i)
{
	struct weir *weir = beside->weir;
	struct weir_dev *dev;
	int r = weir__dev_new(weir, beside->backend, beside->module, i, desc,
			      &dev);

	if (r < 0)
		return r;
	pthread_mutex_lock(&weir->lock);
	r = add_devs(weir__registry(weir), &dev, 1);
	pthread_mutex_unlock(&weir->lock);
	if (r < 0)
		weir__dev_free(dev);
	return r;
}

static void trim_dev(struct weir__reclaimed *x)
{
	struct weir_dev *dev = weir__container(x, struct weir_dev, trim);

	dev->backend->mem->trim(dev);
}

static void trimmed(struct weir__reclaimed *x)
{
	(void)x;
}

static bool dev_is_open(struct weir_dev *dev)
{
	bool opened;

	pthread_mutex_lock(&dev->lock);
	opened = dev->opened;
	pthread_mutex_unlock(&dev->lock);
	return opened;
}

/* No thread of the library is left that could free memory later. */
static int registry_close(struct weir__part *part, int64_t deadline)
{
	struct weir__registry *registry =
		weir__container(part, struct weir__registry, part);
	int64_t least = weir__deadline(WEIR__RECLAIM_NS);
	int ret = 0;

	if (deadline < least)
		deadline = least;
	for (unsigned i = 0; i < registry->n_devs; i++) {
		struct weir_dev *dev = registry->dev[i];

		if (!dev->backend->mem->trim || !dev_is_open(dev))
			continue;
		dev->trim.free = trim_dev;
		dev->trim.after = trimmed;
		weir__reclaim(dev, &dev->trim);
	}
	for (unsigned i = 0; i < registry->n_devs; i++)
		if (weir__reclaim_close(registry->dev[i], deadline) < 0)
			ret = -ETIMEDOUT;
	return ret;
}

static void registry_free(struct weir__part *part)
{
	struct weir__registry *registry =
		weir__container(part, struct weir__registry, part);
	struct weir__tables *tables;

	for (unsigned i = 0; i < registry->n_devs; i++) {
		struct weir_dev *dev = registry->dev[i];

		if (dev->opened && dev->backend->dev_close)
			dev->backend->dev_close(dev, dev->state);
		weir__dev_free(dev);
	}
	while ((tables = registry->tables)) {
		registry->tables = tables->next;
		weir__free(tables);
	}
	weir__modules_free(registry);
	pthread_mutex_destroy(&registry->module_lock);
	weir__free(registry);
}

int weir__registry_new(struct weir *weir, struct weir__part **ret_part)
{
	struct weir__registry *registry = weir__calloc(1, sizeof(*registry));

	(void)weir;
	if (!registry)
		return weir__fail(-ENOMEM, "no memory for a registry");
	registry->part.close = registry_close;
	registry->part.free = registry_free;
	pthread_mutex_init(&registry->module_lock, NULL);
	*ret_part = &registry->part;
	return 0;
}

struct weir__registry *weir__registry(const struct weir *weir)
{
	return weir__container(atomic_load_explicit(&weir->part[WEIR__PART_DEV],
						    memory_order_acquire),
			       struct weir__registry, part);
}
