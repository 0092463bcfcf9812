/* SPDX-License-Identifier: MIT */
/*
 * The pass that assigns nodes to devices: each rule on a few nodes, and random
 * arrays compared with plain loops.
 */
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "graph/assign.h"
#include "graph/order.h"
#include "tap.h"

#define MOST 60u
#define EDGES 4u
#define DEVS 4u
#define NO_NODE WEIR__REACH_NONE
#define NO_DEV WEIR__ASSIGN_NONE
#define ALL UINT64_MAX

/* The arrays of a graph that a test makes. */
static struct net {
	uint32_t n, src_at[MOST + 1], src[EDGES * MOST], of[MOST], writes[MOST];
	uint8_t flags[MOST], marks[MOST], owner[MOST], pin[MOST];
	uint64_t supports[MOST], usable[MOST], bytes[MOST], moved[MOST],
		flops[MOST], shares[DEVS];
	struct weir__span span[MOST];
	struct weir_rates rates[DEVS];
	struct weir__reach_in in;
	struct weir__reach reach;
	struct weir__assign_in a;
} net;

static struct weir__assign out;

/* @n devices: a GFLOP, a GB and a link of a GB in a second, memory of their own. */
static void net_new(uint32_t n)
{
	memset(&net, 0, sizeof(net));
	net.in = (struct weir__reach_in){ .src_at = net.src_at,
					  .src = net.src,
					  .flags = net.flags,
					  .of = net.of,
					  .writes = net.writes,
					  .span = net.span };
	net.a = (struct weir__assign_in){ .in = &net.in,
					  .reach = &net.reach,
					  .marks = net.marks,
					  .n_devs = n,
					  .rates = net.rates,
					  .shares = net.shares,
					  .supports = net.supports,
					  .usable = net.usable,
					  .owner = net.owner,
					  .pin = net.pin,
					  .bytes = net.bytes,
					  .moved = net.moved,
					  .flops = net.flops };
	for (uint32_t d = 0; d < n; d++) {
		net.rates[d] = (struct weir_rates){ sizeof(net.rates[d]), 1e9,
						    1e9, 1e9 };
		net.shares[d] = UINT64_C(1) << d;
	}
}

static uint32_t add(uint8_t marks, uint8_t flags, uint64_t bytes)
{
	uint32_t i = net.n++;

	net.src_at[i + 1] = net.src_at[i];
	net.of[i] = i;
	net.writes[i] = NO_NODE;
	net.marks[i] = marks;
	net.flags[i] = flags;
	net.owner[i] = net.pin[i] = NO_DEV;
	net.usable[i] = ALL;
	net.supports[i] = (UINT64_C(1) << net.a.n_devs) - 1;
	net.bytes[i] = bytes;
	net.in.n = net.n;
	return i;
}

/* A leaf in memory of @owner, which no other device uses. */
static uint32_t add_leaf(uint8_t owner, uint64_t bytes)
{
	uint32_t i = add(WEIR__MARK_LEAF, WEIR__REACH_STILL, bytes);

	net.owner[i] = owner;
	if (owner != NO_DEV)
		net.usable[i] = UINT64_C(1) << owner;
	net.span[i].lo = 1 + (uint64_t)i * 1000;
	net.span[i].hi = net.span[i].lo + 1000;
	return i;
}

static uint32_t add_input(uint64_t bytes)
{
	return add(WEIR__MARK_INPUT, WEIR__REACH_STILL, bytes);
}

/* An operation of @flops; its sources, of which NO_NODE is none. */
static uint32_t add_op(uint64_t flops, uint64_t bytes, uint32_t a, uint32_t b)
{
	uint32_t i = add(0, 0, bytes), *at = &net.src_at[i + 1];

	net.flops[i] = flops;
	if (a != NO_NODE)
		net.src[(*at)++] = a;
	if (b != NO_NODE)
		net.src[(*at)++] = b;
	return i;
}

static int assign(uint32_t root)
{
	net.flags[root] |= WEIR__REACH_ROOT;
	if (weir__reach(&net.in, &net.reach) < 0)
		bail("%s", weir_error());
	return weir__assign(&net.a, &out);
}

static void done(void)
{
	weir__assign_free(&out);
	weir__reach_free(&net.reach);
}

static void pins(void)
{
	uint32_t x, w, small, pinned, by_leaf, by_larger;

	net_new(3);
	x = add_input(100);
	w = add_leaf(0, 1000);
	small = add_leaf(0, 10);
	pinned = add_op(1, 100, x, w);
	net.pin[pinned] = 2;
	net.pin[w] = 1;
	net.pin[small] = 2;
	by_leaf = add_op(1, 100, pinned, small);
	by_larger = add_op(1, 100, w, small);
	is_int(assign(add_op(1, 1, by_leaf, by_larger)), 0,
	       "nodes with pins are assigned");
	ok(out.dev[pinned] == 2 && out.cause[pinned] == WEIR_NODE_CAUSE_PINNED,
	   "a node that is pinned is computed there, wherever its weights are");
	ok(out.dev[by_leaf] == 2 &&
		   out.cause[by_leaf] == WEIR_NODE_CAUSE_PINNED,
	   "the user of a pinned leaf is computed where that is pinned");
	is_int(out.dev[by_larger], 1,
	       "of two pinned leaves the larger decides");
	done();
}

static void weights(void)
{
	uint32_t x, big, small, a, b, c;

	net_new(2);
	x = add_input(100);
	big = add_leaf(1, 1000);
	small = add_leaf(0, 10);
	a = add_op(1, 100, x, big);
	b = add_op(1, 100, small, big);
	c = add_op(1, 100, a, small);
	assign(add_op(1, 1, b, c));
	ok(out.dev[a] == 1 && out.cause[a] == WEIR_NODE_CAUSE_WEIGHTS,
	   "a node is computed where its weights are");
	is_int(out.dev[b], 1, "of two leaves the larger decides");
	ok(out.dev[c] == 1 && out.cause[c] == WEIR_NODE_CAUSE_COST,
	   "a leaf that is smaller than a result does not decide");
	ok(out.dev[big] == 1 && out.dev[small] == 0,
	   "a leaf is on the device whose memory has it");
	done();
}

static void writes(void)
{
	uint32_t x, cache, write, reader;

	net_new(2);
	x = add_input(5000);
	cache = add_leaf(1, 1000);
	write = add_op(1, 1000, add_op(1, 5000, x, NO_NODE), cache);
	net.writes[write] = 1;
	net.of[write] = cache;
	net.flags[write] = WEIR__REACH_ROOT;
	reader = add_op(1, 10, write, NO_NODE);
	assign(reader);
	ok(out.dev[write] == 1 && out.cause[write] == WEIR_NODE_CAUSE_WRITES,
	   "a node that writes a leaf is computed where the leaf is");
	ok(out.dev[reader] == 1,
	   "a reader of what was written is computed there too");
	done();
}

static void only(void)
{
	uint32_t w, a;

	net_new(3);
	w = add_leaf(0, 1000);
	a = add_op(1, 100, w, NO_NODE);
	net.supports[a] = 4;
	assign(a);
	ok(out.dev[a] == 2 && out.cause[a] == WEIR_NODE_CAUSE_ONLY,
	   "an operation that one device has is computed there");
	done();
}

/* One operation of a millisecond, and device 1 is so much faster. */
static uint8_t with_rates(double faster)
{
	uint32_t a;
	uint8_t dev;

	net_new(2);
	a = add_op(1000000, 100, add_input(100), NO_NODE);
	net.rates[1].flops *= faster;
	assign(a);
	dev = out.dev[a];
	done();
	return dev;
}

static void gain(void)
{
	is_int(with_rates(1), 0, "of equal devices the first computes");
	is_int(with_rates(1.09), 0,
	       "a gain of 8 %% is not enough to leave the first device");
	is_int(with_rates(1.2), 1,
	       "a gain of more than 10 %% is enough to leave the first device");
}

/* Device 1 has the first node, and device 0 is faster for the second. */
static uint8_t after_another(double faster, uint64_t bytes)
{
	uint32_t a, b;
	uint8_t dev;

	net_new(2);
	a = add_op(1, bytes, add_leaf(1, bytes), NO_NODE);
	b = add_op(1000000, 100, a, NO_NODE);
	net.rates[0].flops *= faster;
	assign(b);
	dev = out.dev[b];
	done();
	return dev;
}

static void copies_cost(void)
{
	is_int(after_another(1, 1000), 1,
	       "a node stays where its source was computed");
	is_int(after_another(2, 1000), 0,
	       "a node leaves its source for a device that is faster");
	is_int(after_another(2, 1000000), 1,
	       "a node does not leave its source if the copy takes too long");
}

/* x of device 0 is normalised for a product on device 1, and added there. */
static void on_the_way(void)
{
	uint32_t x, norm, product, sum;

	net_new(2);
	x = add_op(1, 1000, add_leaf(0, 10000), NO_NODE);
	norm = add_op(1000, 1000, x, NO_NODE);
	product = add_op(1000, 1000, norm, add_leaf(1, 10000));
	sum = add_op(1000, 1000, x, product);
	assign(add_op(1000, 1000, sum, add_leaf(1, 10000)));
	ok(out.dev[x] == 0 && out.dev[product] == 1,
	   "both products are where their weights are");
	ok(out.dev[sum] == 1, "a sum is computed where its result goes");
	is_int(out.dev[norm], 1,
	       "a node that reads what is copied anyway is computed after the copy");
	done();
}

static void shared_memory(void)
{
	uint32_t a, b;

	net_new(2);
	net.shares[0] = net.shares[1] = 3;
	a = add_op(1, 100000000, add_leaf(1, 100000000), NO_NODE);
	b = add_op(1000000, 100, a, NO_NODE);
	net.rates[0].flops *= 2;
	assign(b);
	is_int(out.dev[b], 0,
	       "no copy is counted between devices that share their memory");
	done();
}

static void others(void)
{
	uint32_t x, view, file, pinned, never, a;

	net_new(2);
	x = add_input(100);
	file = add_leaf(NO_DEV, 100);
	pinned = add_leaf(NO_DEV, 100);
	net.usable[file] = net.usable[pinned] = ALL;
	net.pin[pinned] = 1;
	a = add_op(1, 100, x, pinned);
	view = add(0, WEIR__REACH_STILL, 100);
	net.src[net.src_at[view + 1]++] = a;
	net.of[view] = a;
	never = add_op(1, 100, view, NO_NODE);
	assign(add_op(1, 100, view, file));
	ok(out.dev[x] == 1, "an input is on the device of its first user");
	ok(out.dev[view] == 1 && out.cause[view] == WEIR_NODE_CAUSE_NONE,
	   "a view is where the node is that it views");
	ok(out.dev[file] == 1,
	   "a leaf of no device's memory is where it is used first");
	ok(out.dev[pinned] == 1,
	   "a leaf of no device's memory is where it is pinned");
	is_int(out.dev[never], NO_DEV,
	       "a node that is not needed has no device");
	done();
}

static void failures(void)
{
	uint32_t a, cache, write;

	net_new(2);
	a = add_op(1, 100, add_input(100), NO_NODE);
	net.supports[a] = 0;
	ok(assign(a) == -EOPNOTSUPP && out.failed == a &&
		   out.why == WEIR__ASSIGN_NO_DEVICE,
	   "an operation that no device has is refused");
	done();
	net.supports[a] = 1;
	net.pin[a] = 1;
	ok(assign(a) == -EOPNOTSUPP && out.failed == a && out.pinned == 1 &&
		   out.why == WEIR__ASSIGN_PIN_OP,
	   "a pin to a device that does not have the operation is refused");
	done();
	net.pin[a] = NO_DEV;
	cache = add_leaf(1, 1000);
	write = add_op(1, 1000, a, cache);
	net.writes[write] = 1;
	net.of[write] = cache;
	net.pin[write] = 0;
	ok(assign(write) == -EOPNOTSUPP && out.failed == write &&
		   out.pinned == 0 && out.why == WEIR__ASSIGN_PIN_LEAF,
	   "a pin of a write to a device that cannot use the leaf is refused");
	done();
	net.pin[write] = NO_DEV;
	net.supports[write] = 1;
	ok(assign(write) == -EOPNOTSUPP && out.failed == write &&
		   out.why == WEIR__ASSIGN_NO_WRITER,
	   "a write is refused if no device has the operation and the leaf");
	done();
}

/* Random arrays, and the same answers by plain loops. */

static uint32_t seed = 1;

static uint32_t upto(uint32_t n)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 8) % n;
}

static uint64_t random_mask(void)
{
	uint64_t mask = upto(1u << net.a.n_devs);

	return mask ? mask : 1;
}

static void random_leaf(void)
{
	uint32_t i = add_leaf(upto(4) ? (uint8_t)upto(net.a.n_devs) : NO_DEV,
			      1 + upto(3000000));

	net.usable[i] = random_mask();
	if (net.owner[i] != NO_DEV && upto(3))
		net.usable[i] |= UINT64_C(1) << net.owner[i];
	if (!upto(8))
		net.pin[i] = (uint8_t)upto(net.a.n_devs);
}

static uint32_t class_of(uint32_t i)
{
	while (net.of[i] != i)
		i = net.of[i];
	return i;
}

static void random_view(uint32_t of)
{
	uint32_t i = add(0, WEIR__REACH_STILL, net.bytes[of]);

	net.src[net.src_at[i + 1]++] = of;
	net.of[i] = of;
	net.span[i] = net.span[of];
}

static void random_op(void)
{
	uint32_t had = net.n;
	uint32_t i = add_op(upto(3000000), 1 + upto(3000000), upto(had),
			    upto(3) ? upto(had) : NO_NODE);
	uint32_t target = net.src[net.src_at[i]];

	net.moved[i] = upto(3000000);
	if (upto(2))
		net.supports[i] = random_mask();
	if (!upto(10))
		net.pin[i] = (uint8_t)upto(net.a.n_devs);
	if (!upto(12))
		net.marks[i] |= WEIR__MARK_EMPTY;
	if (!upto(6) && net.marks[class_of(target)] & WEIR__MARK_LEAF) {
		net.writes[i] = 0;
		net.of[i] = target;
		net.span[i] = net.span[target];
		net.flags[i] = WEIR__REACH_ROOT;
	}
	if (!upto(5))
		net.flags[i] |= WEIR__REACH_ROOT;
}

static void random_net(void)
{
	uint32_t n = 2 + upto(MOST - 2);

	net_new(1 + upto(DEVS));
	for (uint32_t d = 0; d < net.a.n_devs; d++) {
		net.rates[d].flops *= 1 + upto(4);
		net.rates[d].bytes *= 1 + upto(4);
		net.rates[d].link *= 1 + upto(4);
		net.shares[d] |= random_mask() & random_mask();
	}
	add_input(1 + upto(3000000));
	random_leaf();
	while (net.n < n)
		if (!upto(5))
			random_leaf();
		else if (!upto(6))
			random_view(upto(net.n));
		else if (!upto(9))
			add_input(1 + upto(3000000));
		else
			random_op();
}

static bool computed(uint32_t i)
{
	return net.reach.needed[i] && !(net.flags[i] & WEIR__REACH_STILL) &&
	       !(net.marks[i] & WEIR__MARK_EMPTY);
}

static bool has(uint64_t mask, uint32_t dev)
{
	return mask >> dev & 1;
}

static bool reads(uint32_t i, uint32_t class)
{
	for (uint32_t s = net.src_at[i]; s < net.src_at[i + 1]; s++)
		if (class_of(net.src[s]) == class)
			return true;
	return false;
}

/* What the plain loops find. */
static struct plain {
	bool can[MOST][DEVS];
	uint8_t cause[MOST], goal[MOST], dev[MOST];
	uint32_t failed;
} plain;

/* The largest source that is a leaf (@pinned: with a pin), or NO_NODE. */
static uint32_t largest_leaf(uint32_t i, bool pinned)
{
	uint32_t best = NO_NODE;

	for (uint32_t s = net.src_at[i]; s < net.src_at[i + 1]; s++) {
		uint32_t source = net.src[s], class = class_of(source);

		if (net.marks[class] & WEIR__MARK_LEAF &&
		    (!pinned || net.pin[class] != NO_DEV) &&
		    (best == NO_NODE || net.bytes[source] > net.bytes[best]))
			best = source;
	}
	return best;
}

static uint64_t largest_result(uint32_t i)
{
	uint64_t most = 0;

	for (uint32_t s = net.src_at[i]; s < net.src_at[i + 1]; s++)
		if (!(net.marks[class_of(net.src[s])] &
		      (WEIR__MARK_LEAF | WEIR__MARK_INPUT)) &&
		    net.bytes[net.src[s]] > most)
			most = net.bytes[net.src[s]];
	return most;
}

static unsigned plain_count(uint32_t i)
{
	unsigned n = 0;

	for (uint32_t d = 0; d < net.a.n_devs; d++)
		n += plain.can[i][d];
	return n;
}

/* Only the device @dev. */
static void plain_only(uint32_t i, uint8_t dev, uint8_t cause)
{
	for (uint32_t d = 0; d < net.a.n_devs; d++)
		plain.can[i][d] = d == dev;
	plain.cause[i] = cause;
}

/* Those that use @leaf, or its owner if that is one; false: none does. */
static bool plain_at(uint32_t i, uint32_t leaf, uint8_t cause)
{
	uint8_t owner = net.owner[leaf];
	unsigned before = plain_count(i), n = 0;

	for (uint32_t d = 0; d < net.a.n_devs; d++)
		n += plain.can[i][d] && has(net.usable[leaf], d);
	if (!n)
		return false;
	if (owner != NO_DEV && plain.can[i][owner] &&
	    has(net.usable[leaf], owner)) {
		plain_only(i, owner, cause);
		return true;
	}
	for (uint32_t d = 0; d < net.a.n_devs; d++)
		plain.can[i][d] = plain.can[i][d] && has(net.usable[leaf], d);
	if (cause == WEIR_NODE_CAUSE_WRITES || n < before)
		plain.cause[i] = cause;
	return true;
}

/* false: it cannot be assigned. */
static bool plain_can(uint32_t i)
{
	uint32_t leaf = net.writes[i] == NO_NODE ? NO_NODE : class_of(i);
	uint32_t by = largest_leaf(i, true), weights = largest_leaf(i, false);
	uint8_t pin = net.pin[i];
	bool writer = leaf == NO_NODE;

	if (pin == NO_DEV && by != NO_NODE)
		pin = net.pin[class_of(by)];
	for (uint32_t d = 0; d < net.a.n_devs; d++) {
		plain.can[i][d] = has(net.supports[i], d);
		writer |= plain.can[i][d] && has(net.usable[class_of(i)], d);
	}
	plain.cause[i] = WEIR_NODE_CAUSE_COST;
	if (pin != NO_DEV) {
		if (!plain.can[i][pin] ||
		    (leaf != NO_NODE && !has(net.usable[leaf], pin)))
			return false;
		plain_only(i, pin, WEIR_NODE_CAUSE_PINNED);
	} else if (!plain_count(i) || !writer) {
		return false;
	} else if (plain_count(i) == 1) {
		plain.cause[i] = WEIR_NODE_CAUSE_ONLY;
	} else if (leaf != NO_NODE) {
		plain_at(i, leaf, WEIR_NODE_CAUSE_WRITES);
	} else if (weights != NO_NODE &&
		   net.bytes[weights] >= largest_result(i)) {
		plain_at(i, class_of(weights), WEIR_NODE_CAUSE_WEIGHTS);
	}
	return true;
}

static uint8_t plain_node_goal(uint32_t i)
{
	uint8_t goal = class_of(i) == i ? plain.goal[i] : NO_DEV;

	for (uint8_t d = 0; plain_count(i) == 1 && d < net.a.n_devs; d++)
		if (plain.can[i][d])
			return d;
	return goal != NO_DEV && plain.can[i][goal] ? goal : NO_DEV;
}

static void plain_goals(void)
{
	for (uint32_t i = net.n; i-- > 0;) {
		plain.goal[i] = NO_DEV;
		for (uint32_t u = i + 1;
		     u < net.n && plain.goal[i] == NO_DEV && class_of(i) == i;
		     u++)
			if (computed(u) && reads(u, i))
				plain.goal[i] = plain_node_goal(u);
	}
}

/* Is @class on @dev anyway, for a node other than @i? */
static bool plain_there(uint32_t i, uint32_t class, uint8_t dev)
{
	for (uint32_t u = 0; u < net.n; u++)
		if (u != i && computed(u) && reads(u, class) &&
		    ((u < i && plain.dev[u] == dev) ||
		     plain_node_goal(u) == dev))
			return true;
	return false;
}

static double plain_copy(uint64_t bytes, uint8_t from, uint8_t to)
{
	double a = net.rates[from].link, b = net.rates[to].link;

	if (from == to)
		return 0;
	return has(net.shares[to], from)
		       ? 5e-6
		       : 20e-6 + (double)bytes / (a < b ? a : b);
}

static double plain_cost(uint32_t i, uint8_t dev)
{
	double flops = (double)net.flops[i] / net.rates[dev].flops;
	double bytes = (double)net.moved[i] / net.rates[dev].bytes;
	double cost = flops > bytes ? flops : bytes;
	uint8_t goal = class_of(i) == i ? plain.goal[i] : NO_DEV;

	for (uint32_t s = net.src_at[i]; s < net.src_at[i + 1]; s++) {
		uint32_t c = class_of(net.src[s]);

		if (net.marks[c] & WEIR__MARK_INPUT || plain_there(i, c, dev) ||
		    (s > net.src_at[i] && class_of(net.src[s - 1]) == c))
			continue;
		if (!(net.marks[c] & WEIR__MARK_LEAF)) {
			if (plain.dev[c] != NO_DEV)
				cost += plain_copy(net.bytes[c], plain.dev[c],
						   dev);
		} else if (!has(net.usable[c], dev)) {
			cost += 20e-6 +
				(double)net.bytes[c] / net.rates[dev].link;
		}
	}
	return goal == NO_DEV ? cost
			      : cost + plain_copy(net.bytes[i], dev, goal);
}

static uint8_t plain_base(uint32_t i)
{
	uint8_t base = NO_DEV;
	uint64_t most = 0;

	for (uint32_t s = net.src_at[i]; s < net.src_at[i + 1]; s++) {
		uint32_t c = class_of(net.src[s]);

		if (net.marks[c] & (WEIR__MARK_LEAF | WEIR__MARK_INPUT) ||
		    plain.dev[c] == NO_DEV || !plain.can[i][plain.dev[c]] ||
		    net.bytes[net.src[s]] <= most)
			continue;
		base = plain.dev[c];
		most = net.bytes[net.src[s]];
	}
	for (uint8_t d = 0; base == NO_DEV; d++)
		if (plain.can[i][d])
			base = d;
	return base;
}

static void plain_choose(uint32_t i)
{
	uint8_t base = plain_base(i);

	plain.dev[i] = base;
	for (uint8_t d = 0; d < net.a.n_devs; d++)
		if (plain.can[i][d] &&
		    plain_cost(i, d) < 0.9 * plain_cost(i, base) &&
		    plain_cost(i, d) < plain_cost(i, plain.dev[i]))
			plain.dev[i] = d;
}

/* false: node plain.failed cannot be assigned. */
static bool plain_assign(void)
{
	memset(&plain, 0, sizeof(plain));
	memset(plain.dev, NO_DEV, sizeof(plain.dev));
	for (uint32_t i = 0; i < net.n; i++)
		if (computed(i) && !plain_can(i)) {
			plain.failed = i;
			return false;
		}
	plain_goals();
	for (uint32_t i = 0; i < net.n; i++)
		if (computed(i))
			plain_choose(i);
	return true;
}

static void random_nets(unsigned times)
{
	unsigned wrong_failed = 0, wrong_dev = 0, wrong_cause = 0;
	unsigned well = 0, counts[6] = { 0 };

	while (times--) {
		bool fine;

		random_net();
		fine = assign(net.n - 1) == 0;
		if (fine != plain_assign() ||
		    (!fine && out.failed != plain.failed))
			wrong_failed++;
		for (uint32_t i = 0; fine && i < net.n; i++)
			if (computed(i)) {
				wrong_dev += out.dev[i] != plain.dev[i];
				wrong_cause += out.cause[i] != plain.cause[i];
				counts[out.cause[i]]++;
			}
		well += fine;
		done();
	}
	is_int(wrong_failed, 0,
	       "random: what is refused is what a loop refuses");
	is_int(wrong_dev, 0, "random: the devices are those of a loop");
	is_int(wrong_cause, 0, "random: the causes are those of a loop");
	ok(well > 500 && counts[1] > 100 && counts[2] > 100 &&
		   counts[3] > 100 && counts[4] > 100 && counts[5] > 100,
	   "random: %u nets were assigned, for all causes", well);
}

int main(void)
{
	plan(4 + 4 + 2 + 1 + 3 + 3 + 3 + 1 + 5 + 4 + 4);
	pins();
	weights();
	writes();
	only();
	gain();
	copies_cost();
	on_the_way();
	shared_memory();
	others();
	failures();
	random_nets(3000);
	return 0;
}
