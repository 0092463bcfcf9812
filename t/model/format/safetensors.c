/* SPDX-License-Identifier: MIT */
/* The rules of a safetensors header, each on both sides, in both modes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "files.h"
#include "model/format/safetensors.h"
#include "tap.h"

#define LEN(a) (sizeof(a) / sizeof(a[0]))
#define TEXT(s) s, sizeof(s) - 1
#define T ENTRY
#define A "{" T("a", "F32", "[1]", "[0,4]") "}"
#define MAX "18446744073709551615"
#define NEST(x) x x x x x x x x x x
#define NEST125(x) NEST(NEST(x)) NEST(x) NEST(x) x x x x x

static int parse_at(const char *text, size_t len, uint64_t data, bool lenient,
		    struct weir_model *m)
{
	struct weir__st st = {
		.file = "f.st",
		.text = malloc(len + 1),
		.len = len,
		.data_bytes = data,
		.lenient = lenient,
	};
	int r;

	memcpy(st.text, text, len);
	st.text[len] = '\0';
	r = weir__st_parse(m, &st);
	free(st.text);
	return r;
}

static int parse(const char *text, size_t len, uint64_t data, bool lenient,
		 struct weir_model **ret_model)
{
	struct weir_model *m;
	int r = weir__model_new(NULL, &m);

	if (r == 0)
		r = parse_at(text, len, data, lenient, m);
	if (r == 0)
		r = weir__model_finish(m);
	if (r == 0)
		*ret_model = m;
	else
		weir__model_put(m);
	return r;
}

struct rule {
	const char *what;
	const char *text;
	size_t len;
	uint64_t data;
	int strict, lenient; /* what is returned */
	const char *part;    /* part of the sentence if it is refused */
};

static const struct rule rules[] = {
	/* clang-format off */
	{ "no tensors", TEXT("{}"), 0, 0, 0, "" },
	{ "one tensor", TEXT(A), 4, 0, 0, "" },
	{ "fields in another order",
	  TEXT("{\"a\":{\"data_offsets\":[0,4],\"shape\":[1],\"dtype\":\"F32\"}}"),
	  4, 0, 0, "" },
	{ "spaces after the object", TEXT(A "      "), 4, 0, 0, "" },
	{ "other white space after the object", TEXT(A "\t\r\n "), 4, 0, 0, "" },
	{ "white space between tokens", TEXT("{ \"a\"\n:\t{\"dtype\" : \"F32\", \"shape\":[ 1 ],"
	  "\r\"data_offsets\":[ 0 , 4 ] } }"), 4, 0, 0, "" },
	{ "a space before the object", TEXT(" " A), 4, -EBADMSG, 0,
	  "f.st: byte 8: a header must begin with '{'" },
	{ "a tab before the object", TEXT("\t" A), 4, -EBADMSG, 0, "byte 8" },
	{ "a line feed before the object", TEXT("\n" A), 4, -EBADMSG, 0, "byte 8" },
	{ "a carriage return before the object", TEXT("\r" A), 4, -EBADMSG, 0,
	  "byte 8" },
	{ "NUL padding", TEXT(A "\0\0"), 4, -EBADMSG, -EBADMSG, "found byte 0x00" },
	{ "a byte order mark", TEXT("\xef\xbb\xbf" A), 4, -EBADMSG, -EBADMSG,
	  "byte 8" },
	{ "an array as the root", TEXT("[]"), 0, -EBADMSG, -EBADMSG, "byte 8" },
	{ "a number as the root", TEXT("12"), 0, -EBADMSG, -EBADMSG, "byte 8" },
	{ "a string as the root", TEXT("\"{\""), 0, -EBADMSG, -EBADMSG, "byte 8" },
	{ "white space alone", TEXT("    "), 0, -EBADMSG, -EBADMSG, "byte" },
	{ "a second object after the first", TEXT("{}{}"), 0, -EBADMSG, -EBADMSG, "f.st: byte 10" },
	{ "a trailing comma",
	  TEXT("{" T("a", "F32", "[1]", "[0,4]") ",}"), 4, -EBADMSG, -EBADMSG,
	  "expected a string, found '}'" },
	{ "a comment", TEXT("{/**/}"), 0, -EBADMSG, -EBADMSG, "byte 9" },

	/* names */
	{ "a tensor named twice, alike",
	  TEXT("{" T("a", "F32", "[1]", "[0,4]") "," T("a", "F32", "[1]", "[0,4]") "}"),
	  4, -EBADMSG, 0, "in tensor 'a': named twice" },
	{ "a tensor named twice, the last entry being right",
	  TEXT("{" T("a", "I64", "[7]", "[9,3]") "," T("a", "F32", "[1]", "[0,4]") "}"),
	  4, -EBADMSG, 0, "named twice" },
	{ "a tensor named twice, the last entry being wrong",
	  TEXT("{" T("a", "F32", "[1]", "[0,4]") "," T("a", "F32", "[2]", "[0,4]") "}"),
	  4, -EBADMSG, -EBADMSG, "tensor 'a'" },
	{ "a tensor named twice, once by escapes",
	  TEXT("{" T("a", "F32", "[1]", "[0,4]") "," T("\\u0061", "F32", "[1]", "[0,4]")
	  "}"), 4, -EBADMSG, 0, "named twice" },
	{ "a wrong entry that a later one replaces",
	  TEXT("{\"a\":7," T("a", "F32", "[1]", "[0,4]") "}"), 4,
	  -EBADMSG, -EBADMSG, "in tensor 'a': expected '{', found '7'" },
	{ "an entry of nine dimensions that a later one replaces",
	  TEXT("{" T("a", "U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]") ","
	  T("a", "F32", "[1]", "[0,4]") "}"), 4, -EBADMSG, 0, "named twice" },
	{ "an empty name", TEXT("{" T("", "F32", "[1]", "[0,4]") "}"), 4, 0, 0, "" },
	{ "a NUL in a name", TEXT("{" T("a\\u0000b", "F32", "[1]", "[0,4]") "}"),
	  4, 0, 0, "" },
	{ "names that differ after a NUL",
	  TEXT("{" T("a\\u0000b", "U8", "[1]", "[0,1]") ","
	  T("a\\u0000c", "U8", "[1]", "[1,2]") "}"), 2, 0, 0, "" },
	{ "escapes in a name", TEXT("{" T("\\n\\\"\\u00e9\\ud83d\\ude00", "F32", "[1]",
	  "[0,4]") "}"), 4, 0, 0, "" },
	{ "a lone surrogate in a name", TEXT("{" T("\\ud800", "F32", "[1]", "[0,4]")
	  "}"), 4, -EBADMSG, -EBADMSG, "byte 10: half of a surrogate pair" },
	{ "a raw control character in a name", TEXT("{" T("\n", "F32", "[1]", "[0,4]")
	  "}"), 4, -EBADMSG, -EBADMSG, "byte 10: control character 0x0a" },
	{ "a name that is not UTF-8", TEXT("{" T("\xff", "F32", "[1]", "[0,4]") "}"),
	  4, -EBADMSG, -EBADMSG, "byte 10: byte 0xff is not UTF-8" },

	/* entries */
	{ "an entry as an array", TEXT("{\"a\":[\"F32\",[1],[0,4]]}"), 4,
	  -EBADMSG, 0, "in tensor 'a': expected '{', found '['" },
	{ "an array of two fields", TEXT("{\"a\":[\"F32\",[1]]}"), 4,
	  -EBADMSG, -EBADMSG, "in tensor 'a'" },
	{ "an array of four fields", TEXT("{\"a\":[\"F32\",[1],[0,4],0]}"), 4,
	  -EBADMSG, -EBADMSG, "in tensor 'a'" },
	{ "an array in another order", TEXT("{\"a\":[[1],\"F32\",[0,4]]}"), 4,
	  -EBADMSG, -EBADMSG, "in tensor 'a'" },
	{ "an entry that is null", TEXT("{\"a\":null}"), 0, -EBADMSG, -EBADMSG,
	  "f.st: byte 13, in tensor 'a': expected '{', found 'n'" },
	{ "no dtype", TEXT("{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}"), 4,
	  -EBADMSG, -EBADMSG, "in tensor 'a': 'dtype' is missing" },
	{ "no shape", TEXT("{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}"), 4,
	  -EBADMSG, -EBADMSG, "in tensor 'a': 'shape' is missing" },
	{ "no data_offsets", TEXT("{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}"), 4,
	  -EBADMSG, -EBADMSG, "in tensor 'a': 'data_offsets' is missing" },
	{ "an empty entry", TEXT("{\"a\":{}}"), 0, -EBADMSG, -EBADMSG,
	  "'dtype' is missing" },
	{ "a repeated dtype", TEXT("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],"
	  "\"data_offsets\":[0,4],\"dtype\":\"F32\"}}"), 4, -EBADMSG, -EBADMSG,
	  "in tensor 'a': 'dtype' occurs twice" },
	{ "a repeated shape", TEXT("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],"
	  "\"shape\":[1],\"data_offsets\":[0,4]}}"), 4, -EBADMSG, -EBADMSG,
	  "'shape' occurs twice" },
	{ "repeated data_offsets", TEXT("{\"a\":{\"data_offsets\":[0,4],\"dtype\":\"F32\","
	  "\"shape\":[1],\"data_offsets\":[0,4]}}"), 4, -EBADMSG, -EBADMSG,
	  "'data_offsets' occurs twice" },
	{ "an unknown field", TEXT("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],"
	  "\"data_offsets\":[0,4],\"x\":{\"y\":[1.5e3,null,\"\"]}}}"), 4, 0, 0, "" },
	{ "an unknown field that is no JSON", TEXT("{\"a\":{\"dtype\":\"F32\","
	  "\"shape\":[1],\"data_offsets\":[0,4],\"x\":tru}}"), 4,
	  -EBADMSG, -EBADMSG, "in tensor 'a': expected a value" },
	{ "an unknown field of 125 levels, 127 in all", TEXT("{\"a\":{\"dtype\":\"F32\","
	  "\"shape\":[1],\"data_offsets\":[0,4],\"x\":" NEST125("[") NEST125("]") "}}"),
	  4, 0, 0, "" },
	{ "an unknown field of 126 levels, 128 in all", TEXT("{\"a\":{\"dtype\":\"F32\","
	  "\"shape\":[1],\"data_offsets\":[0,4],\"x\":[" NEST125("[") NEST125("]") "]}}"),
	  4, -EBADMSG, -EBADMSG, "in tensor 'a': nested deeper than 127 levels" },

	/* dtypes */
	{ "a dtype in lower case", TEXT("{" T("a", "f32", "[1]", "[0,4]") "}"), 4,
	  -EBADMSG, -EBADMSG, "byte 22, in tensor 'a': unknown dtype 'f32'" },
	{ "an unknown dtype", TEXT("{" T("a", "F128", "[1]", "[0,16]") "}"), 16,
	  -EBADMSG, -EBADMSG, "unknown dtype 'F128'" },
	{ "a dtype of another format", TEXT("{" T("a", "Q4_0", "[32]", "[0,18]") "}"),
	  18, -EBADMSG, -EBADMSG, "unknown dtype 'Q4_0'" },
	{ "an empty dtype", TEXT("{" T("a", "", "[1]", "[0,4]") "}"), 4,
	  -EBADMSG, -EBADMSG, "unknown dtype ''" },
	{ "a dtype that is a number", TEXT("{\"a\":{\"dtype\":4,\"shape\":[1],"
	  "\"data_offsets\":[0,4]}}"), 4, -EBADMSG, -EBADMSG,
	  "expected a string, found '4'" },

	/* shapes */
	{ "a shape without dimensions, of one element",
	  TEXT("{" T("a", "F32", "[]", "[0,4]") "}"), 4, 0, 0, "" },
	{ "a shape without dimensions and without bytes",
	  TEXT("{" T("a", "F32", "[]", "[0,0]") "}"), 0, -EBADMSG, -EBADMSG,
	  "hold 0 bytes, its shape needs 4" },
	{ "a dimension of 0", TEXT("{" T("a", "F32", "[3,0]", "[0,0]") "}"), 0, 0, 0,
	  "" },
	{ "eight dimensions", TEXT("{" T("a", "U8", "[1,2,1,1,1,1,1,1]", "[0,2]") "}"),
	  2, 0, 0, "" },
	{ "nine dimensions", TEXT("{" T("a", "U8", "[1,2,1,1,1,1,1,1,1]", "[0,2]") "}"),
	  2, -EOPNOTSUPP, -EOPNOTSUPP,
	  "f.st: tensor 'a': 9 dimensions, 8 are supported" },
	{ "[0, 2^64-1, 2^64-1], which is empty",
	  TEXT("{" T("a", "F32", "[0," MAX "," MAX "]", "[0,0]") "}"), 0, 0, 0, "" },
	{ "[2^64-1, 2^64-1, 0], which overflows on the way",
	  TEXT("{" T("a", "F32", "[" MAX "," MAX ",0]", "[0,0]") "}"), 0,
	  -EBADMSG, -EBADMSG, "tensor 'a': its shape needs more than 2^64 - 1 bits" },
	{ "[2^63, 2, 0], which overflows by one",
	  TEXT("{" T("a", "U8", "[9223372036854775808,2,0]", "[0,0]") "}"), 0,
	  -EBADMSG, -EBADMSG, "more than 2^64 - 1 bits" },
	{ "[2^63 - 1, 2, 0], which does not overflow",
	  TEXT("{" T("a", "U8", "[9223372036854775807,2,0]", "[0,0]") "}"), 0, 0, 0,
	  "" },
	{ "2^61 bytes, which are 2^64 bits",
	  TEXT("{" T("a", "U8", "[2305843009213693952]", "[0,2305843009213693952]") "}"),
	  1ull << 61, -EBADMSG, -EBADMSG,
	  "data_offsets [0, 2305843009213693952] hold 2305843009213693952 bytes" },
	{ "2^61 - 1 bytes",
	  TEXT("{" T("a", "U8", "[2305843009213693951]", "[0,2305843009213693951]") "}"),
	  (1ull << 61) - 1, 0, 0, "" },
	{ "[2^32, 2^32], whose product is 0 in 64 bits",
	  TEXT("{" T("a", "F32", "[4294967296,4294967296]", "[0,0]") "}"), 0,
	  -EBADMSG, -EBADMSG, "more than 2^64 - 1 bits" },
	{ "2^62 of U64, whose bits are 0 in 64 bits",
	  TEXT("{" T("a", "U64", "[4611686018427387904]", "[0,0]") "}"), 0,
	  -EBADMSG, -EBADMSG, "more than 2^64 - 1 bits" },
	{ "a dimension of 2^64", TEXT("{" T("a", "U8", "[18446744073709551616]", "[0,0]")
	  "}"), 0, -EBADMSG, -EBADMSG, "a number above 18446744073709551615" },
	{ "a dimension of 2.0", TEXT("{" T("a", "F32", "[2.0]", "[0,8]") "}"), 8,
	  -EBADMSG, -EBADMSG, "in tensor 'a': expected a whole number" },
	{ "a dimension of 2e0", TEXT("{" T("a", "F32", "[2e0]", "[0,8]") "}"), 8,
	  -EBADMSG, -EBADMSG, "expected a whole number" },
	{ "a dimension of -1", TEXT("{" T("a", "F32", "[-1]", "[0,4]") "}"), 4,
	  -EBADMSG, -EBADMSG, "expected a whole number, found '-'" },
	{ "a dimension of -0", TEXT("{" T("a", "F32", "[-0]", "[0,0]") "}"), 0,
	  -EBADMSG, -EBADMSG, "found '-'" },
	{ "a dimension that is a string", TEXT("{" T("a", "F32", "[\"1\"]", "[0,4]") "}"),
	  4, -EBADMSG, -EBADMSG, "found '\"'" },
	{ "a dimension with a leading zero", TEXT("{" T("a", "F32", "[01]", "[0,4]") "}"),
	  4, -EBADMSG, -EBADMSG, "may not begin with 0" },
	{ "a shape that is null", TEXT("{" T("a", "F32", "null", "[0,4]") "}"), 4,
	  -EBADMSG, -EBADMSG, "expected '[', found 'n'" },
	{ "a shape that is a number", TEXT("{" T("a", "F32", "1", "[0,4]") "}"), 4,
	  -EBADMSG, -EBADMSG, "expected '[', found '1'" },
	{ "two elements of four bits", TEXT("{" T("a", "F4", "[2]", "[0,1]") "}"), 1,
	  0, 0, "" },
	{ "three elements of four bits", TEXT("{" T("a", "F4", "[3]", "[0,1]") "}"), 1,
	  -EBADMSG, -EBADMSG,
	  "tensor 'a': its shape has 3 elements, F4 has blocks of 2" },
	{ "four elements of six bits", TEXT("{" T("a", "F6_E2M3", "[4]", "[0,3]") "}"),
	  3, 0, 0, "" },
	{ "two elements of six bits", TEXT("{" T("a", "F6_E3M2", "[2]", "[0,2]") "}"), 2,
	  -EBADMSG, -EBADMSG, "its shape has 2 elements, F6_E3M2 has blocks of 4" },

	/* data_offsets */
	{ "bytes fewer than the shape needs",
	  TEXT("{" T("lm_head.weight", "F32", "[2,1024]", "[0,4096]") "}"), 4096,
	  -EBADMSG, -EBADMSG,
	  "f.st: tensor 'lm_head.weight': data_offsets [0, 4096] hold 4096 bytes, its shape needs 8192" },
	{ "bytes more than the shape needs",
	  TEXT("{" T("a", "F32", "[1]", "[0,5]") "}"), 5, -EBADMSG, -EBADMSG,
	  "[0, 5] hold 5 bytes, its shape needs 4" },
	{ "one offset", TEXT("{" T("a", "F32", "[1]", "[4]") "}"), 4,
	  -EBADMSG, -EBADMSG, "in tensor 'a': 'data_offsets' must have two numbers" },
	{ "three offsets", TEXT("{" T("a", "F32", "[1]", "[0,4,4]") "}"), 4,
	  -EBADMSG, -EBADMSG, "in tensor 'a': 'data_offsets' must have two numbers" },
	{ "no offsets", TEXT("{" T("a", "F32", "[0]", "[]") "}"), 0,
	  -EBADMSG, -EBADMSG, "'data_offsets' must have two numbers" },
	{ "an offset of -1", TEXT("{" T("a", "F32", "[1]", "[-1,3]") "}"), 4,
	  -EBADMSG, -EBADMSG, "found '-'" },
	{ "offsets that run backwards", TEXT("{" T("a", "F32", "[1]", "[4,0]") "}"), 4,
	  -EBADMSG, -EBADMSG, "tensor 'a': data_offsets [4, 0] run backwards" },
	{ "an end beyond the data", TEXT("{" T("a", "F32", "[2]", "[0,8]") "}"), 7,
	  -EBADMSG, -EBADMSG,
	  "tensor 'a': ends at byte 8 of the data, but the file has only 7" },
	{ "an end of 2^64 - 1", TEXT("{" T("a", "U8", "[4]", "[" MAX "," MAX "]") "}"), 4,
	  -EBADMSG, -EBADMSG, "tensor 'a'" },
	{ "bytes after the last tensor", TEXT("{" T("a", "F32", "[1]", "[0,4]") "}"), 5,
	  -EBADMSG, -EBADMSG,
	  "f.st: its tensors end at byte 4 of the data, but the file has 5" },
	{ "data without tensors", TEXT("{}"), 1, -EBADMSG, -EBADMSG,
	  "its tensors end at byte 0 of the data, but the file has 1" },
	{ "a gap before the first tensor", TEXT("{" T("a", "F32", "[1]", "[1,5]") "}"),
	  5, -EBADMSG, -EBADMSG,
	  "tensor 'a': begins at byte 1 of the data, the tensors before it end at 0: there is a gap" },
	{ "a gap between two tensors",
	  TEXT("{" T("a", "U8", "[4]", "[0,4]") "," T("b", "U8", "[2]", "[6,8]") "}"),
	  8, -EBADMSG, -EBADMSG,
	  "tensor 'b': begins at byte 6 of the data, the tensors before it end at 4: there is a gap" },
	{ "two tensors that overlap",
	  TEXT("{" T("a", "U8", "[4]", "[0,4]") "," T("b", "U8", "[4]", "[3,7]") "}"),
	  7, -EBADMSG, -EBADMSG,
	  "tensor 'b': begins at byte 3 of the data, the tensor before it ends at 4: they overlap" },
	{ "two tensors of the same bytes",
	  TEXT("{" T("a", "U8", "[4]", "[0,4]") "," T("b", "U8", "[4]", "[0,4]") "}"),
	  4, -EBADMSG, -EBADMSG, "tensor 'b': begins at byte 0" },
	{ "tensors in another order than their data",
	  TEXT("{" T("b", "U8", "[4]", "[4,8]") "," T("a", "U8", "[4]", "[0,4]") "}"),
	  8, 0, 0, "" },
	{ "an empty tensor between two others",
	  TEXT("{" T("b", "U8", "[4]", "[4,8]") "," T("e", "U8", "[0]", "[4,4]") ","
	  T("a", "U8", "[4]", "[0,4]") "}"), 8, 0, 0, "" },
	{ "an empty tensor inside of another",
	  TEXT("{" T("a", "U8", "[4]", "[0,4]") "," T("e", "U8", "[0]", "[2,2]") "}"),
	  4, -EBADMSG, -EBADMSG, "tensor 'e': begins at byte 2" },
	{ "an empty tensor after the end of the data",
	  TEXT("{" T("a", "U8", "[4]", "[0,4]") "," T("e", "U8", "[0]", "[5,5]") "}"),
	  4, -EBADMSG, -EBADMSG, "tensor 'e': begins at byte 5" },
	{ "an F64 at an odd offset",
	  TEXT("{" T("a", "U8", "[1]", "[0,1]") "," T("b", "F64", "[1]", "[1,9]") "}"),
	  9, 0, 0, "" },

	/* metadata */
	{ "metadata that are strings",
	  TEXT("{\"__metadata__\":{\"format\":\"pt\",\"\":\"\"}}"), 0, 0, 0, "" },
	{ "metadata after the tensors", TEXT("{" T("a", "F32", "[1]", "[0,4]")
	  ",\"__metadata__\":{}}"), 4, 0, 0, "" },
	{ "metadata that is null", TEXT("{\"__metadata__\":null}"), 0, 0, 0, "" },
	{ "metadata that is an array", TEXT("{\"__metadata__\":[]}"), 0,
	  -EBADMSG, -EBADMSG, "expected '{', found '['" },
	{ "a number in the metadata", TEXT("{\"__metadata__\":{\"n\":1}}"), 0,
	  -EBADMSG, -EBADMSG, "in metadata 'n': expected a string, found '1'" },
	{ "an object in the metadata", TEXT("{\"__metadata__\":{\"n\":{}}}"), 0,
	  -EBADMSG, -EBADMSG, "in metadata 'n': expected a string" },
	{ "null in the metadata", TEXT("{\"__metadata__\":{\"n\":null}}"), 0,
	  -EBADMSG, -EBADMSG, "in metadata 'n': expected a string" },
	{ "metadata twice", TEXT("{\"__metadata__\":{},\"__metadata__\":{}}"), 0,
	  -EBADMSG, -EBADMSG, "'__metadata__' occurs twice" },
	{ "metadata twice, once as null",
	  TEXT("{\"__metadata__\":null,\"__metadata__\":{}}"), 0,
	  -EBADMSG, -EBADMSG, "'__metadata__' occurs twice" },
	{ "a key of metadata twice", TEXT("{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}"),
	  0, -EBADMSG, 0, "in metadata 'k': the key occurs twice" },
	{ "metadata that looks like a tensor, of strings",
	  TEXT("{\"__metadata__\":{\"dtype\":\"F32\",\"shape\":\"[1]\",\"data_offsets\":\"[0,4]\"}}"),
	  0, 0, 0, "" },
	{ "metadata that looks like a tensor",
	  TEXT("{" T("__metadata__", "F32", "[1]", "[0,4]") "}"), 4,
	  -EBADMSG, -EBADMSG, "in metadata 'shape': expected a string, found '['" },
	/* clang-format on */
};

static void one_rule(const struct rule *rule, bool lenient)
{
	int want = lenient ? rule->lenient : rule->strict;
	struct weir_model *m = NULL;
	int r = parse(rule->text, rule->len, rule->data, lenient, &m);

	if (want == 0)
		is_err(r, 0, "", "a header with %s is accepted", rule->what);
	else
		/* The sentence is compared in strict mode only. */
		is_err(r, want, lenient && !rule->strict ? "" : rule->part,
		       "a header with %s is refused", rule->what);
	weir__model_put(m);
}

static void every_dtype_has_its_size(void)
{
	static const struct {
		const char *name;
		unsigned dtype, n, bytes;
	} all[] = {
		{ "BOOL", WEIR_DTYPE_BOOL, 1, 1 },
		{ "U8", WEIR_DTYPE_U8, 1, 1 },
		{ "I8", WEIR_DTYPE_I8, 1, 1 },
		{ "U16", WEIR_DTYPE_U16, 1, 2 },
		{ "I16", WEIR_DTYPE_I16, 1, 2 },
		{ "U32", WEIR_DTYPE_U32, 1, 4 },
		{ "I32", WEIR_DTYPE_I32, 1, 4 },
		{ "U64", WEIR_DTYPE_U64, 1, 8 },
		{ "I64", WEIR_DTYPE_I64, 1, 8 },
		{ "F16", WEIR_DTYPE_F16, 1, 2 },
		{ "BF16", WEIR_DTYPE_BF16, 1, 2 },
		{ "F32", WEIR_DTYPE_F32, 1, 4 },
		{ "F64", WEIR_DTYPE_F64, 1, 8 },
		{ "C64", WEIR_DTYPE_C64, 1, 8 },
		{ "F8_E5M2", WEIR_DTYPE_F8_E5M2, 1, 1 },
		{ "F8_E4M3", WEIR_DTYPE_F8_E4M3, 1, 1 },
		{ "F8_E8M0", WEIR_DTYPE_F8_E8M0, 1, 1 },
		{ "F8_E4M3FNUZ", WEIR_DTYPE_F8_E4M3FNUZ, 1, 1 },
		{ "F8_E5M2FNUZ", WEIR_DTYPE_F8_E5M2FNUZ, 1, 1 },
		{ "F6_E2M3", WEIR_DTYPE_F6_E2M3, 4, 3 },
		{ "F6_E3M2", WEIR_DTYPE_F6_E3M2, 4, 3 },
		{ "F4", WEIR_DTYPE_F4, 2, 1 },
	};
	char text[200];

	for (size_t i = 0; i < LEN(all); i++) {
		struct weir_model *m = NULL;
		int n = snprintf(
			text, sizeof(text),
			"{\"a\":{\"dtype\":\"%s\",\"shape\":[%u],\"data_offsets\":[0,%u]}}",
			all[i].name, all[i].n, all[i].bytes);
		int r = parse(text, (size_t)n, all[i].bytes, false, &m);

		ok(r == 0 && m->rec[0].dtype == all[i].dtype,
		   "%s: %u elements have %u bytes", all[i].name, all[i].n,
		   all[i].bytes);
		weir__model_put(m);
	}
}

static void records_have_what_the_header_says(void)
{
	static const char text[] =
		"{" T("b\\u0000\\u00e9", "BF16", "[2,3]", "[4,16]") "," T(
			"e2", "U8", "[0]",
			"[4,4]") "," T("e1", "U8", "[7,0]",
				       "[4,4]") "," T("a", "F32", "[]",
						      "[0,4]") ",\"__metadata__\":{\"k\":\"v\\u0000w\",\"\":\"e\"}}";
	struct weir_model *m;
	struct weir__pair *p;

	if (parse(text, sizeof(text) - 1, 16, false, &m) < 0)
		bail("%s", weir_error());
	is_int(m->n_recs, 4, "every tensor has a record");
	is_str(weir__record_name(m, 0), "a",
	       "records are in the order of the data");
	is_str(weir__record_name(m, 1), "e2",
	       "the first of two empty tensors at one place is first");
	is_str(weir__record_name(m, 2), "e1",
	       "the second of two empty tensors at one place is second");
	is_mem(weir__record_name(m, 3), "b\0\xc3\xa9", 5,
	       "a name is decoded and a NUL follows it");
	is_int(m->rec[3].name_len, 4, "the length of a name counts its bytes");
	is_int(m->rec[3].off, 8 + sizeof(text) - 1 + 4,
	       "offsets count from the beginning of the file");
	is_int(m->rec[3].bytes, 12, "a record has the bytes of its tensor");
	is_int(m->rec[3].ndim, 2, "a record has the number of dimensions");
	ok(m->dims[m->rec[3].shape] == 2 && m->dims[m->rec[3].shape + 1] == 3,
	   "the outermost dimension is first");
	is_int(m->rec[0].ndim, 0, "a single element has no dimensions");
	is_int(m->bytes, 16, "a model has the sum of the bytes");
	is_int(weir__model_lookup(m, "b\0\xc3\xa9", 4), 3,
	       "a tensor is found by its name");
	ok(weir__model_lookup(m, "b", 1) == WEIR__NONE,
	   "a tensor is not found by the part of its name before a NUL");
	is_int(m->n_meta, 2, "a model has all pairs of the metadata");
	p = &m->meta[0];
	is_mem(m->text + p->key, "k", 2,
	       "a key is decoded and a NUL follows it");
	is_mem(m->text + p->value.at, "v\0w", 4, "a value may contain a NUL");
	is_int(p->value.n, 3, "the length of a value counts its bytes");
	weir__model_put(m);
}

static void huge_dimensions_are_clamped(void)
{
	static const char text[] =
		"{" T("a", "F32", "[0," MAX ",5]", "[0,0]") "}";
	struct weir_model *m;

	if (parse(text, sizeof(text) - 1, 0, false, &m) < 0)
		bail("%s", weir_error());
	ok(m->dims[0] == 0 && m->dims[2] == 5,
	   "an empty tensor keeps its dimensions");
	ok(m->dims[1] == INT64_MAX,
	   "a dimension of 2^63 or more becomes 2^63 - 1");
	weir__model_put(m);
}

static void the_last_entry_counts(void)
{
	static const char text[] = "{" T("a", "U8", "[9]", "[0,9]") "," T(
		"b", "U8", "[2]",
		"[0,2]") "," T("a", "I16", "[1,2]",
			       "[2,6]") ",\"__metadata__\":{\"k\":\"1\",\"j\":\"2\",\"k\":\"3\"}}";
	struct weir_model *m;

	if (parse(text, sizeof(text) - 1, 6, true, &m) < 0)
		bail("%s", weir_error());
	is_int(m->n_recs, 2, "lenient: a tensor named twice is one tensor");
	is_str(weir__record_name(m, 1), "a",
	       "lenient: a tensor named twice keeps its name");
	is_int(m->rec[1].dtype, WEIR_DTYPE_I16,
	       "lenient: the dtype of the last entry counts");
	is_int(m->rec[1].ndim, 2,
	       "lenient: the shape of the last entry counts");
	is_int(m->rec[1].bytes, 4,
	       "lenient: the bytes of the last entry count");
	is_int(m->n_meta, 2, "lenient: a key named twice is one pair");
	is_str(m->text + m->meta[0].value.at, "3",
	       "lenient: the last value of a key counts");
	weir__model_put(m);
	is_err(parse(TEXT("{" T("a", "U8", "[9]", "[0,9]") ",\"a\":{\"a\":}"),
		     9, false, &m),
	       -EBADMSG, "byte 65, in tensor 'a': named twice",
	       "strict: a name that occurs twice is reported before later errors");
}

/* The metadata of shards are merged. */
static void metadata_of_shards_are_merged(void)
{
	static const char one[] =
		"{\"__metadata__\":{\"k\":\"1\",\"j\":\"1\"}}";
	static const char two[] =
		"{\"__metadata__\":{\"k\":\"2\",\"i\":\"2\"}," T(
			"a", "U8", "[1]", "[0,1]") "}";
	struct weir_model *m;

	if (weir__model_new(NULL, &m) < 0)
		bail("%s", weir_error());
	is_int(parse_at(one, sizeof(one) - 1, 0, false, m), 0,
	       "a first shard is read");
	is_int(parse_at(two, sizeof(two) - 1, 1, false, m), 0,
	       "a second shard may have a key of the first");
	is_int(m->n_meta, 3, "the model has the keys of both");
	is_str(m->text + m->meta[0].value.at, "1",
	       "of two values the first shard's counts");
	is_err(parse_at(two, sizeof(two) - 1, 1, false, m), 0, "",
	       "a tensor may have the name of one in another shard");
	weir__model_put(m);
}

int main(void)
{
	plan(2 * LEN(rules) + 22 + 18 + 2 + 8 + 5);
	for (size_t i = 0; i < 2 * LEN(rules); i++) {
		tap_prefix(i % 2 ? "lenient: " : "strict: ");
		one_rule(&rules[i / 2], i % 2);
	}
	tap_prefix(NULL);
	every_dtype_has_its_size();
	records_have_what_the_header_says();
	huge_dimensions_are_clamped();
	the_last_entry_counts();
	metadata_of_shards_are_merged();
	return done_testing();
}
