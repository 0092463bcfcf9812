/* SPDX-License-Identifier: MIT */
/* The pass that assigns nodes to devices: each of its rules, on a few nodes. */
#include <errno.h>

#include "net.h"
#include "tap.h"

static void pins(void)
{
	uint32_t x, w, small, pinned, by_leaf, by_larger;

	net_new(3);
	x = net_input(100);
	w = net_leaf(0, 1000);
	small = net_leaf(0, 10);
	pinned = net_op(1, 100, x, w);
	net.pin[pinned] = 2;
	net.pin[w] = 1;
	net.pin[small] = 2;
	by_leaf = net_op(1, 100, pinned, small);
	by_larger = net_op(1, 100, w, small);
	is_int(net_assign(net_op(1, 1, by_leaf, by_larger)), 0,
	       "nodes with pins are assigned");
	ok(net.out.dev[pinned] == 2 &&
		   net.out.cause[pinned] == WEIR_NODE_CAUSE_PINNED,
	   "a node that is pinned is computed there, wherever its weights are");
	ok(net.out.dev[by_leaf] == 2 &&
		   net.out.cause[by_leaf] == WEIR_NODE_CAUSE_PINNED,
	   "the user of a pinned leaf is computed where that is pinned");
	is_int(net.out.dev[by_larger], 1,
	       "of two pinned leaves the larger decides");
	net_done();
}

static void weights(void)
{
	uint32_t x, big, small, a, b, c;

	net_new(2);
	x = net_input(100);
	big = net_leaf(1, 1000);
	small = net_leaf(0, 10);
	a = net_op(1, 100, x, big);
	b = net_op(1, 100, small, big);
	c = net_op(1, 100, a, small);
	net_assign(net_op(1, 1, b, c));
	ok(net.out.dev[a] == 1 && net.out.cause[a] == WEIR_NODE_CAUSE_WEIGHTS,
	   "a node is computed where its weights are");
	is_int(net.out.dev[b], 1, "of two leaves the larger decides");
	ok(net.out.dev[c] == 1 && net.out.cause[c] == WEIR_NODE_CAUSE_COST,
	   "a leaf that is smaller than a result does not decide");
	ok(net.out.dev[big] == 1 && net.out.dev[small] == 0,
	   "a leaf is on the device whose memory has it");
	net_done();
}

static void writes(void)
{
	uint32_t x, cache, write, reader;

	net_new(2);
	x = net_input(5000);
	cache = net_leaf(1, 1000);
	write = net_op(1, 1000, net_op(1, 5000, x, NO_NODE), cache);
	net_write(write, 1);
	reader = net_op(1, 10, write, NO_NODE);
	net_assign(reader);
	ok(net.out.dev[write] == 1 &&
		   net.out.cause[write] == WEIR_NODE_CAUSE_WRITES,
	   "a node that writes a leaf is computed where the leaf is");
	ok(net.out.dev[reader] == 1,
	   "a reader of what was written is computed there too");
	net_done();
}

static void only(void)
{
	uint32_t w, a;

	net_new(3);
	w = net_leaf(0, 1000);
	a = net_op(1, 100, w, NO_NODE);
	net.supports[a] = 4;
	net_assign(a);
	ok(net.out.dev[a] == 2 && net.out.cause[a] == WEIR_NODE_CAUSE_ONLY,
	   "an operation that one device has is computed there");
	net_done();
}

/*
 * The device of an operation that takes device 0 a millisecond, and device 1 is
 * @faster times as fast.
 */
static uint8_t with_rates(double faster)
{
	uint32_t a;
	uint8_t dev;

	net_new(2);
	a = net_op(1000000, 100, net_input(100), NO_NODE);
	net.rates[1].flops *= faster;
	net_assign(a);
	dev = net.out.dev[a];
	net_done();
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

/*
 * The device of a node whose source, of @bytes, is on device 1, and device 0 is
 * @faster times as fast.
 */
static uint8_t after_another(double faster, uint64_t bytes)
{
	uint32_t a, b;
	uint8_t dev;

	net_new(2);
	a = net_op(1, bytes, net_leaf(1, bytes), NO_NODE);
	b = net_op(1000000, 100, a, NO_NODE);
	net.rates[0].flops *= faster;
	net_assign(b);
	dev = net.out.dev[b];
	net_done();
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
	x = net_op(1, 1000, net_leaf(0, 10000), NO_NODE);
	norm = net_op(1000, 1000, x, NO_NODE);
	product = net_op(1000, 1000, norm, net_leaf(1, 10000));
	sum = net_op(1000, 1000, x, product);
	net_assign(net_op(1000, 1000, sum, net_leaf(1, 10000)));
	ok(net.out.dev[x] == 0 && net.out.dev[product] == 1,
	   "both products are where their weights are");
	ok(net.out.dev[sum] == 1, "a sum is computed where its result goes");
	is_int(net.out.dev[norm], 1,
	       "a node that reads what is copied anyway is computed after the copy");
	net_done();
}

static void shared_memory(void)
{
	uint32_t a, b;

	net_new(2);
	net.shares[0] = net.shares[1] = 3;
	a = net_op(1, 100000000, net_leaf(1, 100000000), NO_NODE);
	b = net_op(1000000, 100, a, NO_NODE);
	net.rates[0].flops *= 2;
	net_assign(b);
	is_int(net.out.dev[b], 0,
	       "no copy is counted between devices that share their memory");
	net_done();
}

static void others(void)
{
	uint32_t x, view, file, pinned, never, a;

	net_new(2);
	x = net_input(100);
	file = net_leaf(NO_DEV, 100);
	pinned = net_leaf(NO_DEV, 100);
	net.pin[pinned] = 1;
	a = net_op(1, 100, x, pinned);
	view = net_view(a);
	never = net_op(1, 100, view, NO_NODE);
	net_assign(net_op(1, 100, view, file));
	ok(net.out.dev[x] == 1, "an input is on the device of its first user");
	ok(net.out.dev[view] == 1 &&
		   net.out.cause[view] == WEIR_NODE_CAUSE_NONE,
	   "a view is where the node is that it views");
	ok(net.out.dev[file] == 1,
	   "a leaf of no device's memory is where it is used first");
	ok(net.out.dev[pinned] == 1,
	   "a leaf of no device's memory is where it is pinned");
	is_int(net.out.dev[never], NO_DEV,
	       "a node that is not needed has no device");
	net_done();
}

static void failures(void)
{
	uint32_t a, cache, write;

	net_new(2);
	a = net_op(1, 100, net_input(100), NO_NODE);
	net.supports[a] = 0;
	ok(net_assign(a) == -EOPNOTSUPP && net.out.failed == a &&
		   net.out.why == WEIR__ASSIGN_NO_DEVICE,
	   "an operation that no device has is refused");
	net_done();
	net.supports[a] = 1;
	net.pin[a] = 1;
	ok(net_assign(a) == -EOPNOTSUPP && net.out.failed == a &&
		   net.out.pinned == 1 && net.out.why == WEIR__ASSIGN_PIN_OP,
	   "a pin to a device that does not have the operation is refused");
	net_done();
	net.pin[a] = NO_DEV;
	cache = net_leaf(1, 1000);
	write = net_op(1, 1000, a, cache);
	net_write(write, 1);
	net.pin[write] = 0;
	ok(net_assign(write) == -EOPNOTSUPP && net.out.failed == write &&
		   net.out.pinned == 0 && net.out.why == WEIR__ASSIGN_PIN_LEAF,
	   "a pin of a write to a device that cannot use the leaf is refused");
	net_done();
	net.pin[write] = NO_DEV;
	net.supports[write] = 1;
	ok(net_assign(write) == -EOPNOTSUPP && net.out.failed == write &&
		   net.out.why == WEIR__ASSIGN_NO_WRITER,
	   "a write is refused if no device has the operation and the leaf");
	net_done();
}

int main(void)
{
	plan(4 + 4 + 2 + 1 + 3 + 3 + 3 + 1 + 5 + 4);
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
	return 0;
}
