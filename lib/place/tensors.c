/* SPDX-License-Identifier: MIT */
#include "place/tensors.h"

#include "core/array.h"
#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"
#include "dev/dev.h"
#include "mem/buf.h"
#include "mem/tensor.h"

typedef unsigned long long ull;

/* Views in a list of tensors, which get the placements of their sources. */

static bool is_view(const struct weir_tensor *t)
{
	return !t->buf && t->of;
}

static int check_view(const struct weir_tensor *t, size_t n, size_t i)
{
	uint64_t bytes, room;
	size_t of = t[i].of - 1;
	int r;

	if (of >= n)
		return weir__fail(-EINVAL,
				  "%s: a view of tensor %zu, the list has %zu",
				  weir__tensor_label(&t[i]), of, n);
	if ((r = weir__tensor_bytes(&t[i], &bytes)) < 0 ||
	    (r = weir__tensor_bytes(&t[of], &room)) < 0)
		return r;
	if (t[i].offset > room || bytes > room - t[i].offset)
		return weir__fail(
			-EINVAL,
			"%s: a view of %llu bytes from byte %llu on, its source has %llu",
			weir__tensor_label(&t[i]), (ull)bytes, (ull)t[i].offset,
			(ull)room);
	return 0;
}

/* A walk from view to source that returns to itself is a cycle. */
static int check_cycles(const struct weir_tensor *t, size_t n)
{
	size_t *walk = weir__calloc(n, sizeof(*walk));
	int r = 0;

	if (!walk)
		return weir__fail(-ENOMEM, "no memory for %zu views", n);
	for (size_t i = 0; i < n && !r; i++) {
		size_t j = i;

		for (; !walk[j] && is_view(&t[j]); j = t[j].of - 1)
			walk[j] = i + 1;
		if (walk[j] == i + 1)
			r = weir__fail(-EINVAL, "%s: a view of itself",
				       weir__tensor_label(&t[j]));
	}
	weir__free(walk);
	return r;
}

int weir__views_check(const struct weir_tensor *t, size_t n)
{
	bool any = false;
	int r = 0;

	if (n && !t)
		return weir__fail(-EINVAL, "%zu tensors, but the array is NULL",
				  n);
	for (size_t i = 0; i < n && !r; i++)
		if (is_view(&t[i])) {
			any = true;
			r = check_view(t, n, i);
		}
	return any && !r ? check_cycles(t, n) : r;
}

void weir__views_place(struct weir_tensor *t, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t offset = 0;
		size_t of = i, j = i;

		for (; is_view(&t[of]); of = t[of].of - 1)
			offset += t[of].offset;
		/* Its source is not placed, so the view stays as it is. */
		if (!t[of].buf)
			continue;
		/* Place all on the way, so that each is passed once. */
		while (j != of) {
			uint64_t skip = t[j].offset;
			size_t next = t[j].of - 1;

			t[j].buf = t[of].buf;
			t[j].offset = t[of].offset + offset;
			offset -= skip;
			j = next;
		}
	}
}

/* Tensors one after another: measured, in new buffers, or in a given one. */
/*
 * The end of the tensors that were placed: in a buffer of the caller, or in new
 * buffers that are as large as they may be.
 */
struct linear {
	struct weir_buft *buft;
	struct weir_buf *given; /* NULL: new ones */
	size_t member;          /* number of the current one */
	uint64_t begin;         /* begin of the current member, as if joined */
	uint64_t end;           /* end of what is used of it */
	uint64_t *size;         /* size of each new member */
	size_t n_members, max_members;
	size_t n_tensors;
};

static int linear_open(struct linear *l)
{
	uint64_t *size = weir__grow(l->size, &l->max_members, l->n_members,
				    sizeof(*size));

	if (!size || l->n_members == UINT32_MAX)
		return weir__fail(-ENOMEM, "%s: no memory for %zu members",
				  l->buft->desc.name, l->n_members);
	l->size = size;
	size[l->n_members++] = 0;
	l->begin += l->end;
	l->end = 0;
	return 0;
}

/* A place in a new member, if the last one would become too large. */
static int place_in_new(struct linear *l, const struct weir_tensor *t,
			uint64_t need, uint64_t *ret_at)
{
	const struct weir_backend_buft *desc = &l->buft->desc;
	uint64_t at = weir__up(l->end, desc->align), end;
	int r;

	if (need > desc->max)
		return weir__fail(
			-EINVAL,
			"%s: %llu bytes, the largest buffer of %s has %zu",
			weir__tensor_label(t), (ull)need, desc->name,
			desc->max);
	if (weir__add_over(at, need, &end) ||
	    end > (uint64_t)INT64_MAX - l->begin)
		return weir__fail(-EOVERFLOW,
				  "%s: the tensors are over 2^63 - 1 bytes",
				  weir__tensor_label(t));
	if (!l->n_members || end > desc->max) {
		r = linear_open(l);
		if (r < 0)
			return r;
		at = 0;
		end = need;
	}
	l->end = l->size[l->n_members - 1] = end;
	*ret_at = l->begin + at;
	return 0;
}

/* A place in the given buffer, at an aligned address. */
static int place_in_given(struct linear *l, const struct weir_tensor *t,
			  uint64_t need, uint64_t *ret_at)
{
	struct weir_buf *buf = l->given;

	for (;;) {
		struct weir_buf *m = buf->member ? buf->member[l->member] : buf;
		uint64_t base = (uintptr_t)m->mem.base;
		uint64_t at =
			need ? weir__up(base + l->end, l->buft->desc.align) -
					base
			     : l->end;

		if (at <= m->bytes && need <= m->bytes - at) {
			l->end = at + need;
			*ret_at = l->begin + at;
			return 0;
		}
		if (!buf->member || l->member + 1 == buf->n_members)
			return weir__fail(
				-ENOSPC,
				"%s: %llu bytes from byte %llu on, the buffer has %zu",
				weir__tensor_label(t), (ull)need,
				(ull)(l->begin + at), buf->bytes);
		l->begin = buf->member_at[++l->member];
		l->end = 0;
	}
}

static int linear_place(struct linear *l, const struct weir_tensor *t,
			uint64_t *ret_at)
{
	uint64_t need;
	int r = weir__buft_need(l->buft, t, &need);

	if (r < 0)
		return r;
	l->n_tensors++;
	return l->given ? place_in_given(l, t, need, ret_at)
			: place_in_new(l, t, need, ret_at);
}

/* Check all, and set the place of each that needs one; @at may be NULL. */
static int linear_run(struct linear *l, const struct weir_tensor *t, size_t n,
		      uint64_t *at)
{
	uint64_t place = 0;
	int r = weir__views_check(t, n);

	for (size_t i = 0; i < n && r >= 0; i++) {
		if (t[i].buf || t[i].of)
			continue;
		r = linear_place(l, &t[i], &place);
		if (at)
			at[i] = place;
	}
	return r;
}

static void place_all(struct weir_tensor *t, size_t n, struct weir_buf *buf,
		      const uint64_t *at)
{
	for (size_t i = 0; i < n; i++)
		if (!t[i].buf && !t[i].of) {
			t[i].buf = buf;
			t[i].offset = at[i];
		}
	weir__views_place(t, n);
}

int weir__members_alloc(struct weir_buft *buft, const uint64_t *sizes, size_t n,
			struct weir_buf **ret_buf)
{
	struct weir_buf_opts o = WEIR_BUF_OPTS_INIT;
	struct weir_buf **buf;
	size_t done = 0;
	int r = 0;

	if (n < 2)
		return weir__buf_alloc(buft, n ? sizes[0] : 0, &o, ret_buf);
	buf = weir__calloc(n, sizeof(struct weir_buf *));
	if (!buf)
		return weir__fail(-ENOMEM, "%s: no memory for %zu buffers",
				  buft->desc.name, n);
	for (; done < n && !r; done += !r)
		r = weir__buf_alloc(buft, sizes[done], &o, &buf[done]);
	if (!r)
		r = weir__buf_join(buf, (unsigned)n, ret_buf);
	/* The joined buffer references its members. */
	while (done--)
		weir__buf_put(buf[done]);
	weir__free(buf);
	return r;
}

static uint64_t *places_alloc(size_t n)
{
	uint64_t *at = weir__malloc((n + !n) * sizeof(*at));

	if (!at)
		weir__fail(-ENOMEM, "no memory for the places of %zu tensors",
			   n);
	return at;
}

int weir_tensors_alloc(struct weir_buft *buft, struct weir_tensor *t, size_t n,
		       struct weir_buf **ret_buf)
{
	struct linear l = { .buft = buft };
	struct weir_buf *buf;
	uint64_t *at;
	int r;

	WEIR__ENTER();
	r = weir__root_enter(buft->dev->weir);
	if (r < 0)
		return r;
	at = places_alloc(n);
	if (!at)
		return -ENOMEM;
	r = linear_run(&l, t, n, at);
	if (r >= 0)
		r = weir__members_alloc(buft, l.size, l.n_members, &buf);
	if (r >= 0) {
		place_all(t, n, buf, at);
		*ret_buf = buf;
	}
	weir__free(l.size);
	weir__free(at);
	return r;
}

int weir_tensors_place(struct weir_buf *buf, uint64_t offset,
		       struct weir_tensor *t, size_t n, uint64_t *ret_end)
{
	struct linear l = { .buft = buf->buft, .given = buf, .end = offset };
	uint64_t *at;
	int r;

	WEIR__ENTER();
	r = weir__root_enter(buf->buft->dev->weir);
	if (r < 0)
		return r;
	if (offset > buf->bytes)
		return weir__fail(-ENOSPC, "byte %llu, the buffer has %zu",
				  (ull)offset, buf->bytes);
	while (buf->member && l.member + 1 < buf->n_members &&
	       buf->member_at[l.member + 1] <= offset)
		l.member++;
	if (buf->member)
		l.begin = buf->member_at[l.member];
	l.end = offset - l.begin;
	at = places_alloc(n);
	if (!at)
		return -ENOMEM;
	r = linear_run(&l, t, n, at);
	if (r >= 0) {
		place_all(t, n, buf, at);
		if (ret_end)
			*ret_end = l.begin + l.end;
	}
	weir__free(at);
	return r;
}

int weir_tensors_measure(struct weir_buft *buft, const struct weir_tensor *t,
			 size_t n, struct weir_tensors_info *ret_info)
{
	struct weir_tensors_info info = { .size = sizeof(info) };
	struct linear l = { .buft = buft };
	int r;

	WEIR__ENTER();
	r = weir__root_enter(buft->dev->weir);
	if (r < 0)
		return r;
	r = linear_run(&l, t, n, NULL);
	if (r >= 0) {
		info.bytes = l.begin + l.end;
		info.tensors = l.n_tensors;
		info.members = (uint32_t)l.n_members;
		r = weir__info_out(ret_info, &info, sizeof(info));
	}
	weir__free(l.size);
	return r;
}
