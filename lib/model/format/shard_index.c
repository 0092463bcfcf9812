/* SPDX-License-Identifier: MIT */
#include "model/format/shard_index.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "core/array.h"
#include "core/error.h"
#include "core/sys.h"
#include "io/source.h"
#include "core/util.h"
#include "model/format/safetensors.h"

static struct weir__str placed_name(const void *arg, uint32_t number)
{
	const struct weir__index *x = arg;

	return x->placed[number].name;
}

static struct weir__str shard_name(const void *arg, uint32_t number)
{
	const struct weir__index *x = arg;

	return x->shard[number];
}

/* True if a component of the path is "..". */
static bool has_dotdot(const struct weir__str *path)
{
	const char *at = path->s, *end = at + path->len, *slash;

	for (; at <= end; at = slash + 1) {
		slash = memchr(at, '/', (size_t)(end - at));
		if (!slash)
			slash = end;
		if (slash - at == 2 && at[0] == '.' && at[1] == '.')
			return true;
	}
	return false;
}

/*
 * Untrusted text becomes a path here. It may name files in the directory of the
 * index, which may be links, and no others.
 */
static int check_path(struct weir__json *j, const struct weir__str *path)
{
	const char *why = !path->len ? "it is empty"
			  : memchr(path->s, '\0', path->len)
				  ? "it has a NUL inside"
			  : path->s[0] == '/' ? "it is absolute"
			  : has_dotdot(path)  ? "it has a '..' component"
					      : NULL;

	if (!why)
		return 0;
	return weir__json_fail(j, "the shard's name '%s' is refused: %s",
			       weir__quote(path->s, path->len), why);
}

/* Get the number of the shard @name, which is added if it is new. */
static int add_shard(struct weir__index *x, struct weir__json *j,
		     const struct weir__str *name, uint32_t *ret_shard)
{
	struct weir__str *shard;
	int r = check_path(j, name);

	if (r < 0)
		return r;
	shard = weir__grow(x->shard, &x->cap_shards, x->n_shards,
			   sizeof(*shard));
	if (!shard)
		return -ENOMEM;
	x->shard = shard;
	*ret_shard = (uint32_t)x->n_shards;
	r = weir__names_add(&x->shards, name, *ret_shard, ret_shard);
	if (r != 0)
		return r < 0 ? r : 0;
	if (x->n_shards == WEIR__MAX_SHARDS)
		return weir__fail(-EOPNOTSUPP,
				  "%s: more than %u shards are not supported",
				  x->file, WEIR__MAX_SHARDS);
	shard[x->n_shards++] = *name;
	return 0;
}

static int index_hold(struct weir__index *x, uint64_t bytes)
{
	x->held += bytes;
	return x->m ? weir__model_hold(x->m, bytes) : 0;
}

static int place_tensor(struct weir__index *x, struct weir__json *j,
			const struct weir__str *name, bool lenient)
{
	struct weir__index_entry *placed;
	struct weir__str file;
	uint32_t number = (uint32_t)x->n_placed, shard;
	int r = weir__json_string(j, &file);

	if (r >= 0)
		r = add_shard(x, j, &file, &shard);
	if (r >= 0)
		r = index_hold(x, sizeof(*placed) + WEIR__NAME_BYTES);
	if (r < 0)
		return r;
	placed = weir__grow(x->placed, &x->cap_placed, x->n_placed,
			    sizeof(*placed));
	if (!placed)
		return -ENOMEM;
	x->placed = placed;
	r = weir__names_add(&x->names, name, number, &number);
	if (r < 0)
		return r;
	if (r > 0 && !lenient)
		return weir__json_fail(j, "named twice");
	if (r == 0)
		x->n_placed++;
	placed[number] =
		(struct weir__index_entry){ .name = *name, .shard = shard };
	return 0;
}

static int read_map(struct weir__index *x, struct weir__json *j, bool lenient)
{
	struct weir__str name;
	int r = weir__json_enter(j, '{');

	while (r >= 0) {
		r = weir__json_member(j, &name);
		if (r <= 0)
			break;
		j->kind = "tensor";
		j->name = name;
		r = place_tensor(x, j, &name, lenient);
		j->kind = NULL;
	}
	return r;
}

/* Return the value of a text of digits; 0: other text, or more than 64 bits. */
static uint64_t whole_number(const unsigned char *at, const unsigned char *end)
{
	uint64_t v = 0;

	for (; at < end; at++)
		if (*at < '0' || *at > '9' || weir__mul_over(v, 10, &v) ||
		    weir__add_over(v, *at - '0', &v))
			return 0;
	return v;
}

/* Some writers store a float here. Nothing depends on the value. */
static int read_total(struct weir__index *x, struct weir__json *j)
{
	const unsigned char *at;
	int r;

	weir__json_peek(j);
	at = j->at;
	r = weir__json_skip(j);
	if (r >= 0)
		x->total_size = whole_number(at, j->at);
	return r;
}

static int read_metadata(struct weir__index *x, struct weir__json *j)
{
	struct weir__str name;
	int r;

	if (weir__json_peek(j) != '{')
		return weir__json_skip(j);
	r = weir__json_enter(j, '{');
	while (r >= 0) {
		r = weir__json_member(j, &name);
		if (r <= 0)
			break;
		r = weir__str_is(&name, "total_size") ? read_total(x, j)
						      : weir__json_skip(j);
	}
	return r;
}

static int read_index(struct weir__index *x, struct weir__json *j, bool lenient)
{
	bool map = false, meta = false;
	struct weir__str name;
	int r = weir__json_enter(j, '{');

	while (r >= 0) {
		r = weir__json_member(j, &name);
		if (r <= 0)
			break;
		if (weir__str_is(&name, "weight_map")) {
			if (map)
				return weir__json_fail(
					j, "'weight_map' occurs twice");
			map = true;
			r = read_map(x, j, lenient);
		} else if (weir__str_is(&name, "metadata")) {
			if (meta)
				return weir__json_fail(
					j, "'metadata' occurs twice");
			meta = true;
			r = read_metadata(x, j);
		} else {
			r = weir__json_skip(j);
		}
	}
	if (r >= 0)
		r = weir__json_end(j);
	if (r >= 0 && !map)
		return weir__fail(-EBADMSG, "%s: an index without 'weight_map'",
				  x->file);
	return r;
}

struct old_shard {
	struct weir__str name;
	uint32_t was;
};

static int by_name(const void *pa, const void *pb)
{
	const struct old_shard *a = pa, *b = pb;
	size_t n = a->name.len < b->name.len ? a->name.len : b->name.len;
	int c = memcmp(a->name.s, b->name.s, n);

	return c ? c : a->name.len < b->name.len ? -1 : 1;
}

/*
 * Sort the shards by name. In lenient mode a later line of the map may replace
 * the only tensor of a shard; such shards are removed.
 */
static int sort_shards(struct weir__index *x)
{
	struct old_shard *order = weir__calloc(x->n_shards, sizeof(*order));
	uint32_t *now = weir__calloc(x->n_shards, sizeof(*now));
	int r = order && now ? 0 : -ENOMEM;
	size_t n = 0;

	if (r < 0) {
		weir__fail(r, "%s: no memory for %zu shards", x->file,
			   x->n_shards);
		goto out;
	}
	for (size_t i = 0; i < x->n_placed; i++)
		now[x->placed[i].shard] = 1;
	for (uint32_t i = 0; i < x->n_shards; i++)
		if (now[i])
			order[n++] = (struct old_shard){ x->shard[i], i };
	qsort(order, n, sizeof(*order), by_name);
	for (uint32_t i = 0; i < n; i++) {
		x->shard[i] = order[i].name;
		now[order[i].was] = i;
	}
	x->n_shards = n;
	for (size_t i = 0; i < x->n_placed; i++)
		x->placed[i].shard = now[x->placed[i].shard];
out:
	weir__free(order);
	weir__free(now);
	return r;
}

int weir__index_parse(struct weir__index *x, struct weir_model *m,
		      const char *file, char *text, size_t len, bool lenient)
{
	struct weir__json j;
	int r;

	*x = (struct weir__index){ .m = m, .file = file, .text = text };
	weir__json_init(&j, file, 0, text, len);
	r = weir__names_init(&x->names, 0, x, placed_name);
	if (r >= 0)
		r = weir__names_init(&x->shards, 0, x, shard_name);
	if (r >= 0)
		r = read_index(x, &j, lenient);
	if (r == -ENOMEM && m && m->held_refused)
		weir__fail_for(r, "%s", file);
	else if (r == -ENOMEM)
		weir__fail(
			r,
			"%s: no memory for the tables of an index of %zu bytes, after %zu tensors",
			file, len, x->n_placed);
	weir__names_fini(&x->shards);
	if (r >= 0)
		r = sort_shards(x);
	return r;
}

void weir__index_fini(struct weir__index *x)
{
	weir__names_fini(&x->names);
	weir__names_fini(&x->shards);
	weir__free(x->placed);
	weir__free(x->shard);
	if (x->m)
		weir__model_let_go(x->m, x->held);
}

void weir__index_keep(struct weir__index *x, struct weir_model *m, size_t first,
		      uint32_t shard)
{
	size_t n = first;

	for (size_t i = first; i < m->n_recs; i++) {
		struct weir__str name = { weir__record_name(m, i),
					  m->rec[i].name_len };
		size_t at = weir__names_find(&x->names, &name);

		if (at == WEIR__NONE || x->placed[at].shard != shard)
			continue;
		x->placed[at].found = true;
		m->rec[n++] = m->rec[i];
	}
	if (n < m->n_recs && first < m->names.count)
		weir__names_fini(&m->names); /* its numbers are wrong now */
	m->unlisted += m->n_recs - n;
	m->n_recs = n;
}

int weir__index_complete(const struct weir__index *x)
{
	for (size_t i = 0; i < x->n_placed; i++) {
		const struct weir__index_entry *p = &x->placed[i];
		const struct weir__str *shard = &x->shard[p->shard];

		if (!p->found)
			return weir__fail(
				-EBADMSG,
				"%s: tensor '%s' is placed in '%s', which does not have it",
				x->file, weir__quote(p->name.s, p->name.len),
				weir__quote(shard->s, shard->len));
	}
	return 0;
}

/* Reading a model of several files: the index, then its shards. */

/*
 * Return the length of the directory in @path, with its slash; 0: there is
 * none.
 */
static size_t dir_len(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? (size_t)(slash + 1 - path) : 0;
}

static char *shard_path(const struct weir_file *by,
			const struct weir__str *name)
{
	char *shard = weir__malloc(name->len + 1), *path = NULL;
	size_t dir = dir_len(by->path), n;

	if (!shard)
		return NULL;
	memcpy(shard, name->s, name->len);
	shard[name->len] = '\0';
	if (by->url) {
		path = weir__url_beside(by->url, shard);
	} else {
		n = dir + name->len + 3;
		path = weir__malloc(n);
		/* A name is never a URL. */
		if (path)
			snprintf(path, n, "%.*s%s%s", (int)dir, by->path,
				 !dir && weir__is_url(shard) ? "./" : "",
				 shard);
	}
	weir__free(shard);
	return path;
}

static int fail_shard(int r, const char *index, const struct weir__str *shard,
		      uint32_t i, size_t n)
{
	const char *name = weir__quote(shard->s, shard->len);

	if (r == -ENOENT)
		return weir__fail(r, "%s: its shard '%s' does not exist", index,
				  name);
	if (r == -EMFILE)
		return weir__fail(
			r,
			"%s: shard '%s', %u of %zu: too many open files: each shard takes two, RLIMIT_NOFILE is %llu (ulimit -n)",
			index, name, i + 1, n,
			(unsigned long long)weir__sys_limit(RLIMIT_NOFILE));
	return r; /* its sentence has the path */
}

void weir__shards_ahead(struct weir__opening *a, struct weir_model *m,
			struct weir_file *by, const struct weir__str *name,
			size_t n)
{
	size_t len = strlen(by->base);

	memset(a, 0, sizeof(*a));
	if (!by->url || n < 2 || weir__opening_new(a, m->weir, n) < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		a->path[i] = shard_path(by, &name[i]);
		if (name[i].len == len && !memcmp(name[i].s, by->base, len))
			a->file[i] = weir__file_ref(by);
	}
	weir__opening_open(a);
}

int weir__shard_open(struct weir_model *m, const struct weir_file *by,
		     const struct weir__str *name, uint32_t i, size_t n,
		     struct weir__opening *a)
{
	struct weir_file *file = weir__opening_take(a, i);
	char *path;
	int r = 0;

	if (!file) {
		path = shard_path(by, name);
		if (!path)
			return weir__fail(-ENOMEM, "%s: no memory for a path",
					  by->base);
		r = weir__model_file(m->weir, path, &file);
		weir__free(path);
	}
	if (r < 0)
		return fail_shard(r, by->base, name, i, n);
	r = weir__model_add_file(m, file);
	weir__file_put(file);
	return r;
}

static int read_shards(struct weir_model *m, struct weir__index *x,
		       struct weir_file *index, bool lenient)
{
	struct weir__opening ahead;
	int r = 0;

	weir__shards_ahead(&ahead, m, index, x->shard, x->n_shards);
	for (uint32_t i = 0; r >= 0 && i < x->n_shards; i++) {
		size_t first = m->n_recs;

		r = weir__shard_open(m, index, &x->shard[i], i, x->n_shards,
				     &ahead);
		if (r >= 0)
			r = weir__shard_read(m, i, lenient);
		if (r >= 0)
			weir__index_keep(x, m, first, i);
	}
	weir__opening_fini(&ahead);
	return r < 0 ? r : weir__index_complete(x);
}

static int read_index_text(struct weir_model *m, struct weir_file *file,
			   char **ret_text)
{
	size_t n = (size_t)file->id.bytes;
	char *text;
	int r;

	if (file->id.bytes > WEIR__INDEX_MAX)
		return weir__fail(
			-EBADMSG,
			"%s: an index of %llu bytes; %u at most are read",
			file->base, (unsigned long long)file->id.bytes,
			WEIR__INDEX_MAX);
	r = weir__model_hold(m, n + 1);
	if (r < 0)
		return weir__fail_for(r, "%s", file->base);
	text = weir__malloc(n + 1);
	if (!text)
		return weir__fail(-ENOMEM,
				  "%s: no memory for an index of %zu bytes",
				  file->base, n);
	text[n] = '\0';
	r = weir__model_read(file, text, n, 0);
	if (r < 0)
		weir__free(text);
	else
		*ret_text = text;
	return r;
}

int weir__index_read(struct weir_model *m, struct weir_file *file, bool lenient)
{
	struct weir__index x;
	char *text = NULL;
	int r = read_index_text(m, file, &text);

	if (r < 0)
		return r;
	r = weir__index_parse(&x, m, file->base, text, (size_t)file->id.bytes,
			      lenient);
	if (r >= 0) {
		m->format = &weir__safetensors; /* the format of every shard */
		m->total_size = x.total_size;
		r = read_shards(m, &x, file, lenient);
	}
	weir__index_fini(&x);
	weir__free(text);
	weir__model_let_go(m, (size_t)file->id.bytes + 1);
	return r;
}
