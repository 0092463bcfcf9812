/* SPDX-License-Identifier: MIT */
/*
 * Schedules over the CPU and a CUDA device that computes nothing: leaves in its
 * memory are copied to where they are used, in each run.
 */
#include "gpu.h"

#define N 16

static struct weir *weir;
static struct weir_dev *dev[2]; /* CPU, CUDA0 */
static struct weir_sched *sched;
static struct weir_graph *g;
static struct weir_node *x, *out;
static struct weir_tensor w; /* in memory of the CUDA device */

static void leaf_set(float value)
{
	float v[N];

	for (int i = 0; i < N; i++)
		v[i] = value;
	must(weir_tensor_set(&w, 0, v, sizeof(v)));
}

/* (x + w) * w */
static struct weir_run *run_make(void)
{
	struct weir_schedule *schedule;
	struct weir_run *run;
	float v[N];

	for (int i = 0; i < N; i++)
		v[i] = 2;
	must(weir_schedule_new(sched, g, &schedule));
	must(weir_run_new(schedule, &run));
	weir_schedule_free(schedule);
	must(weir_run_input(run, x, v, sizeof(v)));
	return run;
}

static float result(struct weir_run *run)
{
	struct weir_tensor t;
	float v[N];

	must(weir_run_output(run, out, &t));
	must(weir_tensor_get(&t, 0, v, sizeof(v)));
	return v[N - 1];
}

static void copies(void)
{
	struct weir_run *run = run_make();

	leaf_set(3);
	must(weir_run_start(run));
	is_int(weir_run_wait(run, -1), 0,
	       "the CPU computes with a leaf in memory of another device");
	ok(result(run) == 15, "its result is right");
	leaf_set(5);
	must(weir_run_start(run));
	must(weir_run_wait(run, -1));
	ok(result(run) == 35, "the leaf is copied again in each run");
	weir_run_free(run);
}

static void describes(void)
{
	struct weir_transfer t = { .size = sizeof(t) };
	struct weir_schedule *s;

	must(weir_schedule_new(sched, g, &s));
	must(weir_schedule_transfer(s, 0, &t));
	ok(t.from == dev[1] && t.to == dev[0] && t.bytes == N * sizeof(float) &&
		   t.how == WEIR_TRANSFER_COPY,
	   "the copy of the leaf is a transfer of the schedule");
	weir_schedule_free(s);
}

static void writes(void)
{
	struct weir_graph *other;
	struct weir_schedule *s;

	must(weir_graph_new(&other));
	weir_copy(other, weir_graph_leaf(other, &w, NULL),
		  weir_graph_leaf(other, &w, NULL));
	is_err(weir_schedule_new(sched, other, &s), -EOPNOTSUPP, "leaf",
	       "a leaf in memory in which no device computes is not written");
	weir_graph_free(other);
}

static void fails(void)
{
	struct weir_run *run = run_make();

	if (!on_fake(1))
		return;
	leaf_set(3);
	fake.arm("cuMemcpyDtoHAsync", 1, FAKECUDA_ONCE, 999);
	must(weir_run_start(run));
	is_err(weir_run_wait(run, -1), -EIO, "copy",
	       "a run whose transfer fails has the failure of the copy");
	fake.disarm();
	weir_run_free(run);
}

int main(void)
{
	const int64_t shape = N;
	struct weir_buft *kind;
	struct weir_buf *buf;

	open_driver();
	plan(0);
	weir = open_cuda();
	dev[0] = cpu_of(weir);
	dev[1] = gpu(weir);
	must(weir_sched_new(dev, 2, NULL, &sched));
	must(weir_dev_buft(dev[1], WEIR_MEM_DEVICE, &kind));
	must(weir_buf_alloc(kind, 4096, NULL, &buf));
	must(weir_tensor_init(&w, WEIR_DTYPE_F32, 1, &shape));
	must(weir_tensor_place(&w, buf, 0));
	must(weir_graph_new(&g));
	x = weir_graph_input(g, "x", WEIR_DTYPE_F32, 1, &shape);
	out = weir_graph_leaf(g, &w, NULL);
	out = weir_mul(g, weir_add(g, x, out), out);
	weir_graph_output(g, out);
	copies();
	describes();
	writes();
	fails();
	weir_graph_free(g);
	weir_sched_free(sched);
	weir_buf_free(buf);
	weir_close(weir);
	all_given_back("after runs over two devices,");
	return done_testing();
}
