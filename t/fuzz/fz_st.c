/* SPDX-License-Identifier: MIT */
/*
 * The input is a safetensors file, read in strict and in lenient mode, and by a
 * second reader, which accepts more.
 */
#include <stdlib.h>
#include <string.h>

#include "../second.h"
#include "fuzz.h"
#include "model/format/safetensors.h"
#include "mutate.h"

const char fz_corpus[] = "st";
const char fz_small[] = "metadata";

void fz_mutate(struct edit *e)
{
	mutate_st(e);
}

static int read_one(const uint8_t *bytes, size_t n, int lenient,
		    struct weir_model **ret_model)
{
	struct weir__st st = { .file = "fuzz.st", .lenient = lenient };
	struct weir__head head = {
		.file = st.file,
		.bytes = bytes,
		.n = n < WEIR__HEAD_BYTES ? n : WEIR__HEAD_BYTES,
		.file_bytes = n,
	};
	const struct weir__format *format;
	struct weir_model *m;
	int r = weir__format_of(&head, &format);

	if (r >= 0)
		r = weir__st_len(&head, &st.len);
	if (r < 0)
		return r;
	must(weir__model_new(NULL, &m) == 0);
	st.data_bytes = n - 8 - st.len;
	st.text = malloc(st.len + 1);
	memcpy(st.text, bytes + 8, st.len);
	st.text[st.len] = '\0';
	r = weir__st_parse(m, &st);
	free(st.text);
	if (r == 0)
		r = weir__model_finish(m);
	if (r == 0) {
		must(m->bytes == st.data_bytes);
		must(!m->n_recs || m->rec[0].off == 8 + st.len);
		fz_check_model(m);
		*ret_model = m;
	} else {
		weir__model_put(m);
	}
	return r;
}

static void compare(const uint8_t *bytes, size_t n, const struct weir_model *m)
{
	struct second s;
	bool read = second_st(bytes, n, &s);

	must_be(read, s.why);
	must_be(!second_compare(&s, m), second_compare(&s, m));
	second_free(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	struct weir_model *strict = NULL, *lenient = NULL;
	int r = read_one(bytes, n, 0, &strict);
	int q = read_one(bytes, n, 1, &lenient);

	if (r < 0)
		fz_check_refusal(r);
	if (q < 0)
		fz_check_refusal(q);
	must(r < 0 || q == 0);
	if (q == 0)
		compare(bytes, n, lenient);
	if (r == 0) {
		fz_accepted++;
		must(strict->n_recs == lenient->n_recs);
		must(strict->n_meta == lenient->n_meta);
	}
	weir__model_put(strict);
	weir__model_put(lenient);
	return 0;
}
