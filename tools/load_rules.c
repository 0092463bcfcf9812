/* SPDX-License-Identifier: MIT */
/* The options of weir load whose values begin with a glob, and --rank. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "args.h"
#include "load.h"
#include "output.h"

/* Parse all of @text as a decimal number of at most @max. */
static bool whole_number(const char *text, uint64_t max, uint64_t *ret_number)
{
	char *end;

	if (text[0] < '0' || text[0] > '9')
		return false;
	errno = 0;
	*ret_number = strtoull(text, &end, 10);
	return !errno && !*end && *ret_number <= max;
}

/*
 * Split GLOB=NAME at the first "="; NAME may have parameters with others.
 */
static int take_place(const struct args *args, struct load_rule *rule)
{
	char *name = strchr(optarg, '='), *size;

	if (!name || name == optarg || !name[1] || name[1] == '@')
		return fail_usage("load", "--place %s is not GLOB=NAME[@SIZE]",
				  optarg);
	*name++ = '\0';
	rule->memory = name;
	size = strrchr(name, '@');
	if (!size)
		return 0;
	*size++ = '\0';
	optarg = size;
	return args_size(args, "the SIZE of --place", 1, INT64_MAX,
			 &rule->capacity);
}

/* Cut @text at its last colon; NULL: there is none. */
static char *last_field(char *text)
{
	char *colon = strrchr(text, ':');

	if (!colon)
		return NULL;
	*colon = '\0';
	return colon + 1;
}

/* Parse START+N. */
static bool parse_range(char *text, struct weir_slice *slice)
{
	char *plus = strchr(text, '+');
	uint64_t start, n;

	*plus = '\0';
	if (!whole_number(text, INT64_MAX, &start) ||
	    !whole_number(plus + 1, INT64_MAX, &n))
		return false;
	slice->start = (int64_t)start;
	slice->n = (int64_t)n;
	return true;
}

/* GLOB:DIM or GLOB:DIM:START+N, from the end, since GLOB may have colons. */
static bool parse_slice(char *text, struct load_rule *rule)
{
	char *field = last_field(text);
	uint64_t dim;

	rule->slice.n = -1;
	if (field && strchr(field, '+')) {
		if (!parse_range(field, &rule->slice))
			return false;
		field = last_field(text);
	}
	if (!field || !*text || !whole_number(field, WEIR_MAX_DIMS - 1, &dim))
		return false;
	rule->slice.dim = (uint32_t)dim;
	return true;
}

static int take_slice(struct load_rule *rule)
{
	char *whole = strdup(optarg);
	int r = 0;

	if (!whole)
		return fail_memory();
	if (!parse_slice(optarg, rule))
		r = fail_usage(
			"load",
			"--slice %s is not GLOB:DIM or GLOB:DIM:START+N, with DIM of 0 to %d",
			whole, WEIR_MAX_DIMS - 1);
	free(whole);
	return r;
}

int load_rule_take(const struct args *args, struct load_args *a,
		   enum load_rules_kind kind)
{
	struct load_rules *rules = &a->rules[kind];
	struct load_rule *rule = &rules->rule[rules->n++];

	rule->glob = optarg;
	if (kind == LOAD_RULE_PLACE)
		return take_place(args, rule);
	return kind == LOAD_RULE_SLICE ? take_slice(rule) : 0;
}

int load_rank_take(struct load_args *a)
{
	char *slash = strchr(optarg, '/');
	uint64_t rank, ranks = 0;

	if (slash)
		*slash = '\0';
	if (slash && whole_number(optarg, UINT32_MAX, &rank) &&
	    whole_number(slash + 1, UINT32_MAX, &ranks) && rank < ranks) {
		a->rank = (uint32_t)rank;
		a->ranks = (uint32_t)ranks;
		return 0;
	}
	if (slash)
		*slash = '/';
	return fail_usage(
		"load", "--rank is '%s', not R/N with R of 0 to N - 1", optarg);
}

/* Is there a slice that needs --rank? */
static const struct load_rule *slice_by_rank(const struct load_rules *slices)
{
	for (size_t i = 0; i < slices->n; i++)
		if (slices->rule[i].slice.n < 0)
			return &slices->rule[i];
	return NULL;
}

int load_rules_check(const struct load_args *a)
{
	const struct load_rule *ranked =
		slice_by_rank(&a->rules[LOAD_RULE_SLICE]);

	if (ranked && !a->ranks)
		return fail_usage("load",
				  "--slice %s:%u needs --rank or a range",
				  ranked->glob, ranked->slice.dim);
	if (a->ranks && !ranked)
		return fail_usage("load",
				  "--rank is used only by --slice GLOB:DIM");
	if (load_has_capacity(a) &&
	    (a->rules[LOAD_RULE_ONLY].n || a->rules[LOAD_RULE_SLICE].n ||
	     a->rules[LOAD_RULE_FIRST].n))
		return fail_usage(
			"load",
			"--place with a SIZE does not work with --only, --slice or --first");
	return 0;
}

bool load_has_capacity(const struct load_args *a)
{
	const struct load_rules *places = &a->rules[LOAD_RULE_PLACE];

	for (size_t i = 0; i < places->n; i++)
		if (places->rule[i].capacity)
			return true;
	return false;
}
