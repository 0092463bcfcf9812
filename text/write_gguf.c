/* SPDX-License-Identifier: MIT */
/*
 * A tokenizer as metadata of GGUF, tokenizer.ggml.*, as llama.cpp's converter
 * writes it: byte-level BPE is "gpt2" with its merges, all others are "llama"
 * with scores.
 */
#include <errno.h>
#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir.h>

#include "written.h"

#define KEY(name) ("tokenizer.ggml." name)

/* What is written, and where to. */
struct gguf_writer {
	const struct tokenizer *t;
	const struct tokenizer_ends *ends;
	struct weir_save *save;
	struct written text;
	struct weir_value *value; /* room for a value of each token or merge */
};

static int set(const struct gguf_writer *g, struct weir_value v)
{
	int r;

	v.size = sizeof(v);
	r = weir_save_meta(g->save, &v);
	return r < 0 ? text_fail(r, "%s", weir_error()) : 0;
}

static int set_string(const struct gguf_writer *g, const char *key,
		      const char *s)
{
	return set(g, (struct weir_value){ .key = key,
					   .type = WEIR_VALUE_STRING,
					   .str = s,
					   .len = strlen(s) });
}

static int set_bool(const struct gguf_writer *g, const char *key, bool b)
{
	return set(g, (struct weir_value){
			      .key = key, .type = WEIR_VALUE_BOOL, .u = b });
}

static int set_id(const struct gguf_writer *g, const char *key, int32_t id)
{
	if (id < 0)
		return 0;
	return set(g, (struct weir_value){ .key = key,
					   .type = WEIR_VALUE_U32,
					   .u = (uint64_t)id });
}

static int set_array(const struct gguf_writer *g, const char *key,
		     enum weir_value_type type, const void *items, size_t n)
{
	return set(g, (struct weir_value){ .key = key,
					   .type = WEIR_VALUE_ARRAY,
					   .item_type = type,
					   .items = items,
					   .len = n });
}

static int set_tokens(const struct gguf_writer *g)
{
	for (uint32_t i = 0; i < g->text.n; i++)
		g->value[i] = (struct weir_value){
			.size = sizeof(*g->value),
			.type = WEIR_VALUE_STRING,
			.str = g->text.text + g->text.at[i],
			.len = g->text.at[i + 1] - g->text.at[i]
		};
	return set_array(g, KEY("tokens"), WEIR_VALUE_STRING, g->value,
			 g->text.n);
}

/* The token for unknown text. Byte-level BPE needs none. */
static int32_t unknown(const struct gguf_writer *g)
{
	return g->t->unk >= 0 || g->t->byte_level ? g->t->unk
						  : g->ends->names.unk;
}

/* Ids without a token are unused. */
static int set_types(const struct gguf_writer *g)
{
	int32_t *type = calloc(g->text.n + 1u, sizeof(*type));
	int r;

	if (!type)
		return text_fail(-ENOMEM, "no memory for %u types", g->text.n);
	for (uint32_t i = 0; i < g->text.n; i++) {
		const unsigned kind =
			i < g->t->vocab.n ? g->t->vocab.piece[i].kind : 0;

		type[i] = kind ? (int32_t)kind : PIECE_UNUSED;
	}
	if (!g->t->byte_level && unknown(g) >= 0)
		type[unknown(g)] = PIECE_UNKNOWN;
	r = set_array(g, KEY("token_type"), WEIR_VALUE_I32, type, g->text.n);
	free(type);
	return r;
}

static void print_merge(FILE *to, const struct gguf_writer *g,
			const struct written_merge *m)
{
	const size_t *at = g->text.at;

	fwrite(g->text.text + at[m->left], 1, at[m->left + 1] - at[m->left],
	       to);
	fputc(' ', to);
	fwrite(g->text.text + at[m->right], 1, at[m->right + 1] - at[m->right],
	       to);
}

/* The texts "a b" of all merges, one after the other. */
static int set_merge_list(const struct gguf_writer *g,
			  const struct written_merge *merge, size_t n)
{
	struct weir_value *v = calloc(n + 1, sizeof(*v));
	size_t *end = calloc(n + 1, sizeof(*end)), bytes = 0;
	char *text = NULL;
	FILE *to = open_memstream(&text, &bytes);
	int r = 0;

	for (size_t i = 0; to && end && i < n; i++) {
		print_merge(to, g, &merge[i]);
		end[i] = (size_t)ftello(to);
	}
	if (!to || fclose(to) || !v || !end)
		r = text_fail(-ENOMEM, "no memory for %zu merges", n);
	for (size_t i = 0; r == 0 && i < n; i++) {
		const size_t begin = i ? end[i - 1] : 0;

		v[i] = (struct weir_value){ .size = sizeof(*v),
					    .type = WEIR_VALUE_STRING,
					    .str = text + begin,
					    .len = end[i] - begin };
	}
	if (r == 0)
		r = set_array(g, KEY("merges"), WEIR_VALUE_STRING, v, n);
	free(v);
	free(end);
	free(text);
	return r;
}

static int set_byte_level(const struct gguf_writer *g)
{
	const struct tokenizer *t = g->t;
	const char *pre = split_name(&t->split, t->whole_words);
	struct written_merge *merge = NULL;
	size_t n = 0;
	int r;

	if (!pre || t->prefix != PREFIX_NEVER)
		return text_fail(-EOPNOTSUPP,
				 "GGUF has no pre-tokenizer "
				 "(tokenizer.ggml.pre) that divides text as "
				 "this tokenizer does");
	r = set_string(g, KEY("model"), "gpt2");
	if (!r)
		r = set_string(g, KEY("pre"), pre);
	if (!r)
		r = written_merges(t, &merge, &n);
	if (!r)
		r = set_merge_list(g, merge, n);
	free(merge);
	return r;
}

/* Tokens that no merge makes come last, as SentencePiece has them. */
static void score_rest(const struct gguf_writer *g, float next, float *score)
{
	const struct vocab *v = &g->t->vocab;

	for (uint32_t id = 0; id < v->n; id++) {
		if (score[id] != FLT_MAX)
			continue;
		score[id] = v->piece[id].kind == PIECE_NORMAL ? next-- : 0;
	}
}

/*
 * Scores that merge as the list does: the sooner, the greater. This holds if
 * the merges of a token follow each other in the list, and all pairs that make
 * it are there, as in each list that was made from scores.
 */
static int list_scores(const struct gguf_writer *g, float *score)
{
	const struct tokenizer *t = g->t;
	struct written_merge *merge = NULL;
	size_t n = 0;
	int32_t last = -1;
	float next = 0;
	int r = written_merges(t, &merge, &n);

	for (uint32_t i = 0; i < g->text.n; i++)
		score[i] = i < t->vocab.n ? FLT_MAX : 0;
	for (size_t i = 0; r == 0 && i < n; i++) {
		const int32_t id = merge[i].id;

		if (id == last)
			continue;
		if (score[id] != FLT_MAX)
			r = text_fail(-EOPNOTSUPP,
				      "no scores merge as the list of merges "
				      "does, as GGUF would need it: token %d "
				      "has two places in it",
				      id);
		score[id] = next--;
		last = id;
	}
	score_rest(g, next, score);
	free(merge);
	return r;
}

/* True if the list has all pairs of tokens that make token @id. */
static bool has_all_pairs(const struct tokenizer *t, uint32_t id)
{
	const struct piece *p = &t->vocab.piece[id];

	if (p->kind != PIECE_NORMAL || p->flags & PIECE_HIDDEN)
		return true;
	for (uint32_t i = 1; i < p->len; i++) {
		int32_t left, right;

		if ((p->s[i] & 0xc0) == 0x80)
			continue;
		left = vocab_find(&t->vocab, p->s, i);
		right = vocab_find(&t->vocab, p->s + i, p->len - i);
		if (left >= 0 && right >= 0 &&
		    !merges_has(&t->merges, left, right))
			return false;
	}
	return true;
}

static int check_pairs(const struct tokenizer *t)
{
	for (uint32_t id = 0; id < t->vocab.n; id++)
		if (t->vocab.piece[id].len > 1024 || !has_all_pairs(t, id))
			return text_fail(-EOPNOTSUPP,
					 "no scores merge as the list of "
					 "merges does, as GGUF would need it: "
					 "token %u is not made of each pair",
					 id);
	return 0;
}

static int make_scores(const struct gguf_writer *g, float *score)
{
	const struct tokenizer *t = g->t;
	int r;

	if (t->merges.buckets) {
		r = check_pairs(t);
		return r < 0 ? r : list_scores(g, score);
	}
	for (uint32_t i = 0; i < g->text.n; i++)
		score[i] = i < t->vocab.n ? vocab_score(t->vocab.piece[i].key)
					  : 0;
	return 0;
}

static int set_scores(const struct gguf_writer *g)
{
	const struct tokenizer *t = g->t;
	float *score = calloc(g->text.n + 1u, sizeof(*score));
	int r = score ? make_scores(g, score)
		      : text_fail(-ENOMEM, "no memory for %u scores",
				  g->text.n);

	if (!r && t->each_space && t->inner_space)
		r = text_fail(-EOPNOTSUPP,
			      "merges do not cross spaces, which GGUF cannot "
			      "say");
	if (!r)
		r = set_string(g, KEY("model"), "llama");
	if (!r)
		r = set_string(g, KEY("pre"), "default");
	if (!r)
		r = set_array(g, KEY("scores"), WEIR_VALUE_F32, score,
			      g->text.n);
	if (!r)
		r = set_bool(g, KEY("add_space_prefix"),
			     t->prefix != PREFIX_NEVER);
	free(score);
	return r;
}

/* The token that tokenizer_config.json names as the end comes first. */
static void order_ends(struct tokenizer_ends *e)
{
	for (size_t i = 1; i < e->n; i++) {
		if (e->id[i] != e->names.eos)
			continue;
		memmove(&e->id[1], &e->id[0], i * sizeof(*e->id));
		e->id[0] = e->names.eos;
	}
}

/* The first of these that is a token, or -1. */
static int32_t first_id(int32_t a, int32_t b, int32_t c)
{
	return a >= 0 ? a : b >= 0 ? b : c;
}

/* GGUF has a key for one token that ends texts, and two for others. */
static int set_ids(const struct gguf_writer *g)
{
	static const char *const keys[] = { KEY("eos_token_id"),
					    KEY("eot_token_id"),
					    KEY("eom_token_id") };
	const struct tokenizer *t = g->t;
	const struct tokenizer_ends *e = g->ends;
	int r = set_id(g, KEY("bos_token_id"),
		       first_id(e->bos, t->bos, e->names.bos));

	if (e->n > 3)
		return text_fail(-EOPNOTSUPP,
				 "%zu tokens end a text, GGUF has keys for 3",
				 e->n);
	for (size_t i = 0; i < e->n && !r; i++)
		r = set_id(g, keys[i], e->id[i]);
	if (!r && !e->n)
		r = set_id(g, keys[0], first_id(t->eos, e->names.eos, -1));
	if (!r)
		r = set_id(g, KEY("unknown_token_id"), unknown(g));
	if (!r)
		r = set_id(g, KEY("padding_token_id"),
			   first_id(e->pad, e->names.pad, -1));
	if (!r)
		r = set_bool(g, KEY("add_bos_token"), t->adds_bos);
	return r ? r : set_bool(g, KEY("add_eos_token"), t->adds_eos);
}

static int set_all(struct gguf_writer *g)
{
	int r = g->t->byte_level ? set_byte_level(g) : set_scores(g);

	if (!r)
		r = set_tokens(g);
	if (!r)
		r = set_types(g);
	return r ? r : set_ids(g);
}

/* The tokens that end texts, those of generation_config.json too. */
static int add_ends(const struct tokenizer *t, struct tokenizer_ends *e)
{
	for (unsigned i = 0; i < t->n_ends; i++) {
		size_t k = 0;

		while (k < e->n && e->id[k] != t->end[i])
			k++;
		if (k < e->n)
			continue;
		if (e->n == TOKENIZER_ENDS)
			return text_fail(-EOPNOTSUPP,
					 "over %u tokens end a text",
					 TOKENIZER_ENDS);
		e->id[e->n++] = t->end[i];
	}
	return 0;
}

int tokenizer_to_gguf(const struct tokenizer *t, uint32_t count,
		      const struct tokenizer_ends *ends, struct weir_save *save)
{
	struct tokenizer_ends all = *ends;
	struct gguf_writer g = { .t = t, .ends = &all, .save = save };
	int r = add_ends(t, &all);

	order_ends(&all);
	if (count < t->vocab.n)
		return text_fail(-EBADMSG,
				 "the tokenizer has %u tokens, the model %u",
				 t->vocab.n, count);
	if (!r)
		r = written_make(t, count, &g.text);
	if (r < 0)
		return r;
	g.value = calloc((size_t)count + 1, sizeof(*g.value));
	r = g.value ? set_all(&g)
		    : text_fail(-ENOMEM, "no memory for %u tokens", count);
	free(g.value);
	written_free(&g.text);
	return r;
}
