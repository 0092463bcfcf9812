/* SPDX-License-Identifier: MIT */
/*
 * Open files: opening them by a path or a descriptor of the program, reading
 * headers, and whether a file has changed since it was opened.
 */
#include "io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "cache/partial.h"
#include "core/clock.h"
#include "core/error.h"
#include "io/outcome.h"
#include "races/races.h"
#include "core/refs.h"
#include "core/sys.h"
#include "core/util.h"
#include "io/lease.h"
#include "io/source.h"

#define DEFAULT_ALIGN 4096u     /* if the file system reports none */
#define DIRECT_FRONT (1u << 20) /* bytes; fewer are fast either way */
#define SECOND INT64_C(1000000000)
/* A file that is written to all the time never settles. */
#define SETTLE_TRIES 3

static _Atomic uint32_t next_serial = 1;

static void file_identify(const struct stat *st, struct weir__file_id *id)
{
	id->dev = st->st_dev;
	id->ino = st->st_ino;
	id->bytes = (uint64_t)st->st_size;
	id->links = st->st_nlink;
	id->mtime = st->st_mtim;
	id->ctime = st->st_ctim;
}

/* Reads of other kinds of files might block or never end. */
static int check_kind(const char *path, const struct stat *st)
{
	if (S_ISREG(st->st_mode))
		return 0;
	if (S_ISDIR(st->st_mode))
		return weir__fail(-EISDIR, "%s: is a directory", path);
	return weir__fail(-EINVAL, "%s: not a regular file but a %s", path,
			  S_ISFIFO(st->st_mode)   ? "pipe"
			  : S_ISSOCK(st->st_mode) ? "socket"
						  : "device");
}

static int fail_open(int r, const char *path)
{
	if (r == -EMFILE)
		return weir__fail_sys(
			r, "%s: RLIMIT_NOFILE is %llu (ulimit -n)", path,
			(unsigned long long)weir__sys_limit(RLIMIT_NOFILE));
	if (r == -ENXIO)
		return weir__fail(
			-EINVAL,
			"%s: not a regular file but a socket, or a device that does not exist",
			path);
	return weir__fail_sys(r, "%s", path);
}

/*
 * Another process has a lease on the file, so open(2) with O_NONBLOCK fails.
 * Only regular files are leased; the path may by now lead to another file.
 */
static int open_leased(const char *path, int how)
{
	char proc[40];
	struct stat st;
	int at = weir__sys_open(path, O_PATH, 0), fd = -EAGAIN;

	if (at < 0)
		return at;
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", at);
	if (weir__sys_fstat(at, &st) == 0 && S_ISREG(st.st_mode))
		fd = weir__sys_open(proc, how & ~(O_NONBLOCK | O_CREAT), 0);
	weir__sys_close(at);
	return fd == -ENOENT ? -EAGAIN : fd; /* no /proc */
}

/*
 * Open with O_NONBLOCK, since other kinds of files may block, then clear it:
 * with it the ring's reads would fail with -EAGAIN rather than wait.
 */
static int open_buffered(const char *path, uint32_t flags, unsigned mode,
			 struct stat *st)
{
	int how = O_NONBLOCK | O_NOCTTY;
	int fd, r;

	how |= flags & WEIR_FILE_WRITE ? O_RDWR : O_RDONLY;
	if (flags & WEIR_FILE_CREATE)
		how |= O_CREAT;
	fd = weir__sys_open(path, how, mode);
	if (fd == -EAGAIN)
		fd = open_leased(path, how);
	if (fd < 0)
		return fail_open(fd, path);
	r = weir__sys_fstat(fd, st);
	if (r < 0) {
		r = weir__fail_sys(r, "%s", path);
		goto out;
	}
	r = check_kind(path, st);
	if (r < 0)
		goto out;
	r = weir__sys_set_flags(fd, how & ~(O_NONBLOCK | O_CREAT | O_NOCTTY));
	if (r < 0) {
		r = weir__fail_sys(r, "%s", path);
		goto out;
	}
	return fd;
out:
	weir__sys_close(fd);
	return r;
}

static bool is_inode(const struct weir_file *f, const struct stat *st)
{
	return st->st_dev == f->id.dev && st->st_ino == f->id.ino;
}

/* Open a second descriptor of the very same file, with O_DIRECT. */
static int reopen_direct(struct weir_file *f)
{
	int how = O_DIRECT | (f->writable ? O_RDWR : O_RDONLY);
	char proc[40];
	struct stat st;
	int fd;

	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", f->fd);
	fd = weir__sys_open(proc, how, 0);
	if (fd != -ENOENT || !f->has_path)
		return fd;
	fd = weir__sys_open(f->path, how | O_NONBLOCK, 0); /* no /proc */
	if (fd < 0)
		return fd;
	if (weir__sys_fstat(fd, &st) == 0 && is_inode(f, &st) &&
	    !weir__sys_set_flags(fd, how))
		return fd;
	weir__sys_close(fd);
	return -ESTALE;
}

static void open_direct(struct weir_file *f, const struct weir__fs *fs)
{
	int fd;

	f->mem_align = f->off_align = DEFAULT_ALIGN;
	if (fs->in_memory) {
		snprintf(f->why, sizeof(f->why),
			 "the file system keeps its files in memory");
		return;
	}
	fd = reopen_direct(f);
	if (fd < 0) {
		snprintf(f->why, sizeof(f->why), "open with O_DIRECT: %s%s",
			 weir__errno_name(-fd),
			 fd == -ENOENT ? ": is /proc mounted?" : "");
		return;
	}
	f->direct_fd = fd;
	if (weir__sys_dio_align(fd, &f->mem_align, &f->off_align) < 0)
		f->mem_align = f->off_align = DEFAULT_ALIGN;
	if (!f->off_align) {
		snprintf(f->why, sizeof(f->why),
			 "statx reports that direct I/O is not possible");
		weir__sys_close(fd);
		f->direct_fd = -1;
		f->mem_align = f->off_align = DEFAULT_ALIGN;
		return;
	}
	atomic_init(&f->direct_ok, true);
}

/*
 * Where the file is. f->path would not do: it may be relative, and the program
 * may change its folder, or be only a name. The file of a descriptor that
 * another process has sent may be in a mount that this one does not have.
 */
static int file_locate(struct weir_file *f)
{
	char proc[40], where[PATH_MAX];
	struct stat st;

	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", f->fd);
	if (weir__sys_readlink(proc, where, sizeof(where)) < 0 ||
	    weir__sys_stat(where, &st) < 0 || !is_inode(f, &st))
		return 0;
	f->where = weir__strdup(where);
	return f->where ? 0
			: weir__fail(-ENOMEM, "%s: no memory for its path",
				     f->path);
}

/*
 * The cache of Hugging Face's clients has a large file by the name of the
 * SHA-256 that the hub published: models--OWNER--NAME/blobs/SHA256.
 */
static void note_published(struct weir_file *f)
{
	size_t n = f->where ? strlen(f->where) : 0;
	const char *sum, *folder;

	if (n < 64 + 7)
		return;
	sum = f->where + n - 64;
	if (strncmp(sum - 7, "/blobs/", 7) != 0 ||
	    strspn(sum, "0123456789abcdef") != 64)
		return;
	folder = sum - 7;
	while (folder > f->where && folder[-1] != '/')
		folder--;
	if (!strncmp(folder, "models--", 8))
		memcpy(f->sha256, sum, 65);
}

/* weir_fetch() has put the file there: .weir/NAME says what it is. */
static void note_fetched(struct weir_file *f)
{
	const char *name = f->where ? strrchr(f->where, '/') : NULL;
	char state[PATH_MAX];

	if (name && snprintf(state, sizeof(state), "%.*s/.weir%s",
			     (int)(name - f->where), f->where,
			     name) < (int)sizeof(state))
		weir__partial_sum(state, f->id.bytes, f->sha256);
}

static int file_fill(struct weir_file *f, uint32_t flags)
{
	struct weir__fs fs;
	int r = file_locate(f);

	if (r < 0)
		return r;
	if (!*f->sha256)
		note_published(f);
	if (!*f->sha256)
		note_fetched(f);
	weir__sys_fs(f->fd, &fs);
	f->nowait = weir__sys_nowait(f->fd);
	f->ours = weir__sys_may_write(f->fd);
	f->network = fs.network;
	f->fuse = fs.fuse;
	if (flags & WEIR_FILE_NODIRECT) {
		f->mem_align = f->off_align = DEFAULT_ALIGN;
		snprintf(f->why, sizeof(f->why),
			 "WEIR_FILE_NODIRECT was given");
	} else {
		open_direct(f, &fs);
	}
	return 0;
}

/* The last step of opening @f, which has its descriptor. */
static int file_finish(struct weir_file *f, const struct stat *st,
		       uint32_t flags, struct weir_file **ret_file)
{
	int r;

	file_identify(st, &f->id);
	r = file_fill(f, flags);
	if (r < 0)
		weir__file_put(f);
	else
		*ret_file = f;
	return r;
}

/* A file object without descriptors. */
static int file_new(struct weir *weir, const char *path,
		    struct weir_file **ret_file)
{
	struct weir_file *f = weir__calloc(1, sizeof(*f));
	const char *slash;

	if (!f)
		return weir__fail(-ENOMEM,
				  "%s: no memory for a file of %zu bytes", path,
				  sizeof(*f));
	f->path = weir__strdup(path);
	if (!f->path) {
		weir__free(f);
		return weir__fail(-ENOMEM, "%s: no memory for its path", path);
	}
	slash = strrchr(f->path, '/');
	f->base = slash && slash[1] ? slash + 1 : f->path;
	f->fd = f->direct_fd = -1;
	f->weir = weir__root_ref(weir);
	atomic_init(&f->refs, 1);
	atomic_init(&f->serial, atomic_fetch_add(&next_serial, 1));
	*ret_file = f;
	return 0;
}

/* What a source knows of @f, which is put if there is no memory. */
static int file_describe(struct weir_file *f,
			 const struct weir_source_info *info, const char *url)
{
	memcpy(f->sha256, info->sha256, sizeof(f->sha256));
	memcpy(f->identity, info->identity, sizeof(f->identity));
	f->url = url ? weir__strdup(url) : NULL;
	if (f->url || !url)
		return 0;
	weir__file_put(f);
	return weir__fail(-ENOMEM, "%s: no memory for its URL", info->name);
}

int weir__file_of_object(struct weir *weir, const struct weir_source *source,
			 void *self, const struct weir_source_info *info,
			 const char *url, struct weir_file **ret_file)
{
	struct weir_file *f;
	int r = file_new(weir, info->name, &f);

	if (r < 0)
		return r;
	r = file_describe(f, info, url);
	if (r < 0)
		return r;
	f->object = weir__object_new(source, self, info);
	if (!f->object) {
		weir__file_put(f);
		return weir__fail(-ENOMEM, "%s: no memory for an object",
				  info->name);
	}
	f->network = true;
	f->mem_align = f->off_align = 1;
	f->id = (struct weir__file_id){ .dev = UINT64_MAX,
					.ino = f->serial,
					.bytes = info->bytes };
	atomic_init(&f->direct_ok, true);
	*ret_file = f;
	return 0;
}

int weir__file_open_copy(struct weir *weir, const char *path,
			 const struct weir_source_info *info, const char *url,
			 struct weir_file **ret_file)
{
	struct weir_file *f;
	struct stat st;
	int r = file_new(weir, info->name, &f);

	if (r >= 0)
		r = file_describe(f, info, url);
	if (r < 0)
		return r;
	r = f->fd = open_buffered(path, 0, 0, &st);
	if (r >= 0 && (uint64_t)st.st_size != info->bytes)
		r = weir__fail(-ESTALE, "%s: %s has %lld bytes, not %llu",
			       info->name, path, (long long)st.st_size,
			       (unsigned long long)info->bytes);
	if (r < 0) {
		weir__file_put(f);
		return r;
	}
	return file_finish(f, &st, 0, ret_file);
}

int weir__file_open(struct weir *weir, const char *path, uint32_t flags,
		    unsigned mode, struct weir_file **ret_file)
{
	struct weir_file *f;
	struct stat st;
	int r;

	if (weir__is_url(path)) {
		if (flags & WEIR_FILE_WRITE)
			return weir__refuse_url(path, "is written");
		return weir__object_open(weir, path, ret_file);
	}
	r = file_new(weir, path, &f);
	if (r < 0)
		return r;
	r = open_buffered(path, flags, mode, &st);
	if (r < 0) {
		weir__file_put(f);
		return r;
	}
	f->fd = r;
	f->has_path = true;
	f->writable = flags & WEIR_FILE_WRITE;
	return file_finish(f, &st, flags, ret_file);
}

int weir__file_take(struct weir *weir, int fd, const char *path,
		    struct weir_file **ret_file)
{
	struct weir_file *f;
	struct stat st;
	int r = file_new(weir, path, &f);

	if (r < 0) {
		weir__sys_close(fd);
		return r;
	}
	f->fd = fd;
	r = weir__sys_fstat(fd, &st);
	if (r < 0) {
		weir__file_put(f);
		return weir__fail_sys(r, "%s", path);
	}
	f->has_path = true;
	f->writable = true;
	return file_finish(f, &st, 0, ret_file);
}

/* Check that @fd can be read. Returns its flags. */
static int check_descriptor(int fd, const char *name, struct stat *st)
{
	int flags = weir__sys_get_flags(fd), r;

	if (flags < 0)
		return weir__fail_sys(flags, "%s: descriptor %d", name, fd);
	if (flags & O_PATH)
		return weir__fail(
			-EBADF,
			"%s: descriptor %d was opened with O_PATH, which does not allow reads",
			name, fd);
	if ((flags & O_ACCMODE) == O_WRONLY)
		return weir__fail(
			-EBADF, "%s: descriptor %d was opened for writing only",
			name, fd);
	r = weir__sys_fstat(fd, st);
	if (r < 0)
		return weir__fail_sys(r, "%s: descriptor %d", name, fd);
	r = check_kind(name, st);
	return r < 0 ? r : flags;
}

/* Open the file of @fd again. -errno without a sentence. */
static int reopen(int fd, const struct stat *st)
{
	struct stat again;
	char proc[40];
	int own;

	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	own = weir__sys_open(proc, O_RDONLY, 0);
	if (own < 0)
		return own;
	if (weir__sys_fstat(own, &again) == 0 && again.st_ino == st->st_ino &&
	    again.st_dev == st->st_dev)
		return own;
	weir__sys_close(own);
	return -ENOENT; /* what is mounted there is not /proc */
}

/*
 * Open a descriptor of the library for the file of @fd. If possible it has an
 * open file description of its own: a duplicate shares that of the program, so
 * it has the flags that the program sets at any time, and changing them would
 * change them for the program. With O_DIRECT or O_NONBLOCK the buffered reads
 * would fail.
 */
static int open_descriptor(int fd, const char *name, struct stat *st)
{
	const int unfit = O_DIRECT | O_NONBLOCK;
	int flags = check_descriptor(fd, name, st), own, why;

	if (flags < 0)
		return flags;
	why = own = reopen(fd, st);
	if (own >= 0)
		return own;
	if (why != -EMFILE && flags & unfit)
		return weir__fail(
			-EINVAL,
			"%s: descriptor %d has the flag %s, and the file cannot be opened again without it: /proc/self/fd/%d: %s",
			name, fd, flags & O_DIRECT ? "O_DIRECT" : "O_NONBLOCK",
			fd, weir__errno_describe(-why));
	own = weir__sys_dup(fd);
	return own < 0 ? fail_open(own, name) : own;
}

int weir__file_open_fd(struct weir *weir, int fd, const char *name,
		       struct weir_file **ret_file)
{
	char number[32];
	struct weir_file *f;
	struct stat st;
	int r;

	snprintf(number, sizeof(number), "descriptor %d", fd);
	r = file_new(weir, name ? name : number, &f);
	if (r < 0)
		return r;
	r = open_descriptor(fd, f->base, &st);
	if (r < 0) {
		weir__file_put(f);
		return r;
	}
	f->fd = r;
	return file_finish(f, &st, 0, ret_file);
}

int weir_file_open(struct weir *weir, const char *path,
		   const struct weir_file_opts *opts,
		   struct weir_file **ret_file)
{
	const uint32_t known = WEIR_FILE_WRITE | WEIR_FILE_CREATE |
			       WEIR_FILE_NODIRECT;
	struct weir_file_opts o;
	int r;

	WEIR__ENTER();
	r = weir__opts_in(&o, sizeof(o), opts);
	if (r < 0)
		return r;
	if (o.flags & ~known)
		return weir__fail(-EINVAL, "%s: unknown flags %#x", path,
				  o.flags & ~known);
	if ((o.flags & WEIR_FILE_CREATE) && !(o.flags & WEIR_FILE_WRITE))
		return weir__fail(-EINVAL,
				  "%s: WEIR_FILE_CREATE needs WEIR_FILE_WRITE",
				  path);
	r = weir__root_enter(weir);
	if (r < 0)
		return r;
	return weir__file_open(weir, path, o.flags, o.mode ? o.mode : 0666,
			       ret_file);
}

static bool same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static int file_look(const struct weir_file *f, struct weir__file_id *ret_id)
{
	struct stat st;
	int r;

	if (f->object) {
		*ret_id = f->id;
		return 0;
	}
	r = weir__sys_fstat(f->fd, &st);
	if (r < 0)
		return weir__fail_sys(r, "%s", f->base);
	file_identify(&st, ret_id);
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
	weir__object_free(file->object);
	weir__sys_close(file->fd);
	weir__sys_close(file->direct_fd);
	/* Another file may get its inode next. */
	if (weir__races_on(file->weir))
		weir__races_forget(file->weir,
				   weir__races_file(file->id.dev, file->id.ino),
				   0, UINT64_MAX);
	weir__root_put(file->weir);
	weir__free(file->path);
	weir__free(file->where);
	weir__free(file->url);
	weir__free(file);
}

static int fail_read(const struct weir_file *file, int err, size_t n,
		     uint64_t off)
{
	const struct weir__outcome outcome = weir__failed(err, NULL);

	return weir__fail(weir__cause_errno(weir__outcome_errno(&outcome)),
			  "%s: read of %zu bytes at %llu: %s", file->base, n,
			  (unsigned long long)off,
			  weir__outcome_describe(&outcome));
}

int weir__file_read(struct weir_file *file, void *buf, size_t n, uint64_t off)
{
	size_t got = 0;

	if (file->object)
		return weir__object_read(file, buf, n, off);
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
 * Readahead begins with small requests, for which some disks have a tenth of
 * their rate, so one direct read gets all bytes. If that is refused or
 * interrupted, the rest is read buffered.
 */
int weir__file_read_front(struct weir_file *file, void *buf, size_t n)
{
	int64_t got = 0;

	if (n >= DIRECT_FRONT && !file->object &&
	    atomic_load(&file->direct_ok) && file->off_align <= WEIR__PAGE &&
	    file->mem_align <= WEIR__PAGE &&
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
 * Nanoseconds until a write changes the file's ctime. 0: a write changes it
 * now, or the ctime comes from another clock, and waiting would not help.
 */
static int64_t until_next_step(const struct weir__file_id *id)
{
	const struct timespec *c = &id->ctime;
	int64_t tick, now = weir__file_clock(&tick);
	/* The times are whole seconds: FAT counts in steps of two. */
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

	if (file->object)
		return 0;
	for (int i = 0; i < SETTLE_TRIES && r >= 0; i++) {
		wait = until_next_step(&file->id);
		if (!wait)
			break;
		weir__sleep(wait);
		r = file_look(file, &file->id);
	}
	return r;
}

/*
 * The file was linked, unlinked or renamed, which changes the ctime. A write
 * that was hidden by restoring the mtime is not noticed then.
 */
static bool names_changed(const struct weir_file *file,
			  const struct weir__file_id *now)
{
	struct stat st;
	int r;

	if (now->links != file->id.links)
		return true;
	if (!file->where)
		return false;
	r = weir__sys_stat(file->where, &st);
	return r < 0 ? r == -ENOENT || r == -ENOTDIR : !is_inode(file, &st);
}

int weir__file_unchanged(struct weir_file *file)
{
	struct weir__file_id now, *id = &file->id;
	int r;

	if (file->object)
		return weir__object_unchanged(file);
	r = file_look(file, &now);
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
	/* A write whose mtime was restored looks like a change of the mode. */
	if (!same_time(&now.ctime, &id->ctime) && !names_changed(file, &now))
		return weir__fail(
			-ESTALE,
			"%s: its ctime changed while it was read, its name did not: it was written to and its mtime restored, or given another mode or owner",
			file->base);
	return 0;
}

void weir_file_close(struct weir_file *file)
{
	if (file && weir__root_is_ours(file->weir))
		weir__file_put(file);
}

int weir_file_read(struct weir_file *file, uint64_t offset, void *to,
		   size_t bytes)
{
	int r;

	WEIR__ENTER();
	r = weir__root_enter(file->weir);
	if (r < 0)
		return r;
	if (offset > file->id.bytes || bytes > file->id.bytes - offset)
		return weir__fail(
			-EINVAL,
			"%s: %zu bytes at %llu were to be read, but it has %llu",
			file->base, bytes, (unsigned long long)offset,
			(unsigned long long)file->id.bytes);
	return weir__file_read(file, to, bytes, offset);
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
		.source = file->object ? file->object->ops.name : "",
		.identity = file->object ? file->object->info.identity : "",
		.sha256 = file->sha256,
	};
	struct weir__file_id now;
	int r;

	WEIR__ENTER();
	r = weir__root_read(file->weir);
	if (r >= 0)
		r = file_look(file, &now);
	if (r < 0)
		return r;
	info.changed = now.bytes != file->id.bytes ||
		       !same_time(&now.mtime, &file->id.mtime);
	if (!info.direct)
		snprintf(info.why, sizeof(info.why), "%s",
			 *file->why ? file->why : "a direct read was refused");
	return weir__info_out(ret_info, &info, sizeof(info));
}
