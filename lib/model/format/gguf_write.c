/* SPDX-License-Identifier: MIT */
/*
 * Headers of GGUF files, version 3. Source: docs/gguf.md of ggml, and for files
 * of a split model the pairs that llama-gguf-split writes: the first file has
 * all pairs of the model, the others have those of the split alone.
 */
#include <errno.h>
#include <math.h>

#include "core/error.h"
#include "core/util.h"
#include "mem/dtype.h"
#include "model/format/bytes.h"
#include "model/format/format.h"
#include "model/format/gguf.h"

#define DEFAULT_ALIGN 32u /* general.alignment, if there is none */
#define NAME_ROOM 64u     /* bytes of a name with its NUL, in ggml */
#define DIMS_MAX 4u

/* Numbers of the format, by enum weir_value_type. */
static const uint32_t gguf_type[] = {
	[WEIR_VALUE_U8] = 0,    [WEIR_VALUE_I8] = 1,   [WEIR_VALUE_U16] = 2,
	[WEIR_VALUE_I16] = 3,   [WEIR_VALUE_U32] = 4,  [WEIR_VALUE_I32] = 5,
	[WEIR_VALUE_F32] = 6,   [WEIR_VALUE_BOOL] = 7, [WEIR_VALUE_STRING] = 8,
	[WEIR_VALUE_ARRAY] = 9, [WEIR_VALUE_U64] = 10, [WEIR_VALUE_I64] = 11,
	[WEIR_VALUE_F64] = 12,
};

static int gguf_check(const struct weir__str *name, uint32_t dtype,
		      unsigned ndim)
{
	const struct weir_dtype_info *info = weir__dtype(dtype);
	const char *quoted = weir__quote(name->s, name->len);

	if (info->ggml < 0)
		return weir__fail(-EOPNOTSUPP,
				  "tensor '%s': GGUF has no dtype %s", quoted,
				  info->name);
	if (ndim > DIMS_MAX)
		return weir__fail(-EOPNOTSUPP,
				  "tensor '%s': %u dimensions, GGUF allows %u",
				  quoted, ndim, DIMS_MAX);
	if (!name->len)
		return weir__fail(-EOPNOTSUPP,
				  "a tensor of GGUF cannot have an empty name");
	if (name->len >= NAME_ROOM)
		return weir__fail(
			-EOPNOTSUPP,
			"tensor '%s': a name of %zu bytes, readers of GGUF allow %u",
			quoted, name->len, NAME_ROOM - 1);
	return 0;
}

static int gguf_check_value(const struct weir__str *key,
			    const struct weir__value *value)
{
	if (!key->len || key->len > UINT16_MAX)
		return weir__fail(
			-EOPNOTSUPP,
			"metadata '%s': a key of %zu bytes, GGUF allows 1 to %u",
			weir__quote(key->s, key->len), key->len, UINT16_MAX);
	if (!weir__str_is(key, "general.alignment"))
		return 0;
	if (value->type == WEIR_VALUE_U32 && value->u &&
	    !(value->u & (value->u - 1)))
		return 0;
	return weir__fail(
		-EINVAL,
		"metadata 'general.alignment': the value is not a power of two of type U32");
}

static uint64_t gguf_align(const struct weir_model *m,
			   const struct weir__record *rec)
{
	const struct weir__value *v = weir__meta_find(m, "general.alignment");

	(void)rec;
	return v ? v->u : DEFAULT_ALIGN;
}

static void add_string(struct weir__bytes *out, const char *s, size_t n)
{
	weir__bytes_u64(out, n);
	weir__bytes_add(out, s, n);
}

static void add_number(struct weir__bytes *out, const struct weir__value *v)
{
	const size_t n = weir__value_bytes(v->type);
	uint64_t bits = v->u;
	float f;

	if (v->type == WEIR_VALUE_F32) {
		uint32_t bits32;

		f = (float)v->f;
		memcpy(&bits32, &f, sizeof(bits32));
		bits = bits32;
	}
	for (size_t i = 0; i < n; i++)
		weir__bytes_byte(out, (unsigned char)(bits >> 8 * i));
}

/* Arrays of arrays are as deep as their reader allows. */
static void add_value(const struct weir_model *m, struct weir__bytes *out,
		      const struct weir__value *v)
{
	if (v->type == WEIR_VALUE_STRING) {
		add_string(out, m->text + v->at, v->n);
	} else if (v->type == WEIR_VALUE_ARRAY) {
		weir__bytes_u32(out, gguf_type[v->of]);
		weir__bytes_u64(out, v->n);
		for (uint32_t i = 0; i < v->n && !out->failed; i++) {
			struct weir__value item = weir__value_item(m, v, i);

			add_value(m, out, &item);
		}
	} else {
		add_number(out, v);
	}
}

static void add_pair(const struct weir_model *m, struct weir__bytes *out,
		     const char *key, size_t len, const struct weir__value *v)
{
	add_string(out, key, len);
	weir__bytes_u32(out, gguf_type[v->type]);
	add_value(m, out, v);
}

static bool is_split_key(const struct weir_model *m, const struct weir__pair *p)
{
	const struct weir__str key = { m->text + p->key, p->key_len };

	return weir__str_is(&key, "split.no") ||
	       weir__str_is(&key, "split.count") ||
	       weir__str_is(&key, "split.tensors.count");
}

/* Pairs of the model, without those that say how it was split. */
static uint64_t add_pairs(const struct weir_model *m, struct weir__bytes *out)
{
	uint64_t n = 0;

	for (size_t i = 0; i < m->n_meta; i++) {
		const struct weir__pair *p = &m->meta[i];

		if (is_split_key(m, p))
			continue;
		add_pair(m, out, m->text + p->key, p->key_len, &p->value);
		n++;
	}
	return n;
}

static uint64_t add_split(const struct weir_model *m,
			  const struct weir__part_out *part,
			  struct weir__bytes *out)
{
	const struct {
		const char *key;
		struct weir__value value;
	} pair[] = {
		{ "split.no", { .type = WEIR_VALUE_U16, .u = part->no } },
		{ "split.count", { .type = WEIR_VALUE_U16, .u = part->count } },
		{ "split.tensors.count",
		  { .type = WEIR_VALUE_I32, .u = m->n_recs } },
	};
	const size_t n = sizeof(pair) / sizeof(pair[0]);

	for (size_t i = 0; i < n; i++)
		add_pair(m, out, pair[i].key, strlen(pair[i].key),
			 &pair[i].value);
	return n;
}

/* The innermost dimension comes first. A scalar has one of 1 element. */
static void add_info(const struct weir_model *m, const struct weir__record *rec,
		     struct weir__bytes *out)
{
	add_string(out, m->text + rec->name, rec->name_len);
	weir__bytes_u32(out, rec->ndim ? rec->ndim : 1);
	if (!rec->ndim)
		weir__bytes_u64(out, 1);
	for (unsigned i = rec->ndim; i--;)
		weir__bytes_u64(out, (uint64_t)m->dims[rec->shape + i]);
	weir__bytes_u32(out, (uint32_t)weir__dtype(rec->dtype)->ggml);
	weir__bytes_u64(out, rec->off);
}

static int gguf_header(const struct weir_model *m,
		       const struct weir__part_out *part,
		       struct weir__bytes *out)
{
	uint64_t n_pairs = 0;

	if (part->count > UINT16_MAX)
		return weir__fail(-EOPNOTSUPP,
				  "%u files of a split model, GGUF allows %u",
				  part->count, UINT16_MAX);
	weir__bytes_text(out, "GGUF");
	weir__bytes_u32(out, 3);
	weir__bytes_u64(out, part->n);
	weir__bytes_u64(out, 0);
	if (part->no == 0)
		n_pairs += add_pairs(m, out);
	if (part->count > 1)
		n_pairs += add_split(m, part, out);
	for (size_t i = 0; i < part->n; i++)
		add_info(m, &m->rec[part->order[i]], out);
	if (weir__bytes_end(out) < 0)
		return -ENOMEM;
	for (int i = 0; i < 8; i++)
		out->p[16 + i] = (unsigned char)(n_pairs >> 8 * i);
	return 0;
}

const struct weir__format_write weir__gguf_write = {
	.pads = true,
	.check = gguf_check,
	.check_value = gguf_check_value,
	.align = gguf_align,
	.header = gguf_header,
};
