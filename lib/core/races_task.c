/* SPDX-License-Identifier: MIT */
/* The race checker: work that learns of others while it runs. */
#include "core/races_in.h"

void weir__races_task_begin(struct weir__races_task *task,
			    struct weir__source *src, uint64_t number)
{
	struct weir__races *r = weir__races_enter(src->weir);
	struct weir__races_actor *a;

	task->src = NULL;
	if (!r)
		return;
	a = weir__races_actor(r, src);
	if (a) {
		task->src = src;
		task->number = number;
		task->clock = weir__clock_ref(weir__races_now(a));
	}
	weir__races_leave(r);
}

void weir__races_task_knows(struct weir__races_task *task,
			    struct weir__source *other, uint64_t number)
{
	struct weir__races *r =
		task->src ? weir__races_enter(task->src->weir) : NULL;

	if (!r)
		return;
	if (task->src != other)
		weir__races_learn(r, &task->clock, weir__races_actor(r, other),
				  number);
	weir__races_leave(r);
}

void weir__races_task_access(struct weir__races_task *task, const char *what,
			     const struct weir__races_bytes *bytes)
{
	struct weir__races *r =
		task->src ? weir__races_enter(task->src->weir) : NULL;
	struct weir__races_by by = { .number = task->number,
				     .what = what,
				     .bytes = bytes,
				     .clock = &task->clock };

	if (!r)
		return;
	by.actor = weir__races_actor(r, task->src);
	weir__races_check(r, &by);
	weir__races_leave(r);
}

void weir__races_task_call_begin(struct weir__races_task *task)
{
	struct weir__races *r =
		task->src ? weir__races_enter(task->src->weir) : NULL;

	if (!r)
		return;
	weir__races_host_learn(r, weir__races_actor(r, task->src),
			       task->number - 1);
	weir__races_host_join(r, task->clock);
	weir__races_leave(r);
}

void weir__races_task_call_end(struct weir__races_task *task)
{
	struct weir__races *r =
		task->src ? weir__races_enter(task->src->weir) : NULL;

	if (!r)
		return;
	weir__clock_join(&r->clocks, &task->clock, r->host);
	weir__races_leave(r);
}

void weir__races_task_end(struct weir__races_task *task)
{
	struct weir__races *r;

	if (!task->src)
		return;
	r = task->src->weir->races;
	pthread_mutex_lock(&r->lock);
	weir__races_actor_join(r, weir__races_actor(r, task->src), task->number,
			       task->clock);
	weir__clock_put(task->clock);
	task->src = NULL;
	task->clock = NULL;
	pthread_mutex_unlock(&r->lock);
}
