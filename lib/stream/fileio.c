/* SPDX-License-Identifier: MIT */
/*
 * Reading and writing files in the order of a stream: each operation is one
 * job, except for small reads of bytes in the page cache. The thread that
 * queues such a read makes it, which costs less than waking a thread of the
 * engine (io/caller_read.h).
 */
#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/refs.h"
#include "core/sys.h"
#include "core/util.h"
#include "io/caller_read.h"
#include "io/chunk.h"
#include "mem/tensor.h"
#include "stream/fileio.h"

/* Transfers of fewer bytes go through the page cache. */
#define DIRECT_MIN (64u << 10)

void weir__fileio_put(struct weir__fileio *io)
{
	if (weir__refs_drop(&io->refs))
		weir__free(io);
}

bool weir__fileio_conflict(const struct weir__stream_op *a,
			   const struct weir__stream_op *b)
{
	struct weir__range x = a->file_range, y = b->file_range;

	if (!a->file || !b->file || a->file->id.ino != b->file->id.ino ||
	    a->file->id.dev != b->file->id.dev)
		return false;
	/* Ends are rounded up to pages, so beginnings need no rounding. */
	x.hi = weir__up(x.hi, WEIR__PAGE);
	y.hi = weir__up(y.hi, WEIR__PAGE);
	return weir__ranges_meet(&x, &y);
}

/*
 * The operation fails, so later ones are treated as cancelled: those that were
 * issued start no more reads, each of which might take as long. The lock is
 * held.
 */
static void stop_later(const struct weir__stream_op *op)
{
	struct weir__stream_op *later = op->stream->out[1];

	for (; later && later->number > op->number; later = later->older)
		if (later->file && later->io)
			atomic_store(&later->io->stopped, true);
}

static void fileio_chunk_done(struct weir__job *job, size_t ext, uint64_t lo,
			      uint64_t hi, const struct weir__outcome *outcome,
			      enum weir__chunk_way way)
{
	struct weir__fileio *io = job->arg;
	pthread_mutex_t *lock = &io->op->stream->lock;

	(void)way;
	if (outcome->end == WEIR__DONE)
		return;
	lo += job->ext[ext].off;
	hi += job->ext[ext].off;
	pthread_mutex_lock(lock);
	if (io->outcome.end == WEIR__DONE)
		stop_later(io->op);
	if (io->outcome.end == WEIR__DONE || lo < io->lo) {
		io->lo = lo;
		io->hi = hi;
		io->outcome = *outcome;
		snprintf(io->why, sizeof(io->why), "%s",
			 weir__outcome_describe(outcome));
	}
	pthread_mutex_unlock(lock);
}

/*
 * The caller sets caller_waits before it reads @wakes; this changes @wakes
 * before it reads caller_waits. So a caller that is not woken sees the change,
 * and if no caller waits there is no system call.
 */
void weir__fileio_wake(struct weir__fileio *io)
{
	atomic_fetch_add(&io->wakes, 1);
	if (atomic_load(&io->caller_waits))
		weir__futex_wake(&io->wakes, 1);
}

/* No more copies will be submitted. */
static void fileio_over(struct weir__fileio *io)
{
	atomic_store(&io->over, true);
	weir__fileio_wake(io);
}

/* On a thread of the engine. */
static void fileio_job_done(struct weir__job *job)
{
	struct weir__fileio *io = job->arg;
	const struct weir_file *file = io->ext->file;
	unsigned long long lo = io->lo, hi = io->hi;
	int err = weir__outcome_errno(&io->outcome);

	fileio_over(io);
	if (io->outcome.end == WEIR__DONE)
		weir__stream_op_finish(io->op, NULL);
	else if (io->outcome.end == WEIR__END_OF_FILE)
		weir__stream_op_fail(
			io->op, err, 0,
			"%s: ends before bytes [%llu, %llu); it had %llu bytes when it was opened",
			file->base, lo, hi, (unsigned long long)file->id.bytes);
	else
		weir__stream_op_fail(
			io->op, err, io->outcome.native,
			"%s: bytes [%llu, %llu): %s%s", file->base, lo, hi,
			io->why,
			weir__dev_describe_error(io->op->stream->dev,
						 io->outcome.native));
}

static void fileio_start(struct weir__stream_op *op)
{
	struct weir__fileio *io = op->io;
	int r;

	io->begun = true;
	r = weir__job_start(io->eng, &io->job);
	if (r < 0)
		weir__stream_op_fail(op, r, 0, "%s: the I/O engine refused: %s",
				     io->ext->file->base, weir_error());
}

/*
 * Keep a job of one extent for another operation. That of a native stream is
 * not kept: its caller may still use it.
 */
static bool fileio_keep(struct weir_stream *s, struct weir__fileio *io)
{
	bool keep = io->job.n_ext == 1 && s->mode == &weir__stream_managed;

	pthread_mutex_lock(&s->lock);
	keep = keep && s->n_spare_io < WEIR__STREAM_SPARE_IO;
	if (keep) {
		io->next = s->spare_io;
		s->spare_io = io;
		s->n_spare_io++;
	}
	pthread_mutex_unlock(&s->lock);
	return keep;
}

/* Returns a zeroed job with room for @n extents. */
static struct weir__fileio *fileio_take(struct weir_stream *s, size_t n)
{
	struct weir__fileio *io = NULL;
	size_t bytes = sizeof(*io) + n * sizeof(*io->ext);

	pthread_mutex_lock(&s->lock);
	if (n == 1 && s->spare_io) {
		io = s->spare_io;
		s->spare_io = io->next;
		s->n_spare_io--;
	}
	pthread_mutex_unlock(&s->lock);
	return io ? memset(io, 0, bytes) : weir__calloc(1, bytes);
}

/*
 * A job is leaked if the root was closed while the kernel might still write to
 * its memory: then the job, the buffer and the file are never freed.
 */
static void fileio_release(struct weir__stream_op *op)
{
	struct weir__fileio *io = op->io;

	pthread_mutex_lock(&op->stream->lock);
	io->op = NULL;
	pthread_mutex_unlock(&op->stream->lock);
	if (atomic_load(&io->job.leaked)) {
		op->access[0].dma = false;
		weir_buf_ref(op->access[0].buf);
		weir__file_ref(op->file);
		return;
	}
	/* If the stream had failed, the job was not started. */
	fileio_over(io);
	if (!fileio_keep(op->stream, io))
		weir__fileio_put(io);
}

static int check_args(const struct weir_stream *s, const struct weir_file *file,
		      uint64_t off, uint64_t n, bool write)
{
	uint64_t end;

	if (file->weir != s->timeline.weir)
		return weir__fail(-EINVAL, "%s and %s belong to two roots",
				  file->base, s->label);
	if (weir__add_over(off, n, &end) || end > INT64_MAX)
		return weir__fail(
			-EINVAL, "%s: %llu bytes at offset %llu end after 2^63",
			file->base, (unsigned long long)n,
			(unsigned long long)off);
	if (write && !file->writable)
		return weir__fail(-EBADF, "%s: was opened for reading only",
				  file->base);
	return 0;
}

/*
 * True if @bytes, in @span bytes of the file, are read through the page cache.
 * Streams read prefetched weights again and again: if a file is larger than the
 * memory, the part that is cached stays cached, since the rest is not read
 * through the cache.
 */
static bool goes_buffered(struct weir_file *file, uint64_t off, uint64_t span,
			  uint64_t bytes)
{
	if (file->object)
		return false;
	return bytes < DIRECT_MIN || !atomic_load(&file->direct_ok) ||
	       weir__file_resident(file, off, span) >= WEIR__RESIDENT;
}

static unsigned char *fileio_addr(const struct weir__stream_op *op)
{
	return op->access[0].buf->mem.base + op->access[0].lo;
}

uint64_t weir__fileio_bytes(const struct weir__extent *e, uint64_t lo,
			    uint64_t hi)
{
	struct weir__rows rows;

	if (e->rows <= 1)
		return hi - lo;
	rows = weir__chunk_rows(e, lo, hi);
	return rows.n * rows.width;
}

/* Returns all of @op as one extent. */
static struct weir__extent whole_extent(const struct weir__stream_op *op)
{
	const struct weir__range *range = &op->file_range;
	const struct weir_backend_work *work = &op->work;
	struct weir__extent e = { .file = op->file,
				  .off = range->lo,
				  .len = range->hi - range->lo,
				  .addr = fileio_addr(op) };

	if (!weir__buf_is_host(op->access[0].buf))
		e.dev = op->stream->dev;
	e.buffered = goes_buffered(op->file, range->lo, e.len,
				   work->rows * work->width);
	if (work->rows > 1) {
		e.rows = work->rows;
		e.width = work->width;
		e.file_pitch = work->src_pitch;
		e.mem_pitch = work->dst_pitch;
	}
	return e;
}

static void split_rows(struct weir__fileio *io, const struct weir__extent *e)
{
	for (uint64_t k = 0; k < e->rows; k++) {
		struct weir__extent *row = &io->ext[k];

		*row = *e;
		row->rows = 0;
		row->off = e->off + k * e->file_pitch;
		row->len = e->width;
		row->addr = e->addr + k * e->mem_pitch;
		row->buffered = e->buffered || e->width < DIRECT_MIN;
	}
}

int weir__fileio_make(struct weir__stream_op *op)
{
	struct weir__extent e = whole_extent(op);
	struct weir__fileio *io;
	struct weir__engine *eng;
	size_t n = 1;
	int r = weir__engine_get(op->stream->timeline.weir, &eng);

	if (r < 0)
		return r;
	if (e.rows > 1 && !weir__engine_joins_rows(eng, &e))
		n = e.rows;
	io = fileio_take(op->stream, n);
	if (!io)
		return weir__fail(-ENOMEM,
				  "%s: no memory for a job of %zu extents",
				  op->file->base, n);
	atomic_init(&io->refs, 1);
	io->op = op;
	io->eng = eng;
	if (n == 1)
		io->ext[0] = e;
	else
		split_rows(io, &e);
	io->job.ext = io->ext;
	io->job.n_ext = n;
	io->job.write = op->file_range.write;
	io->job.chunk_done = fileio_chunk_done;
	io->job.done = fileio_job_done;
	io->job.own_reads.whole = true;
	io->job.stopped = &io->stopped;
	io->job.arg = io;
	op->io = io;
	op->access[0].dma = !io->job.write && !e.dev && !e.buffered;
	op->start = fileio_start;
	op->release = fileio_release;
	return 0;
}

/* Fill in the access to memory, the rows, and the range of the file. */
static int fileio_prepare(struct weir__stream_op *op, struct weir_file *file,
			  uint64_t file_off, const struct weir_tensor *t,
			  const struct weir_rect *rect, bool write)
{
	struct weir_backend_work *work = &op->work;
	uint64_t bytes, file_bytes;
	unsigned char *addr;
	int r = weir__rect_bytes(rect, rect->pitch, &bytes);

	if (r == 0)
		r = weir__rect_bytes(rect, rect->host_pitch, &file_bytes);
	if (r == 0)
		r = check_args(op->stream, file, file_off, file_bytes, write);
	if (r == 0)
		r = weir__stream_op_access(op, t, rect->off, bytes, !write,
					   &addr);
	if (r < 0)
		return r;
	op->unsubmitted = rect->width * rect->rows;
	work->width = rect->width;
	work->rows = rect->rows;
	work->dst_pitch = rect->pitch;
	work->src_pitch = rect->host_pitch;
	if (bytes == file_bytes && bytes == op->unsubmitted) {
		work->width = bytes; /* there are no gaps */
		work->rows = 1;
	}
	op->file = weir__file_ref(file);
	op->file_range = (struct weir__range){ .lo = file_off,
					       .hi = file_off + file_bytes,
					       .write = write };
	return 0;
}

static int fileio_queue(struct weir_stream *s, struct weir_file *file,
			uint64_t file_off, const struct weir_tensor *t,
			const struct weir_rect *rect, bool write,
			bool by_engine)
{
	struct weir__stream_op *op;
	int r = weir__stream_op_begin(s, write ? "write" : "read",
				      WEIR_WORK_COPY, &op);

	if (r < 0)
		return r;
	op->by_engine = by_engine;
	r = fileio_prepare(op, file, file_off, t, rect, write);
	return r == 0 && op->mem.n ? s->mode->queue_file(op)
				   : weir__stream_op_end(op, r);
}

int weir__stream_read(struct weir_stream *stream, struct weir_file *file,
		      uint64_t file_off, const struct weir_tensor *dst)
{
	uint64_t bytes;
	struct weir_rect rect;
	int r = weir__tensor_bytes(dst, &bytes);

	if (r < 0)
		return r;
	rect = weir__flat_rect(0, bytes);
	return fileio_queue(stream, file, file_off, dst, &rect, false, true);
}

int weir_stream_read(struct weir_stream *stream, struct weir_file *file,
		     uint64_t file_off, const struct weir_tensor *dst,
		     size_t off, size_t n)
{
	struct weir_rect rect = weir__flat_rect(off, n);

	WEIR__ENTER();
	return fileio_queue(stream, file, file_off, dst, &rect, false, false);
}

int weir_stream_write(struct weir_stream *stream, struct weir_file *file,
		      uint64_t file_off, const struct weir_tensor *src,
		      size_t off, size_t n)
{
	struct weir_rect rect = weir__flat_rect(off, n);

	WEIR__ENTER();
	return fileio_queue(stream, file, file_off, src, &rect, true, false);
}

int weir_stream_read_2d(struct weir_stream *stream, struct weir_file *file,
			uint64_t file_off, const struct weir_tensor *dst,
			const struct weir_rect *rect)
{
	WEIR__ENTER();
	return fileio_queue(stream, file, file_off, dst, rect, false, false);
}

/*
 * The operation that this thread is queueing: the thread reads if the same call
 * also issues the operation. If others were queued in between, another thread
 * issues it.
 */
static _Thread_local const struct weir__stream_op *queueing;

static void nowait_start(struct weir__stream_op *op)
{
	const struct weir__range *range = &op->file_range;
	uint64_t bytes = range->hi - range->lo;
	int r;

	if (op == queueing && weir__nowait_read(op->file, fileio_addr(op),
						bytes, range->lo) == bytes) {
		weir__stream_op_finish(op, NULL);
		return;
	}
	r = weir__fileio_make(op);
	if (r < 0) {
		weir__stream_op_fail(op, r, 0, "%s", weir_error());
		return;
	}
	/* The access was added without dma, so the read has to be buffered. */
	op->io->ext->buffered = true;
	op->access[0].dma = false;
	op->start(op);
}

bool weir__fileio_may_nowait(const struct weir__stream_op *op)
{
	const struct weir__range *range = &op->file_range;
	uint64_t n = range->hi - range->lo;
	struct weir_stream *s = op->stream;
	bool idle;

	if (range->write || op->by_engine || op->work.rows > 1 ||
	    !weir__buf_is_host(op->access[0].buf))
		return false;
	pthread_mutex_lock(&s->lock);
	idle = !s->open;
	pthread_mutex_unlock(&s->lock);
	return idle && weir__nowait_allowed(s->timeline.weir, n) &&
	       weir__nowait_expected(op->file, range->lo, n);
}

int weir__fileio_queue_nowait(struct weir__stream_op *op)
{
	int r;

	op->start = nowait_start;
	queueing = op;
	r = weir__stream_op_queue(op);
	queueing = NULL;
	return r;
}
