/* SPDX-License-Identifier: MIT */
/*
 * bench/park MODEL [TURNS]: weights that come back to the memory of the best
 * device. From page-locked memory, against one copy of as many bytes by a
 * stream (the rate of the bus); from the files of the model, against a load of
 * it into the same memory. Both alternate; the medians are printed, and their
 * ratios.
 */
#include <stdio.h>
#include <stdlib.h>

#include <weir.h>

#include "must.h"
#include "raw.h"

#define MAX_TURNS 51u

static struct weir *root;
static struct weir_plan *plan;
static struct weir_weights *weights;
static struct weir_stream *stream;
static struct weir_buf *from, *to;
static size_t bytes;

static double seconds_of(int (*fn)(void))
{
	double begun = raw_now();

	must(fn());
	return raw_now() - begun;
}

static int copy(void)
{
	struct weir_tensor dst = { 0 }, src = { 0 };
	const int64_t n = (int64_t)bytes;

	must(weir_tensor_init(&dst, WEIR_DTYPE_U8, 1, &n));
	src = dst;
	must(weir_tensor_place(&dst, to, 0));
	must(weir_tensor_place(&src, from, 0));
	must(weir_stream_copy(stream, &dst, &src));
	return weir_stream_sync(stream, -1);
}

static int unpark(void)
{
	return weir_weights_unpark(weights, NULL);
}

static int load(void)
{
	struct weir_load_opts o = WEIR_LOAD_OPTS_INIT;
	struct weir_load *l;
	int r;

	o.into = weights;
	must(weir_load_start(plan, &o, &l));
	r = weir_load_wait(l, -1);
	weir_load_free(l);
	return r;
}

static void park(uint32_t flags)
{
	struct weir_park_opts o = WEIR_PARK_OPTS_INIT;

	o.flags = flags;
	must(weir_weights_park(weights, &o));
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double median(double *x, unsigned n)
{
	qsort(x, n, sizeof(*x), by_value);
	return x[n / 2];
}

/* Compare unpark() with @other, in turns. */
static void row(const char *name, int (*other)(void), uint32_t flags,
		unsigned turns)
{
	double raw[MAX_TURNS], ours[MAX_TURNS], a, b;

	for (unsigned i = 0; i < turns; i++) {
		raw[i] = seconds_of(other);
		park(flags);
		ours[i] = seconds_of(unpark);
	}
	a = median(raw, turns);
	b = median(ours, turns);
	printf("%-24s %8.2f ms  %8.2f ms  %6.3f\n", name, a * 1e3, b * 1e3,
	       a / b);
}

static void prepare(const char *path)
{
	struct weir_select_opts o = WEIR_SELECT_OPTS_INIT;
	struct weir_buft *memory, *pinned;
	struct weir_model *model;
	struct weir_buf_info info = { .size = sizeof(info) };
	struct weir_dev *dev;
	struct weir_load *l;

	must(weir_open(NULL, &root));
	must(weir_dev_best(root, &dev));
	must(weir_dev_buft(dev, WEIR_MEM_DEVICE, &memory));
	must(weir_dev_buft(dev, WEIR_MEM_PINNED, &pinned));
	must(weir_stream_new(dev, NULL, &stream));
	must(weir_model_open(root, path, NULL, &model));
	must(weir_plan_new(model, &plan));
	o.buf_flags = WEIR_BUF_PARKABLE | WEIR_BUF_STRICT;
	must(weir_plan_add(plan, NULL, memory, &o));
	must(weir_load_start(plan, NULL, &l));
	must(weir_load_wait(l, -1));
	must(weir_load_weights(l, &weights));
	weir_load_free(l);
	weir_model_close(model);
	must(weir_buf_info(weir_weights_get(weights, 0)->buf, &info));
	bytes = info.bytes;
	must(weir_buf_alloc(pinned, bytes, NULL, &from));
	must(weir_buf_alloc(memory, bytes, NULL, &to));
}

int main(int argc, char **argv)
{
	int turns = argc > 2 ? atoi(argv[2]) : 9;

	if (argc < 2 || turns < 1 || turns > (int)MAX_TURNS) {
		fprintf(stderr, "usage: park MODEL [TURNS]\n");
		return 2;
	}
	prepare(argv[1]);
	printf("%zu bytes                 other       unpark   ratio\n", bytes);
	row("page-locked, bus", copy, 0, (unsigned)turns);
	row("files, load", load, WEIR_PARK_CONSTANT, (unsigned)turns);
	weir_buf_free(from);
	weir_buf_free(to);
	weir_stream_free(stream);
	weir_plan_free(plan);
	weir_weights_free(weights);
	weir_close(root);
	return 0;
}
