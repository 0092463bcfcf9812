/* SPDX-License-Identifier: MIT */
/* The reader of CSV files with lifetimes: what it accepts, and its errors. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tap.h"
#include "../../tools/plan_csv.h"

#define HEAD "id,lower,upper,size\n"
#define BIG "9223372036854775807"

static struct csv_error error;

static int parse_bytes(const char *text, size_t n, struct plan_csv *ret_csv)
{
	error = (struct csv_error){ 0 };
	return plan_csv_parse(text, n, ret_csv, &error);
}

/* The rows as "id lower upper bytes align|", of a text that is accepted. */
static const char *rows_of(const char *text)
{
	static char line[400];
	struct plan_csv csv;
	size_t n = 0;

	line[0] = '\0';
	if (parse_bytes(text, strlen(text), &csv) < 0) {
		snprintf(line, sizeof(line), "refused: %s", error.why);
		return line;
	}
	for (size_t i = 0; i < csv.n; i++) {
		const struct plan_row *row = &csv.row[i];

		n += (size_t)snprintf(
			line + n, sizeof(line) - n, "%.*s %lld %lld %llu %llu|",
			(int)row->id_len, row->id, (long long)row->lower,
			(long long)row->upper, (unsigned long long)row->bytes,
			(unsigned long long)row->align);
	}
	plan_csv_free(&csv);
	return line;
}

static void accepts_formats(void)
{
	is_str(rows_of(HEAD "b1,0,3,4\nb2,3,9,5\n"), "b1 0 3 4 0|b2 3 9 5 0|",
	       "lifetimes are read in the order of the file");
	is_str(rows_of(HEAD), "", "a file without buffers is accepted");
	is_str(rows_of(HEAD "b1,0,3,4"), "b1 0 3 4 0|",
	       "the last line may lack its end");
	is_str(rows_of("size,upper,id,lower\n4,3,b1,0\n"), "b1 0 3 4 0|",
	       "columns may be in any order");
	is_str(rows_of("buffer,start,upper,size\nb,0,3,4\n"), "b 0 3 4 0|",
	       "'buffer' and 'start' mean id and lower");
	is_str(rows_of("buffer_id,begin,end,size\nb,0,3,4\n"), "b 0 4 4 0|",
	       "a buffer with an 'end' is alive at that time too");
	is_str(rows_of("buffer,start,end,size\nb,3,3,4\n"), "b 3 4 4 0|",
	       "a buffer may be alive at a single time");
	is_str(rows_of("id,lower,upper,size,alignment,hint,gaps\n"
		       "b,0,3,4,32,-1,\nc,0,3,4,1,96,\nd,0,3,4,1,,\n"),
	       "b 0 3 4 32|c 0 3 4 1|d 0 3 4 1|",
	       "alignments are used, hints ignored, empty gaps accepted");
	is_str(rows_of(HEAD "b,-" BIG ",-3,1152921504606846974\n"),
	       "b -" BIG " -3 1152921504606846974 0|",
	       "times may be negative, and sizes 2^60 - 2");
	is_str(rows_of(HEAD "b,-9223372036854775808," BIG ",0\n"),
	       "b -9223372036854775808 " BIG " 0 0|",
	       "times have the range of 64 bits, and a size may be 0");
	is_str(rows_of(HEAD "b,+1,007,+0010\n"), "b 1 7 10 0|",
	       "numbers may have a plus and leading zeros");
}

static void accepts_text(void)
{
	static const char blanks[] = HEAD " \"b\", 0,3,4 \r\n";
	struct plan_csv csv;

	is_str(rows_of("\xef\xbb\xbf" HEAD "b,0,3,4\n"), "b 0 3 4 0|",
	       "a byte order mark is skipped");
	is_str(rows_of("id,lower,upper,size\r\nb,0,3,4\r\n\r\n"), "b 0 3 4 0|",
	       "lines may end in CRLF");
	is_str(rows_of(" id ,lower,\tupper, size \n b c ,0 , 3,4\t\n"),
	       "b c 0 3 4 0|", "blanks around a field are no part of it");
	is_str(rows_of("\n" HEAD "\n \t\nb,0,3,4\n\n\n"), "b 0 3 4 0|",
	       "blank lines are skipped");
	is_str(rows_of("\"id\",lower,upper,size\n\"a,b\",\"0\",3, \"4\" \n"),
	       "a,b 0 3 4 0|", "fields may be quoted, and have commas then");
	is_str(rows_of(HEAD "\"say \"\"a\"\"\",0,3,4\n\"\"\"\",0,3,4\n"),
	       "say \"a\" 0 3 4 0|\" 0 3 4 0|",
	       "a doubled quote in a quoted field is a quote");
	is_str(rows_of(HEAD "5\"x,0,3,4\n"), "5\"x 0 3 4 0|",
	       "a quote in a field that does not begin with it is kept");
	is_str(rows_of(HEAD "\xff\x01,0,3,4\n"), "\xff\x01 0 3 4 0|",
	       "an id may have any bytes but NUL");
	is_int(parse_bytes(blanks, sizeof(blanks) - 1, &csv), 0,
	       "a line with quotes and blanks is accepted");
	is_mem(csv.row[0].line.text, " \"b\", 0,3,4 ", csv.row[0].line.len,
	       "a row keeps its line as it is in the file");
	is_int(csv.row[0].line.len, 12,
	       "the line of a row ends before its CRLF");
	plan_csv_free(&csv);
}

struct refusal {
	const char *text;
	size_t line, column;
	const char *part; /* part of the sentence */
};

static const struct refusal refusals[] = {
	{ "", 1, 1, "the file is empty" },
	{ "\xef\xbb\xbf", 1, 1, "the file is empty" },
	{ "\r\n\n  \n", 1, 1, "the file is empty" },
	{ "b1,0,3,4\n", 1, 1, "unknown column;" },
	{ "id,lower,upper,size,colour\n", 1, 21, "unknown column 'colour'" },
	{ "id;lower;upper;size\n", 1, 1, "unknown column;" },
	{ "id,lower,upper,size,\n", 1, 21, "unknown column ''" },
	{ "id,lower,upper,size,offset\n", 1, 21, "'offset' has fixed offsets" },
	{ "id,lower,upper\n", 1, 15, "there is no column 'size'" },
	{ "lower,upper,size\n", 1, 17, "there is no column 'id'" },
	{ "id,lower,size,lower,upper\n", 1, 15, "'lower' occurs twice" },
	{ "id,lower,start,size\n", 1, 10, "'lower' and 'start' have the same" },
	{ HEAD "b,0,3\n", 2, 6, "size is missing; the line has 3 of 4 fields" },
	{ HEAD "b\n", 2, 2, "lower is missing; the line has 1 of 4" },
	{ HEAD "b,0,3,4,5\n", 2, 9, "field 5; the first line names only 4" },
	{ HEAD "b,0,3,4,\n", 2, 9, "field 5; the first line names only 4" },
	{ HEAD "b,0,3,4\n,0,3,4\n", 3, 1, "id is empty" },
	{ HEAD "\"\",0,3,4\n", 2, 2, "id is empty" },
	{ HEAD "b,,3,4\n", 2, 3, "lower is missing" },
	{ HEAD "b,x,3,4\n", 2, 3, "lower is 'x', not a whole number" },
	{ HEAD "b,0,3.5,4\n", 2, 5, "upper is '3.5', not a whole" },
	{ HEAD "b,0,3,4e3\n", 2, 7, "size is '4e3', not a whole" },
	{ HEAD "b,0,3,4 5\n", 2, 7, "size is '4 5', not a whole" },
	{ HEAD "b,0,3,4K\n", 2, 7, "size is '4K'" },
	{ HEAD "b,0,3,0x4\n", 2, 7, "size is '0x4'" },
	{ HEAD "b,0,3,-\n", 2, 7, "size is '-'" },
	{ HEAD "b,0,3,--4\n", 2, 7, "size is '--4'" },
	{ HEAD "b,0,3,-4\n", 2, 7, "size is -4, not from 0 to " BIG },
	{ HEAD "b,0,3,9223372036854775808\n", 2, 7, "not from 0 to " BIG },
	{ HEAD "b,-9223372036854775809,3,4\n", 2, 3, "not from -92233720368" },
	{ HEAD "b,0,99999999999999999999999999,4\n", 2, 5, "upper is 999" },
	{ "id,lower,end,size\nb,0," BIG ",4\n", 2, 5,
	  "to 9223372036854775806" },
	{ HEAD "b,3,3,4\n", 2, 5, "upper 3 is not greater than lower 3" },
	{ HEAD "b,4,-3,4\n", 2, 5, "upper -3 is not greater than lower 4" },
	{ "id,start,end,size\nb,4,3,1\n", 2, 5,
	  "end 3 is not at least start 4" },
	{ "upper,lower,id,size\n 3,4,b,1\n", 2, 2, "upper 3 is not greater" },
	{ HEAD "b,0,3,4\nc,0,3,4\nb,5,6,4\n", 4, 1, "'b' is used in line 2" },
	{ HEAD "c,0,1,1\nb,0,3,4\n\n\"b\",5,6,4\n", 5, 2, "is used in line 3" },
	{ HEAD "\"\"\"\",0,1,1\n\"\"\"\",0,3,4\n", 3, 2, "is used in line 2" },
	{ "lower,id,upper,size\n0,b,1,1\n10,b,11,1\n", 3, 4, "used in line 2" },
	{ HEAD "b,0,1,1\nb,0,1,1\na,0,1,1\na,0,1,1\n", 3, 1,
	  "'b' is used in line 2" },
	{ HEAD "\"b,0,3,4\n", 2, 1, "the quote is not closed" },
	{ HEAD "\"b\nc\",0,3,4\n", 2, 1, "the quote is not closed" },
	{ HEAD "\"b\"c,0,3,4\n", 2, 4,
	  "comma has to follow the closing quote" },
	{ HEAD "\xc3\xa4\xc3\xb6,x,3,4\n", 2, 4, "lower is 'x'" },
	{ "id,lower,upper,size,alignment\nb,0,3,4,0\n", 2, 9,
	  "alignment is 0" },
	{ "id,lower,upper,size,alignment\nb,0,3,4,48\n", 2, 9, "power of two" },
	{ "id,lower,upper,size,hint\nb,0,3,4,-2\n", 2, 9, "hint is -2" },
	{ "id,lower,upper,size,hint\nb,0,3,4,x\n", 2, 9, "hint is 'x'" },
	{ HEAD "b,0,3,1152921504606846975\n", 2, 7, "over 2^60" },
	{ HEAD "b,0,3," BIG "\n", 2, 7, "over 2^60" },
	{ HEAD "b,0,3,1152921504606846970\nc,0,3,2\n"
	       "\nd,0,3,1\n",
	  5, 7, "over 2^60" },
	{ "size,id,lower,upper,alignment\n1,b,0,3,1\n"
	  "1152921504606838782,c,0,3,4096\n",
	  3, 1, "over 2^60" },
	{ "id,lower,upper,size,gaps\nb,0,9,4,2-4@0:1\n", 2, 9,
	  "gaps is '2-4@0:1'" },
};

static void refuses(const struct refusal *want)
{
	char text[100];
	struct plan_csv csv;
	int r = parse_bytes(want->text, strlen(want->text), &csv);

	snprintf(text, sizeof(text), "%s", want->text);
	for (char *s = text; *s; s++)
		if (*s == '\n')
			*s = '|';
	ok(r == -EBADMSG && error.line == want->line &&
		   error.column == want->column &&
		   strstr(error.why, want->part),
	   "%s: refused at line %zu, column %zu: %s", text, want->line,
	   want->column, want->part);
	if (r == 0)
		plan_csv_free(&csv);
	else
		diag("line %zu, column %zu: %s", error.line, error.column,
		     error.why);
}

static void refuses_nul(void)
{
	static const char text[] = HEAD "b,0,3\0,4\n";
	struct plan_csv csv;

	is_int(parse_bytes(text, sizeof(text) - 1, &csv), -EBADMSG,
	       "a NUL byte is refused");
	ok(error.line == 2 && error.column == 6,
	   "the error of a NUL byte has its line and column");
	has_str(error.why, "NUL", "the error of a NUL byte names it");
}

static void long_line(void)
{
	size_t id = 10000000, n = strlen(HEAD);
	char *text = malloc(n + id + 20);
	struct plan_csv csv;

	memcpy(text, HEAD, n);
	memset(text + n, 'x', id);
	strcpy(text + n + id, ",0,3,4\n");
	is_int(parse_bytes(text, n + id + 7, &csv), 0,
	       "a line of 10 MB is accepted");
	is_int(csv.row[0].id_len, id, "an id of 10 MB is kept whole");
	plan_csv_free(&csv);
	strcpy(text + n + id, ",0,3,z\n");
	is_int(parse_bytes(text, n + id + 7, &csv), -EBADMSG,
	       "an error in a line of 10 MB is found");
	is_int(error.column, id + 6, "a column can be 10 million");
	memset(text + n, '9', id);
	is_int(parse_bytes(text, n + id, &csv), -EBADMSG,
	       "a long field without an end of line is refused");
	free(text);
}

int main(void)
{
	size_t n = sizeof(refusals) / sizeof(refusals[0]);

	plan((unsigned)n + 30);
	accepts_formats();
	accepts_text();
	for (size_t i = 0; i < n; i++)
		refuses(&refusals[i]);
	refuses_nul();
	long_line();
	return done_testing();
}
