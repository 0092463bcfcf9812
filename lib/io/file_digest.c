/* SPDX-License-Identifier: MIT */
/* The digest of a whole file, read through the page cache. */
#include <errno.h>

#include "core/error.h"
#include "core/hash.h"
#include "core/sys.h"
#include "io/lease.h"

#define BLOCK_BYTES ((uint64_t)1 << 20)
/* The same of an object, which is read several requests at a time. */
#define OBJECT_BYTES ((uint64_t)32 << 20)
/* Bytes that the kernel reads meanwhile. */
#define AHEAD ((uint64_t)16 << 20)
/* A lease costs a thread, and is worth it for files of so many bytes. */
#define LEASE_BYTES ((uint64_t)16 << 20)

/* Hash a block where it is in the page cache, or a copy of it. */
static int hash_block(struct weir_file *file, struct weir__hash *h, void *block,
		      uint64_t off, uint64_t n)
{
	const unsigned char *mapped = weir__lease_get(file, off, n);
	int r = mapped ? 0 : weir__file_read(file, block, n, off);

	if (r >= 0)
		weir__hash_update(h, mapped ? mapped : block, n);
	if (mapped)
		weir__lease_drop(file, mapped, n);
	return r;
}

static int hash_file(struct weir_file *file, struct weir__hash *h, void *block,
		     uint64_t block_bytes)
{
	uint64_t bytes = file->id.bytes, asked = 0;
	int r = 0;

	for (uint64_t off = 0; off < bytes && r >= 0; off += block_bytes) {
		uint64_t n = bytes - off;

		for (; !file->object && asked < bytes && asked < off + AHEAD;
		     asked += BLOCK_BYTES)
			weir__sys_fetch(file->fd, asked, BLOCK_BYTES);
		if (n > block_bytes)
			n = block_bytes;
		r = hash_block(file, h, block, off, n);
	}
	return r < 0 ? r : weir__file_unchanged(file);
}

int weir_file_digest(struct weir_file *file, enum weir_digest kind,
		     uint8_t ret_digest[32])
{
	const uint64_t bytes = file->object ? OBJECT_BYTES : BLOCK_BYTES;
	struct weir__hash h = { 0 };
	void *block;
	int r;

	WEIR__ENTER();
	r = weir__root_enter(file->weir);
	if (r >= 0)
		r = weir__digest_check((int)kind);
	if (r < 0)
		return r;
	if (file->id.bytes >= LEASE_BYTES)
		weir__file_lease(file);
	block = weir__malloc(bytes);
	if (!block || weir__hash_start(&h, kind) < 0)
		r = weir__fail(-ENOMEM, "%s: no memory for a digest",
			       file->base);
	else
		r = hash_file(file, &h, block, bytes);
	if (r >= 0)
		r = weir__hash_finish(&h, ret_digest);
	weir__hash_drop(&h);
	weir__free(block);
	return r;
}
