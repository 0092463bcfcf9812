/* SPDX-License-Identifier: MIT */
/* A GGUF file: its first 24 bytes, the infos of its tensors, the checks. */
#include "model/format/gguf.h"

#include "core/error.h"
#include "core/util.h"
#include "mem/dtype.h"
#include "model/format/gguf_bytes.h"

#define FIXED 24u     /* bytes before the first pair */
#define MIN_PAIR 14u  /* bytes: a key of one byte, a type, a U8 */
#define MIN_INFO 24u  /* bytes: an empty name, no dimensions */
#define NAME_MOST 64u /* bytes of a tensor's name */
#define DIMS_MAX 4u
#define NAMES_AHEAD 65536u /* names for which a table is made at once */

typedef unsigned long long ull; /* the type that printf writes */

struct gguf {
	struct weir__gguf_in in;
	struct weir__header header;
	struct weir__gguf_keys keys;
	uint64_t n_tensors, n_pairs;
	uint64_t last_end; /* end of the previous tensor */
};

static int check_version(const struct weir__gguf *g, uint32_t version)
{
	if (!version)
		return weir__fail(-EBADMSG, "%s: GGUF version 0 does not exist",
				  g->file);
	if (!(version & 0xffff))
		return weir__fail(
			-EOPNOTSUPP,
			"%s: this is a GGUF file of the other byte order (big-endian), which is not supported",
			g->file);
	if (version == 1 || version > 3)
		return weir__fail(
			-EOPNOTSUPP,
			"%s: GGUF version %u is not supported, versions 2 and 3 are",
			g->file, version);
	return 0;
}

/*
 * Each pair and each info has a smallest size, so numbers that the file cannot
 * hold are refused at once.
 */
static int check_counts(const struct gguf *rd)
{
	uint64_t left = weir__gguf_left(&rd->in);

	if (rd->n_pairs > left / MIN_PAIR ||
	    rd->n_tensors > (left - rd->n_pairs * MIN_PAIR) / MIN_INFO)
		return weir__fail(
			-EBADMSG,
			"%s: a header of %lld tensors and %lld pairs of metadata does not fit in the file, which has %llu bytes",
			rd->in.g->file, (long long)rd->n_tensors,
			(long long)rd->n_pairs, (ull)rd->in.g->file_bytes);
	return 0;
}

static int read_fixed(struct gguf *rd)
{
	const struct weir__gguf *g = rd->in.g;
	int r;

	if (g->file_bytes < FIXED)
		return weir__fail(
			-EBADMSG,
			"%s: a file of %llu bytes; a GGUF file has at least %u",
			g->file, (ull)g->file_bytes, FIXED);
	r = weir__gguf_need(&rd->in, FIXED);
	if (r < 0)
		return r;
	if (memcmp(rd->in.m->text + rd->in.base, "GGUF", 4))
		return weir__fail(-EBADMSG, "%s: it does not begin with 'GGUF'",
				  g->file);
	rd->in.at = 4;
	r = check_version(g, weir__gguf_u32(&rd->in));
	if (r < 0)
		return r;
	rd->n_tensors = weir__gguf_u64(&rd->in);
	rd->n_pairs = weir__gguf_u64(&rd->in);
	r = check_counts(rd);
	return r < 0 ? r
		     : weir__gguf_expect(&rd->in,
					 rd->n_pairs * MIN_PAIR +
						 rd->n_tensors * MIN_INFO);
}

static int read_name(struct gguf *rd, struct weir__value *ret_name)
{
	struct weir__gguf_in *in = &rd->in;
	int r = weir__gguf_string(in, ret_name);

	if (r < 0)
		return r;
	in->kind = "tensor";
	in->name = *ret_name;
	if (ret_name->n > NAME_MOST)
		return weir__gguf_fail(
			in, -EBADMSG,
			"a name of %u bytes, the format allows %u", ret_name->n,
			NAME_MOST);
	if (!ret_name->n && !in->g->lenient)
		return weir__gguf_fail(in, -EBADMSG, "its name is empty");
	return 0;
}

/* The innermost dimension is stored first. */
static int read_dims(struct gguf *rd, struct weir__record *rec, uint64_t *dims)
{
	struct weir__gguf_in *in = &rd->in;
	uint32_t n;
	int r = weir__gguf_need(in, 4);

	if (r < 0)
		return r;
	n = weir__gguf_u32(in);
	if (n > DIMS_MAX)
		return weir__gguf_fail(in, -EBADMSG,
				       "%u dimensions, the format allows %u", n,
				       DIMS_MAX);
	r = weir__gguf_need(in, n * 8);
	for (uint32_t i = n; r >= 0 && i--;) {
		dims[i] = weir__gguf_u64(in);
		if (dims[i] > INT64_MAX)
			return weir__gguf_fail(in, -EBADMSG,
					       "a dimension of %lld",
					       (long long)dims[i]);
	}
	rec->ndim = (uint16_t)n;
	return r;
}

static int read_dtype(struct gguf *rd, struct weir__record *rec)
{
	struct weir__gguf_in *in = &rd->in;
	uint32_t number = weir__gguf_u32(in);

	rec->dtype = (uint16_t)weir__dtype_ggml(number);
	if (rec->dtype != WEIR_DTYPE_NONE)
		return 0;
	in->at -= 4;
	return weir__gguf_fail(
		in, -EBADMSG,
		"type %d is none of GGML's: removed, or newer than this library",
		(int)number);
}

/*
 * Set the end of the tensor: the format has only offsets. Rows, which are the
 * innermost dimension, consist of whole blocks.
 */
static int set_end(struct gguf *rd, const uint64_t *dims,
		   struct weir__record *rec)
{
	const struct weir_dtype_info *info = weir__dtype(rec->dtype);
	uint64_t row = rec->ndim ? dims[rec->ndim - 1] : 1, n;

	if (row % info->block)
		return weir__gguf_fail(
			&rd->in, -EBADMSG,
			"rows of %llu elements, %s has blocks of %u", (ull)row,
			info->name, info->block);
	if (weir__elements_over((const int64_t *)dims, rec->ndim, &n) ||
	    weir__mul_over(n / info->block, info->bytes * 8u, &n))
		return weir__gguf_fail(
			&rd->in, -EBADMSG,
			"its shape needs more than 2^64 - 1 bits");
	if (weir__add_over(rec->off, n / 8, &rec->bytes))
		return weir__gguf_fail(
			&rd->in, -EBADMSG,
			"%llu bytes at offset %llu end after byte 2^64 - 1",
			(ull)n / 8, (ull)rec->off);
	rd->last_end = rec->bytes;
	return 0;
}

static int check_offset(struct gguf *rd, const struct weir__record *rec)
{
	if (rec->off % rd->keys.alignment)
		return weir__gguf_fail(
			&rd->in, -EBADMSG,
			"its offset is %llu, not a multiple of the alignment %u",
			(ull)rec->off, rd->keys.alignment);
	if (rec->off < rd->last_end && !rd->in.g->lenient)
		return weir__gguf_fail(
			&rd->in, -EBADMSG,
			"its offset is %llu, the tensor before it ends at %llu: they overlap or are not in order",
			(ull)rec->off, (ull)rd->last_end);
	return 0;
}

/* Read the fields after the name: dimensions, type and offset. */
static int read_place(struct gguf *rd, uint64_t *dims, struct weir__record *rec)
{
	int r = read_dims(rd, rec, dims);

	if (r >= 0)
		r = weir__gguf_need(&rd->in, 4 + 8);
	if (r >= 0)
		r = read_dtype(rd, rec);
	if (r < 0)
		return r;
	rec->off = weir__gguf_u64(&rd->in);
	r = check_offset(rd, rec);
	return r < 0 ? r : set_end(rd, dims, rec);
}

/* The cache gets the name's bucket while the rest of the info is read. */
static int read_tensor(struct gguf *rd)
{
	struct weir__record rec = { .shard = rd->in.g->shard };
	uint64_t dims[DIMS_MAX];
	struct weir__value name;
	struct weir__str str;
	uint32_t hash;
	int r = read_name(rd, &name);

	if (r < 0)
		return r;
	str = weir__gguf_str(&rd->in, &name);
	hash = weir__names_ahead(&rd->header.names, &str);
	r = read_place(rd, dims, &rec);
	if (r < 0)
		return r;
	str = weir__gguf_str(&rd->in, &name); /* it may have moved */
	r = weir__header_add(&rd->header, &str, hash, dims, &rec);
	return r > 0 ? weir__gguf_fail(&rd->in, -EBADMSG, "named twice") : r;
}

/*
 * Fail with -EBADMSG if the metadata contradict the names, or the order, of the
 * files.
 */
static int check_split(const struct gguf *rd)
{
	const struct weir__gguf *g = rd->in.g;
	const struct weir__gguf_keys *keys = &rd->keys;
	uint64_t parts = rd->in.m->n_parts;

	if (!parts && keys->split_count > 1)
		return weir__fail(
			-EBADMSG,
			"%s: this is file %llu of %llu of a model, but its name does not end in '-%05llu-of-%05llu.gguf', by which the others are found",
			g->file, (ull)keys->split_no + 1,
			(ull)keys->split_count, (ull)keys->split_no + 1,
			(ull)keys->split_count);
	if (parts && !keys->split)
		return weir__fail(
			-EBADMSG,
			"%s: this is opened as file %u of %llu of a model, but it has no 'split.count'",
			g->file, g->shard + 1, (ull)parts);
	if (parts && (keys->split_count != parts || keys->split_no != g->shard))
		return weir__fail(
			-EBADMSG,
			"%s: this is opened as file %u of %llu of a model, but its metadata says file %llu of %llu",
			g->file, g->shard + 1, (ull)parts,
			(ull)keys->split_no + 1, (ull)keys->split_count);
	return 0;
}

/*
 * Check, after the last file, that the model has as many tensors as the first
 * file promises.
 */
static int check_total(const struct gguf *rd)
{
	const struct weir_model *m = rd->in.m;
	const struct weir__value *total =
		weir__meta_find(m, "split.tensors.count");
	bool integer = total && total->type >= WEIR_VALUE_U8 &&
		       total->type <= WEIR_VALUE_I64;

	if (!total || rd->in.g->shard + 1 < m->n_parts ||
	    (integer && total->u == m->n_recs))
		return 0;
	return weir__fail(
		-EBADMSG,
		"%s: 'split.tensors.count' is %lld, but the model has %zu tensors",
		rd->in.g->file, integer ? (long long)total->i : -1, m->n_recs);
}

static int read_tensors(struct gguf *rd)
{
	int r = 0;

	for (uint64_t i = 0; r >= 0 && i < rd->n_tensors; i++) {
		rd->in.kind = NULL;
		r = read_tensor(rd);
	}
	return r;
}

static int read_all(struct gguf *rd)
{
	struct weir__gguf_in *in = &rd->in;
	int r = weir__gguf_pairs(in, &rd->header, rd->n_pairs, &rd->keys);

	if (r < 0)
		return weir__gguf_explain(in, r);
	r = check_split(rd);
	if (r < 0)
		return r;
	r = read_tensors(rd);
	return r < 0 ? weir__gguf_explain(in, r) : check_total(rd);
}

/* The data section begins after the header, aligned. */
static int set_ranges(const struct gguf *rd, struct weir__ranges *ret_ranges)
{
	const struct weir__gguf *g = rd->in.g;
	uint64_t at = rd->in.at;

	if (rd->n_tensors)
		at = weir__up(at, rd->keys.alignment);
	if (at > g->file_bytes)
		return weir__fail(
			-EBADMSG,
			"%s: its data begin at byte %llu, the file has %llu bytes: was it cut short?",
			g->file, (ull)at, (ull)g->file_bytes);
	*ret_ranges = (struct weir__ranges){
		.file = g->file,
		.field = "offset and end",
		.data_at = at,
		.data_bytes = g->file_bytes - at,
		.align = rd->keys.alignment,
		.gaps = g->lenient,
		.tail = true,
	};
	return 0;
}

static int read_header(struct gguf *rd)
{
	struct weir__ranges ranges;
	int end, r;

	r = weir__header_begin(&rd->header, rd->in.m,
			       rd->n_tensors < NAMES_AHEAD ? rd->n_tensors
							   : NAMES_AHEAD);
	if (r >= 0)
		r = read_all(rd);
	if (r >= 0)
		r = set_ranges(rd, &ranges);
	if (r >= 0)
		weir__gguf_end(&rd->in);
	end = weir__header_end(&rd->header, r < 0 ? NULL : &ranges);
	return r < 0 ? r : end;
}

int weir__gguf_parse(struct weir_model *m, const struct weir__gguf *g)
{
	struct gguf rd = {
		.in = { .g = g, .m = m },
	};
	int r;

	weir__gguf_begin(&rd.in);
	r = weir__gguf_explain(&rd.in, read_fixed(&rd));
	if (r >= 0)
		r = read_header(&rd);
	if (r == -ENOMEM && m->held_refused)
		return weir__fail_for(r, "%s", g->file);
	if (r == -ENOMEM && rd.in.at < FIXED)
		return weir__fail(r, "%s: no memory to read its first bytes",
				  g->file);
	if (r == -ENOMEM)
		return weir__fail(
			r,
			"%s: no memory for the tables of a header of %llu tensors and %llu pairs, at byte %llu",
			g->file, (ull)rd.n_tensors, (ull)rd.n_pairs,
			(ull)rd.in.at);
	return r;
}

static bool gguf_probe(const struct weir__head *head)
{
	return head->n >= 4 && !memcmp(head->bytes, "GGUF", 4);
}

static int gguf_read(struct weir_model *m, uint32_t shard,
		     const struct weir__head *head, bool lenient)
{
	const struct weir__gguf g = {
		.file = head->file,
		.file_bytes = head->file_bytes,
		.from = m->file[shard],
		.shard = shard,
		.lenient = lenient,
	};

	return weir__gguf_parse(m, &g);
}

const struct weir__format weir__gguf = {
	.name = "GGUF",
	.suffix = ".gguf",
	.split = true,
	.probe = gguf_probe,
	.read = gguf_read,
	.write = &weir__gguf_write,
};
