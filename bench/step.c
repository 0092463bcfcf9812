/* SPDX-License-Identifier: MIT */
/*
 * bench/step [STEPS]: the host's part of a decode step of a model with the 32
 * layers of Llama 3.1 8B and small matrices, on CUDA0 of the stand-in driver,
 * which executes no kernels here (FAKECUDA_DRY): microseconds of CPU time of
 * the thread that calls, medians of STEPS (1000).
 *
 *	start	weir_run_start(): all calls of the driver but those of inputs
 *	step	llama_read(): also inputs, waiting, and fetching logits
 *
 * In the build folder: LD_LIBRARY_PATH=t/fakecuda/.libs bench/step. It fails if
 * the steps took more than one CUDA graph.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../llama/llama.h"
#include "must.h"
#include "place.h"
#include "raw.h"
#include "result.h"

#define GOAL_US 20
enum {
	MAX_STEPS = 4000,
	FIRST = 3, /* steps until the graph is built */
	LAYERS = 32,
	WIDTH = 64,
	KV = 32,
	INNER = 192,
	WORDS = 320
};

static void check(int ret)
{
	if (ret < 0)
		die("%s", llama_error());
}

static double cpu_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void add(struct weir_save *save, struct weir_buf *zeros,
		const char *name, int64_t rows, int64_t columns)
{
	const int64_t shape[] = { rows ? rows : columns, columns };
	struct weir_tensor t;

	must(weir_tensor_init(&t, WEIR_DTYPE_F32, rows ? 2 : 1, shape));
	must(weir_tensor_place(&t, zeros, 0));
	must(weir_save_add(save, name, &t, 0));
}

static void add_layer(struct weir_save *save, struct weir_buf *zeros,
		      unsigned layer)
{
	static const struct {
		const char *name;
		int64_t rows, columns;
	} all[] = {
		{ "attn_norm", 0, WIDTH },       { "attn_q", WIDTH, WIDTH },
		{ "attn_k", KV, WIDTH },         { "attn_v", KV, WIDTH },
		{ "attn_output", WIDTH, WIDTH }, { "ffn_norm", 0, WIDTH },
		{ "ffn_gate", INNER, WIDTH },    { "ffn_up", INNER, WIDTH },
		{ "ffn_down", WIDTH, INNER },
	};
	char name[64];

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		snprintf(name, sizeof(name), "blk.%u.%s.weight", layer,
			 all[i].name);
		add(save, zeros, name, all[i].rows, all[i].columns);
	}
}

static void add_number(struct weir_save *save, const char *key, unsigned n)
{
	const struct weir_value v = {
		.size = sizeof(v), .key = key, .type = WEIR_VALUE_U32, .u = n
	};

	must(weir_save_meta(save, &v));
}

static void add_meta(struct weir_save *save)
{
	static const char llama[] = "llama";
	const struct weir_value name = { .size = sizeof(name),
					 .key = "general.architecture",
					 .type = WEIR_VALUE_STRING,
					 .str = llama,
					 .len = sizeof(llama) - 1 };
	const struct weir_value eps = {
		.size = sizeof(eps),
		.key = "llama.attention.layer_norm_rms_epsilon",
		.type = WEIR_VALUE_F32,
		.f = 1e-5
	};

	must(weir_save_meta(save, &name));
	must(weir_save_meta(save, &eps));
	add_number(save, "llama.context_length", 2 * MAX_STEPS);
	add_number(save, "llama.embedding_length", WIDTH);
	add_number(save, "llama.block_count", LAYERS);
	add_number(save, "llama.feed_forward_length", INNER);
	add_number(save, "llama.attention.head_count", 4);
	add_number(save, "llama.attention.head_count_kv", 2);
	add_number(save, "llama.vocab_size", WORDS);
}

/* All weights are zeros: nothing is computed with them. */
static void write_model(struct weir *weir, const char *path)
{
	struct weir_save_opts opts = WEIR_SAVE_OPTS_INIT;
	struct weir_save *save;
	struct weir_buft *buft;
	struct weir_buf *zeros;

	must(weir_dev_buft(weir_dev_get(weir, 0), WEIR_MEM_PLAIN, &buft));
	must(weir_buf_alloc(buft, sizeof(float) * WORDS * INNER, NULL, &zeros));
	must(weir_save_new(weir, path, &opts, &save));
	add_meta(save);
	add(save, zeros, "token_embd.weight", WORDS, WIDTH);
	for (unsigned i = 0; i < LAYERS; i++)
		add_layer(save, zeros, i);
	add(save, zeros, "output_norm.weight", 0, WIDTH);
	add(save, zeros, "output.weight", WORDS, WIDTH);
	must(weir_save_start(save, NULL));
	must(weir_save_wait(save, -1));
	weir_save_free(save);
	weir_buf_free(zeros);
}

static void open_model(struct weir *weir, const char *path,
		       struct weir_dev **devs, unsigned n, struct llama *l)
{
	struct llama_opts opts = LLAMA_OPTS_INIT;

	opts.context = 2 * MAX_STEPS;
	opts.devs = devs;
	opts.n_devs = n;
	check(llama_open(weir, path, l));
	check(llama_start(l, &opts));
}

/* The median of all steps. */
static void show(const char *name, double goal, double *us, unsigned n)
{
	if (goal)
		result_add_values(name, "us", goal, us, n);
	else
		printf("%s: %.1f us\n", name, spread_of(us, n).mid);
}

static void measure(struct llama *l, unsigned n)
{
	static double step[MAX_STEPS], start[MAX_STEPS];
	static float logits[WORDS];
	int32_t token = 7;

	for (unsigned i = 0; i < n; i++) {
		double begun = cpu_us();

		check(llama_read(l, &token, 1, false, logits));
		step[i] = cpu_us() - begun;
	}
	for (unsigned i = 0; i < n; i++) {
		double begun = cpu_us();

		must(weir_run_start(l->run));
		start[i] = cpu_us() - begun;
		must(weir_run_wait(l->run, -1));
	}
	show("start", GOAL_US, start, n);
	show("step", 0, step, n);
}

int main(int argc, char **argv)
{
	unsigned n = argc > 1 ? (unsigned)atoi(argv[1]) : 1000;
	char path[] = "step-XXXXXX.gguf";
	struct weir_opts opts = WEIR_OPTS_INIT;
	struct weir_lane lane = { .size = sizeof(lane) };
	struct weir_dev **devs;
	struct weir *weir;
	struct llama l;
	unsigned n_devs;
	int fd;

	if (argc > 2 || n < FIRST || n > MAX_STEPS)
		die("usage: step [STEPS], %d to %d", FIRST, MAX_STEPS);
	setenv("FAKECUDA_DRY", "1", 1);
	opts.module_path = place_modules();
	must(weir_open(&opts, &weir));
	fd = mkstemps(path, 5);
	if (fd < 0)
		die("%s: cannot be made", path);
	close(fd);
	write_model(weir, path);
	check(llama_devices(weir, "CUDA0", &devs, &n_devs));
	open_model(weir, path, devs, n_devs, &l);
	unlink(path);
	result_head();
	measure(&l, n);
	must(weir_exec_lane(l.exec, 0, &lane));
	printf("%" PRIu64 " CUDA graph, launched %" PRIu64 " times\n",
	       lane.graphs, lane.as_graph);
	llama_close(&l);
	free(devs);
	weir_close(weir);
	return result_all_ok() && lane.graphs == 1 ? 0 : 1;
}
