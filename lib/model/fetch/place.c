/* SPDX-License-Identifier: MIT */
/*
 * Files in the folder. Of the file NAME these exist:
 *
 *	NAME		whole
 *	.weir/NAME	its state, which says what weir_fetch() has put there
 *	NAME.part	what has arrived of it, with the state .weir/NAME.part
 *
 * NAME.part becomes NAME before its state does: if the machine ends between
 * the two, NAME is found by the state of NAME.part.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "core/hash.h"
#include "io/file.h"
#include "model/fetch/fetch.h"

static void part_name(const struct weir__fetch_file *file, char name[256])
{
	snprintf(name, 256, "%s.part", file->name);
}

/* @name: a path in the folder. */
static int fail_place(const struct weir__fetch *f, int r, const char *name)
{
	if (r == -ENOSPC || r == -EDQUOT || r == -EFBIG)
		return weir__fail(
			r,
			"%s/%s: %s; what has arrived is kept: make room, and fetch again",
			f->path, name, weir__errno_describe(-r));
	if (r == -ELOOP)
		return weir__fail(r,
				  "%s/%s: is a symbolic link, which is not "
				  "followed: remove it",
				  f->path, name);
	if (r == -EPERM)
		return weir__fail(r,
				  "%s/%s: is not a file of this user with one "
				  "name: remove it",
				  f->path, name);
	return weir__fail_sys(r, "%s/%s", f->path, name);
}

/* The same of a state. */
static int fail_state(const struct weir__fetch *f, int r, const char *state)
{
	char name[sizeof(WEIR__FETCH_STATES) + 256];

	snprintf(name, sizeof(name), WEIR__FETCH_STATES "/%s", state);
	return fail_place(f, r, name);
}

/* Called after each block that was compared: @arg is the fetch. */
static bool on_compared(void *arg, uint64_t bytes)
{
	(void)bytes;
	return weir__fetch_tell(arg);
}

/*
 * Compare NAME with the state @state. 1: it is as the state says. Then *ret_was
 * says of which object it is.
 */
static int describes(struct weir__fetch *f, const struct weir__fetch_file *file,
		     const char *state, enum weir__partial_was *ret_was)
{
	struct weir__partial *p;
	int r = weir__partial_open(f->states, state, 0, 0, &file->id, &p);

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return fail_state(f, r, state);
	*ret_was = weir__partial_was(p);
	r = weir__partial_describes(p, f->dir, file->name, on_compared, f);
	weir__partial_close(p);
	if (r == -ECANCELED)
		return weir__fail(r, "cancelled");
	return r < 0 ? fail_place(f, r, file->name) : r;
}

static int sum_file(struct weir__fetch *f, int fd, uint64_t bytes,
		    uint8_t *ret_digest)
{
	void *buf = weir__malloc_pages(WEIR__PARTIAL_BLOCK);
	struct weir__hash hash = { 0 };
	int64_t got = 1;
	int r = buf ? weir__hash_start(&hash, WEIR_DIGEST_SHA256) : -ENOMEM;

	for (uint64_t at = 0; r >= 0 && at < bytes; at += (uint64_t)got) {
		got = weir__sys_pread(fd, buf, WEIR__PARTIAL_BLOCK, at);
		if (got <= 0)
			r = got ? (int)got : -ESTALE;
		else
			weir__hash_update(&hash, buf, (size_t)got);
		if (r >= 0 && weir__fetch_tell(f))
			r = -ECANCELED;
	}
	if (r >= 0)
		weir__hash_finish(&hash, ret_digest);
	weir__hash_drop(&hash);
	weir__free(buf);
	return r;
}

static bool is_sum(const struct weir__fetch_file *file, const uint8_t *digest)
{
	char hex[WEIR__DIGEST_TEXT];

	return !strcmp(weir__digest_hex(digest, 32, hex), file->id.sha256);
}

/* 1: NAME has the size and the SHA-256 of the object. */
static int has_sum(struct weir__fetch *f, const struct weir__fetch_file *file)
{
	uint8_t digest[WEIR__DIGEST_MAX];
	struct stat st;
	int fd, r;

	if (!*file->id.sha256)
		return 0;
	fd = weir__sys_open_at(f->dir, file->name,
			       O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
	if (fd < 0)
		return fail_place(f, fd, file->name);
	r = weir__sys_fstat(fd, &st);
	if (r >= 0 && S_ISREG(st.st_mode) &&
	    (uint64_t)st.st_size == file->id.bytes) {
		r = sum_file(f, fd, file->id.bytes, digest);
		if (r >= 0)
			r = is_sum(file, digest);
	}
	weir__sys_close(fd);
	return r < 0 ? fail_place(f, r, file->name) : r;
}

/*
 * There is a file NAME. 1: it is the object. 0: it may be replaced. -EEXIST: it
 * may not.
 */
static int look_at(struct weir__fetch *f, struct weir__fetch_file *file)
{
	enum weir__partial_was was = WEIR__PARTIAL_NEW;
	char part[256];
	int r = describes(f, file, file->name, &was);

	if (r < 0)
		return r;
	if (r && was == WEIR__PARTIAL_SAME)
		return 1;
	if (r && was == WEIR__PARTIAL_OTHER)
		return 0;
	part_name(file, part);
	r = describes(f, file, part, &was);
	if (r < 0)
		return r;
	if (r && was == WEIR__PARTIAL_SAME) {
		r = weir__sys_rename(f->states, part, file->name, false);
		return r < 0 ? fail_state(f, r, file->name) : 1;
	}
	r = has_sum(f, file);
	if (r)
		return r;
	if (f->opts.flags & WEIR_FETCH_REPLACE)
		return 0;
	return weir__fail(
		-EEXIST,
		"%s/%s: there is another file of this name: it is not what was fetched from %s: remove it, or ask to replace it",
		f->path, file->name, file->id.name);
}

/* NAME is the object: what an earlier call left beside it is not needed. */
static void remove_part(struct weir__fetch *f,
			const struct weir__fetch_file *file)
{
	char part[256];

	part_name(file, part);
	weir__sys_unlink(f->dir, part);
	weir__sys_unlink(f->states, part);
}

static int open_part(struct weir__fetch *f, struct weir__fetch_file *file)
{
	char part[256];
	int r;

	part_name(file, part);
	r = weir__partial_open(f->states, part, WEIR__PARTIAL_CREATE, 0,
			       &file->id, &file->part);
	if (r < 0)
		return fail_state(f, r, part);
	r = weir__partial_begin(file->part, f->dir, part);
	if (r < 0)
		return fail_place(f, r, part);
	file->n_blocks = weir__partial_blocks(file->part);
	file->block = weir__calloc(file->n_blocks + 1, 1);
	if (!file->block)
		return weir__fail(-ENOMEM, "%s: no memory for its blocks",
				  file->id.name);
	return 0;
}

int weir__fetch_prepare(struct weir__fetch *f, struct weir__fetch_file *file)
{
	uint64_t there = 0;
	struct stat st;
	int r = weir__sys_stat_at(f->dir, file->name, false, &st);

	if (r >= 0 && S_ISLNK(st.st_mode)) {
		r = fail_place(f, -ELOOP, file->name);
	} else if (r >= 0 && !S_ISREG(st.st_mode)) {
		r = weir__fail(-EEXIST,
			       "%s/%s: is not a regular file: remove it",
			       f->path, file->name);
	} else if (r >= 0) {
		r = look_at(f, file);
		file->older = r == 0;
		file->kept = r == 1;
		if (file->kept)
			remove_part(f, file);
	} else if (r == -ENOENT) {
		r = 0;
	} else {
		r = fail_place(f, r, file->name);
	}
	if (r == 0)
		r = open_part(f, file);
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < file->n_blocks; i++)
		if (weir__partial_has(file->part, i)) {
			file->block[i] = WEIR__FETCH_THERE;
			there += weir__partial_len(file->part, i);
		}
	pthread_mutex_lock(&f->lock);
	f->progress.done += file->kept ? file->id.bytes : there;
	f->progress.ended += file->kept;
	file->ended = file->kept;
	file->prepared = true;
	pthread_cond_broadcast(&f->cond);
	pthread_mutex_unlock(&f->lock);
	return 0;
}

/* Wait for a block. False: the fetch has failed. */
static bool arrives(struct weir__fetch *f, const struct weir__fetch_file *file,
		    uint32_t block)
{
	bool there;

	pthread_mutex_lock(&f->lock);
	while (!f->err && file->block[block] != WEIR__FETCH_THERE)
		pthread_cond_wait(&f->cond, &f->lock);
	there = !f->err;
	pthread_mutex_unlock(&f->lock);
	return there;
}

/* A block of an earlier call is not what its digest says: fetch it again. */
static void lose(struct weir__fetch *f, struct weir__fetch_file *file,
		 uint32_t block)
{
	pthread_mutex_lock(&f->lock);
	file->block[block] = WEIR__FETCH_MISSING;
	f->progress.done -= weir__partial_len(file->part, block);
	if (block < file->cursor)
		file->cursor = block;
	pthread_cond_broadcast(&f->cond);
	pthread_mutex_unlock(&f->lock);
}

/* 1: the block is in @buf, and right. 0: it has to be fetched again. */
static int check_block(struct weir__fetch_file *file, uint32_t block,
		       bool needed, void *buf)
{
	uint32_t n = weir__partial_len(file->part, block), got = 0;

	if (!weir__partial_trusts(file->part, block))
		return weir__partial_check(file->part, block, buf);
	while (needed && got < n) {
		int64_t r = weir__sys_pread(
			weir__partial_fd(file->part), (char *)buf + got,
			n - got, (uint64_t)block * WEIR__PARTIAL_BLOCK + got);

		if (r <= 0)
			return r ? (int)r : -EIO;
		got += (uint32_t)r;
	}
	return 1;
}

/* The blocks in their order, as they arrive. */
static int check_blocks(struct weir__fetch *f, struct weir__fetch_file *file,
			struct weir__hash *hash, void *buf)
{
	for (uint32_t i = 0; i < file->n_blocks; i++) {
		int r = 0;

		while (r == 0) {
			if (!arrives(f, file, i))
				return -ECANCELED;
			r = check_block(file, i, hash->state, buf);
			if (r == 0)
				lose(f, file, i);
		}
		if (r < 0)
			return r;
		if (hash->state)
			weir__hash_update(hash, buf,
					  weir__partial_len(file->part, i));
	}
	return 0;
}

static int fail_sum(struct weir__fetch *f, struct weir__fetch_file *file,
		    const uint8_t *digest)
{
	char hex[WEIR__DIGEST_TEXT];

	remove_part(f, file);
	return weir__fail(
		-EBADMSG,
		"%s: its SHA-256 is %s, and its source says %s: what was fetched of it was removed",
		file->id.name, weir__digest_hex(digest, 32, hex),
		file->id.sha256);
}

/*
 * NAME.part becomes NAME, and then their states. Without its state NAME would
 * count as another file, so the state is on the disk before NAME is.
 */
static int put_in_place(struct weir__fetch *f, struct weir__fetch_file *file)
{
	char part[256];
	int r = weir__partial_sync(file->part);

	part_name(file, part);
	if (r >= 0)
		r = weir__sys_sync_folder(f->states);
	if (r < 0)
		return fail_place(f, r, part);
	r = weir__sys_rename(f->dir, part, file->name, !file->older);
	if (r >= 0)
		r = weir__sys_sync_folder(f->dir);
	if (r < 0)
		return fail_place(f, r, file->name);
	r = weir__sys_rename(f->states, part, file->name, false);
	return r < 0 ? fail_state(f, r, file->name) : 0;
}

static int check_whole(struct weir__fetch *f, struct weir__fetch_file *file,
		       struct weir__hash *hash, void *buf)
{
	uint8_t digest[WEIR__DIGEST_MAX];
	bool sum = hash->state;
	char part[256];
	int r = check_blocks(f, file, hash, buf);

	part_name(file, part);
	if (r < 0)
		return r == -ECANCELED ? r : fail_place(f, r, part);
	if (sum) {
		weir__hash_finish(hash, digest);
		if (!is_sum(file, digest))
			return fail_sum(f, file, digest);
	}
	r = put_in_place(f, file);
	if (r < 0)
		return r;
	weir__partial_close(file->part);
	file->part = NULL;
	pthread_mutex_lock(&f->lock);
	file->ended = true;
	f->progress.ended++;
	f->sums += sum;
	pthread_cond_broadcast(&f->cond);
	pthread_mutex_unlock(&f->lock);
	return 0;
}

int weir__fetch_check(struct weir__fetch *f, struct weir__fetch_file *file)
{
	void *buf = weir__malloc_pages(WEIR__PARTIAL_BLOCK);
	struct weir__hash hash = { 0 };
	int r = 0;

	if (*file->id.sha256)
		r = weir__hash_start(&hash, WEIR_DIGEST_SHA256);
	if (!buf || r < 0)
		r = weir__fail(-ENOMEM, "%s: no memory to compare its blocks",
			       file->id.name);
	if (r >= 0)
		r = check_whole(f, file, &hash, buf);
	weir__hash_drop(&hash);
	weir__free(buf);
	return r;
}
