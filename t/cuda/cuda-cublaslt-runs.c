/* SPDX-License-Identifier: MIT */
/*
 * When cuBLASLt computes products: what a lane says of it, each of its calls
 * that fails, the same bits in each run, and the estimate of its workspace.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda/product_runs.h"

#define LIBRARY "130002"
#define LIBRARY_NAME "cuBLASLt 13.0.2"

static unsigned long (*live)(void); /* objects of the library */

/* Three runs on @device, which the library computes, or does not because. */
static void runs(const char *device, const char *because, const char *what)
{
	unsigned long before = fake.calls("cublasLtMatmul");
	bool right = true;

	begin(device);
	for (int i = 0; i < 3; i++)
		right = right && run_once() == 0 && is_right();
	ok(right, "%s: the result is right", what);
	is_int((int)lane().by_library, !because, "%s: products of the library",
	       what);
	has_str(lane().library, because ? because : LIBRARY_NAME,
		"%s: what the lane says", what);
	is_int((int)(fake.calls("cublasLtMatmul") - before), because ? 0 : 3,
	       "%s: calls", what);
	is_int((int)lane().as_graph, 0, "%s: a prompt is no CUDA graph", what);
	end();
	is_int((int)live(), 0, "%s: nothing of the library is left", what);
}

static void used_or_not(void)
{
	runs("CUDA0", NULL, "the library is there");
	runs("CUDA1", NULL, "another device");
	runs("CUDA0:cublaslt=no", "cublaslt=no", "the parameter");
	setenv("WEIR_DEBUG", "cublaslt=no", 1);
	runs("CUDA0", "cublaslt=no", "WEIR_DEBUG");
	unsetenv("WEIR_DEBUG");
	fake.set("CUBLASLT", "111103");
	runs("CUDA0", "cuBLASLt 11.11.3 is older than 12.0", "an old library");
	fake.set("CUBLASLT", "0");
	runs("CUDA0", "older than 12.0", "a library that is none");
	fake.set("CUBLASLT", LIBRARY);
}

/* A failure of @call, the @nth, when the plan is made. */
static void planning_fails(const char *call, unsigned nth, int status,
			   const char *words)
{
	char what[80];

	snprintf(what, sizeof(what), "%s number %u fails", call, nth);
	fake.arm(call, nth, FAKECUDA_ONCE, status);
	runs("CUDA0", call, what);
	fake.disarm();
	fake.arm(call, nth, FAKECUDA_ONCE, status);
	begin("CUDA0");
	has_str(lane().library, words, "%s: the status is named", what);
	end();
	fake.disarm();
}

static void each_call_of_planning(void)
{
	static const struct {
		const char *name;
		unsigned n;
	} list[] = {
		{ "cublasLtCreate", 1 },
		{ "cublasLtMatmulDescCreate", 1 },
		{ "cublasLtMatmulDescSetAttribute", 1 },
		{ "cublasLtMatrixLayoutCreate", 3 },
		{ "cublasLtMatmulPreferenceCreate", 1 },
		{ "cublasLtMatmulPreferenceSetAttribute", 6 },
		{ "cublasLtMatmulAlgoGetHeuristic", 1 },
	};

	for (size_t i = 0; i < sizeof(list) / sizeof(*list); i++)
		for (unsigned nth = 1; nth <= list[i].n; nth++)
			planning_fails(list[i].name, nth, 14,
				       "CUBLAS_STATUS_INTERNAL_ERROR");
}

/* Another plan of the same device tries again, if it was for want of memory. */
static void no_memory_for_a_handle(void)
{
	struct weir_exec *first;

	fake.arm("cublasLtCreate", 1, FAKECUDA_ONCE, 3);
	begin("CUDA0");
	has_str(lane().library, "CUBLAS_STATUS_ALLOC_FAILED",
		"no memory for a handle: the lane says it");
	is_int(run_once(), 0, "the product is computed");
	weir_run_free(p.run);
	first = p.exec;
	weir_sched_free(p.sched);
	weir_graph_free(p.g);
	must(weir_sched_new(&p.dev, 1, NULL, &p.sched));
	product_graph();
	must(weir_exec_new(p.sched, p.g, &p.exec));
	must(weir_run_new(p.exec, &p.run));
	product_inputs();
	has_str(lane().library, LIBRARY_NAME, "the next plan has the library");
	ok(run_once() == 0 && is_right(), "and its result is right");
	weir_exec_free(first);
	end();
}

static void call_fails(int status, int err, const char *words)
{
	begin("CUDA0");
	must(run_once());
	fake.arm("cublasLtMatmul", 1, FAKECUDA_ONCE, status);
	is_err(run_once(), err, words, "a call that fails with %d", status);
	has_str(weir_error(), "'y'", "the node is named");
	has_str(weir_error(), "; the parameter cublaslt=no",
		"and what avoids the library");
	ok(!strstr(weir_error(), "CUDA_ERROR"),
	   "no error of the driver is said to be the cause");
	ok(run_once() == 0 && is_right(), "the next run is right");
	end();
}

/*
 * A call fails while another stream works: the library may have got that work's
 * error, which then is not reported to anybody else.
 */
static void others_meanwhile(int status, int err, const char *title)
{
	struct weir_stream *stream;
	struct weir_tensor t;

	begin("CUDA0");
	must(run_once());
	stream = gpu_stream(p.weir, "other", 0);
	t = on_gpu(p.weir, 4096);
	fake.arm("cuMemsetD8Async", 1, FAKECUDA_HANG, 0);
	must(weir_stream_fill(stream, &t, 0, 4096, 1));
	fake.arm("cublasLtMatmul", 1, FAKECUDA_ONCE, status);
	if (run_once() == 0)
		bail("no call was to be made");
	fake.release();
	is_int(weir_stream_sync(stream, 60 * SEC), err, "%s", title);
	fake.disarm();
	weir_stream_free(stream);
	weir_buf_free(t.buf);
	end();
}

static void same_bits(void)
{
	static float first[N * M], y[N * M];
	bool same = true;

	uneven = true;
	for (int i = 0; i < 6; i++) {
		if (i % 3 == 0)
			begin("CUDA0");
		must(run_once());
		result_get(i ? y : first);
		same = same && (!i || !memcmp(y, first, sizeof(y)));
		if (i % 3 == 2)
			end();
	}
	uneven = false;
	ok(same, "each run and each plan gives the same bits");
}

/* The bytes that the algorithm of the stand-in needs are in both. */
static void workspace(void)
{
	struct weir_exec_info info = { .size = sizeof(info) };
	struct weir_exec_info estimate = { .size = sizeof(estimate) };
	const uint64_t least = (uint64_t)N * M * 8;

	begin("CUDA0");
	must(weir_exec_info(p.exec, &info));
	must(weir_sched_estimate(p.sched, p.g, &estimate));
	ok(info.workspace >= least, "the workspace has room for the algorithm");
	ok(estimate.workspace >= info.workspace,
	   "the estimate is not less than the workspace");
	ok(estimate.workspace <= info.workspace + ((uint64_t)33 << 20),
	   "and at most 33 MiB more");
	end();
}

static bool ends_when_lost(const char *call)
{
	bool right;

	open_fake();
	fake.set("CUBLASLT", LIBRARY);
	begin("CUDA0");
	must(run_once());
	fake.arm(call, 1, FAKECUDA_STICKY, 700);
	right = run_once() == -ENODEV && strstr(weir_error(), "CUDA0");
	fake.disarm();
	end();
	return right && !fake.calls("cublasLtDestroy");
}

int main(void)
{
	bool lost;

	if (getenv("WEIR_T_FAKECUDA") && !*getenv("WEIR_T_FAKECUDA"))
		skip_all("needs the stand-in driver");
	lost = in_child(ends_when_lost, "cublasLtMatmul");
	setenv("FAKECUDA_DEVICES", "2", 1);
	open_fake();
	*(void **)&live = dlsym(fake.cublaslt, "fakecublaslt_live");
	fake.set("CUBLASLT", LIBRARY);
	p.weir = open_cuda();
	need_compute(gpu(p.weir));
	weir_close(p.weir);
	plan(0);
	ok(lost, "a run on a device that is lost by a call ends");
	used_or_not();
	each_call_of_planning();
	no_memory_for_a_handle();
	call_fails(13, -EIO, "CUBLAS_STATUS_EXECUTION_FAILED");
	call_fails(3, -ENOMEM, "CUBLAS_STATUS_ALLOC_FAILED");
	call_fails(15, -EOPNOTSUPP, "CUBLAS_STATUS_NOT_SUPPORTED");
	others_meanwhile(
		13, -EIO,
		"a status that may hide an error of the driver fails work of that time");
	others_meanwhile(15, 0,
			 "a status that cannot hide one fails its run only");
	same_bits();
	workspace();
	is_int((int)live(), 0, "nothing of the library is left");
	all_given_back("at the end");
	return done_testing();
}
