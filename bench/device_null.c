/* SPDX-License-Identifier: MIT */
/*
 * The engine and the CUDA backend between a source without a disk and the
 * stand-in's copy engine, which takes the time of copies but moves no bytes.
 */
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"
#include "mem/buf.h"
#include "bus.h"
#include "device.h"
#include "null.h"
#include "place.h"

#define EXTENT (256ull << 20) /* always to the same memory */
#define SOURCE_LATENCY 200000 /* ns */

static const struct row {
	double source, bus; /* GB/s */
	const char *bus_rate;
	double goal;
} rows[] = {
	{ 10, 55, "55e9", 0.97 },
	{ 10, 10, "10e9", 0.92 },
};

void loader_open_null(struct loader *u, unsigned copiers)
{
	null_sink = (struct null_server){ 1e9, 0, 0 };
	loader_open(u, copiers);
	must(weir_backend_add(u->weir, null_entry));
	must(weir_dev_find(u->weir, "NULL0", &u->dev));
	must(weir_dev_buft(u->dev, WEIR_MEM_DEVICE, &u->to));
}

static double run_once(const struct row *row, struct weir_dev *dev,
		       struct weir_buf *buf)
{
	size_t n = bench_tiny ? 1 : 32;
	struct weir__extent *ext = calloc(n, sizeof(*ext));
	double seconds;

	if (!ext)
		die("no memory");
	for (size_t i = 0; i < n; i++)
		ext[i] = (struct weir__extent){ .file = null_file,
						.off = i * EXTENT,
						.len = EXTENT,
						.addr = buf->mem.base,
						.dev = dev };
	null_source = (struct null_server){ row->source, SOURCE_LATENCY, 0 };
	seconds = null_run(ext, n);
	free(ext);
	return (double)n * (double)EXTENT / 1e9 / seconds;
}

static void run(const struct row *row, struct weir_dev *dev,
		struct weir_buf *buf, unsigned runs)
{
	struct result r = { .limit = "the slower side",
			    .unit = "GB/s",
			    .limit_value = row->source,
			    .judged = GOAL_RATIO,
			    .goal = row->goal };
	double v[MAX_PAIRS];
	struct spread s;

	snprintf(r.name, sizeof(r.name), "null source %.0f GB/s, bus %.0f",
		 row->source, row->bus);
	bus_set("RATE", row->bus_rate);
	run_once(row, dev, buf); /* not counted: the ring is made */
	for (unsigned i = 0; i < runs; i++)
		v[i] = run_once(row, dev, buf);
	s = spread_of(v, runs);
	r.value = s.mid;
	r.ratio = s.mid / row->source;
	r.low = s.low / row->source;
	r.high = s.high / row->source;
	result_add(&r);
}

void row_device_null(unsigned pairs)
{
	struct weir_buft *buft;
	struct weir_buf *buf;
	struct weir_dev *dev;

	if (device_needs_stand_in("null source to a bus"))
		return;
	bus_set("DRY", "1");
	bus_set("LATENCY", "10");
	null_open(bench_device, place_modules(), &dev);
	must(weir_dev_buft(dev, WEIR_MEM_DEVICE, &buft));
	must(weir_buf_alloc(buft, EXTENT, NULL, &buf));
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		run(&rows[i], dev, buf, pairs);
	weir_buf_free(buf);
	null_close();
}
