/* SPDX-License-Identifier: MIT */
/* The kernel of attention: lengths of sequences, pages, causal and windows. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include <weir.h>

#include "dtypes.h"
#include "tap.h"
#include "trial.h"

#define MOST 8 /* sequences */

struct form {
	int sequences, heads, heads_k, tokens, d, dv;
	int page, n; /* pages of a sequence; page 0: no pages, n positions */
	enum weir_dtype dtype; /* of k and v */
	struct weir_op_attention p;
	bool has_sinks, has_mask;
	double length[MOST];
};

static struct weir_node *lengths_of(const struct form *f)
{
	return put_values(I32, f->length, 1, f->sequences);
}

/* Pages of the pool in random order; @wrong: one of them is out of range. */
static struct weir_node *pages_of(const struct form *f, int pool, double wrong)
{
	int n = f->sequences * f->n;
	double *page = calloc((size_t)pool, sizeof(*page));
	struct weir_node *node;

	for (int i = 0; i < pool; i++)
		page[i] = i;
	for (int i = pool - 1; i > 0; i--) {
		int j = (int)random_below((uint64_t)i + 1);
		double swap = page[i];

		page[i] = page[j];
		page[j] = swap;
	}
	if (wrong != 0)
		page[n - 1] = wrong;
	node = put_values(I32, page, 2, f->sequences, f->n);
	free(page);
	return node;
}

static struct weir_node *attend(const struct form *f, double wrong)
{
	struct weir_op_attention p = f->p;
	int pool = f->sequences * f->n + 2, s = f->n * (f->page ? f->page : 1);
	struct weir_node *src[7] = { NULL };

	p.page = (uint32_t)f->page;
	src[0] = put(F32, 4, f->sequences, f->heads, f->tokens, f->d);
	if (f->page) {
		src[1] = put(f->dtype, 3, f->heads_k, pool * f->page, f->d);
		src[2] = put(f->dtype, 3, f->heads_k, pool * f->page, f->dv);
		src[6] = pages_of(f, pool, wrong);
	} else {
		src[1] = put(f->dtype, 4, f->sequences, f->heads_k, s, f->d);
		src[2] = put(f->dtype, 4, f->sequences, f->heads_k, s, f->dv);
	}
	if (f->has_mask)
		src[3] = put(F32, 2, f->tokens, s);
	if (f->has_sinks)
		src[4] = put(F32, 1, f->heads);
	src[5] = lengths_of(f);
	return weir_graph_op(g, WEIR_OP_ATTENTION, &p, sizeof(p), src, 7);
}

static double near(enum weir_dtype dtype)
{
	return dtype > WEIR_DTYPE_GGML ? NEAR_PRODUCT_QUANT
	       : dtype == BF16         ? NEAR_PRODUCT_BF16
	       : dtype == F16          ? NEAR_PRODUCT_F16
				       : NEAR_F32;
}

#define RIGHT(f, ...) same(attend(&(f), 0), near((f).dtype), __VA_ARGS__)

static void lengths_dtypes(void)
{
	const enum weir_dtype dtypes[] = { F32, F16, BF16, WEIR_DTYPE_Q8_0,
					   WEIR_DTYPE_Q4_0 };

	for (unsigned i = 0; i < 5; i++) {
		struct form f = { .sequences = 4,
				  .heads = 4,
				  .heads_k = 2,
				  .tokens = 1,
				  .d = 32,
				  .dv = 64,
				  .page = 16,
				  .n = 3,
				  .dtype = dtypes[i],
				  .length = { 17, 0, 48, 1 } };

		RIGHT(f, "attention with pages of %s is right",
		      dtype_name(f.dtype));
		f.page = 0;
		f.n = 48;
		RIGHT(f, "attention with lengths of %s is right",
		      dtype_name(f.dtype));
		f.p.causal = 1;
		f.p.window = 20;
		f.tokens = 5;
		RIGHT(f, "attention with a window of %s is right",
		      dtype_name(f.dtype));
	}
}

/* Lengths of 0, of less than the tokens, of all positions. */
static void lengths_causal(int tokens, uint32_t window, int page)
{
	struct form f = { .sequences = 5,
			  .heads = 6,
			  .heads_k = 2,
			  .tokens = tokens,
			  .d = 16,
			  .dv = 24,
			  .page = page,
			  .n = page ? 140 / page : 140,
			  .dtype = F16,
			  .p = { .causal = 1, .window = window },
			  .length = { 100, 0, 2, 140, 67 } };

	RIGHT(f, "causal attention of %d tokens, window %u, pages of %d",
	      tokens, window, page);
	f.has_sinks = true;
	f.p.softcap = 2;
	f.p.precision = WEIR_PRECISION_INVARIANT;
	RIGHT(f, "the same with sinks and softcap, invariant: %d, %u, %d",
	      tokens, window, page);
	f.has_mask = true;
	f.p.max_bias = 8;
	RIGHT(f, "the same with a mask and ALiBi: %d, %u, %d", tokens, window,
	      page);
}

static void lengths_long(uint32_t precision)
{
	struct form f = { .sequences = 3,
			  .heads = 4,
			  .heads_k = 1,
			  .tokens = 1,
			  .d = 32,
			  .dv = 32,
			  .page = 64,
			  .n = 25,
			  .dtype = F16,
			  .p = { .causal = 1, .precision = precision },
			  .has_sinks = true,
			  .length = { 1600, 3, 1100 } };

	RIGHT(f, "attention to many pages is right, precision %u", precision);
	f.p.window = 600;
	RIGHT(f, "the same with a window, precision %u", precision);
	f.sequences = 1;
	f.tokens = 34;
	f.length[0] = 1300;
	RIGHT(f, "the same of many tokens, precision %u", precision);
}

/* Heads of several sequences could be computed together. */
static void lengths_short(void)
{
	struct form f = { .sequences = 5,
			  .heads = 3,
			  .heads_k = 3,
			  .tokens = 1,
			  .d = 16,
			  .dv = 16,
			  .page = 8,
			  .n = 8,
			  .dtype = F32,
			  .length = { 3, 60, 0, 64, 9 } };

	RIGHT(f, "attention of 3 heads and 5 sequences is right");
}

/* No lengths: causal relative to the last position. */
static void causal_alone(void)
{
	struct weir_op_attention p = { .causal = 1 };

	same(weir_attention(g, put(F32, 4, 2, 4, 9, 16),
			    put(F32, 4, 2, 2, 9, 16), put(F32, 4, 2, 2, 9, 8),
			    NULL, &p),
	     NEAR_F32, "causal attention without lengths is right");
	same(weir_attention(g, put(F32, 3, 4, 3, 16), put(F32, 3, 2, 100, 16),
			    put(F32, 3, 2, 100, 8), NULL, &p),
	     NEAR_F32, "the last token attends to all positions");
	p.window = 3;
	same(weir_attention(g, put(F32, 3, 4, 90, 16), put(F32, 3, 2, 300, 16),
			    put(F32, 3, 2, 300, 8), NULL, &p),
	     NEAR_F32, "windows of many tokens are right");
	p.window = UINT32_MAX;
	same(weir_attention(g, put(F32, 3, 4, 9, 16), put(F32, 3, 2, 30, 16),
			    put(F32, 3, 2, 30, 8), NULL, &p),
	     NEAR_F32, "a window may be longer than the sequence");
	same(weir_attention(g, put(F32, 3, 4, 9, 16), put(F32, 3, 2, 4, 16),
			    put(F32, 3, 2, 4, 8), NULL, &p),
	     NEAR_F32, "tokens before the first position are 0");
}

/* 2 tokens with windows of 3; all other positions are NaNs. */
static void lengths_hide(bool paged)
{
	const double length[] = { 5, 11 }, order[] = { 4, 0, 3, 5, 2, 1 };
	const unsigned rows = 24;
	struct weir_op_attention p = { .causal = 1, .window = 3 };
	struct weir_node *q, *k, *pages = NULL;
	double v[24 * 4];

	for (unsigned i = 0; i < rows * 4; i++)
		v[i] = NAN;
	for (int b = 0; b < 2; b++)
		for (int s = (int)length[b] - 4; s < (int)length[b]; s++) {
			int row = b * 12 + s;

			if (paged)
				row = (int)order[row / 4] * 4 + s % 4;
			for (int i = 0; i < 4; i++)
				v[row * 4 + i] = random_number();
		}
	q = put(F32, 4, 2, 2, 2, 4);
	if (paged) {
		p.page = 4;
		pages = put_values(I32, order, 2, 2, 3);
		k = put_values(F32, v, 3, 1, 24, 4);
	} else {
		k = put_values(F32, v, 4, 2, 1, 12, 4);
	}
	same(weir_attention_lengths(g, q, k, k, put_values(I32, length, 1, 2),
				    pages, NULL, &p),
	     NEAR_F32, "positions that are not attended to may be NaNs%s",
	     paged ? ", in pages" : "");
}

static void lengths_wrong(void)
{
	struct form f = { .sequences = 3,
			  .heads = 2,
			  .heads_k = 1,
			  .tokens = 2,
			  .d = 8,
			  .dv = 8,
			  .page = 4,
			  .n = 3,
			  .dtype = F32,
			  .length = { 3, 13, 12 } };

	fails(attend(&f, 0), -EINVAL, "length 13 of sequence 1 is not 0 to 12",
	      "a length above the positions of all pages fails");
	f.length[1] = -1;
	fails(attend(&f, 0), -EINVAL, "length -1 of sequence 1 is not 0 to 12",
	      "a length below 0 fails");
	f.length[1] = 1;
	fails(attend(&f, 11), -EINVAL,
	      "page 11 at 2 of sequence 2 is not one of 11 pages",
	      "a page after the last one fails");
	fails(attend(&f, -1), -EINVAL,
	      "page -1 at 2 of sequence 2 is not one of 11 pages",
	      "a page below 0 fails");
	f.length[2] = 8;
	RIGHT(f, "an unused page may have any number");
	same(attend(&f, -1), NEAR_F32, "pages after the length are not read");
	f.length[2] = 12;
	f.page = 0;
	f.n = 12;
	f.length[1] = 13;
	fails(attend(&f, 0), -EINVAL, "length 13 of sequence 1 is not 0 to 12",
	      "a length above the positions fails without pages, too");
}

/* A page before all windows is not needed. */
static void lengths_before_window(void)
{
	const double length[] = { 9 }, page[] = { -1, 1, 0 };
	struct weir_op_attention p = { .causal = 1, .window = 4, .page = 4 };

	same(weir_attention_lengths(g, put(F32, 3, 2, 2, 8),
				    put(F32, 3, 1, 8, 8), put(F32, 3, 1, 8, 8),
				    put_values(I32, length, 1, 1),
				    put_values(I32, page, 2, 1, 3), NULL, &p),
	     NEAR_F32, "pages before all windows are not read");
}

/* A cache as set_rows writes it: [rows, heads * elements]; a part of tables. */
static void lengths_views(void)
{
	const double length[] = { 7, 20 };
	struct weir_op_attention p = { .causal = 1, .page = 8 };
	struct weir_node *k = put(F16, 3, 64, 2, 16);
	struct weir_node *table = put_ids(I32, 8, 2, 2, 5);

	k = weir_permute(g, k, 3, D(1, 0, 2));
	same(weir_attention_lengths(g,
				    weir_permute(g, put(F32, 4, 2, 3, 4, 16), 4,
						 D(0, 2, 1, 3)),
				    k, k, put_values(I32, length, 1, 2),
				    weir_slice(g, table, 1, 1, 3), NULL, &p),
	     NEAR_PRODUCT_F16, "views of a cache and of a table are right");
}

static void lengths_empty(void)
{
	struct form f = { .sequences = 2,
			  .heads = 2,
			  .heads_k = 2,
			  .tokens = 0,
			  .d = 8,
			  .dv = 8,
			  .page = 4,
			  .n = 2,
			  .dtype = F32,
			  .length = { 3, 8 } };

	RIGHT(f, "lengths of no tokens are empty");
	f.tokens = 2;
	f.n = 0;
	f.length[0] = f.length[1] = 0;
	RIGHT(f, "attention to no pages is 0");
	f.page = 0;
	f.p.causal = 1;
	RIGHT(f, "causal attention to no positions is 0");
}

int main(void)
{
	const int tokens[] = { 1, 3, 45 };
	const uint32_t windows[] = { 0, 1, 50, 1000 };

	trials_begin();
	lengths_dtypes();
	for (unsigned i = 0; i < 12; i++)
		lengths_causal(tokens[i % 3], windows[i / 3], i % 2 ? 20 : 0);
	lengths_long(WEIR_PRECISION_FAST);
	lengths_long(WEIR_PRECISION_INVARIANT);
	lengths_short();
	causal_alone();
	lengths_hide(false);
	lengths_hide(true);
	lengths_wrong();
	lengths_before_window();
	lengths_views();
	lengths_empty();
	return trials_end();
}
