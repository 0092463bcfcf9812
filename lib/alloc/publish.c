/* SPDX-License-Identifier: MIT */
/*
 * Descriptors by name: a thread that listens on a Unix socket, and sends the
 * descriptor to each process that connects and may have it.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weir/share.h>

#include "core/error.h"
#include "core/root.h"
#include "core/sys.h"

#define ANSWER_SECONDS 5
/* How long the thread waits if the process has no descriptor left. */
#define PAUSE_MS 100

/* The answer of the publisher. A descriptor comes with it if it accepts. */
struct answer {
	char magic[8];
	uint32_t refused; /* a positive errno, or 0 */
	uint32_t reserved;
};
#define MAGIC "weirfd1"

struct weir_publication {
	struct weir *weir;
	char *name;
	int fd, listener, stop; /* stop: an eventfd */
	bool any_user;
	uint64_t inode; /* of the socket at a path; 0: an abstract name */
	pthread_t thread;
};

static bool may_have(const struct weir_publication *p, uid_t uid)
{
	return p->any_user || uid == 0 || uid == geteuid();
}

/* A process that has gone meanwhile does not matter. */
static void answer(const struct weir_publication *p, int socket)
{
	struct answer a = { .magic = MAGIC };
	uid_t uid;

	if (weir__sys_peer(socket, &uid) < 0)
		return;
	if (!may_have(p, uid))
		a.refused = EACCES;
	weir__sys_send_fds(socket, &a, sizeof(a), &p->fd, !a.refused);
}

static void *serve(void *arg)
{
	struct weir_publication *p = arg;
	const int both[] = { p->listener, p->stop };
	unsigned readable;

	while (!((readable = weir__sys_poll(both, 2, -1)) & 2)) {
		int socket = readable & 1 ? weir__sys_accept(p->listener)
					  : -EAGAIN;

		if (socket >= 0) {
			answer(p, socket);
			weir__sys_close(socket);
		} else if (socket != -EAGAIN) {
			weir__sys_poll(&p->stop, 1, PAUSE_MS);
		}
	}
	return NULL;
}

static uint64_t inode_of(const char *name)
{
	struct stat st;

	if (name[0] == '@' || weir__sys_stat(name, &st) < 0)
		return 0;
	return st.st_ino;
}

static int check_name(const char *name, uint32_t flags)
{
	if (flags & ~WEIR_PUBLISH_ANY_USER)
		return weir__fail(-EINVAL, "flags 0x%x has bits unknown here",
				  flags);
	if (!name[0] || !strcmp(name, "@"))
		return weir__fail(-EINVAL, "the name '%s' is empty", name);
	return 0;
}

/* Remove the socket of a publisher that has died. */
static int remove_left(const char *name)
{
	struct stat st;
	int fd, r = weir__sys_stat(name, &st);

	if (r < 0)
		return r == -ENOENT ? 0 : weir__fail_sys(r, "%s", name);
	if (!S_ISSOCK(st.st_mode))
		return weir__fail(-EEXIST, "%s exists, and is not a socket",
				  name);
	fd = weir__sys_connect(name, ANSWER_SECONDS);
	if (fd == -ECONNREFUSED) {
		r = weir__sys_unlink(AT_FDCWD, name);
		return r < 0 && r != -ENOENT ? weir__fail_sys(r, "%s", name)
					     : 0;
	}
	if (fd >= 0)
		weir__sys_close(fd);
	return weir__fail(-EADDRINUSE, "%s: another socket listens there",
			  name);
}

static int listen_at(const char *name, int *ret_fd)
{
	int fd = weir__sys_listen(name);

	if (fd == -EADDRINUSE && name[0] != '@') {
		int r = remove_left(name);

		if (r < 0)
			return r;
		fd = weir__sys_listen(name);
	}
	if (fd < 0)
		return weir__fail_sys(fd, "a socket of the name %s", name);
	*ret_fd = fd;
	return 0;
}

/* Only the owner may connect to a socket at a path, unless all may. */
static int set_mode(const struct weir_publication *p)
{
	int r;

	if (p->name[0] == '@')
		return 0;
	r = weir__sys_chmod_path(p->name, p->any_user ? 0666 : 0600);
	return r < 0 ? weir__fail_sys(r, "the mode of %s", p->name) : 0;
}

static void remove_name(const struct weir_publication *p)
{
	/* Another process may have taken the path over. */
	if (p->inode && inode_of(p->name) == p->inode)
		weir__sys_unlink(AT_FDCWD, p->name);
}

static int start(struct weir_publication *p)
{
	char limits[WEIR__LIMITS_TEXT];
	int r = set_mode(p);

	if (r < 0)
		return r;
	p->stop = weir__sys_eventfd();
	if (p->stop < 0)
		return weir__fail_sys(p->stop, "an eventfd");
	r = weir__thread_start(&p->thread, "weir-publish", serve, p);
	if (r < 0) {
		weir__sys_close(p->stop);
		weir__thread_limits(limits);
		return weir__fail_sys(r, "a thread that publishes%s", limits);
	}
	return 0;
}

static void publication_free(struct weir_publication *p)
{
	weir__sys_close(p->fd);
	weir__free(p->name);
	weir__root_put(p->weir);
	weir__free(p);
}

static int publish(struct weir_publication *p)
{
	int r = listen_at(p->name, &p->listener);

	if (r < 0)
		return r;
	p->inode = inode_of(p->name);
	r = start(p);
	if (r < 0) {
		remove_name(p);
		weir__sys_close(p->listener);
	}
	return r;
}

int weir_publish(struct weir *weir, const char *name, int fd, uint32_t flags,
		 struct weir_publication **ret_publication)
{
	struct weir_publication *p;
	int r;

	WEIR__ENTER();
	if ((r = weir__root_enter(weir)) < 0 ||
	    (r = check_name(name, flags)) < 0)
		return r;
	fd = weir__sys_dup(fd);
	if (fd < 0)
		return weir__fail_sys(fd, "the descriptor to publish");
	p = weir__calloc(1, sizeof(*p));
	if (!p) {
		weir__sys_close(fd);
		return weir__fail(-ENOMEM, "no memory for a publication");
	}
	p->weir = weir__root_ref(weir);
	p->fd = fd;
	p->any_user = flags & WEIR_PUBLISH_ANY_USER;
	p->name = weir__strdup(name);
	r = p->name ? publish(p)
		    : weir__fail(-ENOMEM, "no memory for a publication");
	if (r < 0)
		publication_free(p);
	else
		*ret_publication = p;
	return r;
}

void weir_publication_free(struct weir_publication *p)
{
	if (!p || !weir__root_is_ours(p->weir))
		return;
	remove_name(p);
	weir__sys_shutdown(p->listener);
	weir__sys_eventfd_set(p->stop, true);
	weir__thread_join(p->thread, INT64_MAX);
	weir__sys_close(p->stop);
	weir__sys_close(p->listener);
	publication_free(p);
}

/* The publisher could send any bytes: it has to be of this user. */
static int check_publisher(const char *name, int socket, uint32_t flags)
{
	uid_t uid;
	int r = weir__sys_peer(socket, &uid);

	if (r < 0)
		return weir__fail_sys(r, "the publisher of %s", name);
	if (flags & WEIR_PUBLISH_ANY_USER || uid == 0 || uid == geteuid())
		return 0;
	return weir__fail(
		-EACCES,
		"%s is published by user %u, not by %u (WEIR_PUBLISH_ANY_USER)",
		name, (unsigned)uid, (unsigned)geteuid());
}

static int receive(const char *name, int socket, int *ret_fd)
{
	int fds[WEIR__MESSAGE_FDS], r;
	struct answer a = { .refused = 0 };
	unsigned n = 0;

	r = weir__sys_receive_fds(socket, false, &a, sizeof(a), fds, &n);
	if (r == -EAGAIN)
		return weir__fail(-ETIMEDOUT,
				  "%s: no answer from its publisher in %d s",
				  name, ANSWER_SECONDS);
	if (r < 0)
		return weir__fail_sys(r, "the descriptor of %s", name);
	if (r == sizeof(a) && !memcmp(a.magic, MAGIC, sizeof(a.magic))) {
		if (n == 1 && !a.refused) {
			*ret_fd = fds[0];
			return 0;
		}
		if (n == 0 && a.refused == EACCES)
			return weir__fail(
				-EACCES,
				"%s is published for another user (WEIR_PUBLISH_ANY_USER)",
				name);
	}
	while (n)
		weir__sys_close(fds[--n]);
	return weir__fail(
		-EPROTO,
		"%s: the socket has not answered as a publisher of weir", name);
}

int weir_published(struct weir *weir, const char *name, uint32_t flags,
		   int *ret_fd)
{
	int socket, r;

	WEIR__ENTER();
	if ((r = weir__root_enter(weir)) < 0 ||
	    (r = check_name(name, flags)) < 0)
		return r;
	socket = weir__sys_connect(name, ANSWER_SECONDS);
	if (socket == -EAGAIN)
		return weir__fail(
			-ETIMEDOUT,
			"%s: its publisher has accepted no connection in %d s",
			name, ANSWER_SECONDS);
	if (socket < 0)
		return weir__fail_sys(socket, "%s", name);
	r = check_publisher(name, socket, flags);
	if (r >= 0)
		r = receive(name, socket, ret_fd);
	weir__sys_close(socket);
	return r;
}
