/* SPDX-License-Identifier: MIT */
/* The choice of the next token. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../text/sampler.h"
#include "tap.h"

#define N(array) (sizeof(array) / sizeof((array)[0]))

static int32_t choose(struct sampler *s, const float *score, size_t n)
{
	int32_t id = -1;

	return sampler_choose(s, score, n, &id) < 0 ? -1 : id;
}

static struct sampler with_opts(struct sampler_opts opts)
{
	struct sampler s;

	if (sampler_init(&s, &opts) < 0)
		bail("%s", text_error());
	return s;
}

/* Make a sampler that chooses from all tokens. */
static struct sampler with(float temperature, uint64_t seed)
{
	return with_opts((struct sampler_opts){ .repeat = 1,
						.top_p = 1,
						.temperature = temperature,
						.seed = seed });
}

/* The first numbers of pcg32-demo, from the author's distribution. */
static void generator(void)
{
	static const uint32_t want[] = { 0xa15c02b7, 0x7b47f409, 0xba1d3330,
					 0x83d2f293, 0xbfa4784b, 0xcbed606e };
	struct sampler s = with(1, 0);
	uint32_t got[N(want)];

	sampler_seed(&s, 42, 54);
	for (size_t i = 0; i < N(want); i++)
		got[i] = sampler_random(&s);
	is_mem(got, want, sizeof(want),
	       "the generator gives the numbers of its reference");
}

static void greatest(void)
{
	static const float tie[] = { 1, 3, -2, 3, 3 };
	static const float low[] = { -INFINITY, -INFINITY, -1e30f };
	static const float none[] = { -INFINITY, -INFINITY };
	struct sampler s = with(0, 1);

	is_int(choose(&s, tie, N(tie)), 1,
	       "temperature 0 chooses the lowest of the greatest");
	is_int(choose(&s, low, N(low)), 2,
	       "scores of minus infinity are never chosen");
	is_int(choose(&s, none, N(none)), 0,
	       "the first of tokens without any chance is chosen");
}

static void seeds(void)
{
	static const float score[64] = { 0 };
	struct sampler a = with(1, 7), b = with(1, 7), c = with(1, 8);
	unsigned equal = 0, other = 0;

	for (unsigned i = 0; i < 100; i++) {
		int32_t id = choose(&a, score, N(score));

		equal += id == choose(&b, score, N(score));
		other += id == choose(&c, score, N(score));
	}
	is_int(equal, 100, "equal seeds give equal choices");
	ok(other < 20, "another seed gives other choices");
}

static void probabilities(void)
{
	/* exp(score / 2): 1, 2, 4 and 0 */
	const float score[] = { 0, 2 * logf(2), 2 * logf(4), -INFINITY };
	struct sampler s = with(2, 3);
	double n[4] = { 0 };

	for (unsigned i = 0; i < 70000; i++)
		n[choose(&s, score, N(score))]++;
	ok(fabs(n[0] - 10000) < 500 && fabs(n[1] - 20000) < 700 &&
		   fabs(n[2] - 40000) < 700 && !n[3],
	   "tokens are chosen with their probabilities");
	diag("%.0f %.0f %.0f %.0f", n[0], n[1], n[2], n[3]);
}

static void large_scores(void)
{
	static const float score[] = { 3e38f, -3e38f, 3e38f, INFINITY };
	struct sampler s = with(1e-6f, 3);

	ok(choose(&s, score, 2) == 0, "large scores do not overflow");
	ok(choose(&s, score, 4) == 3, "an infinite score is always chosen");
}

static void refusals(void)
{
	static const float nan_at_2[] = { 1, 2, NAN };
	struct sampler s = with(1, 0);
	int32_t id = 5;

	is_int(sampler_choose(&s, nan_at_2, 3, &id), -EDOM,
	       "a score that is not a number is refused");
	has_str(text_error(), "token 2",
		"the sentence names the token without a score");
	is_int(id, 5, "a refusal chooses nothing");
	is_int(sampler_choose(&s, nan_at_2, 0, &id), -EINVAL,
	       "a choice of no tokens is refused");
}

/* Wrong options, and a part of the sentence. */
static const struct {
	struct sampler_opts opts;
	const char *what, *why;
} wrong[] = {
	{ { 1, 0, 1, 0, -1, 0 }, "a negative temperature", "-1" },
	{ { 1, 0, 1, 0, NAN, 0 }, "a temperature that is not a number", "nan" },
	{ { 1, 0, 1, 0, INFINITY, 0 }, "an infinite temperature", "inf" },
	{ { 1, 0, 1.5f, 0, 1, 0 }, "a top-p above 1", "top-p is 1.5" },
	{ { 1, 0, NAN, 0, 1, 0 }, "a top-p that is not a number", "top-p" },
	{ { 1, 0, 1, -0.5f, 1, 0 }, "a negative min-p", "min-p is -0.5" },
	{ { 0, 0, 1, 0, 1, 0 }, "a penalty of 0", "repetitions is 0" },
};

static void wrong_options(void)
{
	struct sampler s;

	for (size_t i = 0; i < N(wrong); i++)
		ok(sampler_init(&s, &wrong[i].opts) == -EINVAL &&
			   strstr(text_error(), wrong[i].why),
		   "%s is refused", wrong[i].what);
}

/* Each of the steps on probabilities that are easy to add. */
static unsigned chosen(struct sampler_opts opts)
{
	/* The probabilities in 32nds: 16, 8, 4, 2, 1, 1 */
	static const float of_32[] = { 1, 4, 16, 2, 8, 1 };
	struct sampler s;
	float score[N(of_32)];
	unsigned set = 0;

	opts.repeat = opts.temperature = 1;
	for (size_t i = 0; i < N(of_32); i++)
		score[i] = logf(of_32[i]);
	s = with_opts(opts);
	for (unsigned i = 0; i < 2000; i++)
		set |= 1u << choose(&s, score, N(score));
	sampler_fini(&s);
	return set;
}

static void steps(void)
{
	is_int(chosen((struct sampler_opts){ .top_p = 1 }), 0x3f,
	       "without a limit all tokens are chosen");
	is_int(chosen((struct sampler_opts){ .top_k = 3, .top_p = 1 }), 0x16,
	       "top-k leaves the tokens with the greatest scores");
	is_int(chosen((struct sampler_opts){ .top_k = 5, .top_p = 1 }), 0x1f,
	       "of tokens with equal scores top-k leaves the lowest ids");
	is_int(chosen((struct sampler_opts){ .top_p = 0.7f }), 0x14,
	       "top-p leaves the likeliest tokens that add up to it");
	is_int(chosen((struct sampler_opts){ .top_p = 0 }), 0x04,
	       "a top-p of 0 leaves one token");
	is_int(chosen((struct sampler_opts){ .top_p = 1, .min_p = 0.2f }), 0x16,
	       "min-p leaves tokens that are likely, compared with the best");
	/* With three tokens 16 / 28 is less than 0.8, and 24 / 28 is more. */
	is_int(chosen((struct sampler_opts){ .top_k = 3, .top_p = 0.8f }), 0x14,
	       "top-p looks at the probabilities that top-k has left");
}

/* Compared with an evaluator that sorts all tokens and follows the steps. */

static const float *sorted_by;

static int compare_scores(const void *x, const void *y)
{
	uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;

	if (sorted_by[a] != sorted_by[b])
		return sorted_by[a] > sorted_by[b] ? -1 : 1;
	return a < b ? -1 : a > b;
}

static double sum_plain(const struct sampler_opts *o, const float *score,
			const uint32_t *id, size_t n, bool hot)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += exp(((double)score[id[i]] - score[id[0]]) /
			   (hot ? o->temperature : 1));
	return sum;
}

static uint32_t choose_plain(struct sampler *s, const float *score, size_t n)
{
	const struct sampler_opts *o = &s->opts;
	static uint32_t id[2000];
	double sum, left, so_far = 0;
	uint64_t high;

	for (uint32_t i = 0; i < n; i++)
		id[i] = i;
	sorted_by = score;
	qsort(id, n, sizeof(*id), compare_scores);
	if (o->top_k && o->top_k < n)
		n = o->top_k;
	sum = sum_plain(o, score, id, n, false);
	for (size_t i = 0; i < n && o->top_p < 1; i++) {
		so_far += exp((double)score[id[i]] - score[id[0]]);
		if (so_far >= o->top_p * sum)
			n = i + 1;
	}
	while (score[id[n - 1]] < score[id[0]] + log(o->min_p))
		n--;
	high = sampler_random(s) >> 5;
	left = (double)(high << 26 | sampler_random(s) >> 6) * 0x1p-53 *
	       sum_plain(o, score, id, n, true);
	for (size_t i = 0; i < n; i++) {
		left -= sum_plain(o, score, (uint32_t[]){ id[0], id[i] }, 2,
				  true) -
			1;
		if (left < 0)
			return id[i];
	}
	return id[n - 1];
}

/* Scores in steps, so that many are equal. */
static void random_scores(struct sampler *random, float *score, size_t n)
{
	for (size_t i = 0; i < n; i++)
		score[i] = (float)(sampler_random(random) % 200) / 10 - 10;
	if (sampler_random(random) % 4 == 0)
		score[sampler_random(random) % n] = -INFINITY;
}

static void as_plain(void)
{
	static const uint32_t ks[] = { 0, 1, 2, 40, 1999, 5000 };
	static const float ps[] = { 1, 0.95f, 0.5f, 0, 0.999f };
	static const float mins[] = { 0.05f, 0, 1, 0.3f };
	struct sampler random = with(1, 5);
	static float score[2000];
	unsigned wrong_choices = 0;

	for (unsigned i = 0; i < 600; i++) {
		struct sampler_opts o = SAMPLER_OPTS_INIT;
		struct sampler s, plain;
		size_t n = i % 5 ? 1 + sampler_random(&random) % 100 : 2000;

		o.top_k = ks[i % N(ks)];
		o.top_p = ps[sampler_random(&random) % N(ps)];
		o.min_p = mins[sampler_random(&random) % N(mins)];
		/* Without a limit tokens are taken in another order. */
		if (!o.top_k && o.top_p == 1 && o.min_p == 0)
			o.min_p = 1e-30f;
		o.temperature = 0.1f + (float)(i % 30) / 10;
		o.seed = i;
		s = with_opts(o);
		plain = with_opts(o);
		random_scores(&random, score, n);
		for (unsigned j = 0; j < 5; j++)
			wrong_choices += (uint32_t)choose(&s, score, n) !=
					 choose_plain(&plain, score, n);
		sampler_fini(&s);
	}
	is_int(wrong_choices, 0, "choices are those of a plain evaluator");
}

static void repetitions(void)
{
	static const int32_t last[] = { 1, 3, 1, 7, -1 };
	struct sampler s =
		with_opts((struct sampler_opts){ .repeat = 2, .top_p = 1 });
	float score[] = { 4, 3, -1, -2 };

	sampler_repeat(&s, last, N(last), score, N(score));
	ok(score[0] == 4 && score[1] == 1.5f && score[2] == -1 &&
		   score[3] == -4,
	   "scores of tokens that are repeated are lowered, each once");
	s = with(0, 0);
	sampler_repeat(&s, last, N(last), score, N(score));
	ok(score[1] == 1.5f, "without a penalty no score is changed");
}

int main(void)
{
	plan(0);
	generator();
	greatest();
	seeds();
	probabilities();
	large_scores();
	refusals();
	wrong_options();
	steps();
	as_plain();
	repetitions();
	return done_testing();
}
