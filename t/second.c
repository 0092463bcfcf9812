/* SPDX-License-Identifier: MIT */
#include "second.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mem/dtype.h"
#include "model/format/model.h"

struct second_tensor *second_add(struct second *s, const void *name, size_t n)
{
	struct second_tensor *t;

	s->tensor = realloc(s->tensor, (s->n + 1) * sizeof(*t));
	t = &s->tensor[s->n++];
	memset(t, 0, sizeof(*t));
	t->name = malloc(n + 1);
	if (n)
		memcpy(t->name, name, n);
	t->name[n] = '\0';
	t->name_len = n;
	return t;
}

bool second_no(struct second *s, const char *why, ...)
{
	va_list args;

	va_start(args, why);
	vsnprintf(s->why, sizeof(s->why), why, args);
	va_end(args);
	return false;
}

void second_free(struct second *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->tensor[i].name);
	free(s->tensor);
	free(s->pair);
	memset(s, 0, sizeof(*s));
}

const char *second_compare_tensor(const struct second_tensor *t,
				  const struct weir_model *m)
{
	size_t i = weir__model_lookup(m, t->name, t->name_len);
	const struct weir__record *rec = &m->rec[i];

	if (i >= m->n_recs)
		return "a name";
	if (strcmp(weir__dtype(rec->dtype)->name, t->type))
		return "a dtype";
	if (rec->ndim != t->ndim)
		return "a number of dimensions";
	for (unsigned k = 0; k < t->ndim; k++)
		if ((uint64_t)m->dims[rec->shape + k] !=
		    (t->shape[k] > INT64_MAX ? INT64_MAX : t->shape[k]))
			return "a dimension";
	if (rec->bytes != t->bytes)
		return "the bytes of a tensor";
	return rec->off == t->off ? NULL : "the offset of a tensor";
}

const char *second_compare(const struct second *s, const struct weir_model *m)
{
	const char *why = NULL;

	if (s->n != m->n_recs)
		return "the number of tensors";
	if (s->pairs != m->n_meta)
		return "the number of pairs";
	for (size_t i = 0; i < s->n && !why; i++)
		why = second_compare_tensor(&s->tensor[i], m);
	if (!why && s->pair)
		why = second_compare_pairs(s, m);
	return why;
}
