/* SPDX-License-Identifier: MIT */
/* Fingerprints: equal for equal graphs, and different after each change. */
#include <errno.h>
#include <string.h>

#include <weir.h>

#include "kind.h"
#include "leaf.h"
#include "tap.h"

static struct weir_graph *g;
static struct weir_tensor weight; /* F32 [8, 8], placed */

/* A change of the graph that build() makes. */
enum change {
	NOTHING,
	OPERATION,
	EDGE,
	PARAMETER,
	SHAPE,
	DTYPE,
	OUTPUT,
	OBSERVED,
	ADDRESS,
	STRIDE,
	OFFSET,
	OPTIONAL,
	ONE_MORE,
	LATE_SOURCE,
	CHANGES
};

static const char *const title[] = {
	[OPERATION] = "another operation",
	[EDGE] = "another edge",
	[PARAMETER] = "another parameter",
	[SHAPE] = "another shape",
	[DTYPE] = "another dtype",
	[OUTPUT] = "another output",
	[OBSERVED] = "an observed node",
	[ADDRESS] = "another address of a leaf",
	[STRIDE] = "other strides of a view",
	[OFFSET] = "another offset of a view",
	[OPTIONAL] = "an optional source",
	[ONE_MORE] = "one more node",
	[LATE_SOURCE] = "another sixth source of a call",
};

static int nothing(void *arg, const struct weir_operand *dst,
		   const struct weir_operand *src, unsigned n, unsigned part,
		   unsigned parts)
{
	(void)arg, (void)dst, (void)src, (void)n, (void)part, (void)parts;
	return 0;
}

static struct weir_node *call_six(struct weir_node *a, struct weir_node *last)
{
	struct weir_op_call p = { .fn = nothing, .dtype = WEIR_DTYPE_F32 };
	struct weir_node *src[6] = { a, a, a, a, a, last };

	return weir_call(g, &p, src, 6);
}

static void build(enum change c)
{
	const int64_t dims[] = { c == SHAPE ? 3 : 4, 8 };
	const int64_t stride[] = { c == STRIDE ? 36 : 32, 4 };
	struct weir_tensor t = weight;
	struct weir_node *w, *x, *y, *z, *mask;

	weir_graph_reset(g);
	t.offset += c == ADDRESS ? 4 : 0;
	w = weir_graph_leaf(g, &t, NULL);
	x = weir_graph_input(
		g, "x", c == DTYPE ? WEIR_DTYPE_BF16 : WEIR_DTYPE_F32, 2, dims);
	mask = weir_graph_input(g, "mask", WEIR_DTYPE_F32, 2,
				(int64_t[]){ 4, 8 });
	y = weir_mul_mat(g, w, x);
	z = c == OPERATION ? weir_mul(g, y, y) : weir_add(g, y, y);
	z = weir_rms_norm(g, c == EDGE ? y : z, c == PARAMETER ? 2 : 1);
	z = weir_soft_max(g, z, c == OPTIONAL ? mask : NULL, 1, 0);
	weir_view(g, w, 2, (int64_t[]){ 2, 8 }, stride, c == OFFSET ? 4 : 0);
	call_six(w, c == LATE_SOURCE ? z : w);
	weir_graph_output(g, c == OUTPUT ? y : z);
	if (c == OBSERVED)
		weir_graph_observe(g, z);
	if (c == ONE_MORE)
		weir_sqr(g, z);
}

static void fingerprint(uint64_t ret[2])
{
	if (weir_graph_fingerprint(g, ret) < 0)
		bail("%s", weir_error());
}

static bool equal(const uint64_t a[2], const uint64_t b[2])
{
	return !memcmp(a, b, 2 * sizeof(*a));
}

static void changes(void)
{
	uint64_t one[2], two[2];
	struct weir_graph *first = g;

	build(NOTHING);
	fingerprint(one);
	for (enum change c = OPERATION; c < CHANGES; c++) {
		build(c);
		fingerprint(two);
		ok(!equal(one, two), "%s changes the fingerprint", title[c]);
		ok(one[0] != two[0] && one[1] != two[1],
		   "%s changes both halves", title[c]);
	}
	build(NOTHING);
	fingerprint(two);
	ok(equal(one, two), "the same graph has the same fingerprint again");
	g = graph_new();
	build(NOTHING);
	fingerprint(two);
	ok(equal(one, two), "another object with the same graph has it too");
	weir_graph_free(g);
	g = first;
}

/* d is the last node that reads k, or that reads a: sizes and counts agree. */
static void build_d1(bool reads_a)
{
	struct weir_node *x, *k, *a, *b;

	weir_graph_reset(g);
	x = F32(g, 1, 4);
	k = F32(g, 1, 4);
	a = weir_add(g, x, k);
	b = weir_mul(g, a, k);
	weir_graph_output(g, weir_add(g, b, reads_a ? a : k));
}

static void same_counts(void)
{
	uint64_t one[2], two[2];

	build_d1(false);
	fingerprint(one);
	build_d1(true);
	fingerprint(two);
	ok(!equal(one, two),
	   "d = b + k and d = b + a differ, though numbers and sizes agree");
}

static void not_part(struct weir *weir)
{
	uint64_t one[2], two[2];
	struct weir_event *event;
	struct weir_node *a, *b;

	if (weir_event_new(weir, 0, &event) < 0)
		bail("%s", weir_error());
	weir_graph_reset(g);
	a = weir_graph_leaf(g, &weight, NULL);
	b = weir_sqr(g, a);
	weir_graph_output(g, a);
	weir_graph_output(g, b);
	fingerprint(one);
	weir_node_set_name(b, "b");
	fingerprint(two);
	ok(equal(one, two), "a name does not count");
	weir_graph_reset(g);
	a = weir_graph_leaf(g, &weight, event);
	b = weir_sqr(g, a);
	weir_graph_output(g, b);
	weir_graph_output(g, a);
	weir_graph_output(g, a);
	fingerprint(two);
	ok(equal(one, two),
	   "a leaf's event, the order of marks, and marking twice do not count");
	weir_event_free(event);
}

static void views(void)
{
	uint64_t one[2], two[2];
	struct weir_node *w;

	weir_graph_reset(g);
	w = weir_graph_leaf(g, &weight, NULL);
	weir_transpose(g, w);
	fingerprint(one);
	weir_graph_reset(g);
	w = weir_graph_leaf(g, &weight, NULL);
	weir_view(g, w, 2, (int64_t[]){ 8, 8 }, (int64_t[]){ 4, 32 }, 0);
	fingerprint(two);
	ok(equal(one, two),
	   "equal views are equal, however they were described");
}

/*
 * A call and a repeat, whose shapes have other numbers after their dimensions.
 */
static void made_with(int64_t rest, uint64_t print[2])
{
	struct weir_op_repeat repeat = { .ndim = 2, .shape = { 4, 8 } };
	struct weir_op_call call = { .fn = nothing,
				     .dtype = WEIR_DTYPE_F32,
				     .ndim = 1,
				     .shape = { 8 } };
	struct weir_node *w;

	for (unsigned i = 2; i < WEIR_MAX_DIMS; i++)
		repeat.shape[i] = rest;
	for (unsigned i = 1; i < WEIR_MAX_DIMS; i++)
		call.shape[i] = rest;
	weir_graph_reset(g);
	w = F32(g, 1, 8);
	weir_graph_op(g, WEIR_OP_REPEAT, &repeat, sizeof(repeat), &w, 1);
	weir_call(g, &call, &w, 1);
	fingerprint(print);
}

static void unused_dims(void)
{
	uint64_t one[2], two[2];

	made_with(0, one);
	made_with(77, two);
	ok(equal(one, two),
	   "what parameters have after the dimensions of a shape does not count");
}

/* Parameters with a member that is reserved. */
static void reserved(void)
{
	struct weir_op_repeat repeat = { .ndim = 1,
					 .reserved = 5,
					 .shape = { 8 } };
	struct weir_op_call call = { .fn = nothing,
				     .dtype = WEIR_DTYPE_F32,
				     .reserved = 6 };
	struct weir_node *w;

	weir_graph_reset(g);
	w = F32(g, 1, 8);
	weir_graph_op(g, WEIR_OP_REPEAT, &repeat, sizeof(repeat), &w, 1);
	is_err(weir_graph_error(g, NULL), -EINVAL, "reserved 5 (must be 0)",
	       "a repeat whose reserved parameter is set is refused");
	weir_graph_reset(g);
	w = F32(g, 1, 8);
	weir_call(g, &call, &w, 1);
	is_err(weir_graph_error(g, NULL), -EINVAL, "reserved 6 (must be 0)",
	       "a call whose reserved parameter is set is refused");
	weir_graph_reset(g);
}

int main(void)
{
	struct weir_buf *buf;
	struct weir *weir;

	plan(2 * (CHANGES - 1) + 9);
	if (weir_open(NULL, &weir) < 0 ||
	    weir_buf_alloc(kind_of(weir, "CPU", WEIR_MEM_PLAIN), 4096, NULL,
			   &buf) < 0 ||
	    weir_tensor_init(&weight, WEIR_DTYPE_F32, 2, (int64_t[]){ 8, 8 }) <
		    0 ||
	    weir_tensor_place(&weight, buf, 0) < 0)
		bail("%s", weir_error());
	g = graph_new();
	changes();
	same_counts();
	not_part(weir);
	views();
	unused_dims();
	reserved();
	weir_graph_free(g);
	weir_buf_free(buf);
	weir_close(weir);
	return done_testing();
}
