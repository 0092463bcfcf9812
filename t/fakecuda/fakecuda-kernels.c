/* SPDX-License-Identifier: MIT */
/*
 * The stand-in driver: kernels. The results of ptx/kernels.cu are compared
 * with what C computes; fakecuda-checks.c has the kernels with faults.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tap.h"
#include "fakecuda/cu.h"

static CUmodule kernels;

/* Run a kernel with pointers as parameters, and read @n bytes of the last. */
static void compute(const char *name, unsigned grid, unsigned block,
		    unsigned shared, void *result, size_t n, void **params,
		    CUdeviceptr from)
{
	if (cu_launch(kernels, name, grid, block, shared, params) ||
	    cu.cuMemcpyDtoH(result, from, n))
		bail("%s: %s", name, cu.fakecuda_finding());
}

static unsigned state = 1;

static unsigned draw(void)
{
	state = state * 1664525u + 1013904223u;
	return state >> 8;
}

static float real(void)
{
	return (float)draw() / (1 << 22) - 2;
}

static bool close_to(double got, double want, double bound)
{
	if (fabs(got - want) <= bound * (1 + fabs(want)))
		return true;
	diag("%.9g, not %.9g", got, want);
	return false;
}

static void rms_norm(void)
{
	float x[3 * 100], y[3 * 100], eps = 1e-5f;
	CUdeviceptr dx, dy = cu_device(sizeof(y));
	int n = 100;
	void *params[] = { &dx, &dy, &n, &eps };
	bool same = true;

	for (int i = 0; i < 300; i++)
		x[i] = real();
	dx = cu_upload(x, sizeof(x));
	compute("rms_norm", 3, 64, 0, y, sizeof(y), params, dy);
	for (int r = 0; r < 3; r++) {
		double sum = 0;

		for (int i = 0; i < n; i++)
			sum += (double)x[r * n + i] * (double)x[r * n + i];
		for (int i = 0; i < n; i++)
			same &= close_to((double)y[r * n + i],
					 (double)x[r * n + i] /
						 sqrt(sum / n + 1e-5),
					 1e-6);
	}
	ok(same, "a kernel with loops, shuffles and a barrier computes a norm");
}

static int dp4a(unsigned a, unsigned b, int c)
{
	for (int i = 0; i < 32; i += 8)
		c += (int8_t)(a >> i) * (int8_t)(b >> i);
	return c;
}

static unsigned reversed(unsigned v)
{
	unsigned r = 0;

	for (int i = 0; i < 32; i++)
		r |= (v >> i & 1) << (31 - i);
	return r;
}

static void integers(void)
{
	int a[64], y[512], want[512], sum = 0;
	unsigned ballot = 0;
	CUdeviceptr da, dy = cu_device(sizeof(y));
	void *params[] = { &da, &dy };

	for (int i = 0; i < 64; i++)
		a[i] = (int)(draw() * 2654435761u);
	for (int i = 0; i < 32; i++) {
		sum += a[i] & 1023;
		ballot |= (unsigned)(a[i] & 1) << i;
	}
	for (int i = 0; i < 32; i++) {
		int v = a[i], w = a[i + 32], *r = want + 16 * i;
		unsigned u = (unsigned)v, same = 0;

		for (int k = 0; k < 32; k++)
			same |= (unsigned)((a[k] & 3) == (v & 3)) << k;
		r[0] = dp4a(u, (unsigned)w, 7);
		r[1] = __builtin_popcount(u) +
		       100 * (u ? __builtin_clz(u) : 32) +
		       10000 * __builtin_ffs(v);
		r[2] = v / (w | 1);
		r[3] = v % (w | 1);
		r[4] = (int)((u & 0xffff) | (unsigned)w << 16);
		r[5] = (int)((((uint64_t)(unsigned)w << 32) | u) >> 7);
		r[6] = (int)(((int64_t)v * w) >> 32);
		r[7] = (int)(u / 7);
		r[8] = sum;
		r[9] = (int)ballot;
		r[10] = i < 31 ? a[i + 1] : v;
		r[11] = (int)same;
		r[12] = (int)(((long long)v * w) >> 20);
		r[13] = (int)(u << (w & 31)) ^ (v >> 3);
		r[14] = (int)reversed(u);
		r[15] = (v > -5 ? v : -5) < w ? (v > -5 ? v : -5) : w;
	}
	da = cu_upload(a, sizeof(a));
	compute("integers", 1, 32, 0, y, sizeof(y), params, dy);
	is_mem(y, want, sizeof(y),
	       "integers, votes, shuffles and sums of a warp have exact results");
}

static float half(float f)
{
	int e;

	frexpf(f, &e);
	return ldexpf(nearbyintf(ldexpf(f, 11 - e)), e - 11);
}

static float bf16(float f)
{
	int e;

	frexpf(f, &e);
	return ldexpf(nearbyintf(ldexpf(f, 8 - e)), e - 8);
}

static void floats(void)
{
	float x[32], y[512];
	CUdeviceptr dx, dy = cu_device(sizeof(y));
	void *params[] = { &dx, &dy };
	bool same = true, exact = true;

	for (int i = 0; i < 32; i++)
		x[i] = real() + 0.01f;
	dx = cu_upload(x, sizeof(x));
	compute("floats", 1, 32, 0, y, sizeof(y), params, dy);
	for (int i = 0; i < 32; i++) {
		const float *r = y + 16 * i;
		double v = (double)x[i];
		float t = x[i] + 1e-3f;

		same &= close_to((double)r[0], exp(v), 1e-6) &&
			close_to((double)r[1], log(fabs(v)), 1e-6) &&
			close_to((double)r[2], sin(v), 1e-6) &&
			close_to((double)r[3], tanh(v), 1e-6) &&
			close_to((double)r[13], erf(v), 1e-6);
		if (fabs((double)t) > fabs(v + (double)1e-3f))
			t = nextafterf(t, 0);
		exact &= r[4] == sqrtf(fabsf(x[i])) && r[5] == 1 / x[i] &&
			 r[6] == fmaf(x[i], x[i], 1e-9f) &&
			 r[7] == roundf(x[i]) && r[8] == half(x[i]) &&
			 r[9] == bf16(x[i]) &&
			 r[10] == x[i] * (float)(i % 4 + 1) && r[11] == t &&
			 r[12] == (float)(int)x[i] && r[14] == (float)(v / 3) &&
			 r[15] == fminf(x[i], 0.5f);
	}
	ok(same, "functions that CUDA computes from approximations are close");
	ok(exact,
	   "square roots, quotients, fused sums, roundings and conversions are exact");
}

/* The bits of @f, which F16 can hold. */
static uint16_t half_bits(float f)
{
	int e;
	float m = frexpf(fabsf(f), &e);

	if (f == 0)
		return 0;
	return (uint16_t)((f < 0) << 15 | (e + 14) << 10 |
			  ((int)ldexpf(m, 11) - 1024));
}

static uint16_t bf16_bits(float f)
{
	uint32_t u;

	memcpy(&u, &f, 4);
	return (uint16_t)(u >> 16);
}

static float half_value(uint16_t h)
{
	float m = (float)(h & 1023) + (h & 0x7c00 ? 1024 : 0);
	int e = h >> 10 & 31;

	m = ldexpf(m, (e ? e : 1) - 25);
	return h >> 15 ? -m : m;
}

static void pairs(void)
{
	uint16_t a[128], y[128], b[128], z[128];
	CUdeviceptr da, db, dy = cu_device(sizeof(y)),
			    dz = cu_device(sizeof(z));
	void *params[] = { &da, &dy, &db, &dz };
	bool f16 = true, bf = true;

	for (int i = 0; i < 128; i++) {
		a[i] = half_bits(half(real() + 0.01f));
		b[i] = bf16_bits(bf16(real() + 0.01f));
	}
	da = cu_upload(a, sizeof(a));
	db = cu_upload(b, sizeof(b));
	compute("pairs", 1, 32, 0, y, sizeof(y), params, dy);
	cu.cuMemcpyDtoH(z, dz, sizeof(z));
	for (int i = 0; i < 64; i++) {
		float u = half_value(a[i]), v = half_value(a[i + 64]), p, q;
		uint32_t bits = (uint32_t)b[i] << 16,
			 more = (uint32_t)b[i + 64] << 16;

		memcpy(&p, &bits, 4);
		memcpy(&q, &more, 4);
		f16 &= half_value(y[i]) == half(fmaf(u, v, u)) &&
		       half_value(y[i + 64]) == fmaxf(u, v);
		bf &= z[i] == bf16_bits(bf16(fmaf(p, q, p))) &&
		      z[i + 64] == bf16_bits(bf16(p * q));
	}
	ok(f16, "arithmetic of two F16 is rounded once");
	ok(bf, "arithmetic of two BF16 is rounded once");
}

static void product(const char *name, uint16_t (*bits)(float))
{
	uint16_t a[256], b[128];
	float fa[256], fb[128], c[128];
	CUdeviceptr da, db, dc = cu_device(sizeof(c));
	void *params[] = { &da, &db, &dc };
	bool same = true;

	for (int i = 0; i < 256; i++) {
		fa[i] = (float)(int)(draw() % 17) - 8;
		a[i] = bits(fa[i]);
	}
	for (int i = 0; i < 128; i++) {
		fb[i] = (float)(int)(draw() % 17) / 4 - 2;
		b[i] = bits(fb[i]);
	}
	da = cu_upload(a, sizeof(a));
	db = cu_upload(b, sizeof(b));
	compute(name, 1, 32, 0, c, sizeof(c), params, dc);
	for (int i = 0; i < 16; i++) {
		for (int j = 0; j < 8; j++) {
			float sum = 0;

			for (int k = 0; k < 16; k++)
				sum += fa[16 * i + k] * fb[8 * k + j];
			same &= c[8 * i + j] == sum;
		}
	}
	ok(same, "%s: cp.async, ldmatrix and mma.sync compute a product", name);
}

/*
 * 1 and 15 products of 2^-25: tensor cores cut off each of them. Errors of
 * .approx are within their bounds.
 */
static void rough(void)
{
	uint16_t a[256], b[128];
	float c[128], x[32], exact[512], y[512];
	CUdeviceptr da, db, dc = cu_device(sizeof(c)), dx,
			    dy = cu_device(sizeof(y));
	void *product[] = { &da, &db, &dc }, *params[] = { &dx, &dy };
	bool other = false, close = true;

	for (int i = 0; i < 256; i++)
		a[i] = half_bits(i % 16 ? 0x1p-14f : 1);
	for (int i = 0; i < 128; i++)
		b[i] = half_bits(i / 8 ? 0x1p-11f : 1);
	for (int i = 0; i < 32; i++)
		x[i] = real() + 0.01f;
	da = cu_upload(a, sizeof(a));
	db = cu_upload(b, sizeof(b));
	dx = cu_upload(x, sizeof(x));
	compute("product_f16", 1, 32, 0, c, sizeof(c), product, dc);
	ok(c[0] == 1 + 0x1p-21f, "sums of products are exact");
	compute("floats", 1, 32, 0, exact, sizeof(exact), params, dy);
	cu.fakecuda_set("ROUGH", "1");
	compute("product_f16", 1, 32, 0, c, sizeof(c), product, dc);
	ok(c[0] == 1, "rough: sums of products are cut off");
	compute("floats", 1, 32, 0, y, sizeof(y), params, dy);
	cu.fakecuda_set("ROUGH", "0");
	for (int i = 0; i < 512; i += 16) {
		other |= y[i] != exact[i];
		close &= close_to((double)y[i], (double)exact[i], 0x1p-21);
	}
	ok(other, "rough: approximations have errors");
	ok(close, "rough: these are as large as a GPU's at most");
}

static void product_s8(void)
{
	int8_t a[512], b[256];
	int c[128];
	CUdeviceptr da, db, dc = cu_device(sizeof(c));
	void *params[] = { &da, &db, &dc };
	bool same = true;

	for (int i = 0; i < 512; i++)
		a[i] = (int8_t)draw();
	for (int i = 0; i < 256; i++)
		b[i] = (int8_t)draw();
	da = cu_upload(a, sizeof(a));
	db = cu_upload(b, sizeof(b));
	compute("product_s8", 1, 32, 0, c, sizeof(c), params, dc);
	for (int i = 0; i < 16; i++) {
		for (int j = 0; j < 8; j++) {
			int sum = 0;

			for (int k = 0; k < 32; k++)
				sum += a[32 * i + k] * b[32 * j + k];
			same &= c[8 * i + j] == sum;
		}
	}
	ok(same, "mma.sync computes a product of bytes");
}

/* Lane i copies i / 2 bytes of its 16, at most 16. */
static void async_zeros(void)
{
	unsigned char x[512], y[512], want[512];
	int n[32];
	CUdeviceptr dx, dn, dy = cu_device(sizeof(y));
	void *params[] = { &dx, &dy, &dn };

	for (int i = 0; i < 512; i++)
		x[i] = (unsigned char)(i + 1);
	for (int i = 0; i < 32; i++) {
		n[i] = i < 4 ? 0 : i / 2 + 1;
		for (int k = 0; k < 16; k++)
			want[16 * i + k] = k < n[i] ? x[16 * i + k] : 0;
	}
	dx = cu_upload(x, sizeof(x));
	dn = cu_upload(n, sizeof(n));
	compute("async_zeros", 1, 32, 0, y, sizeof(y), params, dy);
	is_mem(y, want, sizeof(y),
	       "cp.async fills with zeros what it does not read, also all 16 bytes");
}

static void strong(unsigned seed)
{
	int y[5] = { 0 };
	CUdeviceptr dy = cu_upload(y, sizeof(y));
	void *params[] = { &dy };
	char text[16];

	snprintf(text, sizeof(text), "%u", seed);
	cu.fakecuda_set("ORDER", text);
	compute("strong", 2, 64, 0, y, sizeof(y), params, dy);
	cu.fakecuda_set("ORDER", "0");
	is_int(y[4], 7,
	       "order %u: what was written before a release is seen after the acquire",
	       seed);
}

static float horner(float a, int n)
{
	float s = 0;

	for (int i = 0; i < n; i++)
		s = s * a + (float)i;
	return s;
}

static void control(void)
{
	float y[64], want[64];
	CUdeviceptr dy = cu_device(sizeof(y));
	int n = 21;
	void *params[] = { &dy, &n };

	for (int i = 0; i < 64; i++)
		want[i] =
			i & 1 ? horner(2, (63 - i) % 7) + (float)((n & 15) * i)
			      : -(float)(((n + 1) & 15) * i);
	compute("control", 1, 64, 64 * sizeof(float), y, sizeof(y), params, dy);
	is_mem(y, want, sizeof(y),
	       "calls, local memory, dynamic shared memory and branches work");
}

static void last_block(unsigned seed)
{
	int x[40 * 32], got;
	unsigned zero = 0, want = 0;
	CUdeviceptr dx, part = cu_device(4 * 40), dy = cu_device(4), ticket;
	void *params[] = { &dx, &part, &dy, &ticket };
	char text[16];

	for (int i = 0; i < 40 * 32; i++)
		want += (unsigned)(x[i] = (int)draw());
	dx = cu_upload(x, sizeof(x));
	ticket = cu_upload(&zero, 4);
	snprintf(text, sizeof(text), "%u", seed);
	cu.fakecuda_set("ORDER", text);
	compute("last_block", 40, 32, 0, &got, 4, params, dy);
	cu.fakecuda_set("ORDER", "0");
	is_int(got, (int)want,
	       "order %u: the last block sees what others wrote before a fence",
	       seed);
}

static void counters(void)
{
	struct fakecuda_kernel k = { 0 };
	CUmodule module = cu_load("faults.ptx");
	float x[256] = { 0 };
	CUdeviceptr dx = cu_upload(x, sizeof(x)), dy = cu_device(sizeof(x));
	void *params[] = { &dx, &dy };

	cu.fakecuda_watch(dx + 16, 512);
	cu_launch(module, "strided", 1, 32, 0, params);
	cu.cuCtxSynchronize();
	cu.fakecuda_watch(0, 0);
	is_int(cu.fakecuda_kernel("strided", &k), 0,
	       "a kernel that was launched has counts");
	is_int(k.load_requests, 1, "a load of a warp is one request");
	is_int(k.load_sectors, 32, "a load with a stride touches 32 sectors");
	is_int(k.watched_sectors, 17,
	       "17 of these have some of the 512 bytes that are watched");
	is_int(k.store_sectors, 4, "128 bytes in a row are 4 sectors");
	is_int(k.bank_conflicts, 31,
	       "32 words of one bank take 31 more passes");
	is_int(cu.fakecuda_kernel("none", &k), -1,
	       "a kernel that was not launched has no counts");
	cu.cuModuleUnload(module);
}

static void order(void)
{
	int x[64], y[64];
	int *host = cu_pinned(sizeof(x)), n = 64;
	CUdeviceptr dx = cu_device(sizeof(x));
	CUstream stream = cu_stream();
	void *params[] = { &dx, &n };
	CUfunction f;

	cu.cuModuleGetFunction(&f, kernels, "add_one");
	for (int i = 0; i < 64; i++) {
		host[i] = i;
		y[i] = i + 2;
	}
	cu.cuMemcpyHtoDAsync(dx, host, sizeof(x), stream);
	cu.cuLaunchKernel(f, 2, 1, 1, 32, 1, 1, 0, stream, params, NULL);
	cu.cuLaunchKernel(f, 2, 1, 1, 32, 1, 1, 0, stream, params, NULL);
	cu.cuMemcpyDtoHAsync(host, dx, sizeof(x), stream);
	cu.cuStreamSynchronize(stream);
	is_mem(host, y, sizeof(y),
	       "launches and copies of a stream are executed in order");
	is_int(cu.cuLaunchKernel(f, 2, 1, 1, 2048, 1, 1, 0, stream, params,
				 NULL),
	       CUDA_ERROR_INVALID_VALUE, "a block of 2048 threads is refused");
	is_int(cu.cuLaunchKernel(f, 2, 1, 1, 32, 1, 1, 60000, stream, params,
				 NULL),
	       CUDA_ERROR_INVALID_VALUE,
	       "more dynamic shared memory than is allowed is refused");
	cu.cuFuncSetAttribute(
		f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 60000);
	is_int(cu.cuLaunchKernel(f, 2, 1, 1, 32, 1, 1, 60000, stream, params,
				 NULL),
	       CUDA_SUCCESS, "it is accepted once the function allows it");
	cu.cuStreamDestroy(stream);
	cu.cuMemFreeHost(host);
}

static void library(void)
{
	char *text = cu_ptx("kernels.ptx");
	int x[32] = { 0 }, n = 32;
	CUdeviceptr dx = cu_upload(x, sizeof(x));
	void *params[] = { &dx, &n };
	CUlibrary library;
	CUkernel kernel;

	is_int(cu.cuLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL,
				    0),
	       0, "a library is loaded");
	cu.cuLibraryGetKernel(&kernel, library, "add_one");
	is_int(cu.cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 32, 1, 1, 0, NULL,
				 params, NULL),
	       0, "a kernel of a library is launched as a function");
	cu.cuMemcpyDtoH(x, dx, sizeof(x));
	is_int(x[31], 1, "the kernel of the library has run");
	is_int(cu.cuLibraryUnload(library), 0, "the library is unloaded");
	free(text);
}

static CUDA_KERNEL_NODE_PARAMS node_of(CUfunction f, void **params)
{
	CUDA_KERNEL_NODE_PARAMS node = { .func = f,
					 .gridDimX = 1,
					 .gridDimY = 1,
					 .gridDimZ = 1,
					 .blockDimX = 32,
					 .blockDimY = 1,
					 .blockDimZ = 1,
					 .kernelParams = params };

	return node;
}

static int first_of(CUgraphExec exec, CUdeviceptr at, CUstream stream)
{
	int x = -1;

	if (cu.cuGraphLaunch(exec, stream) || cu.cuStreamSynchronize(stream) ||
	    cu.cuMemcpyDtoH(&x, at, sizeof(x)))
		diag("the graph was not launched");
	return x;
}

static void graphs(void)
{
	CUDA_MEMSET_NODE_PARAMS fill = { .elementSize = 4,
					 .width = 32,
					 .height = 1 };
	CUDA_MEMCPY3D copy = { .srcMemoryType = CU_MEMORYTYPE_DEVICE,
			       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			       .WidthInBytes = 128,
			       .Height = 1,
			       .Depth = 1 };
	CUdeviceptr dx = cu_device(128), dy = cu_device(128);
	void *params[] = { &dx, NULL }, *other[] = { &dy, NULL };
	CUDA_KERNEL_NODE_PARAMS node;
	CUDA_MEMSET_NODE_PARAMS wrong;
	CUDA_MEMCPY3D empty;
	CUgraphExecUpdateResultInfo info;
	CUgraph graph, child;
	CUgraphNode a, b, c, d, in;
	CUgraphExec exec;
	CUstream stream = cu_stream();
	CUcontext ctx = NULL;
	CUfunction f;
	int n = 32;

	cu.cuCtxGetCurrent(&ctx);
	params[1] = other[1] = &n;
	fill.dst = copy.srcDevice = dx;
	copy.dstDevice = dy;
	wrong = fill;
	empty = copy;
	cu.cuModuleGetFunction(&f, kernels, "add_one");
	node = node_of(f, params);
	cu.cuGraphCreate(&graph, 0);
	cu.cuGraphCreate(&child, 0);
	cu.cuGraphAddKernelNode(&in, child, NULL, 0, &node);
	cu.cuGraphAddMemsetNode(&a, graph, NULL, 0, &fill, ctx);
	is_int(cu.cuGraphAddMemsetNode(&b, graph, NULL, 0, &fill, NULL),
	       CUDA_ERROR_INVALID_VALUE, "a node needs a context");
	wrong.elementSize = 3;
	is_int(cu.cuGraphAddMemsetNode(&b, graph, NULL, 0, &wrong, ctx),
	       CUDA_ERROR_INVALID_VALUE,
	       "elements of a fill have 1, 2 or 4 bytes");
	empty.WidthInBytes = 0;
	is_int(cu.cuGraphAddMemcpyNode(&b, graph, NULL, 0, &empty, ctx),
	       CUDA_ERROR_INVALID_VALUE, "a copy of no bytes is no node");
	cu.cuGraphAddKernelNode(&b, graph, &a, 1, &node);
	cu.cuGraphAddChildGraphNode(&c, graph, &b, 1, child);
	cu.cuGraphAddEmptyNode(&d, graph, &c, 1);
	cu.cuGraphAddMemcpyNode(&in, graph, &d, 1, &copy, ctx);
	is_int(cu.cuGraphInstantiate(&exec, graph, 0), 0,
	       "a graph is instantiated");
	is_int(first_of(exec, dy, stream), 2,
	       "a graph fills, runs kernels and a graph, and copies, in order");
	node.kernelParams = other;
	cu.cuGraphExecKernelNodeSetParams(exec, b, &node);
	is_int(first_of(exec, dy, stream), 1,
	       "a kernel of an executable graph gets other parameters");
	is_int(cu.cuGraphExecUpdate(exec, graph, &info), 0,
	       "an executable graph is updated from a graph of its shape");
	is_int(first_of(exec, dy, stream), 2,
	       "the update restored the parameters");
	is_int(cu.cuGraphExecUpdate(exec, child, &info),
	       CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
	       "an update from a graph of another shape fails");
	cu.cuGraphDestroy(graph);
	cu.cuGraphDestroy(child);
	is_int(first_of(exec, dy, stream), 2,
	       "an executable graph outlives the graph");
	is_int(cu.cuGraphExecDestroy(exec), 0,
	       "an executable graph is destroyed");
	is_int(cu.cuGraphLaunch(exec, stream), CUDA_ERROR_INVALID_HANDLE,
	       "an executable graph that was destroyed is not launched");
	cu.cuStreamDestroy(stream);
}

int main(void)
{
	char *text = cu_ptx("kernels.ptx");
	unsigned long misuse;

	if (!text)
		skip_all("the PTX of the kernels is not here");
	free(text);
	plan(0);
	cu_start();
	kernels = cu_load("kernels.ptx");
	rms_norm();
	integers();
	floats();
	pairs();
	product("product_f16", half_bits);
	product("product_bf16", bf16_bits);
	product_s8();
	rough();
	async_zeros();
	control();
	for (unsigned seed = 0; seed < 3; seed++)
		strong(seed);
	for (unsigned seed = 0; seed < 4; seed++)
		last_block(seed);
	misuse = cu_counts().misuse;
	is_int(cu_counts().findings, 0,
	       "kernels without a fault have no findings: %s",
	       cu.fakecuda_finding());
	is_int(misuse, 0, "nothing was misused");
	order();
	library();
	graphs();
	counters();
	is_int(cu.cuModuleUnload(kernels), 0, "a module is unloaded");
	return done_testing();
}
