/* SPDX-License-Identifier: MIT */
#include "model/format/gguf_bytes.h"

#include <stdarg.h>
#include <stdio.h>

#include "core/error.h"
#include "core/array.h"

/*
 * As many bytes are read at a time as have been read so far, within these
 * bounds. The upper one bounds what is read of the data section.
 */
#define LOAD_MIN ((uint64_t)64 << 10)
#define LOAD_MAX ((uint64_t)1 << 20)

typedef unsigned long long ull; /* the type that printf writes */

int weir__gguf_fail(const struct weir__gguf_in *in, int err, const char *fmt,
		    ...)
{
	const char *file = in->g->file;
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (!in->kind)
		return weir__fail(err, "%s: byte %llu: %s", file, (ull)in->at,
				  text);
	return weir__fail(err, "%s: byte %llu, in %s '%s': %s", file,
			  (ull)in->at, in->kind,
			  weir__quote(in->m->text + in->name.at, in->name.n),
			  text);
}

/*
 * Headers rarely have more bytes. So much room is made at once: growing step by
 * step would copy the text several times. Memory that is not used is not
 * touched, and is freed in the end.
 */
#define ROOM ((uint64_t)16 << 20)

void weir__gguf_begin(struct weir__gguf_in *in)
{
	struct weir_model *m = in->m;
	uint64_t n = in->g->file_bytes < ROOM ? in->g->file_bytes : ROOM;

	in->base = m->text_len;
	/* If there is no memory for so much, the text grows step by step. */
	if (!m->text)
		m->text = weir__grow(NULL, &m->cap_text, n, 1);
}

void weir__gguf_end(struct weir__gguf_in *in)
{
	struct weir_model *m = in->m;
	uint64_t len = in->base + in->at;

	weir__model_let_go(m, m->text_len - len);
	m->text_len = len;
}

/* Append bytes [@have, @end) of the file to the text. */
static int load_to(struct weir__gguf_in *in, uint64_t have, uint64_t end)
{
	const struct weir__gguf *g = in->g;
	struct weir_model *m = in->m;
	char *text;
	int r = weir__model_hold(m, end - have);

	if (r < 0)
		return r;
	text = weir__grow(m->text, &m->cap_text, in->base + end, 1);
	if (!text)
		return -ENOMEM;
	m->text = text;
	text += in->base + have;
	if (g->bytes)
		memcpy(text, g->bytes + have, end - have);
	else
		r = weir__model_read(g->from, text, end - have, have);
	if (r >= 0)
		m->text_len = in->base + end;
	return r;
}

int weir__gguf_load(struct weir__gguf_in *in, uint64_t n)
{
	uint64_t have = in->m->text_len - in->base, more = have;
	uint64_t all = in->g->bytes ? in->g->n_bytes : in->g->file_bytes;

	if (n > weir__gguf_left(in) || n > all - in->at)
		return weir__gguf_fail(
			in, -EBADMSG,
			"%llu more bytes are needed, the file has %llu: was it cut short?",
			(ull)n, (ull)weir__gguf_left(in));
	if (more < LOAD_MIN)
		more = LOAD_MIN;
	if (more > LOAD_MAX)
		more = LOAD_MAX;
	if (more < in->at + n - have)
		more = in->at + n - have;
	if (more > all - have)
		more = all - have;
	return load_to(in, have, have + more);
}

int weir__gguf_string(struct weir__gguf_in *in, struct weir__value *ret_str)
{
	uint64_t len;
	char *s;
	int r = weir__gguf_need(in, 8);

	if (r < 0)
		return r;
	len = weir__gguf_u64(in);
	if (len > weir__gguf_left(in))
		return weir__gguf_fail(
			in, -EBADMSG,
			"a string of %llu bytes, the file has %llu more: was it cut short?",
			(ull)len, (ull)weir__gguf_left(in));
	if (len > WEIR__GGUF_STRING_MAX)
		return weir__gguf_fail(
			in, -EOPNOTSUPP,
			"a string of %llu bytes, at most %u are supported",
			(ull)len, WEIR__GGUF_STRING_MAX);
	r = weir__gguf_need(in, len);
	if (r < 0)
		return r;
	s = in->m->text + in->base + in->at - 1;
	memmove(s, s + 1, len);
	s[len] = '\0';
	*ret_str = (struct weir__value){
		.type = WEIR_VALUE_STRING,
		.at = in->base + in->at - 1,
		.n = (uint32_t)len,
	};
	in->at += len;
	return 0;
}
