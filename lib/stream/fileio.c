/* SPDX-License-Identifier: MIT */
/*
 * Files in the order of a stream: each operation is one job of one extent.
 */
#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"
#include "io/engine.h"
#include "io/nowait.h"
#include "stream/stream.h"

/* Less than this is not worth a direct read. */
#define DIRECT_MIN (64u << 10)
/* Above this share of pages in the page cache, in 1/1000, it is taken there. */
#define RESIDENT 950u

struct fileio {
	_Atomic uint32_t refs; /* the operation's; its caller's, if native */
	struct weir__job job;
	struct weir__extent ext;
	struct weir__stream_op *op; /* NULL: released; the stream's lock */
	struct weir__engine *eng;
	/* The first bytes that failed; under the stream's lock. */
	uint64_t lo, hi;
	struct weir__outcome outcome; /* theirs, DONE: none has */
	char why[200];                /* its words */
	bool begun; /* the engine has had it; of its caller's thread */
	/* Native: copies for the caller's thread, newest first. */
	_Atomic(struct weir__work *) todo;
	_Atomic bool over;      /* there will be no more */
	_Atomic uint32_t moves; /* of todo and over; a futex */
};

static void fileio_put(struct fileio *io)
{
	if (atomic_fetch_sub(&io->refs, 1) == 1)
		weir__free(io);
}

static void fileio_chunk_done(struct weir__job *job, size_t ext, uint64_t lo,
			      uint64_t hi, const struct weir__outcome *outcome,
			      enum weir__chunk_way way)
{
	struct fileio *io = job->arg;
	pthread_mutex_t *lock = &io->op->stream->lock;

	(void)ext;
	(void)way;
	if (outcome->end == WEIR__DONE)
		return;
	pthread_mutex_lock(lock);
	if (io->outcome.end == WEIR__DONE || lo < io->lo) {
		io->lo = lo;
		io->hi = hi;
		io->outcome = *outcome;
		snprintf(io->why, sizeof(io->why), "%s",
			 weir__outcome_words(outcome));
	}
	pthread_mutex_unlock(lock);
}

static void fileio_chunk_in_driver(struct weir__job *job, size_t ext,
				   uint64_t lo, uint64_t hi)
{
	struct weir__stream_op *op = ((struct fileio *)job->arg)->op;
	struct weir_stream *s = op->stream;
	bool all;

	(void)ext;
	pthread_mutex_lock(&s->lock);
	op->unhanded -= hi - lo;
	all = op->unhanded == 0;
	pthread_mutex_unlock(&s->lock);
	if (all)
		weir__source_changed(&s->src);
}

static void moved(struct fileio *io)
{
	atomic_fetch_add(&io->moves, 1);
	weir__futex_wake(&io->moves, 1);
}

/* On a native stream: the copies are in its order, behind what it has. */
static void fileio_submit_copy(struct weir__job *job, struct weir__work *work)
{
	struct fileio *io = job->arg;

	work->next = atomic_load(&io->todo);
	while (!atomic_compare_exchange_weak(&io->todo, &work->next, work))
		;
	moved(io);
}

/*
 * Hand them to the driver; returns how many bytes. The operation is there until
 * the last of them is done, unless the root gave it up: what is left then is
 * dropped, with the slots that it is in.
 */
static uint64_t hand_over(struct weir_stream *s, struct fileio *io)
{
	struct weir__work *work, *next = atomic_exchange(&io->todo, NULL);
	uint64_t n = 0;
	int r;

	while ((work = next)) {
		next = work->next;
		n += work->width;
		pthread_mutex_lock(&s->lock);
		if (io->op && !io->job.write)
			io->op->unhanded -= work->width;
		r = io->op ? weir__stream_submit(s, work) : 0;
		pthread_mutex_unlock(&s->lock);
		if (r < 0)
			work->done(work, r, 0);
	}
	return n;
}

/*
 * The caller of a native stream, which can hold nothing back, stays until all
 * copies are with the driver, or, of host memory, until the bytes are there.
 */
static void attend(struct weir_stream *s, struct fileio *io)
{
	uint64_t left = io->ext.len;
	uint32_t seen;

	for (;;) {
		seen = atomic_load(&io->moves);
		left -= hand_over(s, io);
		if (!left || atomic_load(&io->over))
			return;
		weir__futex_wait(&io->moves, seen, INT64_MAX);
	}
}

/* On a thread of the engine. */
static void job_done(struct weir__job *job)
{
	struct fileio *io = job->arg;
	const struct weir_file *file = io->ext.file;
	unsigned long long lo = io->ext.off + io->lo, hi = io->ext.off + io->hi;
	int err = weir__outcome_errno(&io->outcome);

	atomic_store(&io->over, true);
	moved(io);
	if (io->outcome.end == WEIR__DONE)
		weir__stream_op_finish(io->op, NULL);
	else if (io->outcome.end == WEIR__END_OF_FILE)
		weir__stream_op_fail(
			io->op, err, 0,
			"%s: ends before bytes [%llu, %llu); it had %llu bytes when it was opened",
			file->base, lo, hi, (unsigned long long)file->id.bytes);
	else
		weir__stream_op_fail(io->op, err, io->outcome.native,
				     "%s: bytes [%llu, %llu): %s%s", file->base,
				     lo, hi, io->why,
				     weir__dev_words(io->op->stream->dev,
						     io->outcome.native));
}

static void fileio_start(struct weir__stream_op *op)
{
	struct fileio *io = op->io;
	int r;

	io->begun = true;
	r = weir__job_start(io->eng, &io->job);
	if (r < 0)
		weir__stream_op_fail(op, r, 0, "%s: the I/O engine refused: %s",
				     io->ext.file->base, weir_error());
}

/*
 * What the kernel may still write to, after the root was closed with transfers
 * out, is kept for ever: a reference to the buffer and the file that nobody
 * drops, and the job.
 */
static void fileio_release(struct weir__stream_op *op)
{
	struct fileio *io = op->io;

	pthread_mutex_lock(&op->stream->lock);
	io->op = NULL;
	pthread_mutex_unlock(&op->stream->lock);
	if (atomic_load(&io->job.leaked)) {
		op->access[0].dma = false;
		weir_buf_ref(op->access[0].buf);
		weir__file_ref(op->file);
		return;
	}
	/* It may never have begun: its stream had failed. */
	atomic_store(&io->over, true);
	moved(io);
	fileio_put(io);
}

static unsigned char *mem_of(const struct weir__stream_op *op)
{
	const struct weir__access *access = &op->access[0];

	return access->buf->mem.base + access->lo;
}

static int check(const struct weir_stream *s, const struct weir_file *file,
		 uint64_t off, size_t n, bool write)
{
	uint64_t end;

	if (file->weir != s->src.weir)
		return weir__fail(-EINVAL, "%s and %s are of two roots",
				  file->base, s->label);
	if (weir__add_over(off, n, &end) || end > INT64_MAX)
		return weir__fail(-EINVAL,
				  "%s: %zu bytes at offset %llu are over 2^63",
				  file->base, n, (unsigned long long)off);
	if (write && !file->writable)
		return weir__fail(-EBADF, "%s: was opened for reading only",
				  file->base);
	return 0;
}

/* Through the page cache, or around it? */
static bool buffered(struct weir_file *file, uint64_t off, size_t n)
{
	return n < DIRECT_MIN || !atomic_load(&file->direct_ok) ||
	       weir__file_resident(file, off, n) >= RESIDENT;
}

/* The job of @op, whose range of the file and of memory is set. */
static int make_job(struct weir__stream_op *op)
{
	const struct weir__range *range = &op->file_range;
	bool write = range->write, host = weir__buf_is_host(op->access[0].buf);
	uint64_t n = range->hi - range->lo;
	struct weir_stream *s = op->stream;
	struct weir__engine *eng;
	struct fileio *io;
	int r = weir__engine_get(s->src.weir, &eng);

	if (r < 0)
		return r;
	io = weir__calloc(1, sizeof(*io));
	if (!io)
		return weir__fail(-ENOMEM,
				  "%s: no memory for a job of %zu bytes",
				  op->file->base, sizeof(*io));
	*io = (struct fileio){
		.op = op,
		.eng = eng,
		.ext = { .file = op->file,
			 .off = range->lo,
			 .len = n,
			 .addr = mem_of(op),
			 .dev = host ? NULL : s->dev,
			 .buffered = buffered(op->file, range->lo, n) },
		.job = { .n_ext = 1,
			 .write = write,
			 .chunk_done = fileio_chunk_done,
			 .done = job_done,
			 .arg = io },
	};
	atomic_init(&io->refs, 1);
	io->job.ext = &io->ext;
	if (s->native && io->ext.dev)
		io->job.submit_copy = fileio_submit_copy;
	else if (!write && io->ext.dev)
		io->job.chunk_in_driver = fileio_chunk_in_driver;
	op->io = io;
	op->start = fileio_start;
	op->release = fileio_release;
	return 0;
}

/*
 * The operation that this thread is queueing and may finish in the same call,
 * by a read that does not wait.
 */
static _Thread_local const struct weir__stream_op *queueing;

/* It comes to another thread only if something was queued in between. */
static void nowait_start(struct weir__stream_op *op)
{
	const struct weir__range *range = &op->file_range;
	int r;

	if (op == queueing &&
	    weir__nowait_read(op->file, mem_of(op), range->hi - range->lo,
			      range->lo)) {
		weir__stream_op_finish(op, NULL);
		return;
	}
	r = make_job(op);
	if (r < 0) {
		weir__stream_op_fail(op, r, 0, "%s", weir_error());
		return;
	}
	/* As was announced to fork(2): no DMA. */
	((struct fileio *)op->io)->ext.buffered = true;
	fileio_start(op);
}

/* May the calling thread make the read itself? */
static bool may_nowait(const struct weir__stream_op *op)
{
	const struct weir__range *range = &op->file_range;
	uint64_t n = range->hi - range->lo;
	struct weir_stream *s = op->stream;
	bool idle;

	if (range->write || s->native || !weir__buf_is_host(op->access[0].buf))
		return false;
	pthread_mutex_lock(&s->lock);
	idle = !s->open;
	pthread_mutex_unlock(&s->lock);
	return idle && weir__nowait_allowed(s->src.weir, n) &&
	       weir__nowait_expected(op->file, range->lo, n);
}

/* The ranges of the file and of memory, and the job unless it is not needed. */
static int prepare(struct weir__stream_op *op, struct weir_file *file,
		   uint64_t file_off, const struct weir_tensor *t, size_t off,
		   size_t n, bool write)
{
	unsigned char *addr;
	int r = check(op->stream, file, file_off, n, write);

	if (r == 0)
		r = weir__stream_op_access(op, t, off, n, !write, &addr);
	if (r < 0)
		return r;
	op->file = weir__file_ref(file);
	op->file_range = (struct weir__range){ .lo = file_off,
					       .hi = file_off + n,
					       .write = write };
	/* A write ends on the host, a read with its copies. */
	op->unhanded = n;
	if (may_nowait(op)) {
		op->start = nowait_start;
		return 0;
	}
	r = make_job(op);
	if (r == 0) {
		const struct fileio *io = op->io;

		op->access[0].dma = !write && !io->ext.dev && !io->ext.buffered;
	}
	return r;
}

/*
 * What the driver has is in order with the copies; files, and what the host
 * does to its own memory, are not, so the caller waits for them.
 */
static int transfer_native(struct weir__stream_op *op)
{
	struct weir_stream *s = op->stream;
	struct fileio *io = op->io;
	uint64_t ahead = weir__stream_file_ahead(op);
	int r;

	if (!io->ext.dev)
		ahead = weir__stream_tail(s);
	if (ahead)
		weir__source_block(&s->src, ahead, -1);
	atomic_fetch_add(&io->refs, 1);
	r = weir__stream_op_end(op, 0);
	/* Behind a failure it is not begun, but cancelled when it is its turn. */
	if (r == 0 && io->begun)
		attend(s, io);
	fileio_put(io);
	return r;
}

static int transfer(struct weir_stream *s, struct weir_file *file,
		    uint64_t file_off, const struct weir_tensor *t, size_t off,
		    size_t n, bool write)
{
	struct weir__stream_op *op;
	int r = weir__stream_op_begin(s, write ? "write" : "read",
				      WEIR__WORK_COPY, &op);

	if (r < 0)
		return r;
	r = prepare(op, file, file_off, t, off, n, write);
	if (r == 0 && s->native)
		return transfer_native(op);
	queueing = op;
	r = weir__stream_op_end(op, r);
	queueing = NULL;
	return r;
}

int weir_stream_read(struct weir_stream *stream, struct weir_file *file,
		     uint64_t file_off, const struct weir_tensor *dst,
		     size_t off, size_t n)
{
	WEIR__ENTER();
	return transfer(stream, file, file_off, dst, off, n, false);
}

int weir_stream_write(struct weir_stream *stream, struct weir_file *file,
		      uint64_t file_off, const struct weir_tensor *src,
		      size_t off, size_t n)
{
	WEIR__ENTER();
	return transfer(stream, file, file_off, src, off, n, true);
}
