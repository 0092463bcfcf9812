/* SPDX-License-Identifier: MIT */
/* The metadata tokenizer.ggml.* of GGUF, as llama.cpp writes and means it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <weir.h>

#include "tokenizer_internal.h"
#include "table_memory.h"

#define MERGE_MAX 4096u /* bytes */
#define KEY(name) ("tokenizer.ggml." name)

struct gguf {
	const struct weir_model *model;
	const char *file; /* name of the file, for error sentences */
	struct tokenizer *t;
	struct weir_value tokens, types, scores, merges;
	unsigned char *room; /* room for MERGES_AT_ONCE merges */
};

static int gguf_fail(const struct gguf *g, const char *key, const char *what)
{
	return text_fail(-EBADMSG, "%s: %s: %s", g->file, key, what);
}

/*
 * Read the value of a key. Returns 0 if the model does not have the key, else
 * 1.
 */
static int gguf_get(const struct gguf *g, const char *key,
		    struct weir_value *ret_value)
{
	ret_value->size = sizeof(*ret_value);
	return weir_model_meta(g->model, key, ret_value) == 0;
}

static int gguf_string(const struct gguf *g, const char *key,
		       const char **ret_s)
{
	struct weir_value value;

	if (!gguf_get(g, key, &value))
		return 0;
	if (value.type != WEIR_VALUE_STRING)
		return gguf_fail(g, key, "not a string");
	*ret_s = value.str;
	return 0;
}

static int gguf_bool(const struct gguf *g, const char *key, bool *ret_bool)
{
	struct weir_value value;

	if (!gguf_get(g, key, &value))
		return 0;
	if (value.type != WEIR_VALUE_BOOL)
		return gguf_fail(g, key, "not a boolean");
	*ret_bool = value.u;
	return 0;
}

/* A model that llama.cpp saved has -1, as a U32 too, for a missing token. */
static int gguf_id(const struct gguf *g, const char *key, int32_t *ret_id)
{
	struct weir_value value;

	if (!gguf_get(g, key, &value))
		return 0;
	if (value.type < WEIR_VALUE_U8 || value.type > WEIR_VALUE_I64)
		return gguf_fail(g, key, "not the id of a token");
	if (value.i == -1 ||
	    (value.type == WEIR_VALUE_U32 && value.u == UINT32_MAX)) {
		*ret_id = -1;
		return 0;
	}
	if (value.u > INT32_MAX)
		return gguf_fail(g, key, "not the id of a token");
	*ret_id = (int32_t)value.u;
	return 0;
}

/*
 * Find an array of at least as many items as there are tokens, if the model has
 * it.
 */
static int gguf_array(const struct gguf *g, const char *key, uint32_t type,
		      struct weir_value *ret_array)
{
	if (!gguf_get(g, key, ret_array)) {
		ret_array->type = WEIR_VALUE_STRING;
		ret_array->len = 0;
		return 0;
	}
	if (ret_array->type != WEIR_VALUE_ARRAY || ret_array->item_type != type)
		return gguf_fail(g, key, "not an array of the right type");
	return 0;
}

static int gguf_parallel(const struct gguf *g, const char *key, uint32_t type,
			 struct weir_value *ret_array)
{
	int r = gguf_array(g, key, type, ret_array);

	if (r < 0 || ret_array->type != WEIR_VALUE_ARRAY ||
	    ret_array->len >= g->tokens.len)
		return r;
	return text_fail(-EBADMSG, "%s: %s: %zu items for %zu tokens", g->file,
			 key, ret_array->len, g->tokens.len);
}

static int gguf_arrays(struct gguf *g)
{
	int r = gguf_array(g, KEY("tokens"), WEIR_VALUE_STRING, &g->tokens);

	if (!r && (!g->tokens.len || g->tokens.len > INT32_MAX))
		r = gguf_fail(g, KEY("tokens"), "no tokens, or too many");
	if (!r)
		r = gguf_parallel(g, KEY("token_type"), WEIR_VALUE_I32,
				  &g->types);
	if (!r)
		r = gguf_parallel(g, KEY("scores"), WEIR_VALUE_F32, &g->scores);
	if (!r)
		r = gguf_array(g, KEY("merges"), WEIR_VALUE_STRING, &g->merges);
	return r;
}

static struct weir_value gguf_item(const struct gguf *g,
				   const struct weir_value *array, size_t i)
{
	struct weir_value item = { .size = sizeof(item) };

	/* This does not fail, since the array has this item. */
	if (weir_model_meta_item(g->model, array, i, &item) < 0)
		item.len = 0;
	return item;
}

static int gguf_room(struct gguf *g)
{
	size_t bytes = 0;

	for (size_t i = 0; i < g->tokens.len; i++)
		bytes += gguf_item(g, &g->tokens, i).len;
	g->t->storage = memory_table(bytes);
	if (!g->t->storage)
		return text_fail(-ENOMEM, "no memory for %zu bytes of tokens",
				 bytes);
	return vocab_reserve(&g->t->vocab, (uint32_t)g->tokens.len);
}

/*
 * The types of tokens are those of enum piece_kind; old files do not have them.
 */
static unsigned gguf_kind(const struct gguf *g, size_t i,
			  const struct weir_value *token)
{
	const int32_t *types = g->types.items;

	if (g->types.type == WEIR_VALUE_ARRAY)
		return types[i] >= PIECE_NORMAL && types[i] <= PIECE_BYTE
			       ? (unsigned)types[i]
			       : PIECE_NORMAL;
	if (!g->t->byte_level &&
	    vocab_byte_of((const unsigned char *)token->str, token->len) >= 0)
		return PIECE_BYTE;
	if ((int32_t)i == g->t->unk)
		return PIECE_UNKNOWN;
	return (int32_t)i == g->t->bos || (int32_t)i == g->t->eos
		       ? PIECE_CONTROL
		       : PIECE_NORMAL;
}

/*
 * Add the tokens that are found in texts, where they are written as they are
 * here.
 */
static int gguf_form(const struct gguf *g, uint32_t id)
{
	const struct piece *piece = &g->t->vocab.piece[id];

	if (piece->kind < PIECE_UNKNOWN || piece->kind > PIECE_USER)
		return 0;
	return matcher_add(&g->t->raw, &(struct form){ .s = piece->s,
						       .len = piece->len,
						       .id = id });
}

static int gguf_tokens(struct gguf *g)
{
	const float *scores = g->scores.items;
	unsigned char *to = g->t->storage;
	int r = 0;

	for (size_t i = 0; !r && i < g->tokens.len; i++) {
		struct weir_value token = gguf_item(g, &g->tokens, i);

		memcpy(to, token.str, token.len);
		r = piece_set(g->t, g->file, (uint32_t)i, to, token.len,
			      gguf_kind(g, i, &token), scores ? scores[i] : 0);
		if (!r)
			r = gguf_form(g, (uint32_t)i);
		to += token.len;
	}
	if (r < 0)
		return r;
	return vocab_index(&g->t->vocab, g->file,
			   BIT(PIECE_NORMAL) | BIT(PIECE_USER) |
				   BIT(PIECE_UNUSED));
}

/*
 * Copy a merge, since it is changed, to memory where it stays until the queue
 * is empty.
 */
static int gguf_merge(struct gguf *g, struct merge_queue *q,
		      const struct weir_value *merge)
{
	unsigned char *room = g->room + q->n * MERGE_MAX, *space = NULL;

	if (merge->len > 1 && merge->len <= MERGE_MAX) {
		memcpy(room, merge->str, merge->len);
		space = memchr(room + 1, ' ', merge->len - 1);
	}
	if (!space)
		return gguf_fail(g, KEY("merges"),
				 "a merge without a space, or too long");
	return merge_set(q, room, (size_t)(space - room), 1,
			 (size_t)(room + merge->len - space) - 1);
}

static int gguf_merges(struct gguf *g)
{
	struct merge_queue q = { .t = g->t, .file = g->file, .last = -1 };
	int r = merges_init(&g->t->merges, g->merges.len);

	if (r < 0)
		return r;
	g->room = malloc(MERGES_AT_ONCE * MERGE_MAX);
	if (!g->room)
		return text_fail(-ENOMEM, "no memory for merges");
	for (size_t i = 0; !r && i < g->merges.len; i++) {
		struct weir_value merge = gguf_item(g, &g->merges, i);

		r = gguf_merge(g, &q, &merge);
	}
	if (!r)
		r = merges_flush(&q);
	free(g->room);
	return r;
}

/* Besides EOS, generation stops at the ends of turns and of files. */
static int gguf_ends(const struct gguf *g)
{
	static const char *const keys[] = {
		KEY("eot_token_id"),     KEY("eom_token_id"),
		KEY("fim_pad_token_id"), KEY("fim_rep_token_id"),
		KEY("fim_sep_token_id"),
	};
	struct tokenizer *t = g->t;
	int r = 0;

	for (size_t i = 0; !r && i < sizeof(keys) / sizeof(keys[0]); i++) {
		t->end[t->n_ends] = -1;
		r = gguf_id(g, keys[i], &t->end[t->n_ends]);
		t->n_ends += t->end[t->n_ends] >= 0;
	}
	return r;
}

static int gguf_ids(struct gguf *g)
{
	struct tokenizer *t = g->t;
	int r = gguf_id(g, KEY("bos_token_id"), &t->bos);

	if (!r)
		r = gguf_id(g, KEY("eos_token_id"), &t->eos);
	if (!r)
		r = gguf_ends(g);
	if (!r)
		r = gguf_id(g, KEY("unknown_token_id"), &t->unk);
	if (!r)
		r = gguf_bool(g, KEY("add_bos_token"), &t->adds_bos);
	return r ? r : gguf_bool(g, KEY("add_eos_token"), &t->adds_eos);
}

/* "llama": merges by score, a space before each part of the text. */
static int gguf_sentencepiece(struct gguf *g)
{
	struct tokenizer *t = g->t;
	bool prefix = true;
	int r = gguf_bool(g, KEY("add_space_prefix"), &prefix);

	t->prefix = prefix ? PREFIX_EACH : PREFIX_NEVER;
	t->fuse_unk = t->writes_unk = t->adds_bos = true;
	t->unk = 0;
	t->bos = 1;
	t->eos = 2;
	g->merges.len = 0;
	return r;
}

/* "gpt2": a list of merges, and a pre-tokenizer by its name. */
static int gguf_byte_level(struct gguf *g)
{
	const char *name = "default";
	const struct split_type *type;
	struct tokenizer *t = g->t;
	int r = gguf_string(g, KEY("pre"), &name);

	if (r < 0)
		return r;
	type = split_by_name(name);
	if (!type)
		return text_fail(-EOPNOTSUPP,
				 "%s: the pre-tokenizer '%.100s' (%s) is not "
				 "supported",
				 g->file, name, KEY("pre"));
	if (!g->merges.len)
		return gguf_fail(g, KEY("merges"), "no merges");
	t->byte_level = true;
	t->split = type->split;
	t->whole_words = type->whole_words;
	t->adds_bos = type->adds_bos;
	return 0;
}

static int gguf_read(struct gguf *g, const char *kind)
{
	int r = gguf_arrays(g);

	if (r < 0)
		return r;
	if (!strcmp(kind, "llama"))
		r = gguf_sentencepiece(g);
	else if (!strcmp(kind, "gpt2"))
		r = gguf_byte_level(g);
	else
		r = text_fail(-EOPNOTSUPP,
			      "%s: the tokenizer '%.100s' (%s) is not "
			      "supported",
			      g->file, kind, KEY("model"));
	if (!r)
		r = gguf_ids(g);
	if (!r)
		r = gguf_room(g);
	if (!r)
		r = gguf_tokens(g);
	if (!r && g->t->byte_level)
		r = gguf_merges(g);
	return r;
}

int read_gguf(struct tokenizer *t, const struct weir_model *model,
	      const char *file)
{
	struct gguf g = { .model = model, .file = file, .t = t };
	const char *kind = NULL;
	int r = gguf_string(&g, KEY("model"), &kind);

	t->longest_first = true;
	if (!r && (!kind || !strcmp(kind, "none") || !strcmp(kind, "no_vocab")))
		r = text_fail(-ENOENT, "%s: the model has no tokenizer (%s)",
			      file, KEY("model"));
	return r ? r : gguf_read(&g, kind);
}
