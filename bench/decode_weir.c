/* SPDX-License-Identifier: MIT */
/*
 * bench/decode_weir MODEL THREADS [BUDGET [DEVICES]]: weir's side of
 * bench/decode and bench/decode_gpu, with the code of llama/, and the limits of
 * the machine. Commands on standard input; each is answered by a line: seconds,
 * seconds in kernels, and bytes that were read from memory.
 *
 *	load       open the model and load it; nothing is computed
 *	first N    open it, and read N tokens while it is loaded
 *	prompt N   read N tokens with the weights that are there
 *	decode N   read N tokens one by one, from position START on
 *	read       read all weights from memory: the best of several loops
 *	prefetch N read N MiB of the file by a stream, to memory that is used
 *	           in turn
 *
 * BUDGET limits the bytes of weights that stay in memory; 0: no limit. With it,
 * prompt and decode report the bytes that were prefetched. On DEVICES, such as
 * CUDA0, read is of no use: their memory is not the program's.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../llama/llama.h"
#include "raw.h"
#include "reading.h"

enum {
	CONTEXT = 1024,
	START = 240,
	MAX_THREADS = 64
};

struct bench {
	struct weir *weir;
	const char *path;
	unsigned threads;
	int64_t budget;
	struct weir_dev **devs; /* NULL: the CPU */
	unsigned n_devs;
	struct llama llama;
	int32_t token[CONTEXT];
	float *logits;
	size_t bytes;   /* bytes that the last command has read from memory */
	double seconds; /* time that it reports; 0: the time that it took */
};

static void check(int ret)
{
	if (ret < 0)
		die("%s", llama_error());
}

static void open_model(struct bench *b)
{
	struct llama_opts opts = LLAMA_OPTS_INIT;

	opts.context = CONTEXT;
	opts.threads = b->threads;
	opts.budget = b->budget;
	opts.devs = b->devs;
	opts.n_devs = b->n_devs;
	llama_close(&b->llama);
	free(b->logits);
	check(llama_open(b->weir, b->path, &b->llama));
	check(llama_start(&b->llama, &opts));
	b->logits =
		calloc((size_t)b->llama.config.vocabulary, sizeof(*b->logits));
	if (!b->logits)
		die("no memory");
}

/*
 * Bytes that a token reads: all weights but the other rows of the embeddings.
 */
static size_t token_bytes(const struct llama *l)
{
	const struct llama_weights *w = &l->weights;
	size_t sum = 0;

	for (size_t i = 0; i < w->n; i++) {
		size_t bytes;

		check(weir_tensor_bytes(&w->tensor[i], &bytes));
		if (i != w->embedding || w->output == i)
			sum += bytes;
	}
	return sum;
}

static void load(struct bench *b, int64_t n)
{
	(void)n;
	open_model(b);
	check(weir_load_wait(b->llama.weights.load, -1));
}

static void prompt(struct bench *b, int64_t n)
{
	b->llama.position = 0;
	check(llama_read(&b->llama, b->token, n, false, b->logits));
}

static void first(struct bench *b, int64_t n)
{
	open_model(b);
	prompt(b, n);
}

static void decode(struct bench *b, int64_t n)
{
	b->llama.position = START;
	for (int64_t i = 0; i < n; i++)
		check(llama_read(&b->llama, &b->token[i], 1, false, b->logits));
	b->bytes = (size_t)n * token_bytes(&b->llama);
}

/* The limit: all weights, by the best of several loops. */
static void read_weights(struct bench *b, int64_t n)
{
	const struct llama_weights *w = &b->llama.weights;
	struct reading *range = calloc(w->n, sizeof(*range));

	(void)n;
	if (!range)
		die("no memory");
	if (b->devs)
		die("read: the weights are in the memory of devices");
	for (size_t i = 0; i < w->n; i++) {
		range[i].at = weir_tensor_data(&w->tensor[i]);
		check(weir_tensor_bytes(&w->tensor[i], &range[i].bytes));
	}
	b->seconds = reading_best(range, w->n, b->threads, &b->bytes);
	free(range);
}

#define FEED_PART ((int64_t)8 << 20)

static void feed(struct bench *b, int64_t n)
{
	const int64_t place = 3 * FEED_PART;
	struct weir_file_info info = { .size = sizeof(info) };
	struct weir_stream *s;
	struct weir_buft *buft;
	struct weir_file *file;
	struct weir_buf *buf;
	struct weir_tensor t;
	uint64_t parts;

	check(weir_file_open(b->weir, b->path, NULL, &file));
	check(weir_file_info(file, &info));
	parts = info.bytes / FEED_PART;
	check(weir_dev_buft(weir_dev_get(b->weir, 0), WEIR_MEM_PLAIN, &buft));
	check(weir_buf_alloc(buft, (size_t)place, NULL, &buf));
	check(weir_tensor_init(&t, WEIR_DTYPE_U8, 1, &place));
	check(weir_tensor_place(&t, buf, 0));
	check(weir_stream_new(weir_dev_get(b->weir, 0), NULL, &s));
	for (uint64_t i = 0; i < (uint64_t)n * (1 << 20) / FEED_PART; i++)
		check(weir_stream_read(s, file, i % parts * FEED_PART, &t,
				       i % 3 * FEED_PART, FEED_PART));
	check(weir_stream_sync(s, -1));
	weir_stream_free(s);
	weir_buf_free(buf);
	weir_file_close(file);
	b->bytes = (size_t)n << 20;
}

static bool command(struct bench *b, const char *line)
{
	static const struct {
		const char *name;
		void (*run)(struct bench *b, int64_t n);
	} all[] = {
		{ "load", load },         { "first", first },
		{ "prompt", prompt },     { "decode", decode },
		{ "read", read_weights }, { "prefetch", feed },
	};
	char name[16];
	int64_t n = 1;
	double begun;

	if (sscanf(line, "%15s %ld", name, &n) < 1 || n < 1 ||
	    (n > CONTEXT - START && strcmp(name, "prefetch") != 0))
		return false;
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		if (strcmp(name, all[i].name) != 0)
			continue;
		b->llama.compute_ns = 0;
		b->llama.prefetched = 0;
		b->bytes = 0;
		b->seconds = 0;
		begun = raw_now();
		all[i].run(b, n);
		if (!b->seconds)
			b->seconds = raw_now() - begun;
		if (b->llama.prefetched)
			b->bytes = b->llama.prefetched;
		printf("%.9f %.9f %zu\n", b->seconds,
		       (double)b->llama.compute_ns / 1e9, b->bytes);
		fflush(stdout);
		return true;
	}
	return false;
}

int main(int argc, char **argv)
{
	struct bench b = { .llama = { .opts = { 0 } } };
	char line[64];

	if (argc < 3 || argc > 5 || (b.threads = (unsigned)atoi(argv[2])) < 1 ||
	    b.threads > MAX_THREADS)
		die("usage: decode_weir MODEL THREADS [BUDGET [DEVICES]] <COMMANDS");
	b.path = argv[1];
	if (argc > 3)
		b.budget = atoll(argv[3]);
	for (int32_t i = 0; i < CONTEXT; i++)
		b.token[i] = i * 7 % 320;
	check(weir_open(NULL, &b.weir));
	if (argc > 4)
		check(llama_devices(b.weir, argv[4], &b.devs, &b.n_devs));
	while (fgets(line, sizeof(line), stdin))
		if (!command(&b, line))
			die("not a command: %s", line);
	llama_close(&b.llama);
	free(b.logits);
	free(b.devs);
	weir_close(b.weir);
	return 0;
}
