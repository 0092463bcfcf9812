/* SPDX-License-Identifier: MIT */
/* The device's table of computing, over lib/kernels. */
#include "cpu/cpu.h"

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
	int r = weir__cpu_check(dev, nodes, n);

	(void)opts;
	if (!r)
		r = weir__segment_prepare(weir__team_of(dev), nodes, n,
					  &segment, ret_workspace);
	if (!r)
		*ret_prepared = segment;
	return r;
}

static void cpu_release(struct weir_dev *dev, void *prepared)
{
	(void)dev;
	weir__segment_release(prepared);
}

/* All host memory, of any device; of a device that is apart, only its own. */
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
	int r = weir__segment_prepare(weir__team_of(dev), nodes, n, &segment,
				      ret_workspace);

	(void)opts;
	if (!r)
		weir__segment_release(segment);
	return r;
}

const struct weir_backend_compute_ops weir__cpu_compute_ops = {
	.size = sizeof(weir__cpu_compute_ops),
	.supports = cpu_supports,
	.prepare = cpu_prepare,
	.release = cpu_release,
	.supports_buft = cpu_supports_buft,
	.set_threads = cpu_set_threads,
	.measure = cpu_measure,
	.rates = weir__cpu_rates,
	.takes_reader = cpu_takes_reader,
};
