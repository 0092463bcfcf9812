/* SPDX-License-Identifier: MIT */
/*
 * Sequences of attention: how long they are, the positions to which a token
 * attends, and the pages that have them.
 */
#ifndef WEIR__SEQUENCES_H
#define WEIR__SEQUENCES_H

#include <errno.h>
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/walk.h"

struct weir__sequences {
	int64_t tokens;    /* of each sequence */
	int64_t positions; /* at most */
	int64_t window;    /* 0: none */
	int64_t page;      /* positions of a page */
	bool causal;
	const struct weir_operand *lengths, *pages; /* or NULL */
};

/* Positions [from, to). */
struct weir__attended {
	int64_t from, to;
};

/* Source @i; NULL: it was left out. */
static inline const struct weir_operand *
weir__optional(const struct weir_backend_node *node, uint32_t i)
{
	return i < node->n_src && node->src[i].ndim ? &node->src[i] : NULL;
}

/* Set @ret for a node of attention. */
static inline void weir__sequences_of(const struct weir_backend_node *node,
				      struct weir__sequences *ret)
{
	const struct weir_op_attention *p = node->params;

	ret->tokens = weir__dim(&node->src[0], 1);
	ret->positions = weir__dim(&node->src[1], 1);
	ret->window = p->window;
	ret->page = p->page;
	ret->causal = p->causal;
	ret->lengths = weir__optional(node, 5);
	ret->pages = weir__optional(node, 6);
	if (ret->pages)
		ret->positions = weir__dim(ret->pages, 0) * ret->page;
}

static inline int32_t weir__i32_at(const struct weir_operand *t, int64_t at)
{
	int32_t i;

	memcpy(&i, (unsigned char *)t->data + at, sizeof(i));
	return i;
}

static inline int64_t weir__length_of(const struct weir__sequences *s,
				      int64_t sequence)
{
	return s->lengths ? weir__i32_at(s->lengths,
					 sequence * (int64_t)sizeof(int32_t))
			  : s->positions;
}

/* Page @i of a sequence. */
static inline int64_t weir__page_of(const struct weir__sequences *s,
				    int64_t sequence, int64_t i)
{
	return weir__i32_at(s->pages, sequence * weir__stride(s->pages, 1) +
					      i * weir__stride(s->pages, 0));
}

/*
 * The positions to which any of the tokens [@token, @end) attends. The last
 * token of the node has the last position of its sequence.
 */
static inline struct weir__attended
weir__attended_by(const struct weir__sequences *s, int64_t sequence,
		  int64_t token, int64_t end)
{
	struct weir__attended r = { 0, weir__length_of(s, sequence) };
	int64_t first = r.to - s->tokens + token;

	if (s->window && first - s->window + 1 > 0)
		r.from = first - s->window + 1;
	if (s->causal)
		r.to -= s->tokens - end;
	if (r.to < r.from)
		r.to = r.from;
	return r;
}

/* -EINVAL: the length of a sequence, or a page, is out of range. */
static inline int weir__sequence_check(const struct weir__kernel_run *run,
				       const struct weir__sequences *s,
				       int64_t sequence)
{
	int64_t length = weir__length_of(s, sequence), pages;
	struct weir__attended r;

	if (length < 0 || length > s->positions)
		return weir__kernel_fail(
			run, -EINVAL,
			"length %lld of sequence %lld is not 0 to %lld",
			(long long)length, (long long)sequence,
			(long long)s->positions);
	if (!s->pages)
		return 0;
	r = weir__attended_by(s, sequence, 0, s->tokens);
	pages = weir__dim(&run->node->src[1], 1) / s->page;
	for (int64_t i = r.from / s->page; i * s->page < r.to; i++) {
		int64_t page = weir__page_of(s, sequence, i);

		if (page < 0 || page >= pages)
			return weir__kernel_fail(
				run, -EINVAL,
				"page %lld at %lld of sequence %lld is not one of %lld pages",
				(long long)page, (long long)i,
				(long long)sequence, (long long)pages);
	}
	return 0;
}

#endif
