/* SPDX-License-Identifier: MIT */
/* Schedulers: made from devices and options; their spare streams. */
#include "graph/exec/sched.h"

#include <stdio.h>

#include "core/error.h"
#include "core/refs.h"
#include "core/sys.h"
#include "stream/stream.h"

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

void weir__sched_put(struct weir_sched *sched)
{
	if (!weir__refs_drop(&sched->refs))
		return;
	for (uint32_t i = 0; i < sched->compiler->n_devs; i++)
		for (uint32_t k = 0; k < sched->dev[i].n_streams; k++)
			weir__timeline_put(&sched->dev[i].stream[k]->timeline);
	weir__compiler_free(sched->compiler);
	weir__pins_put(sched->pins);
	pthread_mutex_destroy(&sched->start_lock);
	pthread_mutex_destroy(&sched->lock);
	weir__root_put(sched->weir);
	weir__free(sched);
}

int weir_sched_new(struct weir_dev *const *devs, unsigned n,
		   const struct weir_sched_opts *opts,
		   struct weir_sched **ret_sched)
{
	struct weir__compiler *compiler;
	struct weir_sched_opts o;
	struct weir_sched *s;
	int r;

	WEIR__ENTER();
	r = check_devices(devs, n);
	if (r == 0)
		r = check_opts(&o, opts);
	if (r == 0)
		r = weir__compiler_new(devs, n, &o, &compiler);
	if (r < 0)
		return r;
	s = weir__calloc(1, sizeof(*s) + n * sizeof(*s->dev));
	if (!s) {
		weir__compiler_free(compiler);
		return weir__fail(-ENOMEM, "no memory for a scheduler");
	}
	atomic_init(&s->refs, 1);
	s->weir = weir__root_ref(devs[0]->weir);
	pthread_mutex_init(&s->start_lock, NULL);
	pthread_mutex_init(&s->lock, NULL);
	s->compiler = compiler;
	s->opts = o;
	s->opts.budgets = NULL;
	s->opts.weights = NULL;
	*ret_sched = s;
	return 0;
}

void weir_sched_free(struct weir_sched *sched)
{
	if (!sched || !weir__root_is_ours(sched->weir))
		return;
	pthread_mutex_lock(&sched->lock);
	sched->freed = true;
	pthread_mutex_unlock(&sched->lock);
	weir__compiler_close(sched->compiler);
	weir__sched_put(sched);
}

int weir__sched_stream(struct weir_sched *sched,
		       const struct weir__compiler_dev *on,
		       struct weir_stream **ret_stream)
{
	struct weir__sched_dev *d = &sched->dev[on - sched->compiler->dev];
	struct weir_stream *s = NULL;
	char name[48];

	pthread_mutex_lock(&sched->lock);
	if (d->n_streams)
		s = d->stream[--d->n_streams];
	pthread_mutex_unlock(&sched->lock);
	snprintf(name, sizeof(name), "run %s", on->dev->desc.name);
	if (!s)
		return weir__stream_new(on->dev, 0, name, ret_stream);
	*ret_stream = s;
	return 0;
}

/* A stream that has failed is not used again. */
void weir__sched_stream_back(struct weir_sched *sched,
			     const struct weir__compiler_dev *on,
			     struct weir_stream *s)
{
	struct weir__sched_dev *d = &sched->dev[on - sched->compiler->dev];
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
