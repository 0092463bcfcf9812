/* SPDX-License-Identifier: MIT */
#include "model/plan.h"

#include <errno.h>
#include <fnmatch.h>
#include <string.h>

#include "error.h"
#include "sys.h"

#define MAX_PUTS 4096u
#define MAX_ALIGN 4096u /* what every buffer begins at */

int weir_plan_new(struct weir_model *model, struct weir_plan **ret_plan)
{
	struct weir_plan *p;
	int r;

	WEIR__ENTER();
	r = weir__root_enter(model->weir);
	if (r < 0)
		return r;
	p = weir__calloc(1, sizeof(*p));
	if (p)
		p->choice = weir__calloc(model->n_recs, sizeof(*p->choice));
	if (!p || !p->choice) {
		weir__free(p);
		return weir__fail(-ENOMEM, "a plan for %zu tensors: no memory",
				  model->n_recs);
	}
	p->model = weir__model_ref(model);
	*ret_plan = p;
	return 0;
}

void weir_plan_free(struct weir_plan *plan)
{
	if (!plan || !weir__root_is_ours(plan->model->weir))
		return;
	for (unsigned i = 0; i < plan->n_puts; i++)
		weir_buf_free(plan->put[i].buf);
	weir__model_put(plan->model);
	weir__free(plan->put);
	weir__free(plan->choice);
	weir__free(plan);
}

static int check_buf(const struct weir_buft *buft,
		     const struct weir_put_opts *o)
{
	if (!o->buf)
		return o->offset
			       ? weir__fail(-EINVAL,
					    "an offset of %llu, but no buffer",
					    (unsigned long long)o->offset)
			       : 0;
	if (o->buf->n_members)
		return weir__fail(
			-EINVAL,
			"tensors cannot be put into a joined buffer: use its members");
	if (o->buf->buft != buft)
		return weir__fail(-EINVAL, "the buffer is of %s, not of %s",
				  o->buf->buft->desc.name, buft->desc.name);
	if (o->buf->buft->desc.flags & WEIR_BUFT_READONLY)
		return weir__fail(-EINVAL, "a buffer of %s cannot be written",
				  o->buf->buft->desc.name);
	if (o->offset > o->buf->bytes)
		return weir__fail(
			-EINVAL,
			"offset %llu lies behind a buffer of %zu bytes",
			(unsigned long long)o->offset, o->buf->bytes);
	return 0;
}

static int check_put(const struct weir_plan *plan, struct weir_buft *buft,
		     const struct weir_put_opts *o)
{
	bool mapped = buft->desc.kind == WEIR_MEM_MAPPED;

	if (buft->dev->weir != plan->model->weir)
		return weir__fail(-EINVAL, "%s belongs to another root",
				  buft->desc.name);
	if ((o->align & (o->align - 1)) || o->align > MAX_ALIGN)
		return weir__fail(
			-EINVAL,
			"an alignment of %llu is not a power of two up to %u",
			(unsigned long long)o->align, MAX_ALIGN);
	if (o->way > WEIR_WAY_DIRECT)
		return weir__fail(-EINVAL, "%u is no way", o->way);
	if (o->reserved)
		return weir__fail(-EINVAL, "reserved is %u, not 0",
				  o->reserved);
	if (mapped != (o->way == WEIR_WAY_MAP))
		return weir__fail(
			-EINVAL,
			mapped ? "memory of kind %s needs WEIR_WAY_MAP"
			       : "WEIR_WAY_MAP needs memory of kind MAPPED, not %s",
			buft->desc.name);
	return check_buf(buft, o);
}

static bool matches(const char *glob, const char *name)
{
	return !glob || !strcmp(glob, "*") || fnmatch(glob, name, 0) == 0;
}

static int add_put(struct weir_plan *plan, struct weir_buft *buft,
		   const struct weir_put_opts *o)
{
	struct weir__put *put;

	if (plan->n_puts == MAX_PUTS)
		return weir__fail(-EINVAL, "more than %u puts", MAX_PUTS);
	put = weir__realloc(plan->put, plan->n_puts + 1, sizeof(*put));
	if (!put)
		return weir__fail(-ENOMEM, "a plan: no memory");
	plan->put = put;
	put[plan->n_puts++] = (struct weir__put){
		.buft = buft,
		.align = o->align,
		.buf = o->buf ? weir_buf_ref(o->buf) : NULL,
		.offset = o->offset,
		.way = o->way,
	};
	return 0;
}

int weir_plan_put(struct weir_plan *plan, const char *glob,
		  struct weir_buft *buft, const struct weir_put_opts *opts)
{
	struct weir_model *m = plan->model;
	struct weir_put_opts o;
	struct weir__put *put;
	size_t seen = 0;
	int r;

	WEIR__ENTER();
	r = weir__root_enter(m->weir);
	if (r < 0)
		return r;
	r = weir__opts_in(&o, sizeof(o), opts);
	if (!r)
		r = check_put(plan, buft, &o);
	if (r < 0)
		return r;
	for (size_t i = 0; i < m->n_recs && !seen; i++)
		seen = matches(glob, weir__record_name(m, i));
	if (!seen && (glob || m->n_recs))
		return weir__fail(-ENOENT, "%s: no tensor matches '%s'",
				  m->path, glob ? glob : "*");
	r = add_put(plan, buft, &o);
	if (r < 0)
		return r;
	put = &plan->put[plan->n_puts - 1];
	for (size_t i = 0; i < m->n_recs; i++)
		if (!plan->choice[i] &&
		    matches(glob, weir__record_name(m, i))) {
			plan->choice[i] = (uint16_t)plan->n_puts;
			put->tensors++;
		}
	plan->n += put->tensors;
	return put->tensors > INT32_MAX ? INT32_MAX : (int)put->tensors;
}

/* Add what buffer @b needs to the entry of its kind; how many there are. */
static unsigned add_estimate(struct weir_estimate *e, unsigned n,
			     const struct weir__layout_buf *b)
{
	unsigned i = 0;

	while (i < n && e[i].buft != b->buft)
		i++;
	if (i == n)
		e[n++] = (struct weir_estimate){ .buft = b->buft };
	if (!b->given && b->buft->desc.kind != WEIR_MEM_MAPPED)
		e[i].bytes += b->bytes;
	e[i].tensors += b->n;
	return n;
}

static void add_free(struct weir_estimate *e)
{
	uint64_t total;

	if (weir_dev_memory(e->buft->dev, &e->free, &total) < 0)
		e->free = UINT64_MAX;
	e->fits = e->bytes <= e->free;
}

int weir_plan_estimate(struct weir_plan *plan, struct weir_estimate *ret,
		       unsigned n)
{
	struct weir_estimate *all;
	struct weir__layout l;
	size_t step = n ? ret[0].size : 0;
	unsigned kinds = 0;
	int r;

	WEIR__ENTER();
	r = weir__root_read(plan->model->weir);
	if (r < 0)
		return r;
	r = weir__layout_make(plan, &l);
	if (r < 0)
		return r;
	all = weir__calloc(l.n_bufs + 1, sizeof(*all));
	if (!all) {
		r = weir__fail(-ENOMEM, "an estimate: no memory");
		goto out;
	}
	for (size_t i = 0; i < l.n_bufs; i++)
		kinds = add_estimate(all, kinds, &l.buf[i]);
	for (unsigned i = 0; i < kinds && i < n && r >= 0; i++) {
		void *to = (char *)ret + i * step;

		memcpy(to, &step, sizeof(step));
		add_free(&all[i]);
		r = weir__info_out(to, &all[i], sizeof(all[i]));
	}
	if (r >= 0)
		r = (int)kinds;
	weir__free(all);
out:
	weir__layout_free(&l);
	return r;
}
