/* SPDX-License-Identifier: MIT */
/*
 * Lifetimes of buffers as CSV text. The first line names the columns, in any
 * order: id (or buffer, buffer_id), lower (start, begin), upper, size, and
 * optionally alignment, hint and gaps. A column "end" instead of upper has the
 * last time at which the buffer is alive: upper is end + 1. Each later line is
 * a buffer. This file includes nothing of the command but csv.h, so that a test
 * can link it alone.
 */
#ifndef TOOLS_PLAN_CSV_H
#define TOOLS_PLAN_CSV_H

#include <stddef.h>
#include <stdint.h>
#include "csv.h"

/* Pointers point into the text, those of a row also into struct plan_csv. */
struct plan_line {
	const char *text; /* without its end */
	size_t len, number;
};

struct plan_row {
	struct plan_line line;
	const char *id; /* without quotes; may have any byte but NUL */
	size_t id_len;
	int64_t lower, upper;
	uint64_t bytes, align; /* align 0: there is no such column */
};

struct plan_csv {
	struct plan_line head;
	struct plan_row *row;
	size_t n;
	char *undoubled; /* ids that have quotes */
};

/*
 * Parse @n bytes. @text must stay until plan_csv_free(). Returns 0; -EBADMSG
 * and an error with the first place that is malformed; or -ENOMEM.
 */
int plan_csv_parse(const char *text, size_t n, struct plan_csv *ret_csv,
		   struct csv_error *ret_error);
void plan_csv_free(struct plan_csv *csv);

#endif
