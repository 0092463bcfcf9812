/* SPDX-License-Identifier: MIT */
/*
 * Random calls of a heap with many blocks, and of one with many streams that
 * come and go. No two blocks overlap; memory that was freed in a stream whose
 * work has not ended is handed out to that stream, or to one that waits; the
 * steps of a call do not grow with what there is; nothing is left. In each
 * round the work of a few streams is held back. WEIR_T_BLOCKS blocks (20 000),
 * WEIR_T_STREAMS streams (70 000), WEIR_T_STEPS calls with many blocks (80
 * 000), from WEIR_T_SEED.
 */
#include <dirent.h>
#include <errno.h>
#include <sys/mman.h>
#include <time.h>

#include "heap/heap.h"
#include "draws.h"
#include "steps.h"
#include "streams.h"

#define SLOTS 512u
#define HELD 48u /* streams whose work is held back in a round, at most */
#define NONE UINT32_MAX

static struct weir *weir;
static struct weir_buft *buft;
static void *memory; /* addresses only */

/* A stream; its number is never used again. */
struct slot {
	struct weir_stream *stream; /* NULL: none */
	uint32_t number;
	bool blocked; /* it has work that has not ended */
};

struct model {
	struct weir_heap *heap;
	struct weir_event *event; /* event for one call */
	size_t unit, n;           /* units, and blocks at most */
	struct weir_block *block; /* heap NULL: none */
	uint32_t *in;             /* the slot of each block, or NONE */
	uint32_t *owner;          /* 1 + the block of each unit; 0: free */
	/*
	 * The number of the stream in which it was freed; 0: its work has
	 * ended.
	 */
	uint32_t *pending;
	struct slot slot[SLOTS];
	unsigned slots;
	uint32_t streams; /* so far */
	struct hold hold[HELD];
	unsigned n_held;
	/* Events of streams that were freed before their work had ended. */
	struct weir_event *left[SLOTS];
	unsigned n_left;
	uint64_t allocated, failed, ordered;
	const char *wrong; /* the first thing that does not hold */
};

static void unmap(void *arg)
{
	(void)arg;
}

static struct model *model_new(size_t n, size_t unit, unsigned slots)
{
	struct weir_heap_opts o = WEIR_HEAP_OPTS_INIT;
	struct model *m = calloc(1, sizeof(*m));

	must(weir_buf_wrap(buft, memory, n * unit, unmap, NULL, &o.buf));
	o.align = unit < 4096 ? unit : 4096;
	must(weir_heap_new(NULL, &o, &m->heap));
	weir_buf_free(o.buf);
	m->event = new_event(weir, 0);
	m->unit = unit;
	m->n = n;
	m->slots = slots;
	m->block = calloc(n, sizeof(*m->block));
	m->in = calloc(n, sizeof(*m->in));
	m->owner = calloc(n, sizeof(*m->owner));
	m->pending = calloc(n, sizeof(*m->pending));
	return m;
}

static void model_destroy(struct model *m)
{
	weir_heap_destroy(m->heap);
	free(m->block);
	free(m->in);
	free(m->owner);
	free(m->pending);
	free(m);
}

static void slot_fill(struct model *m, struct slot *s)
{
	s->stream = new_stream(weir, "");
	s->number = ++m->streams;
	s->blocked = false;
}

/* True if the stream has work that has not ended. */
static bool is_blocked(struct model *m, const struct slot *s)
{
	must(weir_stream_record(s->stream, m->event));
	return weir_event_query(m->event) == 0;
}

/*
 * The units of block @k change hands. True if one of them is pending.
 */
static bool own(struct model *m, uint32_t k, uint32_t from, uint32_t to,
		uint32_t number)
{
	size_t at = m->block[k].offset / m->unit;
	size_t end = at + m->block[k].bytes / m->unit;
	bool pending = false;

	if (end > m->n)
		m->wrong = "a block is inside of its buffer";
	for (size_t i = at; i < end && i < m->n; i++) {
		if (m->owner[i] != from)
			m->wrong = "a block overlaps no other";
		m->owner[i] = to;
		pending |= m->pending[i] && m->pending[i] != number;
		m->pending[i] = to ? 0 : number;
	}
	return pending;
}

/* Free block @k in slot @i, whose stream comes after all work on the block. */
static void free_in(struct model *m, uint32_t k, uint32_t i)
{
	struct slot *s = i == NONE ? NULL : &m->slot[i];

	own(m, k, k + 1, 0, s && s->blocked ? s->number : 0);
	must(weir_heap_free(&m->block[k], s ? s->stream : NULL));
	m->block[k].heap = NULL;
}

/* A slot with a stream, or NONE. */
static uint32_t any_slot(const struct model *m)
{
	uint32_t i = draw(m->slots + m->slots / 8);

	return i < m->slots && m->slot[i].stream ? i : NONE;
}

static void step_free(struct model *m, uint32_t k)
{
	uint32_t own_slot = m->in[k], i = draw(4) ? own_slot : any_slot(m);
	const struct slot *from = own_slot == NONE ? NULL : &m->slot[own_slot];

	if (from && i != own_slot && from->blocked) {
		/* Work of the block's stream may still come. */
		if (i == NONE) {
			i = own_slot;
		} else {
			must(weir_stream_record(from->stream, m->event));
			must(weir_stream_wait(m->slot[i].stream, m->event));
			m->slot[i].blocked = true;
		}
	}
	free_in(m, k, i);
}

static void step_alloc(struct model *m, uint32_t k, uint32_t units, uint32_t i)
{
	struct slot *s = i == NONE ? NULL : &m->slot[i];
	bool pending = false;
	int r = weir_heap_alloc(m->heap, units * m->unit, 0,
				s ? s->stream : NULL, &m->block[k]);

	if (r == 0) {
		m->in[k] = i;
		pending = own(m, k, 0, k + 1, s ? s->number : 0);
		m->allocated++;
		m->ordered += pending;
	} else {
		m->block[k].heap = NULL;
		m->failed++;
	}
	if (s)
		s->blocked = is_blocked(m, s);
	if (pending && (!s || !s->blocked))
		m->wrong = "a stream waits for memory that others still use";
}

/* Its blocks are freed in it, and then the stream is. */
static void slot_leave(struct model *m, uint32_t i)
{
	struct slot *s = &m->slot[i];

	if (s->blocked) {
		m->left[m->n_left] = new_event(weir, 0);
		must(weir_stream_record(s->stream, m->left[m->n_left++]));
	}
	weir_stream_free(s->stream);
	s->stream = NULL;
}

/* Hold work back in some streams. */
static void round_begin(struct model *m)
{
	unsigned most = m->slots < 4 * HELD ? m->slots / 4 : HELD;

	for (m->n_held = 0; m->n_held < most; m->n_held++) {
		struct slot *s = &m->slot[draw(m->slots)];

		if (!s->stream)
			slot_fill(m, s);
		if (s->blocked)
			break;
		hold_stream(s->stream, &m->hold[m->n_held]);
		s->blocked = true;
	}
}

/* All work ends. */
static void round_end(struct model *m)
{
	for (unsigned i = 0; i < m->n_held; i++)
		release_stream(&m->hold[i]);
	for (unsigned i = 0; i < m->slots; i++) {
		if (m->slot[i].stream && m->slot[i].blocked)
			must(weir_stream_sync(m->slot[i].stream, -1));
		m->slot[i].blocked = false;
	}
	while (m->n_left) {
		must(weir_event_wait(m->left[--m->n_left], -1));
		weir_event_free(m->left[m->n_left]);
	}
	memset(m->pending, 0, m->n * sizeof(*m->pending));
	tap_renew();
}

static void free_all(struct model *m)
{
	/* It references the stream in which it was recorded last. */
	weir_event_free(m->event);
	for (uint32_t k = 0; k < m->n; k++)
		if (m->block[k].heap)
			free_in(m, k, NONE);
	for (uint32_t i = 0; i < m->slots; i++)
		if (m->slot[i].stream)
			slot_leave(m, i);
}

static unsigned threads(void)
{
	DIR *dir = opendir("/proc/self/task");
	unsigned n = 0;

	if (!dir)
		bail("no /proc/self/task");
	while (readdir(dir))
		n++;
	closedir(dir);
	return n - 2;
}

static size_t stream_bins(struct weir_heap *heap)
{
	size_t n;

	weir__heap_lock(heap);
	n = heap->root.used_bins;
	weir__heap_unlock(heap);
	return n;
}

/* True if the heap soon has no stream, and the process at most @n threads. */
static bool all_left(const struct model *m, unsigned n)
{
	for (int i = 0; i < 20000; i++) {
		if (threads() <= n && stream_bins(m->heap) == 1)
			return true;
		usleep(1000);
	}
	diag("%u threads, not %u, and %zu stream bins", threads(), n,
	     stream_bins(m->heap));
	return false;
}

static void model_check(struct model *m, unsigned before, const char *what)
{
	struct weir_heap_stats s = { .size = sizeof(s) };

	ok(!m->wrong, "%s: %s", what,
	   m->wrong ? m->wrong
		    : "no block overlaps another, or comes before its time");
	ok(m->ordered > 10,
	   "%s: memory was handed out to streams that wait for others", what);
	diag("%llu blocks, %llu of them after waits, %llu failures",
	     (unsigned long long)m->allocated, (unsigned long long)m->ordered,
	     (unsigned long long)m->failed);
	free_all(m);
	ok(all_left(m, before), "%s: no stream and no thread is left", what);
	must(weir_heap_trim(m->heap, 0));
	must(weir_heap_stats(m->heap, &s));
	ok(!s.used && !s.pending && s.largest == m->n * m->unit,
	   "%s: all memory is one free part", what);
}

/* Steps of @calls calls with @n blocks at first. */
static uint64_t with_blocks(size_t n, uint64_t calls, bool check)
{
	unsigned before = threads();
	struct model *m = model_new(n, (size_t)64 << 10, 24);
	uint64_t taken;

	for (unsigned i = 0; i < m->slots; i++)
		slot_fill(m, &m->slot[i]);
	for (uint32_t k = 0; k < n; k++)
		step_alloc(m, k, 1, any_slot(m));
	taken = steps();
	for (uint64_t i = 0; i < calls && !m->wrong; i++) {
		uint32_t k = draw((uint32_t)n), most = 3;

		if (i % 2000 == 0) {
			round_end(m);
			round_begin(m);
		}
		if (draw(64) == 0)
			most = (uint32_t)n / 8;
		if (m->block[k].heap)
			step_free(m, k);
		else
			step_alloc(m, k, 1 + draw(most), any_slot(m));
	}
	round_end(m);
	taken = steps() - taken;
	if (check)
		model_check(m, before, "many blocks");
	else
		free_all(m);
	model_destroy(m);
	return taken;
}

static void test_blocks(size_t n, uint64_t calls)
{
	uint64_t few = with_blocks(n / 4, calls, false);
	uint64_t all = with_blocks(n, calls, true);

	ok(few && all < 2 * few,
	   "calls with four times as many blocks take less than twice as many steps");
	diag("%zu blocks %llu steps, %zu blocks %llu steps for each call",
	     n / 4, (unsigned long long)(few / calls), n,
	     (unsigned long long)(all / calls));
}

/* The blocks of slot @i are those from i * @each on. */
static void crowd_step(struct model *m, uint32_t each)
{
	uint32_t i = draw(m->slots), first = i * each;
	struct slot *s = &m->slot[i];

	if (!s->stream)
		slot_fill(m, s);
	if (draw(3)) {
		uint32_t k = first + draw(each);

		if (m->block[k].heap)
			step_free(m, k);
		else
			step_alloc(m, k, 1 + draw(draw(16) ? 8 : 800), i);
		return;
	}
	for (uint32_t k = first; k < first + each; k++)
		if (m->block[k].heap)
			free_in(m, k, i);
	if (m->n_left < SLOTS)
		slot_leave(m, i);
}

/* Steps until @m has had @until streams. */
static uint64_t crowd_run(struct model *m, uint32_t until)
{
	uint64_t before = steps();

	for (uint32_t step = 0; m->streams < until && !m->wrong; step++) {
		if (step % 4000 == 0) {
			round_end(m);
			round_begin(m);
		}
		crowd_step(m, 4);
	}
	round_end(m);
	return steps() - before;
}

static void test_streams(uint32_t n)
{
	unsigned before = threads();
	struct model *m = model_new(4000, 256, SLOTS);
	uint64_t first = crowd_run(m, n / 4), last;

	crowd_run(m, n - n / 4);
	last = crowd_run(m, n);
	ok(first && 4 * last < 5 * first,
	   "calls with the last of %u streams take no more steps than with the first",
	   n);
	diag("%llu and %llu steps for each stream",
	     (unsigned long long)(4 * first / n),
	     (unsigned long long)(4 * last / n));
	model_check(m, before, "many streams");
	model_destroy(m);
}

int main(void)
{
	size_t n = number_from("WEIR_T_BLOCKS", 20000);
	static int calls;
	struct weir_stream *s;

	memory = mmap(NULL, n << 16, PROT_NONE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	plan(10);
	draws_begin();
	weir = open_root(WEIR_IO_SYNC);
	must(weir_dev_buft(cpu_of(weir), WEIR_MEM_PLAIN, &buft));
	/* The first thread may start one of a sanitizer. */
	s = new_stream(weir, "");
	must(weir_stream_call(s, count_up, &calls));
	must(weir_stream_sync(s, -1));
	weir_stream_free(s);
	test_blocks(n, number_from("WEIR_T_STEPS", 80000));
	test_streams((uint32_t)number_from("WEIR_T_STREAMS", 70000));
	weir_close(weir);
	return done_testing();
}
