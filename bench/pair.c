/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

#define TRIES 8u
#define QUIET 0.1 /* share of the machine that other programs may use */

/* After all tries ten of 1000 pages may still be in the other state. */
void bench_ready(const struct file *f, bool resident)
{
	unsigned in = raw_resident(f->path);

	for (unsigned i = 0; i < TRIES; i++) {
		if (resident ? in == 1000 : in == 0)
			return;
		if (resident)
			raw_warm(f->path);
		else
			raw_cold(f->path);
		in = raw_resident(f->path);
	}
	if (resident ? in < 990 : in > 10)
		die("%s: %u of 1000 pages are in the page cache, all or none are wanted",
		    f->path, in);
}

static void measure_once(const struct pair *p, bool second, struct sample *s)
{
	double busy, cpu, begun, all;

	if (p->file_a)
		bench_ready(second ? p->file_b : p->file_a, p->resident);
	if (p->before)
		p->before(p->arg);
	busy = raw_busy();
	cpu = raw_cpu();
	begun = raw_now();
	(second ? p->b : p->a)(p->arg, s);
	all = (raw_now() - begun) * (double)sysconf(_SC_NPROCESSORS_ONLN);
	s->others = (raw_busy() - busy - (raw_cpu() - cpu)) / all;
}

static void measure(const struct pair *p, bool second, struct sample *s)
{
	struct sample again;

	measure_once(p, second, s);
	for (unsigned i = 1; i < REPEATS && s->others > QUIET; i++) {
		measure_once(p, second, &again);
		if (again.others < s->others)
			*s = again;
	}
}

static double rate(const struct sample *s)
{
	return (double)s->bytes / 1e9 / s->seconds;
}

void pair_run(const struct pair *p, unsigned pairs, bool in_ms,
	      struct result *ret)
{
	double ratio[MAX_PAIRS], a[MAX_PAIRS], b[MAX_PAIRS], cpu[MAX_PAIRS];
	struct sample s[2];
	struct spread all;
	unsigned disturbed = 0;

	measure(p, false, &s[0]); /* not counted */
	measure(p, true, &s[1]);
	for (unsigned i = 0; i < pairs; i++) {
		bool second = i % 2; /* A B, B A, ... */

		measure(p, second, &s[second]);
		measure(p, !second, &s[!second]);
		ratio[i] = rate(&s[1]) / rate(&s[0]);
		a[i] = in_ms ? s[0].seconds * 1e3 : rate(&s[0]);
		b[i] = in_ms ? s[1].seconds * 1e3 : rate(&s[1]);
		cpu[i] = s[1].cpu * 1e3 / ((double)s[1].bytes / 1e9);
		disturbed += s[0].others > QUIET || s[1].others > QUIET;
	}
	memset(ret, 0, sizeof(*ret));
	ret->disturbed = disturbed;
	snprintf(ret->name, sizeof(ret->name), "%s", p->name);
	snprintf(ret->limit, sizeof(ret->limit), "%s", p->limit);
	ret->unit = in_ms ? "ms" : "GB/s";
	ret->limit_value = spread_of(a, pairs).mid;
	ret->value = spread_of(b, pairs).mid;
	all = spread_of(ratio, pairs);
	ret->ratio = all.mid;
	ret->low = all.low;
	ret->high = all.high;
	ret->cpu = in_ms ? 0 : spread_of(cpu, pairs).mid;
}
