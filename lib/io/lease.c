/* SPDX-License-Identifier: MIT */
#include "io/lease.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/sys.h"
#include "core/util.h"
#include "io/caller_read.h"

#define MAX_PAGES 512u /* in one use */
#define MAX_LEASES 32u /* in the process: each has a thread */
#define PAUSE_NS 20000 /* between checks whether uses have ended */
/* Times between checks of the lease, ms: no signal came, or one is pending. */
#define LOOK_MS 5000
#define PENDING_MS 20

struct weir__lease {
	int fd; /* a description of its own: a lease belongs to one */
	unsigned char *map;
	uint64_t bytes;
	pthread_t thread;
	int wake;  /* an eventfd: armed or quit was set */
	pid_t tid; /* the thread that the kernel signals when it breaks the
		      lease */
	_Atomic uint32_t ready;
	_Atomic bool armed, quit;
	/*
	 * A use increments @users and then reads @broken; the thread sets
	 * @broken and then waits until @users is 0. So the thread waits for
	 * each use that has not seen @broken.
	 */
	_Atomic uint32_t users;
	_Atomic bool broken;
};

static _Atomic uint32_t n_leases;

static void lease_break(struct weir__lease *l)
{
	atomic_store(&l->broken, true);
	while (atomic_load(&l->users))
		weir__sleep(PAUSE_NS);
	weir__sys_unmap(l->map, l->bytes);
	weir__sys_lease_end(l->fd);
}

/*
 * The kernel sends SIGIO to this thread when another process wants to write.
 * The signal is blocked here, as all signals are in threads of the library, and
 * stays pending: the thread does not take it, since a SIGIO for the process,
 * which looks the same, is the program's. While one is pending, @signals stays
 * readable, so the thread pauses before it looks again.
 */
static void lease_wait(const struct weir__lease *l, int signals)
{
	const int fd[2] = { l->wake, signals };
	unsigned readable = weir__sys_poll(fd, 2, LOOK_MS);

	if (readable & 1)
		weir__sys_eventfd_set(l->wake, false);
	else if (readable && weir__sys_lease_held(l->fd))
		weir__sys_poll(fd, 1, PENDING_MS);
}

static void *lease_watch(void *arg)
{
	struct weir__lease *l = arg;
	int signals = weir__sys_signalfd(SIGIO);

	l->tid = gettid();
	atomic_store(&l->ready, signals < 0 ? 2 : 1);
	weir__futex_wake(&l->ready, 1);
	while (!atomic_load(&l->quit)) {
		if (atomic_load(&l->armed) && !weir__sys_lease_held(l->fd)) {
			lease_break(l);
			break;
		}
		lease_wait(l, signals);
	}
	weir__sys_close(signals);
	return NULL;
}

/* Map the file, which under the lease stays as long as when it was opened. */
static bool lease_map(struct weir__lease *l, const struct weir_file *file)
{
	struct stat st;
	void *map;

	l->bytes = file->id.bytes;
	if (weir__sys_fstat(l->fd, &st) < 0 || st.st_size < 0 ||
	    (uint64_t)st.st_size < l->bytes || st.st_ino != file->id.ino ||
	    weir__sys_map_lazily(l->bytes, l->fd, &map) < 0)
		return false;
	l->map = map;
	return true;
}

/*
 * The lease is ended in any case: a child of fork(2) has the description too.
 */
static void lease_end(struct weir__lease *l)
{
	atomic_store(&l->quit, true);
	weir__sys_eventfd_set(l->wake, true);
	pthread_join(l->thread, NULL);
	if (l->map && !atomic_load(&l->broken))
		weir__sys_unmap(l->map, l->bytes);
	weir__sys_lease_end(l->fd);
}

static bool lease_begin(struct weir__lease *l, const struct weir_file *file)
{
	if (weir__thread_start(&l->thread, "weir-lease", lease_watch, l) < 0)
		return false;
	while (!atomic_load(&l->ready))
		weir__futex_wait(&l->ready, 0, INT64_MAX);
	if (atomic_load(&l->ready) > 1 || weir__sys_lease(l->fd, l->tid) < 0 ||
	    !lease_map(l, file)) {
		lease_end(l);
		return false;
	}
	/* A lease that was broken before this is noticed now. */
	atomic_store(&l->armed, true);
	weir__sys_eventfd_set(l->wake, true);
	return true;
}

static void lease_close(struct weir__lease *l)
{
	weir__sys_close(l->fd);
	weir__sys_close(l->wake);
	weir__free(l);
	atomic_fetch_sub(&n_leases, 1);
}

static struct weir__lease *lease_new(const struct weir_file *file)
{
	struct weir__lease *l = NULL;
	char proc[64];

	if (atomic_fetch_add(&n_leases, 1) < MAX_LEASES)
		l = weir__calloc(1, sizeof(*l));
	if (!l) {
		atomic_fetch_sub(&n_leases, 1);
		return NULL;
	}
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", file->fd);
	l->fd = weir__sys_open(proc, O_RDONLY, 0);
	l->wake = weir__sys_eventfd();
	if (l->fd >= 0 && l->wake >= 0 && lease_begin(l, file))
		return l;
	lease_close(l);
	return NULL;
}

/* mincore(2) reports the truth for files that we own. */
void weir__file_lease(struct weir_file *file)
{
	if (file->ours && weir__nowait_file(file) && file->id.bytes &&
	    !atomic_exchange(&file->lease_tried, true))
		atomic_store(&file->lease, lease_new(file));
}

void weir__lease_free(struct weir_file *file)
{
	struct weir__lease *l = atomic_load(&file->lease);

	/* The thread, and the lease, are the parent's. */
	if (!l || !weir__root_is_ours(file->weir))
		return;
	lease_end(l);
	lease_close(l);
}

static bool is_resident(const unsigned char *from, uint64_t n)
{
	uintptr_t lo = weir__down((uintptr_t)from, WEIR__PAGE);
	uint64_t pages =
		weir__up((uintptr_t)from + n - lo, WEIR__PAGE) / WEIR__PAGE;
	unsigned char vec[MAX_PAGES];

	if (pages > MAX_PAGES ||
	    weir__sys_mincore((void *)lo, pages * WEIR__PAGE, vec) < 0)
		return false;
	for (uint64_t i = 0; i < pages; i++)
		if (!(vec[i] & 1))
			return false;
	return true;
}

const unsigned char *weir__lease_get(struct weir_file *file, uint64_t off,
				     uint64_t n)
{
	struct weir__lease *l = atomic_load(&file->lease);

	if (!l || atomic_load(&l->broken) || off > l->bytes ||
	    n > l->bytes - off)
		return NULL;
	atomic_fetch_add(&l->users, 1);
	if (!atomic_load(&l->broken) && is_resident(l->map + off, n))
		return l->map + off;
	atomic_fetch_sub(&l->users, 1);
	return NULL;
}

void weir__lease_put(struct weir_file *file)
{
	atomic_fetch_sub(&atomic_load(&file->lease)->users, 1);
}

void weir__lease_drop(struct weir_file *file, const unsigned char *bytes,
		      uint64_t n)
{
	uintptr_t lo = weir__down((uintptr_t)bytes, WEIR__PAGE);

	weir__sys_madvise((void *)lo,
			  weir__up((uintptr_t)bytes + n - lo, WEIR__PAGE),
			  MADV_DONTNEED);
	weir__lease_put(file);
}
