/* SPDX-License-Identifier: MIT */
#include "io/caller_read.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/root.h"
#include "core/error.h"
#include "core/timeline.h"
#include "core/sys.h"
#include "core/util.h"
#include "io/engine.h"
#include "io/source.h"

/* Asking whether fewer bytes are cached costs more than it saves. */
#define FEW (64u << 10)

bool weir__nowait_root(const struct weir *weir)
{
	return weir->opts.io == WEIR_IO_AUTO &&
	       !weir__debug_has(weir, "io=sync") &&
	       !weir__debug_has(weir, "io=uring");
}

bool weir__nowait_file(const struct weir_file *file)
{
	return file->nowait && !file->network;
}

bool weir__nowait_allowed(const struct weir *weir, uint64_t bytes)
{
	return weir__unwaited < WEIR__NOWAIT_BYTES &&
	       bytes <= WEIR__NOWAIT_BYTES - weir__unwaited &&
	       weir__nowait_root(weir);
}

static bool is_cached(const struct weir_file *file, uint64_t off, uint64_t n)
{
	uint64_t from = weir__down(off, WEIR__PAGE);
	uint64_t bytes = weir__up(off + n, WEIR__PAGE) - from;
	int64_t pages = weir__sys_cached(file->fd, from, bytes);

	if (pages < 0) /* an old kernel, or a file that we may not write */
		return weir__sys_peek(file->fd, off) == 1;
	return (uint64_t)pages >= bytes / WEIR__PAGE;
}

bool weir__nowait_expected(struct weir_file *file, uint64_t off, uint64_t n)
{
	if (!weir__nowait_file(file))
		return false;
	return (n < FEW && atomic_load(&file->weir->part[WEIR__PART_IO])) ||
	       is_cached(file, off, n);
}

uint64_t weir__nowait_read(const struct weir_file *file, void *addr, uint64_t n,
			   uint64_t off)
{
	int64_t r = weir__sys_pread_nowait(file->fd, addr, n, off);

	weir__unwaited += n;
	return r < 0 ? 0 : (uint64_t)r;
}

struct blocking {
	struct weir__job job;
	struct weir__extent ext;
	void *bytes; /* the engine's while the job is in flight */
	_Atomic bool failed;
	int err;                     /* errno of the first chunk that failed */
	char words[WEIR_SOURCE_WHY]; /* the same */
	_Atomic uint32_t done;
};

static void blocking_chunk_done(struct weir__job *job, size_t ext, uint64_t lo,
				uint64_t hi,
				const struct weir__outcome *outcome,
				enum weir__chunk_way way)
{
	struct blocking *b = job->arg;

	(void)ext;
	(void)lo;
	(void)hi;
	(void)way;
	if (outcome->end == WEIR__DONE || atomic_exchange(&b->failed, true))
		return;
	b->err = weir__outcome_errno(outcome);
	snprintf(b->words, sizeof(b->words), "%s",
		 weir__outcome_describe(outcome));
}

/* The thread that waits may free the job before it is woken here. */
static void blocking_done(struct weir__job *job)
{
	struct blocking *b = job->arg;

	atomic_store(&b->done, 1);
	weir__futex_wake(&b->done, 1);
}

static int blocking_run(struct blocking *b)
{
	struct weir__engine *eng;
	int r = weir__engine_get(b->ext.file->weir, &eng);

	if (r == 0)
		r = weir__job_start(eng, &b->job);
	if (r < 0) {
		snprintf(b->words, sizeof(b->words), "%s", weir__error_text());
		return r;
	}
	while (!atomic_load(&b->done))
		weir__futex_wait(&b->done, 0, INT64_MAX);
	return b->err;
}

int weir__read_blocking(struct weir_file *file, void *to, size_t n,
			uint64_t off, char *words, size_t room)
{
	struct blocking *b = weir__calloc(1, sizeof(*b));
	int r = -ENOMEM;

	if (b)
		b->bytes = weir__malloc_pages(n);
	if (!b || !b->bytes) {
		snprintf(words, room, "no memory for a read of %zu bytes", n);
		weir__free(b);
		return r;
	}
	b->ext = (struct weir__extent){
		.file = file, .off = off, .len = n, .addr = b->bytes
	};
	b->job.ext = &b->ext;
	b->job.n_ext = 1;
	b->job.chunk_done = blocking_chunk_done;
	b->job.done = blocking_done;
	b->job.own_reads.whole = true;
	b->job.arg = b;
	r = blocking_run(b);
	snprintf(words, room, "%s", b->words);
	if (r == 0)
		memcpy(to, b->bytes, n);
	/* A read that was given up may still write, and use the extent. */
	if (atomic_load(&b->job.leaked))
		return r;
	weir__free(b->bytes);
	weir__free(b);
	return r;
}
