/* SPDX-License-Identifier: MIT */
/*
 * The pass that assigns nodes to devices, on random arrays: the same answers by
 * plain loops.
 */
#include <string.h>

#include "net.h"
#include "tap.h"

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
	uint32_t i = net_leaf(upto(4) ? (uint8_t)upto(net.a.n_devs) : NO_DEV,
			      1 + upto(3000000));

	net.usable[i] = random_mask();
	if (net.owner[i] != NO_DEV && upto(3))
		net.usable[i] |= UINT64_C(1) << net.owner[i];
	if (!upto(8))
		net.pin[i] = (uint8_t)upto(net.a.n_devs);
	if (!upto(6)) {
		net.marks[i] |= WEIR__MARK_CONSTANT;
		net.usable[i] &= random_mask();
	}
}

static uint32_t class_of(uint32_t i)
{
	while (net.of[i] != i)
		i = net.of[i];
	return i;
}

static void random_op(void)
{
	uint32_t had = net.n;
	uint32_t i = net_op(upto(3000000), 1 + upto(3000000), upto(had),
			    upto(3) ? upto(had) : NO_NODE);
	uint32_t target = net.src[net.src_at[i]];

	net.moved[i] = upto(3000000);
	if (upto(2))
		net.supports[i] = random_mask();
	if (!upto(10))
		net.pin[i] = (uint8_t)upto(net.a.n_devs);
	if (!upto(12))
		net.flags[i] |= WEIR__REACH_NO_WORK;
	if (!upto(6) && net.marks[class_of(target)] & WEIR__MARK_LEAF)
		net_write(i, 0);
	if (!upto(5))
		net.flags[i] |= WEIR__REACH_ROOT;
}

static void random_net(void)
{
	uint32_t n = 2 + upto(NET_MOST - 2);

	net_new(1 + upto(NET_DEVS));
	for (uint32_t d = 0; d < net.a.n_devs; d++) {
		net.rates[d].flops *= 1 + upto(4);
		net.rates[d].bytes *= 1 + upto(4);
		net.rates[d].link *= 1 + upto(4);
		net.shares[d] |= random_mask() & random_mask();
	}
	net_input(1 + upto(3000000));
	random_leaf();
	while (net.n < n)
		if (!upto(5))
			random_leaf();
		else if (!upto(6))
			net_view(upto(net.n));
		else if (!upto(9))
			net_input(1 + upto(3000000));
		else
			random_op();
}

static bool computed(uint32_t i)
{
	return net.reach.needed[i] && !(net.flags[i] & WEIR__REACH_NO_WORK);
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
	bool can[NET_MOST][NET_DEVS];
	uint8_t cause[NET_MOST], goal[NET_MOST], dev[NET_MOST];
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

/* True if another node than @i needs @class on @dev anyway. */
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
		} else if (!has(net.usable[c], dev) &&
			   !(net.marks[c] & WEIR__MARK_CONSTANT)) {
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
		fine = net_assign(net.n - 1) == 0;
		if (fine != plain_assign() ||
		    (!fine && net.out.failed != plain.failed))
			wrong_failed++;
		for (uint32_t i = 0; fine && i < net.n; i++)
			if (computed(i)) {
				wrong_dev += net.out.dev[i] != plain.dev[i];
				wrong_cause += net.out.cause[i] !=
					       plain.cause[i];
				counts[net.out.cause[i]]++;
			}
		well += fine;
		net_done();
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
	plan(4);
	random_nets(3000);
	return 0;
}
