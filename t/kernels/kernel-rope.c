/* SPDX-License-Identifier: MIT */
/* The kernel of rotary positions. */
#include <weir.h>

#include "dtypes.h"
#include "tap.h"
#include "trial.h"

/* Angles are computed from positions in F32, with errors of their own. */
#define NEAR_ROPE 1e-8

static const char *const modes[] = { "NORMAL", "NEOX" };

static double rope_near(enum weir_dtype dtype)
{
	return dtype == F32 ? NEAR_ROPE : near_of(dtype);
}

static struct weir_node *positions(int n)
{
	return put_ids(I32, 600, 1, n);
}

static void rope(uint32_t mode)
{
	const enum weir_dtype dtypes[] = { F32, F16 };
	struct weir_op_rope p = { .mode = mode };

	for (unsigned i = 0; i < 2; i++) {
		enum weir_dtype d = dtypes[i];

		p = (struct weir_op_rope){ .mode = mode };
		same(weir_rope(g, put(d, 3, 7, 3, 16), positions(7), NULL, &p),
		     rope_near(d), "rope %s of %s is right", modes[mode],
		     dtype_name(d));
		p.n_dims = 10;
		same(weir_rope(g, put(d, 3, 7, 3, 16), positions(7), NULL, &p),
		     rope_near(d), "rope %s of %s copies the rest of rows",
		     modes[mode], dtype_name(d));
	}
	p = (struct weir_op_rope){ .mode = mode,
				   .base = 500000,
				   .freq_scale = 0.25f,
				   .attn_factor = 1.5f };
	same(weir_rope(g, put(F32, 4, 2, 7, 3, 64), positions(7), NULL, &p),
	     NEAR_ROPE, "rope %s with base, freq_scale and attn_factor",
	     modes[mode]);
	same(weir_rope(g, put(F32, 3, 7, 3, 16), positions(7),
		       weir_scale(g, weir_sqr(g, put(F32, 1, 8)), 1, 0.5f), &p),
	     NEAR_ROPE, "rope %s divides angles by factors", modes[mode]);
}

static void rope_views(uint32_t mode)
{
	struct weir_op_rope p = { .mode = mode, .n_dims = 8 };
	const double pos[] = { 0, -3, 0, 1, 2 };

	same(weir_rope(g, weir_permute(g, put(F32, 3, 3, 7, 16), 3, D(1, 0, 2)),
		       positions(7), NULL, &p),
	     NEAR_ROPE, "rope %s takes permuted heads", modes[mode]);
	same(weir_rope(g, weir_slice(g, put(F32, 3, 7, 9, 16), 1, 2, 3),
		       positions(7), NULL, &p),
	     NEAR_ROPE, "rope %s takes a slice of heads", modes[mode]);
	same(weir_rope(g, put(F32, 3, 5, 2, 16), put_values(I32, pos, 1, 5),
		       NULL, &p),
	     NEAR_ROPE, "rope %s takes position 0 and negative ones",
	     modes[mode]);
	same(weir_rope(g, put(F32, 3, 0, 2, 16), put(I32, 1, 0), NULL, &p),
	     NEAR_ROPE, "rope %s of no tokens is empty", modes[mode]);
	p.n_dims = 0;
	same(weir_rope(g, put(F32, 3, 65, 8, 64), positions(65), NULL, &p),
	     NEAR_ROPE, "rope %s of many heads is right in all its parts",
	     modes[mode]);
}

static void yarn(uint32_t mode)
{
	struct weir_op_rope p = { .mode = mode,
				  .freq_scale = 0.25f,
				  .ext_factor = 1,
				  .context = 4096 };

	same(weir_rope(g, put(F32, 3, 7, 3, 128), positions(7), NULL, &p),
	     NEAR_ROPE, "rope %s with YaRN is right", modes[mode]);
	p.ext_factor = 0.5f;
	p.attn_factor = 0.8f;
	p.beta_fast = 16;
	p.beta_slow = 2;
	p.n_dims = 64;
	same(weir_rope(g, put(F32, 3, 7, 3, 80), positions(7),
		       weir_scale(g, weir_sqr(g, put(F32, 1, 32)), 1, 0.5f),
		       &p),
	     NEAR_ROPE, "rope %s with all of YaRN and factors is right",
	     modes[mode]);
	p.context = 3;
	same(weir_rope(g, put(F32, 3, 7, 3, 80), positions(7), NULL, &p),
	     NEAR_ROPE, "rope %s with YaRN and a short context is right",
	     modes[mode]);
}

int main(void)
{
	trials_begin();
	for (uint32_t mode = 0; mode < 2; mode++) {
		rope(mode);
		rope_views(mode);
		yarn(mode);
	}
	return trials_end();
}
