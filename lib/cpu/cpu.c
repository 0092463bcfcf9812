/* SPDX-License-Identifier: MIT */
/* The backend's table and its entry; devices that are opened. */
#include "cpu/cpu.h"

#include <errno.h>

#define lib weir__cpu_host

struct weir__cpu *weir__cpu_of(struct weir_dev *dev)
{
	return lib->dev_state(dev);
}

struct weir__team *weir__team_of(struct weir_dev *dev)
{
	return weir__cpu_of(dev)->team;
}

static int cpu_probe(struct weir *weir, const struct weir_backend_host *host,
		     struct weir_backend_probe *probe)
{
	struct weir__cpu_desc desc;

	(void)weir;
	weir__cpu_describe(0, &desc);
	return host->dev_describe(probe, &desc.dev);
}

static void cpu_dev_close(struct weir_dev *dev, void *state)
{
	struct weir__cpu *cpu = state;

	(void)dev;
	weir__team_free(cpu->team);
	pthread_mutex_destroy(&cpu->lock);
	lib->free(cpu);
}

/* Of "CPU", from its parameters, as if it were encoded. */
static struct weir__cpu_number number_given(const struct weir__cpu_params *p)
{
	struct weir__cpu_number n = { .apart = p->apart > 0 };

	n.share.parts = p->devices > 0 ? (unsigned)p->devices : 1;
	n.threads = p->threads > 0 ? (uint32_t)p->threads : 0;
	return n;
}

static int cpu_open(struct weir_dev *dev, struct weir__cpu *cpu,
		    struct weir__cpu_number n, uint32_t threads)
{
	struct weir_threads t = { .size = sizeof(t), .count = threads };
	int r;

	cpu->apart = n.apart;
	if (!threads && n.threads)
		t.count = weir__share_of(n.share, n.threads);
	r = weir__team_new(lib->dev_root(dev), &t, n.share, &cpu->team);
	if (r >= 0 && !n.share.part)
		r = weir__cpu_add(dev, n);
	return r;
}

static int cpu_dev_open(struct weir_dev *dev, unsigned i, const char *params,
			void **ret_state)
{
	struct weir__cpu *cpu = lib->calloc(1, sizeof(*cpu));
	struct weir__cpu_params p;
	int r;

	if (!cpu)
		return lib->fail(-ENOMEM, "no memory for %zu bytes",
				 sizeof(*cpu));
	pthread_mutex_init(&cpu->lock, NULL);
	r = weir__cpu_params(dev, i != 0, params, &p);
	if (r >= 0 && i)
		r = cpu_open(dev, cpu, weir__cpu_number(i),
			     p.threads > 0 ? (uint32_t)p.threads : 0);
	else if (r >= 0)
		r = cpu_open(dev, cpu, number_given(&p), 0);
	if (r < 0) {
		cpu_dev_close(dev, cpu);
		return r;
	}
	cpu->node = (int32_t)p.node;
	if (cpu->node >= 0)
		lib->dev_set_node(dev, cpu->node);
	*ret_state = cpu;
	return 0;
}

static int cpu_dev_memory(struct weir_dev *dev, unsigned i, uint64_t *ret_free,
			  uint64_t *ret_total)
{
	(void)dev;
	(void)i;
	return lib->host_available(ret_free, ret_total);
}

static const struct weir_backend backend = {
	.size = sizeof(backend),
	.abi = WEIR_BACKEND_ABI,
	.name = "CPU",
	.probe = cpu_probe,
	.dev_open = cpu_dev_open,
	.dev_close = cpu_dev_close,
	.dev_memory = cpu_dev_memory,
	.mem = &weir__cpu_mem_ops,
	.queue = &weir__cpu_queue_ops,
	.compute = &weir__cpu_compute_ops,
};

/* A module would compare host->abi and host->size here. */
const struct weir_backend *weir__cpu_entry(const struct weir_backend_host *host,
					   int *ret_err)
{
	(void)ret_err;
	lib = host;
	return &backend;
}
