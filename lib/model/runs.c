/* SPDX-License-Identifier: MIT */
/*
 * The order of reading: by priority, then in the order of the files. Runs are
 * stored in it, so that a load accesses them one after the other.
 */
#include <errno.h>

#include "core/error.h"
#include "core/sort.h"
#include "core/sys.h"
#include "model/plan.h"

struct read_key {
	struct weir__sort_key when;
	size_t run;
};

static struct read_key key_of(const struct weir__run *run, size_t number)
{
	uint64_t later = (uint32_t)~weir__sort_int32(run->priority);

	return (struct read_key){
		.when.major = later << 32 | run->shard,
		.when.minor = run->off,
		.run = number,
	};
}

static bool runs_are_sorted(const struct weir__layout *l)
{
	for (size_t i = 1; i < l->n_runs; i++) {
		struct read_key a = key_of(&l->run[i - 1], 0);
		struct read_key b = key_of(&l->run[i], 0);

		if (weir__sort_less(&b.when, &a.when))
			return false;
	}
	return true;
}

static int sort_runs(struct weir__layout *l, struct read_key *key,
		     struct weir__run *sorted)
{
	for (size_t i = 0; i < l->n_runs; i++)
		key[i] = key_of(&l->run[i], i);
	if (weir__sort(key, l->n_runs, sizeof(*key)) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < l->n_runs; i++)
		sorted[i] = l->run[key[i].run];
	return 0;
}

int weir__layout_sort_runs(const struct weir_model *model,
			   struct weir__layout *l)
{
	size_t n = l->n_runs;
	struct weir__run *sorted;
	struct read_key *key;
	int r = -ENOMEM;

	if (runs_are_sorted(l))
		return 0;
	sorted = weir__malloc_table(n, sizeof(*sorted));
	key = weir__malloc_table(n, sizeof(*key));
	if (sorted && key)
		r = sort_runs(l, key, sorted);
	weir__free(key);
	if (r < 0) {
		weir__free(sorted);
		return weir__fail(r, "%s: no memory to sort %zu runs",
				  model->path, n);
	}
	weir__free(l->run);
	l->run = sorted;
	l->max_runs = n;
	return 0;
}
