/* SPDX-License-Identifier: MIT */
/*
 * bench/devices [RUNS]: a graph on two CPU devices, each with one thread and
 * memory of its own; medians of RUNS (7) rounds. "split": one run, of which
 * each device computes a half; the limit is both halves alone, one after
 * another. "four": four runs of four copies, started together; the limit is
 * four such runs, each started when the one before has ended. They are five
 * halves after each other instead of eight, so at best 1.6. "many": 32 runs,
 * four of them in flight at a time; at best 64/33.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir.h>
#include <weir/ops.h>

#include "must.h"
#include "raw.h"
#include "result.h"

#define LAYERS 16 /* half of them on each device */
#define SIDE 1024
#define TOKENS 128
#define COPIES 4u
#define MANY (8 * COPIES)
#define MAX_RUNS 101u

static struct weir *weir;
static struct weir_dev *dev[2];
static unsigned times = 7;
static float x[TOKENS * SIDE];

/* Layers [first, first + n), and runs of them. */
struct part {
	struct weir_sched *sched;
	struct weir_exec *exec;
	struct weir_run *run[COPIES];
};

static struct weir_tensor weight[LAYERS];

/* The weights of a layer, in the memory of its device. */
static void weights_new(struct weir_buf **buf)
{
	const int64_t shape[] = { SIDE, SIDE };

	for (int i = 0; i < LAYERS; i++)
		must(weir_tensor_init(&weight[i], WEIR_DTYPE_F32, 2, shape));
	for (int d = 0; d < 2; d++) {
		struct weir_tensor *half = &weight[d * LAYERS / 2];
		struct weir_buft *buft;

		must(weir_dev_buft(dev[d], WEIR_MEM_DEVICE, &buft));
		must(weir_tensors_alloc(buft, half, LAYERS / 2, &buf[d]));
		for (int i = 0; i < LAYERS / 2; i++)
			must(weir_tensor_fill(&half[i], 0,
					      sizeof(float) * SIDE * SIDE, 0));
	}
}

static struct part part_new(int first, int n, unsigned copies)
{
	struct weir_sched_opts o = { .size = sizeof(o), .copies = copies };
	const int64_t shape[] = { TOKENS, SIDE };
	struct part p = { .sched = NULL };
	struct weir_graph *g;
	struct weir_node *y;

	must(weir_graph_new(&g));
	y = weir_graph_input(g, "x", WEIR_DTYPE_F32, 2, shape);
	for (int i = first; i < first + n; i++)
		y = weir_silu(
			g, weir_mul_mat(g, weir_graph_leaf(g, &weight[i], NULL),
					y));
	weir_graph_output(g, y);
	must(weir_sched_new(dev, 2, &o, &p.sched));
	must(weir_exec_new(p.sched, g, &p.exec));
	for (unsigned c = 0; c < copies; c++) {
		must(weir_run_new(p.exec, &p.run[c]));
		must(weir_run_input(p.run[c], weir_graph_node(g, 0), x,
				    sizeof(x)));
	}
	weir_graph_free(g);
	return p;
}

static void part_free(struct part *p)
{
	for (unsigned c = 0; c < COPIES; c++)
		weir_run_free(p->run[c]);
	weir_exec_free(p->exec);
	weir_sched_free(p->sched);
}

/* Milliseconds of @n runs, of which @copies are in flight at a time. */
static double run_ms(struct part *p, unsigned n, unsigned copies)
{
	double begun = raw_now();

	for (unsigned i = 0; i < n + copies; i++) {
		if (i >= copies)
			must(weir_run_wait(p->run[i % copies], -1));
		if (i < n)
			must(weir_run_start(p->run[i % copies]));
	}
	return (raw_now() - begun) * 1e3;
}

static void rounds(struct part *half, struct part *split, struct part *piped)
{
	static double limit[3][MAX_RUNS], value[3][MAX_RUNS];

	run_ms(piped, COPIES, COPIES);
	for (unsigned i = 0; i < times; i++) {
		run_ms(split, 1, 1);
		value[0][i] = run_ms(split, 1, 1);
		limit[0][i] = run_ms(&half[0], 1, 1) + run_ms(&half[1], 1, 1);
		value[1][i] = run_ms(piped, COPIES, COPIES);
		limit[1][i] = run_ms(piped, COPIES, 1);
		value[2][i] = run_ms(piped, MANY, COPIES);
		limit[2][i] = run_ms(piped, MANY, 1);
	}
	result_add_pairs("split", "both halves alone", "ms", 0.95, limit[0],
			 value[0], times);
	result_add_pairs("four", "the runs in turn", "ms", 0, limit[1],
			 value[1], times);
	result_add_pairs("many", "the runs in turn", "ms", 1.6, limit[2],
			 value[2], times);
}

int main(int argc, char **argv)
{
	struct part half[2], split, piped;
	struct weir_buf *buf[2];

	if (argc > 1)
		times = (unsigned)atoi(argv[1]);
	if (argc > 2 || times < 1 || times > MAX_RUNS)
		die("usage: devices [RUNS], at most %u", MAX_RUNS);
	must(weir_open(NULL, &weir));
	must(weir_dev_configure(weir, "CPU:devices=2,threads=1,apart=1",
				&dev[0]));
	must(weir_dev_find(weir, "CPU1", &dev[1]));
	weights_new(buf);
	half[0] = part_new(0, LAYERS / 2, 1);
	half[1] = part_new(LAYERS / 2, LAYERS / 2, 1);
	split = part_new(0, LAYERS, 1);
	piped = part_new(0, LAYERS, COPIES);
	result_head();
	rounds(half, &split, &piped);
	part_free(&half[0]);
	part_free(&half[1]);
	part_free(&split);
	part_free(&piped);
	weir_buf_free(buf[0]);
	weir_buf_free(buf[1]);
	weir_close(weir);
	return result_all_ok() ? 0 : 1;
}
