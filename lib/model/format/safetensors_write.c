/* SPDX-License-Identifier: MIT */
/*
 * Headers of safetensors files, and the index of their shards.
 *
 * As the format's own writer does it (safetensors 0.5, serialize): the header
 * ends with spaces up to a multiple of 8, and tensors whose elements need more
 * alignment come first, so that each is aligned in the file. Unlike there, the
 * data of larger files begins at a multiple of PAGE: so tensors of whole blocks
 * are written from their places in memory, and later read in place.
 */
#include <errno.h>

#include "core/error.h"
#include "mem/dtype.h"
#include "model/format/bytes.h"
#include "model/format/format.h"
#include "model/format/safetensors.h"

#define PAGE 4096u
#define LARGE ((uint64_t)1 << 20) /* bytes of tensors */

static int st_check(const struct weir__str *name, uint32_t dtype, unsigned ndim)
{
	const struct weir_dtype_info *info = weir__dtype(dtype);

	(void)ndim;
	if (!info->safetensors)
		return weir__fail(-EOPNOTSUPP,
				  "tensor '%s': safetensors has no dtype %s",
				  weir__quote(name->s, name->len), info->name);
	if (weir__str_is(name, "__metadata__"))
		return weir__fail(
			-EINVAL,
			"a tensor of safetensors may not be named '__metadata__'");
	return 0;
}

static int st_check_value(const struct weir__str *key,
			  const struct weir__value *value)
{
	if (value->type == WEIR_VALUE_STRING)
		return 0;
	return weir__fail(
		-EOPNOTSUPP,
		"metadata '%s': values in safetensors are strings, this has another type",
		weir__quote(key->s, key->len));
}

static uint64_t st_align(const struct weir_model *m,
			 const struct weir__record *rec)
{
	(void)m;
	(void)rec;
	return 1; /* no gaps between tensors */
}

static void add_metadata(const struct weir_model *m, struct weir__bytes *out)
{
	weir__bytes_text(out, "\"__metadata__\":{");
	for (size_t i = 0; i < m->n_meta; i++) {
		const struct weir__pair *p = &m->meta[i];
		struct weir__str key = { m->text + p->key, p->key_len };
		struct weir__str str = { m->text + p->value.at, p->value.n };

		weir__bytes_text(out, i ? "," : "");
		weir__bytes_json(out, &key);
		weir__bytes_text(out, ":");
		weir__bytes_json(out, &str);
	}
	weir__bytes_text(out, "}");
}

static void add_tensor(const struct weir_model *m,
		       const struct weir__record *rec, struct weir__bytes *out)
{
	struct weir__str name = { m->text + rec->name, rec->name_len };

	weir__bytes_json(out, &name);
	weir__bytes_text(out, ":{\"dtype\":\"");
	weir__bytes_text(out, weir__dtype(rec->dtype)->name);
	weir__bytes_text(out, "\",\"shape\":[");
	for (unsigned i = 0; i < rec->ndim; i++) {
		weir__bytes_text(out, i ? "," : "");
		weir__bytes_decimal(out, (uint64_t)m->dims[rec->shape + i]);
	}
	weir__bytes_text(out, "],\"data_offsets\":[");
	weir__bytes_decimal(out, rec->off);
	weir__bytes_text(out, ",");
	weir__bytes_decimal(out, rec->off + rec->bytes);
	weir__bytes_text(out, "]}");
}

/* Let the data begin at a multiple of what this returns. */
static unsigned data_unit(const struct weir_model *m,
			  const struct weir__part_out *part, size_t header)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < part->n; i++)
		bytes += m->rec[part->order[i]].bytes;
	return bytes >= LARGE && header <= WEIR__ST_MAX - PAGE ? PAGE : 8;
}

static int st_header(const struct weir_model *m,
		     const struct weir__part_out *part, struct weir__bytes *out)
{
	uint64_t len;

	weir__bytes_u64(out, 0);
	weir__bytes_text(out, "{");
	if (m->n_meta)
		add_metadata(m, out);
	for (size_t i = 0; i < part->n; i++) {
		weir__bytes_text(out, i || m->n_meta ? "," : "");
		add_tensor(m, &m->rec[part->order[i]], out);
	}
	weir__bytes_text(out, "}");
	weir__bytes_pad(out, data_unit(m, part, out->n), ' ');
	if (weir__bytes_end(out) < 0)
		return -ENOMEM;
	len = out->n - 8;
	if (len > WEIR__ST_MAX)
		return weir__fail(
			-EOPNOTSUPP,
			"a header of %llu bytes for %zu tensors, safetensors allows %u: save more and smaller shards",
			(unsigned long long)len, part->n, WEIR__ST_MAX);
	for (int i = 0; i < 8; i++)
		out->p[i] = (unsigned char)(len >> 8 * i);
	return 0;
}

/* {"metadata": {"total_size": N}, "weight_map": {tensor: file}} */
static int st_index(const struct weir_model *m,
		    const struct weir__part_out *part, const char *const *file,
		    uint32_t n, struct weir__bytes *out)
{
	uint64_t total = 0;
	bool first = true;

	for (size_t i = 0; i < m->n_recs; i++)
		total += m->rec[i].bytes;
	weir__bytes_text(out, "{\n  \"metadata\": {\n    \"total_size\": ");
	weir__bytes_decimal(out, total);
	weir__bytes_text(out, "\n  },\n  \"weight_map\": {");
	for (uint32_t k = 0; k < n; k++) {
		const struct weir__str shard = { file[k], strlen(file[k]) };

		for (size_t i = 0; i < part[k].n; i++, first = false) {
			const struct weir__record *rec =
				&m->rec[part[k].order[i]];
			struct weir__str name = { m->text + rec->name,
						  rec->name_len };

			weir__bytes_text(out, first ? "\n    " : ",\n    ");
			weir__bytes_json(out, &name);
			weir__bytes_text(out, ": ");
			weir__bytes_json(out, &shard);
		}
	}
	weir__bytes_text(out, "\n  }\n}\n");
	return weir__bytes_end(out);
}

const struct weir__format_write weir__safetensors_write = {
	.by_alignment = true,
	.utf8 = true,
	.check = st_check,
	.check_value = st_check_value,
	.align = st_align,
	.header = st_header,
	.index = st_index,
};
