/* SPDX-License-Identifier: MIT */
/*
 * weir run: its options (run_args.c), the prompt (run_prompt.c), the tokens
 * (run.c), their text (run_text.c), and the report (run_report.c, run_json.c).
 */
#ifndef TOOLS_RUN_H
#define TOOLS_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "../llama/llama.h"
#include "../text/chat.h"
#include "../text/sampler.h"
#include "../text/tokenizer.h"

struct run_args {
	const char *path;
	const char *prompt;      /* NULL: none */
	const char *prompt_file; /* NULL: none; "-": stdin */
	bool chat;               /* the prompt is what a user says */
	const char *system;      /* NULL: the one that the template has by
				    default */
	const char *template;    /* one of chat_names; NULL: the model's own */
	int64_t n;               /* most tokens to generate */
	/* how tokens are chosen: struct sampler_opts */
	double temperature, top_p, min_p, repeat;
	uint64_t seed, top_k;
	enum weir_precision precision;
	int64_t threads;     /* 0: the library's choice */
	const char *devices; /* NULL: the CPU */
	uint64_t budget;     /* bytes of weights on each device; 0: no limit */
	bool json, quiet;
	struct weir_opts root;
};

/* Why no more tokens are generated. */
enum run_end {
	RUN_END_TOKEN,   /* the model has ended the text */
	RUN_END_LIMIT,   /* -n */
	RUN_END_CONTEXT, /* it has as many tokens as the model can attend to */
	RUN_END_SIGNAL
};

/* Times in ns. Those of @choose to @output are of the first token on. */
struct run_times {
	int64_t begun;  /* CLOCK_MONOTONIC: before the root is opened */
	int64_t ready;  /* the prompt is known, and the load has started */
	int64_t prompt; /* its logits are there */
	int64_t first;  /* the first token is chosen */
	int64_t end;    /* the last one is written; before anything is freed */
	int64_t choose; /* sum of choosing */
	int64_t output; /* sum of writing */
};

/* The text that was generated. Only --json keeps it all. */
struct run_text {
	char *s;
	size_t n, room;
	bool keep, terminal;
	char last; /* character on the terminal; 0: none */
};

struct run_job {
	const struct run_args *args;
	struct weir *weir;
	struct weir_dev **dev; /* --devices */
	unsigned n_devs;
	struct llama llama;
	struct tokenizer *tokenizer;
	struct tokenizer_decoder *decoder;
	struct sampler sampler;
	const char *said; /* the text of the prompt; NULL: none */
	size_t said_len;
	char *file; /* the prompt that was read from a file */
	struct tokenizer_ids prompt, made; /* tokens */
	bool continues; /* the text continues that of the prompt */
	float *logits;
	size_t choices; /* tokens that may be chosen: those with a text */
	struct run_text text;
	struct run_times times;
	enum run_end end;
	int32_t end_token; /* -1: none */
	struct weir_load_report load;
};

/* Returns 0, EXIT_USAGE or ARGS_HELP. */
int run_args_parse(int argc, char **argv, struct run_args *ret_args);

const char *run_end_name(enum run_end end); /* in JSON */
/* The report as text, on stderr; as JSON, on stdout. */
void run_report(const struct run_job *job);
void run_report_json(const struct run_job *job);

#endif
