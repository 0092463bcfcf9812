/* SPDX-License-Identifier: MIT */
/*
 * Attention by chunks of positions, in F32. A block computes up to QUERIES
 * queries that share a head of k, for one chunk at a time: all their scores,
 * exp(score - greatest) and its sum, then that times v. Each thread has 8
 * elements of a row (chunk_rows.cuh).
 *
 * Chunks begin at multiples of CHUNK. FOLD neighbouring ones are added up in
 * their order, then these sums. A chunk without a position that is attended to
 * changes no bit. So the bits of a result depend on its query and on the
 * positions that it attends to, not on who computes which chunk. Split: the
 * chunks of all sequences that have positions are divided among the blocks,
 * which write parts. The last block with a part of FOLD neighbouring chunks
 * adds these up, and the last one that has done so adds up the sums. In turn: a
 * block computes all chunks of its queries.
 */
#include "cuda/kernels/chunk_rows.cuh"
#include "cuda/kernels/queries.cuh"
#include "cuda/kernels/rounded.cuh"

#define FOLD WEIR__CUDA_CHUNK_FOLD
#define QUERIES WEIR__CUDA_CHUNK_QUERIES
#define WARPS (THREADS / 32)
#define HIDDEN -1.0f /* instead of an exp or a factor, which are not negative */

/* The sum of what is added up so far: its greatest score and its weight. */
struct folded {
	float most, weight;
};

/*
 * Add a part: what there is is multiplied by the one factor, the part by the
 * other, which is HIDDEN if the part attends to nothing.
 */
__device__ static inline void fold(folded &f, float most, float weight,
				   float &old_factor, float &factor)
{
	float next = fmaxf(f.most, most);

	factor = HIDDEN;
	if (most == -INFINITY && weight == 0)
		return;
	old_factor = f.most == -INFINITY ? 1 : expf(f.most - next);
	factor = most == -INFINITY ? 1 : expf(most - next);
	f.most = next;
	f.weight = __fmaf_rn(weight, factor, __fmul_rn(f.weight, old_factor));
}

__device__ static inline void fold_value(float &value, float part,
					 float old_factor, float factor)
{
	if (factor != HIDDEN)
		value = __fmaf_rn(part, factor, __fmul_rn(value, old_factor));
}

/* A sink is a score without a position. */
__device__ static inline folded folded_sink(const params &p, int64_t head)
{
	float sink = sink_of(p.a.sinks, head);
	folded f = { sink, sink == -INFINITY ? 0 : expf(sink - sink) };

	return f;
}

__device__ static inline folded folded_none(void)
{
	folded f = { -INFINITY, 0 };

	return f;
}

/* The queries of a block, and what it knows of their chunk. */
struct chunk_memory {
	float4 score[CHUNK]; /* of each query: bias, score, then its exp */
	int32_t row[CHUNK];  /* of k and v; -1: no query attends to it */
	int32_t from[QUERIES], to[QUERIES];
	const char *q[QUERIES], *mask[QUERIES], *k, *v;
	char *dst[QUERIES];
	float slope[QUERIES];
	folded chunk[QUERIES], inner[QUERIES], outer[QUERIES];
	float old_factor[QUERIES], factor[QUERIES];
};

/*
 * The queries, times scale: [QUERIES][d]; sums of exp times v: [WARPS][QUERIES]
 * [dv], or the stages of rows, which are not needed then; in turn, what was
 * added up so far, inner and outer: [2][QUERIES][dv].
 */
extern __shared__ float4 memory[];

__device__ static inline float *sums_at(const params &p)
{
	return (float *)memory + QUERIES * (unsigned)p.a.d;
}

struct item {
	uint64_t sequence;
	int64_t head_k;
	unsigned first, n; /* of the queries that share the head */
};

/* Set what depends on the queries only. @q is times scale. */
__device__ static inline void item_begin(const params &p, const item &b,
					 chunk_memory &m)
{
	float *values = (float *)memory;
	unsigned d = (unsigned)p.a.d;

	if (threadIdx.x < QUERIES) {
		unsigned r = threadIdx.x;
		bool is_query = r < b.n;
		query w = query_of(p, b.head_k, b.first + (is_query ? r : 0));
		attended t = attended_by(p.a, b.sequence, w.token, w.token + 1);

		m.from[r] = is_query ? (int32_t)t.from : 0;
		m.to[r] = is_query ? (int32_t)t.to : 0;
		m.q[r] = query_at(p, b.sequence, w);
		m.mask[r] = mask_at(p, b.sequence, w);
		m.dst[r] = result_at(p, b.sequence, w);
		m.slope[r] = slope_of(p.a.max_bias, w.head, p.a.heads);
		m.inner[r] = folded_none();
		m.outer[r] = folded_sink(p, w.head);
		if (r == 0) {
			m.k = row_at(p.a.k, p.step_k, b.sequence, b.head_k, 0);
			m.v = row_at(p.a.v, p.step_v, b.sequence, b.head_k, 0);
		}
	}
	__syncthreads();
#pragma unroll 1
	for (unsigned r = 0; r < QUERIES; r++)
		for (unsigned i = threadIdx.x; i < d; i += THREADS)
			values[r * d + i] =
				p.a.scale *
				element_in(p.a.q, m.q[r] + i * p.a.q.stride[0]);
	__syncthreads();
}

/* The elements of the queries that a thread multiplies. */
template <class E>
__device__ static inline void queries_in(const params &p, float q[QUERIES][8])
{
	unsigned d = (unsigned)p.a.d;

#pragma unroll
	for (unsigned i = 0; i < 2; i++) {
		unsigned quad = E::quad(threadIdx.x % p.lanes_k, p.lanes_k, i);

#pragma unroll
		for (unsigned r = 0; r < QUERIES; r++) {
			float4 v = { 0, 0, 0, 0 };

			if (quad * 4 < d)
				v = memory[r * (d / 4) + quad];
			q[r][4 * i] = v.x;
			q[r][4 * i + 1] = v.y;
			q[r][4 * i + 2] = v.z;
			q[r][4 * i + 3] = v.w;
		}
	}
}

/*
 * Set the biases and the rows of the chunk that begins at position @begin.
 * Returns how many positions of it have to be computed.
 */
__device__ static inline unsigned chunk_bias(const params &p, const item &b,
					     chunk_memory &m, uint32_t begin,
					     char *workspace)
{
	float *score = (float *)&m.score[threadIdx.x];
	int32_t s = (int32_t)(begin + threadIdx.x), end = 0, row = -1;
	bool is_in = false, is_live = false;

#pragma unroll 1
	for (unsigned r = 0; r < QUERIES; r++) {
		float bias = -INFINITY;

		if (m.to[r] > end)
			end = m.to[r];
		if (s >= m.from[r] && s < m.to[r]) {
			is_in = true;
			bias = 0;
			if (p.a.mask.data)
				bias = m.slope[r] *
				       element_in(
					       p.a.mask,
					       m.mask[r] +
						       s * p.a.mask.stride[0]);
		}
		is_live |= bias != -INFINITY;
		score[r] = bias;
	}
	if (is_in)
		row = row_checked(p, b.sequence, (uint32_t)s, workspace);
	m.row[threadIdx.x] = is_live ? row : -1;
	if (!__syncthreads_or(is_live))
		return 0;
	end -= (int32_t)begin;
	return (unsigned)end < CHUNK ? (unsigned)end : CHUNK;
}

/*
 * Each of a group of @lanes neighbouring threads has a term of each query. The
 * group adds them up; a fourth of it gets the sum of query *@ret_r.
 */
__device__ static inline float group_sum(const float w[QUERIES], unsigned lanes,
					 unsigned *ret_r)
{
	unsigned o = lanes / 2;
	bool upper = threadIdx.x & o, odd;
	float a = upper ? w[2] : w[0], b = upper ? w[3] : w[1], s;

	a += __shfl_xor_sync(~0u, upper ? w[0] : w[2], o);
	b += __shfl_xor_sync(~0u, upper ? w[1] : w[3], o);
	o /= 2;
	odd = threadIdx.x & o;
	s = odd ? b : a;
	s += __shfl_xor_sync(~0u, odd ? a : b, o);
	for (o /= 2; o; o /= 2)
		s += __shfl_xor_sync(~0u, s, o);
	*ret_r = 2 * upper + odd;
	return s;
}

/* Replace the biases of @end positions by scores. */
template <class E>
__device__ static inline void chunk_scores(const params &p, chunk_memory &m,
					   unsigned end)
{
	unsigned lanes = p.lanes_k, step = THREADS / lanes;
	unsigned slice = threadIdx.x % lanes, own = threadIdx.x / lanes;
	const chunk_rows<E> k(p.a.k, m.k, lanes, (char *)sums_at(p));
	float q[QUERIES][8];

	queries_in<E>(p, q);
#pragma unroll 1
	for (unsigned first = 0; first < end; first += E::rows * step) {
		int32_t row[E::rows];
		eight<E> x[E::rows];

		k.next(m.row, first, end);
#pragma unroll
		for (unsigned l = 0; l < E::rows; l++) {
			unsigned j = first + l * step + own;

			row[l] = j < CHUNK ? m.row[j] : -1;
			k.load(x[l], row[l], j);
		}
#pragma unroll
		for (unsigned l = 0; l < E::rows; l++) {
			float w[QUERIES] = { 0, 0, 0, 0 }, s, *at;
			unsigned r;

#pragma unroll
			for (unsigned i = 0; i < 8; i++) {
				float e = x[l].at(i);

#pragma unroll
				for (r = 0; r < QUERIES; r++)
					w[r] = __fmaf_rn(q[r][i], e, w[r]);
			}
			for (r = 0; r < QUERIES && E::is_staged; r++)
				w[r] *= scale_of(x[l]);
			s = group_sum(w, lanes, &r);
			if (row[l] < 0 || slice % (lanes / QUERIES))
				continue;
			at = (float *)&m.score[first + l * step + own] + r;
			if (*at == -INFINITY)
				continue;
			if (p.a.softcap > 0)
				s = p.a.softcap * tanhf(s / p.a.softcap);
			*at += s;
		}
	}
	__syncthreads();
}

/* Replace scores by exp(score - greatest). A warp for each query. */
__device__ static inline void chunk_exp(chunk_memory &m, unsigned end, bool in_turn)
{
	unsigned lane = threadIdx.x % 32, r = threadIdx.x / 32;
	float s[CHUNK / 32], most = -INFINITY, sum = 0;

#pragma unroll
	for (unsigned i = 0; i < CHUNK / 32; i++) {
		unsigned j = lane + 32 * i;

		s[i] = -INFINITY;
		if (j < end && m.row[j] >= 0)
			s[i] = ((const float *)&m.score[j])[r];
		most = fmaxf(most, s[i]);
	}
	for (unsigned o = 16; o; o /= 2)
		most = fmaxf(most, __shfl_xor_sync(~0u, most, o));
#pragma unroll
	for (unsigned i = 0; i < CHUNK / 32; i++) {
		float e = HIDDEN;

		if (s[i] != -INFINITY) {
			e = expf(s[i] - most);
			sum += e;
		}
		((float *)&m.score[lane + 32 * i])[r] = e;
	}
	for (unsigned o = 16; o; o /= 2)
		sum += __shfl_xor_sync(~0u, sum, o);
	if (lane == 0) {
		m.chunk[r].most = most;
		m.chunk[r].weight = sum;
		if (in_turn)
			fold(m.inner[r], most, sum, m.old_factor[r],
			     m.factor[r]);
	}
	__syncthreads();
}

/* The sums of exp times v: those of each warp are in memory. */
template <class E>
__device__ static inline void chunk_values(const params &p, const chunk_memory &m,
					   unsigned end)
{
	unsigned lanes = p.lanes_v, step = THREADS / lanes;
	unsigned slice = threadIdx.x % lanes, own = threadIdx.x / lanes;
	unsigned dv = (unsigned)p.a.dv;
	const chunk_rows<E> v(p.a.v, m.v, lanes, (char *)sums_at(p));
	float sum[QUERIES][8] = { 0 };

#pragma unroll 1
	for (unsigned first = 0; first < end; first += E::rows * step) {
		eight<E> x[E::rows];

		v.next(m.row, first, end);
#pragma unroll
		for (unsigned l = 0; l < E::rows; l++) {
			unsigned j = first + l * step + own;

			v.load(x[l], j < CHUNK ? m.row[j] : -1, j);
		}
#pragma unroll
		for (unsigned l = 0; l < E::rows; l++) {
			unsigned j = first + l * step + own;
			float4 e4 = { HIDDEN, HIDDEN, HIDDEN, HIDDEN };

			if (j < CHUNK)
				e4 = m.score[j];
			const float e[QUERIES] = { e4.x, e4.y, e4.z, e4.w };
#pragma unroll
			for (unsigned r = 0; r < QUERIES; r++) {
				float f = E::is_staged ? e[r] * scale_of(x[l])
						       : e[r];
#pragma unroll
				for (unsigned i = 0; i < 8; i++)
					if (e[r] != HIDDEN)
						sum[r][i] = __fmaf_rn(
							f, x[l].at(i),
							sum[r][i]);
			}
		}
	}
	if (E::is_staged)
		__syncthreads(); /* sums take the place of stages */
#pragma unroll
	for (unsigned r = 0; r < QUERIES; r++) {
#pragma unroll
		for (unsigned i = 0; i < 8; i++)
			for (unsigned o = lanes; o < 32; o *= 2)
				sum[r][i] += __shfl_xor_sync(~0u, sum[r][i], o);
#pragma unroll
		for (unsigned i = 0; i < 2; i++) {
			unsigned quad = E::quad(slice, lanes, i);

			if (threadIdx.x % 32 < lanes && quad * 4 < dv)
				((float4 *)sums_at(
					p))[(threadIdx.x / 32 * QUERIES + r) *
						    (dv / 4) +
					    quad] = { sum[r][4 * i],
						      sum[r][4 * i + 1],
						      sum[r][4 * i + 2],
						      sum[r][4 * i + 3] };
		}
	}
	__syncthreads();
}

/* Element @i of the sums of query @r. */
__device__ static inline float sum_of(const params &p, unsigned r, unsigned i)
{
	const float *sum = sums_at(p);
	unsigned dv = (unsigned)p.a.dv;
	float v = 0;

#pragma unroll
	for (unsigned w = 0; w < WARPS; w++)
		v += sum[(w * QUERIES + r) * dv + i];
	return v;
}

/* Add the inner sums to the outer ones, and begin anew. */
__device__ static inline void turn_fold(const params &p, chunk_memory &m,
					float *inner, float *outer)
{
	unsigned dv = (unsigned)p.a.dv;

	if (threadIdx.x < QUERIES) {
		unsigned r = threadIdx.x;

		fold(m.outer[r], m.inner[r].most, m.inner[r].weight,
		     m.old_factor[r], m.factor[r]);
		m.inner[r] = folded_none();
	}
	__syncthreads();
#pragma unroll 1
	for (unsigned r = 0; r < QUERIES; r++)
		for (unsigned i = threadIdx.x; i < dv; i += THREADS) {
			fold_value(outer[r * dv + i], inner[r * dv + i],
				   m.old_factor[r], m.factor[r]);
			inner[r * dv + i] = 0;
		}
	__syncthreads();
}

/*
 * Write the results of the queries of an item, and their bytes: a warp has 32
 * neighbouring elements.
 */
__device__ static inline void results_out(const params &p, const item &b,
					  const chunk_memory &m,
					  const float *sums, char *workspace)
{
	unsigned dv = (unsigned)p.a.dv;

#pragma unroll 1
	for (unsigned r = 0; r < b.n; r++) {
		unsigned row = b.first + r;
		uint64_t head = (uint64_t)b.head_k * p.group + row % p.group;
		uint64_t token = b.sequence * (uint64_t)p.a.q.dim[1] +
				 row / p.group;

		for (unsigned i = threadIdx.x; i < dv; i += THREADS) {
			float weight = m.outer[r].weight;
			float v = weight != 0 ? sums[r * dv + i] / weight : 0;

			element_out(p.a.dst, m.dst[r] + i * p.a.dst.stride[0],
				    v);
			if (p.rounded.pitch)
				group_round(v, (unsigned)(head * dv + i) / 32,
					    p.rounded.order,
					    workspace + p.rounded.at +
						    token * p.rounded.pitch);
		}
	}
}

/* Add the chunk to the inner sums. */
__device__ static inline void turn_add(const params &p, const chunk_memory &m,
				       float *inner)
{
	unsigned dv = (unsigned)p.a.dv;

#pragma unroll 1
	for (unsigned r = 0; r < QUERIES; r++)
		for (unsigned i = threadIdx.x; i < dv; i += THREADS)
			fold_value(inner[r * dv + i], sum_of(p, r, i),
				   m.old_factor[r], m.factor[r]);
}

__device__ static inline item item_of(const params &p, uint64_t sequence,
				      uint32_t head_k, uint32_t row_block)
{
	item b = { sequence, head_k, row_block * QUERIES, QUERIES };

	if (p.rows - b.first < QUERIES)
		b.n = p.rows - b.first;
	return b;
}

/* The number of chunks of the tokens [@token, @end), and the first of them. */
__device__ static inline uint32_t chunks_of(const params &p, uint64_t sequence,
					    int64_t token, int64_t end,
					    uint32_t *ret_first)
{
	attended r = attended_by(p.a, sequence, token, end);

	*ret_first = (uint32_t)(r.from / CHUNK);
	return r.to > r.from ? (uint32_t)((r.to - 1) / CHUNK) - *ret_first + 1
			     : 0;
}

/*
 * The same for all tokens of a sequence whose chunks are split: there is at
 * least one, so that a block writes its results.
 */
__device__ static inline uint32_t split_chunks(const params &p,
					       uint64_t sequence,
					       uint32_t *ret_first)
{
	uint32_t n = chunks_of(p, sequence, 0, p.a.q.dim[1], ret_first);

	return n ? n : 1;
}

/* The part of a chunk for query @row: its state, then the sums. */
__device__ static inline float *part_at(const params &p, char *workspace,
					uint64_t sequence, int64_t head_k,
					unsigned row, uint32_t chunk)
{
	uint64_t n = ((sequence * p.heads_k + (uint64_t)head_k) * p.rows +
		      row) * p.chunks +
		     chunk;

	return (float *)(workspace + p.parts) +
	       n * (uint64_t)(p.a.dv + WEIR__CUDA_CHUNK_STATE);
}

/*
 * Set before[i] to the number of items of the sequences before i: their chunks,
 * times the blocks of queries. Sequences with a wrong length have none.
 */
__device__ static inline void count_items(const params &p, uint32_t *before,
					  char *workspace)
{
	__shared__ uint32_t of_warp[WARPS];
	unsigned each = (p.sequences + THREADS - 1) / THREADS;
	unsigned begin = threadIdx.x * each, lane = threadIdx.x % 32;
	uint32_t sum = 0, all, first;

	for (unsigned i = begin; i < begin + each && i < p.sequences; i++) {
		before[i] = sum;
		if (!length_is_wrong(p, i, workspace))
			sum += split_chunks(p, i, &first) * p.heads_k *
			       p.row_blocks;
	}
	all = sum;
	for (unsigned o = 1; o < 32; o *= 2) {
		uint32_t up = __shfl_up_sync(~0u, all, o);

		if (lane >= o)
			all += up;
	}
	if (lane == 31)
		of_warp[threadIdx.x / 32] = all;
	__syncthreads();
	all -= sum;
	for (unsigned i = 0; i < threadIdx.x / 32; i++)
		all += of_warp[i];
	for (unsigned i = begin; i < begin + each && i < p.sequences; i++)
		before[i] += all;
	if (threadIdx.x == THREADS - 1)
		before[p.sequences] = all + sum;
	__syncthreads();
}

/* Write the part of the chunk for each query. */
__device__ static inline void parts_out(const params &p, const item &b,
					const chunk_memory &m, uint32_t chunk,
					char *workspace)
{
	unsigned dv = (unsigned)p.a.dv;

#pragma unroll 1
	for (unsigned r = 0; r < b.n; r++) {
		float *part = part_at(p, workspace, b.sequence, b.head_k,
				      b.first + r, chunk);

		for (unsigned i = threadIdx.x; i < dv; i += THREADS)
			part[WEIR__CUDA_CHUNK_STATE + i] = sum_of(p, r, i);
		if (threadIdx.x == 0)
			*(folded *)part = m.chunk[r];
	}
}

/*
 * True for the block that is the last one of @n to come to @counter, for all of
 * its threads. They see what all threads of the others wrote before they came.
 *
 * In the memory model of PTX: the first barrier orders the writes of a block's
 * threads before the fence of thread 0. This fence and the atomic access are a
 * release pattern; the atomic access and the second fence are an acquire
 * pattern. Atomic accesses to the counter read each other's results, so that of
 * the last block observes those of all others, also through those in between.
 * The second barrier orders the fence before what other threads read. Order by
 * barriers, fences and patterns is transitive (cumulative); atomic access and
 * fences have the scope of the GPU. Loads must not be ld.global.nc, which are
 * not ordered.
 *
 * The last access makes the counter 0 again, for the next launch.
 */
__device__ static inline bool is_last(uint32_t *counter, uint32_t n)
{
	__shared__ uint32_t came;

	__syncthreads();
	if (threadIdx.x == 0) {
		__threadfence();
		came = atomicInc(counter, n - 1);
		__threadfence();
	}
	__syncthreads();
	return came == n - 1;
}

#define LOADS 4 /* parts that a thread loads before it adds them */

/*
 * Add @n parts, @step floats apart, to the state @f and to quad @quad of its
 * sums.
 */
__device__ static inline void parts_add(const float *part, uint64_t step,
					uint32_t n, unsigned quad, bool has_quad,
					folded &f, float4 &v)
{
#pragma unroll 1
	for (uint32_t c = 0; c < n; c += LOADS) {
		folded of[LOADS];
		float4 x[LOADS];

#pragma unroll
		for (unsigned i = 0; i < LOADS; i++) {
			const float4 *at =
				(const float4 *)(part + (c + i) * step);

			of[i] = folded_none();
			x[i] = { 0, 0, 0, 0 };
			if (c + i < n)
				of[i] = *(const folded *)at;
			if (c + i < n && has_quad)
				x[i] = at[WEIR__CUDA_CHUNK_STATE / 4 + quad];
		}
#pragma unroll
		for (unsigned i = 0; i < LOADS; i++) {
			float old_factor = 1, factor;

			fold(f, of[i].most, of[i].weight, old_factor, factor);
			fold_value(v.x, x[i].x, old_factor, factor);
			fold_value(v.y, x[i].y, old_factor, factor);
			fold_value(v.z, x[i].z, old_factor, factor);
			fold_value(v.w, x[i].w, old_factor, factor);
		}
	}
}

/*
 * A warp adds up @n parts: their state, which it returns, and their sums, of
 * @quads quads, to @to, which may be those of the first part.
 */
__device__ static inline folded parts_sum(const float *part, uint64_t step,
					  uint32_t n, folded begin,
					  unsigned quads, float4 *to)
{
	folded f = begin;

#pragma unroll 1
	for (unsigned quad = threadIdx.x % 32; quad / 32 * 32 < quads;
	     quad += 32) {
		float4 v = { 0, 0, 0, 0 };

		f = begin;
		parts_add(part, step, n, quad, quad < quads, f, v);
		if (quad < quads)
			to[quad] = v;
	}
	return f;
}

/*
 * After the part of chunk @chunk: add up the parts that are complete, a warp
 * for each query. First FOLD chunks, whose sums take the place of the first
 * one's part, which may be before all chunks of the sequence; then these, whose
 * sums are then in memory. True: they are complete.
 */
__device__ static inline bool parts_join(const params &p, const item &b,
					 chunk_memory &m, uint32_t chunk,
					 char *workspace)
{
	unsigned r = threadIdx.x / 32, quads = (unsigned)p.a.dv / 4;
	uint64_t queries = b.sequence * p.heads_k + (uint64_t)b.head_k;
	uint32_t *counter = (uint32_t *)(workspace + WEIR__CUDA_COUNTERS_AT) +
			    (queries * p.row_blocks + b.first / QUERIES) *
				    (p.folds + 1);
	uint64_t step = (uint64_t)p.a.dv + WEIR__CUDA_CHUNK_STATE;
	uint32_t first, end, from, to, inner = chunk / FOLD;
	float *part = part_at(p, workspace, b.sequence, b.head_k,
			      b.first + (r < b.n ? r : 0), 0);
	float *sums = part + inner * FOLD * step;

	end = split_chunks(p, b.sequence, &first);
	end += first;
	from = inner * FOLD > first ? inner * FOLD : first;
	to = (inner + 1) * FOLD < end ? (inner + 1) * FOLD : end;
	inner++; /* the number of its counter; that of the whole is 0 */
#pragma unroll 1
	for (;;) {
		folded f = inner ? folded_none() : m.outer[r];

		if (!is_last(counter + inner, to - from))
			return false;
		if (r < b.n) {
			f = parts_sum(part + from * step, step, to - from, f,
				      quads,
				      (float4 *)(sums + (inner ? WEIR__CUDA_CHUNK_STATE
							       : 0)));
			__syncwarp();
			if (threadIdx.x % 32 == 0)
				*(inner ? (folded *)sums : &m.outer[r]) = f;
		}
		if (!inner)
			break;
		inner = 0;
		from = first / FOLD;
		to = (end - 1) / FOLD + 1;
		step *= FOLD;
		sums = sums_at(p) + r * (unsigned)p.a.dv;
	}
	__syncthreads();
	return true;
}

/*
 * The chunks of item @n: of all of its queries in turn, one if they are split.
 * False: its sequence has a wrong length.
 */
__device__ static inline bool item_find(const params &p, const uint32_t *before,
					uint32_t n, item &b, uint32_t &from,
					uint32_t &to, char *workspace)
{
	uint32_t low = 0, high = p.sequences, first, chunks;
	uint32_t at = n / p.row_blocks;

	if (!p.parts) {
		b = item_of(p, at / p.heads_k, at % p.heads_k,
			    n % p.row_blocks);
		if (length_is_wrong(p, b.sequence, workspace))
			return false;
		chunks = chunks_of(p, b.sequence, b.first / p.group,
				   (b.first + b.n - 1) / p.group + 1, &from);
		to = from + chunks;
		return true;
	}
	while (high - low > 1) {
		uint32_t middle = (low + high) / 2;

		if (before[middle] <= n)
			low = middle;
		else
			high = middle;
	}
	from = n - before[low];
	b = item_of(p, low, from / p.row_blocks % p.heads_k,
		    from % p.row_blocks);
	from /= p.row_blocks * p.heads_k;
	split_chunks(p, low, &first);
	from += first;
	to = from + 1;
	return true;
}

template <class E>
__device__ static inline void attend(const params &p, char *workspace)
{
	__shared__ uint32_t before[WEIR__CUDA_CHUNK_SEQUENCES + 1];
	__shared__ chunk_memory m;
	const bool in_turn = !p.parts;
	unsigned dv = (unsigned)p.a.dv;
	float *inner = sums_at(p) + (E::is_staged ? 2 * STAGE / sizeof(float)
						  : WARPS * QUERIES * dv);
	float *outer = inner + QUERIES * dv;
	uint32_t items = (uint32_t)p.blocks;

	if (!in_turn) {
		count_items(p, before, workspace);
		items = before[p.sequences];
	}
	for (uint32_t n = blockIdx.x; n < items; n += gridDim.x) {
		bool is_whole = in_turn;
		uint32_t from, to;
		item b;

		if (!item_find(p, before, n, b, from, to, workspace))
			continue;
		if (in_turn)
			for (unsigned i = threadIdx.x; i < QUERIES * dv;
			     i += THREADS)
				inner[i] = outer[i] = 0;
		item_begin(p, b, m);
		for (uint32_t c = from; c < to; c++) {
			unsigned end =
				chunk_bias(p, b, m, c * CHUNK, workspace);

			chunk_scores<E>(p, m, end);
			chunk_exp(m, end, in_turn);
			chunk_values<E>(p, m, end);
			if (!in_turn) {
				parts_out(p, b, m, c, workspace);
				is_whole = parts_join(p, b, m, c, workspace);
			} else {
				turn_add(p, m, inner);
			}
			__syncthreads();
			if (in_turn && (c % FOLD == FOLD - 1 || c + 1 == to))
				turn_fold(p, m, inner, outer);
		}
		if (is_whole)
			results_out(p, b, m, in_turn ? outer : sums_at(p),
				    workspace);
		__syncthreads();
	}
}

/* 5 blocks of an SM have 40 KB on their way. */
#define ATTENTION(name)                                              \
	extern "C" __global__ void __launch_bounds__(THREADS, 5)     \
		weir_kernel_attention_chunks_##name(const params p,  \
						    char *workspace) \
	{                                                            \
		attend<name>(p, workspace);                          \
	}
ATTENTION(f32)
ATTENTION(f16)
ATTENTION(bf16)
ATTENTION(blocks)
