/* SPDX-License-Identifier: MIT */
#include "model/format/manifest.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/arena.h"
#include "core/array.h"
#include "core/error.h"
#include "core/refs.h"
#include "core/sys.h"
#include "core/util.h"
#include "mem/dtype.h"

#define FORM_VERSION 1u
#define MAX_BYTES ((uint64_t)1 << 30) /* most bytes of a file */
#define MAX_NAMED 10u                 /* tensors that a sentence names */
#define SHAPE_TEXT (WEIR_MAX_DIMS * 21u + 3u)

static int no_memory(const char *file)
{
	return weir__fail(-ENOMEM, "%s: no memory for a manifest", file);
}

struct weir_manifest *weir__manifest_ref(struct weir_manifest *m)
{
	weir__refs_add(&m->refs, 1);
	return m;
}

void weir__manifest_put(struct weir_manifest *m)
{
	if (!m || !weir__refs_drop(&m->refs))
		return;
	weir__free(m->text);
	weir__free(m->entry);
	weir__free(m->dims);
	if (m->claimed)
		weir__arena_unreserve(m->weir, m->claimed);
	if (m->weir)
		weir__root_put(m->weir);
	weir__free(m);
}

static struct weir_manifest *manifest_alloc(struct weir *weir)
{
	struct weir_manifest *m = weir__calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	atomic_init(&m->refs, 1);
	m->weir = weir ? weir__root_ref(weir) : NULL;
	return m;
}

/*
 * Count @bytes of memory towards the root's budget, in whole pages, before they
 * are allocated. -ENOMEM.
 */
static int hold(struct weir_manifest *m, const char *file, uint64_t bytes)
{
	uint64_t want;
	int r;

	m->held += bytes;
	if (m->held <= m->claimed || !m->weir || !m->weir->opts.budget)
		return 0;
	want = weir__up(m->held, WEIR__PAGE);
	r = weir__arena_reserve(m->weir, want - m->claimed);
	if (r < 0)
		return weir__fail_for(r, "%s: a manifest", file);
	m->claimed = want;
	return 0;
}

/* Allocate the manifest's text. -ENOMEM. */
static int alloc_text(struct weir_manifest *m, const char *file, uint64_t bytes)
{
	int r = hold(m, file, bytes);

	if (r < 0)
		return r;
	m->text = weir__malloc(bytes);
	return m->text ? 0 : no_memory(file);
}

/* A new entry at the end. NULL: no memory. */
static struct weir__manifest_entry *add_entry(struct weir_manifest *m,
					      const char *file)
{
	struct weir__manifest_entry *more;

	if (hold(m, file, sizeof(*more)) < 0)
		return NULL;
	more = weir__grow(m->entry, &m->cap, m->n, sizeof(*more));
	if (!more) {
		no_memory(file);
		return NULL;
	}
	m->entry = more;
	more += m->n++;
	memset(more, 0, sizeof(*more));
	more->dims = m->n_dims;
	return more;
}

static int add_dim(struct weir_manifest *m, const char *file, int64_t dim)
{
	int64_t *more;
	int r = hold(m, file, sizeof(*more));

	if (r < 0)
		return r;
	more = weir__grow(m->dims, &m->cap_dims, m->n_dims, sizeof(*more));
	if (!more)
		return no_memory(file);
	m->dims = more;
	more[m->n_dims++] = dim;
	return 0;
}

static int compare_names(const struct weir__str *a, const struct weir__str *b)
{
	int r = memcmp(a->s, b->s, a->len < b->len ? a->len : b->len);

	if (r)
		return r;
	return a->len == b->len ? 0 : a->len < b->len ? -1 : 1;
}

static int compare_entries(const void *va, const void *vb)
{
	const struct weir__manifest_entry *a = va, *b = vb;

	return compare_names(&a->name, &b->name);
}

/* "[2,3]"; "[]" for a scalar. Returns @buf. */
static const char *shape_text(const int64_t *dims, unsigned n,
			      char buf[SHAPE_TEXT])
{
	int at = 0;

	buf[at++] = '[';
	for (unsigned i = 0; i < n; i++)
		at += snprintf(buf + at, SHAPE_TEXT - (size_t)at, "%s%" PRId64,
			       i ? "," : "", dims[i]);
	memcpy(buf + at, "]", 2);
	return buf;
}

/*
 * The digest of the whole: of a line for each tensor, in the order of the
 * names. A line has the length of the name, so no name can imitate two.
 */
static int digest_whole(const struct weir_manifest *m, uint8_t *ret_digest)
{
	size_t bytes = weir__digest_bytes(m->kind);
	char hex[WEIR__DIGEST_TEXT], shape[SHAPE_TEXT], line[512];
	struct weir__hash h;

	if (weir__hash_start(&h, m->kind) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < m->n; i++) {
		const struct weir__manifest_entry *e = &m->entry[i];
		int n = snprintf(line, sizeof(line), "%s %s %s %zu ",
				 weir__digest_hex(e->digest, bytes, hex),
				 weir__dtype(e->dtype)->name,
				 shape_text(m->dims + e->dims, e->ndim, shape),
				 e->name.len);

		weir__hash_update(&h, line, (size_t)n);
		weir__hash_update(&h, e->name.s, e->name.len);
		weir__hash_update(&h, "\n", 1);
	}
	weir__hash_finish(&h, ret_digest);
	return 0;
}

/* All entries are there: sort them, and compute the digest of the whole. */
static int manifest_finish(struct weir_manifest *m, const char *file,
			   uint8_t *ret_whole)
{
	if (m->n > UINT32_MAX - 1)
		return weir__fail(-EOPNOTSUPP, "%s: %zu tensors are too many",
				  file, m->n);
	if (m->n)
		qsort(m->entry, m->n, sizeof(*m->entry), compare_entries);
	for (size_t i = 1; i < m->n; i++)
		if (!compare_entries(&m->entry[i - 1], &m->entry[i]))
			return weir__fail(-EBADMSG,
					  "%s: two tensors have the name '%s'",
					  file,
					  weir__quote(m->entry[i].name.s,
						      m->entry[i].name.len));
	if (digest_whole(m, ret_whole) < 0)
		return no_memory(file);
	return 0;
}

/* A manifest while it is read. */
struct manifest_parse {
	struct weir_manifest *m;
	struct weir__json j;
	uint8_t whole[WEIR__DIGEST_MAX]; /* as the file has it */
	size_t whole_bytes;              /* 0: not read yet */
	size_t digest_bytes;             /* size of each digest; 0: none yet */
	bool has_kind;
};

/*
 * Members of an object: a bit for each. -EBADMSG: the object has had this one.
 */
static int note_member(struct manifest_parse *rd, unsigned *seen, unsigned bit,
		       const struct weir__str *name)
{
	if (*seen & bit)
		return weir__json_fail(&rd->j, "a second '%s'",
				       weir__quote(name->s, name->len));
	*seen |= bit;
	return 0;
}

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int read_digest(struct manifest_parse *rd, uint8_t *ret_digest,
		       size_t *ret_bytes)
{
	struct weir__str text;
	int r = weir__json_string(&rd->j, &text);

	if (r < 0)
		return r;
	if (text.len != 32 && text.len != 64)
		return weir__json_fail(
			&rd->j,
			"a digest of %zu digits, where 32 or 64 are expected",
			text.len);
	for (size_t i = 0; i < text.len; i += 2) {
		int high = hex_value(text.s[i]), low = hex_value(text.s[i + 1]);

		if (high < 0 || low < 0)
			return weir__json_fail(
				&rd->j,
				"the digest '%s' has other characters than 0 to 9 and a to f",
				weir__quote(text.s, text.len));
		ret_digest[i / 2] = (uint8_t)(high << 4 | low);
	}
	*ret_bytes = text.len / 2;
	return 0;
}

static int read_kind(struct manifest_parse *rd)
{
	struct weir__str text;
	int r = weir__json_string(&rd->j, &text);

	if (r < 0)
		return r;
	rd->has_kind = true;
	for (int kind = WEIR_DIGEST_XXH3; kind <= WEIR_DIGEST_SHA256; kind++) {
		rd->m->kind = (enum weir_digest)kind;
		if (weir__str_is(&text, weir__digest_name(rd->m->kind)))
			return 0;
	}
	return weir__fail(-EOPNOTSUPP,
			  "%s: the algorithm '%s' is not one of %s and %s",
			  rd->j.file, weir__quote(text.s, text.len),
			  weir__digest_name(WEIR_DIGEST_XXH3),
			  weir__digest_name(WEIR_DIGEST_SHA256));
}

static int read_version(struct manifest_parse *rd)
{
	uint64_t version;
	int r = weir__json_u64(&rd->j, &version);

	if (r < 0 || version == FORM_VERSION)
		return r;
	return weir__fail(-EOPNOTSUPP, "%s: a manifest of version %llu, not %u",
			  rd->j.file, (unsigned long long)version,
			  FORM_VERSION);
}

static int read_dtype(struct manifest_parse *rd, struct weir__manifest_entry *e)
{
	struct weir__str text;
	int r = weir__json_string(&rd->j, &text);

	if (r < 0)
		return r;
	for (uint32_t dtype = 1; dtype < 256; dtype++) {
		const struct weir_dtype_info *info = weir__dtype(dtype);

		if (info && weir__str_is(&text, info->name)) {
			e->dtype = (uint16_t)dtype;
			return 0;
		}
	}
	return weir__fail(-EOPNOTSUPP, "%s: the dtype '%s' is not known",
			  rd->j.file, weir__quote(text.s, text.len));
}

static int read_shape(struct manifest_parse *rd, struct weir__manifest_entry *e)
{
	int r = weir__json_enter(&rd->j, '[');
	uint64_t dim;

	while (r >= 0 && (r = weir__json_element(&rd->j)) > 0) {
		if (e->ndim == WEIR_MAX_DIMS)
			return weir__json_fail(&rd->j,
					       "more than %d dimensions",
					       WEIR_MAX_DIMS);
		r = weir__json_u64(&rd->j, &dim);
		if (r >= 0 && dim > INT64_MAX)
			r = weir__json_fail(&rd->j, "a dimension of %llu",
					    (unsigned long long)dim);
		if (r >= 0)
			r = add_dim(rd->m, rd->j.file, (int64_t)dim);
		e->ndim++;
	}
	return r;
}

enum {
	HAS_NAME = 1,
	HAS_DTYPE = 2,
	HAS_SHAPE = 4,
	HAS_DIGEST = 8,
	HAS_ALL = 15
};

static int read_member(struct manifest_parse *rd,
		       struct weir__manifest_entry *e, unsigned *seen,
		       const struct weir__str *name)
{
	size_t bytes;
	int r;

	if (weir__str_is(name, "name")) {
		r = note_member(rd, seen, HAS_NAME, name);
		return r < 0 ? r : weir__json_string(&rd->j, &e->name);
	}
	if (weir__str_is(name, "dtype")) {
		r = note_member(rd, seen, HAS_DTYPE, name);
		return r < 0 ? r : read_dtype(rd, e);
	}
	if (weir__str_is(name, "shape")) {
		r = note_member(rd, seen, HAS_SHAPE, name);
		return r < 0 ? r : read_shape(rd, e);
	}
	if (!weir__str_is(name, "digest"))
		return weir__json_skip(&rd->j);
	r = note_member(rd, seen, HAS_DIGEST, name);
	if (r >= 0)
		r = read_digest(rd, e->digest, &bytes);
	if (r >= 0 && rd->digest_bytes && rd->digest_bytes != bytes)
		return weir__json_fail(
			&rd->j, "a digest of %zu bytes, after digests of %zu",
			bytes, rd->digest_bytes);
	if (r >= 0)
		rd->digest_bytes = bytes;
	return r;
}

static int read_tensor(struct manifest_parse *rd)
{
	struct weir__manifest_entry *e = add_entry(rd->m, rd->j.file);
	struct weir__str name;
	unsigned seen = 0;
	int r;

	if (!e)
		return -ENOMEM;
	r = weir__json_enter(&rd->j, '{');
	while (r >= 0 && (r = weir__json_member(&rd->j, &name)) > 0)
		r = read_member(rd, e, &seen, &name);
	if (r >= 0 && seen != HAS_ALL)
		r = weir__json_fail(&rd->j, "tensor %zu has no %s",
				    rd->m->n - 1,
				    !(seen & HAS_NAME)    ? "name"
				    : !(seen & HAS_DTYPE) ? "dtype"
				    : !(seen & HAS_SHAPE) ? "shape"
							  : "digest");
	return r;
}

static int read_tensors(struct manifest_parse *rd)
{
	int r = weir__json_enter(&rd->j, '[');

	while (r >= 0 && (r = weir__json_element(&rd->j)) > 0)
		r = read_tensor(rd);
	return r;
}

enum {
	HAS_VERSION = 1,
	HAS_KIND = 2,
	HAS_WHOLE = 4,
	HAS_TENSORS = 8
};

static int read_top(struct manifest_parse *rd, unsigned *seen,
		    const struct weir__str *name)
{
	int r;

	if (weir__str_is(name, "weir_manifest")) {
		r = note_member(rd, seen, HAS_VERSION, name);
		return r < 0 ? r : read_version(rd);
	}
	if (weir__str_is(name, "algorithm")) {
		r = note_member(rd, seen, HAS_KIND, name);
		return r < 0 ? r : read_kind(rd);
	}
	if (weir__str_is(name, "digest")) {
		r = note_member(rd, seen, HAS_WHOLE, name);
		return r < 0 ? r : read_digest(rd, rd->whole, &rd->whole_bytes);
	}
	if (weir__str_is(name, "tensors")) {
		r = note_member(rd, seen, HAS_TENSORS, name);
		return r < 0 ? r : read_tensors(rd);
	}
	return weir__json_skip(&rd->j);
}

static int read_all(struct manifest_parse *rd)
{
	struct weir__str name;
	unsigned seen = 0;
	int r = weir__json_enter(&rd->j, '{');

	while (r >= 0 && (r = weir__json_member(&rd->j, &name)) > 0)
		r = read_top(rd, &seen, &name);
	if (r >= 0)
		r = weir__json_end(&rd->j);
	if (r < 0 || seen == HAS_ALL)
		return r;
	return weir__fail(-EBADMSG, "%s: the file has no member '%s'",
			  rd->j.file,
			  !(seen & HAS_VERSION) ? "weir_manifest"
			  : !(seen & HAS_KIND)  ? "algorithm"
			  : !(seen & HAS_WHOLE) ? "digest"
						: "tensors");
}

/* The digests have the length of their algorithm, and the whole is right. */
static int check_digests(struct manifest_parse *rd)
{
	struct weir_manifest *m = rd->m;
	const char *file = rd->j.file;
	size_t bytes = weir__digest_bytes(m->kind);
	char has[WEIR__DIGEST_TEXT], is[WEIR__DIGEST_TEXT];
	int r;

	if (rd->whole_bytes != bytes ||
	    (rd->digest_bytes && rd->digest_bytes != bytes))
		return weir__fail(
			-EBADMSG,
			"%s: digests of %zu bytes; those of %s have %zu", file,
			rd->whole_bytes != bytes ? rd->whole_bytes
						 : rd->digest_bytes,
			weir__digest_name(m->kind), bytes);
	r = manifest_finish(m, file, m->digest);
	if (r < 0 || !memcmp(m->digest, rd->whole, bytes))
		return r;
	return weir__fail(
		-EBADMSG,
		"%s: the digest of the whole is %s, but that of its %zu tensors is %s: the manifest was changed or cut",
		file, weir__digest_hex(rd->whole, bytes, has), m->n,
		weir__digest_hex(m->digest, bytes, is));
}

/* Parse the manifest's text, of @len bytes before a NUL. */
static int manifest_parse(struct weir_manifest *m, const char *file, size_t len)
{
	struct manifest_parse rd = { .m = m };
	int r;

	weir__json_init(&rd.j, file, 0, m->text, len);
	r = read_all(&rd);
	return r < 0 ? r : check_digests(&rd);
}

/* Give the manifest to the caller, or drop it after a failure. */
static int manifest_out(struct weir_manifest *m, int r,
			struct weir_manifest **ret_manifest)
{
	if (r < 0) {
		weir__manifest_put(m);
		return r;
	}
	*ret_manifest = m;
	return 0;
}

int weir__manifest_parse(struct weir *weir, const char *file, char *text,
			 size_t len, struct weir_manifest **ret_manifest)
{
	struct weir_manifest *m = manifest_alloc(weir);

	if (!m) {
		weir__free(text);
		return no_memory(file);
	}
	m->text = text;
	return manifest_out(m, manifest_parse(m, file, len), ret_manifest);
}

static int read_file(struct weir_manifest *m, struct weir_file *file)
{
	uint64_t bytes = file->id.bytes;
	int r;

	if (bytes > MAX_BYTES)
		return weir__fail(-EOPNOTSUPP,
				  "%s: %llu bytes; a manifest has at most %llu",
				  file->base, (unsigned long long)bytes,
				  (unsigned long long)MAX_BYTES);
	r = alloc_text(m, file->base, bytes + 1);
	if (r >= 0)
		r = weir__file_read(file, m->text, bytes, 0);
	if (r < 0)
		return r;
	m->text[bytes] = '\0';
	return manifest_parse(m, file->base, bytes);
}

int weir_manifest_open(struct weir *weir, const char *path,
		       struct weir_manifest **ret_manifest)
{
	struct weir_manifest *m;
	struct weir_file *file;
	int r;

	WEIR__ENTER();
	r = weir__root_enter(weir);
	if (r >= 0)
		r = weir__file_open(weir, path, WEIR_FILE_NODIRECT, 0, &file);
	if (r < 0)
		return r;
	m = manifest_alloc(weir);
	r = m ? read_file(m, file) : no_memory(file->base);
	weir__file_put(file);
	return manifest_out(m, r, ret_manifest);
}

void weir_manifest_close(struct weir_manifest *manifest)
{
	if (manifest && weir__root_is_ours(manifest->weir))
		weir__manifest_put(manifest);
}

int weir_manifest_info(const struct weir_manifest *manifest,
		       struct weir_manifest_info *ret_info)
{
	struct weir_manifest_info info = { .kind = (uint32_t)manifest->kind,
					   .count = manifest->n };
	int r;

	WEIR__ENTER();
	r = weir__root_read(manifest->weir);
	if (r < 0)
		return r;
	memcpy(info.digest, manifest->digest,
	       weir__digest_bytes(manifest->kind));
	return weir__info_out(ret_info, &info, sizeof(info));
}

/* Add the entry of record @i, whose name is copied to @name. */
static int add_record(struct weir_manifest *m, const struct weir_model *model,
		      size_t i, const uint8_t *digest, char *name)
{
	const struct weir__record *rec = &model->rec[i];
	struct weir__manifest_entry *e = add_entry(m, model->path);
	int r = 0;

	if (!e)
		return -ENOMEM;
	memcpy(name, model->text + rec->name, rec->name_len);
	e->name = (struct weir__str){ name, rec->name_len };
	e->dtype = rec->dtype;
	e->ndim = rec->ndim;
	memcpy(e->digest, digest, weir__digest_bytes(m->kind));
	for (unsigned k = 0; k < rec->ndim && r >= 0; k++)
		r = add_dim(m, model->path, model->dims[rec->shape + k]);
	return r;
}

int weir__manifest_new(const struct weir_model *model, enum weir_digest kind,
		       uint8_t (*digest)[WEIR__DIGEST_MAX],
		       struct weir_manifest **ret_manifest)
{
	struct weir_manifest *m = manifest_alloc(model->weir);
	uint64_t bytes = 1, at = 0;
	int r;

	if (!m)
		return no_memory(model->path);
	m->kind = kind;
	for (size_t i = 0; i < model->n_recs; i++)
		bytes += model->rec[i].name_len;
	r = alloc_text(m, model->path, bytes);
	for (size_t i = 0; i < model->n_recs && r >= 0; i++) {
		r = add_record(m, model, i, digest[i], m->text + at);
		at += model->rec[i].name_len;
	}
	if (r >= 0)
		r = manifest_finish(m, model->path, m->digest);
	return manifest_out(m, r, ret_manifest);
}

/* The number of the entry, or WEIR__NONE. */
static size_t find_entry(const struct weir_manifest *m,
			 const struct weir__str *name)
{
	size_t lo = 0, hi = m->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		int r = compare_names(&m->entry[mid].name, name);

		if (!r)
			return mid;
		if (r < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return WEIR__NONE;
}

static bool has_form(const struct weir_manifest *m,
		     const struct weir__manifest_entry *e,
		     const struct weir_model *model,
		     const struct weir__record *rec)
{
	return e->dtype == rec->dtype && e->ndim == rec->ndim &&
	       !memcmp(m->dims + e->dims, model->dims + rec->shape,
		       rec->ndim * sizeof(*m->dims));
}

/* The tensors that differ, for a sentence. */
struct mismatch {
	size_t n;
	char text[WEIR__ERROR_MAX];
};

static void __attribute__((format(printf, 3, 4)))
add_mismatch(struct mismatch *d, const struct weir__str *name, const char *fmt,
	     ...)
{
	char what[160];
	va_list ap;

	if (d->n++ >= MAX_NAMED)
		return;
	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	weir__append(d->text, sizeof(d->text), "%s'%s' %s",
		     d->n > 1 ? ", " : "", weir__quote(name->s, name->len),
		     what);
}

static void compare_record(const struct weir_manifest *m,
			   const struct weir_model *model, size_t i,
			   size_t entry, struct mismatch *d)
{
	const struct weir__record *rec = &model->rec[i];
	struct weir__str name = weir__record_str(model, (uint32_t)i);
	const struct weir__manifest_entry *e;
	char is[SHAPE_TEXT], was[SHAPE_TEXT];

	if (entry == WEIR__NONE) {
		add_mismatch(d, &name, "is not in the manifest");
		return;
	}
	e = &m->entry[entry];
	if (!has_form(m, e, model, rec))
		add_mismatch(d, &name, "is %s %s and not %s %s",
			     weir__dtype(rec->dtype)->name,
			     shape_text(model->dims + rec->shape, rec->ndim,
					is),
			     weir__dtype(e->dtype)->name,
			     shape_text(m->dims + e->dims, e->ndim, was));
}

int weir__manifest_match(const struct weir_manifest *m,
			 const struct weir_model *model, uint32_t *ret_entry)
{
	struct mismatch d = { 0 };
	bool *used = weir__calloc(m->n + 1, sizeof(*used));

	if (!used)
		return no_memory(model->path);
	for (size_t i = 0; i < model->n_recs; i++) {
		struct weir__str name = weir__record_str(model, (uint32_t)i);
		size_t entry = find_entry(m, &name);

		compare_record(m, model, i, entry, &d);
		if (entry != WEIR__NONE)
			used[entry] = true;
		ret_entry[i] = (uint32_t)entry;
	}
	for (size_t i = 0; i < m->n; i++)
		if (!used[i])
			add_mismatch(&d, &m->entry[i].name,
				     "is not in the model");
	weir__free(used);
	if (!d.n)
		return 0;
	if (d.n > MAX_NAMED)
		weir__append(d.text, sizeof(d.text), ", and %zu more",
			     d.n - MAX_NAMED);
	return weir__fail(
		-EBADMSG,
		"%s: the manifest is of another model: %zu tensors differ: %s",
		model->path, d.n, d.text);
}
