/* SPDX-License-Identifier: MIT */
/* Teams of threads: the library's, and those of a function of the program. */
#include "cpu/cpu.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weir.h>

#include "tap.h"

#define ROUNDS 3000u
#define MOST 8u

static struct weir *root;

static struct weir__team *team_of(uint32_t n)
{
	struct weir_threads threads = { .size = sizeof(threads), .count = n };
	struct weir__team *team;

	if (weir__team_new(root, &threads, (struct weir__share){ 0, 1 },
			   &team) < 0)
		bail("%s", weir_error());
	return team;
}

/* What the members of a run saw. */
struct seen {
	struct weir__team *team;
	unsigned count, rounds;
	unsigned came[MOST]; /* by its index */
	unsigned value[MOST];
	_Atomic unsigned wrong;
};

static void come(void *arg, unsigned index, unsigned count)
{
	struct seen *seen = arg;

	seen->came[index]++;
	if (index == 0)
		seen->count = count;
}

static unsigned times(const struct seen *seen, unsigned n)
{
	unsigned right = 0;

	for (unsigned i = 0; i < MOST; i++)
		right += seen->came[i] == (i < n);
	return right == MOST;
}

/* Each member reads what all others wrote before the barrier. */
static void pass_round(void *arg, unsigned index, unsigned count)
{
	struct seen *seen = arg;

	for (unsigned k = 1; k <= seen->rounds; k++) {
		seen->value[index] = k;
		weir__team_barrier(seen->team);
		for (unsigned i = 0; i < count; i++)
			if (seen->value[i] != k)
				atomic_fetch_add(&seen->wrong, 1);
		weir__team_barrier(seen->team);
	}
	come(arg, index, count);
}

static void each_member_runs_once(void)
{
	for (unsigned n = 1; n <= MOST; n += n) {
		struct weir__team *team = team_of(n);
		struct seen seen = { .team = team };

		weir__team_run(team, 0, come, &seen);
		ok(seen.count == n && times(&seen, n),
		   "each member of a team of %u runs once", n);
		weir__team_free(team);
	}
}

static void a_run_has_at_most_the_members_asked_for(void)
{
	struct weir__team *team = team_of(4);
	struct seen seen = { .team = team };

	weir__team_run(team, 2, come, &seen);
	ok(seen.count == 2 && times(&seen, 2),
	   "a run of at most 2 members has 2, though the team has 4");
	weir__team_free(team);
}

static void barriers(void)
{
	for (unsigned n = 2; n <= MOST; n *= 2) {
		struct weir__team *team = team_of(n);
		struct seen seen = { .team = team, .rounds = ROUNDS };

		weir__team_run(team, 0, pass_round, &seen);
		ok(!seen.wrong && times(&seen, n),
		   "after a barrier each of %u members sees what the others wrote before",
		   n);
		weir__team_free(team);
	}
}

static void runs_follow_each_other(void)
{
	struct weir__team *team = team_of(3);
	unsigned wrong = 0;

	for (unsigned k = 0; k < ROUNDS; k++) {
		struct seen seen = { .team = team, .rounds = k % 3 };
		unsigned most = 1 + k % 4;

		weir__team_run(team, most, pass_round, &seen);
		wrong += seen.wrong || !times(&seen, most < 3 ? most : 3);
		if (k % 1000 == 0)
			usleep(1000); /* the threads fall asleep */
	}
	is_int(wrong, 0, "runs of different sizes follow each other");
	weir__team_free(team);
}

static void *run_many(void *arg)
{
	struct weir__team *team = arg;
	uintptr_t wrong = 0;

	for (unsigned k = 0; k < ROUNDS / 10; k++) {
		struct seen seen = { .team = team, .rounds = 2 };

		weir__team_run(team, 0, pass_round, &seen);
		wrong += seen.wrong || !seen.count;
	}
	return (void *)wrong;
}

static void several_threads_run_one_team(void)
{
	struct weir__team *team = team_of(2);
	pthread_t thread[3];
	uintptr_t wrong = 0;
	void *r;

	for (int i = 0; i < 3; i++)
		if (pthread_create(&thread[i], NULL, run_many, team))
			bail("no thread");
	for (unsigned n = 1; n <= 5; n++) {
		struct weir_threads threads = { .size = sizeof(threads),
						.count = n };

		usleep(1000);
		if (weir__team_set(team, &threads) < 0)
			wrong++;
	}
	for (int i = 0; i < 3; i++) {
		pthread_join(thread[i], &r);
		wrong += (uintptr_t)r;
	}
	is_int(wrong, 0,
	       "threads that run one team take turns, also while its size changes");
	is_int(weir__team_size(team), 5,
	       "a team has the size that was set last");
	weir__team_free(team);
}

/* Functions of a program: on n threads, on one after the other, on none. */
struct task {
	void (*fn)(void *arg, uint32_t i);
	void *arg;
	uint32_t i;
};

static void *task_main(void *arg)
{
	struct task *task = arg;

	task->fn(task->arg, task->i);
	return NULL;
}

static void at_once(void *arg, uint32_t n, void (*fn)(void *arg, uint32_t i),
		    void *fn_arg)
{
	struct task task[MOST];
	pthread_t thread[MOST];

	*(unsigned *)arg = n;
	for (uint32_t i = 0; i < n; i++) {
		task[i] = (struct task){ fn, fn_arg, i };
		if (pthread_create(&thread[i], NULL, task_main, &task[i]))
			bail("no thread");
	}
	for (uint32_t i = 0; i < n; i++)
		pthread_join(thread[i], NULL);
}

static void in_order(void *arg, uint32_t n, void (*fn)(void *arg, uint32_t i),
		     void *fn_arg)
{
	*(unsigned *)arg = n;
	for (uint32_t i = 0; i < n; i++)
		fn(fn_arg, i);
}

static void not_at_all(void *arg, uint32_t n, void (*fn)(void *arg, uint32_t i),
		       void *fn_arg)
{
	(void)fn, (void)fn_arg;
	*(unsigned *)arg = n;
}

static void their_threads(void)
{
	unsigned asked = 0, wrong = 0;
	struct weir_threads threads = { .size = sizeof(threads),
					.count = 3,
					.run = at_once,
					.arg = &asked };
	struct weir__team *team;

	if (weir__team_new(root, &threads, (struct weir__share){ 0, 1 },
			   &team) < 0)
		bail("%s", weir_error());
	for (unsigned k = 0; k < 50; k++) {
		struct seen seen = { .team = team, .rounds = 10 };

		weir__team_run(team, 0, pass_round, &seen);
		wrong += seen.wrong || !seen.count || asked != 3 ||
			 !times(&seen, seen.count);
	}
	is_int(wrong, 0, "the program's function runs the members at once");
	threads.run = in_order;
	if (weir__team_set(team, &threads) < 0)
		bail("%s", weir_error());
	{
		struct seen seen = { .team = team, .rounds = 10 };

		weir__team_run(team, 0, pass_round, &seen);
		ok(seen.count == 1 && times(&seen, 1),
		   "a function that calls tasks one after the other is one member");
	}
	threads.run = not_at_all;
	if (weir__team_set(team, &threads) < 0)
		bail("%s", weir_error());
	{
		struct seen seen = { .team = team, .rounds = 10 };

		weir__team_run(team, 0, pass_round, &seen);
		ok(seen.count == 1 && times(&seen, 1),
		   "a function that calls no task leaves the run to its caller");
	}
	weir__team_free(team);
}

static void limits(void)
{
	struct weir_threads threads = { .size = sizeof(threads),
					.count = 1025 };
	struct weir__team *team = team_of(0);

	is_err(weir__team_set(team, &threads), -EINVAL,
	       "1025 threads, at most 1024",
	       "a team of too many threads is refused");
	ok(weir__team_size(team) >= 1 && weir__team_size(team) <= 1024,
	   "a team of 0 threads has one for each CPU of the process");
	weir__team_free(team);
	weir__team_free(NULL);
}

static void threads_of_the_cpu(void)
{
	struct weir_threads threads = { .size = sizeof(threads), .count = 7 };
	struct weir_dev *dev;

	if (weir_dev_configure(root, "CPU:threads=3", &dev) < 0)
		bail("%s", weir_error());
	is_int(weir__team_size(weir__cpu_of(dev)->team), 3,
	       "the parameter threads is the size of the CPU's team");
	is_int(weir_dev_set_threads(dev, &threads), 0,
	       "the number of threads of the CPU can be set");
	is_int(weir__team_size(weir__cpu_of(dev)->team), 7,
	       "the CPU has as many threads as were set");
	threads.count = 5000;
	is_err(weir_dev_set_threads(dev, &threads), -EINVAL,
	       "weir_dev_set_threads: 5000 threads, at most 1024",
	       "weir_dev_set_threads refuses too many threads");
	threads.count = 7;
	threads.reserved = 1;
	is_err(weir_dev_set_threads(dev, &threads), -EINVAL,
	       "reserved is 1, not 0",
	       "weir_dev_set_threads refuses what later versions may define");
}

int main(void)
{
	plan(4 + 1 + 3 + 1 + 2 + 3 + 2 + 5);
	if (weir_open(NULL, &root) < 0)
		bail("%s", weir_error());
	each_member_runs_once();
	a_run_has_at_most_the_members_asked_for();
	barriers();
	runs_follow_each_other();
	several_threads_run_one_team();
	their_threads();
	limits();
	threads_of_the_cpu();
	weir_close(root);
	return 0;
}
