/* SPDX-License-Identifier: MIT */
/*
 * Loads over reads that are short, fail, are refused or hang. pread(2) is
 * ours here, so the method is sync; what becomes of a result is decided in one
 * place for both methods.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir.h>

#include "sample.h"
#include "tap.h"

static char path[] = "/var/tmp/weir-faults-XXXXXX";
static struct weir *root;
static struct weir_buft *huge;
static struct weir_plan *the_plan;
static enum weir_way the_way;

static const struct sample_tensor tensors[] = {
	{ "a", "U8", 3, 1 },
	{ "b", "F64", 40000, 8 },
	{ "c", "F32", 50001, 4 },
};
#define N (sizeof(tensors) / sizeof(tensors[0]))

/* What becomes of reads of byte @lo to @hi of the file, and from where on. */
static struct {
	_Atomic uint64_t lo, hi;
	enum {
		PASS,
		SHORT,
		ONCE_SHORT,
		ZERO,
		FAIL,
		ONCE_FAIL,
		HOLD
	} act;
	int64_t arg; /* bytes, < 0: less than asked for; or an errno */
	bool direct_only;
	_Atomic unsigned hits;
	_Atomic bool hold;
} fault;

static bool is_direct(int fd)
{
	return fcntl(fd, F_GETFL) & O_DIRECT;
}

static ssize_t cut(ssize_t got, void *buf, size_t n)
{
	size_t give = fault.arg > 0 ? (size_t)fault.arg
				    : n - (size_t)-fault.arg;

	if (got < 0 || (size_t)got <= give || !give)
		return got;
	/* What lies behind is not to be relied on. */
	memset((char *)buf + give, 0x5a, (size_t)got - give);
	return (ssize_t)give;
}

static ssize_t faulty(int fd, void *buf, size_t n, off_t off)
{
	bool first = atomic_fetch_add(&fault.hits, 1) == 0;

	if (fault.act == ZERO)
		return 0;
	if (fault.act == FAIL || (fault.act == ONCE_FAIL && first)) {
		errno = (int)fault.arg;
		return -1;
	}
	while (fault.act == HOLD && atomic_load(&fault.hold))
		usleep(1000);
	if (fault.act == SHORT || (fault.act == ONCE_SHORT && first))
		return cut(syscall(SYS_pread64, fd, buf, n, off), buf, n);
	return syscall(SYS_pread64, fd, buf, n, off);
}

/* The library's calls come here, too. */
__attribute__((visibility("default"))) ssize_t pread(int fd, void *buf,
						     size_t n, off_t off)
{
	uint64_t from = (uint64_t)off;

	if (fault.act == PASS || from >= fault.hi || from + n <= fault.lo ||
	    (fault.direct_only && !is_direct(fd)))
		return syscall(SYS_pread64, fd, buf, n, off);
	return faulty(fd, buf, n, off);
}

static void set_fault(int act, int64_t arg, uint64_t lo, uint64_t hi)
{
	fault.act = PASS;
	fault.arg = arg;
	fault.lo = lo;
	fault.hi = hi;
	fault.hits = 0;
	fault.direct_only = false;
	fault.hold = act == HOLD;
	fault.act = act;
}

static void open_root(void)
{
	struct weir_put_opts put = WEIR_PUT_OPTS_INIT;
	struct weir_opts o = WEIR_OPTS_INIT;
	struct weir_model *m;
	struct weir_dev *cpu;

	o.io = WEIR_IO_SYNC;
	o.chunk = 65536;
	o.copiers = 2;
	o.close_timeout = 300000000;
	put.way = the_way;
	if (weir_open(&o, &root) < 0 || weir_dev_find(root, "CPU", &cpu) < 0 ||
	    weir_dev_buft(cpu, WEIR_MEM_HUGE, &huge) < 0 ||
	    weir_model_open(root, path, NULL, &m) < 0 ||
	    weir_plan_new(m, &the_plan) < 0 ||
	    weir_plan_put(the_plan, NULL, huge, &put) != (int)N)
		bail("%s", weir_error());
	weir_model_close(m);
}

static void close_root(void)
{
	set_fault(PASS, 0, 0, 0);
	weir_plan_free(the_plan);
	weir_close(root);
}

static struct weir_load *start(struct weir_weights *into)
{
	struct weir_load_opts o = WEIR_LOAD_OPTS_INIT;
	struct weir_load *l;

	o.into = into;
	if (weir_load_start(the_plan, &o, &l) < 0)
		bail("%s", weir_error());
	return l;
}

static struct weir_weights *weights(struct weir_load *l)
{
	struct weir_weights *w;

	if (weir_load_weights(l, &w) < 0)
		bail("%s", weir_error());
	return w;
}

/* The load comes to its end with the right bytes and a true report. */
static void survives(const char *what)
{
	struct weir_load_report rep = { .size = sizeof(rep) };
	struct weir_load *l;
	struct weir_weights *w;

	l = start(NULL);
	w = weights(l);
	is_int(weir_load_wait(l, -1), 0, "reads survive %s", what);
	is_int(sample_wrong(w, 2), 0, "... with the right bytes");
	weir_load_report(l, &rep);
	ok(rep.in_place + rep.staged + rep.buffered == rep.bytes,
	   "... and a report that adds up");
	ok(fault.hits > 0, "... which it met");
	weir_load_free(l);
	weir_weights_free(w);
}

static void fails(int err, const char *part, const char *what)
{
	struct weir_load *l = start(NULL);
	struct weir_failure f;

	is_err(weir_load_wait(l, -1), err, part, "%s fails the load", what);
	is_int(weir_load_error(l, 1, &f), err, "... by the tensor it is in");
	has_str(f.text, "tensor 'b'", "... which is named");
	is_int(weir_load_error(l, 0, &f), 0, "... others do not mind");
	weir_load_error(l, WEIR_ALL, &f);
	is_int(f.number, 1, "... and of all it is the first to fail");
	weir_load_free(l);
}

static void results(void)
{
	static const int64_t shorts[] = { 511, 512, 4096, 5000, -1, -511 };
	char what[64];

	for (size_t i = 0; i < sizeof(shorts) / sizeof(shorts[0]); i++) {
		snprintf(what, sizeof(what), "being cut to %lld bytes",
			 (long long)shorts[i]);
		open_root();
		set_fault(SHORT, shorts[i], 4096, UINT64_MAX);
		survives(what);
		set_fault(ONCE_SHORT, shorts[i], 200000, 200001);
		survives("one that is");
		close_root();
	}
	open_root();
	set_fault(SHORT, 1, 150000, 190000);
	survives("coming byte by byte");
	set_fault(ONCE_FAIL, EINTR, 200000, 200001);
	survives("a signal");
	set_fault(ONCE_FAIL, EAGAIN, 200000, 200001);
	survives("being told to try again");
	set_fault(FAIL, EAGAIN, 200000, 200001);
	fails(-EAGAIN, "'b'", "a read that is always told so");
	set_fault(FAIL, EIO, 200000, 200001);
	fails(-EIO, "'b'", "a read that fails");
	set_fault(FAIL, ENODATA, 200000, 200001);
	fails(-EIO, "medium", "an error of the medium (ENODATA)");
	set_fault(FAIL, ETIMEDOUT, 200000, 200001);
	fails(-EIO, "in time", "a disk that does not answer (ETIMEDOUT)");
	set_fault(FAIL, ECANCELED, 200000, 200001);
	fails(-EIO, "'b'", "a read that the kernel cancelled (ECANCELED)");
	set_fault(ZERO, 0, 200000, 200001);
	fails(-ESTALE, "520", "an end in the middle");
	close_root();
}

static void refused(void)
{
	open_root();
	set_fault(ONCE_FAIL, EINVAL, 250000, UINT64_MAX);
	fault.direct_only = true;
	if (the_way == WEIR_WAY_DIRECT)
		survives("O_DIRECT being refused half-way");
	close_root();
}

static void wait_for_hit(void)
{
	while (!fault.hits)
		usleep(1000);
}

static void held(void)
{
	struct weir_load_opts o = WEIR_LOAD_OPTS_INIT;
	struct weir_load *l, *other;
	struct weir_failure f;
	struct weir_event *e;

	open_root();
	set_fault(HOLD, 0, 200000, 200001);
	l = start(NULL);
	o.into = weights(l);
	wait_for_hit();
	is_err(weir_load_start(the_plan, &o, &other), -EBUSY, "another load",
	       "weights that are being loaded are not loaded again");
	is_err(weir_load_wait(l, 1000000), -ETIMEDOUT, "",
	       "who waits for a read that hangs can give up");
	if (weir_event_new(root, 0, &e) < 0)
		bail("%s", weir_error());
	weir_load_record(l, 0, e);
	is_int(weir_event_wait(e, -1), 0, "... while tensors beside it arrive");
	weir_load_cancel(l);
	is_err(weir_load_wait(l, 1000000), -ETIMEDOUT, "",
	       "a cancelled load waits for what is out");
	atomic_store(&fault.hold, false);
	(void)!weir_load_wait(l, -1);
	weir_load_free(l);
	set_fault(PASS, 0, 0, 0);
	l = start(o.into);
	is_int(weir_load_wait(l, -1), 0,
	       "... and when it has ended its memory is loaded again");
	is_int(sample_wrong(o.into, 2), 0, "... with the right bytes");
	weir_load_record(l, 0, e);
	weir_load_free(l);
	weir_weights_free(o.into);
	is_int(weir_event_error(e, &f), 0, "an event outlives its load");
	weir_event_free(e);
	close_root();
}

/* One chunk at a time, of which the second hangs until the load is cancelled. */
static void cancelled(void)
{
	struct weir_load_opts o = WEIR_LOAD_OPTS_INIT;
	struct weir_weights *w;
	struct weir_failure f;
	struct weir_event *e;
	struct weir_load *l;
	uint8_t digest[32];

	open_root();
	set_fault(HOLD, 0, 66000, 66001);
	o.depth = 1;
	if (weir_load_start(the_plan, &o, &l) < 0 ||
	    weir_event_new(root, 0, &e) < 0 || weir_load_record(l, 2, e) < 0)
		bail("%s", weir_error());
	wait_for_hit();
	weir_load_cancel(l);
	atomic_store(&fault.hold, false);
	is_int(weir_load_wait(l, -1), -ECANCELED, "a cancelled load says so");
	is_int(weir_load_error(l, 0, &f), 0, "... not of what had arrived");
	is_int(weir_load_error(l, 2, &f), -ECANCELED, "... but of the others");
	is_int(f.number, 2, "... each by its own number");
	weir_event_error(e, &f);
	is_int(f.number, 2, "... as its event says");
	weir_load_error(l, WEIR_ALL, &f);
	is_int(f.number, 1, "... and of all it is the first to fail");
	w = weights(l);
	is_int(weir_weights_digest(w, 2, WEIR_DIGEST_XXH3, digest), -ECANCELED,
	       "what was not loaded has no digest");
	weir_weights_free(w);
	weir_event_free(e);
	weir_load_free(l);
	close_root();
}

static void *wait_all(void *load)
{
	return (void *)(intptr_t)weir_load_wait(load, -1);
}

/* In a child: what hangs is leaked, on purpose. */
static int closing(void)
{
	struct weir_load *held_up, *behind;
	void *first, *second;
	pthread_t a, b;

	open_root();
	set_fault(HOLD, 0, 65536, UINT64_MAX);
	held_up = start(NULL);
	behind = start(NULL);
	wait_for_hit();
	if (pthread_create(&a, NULL, wait_all, held_up) ||
	    pthread_create(&b, NULL, wait_all, behind))
		return 2;
	weir_close(root);
	pthread_join(a, &first);
	pthread_join(b, &second);
	return (intptr_t)first != -ESHUTDOWN || (intptr_t)second != -ESHUTDOWN;
}

static void closed(void)
{
	int status = -1;
	pid_t pid = fork();

	if (!pid) {
		alarm(300);
		_exit(closing());
	}
	waitpid(pid, &status, 0);
	is_int(status, 0,
	       "who waits for a read that hangs wakes when the root is closed");
}

static void contract(enum weir_way which, const char *prefix)
{
	tap_prefix(prefix);
	the_way = which;
	results();
	refused();
	held();
	cancelled();
	closed();
}

int main(void)
{
	int fd = mkstemp(path);

	plan(2 * 105 + 4);
	if (fd < 0)
		skip_all("%s cannot be made", path);
	close(fd);
	sample_write(path, tensors, N, 8, 2);
	contract(WEIR_WAY_DIRECT, "direct: ");
	contract(WEIR_WAY_BUFFERED, "buffered: ");
	unlink(path);
	return done_testing();
}
