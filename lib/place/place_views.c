/* SPDX-License-Identifier: MIT */
/* Views in a list of tensors, which get the places of their sources. */
#include "core/error.h"
#include "core/sys.h"
#include "mem/tensor.h"
#include "place/tensors.h"

typedef unsigned long long ull;

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
