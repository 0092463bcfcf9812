/* SPDX-License-Identifier: MIT */
/*
 * Backends and what they say of themselves. A backend is code in our process
 * and is trusted; its mistakes are caught here, so that nothing behind has to
 * doubt a name, an alignment or a table.
 */
#include <string.h>

#include "core/error.h"
#include "core/root.h"
#include "core/sys.h"
#include "core/util.h"
#include "dev/dev.h"
#include "dev/host.h"
#include "dev/registry.h"

#define ALL_CAPS                                                   \
	(WEIR_CAP_ASYNC | WEIR_CAP_EVENTS | WEIR_CAP_HOST_MEMORY | \
	 WEIR_CAP_PINNED | WEIR_CAP_WRAP_HOST | WEIR_CAP_COMPUTE)
#define ALL_BUFT_FLAGS (WEIR_BUFT_HOST | WEIR_BUFT_LOCKED | WEIR_BUFT_READONLY)
#define MAX_NAME 31u
#define MAX_ALIGN ((size_t)1 << 30)

/* [A-Za-z0-9_-]+ that ends within @room bytes. */
static bool good_name(const char *name, size_t room)
{
	size_t len = name ? strnlen(name, room) : 0;

	if (!len || len == room)
		return false;
	for (size_t i = 0; i < len; i++)
		if (!((name[i] | 0x20) >= 'a' && (name[i] | 0x20) <= 'z') &&
		    !(name[i] >= '0' && name[i] <= '9') && name[i] != '_' &&
		    name[i] != '-')
			return false;
	return true;
}

static int check_size(const char *table, size_t size, size_t want)
{
	if (size == want)
		return 0;
	return weir__fail(
		-EPROTO,
		"its struct weir__%s has %zu bytes, this library's %zu", table,
		size, want);
}

static int check_slot(const char *name, bool there)
{
	return there ? 0 : weir__fail(-EBADMSG, "its %s is NULL", name);
}

static int check_tables(const struct weir__backend *b)
{
	int r;

	if ((r = check_slot("mem", b->mem)) < 0 ||
	    (r = check_slot("queue", b->queue)) < 0 ||
	    (r = check_size("mem_ops", b->mem->size, sizeof(*b->mem))) < 0 ||
	    (r = check_size("queue_ops", b->queue->size, sizeof(*b->queue))) <
		    0 ||
	    (r = check_slot("probe", b->probe)) < 0 ||
	    (r = check_slot("dev_open", b->dev_open)) < 0 ||
	    (r = check_slot("dev_memory", b->dev_memory)) < 0 ||
	    (r = check_slot("mem->alloc", b->mem->alloc)) < 0 ||
	    (r = check_slot("mem->free", b->mem->free)) < 0 ||
	    (r = check_slot("queue->open", b->queue->open)) < 0 ||
	    (r = check_slot("queue->close", b->queue->close)) < 0)
		return r;
	return check_slot("queue->submit", b->queue->submit);
}

int weir__backend_check(const struct weir__backend *b)
{
	int r = check_size("backend", b->size, sizeof(*b));

	if (r < 0)
		return r;
	if (b->abi != WEIR__ABI)
		return weir__fail(-EPROTO,
				  "it is made for ABI %u, this library has %u",
				  b->abi, WEIR__ABI);
	if (!good_name(b->name, MAX_NAME + 1))
		return weir__fail(
			-EBADMSG,
			"its name is not 1 to %u letters, digits, '_' or '-'",
			MAX_NAME);
	return check_tables(b);
}

static int check_buft(const struct weir__dev_desc *d, unsigned i)
{
	const struct weir__buft_desc *t = &d->buft[i];

	if (!good_name(t->name, sizeof(t->name)))
		return weir__fail(
			-EBADMSG,
			"device %s: kind %u of memory has no proper name",
			d->name, i);
	if (t->kind > WEIR_MEM_MAPPED || (t->flags & ~ALL_BUFT_FLAGS))
		return weir__fail(
			-EBADMSG,
			"memory %s: kind %u or flags 0x%x unknown here",
			t->name, t->kind, t->flags);
	if (!t->align || (t->align & (t->align - 1)) || t->align > MAX_ALIGN)
		return weir__fail(
			-EBADMSG,
			"memory %s: alignment %zu is not a power of two in 1..%zu",
			t->name, t->align, MAX_ALIGN);
	if (!t->max)
		return weir__fail(-EBADMSG,
				  "memory %s: its largest buffer has 0 bytes",
				  t->name);
	for (unsigned j = 0; j < i; j++)
		if (d->buft[j].kind == t->kind)
			return weir__fail(-EBADMSG,
					  "memory %s and %s: kind %u twice",
					  d->buft[j].name, t->name, t->kind);
	return 0;
}

/* What only a device with memory of its own needs. */
static int check_moves(const struct weir__backend *b,
		       const struct weir__dev_desc *d)
{
	const struct weir__mem_ops *m = b->mem;
	bool all = m->set && m->get && m->fill && m->copy;

	for (unsigned i = 0; i < d->n_bufts && !all; i++)
		if (!(d->buft[i].flags & WEIR_BUFT_HOST))
			return weir__fail(
				-EBADMSG,
				"memory %s is not the host's, but its set, get, fill or copy is NULL",
				d->buft[i].name);
	if (m->reach && !m->copy_from)
		return weir__fail(-EBADMSG,
				  "mem->copy_from is NULL, mem->reach is not");
	return 0;
}

static int check_dev(const struct weir__backend *b,
		     const struct weir__dev_desc *d, unsigned i)
{
	int r;

	if (!good_name(d->name, sizeof(d->name)))
		return weir__fail(-EBADMSG, "device %u has no proper name", i);
	if (!memchr(d->description, 0, sizeof(d->description)) ||
	    !memchr(d->pci, 0, sizeof(d->pci)))
		return weir__fail(-EBADMSG,
				  "device %s: a string without an end",
				  d->name);
	if (d->type > WEIR_DEV_ACCEL || (d->caps & ~ALL_CAPS) || d->node < -1)
		return weir__fail(
			-EBADMSG,
			"device %s: type %u, capabilities 0x%x or node %d unknown here",
			d->name, d->type, d->caps, d->node);
	if (!d->n_bufts || d->n_bufts > WEIR__MAX_BUFTS)
		return weir__fail(-EBADMSG,
				  "device %s has %u kinds of memory, not 1..%u",
				  d->name, d->n_bufts, WEIR__MAX_BUFTS);
	for (unsigned j = 0; j < d->n_bufts; j++)
		if ((r = check_buft(d, j)) < 0)
			return r;
	return check_moves(b, d);
}

static bool same_names(const struct weir__dev_desc *a,
		       const struct weir__dev_desc *b, const char **ret_name)
{
	*ret_name = a->name;
	if (!strcmp(a->name, b->name))
		return true;
	for (unsigned i = 0; i < a->n_bufts; i++)
		for (unsigned j = 0; j < b->n_bufts; j++) {
			*ret_name = a->buft[i].name;
			if (!strcmp(a->buft[i].name, b->buft[j].name))
				return true;
		}
	return false;
}

/* @n devices were checked before descs[n]; weir->lock is held. */
static int check_unique(const struct weir__registry *registry,
			const struct weir__dev_desc *descs, unsigned n)
{
	const struct weir__dev_desc *d = &descs[n];
	const char *name;

	for (unsigned i = 0; i < n; i++)
		if (same_names(d, &descs[i], &name))
			return weir__fail(-EBADMSG, "the name %s twice", name);
	for (unsigned i = 0; i < registry->n_devs; i++)
		if (same_names(d, &registry->dev[i]->desc, &name))
			return weir__fail(
				-EEXIST,
				"the name %s is that of another backend's device or memory",
				name);
	return 0;
}

static struct weir_dev *new_dev(struct weir *weir,
				const struct weir__backend *backend,
				const char *module, unsigned i,
				const struct weir__dev_desc *desc)
{
	struct weir_dev *dev = weir__calloc(1, sizeof(*dev));

	if (!dev)
		return NULL;
	dev->weir = weir;
	dev->backend = backend;
	dev->module = module;
	dev->index = i;
	dev->desc = *desc;
	for (unsigned j = 0; j < desc->n_bufts; j++) {
		dev->buft[j].dev = dev;
		dev->buft[j].desc = desc->buft[j];
	}
	pthread_mutex_init(&dev->lock, NULL);
	return dev;
}

/* All of them or none, numbered from @first on; weir->lock is held. */
static int add_devs(struct weir *weir, const struct weir__backend *backend,
		    const char *module, const struct weir__dev_desc *descs,
		    unsigned n, unsigned first)
{
	struct weir__registry *registry = weir__registry(weir);
	const unsigned room = sizeof(registry->dev) / sizeof(registry->dev[0]);
	unsigned at = registry->n_devs;

	if (n > room - at)
		return weir__fail(-ENOSPC, "%u devices besides %u: over %u", n,
				  at, room);
	for (unsigned i = 0; i < n; i++) {
		registry->dev[at + i] =
			new_dev(weir, backend, module, first + i, &descs[i]);
		if (registry->dev[at + i])
			continue;
		while (i--) {
			pthread_mutex_destroy(&registry->dev[at + i]->lock);
			weir__free(registry->dev[at + i]);
		}
		return weir__fail(-ENOMEM, "no memory for %u devices", n);
	}
	/* Readers take the count first: the devices below it are whole. */
	atomic_store_explicit(&registry->n_devs, at + n, memory_order_release);
	return 0;
}

static int probe(struct weir *weir, const struct weir__backend *b,
		 struct weir__dev_desc *descs)
{
	int n = b->probe(weir, &weir__host, descs, WEIR__MAX_DEVS);

	if (n < 0 && n >= -4095)
		return n;
	if (n < 0 || (unsigned)n > WEIR__MAX_DEVS)
		return weir__fail(-EBADMSG, "it claims %d devices, not 0..%u",
				  n, WEIR__MAX_DEVS);
	for (int i = 0; i < n; i++) {
		int r = check_dev(b, &descs[i], (unsigned)i);

		if (r < 0)
			return r;
	}
	return n;
}

int weir__registry_add(struct weir *weir, const struct weir__backend *backend,
		       const char *module)
{
	struct weir__dev_desc *descs;
	int n, r;

	r = weir__backend_check(backend);
	if (r < 0)
		return r;
	descs = weir__calloc(WEIR__MAX_DEVS, sizeof(*descs));
	if (!descs)
		return weir__fail(-ENOMEM, "no memory for %u devices",
				  WEIR__MAX_DEVS);
	n = r = probe(weir, backend, descs);
	pthread_mutex_lock(&weir->lock);
	for (int i = 0; i < n && r >= 0; i++)
		r = check_unique(weir__registry(weir), descs, (unsigned)i);
	if (r >= 0)
		r = add_devs(weir, backend, module, descs, (unsigned)n, 0);
	pthread_mutex_unlock(&weir->lock);
	weir__free(descs);
	return r;
}

int weir__registry_beside(struct weir_dev *beside,
			  const struct weir__dev_desc *desc, unsigned i)
{
	struct weir *weir = beside->weir;
	int r = check_dev(beside->backend, desc, i);

	if (r < 0)
		return r;
	pthread_mutex_lock(&weir->lock);
	r = check_unique(weir__registry(weir), desc, 0);
	if (r >= 0)
		r = add_devs(weir, beside->backend, beside->module, desc, 1, i);
	pthread_mutex_unlock(&weir->lock);
	return r;
}

static void registry_free(struct weir__part *part)
{
	struct weir__registry *registry =
		weir__container(part, struct weir__registry, part);

	for (unsigned i = 0; i < registry->n_devs; i++) {
		struct weir_dev *dev = registry->dev[i];

		if (dev->opened && dev->backend->dev_close)
			dev->backend->dev_close(dev, dev->state);
		pthread_mutex_destroy(&dev->lock);
		weir__free(dev);
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
