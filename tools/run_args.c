/* SPDX-License-Identifier: MIT */
#include "run.h"

#include <stdlib.h>
#include <sys/random.h>
#include "args.h"
#include "output.h"
#include "progress.h"

static const char help[] =
	"usage: weir run [OPTION]... MODEL\n"
	"Continue a text with a Llama, Mistral, Qwen2 or Qwen3 model: a GGUF file, or a\n"
	"directory with safetensors, config.json, and tokenizer.json or\n"
	"tokenizer.model. The text is written to stdout as it is made, without the\n"
	"prompt; a report goes to stderr. Defaults are in brackets.\n"
	"\n"
	"  --prompt TEXT    the text to continue; without it the model begins a text\n"
	"  --prompt-file FILE  read the prompt from a file; - is stdin\n"
	"  --chat           treat the prompt as the message of a user: write it in\n"
	"                   the model's chat template, and let the model answer\n"
	"  --system TEXT    with --chat: the system message\n"
	"  --template NAME  with --chat: another chat template than the model's: chatml,\n"
	"                   llama2, llama3, mistral-v1, mistral-v3, mistral-v3-tekken,\n"
	"                   mistral-v7, mistral-v7-tekken, gemma\n"
	"  -n N             generate at most N tokens [256]\n"
	"  --temp T         temperature: 0 always takes the most likely token, 1\n"
	"                   takes each with its probability [0.8]\n"
	"  --top-k K        choose from the K most likely tokens; 0: from all [40]\n"
	"  --top-p P        then from the fewest whose probabilities add up to P [0.95]\n"
	"  --min-p P        then from those at least P times as likely as the most\n"
	"                   likely one [0.05]\n"
	"  --repeat-penalty R  make the tokens of the last 64 less likely: divide their\n"
	"                   scores by R [1]\n"
	"  --seed S         a seed of the random choices, which repeats a run\n"
	"                   [different each time; the report has it]\n"
	"  --precision HOW  products are fast (the text may depend on the prompt's\n"
	"                   length and the number of threads), invariant, or f32\n"
	"                   (exact, slower) [fast]\n"
	"  --threads N      compute with N threads\n"
	"  --devices A,B    divide the layers among these devices, in this order [CPU];\n"
	"                   NAME:KEY=VALUE,... sets parameters\n"
	"  --budget SIZE    bytes of weights that stay in the memory of each device;\n"
	"                   the others are read from the files in each pass\n"
	"                   [no limit]\n"
	"  --json           print text, tokens and report as JSON, at the end\n"
	"  --quiet          print no report\n";

enum {
	PROMPT = ARGS_OPTION,
	PROMPT_FILE,
	CHAT,
	SYSTEM,
	TEMPLATE,
	TEMP,
	TOP_K,
	TOP_P,
	MIN_P,
	REPEAT,
	SEED,
	PRECISION,
	THREADS,
	DEVICES,
	BUDGET,
	JSON,
	QUIET
};

static const struct option options[] = {
	{ "prompt", required_argument, NULL, PROMPT },
	{ "prompt-file", required_argument, NULL, PROMPT_FILE },
	{ "chat", no_argument, NULL, CHAT },
	{ "system", required_argument, NULL, SYSTEM },
	{ "template", required_argument, NULL, TEMPLATE },
	{ "temp", required_argument, NULL, TEMP },
	{ "top-k", required_argument, NULL, TOP_K },
	{ "top-p", required_argument, NULL, TOP_P },
	{ "min-p", required_argument, NULL, MIN_P },
	{ "repeat-penalty", required_argument, NULL, REPEAT },
	{ "seed", required_argument, NULL, SEED },
	{ "precision", required_argument, NULL, PRECISION },
	{ "threads", required_argument, NULL, THREADS },
	{ "devices", required_argument, NULL, DEVICES },
	{ "budget", required_argument, NULL, BUDGET },
	{ "json", no_argument, NULL, JSON },
	{ "quiet", no_argument, NULL, QUIET },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

static int take_number(const struct args *args, const char *option,
		       uint64_t max, int64_t *n)
{
	uint64_t number;
	int r = args_number(args, option, 1, max, &number);

	if (r == 0)
		*n = (int64_t)number;
	return r;
}

static int take_precision(const struct args *args, enum weir_precision *ret)
{
	static const char *const names[] = { "fast", "invariant", "f32", NULL };
	unsigned i = 0;
	int r = args_choice(args, "--precision", names, &i);

	*ret = (enum weir_precision)i;
	return r;
}

static int take_option(const struct args *args, int c, void *to)
{
	struct run_args *a = to;
	unsigned i;

	switch (c) {
	case 'n':
		return take_number(args, "-n", INT32_MAX, &a->n);
	case PROMPT:
		a->prompt = optarg;
		return 0;
	case PROMPT_FILE:
		a->prompt_file = optarg;
		return 0;
	case CHAT:
		a->chat = true;
		return 0;
	case SYSTEM:
		a->system = optarg;
		return 0;
	case TEMPLATE:
		a->template = optarg;
		return args_choice(args, "--template", chat_names, &i);
	case TEMP:
		return args_real(args, "--temp", 0, &a->temperature);
	case TOP_K:
		return args_number(args, "--top-k", 0, INT32_MAX, &a->top_k);
	case TOP_P:
		return args_fraction(args, "--top-p", &a->top_p);
	case MIN_P:
		return args_fraction(args, "--min-p", &a->min_p);
	case REPEAT:
		return args_factor(args, "--repeat-penalty", &a->repeat);
	case SEED:
		return args_number(args, "--seed", 0, INT64_MAX, &a->seed);
	case PRECISION:
		return take_precision(args, &a->precision);
	case THREADS:
		return take_number(args, "--threads", 1024, &a->threads);
	case DEVICES:
		a->devices = optarg;
		return 0;
	case BUDGET:
		return args_size(args, "--budget", 1, INT64_MAX, &a->budget);
	case JSON:
		a->json = true;
		return 0;
	default:
		a->quiet = true;
		return 0;
	}
}

/* Without --seed: small enough to be typed. */
static uint64_t random_seed(void)
{
	uint32_t seed;

	if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed))
		seed = (uint32_t)now_ns();
	return seed;
}

/* Options that need others, or exclude them. */
static int check(const struct run_args *a)
{
	if (a->prompt && a->prompt_file)
		return fail_usage("run", "only one of --prompt and "
					 "--prompt-file is possible");
	if (a->chat && !a->prompt && !a->prompt_file)
		return fail_usage("run", "--chat needs --prompt or "
					 "--prompt-file");
	if (!a->chat && (a->system || a->template))
		return fail_usage("run", "%s works only with --chat",
				  a->system ? "--system" : "--template");
	return 0;
}

int run_args_parse(int argc, char **argv, struct run_args *ret_args)
{
	static const char *const operands[] = { "MODEL" };
	const struct args args = { .command = "run",
				   .help = help,
				   .options = options,
				   .argc = argc,
				   .argv = argv,
				   .letters = "n:",
				   .root = &ret_args->root };
	const struct weir_opts root = WEIR_OPTS_INIT;
	int r;

	*ret_args = (struct run_args){ .n = 256,
				       .temperature = 0.8,
				       .top_k = 40,
				       .top_p = 0.95,
				       .min_p = 0.05,
				       .repeat = 1,
				       .seed = random_seed(),
				       .root = root };
	r = args_options(&args, take_option, ret_args);
	if (r)
		return r;
	r = args_operands(&args, 1, operands);
	ret_args->path = argv[optind];
	return r ? r : check(ret_args);
}
