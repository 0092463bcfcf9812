/* SPDX-License-Identifier: MIT */
/*
 * Do two tensors have a byte in common? Dimensions of both are terms of one sum:
 * the distance of a row of one from a row of the other. Overlap is a sum in a
 * range of the width of the two rows. Terms of one stride are added, and the
 * longest stride is tried first, so that of most tensors few sums are looked at.
 */
#include "graph/overlap.h"

#include "core/error.h"
#include "graph/graph.h"
#include "graph/ops.h"
#include "mem/buf.h"
#include "mem/tensor.h"

#define TERMS (2 * WEIR_MAX_DIMS)
#define STEPS 4096u             /* of the search, at most */
#define EXTENT (INT64_MAX / 16) /* over it no sum is taken */

/* @step times any number from @lo to @hi. */
struct term {
	int64_t step, lo, hi;
};

struct search {
	struct term term[TERMS]; /* the longest step first */
	unsigned n;
	unsigned steps; /* so far */
	/* Sums of the terms from each on. */
	int64_t least[TERMS + 1], most[TERMS + 1];
};

static void term_add(struct search *s, int64_t step, int64_t lo, int64_t hi)
{
	unsigned i = 0;

	while (i < s->n && s->term[i].step > step)
		i++;
	if (i == s->n || s->term[i].step != step) {
		for (unsigned k = s->n++; k > i; k--)
			s->term[k] = s->term[k - 1];
		s->term[i] = (struct term){ .step = step };
	}
	s->term[i].lo += lo;
	s->term[i].hi += hi;
}

/* The rows of @t, of *@ret_row bytes. @sign: 1 or -1. */
static void terms_of(struct search *s, const struct weir_tensor *t, int sign,
		     int64_t *ret_row)
{
	size_t row;
	unsigned outer = weir__tensor_outer(t, &row);

	*ret_row = (int64_t)row;
	for (unsigned i = 0; i < outer; i++) {
		int64_t last = (int64_t)weir__tensor_steps(t, i) - 1;

		if (!last || !t->stride[i])
			continue;
		if (sign > 0)
			term_add(s, t->stride[i], 0, last);
		else
			term_add(s, t->stride[i], -last, 0);
	}
}

static void search_sum(struct search *s)
{
	s->least[s->n] = s->most[s->n] = 0;
	for (unsigned i = s->n; i-- > 0;) {
		const struct term *t = &s->term[i];

		s->least[i] = s->least[i + 1] + t->step * t->lo;
		s->most[i] = s->most[i + 1] + t->step * t->hi;
	}
}

static int64_t divide_down(int64_t a, int64_t b)
{
	return a / b - (a % b < 0);
}

/* Is a sum of the terms from @i on in [@lo, @hi], or are the steps used up? */
static bool search_hits(struct search *s, unsigned i, int64_t lo, int64_t hi)
{
	const struct term *t = &s->term[i];
	int64_t from, to;

	if (++s->steps > STEPS)
		return true;
	if (lo > s->most[i] || hi < s->least[i])
		return false;
	if (i == s->n)
		return true;
	from = -divide_down(s->most[i + 1] - lo, t->step);
	to = divide_down(hi - s->least[i + 1], t->step);
	from = from > t->lo ? from : t->lo;
	to = to < t->hi ? to : t->hi;
	for (; from <= to; from++)
		if (search_hits(s, i + 1, lo - from * t->step,
				hi - from * t->step))
			return true;
	return false;
}

bool weir__overlap(const struct weir_tensor *a, uint64_t at_a,
		   const struct weir_tensor *b, uint64_t at_b)
{
	struct search s = { .n = 0 };
	uint64_t bytes_a, bytes_b;
	int64_t row_a, row_b, apart = (int64_t)(at_b - at_a);

	if (weir__tensor_bytes(a, &bytes_a) < 0 ||
	    weir__tensor_bytes(b, &bytes_b) < 0 || !bytes_a || !bytes_b)
		return false;
	if (at_a >= at_b ? at_a - at_b >= bytes_b : at_b - at_a >= bytes_a)
		return false;
	if (bytes_a > EXTENT || bytes_b > EXTENT)
		return true;
	terms_of(&s, a, 1, &row_a);
	terms_of(&s, b, -1, &row_b);
	search_sum(&s);
	return search_hits(&s, 0, apart - row_a + 1, apart + row_b - 1);
}

/*
 * Where the node begins: a space and an address in it. The bytes of a leaf that is
 * not placed, and of a result, are those of their node.
 */
static bool begins_at(const struct weir_node *node, uint64_t *ret_space,
		      uint64_t *ret_at)
{
	const struct weir_node *in = node->storage;
	struct weir_buf *member;
	uint64_t bytes, at;

	if (in->op != WEIR_OP_LEAF || !in->t.buf ||
	    weir__tensor_bytes(&in->t, &bytes) < 0 ||
	    weir__buf_range(in->t.buf, in->t.offset, bytes, &member, &at) < 0)
		return false;
	*ret_space = weir__buf_space(member);
	*ret_at = (uintptr_t)member->mem.base + at + node->t.offset -
		  in->t.offset;
	return true;
}

static bool nodes_overlap(const struct weir_node *a, const struct weir_node *b)
{
	uint64_t space_a, space_b, at_a, at_b;

	if (a->storage == b->storage)
		return weir__overlap(&a->t, a->t.offset, &b->t, b->t.offset);
	return begins_at(a, &space_a, &at_a) && begins_at(b, &space_b, &at_b) &&
	       space_a == space_b && weir__overlap(&a->t, at_a, &b->t, at_b);
}

int weir__check_overlap(const struct weir__made *m)
{
	const struct weir_node *dst = m->src[m->row->target];

	for (uint32_t i = 0; i < m->n_src; i++)
		if (i != m->row->target && m->src[i] &&
		    nodes_overlap(m->src[i], dst))
			return weir__op_refuse(m, "%s and dst overlap",
					       m->row->arg[i].name);
	return 0;
}
