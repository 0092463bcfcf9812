/* SPDX-License-Identifier: MIT */
/*
 * Loads whose reads are short, fail, are refused or hang. The test replaces
 * pread(2), so the method is sync; both methods handle the results of reads by
 * the same code.
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

/* The fault of reads that have any byte of [lo, hi) of the file. */
static struct {
	_Atomic uint64_t lo, hi;
	enum {
		PASS,
		SHORT,
		ONCE_SHORT,
		ZERO,
		FAIL,
		ONCE_FAIL,
		HANG
	} act;
	int64_t arg; /* bytes to read (< 0: that many fewer), or an errno */
	bool direct_only;
	_Atomic unsigned hits;
	_Atomic bool hang;
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
	/* The kernel may have written there, too. */
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
	while (fault.act == HANG && atomic_load(&fault.hang))
		usleep(1000);
	if (fault.act == SHORT || (fault.act == ONCE_SHORT && first))
		return cut(syscall(SYS_pread64, fd, buf, n, off), buf, n);
	return syscall(SYS_pread64, fd, buf, n, off);
}

/* Replaces that of the C library, for the library too. */
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
	fault.hang = act == HANG;
	fault.act = act;
}

static void open_root(void)
{
	struct weir_select_opts how = WEIR_SELECT_OPTS_INIT;
	struct weir_opts o = WEIR_OPTS_INIT;
	struct weir_model *m;
	struct weir_dev *cpu;

	o.io = WEIR_IO_SYNC;
	o.chunk = 65536;
	o.copiers = 2;
	o.close_timeout = 300000000;
	how.way = the_way;
	if (weir_open(&o, &root) < 0 || weir_dev_find(root, "CPU", &cpu) < 0 ||
	    weir_dev_buft(cpu, WEIR_MEM_HUGE, &huge) < 0 ||
	    weir_model_open(root, path, NULL, &m) < 0 ||
	    weir_plan_new(m, &the_plan) < 0 ||
	    weir_plan_add(the_plan, NULL, huge, &how) != (int)N)
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

/* The load succeeds, with the right bytes and a report that adds up. */
static void load_survives(const char *what)
{
	struct weir_load_report rep = { .size = sizeof(rep) };
	struct weir_load *l;
	struct weir_weights *w;

	l = start(NULL);
	w = weights(l);
	is_int(weir_load_wait(l, -1), 0, "a load succeeds despite %s", what);
	is_int(sample_wrong(w, 2), 0, "the bytes are right despite %s", what);
	weir_load_report(l, &rep);
	ok(rep.in_place + rep.staged + rep.buffered == rep.bytes,
	   "the report adds up despite %s", what);
	ok(fault.hits > 0, "there were reads with %s", what);
	weir_load_free(l);
	weir_weights_free(w);
}

static void load_fails(int err, const char *part, const char *what)
{
	struct weir_load *l = start(NULL);
	struct weir_failure f;

	is_err(weir_load_wait(l, -1), err, part, "a load fails because of %s",
	       what);
	is_int(weir_load_error(l, 1, &f), err,
	       "the tensor in that range fails because of %s", what);
	has_str(f.text, "tensor 'b'",
		"the failure because of %s names the tensor", what);
	is_int(weir_load_error(l, 0, &f), 0,
	       "another tensor does not fail because of %s", what);
	weir_load_error(l, WEIR_ALL, &f);
	is_int(f.number, 1,
	       "the load's failure because of %s has the number of the tensor",
	       what);
	weir_load_free(l);
}

static void reads_go_wrong(void)
{
	static const int64_t shorts[] = { 511, 512, 4096, 5000, -1, -511 };
	char what[64];

	for (size_t i = 0; i < sizeof(shorts) / sizeof(shorts[0]); i++) {
		snprintf(what, sizeof(what), "reads cut to %lld bytes",
			 (long long)shorts[i]);
		open_root();
		set_fault(SHORT, shorts[i], 4096, UINT64_MAX);
		load_survives(what);
		set_fault(ONCE_SHORT, shorts[i], 200000, 200001);
		snprintf(what, sizeof(what), "one read cut to %lld bytes",
			 (long long)shorts[i]);
		load_survives(what);
		close_root();
	}
	open_root();
	set_fault(SHORT, 1, 150000, 190000);
	load_survives("reads of one byte each");
	set_fault(ONCE_FAIL, EINTR, 200000, 200001);
	load_survives("one EINTR");
	set_fault(ONCE_FAIL, EAGAIN, 200000, 200001);
	load_survives("one EAGAIN");
	set_fault(FAIL, EAGAIN, 200000, 200001);
	load_fails(-EAGAIN, "'b'", "a read that always returns EAGAIN");
	set_fault(FAIL, EIO, 200000, 200001);
	load_fails(-EIO, "'b'", "a read that fails");
	set_fault(FAIL, ENODATA, 200000, 200001);
	load_fails(-EIO, "medium", "an error of the medium (ENODATA)");
	set_fault(FAIL, ETIMEDOUT, 200000, 200001);
	load_fails(-EIO, "in time", "a disk that does not answer (ETIMEDOUT)");
	set_fault(FAIL, ECANCELED, 200000, 200001);
	load_fails(-EIO, "'b'", "a read that the kernel cancelled (ECANCELED)");
	set_fault(ZERO, 0, 200000, 200001);
	load_fails(-ESTALE, "520", "an end of file in the middle");
	close_root();
}

static void direct_reads_are_refused(void)
{
	open_root();
	set_fault(ONCE_FAIL, EINVAL, 250000, UINT64_MAX);
	fault.direct_only = true;
	if (the_way == WEIR_WAY_DIRECT)
		load_survives("O_DIRECT refused half-way");
	close_root();
}

static void wait_for_hit(void)
{
	while (!fault.hits)
		usleep(1000);
}

static void a_read_hangs(void)
{
	struct weir_load_opts o = WEIR_LOAD_OPTS_INIT;
	struct weir_load *l, *other;
	struct weir_failure f;
	struct weir_event *e;

	open_root();
	set_fault(HANG, 0, 200000, 200001);
	l = start(NULL);
	o.into = weights(l);
	wait_for_hit();
	is_err(weir_load_start(the_plan, &o, &other), -EBUSY, "another load",
	       "weights are not loaded again while a load fills them");
	is_err(weir_load_wait(l, 1000000), -ETIMEDOUT, "",
	       "a wait for a read that hangs ends at its timeout");
	if (weir_event_new(root, 0, &e) < 0)
		bail("%s", weir_error());
	weir_load_record(l, 0, e);
	is_int(weir_event_wait(e, -1), 0,
	       "a tensor arrives while a read of another hangs");
	weir_load_cancel(l);
	is_err(weir_load_wait(l, 1000000), -ETIMEDOUT, "",
	       "a cancelled load does not end before its chunks in flight");
	atomic_store(&fault.hang, false);
	(void)!weir_load_wait(l, -1);
	weir_load_free(l);
	set_fault(PASS, 0, 0, 0);
	l = start(o.into);
	is_int(weir_load_wait(l, -1), 0,
	       "weights are loaded again after a cancelled load has ended");
	is_int(sample_wrong(o.into, 2), 0,
	       "weights that are loaded again have the right bytes");
	weir_load_record(l, 0, e);
	weir_load_free(l);
	weir_weights_free(o.into);
	is_int(weir_event_error(e, &f), 0, "an event outlives its load");
	weir_event_free(e);
	close_root();
}

/* One chunk is in flight at a time; the second hangs until the cancel. */
static void a_load_is_cancelled(void)
{
	struct weir_load_opts o = WEIR_LOAD_OPTS_INIT;
	struct weir_weights *w;
	struct weir_failure f;
	struct weir_event *e;
	struct weir_load *l;
	uint8_t digest[32];

	open_root();
	set_fault(HANG, 0, 66000, 66001);
	o.depth = 1;
	if (weir_load_start(the_plan, &o, &l) < 0 ||
	    weir_event_new(root, 0, &e) < 0 || weir_load_record(l, 2, e) < 0)
		bail("%s", weir_error());
	wait_for_hit();
	weir_load_cancel(l);
	atomic_store(&fault.hang, false);
	is_int(weir_load_wait(l, -1), -ECANCELED,
	       "a cancelled load returns -ECANCELED");
	is_int(weir_load_error(l, 0, &f), 0,
	       "a tensor that arrived before the cancel has not failed");
	is_int(weir_load_error(l, 2, &f), -ECANCELED,
	       "a tensor that had not arrived is cancelled");
	is_int(f.number, 2, "the failure of a cancelled tensor has its number");
	weir_event_error(e, &f);
	is_int(f.number, 2, "the event of a cancelled tensor has its number");
	weir_load_error(l, WEIR_ALL, &f);
	is_int(f.number, 1,
	       "a cancelled load has the number of the first failure");
	w = weights(l);
	is_int(weir_weights_digest(w, 2, WEIR_DIGEST_XXH3, digest), -ECANCELED,
	       "a tensor that was cancelled has no digest");
	weir_weights_free(w);
	weir_event_free(e);
	weir_load_free(l);
	close_root();
}

static void *wait_all(void *load)
{
	return (void *)(intptr_t)weir_load_wait(load, -1);
}

/* In a child, since the reads that hang leak memory. */
static int closing(void)
{
	struct weir_load *hanging, *queued;
	void *first, *second;
	pthread_t a, b;

	open_root();
	set_fault(HANG, 0, 65536, UINT64_MAX);
	hanging = start(NULL);
	queued = start(NULL);
	wait_for_hit();
	if (pthread_create(&a, NULL, wait_all, hanging) ||
	    pthread_create(&b, NULL, wait_all, queued))
		return 2;
	weir_close(root);
	pthread_join(a, &first);
	pthread_join(b, &second);
	return (intptr_t)first != -ESHUTDOWN || (intptr_t)second != -ESHUTDOWN;
}

static void the_root_is_closed(void)
{
	int status = -1;
	pid_t pid = fork();

	if (!pid) {
		alarm(300);
		_exit(closing());
	}
	waitpid(pid, &status, 0);
	is_int(status, 0, "weir_close wakes waits for a read that hangs");
}

static void contract(enum weir_way which, const char *prefix)
{
	tap_prefix(prefix);
	the_way = which;
	reads_go_wrong();
	direct_reads_are_refused();
	a_read_hangs();
	a_load_is_cancelled();
	the_root_is_closed();
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
