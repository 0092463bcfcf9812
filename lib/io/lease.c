/* SPDX-License-Identifier: MIT */
#include "io/lease.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/sys.h"
#include "core/util.h"

#define MAX_PAGES 512u /* of a use */
#define MAX_LEASES 32u /* in the process: each has a thread */
#define PAUSE_NS 20000 /* between looks whether uses have ended */
/* Times between looks at the lease, ms: if no signal came, and if one is pending. */
#define LOOK_MS 5000
#define PENDING_MS 20

struct weir__lease {
	int fd; /* a description of its own: a lease belongs to one */
	unsigned char *map;
	uint64_t bytes;
	pthread_t thread;
	int wake;  /* an eventfd: armed or quit was set */
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

static _Atomic uint32_t n_leases;

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

/*
 * A break is signalled to this thread by SIGIO, which is blocked here, as all
 * signals are in threads of the library. The signal is only looked for, and never
 * taken: one for the process is the program's, and would make @signals readable
 * all the time.
 */
static void lease_wait(const struct weir__lease *l, int signals)
{
	struct pollfd fds[2] = { { .fd = l->wake, .events = POLLIN },
				 { .fd = signals, .events = POLLIN } };
	uint64_t count;

	if (poll(fds, 2, LOOK_MS) > 0 && fds[0].revents)
		(void)!read(l->wake, &count, sizeof(count));
	else if (fds[1].revents && is_held(l))
		poll(fds, 1, PENDING_MS);
}

static void *lease_watch(void *arg)
{
	struct weir__lease *l = arg;
	sigset_t set;
	int signals;

	l->tid = gettid();
	sigemptyset(&set);
	sigaddset(&set, SIGIO);
	signals = signalfd(-1, &set, SFD_CLOEXEC);
	atomic_store(&l->ready, signals < 0 ? 2 : 1);
	weir__futex_wake(&l->ready, 1);
	while (!atomic_load(&l->quit)) {
		if (atomic_load(&l->armed) && !is_held(l)) {
			lease_break(l);
			break;
		}
		lease_wait(l, signals);
	}
	weir__sys_close(signals);
	return NULL;
}

static void lease_wake(struct weir__lease *l)
{
	uint64_t one = 1;

	(void)!write(l->wake, &one, sizeof(one));
}

static bool lease_take(struct weir__lease *l)
{
	struct f_owner_ex owner = { .type = F_OWNER_TID, .pid = l->tid };

	return !fcntl(l->fd, F_SETOWN_EX, &owner) &&
	       !fcntl(l->fd, F_SETLEASE, F_RDLCK);
}

/*
 * The file is as long as when it was opened, and stays so. After mlockall(2) a
 * mapping that can be read would be read at once.
 */
static bool lease_map(struct weir__lease *l, const struct weir_file *file)
{
	struct stat st;
	void *map;

	l->bytes = file->id.bytes;
	if (weir__sys_fstat(l->fd, &st) < 0 || st.st_size < 0 ||
	    (uint64_t)st.st_size < l->bytes || st.st_ino != file->id.ino ||
	    weir__sys_map(l->bytes, l->fd, 0, PROT_NONE, &map) < 0)
		return false;
	munlock(map, l->bytes);
	weir__sys_madvise(map, l->bytes, MADV_DONTFORK);
	if (mprotect(map, l->bytes, PROT_READ) < 0) {
		weir__sys_unmap(map, l->bytes);
		return false;
	}
	l->map = map;
	return true;
}

/* Given up in any case: a child of fork(2) has the description, too. */
static void lease_end(struct weir__lease *l)
{
	atomic_store(&l->quit, true);
	lease_wake(l);
	pthread_join(l->thread, NULL);
	if (l->map && !atomic_load(&l->broken))
		weir__sys_unmap(l->map, l->bytes);
	fcntl(l->fd, F_SETLEASE, F_UNLCK);
}

static bool lease_begin(struct weir__lease *l, const struct weir_file *file)
{
	if (weir__thread_start(&l->thread, "weir-lease", lease_watch, l) < 0)
		return false;
	while (!atomic_load(&l->ready))
		weir__futex_wait(&l->ready, 0, INT64_MAX);
	if (atomic_load(&l->ready) > 1 || !lease_take(l) ||
	    !lease_map(l, file)) {
		lease_end(l);
		return false;
	}
	/* A break that came before this is seen now. */
	atomic_store(&l->armed, true);
	lease_wake(l);
	return true;
}

static void lease_drop(struct weir__lease *l)
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
	l->wake = eventfd(0, EFD_CLOEXEC);
	if (l->fd >= 0 && l->wake >= 0 && lease_begin(l, file))
		return l;
	lease_drop(l);
	return NULL;
}

/* Of a file that we do not own mincore(2) does not tell the truth. */
void weir__file_lease(struct weir_file *file)
{
	if (file->ours && !file->network && file->nowait && file->id.bytes &&
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
	lease_drop(l);
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
