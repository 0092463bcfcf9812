/* SPDX-License-Identifier: MIT */
/* Pins and rates of schedulers, and what executable graphs are made of them. */
#include <errno.h>
#include <math.h>

#include "graph/compile/assign.h"
#include "graph/exec/sched.h"
#include "leaf.h"
#include "streams.h"

#define NONE WEIR__ASSIGN_NONE

static struct weir *weir;
static struct weir_dev *devs[3]; /* CPU, CPU1, CPU2 */
static struct weir_graph *g;     /* nodes 0 to 2: w, a.norm, b.norm */

static struct weir_sched *sched_of(unsigned n)
{
	struct weir_sched *sched;

	must(weir_sched_new(devs, n, NULL, &sched));
	return sched;
}

static struct weir_graph *graph_named(const char *first, const char *second)
{
	struct weir_graph *made = graph_new();
	struct weir_node *w = leaf(made, "w", WEIR_DTYPE_F32, 1, 4), *a;

	a = weir_node_set_name(weir_sqr(made, w), first);
	weir_graph_output(made, weir_node_set_name(weir_sqr(made, a), second));
	must(weir_graph_error(made, NULL));
	return made;
}

/* The pins of w and the two nodes, as digits; '-': none. */
static const char *pins_of(struct weir_sched *sched)
{
	static char text[4];
	struct weir__choice c;

	must(weir__sched_choice(sched, g, &c));
	for (unsigned i = 0; i < 3; i++)
		text[i] = c.pin && c.pin[i] != NONE ? (char)('0' + c.pin[i])
						    : '-';
	weir__choice_free(&c);
	return text;
}

static uint64_t key_of(struct weir_sched *sched, const struct weir_graph *of)
{
	struct weir__choice c;
	uint64_t key;

	must(weir__sched_choice(sched, of, &c));
	key = c.key;
	weir__choice_free(&c);
	return key;
}

static void names_that_match(void)
{
	struct weir_sched *sched = sched_of(2);

	is_str(pins_of(sched), "---", "a scheduler has no pins at first");
	must(weir_sched_pin(sched, "*.norm", devs[1]));
	is_str(pins_of(sched), "-11",
	       "a pin holds for all nodes whose name matches");
	must(weir_sched_pin(sched, "b.no[rst]m", devs[0]));
	is_str(pins_of(sched), "-10", "the last pin that matches counts");
	must(weir_sched_pin(sched, "w", devs[1]));
	is_str(pins_of(sched), "110", "a pin may name a leaf");
	must(weir_sched_pin(sched, "a.nor", devs[0]));
	is_str(pins_of(sched), "110",
	       "a pin without wildcards holds for the whole name");
	must(weir_sched_pin(sched, "*.norm", devs[0]));
	must(weir_sched_pin(sched, "b.no[rst]m", devs[1]));
	is_str(pins_of(sched), "101",
	       "a pattern that is pinned again counts as the last one");
	weir_sched_free(sched);
}

static void taken_back(void)
{
	struct weir_sched *sched = sched_of(2);

	must(weir_sched_pin(sched, "*.norm", devs[1]));
	must(weir_sched_pin(sched, "a*", devs[0]));
	must(weir_sched_pin(sched, "*", NULL));
	is_str(pins_of(sched), "-01",
	       "only pins with exactly the pattern are taken back");
	must(weir_sched_pin(sched, "a*", NULL));
	is_str(pins_of(sched), "-11",
	       "a pin that is taken back uncovers others");
	must(weir_sched_pin(sched, NULL, NULL));
	is_str(pins_of(sched), "---", "all pins are taken back at once");
	weir_sched_free(sched);
}

static void refused(void)
{
	struct weir_sched *sched = sched_of(2);

	is_err(weir_sched_pin(sched, "a*", devs[2]), -EINVAL,
	       "'a*': CPU2 is no device of the scheduler",
	       "a pin to a device that the scheduler does not have is refused");
	is_err(weir_sched_pin(sched, NULL, devs[0]), -EINVAL,
	       "a pin to CPU without a pattern",
	       "a pin without a pattern is refused");
	is_str(pins_of(sched), "---", "a pin that is refused changes nothing");
	weir_sched_free(sched);
}

static void keys(void)
{
	struct weir_graph *other = graph_named("a.norm", "c");
	struct weir_sched *sched = sched_of(2), *single = sched_of(1);
	struct weir_rates rates = { .size = sizeof(rates) };
	uint64_t none = key_of(sched, g), pinned;

	must(weir_sched_pin(sched, "b.*", devs[1]));
	pinned = key_of(sched, g);
	ok(pinned != none, "pins that match need another plan");
	ok(key_of(sched, other) != pinned,
	   "an equal graph with other names needs another plan");
	must(weir_sched_pin(sched, "z", devs[1]));
	ok(key_of(sched, g) == pinned,
	   "a pin that matches nothing changes no plan");
	must(weir_sched_pin(sched, NULL, NULL));
	ok(key_of(sched, g) == none,
	   "without pins the plan is the one that it was before");
	must(weir_sched_rates(sched, 1, &rates));
	rates.flops *= 2;
	must(weir_sched_set_rates(sched, 1, &rates));
	ok(key_of(sched, g) != none, "other rates need another plan");
	rates.flops /= 2;
	must(weir_sched_set_rates(sched, 1, &rates));
	ok(key_of(sched, g) == none, "equal rates need no other plan");
	must(weir_sched_pin(single, "*", devs[0]));
	ok(key_of(single, g) == 0, "with one device pins change no plan");
	weir_sched_free(sched);
	weir_sched_free(single);
	weir_graph_free(other);
}

/*
 * Three operations, which an executable graph computes on these devices, as
 * digits.
 */
static const char *devices_of(struct weir_exec *s)
{
	static char text[4];
	struct weir_node_place place = { .size = sizeof(place) };

	for (unsigned i = 0; i < 3; i++) {
		must(weir_exec_explain(s, 1 + i, &place));
		text[i] = place.dev == devs[0]   ? '0'
			  : place.dev == devs[1] ? '1'
						 : '-';
	}
	return text;
}

static void chain_build(struct weir_graph *chain, int64_t n)
{
	static const char *const names[] = { "first", "second", "third" };
	struct weir_node *x;

	weir_graph_reset(chain);
	x = weir_graph_input(chain, "x", WEIR_DTYPE_F32, 1, &n);
	for (unsigned i = 0; i < 3; i++)
		x = weir_node_set_name(weir_sqr(chain, x), names[i]);
	weir_graph_output(chain, x);
	must(weir_graph_error(chain, NULL));
}

static struct weir_exec *chain_exec(struct weir_sched *sched,
				    struct weir_graph *chain, int64_t n)
{
	struct weir_exec *s;

	chain_build(chain, n);
	must(weir_exec_new(sched, chain, &s));
	return s;
}

static void kept_where_pinned(void)
{
	struct weir_graph *chain = graph_new();
	struct weir_sched *sched = sched_of(2);
	struct weir_exec *s;

	s = chain_exec(sched, chain, 64);
	is_str(devices_of(s), "000",
	       "without pins small nodes stay on the first device");
	weir_exec_free(s);
	must(weir_sched_pin(sched, "*", devs[0]));
	must(weir_sched_pin(sched, "second", devs[1]));
	s = chain_exec(sched, chain, 64);
	is_str(devices_of(s), "010",
	       "a node stays where it is pinned, though another device shares the memory");
	weir_exec_free(s);
	weir_sched_free(sched);
	weir_graph_free(chain);
}

static void kept_until_taken_back(void)
{
	struct weir_graph *chain = graph_new();
	struct weir_sched *sched = sched_of(2);
	struct weir_exec_info e = { .size = sizeof(e) };
	struct weir_exec *s, *other;

	must(weir_sched_pin(sched, "*", devs[0]));
	must(weir_sched_pin(sched, "second", devs[1]));
	chain_build(chain, 16);
	must(weir_sched_estimate(sched, chain, &e));
	s = chain_exec(sched, chain, 16);
	is_str(devices_of(s), "010",
	       "pins hold for the first executable graph, after an estimate");
	other = chain_exec(sched, chain, 32);
	is_str(devices_of(other), "010",
	       "pins hold for a graph that is built anew");
	weir_exec_free(other);
	must(weir_sched_pin(sched, "second", NULL));
	other = chain_exec(sched, chain, 16);
	is_str(devices_of(other), "000",
	       "a pin that was taken back does not hold for later executable graphs");
	is_str(devices_of(s), "010",
	       "an executable graph keeps the pins that it was made with");
	weir_exec_free(other);
	weir_exec_free(s);
	weir_sched_free(sched);
	weir_graph_free(chain);
}

static bool same_rates(const struct weir_rates *a, const struct weir_rates *b)
{
	return a->flops == b->flops && a->bytes == b->bytes &&
	       a->link == b->link;
}

static void measured(void)
{
	struct weir_sched *sched = sched_of(2), *later;
	struct weir_rates a = { .size = sizeof(a) }, b = a, c = a;

	must(weir_sched_rates(sched, 0, &a));
	must(weir_sched_rates(sched, 1, &b));
	later = sched_of(1);
	must(weir_sched_rates(later, 0, &c));
	diag("%.3g flops, %.3g bytes, %.3g bytes of the link in a second",
	     a.flops, a.bytes, a.link);
	ok(a.flops > 1e6 && a.bytes > 1e6 && a.link > 1e6,
	   "the rates of a CPU are measured");
	ok(same_rates(&a, &b),
	   "two devices with as many threads have equal rates");
	ok(same_rates(&a, &c), "rates that were measured do not change");
	weir_sched_free(sched);
	weir_sched_free(later);
}

static void given(void)
{
	struct weir_sched *sched = sched_of(2), *other = sched_of(2);
	struct weir_rates a = { sizeof(a), 1e9, 2e9, 3e9 }, b = a;

	must(weir_sched_set_rates(sched, 1, &a));
	b.flops = 0;
	must(weir_sched_rates(sched, 1, &b));
	ok(same_rates(&a, &b), "rates that are set are those that are read");
	must(weir_sched_rates(other, 1, &b));
	ok(!same_rates(&a, &b),
	   "rates that are set are those of one scheduler only");
	weir_sched_free(sched);
	weir_sched_free(other);
}

static void wrong_rates(void)
{
	struct weir_sched *sched = sched_of(2);
	struct weir_rates rates = { sizeof(rates), 1e9, 1e9, 0 };

	is_err(weir_sched_set_rates(sched, 0, &rates), -EINVAL,
	       "flops 1e+09, bytes 1e+09, link 0: rates are positive",
	       "a rate of 0 is refused");
	rates.link = NAN;
	is_err(weir_sched_set_rates(sched, 0, &rates), -EINVAL, "positive",
	       "a rate that is no number is refused");
	rates.link = INFINITY;
	is_err(weir_sched_set_rates(sched, 0, &rates), -EINVAL, "positive",
	       "an infinite rate is refused");
	is_err(weir_sched_rates(sched, 2, &rates), -EINVAL, "device 2 of 2",
	       "rates of a device that the scheduler does not have are refused");
	is_err(weir_sched_set_rates(sched, 2, &rates), -EINVAL, "device 2 of 2",
	       "rates are not set for a device that the scheduler does not have");
	weir_sched_free(sched);
}

int main(void)
{
	plan(6 + 3 + 3 + 7 + 2 + 4 + 3 + 2 + 5);
	weir = open_root(0);
	must(weir_dev_configure(weir, "CPU:devices=3,threads=3", &devs[0]));
	must(weir_dev_find(weir, "CPU1", &devs[1]));
	must(weir_dev_find(weir, "CPU2", &devs[2]));
	g = graph_named("a.norm", "b.norm");
	names_that_match();
	taken_back();
	refused();
	keys();
	kept_where_pinned();
	kept_until_taken_back();
	measured();
	given();
	wrong_rates();
	weir_graph_free(g);
	weir_close(weir);
	return 0;
}
