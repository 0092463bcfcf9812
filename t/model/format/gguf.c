/* SPDX-License-Identifier: MIT */
/* The rules of a GGUF header, each on both sides, in both modes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/util.h"
#include "model/format/gguf.h"
#include "tap.h"

#define LEN(a) (sizeof(a) / sizeof(a[0]))
#define TEXT(s) s, sizeof(s) - 1
#define TEN(x) x x x x x x x x x x

/*
 * Numbers of 4 and 8 bytes, whose lowest byte is b, or whose all bytes are FF.
 */
#define D(b) b "\0\0\0"
#define Q(b) b "\0\0\0\0\0\0\0"
#define FF4 "\xff\xff\xff\xff"
#define FF8 FF4 FF4
/* Types of metadata. */
#define U8 D("\0")
#define I8 D("\1")
#define U16 D("\2")
#define U32 D("\4")
#define I32 D("\5")
#define F32 D("\6")
#define BOOL D("\7")
#define STR D("\10")
#define ARR D("\11")
#define U64 D("\12")
/* Files: the numbers of tensors and pairs, then the rest. */
#define HEAD(tensors, pairs) "GGUF" D("\3") Q(tensors) Q(pairs)
#define KEY(s) Q("\1") s
#define ALIGN(type, value) Q("\21") "general.alignment" type value
/* A tensor with a name of one byte and n dimensions. */
#define INFO(name, n, dims, type, off) \
	Q("\1") name D(n)              \
	dims D(type) off
/* Four bytes: the usual tensor, at offset @off. */
#define FOUR(name, off) INFO(name, "\1", Q("\4"), "\30", off)
#define ONE_KV(rest) HEAD("\0", "\1") KEY("k") rest
#define ONE(info) HEAD("\1", "\0") info

#define CUT (-1) /* the file ends with the header */

static int parse(const char *text, size_t len, int64_t data, bool lenient,
		 struct weir_model **ret_model)
{
	size_t n = data == CUT ? len : weir__up(len, 32) + (size_t)data;
	struct weir__gguf g = {
		.file = "f.gguf",
		.bytes = calloc(1, n),
		.n_bytes = n,
		.file_bytes = n,
		.lenient = lenient,
	};
	struct weir_model *m;
	int r = weir__model_new(NULL, &m);

	memcpy((char *)(uintptr_t)g.bytes, text, len);
	if (r == 0)
		r = weir__gguf_parse(m, &g);
	if (r == 0)
		r = weir__model_finish(m);
	if (r == 0)
		*ret_model = m;
	else
		weir__model_put(m);
	free((char *)(uintptr_t)g.bytes);
	return r;
}

struct rule {
	const char *what;
	const char *text;
	size_t len;
	int64_t data;        /* bytes, after padding to 32; or CUT */
	int strict, lenient; /* what is returned */
	const char *part;    /* part of the sentence if it is refused */
};

static const struct rule rules[] = {
	/* clang-format off */
	{ "no tensors and no pairs", TEXT(HEAD("\0", "\0")), CUT, 0, 0, "" },
	{ "version 2", TEXT("GGUF" D("\2") Q("\0") Q("\0")), CUT, 0, 0, "" },
	{ "one tensor", TEXT(ONE(FOUR("a", Q("\0")))), 4, 0, 0, "" },

	/* the first bytes */
	{ "23 bytes", TEXT("GGUF" D("\3") Q("\0") "\0\0\0\0\0\0\0"), CUT,
	  -EBADMSG, -EBADMSG, "f.gguf: a file of 23 bytes; a GGUF file has at least 24" },
	{ "another magic number", TEXT("GGML" D("\3") Q("\0") Q("\0")), CUT,
	  -EBADMSG, -EBADMSG, "f.gguf: it does not begin with 'GGUF'" },
	{ "version 0", TEXT("GGUF" D("\0") Q("\0") Q("\0")), CUT,
	  -EBADMSG, -EBADMSG, "f.gguf: GGUF version 0" },
	{ "version 1", TEXT("GGUF" D("\1") D("\0") D("\0") Q("\0")), CUT,
	  -EOPNOTSUPP, -EOPNOTSUPP, "f.gguf: GGUF version 1 is not supported, versions 2 and 3 are" },
	{ "version 4", TEXT("GGUF" D("\4") Q("\0") Q("\0")), CUT,
	  -EOPNOTSUPP, -EOPNOTSUPP, "f.gguf: GGUF version 4 is not supported" },
	{ "numbers in the other byte order", TEXT("GGUF\0\0\0\3" Q("\0") Q("\0")), CUT,
	  -EOPNOTSUPP, -EOPNOTSUPP, "f.gguf: this is a GGUF file of the other byte order (big-endian)" },
	{ "-1 tensors", TEXT("GGUF" D("\3") FF8 Q("\0")), CUT,
	  -EBADMSG, -EBADMSG, "a header of -1 tensors and 0 pairs" },
	{ "-1 pairs", TEXT("GGUF" D("\3") Q("\0") FF8), CUT,
	  -EBADMSG, -EBADMSG, "a header of 0 tensors and -1 pairs" },
	{ "more tensors than fit in the file", TEXT(HEAD("\3", "\0") TEN("1234567")), CUT,
	  -EBADMSG, -EBADMSG,
	  "f.gguf: a header of 3 tensors and 0 pairs of metadata does not fit in the file, which has 94 bytes" },
	{ "more pairs than fit in the file", TEXT(HEAD("\0", "\6") TEN("1234567")), CUT,
	  -EBADMSG, -EBADMSG, "a header of 0 tensors and 6 pairs" },

	/* keys */
	{ "an empty key", TEXT(HEAD("\0", "\1") Q("\0") U8 "\7" ), 0,
	  -EBADMSG, -EBADMSG, "f.gguf: byte 32: an empty key" },
	{ "upper case and spaces in a key", TEXT(HEAD("\0", "\1") Q("\3") "A b" U8 "\7"), CUT, 0, 0, "" },
	{ "a NUL in a key", TEXT(HEAD("\0", "\1") Q("\3") "a\0b" U8 "\7"), CUT, 0, 0, "" },
	{ "keys that differ after a NUL", TEXT(HEAD("\0", "\2") Q("\2") "a\0" U8 "\7" Q("\1") "a" U8 "\7"), CUT, 0, 0, "" },
	{ "a key twice", TEXT(HEAD("\0", "\2") KEY("k") U8 "\7" KEY("k") STR Q("\0")), CUT,
	  -EBADMSG, -EBADMSG, "in metadata 'k': the key occurs twice" },
	{ "a key longer than the file", TEXT(HEAD("\0", "\1") Q("\377") "abcdefghi"), CUT,
	  -EBADMSG, -EBADMSG, "f.gguf: byte 32: a string of 255 bytes, the file has 9 more: was it cut short?" },
	{ "a key of 2^64 - 1 bytes", TEXT(HEAD("\0", "\1") FF8 "abcdefghi"), CUT,
	  -EBADMSG, -EBADMSG, "a string of 18446744073709551615 bytes" },

	/* types and values */
	{ "type 13", TEXT(ONE_KV(D("\15") Q("\0"))), CUT,
	  -EBADMSG, -EBADMSG, "f.gguf: byte 33, in metadata 'k': type 13 is unknown, types are 0 to 12" },
	{ "type -1", TEXT(ONE_KV(FF4 Q("\0"))), CUT, -EBADMSG, -EBADMSG, "type -1 is unknown" },
	{ "a string", TEXT(ONE_KV(STR Q("\2") "ab")), CUT, 0, 0, "" },
	{ "an empty string", TEXT(ONE_KV(STR Q("\0"))), CUT, 0, 0, "" },
	{ "a string that is not UTF-8", TEXT(ONE_KV(STR Q("\2") "\xff\0")), CUT, 0, 0, "" },
	{ "a string longer than the file", TEXT(ONE_KV(STR Q("\3") "ab")), CUT,
	  -EBADMSG, -EBADMSG, "in metadata 'k': a string of 3 bytes, the file has 2 more" },
	{ "a number that is cut off", TEXT(ONE_KV(U64 "1234567")), CUT,
	  -EBADMSG, -EBADMSG, "in metadata 'k': 8 more bytes are needed, the file has 7: was it cut short?" },
	{ "a bool of 0", TEXT(ONE_KV(BOOL "\0")), CUT, 0, 0, "" },
	{ "a bool of 1", TEXT(ONE_KV(BOOL "\1")), CUT, 0, 0, "" },
	{ "a bool of 2", TEXT(ONE_KV(BOOL "\2")), CUT, -EBADMSG, 0,
	  "in metadata 'k': a bool of 2, not 0 or 1" },
	{ "an empty array", TEXT(ONE_KV(ARR U32 Q("\0"))), CUT, 0, 0, "" },
	{ "an array of numbers", TEXT(ONE_KV(ARR U32 Q("\2") "12345678")), CUT, 0, 0, "" },
	{ "an array of numbers that the file does not hold", TEXT(ONE_KV(ARR U32 Q("\2") "1234567")), CUT,
	  -EBADMSG, -EBADMSG, "an array of 2 items of at least 4 bytes, the file has 7 more" },
	{ "an array of 2^62 numbers, whose bytes are 0 in 64 bits", TEXT(ONE_KV(ARR U32 "\0\0\0\0\0\0\0\x40")), CUT,
	  -EBADMSG, -EBADMSG, "an array of 4611686018427387904 items" },
	{ "an array of bools", TEXT(ONE_KV(ARR BOOL Q("\2") "\0\1")), CUT, 0, 0, "" },
	{ "an array of bools, one of them 255", TEXT(ONE_KV(ARR BOOL Q("\2") "\0\377")), CUT,
	  -EBADMSG, 0, "a bool of 255, not 0 or 1" },
	{ "an array of strings", TEXT(ONE_KV(ARR STR Q("\2") Q("\1") "a" Q("\0"))), CUT, 0, 0, "" },
	{ "an array of strings that the file does not hold", TEXT(ONE_KV(ARR STR Q("\2") Q("\1") "a" "1234567")), CUT,
	  -EBADMSG, -EBADMSG, "8 more bytes are needed, the file has 7" },
	{ "an array of more strings than the file can hold", TEXT(ONE_KV(ARR STR Q("\2") Q("\0") "1234567")), CUT,
	  -EBADMSG, -EBADMSG, "an array of 2 items of at least 8 bytes, the file has 15 more" },
	{ "an array of type 13", TEXT(ONE_KV(ARR D("\15") Q("\0"))), CUT, -EBADMSG, -EBADMSG, "type 13 is unknown" },
	{ "an array of arrays", TEXT(ONE_KV(ARR ARR Q("\2") U8 Q("\1") "\7" STR Q("\1") Q("\0"))), CUT, 0, 0, "" },
	{ "arrays eight deep", TEXT(ONE_KV(ARR ARR Q("\1") ARR Q("\1") ARR Q("\1") ARR Q("\1") ARR Q("\1") ARR Q("\1")
	  ARR Q("\1") U8 Q("\1") "\7")), CUT, 0, 0, "" },
	{ "arrays nine deep", TEXT(ONE_KV(ARR ARR Q("\1") ARR Q("\1") ARR Q("\1") ARR Q("\1") ARR Q("\1") ARR Q("\1")
	  ARR Q("\1") ARR Q("\1") U8 Q("\1") "\7")), CUT, -EOPNOTSUPP, -EOPNOTSUPP,
	  "in metadata 'k': arrays nested deeper than 8" },

	/* the alignment */
	{ "an alignment of 1", TEXT(HEAD("\1", "\1") ALIGN(U32, D("\1")) FOUR("a", Q("\0")) "data"), CUT, 0, 0, "" },
	{ "an alignment of 8", TEXT(HEAD("\2", "\1") ALIGN(U32, D("\10")) FOUR("a", Q("\0")) FOUR("b", Q("\10"))), 32, 0, 0, "" },
	{ "an alignment of 64", TEXT(HEAD("\2", "\1") ALIGN(U32, D("\100")) FOUR("a", Q("\0")) FOUR("b", Q("\100"))), 128, 0, 0, "" },
	{ "an alignment of 64 and an offset of 32", TEXT(HEAD("\2", "\1") ALIGN(U32, D("\100")) FOUR("a", Q("\0")) FOUR("b", Q("\40"))), 128,
	  -EBADMSG, -EBADMSG, "in tensor 'b': its offset is 32, not a multiple of the alignment 64" },
	{ "an alignment of 0", TEXT(HEAD("\0", "\1") ALIGN(U32, D("\0"))), CUT,
	  -EBADMSG, -EBADMSG, "in metadata 'general.alignment': an alignment of 0, which is not a power of two" },
	{ "an alignment of 13", TEXT(HEAD("\0", "\1") ALIGN(U32, D("\15"))), CUT,
	  -EBADMSG, -EBADMSG, "an alignment of 13, which is not a power of two" },
	{ "an alignment that is a U64", TEXT(HEAD("\0", "\1") ALIGN(U64, Q("\40"))), CUT,
	  -EBADMSG, -EBADMSG, "an alignment must be a U32" },

	/* names of tensors */
	{ "an empty name", TEXT(ONE(Q("\0") D("\1") Q("\4") D("\30") Q("\0"))), 4, -EBADMSG, 0,
	  "f.gguf: byte 32, in tensor '': its name is empty" },
	{ "a name of 64 bytes", TEXT(ONE(Q("\100") TEN("123456") "1234" D("\1") Q("\4") D("\30") Q("\0"))), 4, 0, 0, "" },
	{ "a name of 65 bytes", TEXT(ONE(Q("\101") TEN("123456") "12345" D("\1") Q("\4") D("\30") Q("\0"))), 4,
	  -EBADMSG, -EBADMSG, "a name of 65 bytes, the format allows 64" },
	{ "a tensor named twice", TEXT(HEAD("\2", "\0") FOUR("a", Q("\0")) FOUR("a", Q("\40"))), 64,
	  -EBADMSG, -EBADMSG, "in tensor 'a': named twice" },

	/* shapes */
	{ "a shape without dimensions, of one element", TEXT(ONE(INFO("a", "\0", "", "\0", Q("\0")))), 4, 0, 0, "" },
	{ "a shape without dimensions of a type of blocks", TEXT(ONE(INFO("a", "\0", "", "\2", Q("\0")))), 18,
	  -EBADMSG, -EBADMSG, "rows of 1 elements, Q4_0 has blocks of 32" },
	{ "four dimensions", TEXT(ONE(INFO("a", "\4", Q("\1") Q("\2") Q("\3") Q("\1"), "\30", Q("\0")))), 6, 0, 0, "" },
	{ "five dimensions", TEXT(ONE(INFO("a", "\5", Q("\1") Q("\2") Q("\1") Q("\1") Q("\1"), "\30", Q("\0")))), 4,
	  -EBADMSG, -EBADMSG, "in tensor 'a': 5 dimensions, the format allows 4" },
	{ "a dimension of 0", TEXT(ONE(INFO("a", "\2", Q("\4") Q("\0"), "\0", Q("\0")))), 0, 0, 0, "" },
	{ "a dimension of -1", TEXT(ONE(INFO("a", "\1", FF8, "\0", Q("\0")))), 4,
	  -EBADMSG, -EBADMSG, "in tensor 'a': a dimension of -1" },
	{ "[2^32, 2^32] of F32, whose bytes are 0 in 64 bits",
	  TEXT(ONE(INFO("a", "\2", "\0\0\0\0\1\0\0\0" "\0\0\0\0\1\0\0\0", "\0", Q("\0")))), 0,
	  -EBADMSG, -EBADMSG, "in tensor 'a': its shape needs more than 2^64 - 1 bits" },
	{ "[2^62, 4], whose elements are 0 in 64 bits",
	  TEXT(ONE(INFO("a", "\2", "\0\0\0\0\0\0\0\x40" Q("\4"), "\0", Q("\0")))), 0,
	  -EBADMSG, -EBADMSG, "more than 2^64 - 1 bits" },
	{ "[2^62, 2] of I8, which are 2^63 bytes",
	  TEXT(ONE(INFO("a", "\2", "\0\0\0\0\0\0\0\x40" Q("\2"), "\30", Q("\0")))), 0,
	  -EBADMSG, -EBADMSG, "more than 2^64 - 1 bits" },
	{ "[2^22, 2^21, 2^21], whose elements are 0 in 64 bits",
	  TEXT(ONE(INFO("a", "\3", "\0\0\x40\0\0\0\0\0" "\0\0\x20\0\0\0\0\0" "\0\0\x20\0\0\0\0\0", "\0", Q("\0")))), 0,
	  -EBADMSG, -EBADMSG, "more than 2^64 - 1 bits" },
	{ "2^62 of F32, whose bytes are 0 in 64 bits",
	  TEXT(ONE(INFO("a", "\1", "\0\0\0\0\0\0\0\x40", "\0", Q("\0")))), 0,
	  -EBADMSG, -EBADMSG, "more than 2^64 - 1 bits" },

	/* types of tensors */
	{ "a row of blocks", TEXT(ONE(INFO("a", "\2", Q("\100") Q("\2"), "\2", Q("\0")))), 72, 0, 0, "" },
	{ "rows that are no whole blocks, although the tensor is",
	  TEXT(ONE(INFO("a", "\2", Q("\20") Q("\2"), "\2", Q("\0")))), 18,
	  -EBADMSG, -EBADMSG, "in tensor 'a': rows of 16 elements, Q4_0 has blocks of 32" },
	{ "type 4, which was removed", TEXT(ONE(INFO("a", "\1", Q("\40"), "\4", Q("\0")))), 64,
	  -EBADMSG, -EBADMSG, "in tensor 'a': type 4 is none of GGML's" },
	{ "type 31, which was removed", TEXT(ONE(INFO("a", "\1", Q("\40"), "\37", Q("\0")))), 64,
	  -EBADMSG, -EBADMSG, "type 31 is none of GGML's" },
	{ "type 42", TEXT(ONE(INFO("a", "\1", Q("\100"), "\52", Q("\0")))), 18, 0, 0, "" },
	{ "type 43, which is not known", TEXT(ONE(INFO("a", "\1", Q("\40"), "\53", Q("\0")))), 64,
	  -EBADMSG, -EBADMSG, "type 43 is none of GGML's" },
	{ "a tensor of type -1", TEXT(ONE(Q("\1") "a" D("\1") Q("\4") FF4 Q("\0"))), 64,
	  -EBADMSG, -EBADMSG, "type -1 is none of GGML's" },

	/* offsets */
	{ "tensors that follow each other", TEXT(HEAD("\2", "\0") FOUR("a", Q("\0")) FOUR("b", Q("\40"))), 64, 0, 0, "" },
	{ "no padding after the last tensor", TEXT(HEAD("\2", "\0") FOUR("a", Q("\0")) FOUR("b", Q("\40"))), 36, 0, 0, "" },
	{ "bytes after the last tensor", TEXT(HEAD("\2", "\0") FOUR("a", Q("\0")) FOUR("b", Q("\40"))), 100, 0, 0, "" },
	{ "an empty tensor in the place of the one before it", TEXT(HEAD("\2", "\0") FOUR("a", Q("\0"))
	  INFO("e", "\1", Q("\0"), "\0", Q("\0"))), 64, -EBADMSG, 0,
	  "in tensor 'e': its offset is 0, the tensor before it ends at 4" },
	{ "a split.tensors.count that is a float", TEXT(HEAD("\0", "\1") Q("\23") "split.tensors.count" F32 D("\0")), CUT,
	  -EBADMSG, -EBADMSG, "'split.tensors.count' is -1, but the model has 0 tensors" },
	{ "an empty tensor between two others", TEXT(HEAD("\3", "\0") FOUR("a", Q("\0"))
	  INFO("e", "\1", Q("\0"), "\0", Q("\40")) FOUR("b", Q("\40"))), 64, 0, 0, "" },
	{ "a last tensor that is cut off", TEXT(HEAD("\2", "\0") FOUR("a", Q("\0")) FOUR("b", Q("\40"))), 35,
	  -EBADMSG, -EBADMSG, "f.gguf: tensor 'b': ends at byte 36 of the data, but the file has only 35 bytes" },
	{ "no data", TEXT(ONE(FOUR("a", Q("\0")))), CUT,
	  -EBADMSG, -EBADMSG, "f.gguf: its data begin at byte 64, the file has 57 bytes: was it cut short?" },
	{ "an offset that is not aligned", TEXT(HEAD("\2", "\0") FOUR("a", Q("\0")) FOUR("b", Q("\4"))), 64,
	  -EBADMSG, -EBADMSG, "in tensor 'b': its offset is 4, not a multiple of the alignment 32" },
	{ "a gap before the first tensor", TEXT(ONE(FOUR("a", Q("\40")))), 64, -EBADMSG, 0,
	  "tensor 'a': begins at byte 32 of the data, the tensors before it end at 0: there is a gap" },
	{ "a gap between two tensors", TEXT(HEAD("\2", "\0") FOUR("a", Q("\0")) FOUR("b", Q("\100"))), 128, -EBADMSG, 0,
	  "tensor 'b': begins at byte 64 of the data, the tensors before it end at 4: there is a gap" },
	{ "tensors in another order than their data", TEXT(HEAD("\2", "\0") FOUR("a", Q("\40")) FOUR("b", Q("\0"))), 64, -EBADMSG, 0,
	  "in tensor 'b': its offset is 0, the tensor before it ends at 36: they overlap or are not in order" },
	{ "two tensors of the same bytes", TEXT(HEAD("\2", "\0") FOUR("a", Q("\0")) FOUR("b", Q("\0"))), 64,
	  -EBADMSG, -EBADMSG, "tensor 'b': " },
	{ "two tensors that overlap", TEXT(HEAD("\2", "\0") INFO("a", "\1", Q("\41"), "\30", Q("\0")) FOUR("b", Q("\40"))), 64,
	  -EBADMSG, -EBADMSG, "tensor 'b': " },
	{ "an offset near 2^64", TEXT(ONE(INFO("a", "\1", Q("\40"), "\30", "\xe0\xff\xff\xff" FF4))), 64,
	  -EBADMSG, -EBADMSG, "32 bytes at offset 18446744073709551584 end after byte 2^64 - 1" },
	{ "an info that is cut off", TEXT(HEAD("\1", "\0") Q("\1") "a" D("\1") Q("\4") D("\30") "1234567"), CUT,
	  -EBADMSG, -EBADMSG, "in tensor 'a': 12 more bytes are needed, the file has 11" },

	/* splits */
	{ "a split.count of 2 in a file with another name", TEXT(HEAD("\0", "\1") Q("\13") "split.count" U16 "\2\0"), CUT,
	  -EBADMSG, -EBADMSG, "f.gguf: this is file 1 of 2 of a model, but its name does not end in '-00001-of-00002.gguf'" },
	{ "a split.count of 1", TEXT(HEAD("\0", "\1") Q("\13") "split.count" U16 "\1\0"), CUT, 0, 0, "" },
	{ "a split.count that is a string", TEXT(HEAD("\0", "\1") Q("\13") "split.count" STR Q("\1") "1"), CUT,
	  -EBADMSG, -EBADMSG, "in metadata 'split.count': it must be an integer and not negative" },
	{ "a split.count of -1", TEXT(HEAD("\0", "\1") Q("\13") "split.count" I32 FF4), CUT,
	  -EBADMSG, -EBADMSG, "it must be an integer and not negative" },
	{ "a split.tensors.count that is wrong", TEXT(HEAD("\0", "\1") Q("\23") "split.tensors.count" I32 D("\1")), CUT,
	  -EBADMSG, -EBADMSG, "'split.tensors.count' is 1, but the model has 0 tensors" },

	/* files that were treated as text */
	{ "200 tensors, as Latin-1 converted to UTF-8", TEXT("GGUF" D("\3") Q("\303\210") Q("\1") KEY("k") U8 "\7"), 9999,
	  -EBADMSG, -EBADMSG, "f.gguf: this GGUF file was treated as text and is damaged: it has been converted from Latin-1 to UTF-8" },
	{ "200 tensors, as U+FFFD", TEXT("GGUF" D("\3") Q("\357\277\275") Q("\1") KEY("k") U8 "\7"), 9999,
	  -EBADMSG, -EBADMSG, "bytes that are not UTF-8 have been replaced by U+FFFD (EF BF BD)" },
	{ "200 pairs, as U+FFFD", TEXT("GGUF" D("\3") Q("\1") Q("\357\277\275") KEY("k") U8 "\7"), 9999,
	  -EBADMSG, -EBADMSG, "bytes that are not UTF-8 have been replaced by U+FFFD (EF BF BD)" },
	{ "a length of 200 in a later pair, as U+FFFD", TEXT(HEAD("\0", "\2") KEY("k") U8 "\7" KEY("l") STR Q("\357\277\275") "long"), 9999,
	  -EBADMSG, -EBADMSG, "bytes that are not UTF-8 have been replaced by U+FFFD (EF BF BD)" },
	{ "10 pairs, as CR LF", TEXT("GGUF" D("\3") Q("\1") Q("\r\n") KEY("k") U8 "\7"), 9999,
	  -EBADMSG, -EBADMSG, "line feeds have been converted from LF to CR LF" },
	{ "type 10, as CR LF", TEXT(ONE_KV(D("\r\n") Q("\1"))), CUT,
	  -EBADMSG, -EBADMSG, "line feeds have been converted from LF to CR LF" },
	{ "CR LF in a string, and data that are cut off", TEXT(HEAD("\1", "\1") KEY("k") STR Q("\2") "\r\n" FOUR("a", Q("\0"))), 3,
	  -EBADMSG, -EBADMSG, "tensor 'a': ends at byte 4 of the data, but the file has only 3 bytes" },
	{ "35011 tensors, whose bytes are not a conversion", TEXT("GGUF" D("\3") "\xc3\x88\0\0\0\0\0\0" Q("\1") KEY("k") U8 "\7"), 9999,
	  -EBADMSG, -EBADMSG, "a header of 35011 tensors and 1 pairs" },
	/* clang-format on */
};

static void one_rule(const struct rule *rule, bool lenient)
{
	int want = lenient ? rule->lenient : rule->strict;
	struct weir_model *m = NULL;
	int r = parse(rule->text, rule->len, rule->data, lenient, &m);

	if (want == 0)
		is_err(r, 0, "", "a GGUF file with %s is accepted", rule->what);
	else
		is_err(r, want, rule->part, "a GGUF file with %s is refused",
		       rule->what);
	weir__model_put(m);
}

int main(void)
{
	plan(2 * LEN(rules));
	for (int lenient = 0; lenient < 2; lenient++) {
		tap_prefix(lenient ? "lenient: " : "strict: ");
		for (size_t i = 0; i < LEN(rules); i++)
			one_rule(&rules[i], lenient);
	}
	return done_testing();
}
