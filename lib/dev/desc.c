/* SPDX-License-Identifier: MIT */
/* Copy and check a backend's description of a device, and make the object. */
#include <string.h>

#include "core/error.h"
#include "core/root.h"
#include "core/sys.h"
#include "dev/registry.h"

#define ALL_CAPS                                                   \
	(WEIR_CAP_ASYNC | WEIR_CAP_EVENTS | WEIR_CAP_HOST_MEMORY | \
	 WEIR_CAP_PINNED | WEIR_CAP_WRAP_HOST | WEIR_CAP_COMPUTE)
#define ALL_BUFT_FLAGS (WEIR_BUFT_HOST | WEIR_BUFT_LOCKED | WEIR_BUFT_READONLY)
#define MAX_ALIGN ((size_t)1 << 30)

static int check_buft(const struct weir_dev *dev, unsigned i)
{
	const struct weir_backend_buft *t = &dev->buft[i].desc;

	if (!weir__good_name(t->name, sizeof(t->name)))
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
	    !memchr(d->pci, 0, sizeof(d->pci)))
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
		r = weir__struct_in(
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
	int r = weir__struct_in(
		"weir_backend_dev", d, sizeof(*d),
		WEIR_BACKEND_END_OF(struct weir_backend_dev, buft), desc);

	if (r < 0)
		return r;
	if (!weir__good_name(d->name, sizeof(d->name)))
		return weir__fail(-EBADMSG, "device %u has no proper name",
				  dev->index);
	r = bufts_in(dev);
	return r < 0 ? r : check_dev(dev);
}

void weir__dev_free(struct weir_dev *dev)
{
	weir__reclaim_fini(&dev->reclaim);
	weir__slab_fini(&dev->bufs);
	pthread_mutex_destroy(&dev->lock);
	weir__free(dev);
}

int weir__dev_new(struct weir *weir, const struct weir_backend *backend,
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
		weir__dev_free(dev);
		return r;
	}
	*ret_dev = dev;
	return 0;
}
