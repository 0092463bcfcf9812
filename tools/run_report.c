/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>
#include "output.h"
#include "run.h"
#include "text.h"

/* Facts: seconds, tokens a second; 0 if there was nothing to measure. */
struct run_facts {
	double total, first;   /* until the end, until the first token */
	double prompt, decode; /* time for reading the prompt, and for what
				  follows */
	double prompt_rate, decode_rate;
	double open, passes, choose, output, rest; /* add up to total */
	double compute, wait, prefetch; /* time in passes, summed over
					   devices */
};

static double seconds(int64_t ns)
{
	return (double)ns / 1e9;
}

static double rate(size_t n, double s)
{
	return s > 0 ? (double)n / s : 0;
}

/* The first token follows from the prompt: reading tokens gives the others. */
static size_t decoded(const struct run_job *job)
{
	return job->made.n ? job->made.n - 1 : 0;
}

static void run_facts(const struct run_job *job, struct run_facts *ret_facts)
{
	const struct run_times *t = &job->times;
	struct run_facts f = { .total = seconds(t->end - t->begun) };

	f.open = seconds((t->ready ? t->ready : t->end) - t->begun);
	if (t->prompt)
		f.prompt = seconds(t->prompt - t->ready);
	if (t->first) {
		f.first = seconds(t->first - t->begun);
		f.decode = seconds(t->end - t->first);
	}
	f.prompt_rate = t->prompt ? rate(job->prompt.n, f.prompt) : 0;
	f.decode_rate = rate(decoded(job), f.decode);
	f.passes = seconds(job->llama.pass_ns);
	f.wait = seconds(job->llama.wait_ns);
	f.prefetch = seconds(job->llama.prefetch_wait_ns);
	f.compute = seconds(job->llama.compute_ns);
	f.choose = seconds(t->choose);
	f.output = seconds(t->output);
	f.rest = f.total - f.open - f.passes - f.choose - f.output;
	*ret_facts = f;
}

const char *run_end_name(enum run_end end)
{
	static const char *const names[] = {
		[RUN_END_TOKEN] = "token",
		[RUN_END_LIMIT] = "limit",
		[RUN_END_CONTEXT] = "context",
		[RUN_END_SIGNAL] = "signal",
	};

	return names[end];
}

static void report_end(const struct run_job *job)
{
	char tokens[COUNT_TEXT];

	switch (job->end) {
	case RUN_END_TOKEN:
		note("  end     the model has ended the text (token %d)",
		     (int)job->end_token);
		break;
	case RUN_END_LIMIT:
		note("  end     -n %lld", (long long)job->args->n);
		break;
	case RUN_END_CONTEXT:
		note("  end     the context of the model is full: %s",
		     count_text((uint64_t)job->llama.config.context, "token",
				tokens));
		break;
	case RUN_END_SIGNAL:
		note("  end     a signal");
		break;
	}
}

static void report_rates(const struct run_job *job, const struct run_facts *f)
{
	char tokens[COUNT_TEXT];

	if (job->times.first)
		note("  prompt  %s in %.3f s, %.1f tokens/s; first token after "
		     "%.3f s",
		     count_text(job->prompt.n, "token", tokens), f->prompt,
		     f->prompt_rate, f->first);
	if (decoded(job))
		note("  decode  %s in %.3f s, %.1f tokens/s",
		     count_text(decoded(job), "token", tokens), f->decode,
		     f->decode_rate);
}

static void report_passes(const struct run_job *job, const struct run_facts *f)
{
	const char *sum = job->llama.n_parts > 1 ? ", summed over devices" : "";

	if (!job->args->budget)
		note("  passes  %.3f s computing, %.3f s waiting%s", f->compute,
		     f->wait, sum);
	else
		note("  passes  %.3f s computing, %.3f s waiting, %.3f s "
		     "waiting for weights that are prefetched%s",
		     f->compute, f->wait, f->prefetch, sum);
}

static void report_weights(const struct run_job *job)
{
	char a[SIZE_TEXT], b[SIZE_TEXT], c[SIZE_TEXT];

	if (!job->args->budget)
		note("  weights %s loaded", size_text(job->load.bytes, a));
	else
		note("  weights %s loaded, %s kept, %s prefetched",
		     size_text(job->load.bytes, a),
		     size_text(job->llama.kept, b),
		     size_text(job->llama.prefetched, c));
}

/* The options that repeat the run: nine digits give the same float again. */
static void report_choice(const struct run_args *a)
{
	char repeat[64] = "";

	if (a->repeat != 1)
		snprintf(repeat, sizeof(repeat), " --repeat-penalty %.9g",
			 a->repeat);
	if (a->temperature > 0)
		note("  choice  --temp %.9g --top-k %llu --top-p %.9g --min-p "
		     "%.9g%s --seed %llu",
		     a->temperature, (unsigned long long)a->top_k, a->top_p,
		     a->min_p, repeat, (unsigned long long)a->seed);
	else
		note("  choice  --temp 0%s: the most likely token", repeat);
}

void run_report(const struct run_job *job)
{
	const struct run_args *a = job->args;
	char tokens[COUNT_TEXT];
	struct run_facts f;

	run_facts(job, &f);
	note("%s: %s in %.3f s", a->path,
	     count_text(job->made.n, "token", tokens), f.total);
	report_end(job);
	report_rates(job, &f);
	note("  time    %.3f s to open, %.3f s in passes, %.3f s choosing, "
	     "%.3f s writing, %.3f s else",
	     f.open, f.passes, f.choose, f.output, f.rest);
	report_passes(job, &f);
	report_weights(job);
	report_choice(a);
}

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
		"prefetch_wait_seconds", f.prefetch, "loaded_bytes",
		(json_int_t)job->load.bytes, "kept_bytes",
		(json_int_t)job->llama.kept, "prefetched_bytes",
		(json_int_t)job->llama.prefetched));
	putchar('\n');
}
