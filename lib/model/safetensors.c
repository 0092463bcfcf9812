/* SPDX-License-Identifier: MIT */
#include "model/safetensors.h"

#include <string.h>

#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"
#include "mem/dtype.h"

/* Bytes of an entry, as they mostly are: how many names are to be expected. */
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
	struct weir_model *m;
	const struct weir__st *st;
	struct weir__names names; /* of this header's tensors */
	uint16_t dtype;           /* of the tensor before */
	size_t first_meta;        /* pairs before it are of earlier shards */
	bool has_meta;
};

/* Mostly it is that of the tensor before. */
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
	return weir__json_fail(&rd->json, "there is no dtype '%s'",
			       weir__quote(name.s, name.len));
}

/* Of more dimensions than we take, only the number matters. */
static int add_dim(struct weir_model *m, struct weir__record *rec, uint64_t dim)
{
	int64_t *dims;

	if (rec->ndim < UINT16_MAX)
		rec->ndim++;
	if (rec->ndim > WEIR_MAX_DIMS)
		return 0;
	if (m->n_dims == UINT32_MAX)
		return weir__fail(-EOPNOTSUPP,
				  "a model of more than %u dimensions",
				  UINT32_MAX);
	dims = weir__grow(m->dims, &m->cap_dims, m->n_dims, sizeof(*dims));
	if (!dims)
		return -ENOMEM;
	m->dims = dims;
	dims[m->n_dims++] = (int64_t)dim; /* all 64 bits; see ranges.c */
	return 0;
}

static int read_shape(struct reader *rd, struct weir__record *rec)
{
	uint64_t dim;
	int r = weir__json_enter(&rd->json, '[');

	rec->shape = (uint32_t)rd->m->n_dims;
	rec->ndim = 0;
	while (r >= 0) {
		r = weir__json_element(&rd->json);
		if (r <= 0)
			break;
		r = weir__json_u64(&rd->json, &dim);
		if (r >= 0)
			r = add_dim(rd->m, rec, dim);
	}
	return r;
}

static int read_offset(struct reader *rd, uint64_t *ret)
{
	int r = weir__json_element(&rd->json);

	if (r == 0)
		return weir__json_fail(&rd->json,
				       "'data_offsets' has two numbers");
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
				       "'data_offsets' has two numbers");
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
	return weir__json_skip(&rd->json); /* one that we do not know */
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
			return weir__json_fail(&rd->json, "'%s' is there twice",
					       field_name(field));
		has |= field;
		r = read_field(rd, rec, field);
	}
	if (r >= 0 && has != HAS_ALL)
		return weir__json_fail(&rd->json, "there is no '%s'",
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
			return weir__json_fail(&rd->json, "there is no '%s'",
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

/*
 * Keep @rec as a record of its own, or in lenient mode instead of an earlier
 * one of that name. 1: there was one.
 */
static int keep_record(struct reader *rd, const struct weir__str *name,
		       uint32_t ahead, struct weir__record *rec)
{
	struct weir_model *m = rd->m;
	struct weir__record *all;
	uint32_t number = (uint32_t)m->n_recs;
	int there, r = 0;

	if (m->n_recs >= UINT32_MAX - 1)
		return weir__fail(-EOPNOTSUPP,
				  "a model of more than %u tensors",
				  UINT32_MAX - 1);
	all = weir__grow(m->rec, &m->cap_recs, m->n_recs, sizeof(*all));
	if (!all)
		return -ENOMEM;
	m->rec = all;
	there = weir__names_put(&rd->names, name, ahead, number, &number);
	if (there > 0)
		rec->name = all[number].name;
	else if (there == 0)
		r = weir__text_add(m, name, &rec->name);
	if (there < 0 || r < 0)
		return there < 0 ? there : r;
	all[number] = *rec;
	m->n_recs += !there;
	return there;
}

/* The name's slot comes from memory while the rest of the entry is read. */
static int read_tensor(struct reader *rd, const struct weir__str *name)
{
	bool array = weir__json_peek(&rd->json) == '[' && rd->st->lenient;
	struct weir__record rec = { .name_len = (uint32_t)name->len,
				    .shard = rd->st->shard };
	uint32_t ahead = weir__names_ahead(&rd->names, name);
	unsigned char *at = rd->json.at;
	int r, there;

	rd->json.kind = "tensor";
	rd->json.name = *name;
	r = array ? read_array(rd, &rec) : read_object(rd, &rec);
	there = keep_record(rd, name, ahead, &rec);
	if (there > 0 && !rd->st->lenient) {
		/* This was wrong before anything in the entry was. */
		rd->json.at = at;
		r = weir__json_fail(&rd->json, "named twice");
	}
	rd->json.kind = NULL;
	return there < 0 ? there : r;
}

/*
 * Keep a pair of metadata. Of shards that differ the first is believed; in
 * one header a key is there once, in lenient mode the last one counts.
 */
static int add_pair(struct reader *rd, const struct weir__str *key,
		    const struct weir__str *value)
{
	struct weir_model *m = rd->m;
	struct weir__pair *pair;
	uint32_t number;
	int r;

	if (m->n_meta >= UINT32_MAX - 1)
		return weir__fail(-EOPNOTSUPP,
				  "a model of more than %u pairs of metadata",
				  UINT32_MAX - 1);
	pair = weir__grow(m->meta, &m->cap_meta, m->n_meta, sizeof(*pair));
	if (!pair)
		return -ENOMEM;
	m->meta = pair;
	number = (uint32_t)m->n_meta;
	r = weir__names_add(&m->keys, key, number, &number);
	if (r < 0 || (r > 0 && number < rd->first_meta))
		return r < 0 ? r : 0;
	if (r > 0 && !rd->st->lenient)
		return weir__json_fail(&rd->json, "the key is there twice");
	pair += number;
	if (r == 0) {
		r = weir__text_add(m, key, &pair->key);
		if (r < 0)
			return r;
		pair->key_len = (uint32_t)key->len;
		m->n_meta++;
	}
	pair->value_len = (uint32_t)value->len;
	return weir__text_add(m, value, &pair->value);
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
				       "'__metadata__' is there twice");
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
				  "%s: byte 8: a header begins with '{'",
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

static void give_names(struct weir_model *m, const struct weir__names *names)
{
	weir__names_fini(&m->names);
	m->names = *names;
}

int weir__st_parse(struct weir_model *m, const struct weir__st *st)
{
	struct reader rd = { .m = m, .st = st, .first_meta = m->n_meta };
	size_t first = m->n_recs;
	int r;

	weir__json_init(&rd.json, st->file, 8, st->text, st->len);
	r = weir__names_init(&rd.names, st->len / ENTRY, m, weir__record_str);
	if (r >= 0)
		r = read_header(&rd);
	if (r == -ENOMEM)
		weir__fail(
			r,
			"%s: no memory for the tables of a header of %zu bytes, after %zu tensors",
			st->file, st->len, m->n_recs - first);
	if (r >= 0)
		r = weir__ranges_check(m, first, st);
	/* Of one header in good order the model's names are these. */
	if (r != 0 || first)
		weir__names_fini(&rd.names);
	else
		give_names(m, &rd.names);
	return r < 0 ? r : 0;
}
