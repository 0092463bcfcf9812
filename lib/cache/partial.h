/* SPDX-License-Identifier: MIT */
/*
 * Partial files: a copy of an object that arrives in blocks, in any order. It
 * consists of two files: the data, which is sparse and as long as the object,
 * and the state, which says which object it is and has the digest of each block
 * that is there.
 *
 * A digest is written after its block. If the process or the machine ends
 * between the two, or the disk keeps the digest and loses the block, the digest
 * does not match, and the block is missing. The same holds if either file is
 * damaged. So nothing has to be in a certain order on the disk, and a block is
 * used only after its digest was compared, or if this process has written it.
 *
 * The lock of the state (flock(2)) is the lock of both files: a process that
 * ends holds nothing. A partial file that is shared has several users at a
 * time; they may write the same blocks, which have the same bytes.
 */
#ifndef WEIR__PARTIAL_H
#define WEIR__PARTIAL_H

#include <stdbool.h>
#include <stdint.h>

#define WEIR__PARTIAL_BLOCK ((uint32_t)1 << 20) /* bytes; the last is shorter */

/*
 * Which object it is: two with the same description have the same bytes, unless
 * they have neither identity nor SHA-256.
 */
struct weir__partial_id {
	const char *name; /* without query and credentials; up to 511 bytes */
	const char *identity; /* such as "etag:..."; up to 159 bytes */
	const char *sha256;   /* in lower-case hexadecimal; "": unknown */
	uint64_t bytes;
};

/* What the state was when it was opened. */
enum weir__partial_was {
	WEIR__PARTIAL_NEW,  /* there was none, or it was damaged */
	WEIR__PARTIAL_SAME, /* of this object */
	/* Of another object with the same name, or it is not known of which. */
	WEIR__PARTIAL_OTHER,
	WEIR__PARTIAL_FOREIGN /* of an object with another name */
};

struct weir__partial;

#define WEIR__PARTIAL_CREATE 1u /* make the state if there is none */
#define WEIR__PARTIAL_SHARED 2u /* lock it together with others that share it */

/*
 * Open the state @state in the folder @dir and lock it, for which the call
 * waits for at most @wait_ns. Its content is not changed. Returns 0, or an
 * errno without a sentence. -EWOULDBLOCK: another process has the lock.
 */
int weir__partial_open(int dir, const char *state, unsigned flags,
		       int64_t wait_ns, const struct weir__partial_id *id,
		       struct weir__partial **ret_partial);
enum weir__partial_was weir__partial_was(const struct weir__partial *p);
/*
 * Open the data @data in the folder @dir, which are made if they are not there.
 * Without a state of this object both begin anew, which a shared one can only
 * if it has no other user (else -EBUSY). -ELOOP, -EPERM: there is a symbolic
 * link, or another file than ours. -EFBIG: over RLIMIT_FSIZE.
 */
int weir__partial_begin(struct weir__partial *p, int dir, const char *data);
/* Unlock and close both files, which stay. Takes NULL. */
void weir__partial_close(struct weir__partial *p);

/*
 * All blocks of a shared partial file are there: end writing to it, and lock
 * the data alone, so that nobody else does. -EWOULDBLOCK: another process still
 * may; what it does when it ends is left to it.
 */
int weir__partial_seal(struct weir__partial *p);
/* Unlock the data. Unless it has @ended, it may be written again. */
void weir__partial_unseal(struct weir__partial *p, bool ended);

uint32_t weir__partial_blocks(const struct weir__partial *p);
/* The bytes of a block. */
uint32_t weir__partial_len(const struct weir__partial *p, uint32_t block);
/* True if the state has the block, perhaps written by another process. */
bool weir__partial_has(struct weir__partial *p, uint32_t block);
/* True if this process has written the block or compared its digest. */
bool weir__partial_trusts(const struct weir__partial *p, uint32_t block);

/* Write a block and its digest. Several blocks may be written at a time. */
int weir__partial_write(struct weir__partial *p, uint32_t block,
			const void *bytes);
/*
 * Write a part of a block that is missing, and no digest. When all parts were
 * written: read the block into @bytes and write its digest.
 */
int weir__partial_write_part(struct weir__partial *p, uint32_t block,
			     uint32_t off, uint32_t len, const void *bytes);
int weir__partial_join(struct weir__partial *p, uint32_t block, void *bytes);
/*
 * Read a block that the state has, compare its digest, and leave the bytes in
 * @bytes. 1: it is right. 0: it is not, and its digest was removed: the block
 * is missing from now on.
 */
int weir__partial_check(struct weir__partial *p, uint32_t block, void *bytes);
/* Write both files to the disk. */
int weir__partial_sync(struct weir__partial *p);
/* The descriptor of the data, for reads of blocks that are trusted. */
int weir__partial_fd(const struct weir__partial *p);

/*
 * Compare the file @name of the folder @dir with the state as it was opened,
 * whatever object it is of. 1: it has the size and all digests. @stop is called
 * after each block with its bytes; true: end with -ECANCELED.
 */
int weir__partial_describes(struct weir__partial *p, int dir, const char *name,
			    bool (*stop)(void *arg, uint64_t bytes), void *arg);

/*
 * The SHA-256 that the source published of an object of @bytes bytes, by the
 * state at @path. "": there is no such state, or it has none.
 */
void weir__partial_sum(const char *path, uint64_t bytes,
		       char ret_sha256[static 72]);

#endif
