/* SPDX-License-Identifier: MIT */
/* The exact planner: optimal heights, proofs, and ending early. */
#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#include <weir/base.h>

#include "core/clock.h"
#include "core/error.h"
#include "exact_made.h"
#include "place/exact.h"
#include "tap.h"

#define N EXACT_MADE_MAX
#define TINY 6 /* items: all their orders are tried */

static const struct weir__exact_opts minimise = { .deadline = INT64_MAX };

static bool overlap(const struct weir__exact_item *a,
		    const struct weir__exact_item *b)
{
	return a->lower < b->upper && b->lower < a->upper;
}

static uint64_t align_up(const struct weir__exact_item *item, uint64_t offset)
{
	uint64_t align = item->align ? item->align : 1;

	return (offset + align - 1) / align * align;
}

/*
 * True if no two items share a byte, all are aligned, and the height is
 * @height.
 */
static bool is_valid(const struct weir__exact_item *item, size_t n,
		     const uint64_t *off, uint64_t height)
{
	uint64_t top = 0;

	for (size_t i = 0; i < n; i++) {
		if (off[i] != align_up(&item[i], off[i]))
			return false;
		if (off[i] + item[i].bytes > top)
			top = off[i] + item[i].bytes;
		for (size_t k = 0; k < i; k++)
			if (overlap(&item[i], &item[k]) &&
			    off[i] < off[k] + item[k].bytes &&
			    off[k] < off[i] + item[i].bytes)
				return false;
	}
	return top == height;
}

/* Place each item above all earlier ones. Returns the height. */
static uint64_t stack(const struct weir__exact_item *item, size_t n,
		      uint64_t *off)
{
	uint64_t top = 0;

	for (size_t i = 0; i < n; i++) {
		off[i] = align_up(&item[i], top);
		top = off[i] + item[i].bytes;
	}
	return top;
}

/*
 * The least height, by trying every order in which items are put on top of
 * those that are alive with them: every placement whose items cannot be lowered
 * comes from such an order.
 */
static uint64_t least(const struct weir__exact_item *item, size_t n,
		      uint64_t *off, unsigned placed, uint64_t height)
{
	uint64_t best = UINT64_MAX;

	if (placed == (1U << n) - 1)
		return height;
	for (size_t i = 0; i < n; i++) {
		uint64_t top = 0, h;

		if (placed >> i & 1)
			continue;
		for (size_t k = 0; k < n; k++)
			if (placed >> k & 1 && overlap(&item[i], &item[k]) &&
			    off[k] + item[k].bytes > top)
				top = off[k] + item[k].bytes;
		off[i] = align_up(&item[i], top);
		h = off[i] + item[i].bytes;
		h = least(item, n, off, placed | 1U << i,
			  h > height ? h : height);
		if (h < best)
			best = h;
	}
	return best;
}

static uint64_t seed;

static uint64_t below(uint64_t n)
{
	seed = seed * 6364136223846793005 + 1442695040888963407;
	return (seed >> 33) % n;
}

static void make_tiny(struct weir__exact_item *item, size_t n, bool aligned)
{
	static const uint64_t aligns[] = { 0, 1, 2, 3, 4, 8 };

	for (size_t i = 0; i < n; i++) {
		item[i].lower = (int64_t)below(8) - 4;
		item[i].upper = item[i].lower + 1 + (int64_t)below(5);
		item[i].bytes = 1 + below(9);
		item[i].align = aligned ? aligns[below(6)] : 1;
		/* Make an item identical to the one before it, now and then. */
		if (i && !below(5))
			item[i] = item[i - 1];
	}
}

static void test_brute_force(bool aligned)
{
	struct weir__exact_item item[TINY] = { 0 };
	uint64_t off[TINY], tried[TINY];
	struct weir__exact_result r;
	unsigned wrong = 0, invalid = 0, over = 0;

	seed = 1;
	for (unsigned round = 0; round < 3000; round++) {
		size_t n = 1 + below(TINY);
		struct weir__exact_opts opts = minimise;
		uint64_t want;

		make_tiny(item, n, aligned);
		want = least(item, n, tried, 0, 0);
		stack(item, n, off);
		if (weir__exact_place(item, n, &minimise, off, &r) ||
		    !r.proved || r.height != want || r.bound != want)
			wrong++;
		invalid += !is_valid(item, n, off, r.height);
		opts.capacity = want - 1;
		stack(item, n, off);
		if (want > 1 &&
		    (weir__exact_place(item, n, &opts, off, &r) || !r.proved ||
		     r.bound < want || !is_valid(item, n, off, r.height)))
			over++;
	}
	is_int(wrong, 0,
	       "tiny problems%s have the height that trying all "
	       "orders finds, and it is proved",
	       aligned ? " with alignments" : "");
	is_int(invalid, 0, "no two items of a tiny problem%s share a byte",
	       aligned ? " with alignments" : "");
	is_int(over, 0, "a capacity of one byte less%s is proved too small",
	       aligned ? ", with alignments," : "");
}

static struct exact_made made;

static void test_made(enum exact_shape shape, size_t n, uint64_t number,
		      const char *name)
{
	struct weir__exact_opts opts = minimise;
	struct weir__exact_result r = { 0 };
	uint64_t off[N];
	int err;

	exact_make(shape, n, number, &made);
	ok(is_valid(made.item, made.n, made.offset, made.height),
	   "%s of %zu items are made with a placement", name, n);
	stack(made.item, made.n, off);
	err = weir__exact_place(made.item, made.n, &opts, off, &r);
	ok(!err && r.proved && r.height == made.height,
	   "%s of %zu items are placed without a gap at the peak", name, n);
	ok(is_valid(made.item, made.n, off, r.height),
	   "%s of %zu items do not share a byte", name, n);
}

/* A problem that is not solved within a few seconds. */
static void make_hard(uint64_t *off)
{
	exact_make(EXACT_STEPS, 450, 3, &made);
	stack(made.item, made.n, off);
}

static void test_deadline(void)
{
	struct weir__exact_opts opts = { .deadline = weir__now() };
	struct weir__exact_result r;
	uint64_t off[N], height;

	make_hard(off);
	height = stack(made.item, made.n, off);
	is_int(weir__exact_place(made.item, made.n, &opts, off, &r), 0,
	       "a deadline that has passed is no error");
	ok(r.height == height && !r.proved && r.bound == made.height,
	   "without time, the placement is the caller's, with a lower bound");
	/* Give it more and more time: the machine may be busy. */
	for (int64_t ns = 50000000; r.height == height; ns *= 2) {
		opts.deadline = weir__now() + ns;
		if (weir__exact_place(made.item, made.n, &opts, off, &r))
			bail("%s", weir_error());
	}
	ok(weir__now() >= opts.deadline, "a search goes on until its deadline");
	ok(r.height < height && !r.proved && r.nodes > 0 &&
		   is_valid(made.item, made.n, off, r.height),
	   "a search that ends early returns the best placement so far");
}

static _Atomic bool stop;

static void *stopper(void *arg)
{
	weir__sleep(50000000);
	atomic_store(&stop, true);
	return arg;
}

static void test_stop(void)
{
	struct weir__exact_opts opts = { .deadline = INT64_MAX, .stop = &stop };
	struct weir__exact_result r;
	pthread_t thread;
	uint64_t off[N];

	make_hard(off);
	if (pthread_create(&thread, NULL, stopper, NULL))
		bail("no thread");
	is_int(weir__exact_place(made.item, made.n, &opts, off, &r), 0,
	       "a search ends when another thread sets the stop flag");
	pthread_join(thread, NULL);
	ok(is_valid(made.item, made.n, off, r.height),
	   "a stopped search leaves a valid placement");
}

static void test_threads(void)
{
	struct weir__exact_opts opts = minimise;
	struct weir__exact_result r = { 0 };
	uint64_t off[N];

	opts.threads = 4;
	exact_make(EXACT_LAYERS, 300, 1, &made);
	stack(made.item, made.n, off);
	is_int(weir__exact_place(made.item, made.n, &opts, off, &r), 0,
	       "four threads search together");
	ok(r.proved && r.height == made.height,
	   "four threads find the optimum");
	ok(is_valid(made.item, made.n, off, r.height),
	   "a placement by four threads is valid");
}

static void test_capacity(void)
{
	struct weir__exact_opts opts = minimise;
	struct weir__exact_result r = { 0 };
	uint64_t off[N];

	exact_make(EXACT_LAYERS, 300, 1, &made);
	opts.capacity = made.height + made.height / 4;
	stack(made.item, made.n, off);
	ok(!weir__exact_place(made.item, made.n, &opts, off, &r) &&
		   r.height <= opts.capacity,
	   "a search with a capacity ends when the items fit");
	opts.capacity = stack(made.item, made.n, off);
	ok(!weir__exact_place(made.item, made.n, &opts, off, &r) &&
		   r.height == opts.capacity && !r.nodes,
	   "a placement that fits the capacity is not searched");
	opts.capacity = made.height - 1;
	ok(!weir__exact_place(made.item, made.n, &opts, off, &r) && r.proved &&
		   r.bound > opts.capacity && !r.nodes,
	   "a capacity under the largest load is refused without a search");
	opts.capacity = 1;
	ok(!weir__exact_place(made.item, made.n, &opts, off, &r) && r.proved &&
		   !r.nodes,
	   "a capacity smaller than every item is refused without a search");
}

static void test_limits(void)
{
	struct weir__exact_item item[] = { { 0, 2, 0, 0, 0 },
					   { 0, 2, 24, 16, 0 },
					   { 1, 3, 8, 0, 0 },
					   { 3, 9, 8, 0, 0 } };
	uint64_t off[] = { 77, 0, 100, 200 };
	struct weir__exact_result r;

	is_int(weir__exact_place(item, 0, &minimise, off, &r), 0,
	       "no items are placed");
	ok(r.proved && !r.height && !r.bound, "no items have height 0");
	is_int(weir__exact_place(item, 4, &minimise, off, &r), 0,
	       "items of 0 bytes are accepted");
	is_int(off[0], 77, "an item of 0 bytes keeps its offset");
	ok(r.proved && r.height == 32, "an item of 0 bytes has no height");
	item[3].upper = 3;
	is_err(weir__exact_place(item, 4, &minimise, off, &r), -EINVAL,
	       "item 3: alive in [3, 3), which is empty",
	       "an empty lifetime is refused");
	item[3].upper = 4;
	item[3].bytes = UINT64_MAX - 3;
	is_err(weir__exact_place(item, 4, &minimise, off, &r), -EOVERFLOW,
	       "item 3 of 4", "sizes whose sum wraps are refused");
	item[3].bytes = 8;
	item[3].align = (uint64_t)1 << 63;
	is_err(weir__exact_place(item, 4, &minimise, off, &r), -EOVERFLOW,
	       "item 3 of 4", "an alignment of 2^63 is refused");
}

/* Too many items to be searched, and after them two that are searched. */
static void test_many(void)
{
	enum {
		MANY = 20000
	};
	static struct weir__exact_item item[MANY + 2];
	static uint64_t off[MANY + 2];
	struct weir__exact_opts opts = minimise;
	struct weir__exact_result r;
	uint64_t height;

	for (int64_t i = 0; i < MANY; i++)
		item[i] = (struct weir__exact_item){ i, i + 10000, 8, 8, 0 };
	item[MANY] = (struct weir__exact_item){ 40000, 40002, 8, 8, 0 };
	item[MANY + 1] = (struct weir__exact_item){ 40001, 40003, 8, 8, 0 };
	stack(item, MANY + 2, off);
	height = off[MANY];
	/* A limit far too long for this test: it fails rather than hangs. */
	opts.deadline = weir__now() + 20000000000;
	ok(!weir__exact_place(item, MANY + 2, &opts, off, &r) &&
		   r.height == height && r.bound == 80000 && !r.proved,
	   "a problem that is too large to search keeps its placement, and "
	   "its bound is reported");
	ok(r.nodes > 0 && off[MANY] + off[MANY + 1] == 8,
	   "items that live at other times are searched all the same");
	ok(weir__now() < opts.deadline,
	   "a search ends when only items are left that cannot be searched");
}

int main(void)
{
	plan(0);
	test_brute_force(false);
	test_brute_force(true);
	test_made(EXACT_TILES, 225, 3, "tiles");
	test_made(EXACT_STEPS, 225, 1, "steps of a graph");
	test_made(EXACT_LAYERS, 300, 1, "layers that repeat");
	test_deadline();
	test_stop();
	test_threads();
	test_capacity();
	test_limits();
	test_many();
	return done_testing();
}
