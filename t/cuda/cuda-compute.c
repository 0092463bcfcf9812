/* SPDX-License-Identifier: MIT */
/*
 * Graphs on a CUDA device, besides what its kernels compute (cuda-elements.t
 * and the others): what it supports, failures, cancelling, several lanes.
 */
#include <string.h>
#include <unistd.h>

#include "gpu.h"

#define N 64
#ifdef T_HAVE_CODE
#define HAVE_CODE true
#else
#define HAVE_CODE false /* the PTX of a release, and no code for GPUs */
#endif

static struct weir *weir;
static struct weir_dev *cuda;
static struct weir_sched *sched;
static struct weir_graph *g;

static void begin(void)
{
	weir = open_cuda();
	cuda = gpu(weir);
	must(weir_graph_new(&g));
}

static void end(void)
{
	weir_graph_free(g);
	weir_sched_free(sched);
	weir_close(weir);
	sched = NULL;
}

static void sched_make(void)
{
	struct weir_sched_opts o = WEIR_SCHED_OPTS_INIT;

	o.copies = 2;
	must(weir_sched_new(&cuda, 1, &o, &sched));
}

static struct weir_node *vector(const char *name, enum weir_dtype dtype,
				int64_t n)
{
	return weir_graph_input(g, name, dtype, 1, &n);
}

static struct weir_node *matrix(const char *name, enum weir_dtype dtype,
				int64_t rows, int64_t columns)
{
	const int64_t shape[] = { rows, columns };

	return weir_graph_input(g, name, dtype, 2, shape);
}

/* A run of the graph, whose result is @out. The graph is empty afterwards. */
static struct weir_run *run_of(struct weir_node *out)
{
	struct weir_exec *exec;
	struct weir_run *run;

	weir_graph_output(g, out);
	must(weir_graph_error(g, NULL));
	must(weir_exec_new(sched, g, &exec));
	must(weir_run_new(exec, &run));
	weir_exec_free(exec);
	return run;
}

static void floats_in(struct weir_run *run, struct weir_node *x, float value)
{
	float v[N];

	for (int i = 0; i < N; i++)
		v[i] = value;
	must(weir_run_input(run, x, v, sizeof(v)));
}

static float first_out(struct weir_run *run, struct weir_node *node)
{
	struct weir_tensor t;
	float v;

	must(weir_run_output(run, node, &t));
	must(weir_tensor_get(&t, 0, &v, sizeof(v)));
	return v;
}

static int run_once(struct weir_run *run)
{
	must(weir_run_start(run));
	return weir_run_wait(run, -1);
}

/* What a device says of a graph with this result: 0 or an errno. */
static int makes(struct weir_node *out)
{
	struct weir_exec *exec = NULL;
	int r;

	weir_graph_output(g, out);
	must(weir_graph_error(g, NULL));
	r = weir_exec_new(sched, g, &exec);
	weir_exec_free(exec);
	weir_graph_reset(g);
	return r;
}

static void right(void)
{
	struct weir_node *x = vector("x", WEIR_DTYPE_F32, N), *y;
	struct weir_run *run;

	y = weir_scale(g, weir_sqr(g, x), 2, 1);
	run = run_of(y);
	floats_in(run, x, 3);
	is_int(run_once(run), 0, "a graph is computed");
	ok(first_out(run, y) == 19, "its result is right");
	floats_in(run, x, 4);
	must(run_once(run));
	ok(first_out(run, y) == 33, "a second run has other inputs");
	weir_run_free(run);
	weir_graph_reset(g);
}

/* Runs of one executable graph, which share what was prepared. */
static void two_runs(void)
{
	struct weir_node *x = vector("x", WEIR_DTYPE_F32, N);
	struct weir_node *y = weir_sqr(g, x);
	struct weir_exec *exec;
	struct weir_run *run[2];

	weir_graph_output(g, y);
	must(weir_exec_new(sched, g, &exec));
	for (int i = 0; i < 2; i++) {
		must(weir_run_new(exec, &run[i]));
		floats_in(run[i], x, (float)(i + 2));
	}
	must(weir_run_start(run[0]));
	must(weir_run_start(run[1]));
	must(weir_run_wait(run[0], -1));
	ok(first_out(run[0], y) == 4, "the first of two runs is right");
	must(weir_run_wait(run[1], -1));
	ok(first_out(run[1], y) == 9, "the second of two runs is right");
	weir_run_free(run[0]);
	weir_run_free(run[1]);
	weir_exec_free(exec);
	weir_graph_reset(g);
}

static void indices(void)
{
	const int32_t bad[] = { 1, 9, 2 }, good[] = { 3, 0, 2 };
	struct weir_node *a = matrix("a", WEIR_DTYPE_F32, 4, N / 4);
	struct weir_node *ids = vector("ids", WEIR_DTYPE_I32, 3);
	struct weir_node *rows = weir_get_rows(g, a, ids), *y;
	struct weir_run *run;

	weir_node_set_name(rows, "rows");
	y = weir_scale(g, rows, 2, 0);
	run = run_of(y);
	floats_in(run, a, 5);
	must(weir_run_input(run, ids, bad, sizeof(bad)));
	/* The next node reads the row that was not found. */
	fake.set("KERNELCHECK", "0");
	is_err(run_once(run), -EINVAL, "index 9 at 1 is not one of 4 rows",
	       "an index out of range ends the run, with index and place");
	is_err(weir_run_wait(run, -1), -EINVAL, "'rows'",
	       "the sentence names the node");
	fake.set("KERNELCHECK", "1");
	must(weir_run_input(run, ids, good, sizeof(good)));
	is_int(run_once(run), 0, "the run starts again with other indices");
	ok(first_out(run, y) == 10, "the result is right then");
	weir_run_free(run);
	weir_graph_reset(g);
}

static void launch_fails(void)
{
	struct weir_node *x = vector("x", WEIR_DTYPE_F32, N);
	struct weir_node *first = weir_sqr(g, x), *y;
	struct weir_run *run;

	y = weir_scale(g, first, 1, 1);
	weir_node_set_name(y, "second");
	run = run_of(y);
	floats_in(run, x, 2);
	fake.arm("cuLaunchKernel", 2, FAKECUDA_ONCE, 701);
	is_err(run_once(run), -EIO, "'second'",
	       "a launch that fails ends the run, with the node");
	is_err(weir_run_wait(run, -1), -EIO, "'weir_kernel_elements'",
	       "the sentence has the kernel");
	fake.disarm();
	is_int(run_once(run), 0, "the run starts again");
	ok(first_out(run, y) == 5, "its result is right then");
	weir_run_free(run);
	weir_graph_reset(g);
}

/* Calls are slow, so that the run is cancelled between two launches. */
static void cancelled(void)
{
	struct weir_node *x = vector("x", WEIR_DTYPE_F32, N), *y = x;
	unsigned long before = fake.calls("cuLaunchKernel"), launches;
	struct weir_run *run;

	for (int i = 0; i < 100; i++)
		y = weir_scale(g, y, 1, 1);
	run = run_of(y);
	floats_in(run, x, 0);
	fake.set("CALL", "5000");
	must(weir_run_start(run));
	while (fake.calls("cuLaunchKernel") < before + 5)
		usleep(1000);
	weir_run_cancel(run);
	is_err(weir_run_wait(run, -1), -ECANCELED, "cancelled",
	       "a run that is cancelled ends");
	launches = fake.calls("cuLaunchKernel") - before;
	fake.set("CALL", "0");
	ok(launches < 100, "it makes no more launches");
	is_int(run_once(run), 0, "a run that was cancelled starts again");
	ok(first_out(run, y) == 100, "and computes all nodes");
	weir_run_free(run);
	weir_graph_reset(g);
}

static _Atomic unsigned n_observed;

static int observe(void *arg, struct weir_run *run, uint64_t node,
		   const struct weir_tensor *t)
{
	(void)arg, (void)run;
	if (t->shape[0] == N && node == n_observed + 1)
		n_observed++;
	return 0;
}

/* Another device computes the last node. */
static void lanes_and_observers(void)
{
	struct weir_sched_opts o = WEIR_SCHED_OPTS_INIT;
	struct weir_dev *devs[2] = { cuda, weir_dev_get(weir, 0) };
	struct weir_node *x = vector("x", WEIR_DTYPE_F32, N), *a, *b, *y;
	struct weir_sched *mine = sched;
	struct weir_run *run;

	o.observe = observe;
	must(weir_sched_new(devs, 2, &o, &sched));
	a = weir_sqr(g, x);
	b = weir_scale(g, a, 2, 0);
	y = weir_sum(g, b);
	weir_node_set_name(y, "third");
	weir_node_set_name(a, "first");
	weir_node_set_name(b, "second");
	must(weir_sched_pin(sched, "first", cuda));
	must(weir_sched_pin(sched, "second", cuda));
	must(weir_sched_pin(sched, "third", devs[1]));
	weir_graph_observe(g, a);
	weir_graph_observe(g, b);
	run = run_of(y);
	floats_in(run, x, 3);
	is_int(run_once(run), 0, "a CUDA device and a CPU compute a graph");
	ok(first_out(run, y) == 18 * N, "the CPU gets the device's result");
	ok(n_observed == 2,
	   "an observer gets the results of nodes on the device, in order");
	weir_run_free(run);
	weir_graph_reset(g);
	weir_sched_free(sched);
	sched = mine;
}

/* The CPU computes all, and cannot use a leaf in memory of the device. */
static void observes_elsewhere(void)
{
	struct weir_sched_opts o = WEIR_SCHED_OPTS_INIT;
	struct weir_dev *devs[2] = { weir_dev_get(weir, 0), cuda };
	struct weir_node *x = vector("x", WEIR_DTYPE_F32, N), *y;
	struct weir_sched *mine = sched;
	struct weir_buf *buf;
	struct weir_tensor t;
	struct weir_run *run;

	o.observe = observe;
	must(weir_sched_new(devs, 2, &o, &sched));
	must(weir_buf_alloc(gpu_memory(weir, WEIR_MEM_DEVICE), 4 * N, NULL,
			    &buf));
	must(weir_tensor_init(&t, WEIR_DTYPE_F32, 1, (const int64_t[]){ N }));
	must(weir_tensor_place(&t, buf, 0));
	weir_graph_observe(g, weir_graph_leaf(g, &t, NULL));
	y = weir_node_set_name(weir_sum(g, x), "sum");
	must(weir_sched_pin(sched, "sum", devs[0]));
	run = run_of(y);
	floats_in(run, x, 3);
	n_observed = 0;
	is_int(run_once(run), 0,
	       "a run of the CPU observes a leaf in memory of the device");
	is_int(n_observed, 1, "the observer gets the leaf");
	weir_run_free(run);
	weir_graph_reset(g);
	weir_buf_free(buf);
	weir_sched_free(sched);
	sched = mine;
}

/* The driver does not take the kernels: memory works all the same. */
static void refused(void)
{
	struct weir_tensor t;

	begin();
	sched_make();
	fake.arm("cuModuleLoadDataEx", 1, FAKECUDA_FROM_THEN_ON, 222);
	is_err(makes(weir_sqr(g, vector("x", WEIR_DTYPE_F32, N))), -EOPNOTSUPP,
	       "the driver (CUDA 13.0) refuses the kernels 'elements' (PTX 7.4)",
	       "kernels that the driver refuses are an error with both versions");
	fake.disarm();
	is_err(makes(weir_sqr(g, vector("x", WEIR_DTYPE_F32, N))), -EOPNOTSUPP,
	       "refuses the kernels",
	       "the device computes nothing from then on");
	t = patterned(weir, 1000, 1);
	ok(holds_pattern(&t, 1000, 1), "its memory and copies work");
	weir_buf_free(t.buf);
	end();
}

/* The driver has to compile them, and says why it cannot. */
static void not_compiled(void)
{
	begin();
	sched_make();
	fake.set(
		"JIT",
		"ptxas application ptx input, line 9; fatal   : Unsupported .version 7.4; current version is '7.3'\nptxas fatal   : Ptx assembly aborted due to errors\n");
	is_err(makes(weir_sqr(g, vector("x", WEIR_DTYPE_F32, N))), -EOPNOTSUPP,
	       "for this GPU (sm_90): CUDA_ERROR_INVALID_PTX",
	       "kernels that the driver cannot compile are an error");
	is_err(makes(weir_sqr(g, vector("x", WEIR_DTYPE_F32, N))), -EOPNOTSUPP,
	       "Unsupported .version 7.4; current version is '7.3'",
	       "it has what the compiler says");
	fake.set("JIT", "");
	end();
}

/*
 * A GPU of this compute capability is given the code for sm_@code, which the
 * stand-in refuses by its name, and computes with PTX. 0: there is no code.
 */
static void computes_on(unsigned gpu, unsigned code)
{
	unsigned long before, loads;
	char number[16], words[32];
	struct weir_node *x, *y;
	struct weir_run *run;

	snprintf(number, sizeof(number), "%u", gpu);
	snprintf(words, sizeof(words), "not code for sm_%u", code);
	fake.set("CAPABILITY", number);
	begin();
	sched_make();
	before = fake.calls("cuModuleLoadDataEx");
	x = vector("x", WEIR_DTYPE_F32, N);
	y = weir_sqr(g, x);
	run = run_of(y);
	loads = fake.calls("cuModuleLoadDataEx") - before;
	floats_in(run, x, 3);
	is_int(run_once(run), 0, "a GPU of compute capability %u computes",
	       gpu);
	ok(first_out(run, y) == 9, "its result is right");
	if (!HAVE_CODE)
		skip(1, "built without nvcc: there is no code for GPUs");
	else if (!code)
		is_int(loads, 1, "it is given PTX only");
	else if (!ok(loads == 2 && strstr(fake.finding(), words),
		     "it is given the code for sm_%u", code))
		diag("%lu loads; %s", loads, fake.finding());
	weir_run_free(run);
	end();
	fake.set("CAPABILITY", "90");
}

static void all_gpus(void)
{
	computes_on(80, 80);
	computes_on(86, 86);
	computes_on(87, 86);
	computes_on(89, 89);
	computes_on(90, 90);
	computes_on(100, 100);
	computes_on(103, 100);
	computes_on(110, 0);
	computes_on(120, 120);
	computes_on(121, 120);
	computes_on(130, 0);
}

static void older_gpu(void)
{
	struct weir_sched_opts o = WEIR_SCHED_OPTS_INIT;
	struct weir_tensor t;

	fake.set("CAPABILITY", "75");
	begin();
	is_err(weir_sched_new(&cuda, 1, &o, &sched), -EOPNOTSUPP,
	       "the kernels need a GPU of compute capability 8.0; this one has 7.5",
	       "a GPU that is too old computes nothing, and the error says why");
	sched = NULL;
	t = patterned(weir, 1000, 1);
	ok(holds_pattern(&t, 1000, 1), "its memory and copies work");
	weir_buf_free(t.buf);
	end();
	fake.set("CAPABILITY", "90");
}

static struct weir_node *wide_tiles(void)
{
	return weir_mul_mat(g, matrix("a", WEIR_DTYPE_Q8_0, 6144, 256),
			    matrix("b", WEIR_DTYPE_F32, 64, 256));
}

/* Kernels that cannot be loaded now are loaded at the next attempt. */
static void loads_later(void)
{
	begin();
	sched_make();
	fake.arm("cuModuleLoadDataEx", 1, FAKECUDA_ONCE, 2);
	is_err(makes(weir_sqr(g, vector("x", WEIR_DTYPE_F32, N))), -ENOMEM,
	       "'elements'",
	       "kernels for which there is no memory are an error");
	fake.disarm();
	fake.arm("cuModuleLoadDataEx", 1, FAKECUDA_ONCE, 1);
	is_int(makes(weir_rms_norm(g, vector("x", WEIR_DTYPE_F32, N), 1e-5f)),
	       HAVE_CODE ? 0 : -EINVAL,
	       "PTX is loaded if the code for the GPU is not");
	fake.disarm();
	fake.arm("cuFuncLoad", 1, FAKECUDA_ONCE, 2);
	is_err(makes(weir_sqr(g, vector("x", WEIR_DTYPE_F32, N))), -ENOMEM,
	       "'elements'", "and so is one kernel of them");
	fake.disarm();
	is_int(makes(weir_sqr(g, vector("x", WEIR_DTYPE_F32, N))), 0,
	       "they are loaded when there is memory");
	fake.arm("cuFuncSetAttribute", 1, FAKECUDA_ONCE, 2);
	is_err(makes(wide_tiles()), -ENOMEM,
	       "bytes of shared memory for 'weir_kernel_tiles_q8_0_wide'",
	       "a kernel does not get the shared memory it needs");
	fake.disarm();
	is_int(makes(wide_tiles()), 0, "and then it does");
	end();
}

/* The last test: the context stays lost. */
static void lost(void)
{
	struct weir_node *x;
	struct weir_run *run;

	begin();
	sched_make();
	x = vector("x", WEIR_DTYPE_F32, N);
	run = run_of(weir_sqr(g, x));
	floats_in(run, x, 2);
	fake.arm("cuLaunchKernel", 1, FAKECUDA_STICKY, 700);
	is_err(run_once(run), -ENODEV, "CUDA0",
	       "a run on a device that is lost by a launch ends");
	fake.disarm();
	weir_run_free(run);
	end();
}

int main(void)
{
	open_driver();
	begin();
	need_compute(cuda);
	plan(0);
	sched_make();
	right();
	two_runs();
	indices();
	lanes_and_observers();
	observes_elsewhere();
	if (on_fake(8)) {
		launch_fails();
		cancelled();
	}
	end();
	if (on_fake(46)) {
		refused();
		not_compiled();
		all_gpus();
		older_gpu();
		loads_later();
	}
	all_given_back("after all but a lost device");
	if (on_fake(1))
		lost();
	return done_testing();
}
