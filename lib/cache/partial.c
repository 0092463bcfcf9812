/* SPDX-License-Identifier: MIT */
#include "cache/partial.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/hash.h"
#include "core/sys.h"

#define MAGIC "weir partial 1\n"
#define DIGEST 16u /* XXH3-128 */

/* The beginning of a state. The digests of the blocks follow. */
struct head {
	char magic[16];
	uint64_t bytes;
	uint64_t block;
	char name[512];
	char identity[160];
	char sha256[72];
	uint8_t digest[DIGEST]; /* of all that is before it */
};

/* What this process knows of a block. */
enum known {
	MISSING,
	CLAIMED, /* the state has it */
	TRUSTED  /* written or compared by this process */
};

struct weir__partial {
	int state, data;
	int direct; /* the data with O_DIRECT, or -1 */
	bool shared;
	bool sealed; /* it may not be written any more */
	enum weir__partial_was was;
	struct head want; /* of the object */
	struct head had;  /* as it was opened; describes() needs it */
	uint32_t n;
	struct block {
		_Atomic uint8_t known;
	} * block;
};

static uint32_t blocks_of(uint64_t bytes)
{
	return (uint32_t)((bytes + WEIR__PARTIAL_BLOCK - 1) /
			  WEIR__PARTIAL_BLOCK);
}

static uint32_t len_of(uint64_t bytes, uint32_t block)
{
	uint64_t left = bytes - (uint64_t)block * WEIR__PARTIAL_BLOCK;

	return left < WEIR__PARTIAL_BLOCK ? (uint32_t)left
					  : WEIR__PARTIAL_BLOCK;
}

static uint64_t digest_at(uint32_t block)
{
	return sizeof(struct head) + (uint64_t)block * DIGEST;
}

/* Returns @n; less at the end of the file. */
static int64_t read_all(int fd, void *to, size_t n, uint64_t off)
{
	size_t got = 0;

	while (got < n) {
		int64_t r = weir__sys_pread(fd, (char *)to + got, n - got,
					    off + got);

		if (r < 0)
			return r;
		if (!r)
			break;
		got += (size_t)r;
	}
	return (int64_t)got;
}

static int write_all(int fd, const void *from, size_t n, uint64_t off)
{
	size_t put = 0;

	while (put < n) {
		int64_t r = weir__sys_pwrite(fd, (const char *)from + put,
					     n - put, off + put);

		if (r <= 0)
			return r ? (int)r : -EIO;
		put += (size_t)r;
	}
	return 0;
}

/* Strings that are too long end up as others, so they are refused. */
static int put_text(char *to, size_t room, const char *from)
{
	if (strlen(from) >= room)
		return -ENAMETOOLONG;
	memcpy(to, from, strlen(from) + 1);
	return 0;
}

static int head_digest(const struct head *h, uint8_t *ret_digest)
{
	return weir__hash_bytes(WEIR_DIGEST_XXH3, h,
				offsetof(struct head, digest), ret_digest);
}

static int make_head(const struct weir__partial_id *id, struct head *h)
{
	int r;

	memset(h, 0, sizeof(*h));
	memcpy(h->magic, MAGIC, sizeof(MAGIC) - 1);
	h->bytes = id->bytes;
	h->block = WEIR__PARTIAL_BLOCK;
	if ((r = put_text(h->name, sizeof(h->name), id->name)) < 0 ||
	    (r = put_text(h->identity, sizeof(h->identity), id->identity)) <
		    0 ||
	    (r = put_text(h->sha256, sizeof(h->sha256), id->sha256)) < 0)
		return r;
	r = head_digest(h, h->digest);
	return r < 0 ? r : 0;
}

/* Read the state. Without a valid one @p->was is NEW. */
static int read_state(struct weir__partial *p)
{
	struct head *h = &p->had;
	uint8_t digest[WEIR__DIGEST_MAX];
	int64_t r = read_all(p->state, h, sizeof(*h), 0);

	p->was = WEIR__PARTIAL_NEW;
	if (r < 0)
		return (int)r;
	if (r < (int64_t)sizeof(*h))
		return 0;
	r = head_digest(h, digest);
	if (r < 0)
		return (int)r;
	if (memcmp(h->digest, digest, DIGEST) != 0 ||
	    memcmp(h->magic, p->want.magic, sizeof(h->magic)) != 0 ||
	    h->block != WEIR__PARTIAL_BLOCK)
		return 0;
	if (!memcmp(h, &p->want, sizeof(*h)) && (*h->identity || *h->sha256))
		p->was = WEIR__PARTIAL_SAME;
	else if (!strcmp(h->name, p->want.name))
		p->was = WEIR__PARTIAL_OTHER;
	else
		p->was = WEIR__PARTIAL_FOREIGN;
	return 0;
}

/* In place of the digest of a block that is missing. */
static const uint8_t none[DIGEST];

static bool is_none(const uint8_t *digest)
{
	return !memcmp(digest, none, DIGEST);
}

/* Which blocks a state of this object has. */
static int read_digests(struct weir__partial *p)
{
	uint8_t digest[256][DIGEST];
	uint32_t i, k, n;

	for (i = 0; i < p->n; i += n) {
		n = p->n - i < 256 ? p->n - i : 256;
		memset(digest, 0, sizeof(digest));
		int64_t r = read_all(p->state, digest, (size_t)n * DIGEST,
				     digest_at(i));

		if (r < 0)
			return (int)r;
		for (k = 0; k < n; k++)
			atomic_store(&p->block[i + k].known,
				     is_none(digest[k]) ? MISSING : CLAIMED);
	}
	return 0;
}

/* The state was removed while we waited for its lock. */
static bool is_removed(int fd)
{
	struct stat st;

	return weir__sys_fstat(fd, &st) < 0 || !st.st_nlink;
}

static int open_state(int dir, const char *name, unsigned flags,
		      int64_t wait_ns, int *ret_fd)
{
	const int how = flags & WEIR__PARTIAL_CREATE ? O_CREAT : 0;
	struct stat st;
	int fd, r;

	for (int i = 0; i < 100; i++) {
		fd = weir__sys_open_at(dir, name,
				       O_RDWR | how | O_NOFOLLOW | O_NONBLOCK,
				       0666);
		if (fd < 0)
			return fd;
		r = weir__sys_fstat(fd, &st);
		if (r >= 0 && (!S_ISREG(st.st_mode) || st.st_nlink > 1))
			r = -EPERM;
		if (r >= 0)
			r = flags & WEIR__PARTIAL_SHARED
				    ? weir__sys_lock_shared(fd, wait_ns)
				    : weir__sys_lock(fd, wait_ns);
		if (r >= 0 && !is_removed(fd)) {
			*ret_fd = fd;
			return 0;
		}
		weir__sys_close(fd);
		if (r < 0)
			return r;
	}
	return -EBUSY;
}

static int new_partial(const struct weir__partial_id *id,
		       struct weir__partial **ret_partial)
{
	struct weir__partial *p;

	if (id->bytes > (uint64_t)WEIR__PARTIAL_BLOCK * (UINT32_MAX - 1))
		return -EFBIG;
	p = weir__calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->state = p->data = p->direct = -1;
	p->n = blocks_of(id->bytes);
	p->block = weir__calloc(p->n + 1, sizeof(*p->block));
	*ret_partial = p;
	return p->block ? make_head(id, &p->want) : -ENOMEM;
}

int weir__partial_open(int dir, const char *state, unsigned flags,
		       int64_t wait_ns, const struct weir__partial_id *id,
		       struct weir__partial **ret_partial)
{
	struct weir__partial *p = NULL;
	int r = new_partial(id, &p);

	if (r >= 0) {
		p->shared = flags & WEIR__PARTIAL_SHARED;
		r = open_state(dir, state, flags, wait_ns, &p->state);
	}
	if (r >= 0)
		r = read_state(p);
	if (r >= 0 && p->was == WEIR__PARTIAL_SAME)
		r = read_digests(p);
	if (r < 0)
		weir__partial_close(p);
	else
		*ret_partial = p;
	return r;
}

void weir__partial_close(struct weir__partial *p)
{
	if (!p)
		return;
	weir__sys_close(p->direct);
	weir__sys_close(p->data);
	weir__sys_close(p->state);
	weir__free(p->block);
	weir__free(p);
}

enum weir__partial_was weir__partial_was(const struct weir__partial *p)
{
	return p->was;
}

/* Begin a state of this object. The lock is exclusive. */
static int write_state(struct weir__partial *p)
{
	int r = weir__sys_truncate(p->state, 0);

	if (r >= 0)
		r = weir__sys_truncate(p->state, digest_at(p->n));
	if (r >= 0)
		r = write_all(p->state, &p->want, sizeof(p->want), 0);
	return r;
}

/*
 * A new state needs the lock alone. Another process may have written it, or
 * removed it, while the lock changed.
 */
static int renew_state(struct weir__partial *p)
{
	int r = 0;

	if (p->shared) {
		r = weir__sys_lock(p->state, 0);
		if (r == -EWOULDBLOCK)
			r = -EBUSY;
		if (r >= 0 && is_removed(p->state))
			r = -EBUSY;
		if (r >= 0)
			r = read_state(p);
		if (r >= 0 && p->was == WEIR__PARTIAL_SAME)
			r = read_digests(p);
	}
	if (r >= 0 && p->was != WEIR__PARTIAL_SAME)
		r = write_state(p);
	return r;
}

static int open_data(struct weir__partial *p, int dir, const char *data)
{
	struct stat st;
	int r = weir__sys_open_at(
		dir, data, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0666);

	if (r < 0)
		return r;
	p->data = r;
	r = weir__sys_fstat(p->data, &st);
	if (r < 0)
		return r;
	if (!S_ISREG(st.st_mode) || st.st_nlink > 1 || st.st_uid != geteuid())
		return -EPERM;
	if (p->shared && weir__sys_lock_shared(p->data, 0) < 0)
		p->sealed = true; /* another process makes it whole */
	else if ((uint64_t)st.st_size != p->want.bytes)
		r = weir__sys_truncate(p->data, p->want.bytes);
	return r;
}

/*
 * The blocks of a shared file were read by this process already, so they need
 * not be in the page cache, and a fast disk takes them in less time than a copy
 * to it. -1: the file system has no direct writes.
 */
static int open_direct(int dir, const char *data, int same)
{
	int fd = weir__sys_open_at(
		dir, data, O_WRONLY | O_DIRECT | O_NOFOLLOW | O_NONBLOCK, 0);
	struct stat a, b;

	if (fd >= 0 && weir__sys_fstat(fd, &a) >= 0 &&
	    weir__sys_fstat(same, &b) >= 0 && a.st_dev == b.st_dev &&
	    a.st_ino == b.st_ino)
		return fd;
	weir__sys_close(fd);
	return -1;
}

int weir__partial_begin(struct weir__partial *p, int dir, const char *data)
{
	int r = 0;

	/* Beyond the limit a write would also send SIGXFSZ. */
	if (p->want.bytes > weir__sys_limit(RLIMIT_FSIZE))
		return -EFBIG;
	if (p->was != WEIR__PARTIAL_SAME)
		r = renew_state(p);
	if (r >= 0)
		r = open_data(p, dir, data);
	if (r >= 0 && p->shared) {
		p->direct = open_direct(dir, data, p->data);
		r = weir__sys_lock_shared(p->state, 0);
		if (r >= 0 && is_removed(p->state))
			r = -EBUSY;
	}
	return r < 0 ? r : 0;
}

int weir__partial_seal(struct weir__partial *p)
{
	int r = p->sealed ? -EWOULDBLOCK : weir__sys_lock(p->data, 0);

	p->sealed = true;
	return r;
}

void weir__partial_unseal(struct weir__partial *p, bool ended)
{
	/* The lock of a file says that it is in use. */
	if (weir__sys_lock_shared(p->data, 0) >= 0)
		p->sealed = ended;
}

uint32_t weir__partial_blocks(const struct weir__partial *p)
{
	return p->n;
}

uint32_t weir__partial_len(const struct weir__partial *p, uint32_t block)
{
	return len_of(p->want.bytes, block);
}

bool weir__partial_has(struct weir__partial *p, uint32_t block)
{
	uint8_t digest[DIGEST];

	if (atomic_load(&p->block[block].known) != MISSING)
		return true;
	if (!p->shared ||
	    read_all(p->state, digest, DIGEST, digest_at(block)) != DIGEST ||
	    is_none(digest))
		return false;
	return true;
}

bool weir__partial_trusts(const struct weir__partial *p, uint32_t block)
{
	return atomic_load(&p->block[block].known) == TRUSTED;
}

int weir__partial_fd(const struct weir__partial *p)
{
	return p->data;
}

int weir__partial_sync(struct weir__partial *p)
{
	int r = weir__sys_sync(p->data);

	return r < 0 ? r : weir__sys_sync(p->state);
}

int weir__partial_write_part(struct weir__partial *p, uint32_t block,
			     uint32_t off, uint32_t len, const void *bytes)
{
	return p->sealed
		       ? -EROFS
		       : write_all(p->data, bytes, len,
				   (uint64_t)block * WEIR__PARTIAL_BLOCK + off);
}

/* The bytes of the block are written. */
static int write_digest(struct weir__partial *p, uint32_t block,
			const void *bytes)
{
	uint8_t digest[WEIR__DIGEST_MAX];
	int r = weir__hash_bytes(WEIR_DIGEST_XXH3, bytes,
				 weir__partial_len(p, block), digest);

	if (r >= 0)
		r = write_all(p->state, digest, DIGEST, digest_at(block));
	if (r < 0)
		return r;
	atomic_store(&p->block[block].known, TRUSTED);
	return 0;
}

/*
 * False: the block has to be written through the page cache. The disk may need
 * more than pages, and its errors are those of that write, too.
 */
static bool write_direct(struct weir__partial *p, uint32_t block,
			 const void *bytes)
{
	uint32_t n = weir__partial_len(p, block);

	return p->direct >= 0 && !((uintptr_t)bytes % 4096 || n % 4096) &&
	       write_all(p->direct, bytes, n,
			 (uint64_t)block * WEIR__PARTIAL_BLOCK) >= 0;
}

int weir__partial_write(struct weir__partial *p, uint32_t block,
			const void *bytes)
{
	int r = p->sealed ? -EROFS : 0;

	if (r >= 0 && !write_direct(p, block, bytes))
		r = weir__partial_write_part(
			p, block, 0, weir__partial_len(p, block), bytes);
	return r < 0 ? r : write_digest(p, block, bytes);
}

int weir__partial_join(struct weir__partial *p, uint32_t block, void *bytes)
{
	uint32_t n = weir__partial_len(p, block);
	int64_t r = read_all(p->data, bytes, n,
			     (uint64_t)block * WEIR__PARTIAL_BLOCK);

	if (r < 0)
		return (int)r;
	if (r < n)
		return -EIO;
	return p->sealed ? -EROFS : write_digest(p, block, bytes);
}

/* 1: the bytes of @fd have the digest. */
static int compare(int fd, uint64_t bytes, uint32_t block, void *buf,
		   const uint8_t *want)
{
	uint32_t n = len_of(bytes, block);
	uint8_t digest[WEIR__DIGEST_MAX];
	int64_t r = read_all(fd, buf, n, (uint64_t)block * WEIR__PARTIAL_BLOCK);

	if (r < 0)
		return (int)r;
	if (r < n)
		return 0;
	r = weir__hash_bytes(WEIR_DIGEST_XXH3, buf, n, digest);
	return r < 0 ? (int)r : !memcmp(digest, want, DIGEST);
}

int weir__partial_check(struct weir__partial *p, uint32_t block, void *bytes)
{
	uint8_t digest[DIGEST];
	int r;

	/* Another process may have written the block since it was read. */
	if (read_all(p->state, digest, DIGEST, digest_at(block)) != DIGEST)
		return -EIO;
	r = is_none(digest)
		    ? 0
		    : compare(p->data, p->want.bytes, block, bytes, digest);
	if (r < 0)
		return r;
	atomic_store(&p->block[block].known, r ? TRUSTED : MISSING);
	if (r)
		return 1;
	/* All users of the file see it as missing, and may write it again. */
	return write_all(p->state, none, DIGEST, digest_at(block));
}

/* Compare all blocks of @fd with the digests of the state. */
static int describes(struct weir__partial *p, int fd, void *buf,
		     bool (*stop)(void *arg, uint64_t bytes), void *arg)
{
	uint32_t n = blocks_of(p->had.bytes);
	uint8_t digest[DIGEST];
	int r = 1;

	for (uint32_t i = 0; i < n && r == 1; i++) {
		if (read_all(p->state, digest, DIGEST, digest_at(i)) != DIGEST)
			return 0;
		r = compare(fd, p->had.bytes, i, buf, digest);
		if (r == 1 && stop(arg, len_of(p->had.bytes, i)))
			r = -ECANCELED;
	}
	return r;
}

int weir__partial_describes(struct weir__partial *p, int dir, const char *name,
			    bool (*stop)(void *arg, uint64_t bytes), void *arg)
{
	struct stat st;
	void *buf;
	int fd, r;

	if (p->was == WEIR__PARTIAL_NEW)
		return 0;
	fd = weir__sys_open_at(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK,
			       0);
	if (fd < 0)
		return fd;
	r = weir__sys_fstat(fd, &st);
	if (r >= 0 &&
	    (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != p->had.bytes)) {
		weir__sys_close(fd);
		return 0;
	}
	buf = weir__malloc_pages(WEIR__PARTIAL_BLOCK);
	if (r >= 0)
		r = buf ? describes(p, fd, buf, stop, arg) : -ENOMEM;
	weir__free(buf);
	weir__sys_close(fd);
	return r;
}

void weir__partial_sum(const char *path, uint64_t bytes,
		       char ret_sha256[static 72])
{
	uint8_t digest[WEIR__DIGEST_MAX];
	struct head h;
	int fd = weir__sys_open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);

	*ret_sha256 = '\0';
	if (fd >= 0 && read_all(fd, &h, sizeof(h), 0) == sizeof(h) &&
	    h.bytes == bytes && !memcmp(h.magic, MAGIC, sizeof(MAGIC) - 1) &&
	    head_digest(&h, digest) >= 0 && !memcmp(h.digest, digest, DIGEST))
		memcpy(ret_sha256, h.sha256, sizeof(h.sha256));
	weir__sys_close(fd);
}
