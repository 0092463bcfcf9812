/* SPDX-License-Identifier: MIT */
#include "model/format/split_files.h"

#include <string.h>

#include "core/error.h"
#include "core/sys.h"
#include "model/format/format.h"
#include "model/format/shard_index.h"

#define DIGITS 5u
#define OF "-of-"
#define TAIL (1u + DIGITS + 4u + DIGITS) /* "-00001-of-00003" */

/* Return the format whose parts have names that end as @name does, or NULL. */
static const struct weir__format *format_of_suffix(const char *name, size_t n,
						   size_t *ret_n)
{
	for (size_t i = 0; weir__formats[i]; i++) {
		const struct weir__format *f = weir__formats[i];
		size_t len = strlen(f->suffix);

		if (f->split && n >= len &&
		    !strcmp(name + n - len, f->suffix)) {
			*ret_n = n - len;
			return f;
		}
	}
	return NULL;
}

static bool read_digits(const char *s, uint32_t *ret)
{
	*ret = 0;
	for (unsigned i = 0; i < DIGITS; i++) {
		if (s[i] < '0' || s[i] > '9')
			return false;
		*ret = *ret * 10 + (uint32_t)(s[i] - '0');
	}
	return true;
}

bool weir__split_parse(const char *name, struct weir__part_name *ret_split)
{
	struct weir__part_name s = { 0 };
	size_t n = strlen(name);
	const char *tail;

	s.format = format_of_suffix(name, n, &n);
	if (!s.format || n < TAIL)
		return false;
	s.stem = n - TAIL;
	tail = name + s.stem;
	if (*tail != '-' || !read_digits(tail + 1, &s.no) ||
	    strncmp(tail + 1 + DIGITS, OF, strlen(OF)) != 0 ||
	    !read_digits(tail + TAIL - DIGITS, &s.count))
		return false;
	*ret_split = s;
	return s.no >= 1 && s.no <= s.count;
}

bool weir__split_same(const char *a, const char *b)
{
	struct weir__part_name x, y;

	return weir__split_parse(a, &x) && weir__split_parse(b, &y) &&
	       x.format == y.format && x.count == y.count && x.stem == y.stem &&
	       !memcmp(a, b, x.stem);
}

/* Change the number in the name of a part. */
static void set_number(char *name, const struct weir__part_name *split,
		       uint32_t no)
{
	for (char *digit = name + split->stem + DIGITS; *digit != '-';
	     digit--) {
		*digit = (char)('0' + no % 10);
		no /= 10;
	}
}

/* Open and read part @i, counted from 0. */
static int read_part(struct weir_model *m, const struct weir_file *file,
		     const char *name, uint32_t i, bool lenient,
		     struct weir__opening *a)
{
	struct weir__str str = { name, strlen(name) };
	int r = weir__shard_open(m, file, &str, i, m->n_parts, a);

	return r < 0 ? r : weir__shard_read(m, i, lenient);
}

/* The names of all parts, in one piece of memory; NULL: no memory. */
static struct weir__str *part_names(char *name,
				    const struct weir__part_name *split)
{
	size_t len = strlen(name);
	struct weir__str *names =
		weir__calloc(split->count, sizeof(*names) + len);
	char *text = (char *)(names + split->count);

	for (uint32_t i = 0; names && i < split->count; i++) {
		set_number(name, split, i + 1);
		names[i] =
			(struct weir__str){ memcpy(text + i * len, name, len),
					    len };
	}
	return names;
}

int weir__split_read(struct weir_model *m, struct weir_file *file,
		     const struct weir__part_name *split, bool lenient)
{
	char *name = weir__strdup(file->base);
	struct weir__str *names;
	struct weir__opening ahead;
	int r = 0;

	if (!name)
		return weir__fail(-ENOMEM, "%s: no memory for a name",
				  file->base);
	m->format = split->format; /* the format of every part */
	m->n_parts = split->count;
	names = file->url ? part_names(name, split) : NULL;
	weir__shards_ahead(&ahead, m, file, names, names ? split->count : 0);
	weir__free(names);
	for (uint32_t i = 0; r >= 0 && i < split->count; i++) {
		set_number(name, split, i + 1);
		r = read_part(m, file, name, i, lenient, &ahead);
	}
	weir__opening_fini(&ahead);
	weir__free(name);
	return r;
}
