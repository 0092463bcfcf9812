/* SPDX-License-Identifier: MIT */
/*
 * Lifetimes as CSV. What is accepted is written in the plainest way and read
 * again: the buffers are the same. What is refused has a place in the text.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../tools/plan_csv.h"
#include "fuzz.h"
#include "mutate.h"

const char fz_corpus[] = "plan";
const char fz_small[] = "quoted";

/* Change one field, one line or one byte. */
void fz_mutate(struct edit *e)
{
	mutate_csv(e);
}

static void check_error(const uint8_t *bytes, size_t n,
			const struct csv_error *error)
{
	size_t lines = 1;

	for (size_t i = 0; i < n; i++)
		lines += bytes[i] == '\n';
	must(error->line >= 1 && error->line <= lines);
	must(error->column >= 1 && error->column <= n + 1);
	must(error->why[0] && strlen(error->why) < CSV_WHY - 1);
}

static void put_id(FILE *to, const struct plan_row *row)
{
	putc('"', to);
	for (size_t i = 0; i < row->id_len; i++) {
		if (row->id[i] == '"')
			putc('"', to);
		putc(row->id[i], to);
	}
	putc('"', to);
}

static void write_plainly(FILE *to, const struct plan_csv *csv)
{
	fputs("alignment,size,upper,lower,id\n", to);
	for (size_t i = 0; i < csv->n; i++) {
		const struct plan_row *row = &csv->row[i];

		fprintf(to, "%llu,%llu,%lld,%lld,",
			row->align ? (unsigned long long)row->align : 1ull,
			(unsigned long long)row->bytes, (long long)row->upper,
			(long long)row->lower);
		put_id(to, row);
		putc('\n', to);
	}
}

static void check_row(const uint8_t *bytes, size_t n,
		      const struct plan_row *row)
{
	const char *text = (const char *)bytes;

	must(row->id_len && row->lower < row->upper);
	must(row->bytes <= INT64_MAX);
	must(!(row->align & (row->align - 1)));
	must(row->line.text >= text);
	must(row->line.text + row->line.len <= text + n);
	must(!memchr(row->line.text, '\n', row->line.len));
}

static void same_row(const struct plan_row *a, const struct plan_row *b)
{
	must(a->id_len == b->id_len && !memcmp(a->id, b->id, a->id_len));
	must(a->lower == b->lower && a->upper == b->upper);
	must(a->bytes == b->bytes);
	must((a->align ? a->align : 1) == b->align);
}

static void read_again(const struct plan_csv *csv)
{
	struct csv_error error;
	struct plan_csv again;
	char *text = NULL;
	size_t n = 0;
	FILE *to = open_memstream(&text, &n);

	write_plainly(to, csv);
	must(!fclose(to));
	must_be(plan_csv_parse(text, n, &again, &error) == 0, error.why);
	must(again.n == csv->n);
	for (size_t i = 0; i < csv->n; i++)
		same_row(&csv->row[i], &again.row[i]);
	plan_csv_free(&again);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	struct csv_error error = { 0 };
	struct plan_csv csv;
	int r = plan_csv_parse((const char *)bytes, n, &csv, &error);

	must(r == 0 || r == -EBADMSG);
	if (r < 0) {
		check_error(bytes, n, &error);
		return 0;
	}
	fz_accepted++;
	for (size_t i = 0; i < csv.n; i++)
		check_row(bytes, n, &csv.row[i]);
	read_again(&csv);
	plan_csv_free(&csv);
	return 0;
}
