/* SPDX-License-Identifier: MIT */
/* The sentences of the race checker. */
#include <stdio.h>
#include <string.h>

#include "races/races_in.h"
#include "core/sys.h"
#include "core/util.h"

typedef unsigned long long ull;

#define WHO (sizeof(((struct weir__races_actor *)0)->label) + 64)

void weir__races_say(struct weir__races *r, const char *text)
{
	size_t n = strlen(text) + 1;
	struct weir__races_line *line = weir__malloc(sizeof(*line) + n);

	if (!line)
		return;
	line->next = NULL;
	memcpy(line->text, text, n);
	*r->line_end = line;
	r->line_end = &line->next;
	atomic_store_explicit(&r->lines, true, memory_order_relaxed);
}

static uint64_t hash_add(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 32;
}

static uint64_t hash_text(uint64_t hash, const char *text)
{
	for (; text && *text; text++)
		hash = hash_add(hash, (unsigned char)*text);
	return hash_add(hash, 256);
}

/* The description of an access; NULL: another access has its place now. */
static const struct weir__races_info *
info_of(const struct weir__races *r, const struct weir__races_epoch *epoch)
{
	const struct weir__races_info *info = &r->info[epoch->info];

	return info->actor == epoch->actor && info->number == epoch->number
		       ? info
		       : NULL;
}

/*
 * True if this is the first report of two accesses by these actors, calls and
 * names.
 */
static bool is_new(struct weir__races *r, const struct weir__races_by *by,
		   const struct weir__races_epoch *other,
		   const struct weir__races_info *info)
{
	uint64_t hash = hash_text(1, by->actor ? by->actor->label : NULL);

	hash = hash_text(hash, r->actor[other->actor].label);
	hash = hash_text(hash, by->what);
	hash = hash_text(hash, by->bytes->name);
	hash = hash_text(hash, info ? info->what : NULL);
	hash = hash_text(hash, info ? info->name : NULL);
	for (unsigned i = 0; i < r->n_said; i++)
		if (r->said[i] == hash)
			return false;
	if (r->n_said == WEIR__RACES_REPORTS)
		return false;
	r->said[r->n_said++] = hash;
	return true;
}

/* "stream 'a' operation 7" */
static void who(char text[WHO], const struct weir__races_actor *a,
		uint64_t number)
{
	if (!a)
		snprintf(text, WHO, "the program");
	else if (weir__races_is_load(a))
		snprintf(text, WHO, "tensor %llu of %s", (ull)number, a->label);
	else
		snprintf(text, WHO, "%s %s %llu", a->label, a->unit,
			 (ull)number);
}

/*
 * "bytes [0, 64) of 'w'"; of a tensor whose address is unknown: "64 bytes at".
 */
static void where(char text[128], const struct weir__races_bytes *b,
		  const struct weir__races_info *info, uint64_t lo, uint64_t hi)
{
	const char *name = b->name;
	uint64_t base = b->base;

	if (!name && info && info->name[0]) {
		name = info->name;
		base = info->base;
	}
	if (name && base && lo >= base)
		snprintf(text, 128, "bytes [%llu, %llu) of '%.40s'",
			 (ull)(lo - base), (ull)(hi - base), name);
	else
		snprintf(text, 128, "%llu bytes at %#llx%s%.40s%s",
			 (ull)(hi - lo), (ull)lo, name ? " ('" : "",
			 name ? name : "", name ? "')" : "");
}

static void needed(char text[3 * WHO], const struct weir__races_by *by,
		   const char *other)
{
	if (!by->actor)
		snprintf(text, 3 * WHO,
			 "the program needs to wait for %s before this call",
			 other);
	else if (weir__races_is_load(by->actor))
		snprintf(text, 3 * WHO,
			 "the program needs to wait for %s before it starts %s",
			 other, by->actor->label);
	else
		snprintf(text, 3 * WHO, "%s needs to wait for %s",
			 by->actor->label, other);
}

/* Of a report that is wrong if the program has made such an order. */
static const char not_seen[] =
	"; orders of native streams that are made outside of weir are not seen";

void weir__races_report(struct weir__races *r, const struct weir__races_by *by,
			const struct weir__races_epoch *other, bool wrote,
			uint64_t lo, uint64_t hi)
{
	const struct weir__races_info *info = info_of(r, other);
	char a[WHO], b[WHO], range[128], edge[3 * WHO], text[1100];

	if (!is_new(r, by, other, info))
		return;
	who(a, by->actor, by->number);
	who(b, &r->actor[other->actor], other->number);
	where(range, by->bytes, info, lo, hi);
	needed(edge, by, b);
	snprintf(
		text, sizeof(text),
		"race: %s (%s) %s %s, which %s (%s) %s, and nothing orders the two: %s%s",
		a, by->what, by->bytes->write ? "writes" : "reads", range, b,
		info && info->what ? info->what : "no longer known",
		wrote ? "writes" : "reads", edge,
		weir__races_by_native(r, by, other) ? not_seen : "");
	weir__races_say(r, text);
	if (r->n_said == WEIR__RACES_REPORTS)
		weir__races_say(r, "race: others are not reported any more");
}
