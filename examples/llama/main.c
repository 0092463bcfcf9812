/* SPDX-License-Identifier: MIT */
/*
 * llama [OPTION...] MODEL TOKEN...: read tokens, given as numbers, and print
 * those that follow, each the most likely one. usage() has the options.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../llama/llama.h"

struct args {
	const char *model, *logits, *devices;
	int64_t generate;
	bool report;
	int32_t *token;
	int64_t n;
	struct llama_opts opts;
};

/* State of the program: the logits of the last tokens, and times in ns. */
struct program {
	struct llama llama;
	struct weir_dev **dev; /* NULL: the CPU */
	float *logits; /* logits of each token of the prompt, if they are
			  written */
	FILE *out;
	int64_t begun, first, end; /* first: the logits of the prompt */
	int64_t first_compute;     /* computing until then */
};

static int usage(FILE *to, int status)
{
	fprintf(to, "usage: llama [OPTION...] MODEL TOKEN...\n"
		    "  -n N      generate N tokens and print them\n"
		    "  -l FILE   write the logits of each token, as F32\n"
		    "  -t N      compute with N threads\n"
		    "  -b N      read at most N tokens in a pass (512)\n"
		    "  -p HOW    products are fast, invariant or f32 (fast)\n"
		    "  -c TYPE   keep keys and values as f16 or f32 (f16)\n"
		    "  -d LIST   divide the layers among these devices (CPU)\n"
		    "  -w BYTES  weights that stay in memory on each device\n"
		    "  -r        report times\n");
	return status;
}

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* Return a number from @least to INT32_MAX, or -1 if @s is none. */
static int64_t number(const char *text, int64_t least)
{
	char *end;
	long long n;

	errno = 0;
	n = strtoll(text, &end, 10);
	if (errno || end == text || *end || n < least || n > INT32_MAX) {
		fprintf(stderr,
			"llama: '%s' is not a number of %" PRId64 " or more\n",
			text, least);
		return -1;
	}
	return n;
}

static bool read_precision(const char *text, enum weir_precision *ret)
{
	static const char *const names[] = { "fast", "invariant", "f32" };

	for (unsigned i = 0; i < 3; i++)
		if (!strcmp(text, names[i])) {
			*ret = (enum weir_precision)i;
			return true;
		}
	return false;
}

static bool read_option(struct args *a, int c)
{
	const struct {
		int c;
		int64_t *n;
	} all[] = {
		{ 'n', &a->generate },
		{ 'b', &a->opts.batch },
		{ 't', &a->opts.threads },
		{ 'w', &a->opts.budget },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (c == all[i].c)
			return (*all[i].n = number(optarg, 1)) >= 1;
	if (c == 'c' && (!strcmp(optarg, "f16") || !strcmp(optarg, "f32"))) {
		a->opts.cache = strcmp(optarg, "f32") ? WEIR_DTYPE_F16
						      : WEIR_DTYPE_F32;
		return true;
	}
	if (c == 'p')
		return read_precision(optarg, &a->opts.precision);
	a->report |= c == 'r';
	if (c == 'l')
		a->logits = optarg;
	if (c == 'd')
		a->devices = optarg;
	return c == 'l' || c == 'd' || c == 'r';
}

/* Returns 0, or the exit status of the program plus 1. */
static int read_args(struct args *a, int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "n:l:t:b:c:d:p:w:rh")) != -1) {
		if (c == 'h')
			return 1 + usage(stdout, 0);
		if (!read_option(a, c))
			return 1 + usage(stderr, 2);
	}
	if (argc - optind < 2)
		return 1 + usage(stderr, 2);
	a->model = argv[optind++];
	a->token = calloc((size_t)(argc - optind), sizeof(*a->token));
	if (!a->token)
		return 1 + usage(stderr, 1);
	for (; optind < argc; optind++) {
		int64_t token = number(argv[optind], 0);

		if (token < 0)
			return 1 + usage(stderr, 2);
		a->token[a->n++] = (int32_t)token;
	}
	return 0;
}

static int write_logits(struct program *p, int64_t rows)
{
	const size_t n = (size_t)(rows * p->llama.config.vocabulary);

	if (!p->out || fwrite(p->logits, sizeof(float), n, p->out) == n)
		return 0;
	return llama_fail(-EIO, "the logits cannot be written");
}

static int32_t most_likely(const float *logits, int64_t n)
{
	int64_t best = 0;

	for (int64_t i = 1; i < n; i++)
		if (logits[i] > logits[best])
			best = i;
	return (int32_t)best;
}

static int read_prompt(struct program *p, const struct args *a)
{
	const int64_t rows = p->out ? a->n : 1;
	int ret;

	p->logits = calloc((size_t)(rows * p->llama.config.vocabulary),
			   sizeof(*p->logits));
	if (!p->logits)
		return llama_fail(-ENOMEM, "no memory for logits");
	ret = llama_read(&p->llama, a->token, a->n, p->out != NULL, p->logits);
	p->first = now();
	p->first_compute = p->llama.compute_ns;
	return ret < 0 ? ret : write_logits(p, rows);
}

/* The last token that is printed is not read. */
static int generate(struct program *p, const struct args *a)
{
	const int64_t words = p->llama.config.vocabulary;
	const float *last = p->logits + (p->out ? a->n - 1 : 0) * words;
	int ret = 0;

	for (int64_t i = 0; i < a->generate && ret == 0; i++) {
		int32_t token = most_likely(last, words);

		printf("%" PRId32 "%c", token,
		       i + 1 < a->generate ? ' ' : '\n');
		fflush(stdout);
		last = p->logits;
		if (i + 1 == a->generate)
			break;
		ret = llama_read(&p->llama, &token, 1, false, p->logits);
		if (ret == 0)
			ret = write_logits(p, 1);
	}
	p->end = now();
	return ret;
}

static double seconds(int64_t ns)
{
	return (double)ns / 1e9;
}

/*
 * The load is hidden to 100 % if the first logits took no longer than computing
 * them, to 0 % if they took as much longer as the load did.
 */
static int report(struct program *p, const struct args *a)
{
	struct weir_load_report r = { .size = sizeof(r) };
	int64_t alone = p->first - p->begun - p->first_compute;
	int ret = weir_load_report(p->llama.weights.load, &r);
	double hidden;

	if (ret < 0)
		return ret;
	hidden = 1 - (double)alone / (double)(r.elapsed ? r.elapsed : 1);
	printf("load: %.2f GB in %.3f s\n", (double)r.bytes / 1e9,
	       seconds(r.elapsed));
	printf("first logits: after %.3f s: %.3f s computing, %.3f s in %" PRIu64
	       " waits for weights; %.0f %% of the load hidden\n",
	       seconds(p->first - p->begun), seconds(p->first_compute),
	       seconds(p->llama.wait_ns), p->llama.waits,
	       hidden > 0 ? 100 * hidden : 0);
	printf("prompt: %" PRId64 " tokens, %.1f in a second of computing\n",
	       a->n, (double)a->n / seconds(p->first_compute));
	if (a->generate > 1)
		printf("generated: %.1f tokens a second\n",
		       (double)(a->generate - 1) / seconds(p->end - p->first));
	return 0;
}

static int use_model(struct program *p, struct weir *weir, struct args *a)
{
	int ret;

	a->opts.context = a->n + (a->generate ? a->generate - 1 : 0);
	p->begun = now();
	if (a->devices && (ret = llama_devices(weir, a->devices, &p->dev,
					       &a->opts.n_devs)) < 0)
		return ret;
	a->opts.devs = p->dev;
	if ((ret = llama_open(weir, a->model, &p->llama)) < 0 ||
	    (ret = llama_start(&p->llama, &a->opts)) < 0 ||
	    (ret = read_prompt(p, a)) < 0 || (ret = generate(p, a)) < 0)
		return ret;
	/* Only now is it known whether the files have changed meanwhile. */
	ret = weir_load_wait(p->llama.weights.load, -1);
	return ret == 0 && a->report ? report(p, a) : ret;
}

static int run(struct args *a)
{
	struct program p = { .out = NULL };
	struct weir *weir = NULL;
	int ret = 0;

	if (a->logits && !(p.out = fopen(a->logits, "wb")))
		ret = llama_fail(-errno, "%s: %s", a->logits, strerror(errno));
	if (ret == 0)
		ret = weir_open(NULL, &weir);
	if (ret == 0)
		ret = use_model(&p, weir, a);
	if (p.out && fclose(p.out) != 0 && ret == 0)
		ret = llama_fail(-errno, "%s: %s", a->logits, strerror(errno));
	if (ret < 0)
		fprintf(stderr, "llama: %s\n", llama_error());
	llama_close(&p.llama);
	free(p.logits);
	free(p.dev);
	weir_close(weir);
	return ret < 0;
}

int main(int argc, char **argv)
{
	struct args a = { .opts = LLAMA_OPTS_INIT };
	int status = read_args(&a, argc, argv);

	status = status ? status - 1 : run(&a);
	free(a.token);
	return status;
}
