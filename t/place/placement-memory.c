/* SPDX-License-Identifier: MIT */
/*
 * Each allocation of a call that places fails once: the call fails with -ENOMEM
 * and a sentence, and what is in use stays as it is.
 */
#include <errno.h>
#include <string.h>

#include <weir.h>

#include "kind.h"
#include "nomem.h"
#include "tap.h"

#define MANY 3000 /* so many live at once that their conflicts are not listed */

static struct weir *weir;
static struct weir_buft *plain;
static struct weir_lifetime items[MANY];
static size_t n_items;
static struct weir_placement_opts opts = WEIR_PLACEMENT_OPTS_INIT;
static struct weir_placement *used;
static struct weir_buf *buf;

/* Calls for each(): each undoes what it did; 1: it failed and left a result. */
static int new_placement(void)
{
	struct weir_placement *p = NULL;
	int r = weir_placement_new(items, n_items, &opts, &p);

	if (r < 0 && p)
		return 1;
	weir_placement_free(p);
	return r;
}

static int alloc_buffers(void)
{
	struct weir_buf *mine = weir_buf_ref(buf);
	int r;

	r = weir_placement_alloc(used, &plain, &mine);
	if (r < 0 && mine != buf)
		return 1;
	weir_buf_free(mine);
	return r;
}

static int place_tensors(void)
{
	int64_t shape = 100;
	struct weir_tensor t[3];
	struct weir_buf *own;
	int r;

	for (int i = 0; i < 3; i++)
		weir_tensor_init(&t[i], WEIR_DTYPE_U8, 1, &shape);
	t[1].of = 1;
	r = weir_tensors_alloc(plain, t, 3, &own);
	if (r < 0 && (t[0].buf || t[1].buf || t[2].buf))
		return 1;
	if (!r)
		weir_buf_free(own);
	return r;
}

static void each(int (*call)(void), const char *what)
{
	unsigned n = 0, other = 0, silent = 0;
	int r;

	for (;; n++) {
		bool failed;

		nomem_begin(n + 1);
		r = call();
		failed = nomem_end();
		if (!failed)
			break;
		/* The search may go on after some allocations have failed. */
		other += r && r != -ENOMEM;
		silent += r && !strstr(weir_error(), "memory");
	}
	is_int(r, 0, "%s: without a failing allocation the call succeeds",
	       what);
	ok(n > 1, "%s: the call allocates memory (%u times)", what, n);
	is_int(other, 0,
	       "%s: the call fails with nothing but -ENOMEM, and changes nothing",
	       what);
	is_int(silent, 0, "%s: the sentence says that there was no memory",
	       what);
}

/* Items for which the greedy planner does not reach the bound. */
static void hard_items(void)
{
	struct weir_placement_info info = { .size = sizeof(info) };
	struct weir_placement *p;
	uint32_t seed = 1;

	n_items = 14;
	do {
		memset(items, 0, sizeof(items));
		for (size_t i = 0; i < n_items; i++) {
			seed = seed * 1664525 + 1013904223;
			items[i].lower = (int64_t)(seed >> 24) % 12;
			items[i].upper =
				items[i].lower + 1 + (int64_t)(seed >> 16) % 6;
			items[i].bytes = 1 + (seed >> 9) % 9;
		}
		if (weir_placement_new(items, n_items, NULL, &p) < 0 ||
		    weir_placement_info(p, 0, &info) < 0)
			bail("%s", weir_error());
		weir_placement_free(p);
	} while (info.bytes == info.bound);
}

static void many_items(void)
{
	n_items = MANY;
	for (size_t i = 0; i < n_items; i++)
		items[i] = (struct weir_lifetime){
			.lower = (int64_t)i % 7,
			.upper = (int64_t)(i % 7 + 2 + i * i % 5),
			.bytes = 1 + i * 31 % 17,
		};
}

int main(void)
{
	struct weir_lifetime large = { .upper = 1, .bytes = 5000 };

	if (weir_open(NULL, &weir) < 0)
		bail("%s", weir_error());
	plain = kind_of(weir, "CPU", WEIR_MEM_PLAIN);
	if (weir_placement_new(&large, 1, NULL, &used) < 0 ||
	    weir_buf_alloc(plain, 10, NULL, &buf) < 0)
		bail("%s", weir_error());
	plan(5 * 4);
	hard_items();
	each(new_placement, "a greedy placement");
	opts.time_ns = -1;
	each(new_placement, "an exact placement");
	opts.time_ns = 0;
	many_items();
	each(new_placement, "a placement of a dense section");
	each(alloc_buffers, "buffers of a placement");
	each(place_tensors, "tensors in a list");
	weir_buf_free(buf);
	weir_placement_free(used);
	weir_close(weir);
	return done_testing();
}
