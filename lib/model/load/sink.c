/* SPDX-License-Identifier: MIT */
#include "model/load/sink.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "alloc/arena.h"
#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"
#include "io/caller_read.h"
#include "io/lease.h"
#include "model/load/chunk_tensors.h"

#define BUFFER_BYTES (64ull << 20) /* buffer of a sink by default */
/*
 * Bytes from the page cache need no reading ahead: a few small windows of them
 * stay in the CPU's cache.
 */
#define CACHED_WINDOW (1u << 20)
#define MAX_CACHED 4u
#define LEAST_WINDOW (64u << 10)
#define MAX_EXTENTS 32u /* extents of a window */
/* A lease costs a thread, and is worth it for files of so many bytes. */
#define LEASE_BYTES (16ull << 20)

struct sink_window {
	struct weir__sink *sink;
	struct weir__job job;
	struct weir__extent ext[MAX_EXTENTS];
	/* The span of each extent. */
	const struct weir__load_span *span[MAX_EXTENTS];
	size_t n;
	bool cached; /* it has buffered extents */
	bool hashed; /* the sink's thread reads it: see is_hashed() */
	unsigned char *base;
	bool started;            /* a job reads it */
	_Atomic uint32_t done;   /* a futex */
	_Atomic uint64_t way[3]; /* bytes of tensors, as in struct weir_load */
};

struct weir__sink {
	struct weir_load *load;
	struct weir_sink call;
	const struct weir__layout_sink *spans;
	struct weir_backend_mem mem; /* memory of all windows */
	bool has_mem;
	uint64_t window_bytes;
	struct sink_window *window, **queue, **free; /* n_windows each */
	uint64_t n_windows;
	uint32_t depth; /* most chunks in flight of each window */
	_Atomic bool cancelled;
	_Atomic bool stopped; /* windows in the queue start no more reads */
	/* Used by the thread, and after its end: */
	const struct weir_failure *stop; /* nothing more is passed on; or
					    NULL */
	bool leaked;
	size_t span; /* the next extent begins in this span */
	uint64_t at; /* at this byte of the span */
	/* Numbers for reports: */
	_Atomic uint64_t chunks, over_read, retries, cached;
};

int weir__sinks_new(struct weir_load *l, const struct weir__layout *layout)
{
	if (!layout->n_sinks)
		return 0;
	l->sink = weir__calloc(layout->n_sinks, sizeof(*l->sink));
	if (!l->sink)
		return weir__fail(-ENOMEM, "%s: no memory for %zu sinks",
				  l->model->path, layout->n_sinks);
	l->n_sinks = layout->n_sinks;
	for (size_t i = 0; i < l->n_sinks; i++) {
		l->sink[i].load = l;
		l->sink[i].call = layout->sink[i].call;
	}
	return 0;
}

/* As many windows as the buffer has room for, and the tensors need. */
static void choose_windows(struct weir__sink *s)
{
	uint64_t chunk = weir__engine_chunk_bytes(s->load->eng);
	uint64_t buffer = s->call.buffer ? s->call.buffer : BUFFER_BYTES;
	uint64_t need = 0;

	if (buffer < 2 * chunk)
		chunk = weir__down(buffer / 2, WEIR__PAGE);
	if (chunk < LEAST_WINDOW)
		chunk = LEAST_WINDOW;
	for (size_t i = 0; i < s->spans->n_spans; i++)
		need += s->spans->span[i].len / chunk + 2;
	s->window_bytes = chunk;
	s->n_windows = buffer / chunk < 2 ? 2 : buffer / chunk;
	if (s->n_windows > need)
		s->n_windows = need ? need : 1;
}

/*
 * Memory for all windows; if that is more than is available, for fewer. A
 * budget is not stretched so: what an estimate says remains true.
 */
static int take_buffer(struct weir__sink *s)
{
	struct weir__arena_req req = { .kind = WEIR_MEM_HUGE, .node = -1 };
	int r;

	for (;; s->n_windows /= 2) {
		req.bytes = s->n_windows * s->window_bytes;
		r = weir__arena_take(s->load->weir, &req, &s->mem);
		if (r != -ENOMEM || s->n_windows == 1 ||
		    weir__up(req.bytes, WEIR__HUGE_PAGE) >
			    weir__arena_budget_left(s->load->weir))
			break;
	}
	s->has_mem = r >= 0;
	return r;
}

static int sink_make(struct weir__sink *s, size_t number)
{
	struct weir_load *l = s->load;
	int r;

	s->spans = &l->weights->layout->sink[number];
	choose_windows(s);
	r = take_buffer(s);
	if (r < 0)
		return r;
	s->window = weir__calloc(s->n_windows, sizeof(*s->window));
	s->queue = weir__calloc(s->n_windows, 2 * sizeof(*s->queue));
	if (!s->window || !s->queue)
		return weir__fail(-ENOMEM,
				  "%s: no memory for a sink with %llu windows",
				  l->model->path,
				  (unsigned long long)s->n_windows);
	s->free = s->queue + s->n_windows;
	for (uint64_t i = 0; i < s->n_windows; i++) {
		s->window[i].sink = s;
		s->window[i].base = s->mem.base + i * s->window_bytes;
	}
	return 0;
}

int weir__sinks_make(struct weir_load *l)
{
	int r = 0;

	for (size_t i = 0; i < l->n_sinks && r >= 0; i++)
		r = sink_make(&l->sink[i], i);
	return r;
}

static const struct weir_failure *why_stopped(const struct weir__sink *s)
{
	return atomic_load(&s->cancelled) ? &weir__cause_cancelled : s->stop;
}

/* The rest of the sink's tensors fails with this thread's error. */
static void sink_stop(struct weir__sink *s, int err)
{
	struct weir__arrival *a = s->load->arrival;

	s->stop = weir__arrival_note(a, err, 0, a->n, "%s", weir_error());
	atomic_store(&s->stopped, true);
}

static struct weir__chunk_tensors
portions_of(const struct weir__sink *s, const struct weir__load_span *span,
	    uint64_t from, uint64_t to)
{
	return weir__chunk_tensors_begin(s->load->weights->layout, span, from,
					 to);
}

/* True if the tensors of the span have memory: it is mapped. */
static bool is_mapped(const struct weir_load *l,
		      const struct weir__load_span *span)
{
	return l->weights->layout->placement[span->placement].buf !=
	       WEIR__NO_BUF;
}

/* Tensors that failed are not passed on; their bytes are counted then. */
static void sink_chunk_done(struct weir__job *job, size_t ext, uint64_t lo,
			    uint64_t hi, const struct weir__outcome *outcome,
			    enum weir__chunk_way way)
{
	struct sink_window *w = job->arg;
	struct weir_load *l = w->sink->load;
	const struct weir__extent *e = &w->ext[ext];
	struct weir__chunk_tensors p =
		portions_of(w->sink, w->span[ext], e->off + lo, e->off + hi);
	bool read = outcome->end == WEIR__DONE;
	uint64_t ours = 0;

	for (; weir__chunk_tensors_next(&p); ours += p.data)
		if (!read)
			weir__arrival_add(l->arrival, p.tensor, 0,
					  weir__load_explain(l, &p, e, lo, hi,
							     outcome));
	if (!read)
		return;
	atomic_fetch_add_explicit(is_mapped(l, w->span[ext]) ? &l->mapped
							     : &w->way[way],
				  ours, memory_order_relaxed);
	weir__load_count(l, e->file, ours);
	atomic_fetch_add_explicit(&l->gaps, hi - lo - ours,
				  memory_order_relaxed);
}

/* On a reactor. The wake may come after the thread has freed the window. */
static void window_read(struct weir__job *job)
{
	struct sink_window *w = job->arg;

	atomic_store(&w->done, 1);
	weir__futex_wake(&w->done, 1);
}

/*
 * Make the next extent of the window, @used bytes of which have been taken.
 * Returns false if it does not fit. A span that goes on after the extent is
 * divided where a chunk of the engine or the window ends.
 */
static bool window_extent(struct weir__sink *s, struct sink_window *w,
			  uint64_t used)
{
	uint64_t chunk = weir__engine_chunk_bytes(s->load->eng);
	const struct weir__load_span *span = &s->spans->span[s->span];
	uint64_t off = span->off + s->at, len = span->len - s->at;
	uint64_t at = used + off % WEIR__PAGE, room = s->window_bytes;
	bool buffered;

	if (len > chunk - off % chunk)
		len = chunk - off % chunk;
	buffered = weir__goes_buffered(s->load->model->file[span->shard],
				       span->way, off, len);
	if (buffered && room > CACHED_WINDOW)
		room = CACHED_WINDOW;
	if (at >= room)
		return false;
	w->span[w->n] = span;
	w->ext[w->n] = (struct weir__extent){
		.file = s->load->model->file[span->shard],
		.off = off,
		.len = len < room - at ? len : room - at,
		.addr = w->base + at,
		.buffered = buffered,
	};
	return true;
}

/* Choose the extents of the window. Returns false if nothing is left. */
static bool window_choose(struct weir__sink *s, struct sink_window *w)
{
	uint64_t used = 0;
	bool whole = true;

	w->cached = false;
	for (w->n = 0; s->span < s->spans->n_spans && whole; w->n++) {
		const struct weir__extent *e = &w->ext[w->n];

		if (w->n == MAX_EXTENTS || !window_extent(s, w, used))
			break;
		w->cached |= e->buffered;
		used = (uint64_t)(e->addr - w->base) + e->len;
		used = weir__up(used, WEIR__PAGE);
		s->at += e->len;
		whole = s->at == w->span[w->n]->len;
		s->span += whole;
		if (whole)
			s->at = 0;
	}
	return w->n != 0;
}

static int window_prefault(struct weir__sink *s, const struct sink_window *w)
{
	return weir__arena_prefault(&s->mem, (size_t)(w->base - s->mem.base) +
						     s->window_bytes);
}

static int job_start(struct weir__sink *s, struct sink_window *w)
{
	struct weir_load *l = s->load;
	int r = window_prefault(s, w);

	memset(&w->job, 0, sizeof(w->job));
	w->job.ext = w->ext;
	w->job.n_ext = w->n;
	w->job.depth = s->depth;
	w->job.held = true;
	w->job.stopped = &s->stopped;
	w->job.reads = &l->reads;
	w->job.chunk_done = sink_chunk_done;
	w->job.done = window_read;
	w->job.arg = w;
	return r < 0 ? r : weir__job_start(l->eng, &w->job);
}

/*
 * True if all bytes of the window are in the page cache, and nothing but a
 * digest needs them: then the thread that hashes them also reads them, since a
 * copy by another CPU would cost twice as much.
 */
static bool is_hashed(const struct weir__sink *s, const struct sink_window *w)
{
	if (s->call.chunk || !weir__nowait_root(s->load->weir))
		return false;
	for (size_t i = 0; i < w->n; i++) {
		const struct weir__extent *e = &w->ext[i];

		if (!e->buffered ||
		    !weir__nowait_expected(e->file, e->off, e->len))
			return false;
	}
	return true;
}

static void window_begin(struct sink_window *w)
{
	atomic_store(&w->done, 0);
	for (int i = 0; i < 3; i++)
		atomic_store(&w->way[i], 0);
	w->started = false;
}

/* Let the engine read the window. */
static void window_start(struct weir__sink *s, struct sink_window *w)
{
	int r;

	window_begin(w);
	if (why_stopped(s))
		return;
	w->started = true;
	r = job_start(s, w);
	if (r < 0) {
		w->started = false;
		sink_stop(s, r);
	}
}

/* Start to fill @w. False: nothing is left to be read. */
static bool sink_fill(struct weir__sink *s, struct sink_window *w)
{
	if (!window_choose(s, w))
		return false;
	w->hashed = is_hashed(s, w);
	if (!w->hashed)
		window_start(s, w);
	return true;
}

/* Why the tensor of @p gets no more bytes; NULL: the function took them. */
static const struct weir_failure *pass_on(struct weir__sink *s,
					  const struct weir__chunk_tensors *p,
					  const void *data)
{
	const struct weir_model *m = s->load->model;
	struct weir__arrival *a = s->load->arrival;
	const struct weir__tensor_placement *place =
		&s->load->weights->layout->placement[p->tensor];
	const struct weir__record *rec = &m->rec[place->record];
	const struct weir_failure *why = why_stopped(s);
	struct weir__verifier *v = s->load->verifier;
	uint64_t off = p->a - place->off;
	int r;

	if (!why)
		why = atomic_load(&a->item[p->tensor].cause);
	if (!why && v)
		why = weir__verify_bytes(v, NULL, p->tensor, off, data,
					 p->data);
	if (why || !s->call.chunk)
		return why;
	r = s->call.chunk(s->call.arg, p->tensor, off, data, p->data);
	if (r >= 0)
		return NULL;
	return weir__arrival_note(
		a, r, 0, p->tensor,
		"tensor '%s': the sink returned %d for its bytes %llu to %llu",
		weir__quote(m->text + rec->name, rec->name_len), r,
		(unsigned long long)off, (unsigned long long)(off + p->data));
}

/* Pass on extent @i of the window, whose bytes are at @bytes. */
static void pass_on_extent(struct weir__sink *s, const struct sink_window *w,
			   size_t i, const unsigned char *bytes)
{
	const struct weir__extent *e = &w->ext[i];
	struct weir__chunk_tensors p =
		portions_of(s, w->span[i], e->off, e->off + e->len);

	while (weir__chunk_tensors_next(&p))
		weir__arrival_add(s->load->arrival, p.tensor, p.data,
				  pass_on(s, &p, bytes + (p.a - e->off)));
}

static void pass_on_window(struct weir__sink *s, const struct sink_window *w)
{
	for (size_t i = 0; i < w->n; i++)
		pass_on_extent(s, w, i, w->ext[i].addr);
}

static void sink_count(struct weir__sink *s, const struct sink_window *w)
{
	for (int i = 0; i < 3; i++)
		atomic_fetch_add(&s->load->way[i], atomic_load(&w->way[i]));
	atomic_fetch_add(&s->chunks, w->job.n_chunks);
	atomic_fetch_add(&s->over_read, atomic_load(&w->job.over_read));
	atomic_fetch_add(&s->retries, atomic_load(&w->job.retries));
	atomic_fetch_add(&s->cached, atomic_load(&w->job.cached));
}

static void window_wait(struct weir__sink *s, struct sink_window *w)
{
	while (!atomic_load(&w->done))
		weir__futex_wait(&w->done, 0, INT64_MAX);
	/* The kernel may still write to this window: it is not filled again. */
	if (atomic_load(&w->job.leaked) && !s->leaked) {
		s->leaked = true;
		sink_stop(s, weir__fail(-EIO, "a read for a sink did not end"));
	}
}

/*
 * Hash extent @i where it is in the page cache, or a copy of it. False: not all
 * of it is cached any more, and nothing has been hashed.
 */
static bool hash_extent(struct weir__sink *s, struct sink_window *w, size_t i)
{
	static const struct weir__outcome done = { .end = WEIR__DONE };
	const struct weir__extent *e = &w->ext[i];
	const unsigned char *mapped;
	uint64_t got = 0;

	if (e->file->id.bytes >= LEASE_BYTES)
		weir__file_lease(e->file);
	mapped = weir__lease_get(e->file, e->off, e->len);
	if (!mapped && window_prefault(s, w) >= 0)
		got = weir__nowait_read(e->file, e->addr, e->len, e->off);
	if (!mapped && got < e->len) {
		atomic_fetch_add(&s->over_read, got); /* read again */
		return false;
	}
	pass_on_extent(s, w, i, mapped ? mapped : e->addr);
	if (mapped)
		weir__lease_drop(e->file, mapped, e->len);
	sink_chunk_done(&w->job, i, 0, e->len, &done, WEIR__CHUNK_BUFFERED);
	return true;
}

/* Hash the window. The engine reads what is not cached any more. */
static void window_hash(struct weir__sink *s, struct sink_window *w)
{
	size_t n = 0;

	window_begin(w);
	w->job = (struct weir__job){ .arg = w };
	while (n < w->n && !why_stopped(s) && hash_extent(s, w, n))
		n++;
	w->job.n_chunks = n;
	sink_count(s, w);
	w->n -= n;
	memmove(w->ext, w->ext + n, w->n * sizeof(w->ext[0]));
	memmove(w->span, w->span + n, w->n * sizeof(w->span[0]));
	if (w->n)
		window_start(s, w);
}

/* Pass on the bytes of the window when they are read, or fail them. */
static void sink_empty(struct weir__sink *s, struct sink_window *w)
{
	if (w->hashed)
		window_hash(s, w);
	if (w->started)
		window_wait(s, w);
	pass_on_window(s, w);
	if (w->started)
		sink_count(s, w);
}

/*
 * How many windows of the page cache it counts as: one that the thread itself
 * reads needs no other beside it.
 */
static unsigned cached_windows(const struct sink_window *w)
{
	return w->hashed ? MAX_CACHED : w->cached;
}

/*
 * The window that was emptied last is filled first: it is still in the CPU's
 * cache.
 */
static void sink_run(struct weir__sink *s)
{
	uint64_t filled = 0, emptied = 0, n = s->n_windows, n_free = n;
	unsigned cached = 0;
	struct sink_window *w;

	for (uint64_t i = 0; i < n; i++)
		s->free[i] = &s->window[n - 1 - i];
	for (;;) {
		while (n_free && cached < MAX_CACHED &&
		       sink_fill(s, s->free[n_free - 1])) {
			w = s->free[--n_free];
			cached += cached_windows(w);
			s->queue[filled++ % n] = w;
		}
		if (filled == emptied)
			break;
		w = s->queue[emptied++ % n];
		sink_empty(s, w);
		cached -= cached_windows(w);
		s->free[n_free++] = w;
	}
	weir__load_part_done(s->load);
}

static void *sink_main(void *arg)
{
	struct weir__sink *s = arg;
	struct weir__engine *eng = s->load->eng;
	struct weir *weir = s->load->weir;

	weir__cpus_enter(&weir->io_cpus);
	sink_run(s);
	weir__engine_release(eng);
	weir__root_put(weir);
	return NULL;
}

static int sink_start(struct weir__sink *s)
{
	struct weir_load *l = s->load;
	int r = weir__engine_hold(l->eng);
	pthread_t thread;

	if (r < 0)
		return r;
	weir__root_ref(l->weir);
	r = weir__thread_start(&thread, "weir-sink", sink_main, s);
	if (r >= 0) {
		pthread_detach(thread);
		return 0;
	}
	weir__engine_release(l->eng);
	weir__root_put(l->weir);
	return weir__fail_sys(r, "starting the thread of a sink");
}

void weir__sinks_start(struct weir_load *l, uint32_t depth)
{
	for (size_t i = 0; i < l->n_sinks; i++) {
		struct weir__sink *s = &l->sink[i];
		int r;

		if (depth && s->n_windows > depth)
			s->n_windows = depth;
		s->depth = depth ? (uint32_t)(depth / s->n_windows) : 0;
		r = sink_start(s);
		if (r >= 0)
			continue;
		sink_stop(s, r);
		sink_run(s);
	}
}

void weir__sinks_cancel(struct weir_load *l)
{
	for (size_t i = 0; i < l->n_sinks; i++) {
		atomic_store(&l->sink[i].cancelled, true);
		atomic_store(&l->sink[i].stopped, true);
	}
	if (l->n_sinks)
		weir__job_wake(l->job);
}

static void sink_free_windows(struct weir__sink *s)
{
	if (s->has_mem)
		weir__arena_give(s->load->weir, &s->mem);
	s->has_mem = false;
	weir__free(s->window);
	weir__free(s->queue);
	s->window = NULL;
	s->queue = NULL;
}

bool weir__sinks_end(struct weir_load *l)
{
	bool leaked = false;

	for (size_t i = 0; i < l->n_sinks; i++) {
		leaked |= l->sink[i].leaked;
		if (!l->sink[i].leaked)
			sink_free_windows(&l->sink[i]);
	}
	return leaked;
}

void weir__sinks_free(struct weir_load *l)
{
	for (size_t i = 0; i < l->n_sinks; i++)
		sink_free_windows(&l->sink[i]);
	weir__free(l->sink);
}

void weir__sinks_report(struct weir_load *l, struct weir_load_report *rep)
{
	for (size_t i = 0; i < l->n_sinks; i++) {
		rep->chunks += atomic_load(&l->sink[i].chunks);
		rep->over_read += atomic_load(&l->sink[i].over_read);
		rep->retries += atomic_load(&l->sink[i].retries);
		rep->cached += atomic_load(&l->sink[i].cached);
	}
}
