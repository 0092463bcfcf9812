/* SPDX-License-Identifier: MIT */
/*
 * The first pass: what is computed, who shares bytes, last uses, and the order
 * of accesses; on small graphs, and on random ones against plain loops.
 */
#include <stdlib.h>
#include <string.h>

#include <weir.h>

#include "graph/compile/reach.h"
#include "leaf.h"
#include "tap.h"

#define NONE WEIR__REACH_NONE

static struct weir_graph *g;
static struct weir__reach_in in;
static struct weir__reach out;

static void reach(void)
{
	if (weir_graph_error(g, NULL) < 0 || weir__reach_graph(g, &in) < 0 ||
	    weir__reach(&in, &out) < 0)
		bail("%s", weir_error());
}

static void done(void)
{
	weir__reach_in_free(&in);
	weir__reach_free(&out);
	weir_graph_reset(g);
}

static uint32_t index_of(const struct weir_node *node)
{
	struct weir_node_info info = { .size = sizeof(info) };

	weir_node_info(node, &info);
	return (uint32_t)info.index;
}

/* True if @b must wait for @a, by any number of steps. */
static bool waits(const struct weir__reach *r, uint32_t b, uint32_t a)
{
	for (uint32_t e = r->before_at[b]; e < r->before_at[b + 1]; e++)
		if (r->before[e] == a ||
		    (r->before[e] > a && waits(r, r->before[e], a)))
			return true;
	return false;
}

static bool ordered(const struct weir_node *a, const struct weir_node *b)
{
	return waits(&out, index_of(b), index_of(a));
}

static bool needed(const struct weir_node *node)
{
	return out.needed[index_of(node)];
}

static void what_is_needed(void)
{
	struct weir_node *a = F32(g, 2, 4, 4), *b = weir_sqr(g, a);
	struct weir_node *unused = weir_silu(g, b), *c = weir_gelu(g, b);
	struct weir_node *ids = leaf(g, "ids", WEIR_DTYPE_I32, 1, 4);
	struct weir_node *write = weir_set_rows(g, a, b, ids);
	struct weir_node *seen = weir_sqr(g, c);

	weir_graph_observe(g, seen);
	reach();
	ok(needed(write) && needed(ids),
	   "a write is computed, and its sources");
	ok(needed(seen) && needed(c) && needed(b),
	   "an observed node is computed, and what it needs");
	ok(!needed(unused), "a node that nothing needs is not computed");
	done();
}

static void last_uses(void)
{
	struct weir_node *a = F32(g, 2, 4, 4), *b = weir_sqr(g, a);
	struct weir_node *view = weir_transpose(g, b), *c = weir_silu(g, view);
	struct weir_node *again = weir_transpose(g, view);
	struct weir_node *d = weir_add(g, c, weir_sqr(g, again));
	struct weir_node *late = weir_gelu(g, b);

	weir_graph_output(g, weir_transpose(g, d));
	reach();
	is_int(out.alias[index_of(again)], index_of(b),
	       "views of views are in the class of what they view");
	is_int(out.last[index_of(b)], index_of(again) + 1,
	       "a use of a view is a use of what it views");
	is_int(out.last[index_of(c)], index_of(d),
	       "the last use of a result is the node that reads it");
	is_int(out.last[index_of(d)], NONE,
	       "what an output is a view of is kept to the end");
	ok(!needed(late), "a use that is not computed does not count");
	done();
}

static struct weir_node *cache(unsigned rows)
{
	return leaf(g, "cache", WEIR_DTYPE_F32, 2, (int)rows, 4);
}

static void writes_ordered(void)
{
	struct weir_node *k = cache(8), *x = F32(g, 2, 2, 4);
	struct weir_node *ids = leaf(g, "ids", WEIR_DTYPE_I32, 1, 2);
	struct weir_node *early = weir_sqr(g, weir_slice(g, k, 0, 1, 2));
	struct weir_node *first = weir_set_rows(g, k, x, ids);
	struct weir_node *read = weir_sqr(g, weir_slice(g, k, 0, 0, 4));
	struct weir_node *second = weir_copy(
		g, x, weir_slice(g, weir_slice(g, k, 0, 2, 4), 0, 0, 2));
	struct weir_node *by_result = weir_sqr(g, first);

	struct weir_node *also = weir_silu(g, k);

	weir_graph_output(g, early);
	weir_graph_output(g, also);
	weir_graph_output(g, read);
	weir_graph_output(g, by_result);
	reach();
	ok(ordered(early, first), "a write comes after earlier reads");
	ok(ordered(first, read), "a read comes after the last write");
	ok(ordered(first, second), "a write comes after the last write");
	ok(ordered(read, second),
	   "a write through a view comes after reads through another");
	ok(ordered(second, by_result),
	   "a read of a write's result comes after later writes too");
	ok(!ordered(by_result, also), "two reads have no order");
	done();
}

static void writes_apart(void)
{
	struct weir_node *k = cache(8), *x = F32(g, 2, 4, 4);
	struct weir_node *low = weir_copy(g, x, weir_slice(g, k, 0, 0, 4));
	struct weir_node *high = weir_copy(g, x, weir_slice(g, k, 0, 4, 4));
	struct weir_node *other = weir_copy(g, x, cache(4));

	reach();
	ok(!ordered(low, high), "writes to different rows have no order");
	ok(!ordered(low, other), "writes to different leaves have no order");
	is_int(out.before_at[out.n], 0, "nothing waits for another");
	done();
}

static void placed(void)
{
	struct weir_tensor t;
	struct weir_dev *dev;
	struct weir_buft *buft;
	struct weir_buf *buf;
	struct weir *weir;
	struct weir_node *a, *b, *x;

	if (weir_open(NULL, &weir) < 0 ||
	    weir_dev_find(weir, "CPU", &dev) < 0 ||
	    weir_dev_buft(dev, WEIR_MEM_PLAIN, &buft) < 0 ||
	    weir_tensor_init(&t, WEIR_DTYPE_F32, 1, (int64_t[]){ 8 }) < 0 ||
	    weir_buf_alloc(buft, 64, NULL, &buf) < 0 ||
	    weir_tensor_place(&t, buf, 0) < 0)
		bail("%s", weir_error());
	x = F32(g, 1, 8);
	a = weir_copy(g, x, weir_graph_leaf(g, &t, NULL));
	t.offset = 28;
	b = weir_sqr(g, weir_graph_leaf(g, &t, NULL));
	weir_graph_output(g, b);
	reach();
	ok(ordered(a, b), "leaves that overlap in memory are ordered");
	done();
	x = F32(g, 1, 8);
	t.offset = 0;
	a = weir_copy(g, x, weir_graph_leaf(g, &t, NULL));
	t.offset = 32;
	b = weir_sqr(g, weir_graph_leaf(g, &t, NULL));
	weir_graph_output(g, b);
	reach();
	ok(!ordered(a, b), "leaves beside each other are not");
	done();
	weir_buf_free(buf);
	weir_close(weir);
}

/* Random graphs, and the same answers by plain loops. */

#define MOST 40u

static struct random {
	uint32_t src_at[MOST + 1], src[3 * MOST], of[MOST], writes[MOST];
	uint8_t flags[MOST];
	struct weir__span span[MOST];
	struct weir__reach_in in;
} rnd;

static uint32_t seed = 1;

static uint32_t upto(uint32_t n)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 8) % n;
}

static struct weir__span part_of(struct weir__span s)
{
	uint32_t bytes = (uint32_t)(s.hi - s.lo), from;

	if (!bytes)
		return s;
	from = upto(bytes);
	s.hi = s.lo + from + upto(bytes - from + 1);
	s.lo += from;
	return s;
}

/* The leaf that node @i is stored in, or NONE. */
static uint32_t leaf_of(uint32_t i)
{
	while (rnd.of[i] != i)
		i = rnd.of[i];
	return rnd.span[i].lo < rnd.span[i].hi ? i : NONE;
}

static void random_node(uint32_t i)
{
	uint32_t from = rnd.src_at[i], n = 1 + upto(3), kind = upto(8);

	rnd.of[i] = i;
	rnd.writes[i] = NONE;
	rnd.flags[i] = 0;
	rnd.span[i] = (struct weir__span){ 0, 0 };
	if (!i || kind == 0) {
		uint64_t lo = 1 + upto(64);

		rnd.span[i] = (struct weir__span){ lo, lo + 1 + upto(12) };
		rnd.flags[i] = WEIR__REACH_NO_WORK;
		rnd.src_at[i + 1] = from;
		return;
	}
	for (uint32_t s = 0; s < n; s++)
		rnd.src[from + s] = upto(10) ? upto(i) : NONE;
	if (kind < 3 && rnd.src[from] != NONE) {
		rnd.of[i] = rnd.src[from];
		rnd.span[i] = part_of(rnd.span[rnd.of[i]]);
		rnd.flags[i] = WEIR__REACH_NO_WORK;
		n = 1;
	} else if (kind == 3 && rnd.src[from + n - 1] != NONE &&
		   leaf_of(rnd.src[from + n - 1]) != NONE) {
		rnd.writes[i] = n - 1;
		rnd.of[i] = rnd.src[from + n - 1];
		rnd.span[i] = rnd.span[rnd.of[i]];
		rnd.flags[i] = WEIR__REACH_ROOT;
	}
	if (!upto(12))
		rnd.flags[i] |= WEIR__REACH_ROOT |
				(upto(2) ? WEIR__REACH_KEEP : 0);
	rnd.src_at[i + 1] = from + n;
}

static void random_graph(void)
{
	uint32_t n = 1 + upto(MOST);

	rnd.src_at[0] = 0;
	for (uint32_t i = 0; i < n; i++)
		random_node(i);
	rnd.in = (struct weir__reach_in){ .n = n,
					  .src_at = rnd.src_at,
					  .src = rnd.src,
					  .flags = rnd.flags,
					  .of = rnd.of,
					  .writes = rnd.writes,
					  .span = rnd.span };
}

static bool uses(uint32_t i, uint32_t of)
{
	for (uint32_t s = rnd.src_at[i]; s < rnd.src_at[i + 1]; s++)
		if (rnd.src[s] == of)
			return true;
	return false;
}

static bool is_needed(uint32_t i)
{
	if (rnd.flags[i] & WEIR__REACH_ROOT)
		return true;
	for (uint32_t j = i + 1; j < rnd.in.n; j++)
		if (uses(j, i) && out.needed[j])
			return true;
	return false;
}

static uint32_t class_of(uint32_t i)
{
	while (rnd.of[i] != i)
		i = rnd.of[i];
	return i;
}

static bool runs(uint32_t i)
{
	return out.needed[i] && !(rnd.flags[i] & WEIR__REACH_NO_WORK);
}

static uint32_t last_of(uint32_t class)
{
	uint32_t last = class;

	for (uint32_t i = 0; i < rnd.in.n; i++) {
		if (class_of(i) == class && rnd.flags[i] & WEIR__REACH_KEEP)
			return NONE;
		if (class_of(i) == class && runs(i))
			last = i > last ? i : last;
		for (uint32_t j = i + 1; j < rnd.in.n; j++)
			if (class_of(i) == class && runs(j) && uses(j, i))
				last = j > last ? j : last;
	}
	return last;
}

/*
 * True if nodes @i and @j access the same byte; with @write, one of them has to
 * write it.
 */
static bool meet(uint32_t i, uint32_t j, bool write)
{
	for (uint32_t a = rnd.src_at[i]; a < rnd.src_at[i + 1]; a++)
		for (uint32_t b = rnd.src_at[j]; b < rnd.src_at[j + 1]; b++) {
			bool writes = a - rnd.src_at[i] == rnd.writes[i] ||
				      b - rnd.src_at[j] == rnd.writes[j];
			const struct weir__span *x, *y;

			if (rnd.src[a] == NONE || rnd.src[b] == NONE)
				continue;
			x = &rnd.span[rnd.src[a]];
			y = &rnd.span[rnd.src[b]];
			if (x->lo < x->hi && y->lo < y->hi && x->lo < y->hi &&
			    y->lo < x->hi && (writes || !write))
				return true;
		}
	return false;
}

/* Nodes whose accesses are connected, directly or through others'. */
static void connect(bool together[MOST][MOST])
{
	memset(together, 0, MOST * sizeof(*together));
	for (uint32_t i = 0; i < rnd.in.n; i++)
		for (uint32_t j = 0; j < rnd.in.n; j++)
			together[i][j] = runs(i) && runs(j) &&
					 meet(i, j, false);
	for (uint32_t k = 0; k < rnd.in.n; k++)
		for (uint32_t i = 0; i < rnd.in.n; i++)
			for (uint32_t j = 0; j < rnd.in.n; j++)
				together[i][j] |= together[i][k] &&
						  together[k][j];
}

static unsigned wrong_edges(void)
{
	bool together[MOST][MOST];
	unsigned wrong = 0;

	connect(together);
	for (uint32_t i = 0; i < rnd.in.n; i++)
		for (uint32_t e = out.before_at[i]; e < out.before_at[i + 1];
		     e++)
			wrong += out.before[e] >= i || !runs(i) ||
				 !together[i][out.before[e]];
	return wrong + (out.before_at[rnd.in.n] > 2 * rnd.src_at[rnd.in.n]);
}

static unsigned missing_edges(void)
{
	unsigned missing = 0;

	for (uint32_t i = 0; i < rnd.in.n; i++)
		for (uint32_t j = i + 1; j < rnd.in.n; j++)
			missing += runs(i) && runs(j) && meet(i, j, true) &&
				   !waits(&out, j, i);
	return missing;
}

static void random_graphs(unsigned times)
{
	unsigned wrong_needed = 0, wrong_alias = 0, wrong_last = 0;
	unsigned wrong = 0, missing = 0, edges = 0;

	while (times--) {
		random_graph();
		if (weir__reach(&rnd.in, &out) < 0)
			bail("%s", weir_error());
		for (uint32_t i = 0; i < rnd.in.n; i++) {
			wrong_needed += out.needed[i] != is_needed(i);
			wrong_alias += out.alias[i] != class_of(i);
			wrong_last += out.last[i] != last_of(class_of(i));
		}
		wrong += wrong_edges();
		missing += missing_edges();
		edges += out.before_at[rnd.in.n];
		weir__reach_free(&out);
	}
	is_int(wrong_needed, 0, "random: the needed nodes are those of a loop");
	is_int(wrong_alias, 0, "random: the classes are those of a loop");
	is_int(wrong_last, 0, "random: the last uses are those of a loop");
	is_int(missing, 0, "random: all accesses that conflict are ordered");
	is_int(wrong, 0,
	       "random: only connected accesses are, by few enough edges");
	ok(edges > 1000, "random: there were conflicts (%u edges)", edges);
}

/* Many writes apart from each other, then many reads of everything. */
static void many(void)
{
	struct weir_node *k, *x = F32(g, 2, 1, 4);
	unsigned n = 20000;

	k = cache(n);
	for (unsigned i = 0; i < n; i++)
		weir_copy(g, x, weir_slice(g, k, 0, i, 1));
	for (unsigned i = 0; i < n; i++)
		weir_graph_output(g, weir_sum(g, k));
	reach();
	ok(out.before_at[out.n] <= 4 * n,
	   "20,000 writes and 20,000 reads need few edges (%u)",
	   out.before_at[out.n]);
	done();
}

int main(void)
{
	plan(27);
	g = graph_new();
	what_is_needed();
	last_uses();
	writes_ordered();
	writes_apart();
	placed();
	random_graphs(2000);
	many();
	reach();
	is_int(out.before_at[0], 0, "an empty graph has no accesses");
	done();
	weir_graph_free(g);
	return done_testing();
}
