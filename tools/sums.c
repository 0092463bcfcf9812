/* SPDX-License-Identifier: MIT */
#include "sums.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "output.h"
#include "progress.h"

enum {
	SUM_BYTES = 32,
	SUM_DIGITS = 2 * SUM_BYTES,
	MAX_THREADS = 64,
	MAX_NAMED = 10 /* files that do not match of which a line is printed */
};

/* A line: the sum of a file. */
struct sum {
	const char *digits, *name;
};

static bool is_sum(const char *text)
{
	return strspn(text, "0123456789abcdefABCDEF") == SUM_DIGITS;
}

/* "SHA256 (NAME) = DIGITS" */
static bool parse_tagged(char *line, struct sum *sum)
{
	char *end = strrchr(line, ')');

	if (strncmp(line, "SHA256 (", 8) != 0 || !end ||
	    strncmp(end, ") = ", 4) != 0 || !is_sum(end + 4) ||
	    strlen(end + 4) != SUM_DIGITS)
		return false;
	*end = '\0';
	*sum = (struct sum){ end + 4, line + 8 };
	return true;
}

/* "DIGITS  NAME", or "DIGITS *NAME"; escaped names begin with a backslash. */
static bool parse_plain(char *line, struct sum *sum)
{
	line += *line == '\\';
	if (!is_sum(line) || line[SUM_DIGITS] != ' ' ||
	    (line[SUM_DIGITS + 1] != ' ' && line[SUM_DIGITS + 1] != '*') ||
	    !line[SUM_DIGITS + 2])
		return false;
	*sum = (struct sum){ line, line + SUM_DIGITS + 2 };
	return true;
}

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* A file of the model, the sum that it should have, and the one that it has. */
struct summed {
	struct weir_file *file;
	struct weir_file_info info;
	struct sum want; /* digits NULL: not listed */
	uint8_t digest[SUM_BYTES];
	bool differs;
};

struct summing {
	struct summed *file;
	unsigned n;
	unsigned next; /* atomic: number of the next file */
	uint64_t done; /* atomic: bytes of files whose sums are known */
	bool failed;   /* atomic: the thread that set it writes @why */
	char why[512];
	struct progress bar; /* of the calling thread */
};

/* Sums are found by the names of the files, in whatever folder. */
static int note_sum(struct summing *s, const struct sum *sum, const char *name)
{
	for (unsigned i = 0; i < s->n; i++) {
		struct summed *f = &s->file[i];

		if (strcmp(base_of(f->info.path), base_of(sum->name)) != 0)
			continue;
		if (f->want.digits &&
		    strncasecmp(f->want.digits, sum->digits, SUM_DIGITS) != 0)
			return fail("%s: has two sums of a file '%s'", name,
				    base_of(sum->name));
		f->want = *sum;
	}
	return 0;
}

static int read_sums(struct summing *s, char *text, const char *name)
{
	char *save = NULL, *line = strtok_r(text, "\r\n", &save);
	int r = 0;

	for (; line && r == 0; line = strtok_r(NULL, "\r\n", &save)) {
		struct sum sum;

		if (*line == '#')
			continue;
		if (!parse_tagged(line, &sum) && !parse_plain(line, &sum))
			return fail("%s: neither a manifest nor a file of "
				    "SHA-256 sums: it has a line '%.60s'",
				    name, line);
		r = note_sum(s, &sum, name);
	}
	for (unsigned i = 0; i < s->n && r == 0; i++)
		if (!s->file[i].want.digits)
			return fail("%s: has no sum of '%s'", name,
				    base_of(s->file[i].info.path));
	return r;
}

/* Weir knows them for files of a hub. */
static int take_published(struct summing *s)
{
	for (unsigned i = 0; i < s->n; i++) {
		struct summed *f = &s->file[i];

		if (!*f->info.sha256)
			return fail("%s: no SHA-256 is published that weir "
				    "knows; give a file of sums",
				    f->info.path);
		f->want = (struct sum){ f->info.sha256, f->info.path };
	}
	return 0;
}

static bool has_digits(const struct summed *f)
{
	char hex[SUM_DIGITS + 1];

	for (int k = 0; k < SUM_BYTES; k++)
		snprintf(hex + 2 * k, 3, "%02x", f->digest[k]);
	return strncasecmp(hex, f->want.digits, SUM_DIGITS) == 0;
}

static void sum_some(struct summing *s, struct progress *bar)
{
	while (!__atomic_load_n(&s->failed, __ATOMIC_ACQUIRE)) {
		unsigned i = __atomic_fetch_add(&s->next, 1, __ATOMIC_RELAXED);
		struct summed *f = &s->file[i];

		if (i >= s->n)
			break;
		if (weir_file_digest(f->file, WEIR_DIGEST_SHA256, f->digest) >
		    0)
			f->differs = !has_digits(f);
		else if (!__atomic_exchange_n(&s->failed, true,
					      __ATOMIC_ACQ_REL))
			snprintf(s->why, sizeof(s->why), "%s", weir_sentence());
		__atomic_fetch_add(&s->done, f->info.bytes, __ATOMIC_RELAXED);
		if (bar)
			progress_show(bar, __atomic_load_n(&s->done,
							   __ATOMIC_RELAXED));
	}
}

static void *sum_beside(void *arg)
{
	sum_some(arg, NULL);
	return NULL;
}

/* The calling thread works too, so that it succeeds if no thread starts. */
static void sum_all(struct summing *s)
{
	pthread_t threads[MAX_THREADS];
	unsigned want = 1, n = 0;
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		want = (unsigned)CPU_COUNT(&set);
	while (n + 1 < want && n < MAX_THREADS && n + 1 < s->n &&
	       pthread_create(&threads[n], NULL, sum_beside, s) == 0)
		n++;
	sum_some(s, &s->bar);
	while (n)
		pthread_join(threads[--n], NULL);
	progress_end(&s->bar, s->done);
}

static int report(const struct summing *s, const char *name)
{
	unsigned bad = 0;
	char files[COUNT_TEXT];

	for (unsigned i = 0; i < s->n; i++) {
		const struct summed *f = &s->file[i];
		char hex[SUM_DIGITS + 1];

		if (!f->differs || ++bad > MAX_NAMED)
			continue;
		for (int k = 0; k < SUM_BYTES; k++)
			snprintf(hex + 2 * k, 3, "%02x", f->digest[k]);
		note("%s: SHA-256 is %s, not %.*s", f->info.path, hex,
		     SUM_DIGITS, f->want.digits);
	}
	if (!bad)
		return 0;
	return fail("%u of %s do not match %s", bad,
		    count_text(s->n, "file", files), name);
}

int sums_verify(char *text, const char *name, const struct weir_model *model,
		uint64_t *ret_bytes)
{
	struct summing s = { 0 };
	int r = 0;

	while (weir_model_file(model, s.n))
		s.n++;
	s.file = calloc(s.n + 1, sizeof(*s.file));
	if (!s.file)
		return fail_memory();
	*ret_bytes = 0;
	for (unsigned i = 0; i < s.n && r == 0; i++) {
		s.file[i].file = weir_model_file(model, i);
		s.file[i].info.size = sizeof(s.file[i].info);
		if (weir_file_info(s.file[i].file, &s.file[i].info) < 0)
			r = fail_weir();
		*ret_bytes += s.file[i].info.bytes;
	}
	if (r == 0)
		r = text ? read_sums(&s, text, name) : take_published(&s);
	if (r == 0) {
		progress_begin(&s.bar, "verifying", *ret_bytes);
		sum_all(&s);
		r = s.failed ? fail("%s", s.why) : report(&s, name);
	}
	free(s.file);
	return r;
}
