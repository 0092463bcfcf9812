/* SPDX-License-Identifier: MIT */
/*
 * Copy engines: when the bytes of a copy are moved.
 *
 * With a rate, an engine is a clock. In engine time, a copy begins when it was
 * queued, when its stream's earlier work ended or when the engine is free,
 * whichever is last. A worker that wakes late therefore does not make the
 * device slower: its next copies are due already. The bytes are moved at the
 * end of that time, so a source that changes too early is noticed, and a
 * destination that is read too early has the old bytes.
 *
 * Without a rate an engine is a lock around memcpy.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "queue.h"

uint64_t fc_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void fc_sleep_until(uint64_t when)
{
	struct timespec at = { .tv_sec = (time_t)(when / 1000000000u),
			       .tv_nsec = (long)(when % 1000000000u) };

	while (fc_now() < when &&
	       clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) ==
		       EINTR)
		;
}

void fc_moves_do(const struct fc_move *moves, size_t count)
{
	size_t i, row;

	for (i = 0; i < count; i++) {
		const struct fc_move *move = &moves[i];

		for (row = 0; row < move->height; row++) {
			memmove(move->dst + row * move->dst_pitch,
				move->src + row * move->src_pitch, move->width);
			fc_written(move->dst + row * move->dst_pitch,
				   move->width);
		}
	}
}

static uint64_t sum_row(const char *p, size_t n, uint64_t sum)
{
	uint64_t word;

	for (; n >= sizeof(word); n -= sizeof(word), p += sizeof(word)) {
		memcpy(&word, p, sizeof(word));
		sum = (sum ^ word) * 0x9e3779b97f4a7c15u;
		sum ^= sum >> 29;
	}
	while (n--)
		sum = (sum ^ (unsigned char)*p++) * 0x100000001b3u;
	return sum;
}

/* A checksum of the sources. */
uint64_t fc_moves_sum(const struct fc_move *moves, size_t count)
{
	uint64_t sum = count;
	size_t i, row;

	for (i = 0; i < count; i++) {
		for (row = 0; row < moves[i].height; row++)
			sum = sum_row(moves[i].src + row * moves[i].src_pitch,
				      moves[i].width, sum);
	}
	return sum;
}

/* Move half of the rows, and half of the next row. */
static void do_half(const struct fc_move *moves, size_t count)
{
	struct fc_move last = moves[count / 2];

	fc_moves_do(moves, count / 2);
	last.height = last.height > 1 ? last.height / 2 : 1;
	last.width /= 2;
	fc_moves_do(&last, 1);
}

static void move_bytes(struct fc_op *op)
{
	if (op->dry)
		return;
	if (op->fault.mode == FAKECUDA_LOST)
		do_half(op->moves, op->count);
	else
		fc_moves_do(op->moves, op->count);
}

static bool sources_changed(const struct fc_op *op)
{
	return op->summed && fc_moves_sum(op->moves, op->count) != op->sum;
}

/* Reserve the engine for this copy. Returns the time when it is done. */
static uint64_t reserve(struct fc_op *op)
{
	uint64_t start = op->queued_at, took;

	if (start < op->stream->time)
		start = op->stream->time;
	if (start < op->engine->free_at)
		start = op->engine->free_at;
	took = (uint64_t)(fc.opt.latency * 1e3);
	if (fc.opt.rate > 0)
		took += (uint64_t)((double)op->bytes * 1e9 / fc.opt.rate);
	op->engine->free_at = start + took;
	return start + took;
}

static void run_timed(struct fc_op *op)
{
	uint64_t end = reserve(op);
	bool changed;

	pthread_mutex_unlock(&fc.lock);
	fc_sleep_until(end);
	changed = sources_changed(op);
	move_bytes(op);
	pthread_mutex_lock(&fc.lock);
	fc.count.reused += changed;
	op->stream->time = end;
}

static void run_at_once(struct fc_op *op)
{
	uint64_t latency = (uint64_t)(fc.opt.latency * 1e3);
	bool changed;

	pthread_mutex_unlock(&fc.lock);
	if (op->engine) {
		pthread_mutex_lock(&op->engine->busy);
		fc_sleep_until(fc_now() + latency);
	}
	changed = sources_changed(op);
	move_bytes(op);
	if (op->engine)
		pthread_mutex_unlock(&op->engine->busy);
	pthread_mutex_lock(&fc.lock);
	fc.count.reused += changed;
	op->stream->time = fc_now();
}

static void account(const struct fc_op *op)
{
	if (op->direction == FC_TO_DEVICE)
		fc.count.to_device += op->bytes;
	else if (op->direction == FC_TO_HOST)
		fc.count.to_host += op->bytes;
}

void fc_run_copy(struct fc_op *op)
{
	if (op->engine && (fc.opt.rate > 0 || op->dry))
		run_timed(op);
	else
		run_at_once(op);
	account(op);
	fc_log("# stream %llu copied %llu in %zu",
	       (unsigned long long)op->stream->id,
	       (unsigned long long)op->bytes, op->count);
}

/* A fill stays inside the device, so it takes no engine. */
void fc_run_fill(struct fc_op *op)
{
	const struct fc_move *move = op->moves;
	size_t row;

	pthread_mutex_unlock(&fc.lock);
	for (row = 0; row < move->height && !op->dry; row++) {
		memset(move->dst + row * move->dst_pitch, op->fill,
		       move->width);
		fc_written(move->dst + row * move->dst_pitch, move->width);
	}
	pthread_mutex_lock(&fc.lock);
	op->stream->time = fc_now();
}
