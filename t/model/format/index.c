/* SPDX-License-Identifier: MIT */
/* The rules of an index of shards, as text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "model/format/shard_index.h"
#include "tap.h"

#define LEN(a) (sizeof(a) / sizeof(a[0]))
#define TEXT(s) s, sizeof(s) - 1

static char *text;

static int parse(struct weir__index *x, const char *from, size_t len,
		 bool lenient)
{
	free(text);
	text = malloc(len + 1);
	memcpy(text, from, len);
	text[len] = '\0';
	return weir__index_parse(x, NULL, "i.json", text, len, lenient);
}

static const struct {
	const char *what;
	const char *text;
	size_t len;
	int strict, lenient;
	const char *part;
} rules[] = {
	/* clang-format off */
	{ "a map", TEXT("{\"weight_map\":{\"a\":\"1.st\"}}"), 0, 0, "" },
	{ "white space around the object", TEXT(" \n{\"weight_map\":{}}\n"), 0, 0, "" },
	{ "an empty map", TEXT("{\"weight_map\":{}}"), 0, 0, "" },
	{ "metadata before the map",
	  TEXT("{\"metadata\":{\"total_size\":12},\"weight_map\":{\"a\":\"1\"}}"),
	  0, 0, "" },
	{ "metadata of anything", TEXT("{\"weight_map\":{},\"metadata\":[null,1.5]}"),
	  0, 0, "" },
	{ "a total_size that is a float",
	  TEXT("{\"metadata\":{\"total_size\":1.5e9},\"weight_map\":{}}"), 0, 0, "" },
	{ "a total_size that is a string",
	  TEXT("{\"metadata\":{\"total_size\":\"12\"},\"weight_map\":{}}"), 0, 0, "" },
	{ "unknown members",
	  TEXT("{\"x\":{\"weight_map\":0},\"weight_map\":{},\"y\":[]}"), 0, 0, "" },
	{ "no map", TEXT("{\"metadata\":{}}"), -EBADMSG, -EBADMSG,
	  "i.json: an index without 'weight_map'" },
	{ "two maps", TEXT("{\"weight_map\":{},\"weight_map\":{}}"),
	  -EBADMSG, -EBADMSG, "'weight_map' occurs twice" },
	{ "two metadata",
	  TEXT("{\"metadata\":{},\"weight_map\":{},\"metadata\":{}}"),
	  -EBADMSG, -EBADMSG, "'metadata' occurs twice" },
	{ "a map that is an array", TEXT("{\"weight_map\":[]}"),
	  -EBADMSG, -EBADMSG, "i.json: byte 14: expected '{', found '['" },
	{ "a shard that is a number", TEXT("{\"weight_map\":{\"a\":1}}"),
	  -EBADMSG, -EBADMSG, "in tensor 'a': expected a string, found '1'" },
	{ "a tensor placed twice, in one shard",
	  TEXT("{\"weight_map\":{\"a\":\"1\",\"a\":\"1\"}}"), -EBADMSG, 0,
	  "in tensor 'a': named twice" },
	{ "a tensor placed twice, in two shards",
	  TEXT("{\"weight_map\":{\"a\":\"1\",\"a\":\"2\"}}"), -EBADMSG, 0,
	  "in tensor 'a': named twice" },
	{ "an array as its root", TEXT("[]"), -EBADMSG, -EBADMSG, "byte 0: expected '{'" },
	{ "no text", TEXT(""), -EBADMSG, -EBADMSG, "byte 0: expected '{', found the end" },
	{ "a text cut short", TEXT("{\"weight_map\":{\"a\":\"1\""), -EBADMSG, -EBADMSG,
	  "byte 22: expected ',' or '}', found the end" },
	{ "text after the object", TEXT("{\"weight_map\":{}} x"), -EBADMSG, -EBADMSG,
	  "byte 18: expected only white space" },
	{ "a byte order mark", TEXT("\xef\xbb\xbf{\"weight_map\":{}}"),
	  -EBADMSG, -EBADMSG, "byte 0" },

	/* names of shards, which become paths */
	{ "a file in a folder", TEXT("{\"weight_map\":{\"a\":\"b/c.st\"}}"), 0, 0, "" },
	{ "names with dots", TEXT("{\"weight_map\":{\"a\":\"..a/...\",\"b\":\"b../.c\"}}"),
	  0, 0, "" },
	{ "an empty name", TEXT("{\"weight_map\":{\"a\":\"\"}}"), -EBADMSG, -EBADMSG,
	  "in tensor 'a': the shard's name '' is refused: it is empty" },
	{ "an absolute name", TEXT("{\"weight_map\":{\"a\":\"/etc/passwd\"}}"),
	  -EBADMSG, -EBADMSG, "'/etc/passwd' is refused: it is absolute" },
	{ "a NUL in a name", TEXT("{\"weight_map\":{\"a\":\"b\\u0000c\"}}"),
	  -EBADMSG, -EBADMSG, "'b\\x00c' is refused: it has a NUL inside" },
	{ "'..'", TEXT("{\"weight_map\":{\"a\":\"..\"}}"), -EBADMSG, -EBADMSG,
	  "'..' is refused: it has a '..' component" },
	{ "'..' at the beginning", TEXT("{\"weight_map\":{\"a\":\"../b\"}}"),
	  -EBADMSG, -EBADMSG, "it has a '..' component" },
	{ "'..' in the middle", TEXT("{\"weight_map\":{\"a\":\"b/../c\"}}"),
	  -EBADMSG, -EBADMSG, "it has a '..' component" },
	{ "'..' at the end", TEXT("{\"weight_map\":{\"a\":\"b/..\"}}"),
	  -EBADMSG, -EBADMSG, "it has a '..' component" },
	{ "'..' between double slashes", TEXT("{\"weight_map\":{\"a\":\"b//..//c\"}}"),
	  -EBADMSG, -EBADMSG, "it has a '..' component" },
	{ "'..' by escapes", TEXT("{\"weight_map\":{\"a\":\"\\u002e\\u002e\\u002fb\"}}"),
	  -EBADMSG, -EBADMSG, "it has a '..' component" },
	/* clang-format on */
};

static void one_rule(size_t i, bool lenient)
{
	int want = lenient ? rules[i].lenient : rules[i].strict;
	struct weir__index x;
	int r = parse(&x, rules[i].text, rules[i].len, lenient);

	is_err(r, want, lenient && !rules[i].strict ? "" : rules[i].part,
	       "an index with %s is %s", rules[i].what,
	       want ? "refused" : "accepted");
	weir__index_fini(&x);
}

static void shards_are_sorted(void)
{
	struct weir__index x;

	parse(&x,
	      TEXT("{\"weight_map\":{\"a\":\"s-2\",\"b\":\"s-10\",\"c\":\"s-1\","
		   "\"d\":\"s-2\",\"e\":\"S\"},\"metadata\":{\"total_size\":"
		   "18446744073709551615}}"),
	      false);
	is_int(x.n_placed, 5, "every tensor of an index is placed");
	is_int(x.n_shards, 4, "a shard that is named twice is one shard");
	ok(weir__str_is(&x.shard[0], "S") && weir__str_is(&x.shard[1], "s-1") &&
		   weir__str_is(&x.shard[2], "s-10") &&
		   weir__str_is(&x.shard[3], "s-2"),
	   "shards are in the order of the bytes of their names");
	ok(x.placed[0].shard == 3 && x.placed[1].shard == 2 &&
		   x.placed[2].shard == 1 && x.placed[3].shard == 3,
	   "a tensor keeps its shard when shards are sorted");
	ok(x.total_size == UINT64_MAX, "total_size keeps all 64 bits");
	weir__index_fini(&x);
	parse(&x, TEXT("{\"weight_map\":{\"a\":\"b//c\",\"d\":\"b/c\"}}"),
	      false);
	is_int(x.n_shards, 2, "shards are compared as strings, not as paths");
	is_int(x.total_size, 0, "total_size is 0 if the index has none");
	weir__index_fini(&x);
}

static void the_last_place_counts(void)
{
	struct weir__index x;

	parse(&x,
	      TEXT("{\"weight_map\":{\"a\":\"1\",\"b\":\"2\",\"a\":\"3\"}}"),
	      true);
	is_int(x.n_placed, 2, "lenient: a tensor placed twice is one tensor");
	is_int(x.n_shards, 2,
	       "lenient: a shard without tensors is not part of the model");
	ok(weir__str_is(&x.shard[x.placed[0].shard], "3"),
	   "lenient: the last place of a tensor counts");
	weir__index_fini(&x);
}

/* An index of one tensor in each of @n shards. */
static int many_shards(unsigned n, size_t *ret_shards)
{
	char *many = malloc(40 + 32 * (size_t)n);
	struct weir__index x;
	size_t len = (size_t)sprintf(many, "{\"weight_map\":{");
	int r;

	for (unsigned i = 0; i < n; i++)
		len += (size_t)sprintf(many + len, "%s\"t%u\":\"s%u\"",
				       i ? "," : "", i, i);
	len += (size_t)sprintf(many + len, "}}");
	r = parse(&x, many, len, false);
	*ret_shards = x.n_shards;
	weir__index_fini(&x);
	free(many);
	return r;
}

static void shards_are_limited(void)
{
	size_t n;

	is_int(many_shards(100000, &n), 0,
	       "an index of 100 000 shards is accepted");
	is_int(n, 100000, "an index of 100 000 shards keeps them all");
	is_err(many_shards(100001, &n), -EOPNOTSUPP,
	       "i.json: more than 100000 shards are not supported",
	       "an index of 100 001 shards is refused");
}

int main(void)
{
	plan(2 * LEN(rules) + 7 + 3 + 3);
	for (size_t i = 0; i < 2 * LEN(rules); i++) {
		tap_prefix(i % 2 ? "lenient: " : "strict: ");
		one_rule(i / 2, i % 2);
	}
	tap_prefix(NULL);
	shards_are_sorted();
	the_last_place_counts();
	shards_are_limited();
	free(text);
	return done_testing();
}
