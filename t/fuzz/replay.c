/* SPDX-License-Identifier: MIT */
/*
 * A fuzz target without a fuzzer. Each input of the corpus is a test; then each
 * prefix and each change of one byte of a small one; then WEIR_T_MUTATIONS
 * mutations of all, always the same, unless WEIR_T_SEED is set. WEIR_T_KEEP
 * names a file for the last of these.
 *
 * The address space is limited: a reader that allocates what a file claims
 * fails with -ENOMEM, which no target takes for a refusal.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../limit.h"
#include "../tap.h"
#include "fuzz.h"
#include "mutate.h"

#define ROOM (1u << 20)   /* room for a file of the corpus */
#define MOST_BYTES 4096u  /* bytes of an input that is mutated */
#define MUTATIONS 20000ul /* 1 second */
#define MEMORY (64ul << 20)
#define AT_ONCE 6u /* mutations of one input, at most */

struct input {
	char *name;
	uint8_t *bytes;
	size_t n;
};

static int visible(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

/* Exactly as many bytes as the input, so that sanitizers see an overrun. */
static void run(const uint8_t *from, size_t n)
{
	uint8_t *bytes = malloc(n ? n : 1);

	memcpy(bytes, from, n);
	LLVMFuzzerTestOneInput(bytes, n);
	free(bytes);
}

static void read_input(const char *dir, const char *name, struct input *in)
{
	static uint8_t room[ROOM];
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "rb");
	if (!f)
		bail("%s: %s", path, strerror(errno));
	in->n = fread(room, 1, sizeof(room), f);
	fclose(f);
	in->name = strdup(name);
	in->bytes = malloc(in->n + 1);
	memcpy(in->bytes, room, in->n);
}

static size_t read_corpus(struct input **ret)
{
	const char *top = getenv("srcdir");
	struct dirent **list;
	char dir[3800];
	int n;

	snprintf(dir, sizeof(dir), "%s/t/corpus/%s", top ? top : ".",
		 fz_corpus);
	n = scandir(dir, &list, visible, alphasort);
	if (n <= 0)
		bail("%s: %s", dir, n ? strerror(errno) : "empty");
	*ret = calloc((size_t)n, sizeof(**ret));
	for (int i = 0; i < n; i++) {
		read_input(dir, list[i]->d_name, &(*ret)[i]);
		free(list[i]);
	}
	free(list);
	return (size_t)n;
}

static unsigned long setting(const char *name, unsigned long normal)
{
	const char *text = getenv(name);

	return text ? strtoul(text, NULL, 0) : normal;
}

/* Write an input to the file WEIR_T_KEEP, for the corpus. */
static void keep(const uint8_t *bytes, size_t n)
{
	const char *path = getenv("WEIR_T_KEEP");
	FILE *f = path ? fopen(path, "wb") : NULL;

	if (f && (fwrite(bytes, 1, n, f) != n || fclose(f)))
		bail("%s: %s", path, strerror(errno));
}

static void mutate(const struct input *in, size_t n, unsigned long seed)
{
	uint8_t room[MOST_BYTES];
	struct edit e = { room, 0, sizeof(room), seed };
	size_t which, times;

	edit_random(&e);
	which = edit_below(&e, n);
	times = 1 + edit_below(&e, AT_ONCE);
	if (in[which].n > e.max)
		return;
	e.n = in[which].n;
	memcpy(room, in[which].bytes, e.n);
	snprintf(fz_input, sizeof(fz_input),
		 "\n%s/%s: WEIR_T_MUTATIONS=1 WEIR_T_SEED=%lu WEIR_T_KEEP=FILE "
		 "repeats it",
		 fz_corpus, in[which].name, seed);
	while (times--)
		fz_mutate(&e);
	keep(room, e.n);
	run(room, e.n);
}

static void mutate_all(const struct input *in, size_t n)
{
	unsigned long times = setting("WEIR_T_MUTATIONS", MUTATIONS);
	unsigned long seed = setting("WEIR_T_SEED", 1);

	fz_accepted = 0;
	for (unsigned long i = 0; i < times; i++) {
		mutate(in, n, seed + i);
		if (i % 100000 == 0)
			tap_renew();
	}
	ok(1, "%lu mutations of %s are accepted or refused, and break nothing",
	   times, fz_corpus);
	ok(times < MUTATIONS || fz_accepted > times / 50,
	   "many of the mutations of %s are accepted", fz_corpus);
	diag("%lu of %lu are accepted", fz_accepted, times);
}

static const struct input *small_one(const struct input *in, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(in[i].name, fz_small))
			return &in[i];
	bail("there is no %s/%s", fz_corpus, fz_small);
	return NULL;
}

static void every_prefix(const struct input *in)
{
	fz_accepted = 0;
	run(in->bytes, in->n);
	ok(fz_accepted, "%s/%s is accepted", fz_corpus, fz_small);
	for (size_t n = 0; n < in->n; n++) {
		snprintf(fz_input, sizeof(fz_input),
			 "\nthe first %zu bytes of %s/%s", n, fz_corpus,
			 fz_small);
		run(in->bytes, n);
	}
	ok(1, "each prefix of %s/%s is accepted or refused, and breaks nothing",
	   fz_corpus, fz_small);
}

static void every_byte(const struct input *in)
{
	uint8_t *bytes = malloc(in->n);

	memcpy(bytes, in->bytes, in->n);
	for (size_t i = 0; i < in->n; i++) {
		for (unsigned c = 1; c < 256; c++) {
			bytes[i] = (uint8_t)(in->bytes[i] ^ c);
			snprintf(fz_input, sizeof(fz_input),
				 "\n%s/%s with 0x%02x at byte %zu", fz_corpus,
				 fz_small, bytes[i], i);
			run(bytes, in->n);
		}
		bytes[i] = in->bytes[i];
		tap_renew();
	}
	free(bytes);
	ok(1, "%s/%s with each other value of each byte breaks nothing",
	   fz_corpus, fz_small);
}

int main(void)
{
	struct input *in;
	size_t n = read_corpus(&in);

	plan((unsigned)n + 5);
	limit_memory(MEMORY);
	for (size_t i = 0; i < n; i++) {
		snprintf(fz_input, sizeof(fz_input), "\n%s/%s", fz_corpus,
			 in[i].name);
		run(in[i].bytes, in[i].n);
		ok(1, "%s/%s is accepted or refused, and breaks nothing",
		   fz_corpus, in[i].name);
	}
	every_prefix(small_one(in, n));
	every_byte(small_one(in, n));
	mutate_all(in, n);
	for (size_t i = 0; i < n; i++) {
		free(in[i].name);
		free(in[i].bytes);
	}
	free(in);
	return done_testing();
}
