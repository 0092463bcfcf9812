/* SPDX-License-Identifier: MIT */
/* The JSON of weir run. */
#include <string.h>
#include "output.h"
#include "run.h"
#include "text.h"

static json_t *tokens_json(const struct tokenizer_ids *ids)
{
	json_t *list = json_array();

	for (size_t i = 0; i < ids->n; i++)
		json_array_append_new(list, json_integer(ids->id[i]));
	return list;
}

static json_t *times_json(const struct run_facts *f)
{
	return json_pack("{s:f, s:f, s:f, s:f, s:f}", "open", f->open, "passes",
			 f->passes, "choose", f->choose, "output", f->output,
			 "rest", f->rest);
}

void run_report_json(const struct run_job *job)
{
	const struct run_args *a = job->args;
	struct run_facts f;

	run_facts(job, &f);
	out_json(json_pack(
		"{s:o, s:o, s:o, s:s, s:f, s:I, s:f, s:f, s:f, s:I, s:f, s:f, s:f, s:f, s:f, s:f, "
		"s:o, s:f, s:f, s:f, s:I, s:I, s:I}",
		"text", text_json(job->text.s ? job->text.s : "", job->text.n),
		"tokens", tokens_json(&job->made), "prompt_tokens",
		tokens_json(&job->prompt), "end", run_end_name(job->end),
		"temp", a->temperature, "top_k", (json_int_t)a->top_k, "top_p",
		a->top_p, "min_p", a->min_p, "repeat_penalty", a->repeat,
		"seed", (json_int_t)a->seed, "seconds", f.total,
		"first_token_seconds", f.first, "prompt_seconds", f.prompt,
		"prompt_rate", f.prompt_rate, "decode_seconds", f.decode,
		"decode_rate", f.decode_rate, "time", times_json(&f),
		"compute_seconds", f.compute, "wait_seconds", f.wait,
		"prefetch_wait_seconds", f.feed, "loaded_bytes",
		(json_int_t)job->load.bytes, "kept_bytes",
		(json_int_t)job->llama.kept, "prefetched_bytes",
		(json_int_t)job->llama.fed));
	putchar('\n');
}
