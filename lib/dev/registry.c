/* SPDX-License-Identifier: MIT */
/*
 * The registry of backends and their devices.
 *
 * The tables of a backend, and the descriptions of its devices, are copied into
 * the library's own: an older backend has shorter ones, a newer backend longer
 * ones. A backend is code in our process and is trusted; its mistakes are
 * caught here, so that nothing else in the library has to doubt a table, a name
 * or an alignment.
 */
#include <errno.h>
#include <string.h>

#include "core/clock.h"
#include "core/error.h"
#include "core/root.h"
#include "core/sys.h"
#include "core/util.h"
#include "dev/registry.h"

#define MAX_NAME 31u
#define ALL_CAPS                                                   \
	(WEIR_CAP_ASYNC | WEIR_CAP_EVENTS | WEIR_CAP_HOST_MEMORY | \
	 WEIR_CAP_PINNED | WEIR_CAP_WRAP_HOST | WEIR_CAP_COMPUTE)
#define ALL_BUFT_FLAGS (WEIR_BUFT_HOST | WEIR_BUFT_LOCKED | WEIR_BUFT_READONLY)
#define MAX_ALIGN ((size_t)1 << 30)

/* The devices that a backend has described so far. */
struct weir_backend_probe {
	struct weir *weir;
	const struct weir_backend *backend;
	const char *module;
	struct weir_dev *dev[WEIR__MAX_DEVS];
	unsigned n;
	int err; /* errno of the first description that was refused */
};

/* True if @name is [A-Za-z0-9_-]+ that ends within @room bytes. */
static bool is_good_name(const char *name, size_t room)
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

/*
 * Copy the struct @name at @theirs, which begins with its size, into @ours of
 * @size bytes; members that it lacks become 0. -EPROTO: its size is
 * less than @least, or no multiple of the size of a pointer.
 */
static int struct_in(const char *name, void *ours, size_t size, size_t least,
		     const void *theirs)
{
	size_t n = *(const size_t *)theirs;

	if (n < least)
		return weir__fail(
			-EPROTO,
			"its struct %s has %zu bytes, this library needs %zu",
			name, n, least);
	if (n % sizeof(void *))
		return weir__fail(
			-EPROTO,
			"its struct %s has %zu bytes, not a multiple of %zu",
			name, n, sizeof(void *));
	memset(ours, 0, size);
	memcpy(ours, theirs, n < size ? n : size);
	return 0;
}

/* Copy the struct @name, whose last required member is @last. */
#define TABLE_IN(name, ours, last, theirs)      \
	struct_in(#name, ours, sizeof(*(ours)), \
		  WEIR_BACKEND_END_OF(struct name, last), theirs)

static int check_member(const char *name, bool there)
{
	return there ? 0 : weir__fail(-EBADMSG, "its %s is NULL", name);
}

static int backend_in(struct weir_backend *b, const struct weir_backend *theirs)
{
	int r;

	/* The offsets of all other members depend on the ABI. */
	if (WEIR_BACKEND_HAS(theirs, abi) && theirs->abi != WEIR_BACKEND_ABI)
		return weir__fail(-EPROTO,
				  "it is made for ABI %u, this library has %u",
				  theirs->abi, WEIR_BACKEND_ABI);
	r = TABLE_IN(weir_backend, b, queue, theirs);
	if (r < 0)
		return r;
	if (!is_good_name(b->name, MAX_NAME + 1))
		return weir__fail(
			-EBADMSG,
			"its name is not 1 to %u letters, digits, '_' or '-'",
			MAX_NAME);
	if ((r = check_member("probe", b->probe)) < 0 ||
	    (r = check_member("dev_open", b->dev_open)) < 0 ||
	    (r = check_member("dev_memory", b->dev_memory)) < 0 ||
	    (r = check_member("mem", b->mem)) < 0)
		return r;
	return check_member("queue", b->queue);
}

static int mem_in(struct weir_backend_mem_ops *m,
		  const struct weir_backend_mem_ops *theirs)
{
	int r = TABLE_IN(weir_backend_mem_ops, m, free, theirs);

	if (r < 0 || (r = check_member("mem->alloc", m->alloc)) < 0 ||
	    (r = check_member("mem->free", m->free)) < 0)
		return r;
	if (m->reach && !m->copy_from)
		return weir__fail(-EBADMSG,
				  "mem->copy_from is NULL, mem->reach is not");
	if (!m->park != !m->unpark)
		return weir__fail(
			-EBADMSG,
			"one of mem->park and mem->unpark is NULL, the other is not");
	if (!m->reserve != !m->commit || !m->reserve != !m->decommit)
		return weir__fail(
			-EBADMSG,
			"some of mem->reserve, commit and decommit are NULL");
	if (!m->share != !m->wrap_fd)
		return weir__fail(
			-EBADMSG,
			"one of mem->share and mem->wrap_fd is NULL, the other is not");
	return 0;
}

static int queue_in(struct weir_backend_queue_ops *q,
		    const struct weir_backend_queue_ops *theirs)
{
	int r = TABLE_IN(weir_backend_queue_ops, q, submit, theirs);

	if (r < 0 || (r = check_member("queue->open", q->open)) < 0 ||
	    (r = check_member("queue->close", q->close)) < 0)
		return r;
	return check_member("queue->submit", q->submit);
}

static int compute_in(struct weir_backend_compute_ops *c,
		      const struct weir_backend_compute_ops *theirs)
{
	int r = TABLE_IN(weir_backend_compute_ops, c, release, theirs);

	if (r < 0 || (r = check_member("compute->supports", c->supports)) < 0 ||
	    (r = check_member("compute->prepare", c->prepare)) < 0)
		return r;
	return check_member("compute->release", c->release);
}

/*
 * Copy the tables of a backend. -EPROTO: their sizes or their ABI cannot be
 * used; -EBADMSG: a required member is missing.
 */
static int tables_in(struct weir__tables *t, const struct weir_backend *theirs)
{
	struct weir_backend *b = &t->backend;
	int r = backend_in(b, theirs);

	if (r < 0 || (r = mem_in(&t->mem, b->mem)) < 0 ||
	    (r = queue_in(&t->queue, b->queue)) < 0)
		return r;
	b->mem = &t->mem;
	b->queue = &t->queue;
	if (!b->compute)
		return 0;
	r = compute_in(&t->compute, b->compute);
	b->compute = &t->compute;
	return r;
}

static int check_buft(const struct weir_dev *dev, unsigned i)
{
	const struct weir_backend_buft *t = &dev->buft[i].desc;

	if (!is_good_name(t->name, sizeof(t->name)))
		return weir__fail(
			-EBADMSG,
			"device %s: kind %u of memory has no proper name",
			dev->desc.name, i);
	if (t->kind > WEIR_MEM_FAR || (t->flags & ~ALL_BUFT_FLAGS))
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
		if (dev->buft[j].desc.kind == t->kind)
			return weir__fail(-EBADMSG,
					  "memory %s and %s: kind %u twice",
					  dev->buft[j].desc.name, t->name,
					  t->kind);
	return 0;
}

/* A device with memory of its own needs the blocking moves. */
static int check_moves(const struct weir_backend_mem_ops *m,
		       const struct weir_dev *dev)
{
	bool all = m->set && m->get && m->fill && m->copy;

	for (unsigned i = 0; i < dev->desc.n_bufts && !all; i++)
		if (!(dev->buft[i].desc.flags & WEIR_BUFT_HOST))
			return weir__fail(
				-EBADMSG,
				"memory %s is not the host's, but its set, get, fill or copy is NULL",
				dev->buft[i].desc.name);
	return 0;
}

static int check_dev(const struct weir_dev *dev)
{
	const struct weir_backend_dev *d = &dev->desc;

	if (!memchr(d->description, 0, sizeof(d->description)) ||
	    !memchr(d->pci, 0, sizeof(d->pci)) ||
	    !memchr(d->uuid, 0, sizeof(d->uuid)) ||
	    !memchr(d->no_compute, 0, sizeof(d->no_compute)))
		return weir__fail(-EBADMSG,
				  "device %s: a string without an end",
				  d->name);
	if (d->type > WEIR_DEV_ACCEL || (d->caps & ~ALL_CAPS) || d->node < -1)
		return weir__fail(
			-EBADMSG,
			"device %s: type %u, capabilities 0x%x or node %d unknown here",
			d->name, d->type, d->caps, d->node);
	if (d->caps & WEIR_CAP_COMPUTE && !dev->backend->compute)
		return weir__fail(
			-EBADMSG,
			"device %s has WEIR_CAP_COMPUTE, but its backend's compute is NULL",
			d->name);
	return check_moves(dev->backend->mem, dev);
}

/* Copy the kinds of memory; each struct may have another size. */
static int bufts_in(struct weir_dev *dev)
{
	struct weir_backend_dev *d = &dev->desc;
	int r;

	if (!d->n_bufts || d->n_bufts > WEIR__MAX_BUFTS || !d->buft)
		return weir__fail(-EBADMSG,
				  "device %s has %u kinds of memory, not 1..%u",
				  d->name, d->buft ? d->n_bufts : 0,
				  WEIR__MAX_BUFTS);
	for (unsigned i = 0; i < d->n_bufts; i++) {
		struct weir_buft *buft = &dev->buft[i];

		if (!d->buft[i])
			return weir__fail(
				-EBADMSG,
				"device %s: kind %u of memory is NULL", d->name,
				i);
		r = struct_in(
			"weir_backend_buft", &buft->desc, sizeof(buft->desc),
			WEIR_BACKEND_END_OF(struct weir_backend_buft, max),
			d->buft[i]);
		if (r < 0 || (r = check_buft(dev, i)) < 0)
			return r;
		buft->dev = dev;
	}
	d->buft = NULL;
	return 0;
}

static int desc_in(struct weir_dev *dev, const struct weir_backend_dev *desc)
{
	struct weir_backend_dev *d = &dev->desc;
	int r = struct_in("weir_backend_dev", d, sizeof(*d),
			  WEIR_BACKEND_END_OF(struct weir_backend_dev, buft),
			  desc);

	if (r < 0)
		return r;
	if (!is_good_name(d->name, sizeof(d->name)))
		return weir__fail(-EBADMSG, "device %u has no proper name",
				  dev->index);
	r = bufts_in(dev);
	return r < 0 ? r : check_dev(dev);
}

static void dev_free(struct weir_dev *dev)
{
	weir__reclaim_fini(&dev->reclaim);
	weir__slab_fini(&dev->bufs);
	pthread_mutex_destroy(&dev->lock);
	weir__free(dev);
}

/* Make a device as @desc describes it, checked, not yet in the registry. */
static int dev_new(struct weir *weir, const struct weir_backend *backend,
		   const char *module, unsigned i,
		   const struct weir_backend_dev *desc,
		   struct weir_dev **ret_dev)
{
	struct weir_dev *dev = weir__calloc(1, sizeof(*dev));
	int r;

	if (!dev)
		return weir__fail(-ENOMEM, "no memory for a device");
	dev->weir = weir;
	dev->backend = backend;
	dev->module = module;
	dev->index = i;
	pthread_mutex_init(&dev->lock, NULL);
	weir__slab_init(&dev->bufs);
	weir__reclaim_init(&dev->reclaim);
	r = desc_in(dev, desc);
	if (r < 0) {
		dev_free(dev);
		return r;
	}
	*ret_dev = dev;
	return 0;
}

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
		r = dev_new(p->weir, p->backend, p->module, p->n, desc,
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
		dev_free(p.dev[i]);
	return r;
}

static int registry_add(struct weir *weir, const struct weir_backend *backend,
			const char *module)
{
	struct weir__tables *tables = weir__calloc(1, sizeof(*tables));
	int r;

	if (!tables)
		return weir__fail(-ENOMEM, "no memory for a backend's tables");
	r = tables_in(tables, backend);
	if (r >= 0)
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
	return registry_add(weir, backend, module);
}

int weir__registry_beside(struct weir_dev *beside,
			  const struct weir_backend_dev *desc, unsigned i)
{
	struct weir *weir = beside->weir;
	struct weir_dev *dev;
	int r = dev_new(weir, beside->backend, beside->module, i, desc, &dev);

	if (r < 0)
		return r;
	pthread_mutex_lock(&weir->lock);
	r = add_devs(weir__registry(weir), &dev, 1);
	pthread_mutex_unlock(&weir->lock);
	if (r < 0)
		dev_free(dev);
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

/* The streams and the engine are closed: no thread can free memory any more. */
static void registry_close(struct weir__part *part, int64_t deadline)
{
	struct weir__registry *registry =
		weir__container(part, struct weir__registry, part);
	int64_t least = weir__deadline(WEIR__RECLAIM_NS);

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
		weir__reclaim_close(registry->dev[i], deadline);
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
		dev_free(dev);
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
