/* SPDX-License-Identifier: MIT */
#include "model/save/save_item.h"

#include <errno.h>
#include <string.h>

#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"
#include "dev/dev.h"
#include "io/file.h"
#include "mem/buf.h"
#include "mem/convert.h"
#include "mem/dtype.h"
#include "mem/tensor.h"
#include "model/format/model.h"

/* Source bytes of one step of a conversion: they stay in the CPU's cache. */
#define PIECE (64u << 10)
/*
 * Rows with such gaps are read by one call: the gap takes less time than a
 * call of read(2), or a copy from a device.
 */
#define FILE_GAP 3072u
#define DEVICE_GAP (32u << 10)
/* The longest unit of a conversion: a block of 256 elements of 8 bytes. */
#define UNIT_MAX 2048u

typedef unsigned long long ull; /* for printf */

static const char *label(const struct weir__save_item *item)
{
	return weir__tensor_label(&item->t);
}

/* Choose the conversion, and set what the item produces. */
static int item_begin(struct weir__save_item *item, uint32_t dtype)
{
	const struct weir_tensor *t = &item->t;
	const struct weir_dtype_info *info = weir__dtype(t->dtype);
	uint64_t n = 1, bytes;

	if (dtype && dtype != t->dtype) {
		if (!weir__dtype(dtype))
			return weir__fail(-EINVAL, "%s: %u is not a dtype",
					  label(item), dtype);
		item->convert = weir__convert_find(t->dtype, dtype);
		if (!item->convert)
			return weir__fail(-EINVAL,
					  "%s: %s cannot be converted to %s",
					  label(item), info->name,
					  weir__dtype(dtype)->name);
	}
	for (unsigned i = 0; i < t->ndim; i++)
		n *= (uint64_t)t->shape[i];
	bytes = n / info->block * info->bytes;
	item->bytes = bytes;
	if (!item->convert)
		return 0;
	if (bytes % item->convert->src_bytes ||
	    (t->ndim && (uint64_t)t->shape[t->ndim - 1] / info->block *
				info->bytes % item->convert->src_bytes))
		return weir__fail(
			-EINVAL,
			"%s: the last dimension of %lld elements is not whole blocks of %s",
			label(item),
			t->ndim ? (long long)t->shape[t->ndim - 1] : 1,
			weir__dtype(dtype)->name);
	item->bytes =
		bytes / item->convert->src_bytes * item->convert->dst_bytes;
	return 0;
}

/* The bytes of the tensor, from its first element on. */
struct source {
	unsigned char *addr;  /* of a file: NULL */
	struct weir_dev *dev; /* whose memory it is; NULL: host memory */
};

static int find_source(const struct weir__save_item *item, struct source *ret)
{
	struct weir_tensor flat =
		weir__flat_tensor(item->t.buf, item->t.offset, item->span);
	struct weir_buf *member;
	uint64_t at;
	int r;

	*ret = (struct source){ .addr = NULL };
	if (item->model)
		return 0;
	flat.name = item->t.name;
	r = weir__tensor_range(&flat, 0, item->span, &member, &at, &ret->addr);
	if (r >= 0 && !weir__buf_is_host(member))
		ret->dev = member->buft->dev;
	return r;
}

int weir__save_item_memory(struct weir__save_item *item, struct weir *weir,
			   const struct weir_tensor *t, uint32_t dtype)
{
	struct source from;
	uint64_t bytes;
	int r;

	*item = (struct weir__save_item){ .t = *t };
	r = weir__tensor_bytes(t, &bytes);
	if (r < 0)
		return r;
	if (!t->buf)
		return weir__fail(-EINVAL, "%s: not placed", label(item));
	if (t->buf->buft->dev->weir != weir)
		return weir__fail(-EINVAL, "%s: its memory is of another root",
				  label(item));
	item->span = bytes;
	r = find_source(item, &from);
	if (r >= 0)
		r = item_begin(item, dtype);
	if (r < 0)
		return r;
	item->outer = weir__tensor_outer(t, &item->width);
	weir_buf_ref(t->buf);
	return 0;
}

/* The tensor of record @rec, as the model has it. */
static int record_tensor(const struct weir_model *m,
			 const struct weir__record *rec, struct weir_tensor *t)
{
	int r = weir__tensor_init(t, rec->dtype, rec->ndim,
				  m->dims + rec->shape);

	t->name = m->text + rec->name;
	return r;
}

static int check_view(const struct weir_model *m,
		      const struct weir__record *rec,
		      const struct weir_tensor *view)
{
	const char *name = weir__quote(m->text + rec->name, rec->name_len);
	uint64_t bytes;
	int r = weir__tensor_bytes(view, &bytes);

	if (r < 0)
		return r;
	if (view->dtype != rec->dtype)
		return weir__fail(-EINVAL,
				  "tensor '%s': its view has another dtype",
				  name);
	if (view->buf)
		return weir__fail(-EINVAL,
				  "tensor '%s': its view is placed in memory",
				  name);
	if (view->offset > rec->bytes || bytes > rec->bytes - view->offset)
		return weir__fail(
			-EINVAL,
			"tensor '%s': a view of %llu bytes from %llu on exceeds its %llu",
			name, (ull)bytes, (ull)view->offset, (ull)rec->bytes);
	return 0;
}

int weir__save_item_file(struct weir__save_item *item, struct weir_model *model,
			 size_t i, const struct weir_tensor *view,
			 uint32_t dtype)
{
	const struct weir__record *rec;
	int r;

	*item = (struct weir__save_item){ 0 };
	if (i >= model->n_recs)
		return weir__fail(-EINVAL, "tensor %zu of %zu of %s", i,
				  model->n_recs, model->path);
	rec = &model->rec[i];
	r = record_tensor(model, rec, &item->t);
	if (r >= 0 && view) {
		r = check_view(model, rec, view);
		if (r >= 0)
			item->t = *view;
		item->t.name = model->text + rec->name;
	}
	if (r >= 0)
		r = item_begin(item, dtype);
	if (r < 0)
		return r;
	item->outer = weir__tensor_outer(&item->t, &item->width);
	item->t.offset += rec->off;
	item->file = model->file[rec->shard];
	item->model = weir__model_ref(model);
	return 0;
}

void weir__save_item_free(struct weir__save_item *item)
{
	weir__model_put(item->model);
	weir_buf_free(item->t.buf);
	item->model = NULL;
	item->t.buf = NULL;
}

unsigned char *weir__save_item_address(const struct weir__save_item *item,
				       uint64_t at)
{
	struct source from;

	if (item->model || item->convert || item->width != item->bytes ||
	    find_source(item, &from) < 0 || from.dev)
		return NULL;
	return from.addr + at;
}

static int read_file(const struct weir__save_item *item, uint64_t off,
		     uint64_t n, unsigned char *dst)
{
	struct weir_file *file = item->file;
	int r = weir__file_read(file, dst, n, off);

	if (r >= 0 && item->drop)
		weir__sys_drop_cache(file->fd, off, n);
	return r;
}

/* Bytes [off, off + n) of the source, to @dst. */
static int get_bytes(const struct weir__save_item *item,
		     const struct source *from, uint64_t off, uint64_t n,
		     unsigned char *dst)
{
	struct weir_dev *dev = from->dev;

	if (item->model)
		return read_file(item, item->t.offset + off, n, dst);
	if (dev)
		return weir__cause_errno(weir__dev_result(
			dev, "mem->get",
			dev->backend->mem->get(dev, dst, from->addr + off, n)));
	memcpy(dst, from->addr + off, n);
	return 0;
}

/* The next row of a tensor. */
struct place {
	int64_t index[WEIR_MAX_DIMS];
	uint64_t off; /* of its first byte in the source */
};

static void place_row(const struct weir__save_item *item, uint64_t row,
		      struct place *ret)
{
	const struct weir_tensor *t = &item->t;

	ret->off = 0;
	for (unsigned i = item->outer; i--;) {
		uint64_t n = weir__tensor_steps(t, i);

		ret->index[i] = (int64_t)(row % n);
		ret->off += (uint64_t)ret->index[i] * (uint64_t)t->stride[i];
		row /= n;
	}
}

static void next_row(const struct weir__save_item *item, struct place *at)
{
	weir__tensor_next_row(&item->t, item->outer, at->index, &at->off);
}

/*
 * Returns how many whole rows from @at on, at most @most, one call reads with
 * the gaps between them; 1 if none but the first.
 */
static uint64_t count_near(const struct weir__save_item *item,
			   const struct source *from, struct place at,
			   uint64_t most)
{
	const uint64_t gap = from->dev ? DEVICE_GAP : FILE_GAP;
	const uint64_t begin = at.off;
	uint64_t n = 1, end = begin + item->width;

	for (; n < most; n++) {
		next_row(item, &at);
		if (at.off < end || at.off - end > gap ||
		    at.off + item->width - begin > PIECE)
			break;
		end = at.off + item->width;
	}
	return n;
}

/* @n rows from *at on, which are near. Moves *at past them. */
static int gather_near(const struct weir__save_item *item,
		       const struct source *from, struct place *at, uint64_t n,
		       unsigned char *dst)
{
	const uint64_t begin = at->off;
	unsigned char piece[PIECE];
	struct place last = *at;
	int r;

	for (uint64_t i = 1; i < n; i++)
		next_row(item, &last);
	r = get_bytes(item, from, begin, last.off + item->width - begin, piece);
	for (uint64_t i = 0; r >= 0 && i < n; i++) {
		memcpy(dst + i * item->width, piece + (at->off - begin),
		       item->width);
		next_row(item, at);
	}
	return r;
}

/* Bytes [lo, hi) of the tensor, without gaps, to @dst. */
static int gather(const struct weir__save_item *item, uint64_t lo, uint64_t hi,
		  unsigned char *dst)
{
	uint64_t col = lo % item->width;
	struct source from;
	struct place at;
	int r = find_source(item, &from);

	place_row(item, lo / item->width, &at);
	while (lo < hi && r >= 0) {
		uint64_t n = item->width - col, rows = (hi - lo) / item->width;

		if (n > hi - lo)
			n = hi - lo;
		if (!col && rows > 1 && (from.dev || item->model))
			rows = count_near(item, &from, at, rows);
		else
			rows = 1;
		if (rows > 1) {
			n = rows * item->width;
			r = gather_near(item, &from, &at, rows, dst);
		} else {
			r = get_bytes(item, &from, at.off + col, n, dst);
			next_row(item, &at);
		}
		lo += n;
		dst += n;
		col = 0;
	}
	return r;
}

/* Units [first, first + n) of the conversion, to @dst. */
static int convert_units(const struct weir__save_item *item, uint64_t first,
			 uint64_t n, unsigned char *dst)
{
	const struct weir_backend_convert *c = item->convert;
	const uint64_t most = PIECE / c->src_bytes;
	unsigned char piece[PIECE];
	int r = 0;

	while (n && r >= 0) {
		uint64_t take = n < most ? n : most;

		r = gather(item, first * c->src_bytes,
			   (first + take) * c->src_bytes, piece);
		if (r >= 0)
			c->run(dst, piece, take);
		first += take;
		n -= take;
		dst += take * c->dst_bytes;
	}
	return r;
}

/* Bytes [lo, hi) of the result, which begin or end inside a unit. */
static int convert_part(const struct weir__save_item *item, uint64_t lo,
			uint64_t hi, unsigned char *dst)
{
	const uint64_t bytes = item->convert->dst_bytes;
	unsigned char unit[UNIT_MAX];
	int r = convert_units(item, lo / bytes, 1, unit);

	if (r >= 0)
		memcpy(dst, unit + lo % bytes, hi - lo);
	return r;
}

static int convert_bytes(const struct weir__save_item *item, uint64_t lo,
			 uint64_t hi, unsigned char *dst)
{
	const uint64_t unit = item->convert->dst_bytes;
	uint64_t body = lo + (unit - lo % unit) % unit;
	uint64_t tail = hi - hi % unit;
	int r = 0;

	if (lo % unit) {
		uint64_t end = body < hi ? body : hi;

		r = convert_part(item, lo, end, dst);
		dst += end - lo;
		lo = end;
	}
	if (r >= 0 && lo < tail) {
		r = convert_units(item, lo / unit, (tail - lo) / unit, dst);
		dst += tail - lo;
		lo = tail;
	}
	return r >= 0 && lo < hi ? convert_part(item, lo, hi, dst) : r;
}

int weir__save_item_produce(const struct weir__save_item *item, uint64_t lo,
			    uint64_t hi, unsigned char *dst)
{
	if (lo == hi)
		return 0;
	return item->convert ? convert_bytes(item, lo, hi, dst)
			     : gather(item, lo, hi, dst);
}
