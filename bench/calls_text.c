/* SPDX-License-Identifier: MIT */
/* Traces as text, in the format of weir_heap(3). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "raw.h"

#define MAX_NUMBER (1u << 24)
#define NO_SLOT UINT32_MAX

struct reader {
	struct calls *c;
	const char *path;
	size_t line;
	uint32_t *slots; /* a hash table of the blocks' numbers */
	uint32_t n_slots;
};

static __attribute__((noreturn)) void bad(const struct reader *r,
					  const char *why)
{
	die("%s:%zu: %s", r->path, r->line, why);
}

/* The slot of a block's number, or NO_SLOT. */
static uint32_t *slot_of(struct reader *r, unsigned long number)
{
	uint32_t n = r->n_slots ? r->n_slots : 1024;

	if (number >= MAX_NUMBER)
		bad(r, "the number of the block is too large");
	while (n <= number)
		n *= 2;
	if (n > r->n_slots) {
		r->slots = realloc(r->slots, n * sizeof(*r->slots));
		if (!r->slots)
			bad(r, "no memory");
		while (r->n_slots < n)
			r->slots[r->n_slots++] = NO_SLOT;
	}
	return &r->slots[number];
}

static void read_alloc(struct reader *r, const char *text)
{
	unsigned long long number, size, align;
	unsigned stream;
	uint32_t *slot;

	if (sscanf(text, "+ %llu %llu %llu %u", &number, &size, &align,
		   &stream) != 4)
		bad(r,
		    "an allocation has a number, a size, an alignment and a stream");
	slot = slot_of(r, number);
	if (*slot != NO_SLOT)
		bad(r, "a block with this number is live");
	if (!size || stream >= MAX_STREAMS)
		bad(r, "the size is 0, or the stream's number is too large");
	*slot = calls_alloc(r->c, size, stream);
}

/* A block that was live when the record began is not in the trace. */
static void read_free(struct reader *r, const char *text)
{
	unsigned long long number;
	unsigned stream;
	uint32_t *slot;

	if (sscanf(text, "- %llu %u", &number, &stream) != 2)
		bad(r, "a free has a number and a stream");
	if (stream >= MAX_STREAMS)
		bad(r, "the stream's number is too large");
	slot = slot_of(r, number);
	if (*slot != NO_SLOT)
		calls_drop(r->c, *slot, stream);
	*slot = NO_SLOT;
}

void calls_read(struct calls *c, const char *path)
{
	struct reader r = { .c = c, .path = path };
	FILE *f = fopen(path, "r");
	char *text = NULL;
	size_t room = 0;

	if (!f)
		die("%s: %m", path);
	while (getline(&text, &room, f) > 0) {
		r.line++;
		if (r.line == 1 && strcmp(text, "# weir heap 1\n"))
			bad(&r,
			    "not a record of a heap: \"# weir heap 1\" is wanted");
		if (text[0] == '+')
			read_alloc(&r, text);
		else if (text[0] == '-')
			read_free(&r, text);
		else if (text[0] != '#')
			bad(&r, "a line begins with +, - or #");
	}
	if (!c->n)
		bad(&r, "no calls");
	calls_end(c);
	free(text);
	free(r.slots);
	fclose(f);
}

void calls_write(const struct calls *c, const char *path)
{
	FILE *f = fopen(path, "w");

	if (!f)
		die("%s: %m", path);
	fprintf(f, "# weir heap 1\n# align 256\n");
	for (size_t i = 0; i < c->n; i++) {
		const struct call *call = &c->list[i];

		if (call->size)
			fprintf(f, "+ %u %llu 0 %u 1\n", call->slot,
				(unsigned long long)call->size, call->stream);
		else
			fprintf(f, "- %u %u 1\n", call->slot, call->stream);
	}
	if (fclose(f))
		die("%s: %m", path);
}
