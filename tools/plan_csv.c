/* SPDX-License-Identifier: MIT */
#include "plan_csv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum column {
	COLUMN_ID,
	COLUMN_LOWER,
	COLUMN_UPPER,
	COLUMN_SIZE, /* the last that is required */
	COLUMN_ALIGNMENT,
	COLUMN_HINT,
	COLUMN_GAPS,
	COLUMNS
};

static const struct {
	const char *name;
	enum column column;
} known[] = {
	{ "id", COLUMN_ID },       { "lower", COLUMN_LOWER },
	{ "upper", COLUMN_UPPER }, { "size", COLUMN_SIZE },
	{ "buffer", COLUMN_ID },   { "buffer_id", COLUMN_ID },
	{ "start", COLUMN_LOWER }, { "begin", COLUMN_LOWER },
	{ "end", COLUMN_UPPER },   { "alignment", COLUMN_ALIGNMENT },
	{ "hint", COLUMN_HINT },   { "gaps", COLUMN_GAPS },
};

/* The greatest alignment that is accepted. */
static const int64_t align_max = INT64_C(1) << 40;
/* weir_placement_new(3) has this limit. */
static const uint64_t sum_max = UINT64_C(1) << 60;

struct parser {
	struct csv csv;
	struct plan_csv *to;
	struct plan_row row;
	size_t room;      /* rows for which there is room */
	size_t bytes;     /* bytes of the text */
	size_t undoubled; /* bytes in use */
	/* The columns in the order of the file, and their names in it. */
	enum column order[COLUMNS];
	const char *name[COLUMNS];
	size_t columns;
	bool ends;    /* the name of COLUMN_UPPER is "end" */
	uint64_t sum; /* sum of the sizes, and of twice the alignment of each
			 row */
};

static struct plan_line line_of(const struct csv *csv)
{
	return (struct plan_line){ csv->line, csv->len, csv->number };
}

static bool is_name(const struct csv_field *f, const char *name)
{
	return f->len == strlen(name) && !memcmp(f->text, name, f->len);
}

/* Returns an index in known[]. */
static int find_column(const struct parser *p, const struct csv_field *f)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (is_name(f, known[i].name))
			return (int)i;
	if (is_name(f, "offset"))
		return csv_bad(&p->csv, f->text,
			       "the column 'offset' has fixed offsets, which "
			       "are not supported; remove the column");
	/* A file of another kind is not quoted. */
	if (!p->columns)
		return csv_bad(&p->csv, f->text,
			       "unknown column; the first line names the "
			       "columns: id,lower,upper,size, optionally "
			       "alignment, hint, gaps");
	return csv_bad(&p->csv, f->text,
		       "unknown column '%.*s%s'; the columns are "
		       "id,lower,upper,size, optionally alignment, hint, gaps",
		       CSV_QUOTED(f));
}

static int take_column(struct parser *p, const struct csv_field *f)
{
	int i = find_column(p, f);
	enum column column;

	if (i < 0)
		return i;
	column = known[i].column;
	if (p->name[column] == known[i].name)
		return csv_bad(&p->csv, f->text, "the column '%s' occurs twice",
			       known[i].name);
	if (p->name[column])
		return csv_bad(
			&p->csv, f->text,
			"the columns '%s' and '%s' have the same meaning",
			p->name[column], known[i].name);
	p->name[column] = known[i].name;
	p->order[p->columns++] = column;
	p->ends = p->ends || !strcmp(known[i].name, "end");
	return 0;
}

static int take_head(struct parser *p)
{
	struct csv_field f;
	int r;

	while ((r = csv_field(&p->csv, &f)) > 0) {
		r = take_column(p, &f);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; r == 0 && i <= COLUMN_SIZE; i++)
		if (!p->name[i])
			r = csv_bad(&p->csv, p->csv.line + p->csv.len,
				    "there is no column '%s'; id, lower, upper "
				    "and size are required",
				    known[i].name);
	p->to->head = line_of(&p->csv);
	return r;
}

static bool is_whole_number(const struct csv_field *f)
{
	size_t i = f->len && (*f->text == '-' || *f->text == '+');

	if (i == f->len)
		return false;
	for (; i < f->len; i++)
		if (f->text[i] < '0' || f->text[i] > '9')
			return false;
	return true;
}

/* Parse a number into 64 bits. False: it does not fit. */
static bool parse_number(const struct csv_field *f, int64_t *ret_number)
{
	bool minus = *f->text == '-';
	int64_t number = 0;

	for (size_t i = 0; i < f->len; i++) {
		int digit = f->text[i] - '0';

		if (f->text[i] == '-' || f->text[i] == '+')
			continue;
		if (__builtin_mul_overflow(number, 10, &number) ||
		    __builtin_add_overflow(number, minus ? -digit : digit,
					   &number))
			return false;
	}
	*ret_number = number;
	return true;
}

/* Parse a number from @min to @max. */
static int take_number(const struct parser *p, enum column column,
		       const struct csv_field *f, int64_t min, int64_t max,
		       int64_t *ret_number)
{
	const char *name = p->name[column];
	int64_t number;

	if (!f->len)
		return csv_bad(&p->csv, f->text, "%s is missing", name);
	if (!is_whole_number(f))
		return csv_bad(&p->csv, f->text,
			       "%s is '%.*s%s', not a whole number", name,
			       CSV_QUOTED(f));
	if (!parse_number(f, &number) || number < min || number > max)
		return csv_bad(&p->csv, f->text,
			       "%s is %.*s%s, not from %lld to %lld", name,
			       CSV_QUOTED(f), (long long)min, (long long)max);
	*ret_number = number;
	return 0;
}

static int take_id(struct parser *p, const struct csv_field *f)
{
	char *to;

	if (!f->len)
		return csv_bad(&p->csv, f->text, "%s is empty",
			       p->name[COLUMN_ID]);
	p->row.id = f->text;
	p->row.id_len = f->len;
	if (!f->doubled)
		return 0;
	if (!p->to->undoubled)
		p->to->undoubled = malloc(p->bytes);
	if (!p->to->undoubled)
		return -ENOMEM;
	to = p->to->undoubled + p->undoubled;
	p->row.id = to;
	p->row.id_len = csv_undouble(f, to);
	p->undoubled += p->row.id_len;
	return 0;
}

static int take_upper(struct parser *p, const struct csv_field *f)
{
	int r = take_number(p, COLUMN_UPPER, f, INT64_MIN, INT64_MAX - p->ends,
			    &p->row.upper);

	if (r < 0)
		return r;
	p->row.upper += p->ends;
	return 0;
}

static int take_align(struct parser *p, const struct csv_field *f)
{
	int64_t align = 0;
	int r = take_number(p, COLUMN_ALIGNMENT, f, 1, align_max, &align);

	if (r == 0 && (align & (align - 1)))
		return csv_bad(&p->csv, f->text,
			       "alignment is %lld, not a power of two",
			       (long long)align);
	p->row.align = (uint64_t)align;
	return r;
}

static int take_field(struct parser *p, enum column column,
		      const struct csv_field *f)
{
	int64_t number = 0;
	int r = 0;

	switch (column) {
	case COLUMN_ID:
		return take_id(p, f);
	case COLUMN_LOWER:
		return take_number(p, column, f, INT64_MIN, INT64_MAX,
				   &p->row.lower);
	case COLUMN_UPPER:
		return take_upper(p, f);
	case COLUMN_SIZE:
		r = take_number(p, column, f, 0, INT64_MAX, &number);
		p->row.bytes = (uint64_t)number;
		return r;
	case COLUMN_ALIGNMENT:
		return take_align(p, f);
	case COLUMN_HINT: /* the planner needs none */
		return f->len ? take_number(p, column, f, -1, INT64_MAX,
					    &number)
			      : 0;
	default:
		if (f->len)
			r = csv_bad(&p->csv, f->text,
				    "gaps is '%.*s%s', but gaps are not "
				    "supported",
				    CSV_QUOTED(f));
		return r;
	}
}

static int check_times(const struct parser *p, const char *upper)
{
	const struct plan_row *row = &p->row;

	if (row->lower < row->upper)
		return 0;
	return csv_bad(&p->csv, upper, "%s %lld is not %s %s %lld",
		       p->name[COLUMN_UPPER], (long long)row->upper - p->ends,
		       p->ends ? "at least" : "greater than",
		       p->name[COLUMN_LOWER], (long long)row->lower);
}

static int check_sum(struct parser *p, const char *size)
{
	uint64_t align = p->row.align ? p->row.align : 1;

	/* Each size is below 2^63, and the sum before it at most 2^60. */
	if (p->row.bytes <= sum_max)
		p->sum += p->row.bytes + 2 * align;
	if (p->row.bytes <= sum_max && p->sum <= sum_max)
		return 0;
	return csv_bad(&p->csv, size,
		       "all sizes up to this one, and twice the alignment of "
		       "each buffer, are over 2^60 bytes");
}

static int take_row(struct parser *p)
{
	const char *upper = NULL, *size = NULL;
	struct csv_field f;
	size_t i = 0;
	int r;

	p->row.line = line_of(&p->csv);
	for (; (r = csv_field(&p->csv, &f)) > 0; i++) {
		if (i == p->columns)
			return csv_bad(
				&p->csv, f.text,
				"field %zu; the first line names only %zu "
				"columns",
				i + 1, p->columns);
		r = take_field(p, p->order[i], &f);
		if (r < 0)
			return r;
		if (p->order[i] == COLUMN_UPPER)
			upper = f.text;
		if (p->order[i] == COLUMN_SIZE)
			size = f.text;
	}
	if (r == 0 && i < p->columns)
		return csv_bad(&p->csv, p->csv.line + p->csv.len,
			       "%s is missing; the line has %zu of %zu fields",
			       p->name[p->order[i]], i, p->columns);
	if (r == 0)
		r = check_times(p, upper);
	return r < 0 ? r : check_sum(p, size);
}

static int add_row(struct parser *p)
{
	struct plan_csv *to = p->to;

	if (to->n == p->room) {
		size_t room = p->room ? 2 * p->room : 64;
		void *row = reallocarray(to->row, room, sizeof(*to->row));

		if (!row)
			return -ENOMEM;
		to->row = row;
		p->room = room;
	}
	to->row[to->n++] = p->row;
	return 0;
}

static int compare_ids(const void *va, const void *vb)
{
	const struct plan_row *a = *(const struct plan_row *const *)va;
	const struct plan_row *b = *(const struct plan_row *const *)vb;
	size_t n = a->id_len < b->id_len ? a->id_len : b->id_len;
	int r = memcmp(a->id, b->id, n);

	if (r == 0)
		r = (a->id_len > b->id_len) - (a->id_len < b->id_len);
	return r ? r : a->line.number < b->line.number ? -1 : 1;
}

static bool is_same_id(const struct plan_row *a, const struct plan_row *b)
{
	return a->id_len == b->id_len && !memcmp(a->id, b->id, a->id_len);
}

/* Report the first line with the id of a line before it. */
static int find_twice(struct parser *p, const struct plan_row *const *sorted)
{
	const struct plan_row *first = NULL, *second = NULL;
	struct csv_field f = { 0 };

	for (size_t i = 1; i < p->to->n; i++)
		if (is_same_id(sorted[i - 1], sorted[i]) &&
		    (!second || sorted[i]->line.number < second->line.number)) {
			first = sorted[i - 1];
			second = sorted[i];
		}
	if (!second)
		return 0;
	/* Find its place by parsing the line again. */
	csv_begin(&p->csv, second->line.text, second->line.len, p->csv.error);
	csv_line(&p->csv);
	p->csv.number = second->line.number;
	for (size_t i = 0; csv_field(&p->csv, &f) > 0; i++)
		if (p->order[i] == COLUMN_ID)
			break;
	return csv_bad(&p->csv, f.text,
		       "%s '%.*s%s' is used in line %zu already",
		       p->name[COLUMN_ID], CSV_QUOTED(&f), first->line.number);
}

static int check_ids(struct parser *p)
{
	const struct plan_row **sorted;
	size_t n = p->to->n;
	int r;

	sorted = calloc(n + 1, sizeof(const struct plan_row *));
	if (!sorted)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		sorted[i] = &p->to->row[i];
	qsort(sorted, n, sizeof(const struct plan_row *), compare_ids);
	r = find_twice(p, sorted);
	free(sorted);
	return r;
}

static int parse(struct parser *p)
{
	int r = csv_line(&p->csv);

	if (r == 0) {
		p->csv.number = 1;
		return csv_bad(&p->csv, p->csv.line,
			       "the file is empty; its first line has to name "
			       "the columns, as id,lower,upper,size does");
	}
	if (r > 0)
		r = take_head(p);
	while (r >= 0 && (r = csv_line(&p->csv)) > 0) {
		r = take_row(p);
		if (r == 0)
			r = add_row(p);
	}
	return r < 0 ? r : check_ids(p);
}

int plan_csv_parse(const char *text, size_t n, struct plan_csv *ret_csv,
		   struct csv_error *ret_error)
{
	struct plan_csv csv = { 0 };
	struct parser p = { .to = &csv, .bytes = n };
	int r;

	csv_begin(&p.csv, text, n, ret_error);
	r = parse(&p);
	if (r < 0)
		plan_csv_free(&csv);
	else
		*ret_csv = csv;
	return r;
}

void plan_csv_free(struct plan_csv *csv)
{
	free(csv->row);
	free(csv->undoubled);
	*csv = (struct plan_csv){ 0 };
}
