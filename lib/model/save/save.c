/* SPDX-License-Identifier: MIT */
/*
 * The public calls of saves, and the way of a save from its start to its end:
 *
 * weir_save_start	layout, temporary files; then at once or when its event
 *			is done:
 * begin_job		on a thread of the engine: starts the engine's job
 * weir__save_fill	on threads of the engine: produces the bytes of chunks
 * save_chunk_done	on reactors: a chunk is written or has failed
 * save_job_done	on a reactor: no chunk is in flight; the rest may block
 * save_end		on a thread of the engine: names the files, or removes
 *			them, and completes number 0
 */
#include "model/save/save.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/array.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/refs.h"
#include "core/sys.h"
#include "core/trace.h"
#include "core/util.h"
#include "io/source.h"
#include "mem/buf.h"
#include "mem/dtype.h"
#include "mem/tensor.h"
#include "model/format/split_files.h"
#include "model/format/utf8.h"
#include "stream/event.h"

static struct weir_save *save_of(struct weir__timeline *tl)
{
	return weir__container(tl, struct weir_save, timeline);
}

int weir__save_fail(struct weir_save *s, int err, int32_t native,
		    uint64_t number, const char *fmt, ...)
{
	char text[sizeof(s->failure.text)];
	va_list ap;

	if (atomic_exchange(&s->claimed, true))
		return err;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	weir__failure_set(&s->failure, err, native, number, "%s", text);
	atomic_store(&s->failed, true);
	return err;
}

static int save_state(struct weir__timeline *tl, uint64_t number,
		      struct weir_failure *ret_cause)
{
	struct weir_save *s = save_of(tl);

	(void)number;
	if (!atomic_load(&s->finished))
		return 0;
	if (!atomic_load(&s->failed))
		return 1;
	if (ret_cause)
		*ret_cause = s->failure;
	return s->failure.err;
}

/* What is not needed once the save has finished. */
static void release_items(struct weir_save *s)
{
	for (size_t i = 0; s->item && i < s->model->n_recs; i++)
		weir__save_item_free(&s->item[i]);
	weir__free(s->item);
	s->item = NULL;
}

static void save_destroy(struct weir__timeline *tl)
{
	struct weir_save *s = save_of(tl);

	release_items(s);
	weir__save_earlier_free(s);
	weir__save_layout_free(s);
	if (s->model)
		weir__names_fini(&s->header.names);
	weir__model_put(s->model);
	if (s->after)
		weir__timeline_put(s->after);
	weir__free(s->job);
	weir__free(s->ext);
	weir__free(s->dev);
	weir__free(s->path);
	weir__free(s->folder);
	weir__timeline_fini(tl);
	weir__free(s);
}

static const struct weir__timeline_ops save_ops = {
	.size = sizeof(save_ops),
	.state = save_state,
	.free = save_destroy,
};

/* The format named @name, or whose ending the path has. */
static const struct weir__format *find_format(const char *path,
					      const char *name)
{
	for (size_t i = 0; weir__formats[i]; i++) {
		const struct weir__format *f = weir__formats[i];
		size_t n = strlen(path), suffix = strlen(f->suffix);

		if (!f->write)
			continue;
		if (name ? !strcmp(name, f->name)
			 : n > suffix && !strcmp(path + n - suffix, f->suffix))
			return f;
	}
	return NULL;
}

static int no_format(const char *path, const char *name)
{
	if (name)
		return weir__fail(
			-EINVAL,
			"%s: no format '%s', there are safetensors and GGUF",
			path, name);
	return weir__fail(
		-EINVAL,
		"%s: ends in neither .safetensors nor .gguf, and no format is given",
		path);
}

/* A path by which a reader could not open the one file that is written. */
static int check_path(const char *path, const struct weir__format *format)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	struct weir__part_name part;

	if (!*name)
		return weir__fail(-EINVAL, "'%s' is not the name of a file",
				  path);
	if (strlen(name) > NAME_MAX)
		return weir__fail(-ENAMETOOLONG,
				  "%s: a name of %zu bytes, at most %d", path,
				  strlen(name), NAME_MAX);
	if (format->split && weir__split_parse(name, &part) && part.count > 1)
		return weir__fail(
			-EINVAL,
			"%s: is the name of file %u of %u of a split model; name the model without these numbers",
			path, part.no, part.count);
	return 0;
}

static int set_path(struct weir_save *s, const char *path)
{
	const char *slash = strrchr(path, '/');

	s->path = weir__strdup(path);
	s->folder = weir__strdup(slash ? path : ".");
	if (!s->path || !s->folder)
		return -ENOMEM;
	if (slash)
		s->folder[slash == path ? 1 : slash - path] = '\0';
	return 0;
}

static int save_fill_new(struct weir_save *s, const char *path)
{
	int r = set_path(s, path);

	if (r >= 0)
		r = weir__model_new(s->weir, &s->model);
	if (r >= 0) {
		s->model->limit = UINT64_MAX;
		r = weir__header_begin(&s->header, s->model, 0);
	}
	return r < 0 ? weir__fail(r, "%s: no memory for a save", path) : 0;
}

int weir_save_new(struct weir *weir, const char *path,
		  const struct weir_save_opts *opts,
		  struct weir_save **ret_save)
{
	const uint32_t known = WEIR_SAVE_NEW | WEIR_SAVE_NOSYNC |
			       WEIR_SAVE_DROP;
	const struct weir__format *format;
	struct weir_save_opts o;
	struct weir_save *s;
	int r;

	WEIR__ENTER();
	r = weir__refuse_url(path, "is saved to");
	if (r < 0)
		return r;
	r = weir__opts_in(&o, sizeof(o), opts);
	if (r >= 0 && (o.flags & ~known))
		r = weir__fail(-EINVAL, "unknown flags %#x", o.flags & ~known);
	if (r >= 0)
		r = weir__root_enter(weir);
	if (r < 0)
		return r;
	format = find_format(path, o.format);
	if (!format)
		return no_format(path, o.format);
	r = check_path(path, format);
	if (r < 0)
		return r;
	s = weir__calloc(1, sizeof(*s));
	if (!s)
		return weir__fail(-ENOMEM, "%s: no memory for a save", path);
	weir__timeline_init(&s->timeline, &save_ops, weir);
	s->weir = weir;
	s->dir = -1;
	s->format = format;
	s->flags = o.flags;
	s->depth = o.depth;
	s->shard_bytes = o.shard_bytes;
	r = save_fill_new(s, path);
	if (r < 0) {
		weir__timeline_put(&s->timeline);
		return r;
	}
	*ret_save = s;
	return 0;
}

void weir_save_free(struct weir_save *save)
{
	if (save && weir__root_is_ours(save->weir))
		weir__timeline_put(&save->timeline);
}

int weir__save_check_open(const struct weir_save *s)
{
	int r = weir__root_enter(s->weir);

	if (r < 0)
		return r;
	if (atomic_load(&s->state) != WEIR__SAVE_OPEN)
		return weir__fail(-EINVAL, "%s: the save has been started",
				  s->path);
	return 0;
}

static int no_memory(const struct weir_save *s)
{
	return weir__fail(-ENOMEM, "%s: no memory for %zu tensors", s->path,
			  s->model->n_recs + 1);
}

/* The record of @item, by the name @name. */
static int add_record(struct weir_save *s, const char *name,
		      const struct weir__save_item *item, uint32_t dtype)
{
	const struct weir__str str = { name, strlen(name) };
	struct weir__record rec = {
		.dtype = (uint16_t)(item->convert ? dtype : item->t.dtype),
		.ndim = (uint16_t)item->t.ndim,
		.bytes = item->bytes,
	};
	uint64_t dims[WEIR_MAX_DIMS];
	int r;

	for (unsigned i = 0; i < item->t.ndim; i++)
		dims[i] = (uint64_t)item->t.shape[i];
	r = s->format->write->check(&str, rec.dtype, rec.ndim);
	if (r >= 0)
		r = weir__header_add(&s->header, &str,
				     weir__names_ahead(&s->header.names, &str),
				     dims, &rec);
	return r == -ENOMEM ? no_memory(s) : r;
}

/* Add @item, of which the save takes the references; or drop them. */
static int add_item(struct weir_save *s, const char *name,
		    struct weir__save_item *item, uint32_t dtype)
{
	const struct weir__str str = { name, strlen(name) };
	struct weir__save_item *all;
	int r = 0;

	if (!weir__utf8_valid(name, str.len))
		r = weir__fail(-EINVAL, "tensor '%s': its name is not UTF-8",
			       weir__quote(name, str.len));
	else if (weir__names_find(&s->header.names, &str) != WEIR__NONE)
		r = weir__fail(-EEXIST,
			       "tensor '%s': the save has one of that name",
			       weir__quote(name, str.len));
	all = r < 0 ? NULL
		    : weir__grow(s->item, &s->cap_items, s->model->n_recs,
				 sizeof(*all));
	if (r >= 0 && !all)
		r = no_memory(s);
	if (r >= 0) {
		s->item = all;
		r = add_record(s, name, item, dtype);
	}
	if (r < 0) {
		weir__save_item_free(item);
		return r;
	}
	item->t.name = NULL;
	item->drop = s->flags & WEIR_SAVE_DROP;
	s->item[s->model->n_recs - 1] = *item;
	return 0;
}

int weir_save_add(struct weir_save *save, const char *name,
		  const struct weir_tensor *t, uint32_t dtype)
{
	struct weir__save_item item;
	int r;

	WEIR__ENTER();
	r = weir__save_check_open(save);
	if (r >= 0)
		r = weir__save_item_memory(&item, save->weir, t, dtype);
	return r < 0 ? r : add_item(save, name, &item, dtype);
}

int weir_save_copy(struct weir_save *save, const char *name,
		   struct weir_model *model, size_t i,
		   const struct weir_tensor *view, uint32_t dtype)
{
	struct weir__save_item item;
	int r;

	WEIR__ENTER();
	r = weir__save_check_open(save);
	if (r >= 0 && model->weir != save->weir)
		r = weir__fail(-EINVAL, "%s: a model of another root",
			       model->path);
	if (r >= 0)
		r = weir__save_item_file(&item, model, i, view, dtype);
	return r < 0 ? r : add_item(save, name, &item, dtype);
}

static int check_shape(const struct weir_save *s,
		       const struct weir__record *rec, const char *name,
		       unsigned ndim, const int64_t *shape)
{
	const struct weir__str str = { name, strlen(name) };
	struct weir_tensor t;
	uint64_t bytes;
	int r = weir__tensor_init(&t, rec->dtype, ndim, shape);

	if (r >= 0)
		r = weir__tensor_bytes(&t, &bytes);
	if (r >= 0 && bytes != rec->bytes)
		r = weir__fail(
			-EINVAL,
			"tensor '%s': has %llu bytes, in the other shape %llu",
			weir__quote(name, str.len),
			(unsigned long long)rec->bytes,
			(unsigned long long)bytes);
	return r < 0 ? r : s->format->write->check(&str, rec->dtype, ndim);
}

int weir_save_shape(struct weir_save *save, const char *name, unsigned ndim,
		    const int64_t *shape)
{
	const struct weir__str str = { name, strlen(name) };
	struct weir_model *m = save->model;
	uint64_t dims[WEIR_MAX_DIMS];
	struct weir__record rec;
	size_t number;
	int r;

	WEIR__ENTER();
	r = weir__save_check_open(save);
	if (r < 0)
		return r;
	number = weir__names_find(&save->header.names, &str);
	if (number == WEIR__NONE)
		return weir__fail(-ENOENT, "the save has no tensor '%s'",
				  weir__quote(name, str.len));
	rec = m->rec[number];
	r = check_shape(save, &rec, name, ndim, shape);
	if (r < 0)
		return r;
	for (unsigned i = 0; i < ndim; i++)
		dims[i] = (uint64_t)shape[i];
	rec.ndim = (uint16_t)ndim;
	r = weir__record_set_shape(m, dims, &rec);
	if (r < 0)
		return r == -ENOMEM ? no_memory(save) : r;
	m->rec[number] = rec;
	return 0;
}

/* Why a save cannot be what its caller asks for before it was started. */
static int check_started(const struct weir_save *s)
{
	int r = weir__root_read(s->weir);

	if (r < 0)
		return r;
	if (atomic_load(&s->state) < WEIR__SAVE_STARTED)
		return weir__fail(-EINVAL, "%s: the save was not started",
				  s->path);
	return 0;
}

/* A source file that has changed: the new file may be a mixture. */
static int check_sources(struct weir_save *s)
{
	const struct weir_file *last = NULL;

	for (size_t i = 0; i < s->model->n_recs; i++) {
		struct weir_file *file = s->item[i].file;
		int r;

		if (!file || file == last)
			continue;
		r = weir__file_unchanged(file);
		if (r < 0)
			return r;
		last = file;
	}
	return 0;
}

static void save_end(struct weir__task *task)
{
	struct weir_save *s = weir__container(task, struct weir_save, task);
	struct weir__engine *eng = s->eng;
	const bool leaked = atomic_load(&s->job->leaked);
	const bool cancelled = atomic_load(&s->cancelled);
	int r = 0;

	if (cancelled)
		weir__save_fail(s, -ECANCELED, 0, s->model->n_recs,
				"%s: the save was cancelled", s->path);
	if (!atomic_load(&s->failed)) {
		r = check_sources(s);
		if (r >= 0)
			r = weir__save_files_publish(s);
		if (r < 0)
			weir__save_fail(s, r, 0, s->model->n_recs, "%s",
					weir__error_text());
	}
	weir__save_files_remove(s);
	if (!cancelled)
		weir__save_files_close(s, leaked);
	if (!leaked)
		release_items(s);
	atomic_store(&s->elapsed, weir__now() - s->begun);
	atomic_store(&s->state, WEIR__SAVE_FINISHED);
	atomic_store(&s->finished, true);
	weir__timeline_complete(&s->timeline, 0);
	/* Who has cancelled does not wait until all blocks are free. */
	if (cancelled)
		weir__save_files_close(s, leaked);
	if (!leaked)
		weir__timeline_put(&s->timeline);
	weir__engine_release(eng);
}

static void save_job_done(struct weir__job *job)
{
	struct weir_save *s = job->arg;

	s->task.run = save_end;
	weir__engine_long_task(s->eng, &s->task);
}

static void save_chunk_done(struct weir__job *job, size_t ext, uint64_t lo,
			    uint64_t hi, const struct weir__outcome *outcome,
			    enum weir__chunk_way way)
{
	struct weir_save *s = job->arg;
	const struct weir__save_file *f = &s->file[ext];

	if (outcome->end == WEIR__CANCELLED) {
		weir__save_fail(s, -ECANCELED, 0, s->model->n_recs,
				"%s: the save was cancelled", s->path);
	} else if (outcome->end == WEIR__ABANDONED) {
		weir__save_fail(
			s, -ESHUTDOWN, 0, s->model->n_recs,
			"%s: the root was closed and the writes did not end in time",
			s->path);
	} else if (outcome->end != WEIR__DONE) {
		weir__save_fail(s, weir__outcome_errno(outcome),
				outcome->native,
				weir__save_record_at(s, ext, lo),
				"%s: write of bytes %llu to %llu: %s", f->name,
				(unsigned long long)lo, (unsigned long long)hi,
				weir__outcome_describe(outcome));
	} else {
		atomic_fetch_add_explicit(&s->written, hi - lo,
					  memory_order_relaxed);
		if (way != WEIR__CHUNK_BUFFERED)
			atomic_fetch_add_explicit(&s->direct, hi - lo,
						  memory_order_relaxed);
		if (way == WEIR__CHUNK_IN_PLACE)
			atomic_fetch_add_explicit(&s->in_place, hi - lo,
						  memory_order_relaxed);
	}
}

/* The event is done, or has failed, or the save was cancelled meanwhile. */
static void begin_job(struct weir__task *task)
{
	struct weir_save *s = weir__container(task, struct weir_save, task);
	struct weir_failure cause = { 0 };
	int r = s->after ? s->after->ops->state(s->after, s->after_number,
						&cause)
			 : 1;

	if (atomic_load(&s->cancelled))
		r = weir__save_fail(s, -ECANCELED, 0, s->model->n_recs,
				    "%s: the save was cancelled", s->path);
	else if (r < 0)
		weir__save_fail(s, r, cause.native, s->model->n_recs,
				"the event before the save failed: %s",
				cause.text);
	if (r >= 0) {
		r = weir__job_start(s->eng, s->job);
		if (r < 0)
			weir__save_fail(s, r, 0, s->model->n_recs, "%s",
					weir__error_text());
	}
	if (r < 0)
		save_end(task);
}

static void save_wake(struct weir__waiter *waiter)
{
	struct weir_save *s = weir__container(waiter, struct weir_save, waiter);

	weir__engine_long_task(s->eng, &s->task);
}

/* List the devices whose memory is saved. */
static int list_devs(struct weir_save *s)
{
	s->n_devs = 0;
	for (size_t i = 0; i < s->model->n_recs; i++) {
		const struct weir_buf *buf = s->item[i].t.buf;
		struct weir_dev **list;
		size_t k = 0;

		if (!buf || weir__buf_is_host(buf))
			continue;
		while (k < s->n_devs && s->dev[k] != buf->buft->dev)
			k++;
		if (k < s->n_devs)
			continue;
		list = weir__grow(s->dev, &s->cap_devs, k, sizeof(*list));
		if (!list)
			return no_memory(s);
		s->dev = list;
		s->dev[s->n_devs++] = buf->buft->dev;
	}
	return 0;
}

/* The engine, the job and its extents, of which each is a file. */
static int make_job(struct weir_save *s)
{
	weir__free(s->job);
	weir__free(s->ext);
	s->job = weir__calloc(1, sizeof(*s->job));
	s->ext = weir__calloc(s->n_files, sizeof(*s->ext));
	if (!s->job || !s->ext)
		return no_memory(s);
	if (list_devs(s) < 0)
		return -ENOMEM;
	for (uint32_t i = 0; i < s->n_files; i++) {
		s->ext[i].file = s->file[i].file;
		s->ext[i].len = s->file[i].bytes;
	}
	s->job->ext = s->ext;
	s->job->n_ext = s->n_files;
	s->job->write = true;
	s->job->devs = s->dev;
	s->job->n_devs = s->n_devs;
	s->job->depth = s->depth;
	s->job->held = true;
	s->job->own_reads.whole = true;
	s->job->eng = s->eng;
	s->job->fill = weir__save_fill;
	s->job->chunk_done = save_chunk_done;
	s->job->done = save_job_done;
	s->job->arg = s;
	return 0;
}

/*
 * The engine is held: it stays until save_end. The save may have finished when
 * this returns.
 */
static int start_held(struct weir_save *s)
{
	enum weir__save_state starting = WEIR__SAVE_STARTING;
	int r = weir__save_files_make(s);

	if (r >= 0)
		r = make_job(s);
	if (r < 0) {
		weir__save_files_remove(s);
		weir__save_files_close(s, false);
		return r;
	}
	s->begun = weir__now();
	s->task.run = begin_job;
	weir__timeline_ref(&s->timeline);
	s->waiter.number = s->after_number;
	s->waiter.wake = save_wake;
	if (!s->after || weir__timeline_wait(s->after, &s->waiter) != 0)
		weir__engine_long_task(s->eng, &s->task);
	/* Not earlier: a cancelled save must find its waiter on the list. */
	atomic_compare_exchange_strong(&s->state, &starting,
				       WEIR__SAVE_STARTED);
	return 0;
}

static int save_begin(struct weir_save *s, struct weir_event *after)
{
	int r = 0;

	if (after) {
		r = weir__event_get(after, s->weir, &s->after,
				    &s->after_number);
		if (r >= 0 && !s->after)
			r = weir__fail(-EINVAL,
				       "%s: the event was never recorded",
				       s->path);
	}
	if (r >= 0)
		r = weir__engine_get(s->weir, &s->eng);
	if (r >= 0)
		r = weir__save_layout(s);
	if (r >= 0)
		r = weir__engine_hold(s->eng);
	if (r < 0)
		return r;
	r = start_held(s);
	if (r < 0)
		weir__engine_release(s->eng);
	return r;
}

int weir_save_start(struct weir_save *save, struct weir_event *after)
{
	enum weir__save_state open = WEIR__SAVE_OPEN;
	int r;

	WEIR__ENTER();
	r = weir__save_check_open(save);
	if (r >= 0 && !atomic_compare_exchange_strong(&save->state, &open,
						      WEIR__SAVE_STARTING))
		r = weir__fail(-EINVAL, "%s: the save has been started",
			       save->path);
	if (r < 0)
		return r;
	r = save_begin(save, after);
	if (r >= 0)
		return 0;
	if (save->after)
		weir__timeline_put(save->after);
	save->after = NULL;
	atomic_store(&save->state, WEIR__SAVE_OPEN);
	return r;
}

int weir_save_wait(struct weir_save *save, int64_t timeout_ns)
{
	int r;

	WEIR__ENTER();
	r = check_started(save);
	return r < 0 ? r : weir__timeline_block(&save->timeline, 0, timeout_ns);
}

int weir_save_record(struct weir_save *save, struct weir_event *event)
{
	int r;

	WEIR__ENTER();
	r = check_started(save);
	return r < 0 ? r : weir__event_record(event, &save->timeline, 0);
}

int weir_save_cancel(struct weir_save *save)
{
	int r;

	WEIR__ENTER();
	r = check_started(save);
	if (r < 0)
		return r;
	atomic_store(&save->cancelled, true);
	if (atomic_load(&save->finished))
		return 0;
	weir__job_cancel(save->job);
	if (save->after && weir__timeline_unwait(save->after, &save->waiter))
		save_wake(&save->waiter);
	return 0;
}

int weir_save_progress(struct weir_save *save,
		       struct weir_progress *ret_progress)
{
	struct weir_progress p = { 0 };
	int r;

	WEIR__ENTER();
	r = check_started(save);
	if (r < 0)
		return r;
	p.bytes = atomic_load(&save->written);
	p.total = save->total;
	p.count = save->model->n_recs;
	p.elapsed = atomic_load(&save->elapsed);
	if (!p.elapsed)
		p.elapsed = weir__now() - save->begun;
	if (atomic_load(&save->finished) && atomic_load(&save->failed))
		p.failed = p.count;
	else if (atomic_load(&save->finished))
		p.tensors = p.count;
	return weir__info_out(ret_progress, &p, sizeof(p));
}

int weir_save_error(struct weir_save *save, struct weir_failure *ret_failure)
{
	int r;

	WEIR__ENTER();
	r = check_started(save);
	if (r < 0)
		return r;
	memset(ret_failure, 0, sizeof(*ret_failure));
	if (!atomic_load(&save->failed))
		return 0;
	*ret_failure = save->failure;
	return save->failure.err;
}

int weir_save_info(struct weir_save *save, struct weir_save_info *ret_info)
{
	struct weir_save_info info = { .format = save->format->name };
	int r;

	WEIR__ENTER();
	r = weir__root_read(save->weir);
	if (r >= 0 && atomic_load(&save->state) == WEIR__SAVE_OPEN)
		r = weir__save_layout(save);
	if (r < 0)
		return r;
	info.bytes = save->total;
	info.tensors = save->model->n_recs;
	info.data = save->data;
	info.files = save->n_files;
	if (weir__sys_free(save->folder, &info.free) < 0)
		info.free = UINT64_MAX;
	return weir__info_out(ret_info, &info, sizeof(info));
}

int weir_save_report(struct weir_save *save,
		     struct weir_save_report *ret_report)
{
	struct weir_save_report rep = {
		.bytes = atomic_load(&save->written),
		.direct = atomic_load(&save->direct),
		.in_place = atomic_load(&save->in_place),
		.elapsed = atomic_load(&save->elapsed),
	};
	struct weir_io_info io;
	int r;

	WEIR__ENTER();
	r = check_started(save);
	if (r < 0)
		return r;
	weir__engine_info(save->eng, &io);
	rep.io = io.method;
	rep.leftovers = save->leftovers;
	rep.retries = atomic_load(&save->job->retries);
	if (atomic_load(&save->finished)) {
		rep.chunks = save->job->n_chunks;
		rep.sync_ns = save->sync_ns;
		snprintf(rep.note, sizeof(rep.note), "%s", save->note);
	}
	return weir__info_out(ret_report, &rep, sizeof(rep));
}
