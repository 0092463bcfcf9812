/* SPDX-License-Identifier: MIT */
/*
 * Many threads use one heap: blocks go from thread to thread, the heap grows,
 * is trimmed and exhausted. WEIR_T_STEPS calls of each thread (20 000).
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "streams.h"

#define THREADS 4
#define SHARED 64
#define OWN 32
#define WAVE 50 /* short threads at a time */
#define STACK ((size_t)1 << 20)

static struct weir *weir;
static struct weir_heap *heap;
static struct weir_stream *stream[THREADS];
static struct weir_block *_Atomic shared[SHARED]; /* from thread to thread */
static _Atomic unsigned wrong, allocs, failures;
static unsigned steps = 20000;
static char *stacks; /* not yet used */

static unsigned char *first_byte(const struct weir_block *b)
{
	return (unsigned char *)weir_buf_data(b->buf) + b->offset;
}

/* The byte that the owner of a block writes to it. */
static unsigned char mark_of(const struct weir_block *b)
{
	return (unsigned char)(b->id ^ b->id >> 32);
}

static struct weir_block *make(size_t n, struct weir_stream *s)
{
	struct weir_block *b = malloc(sizeof(*b));

	if (weir_heap_alloc(heap, n, 0, s, b) < 0) {
		atomic_fetch_add(&failures, 1);
		free(b);
		return NULL;
	}
	atomic_fetch_add(&allocs, 1);
	first_byte(b)[0] = mark_of(b);
	first_byte(b)[b->bytes - 1] = mark_of(b);
	return b;
}

static void drop(struct weir_block *b, struct weir_stream *s)
{
	if (!b)
		return;
	if (first_byte(b)[0] != mark_of(b) ||
	    first_byte(b)[b->bytes - 1] != mark_of(b) ||
	    weir_heap_free(b, s) < 0)
		atomic_fetch_add(&wrong, 1);
	free(b);
}

static void look(unsigned seed)
{
	struct weir_heap_stats s = { .size = sizeof(s) };
	struct weir_block b;

	switch (seed % 3) {
	case 0:
		must(weir_heap_trim(heap, 0));
		break;
	case 1:
		must(weir_heap_stats(heap, &s));
		break;
	default:
		if (weir_heap_find(heap, seed, &b) != -ENOENT)
			atomic_fetch_add(&wrong, 1);
	}
}

static void *thread_main(void *arg)
{
	unsigned id = (unsigned)(uintptr_t)arg, seed = id + 1;
	struct weir_block *own[OWN] = { 0 };

	for (unsigned i = 0; i < steps; i++) {
		unsigned k = (unsigned)rand_r(&seed);
		struct weir_stream *s = k & 1 ? stream[id] : NULL;
		struct weir_block **at = &own[k / 2 % OWN];

		if (*at) {
			drop(*at, s);
			*at = NULL;
		} else {
			*at = make(1 + (size_t)rand_r(&seed) %
						   (k % 16 ? 2000 : 200000),
				   s);
		}
		if (k % 7 == 0)
			*at = atomic_exchange(&shared[k / 8 % SHARED], *at);
		if (k % 1999 == 0)
			look(k);
	}
	for (unsigned i = 0; i < OWN; i++)
		drop(own[i], NULL);
	return NULL;
}

static void *short_main(void *barrier)
{
	drop(make(1000, NULL), NULL);
	pthread_barrier_wait(barrier);
	return NULL;
}

/* Each thread has a stack, and so a name, that no other had before. */
static void run_threads(unsigned n, void *(*main)(void *))
{
	pthread_barrier_t barrier;
	pthread_attr_t attr;
	pthread_t list[WAVE];

	pthread_barrier_init(&barrier, NULL, n);
	pthread_attr_init(&attr);
	for (unsigned i = 0; i < n; i++, stacks += STACK)
		if (pthread_attr_setstack(&attr, stacks, STACK) ||
		    pthread_create(&list[i], &attr, main, &barrier))
			bail("pthread_create");
	for (unsigned i = 0; i < n; i++)
		pthread_join(list[i], NULL);
	pthread_attr_destroy(&attr);
	pthread_barrier_destroy(&barrier);
}

static void *keeping_main(void *barrier)
{
	struct weir_heap_stats s = { .size = sizeof(s) };

	must(weir_heap_trim(heap, 0));
	short_main(barrier);
	must(weir_heap_stats(heap, &s));
	ok(s.cached > 0, "a thread has a cache after 1000 threads have ended");
	return NULL;
}

static void short_threads(void)
{
	void *all = mmap(NULL, 1001 * STACK, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (all == MAP_FAILED)
		bail("no memory for stacks");
	stacks = all;
	for (unsigned i = 0; i < 1000 / WAVE; i++)
		run_threads(WAVE, short_main);
	run_threads(1, keeping_main);
	munmap(all, 1001 * STACK);
}

int main(void)
{
	struct weir_heap_stats s = { .size = sizeof(s) };
	struct weir_heap_opts o = WEIR_HEAP_OPTS_INIT;
	const char *more = getenv("WEIR_T_STEPS");
	struct weir_buft *buft;
	pthread_t thread[THREADS];

	plan(5);
	if (more)
		steps = (unsigned)atoi(more);
	weir = open_root(WEIR_IO_SYNC);
	must(weir_dev_buft(cpu_of(weir), WEIR_MEM_PLAIN, &buft));
	o.grow = 1 << 20;
	o.limit = 3 << 20;
	must(weir_heap_new(buft, &o, &heap));
	for (uintptr_t i = 0; i < THREADS; i++)
		stream[i] = new_stream(weir, "thread");
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, thread_main, (void *)i);
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	for (unsigned i = 0; i < SHARED; i++)
		drop(shared[i], NULL);
	is_int(wrong, 0,
	       "each block has one owner, and is freed by any thread");
	ok(allocs > steps / 3,
	   "threads get blocks (%u, %u times none was left)", allocs, failures);
	must(weir_heap_trim(heap, 0));
	must(weir_heap_stats(heap, &s));
	is_int(s.used, 0, "nothing is used when all blocks are freed");
	is_int(s.reserved, 0,
	       "all buffers are empty when all blocks are freed");
	short_threads();
	weir_heap_destroy(heap);
	for (unsigned i = 0; i < THREADS; i++)
		weir_stream_free(stream[i]);
	weir_close(weir);
	return done_testing();
}
