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
		item->convert = weir__convert_find(t->dtype, dtype);
		if (!weir__dtype(dtype))
			return weir__fail(-EINVAL, "%s: %u is not a dtype",
					  label(item), dtype);
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

int weir__save_item_memory(struct weir__save_item *item, struct weir *weir,
			   const struct weir_tensor *t, uint32_t dtype)
{
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
	if (t->offset > t->buf->bytes || bytes > t->buf->bytes - t->offset)
		return weir__fail(
			-EINVAL,
			"%s: %llu bytes from %llu on exceed its buffer of %zu",
			label(item), (ull)bytes, (ull)t->offset, t->buf->bytes);
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

/* Bytes [off, off + n) of the buffer, counted as t.offset is. */
static int locate(const struct weir__save_item *item, uint64_t off, uint64_t n,
		  struct weir_buf **ret_member, unsigned char **ret_addr)
{
	struct weir_tensor flat = weir__flat_tensor(item->t.buf, off, n);
	uint64_t at;

	return weir__tensor_range(&flat, 0, n, ret_member, &at, ret_addr);
}

unsigned char *weir__save_item_address(const struct weir__save_item *item,
				       uint64_t at)
{
	const uint64_t n = item->bytes - at;
	struct weir_buf *member;
	unsigned char *addr;

	if (item->model || item->convert || !n || item->width != item->bytes ||
	    locate(item, item->t.offset + at, n, &member, &addr) < 0 ||
	    !weir__buf_is_host(member))
		return NULL;
	return addr;
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

/* Bytes [off, off + n) of one row, counted as t.offset is, to @dst. */
static int get_bytes(const struct weir__save_item *item, uint64_t off,
		     uint64_t n, unsigned char *dst)
{
	struct weir_buf *member;
	struct weir_dev *dev;
	unsigned char *addr;
	int r;

	if (item->model)
		return read_file(item, off, n, dst);
	r = locate(item, off, n, &member, &addr);
	if (r < 0)
		return r;
	dev = member->buft->dev;
	if (!weir__buf_is_host(member))
		return weir__cause_errno(weir__dev_result(
			dev, "mem->get",
			dev->backend->mem->get(dev, dst, addr, n)));
	memcpy(dst, addr, n);
	return 0;
}

/* The place of row @row: its index in each outer dimension, and its offset. */
static uint64_t row_place(const struct weir__save_item *item, uint64_t row,
			  int64_t index[WEIR_MAX_DIMS])
{
	const struct weir_tensor *t = &item->t;
	uint64_t off = 0;

	for (unsigned i = item->outer; i--;) {
		uint64_t n = weir__tensor_steps(t, i);

		index[i] = (int64_t)(row % n);
		off += (uint64_t)index[i] * (uint64_t)t->stride[i];
		row /= n;
	}
	return off;
}

/* Bytes [lo, hi) of the source, without gaps, to @dst. */
static int gather(const struct weir__save_item *item, uint64_t lo, uint64_t hi,
		  unsigned char *dst)
{
	int64_t index[WEIR_MAX_DIMS];
	uint64_t col = lo % item->width;
	uint64_t row = row_place(item, lo / item->width, index);
	int r = 0;

	while (lo < hi && r >= 0) {
		uint64_t n = item->width - col;

		if (n > hi - lo)
			n = hi - lo;
		r = get_bytes(item, item->t.offset + row + col, n, dst);
		lo += n;
		dst += n;
		col = 0;
		weir__tensor_next_row(&item->t, item->outer, index, &row);
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
