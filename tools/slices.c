/* SPDX-License-Identifier: MIT */
#include "slices.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
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
static bool parse_slice(char *text, struct weir_slice *slice)
{
	char *field = last_field(text);
	uint64_t dim;

	slice->n = -1;
	if (field && strchr(field, '+')) {
		if (!parse_range(field, slice))
			return false;
		field = last_field(text);
	}
	if (!field || !*text || !whole_number(field, WEIR_MAX_DIMS - 1, &dim))
		return false;
	slice->dim = (uint32_t)dim;
	return true;
}

int slice_take(const struct args *args, struct weir_slice *slice)
{
	char *whole = strdup(optarg);
	int r = 0;

	if (!whole)
		return fail_memory();
	if (!parse_slice(optarg, slice))
		r = fail_usage(
			args->command,
			"--slice %s is not GLOB:DIM or GLOB:DIM:START+N, with DIM of 0 to %d",
			whole, WEIR_MAX_DIMS - 1);
	free(whole);
	return r;
}

int rank_take(const struct args *args, uint32_t *ret_rank, uint32_t *ret_ranks)
{
	char *slash = strchr(optarg, '/');
	uint64_t rank, ranks = 0;

	if (slash)
		*slash = '\0';
	if (slash && whole_number(optarg, UINT32_MAX, &rank) &&
	    whole_number(slash + 1, UINT32_MAX, &ranks) && rank < ranks) {
		*ret_rank = (uint32_t)rank;
		*ret_ranks = (uint32_t)ranks;
		return 0;
	}
	if (slash)
		*slash = '/';
	return fail_usage(args->command,
			  "--rank is '%s', not R/N with R of 0 to N - 1",
			  optarg);
}
