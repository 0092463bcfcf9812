/* SPDX-License-Identifier: MIT */
#include "model/format/safetensors.h"

#include "core/error.h"
#include "mem/dtype.h"

/* Usual bytes of an entry, to estimate the number of names. */
#define ENTRY 128u

/* The members of an entry, in the order in which an array has them. */
enum {
	HAS_DTYPE = 1,
	HAS_SHAPE = 2,
	HAS_OFFSETS = 4,
	HAS_ALL = 7
};

struct reader {
	struct weir__json json;
	struct weir__header header;
	const struct weir__st *st;
	uint16_t dtype; /* of the tensor before */
	uint64_t dims[WEIR_MAX_DIMS];
	bool has_meta;
};

/* Usually the dtype of the tensor before, so that is compared first. */
static uint16_t dtype_named(struct reader *rd, const struct weir__str *name)
{
	const struct weir_dtype_info *last = weir__dtype(rd->dtype);

	if (!last || !weir__str_is(name, last->name))
		rd->dtype =
			(uint16_t)weir__dtype_safetensors(name->s, name->len);
	return rd->dtype;
}

static int read_dtype(struct reader *rd, struct weir__record *rec)
{
	struct weir__str name;
	unsigned char *at;
	int r;

	weir__json_peek(&rd->json);
	at = rd->json.at;
	r = weir__json_string(&rd->json, &name);
	if (r < 0)
		return r;
	rec->dtype = dtype_named(rd, &name);
	if (rec->dtype != WEIR_DTYPE_NONE)
		return 0;
	rd->json.at = at;
	return weir__json_fail(&rd->json, "unknown dtype '%s'",
			       weir__quote(name.s, name.len));
}

/* Dimensions beyond the supported number are counted, not stored. */
static int read_shape(struct reader *rd, struct weir__record *rec)
{
	unsigned n = 0;
	uint64_t dim;
	int r = weir__json_enter(&rd->json, '[');

	while (r >= 0) {
		r = weir__json_element(&rd->json);
		if (r <= 0)
			break;
		r = weir__json_u64(&rd->json,
				   n < WEIR_MAX_DIMS ? &rd->dims[n] : &dim);
		n++;
	}
	rec->ndim = n < UINT16_MAX ? (uint16_t)n : UINT16_MAX;
	return r;
}

static int read_offset(struct reader *rd, uint64_t *ret)
{
	int r = weir__json_element(&rd->json);

	if (r == 0)
		return weir__json_fail(&rd->json,
				       "'data_offsets' must have two numbers");
	return r < 0 ? r : weir__json_u64(&rd->json, ret);
}

static int read_offsets(struct reader *rd, struct weir__record *rec)
{
	int r = weir__json_enter(&rd->json, '[');

	if (r >= 0)
		r = read_offset(rd, &rec->off);
	if (r >= 0)
		r = read_offset(rd, &rec->bytes);
	if (r >= 0)
		r = weir__json_element(&rd->json);
	if (r > 0)
		return weir__json_fail(&rd->json,
				       "'data_offsets' must have two numbers");
	return r;
}

static int read_field(struct reader *rd, struct weir__record *rec,
		      unsigned field)
{
	if (field == HAS_DTYPE)
		return read_dtype(rd, rec);
	if (field == HAS_SHAPE)
		return read_shape(rd, rec);
	if (field == HAS_OFFSETS)
		return read_offsets(rd, rec);
	return weir__json_skip(&rd->json); /* an unknown field */
}

static unsigned field_named(const struct weir__str *name)
{
	if (weir__str_is(name, "dtype"))
		return HAS_DTYPE;
	if (weir__str_is(name, "shape"))
		return HAS_SHAPE;
	if (weir__str_is(name, "data_offsets"))
		return HAS_OFFSETS;
	return 0;
}

static const char *field_name(unsigned field)
{
	return field & HAS_DTYPE   ? "dtype"
	       : field & HAS_SHAPE ? "shape"
				   : "data_offsets";
}

/* {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}, in any order */
static int read_object(struct reader *rd, struct weir__record *rec)
{
	unsigned has = 0, field;
	struct weir__str name;
	int r = weir__json_enter(&rd->json, '{');

	while (r >= 0) {
		r = weir__json_member(&rd->json, &name);
		if (r <= 0)
			break;
		field = field_named(&name);
		if (has & field)
			return weir__json_fail(&rd->json, "'%s' occurs twice",
					       field_name(field));
		has |= field;
		r = read_field(rd, rec, field);
	}
	if (r >= 0 && has != HAS_ALL)
		return weir__json_fail(&rd->json, "'%s' is missing",
				       field_name(~has));
	return r;
}

/* ["F32", [2], [0, 8]], which the reference reader takes as well */
static int read_array(struct reader *rd, struct weir__record *rec)
{
	int r = weir__json_enter(&rd->json, '[');

	for (unsigned field = HAS_DTYPE; r >= 0 && field <= HAS_OFFSETS;
	     field <<= 1) {
		r = weir__json_element(&rd->json);
		if (r == 0)
			return weir__json_fail(&rd->json, "'%s' is missing",
					       field_name(field));
		if (r > 0)
			r = read_field(rd, rec, field);
	}
	if (r >= 0)
		r = weir__json_element(&rd->json);
	if (r > 0)
		return weir__json_fail(
			&rd->json, "more than the three fields of a tensor");
	return r;
}

/* The name's bucket is fetched while the rest of the entry is read. */
static int read_tensor(struct reader *rd, const struct weir__str *name)
{
	bool array = weir__json_peek(&rd->json) == '[' && rd->st->lenient;
	struct weir__record rec = { .shard = rd->st->shard };
	uint32_t hash = weir__names_ahead(&rd->header.names, name);
	unsigned char *at = rd->json.at;
	int r, there;

	rd->json.kind = "tensor";
	rd->json.name = *name;
	r = array ? read_array(rd, &rec) : read_object(rd, &rec);
	there = weir__header_add(&rd->header, name, hash, rd->dims, &rec);
	if (there > 0 && !rd->st->lenient) {
		/* The name comes before any error in the entry. */
		rd->json.at = at;
		r = weir__json_fail(&rd->json, "named twice");
	}
	rd->json.kind = NULL;
	return there < 0 ? there : r;
}

static int add_pair(struct reader *rd, const struct weir__str *key,
		    const struct weir__str *str)
{
	struct weir__value *value;
	int r = weir__header_meta(&rd->header, key, &value);

	if (r > 0 && !rd->st->lenient)
		return weir__json_fail(&rd->json, "the key occurs twice");
	if (r < 0 || !value)
		return r < 0 ? r : 0;
	return weir__value_string(rd->header.m, str, value);
}

static int read_pair(struct reader *rd, const struct weir__str *key)
{
	struct weir__str value;
	int r;

	rd->json.kind = "metadata";
	rd->json.name = *key;
	r = weir__json_string(&rd->json, &value);
	if (r >= 0)
		r = add_pair(rd, key, &value);
	rd->json.kind = NULL;
	return r;
}

static int read_metadata(struct reader *rd)
{
	struct weir__str key;
	int r;

	if (rd->has_meta)
		return weir__json_fail(&rd->json,
				       "'__metadata__' occurs twice");
	rd->has_meta = true;
	if (weir__json_peek(&rd->json) == 'n')
		return weir__json_null(&rd->json);
	r = weir__json_enter(&rd->json, '{');
	while (r >= 0) {
		r = weir__json_member(&rd->json, &key);
		if (r <= 0)
			break;
		r = read_pair(rd, &key);
	}
	return r;
}

static int read_header(struct reader *rd)
{
	struct weir__str name;
	int r;

	if (!rd->st->lenient && *rd->st->text != '{')
		return weir__fail(-EBADMSG,
				  "%s: byte 8: a header must begin with '{'",
				  rd->st->file);
	r = weir__json_enter(&rd->json, '{');
	while (r >= 0) {
		r = weir__json_member(&rd->json, &name);
		if (r <= 0)
			break;
		r = weir__str_is(&name, "__metadata__")
			    ? read_metadata(rd)
			    : read_tensor(rd, &name);
	}
	return r < 0 ? r : weir__json_end(&rd->json);
}

int weir__st_parse(struct weir_model *m, const struct weir__st *st)
{
	const struct weir__ranges ranges = {
		.file = st->file,
		.field = "data_offsets",
		.data_at = 8 + st->len,
		.data_bytes = st->data_bytes,
		.align = 1,
	};
	struct reader rd = { .st = st };
	int end, r;

	weir__json_init(&rd.json, st->file, 8, st->text, st->len);
	r = weir__header_begin(&rd.header, m, st->len / ENTRY);
	if (r >= 0)
		r = read_header(&rd);
	if (r == -ENOMEM && m->held_refused)
		weir__fail_for(r, "%s", st->file);
	else if (r == -ENOMEM)
		weir__fail(
			r,
			"%s: no memory for the tables of a header of %zu bytes, after %zu tensors",
			st->file, st->len, m->n_recs - rd.header.first);
	end = weir__header_end(&rd.header, r < 0 ? NULL : &ranges);
	return r < 0 ? r : end;
}
