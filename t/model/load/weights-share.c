/* SPDX-License-Identifier: MIT */
/* Weights that processes share, and descriptors by name. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir.h>

#include "kind.h"
#include "sample.h"
#include "tap.h"

#define SALT 5
#define MOST 252 /* buffers of shared weights */
#define DESCRIPTORS (4 * MOST)

static const struct sample_tensor tensors[] = {
	{ "a", "F32", 1000, 4 },
	{ "b", "U8", 4097, 1 },
	{ "empty", "F16", 0, 2 },
	{ "c", "I64", 12, 8 },
};
#define N (sizeof(tensors) / sizeof(tensors[0]))

static struct weir *weir;
static struct weir_buft *plain, *mapped;
static char dir[] = "/var/tmp/weir-weights-share-XXXXXX", model[64], many[64],
	    name[64];

static struct weir_weights *load(uint32_t flags)
{
	struct weir_select_opts opts = WEIR_SELECT_OPTS_INIT;
	struct weir_weights *w;

	opts.buf_flags = flags;
	if (weir_load_all(weir, model, plain, &opts, &w) < 0)
		bail("%s", weir_error());
	return w;
}

static int share(struct weir_weights *w)
{
	int fd;

	if (weir_weights_share(w, &fd) < 0)
		bail("%s", weir_error());
	return fd;
}

/* The descriptor of weights that are there no longer. */
static int shared(void)
{
	struct weir_weights *w = load(WEIR_BUF_SHARED);
	int fd = share(w);

	weir_weights_free(w);
	return fd;
}

static int try_open(int fd)
{
	struct weir_weights *w;
	int r = weir_weights_open(weir, fd, NULL, &w);

	if (r >= 0)
		weir_weights_free(w);
	return r;
}

static bool same_entry(const struct weir_weights *a,
		       const struct weir_weights *b, size_t i)
{
	struct weir_entry x = { .size = sizeof(x) }, y = { .size = sizeof(y) };

	return weir_weights_entry(a, i, &x) >= 0 &&
	       weir_weights_entry(b, i, &y) >= 0 && !strcmp(x.name, y.name) &&
	       x.dtype == y.dtype && x.ndim == y.ndim && x.offset == y.offset &&
	       x.bytes == y.bytes && !memcmp(x.shape, y.shape, sizeof(x.shape));
}

/* How many tensors of @b are not those of @a. */
static size_t differ(const struct weir_weights *a, const struct weir_weights *b)
{
	size_t wrong = weir_weights_count(a) != weir_weights_count(b);

	for (size_t i = 0; i < weir_weights_count(a); i++) {
		const struct weir_tensor *x = weir_weights_get(a, i),
					 *y = weir_weights_get(b, i);
		size_t n;

		wrong += !y || strcmp(x->name, y->name) ||
			 x->dtype != y->dtype || x->ndim != y->ndim ||
			 memcmp(x->shape, y->shape, sizeof(x->shape)) ||
			 memcmp(x->stride, y->stride, sizeof(x->stride)) ||
			 weir_weights_find(b, x->name) != y ||
			 weir_tensor_bytes(x, &n) < 0 ||
			 memcmp(weir_tensor_data(x), weir_tensor_data(y), n) ||
			 !same_entry(a, b, i);
	}
	return wrong;
}

static void opened(void)
{
	struct weir_weights *w = load(WEIR_BUF_SHARED), *copy;
	int fd = share(w);
	unsigned char *p = weir_tensor_data(weir_weights_get(w, 1)), *q;
	uint8_t a[32], b[32];

	is_int(fcntl(fd, F_GETFD), FD_CLOEXEC,
	       "the descriptor of shared weights is closed at exec");
	is_int(weir_weights_open(weir, fd, NULL, &copy), 0,
	       "shared weights are opened by their descriptor");
	close(fd);
	is_int((int)differ(w, copy), 0,
	       "opened weights have the names, shapes, dtypes, entries and bytes of those that were shared");
	q = weir_tensor_data(weir_weights_get(copy, 1));
	p[7] ^= 0xff;
	ok(p != q && q[7] == p[7],
	   "opened weights are the same memory, and no copy");
	p[7] ^= 0xff;
	is_err(weir_tensor_fill(weir_weights_get(copy, 1), 0, 1, 0), -EROFS, "",
	       "opened weights are only read");
	is_err(weir_weights_park(copy, NULL), -EOPNOTSUPP, "cannot be parked",
	       "opened weights cannot be parked");
	ok(weir_weights_digest(w, 0, WEIR_DIGEST_SHA256, a) == 32 &&
		   weir_weights_digest(copy, 0, WEIR_DIGEST_SHA256, b) == 32 &&
		   !memcmp(a, b, 32),
	   "opened weights have digests");
	weir_weights_free(w);
	is_int((int)sample_wrong(copy, SALT), 0,
	       "opened weights keep their memory when the others are freed");
	weir_weights_free(copy);
}

/* The number of open descriptors. */
static int descriptors(void)
{
	int n = 0;

	for (int fd = 0; fd < 1000; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void many_times(void)
{
	int before = descriptors(), fd = shared(), wrong = 0;

	for (int i = 0; i < 100; i++)
		wrong += try_open(fd) < 0;
	is_int(wrong, 0, "a descriptor of weights can be opened many times");
	close(fd);
	is_int(descriptors() - before, 0,
	       "sharing and opening weights leaves no descriptor open");
}

/* In a child: 0 if the weights of @fd have the right bytes. */
static int reads(int fd)
{
	struct weir *own;
	struct weir_weights *w;

	if (weir_open(NULL, &own) < 0 ||
	    weir_weights_open(own, fd, NULL, &w) < 0)
		return 64;
	return weir_weights_count(w) != N || sample_wrong(w, SALT);
}

static int in_child(int (*fn)(int), int arg)
{
	int status = -1;
	pid_t pid = fork();

	if (!pid)
		_exit(fn(arg));
	waitpid(pid, &status, 0);
	return status;
}

static int dies_with_weights(int fd)
{
	reads(fd);
	return raise(SIGKILL);
}

static void processes(void)
{
	int fd = shared();

	is_int(in_child(reads, fd), 0,
	       "another process opens weights that are freed in the one that shared them");
	ok(WIFSIGNALED(in_child(dies_with_weights, fd)) &&
		   in_child(reads, fd) == 0,
	   "a reader that is killed does not matter to the next one");
	close(fd);
}

/* A publisher: loads, publishes, and says so on @out. */
static int publisher(int out)
{
	struct weir_publication *p;
	struct weir_select_opts opts = WEIR_SELECT_OPTS_INIT;
	struct weir_weights *w;
	int fd;

	opts.buf_flags = WEIR_BUF_SHARED;
	if (weir_open(NULL, &weir) < 0 ||
	    weir_load_all(weir, model, kind_of(weir, "CPU", WEIR_MEM_PLAIN),
			  &opts, &w) < 0 ||
	    weir_weights_share(w, &fd) < 0 ||
	    weir_publish(weir, name, fd, 0, &p) < 0) {
		fprintf(stderr, "# %s\n", weir_error());
		return 1;
	}
	if (write(out, "p", 1) != 1)
		return 1;
	pause();
	return 0;
}

static pid_t start_publisher(void)
{
	int ready[2];
	char c;
	pid_t pid;

	if (pipe(ready) < 0)
		bail("no pipe");
	pid = fork();
	if (!pid)
		_exit(publisher(ready[1]));
	close(ready[1]);
	if (read(ready[0], &c, 1) != 1)
		bail("the publisher has failed");
	close(ready[0]);
	return pid;
}

static int open_named(struct weir_weights **ret_weights)
{
	int fd, r = weir_published(weir, name, 0, &fd);

	if (r >= 0) {
		r = weir_weights_open(weir, fd, NULL, ret_weights);
		close(fd);
	}
	return r;
}

/* What holds for the name that is set. */
static void names(const char *what)
{
	struct weir_weights *first, *second;
	struct weir_publication *p;
	pid_t pid;
	int fd;

	pid = start_publisher();
	is_int(open_named(&first), 0, "weights are opened by %s", what);
	is_err(weir_publish(weir, name, 0, 0, &p), -EADDRINUSE, name,
	       "%s of a process that lives is not taken over", what);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	is_int((int)sample_wrong(first, SALT), 0,
	       "opened weights stay when their publisher is killed");
	is_err(weir_published(weir, name, 0, &fd), -ECONNREFUSED, name,
	       "%s of a process that was killed is an error", what);
	pid = start_publisher();
	is_int(open_named(&second), 0,
	       "a publisher that was killed publishes again by %s", what);
	weir_weights_free(first);
	weir_weights_free(second);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void publications(void)
{
	struct weir_publication *p;
	struct stat st;
	int fd = shared(), got, before = descriptors();

	snprintf(name, sizeof(name), "%s/socket", dir);
	unlink(name);
	is_err(weir_published(weir, name, 0, &got), -ENOENT, name,
	       "a name that nobody publishes is an error");
	is_int(weir_publish(weir, name, fd, 0, &p), 0,
	       "a descriptor is published");
	ok(stat(name, &st) == 0 && (st.st_mode & 0777) == 0600,
	   "only the user may use the socket");
	is_int(weir_published(weir, name, 0, &got), 0,
	       "a process may get what it has published");
	is_int(try_open(got), 0, "what it gets is the descriptor");
	close(got);
	weir_publication_free(p);
	ok(stat(name, &st) < 0 && errno == ENOENT,
	   "the socket is removed with its publication");
	is_int(weir_publish(weir, name, fd, WEIR_PUBLISH_ANY_USER, &p), 0,
	       "a descriptor is published for all users");
	ok(stat(name, &st) == 0 && (st.st_mode & 0777) == 0666,
	   "all users may use that socket");
	weir_publication_free(p);
	weir_publication_free(NULL);
	is_int(descriptors() - before, 0,
	       "publications leave no descriptor open");
	close(fd);
}

static void wrong_names(void)
{
	struct weir_publication *p;
	char longer[200];
	int fd;

	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	is_err(weir_publish(weir, longer, 0, 0, &p), -ENAMETOOLONG, "xxx",
	       "a name that is too long is refused");
	is_err(weir_publish(weir, "", 0, 0, &p), -EINVAL, "empty",
	       "an empty name is refused");
	is_err(weir_published(weir, "@", 0, &fd), -EINVAL, "empty",
	       "an abstract name that is empty is refused");
	is_err(weir_publish(weir, model, 0, 0, &p), -EEXIST, "not a socket",
	       "a file is not replaced by a socket");
	is_err(weir_publish(weir, name, -1, 0, &p), -EBADF, "",
	       "a descriptor that is not open is refused");
	is_err(weir_publish(weir, name, 0, 4, &p), -EINVAL, "flags 0x4",
	       "unknown flags of a publication are refused");
}

/* In a child: user 65534 asks for what root publishes. */
static int asks_as_nobody(int flags)
{
	int fd, r;

	if (setresuid(65534, 65534, 65534) < 0 || weir_open(NULL, &weir) < 0)
		return 64;
	r = weir_published(weir, name, (uint32_t)flags, &fd);
	return r == -EACCES ? 1 : r < 0 ? 2 : 0;
}

static void users(void)
{
	struct weir_publication *p;
	int fd = shared();

	if (geteuid() != 0) {
		skip(2, "only root can be another user, too");
		close(fd);
		return;
	}
	snprintf(name, sizeof(name), "@weir-t-users-%d", (int)getpid());
	if (weir_publish(weir, name, fd, 0, &p) < 0)
		bail("%s", weir_error());
	is_int(WEXITSTATUS(in_child(asks_as_nobody, 0)), 1,
	       "an abstract name does not answer another user");
	weir_publication_free(p);
	if (weir_publish(weir, name, fd, WEIR_PUBLISH_ANY_USER, &p) < 0)
		bail("%s", weir_error());
	is_int(WEXITSTATUS(in_child(asks_as_nobody, WEIR_PUBLISH_ANY_USER)), 0,
	       "a publication for all users answers another user");
	weir_publication_free(p);
	close(fd);
}

static void refused(void)
{
	struct weir_weights *w = load(0);
	int fd;

	is_err(weir_weights_share(w, &fd), -EOPNOTSUPP, "WEIR_BUF_SHARED",
	       "weights in memory of one process cannot be shared");
	weir_weights_free(w);
	fd = memfd_create("x", 0);
	is_err(try_open(fd), -EINVAL, "weir_weights_share()",
	       "a descriptor of something else is refused");
	close(fd);
	is_err(try_open(-1), -EBADF, "descriptor -1",
	       "a descriptor that is not open has no weights");
	fd = shared();
	is_err(weir_weights_open(weir, fd, plain, &w), -EINVAL, "MAPPED",
	       "weights are opened in memory of kind MAPPED only");
	if (weir_weights_open(weir, fd, mapped, &w) < 0)
		bail("%s", weir_error());
	close(fd);
	is_err(weir_weights_share(w, &fd), -EOPNOTSUPP, "WEIR_BUF_SHARED",
	       "opened weights cannot be shared again");
	weir_weights_free(w);
}

static int load_into(struct weir_weights *w)
{
	struct weir_load_opts opts = WEIR_LOAD_OPTS_INIT;
	struct weir_model *m;
	struct weir_plan *plan;
	struct weir_load *l;
	int r;

	opts.into = w;
	if (weir_model_open(weir, model, NULL, &m) < 0 ||
	    weir_plan_new(m, &plan) < 0 ||
	    weir_plan_add(plan, NULL, plain, NULL) < 0)
		bail("%s", weir_error());
	r = weir_load_start(plan, &opts, &l);
	weir_plan_free(plan);
	weir_model_close(m);
	return r;
}

static void not_loaded(void)
{
	struct weir_weights *w;
	int fd = shared();

	if (weir_weights_open(weir, fd, NULL, &w) < 0)
		bail("%s", weir_error());
	close(fd);
	is_err(load_into(w), -EROFS, "only read",
	       "a load into opened weights is refused");
	weir_weights_free(w);
}

/* The message of weir_weights_share(), to be damaged. */
struct message {
	char bytes[64];
	size_t n;
	int fd[16];
	unsigned n_fds;
};

static void take(struct message *m)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(16 * sizeof(int))];
	} control;
	struct iovec iov = { m->bytes, sizeof(m->bytes) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	struct cmsghdr *c;
	int fd = shared();
	ssize_t n = recvmsg(fd, &msg, 0);

	c = n > 0 ? CMSG_FIRSTHDR(&msg) : NULL;
	if (!c)
		bail("no message");
	m->n = (size_t)n;
	m->n_fds = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
	memcpy(m->fd, CMSG_DATA(c), m->n_fds * sizeof(int));
	is_err(try_open(fd), -EINVAL, "weir_weights_share()",
	       "a descriptor whose message was taken has no weights");
	close(fd);
}

/* Open what a message of these bytes and descriptors says. */
static int open_message(const struct message *m, unsigned n_fds)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(16 * sizeof(int))];
	} control = { .room = { 0 } };
	struct iovec iov = { (void *)(uintptr_t)m->bytes, m->n };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *c;
	int pair[2], r;

	if (n_fds) {
		msg.msg_control = &control;
		msg.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		memcpy(CMSG_DATA(c), m->fd, n_fds * sizeof(int));
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) < 0 ||
	    sendmsg(pair[0], &msg, 0) < 0)
		bail("no message can be sent");
	close(pair[0]);
	r = try_open(pair[1]);
	close(pair[1]);
	return r;
}

/* A sealed copy of the table, with byte @at set to @byte. */
static int changed_table(int table, size_t at, unsigned char byte, int seals)
{
	struct stat st;
	unsigned char *copy;
	int fd = memfd_create("table", MFD_ALLOW_SEALING);

	if (fd < 0 || fstat(table, &st) < 0)
		bail("no table");
	copy = malloc((size_t)st.st_size);
	if (!copy ||
	    pread(table, copy, (size_t)st.st_size, 0) != (ssize_t)st.st_size)
		bail("no table");
	copy[at] = byte;
	if (write(fd, copy, (size_t)st.st_size) != (ssize_t)st.st_size ||
	    fcntl(fd, F_ADD_SEALS, seals) < 0)
		bail("no table");
	free(copy);
	return fd;
}

/* Damage each byte of the table: opening it may fail, and nothing else. */
static void damage_each(struct message *m)
{
	int table = m->fd[0],
	    seals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;
	struct stat st;
	size_t failed = 0, wrong = 0;

	if (fstat(table, &st) < 0)
		bail("no table");
	for (size_t at = 0; at < (size_t)st.st_size; at++) {
		int r;

		m->fd[0] = changed_table(table, at, 0x9d, seals);
		r = open_message(m, m->n_fds);
		failed += r < 0;
		wrong += r < 0 && r != -EBADMSG && r != -EINVAL;
		close(m->fd[0]);
	}
	m->fd[0] = table;
	ok(failed > 100 && !wrong,
	   "a table with a damaged byte is opened or refused with a sentence (%zu of %zu are refused)",
	   failed, (size_t)st.st_size);
}

static void damaged(void)
{
	struct message m;
	int table;

	take(&m);
	is_int(open_message(&m, m.n_fds), 0, "the message can be sent again");
	is_err(open_message(&m, 0), -EBADMSG, "missing",
	       "a message without a table is refused");
	is_err(open_message(&m, m.n_fds - 1), -EBADMSG, "descriptor",
	       "a message without a buffer is refused");
	m.bytes[8]++;
	is_err(open_message(&m, m.n_fds), -EBADMSG, "another version",
	       "a message of another version is refused");
	m.bytes[8]--;
	table = m.fd[0];
	m.fd[0] = changed_table(table, 0, 1, 0);
	is_err(open_message(&m, m.n_fds), -EBADMSG, "not sealed",
	       "a table that can change is refused");
	close(m.fd[0]);
	m.fd[0] = table;
	damage_each(&m);
	for (unsigned i = 0; i < m.n_fds; i++)
		close(m.fd[i]);
}

/* Load @n tensors, each into a buffer of its own; with @sink the last to it. */
static struct weir_weights *load_apart(unsigned n, const struct weir_sink *sink)
{
	struct weir_select_opts opts = WEIR_SELECT_OPTS_INIT;
	struct weir_buf_opts flags = WEIR_BUF_OPTS_INIT;
	struct weir_weights *w;
	struct weir_model *m;
	struct weir_plan *plan;
	struct weir_load *l;
	char one[16];

	flags.flags = WEIR_BUF_SHARED;
	if (weir_model_open(weir, many, NULL, &m) < 0 ||
	    weir_plan_new(m, &plan) < 0)
		bail("%s", weir_error());
	for (unsigned i = 0; i < n; i++) {
		snprintf(one, sizeof(one), "t%03u", i);
		if (weir_buf_alloc(plain, 4096, &flags, &opts.buf) < 0 ||
		    (sink && i == n - 1
			     ? weir_plan_sink(plan, one, sink)
			     : weir_plan_add(plan, one, plain, &opts)) < 0)
			bail("%s", weir_error());
		weir_buf_free(opts.buf); /* the plan has it, if it needs it */
	}
	if (weir_load_start(plan, NULL, &l) < 0 || weir_load_wait(l, -1) < 0 ||
	    weir_load_weights(l, &w) < 0)
		bail("%s", weir_error());
	weir_load_free(l);
	weir_plan_free(plan);
	weir_model_close(m);
	return w;
}

/*
 * Each buffer has a descriptor, and one more in those who open it. The soft
 * limit of some systems is 256. False: the hard limit is too low, too.
 */
static bool allow_descriptors(rlim_t n)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		bail("getrlimit");
	if (limit.rlim_cur >= n)
		return true;
	if (limit.rlim_max < n)
		return false;
	limit.rlim_cur = n;
	return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

static void many_buffers(void)
{
	static char names[MOST + 1][8];
	static struct sample_tensor t[MOST + 1];
	struct weir_sink sink = WEIR_SINK_INIT;
	struct weir_weights *w, *copy;
	int fd;

	if (!allow_descriptors(DESCRIPTORS)) {
		skip(3, "needs RLIMIT_NOFILE of %d", DESCRIPTORS);
		return;
	}
	for (unsigned i = 0; i <= MOST; i++) {
		snprintf(names[i], sizeof(names[i]), "t%03u", i % 1000);
		t[i] = (struct sample_tensor){ names[i], "U8", 16 + i, 1 };
	}
	snprintf(many, sizeof(many), "%s/many.safetensors", dir);
	sample_write(many, t, MOST + 1, 0, SALT);
	w = load_apart(MOST, NULL);
	fd = share(w);
	if (weir_weights_open(weir, fd, NULL, &copy) < 0)
		bail("%s", weir_error());
	is_int((int)differ(w, copy), 0, "weights of 252 buffers are shared");
	weir_weights_free(copy);
	weir_weights_free(w);
	close(fd);
	w = load_apart(MOST + 1, NULL);
	is_err(weir_weights_share(w, &fd), -E2BIG, "252",
	       "weights of more buffers are refused");
	weir_weights_free(w);
	w = load_apart(3, &sink);
	is_err(weir_weights_share(w, &fd), -EINVAL, "sink",
	       "weights with a tensor that went to a sink are refused");
	weir_weights_free(w);
	unlink(many);
}

int main(void)
{
	plan(8 + 2 + 2 + 2 * 5 + 9 + 6 + 2 + 5 + 1 + 7 + 3);
	if (!mkdtemp(dir) || weir_open(NULL, &weir) < 0)
		bail("%s", weir_error());
	snprintf(model, sizeof(model), "%s/model.safetensors", dir);
	sample_write(model, tensors, N, 0, SALT);
	plain = kind_of(weir, "CPU", WEIR_MEM_PLAIN);
	mapped = kind_of(weir, "CPU", WEIR_MEM_MAPPED);
	opened();
	many_times();
	processes();
	snprintf(name, sizeof(name), "%s/socket", dir);
	names("the path of a socket");
	snprintf(name, sizeof(name), "@weir-t-%d", (int)getpid());
	names("an abstract name");
	publications();
	wrong_names();
	users();
	refused();
	not_loaded();
	damaged();
	many_buffers();
	weir_close(weir);
	unlink(name);
	unlink(model);
	rmdir(dir);
	return done_testing();
}
