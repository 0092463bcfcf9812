/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mem/dtype.h"
#include "fuzz.h"
#include "model/format/model.h"

unsigned long fz_accepted;
char fz_input[300];

void fz_must(int held, const char *file, int line, const char *what)
{
	if (held)
		return;
	fprintf(stderr, "%s:%d: does not hold: %s%s\n", file, line, what,
		fz_input);
	abort();
}

void fz_check_refusal(int r)
{
	must(r == -EBADMSG || r == -EOPNOTSUPP);
	must(strstr(weir_error(), "fuzz") != NULL);
}

/* In 128 bits, which 8 dimensions of 63 bits can overflow: check each step. */
static void check_size(const struct weir_model *m,
		       const struct weir__record *rec)
{
	const struct weir_dtype_info *info = weir__dtype(rec->dtype);
	const int64_t *shape = m->dims + rec->shape;
	unsigned __int128 n = 1;
	int empty = 0;

	must(info && (info->safetensors || info->ggml >= 0));
	must(rec->ndim <= WEIR_MAX_DIMS);
	for (unsigned i = 0; i < rec->ndim; i++) {
		must(shape[i] >= 0);
		empty |= shape[i] == 0;
	}
	for (unsigned i = 0; !empty && i < rec->ndim; i++) {
		n *= (uint64_t)shape[i];
		must(n < (unsigned __int128)1 << 64);
	}
	must(empty ? rec->bytes == 0
		   : (unsigned __int128)rec->bytes * info->block ==
			     n * info->bytes);
}

void fz_check_model(const struct weir_model *m)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < m->n_recs; i++) {
		const struct weir__record *rec = &m->rec[i];
		const struct weir__record *last = i ? rec - 1 : NULL;

		check_size(m, rec);
		must(weir__model_lookup(m, weir__record_name(m, i),
					rec->name_len) == i);
		must(!last || last->shard < rec->shard ||
		     (last->shard == rec->shard &&
		      last->off + last->bytes <= rec->off));
		bytes += rec->bytes;
	}
	must(m->bytes == bytes);
	must(m->names.count == m->n_recs);
	must(m->keys.count == m->n_meta);
}
