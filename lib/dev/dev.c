/* SPDX-License-Identifier: MIT */
/* Devices for the program: found, configured, described, measured. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/root.h"
#include "core/sys.h"
#include "dev/dev.h"
#include "dev/registry.h"

unsigned weir_dev_count(struct weir *weir)
{
	if (!weir__root_is_ours(weir))
		return 0;
	weir__modules_scan(weir);
	return atomic_load_explicit(&weir__registry(weir)->n_devs,
				    memory_order_acquire);
}

struct weir_dev *weir_dev_get(struct weir *weir, unsigned i)
{
	struct weir__registry *registry = weir__registry(weir);

	if (!weir__root_is_ours(weir))
		return NULL;
	if (i < atomic_load_explicit(&registry->n_devs, memory_order_acquire))
		return registry->dev[i];
	return i < weir_dev_count(weir) ? registry->dev[i] : NULL;
}

static struct weir_dev *dev_look_up(struct weir *weir, const char *name,
				    size_t len)
{
	struct weir__registry *registry = weir__registry(weir);
	unsigned n =
		atomic_load_explicit(&registry->n_devs, memory_order_acquire);

	for (unsigned i = 0; i < n; i++) {
		const char *known = registry->dev[i]->desc.name;

		if (strlen(known) == len && !memcmp(known, name, len))
			return registry->dev[i];
	}
	return NULL;
}

/* @what names the device that was looked for, as in "device 'CUDA7'". */
static int no_such_dev(struct weir *weir, const char *what)
{
	struct weir__registry *registry = weir__registry(weir);
	unsigned n =
		atomic_load_explicit(&registry->n_devs, memory_order_acquire);
	char names[512] = "", why[512];

	for (unsigned i = 0; i < n; i++)
		weir__append(names, sizeof(names), "%s%s", i ? ", " : "",
			     registry->dev[i]->desc.name);
	weir__modules_why(weir, why, sizeof(why));
	return weir__fail(-ENODEV, "no %s; there are: %s%s", what, names, why);
}

/* Modules are searched only if no device has that name yet. */
static int dev_find(struct weir *weir, const char *name, size_t len,
		    struct weir_dev **ret_dev)
{
	struct weir_dev *dev;
	char what[512];
	int r = weir__root_enter(weir);

	if (r < 0)
		return r;
	dev = dev_look_up(weir, name, len);
	if (!dev) {
		weir__modules_scan(weir);
		dev = dev_look_up(weir, name, len);
	}
	if (!dev) {
		snprintf(what, sizeof(what), "device '%s'",
			 weir__quote(name, len));
		return no_such_dev(weir, what);
	}
	*ret_dev = dev;
	return 0;
}

int weir_dev_find(struct weir *weir, const char *name,
		  struct weir_dev **ret_dev)
{
	WEIR__ENTER();
	return dev_find(weir, name, strlen(name), ret_dev);
}

static struct weir_dev *dev_look_up_type(struct weir *weir, uint32_t type)
{
	struct weir__registry *registry = weir__registry(weir);
	unsigned n =
		atomic_load_explicit(&registry->n_devs, memory_order_acquire);

	for (unsigned i = 0; i < n; i++)
		if (registry->dev[i]->desc.type == type)
			return registry->dev[i];
	return NULL;
}

/* The first device of the type, or NULL. May search for modules. */
static struct weir_dev *dev_of_type(struct weir *weir, uint32_t type)
{
	struct weir_dev *dev = dev_look_up_type(weir, type);

	if (dev)
		return dev;
	weir__modules_scan(weir);
	return dev_look_up_type(weir, type);
}

int weir_dev_find_type(struct weir *weir, enum weir_dev_type type,
		       struct weir_dev **ret_dev)
{
	static const char *const words[] = {
		[WEIR_DEV_CPU] = "device of type CPU",
		[WEIR_DEV_GPU] = "device of type GPU",
		[WEIR_DEV_IGPU] = "device of type IGPU",
		[WEIR_DEV_ACCEL] = "device of type ACCEL",
	};
	struct weir_dev *dev;
	int r;

	WEIR__ENTER();
	r = weir__root_enter(weir);
	if (r < 0)
		return r;
	if ((unsigned)type >= sizeof(words) / sizeof(words[0]))
		return weir__fail(-EINVAL, "%u is no type of device",
				  (unsigned)type);
	dev = dev_of_type(weir, type);
	if (!dev)
		return no_such_dev(weir, words[type]);
	*ret_dev = dev;
	return 0;
}

int weir_dev_best(struct weir *weir, struct weir_dev **ret_dev)
{
	struct weir_dev *dev;
	int r;

	WEIR__ENTER();
	r = weir__root_enter(weir);
	if (r < 0)
		return r;
	dev = dev_of_type(weir, WEIR_DEV_GPU);
	if (!dev)
		dev = dev_of_type(weir, WEIR_DEV_IGPU);
	*ret_dev = dev ? dev : weir__registry(weir)->dev[0];
	return 0;
}

int weir__dev_no_errno(const struct weir_dev *dev, const char *what, int r)
{
	return weir__fail(-EIO,
			  "%s: %s of backend %s returned %d, which is no errno",
			  dev->desc.name, what, dev->backend->name, r);
}

int weir__dev_reach(struct weir_dev *dev, struct weir_dev *other)
{
	const struct weir_backend_mem_ops *mem = dev->backend->mem;
	int r;

	if (dev == other)
		return 1;
	if (dev->backend != other->backend || !mem->reach)
		return 0;
	r = weir__dev_use(dev);
	if (r >= 0)
		r = weir__dev_result(dev, "mem->reach", mem->reach(dev, other));
	return r < 0 ? r : 1;
}

/* Make the device's state. dev->lock is held. */
static int dev_open_locked(struct weir_dev *dev, const char *params)
{
	void *state = NULL;
	int r = dev->backend->dev_open(dev, dev->index, params, &state);

	r = weir__dev_result(dev, "dev_open", r);
	if (r < 0)
		return r;
	snprintf(dev->params, sizeof(dev->params), "%s", params);
	atomic_store(&dev->state, state);
	dev->opened = true;
	return 0;
}

int weir__dev_use(struct weir_dev *dev)
{
	int r = 0;

	/* A device that is open needs no lock, unless its state is NULL. */
	if (atomic_load_explicit(&dev->state, memory_order_acquire))
		return 0;
	pthread_mutex_lock(&dev->lock);
	if (!dev->opened)
		r = dev_open_locked(dev, "");
	pthread_mutex_unlock(&dev->lock);
	return r;
}

/* Check the form "k=v,k=v". The backend checks keys and values. */
static int check_params(const struct weir_dev *dev, const char *params)
{
	const char *p = params;

	if (strlen(params) >= sizeof(dev->params))
		return weir__fail(-EINVAL,
				  "%s: parameters of %zu bytes, at most %zu",
				  dev->desc.name, strlen(params),
				  sizeof(dev->params) - 1);
	for (;;) {
		size_t len = strcspn(p, ",");
		const char *eq = memchr(p, '=', len);

		if (!eq || eq == p || eq + 1 == p + len)
			return weir__fail(-EINVAL,
					  "%s: parameter '%s' is not key=value",
					  dev->desc.name, weir__quote(p, len));
		if (!p[len])
			return 0;
		p += len + 1;
	}
}

static int dev_init(struct weir_dev *dev, const char *params)
{
	int r = check_params(dev, params);

	if (r < 0)
		return r;
	pthread_mutex_lock(&dev->lock);
	if (!dev->opened)
		r = dev_open_locked(dev, params);
	else if (strcmp(dev->params, params))
		r = weir__fail(
			-EBUSY,
			"%s is in use with parameters '%s' already, not '%s'",
			dev->desc.name, dev->params,
			weir__quote(params, strlen(params)));
	pthread_mutex_unlock(&dev->lock);
	return r;
}

int weir_dev_configure(struct weir *weir, const char *name_params,
		       struct weir_dev **ret_dev)
{
	size_t len = strcspn(name_params, ":");
	struct weir_dev *dev;
	int r;

	WEIR__ENTER();
	r = dev_find(weir, name_params, len, &dev);
	if (r < 0)
		return r;
	if (name_params[len] && name_params[len + 1])
		r = dev_init(dev, name_params + len + 1);
	if (r < 0)
		return r;
	*ret_dev = dev;
	return 0;
}

int weir_dev_info(struct weir_dev *dev, struct weir_dev_info *ret_info)
{
	const struct weir_backend_dev *d = &dev->desc;
	struct weir_dev_info info = {
		.size = sizeof(info),
		.name = d->name,
		.description = d->description,
		.backend = dev->backend->name,
		.module = dev->module,
		.type = d->type,
		.caps = d->caps,
	};
	int r;

	WEIR__ENTER();
	r = weir__root_read(dev->weir);
	if (r < 0)
		return r;
	memcpy(info.pci, d->pci, sizeof(info.pci));
	memcpy(info.uuid, d->uuid, sizeof(info.uuid));
	memcpy(info.no_compute, d->no_compute, sizeof(info.no_compute));
	/* dev_open may set the node. */
	pthread_mutex_lock(&dev->lock);
	info.node = d->node;
	pthread_mutex_unlock(&dev->lock);
	return weir__info_out(ret_info, &info, sizeof(info));
}

int weir__dev_memory(struct weir_dev *dev, uint64_t *ret_free,
		     uint64_t *ret_total)
{
	uint64_t avail = 0, total = 0;
	int r = weir__root_enter(dev->weir);

	if (r < 0)
		return r;
	r = dev->backend->dev_memory(dev, dev->index, &avail, &total);
	r = weir__dev_result(dev, "dev_memory", r);
	if (r < 0)
		return r;
	if (avail > total)
		return weir__fail(
			-EIO,
			"%s: backend %s says that %llu of %llu bytes are free",
			dev->desc.name, dev->backend->name,
			(unsigned long long)avail, (unsigned long long)total);
	*ret_free = avail;
	*ret_total = total;
	return 0;
}

int weir_dev_memory(struct weir_dev *dev, uint64_t *ret_free,
		    uint64_t *ret_total)
{
	WEIR__ENTER();
	return weir__dev_memory(dev, ret_free, ret_total);
}

/* Says why the device lacks a kind of memory that only some machines have. */
static const char *why_none(const struct weir_dev *dev, enum weir_mem kind)
{
	if (dev->desc.type != WEIR_DEV_CPU)
		return "";
	if (kind == WEIR_MEM_HBM)
		return ": no NUMA node without CPUs is known to have a higher bandwidth than those with CPUs";
	return kind == WEIR_MEM_FAR
		       ? ": every NUMA node has CPUs, or a higher bandwidth"
		       : "";
}

int weir_dev_buft(struct weir_dev *dev, enum weir_mem kind,
		  struct weir_buft **ret_buft)
{
	static const char *const names[] = { "DEVICE", "PLAIN",  "HUGE",
					     "LOCKED", "PINNED", "MAPPED",
					     "HBM",    "FAR" };
	int r;

	WEIR__ENTER();
	r = weir__root_read(dev->weir);
	if (r < 0)
		return r;
	if ((size_t)kind >= sizeof(names) / sizeof(names[0]))
		return weir__fail(-EINVAL, "%u is no kind of memory",
				  (unsigned)kind);
	for (unsigned i = 0; i < dev->desc.n_bufts; i++)
		if (dev->buft[i].desc.kind == (uint32_t)kind) {
			*ret_buft = &dev->buft[i];
			return 0;
		}
	if (kind != WEIR_MEM_DEVICE)
		return weir__fail(-EOPNOTSUPP, "%s has no memory of kind %s%s",
				  dev->desc.name, names[kind],
				  why_none(dev, kind));
	/* A device without memory of its own: its default kind. */
	*ret_buft = &dev->buft[0];
	return 0;
}

void (*weir_dev_proc(struct weir_dev *dev, const char *name))(void)
{
	if (!dev->backend->proc || !weir__root_is_ours(dev->weir))
		return NULL;
	return dev->backend->proc(dev, name);
}

const char *weir__dev_describe_error(const struct weir_dev *dev, int32_t native)
{
	static _Thread_local char ring[2][200];
	static _Thread_local unsigned next;
	char words[160] = "", *text = ring[next++ % 2];

	if (native && dev->backend->explain)
		dev->backend->explain(native, words, sizeof(words));
	snprintf(text, sizeof(ring[0]), *words ? " (%s)" : "%s", words);
	return text;
}

/* Common rates of each type, for devices that are not measured. */
static const struct weir_rates defaults[] = {
	[WEIR_DEV_CPU] = { sizeof(defaults[0]), 1e11, 3e10, 1e10 },
	[WEIR_DEV_GPU] = { sizeof(defaults[0]), 2e13, 1e12, 2e10 },
	[WEIR_DEV_IGPU] = { sizeof(defaults[0]), 2e12, 6e10, 2e10 },
	[WEIR_DEV_ACCEL] = { sizeof(defaults[0]), 1e12, 3e10, 1e10 },
};

static bool is_rate(double rate)
{
	return isfinite(rate) && rate > 0;
}

bool weir__rates_are_sound(const struct weir_rates *rates)
{
	return is_rate(rates->flops) && is_rate(rates->bytes) &&
	       is_rate(rates->link);
}

/* Returns the common rates if the measurement fails. */
static struct weir_rates rates_measure(struct weir_dev *dev)
{
	const struct weir_backend_compute_ops *compute = weir__dev_compute(dev);
	struct weir_rates rates = defaults[dev->desc.type];
	struct weir__error_saved saved;
	int r = 0;

	weir__error_save(&saved);
	if (compute && compute->rates)
		r = weir__dev_result(dev, "compute->rates",
				     compute->rates(dev, &rates));
	if (r == 0 && !weir__rates_are_sound(&rates))
		r = weir__fail(-EIO, "a rate is not positive");
	if (r < 0) {
		weir__log(dev->weir, "%s has common rates, not its own: %s",
			  dev->desc.name, weir__error_text());
		rates = defaults[dev->desc.type];
	}
	weir__error_restore(&saved);
	return rates;
}

/* Measured without the lock: the log sink may call weir. */
struct weir_rates weir__dev_rates(struct weir_dev *dev)
{
	struct weir_rates rates;
	bool rated;

	pthread_mutex_lock(&dev->lock);
	rated = dev->rated;
	rates = dev->rates;
	pthread_mutex_unlock(&dev->lock);
	if (rated)
		return rates;
	rates = rates_measure(dev);
	pthread_mutex_lock(&dev->lock);
	if (!dev->rated)
		dev->rates = rates;
	dev->rated = true;
	rates = dev->rates;
	pthread_mutex_unlock(&dev->lock);
	return rates;
}

int weir_dev_set_threads(struct weir_dev *dev,
			 const struct weir_threads *threads)
{
	const struct weir_backend_compute_ops *compute = weir__dev_compute(dev);
	struct weir_threads own;
	int r;

	WEIR__ENTER();
	r = weir__root_enter(dev->weir);
	if (r >= 0)
		r = weir__opts_in(&own, sizeof(own), threads);
	if (r < 0)
		return r;
	if (own.reserved)
		return weir__fail(-EINVAL, "reserved is %u, not 0",
				  own.reserved);
	if (!compute || !compute->set_threads)
		return weir__fail(-EOPNOTSUPP,
				  "%s: does not compute on threads of the host",
				  dev->desc.name);
	r = weir__dev_use(dev);
	if (r < 0)
		return r;
	return weir__dev_result(dev, "compute->set_threads",
				compute->set_threads(dev, &own));
}
