/* SPDX-License-Identifier: MIT */
#include "kernels/panel.h"

#include <string.h>

/*
 * Elements of a row in a pass: then a set's part stays in the first cache, and
 * the rows in the second.
 */
#define PASS 256u

/* In the scratch of a thread. */
struct room {
	float lines[WEIR__DOT_LANES * PASS]; /* rows before they are packed */
	float rows[WEIR__PANEL_ROWS * PASS];
	float sums[WEIR__PANEL_ROWS * WEIR__PRODUCT_COLUMNS];
};

const size_t weir__panel_scratch = sizeof(struct room);

/* The elements [first, first + n) of a row. */
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

/* The same of all rows, packed; those that a block lacks are 0. */
static void pack_rows(const struct weir__product *p, struct room *room,
		      const unsigned char *a, size_t pitch, size_t rows,
		      size_t first, size_t n)
{
	const struct weir__dot_panel *panel = p->set->panel;
	size_t lanes = panel->lanes, block = 3 * lanes;

	for (size_t r = 0; r < rows; r += lanes) {
		for (size_t i = 0; i < lanes; i++) {
			float *line = room->lines + i * PASS;

			if (r + i < rows)
				load_line(p, line, a + (r + i) * pitch, first,
					  n);
			else
				memset(line, 0, n * sizeof(float));
		}
		panel->pack(room->rows + r / block * block * PASS + r % block,
			    room->lines, PASS, n);
	}
}

/* The sums of a set of columns to their places. */
static void put_sums(const struct weir__dot_panel *panel, float *const *dst,
		     const float *sums, size_t rows, size_t n)
{
	size_t block = (size_t)3 * panel->lanes;

	for (size_t r = 0; r < rows; r += block) {
		size_t some = rows - r < block ? rows - r : block;

		for (size_t c = 0; c < n; c++)
			memcpy(dst[c] + r, sums + c * block,
			       some * sizeof(float));
		sums += block * panel->columns;
	}
}

void weir__panel_run(const struct weir__product *p, void *scratch,
		     float *const *dst, const unsigned char *a, size_t pitch,
		     size_t rows, const unsigned char *set, size_t n)
{
	const struct weir__dot_panel *panel = p->set->panel;
	size_t block = (size_t)3 * panel->lanes, columns = panel->columns;
	size_t of_set = (rows + block - 1) / block * block * columns;
	struct room *room = scratch;
	size_t first = 0, pass;

	memset(room->sums, 0,
	       (n + columns - 1) / columns * of_set * sizeof(float));
	do {
		pass = p->k - first < PASS ? p->k - first : PASS;
		pack_rows(p, room, a, pitch, rows, first, pass);
		for (size_t c = 0; c < n; c += columns) {
			const float *b =
				(const void *)(set +
					       c / columns * p->set_bytes);
			float *sum = room->sums + c / columns * of_set;

			for (size_t r = 0; r < rows; r += block) {
				panel->block(sum, room->rows + r * PASS,
					     b + first * columns, pass);
				sum += block * columns;
			}
		}
		first += pass;
	} while (first < p->k);
	for (size_t c = 0; c < n; c += columns)
		put_sums(panel, dst + c, room->sums + c / columns * of_set,
			 rows, n - c < columns ? n - c : columns);
}
