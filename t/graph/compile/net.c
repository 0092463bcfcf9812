/* SPDX-License-Identifier: MIT */
#include "net.h"

#include <string.h>

#include "tap.h"

struct net net;

void net_new(uint32_t n)
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

uint32_t net_add(uint8_t marks, uint8_t flags, uint64_t bytes)
{
	uint32_t i = net.n++;

	net.src_at[i + 1] = net.src_at[i];
	net.of[i] = i;
	net.writes[i] = NO_NODE;
	net.marks[i] = marks;
	net.flags[i] = flags;
	net.owner[i] = net.pin[i] = NO_DEV;
	net.usable[i] = UINT64_MAX;
	net.supports[i] = (UINT64_C(1) << net.a.n_devs) - 1;
	net.bytes[i] = bytes;
	net.in.n = net.n;
	return i;
}

uint32_t net_leaf(uint8_t owner, uint64_t bytes)
{
	uint32_t i = net_add(WEIR__MARK_LEAF, WEIR__REACH_NO_WORK, bytes);

	net.owner[i] = owner;
	if (owner != NO_DEV)
		net.usable[i] = UINT64_C(1) << owner;
	net.span[i].lo = 1 + (uint64_t)i * 1000;
	net.span[i].hi = net.span[i].lo + 1000;
	return i;
}

uint32_t net_input(uint64_t bytes)
{
	return net_add(WEIR__MARK_INPUT, WEIR__REACH_NO_WORK, bytes);
}

uint32_t net_view(uint32_t of)
{
	uint32_t i = net_add(0, WEIR__REACH_NO_WORK, net.bytes[of]);

	net.src[net.src_at[i + 1]++] = of;
	net.of[i] = of;
	net.span[i] = net.span[of];
	return i;
}

uint32_t net_op(uint64_t flops, uint64_t bytes, uint32_t a, uint32_t b)
{
	uint32_t i = net_add(0, 0, bytes), *at = &net.src_at[i + 1];

	net.flops[i] = flops;
	if (a != NO_NODE)
		net.src[(*at)++] = a;
	if (b != NO_NODE)
		net.src[(*at)++] = b;
	return i;
}

void net_write(uint32_t i, uint32_t s)
{
	uint32_t source = net.src[net.src_at[i] + s];

	net.writes[i] = s;
	net.of[i] = source;
	net.span[i] = net.span[source];
	net.flags[i] |= WEIR__REACH_ROOT;
}

int net_assign(uint32_t root)
{
	net.flags[root] |= WEIR__REACH_ROOT;
	if (weir__reach(&net.in, &net.reach) < 0)
		bail("%s", weir_error());
	return weir__assign(&net.a, &net.out);
}

void net_done(void)
{
	weir__assign_free(&net.out);
	weir__reach_free(&net.reach);
}
