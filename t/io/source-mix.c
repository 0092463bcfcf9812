/* SPDX-License-Identifier: MIT */
/*
 * Many loads of objects at once, to memory of a device (WEIR_T_DEVICE), with
 * slices and conversions, small chunks, reads that end in any order, some that
 * fail, and loads that are cancelled at any time: each ends, and those that
 * succeed have the bytes that the file has.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir.h>

#include "mem_source.h"
#include "sample.h"
#include "slices.h"
#include "tap.h"

#define LOADS 6

static char path[] = "/var/tmp/weir-mix-XXXXXX";
static const struct sample_tensor tensors[] = {
	{ "large", "U8", 3000001, 1 }, { "s1", "U8", 1000, 1 },
	{ "s2", "U8", 77, 1 },         { "s3", "F32", 513, 4 },
	{ "bf", "BF16", 100000, 2 },   { "rows", "F32", 128 * 1024, 4 },
	{ "more", "U8", 700000, 1 },
};
static const char *const shapes[] = { "", "", "", "", "", "128,1024", "" };
#define N (sizeof(tensors) / sizeof(tensors[0]))

static struct weir *weir;
static struct weir_buft *to;
static struct weir_model *model;
static unsigned seed = 7;
static size_t rows;

static unsigned draw(unsigned n)
{
	seed = seed * 1103515245 + 12345;
	return seed / 65536 % n;
}

static void begin(enum weir_io io)
{
	const char *name = getenv("WEIR_T_DEVICE");
	struct weir_opts o = WEIR_OPTS_INIT;
	struct weir_dev *dev;

	o.io = io;
	o.chunk = 256 << 10;
	o.staging = 2 << 20;
	o.reactors = 2;
	if (weir_open(&o, &weir) < 0 ||
	    weir_dev_find(weir, name && *name ? name : "CPU", &dev) < 0)
		bail("%s", weir_error());
	if (weir_dev_buft(dev, WEIR_MEM_DEVICE, &to) < 0 &&
	    weir_dev_buft(dev, WEIR_MEM_PLAIN, &to) < 0)
		bail("%s", weir_error());
	mem_reset();
	mem_add(weir);
	if (weir_model_open(weir, mem_url(path), NULL, &model) < 0)
		bail("%s", weir_error());
	for (rows = 0; strcmp(entry_of(model, rows).name, "rows") != 0;)
		rows++;
}

struct one {
	struct weir_load *load;
	int64_t start; /* of a slice; -1: all tensors */
	unsigned dim;
	bool cancelled;
};

static struct one start(void)
{
	struct weir_select_opts o = WEIR_SELECT_OPTS_INIT;
	struct one one = { .start = draw(2) ? -1 : (int)draw(64),
			   .dim = draw(2) };
	const struct weir_slice slice = slice_of(one.dim, one.start, 60);
	struct weir_plan *p;

	if (one.start >= 0)
		o.slice = &slice;
	if (weir_plan_new(model, &p) < 0 ||
	    weir_plan_add(p, one.start >= 0 ? "rows" : NULL, to, &o) < 0 ||
	    weir_load_start(p, NULL, &one.load) < 0)
		bail("%s", weir_error());
	weir_plan_free(p);
	if (!draw(4)) {
		one.cancelled = true;
		if (weir_load_cancel(one.load) < 0)
			bail("%s", weir_error());
	}
	return one;
}

/* Returns true if the load ended as it may, with the right bytes. */
static bool finish(struct one *one, bool fails)
{
	int r = weir_load_wait(one->load, -1);
	struct weir_weights *w;
	size_t wrong;

	if (r < 0) {
		if (!(one->cancelled && r == -ECANCELED) &&
		    !(fails && r == -EIO))
			diag("%d: %s", r, weir_error());
		weir_load_free(one->load);
		return (one->cancelled && r == -ECANCELED) ||
		       (fails && r == -EIO);
	}
	if (weir_load_weights(one->load, &w) < 0)
		bail("%s", weir_error());
	wrong = one->start >= 0 ? slice_differs(weir_weights_get(w, 0), model,
						rows, one->dim, one->start)
				: sample_wrong(w, 1);
	weir_weights_free(w);
	weir_load_free(one->load);
	return !wrong;
}

static void rounds(unsigned n, bool fails)
{
	struct one one[LOADS];
	unsigned bad = 0;

	mem.fail_from = entry_of(model, rows).offset + 200000;
	mem.fail_to = mem.fail_from + 1000;
	mem.fail = fails ? -EIO : 0;
	for (unsigned k = 0; k < n; k++) {
		for (unsigned i = 0; i < LOADS; i++)
			one[i] = start();
		for (unsigned i = 0; i < LOADS; i++)
			bad += !finish(&one[i], fails);
	}
	mem.fail = 0;
	is_int(bad, 0,
	       fails ? "loads of which some reads fail end as they may"
		     : "loads at once have the bytes of the file");
}

int main(void)
{
	static const enum weir_io methods[] = { WEIR_IO_AUTO, WEIR_IO_SYNC };
	const unsigned n = getenv("WEIR_T_QUICK") ? 3 : 20;

	plan(12);
	close(mkstemp(path));
	sample_write_shapes(path, tensors, shapes, N, 24, 1);
	for (int i = 0; i < 2; i++) {
		tap_prefix(i ? "threads: " : "auto: ");
		begin(methods[i]);
		rounds(n, false);
		rounds(n, true);
		mem.delay = 100000;
		rounds(2, false);
		weir_model_close(model);
		weir_close(weir);
		is_int(mem.wrong, 0, "no call broke a rule of sources");
		is_int(mem.opened, mem.closed, "each object was closed");
		is_int(mem.in_flight, 0, "no read is left");
	}
	mem_end();
	unlink(path);
	return done_testing();
}
