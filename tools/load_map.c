/* SPDX-License-Identifier: MIT */
/*
 * The memory map of a load: its buffers and what is in them, drawn as a
 * picture. Each buffer is a bar that is wrapped into rows, as lines of text
 * are; all have the same scale. The size of the picture is bounded: a tensor
 * that is narrower than NARROW is summed with its neighbours.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "load.h"
#include "output.h"
#include "svg.h"
#include "text.h"

/* The bytes [begin, end) of a buffer that a tensor has. */
struct map_range {
	uint64_t begin, end;
	size_t tensor;    /* number of the tensor in the weights */
	size_t buf;       /* its buffer */
	bool begins_span; /* its neighbour in memory is not that in the file */
};

/* A buffer, not joined. */
struct map_buf {
	struct weir_buf *buf;
	struct weir_buf_info info;
	size_t first, n; /* its ranges, by address */
	size_t spans;
	uint64_t gap_bytes; /* bytes of no tensor, in this many gaps */
	size_t gaps;
};

struct map {
	const struct weir_weights *weights;
	struct map_buf *buf; /* the largest first */
	size_t n_bufs;
	struct map_range *range;
	size_t n;
	uint64_t bytes; /* bytes of all buffers */
};

/* A buffer that is not joined; @at: where it begins in a joined one. */
struct leaf {
	struct weir_buf *whole, *buf;
	uint64_t at;
	size_t number; /* number in map->buf */
};

struct leaves {
	struct leaf *leaf;
	size_t n, room;
};

static int compare_leaves(const void *va, const void *vb)
{
	const struct leaf *a = va, *b = vb;

	if (a->whole != b->whole)
		return (uintptr_t)a->whole < (uintptr_t)b->whole ? -1 : 1;
	return a->at < b->at ? -1 : a->at > b->at;
}

static int add_leaf(struct leaves *all, struct weir_buf *whole,
		    struct weir_buf *buf, uint64_t at)
{
	if (all->n == all->room) {
		size_t room = all->room ? 2 * all->room : 16;
		struct leaf *more =
			reallocarray(all->leaf, room, sizeof(*more));

		if (!more)
			return fail_memory();
		all->leaf = more;
		all->room = room;
	}
	all->leaf[all->n++] =
		(struct leaf){ .whole = whole, .buf = buf, .at = at };
	return 0;
}

/* The members of a joined buffer, or the buffer itself. */
static int add_leaves(struct leaves *all, struct weir_buf *whole)
{
	struct weir_buf_info info = { .size = sizeof(info) };
	uint64_t at = 0;
	int r = 0;

	if (weir_buf_info(whole, &info) < 0)
		return fail_weir();
	if (!info.members)
		return add_leaf(all, whole, whole, 0);
	for (unsigned i = 0, n = info.members; i < n && r == 0; i++) {
		struct weir_buf *member = weir_buf_member(whole, i);

		if (weir_buf_info(member, &info) < 0)
			return fail_weir();
		r = add_leaf(all, whole, member, at);
		at += info.bytes;
	}
	return r;
}

static int compare_pointers(const void *va, const void *vb)
{
	uintptr_t a = (uintptr_t) * (void *const *)va;
	uintptr_t b = (uintptr_t) * (void *const *)vb;

	return a < b ? -1 : a > b;
}

/* Each buffer of the weights once, though many tensors are in it. */
static int find_leaves(const struct weir_weights *weights, struct leaves *all)
{
	size_t n = weir_weights_count(weights);
	struct weir_buf **bufs = calloc(n + 1, sizeof(struct weir_buf *));
	int r = 0;

	if (!bufs)
		return fail_memory();
	for (size_t i = 0; i < n; i++)
		bufs[i] = weir_weights_get(weights, i)->buf;
	qsort(bufs, n, sizeof(struct weir_buf *), compare_pointers);
	for (size_t i = 0; i < n && r == 0; i++)
		if (bufs[i] && (i == 0 || bufs[i] != bufs[i - 1]))
			r = add_leaves(all, bufs[i]);
	free(bufs);
	qsort(all->leaf, all->n, sizeof(*all->leaf), compare_leaves);
	return r;
}

static int compare_bufs(const void *va, const void *vb)
{
	const struct map_buf *a = va, *b = vb;

	if (a->info.bytes != b->info.bytes)
		return a->info.bytes > b->info.bytes ? -1 : 1;
	return (uintptr_t)a->buf < (uintptr_t)b->buf ? -1 : a->buf != b->buf;
}

/* A buffer may be a member of several: then it is one of the map's. */
static int add_bufs(struct map *map, struct leaves *all)
{
	map->buf = calloc(all->n + 1, sizeof(*map->buf));
	if (!map->buf)
		return fail_memory();
	for (size_t i = 0; i < all->n; i++) {
		struct map_buf *b = &map->buf[i];

		b->buf = all->leaf[i].buf;
		b->info.size = sizeof(b->info);
		if (weir_buf_info(b->buf, &b->info) < 0)
			return fail_weir();
	}
	qsort(map->buf, all->n, sizeof(*map->buf), compare_bufs);
	for (size_t i = 0; i < all->n; i++)
		if (i == 0 || map->buf[i].buf != map->buf[i - 1].buf)
			map->buf[map->n_bufs++] = map->buf[i];
	for (size_t i = 0; i < map->n_bufs; i++)
		map->bytes += map->buf[i].info.bytes;
	for (size_t i = 0; i < all->n; i++)
		for (size_t j = 0; j < map->n_bufs; j++)
			if (map->buf[j].buf == all->leaf[i].buf)
				all->leaf[i].number = j;
	return 0;
}

/* The buffer that has byte @at of @whole. */
static const struct leaf *find_leaf(const struct leaves *all,
				    struct weir_buf *whole, uint64_t at)
{
	const struct leaf key = { .whole = whole, .at = at };
	size_t low = 0, high = all->n;

	/* The last that does not come after the key. */
	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (compare_leaves(&all->leaf[mid], &key) <= 0)
			low = mid + 1;
		else
			high = mid;
	}
	return &all->leaf[low - 1];
}

static int compare_ranges(const void *va, const void *vb)
{
	const struct map_range *a = va, *b = vb;

	if (a->buf != b->buf)
		return a->buf < b->buf ? -1 : 1;
	if (a->begin != b->begin)
		return a->begin < b->begin ? -1 : 1;
	return a->end < b->end ? -1 : a->end > b->end;
}

/* Empty tensors have no place. */
static int add_ranges(struct map *map, const struct leaves *all)
{
	size_t count = weir_weights_count(map->weights), bytes;

	map->range = calloc(count + 1, sizeof(*map->range));
	if (!map->range)
		return fail_memory();
	for (size_t i = 0; i < count; i++) {
		const struct weir_tensor *t = weir_weights_get(map->weights, i);
		struct map_range *p = &map->range[map->n];
		const struct leaf *leaf;

		if (!t->buf || weir_tensor_bytes(t, &bytes) < 0 || !bytes)
			continue;
		leaf = find_leaf(all, t->buf, t->offset);
		p->tensor = i;
		p->buf = leaf->number;
		p->begin = t->offset - leaf->at;
		p->end = p->begin + bytes;
		map->n++;
	}
	qsort(map->range, map->n, sizeof(*map->range), compare_ranges);
	return 0;
}

/* True if neighbours in memory have the same distance in the file. */
static bool same_span(const struct map *map, const struct map_range *a,
		      const struct map_range *b)
{
	struct weir_entry x = { .size = sizeof(x) }, y = { .size = sizeof(y) };

	return weir_weights_entry(map->weights, a->tensor, &x) == 0 &&
	       weir_weights_entry(map->weights, b->tensor, &y) == 0 &&
	       x.shard == y.shard && y.offset - x.offset == b->begin - a->begin;
}

static void add_gap(struct map_buf *b, uint64_t begin, uint64_t end)
{
	if (end <= begin)
		return;
	b->gap_bytes += end - begin;
	b->gaps++;
}

/* Count the ranges, the spans and the gaps of each buffer. */
static void sum_up(struct map *map)
{
	size_t at = 0;

	for (size_t i = 0; i < map->n_bufs; i++) {
		struct map_buf *b = &map->buf[i];
		uint64_t end = 0;

		b->first = at;
		for (; at < map->n && map->range[at].buf == i; at++) {
			struct map_range *p = &map->range[at];

			p->begins_span = at == b->first ||
					 !same_span(map, p - 1, p);
			b->spans += p->begins_span;
			add_gap(b, end, p->begin);
			if (p->end > end)
				end = p->end;
		}
		b->n = at - b->first;
		add_gap(b, end, b->info.bytes);
	}
}

/*
 * Returns 0, or EXIT_FAILURE after a line on stderr. In each case call
 * map_free(). The weights stay until then.
 */
static int map_collect(const struct weir_weights *weights, struct map *ret_map)
{
	struct leaves all = { 0 };
	int r;

	*ret_map = (struct map){ .weights = weights };
	r = find_leaves(weights, &all);
	if (r == 0)
		r = add_bufs(ret_map, &all);
	if (r == 0)
		r = add_ranges(ret_map, &all);
	if (r == 0)
		sum_up(ret_map);
	free(all.leaf);
	return r;
}

static void map_free(struct map *map)
{
	free(map->buf);
	free(map->range);
	*map = (struct map){ 0 };
}

enum {
	WIDTH = 1240,
	LEFT = 86,  /* x of the bars */
	INFO = 300, /* x of what follows the name of a buffer */
	BAR = 1130,
	BAR_HEIGHT = 24,
	ROW = 36, /* distance from one row to the next */
	LINE = 18,
	ROWS = 24, /* about so many rows of all buffers together */
	BUFS = 16, /* buffers that are drawn */
	LEGEND = 3 * LINE + 8
};
#define NARROW 7.0 /* pixels of a tensor that has a box of its own */
#define HAIR 1.5   /* pixels of a gap that is visible */

static const struct look {
	enum svg_fill fill;
	const char *pages, *legend;
} looks[] = {
	{ SVG_SKY, "small pages", "small pages" },
	{ SVG_BLUE, "huge pages", "huge pages" },
	{ SVG_GREEN, "locked into RAM", "locked into RAM" },
	{ SVG_YELLOW, "mapped pages of the file", "mapped file" },
	{ SVG_ORANGE, "memory of the device", "device memory" },
	{ SVG_PINK, "shared with other processes", "shared memory" },
};
enum {
	LOOK_SMALL,
	LOOK_HUGE,
	LOOK_LOCKED,
	LOOK_MAPPED,
	LOOK_DEVICE,
	LOOK_SHARED,
	LOOKS
};

struct drawing {
	struct svg *svg;
	const struct map *map;
	size_t n_bufs; /* buffers that are drawn */
	uint64_t row;  /* bytes of a row */
	uint64_t staging;
	double y;
};

static unsigned look_of(const struct map_buf *b)
{
	struct weir_buft_info info = { .size = sizeof(info) };

	if (weir_buft_info(b->info.buft, &info) < 0)
		return LOOK_SMALL;
	if (info.kind == WEIR_MEM_MAPPED)
		return LOOK_MAPPED;
	if (!(info.flags & WEIR_BUFT_HOST))
		return LOOK_DEVICE;
	if (b->info.got & WEIR_GOT_SHARED)
		return LOOK_SHARED;
	if (b->info.got & WEIR_GOT_LOCKED || info.kind == WEIR_MEM_PINNED)
		return LOOK_LOCKED;
	return b->info.got & WEIR_GOT_HUGE ? LOOK_HUGE : LOOK_SMALL;
}

static uint64_t rows_of(uint64_t bytes, uint64_t row)
{
	return bytes ? (bytes - 1) / row + 1 : 1;
}

static uint64_t all_rows(const struct drawing *d)
{
	uint64_t rows = d->staging ? rows_of(d->staging, d->row) : 0;

	for (size_t i = 0; i < d->n_bufs; i++)
		rows += rows_of(d->map->buf[i].info.bytes, d->row);
	return rows;
}

static double pixels(const struct drawing *d, uint64_t bytes)
{
	return (double)bytes / (double)d->row * BAR;
}

static size_t room_of(const struct svg_box *box)
{
	return box->width > 8 ? (size_t)((box->width - 8) / SVG_CHAR) : 0;
}

/* The name without ".weight", and without so many components that it fits. */
static void put_name(struct svg *svg, const struct svg_box *box,
		     const char *name, size_t len)
{
	static const char suffix[] = ".weight";
	size_t cut = sizeof(suffix) - 1;
	const char *dot;

	if (len > cut && !memcmp(name + len - cut, suffix, cut))
		len -= cut;
	while (text_width(name, len, 0) > room_of(box) &&
	       (dot = memchr(name, '.', len))) {
		len -= (size_t)(dot + 1 - name);
		name = dot + 1;
	}
	svg_label(svg, box, name, len);
}

static void put_tensor(const struct drawing *d, const struct map_buf *b,
		       const struct map_range *p, const struct svg_box *box)
{
	struct weir_entry e = { .size = sizeof(e) };
	char tip[400], size[SIZE_TEXT];

	if (weir_weights_entry(d->map->weights, p->tensor, &e) < 0)
		return;
	snprintf(tip, sizeof(tip), "%.*s: %s (%llu bytes) at offset %llu",
		 e.name_len < 250 ? (int)e.name_len : 250, e.name,
		 size_text(p->end - p->begin, size),
		 (unsigned long long)(p->end - p->begin),
		 (unsigned long long)p->begin);
	svg_rect(d->svg, box, looks[look_of(b)].fill, tip);
	put_name(d->svg, box, e.name, e.name_len);
}

/* Tensors that are too narrow to be drawn one by one. */
struct group {
	double begin, end; /* x */
	size_t n;
	uint64_t bytes;
};

static void put_group(const struct drawing *d, struct group *g)
{
	struct svg_box box = { g->begin, d->y, g->end - g->begin, BAR_HEIGHT };
	uint64_t span = (uint64_t)(box.width / BAR * (double)d->row);
	char text[100], count[COUNT_TEXT], a[SIZE_TEXT], b[SIZE_TEXT];

	if (!g->n)
		return;
	snprintf(text, sizeof(text), "%s, %s in %s",
		 count_text(g->n, "tensor", count), size_text(g->bytes, a),
		 size_text(span, b));
	svg_rect(d->svg, &box, SVG_GREY, text);
	svg_label(d->svg, &box, text,
		  strlen(text) > room_of(&box) ? strlen(count) : strlen(text));
	*g = (struct group){ 0 };
}

static void add_to_group(const struct drawing *d, struct group *g,
			 const struct svg_box *box, uint64_t bytes)
{
	if (g->n && box->x - g->end > HAIR)
		put_group(d, g);
	if (!g->n)
		g->begin = box->x;
	if (box->x + box->width > g->end)
		g->end = box->x + box->width;
	g->n++;
	g->bytes += bytes;
}

/* The part of [begin, end) that is in the row from @at on; false: none. */
static bool part_of_row(const struct drawing *d, uint64_t begin, uint64_t end,
			uint64_t at, struct svg_box *ret_box)
{
	uint64_t from = begin > at ? begin : at;
	uint64_t to = end - at < d->row ? end : at + d->row;

	if (end <= at || from >= to)
		return false;
	*ret_box = (struct svg_box){ LEFT + pixels(d, from - at), d->y,
				     pixels(d, to - from), BAR_HEIGHT };
	return true;
}

/* A line below a row, with a tick where a span begins. */
static void put_spans(const struct drawing *d, const struct map_buf *b,
		      uint64_t at)
{
	const struct map_range *p = &d->map->range[b->first];
	double y = d->y + BAR_HEIGHT + 4, from = 0, to = 0, tick = 0;
	struct svg_box box;

	for (size_t i = 0; i < b->n; i++) {
		if (!part_of_row(d, p[i].begin, p[i].end, at, &box))
			continue;
		if (to > 0 && box.x - to > HAIR) {
			svg_line(d->svg, from, y, to, y);
			to = 0;
		}
		if (to <= 0)
			from = box.x;
		to = box.x + box.width;
		if (p[i].begins_span && p[i].begin >= at && box.x - tick >= 3) {
			svg_line(d->svg, box.x, y - 3, box.x, y + 3);
			tick = box.x;
		}
	}
	if (to > 0)
		svg_line(d->svg, from, y, to, y);
}

/* The row of a buffer from byte @at on. */
static void put_row(struct drawing *d, const struct map_buf *b, uint64_t at)
{
	const struct map_range *p = &d->map->range[b->first];
	struct group group = { 0 };
	char offset[SIZE_TEXT];
	struct svg_box box;

	svg_textf(d->svg, LEFT - 8, d->y + 16, SVG_END, "%s",
		  at ? binary_text(at, offset) : "0");
	if (part_of_row(d, 0, b->info.bytes, at, &box))
		svg_rect(d->svg, &box, SVG_HATCHED, NULL);
	for (size_t i = 0; i < b->n; i++) {
		if (!part_of_row(d, p[i].begin, p[i].end, at, &box))
			continue;
		if (box.width < NARROW) {
			add_to_group(d, &group, &box, p[i].end - p[i].begin);
			continue;
		}
		put_group(d, &group);
		put_tensor(d, b, &p[i], &box);
	}
	put_group(d, &group);
	put_spans(d, b, at);
	d->y += ROW;
}

/* "2.62 kB in 1 gap" */
static const char *gaps_text(const struct map_buf *b, char *buf, size_t room)
{
	char size[SIZE_TEXT], gaps[COUNT_TEXT];

	if (!b->gaps)
		return "no gaps";
	snprintf(buf, room, "%s in %s", size_text(b->gap_bytes, size),
		 count_text(b->gaps, "gap", gaps));
	return buf;
}

static void put_heading(const struct drawing *d, const struct map_buf *b,
			size_t number)
{
	struct weir_buft_info info = { .size = sizeof(info) };
	char size[SIZE_TEXT], gaps[80], node[32] = "", host[40] = "";
	char tensors[COUNT_TEXT], spans[COUNT_TEXT];
	struct svg_box sample = { 16, d->y, 22, 14 };
	void *data = weir_buf_data(b->buf);

	if (weir_buft_info(b->info.buft, &info) < 0)
		info.name = "?";
	if (b->info.node >= 0)
		snprintf(node, sizeof(node), " on NUMA node %d", b->info.node);
	if (data)
		snprintf(host, sizeof(host), " at %p", data);
	svg_rect(d->svg, &sample, looks[look_of(b)].fill, NULL);
	svg_textf(d->svg, 46, d->y + 12, SVG_BOLD, "Buffer %zu: %s, %s", number,
		  info.name, size_text(b->info.bytes, size));
	svg_textf(d->svg, INFO, d->y + 12, SVG_PLAIN, "%s%s%s; %s in %s; %s",
		  looks[look_of(b)].pages, node, host,
		  count_text(b->n, "tensor", tensors),
		  count_text(b->spans, "span", spans),
		  gaps_text(b, gaps, sizeof(gaps)));
}

static double heading_height(const struct map_buf *b)
{
	return LINE + (b->info.why[0] ? LINE : 0) + 4;
}

static void put_buf(struct drawing *d, size_t i)
{
	const struct map_buf *b = &d->map->buf[i];

	put_heading(d, b, i + 1);
	if (b->info.why[0])
		svg_textf(d->svg, INFO, d->y + 12 + LINE, SVG_FAINT, "%s",
			  b->info.why);
	d->y += heading_height(b);
	for (uint64_t at = 0; at == 0 || at < b->info.bytes; at += d->row)
		put_row(d, b, at);
	d->y += LINE / 2;
}

static void put_staging(struct drawing *d)
{
	char size[SIZE_TEXT];
	struct svg_box box;

	if (!d->staging)
		return;
	svg_rect(d->svg, &(struct svg_box){ 16, d->y, 22, 14 }, SVG_VERMILION,
		 NULL);
	svg_textf(d->svg, 46, d->y + 12, SVG_BOLD, "Staging: %s",
		  size_text(d->staging, size));
	svg_text(
		d->svg, INFO, d->y + 12, SVG_PLAIN,
		"slots of the I/O engine, for bytes that cannot be read to their place",
		69);
	d->y += LINE + 4;
	for (uint64_t at = 0; at < d->staging; at += d->row) {
		if (part_of_row(d, 0, d->staging, at, &box))
			svg_rect(d->svg, &box, SVG_VERMILION, "staging slots");
		d->y += ROW;
	}
}

/* A sample of a box and its meaning; returns x after it. */
static double put_sample(const struct drawing *d, double x, enum svg_fill fill,
			 const char *text)
{
	struct svg_box box = { x, d->y, 22, 14 };

	svg_rect(d->svg, &box, fill, NULL);
	svg_text(d->svg, x + 28, d->y + 12, SVG_PLAIN, text, strlen(text));
	return x + 48 + SVG_CHAR * (double)strlen(text);
}

static void put_legend(struct drawing *d)
{
	bool used[LOOKS] = { false };
	char row[SIZE_TEXT];
	double x = 16;

	for (size_t i = 0; i < d->n_bufs; i++)
		used[look_of(&d->map->buf[i])] = true;
	for (unsigned i = 0; i < LOOKS; i++)
		if (used[i])
			x = put_sample(d, x, looks[i].fill, looks[i].legend);
	x = put_sample(d, x, SVG_GREY, "small tensors, summed");
	x = put_sample(d, x, SVG_HATCHED, "gap: bytes of no tensor");
	if (d->staging)
		x = put_sample(d, x, SVG_VERMILION, "staging");
	svg_line(d->svg, x, d->y + 8, x + 22, d->y + 8);
	svg_line(d->svg, x, d->y + 5, x, d->y + 11);
	svg_textf(d->svg, x + 28, d->y + 12, SVG_PLAIN, "a span begins");
	svg_textf(
		d->svg, 16, d->y + 12 + LINE, SVG_FAINT,
		"Each row is %s of a buffer: addresses run from left to right, then down. On the left: the offset in the buffer.",
		binary_text(d->row, row));
	svg_textf(
		d->svg, 16, d->y + 12 + 2 * LINE, SVG_FAINT,
		"Tensors of a span are neighbours in memory as in the file, so that they are read together. Names are cut to fit, and omit \".weight\".");
	d->y += LEGEND;
}

static void put_title(struct drawing *d, const char *path)
{
	char size[SIZE_TEXT], gaps[SIZE_TEXT], tensors[COUNT_TEXT],
		buffers[COUNT_TEXT];
	uint64_t gap_bytes = 0;
	size_t n = d->map->n_bufs;

	for (size_t i = 0; i < n; i++)
		gap_bytes += d->map->buf[i].gap_bytes;
	svg_textf(d->svg, 16, 26, SVG_TITLE, "Memory of %.300s", path);
	svg_textf(d->svg, 16, 26 + LINE + 2, SVG_PLAIN,
		  "%s in %s of %s, of which %s are gaps",
		  count_text(weir_weights_count(d->map->weights), "tensor",
			     tensors),
		  count_text(n, "buffer", buffers),
		  size_text(d->map->bytes, size), size_text(gap_bytes, gaps));
	d->y = 26 + 2 * LINE;
}

/* The buffers that are not drawn. */
static void put_rest(struct drawing *d)
{
	uint64_t bytes = 0;
	char size[SIZE_TEXT];

	for (size_t i = d->n_bufs; i < d->map->n_bufs; i++)
		bytes += d->map->buf[i].info.bytes;
	if (d->n_bufs == d->map->n_bufs)
		return;
	svg_textf(d->svg, 16, d->y + 12, SVG_PLAIN,
		  "and %zu smaller buffers of %s", d->map->n_bufs - d->n_bufs,
		  size_text(bytes, size));
	d->y += LINE + 4;
}

static double height_of(const struct drawing *d)
{
	double height =
		26 + 2 * LINE + LEGEND + 2 * LINE + (double)all_rows(d) * ROW;

	for (size_t i = 0; i < d->n_bufs; i++)
		height += heading_height(&d->map->buf[i]) + LINE / 2;
	return height + (d->staging ? LINE + 4 : 0) +
	       (d->n_bufs < d->map->n_bufs ? LINE + 4 : 0);
}

static int draw(struct drawing *d, const char *path)
{
	char title[400];

	d->n_bufs = d->map->n_bufs < BUFS ? d->map->n_bufs : BUFS;
	d->row = 4096;
	while (all_rows(d) > ROWS + d->n_bufs)
		d->row *= 2;
	snprintf(title, sizeof(title), "Memory of %.300s", path);
	svg_begin(
		d->svg, WIDTH, height_of(d), title,
		"The buffers of a load as bars, with the tensors in them, gaps and spans.");
	put_title(d, path);
	put_legend(d);
	for (size_t i = 0; i < d->n_bufs; i++)
		put_buf(d, i);
	put_rest(d);
	put_staging(d);
	return svg_end(d->svg);
}

int load_map_draw(const struct load_job *job, struct svg *svg)
{
	struct map map;
	struct drawing d = { .svg = svg,
			     .map = &map,
			     .staging = load_last_run(job)->report.staging };
	int r = map_collect(job->weights, &map);

	if (r == 0)
		r = draw(&d, job->args->path);
	map_free(&map);
	return r;
}
