/* SPDX-License-Identifier: MIT */
/*
 * The copies of a plan: how many runs can be under way. A run has one until it
 * is released or dropped, so an exception at any moment returns it.
 */
#include "glue.h"
#include <stdlib.h>
#include <time.h>

int glue_copies_new(struct glue_plan *plan, unsigned n)
{
	if (sem_init(&plan->free, 0, n) < 0)
		return -errno;
	plan->copy = calloc(n, sizeof(*plan->copy));
	if (!plan->copy)
		return -ENOMEM;
	for (; plan->copies < n; plan->copies++) {
		int r = weir_run_new(plan->exec, &plan->copy[plan->copies].run);

		if (r < 0)
			return r;
	}
	return 0;
}

void glue_copies_free(struct glue_plan *plan)
{
	for (unsigned i = 0; i < plan->copies; i++) {
		struct glue_copy *copy = &plan->copy[i];

		weir_event_free(copy->end);
		weir_run_free(copy->run);
		Py_XDECREF(copy->keep);
	}
	free(plan->copy);
	plan->copy = NULL;
	plan->copies = 0;
}

/* The number of this thread. Values of pthread_self() are used again. */
static uint64_t this_thread(void)
{
	static _Thread_local uint64_t self;
	static _Atomic uint64_t last;

	if (!self)
		self = ++last;
	return self;
}

/* True if this thread has all copies: it would wait for itself. */
static bool has_all(const struct glue_plan *plan)
{
	uint64_t self = this_thread();

	for (unsigned i = 0; i < plan->copies; i++)
		if (!plan->copy[i].taken || plan->copy[i].thread != self)
			return false;
	return true;
}

struct turn {
	sem_t *free;
	bool got;
};

static int attempt_turn(void *arg, int64_t ns)
{
	struct turn *turn = arg;
	struct timespec end;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_nsec += ns;
	end.tv_sec += end.tv_nsec / 1000000000;
	end.tv_nsec %= 1000000000;
	turn->got = sem_timedwait(turn->free, &end) == 0;
	return turn->got ? 0 : -ETIMEDOUT;
}

/* Decrement the number of free copies; -1 with an exception. */
static int wait_turn(struct glue_plan *plan, bool block)
{
	struct turn turn = { .free = &plan->free };

	if (sem_trywait(&plan->free) == 0)
		return 0;
	if (!block || has_all(plan)) {
		glue_fail_text(
			-EAGAIN,
			"all copies of the plan are taken by other runs: "
			"fetch their results, or compile with more "
			"copies");
		return -1;
	}
	if (glue_wait(attempt_turn, &turn, -1) != GLUE_INTERRUPTED)
		return 0;
	if (turn.got)
		sem_post(&plan->free);
	return -1;
}

struct glue_copy *glue_copy_take(struct glue_plan *plan, bool block)
{
	struct glue_copy *copy = plan->copy;

	if (wait_turn(plan, block) < 0)
		return NULL;
	if (plan->closed) {
		/* Those that wait wake up, one after another. */
		sem_post(&plan->free);
		glue_fail_text(-EBADF, "the plan was closed");
		return NULL;
	}
	while (copy->taken)
		copy++;
	copy->taken = true;
	copy->thread = this_thread();
	return copy;
}

void glue_copy_give(struct glue_plan *plan, struct glue_copy *copy)
{
	if (copy->running)
		weir_run_cancel(copy->run);
	copy->taken = false;
	sem_post(&plan->free);
}
