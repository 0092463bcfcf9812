/* SPDX-License-Identifier: MIT */
/*
 * The choice of how a product is computed; products of rows as they are stored,
 * or as F32, and by panels.
 */
#include "kernels/product.h"

#include <string.h>
#include <time.h>
#include <weir/ops.h>

#include "kernels/ahead.h"
#include "kernels/floats.h"
#include "kernels/kernels.h"

#define FLOATS_BYTES (256u << 10) /* bytes of the rows that are F32 at a time */
#define PREFETCH_COLUMNS WEIR__DOT_COLS /* with fewer, memory is the limit */
/*
 * With this many columns tiles are faster: than rows as they are stored, and
 * than rows that have to be converted anyway.
 */
#define TILES_COLUMNS 9u
#define TILES_CONVERTED 4u

#define PANEL_ROWS 192u /* the most rows that are best computed together */
/*
 * Panels are computed this many elements of each row at a time: so this part of
 * a set of columns stays in the first cache, and the rows in the second.
 */
#define PANEL_K 256u

/* The scratch memory of a thread for panels. */
struct panel_room {
	float lines[WEIR__DOT_WIDTH *
		    PANEL_K]; /* rows before they are packed */
	float rows[PANEL_ROWS * PANEL_K];
	float sums[PANEL_ROWS * WEIR__PRODUCT_COLUMNS];
};

static void plan_dot(struct weir__product *p)
{
	size_t units = (p->k + WEIR__DOT_UNIT - 1) / WEIR__DOT_UNIT;

	p->rows = WEIR__DOT_ROWS;
	p->least_rows = 4;
	p->ready = p->dot->form == WEIR__DOT_F32;
	p->set_bytes = p->ready ? weir__line_up(p->k * sizeof(float))
				: units * sizeof(struct weir__dot_q8);
}

static void plan_floats(struct weir__product *p)
{
	size_t bytes = weir__line_up(p->k * sizeof(float));

	p->dot = weir__dot_in(p->set, WEIR_DTYPE_F32);
	p->rows = WEIR__DOT_ROWS;
	while (p->rows > 4 && p->rows * bytes > FLOATS_BYTES)
		p->rows /= 2;
	p->least_rows = 4;
	p->scratch = p->rows * bytes;
	p->ready = true;
	p->set_bytes = bytes;
}

static void plan_panels(struct weir__product *p)
{
	const struct weir__dot_panel *panel = p->set->panel;

	p->rows = PANEL_ROWS;
	p->least_rows = 3 * WEIR__DOT_WIDTH;
	p->scratch = sizeof(struct panel_room);
	p->set_columns = panel->columns;
	p->set_bytes = weir__line_up(p->k * panel->columns * sizeof(float));
}

static void plan_tiles(struct weir__product *p)
{
	p->rows = WEIR__TILES_ROWS;
	p->least_rows = 2 * WEIR__TILES_COLUMNS;
	p->scratch = p->tiles->scratch;
	p->set_columns = WEIR__TILES_COLUMNS;
	p->set_bytes = p->tiles->set_bytes(p->dtype, p->k);
}

bool weir__product_plan_as(struct weir__product *p, enum weir__product_way way,
			   const struct weir__dot_set *set, uint32_t dtype,
			   size_t k)
{
	*p = (struct weir__product){ .way = way,
				     .dtype = dtype,
				     .k = k,
				     .set = set,
				     .dot = weir__dot_in(set, dtype),
				     .convert = weir__to_f32(dtype),
				     .tiles = weir__tiles(),
				     .set_columns = 1 };
	if (way == WEIR__PRODUCT_DOT && p->dot)
		plan_dot(p);
	else if (way == WEIR__PRODUCT_FLOATS && p->convert)
		plan_floats(p);
	else if (way == WEIR__PRODUCT_PANELS)
		plan_panels(p);
	else if (way == WEIR__PRODUCT_TILES && p->tiles && k)
		plan_tiles(p);
	else
		return false;
	return true;
}

/*
 * DOT and FLOATS compute the product of a row and a column in an order that
 * does not depend on the other columns. So products that may not depend on the
 * number of columns use one of them for any number.
 */
void weir__product_plan(struct weir__product *p, uint32_t dtype, size_t k,
			size_t columns, uint32_t precision)
{
	const struct weir__dot_set *set = weir__dot_set();
	const struct weir__dot *dot = weir__dot_in(set, dtype);
	bool bytes = dot && dot->form == WEIR__DOT_Q8;
	enum weir__product_way way = WEIR__PRODUCT_DOT;

	if (precision == WEIR_PRECISION_FAST) {
		if (columns >= (dot ? TILES_COLUMNS : TILES_CONVERTED) &&
		    weir__product_plan_as(p, WEIR__PRODUCT_TILES, set, dtype,
					  k))
			return;
		if (columns >= (bytes ? set->panels_bytes : set->panels_floats))
			way = WEIR__PRODUCT_PANELS;
	}
	if (way == WEIR__PRODUCT_DOT &&
	    (!dot || (bytes && precision == WEIR_PRECISION_F32)))
		way = WEIR__PRODUCT_FLOATS;
	weir__product_plan_as(p, way, set, dtype, k);
}

void weir__product_prepare(const struct weir__product *p, void *set,
			   const float *const *column, size_t n)
{
	if (p->way == WEIR__PRODUCT_TILES)
		p->tiles->prepare(p->dtype, p->k, set, column, n);
	else if (p->way == WEIR__PRODUCT_PANELS)
		p->set->panel->prepare(set, column, n, p->k);
	else if (p->dot->form == WEIR__DOT_F32)
		memcpy(set, column[0], p->k * sizeof(float));
	else
		p->set->quantise(set, column[0], p->k);
}

static struct weir__ahead stored_ahead; /* reading rows as they are stored */

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/*
 * Multiply rows in two halves, one of them prefetched. The faster one gets a
 * vote.
 */
static void dot_compare(const struct weir__product *p, float *const *dst,
			const unsigned char *a, size_t pitch, size_t half,
			const void *const *b, unsigned n)
{
	bool first = weir__ahead_first(&stored_ahead);
	size_t ahead[2] = { first ? WEIR__AHEAD : 0, first ? 0 : WEIR__AHEAD };
	float *second[WEIR__DOT_COLS];
	int64_t begun, middle, end;

	for (unsigned c = 0; c < n; c++)
		second[c] = dst[c] + half;
	begun = now();
	p->dot->run(dst, a, pitch, half, b, n, p->k, ahead[0]);
	middle = now();
	p->dot->run(second, a + half * pitch, pitch, half, b, n, p->k,
		    ahead[1]);
	end = now();
	weir__ahead_vote(&stored_ahead,
			 (middle - begun < end - middle) == first);
}

/* Multiply rows as they are stored with a few columns. */
static void dot_stored(const struct weir__product *p, float *const *dst,
		       const unsigned char *a, size_t pitch, size_t rows,
		       const void *const *b, unsigned n)
{
	if (weir__ahead_measures(&stored_ahead) && rows % 2 == 0 &&
	    rows * pitch >= WEIR__AHEAD_LEAST)
		dot_compare(p, dst, a, pitch, rows / 2, b, n);
	else
		p->dot->run(dst, a, pitch, rows, b, n, p->k,
			    weir__ahead_bytes(&stored_ahead));
}

static void dot_run(const struct weir__product *p, float *const *dst,
		    const unsigned char *a, size_t pitch, size_t rows,
		    const unsigned char *set, const float *const *column,
		    size_t n)
{
	const void *b[WEIR__DOT_COLS];
	bool few = n < PREFETCH_COLUMNS;

	while (n) {
		unsigned some = n < WEIR__DOT_COLS ? (unsigned)n
						   : WEIR__DOT_COLS;

		for (unsigned c = 0; c < some; c++, set += p->set_bytes)
			b[c] = column ? (const void *)column[c] : set;
		if (p->way == WEIR__PRODUCT_DOT && few)
			dot_stored(p, dst, a, pitch, rows, b, some);
		else
			p->dot->run(dst, a, pitch, rows, b, some, p->k, 0);
		dst += some;
		column += column ? some : 0;
		n -= some;
	}
}

static void floats_run(const struct weir__product *p, unsigned char *scratch,
		       float *const *dst, const unsigned char *a, size_t pitch,
		       size_t rows, const unsigned char *set,
		       const float *const *column, size_t n)
{
	for (size_t r = 0; r < rows; r++)
		p->convert->run(scratch + r * p->set_bytes, a + r * pitch,
				p->k / p->convert->block);
	dot_run(p, dst, scratch, p->set_bytes, rows, set, column, n);
}

/* Load the elements [first, first + n) of a row as F32. */
static void load_line(const struct weir__product *p, float *to,
		      const unsigned char *a, size_t first, size_t n)
{
	const struct weir_backend_convert *convert = p->convert;

	if (convert)
		convert->run(to,
			     a + first / convert->block * convert->src_bytes,
			     n / convert->block);
	else
		memcpy(to, a + first * sizeof(float), n * sizeof(float));
}

/* Pack these elements of all rows. Rows that a block lacks are 0. */
static void pack_rows(const struct weir__product *p, struct panel_room *room,
		      const unsigned char *a, size_t pitch, size_t rows,
		      size_t first, size_t n)
{
	const struct weir__dot_panel *panel = p->set->panel;
	size_t width = panel->width, block = 3 * width;

	for (size_t r = 0; r < rows; r += width) {
		for (size_t i = 0; i < width; i++) {
			float *line = room->lines + i * PANEL_K;

			if (r + i < rows)
				load_line(p, line, a + (r + i) * pitch, first,
					  n);
			else
				memset(line, 0, n * sizeof(float));
		}
		panel->pack(room->rows + r / block * block * PANEL_K +
				    r % block,
			    room->lines, PANEL_K, n);
	}
}

/* Store the sums of a set of columns to their places. */
static void put_sums(const struct weir__dot_panel *panel, float *const *dst,
		     const float *sums, size_t rows, size_t n)
{
	size_t block = (size_t)3 * panel->width;

	for (size_t r = 0; r < rows; r += block) {
		size_t some = rows - r < block ? rows - r : block;

		for (size_t c = 0; c < n; c++)
			memcpy(dst[c] + r, sums + c * block,
			       some * sizeof(float));
		sums += block * panel->columns;
	}
}

static void panel_run(const struct weir__product *p, void *scratch,
		      float *const *dst, const unsigned char *a, size_t pitch,
		      size_t rows, const unsigned char *set, size_t n)
{
	const struct weir__dot_panel *panel = p->set->panel;
	size_t block = (size_t)3 * panel->width, columns = panel->columns;
	size_t of_set = (rows + block - 1) / block * block * columns;
	struct panel_room *room = scratch;
	size_t first = 0, depth;

	memset(room->sums, 0,
	       (n + columns - 1) / columns * of_set * sizeof(float));
	do {
		depth = p->k - first < PANEL_K ? p->k - first : PANEL_K;
		pack_rows(p, room, a, pitch, rows, first, depth);
		for (size_t c = 0; c < n; c += columns) {
			const float *b =
				(const void *)(set +
					       c / columns * p->set_bytes);
			float *sum = room->sums + c / columns * of_set;

			for (size_t r = 0; r < rows; r += block) {
				panel->block(sum, room->rows + r * PANEL_K,
					     b + first * columns, depth);
				sum += block * columns;
			}
		}
		first += depth;
	} while (first < p->k);
	for (size_t c = 0; c < n; c += columns)
		put_sums(panel, dst + c, room->sums + c / columns * of_set,
			 rows, n - c < columns ? n - c : columns);
}

void weir__product_run(const struct weir__product *p, void *scratch,
		       float *const *dst, const unsigned char *a, size_t pitch,
		       size_t rows, const unsigned char *set,
		       const float *const *column, size_t n)
{
	if (p->way == WEIR__PRODUCT_TILES)
		p->tiles->run(p->dtype, p->k, scratch, dst, a, pitch, rows, set,
			      n);
	else if (p->way == WEIR__PRODUCT_PANELS)
		panel_run(p, scratch, dst, a, pitch, rows, set, n);
	else if (p->way == WEIR__PRODUCT_FLOATS)
		floats_run(p, scratch, dst, a, pitch, rows, set, column, n);
	else
		dot_run(p, dst, a, pitch, rows, set, column, n);
}
