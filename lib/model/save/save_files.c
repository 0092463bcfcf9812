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
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/error.h"
#include "core/sys.h"
#include "model/format/bytes.h"
#include "model/save/save.h"

#define PATH_ROOM 4096

typedef unsigned long long ull; /* for printf */

static _Atomic unsigned next_number = 1;

static const char *last_name(const struct weir_save *s)
{
	const char *slash = strrchr(s->path, '/');

	return slash ? slash + 1 : s->path;
}

/* The beginning of the temporary names of all saves to this path. */
static void temp_prefix(const struct weir_save *s, char *text, size_t room)
{
	snprintf(text, room, ".%.200s.weir-", last_name(s));
}

static char *new_temp(const struct weir_save *s)
{
	char prefix[256], path[PATH_ROOM];

	temp_prefix(s, prefix, sizeof(prefix));
	snprintf(path, sizeof(path), "%s/%s%ld-%u", s->folder, prefix,
		 (long)getpid(), atomic_fetch_add(&next_number, 1));
	return weir__strdup(path);
}

static int fail_memory(const struct weir_save *s)
{
	return weir__fail(-ENOMEM, "%s: no memory for the files of a save",
			  s->path);
}

/* A file of an earlier save that nobody writes any more. */
static bool is_left_over(const char *path)
{
	int fd = weir__sys_open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK, 0);
	bool unlocked = fd >= 0 && weir__sys_lock(fd) == 0;

	weir__sys_close(fd);
	return unlocked;
}

static int is_temporary(const struct dirent *entry)
{
	return entry->d_name[0] == '.' && strstr(entry->d_name, ".weir-");
}

/* Name them in the note; they are left for the user to remove. */
static void note_left_over(struct weir_save *s)
{
	char prefix[256], path[PATH_ROOM];
	struct dirent **list;
	int n;

	temp_prefix(s, prefix, sizeof(prefix));
	n = weir__sys_scandir(s->folder, is_temporary, &list);
	for (int i = 0; i < n; i++) {
		const char *name = list[i]->d_name;

		snprintf(path, sizeof(path), "%s/%s", s->folder, name);
		if (!strncmp(name, prefix, strlen(prefix)) &&
		    is_left_over(path)) {
			weir__append(
				s->note, sizeof(s->note), "%s%s",
				s->leftovers
					? ", "
					: "left over from saves that did not end, may be removed: ",
				name);
			s->leftovers++;
		}
		weir__free(list[i]);
	}
	if (n >= 0)
		weir__free(list);
}

static int fail_space(const struct weir_save *s, int r, const char *temp)
{
	uint64_t free = 0;

	weir__sys_free(s->folder, &free);
	return weir__fail(
		r, "%s: %s: the save needs %llu bytes, %llu are free%s%s", temp,
		weir__errno_describe(-r), (ull)s->total, (ull)free,
		*s->note ? "; " : "", s->note);
}

/* Give the file the permissions of the one that it will replace. */
static void copy_mode(const struct weir_save *s,
		      const struct weir__save_file *f)
{
	char path[PATH_ROOM];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", s->folder, f->name);
	if (weir__sys_stat(path, &st) == 0 && S_ISREG(st.st_mode))
		(void)weir__sys_chmod(f->file->fd, st.st_mode & 07777);
}

static int make_file(struct weir_save *s, struct weir__save_file *f)
{
	char *temp = new_temp(s);
	int r;

	if (!temp)
		return fail_memory(s);
	r = weir__file_open(s->weir, temp,
			    WEIR_FILE_WRITE | WEIR_FILE_CREATE | WEIR__FILE_NEW,
			    0666, &f->file);
	if (r < 0) {
		weir__free(temp);
		return r;
	}
	f->temp = temp;
	/* Where there are no locks, what is left over cannot be recognised. */
	(void)weir__sys_lock(f->file->fd);
	copy_mode(s, f);
	r = weir__sys_reserve(f->file->fd, f->bytes);
	if (r == -ENOSPC || r == -EDQUOT || r == -EFBIG)
		return fail_space(s, r, temp);
	/* A file system without the call finds out while it writes. */
	return 0;
}

/* What exists already and may not be replaced, or not by this save. */
static int check_name(const struct weir_save *s, const char *name)
{
	char path[PATH_ROOM];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", s->folder, name);
	if (weir__sys_stat(path, &st) < 0)
		return 0;
	if (S_ISDIR(st.st_mode))
		return weir__fail(-EISDIR, "%s: is a directory", path);
	if (s->flags & WEIR_SAVE_NEW)
		return weir__fail(-EEXIST, "%s: exists already", path);
	if (s->n_files > 1 && !s->index_name)
		return weir__fail(
			-EEXIST,
			"%s: exists already: files of a split model cannot be replaced all at once, choose another name or remove them first",
			path);
	return 0;
}

int weir__save_files_make(struct weir_save *s)
{
	int r = 0;

	note_left_over(s);
	if (weir__save_has_index(s) ||
	    (s->index_name && s->flags & WEIR_SAVE_NEW))
		r = check_name(s, s->index_name);
	for (uint32_t i = 0; r >= 0 && i < s->n_files; i++)
		r = check_name(s, s->file[i].name);
	if (s->flags & WEIR_SAVE_NEW && r >= 0)
		r = check_name(s, last_name(s));
	for (uint32_t i = 0; r >= 0 && i < s->n_files; i++)
		r = make_file(s, &s->file[i]);
	return r;
}

static int fail_file(const struct weir__save_file *f, int r, const char *what)
{
	return weir__fail_sys(r, "%s: %s", f->name, what);
}

/* The last block was written whole. */
static int finish_file(struct weir_save *s, struct weir__save_file *f)
{
	int r = weir__sys_truncate(f->file->fd, f->bytes);

	if (r < 0)
		return fail_file(f, r, "setting its size");
	if (!(s->flags & WEIR_SAVE_NOSYNC)) {
		r = weir__sys_sync(f->file->fd);
		if (r < 0)
			return fail_file(f, r, "fsync");
	}
	if (s->flags & WEIR_SAVE_DROP)
		weir__sys_drop_cache(f->file->fd, 0, 0);
	return 0;
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
	char path[PATH_ROOM];
	int r;

	snprintf(path, sizeof(path), "%s/%s", s->folder, f->name);
	r = weir__sys_rename(f->temp, path, keep || (s->flags & WEIR_SAVE_NEW));
	if (r < 0)
		return weir__fail_sys(r, "%s: rename to %s", f->temp, path);
	f->named = true;
	return 0;
}

/*
 * Names of all files but the one by which the model is opened, which then makes
 * the new model the one of this path.
 */
static int name_files(struct weir_save *s, struct weir__save_file *index)
{
	const bool several = s->n_files > 1;
	int r = 0;

	for (uint32_t i = index ? 0 : 1; r >= 0 && i < s->n_files; i++)
		r = name_file(s, &s->file[i], true);
	if (r >= 0 && several && !(s->flags & WEIR_SAVE_NOSYNC)) {
		r = weir__sys_sync_folder(s->folder);
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
	char path[PATH_ROOM];

	for (uint32_t i = 0; i < s->n_files; i++) {
		struct weir__save_file *f = &s->file[i];

		snprintf(path, sizeof(path), "%s/%s", s->folder, f->name);
		if (f->named)
			(void)weir__sys_unlink(path);
	}
}

static void end_file(struct weir__save_file *f)
{
	if (f->temp && !f->named)
		(void)weir__sys_unlink(f->temp);
	weir__free(f->temp);
	f->temp = NULL;
	weir__file_put(f->file);
	f->file = NULL;
}

int weir__save_files_publish(struct weir_save *s)
{
	struct weir__save_file own = { .name = s->index_name };
	struct weir__save_file *index = weir__save_has_index(s) ? &own : NULL;
	struct weir__save_file *last = index ? index : &s->file[0];
	int64_t begun = weir__now();
	int r = 0;

	for (uint32_t i = 0; r >= 0 && i < s->n_files; i++)
		r = finish_file(s, &s->file[i]);
	if (r >= 0 && index)
		r = write_index(s, index);
	s->sync_ns = weir__now() - begun;
	weir__save_earlier_find(s);
	if (r >= 0)
		r = name_files(s, index);
	if (r >= 0 && !(s->flags & WEIR_SAVE_NOSYNC)) {
		r = weir__sys_sync_folder(s->folder);
		if (r < 0)
			weir__fail_sys(
				r,
				"%s: fsync of the folder, in which the files have their names already",
				s->folder);
	}
	if (r >= 0)
		weir__save_earlier_remove(s);
	else if (!last->named)
		unname_files(s);
	if (index)
		end_file(index);
	return r;
}

void weir__save_files_end(struct weir_save *s)
{
	for (uint32_t i = 0; i < s->n_files; i++)
		end_file(&s->file[i]);
}
