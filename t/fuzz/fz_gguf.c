/* SPDX-License-Identifier: MIT */
/*
 * The input is a GGUF file, read in strict and in lenient mode, and by a second
 * reader, which accepts the same files.
 */
#include <stdlib.h>
#include <string.h>
#include <weir.h>

#include "../second.h"
#include "fuzz.h"
#include "model/format/gguf.h"
#include "mutate.h"

const char fz_corpus[] = "gguf";
const char fz_small[] = "small";

void fz_mutate(struct edit *e)
{
	mutate_gguf(e);
}

static int parse(const uint8_t *bytes, size_t n, bool lenient,
		 struct weir_model *m)
{
	const struct weir__gguf g = {
		.file = "fuzz.gguf",
		.file_bytes = n,
		.bytes = (const char *)bytes,
		.n_bytes = n,
		.lenient = lenient,
	};
	int r = weir__gguf_parse(m, &g);

	return r < 0 ? r : weir__model_finish(m);
}

/*
 * True if the file is accepted, which the second reader decides, too.
 */
static bool read_one(const uint8_t *bytes, size_t n, bool lenient)
{
	static struct weir *weir; /* root for the calls that return values */
	struct weir_model *m;
	struct second s;
	bool good = second_gguf(bytes, n, lenient ? SECOND_LENIENT : 0, &s);
	int r;

	must(weir || weir_open(NULL, &weir) == 0);
	must(weir__model_new(weir, &m) == 0);
	r = parse(bytes, n, lenient, m);
	if (r < 0) {
		fz_check_refusal(r);
		must_be(!good, weir_error());
	} else {
		const char *differs = good ? second_compare(&s, m) : s.why;

		must_be(!differs, differs);
		fz_check_model(m);
	}
	weir__model_put(m);
	second_free(&s);
	return r >= 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	bool strict = read_one(bytes, n, false);
	bool lenient = read_one(bytes, n, true);

	must(!strict || lenient);
	fz_accepted += strict;
	return 0;
}
