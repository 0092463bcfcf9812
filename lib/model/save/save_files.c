/* SPDX-License-Identifier: MIT */
/*
 * The files of a save on the disk. Each is written under a temporary name
 *
 *	.STEM.weir-PID-NUMBER
 *
 * in the folder of its final one, and locked while its process lives. Renaming
 * is the last step: for several files, the name by which the model is opened
 * (the index; the first file of a split model) is given last. The file names
 * before it are new, so the earlier model stays whole until then, and what is
 * left of a save that was killed can be recognised.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/error.h"
#include "core/sys.h"
#include "model/format/bytes.h"
#include "model/save/save.h"

typedef unsigned long long ull; /* an argument of printf */

/*
 * How long a save waits while another one gives names to its files in the same
 * folder. Then it goes on: the other process is stopped.
 */
#define LOCK_NS (30 * INT64_C(1000000000))

/* Another save that looks for files that are left over has the lock. */
#define TEMP_LOCK_NS 100000000

#define PREFIX_ROOM 216 /* bytes of a temporary name before its number */

static _Atomic unsigned next_number = 1;

/* The beginning of the temporary names of all saves to this path. */
static void temp_prefix(const struct weir_save *s, char *text, size_t room)
{
	snprintf(text, room, ".%.200s.weir-", weir__save_name(s));
}

static int fail_memory(const struct weir_save *s)
{
	return weir__fail(-ENOMEM, "%s: no memory for the files of a save",
			  s->path);
}

/* A file of an earlier save that nobody writes any more. */
static bool is_left_over(const struct weir_save *s, const char *name)
{
	const int how = O_RDWR | O_NOFOLLOW | O_NONBLOCK;
	int fd = weir__sys_open_at(s->dir, name, how, 0);
	bool unlocked = fd >= 0 && weir__sys_lock(fd, 0) == 0;

	weir__sys_close(fd);
	return unlocked;
}

/* Names that note_left_over() examines. */
static int may_be_left(const struct dirent *entry)
{
	return entry->d_name[0] == '.' ? strstr(entry->d_name, ".weir-") != NULL
				       : strstr(entry->d_name, "-of-") != NULL;
}

/* A list of names in the note: as many as there is room for. */
struct note_list {
	const char *head; /* before the first name */
	unsigned n, omitted;
};

static void note_name(struct weir_save *s, struct note_list *list,
		      const char *name)
{
	const size_t has = strlen(s->note);
	const char *head = list->n ? ", " : list->head;
	/* Room is left for "; ", ", and N more" and a NUL of both lists. */
	const size_t rest = 2 + 2 * sizeof(", and 4294967295 more");

	s->leftovers++;
	if (list->omitted ||
	    has + strlen(head) + strlen(name) + rest > sizeof(s->note)) {
		list->omitted++;
		return;
	}
	weir__append(s->note, sizeof(s->note), "%s%s%s",
		     has && !list->n ? "; " : "", head, name);
	list->n++;
}

static void note_end(struct weir_save *s, const struct note_list *list)
{
	if (list->omitted)
		weir__append(s->note, sizeof(s->note), "%s%u more",
			     list->n ? ", and " : list->head, list->omitted);
}

/*
 * Name what saves to this path have left that did not end: temporary files, and
 * shards that got their names before an index did. They are left for the user
 * to remove.
 */
static int note_left_over(struct weir_save *s)
{
	struct note_list temps = {
		.head = "left over from saves that did not end, may be removed: "
	};
	struct note_list shards = { .head = "in no index: " };
	int known = weir__save_earlier_find(s);
	struct dirent **list;
	char prefix[PREFIX_ROOM];
	int n;

	s->leftovers = 0;
	*s->note = '\0';
	if (known < 0)
		return known;
	temp_prefix(s, prefix, sizeof(prefix));
	n = weir__sys_scandir(s->folder, may_be_left, &list);
	for (int i = 0; i < n; i++) {
		const char *name = list[i]->d_name;

		if (!strncmp(name, prefix, strlen(prefix)) &&
		    is_left_over(s, name))
			note_name(s, &temps, name);
	}
	note_end(s, &temps);
	for (int i = 0; i < n; i++) {
		const char *name = list[i]->d_name;

		if (known && s->index_name && weir__save_is_shard(s, name) &&
		    !weir__save_earlier_has(s, name))
			note_name(s, &shards, name);
		weir__free(list[i]);
	}
	note_end(s, &shards);
	if (n >= 0)
		weir__free(list);
	return 0;
}

static int fail_space(const struct weir_save *s,
		      const struct weir__save_file *f, int r)
{
	uint64_t free = 0;

	weir__sys_free(s->folder, &free);
	return weir__fail(
		r, "%s: %s: the save needs %llu bytes, %llu are free%s%s",
		f->name, weir__errno_describe(-r), (ull)s->total, (ull)free,
		*s->note ? "; " : "", s->note);
}

/* Give the file the permissions of the one that it will replace. */
static void copy_mode(const struct weir_save *s,
		      const struct weir__save_file *f, int fd)
{
	struct stat st;

	if (weir__sys_stat_at(s->dir, f->name, true, &st) == 0 &&
	    S_ISREG(st.st_mode))
		(void)weir__sys_chmod(fd, st.st_mode & 0777);
}

/*
 * Make a file of a temporary name, locked. Another process may have had the
 * same PID. Returns a descriptor.
 */
static int make_temp(struct weir_save *s, struct weir__save_file *f)
{
	const int how = O_RDWR | O_CREAT | O_EXCL;
	char prefix[PREFIX_ROOM], name[NAME_MAX + 1];
	int fd;

	temp_prefix(s, prefix, sizeof(prefix));
	do {
		snprintf(name, sizeof(name), "%s%ld-%u", prefix, (long)getpid(),
			 atomic_fetch_add(&next_number, 1));
		fd = weir__sys_open_at(s->dir, name, how, 0666);
	} while (fd == -EEXIST);
	if (fd < 0)
		return weir__fail_sys(fd,
				      "%s: making the temporary file %s in %s",
				      f->name, name, s->folder);
	f->temp = weir__strdup(name);
	if (!f->temp) {
		(void)weir__sys_unlink(s->dir, name);
		weir__sys_close(fd);
		return fail_memory(s);
	}
	/* Where there are no locks, what is left over cannot be recognised. */
	(void)weir__sys_lock(fd, TEMP_LOCK_NS);
	copy_mode(s, f, fd);
	return fd;
}

/* The file with its blocks on the disk. */
static int make_file(struct weir_save *s, struct weir__save_file *f)
{
	const size_t room = strlen(s->folder) + NAME_MAX + 2;
	char *path = weir__calloc(room, 1);
	int r = path ? make_temp(s, f) : fail_memory(s);

	if (r >= 0) {
		snprintf(path, room, "%s/%s", s->folder, f->temp);
		r = weir__file_take(s->weir, r, path, &f->file);
	}
	weir__free(path);
	if (r < 0)
		return r;
	r = weir__sys_reserve(f->file->fd, f->bytes);
	if (r == -ENOSPC || r == -EDQUOT || r == -EFBIG)
		return fail_space(s, f, r);
	/* A file system without the call finds out while it writes. */
	return 0;
}

/* What exists already and may not be replaced, or not by this save. */
static int check_name(const struct weir_save *s, const char *name)
{
	struct stat st, target;
	int r = weir__sys_stat_at(s->dir, name, false, &st);

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return weir__fail_sys(r, "%s/%s", s->folder, name);
	if (S_ISDIR(st.st_mode))
		return weir__fail(-EISDIR, "%s/%s: is a directory", s->folder,
				  name);
	/* A symbolic link is replaced, what it leads to is not. */
	if (!S_ISREG(st.st_mode) &&
	    (!S_ISLNK(st.st_mode) ||
	     (!weir__sys_stat_at(s->dir, name, true, &target) &&
	      !S_ISREG(target.st_mode))))
		return weir__fail(
			-EINVAL,
			"%s/%s: exists and is not a regular file, so it is not replaced",
			s->folder, name);
	if (s->flags & WEIR_SAVE_NEW)
		return weir__fail(-EEXIST, "%s/%s: exists already", s->folder,
				  name);
	if (s->n_files > 1 && !s->index_name)
		return weir__fail(
			-EEXIST,
			"%s/%s: exists already: files of a split model cannot be replaced all at once, choose another name or remove them first",
			s->folder, name);
	return 0;
}

static int check_names(struct weir_save *s)
{
	int r = 0;

	if (weir__save_has_index(s) ||
	    (s->index_name && s->flags & WEIR_SAVE_NEW))
		r = check_name(s, s->index_name);
	for (uint32_t i = 0; r >= 0 && i < s->n_files; i++)
		r = check_name(s, s->file[i].name);
	/* The single file is removed when the index has got its name. */
	if (r >= 0 && (s->flags & WEIR_SAVE_NEW || weir__save_has_index(s)))
		r = check_name(s, weir__save_name(s));
	return r;
}

int weir__save_files_make(struct weir_save *s)
{
	int r = weir__sys_open(s->folder, O_RDONLY | O_DIRECTORY, 0);

	if (r < 0)
		return weir__fail_sys(r, "%s: opening its folder", s->path);
	s->dir = r;
	r = weir__save_choose_names(s);
	if (r >= 0)
		r = check_names(s);
	if (r >= 0)
		r = note_left_over(s);
	for (uint32_t i = 0; r >= 0 && i < s->n_files; i++)
		r = make_file(s, &s->file[i]);
	return r;
}

static int fail_file(const struct weir__save_file *f, int r, const char *what)
{
	return weir__fail_sys(r, "%s: %s", f->name, what);
}

/*
 * Make the bytes durable. Network file systems report errors of writes only
 * here.
 */
static int sync_file(const struct weir_save *s, const struct weir__save_file *f)
{
	int r = 0;

	if (!(s->flags & WEIR_SAVE_NOSYNC) || f->file->network)
		r = weir__sys_sync(f->file->fd);
	if (r < 0)
		return fail_file(f, r, "fsync");
	if (s->flags & WEIR_SAVE_DROP)
		weir__sys_drop_cache(f->file->fd, 0, 0);
	return 0;
}

static int sync_folder(const struct weir_save *s)
{
	return s->flags & WEIR_SAVE_NOSYNC ? 0 : weir__sys_sync_folder(s->dir);
}

/* The last block was written whole. */
static int finish_file(struct weir_save *s, struct weir__save_file *f)
{
	int r = weir__sys_truncate(f->file->fd, f->bytes);

	if (r < 0)
		return fail_file(f, r, "setting its size");
	return sync_file(s, f);
}

static int write_all(int fd, const unsigned char *p, size_t n)
{
	size_t done = 0;

	while (done < n) {
		int64_t r = weir__sys_pwrite(fd, p + done, n - done, done);

		if (r < 0)
			return (int)r;
		done += (size_t)r;
	}
	return 0;
}

/* The index is small, so it is written here. It becomes the last file. */
static int write_index(struct weir_save *s, struct weir__save_file *index)
{
	const char **name = weir__calloc(s->n_files, sizeof(*name));
	struct weir__part_out *part = weir__calloc(s->n_files, sizeof(*part));
	struct weir__bytes out = { 0 };
	int r = name && part ? 0 : fail_memory(s);

	for (uint32_t i = 0; r >= 0 && i < s->n_files; i++) {
		name[i] = s->file[i].name;
		part[i] = s->file[i].part;
	}
	if (r >= 0)
		r = s->format->write->index(s->model, part, name, s->n_files,
					    &out);
	if (r == -ENOMEM)
		fail_memory(s);
	index->bytes = out.n;
	if (r >= 0)
		r = make_file(s, index);
	if (r >= 0) {
		r = write_all(index->file->fd, out.p, out.n);
		if (r < 0)
			fail_file(index, r, "write");
	}
	if (r >= 0)
		r = finish_file(s, index);
	weir__free(name);
	weir__free(part);
	weir__free(out.p);
	return r;
}

/* @keep: its name is new, and stays if another file has got it meanwhile. */
static int name_file(const struct weir_save *s, struct weir__save_file *f,
		     bool keep)
{
	int r = weir__sys_rename(s->dir, f->temp, f->name,
				 keep || (s->flags & WEIR_SAVE_NEW));

	if (r < 0)
		return weir__fail_sys(r, "%s: rename to %s/%s", f->temp,
				      s->folder, f->name);
	f->named = true;
	return 0;
}

/*
 * Give names to all files but the one by which the model is opened, which then
 * makes the new model the one of this path.
 */
static int name_files(struct weir_save *s, struct weir__save_file *index)
{
	const bool several = s->n_files > 1;
	int r = 0;

	for (uint32_t i = index ? 0 : 1; r >= 0 && i < s->n_files; i++)
		r = name_file(s, &s->file[i], true);
	if (r >= 0 && several) {
		r = sync_folder(s);
		if (r < 0)
			return weir__fail_sys(r, "%s: fsync", s->folder);
	}
	if (r < 0)
		return r;
	return name_file(s, index ? index : &s->file[0], several && !index);
}

/* Take back the names of files without which the model stays as it was. */
static void unname_files(struct weir_save *s)
{
	for (uint32_t i = 0; i < s->n_files; i++)
		if (s->file[i].named)
			(void)weir__sys_unlink(s->dir, s->file[i].name);
}

static void remove_temp(const struct weir_save *s, struct weir__save_file *f)
{
	if (f->temp && !f->named)
		(void)weir__sys_unlink(s->dir, f->temp);
	weir__free(f->temp);
	f->temp = NULL;
}

static void close_file(struct weir__save_file *f)
{
	weir__file_put(f->file);
	f->file = NULL;
}

/*
 * The caller has the lock of the folder, so no other save to this path changes
 * its names meanwhile.
 */
static int publish(struct weir_save *s, struct weir__save_file *index)
{
	const struct weir__save_file *last = index ? index : &s->file[0];
	int known = 0, r = 0;

	/* Another save may have got the names since the start. */
	if (index)
		r = weir__save_choose_names(s);
	if (r >= 0 && index)
		r = write_index(s, index);
	if (r >= 0)
		r = known = weir__save_earlier_find(s);
	if (r >= 0)
		r = name_files(s, index);
	if (r >= 0) {
		r = sync_folder(s);
		if (r < 0)
			weir__fail_sys(
				r,
				"%s: fsync of the folder, in which the files have their names already",
				s->folder);
	}
	if (r >= 0 && known)
		weir__save_earlier_remove(s);
	else if (!last->named)
		unname_files(s);
	return r;
}

int weir__save_files_publish(struct weir_save *s)
{
	struct weir__save_file own = { .name = s->index_name };
	struct weir__save_file *index = weir__save_has_index(s) ? &own : NULL;
	int64_t begun = weir__now();
	int r = 0;

	for (uint32_t i = 0; r >= 0 && i < s->n_files; i++)
		r = finish_file(s, &s->file[i]);
	if (r < 0)
		return r;
	/* Without locks, or if it takes too long, the save goes on. */
	(void)weir__sys_lock(s->dir, LOCK_NS);
	r = publish(s, index);
	s->sync_ns = weir__now() - begun;
	if (index) {
		remove_temp(s, index);
		close_file(index);
	}
	return r;
}

void weir__save_files_remove(struct weir_save *s)
{
	for (uint32_t i = 0; i < s->n_files; i++)
		remove_temp(s, &s->file[i]);
}

void weir__save_files_close(struct weir_save *s, bool leaked)
{
	for (uint32_t i = 0; i < s->n_files && !leaked; i++)
		close_file(&s->file[i]);
	weir__sys_close(s->dir);
	s->dir = -1;
}
