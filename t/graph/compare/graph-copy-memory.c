/* SPDX-License-Identifier: MIT */
/*
 * Each allocation of weir_graph_copy() and weir_graph_compare() fails once: the
 * call fails with -ENOMEM, and nothing of the copy is left.
 */
#include <errno.h>

#include "gdev.h"
#include "nomem.h"
#include "streams.h"

static struct weir *weir;
static struct weir_dev *cpu, *other;
static struct weir_buft *memory;
static struct weir_graph *g;

static int copy(void)
{
	struct weir_graph *made;
	struct weir_buf *buf;
	int r = weir_graph_copy(g, memory, &made, &buf);

	if (r < 0)
		return r;
	weir_graph_free(made);
	weir_buf_free(buf);
	return 0;
}

static int see(void *arg, const struct weir_compared *compared)
{
	(void)arg;
	return compared->nmse > 0 ? -EILSEQ : 0;
}

static int compare(void)
{
	return weir_graph_compare(cpu, other, g, NULL, see, NULL);
}

static void each(int (*call)(void), const char *what)
{
	nomem_each(call, 5, what);
	is_int(gdev.bytes, 0, "%s: nothing is left in the device's memory",
	       what);
}

int main(void)
{
	struct weir_buf *buf[2] = { NULL };
	struct weir_node *a, *b;

	plan(10);
	weir = gdev_open(&other);
	cpu = weir_dev_get(weir, 0);
	must(weir_graph_new(&g));
	must(weir_dev_buft(other, WEIR_MEM_DEVICE, &memory));
	a = gdev_leaf(g, cpu, "a", 16, 2, NULL, &buf[0]);
	b = gdev_leaf(g, cpu, "b", 16, 3, NULL, &buf[1]);
	weir_copy(g, weir_mul(g, a, b), b);
	must(weir_graph_error(g, NULL));
	each(copy, "weir_graph_copy");
	each(compare, "weir_graph_compare");
	weir_graph_free(g);
	weir_buf_free(buf[0]);
	weir_buf_free(buf[1]);
	weir_close(weir);
	return done_testing();
}
