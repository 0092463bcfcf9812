/* SPDX-License-Identifier: MIT */
/* The choice of the next token. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "../text/sampler.h"
#include "tap.h"

#define N(array) (sizeof(array) / sizeof((array)[0]))

static int32_t choose(struct sampler *s, const float *score, size_t n)
{
	int32_t id = -1;

	return sampler_choose(s, score, n, &id) < 0 ? -1 : id;
}

static struct sampler with(float temperature, uint64_t seed)
{
	struct sampler s;

	if (sampler_init(&s, temperature, seed) < 0)
		bail("%s", text_error());
	return s;
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
	is_int(sampler_init(&s, -1, 0), -EINVAL,
	       "a negative temperature is refused");
	is_int(sampler_init(&s, NAN, 0), -EINVAL,
	       "a temperature that is not a number is refused");
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
	return done_testing();
}
