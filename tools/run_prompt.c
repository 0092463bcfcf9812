/* SPDX-License-Identifier: MIT */
/* The prompt of weir run, from its text to its tokens. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "infile.h"
#include "output.h"
#include "run.h"

#define PROMPT_MAX ((size_t)1 << 30)

/* Does the text end with this character? */
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

int run_prompt_read(struct run_job *job)
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

int run_prompt(struct run_job *job)
{
	int r = encode_prompt(job);

	if (r == 0)
		r = begin_text(job);
	return r ? r : check_prompt(job);
}
