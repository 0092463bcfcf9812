/* SPDX-License-Identifier: MIT */
/*
 * Segments: nodes and their plans, and runs of them. README.md has a node's way.
 */
#include "kernels/compute.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/team.h"

#define lib weir__cpu_host

/* A node and how it is computed. */
struct step {
	const struct weir__kernel *kernel;
	const struct weir_backend_node *node;
	struct weir__kernel_plan plan;
	size_t counter; /* of its first phase; the other phases' follow */
	size_t until;   /* the first node after it that has several parts, or
			   the end; only if it has one */
};

/* Constant from prepare on: several runs may use it at once. */
struct weir__segment_cpu {
	size_t n, counters;
	struct weir__team *team;
	unsigned threads; /* at most, in a run */
	size_t scratch, shared;
	struct step step[];
};

/*
 * One run, on the stack of the thread that started it. A turn is what ends with
 * a barrier: a phase, or a group of nodes with one part each. No thread is more
 * than one turn ahead of another.
 */
struct run {
	const struct weir__segment_cpu *segment;
	struct weir_backend_compute *compute;
	size_t first, end;
	/* In the workspace: the next part of a phase. 0 when the run begins. */
	_Atomic uint32_t *counter;
	unsigned char *shared, *scratch;
	/*
	 * The turn after which the run ends. A thread stores the number of its
	 * own turn before it arrives at the turn's barrier, so after the barrier
	 * of turn t all threads agree whether it is at most t.
	 */
	_Atomic uint64_t last;
	_Atomic uint32_t failing; /* 1: a thread has stored the error */
	int err;
	size_t failed;
	char why[WEIR__WHY];
};

/* A thread of a run. */
struct thread {
	struct run *run;
	uint64_t turn;
	unsigned index; /* in the team */
	unsigned char *scratch;
	char why[WEIR__WHY];
};

int weir__compute_supports(const struct weir_backend_node *node)
{
	const struct weir__kernel *kernel = weir__kernel_find(node->op);

	if (!kernel)
		return lib->fail(-EOPNOTSUPP,
				 "CPU: operation %u of '%s': no kernel",
				 node->op, node->name ? node->name : "");
	return kernel->supports ? kernel->supports(node) : 0;
}

bool weir__compute_takes_provider(const struct weir_backend_node *node)
{
	const struct weir__kernel *kernel = weir__kernel_find(node->op);

	return kernel && kernel->takes_provider && kernel->takes_provider(node);
}

/* With at most so many elements the sizes that plans compute do not overflow. */
#define MOST_ELEMENTS (INT64_C(1) << 48)

/*
 * mul_mat_id may use a row of b for many ids. It counts as a column for each of
 * them, with memory of its own if columns are prepared. The number of matrices has
 * to be small even if they have no elements.
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
	struct step *step = &s->step[i];
	int r = weir__compute_supports(node);

	if (r >= 0)
		r = check_sizes(node);
	if (r < 0)
		return r;
	step->kernel = weir__kernel_find(node->op);
	step->node = node;
	step->plan.phases = step->plan.parts = 1;
	step->kernel->plan(node, s->threads, &step->plan);
	step->counter = s->counters;
	s->counters += step->plan.phases;
	if (s->scratch < weir__line_up(step->plan.scratch))
		s->scratch = weir__line_up(step->plan.scratch);
	if (s->shared < weir__line_up(step->plan.shared))
		s->shared = weir__line_up(step->plan.shared);
	return 0;
}

/* Nodes of one part that follow each other run without a barrier between. */
static void group_nodes(struct weir__segment_cpu *s)
{
	size_t until = s->n;

	for (size_t i = s->n; i-- > 0;) {
		s->step[i].until = until;
		if (s->step[i].plan.parts > 1)
			until = i;
	}
}

/* Each term is under 2^62; only what all threads need together may be more. */
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

int weir__compute_prepare(struct weir__team *team,
			  const struct weir_backend_node *const *nodes,
			  size_t n, struct weir__segment_cpu **ret_segment,
			  size_t *ret_workspace)
{
	struct weir__segment_cpu *s = NULL;
	int r;

	if (n <= (SIZE_MAX - sizeof(*s)) / sizeof(s->step[0]))
		s = lib->calloc(1, sizeof(*s) + n * sizeof(s->step[0]));
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
	group_nodes(s);
	r = workspace_of(s, ret_workspace);
	if (r < 0)
		lib->free(s);
	else
		*ret_segment = s;
	return r;
}

void weir__compute_release(struct weir__segment_cpu *segment)
{
	lib->free(segment);
}

/* The first error of a run is kept. */
static void run_fail(struct thread *t, const struct step *step, int err)
{
	struct run *run = t->run;
	uint32_t none = 0;

	if (!atomic_compare_exchange_strong(&run->failing, &none, 1))
		return;
	run->err = err;
	run->failed = (size_t)(step - run->segment->step);
	memcpy(run->why, t->why, sizeof(run->why));
}

/* Is the run to be stopped? Then this turn is its last. */
static bool run_stops(struct thread *t)
{
	const _Atomic uint32_t *stop = t->run->compute->stop;

	if (!stop || !atomic_load_explicit(stop, memory_order_relaxed))
		return false;
	t->why[0] = '\0';
	run_fail(t, t->run->segment->step, -ECANCELED);
	atomic_store(&t->run->last, t->turn);
	return true;
}

/* false: the run ends. */
static bool part_run(struct thread *t, const struct step *step, uint32_t phase,
		     uint32_t part)
{
	struct weir__kernel_run k = { .node = step->node,
				      .plan = &step->plan,
				      .phase = phase,
				      .part = part,
				      .thread = t->index,
				      .threads = t->run->segment->threads,
				      .scratch = t->scratch,
				      .shared = t->run->shared,
				      .why = t->why,
				      .stop = t->run->compute->stop };
	int r = step->kernel->run(&k);

	if (r >= 0)
		return true;
	run_fail(t, step, r);
	atomic_store(&t->run->last, t->turn);
	return false;
}

static uint32_t part_take(struct run *run, size_t counter)
{
	return atomic_fetch_add_explicit(&run->counter[counter], 1,
					 memory_order_relaxed);
}

/* A turn of one thread: nodes of one part. */
static void group_run(struct thread *t, size_t first, size_t end)
{
	const struct step *step = t->run->segment->step;

	if (part_take(t->run, step[first].counter))
		return;
	for (size_t i = first; i < end; i++) {
		if (run_stops(t))
			return;
		for (uint32_t phase = 0; phase < step[i].plan.phases; phase++)
			if (!part_run(t, &step[i], phase, 0))
				return;
	}
}

/* A turn of all threads. */
static void phase_run(struct thread *t, const struct step *step, uint32_t phase)
{
	uint32_t part;

	while ((part = part_take(t->run, step->counter + phase)) <
	       step->plan.parts)
		if (run_stops(t) || !part_run(t, step, phase, part))
			return;
}

/* After a turn, unless it was the last of all: does the run go on? */
static bool turn_end(struct thread *t)
{
	weir__team_barrier(t->run->segment->team);
	return atomic_load(&t->run->last) > t->turn++;
}

/* A node whose phases have several parts; false: the run ends. */
static bool phases_run(struct thread *t, const struct step *step, bool last)
{
	for (uint32_t phase = 0; phase < step->plan.phases; phase++) {
		phase_run(t, step, phase);
		if (last && phase + 1 == step->plan.phases)
			return false;
		if (!turn_end(t))
			return false;
	}
	return true;
}

/* Each thread of the team calls it. */
static void thread_run(void *arg, unsigned index, unsigned count)
{
	struct run *run = arg;
	struct thread t = { .run = run,
			    .index = index,
			    .scratch = run->scratch +
				       index * run->segment->scratch };

	(void)count;
	for (size_t i = run->first; i < run->end;) {
		const struct step *step = &run->segment->step[i];
		size_t next = i + 1;

		if (step->plan.parts > 1) {
			if (!phases_run(&t, step, next == run->end))
				return;
		} else {
			next = step->until < run->end ? step->until : run->end;
			group_run(&t, i, next);
			if (next == run->end || !turn_end(&t))
				return;
		}
		i = next;
	}
}

/* The workspace: counters, what is shared, and the threads' own parts. */
static void run_lay_out(struct run *run)
{
	const struct weir__segment_cpu *s = run->segment;
	uintptr_t at = (uintptr_t)run->compute->workspace;
	unsigned char *p = run->compute->workspace;
	size_t from, to;

	p += weir__line_up(at) - at;
	run->counter = (_Atomic uint32_t *)(void *)p;
	run->shared = p + weir__line_up(s->counters * sizeof(uint32_t));
	run->scratch = run->shared + s->shared;
	from = run->first < s->n ? s->step[run->first].counter : s->counters;
	to = run->end < s->n ? s->step[run->end].counter : s->counters;
	memset(p + from * sizeof(uint32_t), 0, (to - from) * sizeof(uint32_t));
}

/* Nodes of one part each need no other thread to be woken. */
static unsigned run_threads(const struct run *run)
{
	const struct weir__segment_cpu *s = run->segment;
	const struct step *first = &s->step[run->first];

	return run->first < run->end && first->plan.parts == 1 &&
			       first->until >= run->end
		       ? 1
		       : s->threads;
}

int weir__compute_run(struct weir_backend_compute *compute)
{
	const struct weir__segment_cpu *s = compute->prepared;
	struct run run = { .segment = s,
			   .compute = compute,
			   .first = compute->first,
			   .end = compute->first + compute->n,
			   .last = UINT64_MAX };

	run_lay_out(&run);
	weir__team_run(s->team, run_threads(&run), thread_run, &run);
	if (run.why[0] && WEIR_BACKEND_HAS(compute, why)) {
		compute->failed = run.failed;
		memcpy(compute->why, run.why, sizeof(compute->why));
	}
	return run.err;
}
