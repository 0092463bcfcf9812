/* SPDX-License-Identifier: MIT */
/*
 * The order of reading: by priority, then in the order of the files. Runs are
 * stored in it, so that a load accesses them one after the other.
 */
#include <errno.h>

#include "core/error.h"
#include "core/sort.h"
#include "core/sys.h"
#include "model/load/plan.h"

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

/* Move run key[i].run to place i, for each i: cycle by cycle. */
static void permute_runs(struct weir__run *run, struct read_key *key, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct weir__run kept = run[i];
		size_t to = i, from;

		for (; (from = key[to].run) != i; to = from) {
			run[to] = run[from];
			key[to].run = to;
		}
		run[to] = kept;
		key[to].run = to;
	}
}

int weir__layout_sort_runs(const struct weir_model *model,
			   struct weir__layout *l)
{
	size_t n = l->n_runs;
	struct read_key *key;
	int r = 0;

	if (runs_are_sorted(l))
		return 0;
	key = weir__malloc(n * sizeof(*key));
	for (size_t i = 0; i < n && key; i++)
		key[i] = key_of(&l->run[i], i);
	if (!key || weir__sort(key, n, sizeof(*key)) < 0)
		r = weir__fail(-ENOMEM, "%s: no memory to sort %zu runs",
			       model->path, n);
	else
		permute_runs(l->run, key, n);
	weir__free(key);
	return r;
}
