/* SPDX-License-Identifier: MIT */
#include "io/wakefd.h"

#include <errno.h>
#include <sys/resource.h>

#include "core/error.h"
#include "core/sys.h"

static bool eventfd_is_ours(struct weir__wakefd *w)
{
	return weir__sys_file_id(atomic_load(&w->fd)) ==
	       atomic_load(&w->file_id);
}

int weir__wakefd_open(struct weir__wakefd *w)
{
	int fd = weir__sys_eventfd(), r;
	struct stat st;

	if (fd < 0)
		return fd;
	/* Without its inode no thread could check that it is the library's. */
	r = weir__sys_fstat(fd, &st);
	if (r < 0) {
		weir__sys_close(fd);
		return r;
	}
	atomic_store(&w->file_id, weir__sys_file_id(fd));
	atomic_store(&w->fd, fd);
	return 0;
}

int weir__wakefd_fail(int err, const char *what)
{
	if (err == -EMFILE)
		return weir__fail_sys(
			err, "%s: eventfd, RLIMIT_NOFILE is %llu (ulimit -n)",
			what,
			(unsigned long long)weir__sys_limit(RLIMIT_NOFILE));
	if (err == -ENFILE)
		return weir__fail_sys(
			err, "%s: eventfd, /proc/sys/fs/file-max is reached",
			what);
	return weir__fail_sys(err, "%s: eventfd", what);
}

void weir__wakefd_close(struct weir__wakefd *w)
{
	if (eventfd_is_ours(w))
		weir__sys_close(atomic_load(&w->fd));
}

bool weir__wakefd_signal(struct weir__wakefd *w)
{
	bool sent = eventfd_is_ours(w) &&
		    weir__sys_eventfd_set(atomic_load(&w->fd), true) == 0;

	if (!sent)
		weir__wakefd_distrust(w);
	return sent;
}

void weir__wakefd_drain(struct weir__wakefd *w)
{
	if (eventfd_is_ours(w))
		weir__sys_eventfd_set(atomic_load(&w->fd), false);
}

void weir__wakefd_distrust(struct weir__wakefd *w)
{
	atomic_store(&w->wakeup_lost, true);
}

enum weir__wakefd_check weir__wakefd_check(struct weir__wakefd *w)
{
	bool ours = eventfd_is_ours(w);
	int err;

	if (ours && !weir__wakefd_is_lost(w))
		return WEIR__WAKEFD_SAME;
	/* Keep its number, since other threads may be about to write to it. */
	err = ours ? weir__sys_eventfd_renew(atomic_load(&w->fd))
		   : weir__wakefd_open(w);
	atomic_store(&w->wakeup_lost, err < 0);
	if (err < 0)
		return WEIR__WAKEFD_SAME;
	return ours ? WEIR__WAKEFD_RENEWED : WEIR__WAKEFD_REPLACED;
}
