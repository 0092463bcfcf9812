/* SPDX-License-Identifier: MIT */
/* Joined buffers: making one of several, and finding the member of a range. */
#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"
#include "dev/dev.h"
#include "mem/buf.h"

static int check_join(struct weir_buf *const *bufs, unsigned n,
		      uint64_t *ret_bytes)
{
	uint64_t sum = 0;

	if (!n || !bufs)
		return weir__fail(-EINVAL, "no buffers to join");
	for (unsigned i = 0; i < n; i++) {
		if (!bufs[i] || bufs[i]->member)
			return weir__fail(-EINVAL, "buffer %u of %u is %s", i,
					  n, bufs[i] ? "joined" : "NULL");
		if (bufs[i]->buft->dev != bufs[0]->buft->dev)
			return weir__fail(
				-EINVAL,
				"buffer %u is memory of %s, the first of %s", i,
				bufs[i]->buft->dev->desc.name,
				bufs[0]->buft->dev->desc.name);
		if (weir__add_over(sum, bufs[i]->bytes, &sum) ||
		    sum > INT64_MAX)
			return weir__fail(
				-EOVERFLOW,
				"the first %u of %u buffers have over 2^63 - 1 bytes",
				i + 1, n);
	}
	*ret_bytes = sum;
	return 0;
}

int weir__buf_join(struct weir_buf *const *bufs, unsigned n,
		   struct weir_buf **ret_buf)
{
	struct weir_buf *buf;
	uint64_t bytes = 0, at = 0;
	int r = check_join(bufs, n, &bytes);

	if (r < 0 || (r = weir__root_enter(bufs[0]->buft->dev->weir)) < 0)
		return r;
	buf = weir__buf_new(bufs[0]->buft, bytes);
	if (!buf)
		return weir__fail(-ENOMEM, "no memory for a buffer's object");
	buf->member = weir__calloc(n, sizeof(struct weir_buf *));
	buf->member_at = weir__calloc(n, sizeof(*buf->member_at));
	if (!buf->member || !buf->member_at) {
		weir__buf_drop(buf);
		return weir__fail(-ENOMEM, "no memory for %u members", n);
	}
	for (unsigned i = 0; i < n; i++) {
		buf->member[i] = weir_buf_ref(bufs[i]);
		buf->member_at[i] = at;
		at += bufs[i]->bytes;
	}
	buf->n_members = n;
	*ret_buf = buf;
	return 0;
}

int weir_buf_join(struct weir_buf *const *bufs, unsigned n,
		  struct weir_buf **ret_buf)
{
	WEIR__ENTER();
	return weir__buf_join(bufs, n, ret_buf);
}

struct weir_buf *weir_buf_member(struct weir_buf *buf, unsigned i)
{
	if (i >= buf->n_members || !weir__root_is_ours(buf->buft->dev->weir))
		return NULL;
	return buf->member[i];
}

/* The last member whose offset is at most @off. */
static unsigned member_of(const struct weir_buf *buf, uint64_t off)
{
	unsigned lo = 0, hi = buf->n_members;

	while (hi - lo > 1) {
		unsigned mid = lo + (hi - lo) / 2;

		if (buf->member_at[mid] <= off)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

int weir__buf_range(struct weir_buf *buf, uint64_t off, uint64_t n,
		    struct weir_buf **ret_member, uint64_t *ret_off)
{
	uint64_t at;
	unsigned i;

	if (off > buf->bytes || n > buf->bytes - off)
		return weir__fail(
			-EINVAL,
			"%llu bytes from byte %llu on, the buffer has %zu",
			(unsigned long long)n, (unsigned long long)off,
			buf->bytes);
	if (!buf->member) {
		*ret_member = buf;
		*ret_off = off;
		return 0;
	}
	i = member_of(buf, off);
	at = off - buf->member_at[i];
	if (n > buf->member[i]->bytes - at)
		return weir__fail(
			-EINVAL,
			"%llu bytes from byte %llu on, of which member %u of %u has %llu",
			(unsigned long long)n, (unsigned long long)off, i,
			buf->n_members,
			(unsigned long long)(buf->member[i]->bytes - at));
	*ret_member = buf->member[i];
	*ret_off = at;
	return 0;
}
