/* SPDX-License-Identifier: MIT */
/*
 * Kernels whose results the test compares with its own. README.md says how
 * kernels.ptx is made from this.
 */
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern "C" {

__constant__ float scale[4] = { 1, 2, 3, 4 };
__device__ int counter;
extern __shared__ float dynamic[];

__global__ void rms_norm(const float *x, float *y, int n, float eps)
{
	__shared__ float part[8];
	const float *row = x + (size_t)blockIdx.x * n;
	float sum = 0;

	for (int i = threadIdx.x; i < n; i += blockDim.x)
		sum += row[i] * row[i];
	for (int o = 16; o; o >>= 1)
		sum += __shfl_xor_sync(~0u, sum, o);
	if (threadIdx.x % 32 == 0)
		part[threadIdx.x / 32] = sum;
	__syncthreads();
	sum = 0;
	for (unsigned i = 0; i < blockDim.x / 32; i++)
		sum += part[i];
	for (int i = threadIdx.x; i < n; i += blockDim.x)
		y[(size_t)blockIdx.x * n + i] = row[i] * rsqrtf(sum / n + eps);
}

/* 16 results of integers for each lane. */
__global__ void integers(const int *a, int *y)
{
	int i = threadIdx.x, v = a[i], w = a[i + 32];
	int *r = y + 16 * i;

	r[0] = __dp4a(v, w, 7);
	r[1] = __popc(v) + 100 * __clz(v) + 10000 * __ffs(v);
	r[2] = v / (w | 1);
	r[3] = v % (w | 1);
	r[4] = __byte_perm(v, w, 0x5410);
	r[5] = __funnelshift_r(v, w, 7);
	r[6] = __mulhi(v, w);
	r[7] = (unsigned)v / 7u;
	r[8] = __reduce_add_sync(~0u, v & 1023);
	r[9] = __ballot_sync(~0u, v & 1);
	r[10] = __shfl_down_sync(~0u, v, 1);
	r[11] = __match_any_sync(~0u, v & 3);
	r[12] = (int)(((long long)v * w) >> 20);
	r[13] = (v << (w & 31)) ^ (v >> 3);
	r[14] = __brev(v);
	r[15] = min(max(v, -5), w);
}

__global__ void floats(const float *x, float *y)
{
	int i = threadIdx.x;
	float v = x[i], *r = y + 16 * i;

	r[0] = expf(v);
	r[1] = logf(fabsf(v));
	r[2] = sinf(v);
	r[3] = tanhf(v);
	r[4] = sqrtf(fabsf(v));
	r[5] = 1.0f / v;
	r[6] = fmaf(v, v, 1e-9f);
	r[7] = roundf(v);
	r[8] = __half2float(__float2half(v));
	r[9] = __bfloat162float(__float2bfloat16(v));
	r[10] = v * scale[i & 3];
	r[11] = __fadd_rz(v, 1e-3f);
	r[12] = (float)(int)v;
	r[13] = erff(v);
	r[14] = (float)((double)v / 3.0);
	r[15] = fminf(v, 0.5f);
}

__global__ void pairs(const __half2 *a, __half2 *y, const __nv_bfloat162 *b,
		      __nv_bfloat162 *z)
{
	int i = threadIdx.x;

	y[i] = __hfma2(a[i], a[i + 32], a[i]);
	y[i + 32] = __hmax2(a[i], a[i + 32]);
	z[i] = __hfma2(b[i], b[i + 32], b[i]);
	z[i + 32] = __hmul2(b[i], b[i + 32]);
}

/* C = A * B, 16 x 16 by 16 x 8, through shared memory. */
static __device__ void load_tiles(const uint16_t *a, const uint16_t *b,
				  uint16_t *sa, uint16_t *sb, uint32_t ra[4],
				  uint32_t rb[2])
{
	int t = threadIdx.x;
	unsigned pa = (unsigned)__cvta_generic_to_shared(sa + 8 * t);
	unsigned pb = (unsigned)__cvta_generic_to_shared(sb + 4 * t);

	asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(pa),
		     "l"(a + 8 * t));
	asm volatile("cp.async.commit_group;");
	asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(pb),
		     "l"(b + 4 * t));
	asm volatile("cp.async.commit_group;");
	asm volatile("cp.async.wait_group 0;");
	__syncthreads();
	pa = (unsigned)__cvta_generic_to_shared(sa + (t % 16) * 16 +
						8 * (t / 16));
	pb = (unsigned)__cvta_generic_to_shared(sb + (t % 16) * 8);
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
		     : "=r"(ra[0]), "=r"(ra[1]), "=r"(ra[2]), "=r"(ra[3])
		     : "r"(pa));
	asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
		     : "=r"(rb[0]), "=r"(rb[1])
		     : "r"(pb));
}

static __device__ void store_tile(float *c, const float d[4])
{
	int g = threadIdx.x / 4, t = threadIdx.x % 4;

	for (int i = 0; i < 4; i++)
		c[(g + 8 * (i / 2)) * 8 + 2 * t + i % 2] = d[i];
}

__global__ void product_f16(const uint16_t *a, const uint16_t *b, float *c)
{
	__shared__ __align__(16) uint16_t sa[256], sb[128];
	float d[4] = {};
	uint32_t ra[4], rb[2];

	load_tiles(a, b, sa, sb, ra, rb);
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
		     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
		     : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]),
		       "r"(rb[0]), "r"(rb[1]));
	store_tile(c, d);
}

__global__ void product_bf16(const uint16_t *a, const uint16_t *b, float *c)
{
	__shared__ __align__(16) uint16_t sa[256], sb[128];
	float d[4] = {};
	uint32_t ra[4], rb[2];

	load_tiles(a, b, sa, sb, ra, rb);
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
		     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
		     : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]),
		       "r"(rb[0]), "r"(rb[1]));
	store_tile(c, d);
}

/* C = A * B' of bytes, 16 x 32 by 8 x 32. */
__global__ void product_s8(const int *a, const int *b, int *c)
{
	int g = threadIdx.x / 4, t = threadIdx.x % 4;
	int d[4] = {};

	asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
		     : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
		     : "r"(a[g * 8 + t]), "r"(a[(g + 8) * 8 + t]),
		       "r"(a[g * 8 + t + 4]), "r"(a[(g + 8) * 8 + t + 4]),
		       "r"(b[g * 8 + t]), "r"(b[g * 8 + t + 4]));
	for (int i = 0; i < 4; i++)
		c[(g + 8 * (i / 2)) * 8 + 2 * t + i % 2] = d[i];
}

static __device__ __noinline__ float horner(float a, int n)
{
	float s = 0;

	for (int i = 0; i < n; i++)
		s = s * a + i;
	return s;
}

/* Calls, local memory, dynamic shared memory, lanes that part. */
__global__ void control(float *y, int n)
{
	float local[16];
	int i = threadIdx.x;

	for (int k = 0; k < 16; k++)
		local[k] = (float)(k * i);
	dynamic[i] = horner(2, i % 7);
	__syncthreads();
	if (i & 1)
		y[i] = dynamic[blockDim.x - 1 - i] + local[n & 15];
	else
		y[i] = -local[(n + 1) & 15];
}

/* The last block adds what the others wrote. */
__global__ void last_block(const int *x, int *part, int *y, unsigned *ticket)
{
	__shared__ bool last;
	int v = x[blockIdx.x * 32 + threadIdx.x];

	v = __reduce_add_sync(~0u, v);
	if (threadIdx.x == 0) {
		part[blockIdx.x] = v;
		__threadfence();
		last = atomicAdd(ticket, 1) == gridDim.x - 1;
		__threadfence();
	}
	__syncthreads();
	if (!last)
		return;
	v = 0;
	for (int i = threadIdx.x; i < gridDim.x; i += 32)
		v += part[i];
	v = __reduce_add_sync(~0u, v);
	if (threadIdx.x == 0)
		*y = v;
}

__global__ void add_one(int *x, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		x[i]++;
}

/* The first @n bytes of each unit; the others become zero. x is not read for
 * lanes whose n is 0, wherever it points. */
__global__ void async_zeros(const float4 *x, float4 *y, const int *n)
{
	__shared__ float4 a[32];
	int i = threadIdx.x, bytes = n[i];
	unsigned p = (unsigned)__cvta_generic_to_shared(a + i);

	a[i] = make_float4(9, 9, 9, 9);
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(p),
		     "l"(bytes ? x + i : x + (1 << 30)), "r"(bytes));
	asm volatile("cp.async.commit_group;");
	asm volatile("cp.async.wait_group 0;" ::: "memory");
	y[i] = a[i];
}

/* Strong accesses, of which no two race; and a value that one block hands to
 * another by a release and an acquire. */
__global__ void strong(int *y)
{
	int there = 0;

	*(volatile int *)(y + 2) = 5;
	atomicMax(y + 3, blockIdx.x);
	if (threadIdx.x)
		return;
	if (blockIdx.x == 0) {
		y[1] = 7;
		asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(y)
			     : "memory");
		return;
	}
	while (!there)
		asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
			     : "=r"(there)
			     : "l"(y)
			     : "memory");
	y[4] = y[1];
}
}
