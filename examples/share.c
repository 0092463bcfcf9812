/* SPDX-License-Identifier: MIT */
/*
 * share serve SOCKET MODEL N: loads a model once, into memory that processes
 * share, and sends it to N processes.
 * share read SOCKET: one of these: maps the tensors without a copy.
 *
 * Both print each tensor with a checksum of its bytes. What is sent is the
 * descriptor of the memory and a table of the tensors in it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <weir.h>

enum {
	MAX_TENSORS = 1 << 20
};

struct head {
	uint64_t bytes; /* size of the memory */
	uint64_t tensors;
};

/* A tensor without its address, which differs between processes. */
struct record {
	char name[232];
	uint64_t offset;
	uint32_t dtype, ndim;
	int64_t shape[WEIR_MAX_DIMS];
};

static int fail(const char *what)
{
	perror(what);
	return -1;
}

static int fail_weir(void)
{
	fprintf(stderr, "%s\n", weir_error());
	return -1;
}

static int show(const struct weir_tensor *t)
{
	const unsigned char *p = weir_tensor_data(t);
	uint64_t sum = 0xcbf29ce484222325u; /* FNV-1a */
	size_t n;

	if (weir_tensor_bytes(t, &n) < 0)
		return fail_weir();
	for (size_t i = 0; i < n; i++)
		sum = (sum ^ p[i]) * 0x100000001b3u;
	printf("%016llx %zu %s\n", (unsigned long long)sum, n, t->name);
	return 0;
}

static int make_socket(const char *path, struct sockaddr_un *ret_addr)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int s;

	if (strlen(path) >= sizeof(addr.sun_path)) {
		fprintf(stderr, "%s: too long for a socket\n", path);
		return -1;
	}
	strcpy(addr.sun_path, path);
	*ret_addr = addr;
	s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	return s < 0 ? fail("socket") : s;
}

/* Room for one descriptor in a message. */
union control {
	struct cmsghdr align;
	char room[CMSG_SPACE(sizeof(int))];
};

static int send_head(int s, const struct head *head, int fd)
{
	union control control = { .room = { 0 } };
	struct iovec iov = { (void *)(uintptr_t)head, sizeof(*head) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	if (sendmsg(s, &msg, MSG_NOSIGNAL) != sizeof(*head))
		return fail("sendmsg");
	return 0;
}

static int receive_head(int s, struct head *head, int *ret_fd)
{
	union control control;
	struct iovec iov = { head, sizeof(*head) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(s, &msg, MSG_WAITALL | MSG_CMSG_CLOEXEC);
	struct cmsghdr *c = n < 0 ? NULL : CMSG_FIRSTHDR(&msg);

	if (!c || c->cmsg_type != SCM_RIGHTS) {
		fprintf(stderr, "the server has sent no descriptor\n");
		return -1;
	}
	memcpy(ret_fd, CMSG_DATA(c), sizeof(*ret_fd));
	if (n == sizeof(*head) && head->tensors <= MAX_TENSORS)
		return 0;
	fprintf(stderr, "the server has sent no table\n");
	close(*ret_fd);
	return -1;
}

/* The server makes the table of the tensors; NULL: a name is too long. */
static struct record *make_table(const struct weir_weights *w, size_t n)
{
	struct record *table = calloc(n + 1, sizeof(*table));

	for (size_t i = 0; table && i < n; i++) {
		const struct weir_tensor *t = weir_weights_get(w, i);
		struct record *r = &table[i];

		if (strlen(t->name) >= sizeof(r->name)) {
			fprintf(stderr, "%s: too long a name\n", t->name);
			free(table);
			return NULL;
		}
		strcpy(r->name, t->name);
		r->offset = t->offset;
		r->dtype = t->dtype;
		r->ndim = t->ndim;
		memcpy(r->shape, t->shape, sizeof(r->shape));
	}
	return table;
}

static int send_all(int s, const struct head *head, const struct record *table,
		    int fd)
{
	size_t left = head->tensors * sizeof(*table);
	const char *p = (const char *)table;

	if (send_head(s, head, fd) < 0)
		return -1;
	while (left) {
		ssize_t n = send(s, p, left, MSG_NOSIGNAL);

		if (n < 0)
			return fail("send");
		p += n;
		left -= (size_t)n;
	}
	return 0;
}

static int serve_readers(const char *path, int readers, const struct head *head,
			 const struct record *table, int fd)
{
	struct sockaddr_un addr;
	int s = make_socket(path, &addr), ret = 0;

	if (s < 0)
		return -1;
	if (bind(s, (struct sockaddr *)&addr, sizeof(addr)) < 0 ||
	    listen(s, 16) < 0)
		ret = fail(path);
	while (ret == 0 && readers--) {
		int reader = accept(s, NULL, NULL);

		ret = reader < 0 ? fail("accept")
				 : send_all(reader, head, table, fd);
		if (reader >= 0)
			close(reader);
	}
	close(s);
	unlink(path);
	return ret;
}

/*
 * All tensors of one selection are in one buffer, unless a device needs
 * several.
 */
static int serve_weights(const char *path, int readers, struct weir_weights *w)
{
	struct weir_buf_info info = { .size = sizeof(info) };
	struct head head = { .tensors = weir_weights_count(w) };
	struct weir_buf *buf;
	struct record *table;
	int fd, ret;

	if (!head.tensors || head.tensors > MAX_TENSORS)
		return fprintf(stderr, "no tensors, or too many\n"), -1;
	buf = weir_weights_get(w, 0)->buf;
	for (size_t i = 0; i < head.tensors; i++)
		if (show(weir_weights_get(w, i)) < 0)
			return -1;
	fflush(stdout);
	table = make_table(w, head.tensors);
	if (!table)
		return -1;
	ret = weir_buf_info(buf, &info) < 0 || weir_buf_share(buf, 0, &fd) < 0
		      ? fail_weir()
		      : 0;
	if (ret == 0) {
		head.bytes = info.bytes;
		ret = serve_readers(path, readers, &head, table, fd);
		close(fd);
	}
	free(table);
	return ret;
}

static int serve(struct weir *weir, const char *path, const char *model,
		 int readers)
{
	struct weir_select_opts select = WEIR_SELECT_OPTS_INIT;
	struct weir_buft *huge;
	struct weir_weights *w;
	int ret;

	select.buf_flags = WEIR_BUF_SHARED | WEIR_BUF_HUGETLB;
	if (weir_dev_buft(weir_dev_get(weir, 0), WEIR_MEM_HUGE, &huge) < 0 ||
	    weir_load_all(weir, model, huge, &select, &w) < 0)
		return fail_weir();
	ret = serve_weights(path, readers, w);
	weir_weights_free(w);
	return ret;
}

/* The reader: the library checks that each tensor is inside the memory. */
static int show_record(struct record *r, struct weir_buf *buf)
{
	struct weir_tensor t;

	r->name[sizeof(r->name) - 1] = '\0';
	if (weir_tensor_init(&t, (enum weir_dtype)r->dtype, r->ndim, r->shape) <
		    0 ||
	    weir_tensor_place(&t, buf, r->offset) < 0)
		return fail_weir();
	t.name = r->name;
	return show(&t);
}

static int read_tensors(int s, uint64_t n, struct weir_buf *buf)
{
	struct record r;

	for (; n; n--) {
		if (recv(s, &r, sizeof(r), MSG_WAITALL) != sizeof(r)) {
			fprintf(stderr, "the server has sent fewer tensors\n");
			return -1;
		}
		if (show_record(&r, buf) < 0)
			return -1;
	}
	return 0;
}

static int read_from(struct weir *weir, int s)
{
	struct weir_buft *mapped;
	struct weir_buf *buf;
	struct head head;
	int fd, ret;

	if (receive_head(s, &head, &fd) < 0)
		return -1;
	ret = weir_dev_buft(weir_dev_get(weir, 0), WEIR_MEM_MAPPED, &mapped);
	if (ret == 0)
		ret = weir_buf_wrap_fd(mapped, fd, 0, head.bytes, 0, &buf);
	close(fd); /* the mapping stays */
	if (ret < 0)
		return fail_weir();
	ret = read_tensors(s, head.tensors, buf);
	weir_buf_free(buf);
	return ret;
}

static int read_shared(struct weir *weir, const char *path)
{
	struct sockaddr_un addr;
	int s = make_socket(path, &addr), ret;

	if (s < 0)
		return -1;
	if (connect(s, (struct sockaddr *)&addr, sizeof(addr)) < 0)
		ret = fail(path);
	else
		ret = read_from(weir, s);
	close(s);
	return ret;
}

int main(int argc, char **argv)
{
	struct weir *weir;
	int ret;

	if (!(argc == 5 && !strcmp(argv[1], "serve")) &&
	    !(argc == 3 && !strcmp(argv[1], "read"))) {
		fprintf(stderr, "usage: share serve SOCKET MODEL N\n"
				"       share read SOCKET\n");
		return 2;
	}
	if (weir_open(NULL, &weir) < 0)
		return fail_weir(), 1;
	ret = argc == 5 ? serve(weir, argv[2], argv[3], atoi(argv[4]))
			: read_shared(weir, argv[2]);
	weir_close(weir);
	return ret < 0;
}
