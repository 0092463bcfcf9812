/* SPDX-License-Identifier: MIT */
/* Unix sockets, by which processes pass descriptors to each other. */
#include "core/sys.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "core/clock.h"

#define TYPE (SOCK_SEQPACKET | SOCK_CLOEXEC)
#define BACKLOG 64

/* Room for the descriptors of a message. */
union control {
	struct cmsghdr align;
	char room[CMSG_SPACE(WEIR__MESSAGE_FDS * sizeof(int))];
};

int weir__sys_socketpair(int ret_fds[2])
{
	return socketpair(AF_UNIX, TYPE, 0, ret_fds) < 0 ? -errno : 0;
}

int weir__sys_send_fds(int fd, const void *data, size_t n, const int *fds,
		       unsigned n_fds)
{
	union control control = { .room = { 0 } };
	struct iovec iov = { (void *)(uintptr_t)data, n };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct weir__retry retry = { 0 };
	struct cmsghdr *c;
	ssize_t r;

	if (n_fds) {
		msg.msg_control = &control;
		msg.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
	}
	do
		r = sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (r < 0 && errno == EINTR && weir__retry(&retry));
	return r < 0 ? -errno : 0;
}

/* Copy the descriptors of a message to @fds. Returns their number. */
static unsigned take_fds(struct msghdr *msg, int *fds)
{
	unsigned n = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c;
	     c = CMSG_NXTHDR(msg, c)) {
		size_t bytes = c->cmsg_len - CMSG_LEN(0);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		memcpy(fds + n, CMSG_DATA(c), bytes);
		n += (unsigned)(bytes / sizeof(int));
	}
	return n;
}

int weir__sys_receive_fds(int fd, bool keep, void *data, size_t room,
			  int fds[WEIR__MESSAGE_FDS], unsigned *ret_fds)
{
	union control control;
	struct iovec iov = { data, room };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	int flags = keep ? MSG_PEEK | MSG_DONTWAIT : 0;
	struct weir__retry retry = { 0 };
	unsigned n;
	ssize_t r;

	do
		r = recvmsg(fd, &msg, flags | MSG_CMSG_CLOEXEC);
	while (r < 0 && errno == EINTR && weir__retry(&retry));
	if (r < 0)
		return -errno;
	n = take_fds(&msg, fds);
	/* The kernel leaves out descriptors for which there is no number. */
	if (msg.msg_flags & MSG_CTRUNC) {
		while (n)
			weir__sys_close(fds[--n]);
		return -EMFILE;
	}
	*ret_fds = n;
	return (int)r;
}

/* -ENAMETOOLONG: @name does not fit the address of a socket. */
static int make_address(const char *name, struct sockaddr_un *ret_addr,
			socklen_t *ret_len)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	size_t n = strlen(name);

	if (n >= sizeof(addr.sun_path))
		return -ENAMETOOLONG;
	memcpy(addr.sun_path, name, n);
	*ret_len = sizeof(addr);
	if (name[0] == '@') {
		addr.sun_path[0] = '\0';
		*ret_len =
			(socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
	}
	*ret_addr = addr;
	return 0;
}

int weir__sys_listen(const char *name)
{
	struct sockaddr_un addr;
	socklen_t len;
	int fd, r = make_address(name, &addr, &len);

	if (r < 0)
		return r;
	fd = socket(AF_UNIX, TYPE | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&addr, len) == 0 &&
	    listen(fd, BACKLOG) == 0)
		return fd;
	r = -errno;
	weir__sys_close(fd);
	return r;
}

int weir__sys_accept(int fd)
{
	int r = accept4(fd, NULL, NULL, SOCK_CLOEXEC);

	return r < 0 ? -errno : r;
}

int weir__sys_connect(const char *name, unsigned seconds)
{
	struct timeval limit = { .tv_sec = seconds };
	struct sockaddr_un addr;
	socklen_t len;
	int fd, r = make_address(name, &addr, &len);

	if (r < 0)
		return r;
	fd = socket(AF_UNIX, TYPE, 0);
	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) ==
		    0 &&
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) ==
		    0 &&
	    connect(fd, (struct sockaddr *)&addr, len) == 0)
		return fd;
	r = -errno;
	weir__sys_close(fd);
	return r;
}

void weir__sys_shutdown(int fd)
{
	shutdown(fd, SHUT_RDWR);
}

int weir__sys_peer(int fd, uid_t *ret_uid)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		return -errno;
	*ret_uid = peer.uid;
	return 0;
}
