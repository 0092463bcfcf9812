/* SPDX-License-Identifier: MIT */
/*
 * bench/park MODEL [PAIRS]: weights that come back after parking.
 *
 * From page-locked memory, against one copy of as many bytes by a stream, which
 * has the rate of the bus; from the files of the model, in the page cache and
 * not, against a load of the model. Both ways alternate. The memory is that of
 * the best device, and then huge pages of the host, which a load and an unpark
 * both allocate again.
 */
#include <stdio.h>
#include <stdlib.h>

#include <weir.h>

#include "must.h"
#include "raw.h"
#include "result.h"

#define MAX_PAIRS 51u
#define GOAL 0.95

static const char *path;
static unsigned pairs = 9;
static struct weir *root;
static struct weir_plan *plan;
static struct weir_weights *weights;
/* Of the device: the rate of the bus is that of a copy between these. */
static struct weir_stream *stream;
static struct weir_buf *from, *to;
static size_t bytes;
static bool settles; /* the timings allocate memory of the host */

static void copy(void)
{
	struct weir_tensor dst = { 0 }, src = { 0 };
	const int64_t n = (int64_t)bytes;

	must(weir_tensor_init(&dst, WEIR_DTYPE_U8, 1, &n));
	src = dst;
	must(weir_tensor_place(&dst, to, 0));
	must(weir_tensor_place(&src, from, 0));
	must(weir_stream_copy(stream, &dst, &src));
	must(weir_stream_sync(stream, -1));
}

static void load(struct weir_weights *into)
{
	struct weir_load_opts o = WEIR_LOAD_OPTS_INIT;
	struct weir_load *l;

	o.into = into;
	must(weir_load_start(plan, &o, &l));
	must(weir_load_wait(l, -1));
	if (!into)
		must(weir_load_weights(l, &weights));
	weir_load_free(l);
}

static void load_again(void)
{
	load(weights);
}

static void load_new(void)
{
	load(NULL);
}

static void unpark(void)
{
	must(weir_weights_unpark(weights, NULL));
}

static void park(uint32_t flags)
{
	struct weir_park_opts o = WEIR_PARK_OPTS_INIT;

	o.flags = flags;
	must(weir_weights_park(weights, &o));
}

static double milliseconds(void (*fn)(void))
{
	double begun = raw_now();

	fn();
	return (raw_now() - begun) * 1e3;
}

enum state {
	ANY,
	COLD,
	CACHED
};

/* The file is as the row wants it; memory that was just freed is usable. */
static void bring(enum state state)
{
	for (unsigned i = 0; state == COLD && raw_resident(path) && i < 8; i++)
		raw_cold(path);
	if (state == CACHED && raw_resident(path) < 1000)
		raw_warm(path);
	if (settles)
		raw_settle(bytes);
}

/* A load that allocates its memory, as an unpark does, begins without. */
static double other(void (*fn)(void), enum state state)
{
	if (fn == load_new)
		weir_weights_free(weights);
	bring(state);
	return milliseconds(fn);
}

static double ours(uint32_t flags, enum state state)
{
	park(flags);
	bring(state);
	return milliseconds(unpark);
}

static void row(const char *name, const char *limit, void (*fn)(void),
		uint32_t flags, enum state state)
{
	double a[MAX_PAIRS], b[MAX_PAIRS];

	other(fn, state); /* not counted */
	for (unsigned i = 0; i < pairs; i++) {
		if (i % 2)
			b[i] = ours(flags, state);
		a[i] = other(fn, state);
		if (i % 2 == 0)
			b[i] = ours(flags, state);
	}
	result_add_pairs(name, limit, "ms", GOAL, a, b, pairs);
}

static void prepare(struct weir_buft *memory, uint32_t flags)
{
	struct weir_select_opts o = WEIR_SELECT_OPTS_INIT;
	struct weir_buf_info info = { .size = sizeof(info) };
	struct weir_model *model;

	must(weir_model_open(root, path, NULL, &model));
	must(weir_plan_new(model, &plan));
	o.buf_flags = flags;
	must(weir_plan_add(plan, NULL, memory, &o));
	weir_model_close(model);
	load(NULL);
	must(weir_buf_info(weir_weights_get(weights, 0)->buf, &info));
	bytes = info.bytes;
}

static void give_back(void)
{
	weir_plan_free(plan);
	weir_weights_free(weights);
}

static void device_rows(struct weir_dev *dev, struct weir_buft *memory)
{
	struct weir_buft *pinned;

	prepare(memory, WEIR_BUF_PARKABLE | WEIR_BUF_STRICT);
	must(weir_dev_buft(dev, WEIR_MEM_PINNED, &pinned));
	must(weir_stream_new(dev, NULL, &stream));
	must(weir_buf_alloc(pinned, bytes, NULL, &from));
	must(weir_buf_alloc(memory, bytes, NULL, &to));
	row("device, page-locked copies", "one copy", copy, 0, ANY);
	weir_buf_free(from);
	weir_buf_free(to);
	weir_stream_free(stream);
	row("device, files, cold", "a load", load_again, WEIR_PARK_CONSTANT,
	    COLD);
	row("device, files, cached", "a load", load_again, WEIR_PARK_CONSTANT,
	    CACHED);
	give_back();
}

static void host_rows(void)
{
	struct weir_buft *memory;
	struct weir_dev *cpu;

	must(weir_dev_find(root, "CPU", &cpu));
	must(weir_dev_buft(cpu, WEIR_MEM_HUGE, &memory));
	prepare(memory, 0);
	settles = true;
	row("host, files, cold", "a load", load_new, WEIR_PARK_CONSTANT, COLD);
	row("host, files, cached", "a load", load_new, WEIR_PARK_CONSTANT,
	    CACHED);
	give_back();
}

int main(int argc, char **argv)
{
	struct weir_opts opts = WEIR_OPTS_INIT;
	struct weir_buft *memory;
	struct weir_dev *dev;

	if (argc > 2)
		pairs = (unsigned)strtoul(argv[2], NULL, 10);
	if (argc < 2 || !pairs || pairs > MAX_PAIRS) {
		fprintf(stderr, "usage: park MODEL [PAIRS]\n");
		return 2;
	}
	path = argv[1];
	opts.keep = UINT64_MAX; /* every load allocates its memory */
	must(weir_open(&opts, &root));
	must(weir_dev_best(root, &dev));
	result_head();
	if (weir_dev_buft(dev, WEIR_MEM_DEVICE, &memory) >= 0)
		device_rows(dev, memory);
	else
		result_skip("device", "there is none with memory of its own");
	host_rows();
	weir_close(root);
	return !result_all_ok();
}
