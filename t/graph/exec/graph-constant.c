/* SPDX-License-Identifier: MIT */
/* Constant leaves, and leaves whose bytes are in a file. */
#include <errno.h>
#include <string.h>

#include <weir.h>

#include "files.h"
#include "kind.h"
#include "leaf.h"
#include "streams.h"

static struct weir *weir;
static struct weir_graph *g;
static struct weir_file *file;
static const int64_t shape[] = { 2, 4 };

/* F32 [2, 4]: 32 bytes. */
static struct weir_tensor weight(void)
{
	struct weir_tensor t;

	must(weir_tensor_init(&t, WEIR_DTYPE_F32, 2, shape));
	t.name = "w";
	return t;
}

static struct weir_node *in_file(uint64_t offset)
{
	struct weir_tensor t = weight();

	return weir_graph_leaf_file(g, &t, file, offset);
}

static uint32_t flags_of(const struct weir_node *node)
{
	struct weir_node_info info = { .size = sizeof(info) };

	must(weir_node_info(node, &info));
	return info.flags;
}

static void fingerprint(uint64_t ret[2])
{
	must(weir_graph_fingerprint(g, ret));
}

static bool differ(const uint64_t a[2], const uint64_t b[2])
{
	return a[0] != b[0] && a[1] != b[1];
}

static void marks(void)
{
	struct weir_tensor t = weight();
	struct weir_node *w = weir_graph_leaf(g, &t, NULL);
	uint64_t one[2], two[2];

	fingerprint(one);
	is_int(flags_of(w), 0, "a leaf is not constant by itself");
	ok(weir_graph_constant(g, w) == w, "marking a leaf returns it");
	is_int(flags_of(w), WEIR_NODE_CONSTANT,
	       "a leaf that was marked is constant");
	fingerprint(two);
	ok(differ(one, two), "a constant leaf changes the fingerprint");
	weir_graph_constant(g, weir_sqr(g, w));
	is_err(weir_graph_error(g, NULL), -EINVAL,
	       "constant: node 1 F32 [2, 4] is no leaf",
	       "a result cannot be marked as constant");
}

static void writes(void)
{
	struct weir_tensor t = weight();
	struct weir_node *w = weir_graph_leaf(g, &t, NULL), *x;

	x = weir_graph_input(g, "x", WEIR_DTYPE_F32, 2, shape);
	weir_copy(g, x, w);
	weir_graph_constant(g, w);
	is_err(weir_graph_error(g, NULL), -EINVAL,
	       "an operation writes leaf 'w'",
	       "a leaf that is written cannot be marked as constant");
	weir_graph_reset(g);
	w = weir_graph_constant(g, weir_graph_leaf(g, &t, NULL));
	x = weir_graph_input(g, "x", WEIR_DTYPE_F32, 2, shape);
	weir_copy(g, x, w);
	is_err(weir_graph_error(g, NULL), -EROFS, "dst 'w' F32 [2, 4] is const",
	       "a constant leaf cannot be written");
}

static void files(void)
{
	uint64_t one[2], two[2];

	is_int(flags_of(in_file(16)), WEIR_NODE_CONSTANT,
	       "a leaf in a file is constant");
	fingerprint(one);
	weir_graph_reset(g);
	in_file(12);
	fingerprint(two);
	ok(differ(one, two), "another offset in the file is another graph");
	weir_graph_reset(g);
	in_file(16);
	fingerprint(two);
	ok(!memcmp(one, two, sizeof(one)),
	   "the same place in the file is the same graph");
	ok(!weir_node_tensor(weir_graph_node(g, 0))->buf,
	   "a leaf in a file is not placed");
}

static void refused(const struct weir_tensor *t, struct weir_file *f,
		    uint64_t offset, const char *why, const char *title)
{
	weir_graph_reset(g);
	ok(!weir_graph_leaf_file(g, t, f, offset) &&
		   weir_graph_error(g, NULL) == -EINVAL &&
		   strstr(weir_error(), why),
	   "%s (%s)", title, weir_error());
}

static void bounds(void)
{
	struct weir_tensor t = weight(), placed = weight();
	struct weir_buf *buf;

	must(weir_tensors_alloc(kind_of(weir, "CPU", WEIR_MEM_PLAIN), &placed,
				1, &buf));
	refused(&t, file, 17, "32 bytes from byte 17 of w.bin, which has 48",
		"a leaf that ends after its file is refused");
	refused(&t, file, UINT64_MAX, "which has 48",
		"an offset that wraps is refused");
	refused(&t, NULL, 0, "the file is NULL", "no file is refused");
	refused(NULL, file, 0, "the tensor is NULL", "no tensor is refused");
	refused(&placed, file, 0, "is placed",
		"a tensor that is placed is in no file");
	weir_buf_free(buf);
}

static void outputs(void)
{
	struct weir_node *w = in_file(0);

	weir_graph_output(g, weir_reshape(g, w, 1, (int64_t[]){ 8 }));
	is_err(weir_graph_error(g, NULL), -EINVAL,
	       "output: the bytes of node 1 F32 [8] are in a file",
	       "a view of a leaf in a file cannot be an output");
	weir_graph_reset(g);
	weir_graph_observe(g, in_file(0));
	is_err(weir_graph_error(g, NULL), -EINVAL,
	       "observed: the bytes of 'w' F32 [2, 4] are in a file",
	       "a leaf in a file cannot be observed");
}

/* Two leaves of the file that share bytes. */
static void copies(void)
{
	struct weir_node *a = in_file(0), *b = in_file(16);
	const struct weir_tensor *ta, *tb;
	struct weir_graph *copy;
	struct weir_buf *buf;
	float got[8];

	weir_graph_output(g, weir_add(g, a, b));
	must(weir_graph_copy(g, kind_of(weir, "CPU", WEIR_MEM_PLAIN), &copy,
			     &buf));
	ta = weir_node_tensor(weir_graph_node(copy, 0));
	tb = weir_node_tensor(weir_graph_node(copy, 1));
	must(weir_tensor_get(tb, 0, got, sizeof(got)));
	ok(got[0] == 4 && got[7] == 11,
	   "a copy of a graph has the bytes of leaves in files in memory");
	is_int(tb->offset - ta->offset, 16,
	       "leaves that share bytes of a file share them in the copy");
	is_int(flags_of(weir_graph_node(copy, 0)), WEIR_NODE_CONSTANT,
	       "a constant leaf is constant in the copy");
	weir_graph_free(copy);
	weir_buf_free(buf);
}

static void each(void (*fn)(void))
{
	weir_graph_reset(g);
	fn();
}

int main(void)
{
	float numbers[12];

	plan(21);
	for (int i = 0; i < 12; i++)
		numbers[i] = (float)i;
	files_begin();
	files_bytes("w.bin", numbers, sizeof(numbers));
	must(weir_open(NULL, &weir));
	must(weir_file_open(weir, files_path("w.bin"), NULL, &file));
	g = graph_new();
	each(marks);
	each(writes);
	each(files);
	each(bounds);
	each(outputs);
	each(copies);
	weir_graph_free(g);
	weir_file_close(file);
	weir_close(weir);
	return done_testing();
}
