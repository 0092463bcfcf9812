/* SPDX-License-Identifier: MIT */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "model/format/json.h"
#include "tap.h"

#define LEN(a) (sizeof(a) / sizeof(a[0]))
#define TEXT(s) s, sizeof(s) - 1

static char *copy; /* has the exact size, so that ASan sees an overrun */

static void begin(struct weir__json *j, const char *text, size_t len)
{
	free(copy);
	copy = malloc(len + 1);
	memcpy(copy, text, len);
	copy[len] = '\0';
	weir__json_init(j, "f", 0, copy, len);
}

static int whole(const char *text, size_t len)
{
	struct weir__json j;
	int r;

	begin(&j, text, len);
	r = weir__json_skip(&j);
	return r < 0 ? r : weir__json_end(&j);
}

static const struct {
	const char *text;
	size_t len;
	const char *what;
} good[] = {
	{ TEXT("{}"), "an empty object" },
	{ TEXT(" \t\r\n[ ] \t\r\n"), "white space of four kinds" },
	{ TEXT("{\"a\":[1,{\"b\":null}],\"\":true}"), "nested containers" },
	{ TEXT("[0,-0,10,1.5,-1.25e+10,2E-3,false]"), "all forms of numbers" },
	{ TEXT("123456789012345678901234567890"), "a number of any length" },
	{ TEXT("\"\x7f\""), "a DEL in a string" },
	{ TEXT("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\""), "every escape" },
	{ TEXT("\"\\ud83d\\ude00\""), "a surrogate pair" },
	{ TEXT("\"\\ud800\\udc00\\uDBFF\\uDFFF\""),
	  "the first and the last surrogate pair" },
	{ TEXT("\"\xc2\x80\xdf\xbf\""), "UTF-8 of two bytes" },
	{ TEXT("\"\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf\""),
	  "UTF-8 of three bytes" },
	{ TEXT("\"\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\""), "UTF-8 of four bytes" },
};

static const struct {
	const char *text;
	size_t len;
	const char *part, *what;
} bad[] = {
	{ TEXT(""), "byte 0: expected a value, found the end",
	  "no text at all" },
	{ TEXT("{"), "byte 1: expected a string, found the end",
	  "an object that does not end" },
	{ TEXT("{\"a\":1"), "byte 6: expected ',' or '}', found the end",
	  "an object that ends after a value" },
	{ TEXT("[1"), "byte 2: expected ',' or ']', found the end",
	  "an array that does not end" },
	{ TEXT("[1}"), "byte 2: expected ',' or ']', found '}'",
	  "brackets that do not match" },
	{ TEXT("{\"a\" 1}"), "byte 5: expected ':', found '1'",
	  "a missing colon" },
	{ TEXT("{1:1}"), "byte 1: expected a string, found '1'",
	  "a name that is no string" },
	{ TEXT("{\"a\":1 \"b\":2}"), "byte 7: expected ',' or '}'",
	  "a missing comma" },
	{ TEXT("{\"a\":1,}"), "byte 7: expected a string, found '}'",
	  "a trailing comma in an object" },
	{ TEXT("[1,]"), "byte 3: expected a value, found ']'",
	  "a trailing comma in an array" },
	{ TEXT("[,1]"), "byte 1: expected a value, found ','",
	  "a leading comma" },
	{ TEXT("[1,,2]"), "byte 3: expected a value", "a doubled comma" },
	{ TEXT("{} {}"), "byte 3: expected only white space",
	  "a second value" },
	{ TEXT("{}\0"),
	  "byte 2: expected only white space after the object, found byte 0x00",
	  "NUL padding" },
	{ TEXT("\xef\xbb\xbf{}"), "byte 0: expected a value, found byte 0xef",
	  "a byte order mark" },
	{ TEXT("// c\n{}"), "byte 0", "a comment" },
	{ TEXT("[1 /* c */]"), "byte 3", "a comment inside an array" },
	{ TEXT("\v{}"), "byte 0: expected a value, found byte 0x0b",
	  "white space that JSON does not have" },
	{ TEXT("[NaN]"), "byte 1", "NaN" },
	{ TEXT("[Infinity]"), "byte 1", "Infinity" },
	{ TEXT("nul"), "byte 0: expected a value", "a truncated literal" },
	{ TEXT("nulll"), "byte 4", "a literal and more letters" },
	{ TEXT("True"), "byte 0", "a capital True" },
	{ TEXT("'a'"), "byte 0", "a string in single quotes" },
	{ TEXT("01"), "byte 0: a number may not begin with 0",
	  "a leading zero" },
	{ TEXT("-01"), "byte 1: a number may not begin with 0",
	  "a leading zero after a sign" },
	{ TEXT("+1"), "byte 0", "a plus sign" },
	{ TEXT("-"), "byte 1: expected a digit, found the end", "a lone sign" },
	{ TEXT("1."), "byte 2: expected a digit",
	  "a point without a fraction" },
	{ TEXT(".5"), "byte 0", "a fraction without a number" },
	{ TEXT("1e"), "byte 2: expected a digit", "an empty exponent" },
	{ TEXT("1e+"), "byte 3: expected a digit", "an exponent's lone sign" },
	{ TEXT("0x10"), "byte 1", "a hexadecimal number" },
	{ TEXT("\"a"), "byte 2: the text ends inside a string",
	  "a string that does not end" },
	{ TEXT("\"a\\"), "byte 2: not an escape", "an escape at the end" },
	{ TEXT("\"a\0b\""), "byte 2: control character 0x00", "a raw NUL" },
	{ TEXT("\"a\x1f\""), "byte 2: control character 0x1f",
	  "a raw control character" },
	{ TEXT("\"\n\""), "byte 1: control character 0x0a", "a raw newline" },
	{ TEXT("\"\\x41\""), "byte 1: not an escape", "an unknown escape" },
	{ TEXT("\"\\u12\""), "byte 1: \\u needs four", "\\u with two digits" },
	{ TEXT("\"\\u12g4\""), "byte 1: \\u needs four", "\\u with no digit" },
	{ TEXT("\"\\ud800\""), "byte 1: half of a surrogate pair",
	  "a lone high surrogate" },
	{ TEXT("\"\\udc00\""), "byte 1: half of a surrogate pair",
	  "a lone low surrogate" },
	{ TEXT("\"\\ud800\\ud800\""), "byte 1: half of a surrogate pair",
	  "two high surrogates" },
	{ TEXT("\"\\ud800\\udbff\""), "byte 1: half",
	  "a high surrogate before the last high one" },
	{ TEXT("\"\\ud800\\ue000\""), "byte 1: half",
	  "a high surrogate before U+E000" },
	{ TEXT("\"\\ud800\\u0041\""), "byte 1: half",
	  "a high surrogate before a letter" },
	{ TEXT("\"\\ud800\\udc0"), "byte 1: half",
	  "a surrogate pair cut short" },
	{ TEXT("\"\x80\""), "byte 1: byte 0x80 is not UTF-8",
	  "a continuation byte alone" },
	{ TEXT("\"\xc1\xbf\""), "not UTF-8", "an overlong form of two bytes" },
	{ TEXT("\"\xe0\x9f\xbf\""), "not UTF-8",
	  "an overlong form of three bytes" },
	{ TEXT("\"\xf0\x8f\xbf\xbf\""), "not UTF-8",
	  "an overlong form of four bytes" },
	{ TEXT("\"\xed\xa0\x80\""), "not UTF-8", "a surrogate in UTF-8" },
	{ TEXT("\"\xf4\x90\x80\x80\""), "not UTF-8", "more than U+10FFFF" },
	{ TEXT("\"\xf5\x80\x80\x80\""), "not UTF-8",
	  "a byte that UTF-8 never has" },
	{ TEXT("\"\xc3\""), "not UTF-8", "UTF-8 cut short by a quote" },
	{ TEXT("\"\xe2\x82\""), "not UTF-8",
	  "UTF-8 cut short before its third byte" },
	{ TEXT("\"\xf0\x9f\x98\""), "not UTF-8",
	  "UTF-8 cut short before its fourth byte" },
	{ TEXT("\"\xe2\x82"), "not UTF-8", "UTF-8 cut short by the end" },
	{ TEXT("\xc3\xa9"), "byte 0", "a letter outside of a string" },
};

static void texts_are_accepted_or_refused(void)
{
	for (size_t i = 0; i < LEN(good); i++)
		is_int(whole(good[i].text, good[i].len), 0,
		       "JSON with %s is accepted", good[i].what);
	for (size_t i = 0; i < LEN(bad); i++)
		is_err(whole(bad[i].text, bad[i].len), -EBADMSG, bad[i].part,
		       "JSON with %s is refused", bad[i].what);
}

static int nested(unsigned depth, const char *open, const char *close)
{
	size_t n = depth * strlen(open), m = depth * strlen(close);
	char *text = malloc(n + m + 2);
	int r;

	for (unsigned i = 0; i < depth; i++) {
		memcpy(text + i * strlen(open), open, strlen(open));
		memcpy(text + n + 1 + i * strlen(close), close, strlen(close));
	}
	text[n] = '1';
	r = whole(text, n + 1 + m);
	free(text);
	return r;
}

static void depth_is_bounded(void)
{
	is_int(nested(127, "[", "]"), 0, "127 nested arrays are accepted");
	is_err(nested(128, "[", "]"), -EBADMSG,
	       "byte 127: nested deeper than 127 levels",
	       "128 nested arrays are refused");
	is_int(nested(127, "{\"\":", "}"), 0,
	       "127 nested objects are accepted");
	is_err(nested(128, "{\"\":", "}"), -EBADMSG, "byte 508: nested",
	       "128 nested objects are refused");
	is_err(nested(1000000, "[", "]"), -EBADMSG, "byte 127",
	       "a million nested arrays are refused at the 128th");
}

static void strings_are_decoded(void)
{
	static const char text[] =
		"\"a\\u0000\\n\\u00e9\\u20ac\\ud83d\\ude00\xc3\xa9z\" x";
	static const char want[] =
		"a\0\n\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xc3\xa9z";
	struct weir__json j;
	struct weir__str s;

	begin(&j, text, sizeof(text) - 1);
	is_int(weir__json_string(&j, &s), 0, "a string is decoded");
	is_int(s.len, sizeof(want) - 1,
	       "the length of a string counts decoded bytes");
	is_mem(s.s, want, sizeof(want) - 1,
	       "a decoded string may contain a NUL");
	is_int(weir__json_peek(&j), 'x', "the token after a string comes next");
	begin(&j, TEXT("\"\""));
	is_int(weir__json_string(&j, &s), 0, "an empty string is a string");
	is_int(s.len, 0, "an empty string has length 0");
	ok(weir__str_is(&s, "") && !weir__str_is(&s, "a"),
	   "strings are compared by length and bytes");
}

static int number(const char *text, size_t len, uint64_t *ret)
{
	struct weir__json j;

	begin(&j, text, len);
	return weir__json_u64(&j, ret);
}

static void whole_numbers_are_exact(void)
{
	uint64_t v = 7;

	is_int(number(TEXT("0"), &v), 0, "0 is a whole number");
	is_int(v, 0, "0 has the value 0");
	is_int(number(TEXT("18446744073709551615"), &v), 0,
	       "2^64-1 is accepted");
	ok(v == UINT64_MAX, "2^64-1 is read exactly");
	is_err(number(TEXT("18446744073709551616"), &v), -EBADMSG,
	       "above 18446744073709551615", "2^64 is refused");
	is_err(number(TEXT("99999999999999999999999"), &v), -EBADMSG, "above",
	       "a number that wraps is refused");
	is_int(number(TEXT("9007199254740993"), &v), 0,
	       "2^53+1, which no double has, is accepted");
	ok(v == 9007199254740993u, "2^53+1 is read exactly");
	is_err(number(TEXT("-1"), &v), -EBADMSG,
	       "expected a whole number, found '-'",
	       "-1 is refused as a whole number");
	is_err(number(TEXT("-0"), &v), -EBADMSG, "found '-'",
	       "-0 is refused as a whole number");
	is_err(number(TEXT("2.0"), &v), -EBADMSG, "expected a whole number",
	       "2.0 is refused as a whole number");
	is_err(number(TEXT("2e0"), &v), -EBADMSG, "expected a whole number",
	       "2e0 is refused as a whole number");
	is_err(number(TEXT("007"), &v), -EBADMSG, "may not begin with 0",
	       "007 is refused as a whole number");
	is_err(number(TEXT("\"2\""), &v), -EBADMSG, "found '\"'",
	       "a string is refused as a whole number");
	is_err(number(TEXT(""), &v), -EBADMSG, "found the end",
	       "no text is refused as a whole number");
}

static void tokens_are_pulled(void)
{
	struct weir__str name, value;
	struct weir__json j;
	uint64_t v;

	begin(&j, TEXT(" {\"a\" : [ 1 , 2 ], \"b\":\"c\"} "));
	is_int(weir__json_enter(&j, '{'), 0, "an object is entered");
	is_int(weir__json_member(&j, &name), 1, "an object has a first member");
	ok(weir__str_is(&name, "a"), "a member has its name");
	is_int(weir__json_enter(&j, '['), 0,
	       "an array that is a member is entered");
	is_int(weir__json_element(&j), 1, "an array has a first element");
	is_int(weir__json_u64(&j, &v), 0, "the first element is read");
	is_int(weir__json_element(&j), 1, "an array has a second element");
	is_int(weir__json_u64(&j, &v), 0, "the second element is read");
	is_int(v, 2, "the second element has its own value");
	is_int(weir__json_element(&j), 0,
	       "an array ends after its last element");
	is_int(weir__json_member(&j, &name), 1,
	       "an object goes on after an array");
	is_int(weir__json_string(&j, &value), 0,
	       "a member that is a string is read");
	is_int(weir__json_member(&j, &name), 0,
	       "an object ends after its last member");
	is_int(weir__json_end(&j), 0, "a text ends after its object");
	begin(&j, TEXT("[]"));
	is_err(weir__json_enter(&j, '{'), -EBADMSG,
	       "f: byte 0: expected '{', found '['",
	       "an array is not entered as an object");
	weir__json_init(&j, "f.st", 8, copy, 2);
	j.kind = "tensor";
	j.name = (struct weir__str){ "x\ny", 3 };
	is_err(weir__json_null(&j), -EBADMSG,
	       "f.st: byte 8, in tensor 'x\\x0ay': expected a value",
	       "an error counts bytes of the file and names the tensor");
}

/*
 * Each byte at each place of an 8-byte word, and in the bytes after the last.
 */
static void bytes_are_alike_everywhere(void)
{
	char text[] = "\"0123456789012345678\"";
	const size_t n = sizeof(text) - 3;
	unsigned wrong = 0;

	for (size_t at = 1; at <= n; at++)
		for (unsigned c = 0; c < 256; c++) {
			bool refused = c < 0x20 || c >= 0x80 || c == '\\';
			size_t want = c == '"' ? at - 1 : n;
			struct weir__json j;
			struct weir__str s;
			char was = text[at];
			int r;

			text[at] = (char)c;
			begin(&j, text, sizeof(text) - 1);
			r = weir__json_string(&j, &s);
			wrong += refused ? r != -EBADMSG
					 : r || s.len != want ||
						   memcmp(s.s, text + 1, want);
			text[at] = was;
		}
	is_int(wrong, 0,
	       "in a long string a byte is accepted or refused wherever it stands");
}

int main(void)
{
	plan(LEN(good) + LEN(bad) + 5 + 7 + 1 + 15 + 16);
	texts_are_accepted_or_refused();
	depth_is_bounded();
	strings_are_decoded();
	bytes_are_alike_everywhere();
	whole_numbers_are_exact();
	tokens_are_pulled();
	free(copy);
	return done_testing();
}
