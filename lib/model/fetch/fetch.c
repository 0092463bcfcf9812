/* SPDX-License-Identifier: MIT */
/* weir_fetch: the folder, the list of files, and the report. */
#include "model/fetch/fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "core/root.h"
#include "io/file.h"
#include "io/source.h"

#define WAIT_NS INT64_C(100000000)

/* Open a folder that is made if it is not there. */
static int open_folder(int dir, const char *name, int flags)
{
	int r = weir__sys_open_at(dir, name, O_RDONLY | O_DIRECTORY | flags, 0);

	if (r != -ENOENT)
		return r;
	r = weir__sys_make_folder(dir, name, 0777);
	if (r < 0 && r != -EEXIST)
		return r;
	return weir__sys_open_at(dir, name, O_RDONLY | O_DIRECTORY | flags, 0);
}

static int open_folders(struct weir__fetch *f)
{
	f->dir = open_folder(AT_FDCWD, f->path, 0);
	if (f->dir < 0)
		return weir__fail_sys(f->dir, "%s", f->path);
	f->states = open_folder(f->dir, WEIR__FETCH_STATES, O_NOFOLLOW);
	if (f->states < 0)
		return weir__fail_sys(f->states, "%s/" WEIR__FETCH_STATES,
				      f->path);
	return 0;
}

/* One process at a time fetches into the folder. */
static int lock_folder(struct weir__fetch *f)
{
	int r;

	while ((r = weir__sys_lock(f->states, WAIT_NS)) == -EWOULDBLOCK)
		if (weir__fetch_tell(f))
			return weir__fail(-ECANCELED, "cancelled");
	return r < 0 ? weir__fail_sys(r, "%s/" WEIR__FETCH_STATES, f->path) : 0;
}

static void count(struct weir__fetch *f)
{
	f->progress.size = sizeof(f->progress);
	f->progress.files = (uint32_t)f->list.n;
	for (size_t i = 0; i < f->list.n; i++)
		f->progress.bytes += f->list.file[i].id.bytes;
}

static void report(const struct weir__fetch *f,
		   struct weir_fetch_report *ret_report)
{
	*ret_report = (struct weir_fetch_report){
		.size = sizeof(*ret_report),
		.bytes = f->progress.bytes,
		.received = f->progress.received,
		.files = f->progress.files,
		.sums = f->sums,
	};
	for (size_t i = 0; i < f->list.n; i++)
		ret_report->kept += f->list.file[i].kept;
}

static struct weir__fetch *fetch_new(struct weir *weir, const char *dir,
				     const struct weir_fetch_opts *opts)
{
	struct weir__fetch *f = weir__calloc(1, sizeof(*f));
	pthread_condattr_t attr;

	if (!f)
		return NULL;
	f->weir = weir__root_ref(weir);
	f->opts = *opts;
	f->path = dir;
	f->dir = f->states = -1;
	pthread_mutex_init(&f->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&f->cond, &attr);
	pthread_condattr_destroy(&attr);
	return f;
}

static void fetch_free(struct weir__fetch *f)
{
	weir__sys_close(f->states);
	weir__sys_close(f->dir);
	/* A source that still has a read uses the object, and ends it later. */
	if (f->flying) {
		weir__log(
			f->weir,
			"weir_fetch: %u reads did not end: their memory is leaked",
			f->flying);
		return;
	}
	weir__fetch_list_free(&f->list);
	pthread_cond_destroy(&f->cond);
	pthread_mutex_destroy(&f->lock);
	weir__root_put(f->weir);
	weir__free(f);
}

static int fetch(struct weir *weir, const char *url, const char *dir,
		 const struct weir_fetch_opts *opts,
		 struct weir_fetch_report *ret_report)
{
	struct weir__fetch *f = fetch_new(weir, dir, opts);
	int r;

	if (!f)
		return weir__fail(-ENOMEM, "no memory for a fetch");
	r = weir__fetch_list(weir, url, &f->list);
	if (r >= 0)
		r = open_folders(f);
	count(f);
	if (r >= 0)
		r = lock_folder(f);
	if (r >= 0)
		r = weir__fetch_run(f);
	if (r >= 0)
		report(f, ret_report);
	fetch_free(f);
	return r;
}

int weir_fetch(struct weir *weir, const char *url, const char *dir,
	       const struct weir_fetch_opts *opts,
	       struct weir_fetch_report *ret_report)
{
	struct weir_fetch_report rep;
	struct weir_fetch_opts o;
	char shown[512];
	int r;

	WEIR__ENTER();
	r = weir__opts_in(&o, sizeof(o), opts);
	if (r >= 0)
		r = weir__root_enter(weir);
	if (r < 0)
		return r;
	if (o.flags & ~WEIR_FETCH_REPLACE || o.reserved)
		return weir__fail(-EINVAL, "unknown flags %#x", o.flags);
	if (!weir__is_url(url))
		return weir__fail(-EINVAL,
				  "%s: is no URL: what is on this machine is "
				  "copied by cp(1)",
				  weir__quote(url, strlen(url)));
	if (!strncasecmp(url, "file://", 7))
		return weir__fail(-EINVAL, "%s: is on this machine",
				  weir__url_shown(url, shown, sizeof(shown)));
	r = fetch(weir, url, dir, &o, &rep);
	if (r < 0 || !ret_report)
		return r;
	return weir__info_out(ret_report, &rep, sizeof(rep));
}
