/* SPDX-License-Identifier: MIT */
#include "reading.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "raw.h"

#define BLOCK ((size_t)256 << 10)
#define MAX_THREADS 64

typedef uint64_t words __attribute__((vector_size(64), aligned(8)));

struct loop {
	const struct reading *block; /* up to BLOCK bytes */
	size_t n;
	unsigned threads;
	bool in_turn;
	size_t ahead;
	_Atomic size_t next;
	_Atomic uint64_t sum; /* so that the reads stay */
};

struct member {
	pthread_t thread;
	struct loop *loop;
	unsigned index;
};

static uint64_t read_block(const struct reading *b, size_t ahead)
{
	words sum[4] = { { 0 } };

	for (size_t i = 0; i + sizeof(sum) <= b->bytes; i += sizeof(sum))
		for (unsigned k = 0; k < 4; k++) {
			const unsigned char *at = b->at + i + 64 * k;

			if (ahead)
				__builtin_prefetch(at + ahead);
			sum[k] += *(const words *)(const void *)at;
		}
	sum[0] += sum[1] + sum[2] + sum[3];
	return sum[0][0] + sum[0][3] + sum[0][7];
}

static void *read_blocks(void *arg)
{
	struct member *m = arg;
	struct loop *l = m->loop;
	size_t i = m->index * l->n / l->threads;
	size_t end = (m->index + 1) * l->n / l->threads;
	uint64_t sum = 0;

	if (l->in_turn)
		while ((i = atomic_fetch_add(&l->next, 1)) < l->n)
			sum += read_block(&l->block[i], l->ahead);
	else
		for (; i < end; i++)
			sum += read_block(&l->block[i], l->ahead);
	atomic_fetch_add(&l->sum, sum);
	return NULL;
}

static double loop_time(struct loop *l)
{
	struct member m[MAX_THREADS];
	double begun = raw_now();

	for (unsigned i = 0; i < l->threads; i++) {
		m[i] = (struct member){ .loop = l, .index = i };
		if (pthread_create(&m[i].thread, NULL, read_blocks, &m[i]))
			die("no thread");
	}
	for (unsigned i = 0; i < l->threads; i++)
		pthread_join(m[i].thread, NULL);
	return raw_now() - begun;
}

/* The ranges as blocks: an array that the caller frees. */
static struct reading *blocks_of(const struct reading *range, size_t n,
				 size_t *ret_n)
{
	struct reading *block;
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		count += (range[i].bytes + BLOCK - 1) / BLOCK;
	block = calloc(count + 1, sizeof(*block));
	if (!block)
		die("no memory");
	*ret_n = count;
	count = 0;
	for (size_t i = 0; i < n; i++)
		for (size_t at = 0; at < range[i].bytes; at += BLOCK) {
			size_t left = range[i].bytes - at;

			block[count++] =
				(struct reading){ range[i].at + at,
						  left < BLOCK ? left : BLOCK };
		}
	return block;
}

double reading_best(const struct reading *range, size_t n, unsigned threads,
		    size_t *ret_bytes)
{
	static const size_t ahead[] = { 0, 1024, 4096 };
	struct reading *block;
	double best = 0;
	size_t count;

	if (threads > MAX_THREADS)
		threads = MAX_THREADS;
	block = blocks_of(range, n, &count);
	for (unsigned i = 0; i < 6; i++) {
		struct loop l = { .block = block,
				  .n = count,
				  .threads = threads,
				  .in_turn = i % 2,
				  .ahead = ahead[i / 2] };
		double time = loop_time(&l);

		if (!i || time < best)
			best = time;
	}
	*ret_bytes = 0;
	for (size_t i = 0; i < n; i++)
		*ret_bytes += range[i].bytes;
	free(block);
	return best;
}
