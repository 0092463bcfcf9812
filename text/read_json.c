/* SPDX-License-Identifier: MIT */
/*
 * tokenizer.json of Hugging Face: byte-level BPE, and BPE of characters, in
 * which a character without a token is written as bytes.
 */
#include "read_json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nfc.h"

/* Members of the file. */
enum {
	ADDED,
	NORMALIZER,
	PRE_TOKENIZER,
	POST_PROCESSOR,
	MODEL,
	N_PARTS
};
static const char *const part_names[N_PARTS] = {
	"added_tokens",   "normalizer", "pre_tokenizer",
	"post_processor", "model",
};

/* Members of the file's model. */
enum {
	TYPE,
	VOCAB,
	MERGES,
	UNK,
	FUSE_UNK,
	FALLBACK,
	WHOLE_WORDS,
	PREFIX,
	SUFFIX,
	N_MODEL
};
static const char *const model_names[N_MODEL] = {
	"type",
	"vocab",
	"merges",
	"unk_token",
	"fuse_unk",
	"byte_fallback",
	"ignore_merges",
	"continuing_subword_prefix",
	"end_of_word_suffix",
};

static int read_flag(struct json *member, bool *ret_flag)
{
	return member->at ? text_json_bool(member, ret_flag) : 0;
}

/* Return the id of the piece of any kind whose text is @name, or -1. */
static int32_t piece_named(const struct tokenizer *t,
			   const struct json_string *name)
{
	for (uint32_t id = 0; id < t->vocab.n; id++) {
		const struct piece *piece = &t->vocab.piece[id];

		if (piece->kind && piece->len == name->len &&
		    !memcmp(piece->s, name->s, name->len))
			return (int32_t)id;
	}
	return -1;
}

/*
 * Read an id. Each token takes at least a byte of the file, so ids are less
 * than its size.
 */
static int read_id(struct json *j, uint32_t *ret_id)
{
	int r = text_json_id(j, ret_id);

	if (r < 0)
		return r;
	return *ret_id < (size_t)(j->end - j->begin)
		       ? 0
		       : text_json_fail(j, "a smaller id");
}

static int read_vocab(struct tokenizer *t, struct json *j, bool fallback)
{
	struct json_string name;
	uint32_t id;
	int r = text_json_enter(j, '{');

	while (r >= 0 && (r = text_json_member(j, &name)) > 0) {
		bool byte = fallback && vocab_byte_of(name.s, name.len) >= 0;

		r = read_id(j, &id);
		if (!r)
			r = piece_set(t, j->file, id, name.s, name.len,
				      byte ? PIECE_BYTE : PIECE_NORMAL, 0);
	}
	return r;
}

enum {
	ID,
	CONTENT,
	SPECIAL,
	LEFT,
	RIGHT,
	SINGLE,
	NORMALIZED,
	N_ADDED
};
static const char *const added_names[N_ADDED] = {
	"id",     "content",     "special",    "lstrip",
	"rstrip", "single_word", "normalized",
};

/* A token that is normalised to another text would need memory for it. */
static int check_nfc(struct json *j, const struct json_string *s)
{
	unsigned char *normal;
	size_t len;
	int r;

	if (!nfc_needed(s->s, s->len))
		return 0;
	normal = malloc(NFC_GROWTH * s->len);
	if (!normal)
		return text_fail(-ENOMEM, "no memory for %zu bytes", s->len);
	r = nfc_put(s->s, s->len, normal, &len);
	if (!r && (len != s->len || memcmp(normal, s->s, len)))
		r = text_json_unsupported(
			j, "a token that is normalised to another,", s);
	free(normal);
	return r;
}

/* Add a token that is found in the form in which the normalizer writes it. */
static int normal_form(struct tokenizer *t, struct json *j, struct form *form,
		       unsigned char *s)
{
	struct piece *piece = &t->vocab.piece[form->id];
	int r;

	if (t->nfc) {
		r = check_nfc(j, &(struct json_string){ s, form->len });
		if (r < 0)
			return r;
	}
	if (t->normal_marks)
		form->len = (uint32_t)piece_unmark(s, form->len);
	if (t->normal_prefix) {
		*--s = ' '; /* in the place of the quotation mark */
		form->s = s;
		form->len++;
	}
	/* Normalised text has the space too. Other tokens keep their names. */
	if (piece->kind == PIECE_USER && piece->flags & PIECE_HIDDEN) {
		piece->s = form->s;
		piece->len = form->len;
	}
	return matcher_add(&t->normal, form);
}

/* An added token replaces the token of the vocabulary that has its id. */
static int set_added(struct tokenizer *t, struct json *j, struct form *form,
		     unsigned char *s, bool special, bool normalized)
{
	struct piece before = { .kind = 0 }, *piece;
	int r;

	if (form->id < t->vocab.n)
		before = t->vocab.piece[form->id];
	if (before.kind)
		t->vocab.piece[form->id].kind = 0;
	r = piece_set(t, j->file, form->id, s, form->len,
		      special ? PIECE_CONTROL : PIECE_USER, 0);
	if (r < 0)
		return r;
	piece = &t->vocab.piece[form->id];
	if (!before.kind) {
		piece->flags |= PIECE_HIDDEN;
	} else if (!t->byte_level) { /* merges make it, with its spaces */
		piece->s = before.s;
		piece->len = before.len;
	}
	form->s = s;
	return normalized ? normal_form(t, j, form, s)
			  : matcher_add(&t->raw, form);
}

static int read_added(struct tokenizer *t, struct json *j)
{
	bool special = false, single = false, normalized;
	struct json member[N_ADDED];
	struct json_string s = { NULL, 0 };
	struct form form = { .id = 0 };
	int r = text_json_members(j, added_names, N_ADDED, member);

	if (!r && (!member[ID].at || !member[CONTENT].at))
		r = text_json_fail(j, "a token with an id and a content");
	if (!r)
		r = read_id(&member[ID], &form.id);
	if (!r)
		r = text_json_string(&member[CONTENT], &s);
	if (!r)
		r = read_flag(&member[SPECIAL], &special);
	if (!r)
		r = read_flag(&member[LEFT], &form.strip_left);
	if (!r)
		r = read_flag(&member[RIGHT], &form.strip_right);
	if (!r)
		r = read_flag(&member[SINGLE], &single);
	normalized = !special;
	if (!r)
		r = read_flag(&member[NORMALIZED], &normalized);
	if (r < 0)
		return r;
	if (single)
		return text_json_unsupported(
			j, "a token that is a single word,", &s);
	form.len = (uint32_t)s.len;
	return set_added(t, j, &form, s.s, special, normalized);
}

/* "a b" */
static int read_merge_text(struct merge_queue *q, struct json *j)
{
	struct json_string s;
	unsigned char *space;
	int r = text_json_string(j, &s);

	if (r < 0)
		return r;
	space = s.len > 1 ? memchr(s.s + 1, ' ', s.len - 1) : NULL;
	if (!space)
		return text_json_fail(j,
				      "two tokens with a space between before "
				      "this place");
	return merge_set(q, s.s, (size_t)(space - s.s), 1,
			 (size_t)(s.s + s.len - space) - 1);
}

/* ["a", "b"] */
static int read_merge_pair(struct merge_queue *q, struct json *j)
{
	struct json_string s[2];
	int r = text_json_enter(j, '[');

	for (unsigned i = 0; i < 2 && r >= 0; i++) {
		r = text_json_element(j);
		if (!r)
			r = text_json_fail(j, "two tokens before this place");
		if (r > 0)
			r = text_json_string(j, &s[i]);
	}
	if (!r)
		r = text_json_element(j);
	if (r)
		return r < 0 ? r : text_json_fail(j, "two tokens");
	return merge_set(q, s[0].s, s[0].len,
			 (size_t)(s[1].s - s[0].s) - s[0].len, s[1].len);
}

static int read_merges(struct tokenizer *t, struct json *j)
{
	struct merge_queue q = { .t = t, .file = j->file, .last = -1 };
	int r = merges_init(&t->merges, t->vocab.n);

	if (!r)
		r = text_json_enter(j, '[');
	while (r >= 0 && (r = text_json_element(j)) > 0)
		r = text_json_peek(j) == '[' ? read_merge_pair(&q, j)
					     : read_merge_text(&q, j);
	return r ? r : merges_flush(&q);
}

static int read_unk(struct tokenizer *t, struct json *member)
{
	struct json_string name;
	int r;

	if (!member->at)
		return 0;
	r = text_json_string(member, &name);
	if (r < 0)
		return r;
	t->unk = piece_named(t, &name);
	if (t->unk < 0)
		return text_json_fail(member, "a token before this place");
	/*
	 * Some files name the token that ends texts, which remains a control
	 * token.
	 */
	if (!(t->vocab.piece[t->unk].flags & PIECE_END))
		t->vocab.piece[t->unk].kind = PIECE_UNKNOWN;
	return 0;
}

/* Affixes of words belong to vocabularies of another kind. */
static int check_affix(struct json *member)
{
	struct json_string affix;
	int r = member->at ? text_json_string(member, &affix) : 0;

	if (r < 0 || !member->at || !affix.len)
		return r;
	return text_json_unsupported(member, "the affix", &affix);
}

static int check_model(struct json *j, struct json *member)
{
	struct json_string type;
	int r = 0;

	if (member[TYPE].at)
		r = text_json_string(&member[TYPE], &type);
	if (!r && member[TYPE].at && !text_json_is(&type, "BPE"))
		return text_json_unsupported(j, "the model", &type);
	if (!r && (!member[VOCAB].at || !member[MERGES].at))
		r = text_json_fail(j, "a model with a vocabulary and merges");
	if (!r)
		r = check_affix(&member[PREFIX]);
	return r ? r : check_affix(&member[SUFFIX]);
}

/*
 * @member has the places of the model's members, @added that of the added
 * tokens.
 */
static int read_model(struct tokenizer *t, struct json *j, struct json *member,
		      struct json *added)
{
	bool fallback = false;
	int r = check_model(j, member);

	if (!r)
		r = read_flag(&member[FALLBACK], &fallback);
	if (!r)
		r = read_flag(&member[FUSE_UNK], &t->fuse_unk);
	if (!r)
		r = read_flag(&member[WHOLE_WORDS], &t->whole_words);
	if (!r)
		r = read_vocab(t, &member[VOCAB], fallback);
	if (!r && added->at)
		r = text_json_each(added, read_added, t);
	if (!r)
		r = read_unk(t, &member[UNK]);
	if (!r)
		r = vocab_index(&t->vocab, j->file,
				BIT(PIECE_NORMAL) | BIT(PIECE_USER));
	return r ? r : read_merges(t, &member[MERGES]);
}

/* An item of a template: a special token, or the text. */
static int read_template_item(struct tokenizer *t, struct json *j)
{
	static const char *const names[] = { "SpecialToken", "Sequence" };
	static const char *const id_name[] = { "id" };
	struct json member[2], id;
	struct json_string name;
	int32_t token;
	int r = text_json_members(j, names, 2, member);

	if (r < 0)
		return r;
	if (member[1].at) {
		t->text_seen = true;
		return 0;
	}
	if (!member[0].at)
		return text_json_fail(j, "a special token or a sequence");
	r = text_json_members(&member[0], id_name, 1, &id);
	if (!r)
		r = id.at ? text_json_string(&id, &name)
			  : text_json_fail(j, "a token with an id");
	if (r < 0)
		return r;
	token = piece_named(t, &name);
	if (token < 0 || (t->text_seen ? t->adds_eos : t->adds_bos))
		return text_json_unsupported(j, "the place of", &name);
	*(t->text_seen ? &t->eos : &t->bos) = token;
	*(t->text_seen ? &t->adds_eos : &t->adds_bos) = true;
	return 0;
}

static int read_post_processor(struct tokenizer *t, struct json *j)
{
	static const char *const names[] = { "single", "processors" };
	struct json_string type;
	struct json member[2];
	int r = text_json_type(j, &type);

	if (!r)
		r = text_json_members(j, names, 2, member);
	if (r < 0 || text_json_is(&type, "ByteLevel"))
		return r;
	if (text_json_is(&type, "Sequence") && member[1].at)
		return text_json_each(&member[1], read_post_processor, t);
	if (text_json_is(&type, "TemplateProcessing") && member[0].at)
		return text_json_each(&member[0], read_template_item, t);
	return text_json_unsupported(j, "the post-processor", &type);
}

static int read_parts(struct tokenizer *t, struct json *part,
		      struct json *member)
{
	int r = 0;

	if (part[NORMALIZER].at)
		r = read_normalizer(t, &part[NORMALIZER]);
	if (!r && part[PRE_TOKENIZER].at)
		r = read_pre_tokenizer(t, &part[PRE_TOKENIZER]);
	if (!r && t->byte_level == t->marks)
		r = text_fail(-EOPNOTSUPP,
			      "%s: neither byte-level BPE nor BPE with U+2581 "
			      "for spaces",
			      part[MODEL].file);
	if (!r)
		r = read_model(t, &part[MODEL], member, &part[ADDED]);
	if (!r && part[POST_PROCESSOR].at)
		r = read_post_processor(t, &part[POST_PROCESSOR]);
	return r;
}

/*
 * The places of the model's members are found while the file is read for the
 * first time.
 */
static int find_parts(struct json *j, struct json *part, struct json *member)
{
	struct json_string name;
	int r = text_json_enter(j, '{');

	while (r >= 0 && (r = text_json_member_raw(j, &name)) > 0) {
		bool null = text_json_peek(j) == 'n', model = false;

		for (size_t i = 0; i < N_PARTS; i++) {
			if (null || !text_json_is(&name, part_names[i]))
				continue;
			part[i] = *j;
			model = i == MODEL;
		}
		r = model ? text_json_members(j, model_names, N_MODEL, member)
			  : text_json_skip(j);
	}
	return r;
}

int read_json(struct tokenizer *t, const char *file, unsigned char *bytes,
	      size_t n)
{
	struct json j, part[N_PARTS] = { 0 }, member[N_MODEL] = { 0 };
	int r;

	t->writes_unk = t->leaves_first = true;
	text_json_init(&j, file, bytes, n);
	r = find_parts(&j, part, member);
	if (!r)
		r = text_json_finish(&j);
	if (!r && !part[MODEL].at)
		r = text_json_fail(&j, "a member 'model' before this place");
	return r ? r : read_parts(t, part, member);
}
