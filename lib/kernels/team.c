/* SPDX-License-Identifier: MIT */
/*
 * Teams of threads. A member waits in one of two places: a thread of the
 * library between runs, for its own word; any member in a run, for the
 * generation of the barrier. Both waits spin for a short time first, unless the
 * team has more threads than its share of the CPUs: then a thread that spins
 * may keep the thread that it waits for from running.
 */
#include "kernels/team.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "kernels/kernels.h"

#define lib weir__cpu_host

#define SPIN_NS 50000  /* longer than waking a thread takes */
#define GATE_NS 100000 /* the time that a run waits for the program's threads */
#define SPIN_TURNS 64u /* turns between two reads of the clock */

/* The state of a thread of the library; README.md, "The team". */
enum {
	IDLE,   /* set by the thread, when it takes up a run */
	BEGUN,  /* set by the run */
	ASLEEP, /* set by the thread, which then waits for the futex */
	QUIT    /* set by team_stop */
};

/*
 * A flag in team->gate: the run has begun. The rest is how many tasks have
 * come.
 */
#define GATE_SHUT 0x80000000u

struct worker {
	_Atomic uint32_t word; /* the futex */
	unsigned index;        /* as a member of a run */
	struct weir__team *team;
	pthread_t thread;
	unsigned char apart[64]; /* so that two threads share no cache line */
};

struct weir__team {
	struct weir *weir;
	struct weir__share share; /* its part of the CPUs */
	/* Held during each run, and to change the members up to size. */
	pthread_mutex_t turn;
	struct weir_threads threads;
	struct worker *worker; /* threads.count - 1 of them; NULL if the program
				  has its own */
	unsigned started;
	bool refused; /* true if a thread could not be started */
	bool spins;
	_Atomic uint32_t size; /* threads.count */
	/* What is run now. */
	weir__team_fn *fn;
	void *arg;
	uint32_t members;
	_Atomic uint32_t gate; /* a futex */
	/* The barrier. Its two words are in different cache lines. */
	unsigned char apart[64];
	_Atomic uint32_t arrived;
	unsigned char apart2[64];
	_Atomic uint32_t generation; /* the futex */
	_Atomic uint32_t sleepers;
};

static int64_t team_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void cpu_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("isb");
#endif
}

/* Spin until *@word is not @old. False if it still is after SPIN_NS. */
static bool team_spin(const struct weir__team *team, _Atomic uint32_t *word,
		      uint32_t old)
{
	int64_t end = team->spins ? team_now() + SPIN_NS : 0;

	while (team->spins) {
		for (unsigned i = 0; i < SPIN_TURNS; i++) {
			if (atomic_load_explicit(word, memory_order_acquire) !=
			    old)
				return true;
			cpu_relax();
		}
		if (team_now() >= end)
			break;
	}
	return atomic_load(word) != old;
}

void weir__team_barrier(struct weir__team *team)
{
	/*
	 * Read the generation before arriving: afterwards the next one may
	 * begin.
	 */
	uint32_t generation = atomic_load(&team->generation);
	uint32_t members = team->members;

	if (atomic_fetch_add(&team->arrived, 1) + 1 == members) {
		atomic_store(&team->arrived, 0);
		atomic_store(&team->generation, generation + 1);
		if (atomic_load(&team->sleepers))
			lib->futex_wake(&team->generation, INT32_MAX);
		return;
	}
	if (team_spin(team, &team->generation, generation))
		return;
	atomic_fetch_add(&team->sleepers, 1);
	while (atomic_load(&team->generation) == generation)
		lib->futex_wait(&team->generation, generation, INT64_MAX);
	atomic_fetch_sub(&team->sleepers, 1);
}

/* Wait for the next run. False if the thread is to end. */
static bool worker_wait(struct worker *w)
{
	uint32_t word = IDLE;

	if (!team_spin(w->team, &w->word, IDLE) &&
	    atomic_compare_exchange_strong(&w->word, &word, ASLEEP))
		while (atomic_load(&w->word) == ASLEEP)
			lib->futex_wait(&w->word, ASLEEP, INT64_MAX);
	word = BEGUN;
	return atomic_compare_exchange_strong(&w->word, &word, IDLE);
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	struct weir__team *team = w->team;

	while (worker_wait(w)) {
		team->fn(team->arg, w->index, team->members);
		weir__team_barrier(team);
	}
	return NULL;
}

static void worker_tell(struct worker *w, uint32_t word)
{
	if (atomic_exchange(&w->word, word) == ASLEEP)
		lib->futex_wake(&w->word, 1);
}

/* Stop the threads of the library. team->turn is held. */
static void team_stop(struct weir__team *team)
{
	for (unsigned i = 0; i < team->started; i++)
		worker_tell(&team->worker[i], QUIT);
	for (unsigned i = 0; i < team->started; i++)
		pthread_join(team->worker[i].thread, NULL);
	team->started = 0;
	team->refused = false;
}

/*
 * Start threads until there are @n. If one cannot be started the run has fewer
 * members.
 */
static void team_start(struct weir__team *team, unsigned n)
{
	char name[16];
	int r;

	for (; team->started < n && !team->refused; team->started++) {
		struct worker *w = &team->worker[team->started];

		atomic_store(&w->word, IDLE);
		w->team = team;
		w->index = team->started + 1;
		snprintf(name, sizeof(name), "weir-team%u", w->index % 10000);
		r = lib->thread(&w->thread, name, worker_main, w);
		if (r >= 0)
			continue;
		team->refused = true;
		lib->log(
			team->weir,
			"CPU: computes with %u threads instead of %u: cannot start a thread (errno %d)",
			w->index, team->threads.count, -r);
		return;
	}
}

static void team_run_own(struct weir__team *team, uint32_t most)
{
	team_start(team, most - 1);
	team->members = team->started + 1 < most ? team->started + 1 : most;
	for (unsigned i = 0; i + 1 < team->members; i++)
		worker_tell(&team->worker[i], BEGUN);
	team->fn(team->arg, 0, team->members);
	weir__team_barrier(team);
}

/*
 * Become a member and return its index, or -1 if the run has begun without this
 * task.
 */
static int gate_enter(struct weir__team *team)
{
	uint32_t came = atomic_load(&team->gate);

	do
		if (came & GATE_SHUT)
			return -1;
	while (!atomic_compare_exchange_weak(&team->gate, &came, came + 1));
	return (int)came;
}

/*
 * The first member waits a short time for @all tasks, and then begins the run.
 */
static void gate_shut(struct weir__team *team, uint32_t all)
{
	int64_t end = team_now() + GATE_NS;
	uint32_t came = atomic_load(&team->gate);

	while (came < all && team_now() < end) {
		if (!team_spin(team, &team->gate, came))
			lib->futex_wait(&team->gate, came, end);
		came = atomic_load(&team->gate);
	}
	do
		team->members = came;
	while (!atomic_compare_exchange_weak(&team->gate, &came,
					     came | GATE_SHUT));
	lib->futex_wake(&team->gate, INT32_MAX);
}

static void gate_wait(struct weir__team *team)
{
	uint32_t gate;

	while (!((gate = atomic_load(&team->gate)) & GATE_SHUT))
		if (!team_spin(team, &team->gate, gate))
			lib->futex_wait(&team->gate, gate, INT64_MAX);
}

struct gate {
	struct weir__team *team;
	uint32_t all;
};

/* What each task of the program's function does. */
static void gate_task(void *arg, uint32_t i)
{
	struct gate *gate = arg;
	struct weir__team *team = gate->team;
	int index = gate_enter(team);

	(void)i;
	if (index < 0)
		return;
	if ((uint32_t)index + 1 == gate->all)
		lib->futex_wake(&team->gate, INT32_MAX);
	if (index == 0)
		gate_shut(team, gate->all);
	else
		gate_wait(team);
	team->fn(team->arg, (unsigned)index, team->members);
}

static void team_run_theirs(struct weir__team *team, uint32_t most)
{
	struct gate gate = { .team = team, .all = most };

	atomic_store(&team->gate, 0);
	team->threads.run(team->threads.arg, most, gate_task, &gate);
	if (!atomic_load(&team->gate))
		gate_task(&gate,
			  0); /* the function has called no task at all */
}

static void team_run_alone(struct weir__team *team)
{
	team->members = 1;
	team->fn(team->arg, 0, 1);
}

void weir__team_run(struct weir__team *team, unsigned most, weir__team_fn *fn,
		    void *arg)
{
	pthread_mutex_lock(&team->turn);
	if (!most || most > team->threads.count)
		most = team->threads.count;
	team->fn = fn;
	team->arg = arg;
	if (most == 1)
		team_run_alone(team);
	else if (team->threads.run)
		team_run_theirs(team, most);
	else
		team_run_own(team, most);
	pthread_mutex_unlock(&team->turn);
}

unsigned weir__team_size(struct weir__team *team)
{
	return atomic_load(&team->size);
}

unsigned weir__share_of(struct weir__share share, unsigned all)
{
	unsigned n = all / share.parts + (share.part < all % share.parts);

	return n ? n : 1;
}

/* Set the threads. team->turn is held, or the team is new. */
static int team_set(struct weir__team *team, const struct weir_threads *threads)
{
	unsigned cpus = weir__share_of(team->share, lib->cpus());
	uint32_t n = threads->count ? threads->count : cpus;
	struct worker *worker = NULL;

	n = n < WEIR__TEAM_MAX ? n : WEIR__TEAM_MAX;
	if (n > 1 && !threads->run) {
		worker = lib->calloc(n, sizeof(*worker));
		if (!worker)
			return lib->fail(-ENOMEM, "no memory for %u threads",
					 n);
	}
	team_stop(team);
	lib->free(team->worker);
	team->worker = worker;
	team->threads = *threads;
	team->threads.count = n;
	team->spins = n <= cpus;
	atomic_store(&team->size, n);
	return 0;
}

int weir__team_set(struct weir__team *team, const struct weir_threads *threads)
{
	int r;

	if (threads->count > WEIR__TEAM_MAX)
		return lib->fail(-EINVAL, "%u threads, at most %u",
				 threads->count, WEIR__TEAM_MAX);
	pthread_mutex_lock(&team->turn);
	r = team_set(team, threads);
	pthread_mutex_unlock(&team->turn);
	return r;
}

int weir__team_new(struct weir *weir, const struct weir_threads *threads,
		   struct weir__share share, struct weir__team **ret)
{
	struct weir__team *team = lib->calloc(1, sizeof(*team));
	int r;

	if (!team)
		return lib->fail(-ENOMEM, "no memory for a team of threads");
	team->weir = weir;
	team->share = share;
	pthread_mutex_init(&team->turn, NULL);
	r = team_set(team, threads);
	if (r < 0)
		weir__team_free(team);
	else
		*ret = team;
	return r;
}

void weir__team_free(struct weir__team *team)
{
	if (!team)
		return;
	team_stop(team);
	pthread_mutex_destroy(&team->turn);
	lib->free(team->worker);
	lib->free(team);
}
