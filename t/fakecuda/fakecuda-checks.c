/* SPDX-License-Identifier: MIT */
/*
 * The stand-in driver: kernels with a fault each (ptx/faults.cu), which has to
 * be found, in words; and PTX that it does not take.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tap.h"
#include "fakecuda/cu.h"

struct fault {
	const char *kernel;
	unsigned grid, block;
	int n;
	int result;
	const char *words;
};

/* Each in a context of its own, since it may not survive. */
static void fault(const struct fault *f)
{
	unsigned long before;
	CUdeviceptr x, y;
	CUcontext ctx;
	CUmodule module;
	int n = f->n, result;
	float zeros[512] = { 0 };
	void *params[] = { &y, &n };
	void *two[] = { &x, &y };
	bool sources = !strcmp(f->kernel, "unwritten_global") ||
		       !strncmp(f->kernel, "async_", 6);

	if (cu.cuCtxCreate(&ctx, NULL, 0, 0))
		bail("no context");
	module = cu_load("faults.ptx");
	y = cu_upload(zeros, sizeof(zeros));
	x = f->n ? cu_upload(zeros, sizeof(zeros)) : cu_device(sizeof(zeros));
	before = cu_counts().findings;
	cu_launch(module, f->kernel, f->grid, f->block, 0,
		  sources ? two : params);
	result = (int)cu.cuCtxSynchronize();
	ok(cu_counts().findings > before, "%s: there is a finding", f->kernel);
	has_str(cu.fakecuda_finding(), f->words, "%s: it says what is wrong",
		f->kernel);
	has_str(cu.fakecuda_finding(), f->kernel, "%s: it names the kernel",
		f->kernel);
	is_int(result, f->result, "%s: the context fails as a GPU's does",
	       f->kernel);
	cu.cuCtxDestroy(ctx);
}

static const struct fault faults[] = {
	{ "out_of_bounds", 1, 32, 500, CUDA_ERROR_ILLEGAL_ADDRESS,
	  "thread (12,0,0): writes 4 bytes" },
	{ "misaligned", 1, 1, 1, CUDA_ERROR_MISALIGNED_ADDRESS,
	  "which is no multiple of 16" },
	{ "beyond_shared", 1, 32, 1, CUDA_ERROR_ILLEGAL_ADDRESS,
	  "bytes beyond the end of" },
	{ "unwritten_shared", 1, 32, 32, 0,
	  "of shared memory, which was never written" },
	{ "unwritten_global", 1, 32, 0, 0,
	  "of global memory, which was never written" },
	{ "race_warps", 1, 64, 1, 0, "of another warp" },
	{ "race_lanes", 1, 32, 1, 0, "of the same warp, read in line" },
	{ "race_blocks", 2, 32, 1, 0, "of another block wrote in line" },
	{ "shuffle_in_branch", 1, 32, 16, 0,
	  "lanes 0xffff0000 do not: they have ended" },
	{ "barrier_in_branch", 1, 32, 16, CUDA_ERROR_LAUNCH_TIMEOUT,
	  "threads wait at barrier" },
	{ "async_too_early", 1, 32, 1, 0, "its group was not awaited" },
	{ "unwritten_register", 1, 32, 1, 0,
	  "uses a register that was never written" },
	{ "out_of_bounds", 1, 32, 1 << 28, CUDA_ERROR_ILLEGAL_ADDRESS,
	  "where nothing is allocated" },
	{ "misaligned_shared", 1, 32, 1, CUDA_ERROR_MISALIGNED_ADDRESS,
	  "reads 16 bytes at" },
	{ "unwritten_local", 1, 8, 4, 0,
	  "of local memory, which was never written" },
	{ "beyond_local", 1, 8, 12, CUDA_ERROR_ILLEGAL_ADDRESS,
	  "of local memory, which has 64" },
	{ "race_readers", 1, 96, 0, 0, "thread 32, of another warp, read" },
	{ "race_readers", 1, 96, 1, 0, "thread 0, of another warp, read" },
	{ "race_atomic", 2, 32, 1, 0, "of another block" },
	{ "race_relaxed", 2, 32, 1, 0,
	  "reads what thread 0 of another block wrote" },
	{ "race_no_release", 2, 32, 1, 0,
	  "reads what thread 0 of another block wrote" },
	{ "race_no_acquire", 2, 32, 1, 0,
	  "reads what thread 0 of another block wrote" },
	{ "race_fence_of_block", 2, 32, 1, 0,
	  "reads what thread 0 of another block wrote" },
	{ "vote_in_branch", 1, 32, 16, 0, "lanes 0xffff0000 do not" },
	{ "product_in_branch", 1, 32, 16, 0, "lanes 0xffff0000 do not" },
	{ "shuffle_from_outside", 1, 32, 16, 0,
	  "reads from lane 16, which does not take part" },
	{ "not_in_its_mask", 1, 32, 1, 0, "lane 16 is not in its own mask" },
	{ "two_barriers", 1, 32, 16, 0,
	  "lanes of one warp wait at the barriers of lines" },
	{ "half_a_warp", 1, 32, 16, CUDA_ERROR_LAUNCH_FAILED,
	  "of multiples of 32 threads" },
	{ "async_misaligned", 1, 31, 1, CUDA_ERROR_MISALIGNED_ADDRESS,
	  "copies 16 bytes from" },
	{ "async_too_many", 1, 18, 1, 0, "copies 17 bytes to 16" },
	{ "unset_predicate", 1, 32, 1, 0,
	  "is guarded by a predicate that was never set" },
	{ "unset_choice", 1, 32, 1, 0, "uses a predicate that was never set" },
	{ "traps", 1, 1, 1, CUDA_ERROR_LAUNCH_FAILED, "executes trap" },
	{ "asserts", 1, 32, 16, CUDA_ERROR_ASSERT,
	  "an assertion does not hold" },
	{ "endless", 1, 32, 1, CUDA_ERROR_LAUNCH_TIMEOUT,
	  "the launch has not ended after" },
};

static void all_faults(void)
{
	cu.fakecuda_set("KERNELLIMIT", "100000");
	for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++)
		fault(&faults[i]);
	cu.fakecuda_set("KERNELLIMIT", "2e9");
}

/* What is not executed, although it is PTX; see ptx/README.md. */
static const char *const others[] = {
	"mbarrier.init.shared::cta.b64 [%r1], 1;",
	"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], %r2;",
	"mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], %r2;",
	"cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r1];",
	"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 16, [%r2];",
	"cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r3, %r4}], [%r2];",
	"cp.async.bulk.commit_group;",
	"cp.async.bulk.wait_group 0;",
	"cp.async.cg.shared.global [%r1], [%rd1], 16, %p1;",
	"wgmma.fence.sync.aligned;",
	"wgmma.commit_group.sync.aligned;",
	"wgmma.wait_group.sync.aligned 0;",
	"tcgen05.wait::ld.sync.aligned;",
	"barrier.cluster.arrive.aligned;",
	"mapa.shared::cluster.u32 %r1, %r2, 0;",
	"ld.shared::cluster.u32 %r1, [%r2];",
	"st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r1], %r2, [%r3];",
	"cvta.shared::cluster.u64 %rd1, %rd2;",
	"isspacep.shared::cluster %p1, %rd1;",
	"elect.sync %r1|%p1, -1;",
	"cvt.rn.satfinite.e4m3x2.f32 %h1, %f1, %f2;",
	"cvt.rn.satfinite.e5m2x2.f32 %h1, %f1, %f2;",
	"cvt.rn.f16x2.e4m3x2 %r1, %h1;",
	"mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, %r4}, {%r5, %r6}, {%f1, %f2, %f3, %f4};",
	"mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, %r4}, {%r1, %r2, %r3, %r4}, {%f1, %f2, %f3, %f4}, %r5, 0;",
	"ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r1, %r2}, [%r3];",
	"redux.sync.min.f32 %f1, %f2, -1;",
	"add.f32x2 %rd1, %rd2, %rd3;",
	"atom.global.v2.f32.add {%f1, %f2}, [%rd1], {%f3, %f4};",
	"red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r1], %r2, [%r3];",
	"multimem.ld_reduce.relaxed.gpu.global.add.f32 %f1, [%rd1];",
	"createpolicy.fractional.L2::evict_last.b64 %rd1, 1.0;",
	"tex.2d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd1, {%r1, %r2}];",
	"fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;",
	"call (%r1), vprintf, (%rd1, %rd2);",
	"brkpt;",
};

static void not_executed(const char *statement)
{
	CUjit_option options[] = { CU_JIT_ERROR_LOG_BUFFER,
				   CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES };
	char log[400] = "", text[1000], words[200];
	void *values[] = { log, (void *)(uintptr_t)sizeof(log) };
	int n = (int)strcspn(statement, " ;");
	CUmodule module = NULL;

	snprintf(
		text, sizeof(text),
		".version 7.4\n.target sm_80\n.address_size 64\n.entry k()\n{\n"
		".reg .pred %%p<9>; .reg .b16 %%h<9>; .reg .b32 %%r<9>;\n"
		".reg .f32 %%f<9>; .reg .b64 %%rd<9>;\n\t%s\n}\n",
		statement);
	snprintf(words, sizeof(words), "line 8: %.*s: ", n, statement);
	if (cu.cuModuleLoadDataEx(&module, text, 2, options, values) ==
		    CUDA_ERROR_INVALID_PTX &&
	    !strncmp(log, words, strlen(words))) {
		ok(true, "refused: %.*s", n, statement);
		return;
	}
	ok(false, "refused: %.*s", n, statement);
	diag("%s", module ? "it was loaded" : log);
}

static void refused(void)
{
	static const char code[64] = "\177ELF"; /* the header of a file */
	CUmodule module;

	is_int(cu.cuModuleLoadData(&module, ".version 9.9\n.target sm_80\n"),
	       CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
	       "PTX that is newer than the driver is refused");
	is_int(cu.cuModuleLoadData(&module, ".version 7.4\n.target sm_120\n"),
	       CUDA_ERROR_NO_BINARY_FOR_GPU, "PTX for a newer GPU is refused");
	is_int(cu.cuModuleLoadData(&module, code), CUDA_ERROR_NO_BINARY_FOR_GPU,
	       "code for a GPU is refused");
}

int main(void)
{
	char *text = cu_ptx("faults.ptx");

	if (!text)
		skip_all("the PTX of the kernels is not here");
	free(text);
	plan(0);
	cu_start();
	refused();
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		not_executed(others[i]);
	all_faults();
	return done_testing();
}
