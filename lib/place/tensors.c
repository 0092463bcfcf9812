/* SPDX-License-Identifier: MIT */
/* weir_tensors_alloc(): many tensors in one buffer, joined if need be. */
#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"
#include "dev/dev.h"
#include "mem/buf.h"
#include "mem/tensor.h"

/* Offsets of tensors in the members of a joined buffer, one after another. */
struct layout {
	const struct weir__buft_desc *desc;
	size_t n;      /* members so far */
	uint64_t end;  /* bytes used of the last one */
	uint64_t done; /* bytes of the others */
};

/* Place @need bytes, in a new member if the last would become too large. */
static int lay_out(struct layout *l, const struct weir_tensor *t, uint64_t need,
		   uint64_t *ret_at)
{
	uint64_t at = weir__up(l->end, l->desc->align), end;

	if (need > l->desc->max)
		return weir__fail(
			-EINVAL,
			"%s: %llu bytes, the largest buffer of %s has %zu",
			weir__tensor_label(t), (unsigned long long)need,
			l->desc->name, l->desc->max);
	if (weir__add_over(at, need, &end) || end > INT64_MAX)
		return weir__fail(-EOVERFLOW,
				  "%s: the tensors are over 2^63 - 1 bytes",
				  weir__tensor_label(t));
	if (!l->n || end > l->desc->max) {
		l->n++;
		l->done += l->end;
		at = 0;
		end = need;
	}
	l->end = end;
	*ret_at = at;
	return 0;
}

/* The number of members and, unless @sizes is NULL, the size of each. */
static int measure_members(struct weir_buft *buft, const struct weir_tensor *t,
			   size_t n, uint64_t *sizes, size_t *ret_n)
{
	struct layout l = { .desc = &buft->desc };
	uint64_t need, at;
	int r;

	for (size_t i = 0; i < n; i++) {
		if (t[i].buf)
			continue;
		if ((r = weir__buft_need(buft, &t[i], &need)) < 0 ||
		    (r = lay_out(&l, &t[i], need, &at)) < 0)
			return r;
		if (sizes)
			sizes[l.n - 1] = l.end;
	}
	*ret_n = l.n;
	return 0;
}

static int alloc_members(struct weir_buft *buft, const uint64_t *sizes,
			 struct weir_buf **bufs, size_t n,
			 struct weir_buf **ret_buf)
{
	size_t done = 0;
	int r = 0;

	for (; done < n && !r; done += !r)
		r = weir__buf_alloc(buft, sizes[done], NULL, &bufs[done]);
	if (!r && n == 1) {
		*ret_buf = bufs[0];
		return 0;
	}
	if (!r)
		r = weir__buf_join(bufs, (unsigned)n, ret_buf);
	/* The joined buffer references its members. */
	while (done--)
		weir_buf_free(bufs[done]);
	return r;
}

/* measure_members() has checked everything. */
static void place_all(struct weir_buft *buft, struct weir_tensor *t, size_t n,
		      struct weir_buf *buf)
{
	struct layout l = { .desc = &buft->desc };
	uint64_t need = 0, at = 0;

	for (size_t i = 0; i < n; i++) {
		if (t[i].buf)
			continue;
		weir__buft_need(buft, &t[i], &need);
		lay_out(&l, &t[i], need, &at);
		t[i].buf = buf;
		t[i].offset = l.done + at;
	}
}

static int alloc_all(struct weir_buft *buft, const struct weir_tensor *t,
		     size_t n, size_t n_members, struct weir_buf **ret_buf)
{
	struct weir_buf **bufs =
		weir__calloc(n_members, sizeof(struct weir_buf *));
	uint64_t *sizes = weir__calloc(n_members, sizeof(*sizes));
	int r;

	if (bufs && sizes) {
		r = measure_members(buft, t, n, sizes, &n_members);
		if (!r)
			r = alloc_members(buft, sizes, bufs, n_members,
					  ret_buf);
	} else {
		r = weir__fail(-ENOMEM,
			       "%s: no memory for %zu buffers of %zu tensors",
			       buft->desc.name, n_members, n);
	}
	weir__free(bufs);
	weir__free(sizes);
	return r;
}

int weir_tensors_alloc(struct weir_buft *buft, struct weir_tensor *t, size_t n,
		       struct weir_buf **ret_buf)
{
	struct weir_buf *buf;
	size_t n_members;
	int r;

	WEIR__ENTER();
	r = weir__root_enter(buft->dev->weir);
	if (r < 0 || (r = measure_members(buft, t, n, NULL, &n_members)) < 0)
		return r;
	if (n_members > UINT32_MAX)
		return weir__fail(-EOVERFLOW, "%zu buffers", n_members);
	if (n_members)
		r = alloc_all(buft, t, n, n_members, &buf);
	else
		r = weir__buf_alloc(buft, 0, NULL, &buf);
	if (r < 0)
		return r;
	place_all(buft, t, n, buf);
	*ret_buf = buf;
	return 0;
}
