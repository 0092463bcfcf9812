/* SPDX-License-Identifier: MIT */
/*
 * Random graphs over the CPU and two CUDA devices, whose nodes are divided by
 * pins, or by cost. The order of warps and blocks on the stand-in is another
 * one for each graph. WEIR_T_NODES is about how many nodes are made: 6000, or
 * millions in a long test.
 */
#include <stdio.h>
#include <stdlib.h>

#include "dev/dev.h"
#include "gpu.h"
#include "graph/exec/random_run.h"
#include "tap.h"

static void begin(uint64_t seed)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)seed);
	fake.set("ORDER", text);
}

/* Mistakes of a kernel, or of calls. */
static const char *found(void)
{
	struct fakecuda_counts counts = { 0 };

	fake.counts(&counts);
	return counts.findings ? fake.finding()
	       : counts.misuse ? fake.misuse()
			       : NULL;
}

/* Cache 1 is in memory of @cache: writes to it are computed there. */
static void on_devices(struct weir *weir, struct weir_dev *const *cuda,
		       unsigned n, struct weir_buft *cache, uint64_t nodes,
		       const char *what)
{
	/* Of a fast GPU: the stand-in is slow, and would compute nothing. */
	static const struct weir_rates rates = { sizeof(rates), 2e13, 1e12,
						 2e10 };
	struct random_devices on = { .weir = weir,
				     .rates = &rates,
				     .n = 1 + n,
				     .n_bufts = 2,
				     .no_calls = true,
				     .begin = fake.handle ? begin : NULL,
				     .finding = fake.handle ? found : NULL };

	on.dev[0] = weir_dev_get(weir, 0);
	for (unsigned i = 0; i < n; i++)
		on.dev[1 + i] = cuda[i];
	must(weir_dev_buft(on.dev[0], WEIR_MEM_PLAIN, &on.buft[0]));
	on.buft[1] = cache ? cache : on.buft[0];
	random_run(&on, nodes, what);
}

int main(void)
{
	uint64_t nodes = random_number_from("WEIR_T_NODES", 6000);
	struct weir_dev *cuda[2];
	struct weir *weir;

	setenv("FAKECUDA_DEVICES", "2", 1);
	open_driver();
	weir = open_cuda();
	cuda[0] = gpu(weir);
	if (!weir__dev_compute(cuda[0]))
		skip_all(
			"CUDA0 does not compute: there was no nvcc, or the GPU is too old");
	plan(0);
	on_devices(weir, cuda, 1, NULL, nodes / 2, "on the CPU and CUDA0");
	if (weir_dev_find(weir, "CUDA1", &cuda[1]) < 0)
		skip(1, "there is one GPU");
	else
		on_devices(weir, cuda, 2, gpu_memory(weir, WEIR_MEM_DEVICE),
			   nodes,
			   "on the CPU, CUDA0 and CUDA1, a cache on CUDA0");
	ok(random_seen.lanes && random_seen.transfers,
	   "graphs were computed by several devices, and copied between them");
	ok(random_seen.waits, "runs waited for bytes that arrived later");
	ok(random_seen.observed && random_seen.in_place,
	   "observed nodes were reported, and results took the places of sources");
	weir_close(weir);
	all_given_back("after the graphs");
	return done_testing();
}
