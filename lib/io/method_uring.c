/* SPDX-License-Identifier: MIT */
/*
 * The method with io_uring(7). Each reactor has a ring of its own, which its
 * thread makes, submits to and reaps. Opening it tests what the ring can do on
 * this machine: a NOP and a read must complete; registering the ring, the files
 * and the slots may each be refused. Only this file uses liburing.
 */
#include <errno.h>
#include <liburing.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "alloc/slots.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/sys.h"
#include "core/trace.h"
#include "core/util.h"
#include "io/engine_state.h"
#include "io/loop.h"
#include "io/method.h"
#include "io/op.h"

#define N_FILES 64u /* entries of the ring's table */
/* An enter that waits for several reads returns after this time, ns. */
#define MAX_SHARE_WAIT 20000000
/* A trial of the ring that takes longer has failed. */
#define TRIAL_SECONDS 10

/* A file that is in the ring's table while ops or links reference it. */
struct fixed_file {
	struct weir_file *file;
	unsigned users;
};

struct uring {
	struct io_uring ring;
	uint64_t ring_id; /* weir__sys_file_id of its descriptor */
	bool dead;
	unsigned n_out;           /* reads in the ring */
	uint64_t n_sqes;          /* submission entries used so far */
	bool armed;               /* a read of the eventfd is in the ring */
	struct weir__retry retry; /* repeats an enter that was refused */
	struct fixed_file file[N_FILES];
	bool files, buffers;
};

/*
 * Reads of the eventfds write here. Nobody uses the value. It is static because
 * a ring that failed may still write to it.
 */
static uint64_t eventfd_count;

/*
 * Newest first: an older kernel refuses unknown flags. With TASKRUN_FLAG the
 * ring shows that completions wait for an enter; without it liburing would not
 * enter for a reactor that is always notified and never waits.
 */
static const struct {
	unsigned flags;
	uint32_t feature;
} setups[] = {
	{ IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
		  IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_CLAMP,
	  WEIR_IO_HAS_DEFER_TASKRUN },
	{ IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG |
		  IORING_SETUP_CLAMP,
	  0 },
	{ 0, 0 },
};

/* Name the setting that forbids the ring: a sysctl, or a seccomp filter. */
static void explain_forbidden(char *hint, size_t room)
{
	char text[16] = "?";

	weir__sys_text("/proc/sys/kernel/io_uring_disabled", text,
		       sizeof(text));
	snprintf(
		hint, room, "; %s",
		*text == '2' ? "kernel.io_uring_disabled is 2"
		: *text == '1'
			? "kernel.io_uring_disabled is 1 (privileged users only), or a seccomp filter forbids it"
		: *text == '0'
			? "a seccomp filter forbids it (kernel.io_uring_disabled is 0)"
			: "kernel.io_uring_disabled or a seccomp filter forbids it");
}

/* @need: about how many bytes of locked memory the ring still needs. */
static void explain_limit(uint64_t need, char *hint, size_t room)
{
	uint64_t limit = weir__sys_limit(RLIMIT_MEMLOCK);

	if (limit != UINT64_MAX)
		snprintf(
			hint, room,
			"; it needs about %llu bytes more, RLIMIT_MEMLOCK is %llu (ulimit -l)",
			(unsigned long long)need, (unsigned long long)limit);
}

/* Add a reason for weir_io_info: what failed, and what forbids it. */
static void explain_ring(struct weir__engine *eng, const char *what, int err,
			 uint64_t need)
{
	char hint[160] = "";

	if (err == -EPERM)
		explain_forbidden(hint, sizeof(hint));
	else if (err == -ENOSYS)
		snprintf(hint, sizeof(hint),
			 "; the kernel has none, or a seccomp filter hides it");
	else if (err == -ENOMEM)
		explain_limit(need, hint, sizeof(hint));
	weir__engine_explain(eng, false, "%s: %s%s", what,
			     weir__errno_name(-err), hint);
}

/* An entry takes 64 bytes, two completions of 16, and an index of 4. */
static uint64_t ring_bytes(unsigned entries)
{
	return weir__up(entries * 64ull, 4096) +
	       weir__up(entries * 36ull, 4096);
}

/*
 * Submit one request and wait for it. Returns its result; -ETIME: the kernel
 * has taken it and does not complete it.
 */
static int round_trip(struct uring *u, int opcode, int fd, uint64_t *count)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);
	struct __kernel_timespec ts = { .tv_sec = TRIAL_SECONDS };
	struct weir__retry retry = { 0 };
	struct io_uring_cqe *cqe;
	int r;

	io_uring_prep_rw(opcode, sqe, fd, count, count ? sizeof(*count) : 0, 0);
	do
		r = io_uring_submit(&u->ring);
	while (r == -EINTR && weir__retry(&retry));
	if (r < 0)
		return r;
	do
		r = io_uring_wait_cqe_timeout(&u->ring, &cqe, &ts);
	while (r == -EINTR && weir__retry(&retry));
	if (r < 0)
		return r;
	r = cqe->res;
	io_uring_cqe_seen(&u->ring, cqe);
	return r;
}

/*
 * A ring that was made may still refuse to be entered, or lack what reactors
 * need: waits with a timeout (Linux 5.11), reads and writes (5.6). A write is
 * not tested, since a write to an eventfd needs a worker thread.
 */
static int try_ring(struct weir__loop *loop, struct uring *u)
{
	const char *what;
	int err;

	what = "io_uring_setup: no IORING_FEAT_EXT_ARG (Linux 5.11)";
	err = u->ring.features & IORING_FEAT_EXT_ARG ? 0 : -EOPNOTSUPP;
	if (!err) {
		what = "io_uring_enter";
		err = round_trip(u, IORING_OP_NOP, -1, NULL);
	}
	if (err >= 0) {
		what = "write to an eventfd";
		err = weir__wakefd_signal(&loop->reactor.wakefd) ? 0 : -EIO;
	}
	if (err >= 0) {
		what = "IORING_OP_READ";
		err = round_trip(u, IORING_OP_READ, loop->reactor.wakefd.fd,
				 &eventfd_count);
	}
	if (err < 0)
		explain_ring(loop->reactor.eng, what, err, 0);
	return err < 0 ? err : 0;
}

/* The program may have closed the ring's descriptor: see wakefd.h. */
static void exit_ring(struct uring *u)
{
	if (weir__sys_file_id(u->ring.ring_fd) != u->ring_id)
		u->ring.ring_fd = -1;
	io_uring_queue_exit(&u->ring);
}

/* The kernel's worker threads do not have the affinity of the reactor. */
static void place_workers(struct weir__loop *loop, struct uring *u)
{
	const struct weir__cpu_set *cpus = &loop->reactor.eng->weir->io_cpus;

	/* If this is refused, they run on all CPUs. */
	if (weir__cpus_count(cpus) < weir__cpus())
		io_uring_register_iowq_aff(&u->ring, sizeof(*cpus), cpus->part);
}

static int set_up(struct weir__loop *loop, struct uring *u)
{
	unsigned entries = loop->n_ops + 2;
	size_t i = 0;
	int err = 0;

	while (i < sizeof(setups) / sizeof(setups[0])) {
		memset(&u->ring, 0, sizeof(u->ring));
		err = io_uring_queue_init(entries, &u->ring, setups[i].flags);
		if (!err)
			break;
		if (err == -ENOMEM && entries > 8)
			entries /= 2;
		else if (err == -EINVAL)
			i++;
		else
			break;
	}
	if (err) {
		explain_ring(loop->reactor.eng, "io_uring_setup", err,
			     ring_bytes(entries));
		return err;
	}
	u->ring_id = weir__sys_file_id(u->ring.ring_fd);
	err = try_ring(loop, u);
	if (err < 0) {
		exit_ring(u);
		return err;
	}
	/* No more ops may be in flight than the ring has entries. */
	if (u->ring.sq.ring_entries < loop->n_ops + 2)
		loop->n_ops = u->ring.sq.ring_entries - 2;
	place_workers(loop, u);
	io_uring_ring_dontfork(&u->ring);
	loop->reactor.features = WEIR_IO_HAS_RING | setups[i].feature;
	return 0;
}

static int fill_entry(struct uring *u, unsigned index, void *addr, size_t n)
{
	struct iovec iov = { addr, n };
	__u64 tag = 0;
	int r = io_uring_register_buffers_update_tag(&u->ring, index, &iov,
						     &tag, 1);

	return r < 0 ? r : 0;
}

/*
 * An empty table is always allowed: only filling an entry can exceed the limit.
 */
static int try_buffers(struct weir__loop *loop, struct uring *u)
{
	unsigned n = weir__slots_count(loop->reactor.slots);
	void *trial;
	int err;

	if (!n)
		return 0;
	err = io_uring_register_buffers_sparse(&u->ring, n);
	if (err)
		return err;
	trial = weir__malloc(WEIR__SLOT_SMALL);
	if (!trial)
		return -ENOMEM;
	err = fill_entry(u, 0, trial, WEIR__SLOT_SMALL);
	if (!err)
		err = fill_entry(u, 0, NULL, 0);
	weir__free(trial);
	return err;
}

static void register_all(struct weir__loop *loop, struct uring *u)
{
	struct weir__engine *eng = loop->reactor.eng;
	int err = io_uring_register_ring_fd(&u->ring);

	if (err == 1)
		loop->reactor.features |= WEIR_IO_HAS_RING_FD;
	else
		explain_ring(eng, "registering the ring", err, 0);
	err = io_uring_register_files_sparse(&u->ring, N_FILES);
	u->files = !err;
	if (u->files)
		loop->reactor.features |= WEIR_IO_HAS_FILES;
	else
		explain_ring(eng, "registering files", err, 0);
	err = try_buffers(loop, u);
	u->buffers = !err;
	if (u->buffers)
		loop->reactor.features |= WEIR_IO_HAS_BUFFERS;
	else
		explain_ring(eng, "registering slots", err, WEIR__SLOT_SMALL);
}

static int uring_open(struct weir__loop *loop)
{
	struct uring *u = weir__calloc(1, sizeof(*u));
	int err;

	if (!u)
		return -ENOMEM;
	err = set_up(loop, u);
	if (err < 0) {
		weir__free(u);
		return err;
	}
	register_all(loop, u);
	loop->method = u;
	return 0;
}

static void uring_close(struct weir__loop *loop)
{
	struct uring *u = loop->method;

	exit_ring(u);
	weir__free(u);
	loop->method = NULL;
}

/* Returns NULL if the ring is full and the kernel takes nothing from it. */
static struct io_uring_sqe *get_sqe(struct weir__loop *loop)
{
	struct uring *u = loop->method;
	struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);

	/*
	 * There is room for n_ops, but not for ops that were repeated
	 * meanwhile.
	 */
	while (!sqe && io_uring_submit(&u->ring) > 0) {
		atomic_fetch_add_explicit(&loop->reactor.enters, 1,
					  memory_order_relaxed);
		sqe = io_uring_get_sqe(&u->ring);
	}
	u->n_sqes += sqe != NULL;
	return sqe;
}

static bool in_slot(const struct weir__slot *slot, const unsigned char *p)
{
	return p >= slot->addr && p < slot->addr + slot->bytes;
}

static void uring_submit(struct weir__loop *loop, struct weir__op *op)
{
	const struct weir_file *file = op->extent->file;
	struct uring *u = loop->method;
	struct io_uring_sqe *sqe = u->dead ? NULL : get_sqe(loop);
	int fd = op->direct ? file->direct_fd : file->fd;
	unsigned flags = 0;

	if (!sqe) {
		weir__pool_push(op->direct ? loop->reactor.eng->readers
					   : loop->reactor.eng->copiers,
				&op->task);
		return;
	}
	if (op->direct && op->fixed >= 0) {
		fd = op->fixed;
		flags |= IOSQE_FIXED_FILE;
	}
	/* Requests that would block the submitter go to a worker thread. */
	if (!op->direct || !file->nowait)
		flags |= IOSQE_ASYNC;
	if (op->write && op->slot && op->slot->registered &&
	    in_slot(op->slot, op->buf))
		io_uring_prep_write_fixed(sqe, fd, op->buf, op->len, op->off,
					  (int)op->slot->index);
	else if (op->write)
		io_uring_prep_write(sqe, fd, op->buf, op->len, op->off);
	else if (op->slot && op->slot->registered)
		io_uring_prep_read_fixed(sqe, fd, op->buf, op->len, op->off,
					 (int)op->slot->index);
	else
		io_uring_prep_read(sqe, fd, op->buf, op->len, op->off);
	sqe->flags |= (unsigned char)flags;
	io_uring_sqe_set_data(sqe, op);
	op->in_ring = true;
	op->sqe_number = u->n_sqes;
	u->n_out++;
}

static void arm_event(struct weir__loop *loop)
{
	struct uring *u = loop->method;
	struct io_uring_sqe *sqe;

	if (u->armed && !weir__wakefd_is_lost(&loop->reactor.wakefd))
		return;
	if (weir__reactor_check_wakefd(&loop->reactor))
		u->armed = false;
	if (u->armed || weir__wakefd_is_lost(&loop->reactor.wakefd))
		return;
	sqe = get_sqe(loop);
	if (!sqe)
		return;
	io_uring_prep_read(sqe, atomic_load(&loop->reactor.wakefd.fd),
			   &eventfd_count, sizeof(eventfd_count), 0);
	io_uring_sqe_set_data(sqe, u);
	u->armed = true;
}

/*
 * Called for -ECANCELED, although nothing was cancelled: the kernel could not
 * start a worker thread for a request that would block.
 */
static void without_worker(struct weir__loop *loop, struct weir__op *op)
{
	const char *what = "a worker thread of the ring could not be started";
	const struct weir__outcome failed = weir__failed(-EAGAIN, what);

	weir__engine_explain(loop->reactor.eng, false, "%s", what);
	if (!loop->reactor.eng->only_ring)
		weir__method_sync.submit(loop, op);
	else
		weir__op_finish(loop, op, &failed);
}

/* Returns the number of completions. */
static unsigned ring_reap(struct weir__loop *loop)
{
	struct uring *u = loop->method;
	struct io_uring_cqe *cqe;
	struct weir__op *op;
	unsigned head, n = 0;

	io_uring_for_each_cqe(&u->ring, head, cqe)
	{
		void *data = io_uring_cqe_get_data(cqe);
		int res = cqe->res;

		n++;
		if (data == u) {
			u->armed = false;
			continue;
		}
		u->n_out--;
		op = data;
		op->in_ring = false;
		if (res == -ECANCELED && op->state != WEIR__OP_ORPHANED)
			without_worker(loop, op);
		else
			weir__op_advance(loop, op, res);
	}
	io_uring_cq_advance(&u->ring, n);
	return n;
}

/*
 * The kernel consumes submissions in their order, and io_uring_sq_ready()
 * returns how many of the newest it has not consumed.
 */
static bool was_submitted(const struct uring *u, const struct weir__op *op)
{
	return u->n_sqes - op->sqe_number >= io_uring_sq_ready(&u->ring);
}

/*
 * The ring cannot be entered any more: a seccomp filter was installed later, or
 * its descriptor was closed. Ops that the kernel has are orphaned, since their
 * completions cannot be reaped; ops that are only in the ring's memory go to
 * threads, and so do all later ones.
 */
static void close_dead_ring(struct weir__loop *loop, int err)
{
	const struct weir__outcome failed =
		weir__failed(err, "the ring failed");
	struct weir__reactor *r = &loop->reactor;
	struct uring *u = loop->method;

	u->dead = true;
	weir__engine_explain(r->eng, true,
			     "the ring failed: io_uring_enter: %s",
			     weir__errno_name(-err));
	weir__log(r->eng->weir, "reactor %u: the ring failed: %s", r->index,
		  weir__errno_describe(-err));
	loop->method_ops = &weir__method_sync;
	atomic_store(&r->io, WEIR_IO_SYNC);
	/* The ring's read may consume a signal: replace the eventfd. */
	weir__wakefd_distrust(&r->wakefd);
	for (struct weir__op *op = loop->ops; op; op = op->next_all) {
		if (!op->in_ring || op->state == WEIR__OP_ORPHANED)
			continue;
		op->in_ring = false;
		if (was_submitted(u, op)) {
			atomic_store(&r->eng->leaked, true);
			weir__op_orphan(loop, op, &failed);
		} else {
			weir__method_sync.submit(loop, op);
		}
	}
	uring_close(loop);
}

/* True if -EAGAIN means only that the enter neither submitted nor waited. */
static bool has_nothing(const struct uring *u, unsigned n, int err)
{
	return err == -EAGAIN && !n && !io_uring_sq_ready(&u->ring);
}

/*
 * True for temporary errors: memory is short, completions were not reaped, or a
 * signal came.
 */
static bool may_pass(int err)
{
	return err == -EINTR || err == -EAGAIN || err == -EBUSY ||
	       err == -ENOMEM;
}

/*
 * Enter the ring. With several reads in flight one enter waits for a third of
 * them, so that a busy reactor makes less than one system call per read.
 */
static void uring_wait(struct weir__loop *loop, int64_t limit)
{
	struct uring *u = loop->method;
	/* Orphaned reads are not counted. */
	unsigned out = u->n_out < loop->n_out ? u->n_out : loop->n_out;
	struct __kernel_timespec ts;
	struct io_uring_cqe *cqe;
	bool released;
	unsigned n = 0;
	int err;

	arm_event(loop);
	released = limit && weir__owner_release(&loop->reactor.owner);
	if (released)
		n = limit < 0 && out >= 4 ? out / 3 : 1;
	if (limit < 0)
		limit = n > 1 ? MAX_SHARE_WAIT
			      : weir__reactor_max_sleep(&loop->reactor);
	ts = (struct __kernel_timespec){ limit / 1000000000,
					 limit % 1000000000 };
	err = io_uring_submit_and_wait_timeout(&u->ring, &cqe, n,
					       n ? &ts : NULL, NULL);
	if (released)
		weir__owner_acquire(&loop->reactor.owner);
	atomic_fetch_add_explicit(&loop->reactor.enters, 1,
				  memory_order_relaxed);
	if (ring_reap(loop) || err >= 0 || err == -ETIME)
		u->retry = (struct weir__retry){ 0 };
	else if (!has_nothing(u, n, err) &&
		 (!may_pass(err) || !weir__retry(&u->retry)))
		close_dead_ring(loop, err);
}

static void uring_slot(struct weir__loop *loop, struct weir__slot *slot)
{
	struct uring *u = loop->method;
	int err;

	if (!u->buffers || u->dead)
		return;
	err = fill_entry(u, slot->index, slot->addr, slot->bytes);
	slot->registered = !err;
	if (!err)
		return;
	/* Most likely RLIMIT_MEMLOCK. Unregistered slots cost little more. */
	u->buffers = false;
	atomic_fetch_and(&loop->reactor.features, ~WEIR_IO_HAS_BUFFERS);
	explain_ring(loop->reactor.eng, "registering one more slot", err,
		     weir__up(slot->bytes, WEIR__HUGE_PAGE));
}

static int uring_file_get(struct weir__loop *loop, struct weir_file *file)
{
	struct uring *u = loop->method;
	int at = -1, fd = file->direct_fd;

	if (!u->files || u->dead)
		return -1;
	for (unsigned i = 0; i < N_FILES; i++) {
		if (u->file[i].file == file) {
			u->file[i].users++;
			return (int)i;
		}
		if (at < 0 && !u->file[i].file)
			at = (int)i;
	}
	if (at < 0 ||
	    io_uring_register_files_update(&u->ring, (unsigned)at, &fd, 1) != 1)
		return -1;
	u->file[at] = (struct fixed_file){ file, 1 };
	return at;
}

static void uring_file_put(struct weir__loop *loop, int fixed)
{
	struct uring *u = loop->method;
	int none = -1;

	if (--u->file[fixed].users || u->dead)
		return;
	u->file[fixed].file = NULL;
	io_uring_register_files_update(&u->ring, (unsigned)fixed, &none, 1);
}

const struct weir__method_ops weir__method_uring = {
	.size = sizeof(weir__method_uring),
	.io = WEIR_IO_URING,
	.name = "uring",
	.open = uring_open,
	.close = uring_close,
	.submit = uring_submit,
	.wait = uring_wait,
	.slot = uring_slot,
	.file_get = uring_file_get,
	.file_put = uring_file_put,
};
