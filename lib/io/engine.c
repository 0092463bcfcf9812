/* SPDX-License-Identifier: MIT */
/*
 * The engine of a root: its limits, and how it is started, trimmed and closed.
 */
#include "io/engine_state.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "alloc/arena.h"
#include "alloc/slots.h"
#include "core/clock.h"
#include "core/root.h"
#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"
#include "io/chunk.h"
#include "io/job.h"
#include "io/queues.h"
#include "io/reactor.h"

#define LOCAL_WINDOW (32ull << 20) /* bytes in flight per reactor */
/* The same for network file systems, which answer later. */
#define NETWORK_WINDOW (256ull << 20)
#define MIN_OPS 64u /* per reactor: small chunks do not fill the window */
/*
 * Threads have at least this time to end, ns, even if the deadline is earlier.
 */
#define THREADS_NS 1000000000
/* A reactor looks for late reads and lost wakeups at least this often. */
#define MAX_SLEEP_NS 1000000000
#define MIN_SLEEP_NS 10000000
#define MAX_READERS 32u
/* A thread of a source that ends a read is nearly done with it, ns. */
#define POSTING_NS 100000

static struct weir__engine *engine_of(struct weir__part *part)
{
	return (struct weir__engine *)part;
}

/* Returns false if a thread is still running at @deadline. */
static bool reactors_join(struct weir__engine *eng, int64_t deadline)
{
	bool ended = true;

	weir__reactors_wake(eng);
	for (unsigned i = 0; i < eng->n_reactors; i++)
		if (eng->reactor[i]->started &&
		    weir__thread_join(eng->reactor[i]->thread, deadline) < 0)
			ended = false;
	return ended;
}

static bool engine_idle_by(struct weir__engine *eng, int64_t deadline)
{
	uint32_t n;

	while ((n = atomic_load(&eng->jobs)))
		if (weir__futex_wait(&eng->jobs, n, deadline) == -ETIMEDOUT)
			return false;
	return true;
}

/*
 * Idle threads end at once. Threads that hang in the kernel, and a reactor that
 * a sink still needs, do not: they are left running, with a reference to the
 * root.
 */
static bool end_threads(struct weir__engine *eng, int64_t deadline)
{
	int64_t least = weir__deadline(THREADS_NS);
	bool ended;

	/* Orphaned reads are not waited for. */
	if (deadline < least || atomic_load(&eng->leaked))
		deadline = least;
	ended = reactors_join(eng, deadline);
	/*
	 * The task that ends a load may drop the last reference to the root.
	 * Its thread has to end first, since it cannot join itself.
	 */
	ended = weir__pool_stop(eng->copiers, deadline) && ended;
	ended = weir__pool_stop(eng->readers, deadline) && ended;
	if (ended)
		return true;
	atomic_store(&eng->leaked, true);
	weir__root_ref(eng->weir);
	weir__log(
		eng->weir,
		"weir_close: threads of the engine are left running: a call of the kernel, or the function of a sink, has not returned");
	return false;
}

static void engine_close(struct weir__part *part, int64_t deadline)
{
	struct weir__engine *eng = engine_of(part);
	bool idle;

	eng->deadline = deadline;
	atomic_store(&eng->closed, true);
	idle = engine_idle_by(eng, deadline);
	if (!idle) {
		weir__log(
			eng->weir,
			"weir_close: %u transfers or sinks did not end in time; their memory is not freed",
			atomic_load(&eng->jobs));
		atomic_store(&eng->leaked, true);
	}
	atomic_store(idle ? &eng->stop : &eng->abort, true);
	if (!idle)
		weir__queues_abandon(eng);
	if (end_threads(eng, deadline) && idle)
		weir__queues_close(eng);
}

static size_t engine_trim(struct weir__part *part, size_t keep)
{
	struct weir__engine *eng = engine_of(part);
	size_t kept = 0;

	/* Only a reactor's owner may trim its slots. */
	for (unsigned i = 0; i < eng->n_reactors; i++) {
		struct weir__reactor *r = eng->reactor[i];

		kept += weir__slots_bytes(r->slots);
		if (kept > keep) {
			atomic_store(&r->trim, true);
			weir__reactor_wake(r);
		}
	}
	return kept;
}

/* Called after close, or if starting failed: no thread runs any more. */
static void engine_free(struct weir__part *part)
{
	struct weir__engine *eng = engine_of(part);

	if (eng->leaked)
		return;
	while (atomic_load(&eng->posting))
		weir__sleep(POSTING_NS);
	weir__pool_free(eng->copiers);
	weir__pool_free(eng->readers);
	for (unsigned i = 0; i < eng->n_reactors; i++)
		weir__reactor_free(eng->reactor[i]);
	pthread_mutex_destroy(&eng->open_lock);
	pthread_mutex_destroy(&eng->lock);
	weir__free(eng);
}

/* One thread can handle the completions and small copies of 25 GB/s. */
static unsigned default_reactors(const struct weir *weir)
{
	return weir__cpus_count(&weir->io_cpus) >= 8 ? 2 : 1;
}

static void choose_times(struct weir__engine *eng, int64_t read_timeout)
{
	eng->max_sleep = MAX_SLEEP_NS;
	if (read_timeout >= 0 && read_timeout / 4 < eng->max_sleep)
		eng->max_sleep = read_timeout / 4;
	if (eng->max_sleep < MIN_SLEEP_NS)
		eng->max_sleep = MIN_SLEEP_NS;
	snprintf(eng->late_why, sizeof(eng->late_why),
		 "no answer within %.3g s (read_timeout)",
		 (double)read_timeout / 1e9);
}

static void choose_method(struct weir__engine *eng, uint32_t io)
{
	const char *by = "";

	if (weir__debug_has(eng->weir, "io=sync"))
		io = WEIR_IO_SYNC;
	else if (weir__debug_has(eng->weir, "io=uring"))
		io = WEIR_IO_URING;
	if (io != eng->weir->opts.io)
		by = " by WEIR_DEBUG";
	eng->wanted = io;
	eng->only_ring = io == WEIR_IO_URING;
	if (io == WEIR_IO_SYNC)
		snprintf(eng->why, sizeof(eng->why), "threads were asked for%s",
			 by);
}

static uint64_t least_staging(const struct weir__engine *eng)
{
	return eng->chunk_bytes + WEIR__SLOT_SMALL;
}

/*
 * Slots take at most a quarter of the available memory, since the weights need
 * it too. If that is not enough for the smallest usable slots, those may take
 * half of it. Returns 0 if there is not even room for them.
 */
static uint64_t staging_in_ram(struct weir__engine *eng,
			       const struct weir_opts *o)
{
	uint64_t least = weir__up(least_staging(eng), WEIR__HUGE_PAGE);
	uint64_t left = weir__arena_ram_left(eng->weir), most = left / 4;

	if (o->staging <= most)
		return o->staging;
	if (most < least)
		most = least <= left / 2 ? least : 0;
	weir__engine_explain(
		eng, false,
		"%llu bytes of staging slots instead of %llu: %llu are available",
		(unsigned long long)most, (unsigned long long)o->staging,
		(unsigned long long)left);
	return most;
}

/*
 * Slots take at most what is left of the root's budget. If that is little, the
 * engine has fewer reactors. Slots are in whole huge pages.
 */
static void choose_staging(struct weir__engine *eng, const struct weir_opts *o)
{
	uint64_t left = weir__arena_budget_left(eng->weir);
	uint64_t most = staging_in_ram(eng, o);

	eng->n_reactors = o->reactors ? o->reactors
				      : default_reactors(eng->weir);
	eng->staging = most < left ? most : left;
	while (eng->n_reactors > 1 &&
	       eng->staging / eng->n_reactors < least_staging(eng))
		eng->n_reactors--;
	if (eng->staging == left)
		eng->staging -= left % (eng->n_reactors * WEIR__HUGE_PAGE);
	/* If the budget has no room for the smallest slots, it refuses them. */
	if (most && eng->staging < least_staging(eng))
		eng->staging = least_staging(eng);
}

static void choose_limits(struct weir__engine *eng, const struct weir_opts *o)
{
	choose_method(eng, o->io);
	eng->chunk_bytes = o->chunk;
	choose_staging(eng, o);
	eng->window = o->depth ? o->depth * eng->chunk_bytes : LOCAL_WINDOW;
	if (eng->window < eng->chunk_bytes)
		eng->window = eng->chunk_bytes;
	eng->n_ops = (unsigned)(eng->window / eng->chunk_bytes);
	if (eng->n_ops < MIN_OPS)
		eng->n_ops = MIN_OPS;
	eng->n_copiers = o->copiers ? o->copiers
				    : weir__cpus_count(&eng->weir->io_cpus);
	if (!o->copiers && eng->n_copiers > 16)
		eng->n_copiers = 16;
	eng->network_window = eng->window;
	if (!o->depth && eng->network_window < NETWORK_WINDOW)
		eng->network_window = NETWORK_WINDOW;
	eng->n_readers = (unsigned)(eng->network_window / eng->chunk_bytes);
	if (eng->n_readers > MAX_READERS)
		eng->n_readers = MAX_READERS;
	if (eng->n_readers < 4)
		eng->n_readers = 4;
	choose_times(eng, o->read_timeout);
}

static int make_pools(struct weir__engine *eng)
{
	unsigned bound = eng->n_reactors * eng->n_ops;
	int err;

	err = weir__pool_new("weir-cp", eng->n_copiers, bound, &eng->copiers);
	if (!err)
		err = weir__pool_new("weir-rd", eng->n_readers, bound,
				     &eng->readers);
	if (err)
		return weir__fail(err, "I/O engine: no memory for its threads");
	weir__pool_place(eng->copiers, &eng->weir->io_cpus);
	weir__pool_place(eng->readers, &eng->weir->io_cpus);
	return 0;
}

/* Say why no reactor runs: no thread could be started, or no method opened. */
static int fail_start(struct weir__engine *eng, int err)
{
	char limits[WEIR__LIMITS_TEXT];

	if (eng->only_ring && *eng->why)
		return weir__fail(
			err, "io_uring was asked for and does not work: %s",
			eng->why);
	if (err != -EAGAIN)
		return weir__fail_sys(err, "starting the I/O engine");
	weir__thread_limits(limits);
	return weir__fail(err, "I/O engine: no thread can be started%s",
			  limits);
}

static int reactors_start(struct weir__engine *eng)
{
	unsigned n = 0;
	uint32_t ready;
	int err = 0;

	for (; n < eng->n_reactors && !err; n++)
		err = weir__reactor_start(eng->reactor[n]);
	n -= err < 0;
	if (n && err == -EAGAIN) { /* RLIMIT_NPROC: go on with fewer */
		eng->n_started = n;
		err = 0;
	} else {
		eng->n_started = n;
	}
	while ((ready = atomic_load(&eng->ready)) < n)
		weir__futex_wait(&eng->ready, ready, INT64_MAX);
	if (!err)
		err = atomic_load(&eng->start_err);
	if (err) {
		atomic_store(&eng->stop, true);
		reactors_join(eng, INT64_MAX);
		return fail_start(eng, err);
	}
	return 0;
}

int weir__engine_make(struct weir *weir, const struct weir__method_ops *method,
		      struct weir__part **ret_part)
{
	struct weir__engine *eng = weir__calloc(1, sizeof(*eng));
	int err = 0;

	if (!eng)
		return weir__fail(-ENOMEM,
				  "I/O engine: no memory for %zu bytes",
				  sizeof(*eng));
	eng->part = (struct weir__part){
		.close = engine_close,
		.trim = engine_trim,
		.free = engine_free,
	};
	eng->weir = weir;
	pthread_mutex_init(&eng->lock, NULL);
	pthread_mutex_init(&eng->open_lock, NULL);
	choose_limits(eng, &weir->opts);
	eng->only_method = method;
	for (unsigned i = 0; i < eng->n_reactors && !err; i++)
		err = weir__reactor_new(eng, i, &eng->reactor[i]);
	if (!err)
		err = make_pools(eng);
	if (!err)
		err = reactors_start(eng);
	if (!err) {
		*ret_part = &eng->part;
		return 0;
	}
	engine_free(&eng->part);
	return err;
}

static int engine_make(struct weir *weir, struct weir__part **ret_part)
{
	return weir__engine_make(weir, NULL, ret_part);
}

int weir__engine_get(struct weir *weir, struct weir__engine **ret_eng)
{
	struct weir__part *part;
	int r = weir__root_enter(weir);

	if (r < 0)
		return r;
	r = weir__root_part(weir, WEIR__PART_IO, engine_make, &part);
	if (r < 0)
		return r;
	*ret_eng = engine_of(part);
	return 0;
}

uint64_t weir__engine_chunk_bytes(const struct weir__engine *eng)
{
	return eng->chunk_bytes;
}

bool weir__engine_joins_rows(const struct weir__engine *eng,
			     const struct weir__extent *e)
{
	return weir__extent_joins_rows(e, eng->chunk_bytes);
}

/*
 * Say why the ring is not used or, if it is, why a thread could not be started.
 */
static void engine_say_why(struct weir__engine *eng, char *why, size_t room)
{
	int err = weir__pool_start_error(eng->copiers);
	char limits[WEIR__LIMITS_TEXT];

	if (!err)
		err = weir__pool_start_error(eng->readers);
	pthread_mutex_lock(&eng->lock);
	snprintf(why, room, "%s", eng->why);
	pthread_mutex_unlock(&eng->lock);
	if (!err || *why)
		return;
	weir__thread_limits(limits);
	snprintf(why, room, "one more thread could not be started: %s%s",
		 weir__errno_name(-err), limits);
}

void weir__engine_info(struct weir__engine *eng, struct weir_io_info *ret_info)
{
	struct weir__reactor *first = eng->reactor[0];

	memset(ret_info, 0, sizeof(*ret_info));
	ret_info->size = sizeof(*ret_info);
	ret_info->method = atomic_load(&first->io);
	ret_info->features = atomic_load(&first->features);
	ret_info->reactors = eng->n_started;
	ret_info->depth = (uint32_t)(eng->window / eng->chunk_bytes);
	ret_info->copiers = eng->n_copiers;
	ret_info->chunk = eng->chunk_bytes;
	for (unsigned i = 0; i < eng->n_reactors; i++) {
		ret_info->staging += weir__slots_bytes(eng->reactor[i]->slots);
		ret_info->enters += atomic_load(&eng->reactor[i]->enters);
	}
	engine_say_why(eng, ret_info->why, sizeof(ret_info->why));
}

int weir_io_info(struct weir *weir, struct weir_io_info *ret_info)
{
	struct weir__engine *eng;
	struct weir_io_info info;
	int r;

	WEIR__ENTER();
	r = weir__engine_get(weir, &eng);
	if (r < 0)
		return r;
	weir__engine_info(eng, &info);
	return weir__info_out(ret_info, &info, sizeof(info));
}

void weir__engine_task(struct weir__engine *eng, struct weir__task *task)
{
	/* After abort, all copiers may be in reads that never end. */
	if (atomic_load(&eng->abort))
		task->run(task);
	else
		weir__pool_push(eng->copiers, task);
}

void weir__engine_long_task(struct weir__engine *eng, struct weir__task *task)
{
	if (atomic_load(&eng->abort))
		task->run(task);
	else
		weir__pool_push(eng->readers, task);
}

void weir__check_again(struct weir__engine *eng, struct weir__check *check)
{
	weir__pool_push(eng->copiers, check->task);
}

bool weir__engine_is_late(const struct weir__engine *eng,
			  const struct weir__reads *reads, int64_t now)
{
	int64_t limit = eng->weir->opts.read_timeout;

	if (weir__reads_ended(reads) && reads->cause.end == WEIR__LATE)
		return true;
	return limit >= 0 &&
	       weir__reads_are_late(reads, now, limit + eng->max_sleep);
}

void weir__engine_explain(struct weir__engine *eng, bool instead,
			  const char *fmt, ...)
{
	char text[sizeof(eng->why)];
	va_list ap;
	size_t has;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	pthread_mutex_lock(&eng->lock);
	has = instead ? 0 : strlen(eng->why);
	if (!has || !strstr(eng->why, text))
		snprintf(eng->why + has, sizeof(eng->why) - has, "%s%s",
			 has ? "; " : "", text);
	pthread_mutex_unlock(&eng->lock);
}
