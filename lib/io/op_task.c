/* SPDX-License-Identifier: MIT */
/*
 * The steps of an op that block or copy bytes on the CPU: reads and writes by
 * threads, and unpacking chunks.
 *
 * A thread of a pool that runs them owns the op until it posts it back. It does
 * not own the reactor, and uses only those of its members that any thread may
 * use.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

#include "alloc/slots.h"
#include "core/sys.h"
#include "core/trace.h"
#include "core/util.h"
#include "io/chunk.h"
#include "io/engine_state.h"
#include "io/job.h"
#include "io/op.h"
#include "io/reactor.h"
#include "mem/convert.h"

#ifdef __SSE2__
#include <emmintrin.h>

#define LINE 64u
/*
 * In fewer bytes the two ends are a large part, and the cache has room for
 * them.
 */
#define LEAST 4096u

static void copy_lines(unsigned char *dst, const unsigned char *src, size_t n)
{
	for (size_t i = 0; i < n; i += LINE) {
		const __m128i *from = (const __m128i *)(src + i);
		__m128i *to = (__m128i *)(dst + i);
		__m128i a = _mm_loadu_si128(from);
		__m128i b = _mm_loadu_si128(from + 1);
		__m128i c = _mm_loadu_si128(from + 2);
		__m128i d = _mm_loadu_si128(from + 3);

		_mm_stream_si128(to, a);
		_mm_stream_si128(to + 1, b);
		_mm_stream_si128(to + 2, c);
		_mm_stream_si128(to + 3, d);
	}
	/* The stores are visible before what this thread stores later. */
	_mm_sfence();
}

/*
 * memcpy() out of a slot with stores that bypass the CPU's cache, where it has
 * such (non-temporal): the slot's lines stay in the cache for the next read to
 * it. What is copied is too large to stay there.
 */
static void copy_non_temporal(void *dst, const void *src, size_t n)
{
	unsigned char *to = dst;
	const unsigned char *from = src;
	size_t head = -(uintptr_t)to & (LINE - 1), lines;

	if (n < LEAST) {
		memcpy(to, from, n);
		return;
	}
	lines = (n - head) & ~(size_t)(LINE - 1);
	memcpy(to, from, head);
	copy_lines(to + head, from + head, lines);
	head += lines;
	memcpy(to + head, from + head, n - head);
}

#else

static void copy_non_temporal(void *dst, const void *src, size_t n)
{
	memcpy(dst, src, n);
}

#endif

/*
 * Bytes of one read to the stack, from where they are unpacked: few enough to
 * stay in the CPU's cache.
 */
#define PIECE (64u << 10)
/*
 * Reading a larger gap takes longer than one more call. Measured with pitches
 * of 8 widths: at a gap of 3584 bytes both take the same time, at 28 KiB one
 * call for each row takes 0.4 of the time, at 896 bytes 2.6 times as long.
 */
#define MAX_GAP 3072u
#define MAX_IOV 512

static void unpack_bytes(const struct weir__extent *e, unsigned char *dst,
			 const unsigned char *src, uint64_t n)
{
	if (e->convert)
		e->convert->run(dst, src, n / e->convert->src_bytes);
	else
		memcpy(dst, src, n);
}

/*
 * Unpack a chunk from @src, which has the rows with their distances in the
 * file. Merged extents, which go to host memory, are copied each to its place.
 * Otherwise each row is copied or converted: to its place in host memory or,
 * for a device, to a slot, where the rows follow one another.
 */
static void unpack(const struct weir__extent *e, const struct weir__rows *rows,
		   const unsigned char *src, unsigned char *dst,
		   uint64_t dst_pitch)
{
	for (uint32_t k = 0; k < e->n_merged && e->n_merged > 1; k++)
		copy_non_temporal(e[k].addr, src + (e[k].off - e->off),
				  e[k].len);
	if (e->n_merged > 1)
		return;
	for (uint64_t k = 0; k < rows->n; k++)
		unpack_bytes(e, dst + k * dst_pitch, src + k * rows->pitch,
			     rows->width);
}

/* How a copier reads, and how many bytes it has read. */
struct cached_read {
	bool wait;
	uint64_t bytes;
};

/* Returns 1; 0 if the file ends before the last byte; or -errno. */
static int read_all(const struct weir__extent *e, unsigned char *to, uint64_t n,
		    uint64_t off, struct cached_read *how)
{
	while (n) {
		int64_t r = (how->wait ? weir__sys_pread
				       : weir__sys_pread_nowait)(e->file->fd,
								 to, n, off);

		if (r <= 0)
			return (int)r;
		how->bytes += (uint64_t)r;
		to += r;
		off += (uint64_t)r;
		n -= (uint64_t)r;
	}
	return 1;
}

/*
 * Read and convert the elements of a row or a contiguous chunk, PIECE bytes at
 * a time.
 */
static int convert_cached(const struct weir__extent *e, uint64_t n,
			  uint64_t off, unsigned char *dst,
			  struct cached_read *how)
{
	const struct weir_backend_convert *c = e->convert;
	unsigned char piece[PIECE];
	int r = 1;

	while (n && r == 1) {
		uint64_t take = PIECE / c->src_bytes * c->src_bytes;

		take = n < take ? n : take;
		r = read_all(e, piece, take, off, how);
		if (r == 1)
			unpack_bytes(e, dst, piece, take);
		dst += take / c->src_bytes * c->dst_bytes;
		off += take;
		n -= take;
	}
	return r;
}

static bool reads_gaps(const struct weir__rows *rows)
{
	return rows->n > 1 && rows->pitch - rows->width <= MAX_GAP &&
	       rows->pitch + rows->width <= PIECE;
}

/* Read each row by a call of its own. */
static int rows_cached(const struct weir__extent *e,
		       const struct weir__rows *rows, uint64_t off,
		       unsigned char *dst, uint64_t dst_pitch,
		       struct cached_read *how)
{
	int r = 1;

	for (uint64_t k = 0; k < rows->n && r == 1; k++) {
		uint64_t from = off + k * rows->pitch;

		r = e->convert ? convert_cached(e, rows->width, from, dst, how)
			       : read_all(e, dst, rows->width, from, how);
		dst += dst_pitch;
	}
	return r;
}

/* Read by each call as many rows as fit PIECE, with the gaps between them. */
static int spans_cached(const struct weir__extent *e,
			const struct weir__rows *rows, uint64_t off,
			unsigned char *dst, uint64_t dst_pitch,
			struct cached_read *how)
{
	unsigned char piece[PIECE];
	struct weir__rows some = *rows;
	int r = 1;

	for (uint64_t k = 0; k < rows->n && r == 1; k += some.n) {
		some.n = (PIECE - rows->width) / rows->pitch + 1;
		if (some.n > rows->n - k)
			some.n = rows->n - k;
		r = read_all(e, piece, (some.n - 1) * rows->pitch + rows->width,
			     off + k * rows->pitch, how);
		if (r == 1)
			unpack(e, &some, piece, dst + k * dst_pitch, dst_pitch);
	}
	return r;
}

/* The gap between extents @k and @k + 1 that are merged. */
static uint64_t gap_after(const struct weir__extent *e, uint32_t k)
{
	return e[k + 1].off - (e[k].off + e[k].len);
}

/*
 * Returns how many of the @n extents from @e on one call reads, with the gaps
 * between them, which go to @piece. Fills in @iov.
 */
static uint32_t vector_of(const struct weir__extent *e, uint32_t n,
			  unsigned char *piece, struct iovec *iov,
			  int *ret_n_iov, uint64_t *ret_bytes)
{
	uint64_t bytes = 0;
	uint32_t k = 0;
	int i = 0;

	for (;;) {
		iov[i++] = (struct iovec){ e[k].addr, e[k].len };
		bytes += e[k].len;
		if (++k == n || i + 2 > MAX_IOV ||
		    gap_after(e, k - 1) > MAX_GAP)
			break;
		if (gap_after(e, k - 1)) {
			iov[i] = (struct iovec){ piece, gap_after(e, k - 1) };
			bytes += iov[i++].iov_len;
		}
	}
	*ret_n_iov = i;
	*ret_bytes = bytes;
	return k;
}

/* Read merged extents, each to its place. */
static int merged_cached(const struct weir__extent *e, uint32_t n,
			 struct cached_read *how)
{
	unsigned char piece[MAX_GAP];
	struct iovec iov[MAX_IOV];
	int r = 1;

	for (uint32_t at = 0, k; at < n && r == 1; at += k) {
		uint64_t bytes;
		int64_t got;
		int n_iov;

		k = vector_of(&e[at], n - at, piece, iov, &n_iov, &bytes);
		got = (how->wait ? weir__sys_preadv : weir__sys_preadv_nowait)(
			e->file->fd, iov, n_iov, e[at].off);
		if (got < 0)
			return (int)got;
		how->bytes += (uint64_t)got;
		/* After a short read, each extent again by itself. */
		for (uint32_t i = 0; (uint64_t)got < bytes && i < k && r == 1;
		     i++)
			r = read_all(e, e[at + i].addr, e[at + i].len,
				     e[at + i].off, how);
	}
	return r;
}

/*
 * The same from the page cache: the rows begin at @off of the file. @how->wait:
 * the reads may block; otherwise -EAGAIN at a missing page, when some rows may
 * be in their places. Returns 1 if all is read, 0 if the file ends before the
 * last row, or the -errno of a read, without a sentence.
 */
static int unpack_cached(const struct weir__extent *e,
			 const struct weir__rows *rows, uint64_t off,
			 unsigned char *dst, uint64_t dst_pitch,
			 struct cached_read *how)
{
	if (e->n_merged > 1)
		return merged_cached(e, e->n_merged, how);
	return reads_gaps(rows)
		       ? spans_cached(e, rows, off, dst, dst_pitch, how)
		       : rows_cached(e, rows, off, dst, dst_pitch, how);
}

/*
 * Make the kernel begin to read the pages that unpack_cached() lacks. @bytes:
 * of all rows and gaps.
 */
static void unpack_fetch(const struct weir__extent *e,
			 const struct weir__rows *rows, uint64_t off,
			 uint64_t bytes)
{
	const int fd = e->file->fd;

	for (uint32_t k = 0; k < e->n_merged && e->n_merged > 1; k++)
		weir__sys_fetch(fd, e[k].off, e[k].len);
	if (e->n_merged > 1)
		return;
	if (rows->n <= 1 || reads_gaps(rows)) {
		weir__sys_fetch(fd, off, bytes);
		return;
	}
	for (uint64_t k = 0; k < rows->n; k++)
		weir__sys_fetch(fd, off + k * rows->pitch, rows->width);
}

#define CACHED_PIECE (256u << 10)

bool weir__op_unpacks_cached(const struct weir__op *op)
{
	return op->extent->unpack && !op->direct && !weir__op_reads_whole(op);
}

bool weir__op_reads_whole(const struct weir__op *op)
{
	return op->reactor->eng->only_ring || op->job->check;
}

uint64_t weir__op_slot_bytes(const struct weir__op *op)
{
	struct weir__rows rows;

	if (!op->extent->unpack)
		return op->hi - op->lo;
	rows = weir__chunk_rows(op->extent, op->lo, op->hi);
	return rows.n * rows.out;
}

/*
 * Unpack the chunk to the place of its rows or, for a device, to the slot after
 * the bytes that were read.
 */
static void unpack_slot(struct weir__op *op)
{
	const struct weir__extent *e = op->extent;
	struct weir__rows rows = weir__chunk_rows(e, op->lo, op->hi);
	unsigned char *from = op->payload;

	if (!e->dev) {
		unpack(e, &rows, from, rows.addr, e->mem_pitch);
		return;
	}
	op->payload =
		op->slot->addr + weir__up((uint64_t)(op->buf - op->slot->addr),
					  WEIR__RESULT_ALIGN);
	op->packed = true;
	unpack(e, &rows, from, op->payload, rows.out);
}

/* Copy the bytes out of the slot to their place. */
static void copy_out(struct weir__op *op)
{
	struct weir__reactor *r = op->reactor;
	const struct weir__extent *e = op->extent;
	int64_t begun = weir__trace_now(r->eng->weir);

	if (e->unpack)
		unpack_slot(op);
	else
		copy_non_temporal(e->addr + op->lo, op->payload,
				  op->hi - op->lo);
	weir__trace_span(r->eng->weir, WEIR__TRACK_COPIER, r->index, op->track,
			 "copy", begun, e->off + op->lo, op->hi - op->lo);
	op->res = 0;
}

/*
 * Let the job look at the bytes, and copy them out of the slot to host memory
 * while they are in the CPU's cache. False: the job has kept @check, and looks
 * later. Without it the job keeps nothing.
 */
static bool check_bytes(struct weir__op *op, struct weir__check *check)
{
	const struct weir__extent *e = op->extent;
	struct weir__job *job = op->job;
	struct weir__reactor *r = op->reactor;
	int64_t begun = weir__trace_now(r->eng->weir);

	if (!job->check(job, weir__extent_index(job, e), op->lo, op->hi,
			op->slot ? op->payload : e->addr + op->lo, check))
		return false;
	weir__trace_span(r->eng->weir, WEIR__TRACK_COPIER, r->index, op->track,
			 "check", begun, e->off + op->lo, op->hi - op->lo);
	op->checked = true;
	if (op->slot && !e->dev) {
		copy_out(op);
		op->placed = true;
	}
	op->res = 0;
	return true;
}

/* The thread has read. If that was all, and its turn, check the bytes, too. */
static void check_now(struct weir__op *op)
{
	int64_t res = op->res;

	if (!op->job->check || op->write || res <= 0 ||
	    op->off + (uint64_t)res < op->end)
		return;
	check_bytes(op, NULL);
	op->res = res;
}

/*
 * The copier takes its reserved slot only now, when it is about to fill it: so
 * the slots that were used last are used again, and a few of them stay in the
 * CPU's cache.
 */
static void bind_slot(struct weir__op *op)
{
	op->slot = weir__slot_take_reserved(op->reactor->slots,
					    weir__op_slot_bytes(op));
	op->payload = op->buf = op->slot->addr;
}

/* True if a direct write of @n bytes may begin at @bytes. */
static bool writable_in_place(const struct weir_file *file,
			      const unsigned char *bytes, uint64_t n)
{
	return (uintptr_t)bytes % file->mem_align == 0 &&
	       n % weir__slot_unit(file) == 0;
}

/*
 * Let the job produce the bytes of a write. If it has them in memory already,
 * they are written from there, or copied to the slot to be whole blocks.
 */
static void fill(struct weir__op *op)
{
	struct weir__job *job = op->job;
	unsigned char *room = op->slot->addr;
	unsigned char *bytes = room;
	const uint64_t n = op->hi - op->lo;
	struct weir *weir = op->reactor->eng->weir;
	int64_t begun = weir__trace_now(weir);

	op->res = job->fill(job, weir__extent_index(job, op->extent), op->lo,
			    op->hi, room, &bytes);
	if (op->res < 0)
		return;
	if (bytes != room &&
	    (!op->direct || writable_in_place(op->extent->file, bytes, n)))
		op->payload = op->buf = bytes;
	else if (bytes != room)
		copy_non_temporal(room, bytes, n);
	if (op->len > n)
		memset(room + n, 0, op->len - n);
	weir__trace_span(weir, WEIR__TRACK_COPIER, op->reactor->index,
			 op->track, "fill", begun, op->extent->off + op->lo, n);
}

/*
 * The op was orphaned before this call. Free its slot, which is reserved and
 * not taken, or which an earlier call has filled in part.
 */
static void drop_cached_slot(struct weir__op *op)
{
	if (!op->buf)
		weir__slot_unreserve(op->reactor->slots,
				     weir__op_slot_bytes(op));
	else if (op->requested && op->slot && op->slot->shared)
		weir__slot_put(op->reactor->slots, op->slot);
	else
		return;
	op->slot = NULL;
	weir__reactor_wake(op->reactor);
}

/*
 * A read of the page cache does not wait at its first call: at the first
 * missing page it requests all missing pages and ends. A later call waits for
 * them, or reports why they cannot be read. So the copier goes on with other
 * chunks meanwhile.
 */
static bool may_wait(const struct weir__op *op)
{
	return op->requested || !op->extent->file->nowait;
}

static int64_t missed(struct weir__op *op)
{
	op->requested = op->missed = true;
	return -EAGAIN;
}

/*
 * Reads in short calls: a kernel without preemption runs no other thread on
 * this CPU during a call, not even one that computes with earlier bytes.
 */
static int64_t read_cached(struct weir__op *op, int fd)
{
	bool wait = may_wait(op);
	size_t done = 0, n;
	int64_t r;

	do {
		n = op->len - done < CACHED_PIECE ? op->len - done
						  : CACHED_PIECE;
		r = (wait ? weir__sys_pread : weir__sys_pread_nowait)(
			fd, op->buf + done, n, op->off + done);
		if (r > 0)
			done += (size_t)r;
	} while (r == (int64_t)n && done < op->len);
	if (!wait && done < op->len) {
		weir__sys_fetch(fd, op->off + done, op->len - done);
		r = missed(op);
	}
	return done ? (int64_t)done : r;
}

/*
 * The later call reads all rows again: no byte says where the first one
 * stopped.
 */
static int64_t read_and_unpack(struct weir__op *op)
{
	const struct weir__extent *e = op->extent;
	struct weir__rows rows = weir__chunk_rows(e, op->lo, op->hi);
	struct cached_read how = { .wait = may_wait(op) };
	int r = unpack_cached(e, &rows, op->off,
			      e->dev ? op->payload : rows.addr,
			      e->dev ? rows.out : e->mem_pitch, &how);

	op->packed = true;
	op->bytes_read += how.bytes;
	if (r == 1)
		return (int64_t)(op->end - op->off);
	if (how.wait)
		return r;
	unpack_fetch(e, &rows, op->off, op->end - op->off);
	return missed(op);
}

bool weir__op_execute(struct weir__op *op)
{
	const struct weir_file *file;
	int fd;

	if (op->state == WEIR__OP_ORPHANED) {
		drop_cached_slot(op);
		return false;
	}
	file = op->extent->file;
	fd = op->direct ? file->direct_fd : file->fd;
	if (!op->buf)
		bind_slot(op);
	op->skipped = op->state == WEIR__OP_QUEUED &&
		      weir__reads_ended(op->job->reads);
	if (op->skipped)
		return true;
	if (op->state == WEIR__OP_CHECKING)
		return check_bytes(op, &op->check);
	if (op->state == WEIR__OP_COPYING || op->state == WEIR__OP_CONVERTING)
		copy_out(op);
	else if (op->state == WEIR__OP_FILLING)
		fill(op);
	else if (weir__op_unpacks_cached(op))
		op->res = read_and_unpack(op);
	else if (op->write)
		op->res = weir__sys_pwrite(fd, op->buf, op->len, op->off);
	else if (op->direct)
		op->res = weir__sys_pread(fd, op->buf, op->len, op->off);
	else
		op->res = read_cached(op, fd);
	if (op->state == WEIR__OP_QUEUED)
		check_now(op);
	if (op->res == -EINTR)
		op->tries = WEIR__OP_MAX_TRIES; /* the call was repeated */
	return true;
}

bool weir__op_is_cached(const struct weir__op *op)
{
	return !op->direct && !op->write && op->fixed < 0 &&
	       !op->reactor->eng->only_ring;
}

uint64_t weir__op_over_read(const struct weir__op *op)
{
	const struct weir__extent *e = op->extent;
	struct weir__rows rows = weir__chunk_rows(e, op->lo, op->hi);

	return op->bytes_read -
	       (e->n_merged == 1 ? rows.n * rows.width : weir__chunk_sum(e));
}
