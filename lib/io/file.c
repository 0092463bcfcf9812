/* SPDX-License-Identifier: MIT */
#include "io/file.h"

#include <stdio.h>
#include <string.h>

#include "core/clock.h"
#include "core/error.h"
#include "core/outcome.h"
#include "races/races.h"
#include "core/refs.h"
#include "core/sys.h"
#include "core/util.h"
#include "io/lease.h"

#define DIRECT_FRONT (1u << 20) /* bytes; fewer are fast either way */
#define SECOND INT64_C(1000000000)
#define SETTLE_TRIES \
	3 /* a file that is written to all the time never settles */

void weir__file_identify(const struct stat *st, struct weir__file_id *id)
{
	id->dev = st->st_dev;
	id->ino = st->st_ino;
	id->bytes = (uint64_t)st->st_size;
	id->mtime = st->st_mtim;
	id->ctime = st->st_ctim;
}

static bool same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static int file_look(const struct weir_file *f, struct weir__file_id *ret_id)
{
	struct stat st;
	int r = weir__sys_fstat(f->fd, &st);

	if (r < 0)
		return weir__fail_sys(r, "%s", f->base);
	weir__file_identify(&st, ret_id);
	return 0;
}

struct weir_file *weir__file_ref(struct weir_file *file)
{
	weir__refs_add(&file->refs, 1);
	return file;
}

void weir__file_put(struct weir_file *file)
{
	if (!file || !weir__refs_drop(&file->refs))
		return;
	weir__lease_free(file);
	weir__sys_close(file->fd);
	weir__sys_close(file->direct_fd);
	/* Its inode may be another file's next. */
	if (weir__races_on(file->weir))
		weir__races_forget(file->weir,
				   weir__races_file(file->id.dev, file->id.ino),
				   0, UINT64_MAX);
	weir__root_put(file->weir);
	weir__free(file->path);
	weir__free(file);
}

static int fail_read(const struct weir_file *file, int err, size_t n,
		     uint64_t off)
{
	const struct weir__outcome outcome = weir__failed(err, NULL);

	return weir__fail(weir__cause_errno(weir__outcome_errno(&outcome)),
			  "%s: read of %zu bytes at %llu: %s", file->base, n,
			  (unsigned long long)off,
			  weir__outcome_words(&outcome));
}

int weir__file_read(struct weir_file *file, void *buf, size_t n, uint64_t off)
{
	size_t got = 0;

	while (got < n) {
		int64_t r = weir__sys_pread(file->fd, (char *)buf + got,
					    n - got, off + got);

		if (r < 0)
			return fail_read(file, (int)r, n - got, off + got);
		if (r == 0)
			return weir__fail(
				-ESTALE,
				"%s: ends at byte %llu, but had %llu bytes when it was opened",
				file->base, (unsigned long long)(off + got),
				(unsigned long long)file->id.bytes);
		got += (size_t)r;
	}
	return 0;
}

/*
 * Readahead begins with small requests, at which some disks have a tenth of
 * their rate: so all is read by one direct read. If that is refused or
 * interrupted, the rest is read buffered.
 */
int weir__file_read_front(struct weir_file *file, void *buf, size_t n)
{
	int64_t got = 0;

	if (n >= DIRECT_FRONT && atomic_load(&file->direct_ok) &&
	    file->off_align <= WEIR__PAGE && file->mem_align <= WEIR__PAGE &&
	    weir__file_resident(file, 0, n) < 500)
		got = weir__sys_pread(file->direct_fd, buf,
				      weir__up(n, WEIR__PAGE), 0);
	if (got < 0)
		got = 0;
	if ((uint64_t)got >= n)
		return 0;
	return weir__file_read(file, (char *)buf + got, n - (size_t)got,
			       (uint64_t)got);
}

/*
 * Nanoseconds until a write would change the file's ctime. 0: it would do so
 * now, or the ctime comes from another clock, and waiting would not help.
 */
static int64_t until_next_step(const struct weir__file_id *id)
{
	const struct timespec *c = &id->ctime;
	int64_t tick, now = weir__file_clock(&tick);
	/* Whole seconds: FAT counts in steps of two. */
	bool whole = !c->tv_nsec && !id->mtime.tv_nsec;
	int64_t step = whole ? 2 * SECOND : 1;
	int64_t left;

	if (c->tv_sec < now / SECOND - 10 || c->tv_sec > now / SECOND + 10)
		return 0;
	left = c->tv_sec * SECOND + c->tv_nsec + step - now;
	return left <= 0 || left > step + tick ? 0 : left + tick;
}

/*
 * Times of files advance in steps: ticks of the kernel's clock, or whole
 * seconds. A second write in the same step does not change them, so they
 * identify the content only once the step is over.
 */
int weir__file_settle(struct weir_file *file)
{
	int64_t wait;
	int r = 0;

	for (int i = 0; i < SETTLE_TRIES && r >= 0; i++) {
		wait = until_next_step(&file->id);
		if (!wait)
			break;
		weir__sleep(wait);
		r = file_look(file, &file->id);
	}
	return r;
}

int weir__file_unchanged(struct weir_file *file)
{
	struct weir__file_id now, *id = &file->id;
	int r = file_look(file, &now);

	if (r < 0)
		return r;
	if (now.dev != id->dev || now.ino != id->ino)
		return weir__fail(
			-ESTALE,
			"%s: was replaced by another file while it was read",
			file->base);
	if (now.bytes != id->bytes)
		return weir__fail(
			-ESTALE,
			"%s: changed while it was read: it had %llu bytes and has %llu",
			file->base, (unsigned long long)id->bytes,
			(unsigned long long)now.bytes);
	if (!same_time(&now.mtime, &id->mtime))
		return weir__fail(-ESTALE,
				  "%s: was written to while it was read",
				  file->base);
	/* A write whose mtime was restored looks like any change of ctime. */
	if (!same_time(&now.ctime, &id->ctime))
		return weir__fail(
			-ESTALE,
			"%s: its ctime changed while it was read: it was written to and its mtime restored, or renamed, linked, removed or given other attributes",
			file->base);
	return 0;
}

void weir_file_close(struct weir_file *file)
{
	if (file && weir__root_is_ours(file->weir))
		weir__file_put(file);
}

int weir_file_info(struct weir_file *file, struct weir_file_info *ret_info)
{
	struct weir_file_info info = {
		.path = file->path,
		.bytes = file->id.bytes,
		.direct = atomic_load(&file->direct_ok),
		.nowait = file->nowait,
		.mem_align = file->mem_align,
		.off_align = file->off_align,
		.network = file->network,
	};
	int r;

	WEIR__ENTER();
	r = weir__root_read(file->weir);
	if (r < 0)
		return r;
	if (!info.direct)
		snprintf(info.why, sizeof(info.why), "%s",
			 *file->why ? file->why : "a direct read was refused");
	return weir__info_out(ret_info, &info, sizeof(info));
}
