/* SPDX-License-Identifier: MIT */
/*
 * Buffers of reserved addresses, for heaps: memory is committed to parts of
 * them and given back. Only committed bytes count towards budgets.
 */
#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"
#include "mem/buf.h"

/* The parts of a buffer that have memory, in granules. */
struct weir__reserved {
	size_t granule;
	_Atomic uint64_t committed; /* bytes */
	_Atomic uint64_t word[];    /* one bit for each granule */
};

static int reserve_mem(struct weir_buf *buf, const struct weir_buf_opts *o,
		       size_t *ret_granule)
{
	struct weir_buft *buft = buf->buft;
	struct weir_dev *dev = buft->dev;
	const struct weir_backend_mem_ops *ops = dev->backend->mem;
	int r;

	if (o->flags & WEIR_BUF_PARKABLE)
		return weir__fail(
			-EOPNOTSUPP,
			"memory of %s that is committed in parts cannot be parked as a whole",
			buft->desc.name);
	if (o->flags & WEIR_BUF_SHARED)
		return weir__fail(
			-EOPNOTSUPP,
			"memory of %s that is committed in parts cannot be shared",
			buft->desc.name);
	if (!ops->reserve)
		return weir__fail(-EOPNOTSUPP,
				  "memory of %s cannot be committed in parts",
				  buft->desc.name);
	r = weir__dev_use(dev);
	if (r < 0)
		return r;
	r = ops->reserve(dev, &buft->desc, buf->bytes, o, &buf->mem,
			 ret_granule);
	return weir__dev_result(dev, "mem->reserve", r);
}

static int make_map(struct weir_buf *buf, size_t granule)
{
	size_t words;

	if (!granule || granule & (granule - 1) || granule > buf->bytes ||
	    (uintptr_t)buf->mem.base & (granule - 1))
		return weir__fail(
			-EOPNOTSUPP,
			"memory of %s is committed in parts of %zu bytes, which do not divide %zu bytes at %p",
			buf->buft->desc.name, granule, buf->bytes,
			(void *)buf->mem.base);
	words = buf->bytes / granule / 64 + 1;
	buf->reserved = weir__calloc(1, sizeof(*buf->reserved) +
						words * sizeof(uint64_t));
	if (!buf->reserved)
		return weir__fail(-ENOMEM, "no memory for a buffer's object");
	buf->reserved->granule = granule;
	return 0;
}

int weir__buf_reserve(struct weir_buft *buft, size_t size,
		      const struct weir_buf_opts *opts, size_t *ret_granule,
		      struct weir_buf **ret_buf)
{
	struct weir_buf *buf;
	int r = weir__buf_check_alloc(buft, size, opts);

	if (r < 0)
		return r;
	buf = weir__buf_new(buft, size);
	if (!buf)
		return weir__fail(-ENOMEM, "no memory for a buffer's object");
	r = reserve_mem(buf, opts, ret_granule);
	if (r < 0) {
		weir__buf_drop(buf);
		return r;
	}
	r = make_map(buf, *ret_granule);
	if (r < 0) {
		buft->dev->backend->mem->free(buft->dev, &buft->desc, size,
					      &buf->mem);
		weir__buf_drop(buf);
		return r;
	}
	buf->mem.got |= WEIR_GOT_OWNED;
	*ret_buf = buf;
	return 0;
}

/* Set the bits of the granules of a part. */
static void map_set(struct weir__reserved *p, size_t off, size_t bytes,
		    bool there)
{
	size_t end = (off + bytes) / p->granule;

	for (size_t i = off / p->granule; i < end; i++) {
		uint64_t bit = 1ull << i % 64;

		if (there)
			atomic_fetch_or(&p->word[i / 64], bit);
		else
			atomic_fetch_and(&p->word[i / 64], ~bit);
	}
}

static int charge_and_commit(struct weir_buf *buf, size_t off, size_t bytes)
{
	struct weir_dev *dev = buf->buft->dev;
	int r = weir__buft_charge(buf->buft, bytes);

	if (r < 0)
		return r;
	r = weir__dev_result(dev, "mem->commit",
			     dev->backend->mem->commit(dev, &buf->buft->desc,
						       &buf->mem, off, bytes));
	if (r < 0)
		atomic_fetch_sub(&buf->buft->used, bytes);
	return r;
}

int weir__buf_commit(struct weir_buf *buf, size_t off, size_t bytes)
{
	struct weir__shortage shortage;
	int r;

	weir__shortage_begin(&shortage, buf->buft->dev->weir, buf->buft, bytes);
	do
		r = charge_and_commit(buf, off, bytes);
	while (weir__shortage_again(&shortage, r));
	if (r < 0)
		return r;
	atomic_fetch_add(&buf->reserved->committed, bytes);
	map_set(buf->reserved, off, bytes, true);
	return 0;
}

int weir__buf_decommit(struct weir_buf *buf, size_t off, size_t bytes)
{
	struct weir_dev *dev = buf->buft->dev;
	int r;

	map_set(buf->reserved, off, bytes, false);
	r = weir__dev_result(dev, "mem->decommit",
			     dev->backend->mem->decommit(dev, &buf->buft->desc,
							 &buf->mem, off,
							 bytes));
	if (r < 0) {
		map_set(buf->reserved, off, bytes, true);
		return r;
	}
	atomic_fetch_sub(&buf->reserved->committed, bytes);
	atomic_fetch_sub(&buf->buft->used, bytes);
	weir__memory_moved(dev);
	return 0;
}

size_t weir__buf_committed(const struct weir_buf *buf)
{
	return buf->reserved ? atomic_load(&buf->reserved->committed)
			     : buf->bytes;
}

int weir__buf_check_parts(const struct weir_buf *buf, uint64_t off, uint64_t n)
{
	const struct weir__reserved *p = buf->reserved;

	if (!n)
		return 0;
	for (uint64_t i = off / p->granule; i <= (off + n - 1) / p->granule;
	     i++)
		if (!(atomic_load_explicit(&p->word[i / 64],
					   memory_order_relaxed) >>
			      i % 64 &
		      1))
			return weir__fail(
				-EINVAL,
				"not all of the %llu bytes from byte %llu on are in used blocks of the heap: there is no memory",
				(unsigned long long)n, (unsigned long long)off);
	return 0;
}
