/* SPDX-License-Identifier: MIT */
/*
 * Which file each tensor goes to, and at which offset. Tensors keep the order
 * in which they were added; where the format wants it, those with larger
 * alignments come first.
 */
#include <errno.h>
#include <limits.h>
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

static int too_large(const struct weir_save *s)
{
	return weir__fail(-EFBIG, "%s: the tensors have over 2^63 - 1 bytes",
			  s->path);
}

/*
 * Choose how many records from order[first] on go to one file, and set their
 * offsets.
 */
static int fill_part(struct weir_save *s, size_t first, size_t *ret_n)
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
		if (weir__add_over(rec->off, rec->bytes, &end) ||
		    end > INT64_MAX)
			return too_large(s);
		data += rec->bytes;
	}
	*ret_n = i - first;
	return 0;
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
	size_t cap = 0, first = 0, n = 0;
	int r;

	do {
		r = fill_part(s, first, &n);
		if (r >= 0)
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
	f->data_at = weir__up(f->header_bytes, write->align(m, NULL));
	if (weir__add_over(f->data_at, end, &f->bytes) ||
	    weir__add_over(s->total, f->bytes, &s->total) ||
	    s->total > INT64_MAX)
		return too_large(s);
	return 0;
}

const char *weir__save_name(const struct weir_save *s)
{
	const char *slash = strrchr(s->path, '/');

	return slash ? slash + 1 : s->path;
}

bool weir__save_has_suffix(const struct weir_save *s)
{
	const char *name = weir__save_name(s);
	size_t n = strlen(name), suffix = strlen(s->format->suffix);

	return n > suffix && !strcmp(name + n - suffix, s->format->suffix);
}

/* The length of "NAME" without its ending, if that is the format's. */
static int stem_length(const struct weir_save *s)
{
	size_t n = strlen(weir__save_name(s));

	if (weir__save_has_suffix(s))
		n -= strlen(s->format->suffix);
	return (int)n;
}

static int name_index(struct weir_save *s)
{
	char text[2 * NAME_MAX];

	if (!s->format->write->index)
		return 0;
	snprintf(text, sizeof(text), "%.*s%s", stem_length(s),
		 weir__save_name(s), s->format->index_suffix);
	s->index_name = weir__strdup(text);
	return s->index_name ? 0 : no_memory(s);
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
	return r < 0 ? r : name_index(s);
}

/* @generation 0: without its number in the name. */
static char *print_name(const struct weir_save *s, unsigned generation,
			uint32_t i)
{
	char version[16] = "", text[2 * NAME_MAX];

	if (s->n_files == 1)
		return weir__strdup(weir__save_name(s));
	if (generation)
		snprintf(version, sizeof(version), "-v%u", generation);
	snprintf(text, sizeof(text), "%.*s%s-%05u-of-%05u%s", stem_length(s),
		 weir__save_name(s), version, i + 1, s->n_files,
		 s->format->suffix);
	return weir__strdup(text);
}

/* Returns 1 if one of the names exists. */
static int set_names(struct weir_save *s, unsigned generation)
{
	bool taken = false;

	for (uint32_t i = 0; i < s->n_files; i++) {
		struct weir__save_file *f = &s->file[i];
		struct stat st;

		weir__free(f->name);
		f->name = print_name(s, generation, i);
		if (!f->name)
			return no_memory(s);
		if (strlen(f->name) > NAME_MAX)
			return weir__fail(
				-ENAMETOOLONG,
				"%s: the name of a file has %zu bytes, at most %d",
				f->name, strlen(f->name), NAME_MAX);
		taken |= weir__sys_stat_at(s->dir, f->name, false, &st) == 0;
	}
	return taken;
}

/*
 * Shards of an index never replace a file: until the index has its name, the
 * earlier model needs them.
 */
int weir__save_choose_names(struct weir_save *s)
{
	int r = set_names(s, 0);

	if (!weir__save_has_index(s))
		return r < 0 ? r : 0;
	for (unsigned i = 2; r > 0; i++)
		r = set_names(s, i);
	return r;
}

static const char *skip_digits(const char *at, unsigned least)
{
	unsigned n = 0;

	while (at[n] >= '0' && at[n] <= '9')
		n++;
	return n < least ? NULL : at + n;
}

static const char *skip_text(const char *at, const char *text)
{
	const size_t n = strlen(text);

	return at && !strncmp(at, text, n) ? at + n : NULL;
}

bool weir__save_is_shard(const struct weir_save *s, const char *name)
{
	const size_t stem = (size_t)stem_length(s);
	const char *at, *version;

	if (strncmp(name, weir__save_name(s), stem))
		return false;
	at = name + stem;
	version = skip_text(at, "-v");
	if (version)
		at = skip_digits(version, 1);
	at = skip_text(at, "-");
	at = at ? skip_digits(at, 5) : NULL;
	at = skip_text(at, "-of-");
	at = at ? skip_digits(at, 5) : NULL;
	return at && !strcmp(at, s->format->suffix);
}
