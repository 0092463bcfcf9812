/* SPDX-License-Identifier: MIT */
/* Arrays of a graph, for tests of the pass that assigns nodes to devices. */
#ifndef T_NET_H
#define T_NET_H

#include "graph/compile/assign.h"
#include "graph/compile/sync.h"

#define NET_MOST 60u
#define NET_EDGES 4u
#define NET_DEVS 4u
#define NO_NODE WEIR__REACH_NONE
#define NO_DEV WEIR__ASSIGN_NONE

extern struct net {
	uint32_t n, src_at[NET_MOST + 1], src[NET_EDGES * NET_MOST],
		of[NET_MOST], writes[NET_MOST];
	uint8_t flags[NET_MOST], marks[NET_MOST], owner[NET_MOST],
		pin[NET_MOST];
	uint64_t supports[NET_MOST], usable[NET_MOST], bytes[NET_MOST],
		moved[NET_MOST], flops[NET_MOST], shares[NET_DEVS];
	struct weir__span span[NET_MOST];
	struct weir_rates rates[NET_DEVS];
	struct weir__reach_in in;
	struct weir__reach reach;
	struct weir__assign_in a;
	struct weir__assign out;
} net;

/*
 * @n devices: a GFLOP, a GB and a link of a GB in a second, memory of their
 * own.
 */
void net_new(uint32_t n);
/* A node that all devices support, with marks and flags of passes. */
uint32_t net_add(uint8_t marks, uint8_t flags, uint64_t bytes);
/* A leaf in memory of @owner, which no other device uses; NO_DEV: of none. */
uint32_t net_leaf(uint8_t owner, uint64_t bytes);
uint32_t net_input(uint64_t bytes);
uint32_t net_view(uint32_t of);
/* An operation of @flops; its sources, of which NO_NODE is none. */
uint32_t net_op(uint64_t flops, uint64_t bytes, uint32_t a, uint32_t b);
/* Node @i writes its source @s, which is a leaf or in one. */
void net_write(uint32_t i, uint32_t s);
/* The pass, for what @root needs: its result, and net.out. */
int net_assign(uint32_t root);
void net_done(void);

#endif
