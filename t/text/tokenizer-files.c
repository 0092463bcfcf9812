/* SPDX-License-Identifier: MIT */
/*
 * Descriptions of tokenizers: what is read, what is refused, and where they
 * are.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir.h>

#include "files.h"
#include "limit.h"
#include "tap.h"
#include "vocabulary.h"

#define N(array) (sizeof(array) / sizeof((array)[0]))
#define MEMORY (256ul << 20)

static struct vocabulary v;
static struct weir *root;

/* The parts of a tokenizer.json; the test replaces one. */
#define ADDED "[{\"id\":5,\"content\":\"<e>\",\"special\":true}]"
#define PRE "{\"type\":\"ByteLevel\",\"add_prefix_space\":false}"
#define VOCAB "{\"a\":0,\"b\":1,\"ab\":2,\"\\u0120\":3,\"\\u0120a\":4}"
#define MERGES "[\"\\u0120 a\",[\"a\",\"b\"]]"
#define MODEL(more) \
	"{\"type\":\"BPE\",\"vocab\":" VOCAB ",\"merges\":" MERGES more "}"
#define FILE_OF(added, normalizer, pre, model)                  \
	"{\"version\":\"1.0\",\"added_tokens\":" added          \
	",\"normalizer\":" normalizer ",\"pre_tokenizer\":" pre \
	",\"post_processor\":null,"                             \
	"\"decoder\":{\"type\":\"ByteLevel\"},\"model\":" model "}"
#define GOOD FILE_OF(ADDED, "null", PRE, MODEL(""))
#define VOCAB_OF(vocab, merges)    \
	FILE_OF("[]", "null", PRE, \
		"{\"vocab\":" vocab ",\"merges\":" merges "}")

static const struct {
	const char *what, *json;
	int err;
	const char *why;
} wrong[] = {
	{ "nothing", " ", -EBADMSG, "a number without end" },
	{ "an empty object", "{}", -EBADMSG, "'model'" },
	{ "something after its end", GOOD "x", -EBADMSG,
	  "the end of the file" },
	{ "a model without vocabulary",
	  FILE_OF("[]", "null", PRE, "{\"merges\":[]}"), -EBADMSG,
	  "a vocabulary and merges" },
	{ "another kind of model",
	  FILE_OF("[]", "null", PRE, "{\"type\":\"Unigram\",\"vocab\":[]}"),
	  -EOPNOTSUPP, "'Unigram'" },
	{ "affixes of words",
	  FILE_OF("[]", "null", PRE, MODEL(",\"end_of_word_suffix\":\"</w>\"")),
	  -EOPNOTSUPP, "'</w>'" },
	{ "another normalizer",
	  FILE_OF("[]", "{\"type\":\"NFKC\"}", PRE, MODEL("")), -EOPNOTSUPP,
	  "'NFKC'" },
	{ "another pre-tokenizer",
	  FILE_OF("[]", "null", "{\"type\":\"Bert\"}", MODEL("")), -EOPNOTSUPP,
	  "'Bert'" },
	{ "another regular expression",
	  FILE_OF("[]", "null",
		  "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a+\"},"
		  "\"behavior\":\"Isolated\",\"invert\":false}",
		  MODEL("")),
	  -EOPNOTSUPP, "'a+'" },
	{ "no rule for spaces", FILE_OF("[]", "null", "null", MODEL("")),
	  -EOPNOTSUPP, "spaces" },
	{ "an id that is too large", VOCAB_OF("{\"a\":100000}", "[]"), -EBADMSG,
	  "a smaller id" },
	{ "an id beyond 2^31", VOCAB_OF("{\"a\":99999999999}", "[]"), -EBADMSG,
	  "2^31" },
	{ "a negative id", VOCAB_OF("{\"a\":-1}", "[]"), -EBADMSG, "whole" },
	{ "an id that is a fraction", VOCAB_OF("{\"a\":1.5}", "[]"), -EBADMSG,
	  "whole" },
	{ "an id twice", VOCAB_OF("{\"a\":0,\"b\":0}", "[]"), -EBADMSG,
	  "the id 0" },
	{ "a token twice", VOCAB_OF("{\"a\":0,\"a\":1}", "[]"), -EBADMSG,
	  "equal" },
	{ "a merge of a missing token",
	  VOCAB_OF("{\"a\":0,\"b\":1}", "[\"a b\"]"), -EBADMSG, "merge 0" },
	{ "a merge of a missing token that makes one",
	  VOCAB_OF("{\"a\":0,\"ab\":1}", "[\"a b\"]"), -EBADMSG, "merge 0" },
	{ "a merge without a space", VOCAB_OF("{\"a\":0}", "[\"aa\"]"),
	  -EBADMSG, "a space" },
	{ "a merge of three tokens",
	  VOCAB_OF("{\"a\":0,\"aa\":1}", "[[\"a\",\"a\",\"a\"]]"), -EBADMSG,
	  "two tokens" },
	{ "an unknown token that is missing",
	  FILE_OF("[]", "null", PRE, MODEL(",\"unk_token\":\"<u>\"")), -EBADMSG,
	  "a token" },
	{ "a lone surrogate", VOCAB_OF("{\"\\ud800\":0}", "[]"), -EBADMSG,
	  "\\u" },
	{ "text that is not UTF-8", VOCAB_OF("{\"\xff\":0}", "[]"), -EBADMSG,
	  "UTF-8" },
	{ "a line break in a string", VOCAB_OF("{\"\n\":0}", "[]"), -EBADMSG,
	  "UTF-8" },
	{ "an added token that is to be a single word",
	  FILE_OF("[{\"id\":5,\"content\":\"x\",\"single_word\":true}]", "null",
		  PRE, MODEL("")),
	  -EOPNOTSUPP, "a single word, 'x'" },
	{ "an added token that is normalised to another",
	  FILE_OF("[{\"id\":5,\"content\":\"e\\u0301\"}]", "{\"type\":\"NFC\"}",
		  PRE, MODEL("")),
	  -EOPNOTSUPP, "normalised to another" },
	{ "an added token without id",
	  FILE_OF("[{\"content\":\"x\"}]", "null", PRE, MODEL("")), -EBADMSG,
	  "an id and a content" },
};

static void json_refusals(void)
{
	is_int(vocabulary_try(GOOD, strlen(GOOD)), 0,
	       "a tokenizer.json is accepted");
	for (size_t i = 0; i < N(wrong); i++) {
		int r = vocabulary_try(wrong[i].json, strlen(wrong[i].json));

		if (!ok(r == wrong[i].err && strstr(text_error(), wrong[i].why),
			"a tokenizer.json with %s is refused", wrong[i].what))
			diag("%d: %s", r, text_error());
	}
}

static void deep_json(void)
{
	static char text[100000];

	memset(text, '[', sizeof(text));
	memcpy(text, "{\"x\":", 5);
	is_int(vocabulary_try(text, sizeof(text)), -EBADMSG,
	       "a tokenizer.json with 100000 levels is refused");
	has_str(text_error(), "levels", "the sentence names the levels");
}

static void every_prefix(const char *what, const void *bytes, size_t n)
{
	unsigned long bad = 0;

	for (size_t i = 0; i < n; i++) {
		char *copy = malloc(i + 1);
		int r;

		/*
		 * The copy has the exact size, so that sanitizers see an
		 * overrun.
		 */
		memcpy(copy, bytes, i);
		r = vocabulary_try(copy, i);
		bad += r != -EBADMSG && r != -EOPNOTSUPP;
		free(copy);
	}
	is_int(bad, 0, "each prefix of a %s is refused", what);
}

static void small_model(void)
{
	vocabulary_begin(&v, false);
	vocabulary_piece(&v, "a", 0, 1);
	vocabulary_end(&v, 2, true, false);
}

/* A tokenizer.model that ends where its settings would begin is not of BPE. */
static void model_prefixes(void)
{
	vocabulary_begin(&v, false);
	vocabulary_piece(&v, "a", 0, 1);
	every_prefix("tokenizer.model", v.bytes, v.n);
	every_prefix("tokenizer.json", GOOD, strlen(GOOD));
}

static void is_refused(int err, const char *why, const char *title)
{
	int r = vocabulary_try(v.bytes, v.n);

	if (!ok(r == err && strstr(text_error(), why), "%s", title))
		diag("%d: %s", r, text_error());
}

static void model_refusals(void)
{
	static const unsigned char map[] = {
		3 << 3 | 2, 4, 2 << 3 | 2, 2, 1, 2
	};
	static const unsigned char suffix[] = { 2 << 3 | 2, 5,    3 << 3, 2,
						0xc0,       0x01, 1 };

	vocabulary_begin(&v, false);
	vocabulary_end(&v, 1, true, false);
	is_refused(-EOPNOTSUPP, "other than BPE",
		   "a tokenizer.model of type Unigram is refused");
	small_model();
	memcpy(v.bytes + v.n, map, sizeof(map));
	v.n += sizeof(map);
	is_refused(-EOPNOTSUPP, "precompiled_charsmap",
		   "a tokenizer.model that maps characters is refused");
	small_model();
	memcpy(v.bytes + v.n, suffix, sizeof(suffix));
	v.n += sizeof(suffix);
	is_refused(-EOPNOTSUPP, "the end of words",
		   "a tokenizer.model with spaces after words is refused");
	vocabulary_begin(&v, false);
	vocabulary_piece(&v, "<0xZZ>", 0, 6);
	vocabulary_end(&v, 2, true, false);
	is_refused(-EBADMSG, "token 3",
		   "a token for a byte with another name is refused");
	vocabulary_begin(&v, false);
	vocabulary_piece(&v, "a", 0, 7);
	is_refused(-EBADMSG, "a wrong type",
		   "a piece of an unknown type is refused");
	vocabulary_begin(&v, false);
	vocabulary_piece(&v, "a", 0, 1);
	vocabulary_piece(&v, "a", 0, 1);
	vocabulary_end(&v, 2, true, false);
	is_refused(-EBADMSG, "token 4",
		   "a piece that is there twice is refused");
}

static void huge_claims(void)
{
	static const unsigned char field[] = { 1 << 3 | 2, 0xff, 0xff, 0xff,
					       0xff,       0xff, 0x7f, 'x' };
	static const unsigned char endless[] = { 0xff, 0xff, 0xff, 0xff,
						 0xff, 0xff, 0xff, 0xff,
						 0xff, 0xff, 0xff };

	is_int(vocabulary_try(field, sizeof(field)), -EBADMSG,
	       "a field that claims a terabyte is refused");
	is_int(vocabulary_try(endless, sizeof(endless)), -EBADMSG,
	       "a number without end is refused");
}

static int open_model(const char *name, struct tokenizer **ret_t)
{
	struct weir_model *model;
	int r;

	if (weir_model_open(root, files_path(name), NULL, &model) < 0)
		bail("%s", weir_error());
	r = tokenizer_from_model(model, ret_t);
	weir_model_close(model);
	return r;
}

static int open_gguf(struct tokenizer **ret_t)
{
	files_bytes("x.gguf", v.bytes, v.n);
	return open_model("x.gguf", ret_t);
}

/* Octal escapes end after three digits, and 'a' is a hexadecimal one. */
static const char *const tokens[] = { "<s>", "a",        "b",
				      "ab",  "\304\240", "\304\240a" };
static const char *const merges[] = { "\xc4\xa0 a", "a b" };

static void gguf_reads(void)
{
	struct tokenizer *t;

	vocabulary_gguf(&v, "gpt2", "gpt-2", tokens, N(tokens), 1, merges,
			N(merges));
	if (open_gguf(&t) < 0)
		bail("%s", text_error());
	is_str(vocabulary_ids(t, "ab ab<s>", TOKENIZER_CONTROL), "3 5 2 0",
	       "the metadata of a GGUF file make a tokenizer");
	tokenizer_free(t);
}

/* llama.cpp saves its -1, also as an unsigned number. */
static void gguf_no_ids(void)
{
	struct tokenizer_info info;
	struct tokenizer *t = NULL;

	v.no_ids = true;
	vocabulary_gguf(&v, "gpt2", "gpt-2", tokens, N(tokens), 1, merges,
			N(merges));
	v.no_ids = false;
	if (!is_int(open_gguf(&t), 0,
		    "GGUF whose BOS, EOS and EOT have the id -1 is read")) {
		diag("%s", text_error());
		return;
	}
	tokenizer_info(t, &info);
	ok(info.bos == -1 && info.eos == -1,
	   "a token of GGUF with the id -1 does not exist");
	tokenizer_free(t);
}

/* As llama.cpp finds tokens, which is not from the left to the right. */
static void gguf_users(void)
{
	static const char *const list[] = { "<|endoftext|>",
					    "ab",
					    "bcd",
					    "<|im_end|>",
					    "a",
					    "b",
					    "c",
					    "d",
					    "cd" };
	static const char *const pairs[] = { "c d" };
	struct tokenizer *t;

	v.users = 3;
	v.unk = 1;
	vocabulary_gguf(&v, "gpt2", "gpt-2", list, N(list), 1, pairs, 1);
	if (open_gguf(&t) < 0)
		bail("%s", text_error());
	is_str(vocabulary_ids(t, "abcdab", 0), "4 2 1",
	       "in GGUF the longest of tokens that overlap is found");
	is_str(vocabulary_ids(t, "acxd", 0), "4 6 7",
	       "in GGUF a byte without token is left out, after merges");
	is_str(vocabulary_ids(t, "a<|im_end|>", 0), "4 7",
	       "in GGUF what ends a turn does not come from text");
	is_str(vocabulary_ids(t, "a<|im_end|>", TOKENIZER_CONTROL), "4 3",
	       "in GGUF what ends a turn is found if that is asked for");
	ok(tokenizer_is_end(t, 3) && !tokenizer_is_end(t, 1),
	   "in GGUF what ends a turn is known by its name, whatever its type");
	tokenizer_free(t);
	v.users = v.unk = 0;
}

static void gguf_refused(const char *model, const char *pre, size_t n,
			 const char *const *list, size_t n_list, int err,
			 const char *why, const char *title)
{
	struct tokenizer *t = NULL;
	int r;

	vocabulary_gguf(&v, model, pre, tokens, n, 1, list, n_list);
	r = open_gguf(&t);
	if (!ok(r == err && strstr(text_error(), why), "%s", title))
		diag("%d: %s", r, text_error());
	if (r >= 0)
		tokenizer_free(t);
}

static void gguf_refusals(void)
{
	static const char *const other[] = { "a c" }, *const one[] = { "ab" };

	gguf_refused("bert", "gpt-2", 6, merges, 2, -EOPNOTSUPP, "'bert'",
		     "another kind of tokenizer is refused");
	gguf_refused("none", "gpt-2", 6, merges, 2, -ENOENT, "no tokenizer",
		     "a model without tokenizer is refused");
	gguf_refused("gpt2", "klingon", 6, merges, 2, -EOPNOTSUPP, "'klingon'",
		     "another pre-tokenizer is refused");
	gguf_refused("gpt2", "llama-bpe", 6, merges, 2, -EBADMSG, "BOS",
		     "a beginning that is not in the metadata is refused");
	gguf_refused("gpt2", "gpt-2", 0, merges, 2, -EBADMSG, "no tokens",
		     "a tokenizer without tokens is refused");
	gguf_refused("gpt2", "gpt-2", 6, NULL, 0, -EBADMSG, "no merges",
		     "bytes without merges are refused");
	gguf_refused("gpt2", "gpt-2", 6, other, 1, -EBADMSG, "merge 0",
		     "a merge of tokens that are not there is refused");
	gguf_refused("gpt2", "gpt-2", 6, one, 1, -EBADMSG, "without a space",
		     "a merge of one token is refused");
	gguf_refused("gpt2", "gpt-2", 6, merges, 2, 0, "",
		     "a tokenizer that is not changed is accepted");
	gguf_refused("llama", "default", 2, NULL, 0, -EBADMSG, "EOS",
		     "an end that is past the last token is refused");
}

/* Wherever the file is cut or changed, it is read or refused. */
static void gguf_bytes(void)
{
	struct tokenizer *t = NULL;
	struct weir_model *model;
	unsigned long read = 0;

	vocabulary_gguf(&v, "gpt2", "gpt-2", tokens, N(tokens), 1, merges,
			N(merges));
	for (size_t i = 0; i < v.n; i++) {
		v.bytes[i] ^= 0x11;
		files_bytes("x.gguf", v.bytes, v.n);
		v.bytes[i] ^= 0x11;
		if (weir_model_open(root, files_path("x.gguf"), NULL, &model) <
		    0)
			continue;
		read++;
		if (tokenizer_from_model(model, &t) >= 0)
			tokenizer_free(t);
		weir_model_close(model);
	}
	ok(read, "a GGUF file with another byte breaks nothing");
}

static void places(void)
{
	struct tokenizer *t;

	files_st("model.safetensors", "{}", 0);
	is_int(open_model("model.safetensors", &t), -ENOENT,
	       "a safetensors model without a file beside it has no tokenizer");
	has_str(text_error(), "has neither tokenizer.json nor tokenizer.model",
		"the sentence names the files that are missing");
	small_model();
	files_bytes("tokenizer.model", v.bytes, v.n);
	is_int(open_model("model.safetensors", &t), 0,
	       "tokenizer.model beside a safetensors model is found");
	tokenizer_free(t);
	files_text("tokenizer.json", GOOD);
	is_int(tokenizer_open(files_path(""), &t), 0,
	       "the tokenizer of a folder is found");
	is_str(vocabulary_ids(t, "ab", 0), "2",
	       "of two files in a folder tokenizer.json counts");
	tokenizer_free(t);
	is_int(tokenizer_open(files_path("none"), &t), -ENOENT,
	       "a file that is not there is an error");
	is_int(tokenizer_open("/dev/null", &t), -EINVAL,
	       "what is not a file is refused");
}

static struct tokenizer *with_ends(const char *content)
{
	struct tokenizer *t;

	files_text("generation_config.json", content);
	if (tokenizer_open(files_path(""), &t) < 0)
		bail("%s", text_error());
	return t;
}

static void ends_refused(const char *content, const char *why,
			 const char *title)
{
	struct tokenizer *t;
	int r;

	files_text("generation_config.json", content);
	r = tokenizer_open(files_path(""), &t);
	if (!ok(r == -EBADMSG && strstr(text_error(), why), "%s", title))
		diag("%d: %s", r, text_error());
}

/* Beside the tokenizer.json of places(). */
static void generation_config(void)
{
	struct tokenizer *t = with_ends("{\"eos_token_id\": 5}");

	ok(tokenizer_is_end(t, 5) && !tokenizer_is_end(t, 4),
	   "the token that generation_config.json names ends a text");
	tokenizer_free(t);
	t = with_ends("{\"a\": [3], \"eos_token_id\": [4, 5]}");
	ok(tokenizer_is_end(t, 5) && tokenizer_is_end(t, 4) &&
		   !tokenizer_is_end(t, 3),
	   "each of several tokens that generation_config.json names is an end");
	tokenizer_free(t);
	t = with_ends("{\"eos_token_id\": null}");
	ok(!tokenizer_is_end(t, 5),
	   "a generation_config.json need not name an end");
	tokenizer_free(t);
	ends_refused("{\"eos_token_id\": 6}", "6, and there are 6 tokens",
		     "an end that is not in the vocabulary is refused");
	ends_refused("{\"eos_token_id\": \"x\"}",
		     "generation_config.json: byte",
		     "an end that is no number is refused, with its place");
	ends_refused(
		"{\"eos_token_id\": [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
		"1,1,1,1,1,1,1,1,1,1,1,1,1,1]}",
		"fewer", "a list of 33 ends is refused");
}

int main(void)
{
	plan(0);
	files_begin();
	if (weir_open(NULL, &root) < 0)
		bail("%s", weir_error());
	limit_memory(MEMORY);
	json_refusals();
	deep_json();
	model_prefixes();
	model_refusals();
	huge_claims();
	gguf_reads();
	gguf_no_ids();
	gguf_users();
	gguf_refusals();
	gguf_bytes();
	places();
	generation_config();
	weir_close(root);
	return done_testing();
}
