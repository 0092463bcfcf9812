/* SPDX-License-Identifier: MIT */
/* Copies of graphs: their nodes, and the memory of their leaves. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <weir.h>

#include "kind.h"
#include "leaf.h"
#include "naive.h"
#include "tap.h"

#define N 16 /* elements of the buffer */

static struct weir *weir;
static struct weir_buft *memory;
static struct weir_buf *data; /* N numbers: i + 1 is number i */
static struct weir_graph *g, *copy;
static struct weir_buf *copied;

static void data_fill(void)
{
	float *v = weir_buf_data(data);

	for (int i = 0; i < N; i++)
		v[i] = (float)(i + 1);
}

/* A leaf of @n numbers from number @first on. */
static struct weir_node *numbers(const char *name, int64_t first, int64_t n)
{
	struct weir_tensor t;

	if (weir_tensor_init(&t, WEIR_DTYPE_F32, 1, &n) < 0 ||
	    weir_tensor_place(&t, data, (uint64_t)first * 4) < 0)
		bail("%s", weir_error());
	t.name = name;
	return weir_graph_leaf(g, &t, NULL);
}

static struct weir_node *of_copy(const struct weir_node *node)
{
	struct weir_node_info info = { .size = sizeof(info) };

	if (weir_node_info(node, &info) < 0)
		bail("%s", weir_error());
	return weir_graph_node(copy, info.index);
}

static void copy_make(void)
{
	if (weir_graph_copy(g, memory, &copy, &copied) < 0)
		bail("%s", weir_error());
}

static void copy_drop(void)
{
	weir_graph_free(copy);
	weir_buf_free(copied);
	weir_graph_reset(g);
	data_fill();
}

/* Cause of the first node that differs, or "". */
static const char *difference(size_t i)
{
	struct weir_node_info a = { .size = sizeof(a) },
			      b = { .size = sizeof(b) };
	struct weir_node *x = weir_graph_node(g, i);
	struct weir_node *y = weir_graph_node(copy, i);
	const struct weir_tensor *t = weir_node_tensor(x);
	const struct weir_tensor *u = weir_node_tensor(y);

	if (!y || weir_node_info(x, &a) < 0 || weir_node_info(y, &b) < 0)
		return "it is missing";
	if (a.op != b.op || a.n_src != b.n_src || a.flags != b.flags)
		return "operation, number of sources or marks";
	if (strcmp(form_of(x), form_of(y)) != 0 ||
	    memcmp(t->stride, u->stride, sizeof(t->stride)) != 0)
		return "shape, dtype or strides";
	if (!t->name != !u->name || (t->name && strcmp(t->name, u->name) != 0))
		return "name";
	for (unsigned s = 0; s < a.n_src; s++) {
		struct weir_node *from = weir_node_source(x, s);

		if (weir_node_source(y, s) != (from ? of_copy(from) : NULL))
			return "a source";
	}
	return "";
}

static void all_nodes(void)
{
	const struct weir_op_rope rope = { .n_dims = 2 };
	struct weir_node *x, *y, *pos;
	const char *what = "";
	size_t i;

	x = weir_graph_input(g, "x", WEIR_DTYPE_F32, 3, (int64_t[]){ 2, 2, 4 });
	pos = weir_graph_input(g, NULL, WEIR_DTYPE_I32, 1, (int64_t[]){ 2 });
	y = weir_rope(g, x, pos, NULL, &rope);
	y = weir_node_set_name(weir_soft_max(g, y, NULL, 0.5f, 0), "weights");
	weir_graph_observe(g, y);
	y = weir_mul(g, weir_transpose(g, y), numbers("scales", 2, 2));
	weir_graph_output(g, weir_cast(g, y, WEIR_DTYPE_F16));
	weir_copy(g, numbers("from", 0, 2), numbers("to", 8, 2));
	copy_make();
	is_int(weir_graph_count(copy), weir_graph_count(g),
	       "a copy has as many nodes");
	for (i = 0; i < weir_graph_count(g) && !what[0]; i++)
		what = difference(i);
	is_str(what, "", "nodes of a copy are those of the graph");
	copy_drop();
}

/* A number of the result of a node, after the graph was computed. */
static double computed(struct weir_graph *graph, struct weir_node *node,
		       int64_t i)
{
	struct naive *e = naive_new(graph);
	double *v, number;

	if (naive_run(e) < 0)
		bail("the evaluator failed");
	v = naive_doubles(naive_result(e, node));
	number = v[i];
	free(v);
	naive_free(e);
	return number;
}

static void contents(void)
{
	struct weir_node *sum = weir_sum(g, numbers("a", 3, 5));
	struct weir_node *view = weir_slice(
		g, weir_slice(g, numbers("b", 8, 8), 0, 2, 4), 0, 1, 2);
	struct weir_node *sum2 = weir_sum(g, view);

	copy_make();
	memset(weir_buf_data(data), 0, N * 4);
	is_int(computed(copy, of_copy(sum), 0), 4 + 5 + 6 + 7 + 8,
	       "leaves of a copy have the contents of their own");
	ok(weir_node_tensor(of_copy(view))->buf == copied,
	   "a view in a copy is in the copy's buffer");
	is_int(computed(copy, of_copy(sum2), 0), 12 + 13,
	       "a view of a view in a copy has the same elements");
	copy_drop();
}

/* [0, 4) and [2, 8) and [6, 8); [8, 12) follows them; [14, 15) is alone. */
static void shared(void)
{
	struct weir_node *a = numbers("a", 0, 4), *b = numbers("b", 2, 6);
	struct weir_node *c = numbers("c", 6, 2), *d = numbers("d", 8, 4);
	struct weir_node *e = numbers("e", 14, 1), *again = numbers("a", 0, 4);
	const struct weir_tensor *of_a, *of_b, *of_c;

	weir_copy(g, d, a);
	copy_make();
	of_a = weir_node_tensor(of_copy(a));
	of_b = weir_node_tensor(of_copy(b));
	of_c = weir_node_tensor(of_copy(c));
	is_int(of_b->offset - of_a->offset, 8,
	       "leaves that overlap keep their distance in a copy");
	is_int(of_c->offset - of_b->offset, 16,
	       "a leaf inside of another is so in a copy");
	is_int(weir_node_tensor(of_copy(again))->offset, of_a->offset,
	       "leaves of the same bytes have the same bytes in a copy");
	is_int(computed(copy, of_copy(b), 1), 12,
	       "a write to a leaf is read from another leaf of these bytes");
	is_int(computed(copy, of_copy(e), 0), 15,
	       "a leaf that shares nothing has its own contents");
	is_int(((float *)weir_buf_data(data))[3], 4,
	       "a write in a copy changes nothing of the graph's leaves");
	copy_drop();
}

static void not_placed(void)
{
	struct weir_node *a = F32(g, 2, 3, 4);

	weir_add(g, a, F32(g, 1, 4));
	copy_make();
	ok(!weir_node_tensor(of_copy(a))->buf,
	   "a leaf that is not placed stays so in a copy");
	is_int(weir_graph_count(copy), 3, "such a graph is copied");
	copy_drop();
	copy_make();
	is_int(weir_graph_count(copy), 0, "an empty graph is copied");
	copy_drop();
	numbers("empty", 5, 0);
	copy_make();
	is_int(weir_graph_count(copy), 1, "an empty leaf is copied");
	copy_drop();
}

static void deep(void)
{
	struct weir_node *x = numbers("x", 0, 4);

	for (int i = 0; i < 200000; i++)
		x = weir_sqr(g, x);
	copy_make();
	is_int(weir_graph_count(copy), 200001,
	       "a copy of a deep graph needs no deep stack");
	copy_drop();
}

struct late {
	struct weir_stream *stream;
	struct weir_event *event;
};

static int write_late(void *arg)
{
	(void)arg;
	((float *)weir_buf_data(data))[0] = 100;
	return 0;
}

static int fail_late(void *arg)
{
	(void)arg;
	return -EIO;
}

/* A leaf with an event that follows @fn. */
static struct weir_node *late_leaf(struct late *l, int (*fn)(void *arg))
{
	struct weir_tensor t = *weir_node_tensor(numbers("late", 0, 4));

	if (weir_stream_new(weir_dev_get(weir, 0), NULL, &l->stream) < 0 ||
	    weir_event_new(weir, 0, &l->event) < 0 ||
	    weir_stream_call(l->stream, fn, NULL) < 0)
		bail("%s", weir_error());
	weir_stream_record(l->stream, l->event);
	return weir_graph_leaf(g, &t, l->event);
}

static void late_free(struct late *l)
{
	weir_stream_sync(l->stream, -1);
	weir_event_free(l->event);
	weir_stream_free(l->stream);
}

static void events(void)
{
	struct weir_node *leaf;
	struct late l;

	leaf = late_leaf(&l, write_late);
	copy_make();
	is_int(computed(copy, of_copy(leaf), 0), 100,
	       "a copy waits for the events of leaves");
	late_free(&l);
	copy_drop();

	late_leaf(&l, fail_late);
	is_err(weir_graph_copy(g, memory, &copy, &copied), -EIO,
	       "weir_graph_copy: leaf 'late' F32 [4]: ",
	       "the failure of an event names the leaf");
	late_free(&l);
	weir_graph_reset(g);
	data_fill();
}

static void failures(void)
{
	weir_sqr(g, NULL);
	is_err(weir_graph_copy(g, memory, &copy, &copied), -EINVAL,
	       "weir_graph_op: sqr: source 0 (a) is NULL",
	       "a graph with a failure is not copied");
	weir_graph_reset(g);
	numbers("a", 0, 16);
	if (weir_buft_set_budget(memory, 70) < 0)
		bail("%s", weir_error());
	is_err(weir_graph_copy(g, memory, &copy, &copied), -ENOMEM,
	       "weir_graph_copy: ",
	       "a budget that is too small: the sentence begins with the call");
	if (weir_buft_set_budget(memory, 0) < 0)
		bail("%s", weir_error());
	weir_graph_reset(g);
}

int main(void)
{
	plan(20);
	if (weir_open(NULL, &weir) < 0)
		bail("%s", weir_error());
	memory = kind_of(weir, "CPU", WEIR_MEM_PLAIN);
	if (weir_buf_alloc(memory, N * 4, NULL, &data) < 0)
		bail("%s", weir_error());
	data_fill();
	g = graph_new();
	all_nodes();
	contents();
	shared();
	not_placed();
	deep();
	events();
	failures();
	weir_graph_free(g);
	weir_buf_free(data);
	weir_close(weir);
	return done_testing();
}
