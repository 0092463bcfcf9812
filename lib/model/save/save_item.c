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
/* The same of a device, of which a copy takes longer to begin. */
#define DEVICE_PIECE (1u << 20)
/*
 * Rows with such gaps are read by one call: the gap takes less time than a
 * call of read(2), or a copy from a device.
 */
#define FILE_GAP 3072u
#define DEVICE_GAP (32u << 10)
/* The longest unit of a conversion: a block of 256 elements of 8 bytes. */
#define UNIT_MAX 2048u

typedef unsigned long long ull; /* an argument of printf */

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
	unsigned char *addr;  /* NULL if it is in a file */
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

/* Copy bytes [off, off + n) of the source to @dst. */
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

/*
 * The rows of a box, in the order of their addresses: so rows of a transposed
 * tensor that are near are found one after the other. Rows outside [lo, hi),
 * numbers in the order of the tensor, are passed over.
 */
struct walk {
	unsigned n;
	struct walk_dim {
		uint64_t n, stride; /* bytes in the source */
		uint64_t rows; /* rows of the tensor from one to the next */
	} dim[WEIR_MAX_DIMS];  /* the largest stride first */
	uint64_t index[WEIR_MAX_DIMS];
	uint64_t off, row, lo, hi;
};

static void add_dim(struct walk *w, struct walk_dim dim, bool sorted)
{
	unsigned i = w->n++;

	for (; sorted && i && w->dim[i - 1].stride < dim.stride; i--)
		w->dim[i] = w->dim[i - 1];
	w->dim[i] = dim;
}

/* Go to the next row, also one that is passed over. False: there is none. */
static bool walk_step(struct walk *w)
{
	for (unsigned i = w->n; i--;) {
		const struct walk_dim *dim = &w->dim[i];

		if (++w->index[i] < dim->n) {
			w->off += dim->stride;
			w->row += dim->rows;
			return true;
		}
		w->index[i] = 0;
		w->off -= dim->stride * (dim->n - 1);
		w->row -= dim->rows * (dim->n - 1);
	}
	return false;
}

static bool walk_next(struct walk *w)
{
	do
		if (!walk_step(w))
			return false;
	while (w->row < w->lo || w->row >= w->hi);
	return true;
}

/*
 * Begin with the first of rows [lo, hi) of the tensor, in the order of their
 * addresses if @sorted.
 */
static void walk_begin(const struct weir__save_item *item, uint64_t lo,
		       uint64_t hi, bool sorted, struct walk *w)
{
	const struct weir_tensor *t = &item->t;
	uint64_t rows = 1, first = lo, last = hi - 1;

	*w = (struct walk){ .lo = lo, .hi = hi };
	for (unsigned i = 0; i < item->outer; i++)
		rows *= weir__tensor_steps(t, i);
	for (unsigned i = 0; i < item->outer; i++) {
		struct walk_dim dim = { weir__tensor_steps(t, i),
					(uint64_t)t->stride[i], 0 };
		uint64_t from = 0;

		rows /= dim.n;
		dim.rows = rows;
		/* Dimensions after one that is divided are whole. */
		if (!w->n) {
			from = first / rows;
			dim.n = last / rows - from + 1;
			first %= rows;
			last %= rows;
		}
		w->off += from * dim.stride;
		w->row += from * dim.rows;
		if (dim.n > 1)
			add_dim(w, dim, sorted);
	}
	if (w->row < lo)
		walk_next(w);
}

/* Reads rows of a tensor; rows that are near each other are read at once. */
struct row_reader {
	const struct weir__save_item *item;
	struct source from;
	unsigned char *piece; /* room bytes, or NULL */
	uint64_t room, gap;
};

static bool is_near(const struct row_reader *g, uint64_t begin, uint64_t end,
		    uint64_t off)
{
	return off >= begin && (off <= end || off - end <= g->gap) &&
	       off + g->item->width - begin <= g->room;
}

/* Read [begin, end) of the source, which has @n rows from @w on. */
static int read_near(const struct row_reader *g, struct walk *w, uint64_t n,
		     uint64_t begin, uint64_t end, unsigned char *dst)
{
	const uint64_t width = g->item->width;
	int r = get_bytes(g->item, &g->from, begin, end - begin, g->piece);

	for (uint64_t i = 0; r >= 0 && i < n; i++) {
		memcpy(dst + (w->row - w->lo) * width,
		       g->piece + (w->off - begin), width);
		walk_next(w);
	}
	return r;
}

/* Copy rows [lo, hi), of which there is one at least, to @dst. */
static int gather_rows(const struct row_reader *g, uint64_t lo, uint64_t hi,
		       unsigned char *dst)
{
	const uint64_t width = g->item->width;
	bool more = true;
	struct walk w;
	int r = 0;

	walk_begin(g->item, lo, hi, g->room, &w);
	while (more && r >= 0) {
		const uint64_t begin = w.off;
		uint64_t end = begin + width, n = 1;
		struct walk first = w;

		while ((more = walk_next(&w)) &&
		       is_near(g, begin, end, w.off)) {
			n++;
			if (w.off + width > end)
				end = w.off + width;
		}
		r = n > 1 ? read_near(g, &first, n, begin, end, dst)
			  : get_bytes(g->item, &g->from, begin, width,
				      dst + (first.row - lo) * width);
	}
	return r;
}

/* The offset of a row in the source. */
static uint64_t row_at(const struct weir__save_item *item, uint64_t row)
{
	const struct weir_tensor *t = &item->t;
	uint64_t off = 0;

	for (unsigned i = item->outer; i--;) {
		uint64_t n = weir__tensor_steps(t, i);

		off += row % n * (uint64_t)t->stride[i];
		row /= n;
	}
	return off;
}

/* Copy bytes [lo, hi) of one row to @dst. */
static int gather_part(const struct row_reader *g, uint64_t lo, uint64_t hi,
		       unsigned char *dst)
{
	const uint64_t width = g->item->width;

	return get_bytes(g->item, &g->from,
			 row_at(g->item, lo / width) + lo % width, hi - lo,
			 dst);
}

/* Copy bytes [lo, hi) of the tensor to @dst, by @g. */
static int gather_by(const struct row_reader *g, uint64_t lo, uint64_t hi,
		     unsigned char *dst)
{
	const uint64_t width = g->item->width;
	uint64_t from = (lo + width - 1) / width, to = hi / width;
	int r = 0;

	if (from > to)
		return gather_part(g, lo, hi, dst);
	if (lo < from * width)
		r = gather_part(g, lo, from * width, dst);
	if (r >= 0 && from < to)
		r = gather_rows(g, from, to, dst + (from * width - lo));
	if (r >= 0 && to * width < hi)
		r = gather_part(g, to * width, hi, dst + (to * width - lo));
	return r;
}

/* Copy bytes [lo, hi) of the tensor, without gaps, to @dst. */
static int gather(const struct weir__save_item *item, uint64_t lo, uint64_t hi,
		  unsigned char *dst)
{
	struct row_reader g = { .item = item };
	int r = find_source(item, &g.from);

	if (r < 0)
		return r;
	if ((g.from.dev || item->model) && hi - lo > item->width) {
		g.gap = g.from.dev ? DEVICE_GAP : FILE_GAP;
		g.room = g.from.dev ? DEVICE_PIECE : PIECE;
		g.piece = weir__malloc(g.room);
		/* Without memory each row is read by itself. */
		if (!g.piece)
			g.room = 0;
	}
	r = gather_by(&g, lo, hi, dst);
	weir__free(g.piece);
	return r;
}

/* Convert units [first, first + n), to @dst. */
static int convert_units(const struct weir__save_item *item, uint64_t first,
			 uint64_t n, unsigned char *dst)
{
	const struct weir_backend_convert *c = item->convert;
	const bool host = item->model || weir__buf_is_host(item->t.buf);
	const uint64_t most = (host ? PIECE : DEVICE_PIECE) / c->src_bytes;
	unsigned char *piece =
		weir__malloc((n < most ? n : most) * c->src_bytes);
	int r = piece ? 0
		      : weir__fail(-ENOMEM, "no memory to convert %llu bytes",
				   (ull)(n * c->src_bytes));

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
	weir__free(piece);
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

uint64_t weir__save_item_step(const struct weir__save_item *item)
{
	const struct weir_backend_convert *c = item->convert;
	const bool host = item->model || weir__buf_is_host(item->t.buf);

	if (!c)
		return DEVICE_PIECE;
	return (host ? PIECE : DEVICE_PIECE) / c->src_bytes * c->dst_bytes;
}

int weir__save_item_produce(const struct weir__save_item *item, uint64_t lo,
			    uint64_t hi, unsigned char *dst)
{
	if (lo == hi)
		return 0;
	return item->convert ? convert_bytes(item, lo, hi, dst)
			     : gather(item, lo, hi, dst);
}
