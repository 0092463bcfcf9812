/* SPDX-License-Identifier: MIT */
/*
 * The memory that the headers of a model take, and its limits: an option of the
 * model, and the budget of its root. A file of any length can be made without
 * blocks on the disk, so its length says nothing about what it is worth.
 */
#include "alloc/arena.h"
#include "core/error.h"
#include "core/util.h"
#include "model/format/model.h"

typedef unsigned long long ull; /* for printf */

/* Bytes that are claimed from the budget beyond those needed now. */
#define AHEAD(held) ((held) / 8 + WEIR__PAGE)

static int held_refuse(struct weir_model *m, int r)
{
	m->held_refused = true;
	return r;
}

int weir__model_claim(struct weir_model *m)
{
	uint64_t want;
	int r;

	if (m->held > m->limit)
		return held_refuse(
			m,
			weir__fail(
				-ENOMEM,
				"headers and their tables need %llu bytes, %llu are allowed (weir_model_opts.memory)",
				(ull)m->held, (ull)m->limit));
	if (!m->weir || !m->weir->opts.budget) {
		m->held_ok = m->limit;
		return 0;
	}
	want = weir__up(m->held + AHEAD(m->held), WEIR__PAGE);
	r = weir__arena_reserve(m->weir, want - m->claimed);
	if (r < 0) {
		want = weir__up(m->held, WEIR__PAGE);
		r = weir__arena_reserve(m->weir, want - m->claimed);
	}
	if (r < 0)
		return held_refuse(
			m, weir__fail_for(r, "headers and their tables"));
	m->claimed = want;
	m->held_ok = want < m->limit ? want : m->limit;
	return 0;
}

void weir__model_held_end(struct weir_model *m)
{
	uint64_t want = weir__up(m->held, WEIR__PAGE);

	if (m->claimed > want) {
		weir__arena_unreserve(m->weir, m->claimed - want);
		m->claimed = want;
		m->held_ok = m->held;
	}
}

void weir__model_held_free(struct weir_model *m)
{
	if (m->claimed)
		weir__arena_unreserve(m->weir, m->claimed);
}
