/* SPDX-License-Identifier: MIT */
#include "model/format/model.h"

#include <string.h>

#include "alloc/arena.h"
#include "core/array.h"
#include "core/error.h"
#include "core/refs.h"
#include "core/sys.h"
#include "core/util.h"
#include "model/format/format.h"

#define AHEAD 8u /* names between the prefetch of a bucket and its use */

typedef unsigned long long ull; /* the type that printf writes */

struct weir__str weir__record_str(const void *model, uint32_t number)
{
	const struct weir_model *m = model;

	return (struct weir__str){ weir__record_name(m, number),
				   m->rec[number].name_len };
}

static struct weir__str pair_key(const void *arg, uint32_t number)
{
	const struct weir_model *m = arg;

	return (struct weir__str){ m->text + m->meta[number].key,
				   m->meta[number].key_len };
}

/*
 * The memory that the headers of a model take has two limits: an option of the
 * model, and the budget of its root. A file of any length can be made without
 * blocks on the disk, so its length says nothing about what it is worth.
 */
/* Bytes that are claimed from the budget beyond those needed now. */
#define CLAIM_AHEAD(held) ((held) / 8 + WEIR__PAGE)

static int held_refuse(struct weir_model *m, int r)
{
	m->held_refused = true;
	return r;
}

int weir__model_claim(struct weir_model *m)
{
	uint64_t want;
	int r;

	if (m->held > m->limit)
		return held_refuse(
			m,
			weir__fail(
				-ENOMEM,
				"headers and their tables need %llu bytes, %llu are allowed (weir_model_opts.memory)",
				(ull)m->held, (ull)m->limit));
	if (!m->weir || !m->weir->opts.budget) {
		m->held_ok = m->limit;
		return 0;
	}
	want = weir__up(m->held + CLAIM_AHEAD(m->held), WEIR__PAGE);
	r = weir__arena_reserve(m->weir, want - m->claimed);
	if (r < 0) {
		want = weir__up(m->held, WEIR__PAGE);
		r = weir__arena_reserve(m->weir, want - m->claimed);
	}
	if (r < 0)
		return held_refuse(
			m, weir__fail_for(r, "headers and their tables"));
	m->claimed = want;
	m->held_ok = want < m->limit ? want : m->limit;
	return 0;
}

static void held_end(struct weir_model *m)
{
	uint64_t want = weir__up(m->held, WEIR__PAGE);

	if (m->claimed > want) {
		weir__arena_unreserve(m->weir, m->claimed - want);
		m->claimed = want;
		m->held_ok = m->held;
	}
}

static void held_free(struct weir_model *m)
{
	if (m->claimed)
		weir__arena_unreserve(m->weir, m->claimed);
}

int weir__model_new(struct weir *weir, struct weir_model **ret_model)
{
	struct weir_model *m = weir__calloc(1, sizeof(*m));
	int r;

	if (!m)
		return -ENOMEM;
	/*
	 * Never NULL: dims + shape is valid for tensors without dimensions,
	 * too.
	 */
	m->dims = weir__grow(NULL, &m->cap_dims, 0, sizeof(*m->dims));
	r = m->dims ? weir__names_init(&m->keys, 0, m, pair_key) : -ENOMEM;
	if (r < 0) {
		weir__free(m->dims);
		weir__free(m);
		return r;
	}
	atomic_init(&m->refs, 1);
	m->limit = WEIR__MODEL_MEMORY;
	m->weir = weir ? weir__root_ref(weir) : NULL;
	*ret_model = m;
	return 0;
}

int weir__model_add_file(struct weir_model *m, struct weir_file *file)
{
	struct weir_file **files =
		weir__grow(m->file, &m->cap_files, m->n_files, sizeof(*files));

	if (!files)
		return weir__fail(-ENOMEM, "%s: no memory for %u shards",
				  file->base, m->n_files + 1);
	m->file = files;
	files[m->n_files++] = weir__file_ref(file);
	return 0;
}

struct weir_model *weir__model_ref(struct weir_model *model)
{
	weir__refs_add(&model->refs, 1);
	return model;
}

static void free_spare(struct weir_model *model)
{
	struct weir__model_spare *spare = atomic_exchange(&model->spare, NULL);

	if (spare)
		spare->free(spare);
}

void weir__model_put(struct weir_model *model)
{
	if (!model || !weir__refs_drop(&model->refs))
		return;
	for (uint32_t i = 0; i < model->n_files; i++)
		weir__file_put(model->file[i]);
	weir__names_fini(&model->names);
	weir__names_fini(&model->keys);
	weir__free(model->file);
	weir__free(model->rec);
	weir__free(model->dims);
	weir__free(model->text);
	weir__free(model->meta);
	weir__free(model->item);
	weir__strings_free(model);
	held_free(model);
	weir__free(model->path);
	weir__free(model->url);
	free_spare(model);
	if (model->weir)
		weir__root_put(model->weir);
	weir__free(model);
}

/* Free what the array does not use. If that fails, the array stays as it is. */
static void *shrink(void *array, size_t *cap, size_t n, size_t size)
{
	void *p = n < *cap ? weir__realloc(array, n, size) : NULL;

	if (!p)
		return array;
	*cap = n;
	return p;
}

/*
 * Fail, since two shards have a tensor of one name, and no index chooses one.
 */
static int fail_twice(const struct weir_model *m, uint32_t a, uint32_t b)
{
	return weir__fail(-EBADMSG, "%s: tensor '%s' is also in %s",
			  m->file[m->rec[b].shard]->base,
			  weir__quote(weir__record_name(m, b),
				      m->rec[b].name_len),
			  m->file[m->rec[a].shard]->base);
}

static int hash_names(struct weir_model *m)
{
	uint32_t hash[AHEAD], number, other;
	struct weir__str name;
	int r;

	if (m->names.bucket && m->names.count == m->n_recs)
		return 0;
	weir__names_fini(&m->names);
	r = weir__names_init(&m->names, m->n_recs, m, weir__record_str);
	for (size_t i = 0; r >= 0 && i < m->n_recs + AHEAD; i++) {
		if (i >= AHEAD) {
			number = (uint32_t)(i - AHEAD);
			name = weir__record_str(m, number);
			r = weir__names_put(&m->names, &name, hash[i % AHEAD],
					    number, &other);
			if (r > 0)
				return fail_twice(m, other, number);
		}
		if (i < m->n_recs) {
			name = weir__record_str(m, (uint32_t)i);
			hash[i % AHEAD] = weir__names_ahead(&m->names, &name);
		}
	}
	return r < 0 ? weir__fail(r, "%s: no memory for %zu names",
				  m->path ? m->path : "model", m->n_recs)
		     : 0;
}

int weir__model_finish(struct weir_model *m)
{
	for (size_t i = 0; i < m->n_recs; i++)
		if (weir__add_over(m->bytes, m->rec[i].bytes, &m->bytes))
			return weir__fail(-EOPNOTSUPP,
					  "%s: a model of 2^64 bytes or more",
					  m->path ? m->path : "model");
	m->rec = shrink(m->rec, &m->cap_recs, m->n_recs, sizeof(*m->rec));
	m->dims = shrink(m->dims, &m->cap_dims, m->n_dims, sizeof(*m->dims));
	m->text = shrink(m->text, &m->cap_text, m->text_len, 1);
	m->meta = shrink(m->meta, &m->cap_meta, m->n_meta, sizeof(*m->meta));
	m->item = shrink(m->item, &m->cap_items, m->n_items, sizeof(*m->item));
	held_end(m);
	return hash_names(m);
}

size_t weir__model_lookup(const struct weir_model *model, const char *name,
			  size_t len)
{
	return weir__names_find(&model->names,
				&(struct weir__str){ name, len });
}

void weir_model_close(struct weir_model *model)
{
	if (!model || !weir__root_is_ours(model->weir))
		return;
	/* Weights may have the model for longer, but need no new plan. */
	free_spare(model);
	weir__model_put(model);
}

int weir_model_info(const struct weir_model *model,
		    struct weir_model_info *ret_info)
{
	struct weir_model_info info = {
		.path = model->path,
		.format = model->format->name,
		.bytes = model->bytes,
		.count = model->n_recs,
		.meta = model->n_meta,
		.unlisted = model->unlisted,
		.total_size = model->total_size,
		.shards = model->n_files,
	};
	int r;

	WEIR__ENTER();
	r = weir__root_read(model->weir);
	if (r < 0)
		return r;
	return weir__info_out(ret_info, &info, sizeof(info));
}

size_t weir_model_count(const struct weir_model *model)
{
	return weir__root_is_ours(model->weir) ? model->n_recs : 0;
}

int weir_model_tensor(const struct weir_model *model, size_t i,
		      struct weir_entry *ret_entry)
{
	const struct weir__record *rec;
	struct weir_entry entry = { 0 };
	int r;

	WEIR__ENTER();
	r = weir__root_read(model->weir);
	if (r < 0)
		return r;
	if (i >= model->n_recs)
		return weir__fail(-EINVAL, "tensor %zu of a model of %zu", i,
				  model->n_recs);
	rec = &model->rec[i];
	entry.name = weir__record_name(model, i);
	entry.name_len = rec->name_len;
	entry.dtype = rec->dtype;
	entry.ndim = rec->ndim;
	entry.shard = rec->shard;
	entry.offset = rec->off;
	entry.bytes = rec->bytes;
	memcpy(entry.shape, model->dims + rec->shape,
	       rec->ndim * sizeof(entry.shape[0]));
	return weir__info_out(ret_entry, &entry, sizeof(entry));
}

int weir_model_find(const struct weir_model *model, const char *name,
		    size_t *ret_i)
{
	size_t i = weir__model_lookup(model, name, strlen(name));
	int r;

	WEIR__ENTER();
	r = weir__root_read(model->weir);
	if (r < 0)
		return r;
	if (i == WEIR__NONE)
		return weir__fail(-ENOENT, "no tensor '%s' in %s",
				  weir__quote(name, strlen(name)), model->path);
	*ret_i = i;
	return 0;
}

struct weir_file *weir_model_file(const struct weir_model *model, unsigned i)
{
	if (i >= model->n_files || !weir__root_is_ours(model->weir))
		return NULL;
	return model->file[i];
}
