/* SPDX-License-Identifier: MIT */
/* Targets: tensors that are loaded into exactly the memory that is given. */
#include <errno.h>
#include <string.h>

#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"
#include "mem/dtype.h"
#include "mem/tensor.h"
#include "model/plan.h"

#define MAX_TARGETS (UINT32_MAX / 2) /* of a plan: runs are numbered */

/* Entry @i of an array whose entries have @size bytes, as the caller set. */
static int target_in(const struct weir_target *targets, size_t size, size_t i,
		     struct weir_target *ret)
{
	const char *from = (const char *)targets + i * size;

	for (size_t k = sizeof(*ret); k < size; k++)
		if (from[k])
			return weir__fail(
				-E2BIG,
				"a target of %zu bytes: this library knows %zu of them, but byte %zu is not 0",
				size, sizeof(*ret), k);
	*ret = (struct weir_target){ 0 };
	memcpy(ret, from, size < sizeof(*ret) ? size : sizeof(*ret));
	return 0;
}

static int check_place(const struct weir_plan *plan,
		       const struct weir_tensor *source,
		       const struct weir_tensor *dst)
{
	const struct weir_buft *buft;

	if (!dst || !dst->buf)
		return weir__fail(-EINVAL, "%s: its destination is not placed",
				  weir__tensor_label(source));
	buft = dst->buf->buft;
	if (buft->dev->weir != plan->model->weir)
		return weir__fail(-EINVAL,
				  "%s: its destination is of another root",
				  weir__tensor_label(source));
	if (buft->desc.flags & WEIR_BUFT_READONLY)
		return weir__fail(
			-EINVAL,
			"%s: its destination, a buffer of %s, cannot be written",
			weir__tensor_label(source), buft->desc.name);
	return 0;
}

/* The member of the buffer that contains all of @dst, and the offset there. */
static int target_place(struct weir__target *t, const struct weir_tensor *dst)
{
	uint64_t bytes;
	int r = weir__tensor_bytes(dst, &bytes);

	if (r >= 0)
		r = weir__buf_range(dst->buf, dst->offset, bytes, &t->buf,
				    &t->at);
	if (r < 0)
		return r;
	t->buft = t->buf->buft;
	t->base = t->buf->mem.base;
	t->room = t->buf->bytes;
	return 0;
}

static int target_make(const struct weir_plan *plan,
		       const struct weir_target *in, struct weir__target *t)
{
	const struct weir_model *m = plan->model;
	struct weir_tensor source;
	int r;

	if (in->tensor >= m->n_recs)
		return weir__fail(-EINVAL, "tensor %zu of %zu", in->tensor,
				  m->n_recs);
	*t = (struct weir__target){ .record = in->tensor,
				    .way = in->way,
				    .priority = in->priority };
	r = weir__cut_make(m, in->tensor, in->slice,
			   in->dst ? in->dst->dtype : WEIR_DTYPE_NONE, &t->cut,
			   &source);
	source.name = weir__record_name(m, in->tensor);
	if (r >= 0)
		r = weir__plan_check_way(in->way);
	if (r >= 0 && in->way == WEIR_WAY_MAP)
		r = weir__fail(-EINVAL, "%s: a target cannot be mapped",
			       weir__tensor_label(&source));
	if (r >= 0)
		r = check_place(plan, &source, in->dst);
	if (r >= 0)
		r = target_place(t, in->dst);
	if (r < 0)
		return r;
	if (in->dst->dtype != source.dtype)
		return weir__fail(-EINVAL,
				  "%s is of %s, its destination is of %s",
				  weir__tensor_label(&source),
				  weir__dtype(source.dtype)->name,
				  weir__dtype(in->dst->dtype)->name);
	r = weir__cut_fit(&t->cut, &source, in->dst);
	t->dst = *in->dst;
	t->dst.buf = t->buf;
	t->dst.offset = t->at;
	t->dst.name = source.name;
	return r;
}

int weir_plan_put_tensors(struct weir_plan *plan,
			  const struct weir_target *targets, size_t n)
{
	size_t size = n ? targets[0].size : 0, end = plan->n_targets + n;
	struct weir__target *more;
	struct weir_target in;
	int r;

	WEIR__ENTER();
	r = weir__root_enter(plan->model->weir);
	if (!r && n && size < offsetof(struct weir_target, slice))
		r = weir__fail(-EINVAL, "size of a target is %zu, at least %zu",
			       size, offsetof(struct weir_target, slice));
	if (!r && n > MAX_TARGETS - plan->n_targets)
		r = weir__fail(-EINVAL,
			       "%zu targets after %zu others, at most %u", n,
			       plan->n_targets, MAX_TARGETS);
	if (r < 0 || !n)
		return r;
	more = weir__grow(plan->target, &plan->max_targets, end - 1,
			  sizeof(*more));
	if (!more)
		return weir__fail(-ENOMEM, "%s: no memory for %zu targets",
				  plan->model->path, end);
	plan->target = more;
	more += plan->n_targets;
	for (size_t i = 0; i < n && r >= 0; i++) {
		r = target_in(targets, size, i, &in);
		if (r >= 0)
			r = target_make(plan, &in, &more[i]);
	}
	if (r < 0)
		return r;
	for (size_t i = plan->n_targets; i < end; i++) {
		struct weir__target *t = &plan->target[i];

		weir_buf_ref(t->buf);
		if (!plan->choice[t->record])
			plan->choice[t->record] = WEIR__CHOSEN_AS_TARGET;
	}
	plan->n_targets = end;
	return 0;
}
