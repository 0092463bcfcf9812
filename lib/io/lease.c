/* SPDX-License-Identifier: MIT */
#include "io/lease.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/sys.h"
#include "core/util.h"

#define MAX_PAGES 512u /* of a use */
#define PAUSE_NS 20000 /* between looks whether uses have ended */

struct weir__lease {
	int fd; /* a description of its own: a lease belongs to one */
	unsigned char *map;
	uint64_t bytes;
	pthread_t thread;
	pid_t tid; /* of the thread that the kernel tells of a break */
	_Atomic uint32_t ready;
	_Atomic bool armed, quit;
	/*
	 * A use counts itself and then looks whether the lease is broken; the
	 * thread says that it is broken and then waits for uses. So the thread
	 * waits for each use that has not seen it.
	 */
	_Atomic uint32_t users;
	_Atomic bool broken;
};

static bool is_held(const struct weir__lease *l)
{
	return fcntl(l->fd, F_GETLEASE) == F_RDLCK;
}

static void lease_break(struct weir__lease *l)
{
	atomic_store(&l->broken, true);
	while (atomic_load(&l->users))
		weir__sleep(PAUSE_NS);
	weir__sys_unmap(l->map, l->bytes);
	fcntl(l->fd, F_SETLEASE, F_UNLCK);
}

/* All signals are blocked in threads of the library. */
static void *lease_watch(void *arg)
{
	struct weir__lease *l = arg;
	sigset_t set;

	l->tid = gettid();
	atomic_store(&l->ready, 1);
	weir__futex_wake(&l->ready, 1);
	sigemptyset(&set);
	sigaddset(&set, SIGIO);
	while (!atomic_load(&l->quit)) {
		if (atomic_load(&l->armed) && !is_held(l)) {
			lease_break(l);
			break;
		}
		sigwaitinfo(&set, NULL);
	}
	return NULL;
}

static bool lease_take(struct weir__lease *l)
{
	struct f_owner_ex owner = { .type = F_OWNER_TID, .pid = l->tid };

	return !fcntl(l->fd, F_SETOWN_EX, &owner) &&
	       !fcntl(l->fd, F_SETLEASE, F_RDLCK);
}

/* The file is as long as when it was opened, and stays so. */
static bool lease_map(struct weir__lease *l, const struct weir_file *file)
{
	struct stat st;
	void *map;

	l->bytes = file->id.bytes;
	if (weir__sys_fstat(l->fd, &st) < 0 || st.st_size < 0 ||
	    (uint64_t)st.st_size < l->bytes || st.st_ino != file->id.ino ||
	    weir__sys_map(l->bytes, l->fd, 0, PROT_READ, &map) < 0)
		return false;
	l->map = map;
	return true;
}

static void lease_end(struct weir__lease *l)
{
	atomic_store(&l->quit, true);
	pthread_kill(l->thread, SIGIO);
	pthread_join(l->thread, NULL);
	if (l->map && !atomic_load(&l->broken))
		weir__sys_unmap(l->map, l->bytes);
}

static bool lease_begin(struct weir__lease *l, const struct weir_file *file)
{
	if (weir__thread_start(&l->thread, "weir-lease", lease_watch, l) < 0)
		return false;
	while (!atomic_load(&l->ready))
		weir__futex_wait(&l->ready, 0, INT64_MAX);
	if (!lease_take(l) || !lease_map(l, file)) {
		lease_end(l);
		return false;
	}
	/* A break that came before this is seen now. */
	atomic_store(&l->armed, true);
	pthread_kill(l->thread, SIGIO);
	return true;
}

void weir__file_lease(struct weir_file *file)
{
	struct weir__lease *l;
	char proc[64];

	if (file->network || !file->nowait || !file->id.bytes ||
	    atomic_exchange(&file->lease_tried, true))
		return;
	l = weir__calloc(1, sizeof(*l));
	if (!l)
		return;
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", file->fd);
	l->fd = weir__sys_open(proc, O_RDONLY, 0);
	if (l->fd < 0 || !lease_begin(l, file)) {
		weir__sys_close(l->fd);
		weir__free(l);
		return;
	}
	atomic_store(&file->lease, l);
}

void weir__lease_free(struct weir_file *file)
{
	struct weir__lease *l = atomic_load(&file->lease);

	/* The thread, and the lease, are the parent's. */
	if (!l || !weir__root_is_ours(file->weir))
		return;
	lease_end(l);
	weir__sys_close(l->fd);
	weir__free(l);
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

	if (!l || off > l->bytes || n > l->bytes - off)
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
