/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "slices.h"
#include "sample.h"
#include "sinks.h"
#include "tap.h"

static void check_bytes(struct seen *s, uint64_t file_off, const void *data,
			size_t n)
{
	const unsigned char *p = data;

	for (size_t k = 0; k < n; k++)
		if (p[k] != sample_byte(file_off + k, 1)) {
			s->differing++;
			return;
		}
}

static void check_order(struct seen *s, size_t record, uint64_t off,
			uint64_t place)
{
	s->disorder += off != s->at[record] || place < s->place;
}

static int on_chunk(void *arg, size_t i, uint64_t off, const void *data,
		    size_t n)
{
	struct seen *s = arg;
	size_t record = s->record ? s->record[i] : i;
	uint64_t place = entry_of(s->model, record).offset + off;
	int r = 0;

	s->concurrent += atomic_exchange(&s->busy, true);
	s->other_thread += s->chunks &&
			   !pthread_equal(s->thread, pthread_self());
	s->thread = pthread_self();
	check_order(s, record, off, place);
	check_bytes(s, place, data, n);
	if (s->act && record == s->tensor && s->when >= off &&
	    s->when < off + n)
		r = s->act(s->act_arg);
	s->at[record] += n;
	s->place = place + n;
	s->bytes += n;
	s->chunks++;
	atomic_store(&s->busy, false);
	return r;
}

void seen_init(struct seen *seen, struct weir_model *m)
{
	memset(seen, 0, sizeof(*seen));
	seen->model = m;
}

void seen_act(struct seen *seen, size_t tensor, uint64_t when,
	      int (*act)(void *arg), void *arg)
{
	seen->tensor = tensor;
	seen->when = when;
	seen->act = act;
	seen->act_arg = arg;
}

bool seen_right(const struct seen *s)
{
	if (s->disorder || s->differing || s->concurrent || s->other_thread)
		diag("disorder %u, differing %u, concurrent %u, threads %u",
		     s->disorder, s->differing, s->concurrent, s->other_thread);
	return !s->disorder && !s->differing && !s->concurrent &&
	       !s->other_thread;
}

size_t seen_missing(const struct seen *s)
{
	size_t n = 0;

	for (size_t i = 0; i < weir_model_count(s->model); i++)
		n += s->at[i] != entry_of(s->model, i).bytes;
	return n;
}

struct weir_sink seen_sink(struct seen *seen)
{
	struct weir_sink sink = WEIR_SINK_INIT;

	sink.chunk = on_chunk;
	sink.arg = seen;
	return sink;
}

int sink(struct weir_plan *p, const char *glob, struct seen *seen)
{
	struct weir_sink s = seen_sink(seen);
	int r = weir_plan_sink(p, glob, &s);

	if (r < 0)
		bail("%s", weir_error());
	return r;
}
