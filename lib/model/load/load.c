/* SPDX-License-Identifier: MIT */
#include "model/load/load.h"

#include <errno.h>

#include "alloc/arena.h"
#include "core/array.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/refs.h"
#include "core/sys.h"
#include "core/trace.h"
#include "core/util.h"
#include "io/caller_read.h"
#include "model/load/chunk_tensors.h"
#include "model/load/sink.h"

/* Cache misses overlap if the CPU fetches this many items ahead. */
#define COUNTERS_AHEAD 4u
/*
 * Most reads of a load that the calling thread makes: each costs as much as
 * copying some 16 KiB.
 */
#define MAX_READS 32u

static struct weir_load *load_of(struct weir__job *job)
{
	return job->arg;
}

static const struct weir__record *record_of(const struct weir_load *l,
					    size_t place)
{
	return &l->model->rec[l->weights->layout->placement[place].record];
}

/*
 * Tensors arrive in the order of the file, and are counted in their own order:
 * let the CPU fetch the counter of a later one.
 */
static void fetch_later(const struct weir_load *l, size_t ext)
{
	const struct weir__load_span *span;

	if (ext >= l->n_ext)
		return;
	span = &l->weights->layout->span[l->arrays->ext_span[ext]];
	weir__fetch_to_write(&l->arrival->item[span->placement]);
}

/* Begin before the tensors of bytes [lo, hi) of extent @ext. */
static struct weir__chunk_tensors
portions_of(const struct weir_load *l, size_t ext, uint64_t lo, uint64_t hi)
{
	const struct weir__layout *layout = l->weights->layout;
	uint64_t off = l->arrays->ext[ext].off;

	return weir__chunk_tensors_begin(
		layout, &layout->span[l->arrays->ext_span[ext]], off + lo,
		off + hi);
}

const struct weir_failure *
weir__load_explain(struct weir_load *l, const struct weir__chunk_tensors *p,
		   const struct weir__extent *e, uint64_t lo, uint64_t hi,
		   const struct weir__outcome *outcome)
{
	const struct weir_file *file = e->file;
	const struct weir__record *rec = record_of(l, p->tensor);
	const char *name =
		weir__quote(l->model->text + rec->name, rec->name_len);
	unsigned long long a = p->a, b = p->b;

	if (outcome->end == WEIR__CANCELLED)
		return &weir__cause_cancelled;
	if (outcome->end == WEIR__ABANDONED)
		return &weir__cause_closed;
	if (outcome->end == WEIR__END_OF_FILE)
		return weir__arrival_note(
			l->arrival, -ESTALE, 0, p->tensor,
			"%s: tensor '%s': the file ended before all of bytes %llu to %llu, which are read together, were read; it had %llu bytes when it was opened",
			file->base, name, (unsigned long long)(e->off + lo),
			(unsigned long long)(e->off + hi),
			(unsigned long long)file->id.bytes);
	if (outcome->after)
		return weir__arrival_note(
			l->arrival, weir__outcome_errno(outcome),
			outcome->native, p->tensor,
			"%s: tensor '%s': bytes %llu to %llu were not read, because a read of %s had ended the load: %s",
			file->base, name, a, b, outcome->after,
			weir__outcome_describe(outcome));
	return weir__arrival_note(
		l->arrival, weir__outcome_errno(outcome), outcome->native,
		p->tensor, "%s: tensor '%s': %s of bytes %llu to %llu: %s%s",
		file->base, name, outcome->in_copy ? "copy" : "read", a, b,
		weir__outcome_describe(outcome),
		e->dev ? weir__dev_describe_error(e->dev, outcome->native)
		       : "");
}

void weir__load_count(struct weir_load *l, const struct weir_file *file,
		      uint64_t bytes)
{
	if (file->object)
		atomic_fetch_add_explicit(&l->remote, bytes,
					  memory_order_relaxed);
	else if (file->in_cache)
		atomic_fetch_add_explicit(&l->cached, bytes,
					  memory_order_relaxed);
}

static void load_chunk_done(struct weir__job *job, size_t ext, uint64_t lo,
			    uint64_t hi, const struct weir__outcome *outcome,
			    enum weir__chunk_way way)
{
	struct weir_load *l = load_of(job);
	const struct weir__extent *e = &l->arrays->ext[ext];
	struct weir__chunk_tensors p = portions_of(l, ext, lo, hi);
	bool arrived = outcome->end == WEIR__DONE;
	uint64_t ours = 0;

	fetch_later(l, ext + COUNTERS_AHEAD);
	for (; weir__chunk_tensors_next(&p); ours += p.data) {
		if (!arrived && l->verifier)
			weir__verify_break(l->verifier, l->eng, p.tensor);
		weir__arrival_add(l->arrival, p.tensor, p.data,
				  arrived ? NULL
					  : weir__load_explain(l, &p, e, lo, hi,
							       outcome));
	}
	if (!arrived)
		return;
	atomic_fetch_add_explicit(&l->way[way], ours, memory_order_relaxed);
	weir__load_count(l, e->file, ours);
	/* The engine counts gaps between rows, which it may not have read. */
	if (e->rows <= 1 && hi - lo > ours)
		atomic_fetch_add_explicit(&l->gaps, hi - lo - ours,
					  memory_order_relaxed);
}

/* Return where the bytes of @p begin in their tensor. */
static uint64_t begin_of(const struct weir_load *l,
			 const struct weir__chunk_tensors *p)
{
	return p->a - l->weights->layout->placement[p->tensor].off;
}

/*
 * Hash the bytes of a chunk. If they begin inside a tensor, they wait for the
 * chunk before; the other tensors of the chunk begin in it.
 */
static bool load_check(struct weir__job *job, size_t ext, uint64_t lo,
		       uint64_t hi, const unsigned char *bytes,
		       struct weir__check *check)
{
	struct weir_load *l = load_of(job);
	const struct weir__extent *e = &l->arrays->ext[ext];
	uint32_t n = e->n_merged;
	uint64_t from = e->off + lo;

	for (uint32_t k = 0; k < n; k++) {
		struct weir__chunk_tensors p = portions_of(
			l, ext + k, k ? 0 : lo, n > 1 ? e[k].len : hi);
		bool first = !k;

		for (; weir__chunk_tensors_next(&p); first = false) {
			uint64_t at = begin_of(l, &p);
			const struct weir_failure *why;

			if (first && !weir__verify_in_turn(l->verifier, l->eng,
							   p.tensor, at, check))
				return false;
			why = weir__verify_bytes(l->verifier, l->eng, p.tensor,
						 at, bytes + (p.a - from),
						 p.data);
			if (why)
				weir__arrival_blame(l->arrival, p.tensor, why);
		}
	}
	return true;
}

static void load_chunk_submitted(struct weir__job *job, size_t ext, uint64_t lo,
				 uint64_t hi)
{
	struct weir_load *l = load_of(job);
	struct weir__chunk_tensors p = portions_of(l, ext, lo, hi);

	while (weir__chunk_tensors_next(&p))
		weir__arrival_submitted(l->arrival, p.tensor, p.data);
}

static void load_put(struct weir_load *l)
{
	if (!weir__refs_drop(&l->refs))
		return;
	weir__verifier_free(l->verifier);
	if (l->weights)
		weir__load_arrays_give(l->weights->layout, l->arrays);
	weir_weights_free(l->weights);
	weir__model_put(l->model);
	weir__arrival_put(l->arrival);
	weir__free(l->job);
	weir__sinks_free(l);
	weir__parked_put(l->parked);
	weir__free(l->skip);
	weir__free(l);
}

static bool reads_file(const struct weir_load *l, uint32_t shard)
{
	const struct weir__layout *layout = l->weights->layout;
	size_t i = 0;

	while (l->skip && i < layout->n_spans &&
	       (l->skip[i] || layout->span[i].shard != shard))
		i++;
	return !l->skip || i < layout->n_spans;
}

/* If a file has changed since it was opened, tensors may mix two versions. */
static void check_files(struct weir_load *l)
{
	const struct weir_model *m = l->model;
	struct weir__error_saved saved;

	if (l->flags & WEIR_LOAD_UNCHECKED)
		return;
	/* weir_load_start() may call this and succeed: no error is left. */
	weir__error_save(&saved);
	for (uint32_t i = 0; i < m->n_files; i++) {
		int r = reads_file(l, i) ? weir__file_unchanged(m->file[i]) : 0;

		if (r < 0)
			weir__arrival_fail(
				l->arrival,
				weir__arrival_note(l->arrival, r, 0,
						   l->arrival->n, "%s",
						   weir__error_text()));
	}
	weir__error_restore(&saved);
}

static void drop_cache(const struct weir_load *l)
{
	const struct weir_model *m = l->model;

	if (!(l->flags & WEIR_LOAD_DROP))
		return;
	for (uint32_t i = 0; i < m->n_files; i++)
		if (!m->file[i]->object)
			weir__sys_drop_cache(m->file[i]->fd, 0, 0);
}

static void leave_engine(struct weir_load *l)
{
	bool leaked = weir__sinks_end(l) || atomic_load(&l->job->leaked);
	struct weir_io_info info;

	atomic_store(&l->arrival->leaked, leaked);
	weir__load_writes_end(l, leaked);
	weir__engine_info(l->eng, &info);
	l->enters = info.enters - l->enters;
	l->staging = info.staging;
}

/* All is read or has failed. What is left before the arrival finishes: */
static void load_conclude(struct weir_load *l)
{
	weir__load_prefault_stop(l);
	if (atomic_load(&l->arrival->first_failed) == WEIR__NONE_FAILED)
		check_files(l);
	drop_cache(l);
	if (l->eng)
		leave_engine(l);
	weir__arena_in_use(l->weir, &l->memory, &l->memory_peak);
	atomic_store_explicit(&l->elapsed, weir__now() - l->begun,
			      memory_order_release);
	weir__trace_span(l->weir, WEIR__TRACK_LOAD, 0, 0, "load", l->traced, 0,
			 l->total);
}

static void load_end(struct weir__task *task)
{
	struct weir_load *l = weir__container(task, struct weir_load, task);
	struct weir__arrival *arrival = l->arrival;

	weir__timeline_ref(&arrival->timeline);
	load_conclude(l);
	/*
	 * Memory that the kernel may still write to is leaked, with the load.
	 * Otherwise the load's references go before its waiters wake, so that
	 * what they free then is really freed.
	 */
	if (!atomic_load(&arrival->leaked))
		load_put(l);
	weir__arrival_finish(arrival);
	weir__arrival_put(arrival);
}

void weir__load_part_done(struct weir_load *l)
{
	if (atomic_fetch_sub(&l->parts, 1) == 1)
		weir__engine_task(l->eng, &l->task);
}

static void load_job_done(struct weir__job *job)
{
	weir__load_part_done(load_of(job));
}

static int no_memory(const struct weir_model *m, size_t n, size_t size)
{
	return weir__fail(-ENOMEM,
			  "%s: no memory for a load: %zu items of %zu bytes",
			  m->path, n, size);
}

/*
 * Empty tensors arrive at once, and mapped ones if they are not checked; the
 * others when they are read.
 */
static void count_down(struct weir_load *l)
{
	const struct weir__layout *layout = l->weights->layout;

	for (size_t i = 0; i < layout->n; i++) {
		uint64_t bytes = layout->placement[i].data;
		uint32_t buf = layout->placement[i].buf;

		if (l->skip && l->skip[layout->n_spans + i])
			bytes = 0;
		l->total += bytes;
		if (!l->verifier && buf != WEIR__NO_BUF &&
		    layout->buf[buf].buft->desc.kind == WEIR_MEM_MAPPED) {
			l->mapped += bytes;
			weir__load_count(
				l, l->model->file[layout->buf[buf].map_shard],
				bytes);
			bytes = 0;
		}
		atomic_init(&l->arrival->item[i].remaining, bytes);
		if (!bytes)
			weir__arrival_add(
				l->arrival, i, 0,
				l->verifier
					? weir__verify_bytes(l->verifier, NULL,
							     i, 0, "", 0)
					: NULL);
	}
}

/*
 * True if the calling thread may make this load by itself, without waiting: a
 * few reads out of the page cache, to host memory. The weights exist and the
 * remaining bytes of tensors are counted.
 */
static bool is_small(const struct weir_load *l)
{
	const struct weir__layout *layout = l->weights->layout;
	uint64_t bytes = 0;

	if (layout->n_spans > MAX_READS || layout->n_sinks || l->skip)
		return false;
	for (size_t i = 0; i < layout->n_spans; i++) {
		const struct weir__load_span *span = &layout->span[i];

		if (span->way == WEIR_WAY_DIRECT ||
		    !weir__span_is_plain(span) ||
		    !weir__buf_is_host(l->weights->buf[span->buf]))
			return false;
		bytes += span->len;
	}
	if (bytes && !weir__nowait_allowed(l->weir, bytes))
		return false;
	for (size_t i = 0; i < layout->n_spans; i++) {
		const struct weir__load_span *span = &layout->span[i];

		if (!weir__nowait_expected(l->model->file[span->shard],
					   span->off, span->len))
			return false;
	}
	return true;
}

/* Tensor @i of a small load has been read. */
static const struct weir_failure *verify_in_memory(struct weir_load *l,
						   size_t i)
{
	const struct weir__tensor_placement *place =
		&l->weights->layout->placement[i];
	const struct weir_buf *buf = l->weights->buf[place->buf];

	if (!l->verifier)
		return NULL;
	return weir__verify_bytes(l->verifier, NULL, i, 0,
				  (unsigned char *)buf->mem.base + place->at,
				  place->data);
}

static void all_arrived(struct weir_load *l, uint64_t bytes_read)
{
	const struct weir__layout *layout = l->weights->layout;
	uint64_t ours = 0;

	for (size_t i = 0; i < layout->n; i++) {
		uint64_t bytes = atomic_load(&l->arrival->item[i].remaining);

		ours += bytes;
		if (bytes)
			weir__arrival_add(l->arrival, i, bytes,
					  verify_in_memory(l, i));
	}
	atomic_store_explicit(&l->way[WEIR__CHUNK_BUFFERED], ours,
			      memory_order_relaxed);
	atomic_store_explicit(&l->gaps, bytes_read - ours,
			      memory_order_relaxed);
}

/*
 * Read the whole load on the calling thread. Returns true if all tensors have
 * arrived; if false, none has, and the engine has to read them.
 */
static bool load_at_once(struct weir_load *l)
{
	const struct weir__layout *layout = l->weights->layout;
	uint64_t bytes = 0, got;

	for (size_t i = 0; i < layout->n_spans; i++) {
		const struct weir__load_span *span = &layout->span[i];
		unsigned char *base = l->weights->buf[span->buf]->mem.base;

		got = weir__nowait_read(l->model->file[span->shard],
					base + span->at, span->len, span->off);
		bytes += got;
		if (got < span->len) {
			atomic_store(&l->gaps, bytes); /* read again */
			atomic_store(&l->cached, 0);
			return false;
		}
		weir__load_count(l, l->model->file[span->shard], span->len);
	}
	all_arrived(l, bytes);
	return true;
}

/*
 * If all tensors go to devices of one backend, count the copies that are
 * submitted.
 */
static int count_copies(struct weir_load *l)
{
	const struct weir_backend_queue_ops *by = NULL;

	for (size_t i = 0; i < l->n_ext; i++) {
		const struct weir_dev *dev = l->arrays->ext[i].dev;

		if (!dev || (by && dev->backend->queue != by))
			return 0;
		by = dev->backend->queue;
	}
	if (!by || !by->all_submitted || l->n_sinks)
		return 0;
	l->job->chunk_submitted = load_chunk_submitted;
	return weir__arrival_expect_copies(l->arrival, by);
}

/* Make the weights to fill, new ones or @into, and the sinks. */
static int take_weights(struct weir_load *l, struct weir_plan *plan,
			struct weir_weights *into)
{
	struct weir__layout *layout;
	int r = weir__layout_get(plan, &layout);

	if (r < 0)
		return r;
	r = weir__sinks_new(l, layout);
	if (r >= 0 && !into)
		return weir__weights_new(plan, layout, &l->weights);
	if (r >= 0)
		r = weir__weights_reuse(into, plan->model, layout);
	weir__layout_put(layout);
	if (r >= 0)
		r = weir__parked_take(into, &l->parked);
	if (r >= 0) {
		l->weights = weir_weights_ref(into);
		l->taken = true;
	}
	return r;
}

/* Start the engine, and make the job and the extents. */
static int use_engine(struct weir_load *l)
{
	int r;

	l->job = weir__calloc(1, sizeof(*l->job));
	l->arrays = weir__load_arrays_take(l->weights->layout);
	if (!l->job || !l->arrays)
		return no_memory(l->model, 1, sizeof(*l->job));
	r = weir__engine_get(l->weir, &l->eng);
	if (r >= 0)
		r = weir__load_extents(l);
	if (r < 0)
		return r;
	r = count_copies(l);
	if (r < 0)
		return no_memory(l->model, l->weights->layout->n,
				 sizeof(*l->arrival->unsubmitted));
	return weir__sinks_make(l);
}

/* The load has its weights. @expected: digests to check, or NULL. */
static int load_prepare(struct weir_load *l, struct weir__expected *expected)
{
	int r = weir__arrival_new(l->weir, l->weights->layout->n, &l->arrival);

	if (r < 0)
		return no_memory(l->model, l->weights->layout->n,
				 sizeof(l->arrival->item[0]));
	if (expected)
		r = weir__verifier_new(expected, l->model, l->weights->layout,
				       l->arrival, &l->verifier);
	if (r < 0)
		return r;
	count_down(l);
	if (!is_small(l))
		r = use_engine(l);
	return r < 0 ? r : weir__weights_attach(l->weights, l->arrival);
}

/* The arrival is attached: from here on it must finish, whatever fails. */
static int start_job(struct weir_load *l, uint32_t depth)
{
	struct weir_io_info info;
	int r = 0;

	if (!l->eng && load_at_once(l)) {
		load_conclude(l);
		weir__arrival_finish(l->arrival);
		return 0;
	}
	if (!l->eng)
		r = use_engine(l);
	if (r < 0)
		return r;
	/* Threads that prefault may wake the job before it is started. */
	l->job->eng = l->eng;
	r = weir__load_prefault(l);
	if (r < 0)
		return r;
	weir__engine_info(l->eng, &info);
	l->enters = info.enters;
	weir__load_writes_begin(l);
	l->job->ext = l->arrays->ext;
	l->job->n_ext = l->n_ext;
	l->job->depth = depth;
	l->job->reads = &l->reads;
	l->job->chunk_done = load_chunk_done;
	l->job->check = l->verifier ? load_check : NULL;
	l->job->done = load_job_done;
	l->job->arg = l;
	l->task.run = load_end;
	weir__refs_add(&l->refs, 1);
	atomic_init(&l->parts, 1 + (uint32_t)l->n_sinks);
	r = weir__job_start(l->eng, l->job);
	if (r >= 0) {
		weir__sinks_start(l, depth);
		return 0;
	}
	weir__load_writes_end(l, false);
	weir__refs_drop(&l->refs);
	return r;
}

/* The load did not start: fail the arrival, for which others may wait. */
static void load_fail_start(struct weir_load *l, int err)
{
	struct weir__arrival *a = l->arrival;
	const struct weir_failure *cause;

	if (!a)
		return;
	weir__prefault_stop(l->prefault);
	l->prefault = NULL;
	cause = weir__arrival_note(a, err, 0, a->n, "%s", weir__error_text());
	weir__arrival_fail_all(a, cause);
	weir__arrival_finish(a);
}

static int load_new(struct weir_model *model, uint32_t flags,
		    struct weir_load **ret_load)
{
	struct weir_load *l = weir__calloc(1, sizeof(*l));

	if (!l)
		return no_memory(model, 1, sizeof(*l));
	atomic_init(&l->refs, 1);
	l->weir = model->weir;
	l->model = weir__model_ref(model);
	l->flags = flags;
	l->begun = weir__now();
	l->traced = weir__trace_now(l->weir);
	*ret_load = l;
	return 0;
}

/*
 * Start a load that is prepared if @r, the result so far, is 0. If it fails,
 * drop the load.
 */
static int load_go(struct weir_load *l, int r, uint32_t depth,
		   struct weir_load **ret_load)
{
	if (r >= 0)
		weir__load_report_writes(l);
	if (r >= 0)
		r = start_job(l, depth);
	if (r < 0) {
		load_fail_start(l, r);
		if (l->taken)
			weir__parked_return(l->weights, l->parked);
		l->parked = NULL;
		load_put(l);
		return r;
	}
	if (l->taken)
		weir__parked_done(l->weights, l->parked);
	l->parked = NULL;
	*ret_load = l;
	return 0;
}

static bool is_read(const struct weir__layout *layout,
		    const struct weir__load_span *span, const bool *keep)
{
	size_t k = 0;

	while (k < span->n && keep[layout->order[span->first + k]])
		k++;
	return k < span->n;
}

void weir__load_again_covers(const struct weir__layout *layout,
			     const bool *keep, bool *ret_read)
{
	for (size_t i = 0; i < layout->n_spans; i++) {
		const struct weir__load_span *span = &layout->span[i];
		const bool read = is_read(layout, span, keep);

		for (size_t k = 0; k < span->n; k++)
			ret_read[layout->order[span->first + k]] = read;
	}
}

/* Find the spans and placements that are not read. False: there are none. */
static bool choose_skipped(struct weir_load *l, const bool *keep)
{
	const struct weir__layout *layout = l->weights->layout;
	bool *skip_placement = l->skip + layout->n_spans, any = false;

	weir__load_again_covers(layout, keep, skip_placement);
	for (size_t i = 0; i < layout->n; i++) {
		skip_placement[i] = !skip_placement[i];
		any |= skip_placement[i];
	}
	for (size_t i = 0; i < layout->n_spans; i++)
		l->skip[i] = !is_read(layout, &layout->span[i], keep);
	return any;
}

int weir__load_again(struct weir_weights *w, const bool *keep,
		     struct weir_load **ret_load)
{
	struct weir_load *l;
	int r = load_new(w->model, 0, &l);

	if (r < 0)
		return r;
	l->weights = weir_weights_ref(w);
	l->skip = weir__calloc(w->layout->n_spans + w->layout->n + 1, 1);
	r = l->skip ? 0 : no_memory(w->model, w->layout->n_spans, 1);
	if (r >= 0 && !choose_skipped(l, keep)) {
		weir__free(l->skip);
		l->skip = NULL;
	}
	if (r >= 0)
		r = load_prepare(l, NULL);
	return load_go(l, r, 0, ret_load);
}

int weir_load_start(struct weir_plan *plan, const struct weir_load_opts *opts,
		    struct weir_load **ret_load)
{
	const uint32_t known = WEIR_LOAD_UNCHECKED | WEIR_LOAD_DROP;
	struct weir_load_opts o;
	struct weir_load *l;
	int r;

	WEIR__ENTER();
	r = weir__opts_in(&o, sizeof(o), opts);
	if (!r && (o.flags & ~known))
		r = weir__fail(-EINVAL, "unknown flags %#x", o.flags & ~known);
	if (!r)
		r = weir__root_enter(plan->model->weir);
	if (r >= 0)
		r = load_new(plan->model, o.flags, &l);
	if (r < 0)
		return r;
	r = take_weights(l, plan, o.into);
	if (r >= 0)
		r = load_prepare(l, plan->expected);
	return load_go(l, r, o.depth, ret_load);
}

void weir_load_free(struct weir_load *load)
{
	if (!load || !weir__root_is_ours(load->weir))
		return;
	weir__completions_close_fd(&load->arrival->ended);
	load_put(load);
}

int weir_load_all(struct weir *weir, const char *path, struct weir_buft *buft,
		  const struct weir_select_opts *opts,
		  struct weir_weights **ret_weights)
{
	struct weir_select_opts mapped = WEIR_SELECT_OPTS_INIT;
	struct weir_weights *w = NULL;
	struct weir_load *l = NULL;
	struct weir_model *m = NULL;
	struct weir_plan *p = NULL;
	int r = weir_model_open(weir, path, NULL, &m);

	mapped.way = WEIR_WAY_MAP;
	if (!opts && buft->desc.kind == WEIR_MEM_MAPPED)
		opts = &mapped;
	if (r >= 0)
		r = weir_plan_new(m, &p);
	if (r >= 0)
		r = weir_plan_add(p, NULL, buft, opts);
	if (r >= 0)
		r = weir_load_start(p, NULL, &l);
	if (r >= 0)
		r = weir_load_wait(l, -1);
	if (r >= 0)
		r = weir_load_weights(l, &w);
	if (r >= 0)
		*ret_weights = w;
	else
		weir__fail_as("weir_load_all", r);
	weir_load_free(l);
	weir_plan_free(p);
	weir_model_close(m);
	return r < 0 ? r : 0;
}
