/* SPDX-License-Identifier: MIT */
/*
 * Executable graphs over the CPU and a CUDA device that computes nothing,
 * because its driver is too old for the kernels: leaves in its memory are
 * copied to where they are used, in each run.
 */
#include "gpu.h"

#define N 16

static struct weir *weir;
static struct weir_dev *dev[2]; /* CPU, CUDA0 */
static struct weir_sched *sched;
static struct weir_graph *g;
static struct weir_node *x, *out;
static struct weir_tensor w; /* a tensor in memory of the CUDA device */

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
	struct weir_exec *exec;
	struct weir_run *run;
	float v[N];

	for (int i = 0; i < N; i++)
		v[i] = 2;
	must(weir_exec_new(sched, g, &exec));
	must(weir_run_new(exec, &run));
	weir_exec_free(exec);
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

static void old_driver(void)
{
	struct weir_dev_info info = { .size = sizeof(info) };
	struct weir_sched *none;

	must(weir_dev_info(dev[1], &info));
	ok(!(info.caps & WEIR_CAP_COMPUTE),
	   "a device of a driver before CUDA 11.4 does not compute");
	is_err(weir_sched_new(&dev[1], 1, NULL, &none), -EOPNOTSUPP,
	       "CUDA0 does not compute: the kernels are PTX 7.4, which needs a driver of CUDA 11.4; this one is of CUDA",
	       "no scheduler is made for it alone, and the error has the reason");
	has_str(info.no_compute, "needs a driver of CUDA 11.4",
		"the description of the device has it too");
}

static void copies(void)
{
	struct weir_run *run = run_make();

	leaf_set(3);
	must(weir_run_start(run));
	is_int(weir_run_wait(run, -1), 0,
	       "the CPU computes with a leaf in memory of another device");
	ok(result(run) == 15,
	   "a result computed with a leaf in memory of another device is right");
	leaf_set(5);
	must(weir_run_start(run));
	must(weir_run_wait(run, -1));
	ok(result(run) == 35, "the leaf is copied again in each run");
	weir_run_free(run);
}

static void describes(void)
{
	struct weir_transfer t = { .size = sizeof(t) };
	struct weir_exec *s;

	must(weir_exec_new(sched, g, &s));
	must(weir_exec_transfer(s, 0, &t));
	ok(t.from == dev[1] && t.to == dev[0] && t.bytes == N * sizeof(float) &&
		   t.how == WEIR_TRANSFER_COPY,
	   "the copy of the leaf is a transfer of the executable graph");
	weir_exec_free(s);
}

static void writes(void)
{
	struct weir_graph *other;
	struct weir_exec *s;
	struct weir_node *leaf;

	must(weir_graph_new(&other));
	leaf = weir_graph_leaf(other, &w, NULL);
	weir_copy(other, weir_slice(other, leaf, 0, 0, N / 2),
		  weir_slice(other, leaf, 0, N / 2, N / 2));
	is_err(weir_exec_new(sched, other, &s), -EOPNOTSUPP, "leaf",
	       "a leaf in memory in which no device computes is not written");
	weir_graph_free(other);
}

/* It is copied in each run, since the CPU's stream does not reach it. */
static void constant(void)
{
	struct weir_exec_info info = { .size = sizeof(info) };
	struct weir_graph *other;
	struct weir_exec *s;
	struct weir_run *run;
	struct weir_node *y;
	struct weir_tensor t;
	const int64_t shape = N;
	float v[N] = { 2 };

	leaf_set(3);
	must(weir_graph_new(&other));
	y = weir_graph_input(other, "x", WEIR_DTYPE_F32, 1, &shape);
	y = weir_mul(other, y,
		     weir_graph_constant(other,
					 weir_graph_leaf(other, &w, NULL)));
	weir_graph_output(other, y);
	must(weir_exec_new(sched, other, &s));
	must(weir_exec_info(s, &info));
	ok(!info.kept && info.transfers == 1,
	   "a constant leaf in memory of another device is a transfer");
	must(weir_run_new(s, &run));
	must(weir_run_input(run, weir_graph_node(other, 0), v, sizeof(v)));
	for (int i = 0; i < 2; i++) {
		must(weir_run_start(run));
		must(weir_run_wait(run, -1));
	}
	must(weir_run_output(run, y, &t));
	must(weir_tensor_get(&t, 0, v, sizeof(v)));
	ok(v[0] == 6,
	   "runs compute with a constant leaf in memory of another device");
	weir_run_free(run);
	weir_exec_free(s);
	weir_graph_free(other);
}

/* The last test: the device stays lost, and so does what it had. */
static void lost(void)
{
	struct weir_graph *other;
	struct weir_run *run, *second;
	struct weir_exec *s;
	struct weir_node *y;
	const int64_t shape = N;
	float v[N] = { 3 };

	run = run_make();
	fake.arm("cuMemcpyDtoHAsync", 1, FAKECUDA_LOST, 700);
	must(weir_run_start(run));
	is_err(weir_run_wait(run, -1), -ENODEV, "copy",
	       "a run ends if a device that it needs is lost");
	fake.disarm();
	must(weir_graph_new(&other));
	y = weir_graph_input(other, "x", WEIR_DTYPE_F32, 1, &shape);
	weir_graph_output(other, weir_sqr(other, y));
	must(weir_exec_new(sched, other, &s));
	must(weir_run_new(s, &second));
	must(weir_run_input(second, weir_graph_node(other, 0), v, sizeof(v)));
	must(weir_run_start(second));
	is_int(weir_run_wait(second, -1), 0,
	       "runs that do not need the lost device go on");
	weir_run_free(second);
	weir_exec_free(s);
	weir_graph_free(other);
	weir_run_free(run);
}

static void fails(void)
{
	struct weir_run *run;

	if (!on_fake(1))
		return;
	run = run_make();
	leaf_set(3);
	fake.arm("cuMemcpyDtoHAsync", 1, FAKECUDA_ONCE, 999);
	must(weir_run_start(run));
	is_err(weir_run_wait(run, -1), -EIO, "copy",
	       "a run whose transfer fails has the failure of the copy");
	fake.disarm();
	weir_run_free(run);
}

static struct weir_buf *begin(void)
{
	const int64_t shape = N;
	struct weir_buft *kind;
	struct weir_buf *buf;

	/* A driver that is too old for the kernels. */
	fake.set("VERSION", "11030");
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
	return buf;
}

static void end(struct weir_buf *buf)
{
	weir_graph_free(g);
	weir_sched_free(sched);
	weir_buf_free(buf);
	weir_close(weir);
}

int main(void)
{
	struct weir_buf *buf;

	open_fake();
	plan(0);
	buf = begin();
	old_driver();
	copies();
	describes();
	writes();
	constant();
	fails();
	end(buf);
	all_given_back("after runs over two devices,");
	if (on_fake(2)) {
		buf = begin();
		lost();
		end(buf);
	}
	return done_testing();
}
