/* SPDX-License-Identifier: MIT */
#include "model/plan.h"

#include <errno.h>
#include <fnmatch.h>
#include <string.h>

#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"

#define MAX_ALIGN 4096u /* a page; direct reads need no more */

int weir_plan_new(struct weir_model *model, struct weir_plan **ret_plan)
{
	struct weir_plan *p;
	int r;

	WEIR__ENTER();
	r = weir__root_enter(model->weir);
	if (r < 0)
		return r;
	p = weir__calloc(1, sizeof(*p) + model->n_recs * sizeof(p->choice[0]));
	if (!p)
		return weir__fail(-ENOMEM,
				  "%s: no memory for a plan for %zu tensors",
				  model->path, model->n_recs);
	p->model = weir__model_ref(model);
	p->first = model->n_recs;
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
			"offset %llu is after the end of a buffer of %zu bytes",
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
		return weir__fail(-EINVAL, "way %u is not one of 0 to %u",
				  o->way, WEIR_WAY_DIRECT);
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

/* fnmatch(3) sees no more than a C string: a name with a NUL matches only "*". */
static bool matches(const char *glob, const struct weir_model *m, size_t i)
{
	const char *name = weir__record_name(m, i);

	if (!glob || !strcmp(glob, "*"))
		return true;
	return strlen(name) == m->rec[i].name_len && !fnmatch(glob, name, 0);
}

/*
 * The records that @glob can match: all of them, or if it has no wildcard the one
 * of that name. So a plan with a put for each tensor takes linear time. True: it
 * matches all of these.
 */
static bool candidates(const struct weir_model *m, const char *glob,
		       size_t *ret_first, size_t *ret_end)
{
	size_t i;

	*ret_first = 0;
	*ret_end = m->n_recs;
	if (!glob || strpbrk(glob, "*?[\\"))
		return !glob;
	i = weir__model_lookup(m, glob, strlen(glob));
	*ret_first = i == WEIR__NONE ? m->n_recs : i;
	*ret_end = i == WEIR__NONE ? m->n_recs : i + 1;
	return true;
}

static int add_put(struct weir_plan *plan, struct weir_buft *buft,
		   const struct weir_put_opts *o)
{
	struct weir__put *put;

	if (plan->n_puts == UINT32_MAX / 2)
		return weir__fail(-EINVAL, "more than %u puts", plan->n_puts);
	put = weir__grow(plan->put, &plan->max_puts, plan->n_puts,
			 sizeof(*put));
	if (!put)
		return weir__fail(-ENOMEM,
				  "%s: no memory for more than %u puts",
				  plan->model->path, plan->n_puts);
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
	size_t first, end, seen;
	const char *pattern; /* NULL: all from first to end */
	struct weir_put_opts o;
	struct weir__put *put;
	int r;

	WEIR__ENTER();
	r = weir__root_enter(m->weir);
	if (!r)
		r = weir__opts_in(&o, sizeof(o), opts);
	if (!r)
		r = check_put(plan, buft, &o);
	if (r < 0)
		return r;
	pattern = candidates(m, glob, &first, &end) ? NULL : glob;
	for (seen = first; seen < end && !matches(pattern, m, seen); seen++)
		;
	if (seen == end && (glob || m->n_recs))
		return weir__fail(-ENOENT, "%s: no tensor matches '%s'",
				  m->path, glob ? glob : "*");
	r = add_put(plan, buft, &o);
	if (r < 0)
		return r;
	put = &plan->put[plan->n_puts - 1];
	for (size_t i = seen; i < end; i++)
		if (!plan->choice[i] && matches(pattern, m, i)) {
			plan->choice[i] = plan->n_puts;
			put->tensors++;
		}
	if (first < plan->first)
		plan->first = first;
	plan->n += put->tensors;
	return put->tensors > INT32_MAX ? INT32_MAX : (int)put->tensors;
}
