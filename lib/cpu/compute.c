/* SPDX-License-Identifier: MIT */
/* The device's table of computing, over lib/kernels; its rates, measured. */
#include "cpu/cpu.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define lib weir__cpu_host

/* The measured product, copy, and how often each is timed. */
#define ROWS 256
#define COLUMNS 64
#define LENGTH 1024
#define COPIED ((size_t)8 << 20) /* bytes: more than the caches of a core */
#define TIMES 3
#define MEMORY_THREADS 4u /* this many saturate the memory */

/* The lock guards the two rates, which are those of one thread. */
static pthread_mutex_t rates_lock = PTHREAD_MUTEX_INITIALIZER;
static double one_flops, one_bytes; /* 0: not measured */

static struct weir__team *team_of(struct weir_dev *dev)
{
	return weir__cpu_of(dev)->team;
}

static bool operand_is_here(struct weir__cpu *cpu, const struct weir_operand *o)
{
	for (uint32_t i = 0; i < o->ndim; i++)
		if (!o->shape[i])
			return true;
	return !o->data || weir__cpu_owns(cpu, o->data);
}

static int node_refuse(struct weir_dev *dev,
		       const struct weir_backend_node *node, const char *what)
{
	return lib->fail(
		-EINVAL,
		"%s computes in its own memory only (apart=1): %s of node %llu%s%s is elsewhere",
		lib->dev_name(dev), what, (unsigned long long)node->index,
		node->name ? " " : "", node->name ? node->name : "");
}

/* The lock is held. */
static int node_check(struct weir_dev *dev,
		      const struct weir_backend_node *node)
{
	struct weir__cpu *cpu = weir__cpu_of(dev);
	char source[32];

	if (!operand_is_here(cpu, &node->dst))
		return node_refuse(dev, node, "the result");
	for (uint32_t s = 0; s < node->n_src; s++)
		if (!operand_is_here(cpu, &node->src[s])) {
			snprintf(source, sizeof(source), "source %u", s);
			return node_refuse(dev, node, source);
		}
	return 0;
}

/*
 * Check that the nodes of a device with apart=1 have all operands in its own
 * memory. -EINVAL with a sentence.
 */
static int nodes_check(struct weir_dev *dev,
		       const struct weir_backend_node *const *nodes, size_t n)
{
	struct weir__cpu *cpu = weir__cpu_of(dev);
	int r = 0;

	if (!cpu->apart)
		return 0;
	pthread_mutex_lock(&cpu->lock);
	for (size_t i = 0; i < n && r >= 0; i++)
		r = node_check(dev, nodes[i]);
	pthread_mutex_unlock(&cpu->lock);
	return r;
}

static int cpu_supports(struct weir_dev *dev,
			const struct weir_backend_node *node)
{
	(void)dev;
	return weir__kernel_supports(node);
}

static int cpu_prepare(struct weir_dev *dev,
		       const struct weir_backend_node *const *nodes, size_t n,
		       const struct weir_backend_prepare_opts *opts,
		       void **ret_prepared, size_t *ret_workspace)
{
	struct weir__segment_cpu *segment;
	int r = nodes_check(dev, nodes, n);

	(void)opts;
	if (!r)
		r = weir__segment_prepare(team_of(dev), nodes, n, &segment,
					  ret_workspace);
	if (!r)
		*ret_prepared = segment;
	return r;
}

static void cpu_release(struct weir_dev *dev, void *prepared)
{
	(void)dev;
	weir__segment_release(prepared);
}

/* A device that is apart supports its own memory, others all host memory. */
static bool cpu_supports_buft(struct weir_dev *dev, struct weir_dev *owner,
			      const struct weir_backend_buft *desc)
{
	const struct weir__cpu *cpu = weir__cpu_of(dev);

	if (cpu && cpu->apart)
		return owner == dev;
	return desc->flags & WEIR_BUFT_HOST;
}

/* A device that is apart acts as an accelerator, which cannot read files. */
static bool cpu_takes_reader(struct weir_dev *dev,
			     const struct weir_backend_node *node)
{
	return !weir__cpu_of(dev)->apart && weir__kernel_takes_reader(node);
}

static int cpu_set_threads(struct weir_dev *dev,
			   const struct weir_threads *threads)
{
	return weir__team_set(weir__cpu_of(dev)->team, threads);
}

/* The size of the workspace does not depend on addresses. */
static int cpu_measure(struct weir_dev *dev,
		       const struct weir_backend_node *const *nodes, size_t n,
		       const struct weir_backend_prepare_opts *opts,
		       size_t *ret_workspace)
{
	struct weir__segment_cpu *segment;
	int r = weir__segment_prepare(team_of(dev), nodes, n, &segment,
				      ret_workspace);

	(void)opts;
	if (!r)
		weir__segment_release(segment);
	return r;
}

static double rates_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static struct weir_operand matrix(float *data, int64_t rows, int64_t columns)
{
	return (struct weir_operand){
		.data = data,
		.dtype = WEIR_DTYPE_F32,
		.ndim = 2,
		.shape = { rows, columns },
		.stride = { columns * 4, 4 },
	};
}

/* The least time of a few runs; 0: it cannot be run. */
static double time_segment(struct weir__segment_cpu *segment, size_t workspace)
{
	void *room = lib->calloc(1, workspace + 1);
	struct weir_backend_compute run = { .size = sizeof(run),
					    .prepared = segment,
					    .workspace = room,
					    .n = 1 };
	double least = 0;

	for (unsigned i = 0; room && i < TIMES; i++) {
		double begun = rates_now(), took;

		if (weir__segment_run(&run) < 0)
			break;
		took = rates_now() - begun;
		if (!least || took < least)
			least = took;
	}
	lib->free(room);
	return least;
}

static double time_product(struct weir__team *team, float *data)
{
	const struct weir_op_mul_mat params = { WEIR_PRECISION_FAST };
	struct weir_operand src[2] = { matrix(data, ROWS, LENGTH),
				       matrix(data + ROWS * LENGTH, COLUMNS,
					      LENGTH) };
	struct weir_backend_node node = {
		.size = sizeof(node),
		.op = WEIR_OP_MUL_MAT,
		.n_src = 2,
		.params = &params,
		.dst = matrix(data + (ROWS + COLUMNS) * LENGTH, COLUMNS, ROWS),
		.src = src,
	};
	const struct weir_backend_node *list = &node;
	struct weir__segment_cpu *segment;
	size_t workspace;
	double took;

	if (weir__segment_prepare(team, &list, 1, &segment, &workspace) < 0)
		return 0;
	took = time_segment(segment, workspace);
	weir__segment_release(segment);
	return took;
}

static double time_copy(unsigned char *data)
{
	double least = 0;

	for (unsigned i = 0; i < TIMES; i++) {
		double begun = rates_now(), took;

		memcpy(data, data + COPIED, COPIED);
		took = rates_now() - begun;
		if (!least || took < least)
			least = took;
	}
	return least;
}

/* rates_lock is held. */
static int rates_measure(struct weir *weir)
{
	const struct weir_threads one = { .size = sizeof(one), .count = 1 };
	const struct weir__share all = { 0, 1 };
	struct weir__team *team;
	float *data = lib->calloc(2, COPIED);
	double product = 0, copy;
	int r;

	if (!data)
		return lib->fail(-ENOMEM, "no memory to measure a CPU");
	for (size_t i = 0; i < 2 * COPIED / sizeof(*data); i++)
		data[i] = 1;
	r = weir__team_new(weir, &one, all, &team);
	if (r < 0)
		goto out;
	product = time_product(team, data);
	weir__team_free(team);
	copy = time_copy((unsigned char *)data);
	if (product > 0 && copy > 0) {
		one_flops = 2.0 * ROWS * COLUMNS * LENGTH / product;
		one_bytes = 2.0 * (double)COPIED / copy;
	} else {
		r = lib->fail(-EIO, "the clock does not advance");
	}
out:
	lib->free(data);
	return r;
}

/*
 * A product and a copy are timed once in the process, on one thread. The rates
 * of a device follow from its number of threads, so devices with equal numbers
 * have equal rates.
 */
static int cpu_rates(struct weir_dev *dev, struct weir_rates *ret_rates)
{
	unsigned threads = weir__team_size(team_of(dev));
	int r = 0;

	pthread_mutex_lock(&rates_lock);
	if (!one_flops)
		r = rates_measure(lib->dev_root(dev));
	pthread_mutex_unlock(&rates_lock);
	if (r < 0)
		return r;
	ret_rates->flops = one_flops * threads;
	ret_rates->bytes =
		one_bytes *
		(threads < MEMORY_THREADS ? threads : MEMORY_THREADS);
	ret_rates->link = one_bytes / 2;
	return 0;
}

const struct weir_backend_compute_ops weir__cpu_compute_ops = {
	.size = sizeof(weir__cpu_compute_ops),
	.supports = cpu_supports,
	.prepare = cpu_prepare,
	.release = cpu_release,
	.supports_buft = cpu_supports_buft,
	.set_threads = cpu_set_threads,
	.measure = cpu_measure,
	.rates = cpu_rates,
	.takes_reader = cpu_takes_reader,
};
