/* SPDX-License-Identifier: MIT */
/* Graphs: nodes and their order, the failure that is kept, reset, marks. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <weir.h>

#include "kind.h"
#include "leaf.h"
#include "tap.h"

static struct weir_graph *g;

static void order(void)
{
	struct weir_node_info info = { .size = sizeof(info) };
	struct weir_node *a = leaf(g, "a", WEIR_DTYPE_F32, 2, 2, 3);
	struct weir_node *b = F32(g, 1, 3), *sum = weir_add(g, a, b);

	is_int(weir_graph_count(g), 3, "a graph counts its nodes");
	ok(weir_graph_node(g, 0) == a && weir_graph_node(g, 2) == sum,
	   "nodes are numbered in the order in which they were made");
	ok(!weir_graph_node(g, 3), "there is no node after the last");
	is_int(weir_node_info(sum, &info), 0, "a node can be described");
	is_str(info.op_name, "add", "the description has the operation's name");
	is_int(info.index, 2, "the description has the number of the node");
	is_int(info.bytes, 60, "an addition reads both and writes the result");
	is_int(info.flops, 6, "an addition of 6 elements has 6 flops");
	ok(weir_node_source(sum, 1) == b && !weir_node_source(sum, 2),
	   "a node has its sources and no more");
	is_int(weir_graph_error(g, NULL), 0, "a sound graph has no error");
}

static void names(void)
{
	char text[] = "first";
	struct weir_node *a = leaf(g, text, WEIR_DTYPE_F32, 1, 4);

	text[0] = 'F';
	is_str(weir_node_tensor(a)->name, "first", "a leaf's name is copied");
	ok(weir_node_set_name(a, text) == a, "naming a node returns it");
	text[0] = 'x';
	is_str(weir_node_tensor(a)->name, "First", "a node's name is copied");
	weir_node_set_name(a, NULL);
	ok(!weir_node_tensor(a)->name, "a name can be removed");
	ok(!weir_node_set_name(NULL, "x"), "no node can be named NULL");
	ok(!weir_node_tensor(NULL), "no node has no tensor");
}

static void inputs(void)
{
	const int64_t shape[] = { 2, 40 };

	is_str(form_of(weir_graph_input(g, "x", WEIR_DTYPE_Q8_0, 0, NULL)),
	       "NULL", "an input of half a block is refused");
	is_err(weir_graph_error(g, NULL), -EINVAL,
	       "weir_graph_input: input 'x': tensor: 1 elements are not",
	       "the refusal of an input names it");
	weir_graph_reset(g);
	is_str(form_of(weir_graph_input(g, "x", WEIR_DTYPE_I32, 2, shape)),
	       "I32 [2, 40]", "an input has its dtype and shape");
}

static void kept(void)
{
	struct weir_failure f;
	struct weir_node *a = leaf(g, "wq", WEIR_DTYPE_F16, 2, 8, 32);
	struct weir_node *x = leaf(g, "x", WEIR_DTYPE_F32, 2, 3, 31);

	ok(!weir_mul_mat(g, a, x), "a builder that fails returns NULL");
	is_err(weir_graph_error(g, &f), -EINVAL,
	       "weir_graph_op: mul_mat: rows of 32 and 31 elements: a 'wq' F16 [8, 32], b 'x' F32 [3, 31]",
	       "the sentence has operation, names, dtypes and shapes");
	weir_graph_clear_error(g);
	is_int(weir_graph_error(g, NULL), 0, "a failure can be forgotten");
	ok(weir_graph_count(g) == 2 && weir_sqr(g, x),
	   "then the graph has its nodes, and makes new ones");
	weir_graph_reset(g);
	a = leaf(g, "wq", WEIR_DTYPE_F16, 2, 8, 32);
	x = leaf(g, "x", WEIR_DTYPE_F32, 2, 3, 31);
	ok(!weir_mul_mat(g, a, x), "and fails again");
	is_int(f.err, -EINVAL, "a failure has its errno");
	is_int(f.number, 2, "a failure has the number of the missing node");
	has_str(f.text, "mul_mat: rows", "a failure has its sentence");
	ok(!weir_add(g, a, NULL) && !weir_graph_leaf(g, NULL, NULL) &&
		   !weir_graph_output(g, a),
	   "after a failure every builder returns NULL");
	is_err(weir_graph_error(g, NULL), -EINVAL, "rows of 32 and 31",
	       "the first failure is kept");
	is_int(weir_graph_count(g), 2, "after a failure no node is added");
	is_int(weir_graph_fingerprint(g, (uint64_t[2]){ 0 }), -EINVAL,
	       "a graph with a failure has no fingerprint");
}

static void missing(void)
{
	struct weir_node *a = F32(g, 2, 2, 2);

	weir_mul_mat(g, a, NULL);
	is_err(weir_graph_error(g, NULL), -EINVAL,
	       "mul_mat: source 1 (b) is NULL",
	       "a missing source is named with its operation");
	weir_graph_reset(g);
	a = F32(g, 2, 2, 2);
	ok(weir_soft_max(g, a, NULL, 1, 0), "an optional source may be NULL");
	weir_graph_op(g, WEIR_OP_ADD, NULL, 0, &a, 1);
	is_err(weir_graph_error(g, NULL), -EINVAL, "add: source 1 (b) is NULL",
	       "a source that is not given at all is missing");
	weir_graph_reset(g);
	a = F32(g, 2, 2, 2);
	weir_graph_op(g, WEIR_OP_SQR, NULL, 0, (struct weir_node *[]){ a, a },
		      2);
	is_err(weir_graph_error(g, NULL), -EINVAL, "sqr: 2 sources, at most 1",
	       "too many sources are refused");
	weir_graph_reset(g);
	weir_graph_op(g, WEIR_OP_SQR, NULL, 0, NULL, 1);
	is_err(weir_graph_error(g, NULL), -EINVAL, "sqr: 1 sources at NULL",
	       "a list of sources that is NULL is refused");
	weir_graph_reset(g);
	weir_graph_output(g, NULL);
	is_err(weir_graph_error(g, NULL), -EINVAL, "the node is NULL",
	       "an output that is NULL is refused");
}

static void unknown(void)
{
	char more[sizeof(struct weir_op_norm) + 4] = { 0 };
	struct weir_node *a = F32(g, 1, 4);

	ok(weir_graph_op(g, WEIR_OP_NORM, more, sizeof(more), &a, 1),
	   "parameters may be longer, if the rest is 0");
	more[sizeof(more) - 1] = 1;
	weir_graph_op(g, WEIR_OP_NORM, more, sizeof(more), &a, 1);
	is_err(weir_graph_error(g, NULL), -E2BIG, "knows 4 of them, but byte 7",
	       "parameters that the library does not know are refused");
	weir_graph_reset(g);
	weir_graph_op(g, (enum weir_op)999, NULL, 0, NULL, 0);
	is_err(weir_graph_error(g, NULL), -EOPNOTSUPP, "operation 999",
	       "an operation that the library does not know is refused");
	weir_graph_reset(g);
	weir_graph_op(g, WEIR_OP_LEAF, NULL, 0, NULL, 0);
	is_err(weir_graph_error(g, NULL), -EINVAL, "weir_graph_leaf makes it",
	       "weir_graph_op makes no leaf");
	weir_graph_reset(g);
	a = F32(g, 3, 1, 1, 4);
	weir_graph_op(g, WEIR_OP_NORM, NULL, 4, &a, 1);
	is_err(weir_graph_error(g, NULL), -EINVAL, "parameters are NULL",
	       "parameters with a size but no address are refused");
}

static void foreign(void)
{
	struct weir_graph *other = graph_new();
	struct weir_node *theirs = F32(other, 1, 4), *old;

	weir_sqr(g, theirs);
	is_err(weir_graph_error(g, NULL), -EINVAL,
	       "sqr: source 0 (a): it is not a node of this graph",
	       "a node of another graph is refused");
	weir_graph_free(other);
	weir_graph_reset(g);
	old = F32(g, 1, 4);
	weir_graph_reset(g);
	weir_sqr(g, old);
	is_err(weir_graph_error(g, NULL), -EINVAL,
	       "from before the last weir_graph_reset",
	       "a node from before a reset is refused");
	weir_graph_reset(g);
	F32(g, 1, 4);
	old = F32(g, 1, 4);
	weir_graph_reset(g);
	F32(g, 1, 4);
	weir_graph_output(g, old);
	is_err(weir_graph_error(g, NULL), -EINVAL, "before the last",
	       "an output from before a reset is refused");
}

/* The address of each of many nodes, the same in every round. */
static uint64_t build_many(unsigned n)
{
	struct weir_node *x = F32(g, 1, 4);
	uint64_t sum = 0;

	for (unsigned i = 0; i < n; i++) {
		x = weir_sqr(g, x);
		sum = sum * 31 + (uintptr_t)x;
	}
	return sum;
}

static void many(void)
{
	uint64_t first = build_many(200000);

	is_int(weir_graph_error(g, NULL), 0, "a graph may have 200,000 nodes");
	is_int(weir_graph_count(g), 200001, "it counts them all");
	weir_graph_reset(g);
	is_int(weir_graph_count(g), 0, "a reset removes all nodes");
	ok(build_many(200000) == first,
	   "after a reset the same memory is used again");
}

static int nothing(void *arg, const struct weir_operand *dst,
		   const struct weir_operand *src, unsigned n, unsigned part,
		   unsigned parts)
{
	(void)arg, (void)dst, (void)src, (void)n, (void)part, (void)parts;
	return 0;
}

static void many_sources(void)
{
	struct weir_op_call call = { .fn = nothing,
				     .dtype = WEIR_DTYPE_F16,
				     .ndim = 1,
				     .shape = { 7 } };
	struct weir_node *src[1000];
	struct weir_node *node;

	for (unsigned i = 0; i < 1000; i++)
		src[i] = F32(g, 1, 1);
	node = weir_call(g, &call, src, 1000);
	is_str(form_of(node), "F16 [7]", "a call has the result that it names");
	ok(weir_node_source(node, 999) == src[999],
	   "a call has any number of sources");
	src[500] = NULL;
	weir_call(g, &call, src, 1000);
	is_err(weir_graph_error(g, NULL), -EINVAL,
	       "call: source 500 (src) is NULL",
	       "each source of a call is required");
}

static void marks(void)
{
	struct weir_node_info info = { .size = sizeof(info) };
	struct weir_node *a = F32(g, 1, 4);
	uint64_t before[2], marked[2], after[2];

	weir_graph_fingerprint(g, before);
	ok(weir_graph_output(g, a) == a && weir_graph_observe(g, a) == a,
	   "marking a node returns it");
	weir_node_info(a, &info);
	is_int(info.flags, WEIR_NODE_OUTPUT | WEIR_NODE_OBSERVED,
	       "a node may be an output and observed");
	weir_graph_fingerprint(g, marked);
	ok(weir_graph_unmark(g, a) == a, "removing the marks returns it");
	weir_node_info(a, &info);
	is_int(info.flags, 0, "then it has none");
	weir_graph_fingerprint(g, after);
	ok(!memcmp(before, after, sizeof(after)) &&
		   memcmp(marked, after, sizeof(after)) != 0,
	   "and the graph has the fingerprint of before");
	ok(!weir_graph_unmark(g, NULL) && weir_graph_error(g, NULL) == -EINVAL,
	   "no node has no marks");
}

static void placed(struct weir *weir)
{
	struct weir_buft *buft = kind_of(weir, "CPU", WEIR_MEM_PLAIN);
	struct weir_tensor t;
	struct weir_buf *buf;
	struct weir_node *view;

	if (weir_tensor_init(&t, WEIR_DTYPE_F32, 2, (int64_t[]){ 4, 8 }) < 0 ||
	    weir_tensors_alloc(buft, &t, 1, &buf) < 0)
		bail("%s", weir_error());
	view = weir_slice(g, weir_graph_leaf(g, &t, NULL), 0, 1, 2);
	ok(weir_tensor_data(weir_node_tensor(view)) ==
		   (char *)weir_tensor_data(&t) + 32,
	   "a view of a placed leaf is placed in it");
	t.offset += 4;
	weir_graph_leaf(g, &t, NULL);
	is_int(weir_graph_error(g, NULL), -EINVAL,
	       "a leaf that exceeds its buffer is refused");
	weir_graph_reset(g);
	if (weir_tensor_init(&t, WEIR_DTYPE_F32, 2, (int64_t[]){ 4, 2 }) < 0)
		bail("%s", weir_error());
	t.stride[0] = (int64_t)1 << 40;
	t.stride[1] = 0;
	weir_graph_leaf(g, &t, NULL);
	is_err(weir_graph_error(g, NULL), -EINVAL, "tensor: stride 1 is 0",
	       "a leaf whose last stride is 0 is refused");
	weir_buf_free(buf);
}

static void read_only(struct weir *weir)
{
	struct weir_buft *buft = kind_of(weir, "CPU", WEIR_MEM_MAPPED);
	struct weir_tensor t;
	struct weir_file *file;
	struct weir_buf *buf;

	if (weir_file_open(weir, "/proc/self/exe", NULL, &file) < 0 ||
	    weir_buf_map(buft, file, 0, 4096, &buf) < 0 ||
	    weir_tensor_init(&t, WEIR_DTYPE_F32, 1, (int64_t[]){ 8 }) < 0 ||
	    weir_tensor_place(&t, buf, 0) < 0)
		bail("%s", weir_error());
	t.name = "w";
	weir_copy(g, F32(g, 1, 8), weir_graph_leaf(g, &t, NULL));
	is_err(weir_graph_error(g, NULL), -EROFS,
	       "copy: dst 'w' F32 [8] is in memory of kind MAPPED",
	       "a leaf in a mapped file is not written");
	weir_buf_free(buf);
	weir_file_close(file);
}

/* Each test has an empty graph. */
static void with_graph(void (*test)(void))
{
	weir_graph_reset(g);
	test();
}

int main(void)
{
	struct weir *weir;

	plan(62);
	if (weir_open(NULL, &weir) < 0)
		bail("%s", weir_error());
	g = graph_new();
	with_graph(order);
	with_graph(names);
	with_graph(inputs);
	with_graph(kept);
	with_graph(missing);
	with_graph(unknown);
	with_graph(foreign);
	with_graph(many);
	with_graph(many_sources);
	with_graph(marks);
	weir_graph_reset(g);
	placed(weir);
	weir_graph_reset(g);
	read_only(weir);
	weir_graph_free(g);
	weir_graph_free(NULL);
	weir_close(weir);
	return done_testing();
}
