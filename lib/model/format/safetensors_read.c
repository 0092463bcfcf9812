/* SPDX-License-Identifier: MIT */
#include "model/format/safetensors.h"

#include "core/error.h"
#include "core/sys.h"
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
	uint16_t dtype; /* dtype of the previous tensor */
	uint64_t dims[WEIR_MAX_DIMS];
	bool has_meta;
};

/* Usually this is the dtype of the previous tensor, which is compared first. */
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

/* The cache gets the name's bucket while the rest of the entry is read. */
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
		/* Report the name: it comes before errors in its entry. */
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

typedef unsigned long long ull; /* the type that printf writes */

static uint64_t le64(const unsigned char *p)
{
	uint64_t v = 0;

	for (int i = 7; i >= 0; i--)
		v = v << 8 | p[i];
	return v;
}

/* True if the length is allowed, and a '{' or white space (lenient) follows. */
static bool st_probe(const struct weir__head *head)
{
	const unsigned char *p = head->bytes;

	return head->n >= 8 && le64(p) >= WEIR__ST_MIN &&
	       le64(p) <= WEIR__ST_MAX &&
	       (head->n == 8 || p[8] == '{' || weir__json_is_space(p[8]));
}

int weir__st_len(const struct weir__head *head, size_t *ret_len)
{
	uint64_t len;

	if (!head->file_bytes)
		return weir__fail(
			-EBADMSG,
			"%s: a file of 0 bytes is neither safetensors nor GGUF",
			head->file);
	if (head->n < 8)
		return weir__fail(
			-EBADMSG,
			"%s: a file of %llu bytes; a safetensors file has at least %u",
			head->file, (ull)head->file_bytes, 8 + WEIR__ST_MIN);
	len = le64(head->bytes);
	if (len >> 48) /* these bytes are text, or another format's */
		return weir__fail(
			-EBADMSG,
			"%s: neither safetensors nor GGUF: its first 8 bytes are not the length of a header, which is %u to %u",
			head->file, WEIR__ST_MIN, WEIR__ST_MAX);
	if (len < WEIR__ST_MIN || len > WEIR__ST_MAX)
		return weir__fail(
			-EBADMSG,
			"%s: a header of %llu bytes; the format allows %u to %u",
			head->file, (ull)len, WEIR__ST_MIN, WEIR__ST_MAX);
	if (len > head->file_bytes - 8)
		return weir__fail(
			-EBADMSG,
			"%s: a header of %llu bytes in a file that has %llu after its length",
			head->file, (ull)len, (ull)(head->file_bytes - 8));
	*ret_len = (size_t)len;
	return 0;
}

/* Read the file up to the end of the text into *ret_front, to be freed. */
static int read_text(struct weir_file *file, struct weir__st *st,
		     char **ret_front)
{
	char *front = weir__malloc_pages(8 + st->len + 1);
	int r;

	if (!front)
		return weir__fail(-ENOMEM,
				  "%s: no memory for a header of %zu bytes",
				  st->file, st->len);
	weir__sys_prefer_huge(front, st->len);
	r = weir__model_read_front(file, front, 8 + st->len);
	st->text = front + 8;
	st->text[st->len] = '\0';
	*ret_front = front;
	return r;
}

static int st_read(struct weir_model *m, uint32_t shard,
		   const struct weir__head *head, bool lenient)
{
	struct weir__st st = {
		.file = head->file,
		.shard = shard,
		.lenient = lenient,
	};
	char *front = NULL;
	int r = weir__st_len(head, &st.len);

	if (r < 0)
		return r;
	st.data_bytes = head->file_bytes - 8 - st.len;
	r = weir__model_hold(m, 8 + st.len + 1);
	if (r < 0)
		return weir__fail_for(r, "%s", st.file);
	r = read_text(m->file[shard], &st, &front);
	if (r >= 0)
		r = weir__st_parse(m, &st);
	weir__free(front);
	weir__model_let_go(m, 8 + st.len + 1);
	return r;
}

const struct weir__format weir__safetensors = {
	.name = "safetensors",
	.suffix = ".safetensors",
	.index_suffix = ".safetensors.index.json",
	.probe = st_probe,
	.read = st_read,
	.write = &weir__safetensors_write,
};
