/* SPDX-License-Identifier: MIT */
/* The input is a safetensors file, read in strict and in lenient mode. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "model/safetensors.h"

const char fz_corpus[] = "st";

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
	if (r == 0) {
		must(strict->n_recs == lenient->n_recs);
		must(strict->n_meta == lenient->n_meta);
	}
	weir__model_put(strict);
	weir__model_put(lenient);
	return 0;
}

#ifdef FUZZING /* built for libFuzzer */
size_t LLVMFuzzerMutate(uint8_t *bytes, size_t n, size_t max);
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t n, size_t max,
			       unsigned seed);

/*
 * Nine times of ten, mutate the text of the header and correct its length, so
 * that most inputs pass the first check.
 */
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t n, size_t max,
			       unsigned seed)
{
	uint64_t len = 0;
	size_t data, text;
	uint8_t *copy;

	if (n < 10 || max < 64 || seed % 10 == 0)
		return LLVMFuzzerMutate(bytes, n, max);
	for (int i = 7; i >= 0; i--)
		len = len << 8 | bytes[i];
	data = len <= n - 8 ? n - 8 - (size_t)len : 0;
	text = n - 8 - data;
	if (data > max / 4)
		data = max / 4;
	copy = malloc(max);
	memcpy(copy, bytes + 8, text);
	text = LLVMFuzzerMutate(copy, text, max - 8 - data);
	for (int i = 0; i < 8; i++)
		bytes[i] = (uint8_t)((uint64_t)text >> 8 * i);
	memcpy(bytes + 8, copy, text);
	memset(bytes + 8 + text, 0, data);
	free(copy);
	return 8 + text + data;
}
#endif
