/* SPDX-License-Identifier: MIT */
/* weir run: the prompt, the tokens, and the text that is written. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "args.h"
#include "command.h"
#include "fail_llama.h"
#include "infile.h"
#include "output.h"
#include "progress.h"
#include "run.h"
#include "signals.h"
#include "text.h"

static int text_keep(struct run_text *text, const char *s, size_t len)
{
	size_t room = text->room ? text->room : 4096;
	char *grown;

	while (room - text->n < len)
		room *= 2;
	if (room != text->room) {
		grown = realloc(text->s, room);
		if (!grown)
			return fail_memory();
		text->s = grown;
		text->room = room;
	}
	memcpy(text->s + text->n, s, len);
	text->n += len;
	return 0;
}

/*
 * Write @len bytes of text, at once; on a terminal control characters are
 * escaped. Returns 0, or EXIT_FAILURE after a line on stderr.
 */
static int run_text_add(struct run_text *text, const char *s, size_t len)
{
	if (!len)
		return 0;
	if (text->keep)
		return text_keep(text, s, len);
	text->last = s[len - 1];
	if (text->terminal)
		text_put_prose(stdout, s, len);
	else
		fwrite(s, 1, len, stdout);
	if (out_flush())
		return 0;
	return fail("standard output: %s", strerror(errno));
}

/* End the line on a terminal. */
static void run_text_end(struct run_text *text)
{
	if (text->terminal && text->last && text->last != '\n')
		putchar('\n');
}

#define PROMPT_MAX ((size_t)1 << 30)

/* True if the text ends with this character. */
static bool ends_with(const struct run_job *job, char c)
{
	return job->said_len && job->said[job->said_len - 1] == c;
}

/* The newline at the end of a file, LF or CRLF, is that of its last line. */
static int read_file(struct run_job *job)
{
	int r = infile_read(job->args->prompt_file, PROMPT_MAX, false,
			    &job->file, &job->said_len);

	if (r)
		return r;
	job->said = job->file;
	if (!ends_with(job, '\n'))
		return 0;
	job->said_len--;
	if (ends_with(job, '\r'))
		job->said_len--;
	return 0;
}

/*
 * Read what the prompt says, which may wait for stdin. Returns 0, or
 * EXIT_FAILURE after a line on stderr.
 */
static int run_prompt_read(struct run_job *job)
{
	const struct run_args *a = job->args;

	if (a->prompt_file)
		return read_file(job);
	job->said = a->prompt;
	job->said_len = a->prompt ? strlen(a->prompt) : 0;
	return 0;
}

/* What the user says, in the template of the model. */
static int encode_turn(struct run_job *job)
{
	const struct run_args *a = job->args;
	struct chat chat;
	int r = a->template ? chat_named(a->template, &chat)
			    : chat_from_model(job->llama.model, &chat);

	if (r == -ENOENT || r == -EOPNOTSUPP)
		return fail("%s: choose one with --template, or leave out "
			    "--chat",
			    text_error());
	if (r < 0)
		return fail("%s", text_error());
	r = chat_encode(&chat, job->tokenizer, a->system, job->said,
			job->said_len, &job->prompt);
	chat_fini(&chat);
	return r < 0 ? fail("--chat: %s", text_error()) : 0;
}

/* The text as it is, which the model continues. */
static int encode_text(struct run_job *job)
{
	const struct run_args *a = job->args;

	if (tokenizer_encode(job->tokenizer, job->said, job->said_len,
			     TOKENIZER_ADD, &job->prompt) < 0)
		return fail("%s: %s",
			    a->prompt_file ? infile_name(a->prompt_file)
					   : "--prompt",
			    text_error());
	job->continues = job->said_len;
	return 0;
}

/* EOS would say that the text of the prompt is complete. */
static int encode_prompt(struct run_job *job)
{
	struct tokenizer_ids *ids = &job->prompt;
	struct tokenizer_info info;
	int r;

	if (!job->said)
		return 0;
	r = job->args->chat ? encode_turn(job) : encode_text(job);
	tokenizer_info(job->tokenizer, &info);
	if (r == 0 && ids->n && info.adds_eos &&
	    ids->id[ids->n - 1] == info.eos)
		ids->n--;
	return r;
}

/* Without a prompt, or with an empty one. */
static int begin_text(struct run_job *job)
{
	struct tokenizer_ids *ids = &job->prompt;
	struct tokenizer_info info;

	if (ids->n)
		return 0;
	tokenizer_info(job->tokenizer, &info);
	if (info.bos < 0)
		info.bos = job->llama.config.bos;
	if (info.bos < 0)
		return fail("%s: the model has no token that begins a text: "
			    "give it a --prompt",
			    job->args->path);
	free(ids->id);
	ids->id = malloc(sizeof(*ids->id));
	if (!ids->id)
		return fail_memory();
	ids->id[ids->n++] = info.bos;
	return 0;
}

static int check_prompt(const struct run_job *job)
{
	const struct llama_config *c = &job->llama.config;
	const struct tokenizer_ids *ids = &job->prompt;
	char tokens[COUNT_TEXT];

	if ((int64_t)ids->n > c->context)
		return fail("%s: the prompt has %s, and the context of the "
			    "model %lld",
			    job->args->path,
			    count_text(ids->n, "token", tokens),
			    (long long)c->context);
	for (size_t i = 0; i < ids->n; i++)
		if (ids->id[i] >= c->vocabulary)
			return fail("%s: the prompt has token %d, and the "
				    "vocabulary of the model is %s",
				    job->args->path, (int)ids->id[i],
				    count_text((uint64_t)c->vocabulary, "token",
					       tokens));
	return 0;
}

/*
 * Make the tokens of the prompt, with the tokenizer of the job, whose model is
 * open. Returns 0, or EXIT_FAILURE after a line on stderr.
 */
static int run_prompt(struct run_job *job)
{
	int r = encode_prompt(job);

	if (r == 0)
		r = begin_text(job);
	return r ? r : check_prompt(job);
}

enum {
	RUN_STOPPED = -1, /* stopped by a signal */
	POLL_NS = 50 * 1000 * 1000,
	REPEAT_TOKENS = 64 /* tokens that --repeat-penalty makes less likely */
};

static int read_tokenizer(struct run_job *job)
{
	struct tokenizer_info info;

	if (tokenizer_from_model(job->llama.model, &job->tokenizer) < 0)
		return fail("%s", text_error());
	tokenizer_info(job->tokenizer, &info);
	job->choices = (size_t)job->llama.config.vocabulary;
	if (info.count < job->choices)
		job->choices = info.count;
	return run_prompt(job);
}

/* Room for the most tokens that -n and the context allow. */
static int make_room(struct run_job *job)
{
	const struct run_args *a = job->args;
	const unsigned flags = job->continues ? TOKENIZER_CONTINUE : 0;
	const struct sampler_opts opts = {
		.repeat = (float)a->repeat,
		.top_k = (uint32_t)a->top_k,
		.top_p = (float)a->top_p,
		.min_p = (float)a->min_p,
		.temperature = (float)a->temperature,
		.seed = a->seed,
	};
	int64_t most = job->llama.config.context - (int64_t)job->prompt.n + 1;

	if (most > a->n)
		most = a->n;
	job->made.id = calloc((size_t)most, sizeof(*job->made.id));
	job->made.room = (size_t)most;
	job->logits = calloc((size_t)job->llama.config.vocabulary,
			     sizeof(*job->logits));
	if (!job->made.id || !job->logits)
		return fail_memory();
	if (sampler_init(&job->sampler, &opts) < 0 ||
	    tokenizer_decoder_new(job->tokenizer, flags, &job->decoder) < 0)
		return fail("%s", text_error());
	return 0;
}

static int start_model(struct run_job *job)
{
	struct llama_opts opts = LLAMA_OPTS_INIT;
	int r;

	opts.context = (int64_t)(job->prompt.n + job->made.room) - 1;
	opts.precision = job->args->precision;
	opts.threads = job->args->threads;
	opts.devs = job->dev;
	opts.n_devs = job->n_devs;
	opts.budget = (int64_t)job->args->budget;
	opts.stop = signals_caught;
	r = llama_start(&job->llama, &opts);
	return r < 0 ? fail_budget(job->args->path, job->args->budget, r) : 0;
}

static int open_model(struct run_job *job)
{
	const struct run_args *a = job->args;
	int r;

	if (weir_open(&a->root, &job->weir) < 0)
		return fail_weir();
	if (a->devices &&
	    llama_devices(job->weir, a->devices, &job->dev, &job->n_devs) < 0)
		return fail_devices(a->devices);
	if (llama_open(job->weir, a->path, &job->llama) < 0)
		return fail_llama(job->args->path);
	if ((r = read_tokenizer(job)) || (r = make_room(job)) ||
	    (r = start_model(job)))
		return r;
	job->times.ready = now_ns();
	return 0;
}

/* Returns 0, RUN_STOPPED, or EXIT_FAILURE after a line on stderr. */
static int read_tokens(struct run_job *job, const int32_t *id, size_t n)
{
	int r = llama_read(&job->llama, id, (int64_t)n, false, job->logits);

	if (r < 0 && signals_caught())
		return RUN_STOPPED;
	return r < 0 ? fail_budget(job->args->path, job->args->budget, r) : 0;
}

/* Only after the load is it known that no file changed meanwhile. */
static int end_load(struct run_job *job)
{
	struct weir_load *load = job->llama.weights.load;
	int r;

	while ((r = weir_load_wait(load, POLL_NS)) == -ETIMEDOUT)
		if (signals_caught())
			return RUN_STOPPED;
	job->load.size = sizeof(job->load);
	if (r == 0)
		r = weir_load_report(load, &job->load);
	return r < 0 ? fail_weir() : 0;
}

static int read_prompt(struct run_job *job)
{
	int r = read_tokens(job, job->prompt.id, job->prompt.n);

	if (r == 0)
		r = end_load(job);
	if (r == 0)
		job->times.prompt = now_ns();
	return r;
}

/* Lower the scores of the last tokens of prompt and text. */
static void lower_repeated(struct run_job *job)
{
	const struct tokenizer_ids *prompt = &job->prompt, *made = &job->made;
	int32_t last[REPEAT_TOKENS];
	size_t n = 0;

	while (n < REPEAT_TOKENS && n < made->n) {
		n++;
		last[n - 1] = made->id[made->n - n];
	}
	for (size_t i = prompt->n; i && n < REPEAT_TOKENS; i--)
		last[n++] = prompt->id[i - 1];
	sampler_repeat(&job->sampler, last, n, job->logits, job->choices);
}

static int choose(struct run_job *job, int32_t *ret_id)
{
	int64_t begun = now_ns(), end;

	lower_repeated(job);
	if (sampler_choose(&job->sampler, job->logits, job->choices, ret_id) <
	    0)
		return fail("%s: %s", job->args->path, text_error());
	end = now_ns();
	if (!job->times.first)
		job->times.first = end;
	job->times.choose += end - begun;
	return 0;
}

static int write_token(struct run_job *job, int32_t id)
{
	int64_t begun = now_ns();
	const char *s;
	size_t len;
	int r;

	if (tokenizer_decode(job->decoder, id, &s, &len) < 0)
		return fail("%s: %s", job->args->path, text_error());
	r = run_text_add(&job->text, s, len);
	job->times.output += now_ns() - begun;
	return r;
}

static bool is_end(const struct run_job *job, int32_t id)
{
	return llama_is_end(&job->llama.config, id) ||
	       tokenizer_is_end(job->tokenizer, id);
}

/*
 * Choose a token from the logits and write it. Returns 0, or EXIT_FAILURE after
 * a line on stderr.
 */
static int make_token(struct run_job *job, bool *ret_last)
{
	const struct llama *l = &job->llama;
	int32_t id;
	int r = choose(job, &id);

	if (r)
		return r;
	*ret_last = true;
	if (is_end(job, id)) {
		job->end = RUN_END_TOKEN;
		job->end_token = id;
		return 0;
	}
	job->made.id[job->made.n++] = id;
	if ((int64_t)job->made.n == job->args->n)
		job->end = RUN_END_LIMIT;
	else if (l->position == l->config.context)
		job->end = RUN_END_CONTEXT;
	else
		*ret_last = false;
	return write_token(job, id);
}

static int generate(struct run_job *job)
{
	bool last = false;
	int r = read_prompt(job);

	while (r == 0 && (r = make_token(job, &last)) == 0 && !last)
		r = read_tokens(job, &job->made.id[job->made.n - 1], 1);
	if (r != RUN_STOPPED)
		return r;
	job->end = RUN_END_SIGNAL;
	return 0;
}

/* The bytes of a last character that is incomplete. */
static int end_text(struct run_job *job)
{
	const char *s;
	size_t len;
	int r;

	tokenizer_decode_end(job->decoder, &s, &len);
	r = run_text_add(&job->text, s, len);
	run_text_end(&job->text);
	return r;
}

static int run_job(struct run_job *job)
{
	int r = open_model(job);

	if (r)
		return r;
	r = generate(job);
	if (r == 0)
		r = end_text(job);
	else
		run_text_end(&job->text);
	job->times.end = now_ns();
	return r;
}

static void print_results(const struct run_job *job)
{
	if (job->args->json)
		run_report_json(job);
	else if (!job->args->quiet)
		run_report(job);
	(void)out_flush();
}

static void close_job(struct run_job *job)
{
	llama_close(&job->llama);
	tokenizer_decoder_free(job->decoder);
	tokenizer_free(job->tokenizer);
	free(job->file);
	free(job->prompt.id);
	free(job->made.id);
	free(job->logits);
	sampler_fini(&job->sampler);
	free(job->text.s);
	free(job->dev);
	weir_close(job->weir);
}

int run_main(int argc, char **argv)
{
	struct run_args args;
	struct run_job job = { .args = &args, .end_token = -1 };
	int r = run_args_parse(argc, argv, &args);

	if (r)
		return r == ARGS_HELP ? 0 : r;
	r = run_prompt_read(&job);
	if (r)
		return r;
	job.times.begun = now_ns();
	job.text.keep = args.json;
	job.text.terminal = isatty(STDOUT_FILENO);
	signals_catch(NULL);
	r = run_job(&job);
	if (r == 0)
		print_results(&job);
	close_job(&job);
	signals_release();
	return r;
}
