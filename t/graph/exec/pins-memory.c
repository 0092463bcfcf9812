/* SPDX-License-Identifier: MIT */
/*
 * Each allocation of a thread fails once, from a scheduler for two devices with
 * pins to its executable graph; and pins that are changed while executable
 * graphs are made.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "leaf.h"
#include "nomem.h"
#include "streams.h"

static struct weir *weir;
static struct weir_dev *devs[2];
static struct weir_graph *g; /* x, then a and b, which is its output */

static struct weir_graph *chain(int64_t n)
{
	struct weir_graph *made = graph_new();
	struct weir_node *x;

	x = weir_graph_input(made, "x", WEIR_DTYPE_F32, 1, &n);
	x = weir_node_set_name(weir_sqr(made, x), "a");
	x = weir_node_set_name(weir_sqr(made, x), "b");
	weir_graph_output(made, x);
	must(weir_graph_error(made, NULL));
	return made;
}

static int make_all(void)
{
	struct weir_exec *s = NULL;
	struct weir_sched *sched;
	int r = weir_sched_new(devs, 2, NULL, &sched);

	if (r < 0)
		return r;
	if ((r = weir_sched_pin(sched, "a", devs[0])) == 0 &&
	    (r = weir_sched_pin(sched, "b", devs[1])) == 0 &&
	    (r = weir_sched_pin(sched, "c", NULL)) == 0)
		r = weir_exec_new(sched, g, &s);
	weir_exec_free(s);
	weir_sched_free(sched);
	return r;
}

/* Return the device that the pin of node @i has chosen. */
static struct weir_dev *pinned_to(struct weir_exec *s, uint64_t i)
{
	struct weir_node_place place = { .size = sizeof(place) };

	must(weir_exec_explain(s, i, &place));
	return place.cause == WEIR_NODE_CAUSE_PINNED ? place.dev : NULL;
}

static _Atomic bool ended;

static void *change_pins(void *arg)
{
	struct weir_rates rates = { sizeof(rates), 1e9, 1e9, 1e9 };

	for (unsigned i = 0; !ended; i++) {
		must(weir_sched_pin(arg, "[ab]", devs[i % 2]));
		rates.flops += 1;
		must(weir_sched_set_rates(arg, i % 2, &rates));
	}
	return NULL;
}

static void changed_meanwhile(void)
{
	struct weir_sched *sched;
	pthread_t thread;
	unsigned wrong = 0;

	must(weir_sched_new(devs, 2, NULL, &sched));
	must(weir_sched_pin(sched, "[ab]", devs[0]));
	if (pthread_create(&thread, NULL, change_pins, sched))
		bail("pthread_create");
	for (unsigned i = 0; i < 100; i++) {
		struct weir_exec *s;

		must(weir_exec_new(sched, g, &s));
		wrong += !pinned_to(s, 1) || pinned_to(s, 1) != pinned_to(s, 2);
		weir_exec_free(s);
	}
	ended = true;
	pthread_join(thread, NULL);
	is_int(wrong, 0,
	       "an executable graph has all pins as they were at one time, while another thread changes them");
	weir_sched_free(sched);
}

int main(void)
{
	plan(4 + 1);
	weir = open_root(0);
	must(weir_dev_configure(weir, "CPU:devices=2,apart=1", &devs[0]));
	must(weir_dev_find(weir, "CPU1", &devs[1]));
	g = chain(64);
	must(make_all()); /* the rates are measured */
	nomem_each(make_all, 10,
		   "pins and an executable graph over two devices");
	changed_meanwhile();
	weir_graph_free(g);
	weir_close(weir);
	return 0;
}
