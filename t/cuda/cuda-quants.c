/* SPDX-License-Identifier: MIT */
/*
 * Quantised dtypes on a CUDA device, compared with the CPU bit for bit: all
 * blocks to floats, and floats to the blocks that operations write.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dtypes.h"
#include "gpu.h"

#define ROWS 48
#define COLUMNS 512
#define N (ROWS * COLUMNS)

static struct weir *weir;
static struct weir_graph *g;
static uint64_t state = 1;

static uint32_t random_bits(void)
{
	uint64_t x = state += 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return (uint32_t)(x ^ x >> 31);
}

static struct weir_dtype_info info_of(enum weir_dtype dtype)
{
	struct weir_dtype_info info = { .size = sizeof(info) };

	must(weir_dtype_info(dtype, &info));
	return info;
}

static size_t bytes_of(enum weir_dtype dtype)
{
	struct weir_dtype_info info = info_of(dtype);

	return (size_t)N / info.block * info.bytes;
}

static struct weir_node *input(enum weir_dtype dtype)
{
	return weir_graph_input(g, "x", dtype, 2, D(ROWS, COLUMNS));
}

/* Compute the graph on one device. It stays as it is. */
static void compute(struct weir_dev *dev, struct weir_node *x, const void *in,
		    struct weir_node *y, void *out)
{
	struct weir_graph_compute_opts o = WEIR_GRAPH_COMPUTE_OPTS_INIT;
	struct weir_graph_io io[2] = {
		{ .node = x, .in = in },
		{ .node = y, .out = out },
	};

	must(weir_tensor_bytes(weir_node_tensor(x), &io[0].bytes));
	must(weir_tensor_bytes(weir_node_tensor(y), &io[1].bytes));
	o.devs = &dev;
	o.n_devs = 1;
	weir_graph_output(g, y);
	must(weir_graph_error(g, NULL));
	must(weir_graph_compute(weir, g, io, 2, &o));
}

/* NaNs are equal: their bits differ between devices. */
static bool same_float(float a, float b)
{
	return (isnan(a) && isnan(b)) || !memcmp(&a, &b, sizeof(a));
}

/* Any bytes are blocks; scales may be infinite or NaN. */
static void unpacks(enum weir_dtype dtype)
{
	unsigned char *in = malloc(bytes_of(dtype));
	float *cpu = calloc(N, 4), *cuda = calloc(N, 4);
	struct weir_node *x = input(dtype), *y = weir_cast(g, x, F32);
	size_t wrong = 0, first = 0;

	for (size_t i = 0; i < bytes_of(dtype); i++)
		in[i] = (unsigned char)random_bits();
	compute(weir_dev_get(weir, 0), x, in, y, cpu);
	compute(gpu(weir), x, in, y, cuda);
	for (size_t i = N; i-- > 0;)
		if (!same_float(cpu[i], cuda[i])) {
			wrong++;
			first = i;
		}
	ok(!wrong, "blocks of %s are the same floats as on the CPU",
	   info_of(dtype).name);
	if (wrong)
		diag("%zu differ; element %zu is %.9g, not %.9g", wrong, first,
		     (double)cuda[first], (double)cpu[first]);
	weir_graph_reset(g);
	free(in);
	free(cpu);
	free(cuda);
}

/*
 * Blocks of numbers of very different sizes; with zeros, infinities and NaNs;
 * with several of the greatest magnitude; and halves, that are rounded.
 */
static float odd_float(size_t i)
{
	static const float odd[] = { 0, -0.0f, INFINITY, -INFINITY, NAN };
	uint32_t r = random_bits();
	float x = (float)(int32_t)random_bits() * 0x1p-30f;

	switch (i / 32 % 10) {
	case 0:
		return x;
	case 1:
		return ldexpf(x, (int)(r % 280) - 150);
	case 2:
		return r % 8 ? x : odd[r / 8 % 2];
	case 3:
		return r % 16 ? x : odd[r / 16 % 5];
	case 4:
		return r % 2 ? 1.5f : -1.5f;
	case 5:
		return (float)((int)(r % 255) - 127) / 2;
	case 6:
		return odd[r % 2];
	case 7: /* halves, also after the scale: in Q8_0 */
		return i % 32 ? (float)((int)(r % 255) - 127) / 2 : -127;
	case 8: /* and in Q4_0 */
		return i % 32 ? (float)((int)(r % 33) - 16) / 2 : -8;
	default:
		return x * 1e-30f * 1e-12f;
	}
}

/* Each byte is that of the CPU. */
static void agree(enum weir_dtype from, enum weir_dtype to, const char *how,
		  const unsigned char *cpu, const unsigned char *cuda)
{
	size_t bytes = bytes_of(to), block = info_of(to).bytes, first = 0;

	while (first < bytes && cpu[first] == cuda[first])
		first++;
	ok(first == bytes, "%s %s the same %s as on the CPU",
	   info_of(from).name, how, info_of(to).name);
	if (first < bytes)
		diag("byte %zu of block %zu is %#x, not %#x", first % block,
		     first / block, cuda[first], cpu[first]);
}

static void packs(enum weir_dtype from, const void *in, enum weir_dtype to)
{
	unsigned char *cpu = calloc(1, bytes_of(to)),
		      *cuda = calloc(1, bytes_of(to));
	struct weir_node *x = input(from), *y = weir_cast(g, x, to);

	compute(weir_dev_get(weir, 0), x, in, y, cpu);
	compute(gpu(weir), x, in, y, cuda);
	agree(from, to, "becomes", cpu, cuda);
	weir_graph_reset(g);
	free(cpu);
	free(cuda);
}

/* Rows of a table on @dev become those of @in, the last one first. */
static void table_set(struct weir_dev *dev, enum weir_dtype from,
		      const void *in, enum weir_dtype to, void *out)
{
	struct weir_tensor t[2];
	struct weir_buft *memory;
	struct weir_node *x = input(from);
	struct weir_buf *buf;
	int64_t id[ROWS];

	for (int64_t i = 0; i < ROWS; i++)
		id[i] = ROWS - 1 - i;
	must(weir_dev_buft(dev,
			   dev == gpu(weir) ? WEIR_MEM_DEVICE : WEIR_MEM_PLAIN,
			   &memory));
	must(weir_tensor_init(&t[0], to, 2, D(ROWS, COLUMNS)));
	must(weir_tensor_init(&t[1], I64, 1, D(ROWS)));
	must(weir_tensors_alloc(memory, t, 2, &buf));
	must(weir_tensor_set(&t[1], 0, id, sizeof(id)));
	compute(dev, x, in,
		weir_set_rows(g, weir_graph_leaf(g, &t[0], NULL), x,
			      weir_graph_leaf(g, &t[1], NULL)),
		out);
	weir_graph_reset(g);
	weir_buf_free(buf);
}

static void rows_pack(enum weir_dtype from, const void *in, enum weir_dtype to)
{
	unsigned char *cpu = calloc(1, bytes_of(to)),
		      *cuda = calloc(1, bytes_of(to));

	table_set(weir_dev_get(weir, 0), from, in, to, cpu);
	table_set(gpu(weir), from, in, to, cuda);
	agree(from, to, "set as rows becomes", cpu, cuda);
	free(cpu);
	free(cuda);
}

static void floats_pack(enum weir_dtype from)
{
	float *v = calloc(N, 4);
	unsigned char *in = calloc(N, 4);

	for (size_t i = 0; i < N; i++)
		v[i] = odd_float(i);
	if (from == F32)
		memcpy(in, v, (size_t)N * 4);
	else
		must(weir_convert(from, in, F32, v, N));
	packs(from, in, WEIR_DTYPE_Q8_0);
	packs(from, in, WEIR_DTYPE_Q4_0);
	if (from != BF16) { /* set_rows does not take it */
		rows_pack(from, in, WEIR_DTYPE_Q8_0);
		rows_pack(from, in, WEIR_DTYPE_Q4_0);
	}
	free(v);
	free(in);
}

static void blocks_pack(enum weir_dtype from)
{
	unsigned char *in = malloc(bytes_of(from));

	for (size_t i = 0; i < bytes_of(from); i++)
		in[i] = (unsigned char)random_bits();
	if (from != WEIR_DTYPE_Q8_0)
		packs(from, in, WEIR_DTYPE_Q8_0);
	if (from != WEIR_DTYPE_Q4_0)
		packs(from, in, WEIR_DTYPE_Q4_0);
	free(in);
}

int main(void)
{
	static const enum weir_dtype floats[] = { F32, F16, BF16 };

	open_driver();
	weir = open_cuda();
	need_compute(gpu(weir));
	plan(0);
	must(weir_graph_new(&g));
	for (unsigned i = FIRST_QUANTISED; i < WEIGHTS; i++)
		unpacks(weights[i]);
	for (unsigned i = 0; i < 3; i++)
		floats_pack(floats[i]);
	for (unsigned i = FIRST_QUANTISED; i < WEIGHTS; i++)
		blocks_pack(weights[i]);
	weir_graph_free(g);
	weir_close(weir);
	all_given_back("after all dtypes");
	return done_testing();
}
