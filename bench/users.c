/* SPDX-License-Identifier: MIT */
#include "users.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <weir.h>

#include "must.h"
#include "raw.h"

#define HEAP_ALIGN 256u
/* Room for fragmentation, in multiples of the live bytes. */
#define ROOM 4u

struct user {
	const struct allocator *a;
	unsigned threads;
	void **pointers; /* slots of each thread */
	struct weir_block *blocks;
	struct weir *weir;
	struct weir_heap *heap;
	struct weir_stream *streams[MAX_STREAMS]; /* 0: NULL */
	void *addresses;
	uint64_t capacity;
};

static struct user *user_new(const struct allocator *a, unsigned threads)
{
	struct user *u = calloc(1, sizeof(*u));

	if (!u)
		die("no memory");
	u->a = a;
	u->threads = threads;
	return u;
}

static struct user *malloc_open(const struct allocator *a,
				const struct calls *c, unsigned threads)
{
	struct user *u = user_new(a, threads);

	u->pointers = calloc((size_t)threads * c->slots, sizeof(void *));
	if (!u->pointers)
		die("no memory for %u slots", c->slots);
	return u;
}

static void malloc_replay(struct user *u, const struct calls *c,
			  unsigned thread)
{
	void **slots = u->pointers + (size_t)thread * c->slots;
	void *(*get)(size_t) = u->a->malloc;
	void (*put)(void *) = u->a->free;

	for (size_t i = 0; i < c->n; i++) {
		const struct call *call = &c->list[i];

		if (!call->size)
			put(slots[call->slot]);
		else if (!(slots[call->slot] = get(call->size)))
			die("%s: no memory for %llu bytes", u->a->name,
			    (unsigned long long)call->size);
	}
}

static void malloc_close(struct user *u)
{
	free(u->pointers);
	free(u);
}

/*
 * A root with @streams streams, and a heap in one buffer of @capacity bytes
 * that is never accessed.
 */
static void heap_in(struct user *u, uint64_t capacity, uint32_t streams)
{
	struct weir_heap_opts o = WEIR_HEAP_OPTS_INIT;
	struct weir_dev *cpu;
	struct weir_buft *buft;
	struct weir_buf *buf;

	u->capacity = capacity;
	u->addresses = mmap(NULL, capacity, PROT_NONE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (u->addresses == MAP_FAILED)
		die("no addresses for %llu bytes",
		    (unsigned long long)capacity);
	must(weir_open(NULL, &u->weir));
	cpu = weir_dev_get(u->weir, 0);
	for (uint32_t i = 1; i < streams; i++)
		must(weir_stream_new(cpu, NULL, &u->streams[i]));
	must(weir_dev_buft(cpu, WEIR_MEM_PLAIN, &buft));
	must(weir_buf_wrap(buft, u->addresses, capacity, NULL, NULL, &buf));
	o.buf = buf;
	o.align = HEAP_ALIGN;
	must(weir_heap_new(buft, &o, &u->heap));
	weir_buf_free(buf);
}

/* The heap has addresses for @reserve bytes, or grows by separate buffers. */
static struct user *growing_open(const struct allocator *a,
				 const struct calls *c, uint64_t reserve)
{
	struct weir_heap_opts o = WEIR_HEAP_OPTS_INIT;
	struct user *u = user_new(a, 1);
	struct weir_buft *buft;
	struct weir_dev *cpu;

	must(weir_open(NULL, &u->weir));
	cpu = weir_dev_get(u->weir, 0);
	for (uint32_t i = 1; i < c->streams; i++)
		must(weir_stream_new(cpu, NULL, &u->streams[i]));
	must(weir_dev_buft(cpu, WEIR_MEM_PLAIN, &buft));
	o.align = HEAP_ALIGN;
	o.reserve = reserve;
	must(weir_heap_new(buft, &o, &u->heap));
	u->blocks = calloc(c->slots, sizeof(*u->blocks));
	if (!u->blocks)
		die("no memory for %u slots", c->slots);
	return u;
}

static struct user *buffers_open(const struct allocator *a,
				 const struct calls *c, unsigned threads)
{
	(void)threads;
	return growing_open(a, c, 0);
}

static struct user *region_open(const struct allocator *a,
				const struct calls *c, unsigned threads)
{
	(void)threads;
	return growing_open(a, c, WEIR_HEAP_RESERVE_ALL);
}

uint64_t users_reserved(const struct user *u)
{
	struct weir_heap_stats s = { .size = sizeof(s) };

	must(weir_heap_stats(u->heap, &s));
	return s.reserved_peak;
}

static struct user *weir_user_open(const struct allocator *a,
				   const struct calls *c, unsigned threads)
{
	struct user *u = user_new(a, threads);

	heap_in(u, ROOM * threads * c->peak, c->streams);
	u->blocks = calloc((size_t)threads * c->slots, sizeof(*u->blocks));
	if (!u->blocks)
		die("no memory for %u slots", c->slots);
	return u;
}

static void weir_user_replay(struct user *u, const struct calls *c,
			     unsigned thread)
{
	struct weir_block *slots = u->blocks + (size_t)thread * c->slots;
	struct weir_heap *heap = u->heap;

	for (size_t i = 0; i < c->n; i++) {
		const struct call *call = &c->list[i];
		struct weir_stream *stream = u->streams[call->stream];
		struct weir_block *b = &slots[call->slot];

		if (call->size)
			must(weir_heap_alloc(heap, call->size, 0, stream, b));
		else
			must(weir_heap_free(b, stream));
	}
}

static void weir_user_close(struct user *u)
{
	weir_heap_destroy(u->heap);
	for (uint32_t i = 1; i < MAX_STREAMS; i++)
		weir_stream_free(u->streams[i]);
	weir_close(u->weir);
	if (u->addresses)
		munmap(u->addresses, u->capacity);
	free(u->blocks);
	free(u);
}

uint64_t users_height(const struct calls *c, uint64_t capacity)
{
	struct user *u = user_new(&allocators[USER_WEIR], 1);
	uint64_t height = 0;

	heap_in(u, capacity, c->streams);
	u->blocks = calloc(c->slots, sizeof(*u->blocks));
	if (!u->blocks)
		die("no memory for %u slots", c->slots);
	for (size_t i = 0; i < c->n; i++) {
		const struct call *call = &c->list[i];
		struct weir_stream *stream = u->streams[call->stream];
		struct weir_block *b = &u->blocks[call->slot];

		if (!call->size) {
			must(weir_heap_free(b, stream));
			continue;
		}
		if (weir_heap_alloc(u->heap, call->size, 0, stream, b) < 0) {
			height = 0;
			break;
		}
		if (height < b->offset + b->bytes)
			height = b->offset + b->bytes;
	}
	weir_user_close(u);
	return height;
}

const struct allocator growing[2] = {
	{ "separate buffers", buffers_open, weir_user_replay, weir_user_close,
	  NULL, NULL, NULL },
	{ "reserved addresses", region_open, weir_user_replay, weir_user_close,
	  NULL, NULL, NULL },
};

struct allocator allocators[USERS] = {
	{ "weir", weir_user_open, weir_user_replay, weir_user_close, NULL, NULL,
	  NULL },
	{ "malloc", malloc_open, malloc_replay, malloc_close, malloc, free,
	  NULL },
	{ "jemalloc", malloc_open, malloc_replay, malloc_close, NULL, NULL,
	  NULL },
	{ "mimalloc", malloc_open, malloc_replay, malloc_close, NULL, NULL,
	  NULL },
};

static void find(struct allocator *a, const char *lib, const char *get,
		 const char *put)
{
	void *handle = dlopen(lib, RTLD_NOW | RTLD_LOCAL);

	if (!handle) {
		a->why = strdup(dlerror());
		return;
	}
	*(void **)&a->malloc = dlsym(handle, get);
	*(void **)&a->free = dlsym(handle, put);
	if (!a->malloc || !a->free)
		a->why = "it has no such function";
}

void users_find(char **argv)
{
	static const char tunables[] = "GLIBC_TUNABLES";
	static const char room[] = "glibc.rtld.optional_static_tls=65536";

	if (!getenv(tunables)) {
		setenv(tunables, room, 1);
		execv("/proc/self/exe", argv);
	}
	find(&allocators[USER_JEMALLOC], "libjemalloc.so.2", "malloc", "free");
	find(&allocators[USER_MIMALLOC], "libmimalloc.so.2", "mi_malloc",
	     "mi_free");
}

/* Threads that begin together. */
struct run {
	const struct allocator *a;
	struct user *u;
	const struct calls *c;
	unsigned threads;
	_Atomic unsigned ready;
};

struct runner {
	struct run *run;
	unsigned number;
	pthread_t thread;
	double begun, ended;
};

/* Alone, a thread's own time: other programs do not count. */
static double runner_now(const struct run *run)
{
	struct timespec t;

	if (run->threads > 1)
		return raw_now();
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void *runner_main(void *arg)
{
	struct runner *r = arg;
	struct run *run = r->run;

	run->ready++;
	while (run->ready < run->threads)
		;
	r->begun = runner_now(run);
	run->a->replay(run->u, run->c, r->number);
	r->ended = runner_now(run);
	return NULL;
}

#define MAX_THREADS 64u

double users_run(const struct allocator *a, struct user *u,
		 const struct calls *c, unsigned threads)
{
	struct run run = { .a = a, .u = u, .c = c, .threads = threads };
	struct runner list[MAX_THREADS] = { { 0 } };
	double begun, ended;

	for (unsigned i = 0; i < threads; i++) {
		list[i].run = &run;
		list[i].number = i;
		if (pthread_create(&list[i].thread, NULL, runner_main,
				   &list[i]))
			die("cannot start a thread");
	}
	for (unsigned i = 0; i < threads; i++)
		pthread_join(list[i].thread, NULL);
	begun = list[0].begun;
	ended = list[0].ended;
	for (unsigned i = 1; i < threads; i++) {
		begun = list[i].begun < begun ? list[i].begun : begun;
		ended = list[i].ended > ended ? list[i].ended : ended;
	}
	return ended - begun;
}
