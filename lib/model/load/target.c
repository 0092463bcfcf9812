/* SPDX-License-Identifier: MIT */
/*
 * Targets: tensors that are loaded into exactly the memory that is given, and
 * places for them that suit direct reads.
 */
#include <errno.h>
#include <string.h>

#include "core/array.h"
#include "core/error.h"
#include "core/refs.h"
#include "core/sort.h"
#include "core/sys.h"
#include "core/util.h"
#include "mem/dtype.h"
#include "mem/tensor.h"
#include "model/load/layout.h"

/* Most targets of a plan: spans are numbered. */
#define MAX_TARGETS (UINT32_MAX / 2)

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
	if (!dst || !dst->buf)
		return weir__fail(-EINVAL, "%s: its destination is not placed",
				  weir__tensor_label(source));
	if (dst->buf->buft->dev->weir != plan->model->weir)
		return weir__fail(-EINVAL,
				  "%s: its destination is of another root",
				  weir__tensor_label(source));
	return 0;
}

/* The member of the buffer that contains all of @dst, and the offset there. */
static int target_place(struct weir__target *t,
			const struct weir_tensor *source,
			const struct weir_tensor *dst, uint64_t *ret_at)
{
	uint64_t bytes;
	int r = weir__tensor_bytes(dst, &bytes);

	if (r >= 0)
		r = weir__buf_range(dst->buf, dst->offset, bytes, &t->buf,
				    ret_at);
	if (r < 0)
		return r;
	t->buft = t->buf->buft;
	if (weir__buf_is_readonly(t->buf))
		return weir__fail(
			-EINVAL,
			"%s: its destination, a buffer of %s, cannot be written",
			weir__tensor_label(source), t->buft->desc.name);
	t->base = t->buf->mem.base;
	t->foreign = t->buf->foreign;
	t->room = t->buf->bytes;
	return 0;
}

/* What the target reads, and the tensor that this makes, not placed. */
static int target_source(const struct weir_model *m,
			 const struct weir_target *in,
			 struct weir__slice *ret_slice,
			 struct weir_tensor *ret_source)
{
	int r;

	if (in->tensor >= m->n_recs)
		return weir__fail(-EINVAL, "tensor %zu of %zu", in->tensor,
				  m->n_recs);
	r = weir__slice_make(m, in->tensor, in->slice,
			     in->dst ? in->dst->dtype : WEIR_DTYPE_NONE,
			     ret_slice, ret_source);
	ret_source->name = weir__record_name(m, in->tensor);
	return r;
}

/* Fit the slice to the destination. */
static int fit_dst(struct weir__slice *slice, const struct weir_tensor *source,
		   const struct weir_tensor *dst)
{
	if (dst->dtype != source->dtype)
		return weir__fail(-EINVAL,
				  "%s is of %s, its destination is of %s",
				  weir__tensor_label(source),
				  weir__dtype(source->dtype)->name,
				  weir__dtype(dst->dtype)->name);
	return weir__slice_fit(slice, source, dst);
}

static int target_make(const struct weir_plan *plan,
		       const struct weir_target *in, struct weir__target *t,
		       struct weir_tensor *tensor)
{
	const struct weir_model *m = plan->model;
	struct weir_tensor source;
	uint64_t at;
	int r = target_source(m, in, &t->slice, &source);

	if (r < 0)
		return r;
	*t = (struct weir__target){ .record = in->tensor,
				    .shard = m->rec[in->tensor].shard,
				    .way = in->way,
				    .priority = in->priority,
				    .slice = t->slice };
	r = weir__plan_check_way(in->way);
	if (r >= 0 && in->way == WEIR_WAY_MAP)
		r = weir__fail(-EINVAL, "%s: a target cannot be mapped",
			       weir__tensor_label(&source));
	if (r >= 0)
		r = check_place(plan, &source, in->dst);
	if (r >= 0)
		r = target_place(t, &source, in->dst, &at);
	if (r < 0)
		return r;
	r = fit_dst(&t->slice, &source, in->dst);
	t->off = m->rec[in->tensor].off + t->slice.off;
	t->at = at;
	*tensor = *in->dst;
	tensor->buf = t->buf;
	tensor->offset = at;
	tensor->name = source.name;
	return r;
}

struct weir__targets *weir__targets_ref(struct weir__targets *targets)
{
	if (targets)
		weir__refs_add(&targets->refs, 1);
	return targets;
}

void weir__targets_put(struct weir__targets *targets)
{
	if (!targets || !weir__refs_drop(&targets->refs))
		return;
	for (size_t i = 0; i < targets->n; i++)
		weir__buf_put(targets->item[i].buf);
	weir__array_free(targets->item);
	weir__array_free(targets->tensor);
	weir__free(targets);
}

static bool targets_grow(struct weir__targets *t, size_t n)
{
	size_t cap = t->max; /* entries of both arrays */
	void *more = weir__array_grow(t->item, &cap, n - 1, sizeof(*t->item));

	if (!more)
		return false;
	t->item = more;
	more = weir__array_grow(t->tensor, &t->max, n - 1, sizeof(*t->tensor));
	if (!more)
		return false;
	t->tensor = more;
	return true;
}

/* With room for @n targets, and a copy of those of @from (or NULL). */
static struct weir__targets *targets_new(const struct weir__targets *from,
					 size_t n)
{
	struct weir__targets *t = weir__calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	atomic_init(&t->refs, 1);
	if (!targets_grow(t, n)) {
		weir__targets_put(t);
		return NULL;
	}
	for (; from && t->n < from->n; t->n++) {
		t->item[t->n] = from->item[t->n];
		t->tensor[t->n] = from->tensor[t->n];
		weir_buf_ref(t->item[t->n].buf);
	}
	return t;
}

/* Make room for @n targets of the plan, which no weights have. */
static bool targets_own(struct weir_plan *plan, size_t n)
{
	struct weir__targets *t = plan->targets;

	if (t && atomic_load(&t->refs) == 1)
		return targets_grow(t, n);
	t = targets_new(plan->targets, n);
	if (!t)
		return false;
	weir__targets_put(plan->targets);
	plan->targets = t;
	return true;
}

/* The arguments that all calls with targets have. */
static int check_targets(const struct weir_target *targets, size_t n)
{
	if (!n)
		return 0;
	if (!targets)
		return weir__fail(-EINVAL, "%zu targets, but the array is NULL",
				  n);
	if (targets[0].size < offsetof(struct weir_target, slice))
		return weir__fail(-EINVAL,
				  "size of a target is %zu, at least %zu",
				  targets[0].size,
				  offsetof(struct weir_target, slice));
	return 0;
}

int weir_plan_add_tensors(struct weir_plan *plan,
			  const struct weir_target *targets, size_t n)
{
	size_t old = weir__plan_n_targets(plan), end = old + n;
	size_t size = n && targets ? targets[0].size : 0;
	struct weir__target *more;
	struct weir_target in;
	int r;

	WEIR__ENTER();
	r = weir__root_enter(plan->model->weir);
	if (!r)
		r = check_targets(targets, n);
	if (!r && n > MAX_TARGETS - old)
		r = weir__fail(-EINVAL,
			       "%zu targets after %zu others, at most %u", n,
			       old, MAX_TARGETS);
	if (r < 0 || !n)
		return r;
	if (!targets_own(plan, end))
		return weir__fail(-ENOMEM, "%s: no memory for %zu targets",
				  plan->model->path, end);
	weir__layout_forget(plan);
	more = plan->targets->item + old;
	for (size_t i = 0; i < n && r >= 0; i++) {
		r = target_in(targets, size, i, &in);
		if (r >= 0)
			r = target_make(plan, &in, &more[i],
					&plan->targets->tensor[old + i]);
	}
	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		weir_buf_ref(more[i].buf);
		if (!plan->choice[more[i].record])
			plan->choice[more[i].record] = WEIR__CHOSEN_AS_TARGET;
	}
	plan->targets->n = end;
	return 0;
}

/* A target that is to be placed. */
struct unplaced {
	struct weir__sort_key where; /* file, and offset in it */
	size_t number;               /* number of the target */
	uint64_t bytes;              /* bytes in memory, from its first to its
					last */
	uint64_t align;
	uint64_t offset; /* its place, counted from base */
	bool congruent;  /* its address may be congruent to its offset */
};

/*
 * True if bytes may be read directly into memory that is congruent to the file.
 */
static bool fits_direct(const struct weir__slice *slice)
{
	if (weir__slice_is_plain(slice))
		return true;
	return !slice->convert &&
	       (slice->file_pitch - slice->mem_pitch) % WEIR__PAGE == 0;
}

static int unplaced_of(const struct weir_model *m, const struct weir_target *in,
		       uint64_t align, struct unplaced *ret)
{
	const struct weir__record *rec;
	struct weir_tensor source;
	struct weir__slice slice;
	int r = target_source(m, in, &slice, &source);

	if (r >= 0 && in->dst)
		r = fit_dst(&slice, &source, in->dst);
	if (r < 0)
		return r;
	rec = &m->rec[in->tensor];
	ret->where.major = rec->shard;
	ret->where.minor = rec->off + slice.off;
	ret->bytes = weir__slice_mem_length(&slice);
	ret->align = align ? align : weir__dtype(source.dtype)->align;
	ret->congruent = ret->where.minor % ret->align == 0 &&
			 fits_direct(&slice);
	return 0;
}

/* The next address from @at on that is congruent to @to modulo @unit. */
static uint64_t next_congruent(uint64_t at, uint64_t to, uint64_t unit)
{
	return at + ((to - at) & (unit - 1));
}

/* Place the sorted tensors, one after the other. */
static int place_all(struct unplaced *u, size_t n, uint64_t base,
		     uint64_t *ret_bytes)
{
	uint64_t end = 0; /* counted from base */

	for (size_t i = 0; i < n; i++) {
		uint64_t at =
			u[i].congruent
				? next_congruent(base + end, u[i].where.minor,
						 WEIR__PAGE)
				: next_congruent(base + end, 0, u[i].align);

		u[i].offset = at - base;
		if (u[i].offset < end ||
		    weir__add_over(u[i].offset, u[i].bytes, &end))
			return weir__fail(-EOVERFLOW,
					  "targets of 2^64 bytes or more");
	}
	*ret_bytes = end;
	return 0;
}

int weir_targets_layout(const struct weir_model *model,
			const struct weir_target *targets, size_t n,
			uint64_t base, uint64_t align, uint64_t *ret_offset,
			uint64_t *ret_bytes)
{
	struct unplaced *u;
	struct weir_target in;
	int r;

	WEIR__ENTER();
	r = weir__root_read(model->weir);
	if (!r)
		r = check_targets(targets, n);
	if (!r && n && !ret_offset)
		r = weir__fail(-EINVAL, "%zu targets, but no array of offsets",
			       n);
	if (!r)
		r = weir__plan_check_align(align);
	if (r < 0)
		return r;
	u = weir__calloc(n + 1, sizeof(*u));
	for (size_t i = 0; i < n && u && r >= 0; i++) {
		u[i].number = i;
		r = target_in(targets, targets[0].size, i, &in);
		if (r >= 0)
			r = unplaced_of(model, &in, align, &u[i]);
	}
	if (!u || (r >= 0 && weir__sort(u, n, sizeof(*u)) < 0))
		r = weir__fail(-ENOMEM, "%s: no memory to place %zu targets",
			       model->path, n);
	if (r >= 0)
		r = place_all(u, n, base, ret_bytes);
	for (size_t i = 0; i < n && r >= 0; i++)
		ret_offset[u[i].number] = u[i].offset;
	weir__free(u);
	return r;
}
