/* SPDX-License-Identifier: MIT */
/*
 * A tokenizer as the tokenizer.json and tokenizer_config.json of Hugging Face.
 * Both kinds become BPE with merges: scores of SentencePiece make the list of
 * merges that transformers makes of them.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "written.h"

#define MARK "\xe2\x96\x81" /* U+2581 */

/* What is written, and where to. */
struct json_writer {
	const struct tokenizer *t;
	struct written text;
	FILE *to;
};

/* The bytes are UTF-8: see written_make(). */
static void put_string(FILE *to, const char *s, size_t len)
{
	fputc('"', to);
	for (size_t i = 0; i < len; i++) {
		const unsigned char c = (unsigned char)s[i];

		if (c == '"' || c == '\\')
			fprintf(to, "\\%c", c);
		else if (c < 0x20 || c == 0x7f)
			fprintf(to, "\\u%04x", c);
		else
			fputc(c, to);
	}
	fputc('"', to);
}

static void put_token(const struct json_writer *j, int32_t id)
{
	put_string(j->to, j->text.text + j->text.at[id],
		   j->text.at[id + 1] - j->text.at[id]);
}

static unsigned kind_of(const struct json_writer *j, uint32_t id)
{
	return j->t->vocab.piece[id].kind;
}

/* Tokens that are found in texts as they are. */
static bool is_added(unsigned kind)
{
	return kind == PIECE_UNKNOWN || kind == PIECE_CONTROL ||
	       kind == PIECE_USER;
}

static void put_added(const struct json_writer *j)
{
	const char *comma = "";

	fputs("  \"added_tokens\": [", j->to);
	for (uint32_t id = 0; id < j->text.n; id++) {
		if (!is_added(kind_of(j, id)))
			continue;
		fprintf(j->to, "%s\n    {\"id\": %u, \"content\": ", comma, id);
		put_token(j, (int32_t)id);
		fprintf(j->to,
			", \"single_word\": false, \"lstrip\": false, "
			"\"rstrip\": false, \"normalized\": false, "
			"\"special\": %s}",
			kind_of(j, id) == PIECE_USER ? "false" : "true");
		comma = ",";
	}
	fputs("],\n", j->to);
}

static void put_normalizer(const struct json_writer *j)
{
	const struct tokenizer *t = j->t;

	fputs("  \"normalizer\": ", j->to);
	if (t->byte_level)
		fputs(t->nfc ? "{\"type\": \"NFC\"}" : "null", j->to);
	else
		fprintf(j->to,
			"{\"type\": \"Sequence\", \"normalizers\": [%s"
			"{\"type\": \"Replace\", \"pattern\": "
			"{\"String\": \" \"}, \"content\": \"" MARK "\"}]}",
			t->prefix != PREFIX_NEVER
				? "{\"type\": \"Prepend\", \"prepend\": "
				  "\"" MARK "\"}, "
				: "");
	fputs(",\n", j->to);
}

/* A function that divides text, unless ByteLevel does it itself. */
static int put_stage(const struct json_writer *j, split_fn *fn)
{
	const char *regex = split_regex(fn);

	if (fn == split_number || fn == split_numbers) {
		fprintf(j->to,
			"{\"type\": \"Digits\", \"individual_digits\": %s}, ",
			fn == split_number ? "true" : "false");
		return 0;
	}
	if (!regex || fn == split_gpt2)
		return text_fail(-EOPNOTSUPP,
				 "no tokenizer.json divides text as this "
				 "tokenizer does");
	fputs("{\"type\": \"Split\", \"pattern\": {\"Regex\": ", j->to);
	put_string(j->to, regex, strlen(regex));
	fputs("}, \"behavior\": \"Isolated\", \"invert\": false}, ", j->to);
	return 0;
}

static int put_pre_tokenizer(const struct json_writer *j)
{
	const struct split *split = &j->t->split;
	size_t n = 0;
	bool gpt2;
	int r = 0;

	fputs("  \"pre_tokenizer\": ", j->to);
	if (!j->t->byte_level) {
		fputs("null,\n", j->to);
		return 0;
	}
	while (n < SPLIT_STAGES && split->stage[n])
		n++;
	gpt2 = n && split->stage[n - 1] == split_gpt2;
	fputs("{\"type\": \"Sequence\", \"pretokenizers\": [", j->to);
	for (size_t i = 0; i < n - gpt2 && r == 0; i++)
		r = put_stage(j, split->stage[i]);
	fprintf(j->to,
		"{\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
		"\"trim_offsets\": true, \"use_regex\": %s}]},\n",
		gpt2 ? "true" : "false");
	return r;
}

static void put_special(const struct json_writer *j, int32_t id)
{
	fputs("{\"SpecialToken\": {\"id\": ", j->to);
	put_token(j, id);
	fputs(", \"type_id\": 0}}", j->to);
}

static void put_ids(const struct json_writer *j, int32_t id, const char *before)
{
	fputs(before, j->to);
	put_token(j, id);
	fputs(": {\"id\": ", j->to);
	put_token(j, id);
	fprintf(j->to, ", \"ids\": [%d], \"tokens\": [", id);
	put_token(j, id);
	fputs("]}", j->to);
}

/* The tokens that are added at both ends. */
static void put_post_processor(const struct json_writer *j)
{
	const struct tokenizer *t = j->t;
	const bool bos = t->adds_bos && t->bos >= 0;
	const bool eos = t->adds_eos && t->eos >= 0;

	fputs("  \"post_processor\": ", j->to);
	if (!bos && !eos) {
		fputs("null,\n", j->to);
		return;
	}
	fputs("{\"type\": \"TemplateProcessing\", \"single\": [", j->to);
	if (bos) {
		put_special(j, t->bos);
		fputs(", ", j->to);
	}
	fputs("{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}", j->to);
	if (eos) {
		fputs(", ", j->to);
		put_special(j, t->eos);
	}
	fputs("], \"pair\": [{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}, "
	      "{\"Sequence\": {\"id\": \"B\", \"type_id\": 1}}], "
	      "\"special_tokens\": {",
	      j->to);
	if (bos)
		put_ids(j, t->bos, "");
	if (eos && !(bos && t->eos == t->bos))
		put_ids(j, t->eos, bos ? ", " : "");
	fputs("}},\n", j->to);
}

static void put_decoder(const struct json_writer *j)
{
	if (j->t->byte_level)
		fputs("  \"decoder\": {\"type\": \"ByteLevel\", "
		      "\"add_prefix_space\": false, \"trim_offsets\": true, "
		      "\"use_regex\": true},\n",
		      j->to);
	else
		fprintf(j->to,
			"  \"decoder\": {\"type\": \"Sequence\", \"decoders\": "
			"[{\"type\": \"Replace\", \"pattern\": {\"String\": "
			"\"" MARK "\"}, \"content\": \" \"}, "
			"{\"type\": \"ByteFallback\"}, {\"type\": \"Fuse\"}%s"
			"]},\n",
			j->t->prefix != PREFIX_NEVER
				? ", {\"type\": \"Strip\", \"content\": \" \", "
				  "\"start\": 1, \"stop\": 0}"
				: "");
}

static void put_vocab(const struct json_writer *j)
{
	const char *comma = "";

	fputs("    \"vocab\": {", j->to);
	for (uint32_t id = 0; id < j->text.n; id++) {
		const unsigned kind = kind_of(j, id);

		if (!kind || kind == PIECE_UNUSED)
			continue;
		fprintf(j->to, "%s\n      ", comma);
		put_token(j, (int32_t)id);
		fprintf(j->to, ": %u", id);
		comma = ",";
	}
	fputs("},\n", j->to);
}

static int put_merges(const struct json_writer *j)
{
	struct written_merge *merge = NULL;
	size_t n = 0;
	int r = written_merges(j->t, &merge, &n);

	fputs("    \"merges\": [", j->to);
	for (size_t i = 0; r == 0 && i < n; i++) {
		fputs(i ? ",\n      [" : "\n      [", j->to);
		put_token(j, merge[i].left);
		fputs(", ", j->to);
		put_token(j, merge[i].right);
		fputc(']', j->to);
	}
	fputs("]\n", j->to);
	free(merge);
	return r;
}

static int put_model(const struct json_writer *j)
{
	const struct tokenizer *t = j->t;

	fprintf(j->to, "  \"model\": {\"type\": \"BPE\", \"dropout\": null, "
		       "\"unk_token\": ");
	if (t->unk >= 0 && !t->byte_level)
		put_token(j, t->unk);
	else
		fputs("null", j->to);
	fprintf(j->to,
		", \"continuing_subword_prefix\": null, "
		"\"end_of_word_suffix\": null, \"fuse_unk\": %s, "
		"\"byte_fallback\": %s, \"ignore_merges\": %s,\n",
		t->byte_level ? "false" : "true",
		t->byte_level ? "false" : "true",
		t->whole_words ? "true" : "false");
	put_vocab(j);
	return put_merges(j);
}

int tokenizer_to_json(const struct tokenizer *t, FILE *to)
{
	struct json_writer j = { .t = t, .to = to };
	int r = written_make(t, t->vocab.n, &j.text);

	if (r < 0)
		return r;
	fputs("{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n"
	      "  \"padding\": null,\n",
	      to);
	put_added(&j);
	put_normalizer(&j);
	r = put_pre_tokenizer(&j);
	put_post_processor(&j);
	put_decoder(&j);
	if (!r)
		r = put_model(&j);
	fputs("  }\n}\n", to);
	written_free(&j.text);
	return r;
}

static void put_name(const struct json_writer *j, const char *key, int32_t id)
{
	if (id < 0 || (uint32_t)id >= j->text.n)
		return;
	fprintf(j->to, "  \"%s\": ", key);
	put_token(j, id);
	fputs(",\n", j->to);
}

int tokenizer_to_config(const struct tokenizer *t, int32_t pad,
			const char *template, size_t len, FILE *to)
{
	struct json_writer j = { .t = t, .to = to };
	int r = written_make(t, t->vocab.n, &j.text);

	if (r < 0)
		return r;
	fputs("{\n", to);
	put_name(&j, "bos_token", t->bos);
	put_name(&j, "eos_token", t->eos);
	put_name(&j, "unk_token", t->byte_level ? -1 : t->unk);
	put_name(&j, "pad_token", pad);
	if (template) {
		fputs("  \"chat_template\": ", to);
		put_string(to, template, len);
		fputs(",\n", to);
	}
	fprintf(to,
		"  \"add_bos_token\": %s,\n  \"add_eos_token\": %s,\n"
		"  \"clean_up_tokenization_spaces\": false,\n"
		"  \"tokenizer_class\": \"PreTrainedTokenizerFast\"\n}\n",
		t->adds_bos ? "true" : "false", t->adds_eos ? "true" : "false");
	written_free(&j.text);
	return 0;
}
