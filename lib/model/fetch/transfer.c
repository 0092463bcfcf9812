/* SPDX-License-Identifier: MIT */
/*
 * The thread that fetches starts reads of missing blocks, writes what has
 * arrived to the partial files, and reports. The checker, a thread beside it,
 * compares the blocks of each file in their order and puts whole files in their
 * places. Threads of the sources end the reads.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/clock.h"
#include "core/root.h"
#include "core/util.h"
#include "io/file.h"
#include "io/source.h"
#include "model/fetch/fetch.h"

#define WINDOW (UINT64_C(128) << 20) /* bytes that are requested at a time */
#define AHEAD 64u /* files that are prepared and not ended at a time */
#define TELL_NS INT64_C(100000000)   /* between calls of progress() */
#define GRACE_NS INT64_C(5000000000) /* for reads that were cancelled */

/* A read of a block. It has its memory from its first use on. */
struct weir__fetch_read {
	struct weir_source_read read;
	struct weir__fetch *f;
	struct weir__fetch_read *next; /* in f->done */
	struct weir__fetch_file *file;
	uint32_t block;
	bool flying; /* under f->lock */
	void *buf;
	int err;
	char why[WEIR_SOURCE_WHY];
};

void weir__fetch_fail(struct weir__fetch *f, int err)
{
	pthread_mutex_lock(&f->lock);
	if (!f->err) {
		f->err = err;
		snprintf(f->why, sizeof(f->why), "%s", weir__error_text());
	}
	pthread_cond_broadcast(&f->cond);
	pthread_mutex_unlock(&f->lock);
}

bool weir__fetch_tell(struct weir__fetch *f)
{
	struct weir_fetch_progress progress;
	int64_t now = weir__now();

	if (!f->opts.progress || now - f->told < TELL_NS)
		return false;
	f->told = now;
	pthread_mutex_lock(&f->lock);
	progress = f->progress;
	pthread_mutex_unlock(&f->lock);
	return f->opts.progress(f->opts.arg, &progress) != 0;
}

/* Reads. */

/* A thread of a source. */
static void on_arrived(struct weir_source_read *read, uint64_t bytes)
{
	struct weir__fetch_read *r =
		weir__container(read, struct weir__fetch_read, read);

	(void)bytes;
	atomic_store_explicit(&r->f->moved, weir__now(), memory_order_relaxed);
}

/* A thread of a source, or the one that fetches, inside of read. */
static void on_done(struct weir_source_read *read, int err, const char *why)
{
	struct weir__fetch_read *r =
		weir__container(read, struct weir__fetch_read, read);
	struct weir__fetch *f = r->f;

	on_arrived(read, 0);
	pthread_mutex_lock(&f->lock);
	r->err = err < 0 && err >= -4095 ? err : err ? -EIO : 0;
	snprintf(r->why, sizeof(r->why), "%s", why ? why : "");
	r->next = f->done;
	f->done = r;
	pthread_cond_broadcast(&f->cond);
	pthread_mutex_unlock(&f->lock); /* the read may be free now */
}

static struct weir__fetch_read *free_slot(struct weir__fetch *f)
{
	for (unsigned i = 0; i < f->n_slots; i++) {
		struct weir__fetch_read *r = &f->slot[i];

		if (r->flying)
			continue;
		if (!r->buf)
			r->buf = weir__malloc_pages(WEIR__PARTIAL_BLOCK);
		return r->buf ? r : NULL;
	}
	return NULL;
}

/*
 * The block to request next; false: there is none now. Each file that is
 * prepared has two descriptors until it has ended.
 */
static bool next_block(struct weir__fetch *f, struct weir__fetch_file **ret,
		       uint32_t *ret_block)
{
	for (size_t i = f->first; i < f->list.n && i < f->first + AHEAD; i++) {
		struct weir__fetch_file *file = &f->list.file[i];
		int r = file->prepared ? 0 : weir__fetch_prepare(f, file);

		if (r < 0) {
			weir__fetch_fail(f, r);
			return false;
		}
		pthread_mutex_lock(&f->lock);
		while (file->cursor < file->n_blocks &&
		       file->block[file->cursor] != WEIR__FETCH_MISSING)
			file->cursor++;
		*ret_block = file->cursor;
		*ret = file;
		if (file->cursor < file->n_blocks)
			file->block[file->cursor] = WEIR__FETCH_FLYING;
		if (file->ended && i == f->first)
			f->first++;
		pthread_mutex_unlock(&f->lock);
		if (*ret_block < file->n_blocks)
			return true;
	}
	return false;
}

static void start_read(struct weir__fetch *f, struct weir__fetch_read *r,
		       struct weir__fetch_file *file, uint32_t block)
{
	const struct weir__object *object = file->file->object;
	uint64_t off = (uint64_t)block * WEIR__PARTIAL_BLOCK;

	r->f = f;
	r->file = file;
	r->block = block;
	r->flying = true;
	r->read = (struct weir_source_read){
		.size = sizeof(r->read),
		.off = off,
		.len = weir__partial_len(file->part, block),
		.buf = r->buf,
		.arrived = on_arrived,
		.done = on_done,
	};
	f->flying++;
	if (object) {
		object->ops.read(object->self, &r->read);
		return;
	}
	/* A file of this machine, such as one in a cache. */
	int err = weir__file_read(file->file, r->buf, r->read.len, off);

	on_done(&r->read, err, err < 0 ? weir__error_text() : NULL);
}

/* Sources join neighbours that are queued, so all that fit are started. */
static void start_reads(struct weir__fetch *f)
{
	struct weir__fetch_file *file;
	struct weir__fetch_read *r;
	uint32_t block;

	while ((r = free_slot(f)) && next_block(f, &file, &block))
		start_read(f, r, file, block);
	if (!r && !f->flying)
		weir__fetch_fail(f,
				 weir__fail(-ENOMEM, "no memory for a block"));
}

static int fail_read(const struct weir__fetch_read *r)
{
	const char *name = r->file->id.name;

	if (r->err == -ESTALE)
		return weir__fail(
			r->err,
			"%s: it changed while it was fetched: fetch again",
			name);
	if (!strncmp(r->why, name, strlen(name)))
		return weir__fail(weir__cause_errno(r->err), "%s", r->why);
	return weir__fail(weir__cause_errno(r->err), "%s: block %u: %s", name,
			  r->block,
			  *r->why ? r->why : weir__errno_describe(-r->err));
}

static int fail_write(const struct weir__fetch *f,
		      const struct weir__fetch_read *r, int err)
{
	return weir__fail(
		err,
		"%s/%s.part: %s; what has arrived is kept: %s, and fetch again",
		f->path, r->file->name, weir__errno_describe(-err),
		err == -ENOSPC || err == -EDQUOT ? "make room" : "mend it");
}

/* Write a block that has arrived. */
static void end_read(struct weir__fetch *f, struct weir__fetch_read *r)
{
	struct weir__fetch_file *file = r->file;
	int err = 0;

	if (r->err)
		err = fail_read(r);
	else if ((err = weir__partial_write(file->part, r->block, r->buf)) < 0)
		err = fail_write(f, r, err);
	if (err)
		weir__fetch_fail(f, err);
	pthread_mutex_lock(&f->lock);
	file->block[r->block] = err ? WEIR__FETCH_MISSING : WEIR__FETCH_THERE;
	if (!err) {
		f->progress.done += r->read.len;
		f->progress.received += r->read.len;
	}
	r->flying = false;
	f->flying--;
	pthread_cond_broadcast(&f->cond);
	pthread_mutex_unlock(&f->lock);
}

static void end_reads(struct weir__fetch *f)
{
	struct weir__fetch_read *r, *next;

	pthread_mutex_lock(&f->lock);
	r = f->done;
	f->done = NULL;
	pthread_mutex_unlock(&f->lock);
	for (; r; r = next) {
		next = r->next;
		end_read(f, r);
	}
}

static void cancel_reads(struct weir__fetch *f)
{
	for (unsigned i = 0; i < f->n_slots; i++) {
		struct weir__fetch_read *r = &f->slot[i];
		const struct weir__object *object =
			r->flying ? r->file->file->object : NULL;

		if (object && object->ops.cancel)
			object->ops.cancel(object->self, &r->read);
	}
}

/* The fetch. */

static void *check_files(void *arg)
{
	struct weir__fetch *f = arg;
	int r = 0;

	weir__enter("weir_fetch");
	for (size_t i = 0; r >= 0 && i < f->list.n; i++) {
		struct weir__fetch_file *file = &f->list.file[i];
		bool go;

		pthread_mutex_lock(&f->lock);
		while (!f->err && !file->prepared)
			pthread_cond_wait(&f->cond, &f->lock);
		go = !f->err;
		pthread_mutex_unlock(&f->lock);
		if (!go)
			break;
		if (!file->kept)
			r = weir__fetch_check(f, file);
	}
	if (r < 0)
		weir__fetch_fail(f, r);
	return NULL;
}

/* Sleep until something has changed, or for a tenth of a second. */
static void wait_change(struct weir__fetch *f)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += TELL_NS;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_mutex_lock(&f->lock);
	if (!f->done)
		pthread_cond_timedwait(&f->cond, &f->lock, &until);
	pthread_mutex_unlock(&f->lock);
}

/*
 * Called several times a second. If much more time has passed, a file was
 * compared, the program's function took long, or the process was stopped: what
 * arrived meanwhile has not been looked at, so the time starts again.
 */
static void check_late(struct weir__fetch *f)
{
	int64_t limit = f->weir->opts.read_timeout, now = weir__now(), since;
	int64_t pause = now - f->looked;
	int r;

	f->looked = now;
	if (!f->flying || (pause > 2 * TELL_NS && pause > limit / 2))
		atomic_store_explicit(&f->moved, now, memory_order_relaxed);
	since = now - atomic_load_explicit(&f->moved, memory_order_relaxed);
	if (limit < 0 || since < limit)
		return;
	r = weir__fail(
		-ETIME,
		"no byte has arrived for %lld s (weir_opts.read_timeout)",
		(long long)(since / 1000000000));
	weir__fetch_fail(f, r);
}

static bool is_over(struct weir__fetch *f)
{
	bool over;

	pthread_mutex_lock(&f->lock);
	over = f->err || f->progress.ended == f->list.n;
	pthread_mutex_unlock(&f->lock);
	return over;
}

static void transfer(struct weir__fetch *f)
{
	int64_t deadline;

	while (!is_over(f)) {
		end_reads(f);
		start_reads(f);
		if (weir__fetch_tell(f))
			weir__fetch_fail(f,
					 weir__fail(-ECANCELED, "cancelled"));
		check_late(f);
		if (!is_over(f))
			wait_change(f);
	}
	cancel_reads(f);
	deadline = weir__now() + GRACE_NS;
	for (end_reads(f); f->flying && weir__now() < deadline; end_reads(f))
		wait_change(f);
}

static unsigned slots(const struct weir__fetch *f)
{
	uint64_t window = WINDOW, all = 1;

	if (f->weir->opts.budget && f->weir->opts.budget / 4 < window)
		window = f->weir->opts.budget / 4;
	for (size_t i = 0; i < f->list.n; i++)
		all += f->list.file[i].id.bytes / WEIR__PARTIAL_BLOCK + 1;
	if (window / WEIR__PARTIAL_BLOCK < all)
		all = window / WEIR__PARTIAL_BLOCK;
	return all ? (unsigned)all : 1;
}

int weir__fetch_run(struct weir__fetch *f)
{
	char limits[WEIR__LIMITS_TEXT];
	pthread_t checker;
	int r;

	f->n_slots = slots(f);
	f->slot = weir__calloc(f->n_slots, sizeof(*f->slot));
	if (!f->slot)
		return weir__fail(-ENOMEM, "no memory for %u reads",
				  f->n_slots);
	f->looked = weir__now();
	atomic_store(&f->moved, f->looked);
	r = weir__thread_start(&checker, "weir-fetch", check_files, f);
	if (r < 0) {
		weir__thread_limits(limits);
		return weir__fail(r, "cannot start a thread: %s%s",
				  weir__errno_describe(-r), limits);
	}
	transfer(f);
	weir__thread_join(checker, INT64_MAX);
	/* A source that has not ended a read may still write to its memory. */
	for (unsigned i = 0; !f->flying && i < f->n_slots; i++)
		weir__free(f->slot[i].buf);
	if (!f->flying)
		weir__free(f->slot);
	return f->err ? weir__fail(f->err, "%s", f->why) : 0;
}
