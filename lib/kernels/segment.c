/* SPDX-License-Identifier: MIT */
/*
 * Segments are prepared and run. README.md, "How a node is computed", has the
 * whole in words.
 */
#include "kernels/segment.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/team.h"

#define lib weir__cpu_host

/* A node, and how it is computed. */
struct planned_node {
	const struct weir__kernel *kernel;
	const struct weir_backend_node *node;
	struct weir__kernel_plan plan;
	size_t counter; /* index of its first phase's counter in a run; those of
			   its other phases follow */
	size_t group_end; /* if the node has one part: the next node that has
			     several parts, or the end of the segment */
};

/* Constant after weir__segment_prepare(), so several runs may share it. */
struct weir__segment_cpu {
	size_t n, counters;
	struct weir__team *team;
	unsigned threads; /* most members of the team in a run */
	size_t scratch, shared;
	struct planned_node nodes[];
};

/*
 * One run, on the stack of the thread that started it. A turn ends with a
 * barrier: it is a phase, or a group of neighbouring nodes that have one part
 * each. No thread is more than one turn ahead of another.
 */
struct segment_run {
	const struct weir__segment_cpu *segment;
	struct weir_backend_compute *compute;
	size_t first, end;
	/* The next part to compute of each phase; in the workspace. */
	_Atomic uint32_t *counter;
	unsigned char *shared, *scratch;
	/*
	 * The run ends after this turn. A thread stores the number of its own
	 * turn before it arrives at the turn's barrier. So all threads agree
	 * after the barrier of turn t whether the run ends: if last <= t.
	 */
	_Atomic uint64_t last;
	_Atomic uint32_t failing; /* 1 when a thread stores the error */
	int err;
	size_t failed;
	char why[WEIR__WHY];
};

/* A member of the team in a run. */
struct run_member {
	struct segment_run *run;
	uint64_t turn;
	unsigned index; /* in the team */
	unsigned char *scratch;
	char why[WEIR__WHY];
};

int weir__kernel_supports(const struct weir_backend_node *node)
{
	const struct weir__kernel *kernel = weir__kernel_find(node->op);

	if (!kernel)
		return lib->fail(-EOPNOTSUPP,
				 "CPU: operation %u of '%s': no kernel",
				 node->op, node->name ? node->name : "");
	return kernel->supports ? kernel->supports(node) : 0;
}

bool weir__kernel_takes_reader(const struct weir_backend_node *node)
{
	const struct weir__kernel *kernel = weir__kernel_find(node->op);

	return kernel && kernel->takes_reader && kernel->takes_reader(node);
}

/*
 * Sizes that plans compute do not overflow for tensors of at most 2^48
 * elements.
 */
#define MOST_ELEMENTS (INT64_C(1) << 48)

/*
 * mul_mat_id may use a row of b for many ids. The row is a column for each of
 * them, with memory of its own if columns are prepared. The number of matrices
 * must be limited too, because matrices may have no elements.
 */
static int check_columns(const struct weir_backend_node *node)
{
	int64_t columns = weir__rows(&node->dst), n;
	int64_t k = weir__dim(&node->src[0], 0);
	int64_t matrices = weir__dim(&node->src[0], 2);

	if (!__builtin_mul_overflow(columns, k, &n) && n <= MOST_ELEMENTS &&
	    matrices <= MOST_ELEMENTS)
		return 0;
	return lib->fail(
		-EOVERFLOW,
		"CPU: node %llu: %lld columns of %lld elements for %lld matrices: over 2^48",
		(unsigned long long)node->index, (long long)columns,
		(long long)k, (long long)matrices);
}

static int check_sizes(const struct weir_backend_node *node)
{
	bool over = weir__elements(&node->dst) > MOST_ELEMENTS;

	for (uint32_t i = 0; i < node->n_src; i++)
		over |= weir__elements(&node->src[i]) > MOST_ELEMENTS;
	if (over)
		return lib->fail(
			-EOVERFLOW,
			"CPU: node %llu: a tensor of over 2^48 elements",
			(unsigned long long)node->index);
	return node->op == WEIR_OP_MUL_MAT_ID ? check_columns(node) : 0;
}

static int plan_node(struct weir__segment_cpu *s, size_t i,
		     const struct weir_backend_node *node)
{
	struct planned_node *planned = &s->nodes[i];
	struct weir__kernel_plan *plan = &planned->plan;
	int r = weir__kernel_supports(node);

	if (r >= 0)
		r = check_sizes(node);
	if (r < 0)
		return r;
	planned->kernel = weir__kernel_find(node->op);
	planned->node = node;
	plan->phases = plan->parts = 1;
	planned->kernel->plan(node, s->threads, plan);
	planned->counter = s->counters;
	s->counters += plan->phases;
	if (s->scratch < weir__line_up(plan->scratch))
		s->scratch = weir__line_up(plan->scratch);
	if (s->shared < weir__line_up(plan->shared))
		s->shared = weir__line_up(plan->shared);
	return 0;
}

/*
 * Find the groups: neighbouring nodes of one part need no barrier between them.
 */
static void find_groups(struct weir__segment_cpu *s)
{
	size_t until = s->n;

	for (size_t i = s->n; i-- > 0;) {
		s->nodes[i].group_end = until;
		if (s->nodes[i].plan.parts > 1)
			until = i;
	}
}

/* Only the scratch memory of all threads together may be 2^62 bytes or more. */
static int workspace_of(const struct weir__segment_cpu *s, size_t *ret)
{
	size_t n = WEIR__LINE - 1 +
		   weir__line_up(s->counters * sizeof(uint32_t)) + s->shared;
	size_t all;

	if (__builtin_mul_overflow(s->scratch, (size_t)s->threads, &all) ||
	    __builtin_add_overflow(n, all, &n))
		return lib->fail(
			-EOVERFLOW,
			"CPU: %u threads need %zu bytes each: use fewer threads",
			s->threads, s->scratch);
	*ret = n;
	return 0;
}

int weir__segment_prepare(struct weir__team *team,
			  const struct weir_backend_node *const *nodes,
			  size_t n, struct weir__segment_cpu **ret_segment,
			  size_t *ret_workspace)
{
	struct weir__segment_cpu *s = NULL;
	int r;

	if (n <= (SIZE_MAX - sizeof(*s)) / sizeof(s->nodes[0]))
		s = lib->calloc(1, sizeof(*s) + n * sizeof(s->nodes[0]));
	if (!s)
		return lib->fail(-ENOMEM,
				 "no memory for a segment of %zu nodes", n);
	s->n = n;
	s->team = team;
	s->threads = weir__team_size(team);
	for (size_t i = 0; i < n; i++) {
		r = plan_node(s, i, nodes[i]);
		if (r < 0) {
			lib->free(s);
			return r;
		}
	}
	find_groups(s);
	r = workspace_of(s, ret_workspace);
	if (r < 0)
		lib->free(s);
	else
		*ret_segment = s;
	return r;
}

void weir__segment_release(struct weir__segment_cpu *segment)
{
	lib->free(segment);
}

/* Store an error of @node, unless the run has one already. */
static void run_fail(struct run_member *m, const struct planned_node *node,
		     int err)
{
	struct segment_run *run = m->run;
	uint32_t none = 0;

	if (!atomic_compare_exchange_strong(&run->failing, &none, 1))
		return;
	run->err = err;
	run->failed = (size_t)(node - run->segment->nodes);
	memcpy(run->why, m->why, sizeof(run->why));
}

/* True if the run is to be stopped: this turn is then its last. */
static bool run_stops(struct run_member *m)
{
	const uint32_t *stop = m->run->compute->stop;

	if (!stop || !__atomic_load_n(stop, __ATOMIC_RELAXED))
		return false;
	m->why[0] = '\0';
	run_fail(m, m->run->segment->nodes, -ECANCELED);
	atomic_store(&m->run->last, m->turn);
	return true;
}

/* Compute a part. False if it failed: the run ends then. */
static bool part_run(struct run_member *m, const struct planned_node *node,
		     uint32_t phase, uint32_t part)
{
	struct weir__kernel_run k = { .node = node->node,
				      .plan = &node->plan,
				      .phase = phase,
				      .part = part,
				      .thread = m->index,
				      .threads = m->run->segment->threads,
				      .scratch = m->scratch,
				      .shared = m->run->shared,
				      .why = m->why,
				      .stop = m->run->compute->stop };
	int r = node->kernel->run(&k);

	if (r >= 0)
		return true;
	run_fail(m, node, r);
	atomic_store(&m->run->last, m->turn);
	return false;
}

static uint32_t part_take(struct segment_run *run, size_t counter)
{
	return atomic_fetch_add_explicit(&run->counter[counter], 1,
					 memory_order_relaxed);
}

/* A turn for a group: the first thread that comes computes all of its nodes. */
static void group_run(struct run_member *m, size_t first, size_t end)
{
	const struct planned_node *nodes = m->run->segment->nodes;

	if (part_take(m->run, nodes[first].counter))
		return;
	for (size_t i = first; i < end; i++) {
		if (run_stops(m))
			return;
		for (uint32_t phase = 0; phase < nodes[i].plan.phases; phase++)
			if (!part_run(m, &nodes[i], phase, 0))
				return;
	}
}

/* A turn for a phase: each thread takes parts until none is left. */
static void phase_run(struct run_member *m, const struct planned_node *node,
		      uint32_t phase)
{
	uint32_t part;

	while ((part = part_take(m->run, node->counter + phase)) <
	       node->plan.parts)
		if (run_stops(m) || !part_run(m, node, phase, part))
			return;
}

/* Wait for the other threads at the end of a turn. False if the run ends. */
static bool turn_end(struct run_member *m)
{
	weir__team_barrier(m->run->segment->team);
	return atomic_load(&m->run->last) > m->turn++;
}

/*
 * Compute a node of several parts. False if the run ends. @last: the last node.
 */
static bool phases_run(struct run_member *m, const struct planned_node *node,
		       bool last)
{
	for (uint32_t phase = 0; phase < node->plan.phases; phase++) {
		phase_run(m, node, phase);
		if (last && phase + 1 == node->plan.phases)
			return false;
		if (!turn_end(m))
			return false;
	}
	return true;
}

/* What a member of the team does in a run: all turns. */
static void member_run(void *arg, unsigned index, unsigned count)
{
	struct segment_run *run = arg;
	struct run_member m = { .run = run,
				.index = index,
				.scratch = run->scratch +
					   index * run->segment->scratch };

	(void)count;
	for (size_t i = run->first; i < run->end;) {
		const struct planned_node *node = &run->segment->nodes[i];
		size_t next = i + 1;

		if (node->plan.parts > 1) {
			if (!phases_run(&m, node, next == run->end))
				return;
		} else {
			next = node->group_end < run->end ? node->group_end
							  : run->end;
			group_run(&m, i, next);
			if (next == run->end || !turn_end(&m))
				return;
		}
		i = next;
	}
}

/*
 * Divide the workspace: counters, shared memory, scratch memory of each thread.
 */
static void run_lay_out(struct segment_run *run)
{
	const struct weir__segment_cpu *s = run->segment;
	uintptr_t at = (uintptr_t)run->compute->workspace;
	unsigned char *p = run->compute->workspace;
	size_t from, to;

	p += weir__line_up(at) - at;
	run->counter = (_Atomic uint32_t *)(void *)p;
	run->shared = p + weir__line_up(s->counters * sizeof(uint32_t));
	run->scratch = run->shared + s->shared;
	from = run->first < s->n ? s->nodes[run->first].counter : s->counters;
	to = run->end < s->n ? s->nodes[run->end].counter : s->counters;
	memset(p + from * sizeof(uint32_t), 0, (to - from) * sizeof(uint32_t));
}

/* One thread computes a single group; no other thread is woken for it. */
static unsigned most_threads(const struct segment_run *run)
{
	const struct weir__segment_cpu *s = run->segment;
	const struct planned_node *first = &s->nodes[run->first];

	return run->first < run->end && first->plan.parts == 1 &&
			       first->group_end >= run->end
		       ? 1
		       : s->threads;
}

int weir__segment_run(struct weir_backend_compute *compute)
{
	const struct weir__segment_cpu *s = compute->prepared;
	struct segment_run run = { .segment = s,
				   .compute = compute,
				   .first = compute->first,
				   .end = compute->first + compute->n,
				   .last = UINT64_MAX };

	run_lay_out(&run);
	weir__team_run(s->team, most_threads(&run), member_run, &run);
	if (run.why[0] && WEIR_BACKEND_HAS(compute, why)) {
		compute->failed = run.failed;
		memcpy(compute->why, run.why, sizeof(compute->why));
	}
	return run.err;
}
