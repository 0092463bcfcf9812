/* SPDX-License-Identifier: MIT */
/*
 * Which file each tensor goes to, and at which offset. Tensors keep the order
 * in which they were added; where the format wants it, those with larger
 * alignments come first.
 */
#include <stdio.h>
#include <string.h>

#include "core/array.h"
#include "core/error.h"
#include "core/sort.h"
#include "core/sys.h"
#include "core/util.h"
#include "mem/dtype.h"
#include "model/format/bytes.h"
#include "model/save/save.h"

static int no_memory(const struct weir_save *s)
{
	return weir__fail(-ENOMEM, "%s: no memory for a header of %zu tensors",
			  s->path, s->model->n_recs);
}

void weir__save_layout_free(struct weir_save *s)
{
	for (uint32_t i = 0; i < s->n_files; i++) {
		weir__free(s->file[i].name);
		weir__free(s->file[i].header);
	}
	weir__free(s->file);
	weir__free(s->order);
	weir__free(s->index_name);
	s->file = NULL;
	s->order = NULL;
	s->index_name = NULL;
	s->n_files = 0;
}

/* Records of equal alignment keep their order. Returns the next free place. */
static size_t order_aligned(const struct weir_save *s, unsigned align,
			    size_t at)
{
	const struct weir_model *m = s->model;

	for (size_t i = 0; i < m->n_recs; i++)
		if (weir__dtype(m->rec[i].dtype)->align == align)
			s->order[at++] = i;
	return at;
}

static int make_order(struct weir_save *s)
{
	const size_t n = s->model->n_recs;
	size_t at = 0;

	s->order = weir__calloc(n + 1, sizeof(*s->order));
	if (!s->order)
		return no_memory(s);
	if (!s->format->write->by_alignment) {
		for (size_t i = 0; i < n; i++)
			s->order[i] = i;
		return 0;
	}
	for (unsigned align = 16; align; align /= 2)
		at = order_aligned(s, align, at);
	return 0;
}

/* How many records from order[first] on go to one file; sets their offsets. */
static size_t fill_part(struct weir_save *s, size_t first)
{
	const struct weir__format_write *write = s->format->write;
	struct weir_model *m = s->model;
	uint64_t end = 0, data = 0;
	size_t i = first;

	for (; i < m->n_recs; i++) {
		struct weir__record *rec = &m->rec[s->order[i]];

		if (s->shard_bytes && i > first &&
		    (rec->bytes > s->shard_bytes ||
		     data > s->shard_bytes - rec->bytes))
			break;
		rec->off = weir__up(end, write->align(m, rec));
		end = rec->off + rec->bytes;
		data += rec->bytes;
	}
	return i - first;
}

static int add_part(struct weir_save *s, size_t *cap, size_t first, size_t n)
{
	struct weir__save_file *all =
		weir__grow(s->file, cap, s->n_files, sizeof(*all));

	if (!all)
		return no_memory(s);
	s->file = all;
	all[s->n_files] = (struct weir__save_file){
		.part = { .order = s->order + first, .n = n, .no = s->n_files },
	};
	s->n_files++;
	return 0;
}

static int divide(struct weir_save *s)
{
	size_t cap = 0, first = 0, n;
	int r;

	do {
		n = fill_part(s, first);
		r = add_part(s, &cap, first, n);
		first += n;
	} while (r >= 0 && first < s->model->n_recs);
	for (uint32_t i = 0; i < s->n_files; i++)
		s->file[i].part.count = s->n_files;
	return r;
}

static int make_header(struct weir_save *s, struct weir__save_file *f)
{
	const struct weir__format_write *write = s->format->write;
	const struct weir_model *m = s->model;
	struct weir__bytes out = { 0 };
	uint64_t end = 0;
	int r = write->header(m, &f->part, &out);

	f->header = out.p;
	f->header_bytes = out.n;
	if (r == -ENOMEM)
		return no_memory(s);
	if (r < 0)
		return r;
	for (size_t i = 0; i < f->part.n; i++) {
		const struct weir__record *rec = &m->rec[f->part.order[i]];

		end = rec->off + rec->bytes;
		s->data += rec->bytes;
		if (write->pads)
			end = weir__up(end, write->align(m, rec));
	}
	f->bytes = f->header_bytes + end;
	s->total += f->bytes;
	return 0;
}

/* "NAME" without its ending, which is that of the format or none. */
static int stem_length(const struct weir_save *s, const char *name)
{
	size_t n = strlen(name), suffix = strlen(s->format->suffix);

	if (n > suffix && !strcmp(name + n - suffix, s->format->suffix))
		n -= suffix;
	return (int)n;
}

static char *print_name(const struct weir_save *s, const char *name,
			const char *generation, uint32_t i)
{
	char text[512];

	if (s->n_files == 1)
		return weir__strdup(name);
	snprintf(text, sizeof(text), "%.*s%s-%05u-of-%05u%s",
		 stem_length(s, name), name, generation, i + 1, s->n_files,
		 s->format->suffix);
	return weir__strdup(text);
}

/*
 * True if a file of the name exists. Shards of an index never replace a file:
 * until the index has its name, the earlier model needs them.
 */
static bool name_taken(const struct weir_save *s, const char *name)
{
	char path[4096];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", s->folder, name);
	return weir__sys_stat(path, &st) == 0;
}

/* Names of the files; *ret_taken: one of them exists. */
static int set_names(struct weir_save *s, const char *name,
		     const char *generation, bool *ret_taken)
{
	*ret_taken = false;
	for (uint32_t i = 0; i < s->n_files; i++) {
		weir__free(s->file[i].name);
		s->file[i].name = print_name(s, name, generation, i);
		if (!s->file[i].name)
			return no_memory(s);
		*ret_taken |= name_taken(s, s->file[i].name);
	}
	return 0;
}

static int name_index(struct weir_save *s, const char *name)
{
	char text[512];

	if (!s->format->write->index)
		return 0;
	snprintf(text, sizeof(text), "%.*s%s", stem_length(s, name), name,
		 s->format->index_suffix);
	s->index_name = weir__strdup(text);
	return s->index_name ? 0 : no_memory(s);
}

static int make_names(struct weir_save *s)
{
	const char *slash = strrchr(s->path, '/');
	const char *name = slash ? slash + 1 : s->path;
	char generation[16] = "";
	bool taken;
	int r = name_index(s, name);

	if (r >= 0)
		r = set_names(s, name, "", &taken);
	if (r < 0 || !weir__save_has_index(s))
		return r;
	for (unsigned i = 2; taken && r >= 0; i++) {
		snprintf(generation, sizeof(generation), "-v%u", i);
		r = set_names(s, name, generation, &taken);
	}
	return r;
}

int weir__save_layout(struct weir_save *s)
{
	int r;

	weir__save_layout_free(s);
	s->total = s->data = 0;
	r = make_order(s);
	if (r >= 0)
		r = divide(s);
	for (uint32_t i = 0; r >= 0 && i < s->n_files; i++)
		r = make_header(s, &s->file[i]);
	return r < 0 ? r : make_names(s);
}
