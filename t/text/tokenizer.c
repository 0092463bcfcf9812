/* SPDX-License-Identifier: MIT */
/* Tokenizers: text to tokens and back, with small vocabularies. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tap.h"
#include "vocabulary.h"

#define N(array) (sizeof(array) / sizeof((array)[0]))
#define ids_of vocabulary_ids
#define TEXT(t, flags, ...)                                     \
	vocabulary_text(t, flags, (const int[]){ __VA_ARGS__ }, \
			N(((const int[]){ __VA_ARGS__ })))

static struct vocabulary v;

/* <unk> <s> </s>, then the pieces from 3 on with these scores. */
static struct tokenizer *with_pieces(const char *const *s, const float *score,
				     size_t n, bool prefix)
{
	vocabulary_begin(&v, false);
	for (size_t i = 0; i < n; i++)
		vocabulary_piece(&v, s[i], score[i], 1);
	vocabulary_end(&v, 2, prefix, false);
	return vocabulary_parse(&v);
}

static void merges_by_score(void)
{
	static const char *const s[] = { "a", "b", "c", "ab", "bc", "aa" };
	static const float scores[] = { 0, 0, 0, -2, -1, -3 };
	struct tokenizer *t = with_pieces(s, scores, N(s), false);

	is_str(ids_of(t, "abc", 0), "3 7",
	       "the pair with the greater score is merged first");
	is_str(ids_of(t, "abab", 0), "6 6", "a pair is merged wherever it is");
	is_str(ids_of(t, "aaa", 0), "8 3",
	       "the leftmost of equal pairs is merged first");
	tokenizer_free(t);
}

static void merges_need_each_step(void)
{
	static const char *const s[] = { "a", "b", "c", "d", "abcd", "ab" };
	static const float scores[] = { 0, 0, 0, 0, 9, 1 };
	struct tokenizer *t = with_pieces(s, scores, N(s), false);

	is_str(ids_of(t, "abcd", 0), "8 5 6",
	       "a token whose parts are no tokens is never made");
	tokenizer_free(t);
}

static void adds_a_space(void)
{
	static const char *const s[] = { MARK, "a", MARK "a", MARK MARK };
	static const float scores[] = { 0, 0, 1, 2 };
	struct tokenizer *t = with_pieces(s, scores, N(s), true);

	is_str(ids_of(t, "a a", 0), "5 5", "a space is added before a text");
	is_str(ids_of(t, " a", 0), "6 4",
	       "a text that begins with a space has two");
	is_str(ids_of(t, "", 0), "", "an empty text has no token");
	is_str(ids_of(t, "", TOKENIZER_ADD), "1",
	       "an empty text has a beginning");
	is_str(TEXT(t, 0, 1, 5, 5), "|a| a||",
	       "the added space is removed from the text of tokens");
	is_str(TEXT(t, TOKENIZER_CONTINUE, 5, 5), " a| a||",
	       "a text that continues keeps its first space");
	is_str(ids_of(t, "a" MARK "a", 0), "5 5",
	       "U+2581 in a text is a space");
	tokenizer_free(t);
}

static void falls_back_to_bytes(void)
{
	struct tokenizer *t;

	vocabulary_begin(&v, true);
	vocabulary_piece(&v, "a", 0, 1);
	vocabulary_end(&v, 2, false, false);
	t = vocabulary_parse(&v);
	is_str(ids_of(t, "a\xc3\xa9", 0), "259 198 172",
	       "a character without token becomes the tokens of its bytes");
	is_str(vocabulary_ids_n(t, "\0a", 2, 0), "3 259",
	       "a text may contain a NUL");
	is_str(TEXT(t, 0, 259, 198, 172, 259), "a||\xc3\xa9|a||",
	       "an incomplete character is held until it is complete");
	is_str(TEXT(t, 0, 198), "|\xc3|",
	       "an incomplete character is returned at the end");
	is_str(TEXT(t, 0, 198, 259),
	       "|\xc3"
	       "a||",
	       "bytes that are no character are returned as they are");
	is_str(TEXT(t, 0, 3 + 0xf0, 3 + 0x9f, 3 + 0x98, 3 + 0x80),
	       "|||\xf0\x9f\x98\x80||",
	       "a character of four bytes is returned with its last byte");
	is_str(TEXT(t, 0, 3 + 0x80), "\x80||",
	       "a byte that begins no character is not held");
	tokenizer_free(t);
}

static void has_an_unknown_token(void)
{
	static const char *const s[] = { "a" };
	static const float scores[] = { 0 };
	struct tokenizer *t = with_pieces(s, scores, N(s), false);

	is_str(ids_of(t, "a\xc3\xa9xa", 0), "3 0 3",
	       "unknown characters in a row are one unknown token");
	is_str(TEXT(t, 0, 3, 0, 3), "a||a||", "the unknown token has no text");
	is_str(TEXT(t, TOKENIZER_CONTROL, 0), "<unk>||",
	       "the unknown token has its name if it is asked for");
	tokenizer_free(t);
}

static void knows_control_tokens(void)
{
	static const char *const s[] = { "<", "s", ">", "<s", "<s>s" };
	static const float scores[] = { 0, 0, 0, 1, 2 };
	struct tokenizer *t = with_pieces(s, scores, N(s), false);

	is_str(ids_of(t, "<s>s", 0), "6 5 4",
	       "text that names a control token is text");
	is_str(ids_of(t, "s<s>s", TOKENIZER_CONTROL), "4 1 4",
	       "text that names a control token is it, if that is asked for");
	is_str(ids_of(t, "s", TOKENIZER_ADD), "1 4",
	       "the beginning is added if it is asked for");
	is_str(TEXT(t, TOKENIZER_CONTROL, 1, 4, 2), "<s>|s|</s>||",
	       "the names of control tokens are text if that is asked for");
	is_int(tokenizer_find(t, "</s>"), 2, "a control token has a number");
	is_int(tokenizer_find(t, "</t>"), -1,
	       "a token that is not there is -1");
	ok(tokenizer_is_end(t, 2) && !tokenizer_is_end(t, 1) &&
		   !tokenizer_is_end(t, -1) && !tokenizer_is_end(t, 1000),
	   "the end of a text is known");
	tokenizer_free(t);
}

static void finds_users_tokens(void)
{
	struct tokenizer *t;

	vocabulary_begin(&v, false);
	vocabulary_piece(&v, "a", 0, 1);
	vocabulary_piece(&v, "<x", 0, 4);
	vocabulary_piece(&v, "<x>", 0, 4);
	vocabulary_end(&v, 2, false, false);
	t = vocabulary_parse(&v);
	is_str(ids_of(t, "a<x>a<xa", 0), "3 5 3 4 3",
	       "the longest of its user's tokens is found in a text");
	tokenizer_free(t);
}

static const struct {
	const char *text;
	size_t len;
	const char *why, *what;
} wrong[] = {
	{ "a\x80", 2, "byte 1 (0x80)", "a byte that continues nothing" },
	{ "\xc3", 1, "byte 0 (0xc3)", "a character that is cut off" },
	{ "ab\xe2\x82x", 5, "byte 2 (0xe2)", "a character with a wrong byte" },
	{ "\xc0\x80", 2, "byte 0 (0xc0)", "a NUL of two bytes" },
	{ "\xe0\x80\x80", 3, "byte 0 (0xe0)", "a NUL of three bytes" },
	{ "\xed\xa0\x80", 3, "byte 0 (0xed)", "a surrogate" },
	{ "\xf4\x90\x80\x80", 4, "byte 0 (0xf4)", "U+110000" },
	{ "\xff", 1, "byte 0 (0xff)", "a byte that is in no character" },
};

static void refuses_other_encodings(void)
{
	static const char *const s[] = { "a" };
	static const float scores[] = { 0 };
	struct tokenizer *t = with_pieces(s, scores, N(s), false);
	struct tokenizer_ids ids = { NULL, 0, 0 };

	for (size_t i = 0; i < N(wrong); i++) {
		int r = tokenizer_encode(t, wrong[i].text, wrong[i].len, 0,
					 &ids);

		ok(r == -EILSEQ && strstr(text_error(), wrong[i].why),
		   "a text with %s is refused with its place", wrong[i].what);
	}
	tokenizer_encode(t, "aaa", 3, 0, &ids);
	tokenizer_encode(t, "a\xff", 2, 0, &ids);
	is_int(ids.n, 3, "a text that is refused adds no tokens");
	free(ids.id);
	tokenizer_free(t);
}

static void long_words(void)
{
	static const char *const s[] = { "a", "aa", "aaaa" };
	static const float scores[] = { 0, -1, -2 };
	struct tokenizer *t = with_pieces(s, scores, N(s), false);
	struct tokenizer_ids ids = { NULL, 0, 0 };
	size_t n = 400001;
	char *text = malloc(n);

	memset(text, 'a', n);
	is_int(tokenizer_encode(t, text, n, 0, &ids), 0,
	       "a word of 400 kB is encoded");
	ok(ids.n == n / 4 + 1 && ids.id[0] == 5 && ids.id[ids.n - 1] == 3,
	   "a word of 400 kB has as many tokens as its parts");
	free(text);
	free(ids.id);
	tokenizer_free(t);
}

#define BYTE_LEVEL                                                               \
	"{\"added_tokens\":[{\"id\":6,\"content\":\"<e>\",\"special\":true}],"   \
	"\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false}," \
	"\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"\\u0120\":2,"  \
	"\"ab\":3,\"\\u0120a\":4,\"\\u00c3\":5},"                                \
	"\"merges\":[\"\\u0120 a\",[\"a\",\"b\"]]}}"

#define WITH_UNKNOWN(name, special)                                              \
	"{\"added_tokens\":[{\"id\":6,\"content\":\"" name                       \
	"\",\"special\":" special "}],"                                          \
	"\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false}," \
	"\"model\":{\"type\":\"BPE\",\"unk_token\":\"" name                      \
	"\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":3},\"merges\":[\"a b\"]}}"

static void unknown_bytes(void)
{
	struct tokenizer *t = vocabulary_json(WITH_UNKNOWN("<unk>", "true"));

	is_str(ids_of(t, "axb", 0), "0 6 1",
	       "a byte without token becomes the unknown token");
	tokenizer_free(t);
	t = vocabulary_json(WITH_UNKNOWN("<|endoftext|>", "true"));
	is_str(ids_of(t, "axb", 0), "3",
	       "a byte never becomes a token that ends texts: it is left out");
	tokenizer_free(t);
	t = vocabulary_json(WITH_UNKNOWN("<|im_end|>", "false"));
	is_str(ids_of(t, "axb<|im_end|>", 0), "3",
	       "what ends a turn does not come from text, whatever its type");
	is_str(ids_of(t, "a<|im_end|>", TOKENIZER_CONTROL), "0 6",
	       "what ends a turn is found as a control token if that is asked");
	is_str(TEXT(t, 0, 0, 6), "a|||", "what ends a turn has no text");
	ok(tokenizer_is_end(t, 6), "what ends a turn is known by its name");
	tokenizer_free(t);
}

/*
 * The tokens of a text in two parts, the first of which may name control
 * tokens.
 */
static const char *parts_of(const struct tokenizer *t, const char *control,
			    const char *plain)
{
	static char line[200];
	struct tokenizer_part part[] = {
		{ control, strlen(control), true },
		{ plain, strlen(plain), false },
		{ "<e>", 3, true },
	};
	struct tokenizer_ids ids = { NULL, 0, 0 };
	int r = tokenizer_encode_parts(t, part, N(part), 0, &ids);
	size_t n = 0;

	snprintf(line, sizeof(line), "%d", r);
	for (size_t i = 0; !r && i < ids.n; i++)
		n += (size_t)snprintf(line + n, sizeof(line) - n, "%s%d",
				      i ? " " : "", ids.id[i]);
	free(ids.id);
	return line;
}

static void parts(void)
{
	struct tokenizer *t = vocabulary_json(BYTE_LEVEL);
	struct tokenizer_part none[TOKENIZER_PARTS_MAX + 1] = { { "", 0, 0 } };
	struct tokenizer_ids ids = { NULL, 0, 0 };

	is_str(parts_of(t, "<e>a", "b"), "6 3 6",
	       "merges cross the bounds of a text's parts");
	is_str(parts_of(t, "a", "<e>b"), "0 1 6",
	       "a control token comes only from a part that may name it");
	is_str(parts_of(t, "<e", ">b<"), "1 6",
	       "a control token does not begin in one part and end in another");
	has_str(parts_of(t, "a", "\xff"), "-84",
		"a part that is not UTF-8 is refused");
	is_int(tokenizer_encode_parts(t, none, N(none), 0, &ids), -EINVAL,
	       "a text of more parts than there may be is refused");
	tokenizer_free(t);
}

static void byte_level(void)
{
	struct tokenizer *t = vocabulary_json(BYTE_LEVEL);
	struct tokenizer_info info;

	is_str(ids_of(t, "ab ab", 0), "3 4 1",
	       "merges are made in the order of their list");
	is_str(ids_of(t, "a<e>", TOKENIZER_CONTROL), "0 6",
	       "an added token is found if that is asked for");
	is_str(ids_of(t, "axb", 0), "3",
	       "a byte without token is left out if none is for unknown text");
	is_str(TEXT(t, 0, 4, 6, 5, 0),
	       " a|||\xc3"
	       "a||",
	       "tokens of bytes become these bytes");
	tokenizer_info(t, &info);
	ok(info.count == 7 && info.bos == -1 && !info.adds_bos &&
		   !strcmp(info.kind, "byte-level BPE"),
	   "a tokenizer says what it is");
	tokenizer_free(t);
}

static void refuses_unknown_ids(void)
{
	struct tokenizer *t = vocabulary_json(BYTE_LEVEL);
	struct tokenizer_decoder *d;
	const char *s;
	size_t n;

	if (tokenizer_decoder_new(t, 0, &d) < 0)
		bail("%s", text_error());
	is_int(tokenizer_decode(d, 7, &s, &n), -EINVAL,
	       "a token past the end of the vocabulary is refused");
	has_str(text_error(), "no token 7",
		"the sentence names the token that is not there");
	is_int(tokenizer_decode(d, -1, &s, &n), -EINVAL,
	       "a negative token is refused");
	tokenizer_decoder_free(d);
	tokenizer_free(t);
}

int main(void)
{
	plan(0);
	merges_by_score();
	merges_need_each_step();
	adds_a_space();
	falls_back_to_bytes();
	has_an_unknown_token();
	knows_control_tokens();
	finds_users_tokens();
	refuses_other_encodings();
	long_words();
	byte_level();
	unknown_bytes();
	parts();
	refuses_unknown_ids();
	return done_testing();
}
